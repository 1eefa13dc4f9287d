/* channel.c: calls on channels: what may not be meant is refused, what is not there is waited for.
 *
 * Several threads of a rank may be in here while another uses the communicator: of that only what never changes is read,
 * and words in shared memory. So the wait is like that of wait.c, but looks at the channel alone. */
#include "api/channel.h"

#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the lists */

/* ---- lists ---- */

void tu_channel_list(tutti_comm *comm, struct tutti_channel *channel) {
  pthread_mutex_lock(&lock);
  channel->next = comm->channels;
  if (comm->channels) comm->channels->previous = channel;
  comm->channels = channel;
  pthread_mutex_unlock(&lock);
}

static void unlist(struct tutti_channel *channel) {
  pthread_mutex_lock(&lock);
  if (channel->previous) channel->previous->next = channel->next;
  else channel->comm->channels = channel->next;
  if (channel->next) channel->next->previous = channel->previous;
  pthread_mutex_unlock(&lock);
}

uint32_t tu_channels_abandon(tutti_comm *comm) {
  uint32_t count = 0;
  pthread_mutex_lock(&lock);
  struct tutti_channel *left = comm->channels;
  comm->channels = NULL;
  pthread_mutex_unlock(&lock);
  while (left) {
    struct tutti_channel *channel = left;
    left = channel->next;
    if (!channel->given_up) count++;
    tu_link_leave(&channel->end, false);
    free(channel);
  }
  return count;
}

/* ---- entering and leaving a call ---- */

enum side { SENDER, RECEIVER, EITHER };

/* Not an exchange: it is to cost nothing, and to see a second thread nearly always. */
static tutti_err enter(tutti_channel *c, const char *call, enum side side, struct tu_error *error) {
  if (!c) return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: the channel is NULL", call);
  const struct tu_link_end *e = &c->end;
  if (!tu_process_is(c->comm->process)) return tu_refuse_child(c->comm->process, call, error);
  if (atomic_load_explicit(&c->busy, memory_order_relaxed))
    return tu_fail(
        error, TUTTI_ERR_ARGUMENT,
        "%s: another thread is in a call on this end of channel %u of link %u with rank %u; an end serves one "
        "thread at a time",
        call, e->number, e->link->number, e->link->peer);
  if (side != EITHER && e->sends != (side == SENDER))
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: this is the %s end of channel %u of link %u with rank %u", call,
                   e->sends ? "sending" : "receiving", e->number, e->link->number, e->link->peer);
  tutti_err err = tu_comm_verdict(c->comm, error);
  if (err != TUTTI_OK) return err;
  atomic_store_explicit(&c->busy, true, memory_order_relaxed);
  return TUTTI_OK;
}

static tutti_err leave(tutti_channel *c, tutti_err err, const struct tu_error *error) {
  atomic_store_explicit(&c->busy, false, memory_order_relaxed);
  return err == TUTTI_OK ? err : tu_thread_error(error);
}

/* ---- wishes: what a call looks for, once or until it is there ----
 * Errors begin as a code alone: to clear the sentence, too, would take as long as the call. */

struct wish {
  tutti_channel *channel;
  const char *call;
  const char *what; /* is waited for, in a sentence */
  /* Is it there? The link is open. May fail. */
  bool (*granted)(struct wish *w, struct tu_error *error);
  bool parts; /* also of ends that did not agree */
  void *slot;
  uint64_t messages;
  uint32_t ahead;
  tutti_channel_message message;
};

/* *error of code OK: nothing is wrong. */
static bool look(struct wish *w, struct tu_error *error) {
  struct tu_link *link = w->channel->end.link;
  if (!tu_link_is_open(link)) {
    if (!tu_link_advance(link)) return false;
    if (tu_link_is_refused(link) && !w->parts) {
      *error = link->refusal;
      return false;
    }
  }
  return w->granted(w, error);
}

static tutti_err fail_late(struct wish *w, int timeout_ms, uint64_t since, struct tu_error *error) {
  struct tu_link_end *e = &w->channel->end;
  char state[120], late[250];
  const struct tu_chain_wait wait = {.member = e->link->peer, .since = since};
  bool others = tu_chain_print(w->channel->comm, &wait, late, sizeof late);
  if (!tu_link_is_open(e->link)) snprintf(state, sizeof state, "the other end has not come, or not answered");
  else if (e->sends)
    snprintf(state, sizeof state, "%llu messages are sent and %llu of them released", (unsigned long long)e->sent,
             (unsigned long long)tu_link_done(e));
  else
    snprintf(state, sizeof state, "%llu messages have come and %llu of them are released",
             (unsigned long long)e->peeked, (unsigned long long)e->taken);
  return tu_fail(error, TUTTI_ERR_TIMEOUT,
                 "%s: rank %u has waited %d ms for %s on channel %u of link %u with rank %u: %s%s%s", w->call,
                 w->channel->comm->rank, timeout_ms, w->what, e->number, e->link->number, e->link->peer, state,
                 others ? "; it waits for " : "", others ? late : "");
}

/* Everybody is told, unless somebody was first. The communicator finds it there. */
static tutti_err condemn(const tutti_comm *comm, struct tu_error *error) {
  tu_control_fail(&comm->mover->control, error);
  (void)tu_comm_verdict(comm, error);
  return error->code;
}

/* Who has left before may have served this rank before it left: so it is looked once more. Any rank's death counts: the peer may
 * itself wait for that one. */
static bool look_round(struct wish *w, struct tu_error *error) {
  const tutti_comm *comm = w->channel->comm;
  uint32_t peer = w->channel->end.link->peer;
  bool left = tu_control_departed(&comm->mover->control, peer);
  if (look(w, error) || error->code != TUTTI_OK) return true;
  bool lost = left && tu_peer_left(comm, peer, w->call, error);
  for (uint32_t p = 0; p < comm->ranks && !lost; p++) lost = p != comm->rank && tu_peer_died(comm, p, w->call, error);
  if (lost) (void)condemn(comm, error);
  return lost;
}

/* Who only looks, again and again, finds out too whether the peers live. */
static tutti_err look_once(struct wish *w, bool *granted, struct tu_error *error) {
  tutti_channel *c = w->channel;
  *granted = look(w, error);
  if (*granted) tu_stall_moved(&c->tests);
  if (*granted || error->code != TUTTI_OK || !tu_patience_test(c->comm, &c->tests, false)) return error->code;
  if (look_round(w, error)) *granted = error->code == TUTTI_OK;
  return error->code;
}

struct waiting {
  struct wish *wish;
  struct tu_error *error;
};

static bool is_there(void *context) {
  const struct waiting *w = context;
  return look(w->wish, w->error) || w->error->code != TUTTI_OK ||
         tu_comm_verdict(w->wish->channel->comm, w->error) != TUTTI_OK;
}

static tutti_err wait_for(struct wish *w, int timeout_ms, struct tu_error *error) {
  struct waiting waiting = {w, error};
  struct tu_wait wait = {.timeout_ms = timeout_ms};
  const tutti_comm *comm = w->channel->comm;
  while (!is_there(&waiting)) {
    enum tu_due due = tu_wait_outside(comm, &wait, is_there, &waiting);
    if (due == TU_GO_ON) continue;
    tu_chain_tell_one(comm, w->channel->end.link->peer, wait.since, tu_clock_ns());
    if (look_round(w, error)) break;
    if (due == TU_TOO_LATE) {
      (void)fail_late(w, timeout_ms, wait.since, error);
      break;
    }
  }
  if (wait.since) tu_chain_go_on(comm->transport);
  return error->code;
}

/* ---- readiness ---- */

static bool always(struct wish *w, struct tu_error *error) {
  (void)w;
  (void)error;
  return true;
}

tutti_err tutti_channel_try_ready(tutti_channel *channel, bool *ready) {
  struct tu_error error;
  error.code = TUTTI_OK;
  struct wish w = {.channel = channel, .granted = always};
  tutti_err err = enter(channel, "tutti_channel_try_ready", EITHER, &error);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  if (ready) err = look_once(&w, ready, &error);
  else err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_channel_try_ready: there is no place for the answer");
  return leave(channel, err, &error);
}

tutti_err tutti_channel_ready(tutti_channel *channel, int timeout_ms) {
  struct tu_error error;
  error.code = TUTTI_OK;
  struct wish w = {
      .channel = channel, .call = "tutti_channel_ready", .what = "the other end's handshake", .granted = always};
  tutti_err err = enter(channel, w.call, EITHER, &error);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  return leave(channel, wait_for(&w, timeout_ms, &error), &error);
}

/* ---- sending ---- */

static bool has_slot(struct wish *w, struct tu_error *error) {
  (void)error;
  return (w->slot = tu_link_acquire(&w->channel->end)) != NULL;
}

static tutti_err enter_acquire(struct wish *w, void *const *slot, struct tu_error *error) {
  tutti_err err = enter(w->channel, w->call, SENDER, error);
  if (err != TUTTI_OK) return err;
  if (!slot) err = tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: there is no place for the slot", w->call);
  else if (tu_link_end_is_over(&w->channel->end))
    err = tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: the stream has ended: all of its %llu messages have been sent",
                  w->call, (unsigned long long)w->channel->end.sent);
  if (err != TUTTI_OK) (void)leave(w->channel, TUTTI_OK, error);
  return err;
}

tutti_err tutti_channel_try_acquire(tutti_channel *channel, void **slot) {
  struct tu_error error;
  error.code = TUTTI_OK;
  bool granted;
  struct wish w = {.channel = channel, .call = "tutti_channel_try_acquire", .granted = has_slot};
  tutti_err err = enter_acquire(&w, slot, &error);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  err = look_once(&w, &granted, &error);
  *slot = granted ? w.slot : NULL;
  return leave(channel, err, &error);
}

tutti_err tutti_channel_acquire(tutti_channel *channel, int timeout_ms, void **slot) {
  struct tu_error error;
  error.code = TUTTI_OK;
  struct wish w = {.channel = channel, .call = "tutti_channel_acquire", .what = "a free slot", .granted = has_slot};
  tutti_err err = enter_acquire(&w, slot, &error);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  err = wait_for(&w, timeout_ms, &error);
  *slot = err == TUTTI_OK ? w.slot : NULL;
  return leave(channel, err, &error);
}

static tutti_err check_commit(const struct tu_link_end *e, size_t bytes, bool last, struct tu_error *error) {
  const struct tu_link_view *v = &e->link->view;
  if (!e->acquired)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_channel_commit: no slot is acquired; tutti_channel_acquire comes first");
  if (bytes > v->slot_bytes)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "tutti_channel_commit: %zu bytes do not fit a slot of %u", bytes,
                   v->slot_bytes);
  if (last && v->counted)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_channel_commit: a counted stream ends after its %llu messages; `last` is for marked ones",
                   (unsigned long long)e->ends_at);
  return TUTTI_OK;
}

tutti_err tutti_channel_commit(tutti_channel *channel, size_t bytes, bool last) {
  struct tu_error error;
  error.code = TUTTI_OK;
  tutti_err err = enter(channel, "tutti_channel_commit", SENDER, &error);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  err = check_commit(&channel->end, bytes, last, &error);
  if (err == TUTTI_OK) tu_link_commit(&channel->end, bytes, last);
  return leave(channel, err, &error);
}

static bool is_acked(struct wish *w, struct tu_error *error) {
  (void)error;
  return tu_link_acked(&w->channel->end) >= w->messages;
}

tutti_err tutti_channel_try_acked(tutti_channel *channel, uint64_t *messages) {
  struct tu_error error;
  error.code = TUTTI_OK;
  tutti_err err = enter(channel, "tutti_channel_try_acked", SENDER, &error);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  if (!messages) err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_channel_try_acked: there is no place for the answer");
  else *messages = channel->end.sent > 0 ? tu_link_acked(&channel->end) : 0;
  return leave(channel, err, &error);
}

tutti_err tutti_channel_acked(tutti_channel *channel, uint64_t messages, int timeout_ms) {
  struct tu_error error;
  error.code = TUTTI_OK;
  struct wish w = {.channel = channel,
                   .call = "tutti_channel_acked",
                   .what = "an acknowledgement",
                   .granted = is_acked,
                   .messages = messages};
  tutti_err err = enter(channel, w.call, SENDER, &error);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  if (messages > channel->end.sent)
    err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s: %llu messages cannot be acknowledged: %llu have been sent", w.call,
                  (unsigned long long)messages, (unsigned long long)channel->end.sent);
  else if (messages > 0) err = wait_for(&w, timeout_ms, &error);
  return leave(channel, err, &error);
}

/* ---- receiving ---- */

static bool has_message(struct wish *w, struct tu_error *error) {
  struct tu_link_end *e = &w->channel->end;
  const void *data;
  const struct tu_link_line *line = tu_link_peek(e, w->ahead, &data);
  uint64_t number = e->taken + w->ahead;
  if (line) w->message = (tutti_channel_message){data, line->bytes, number, number + 1 == e->ends_at};
  else if (e->ends_at > 0 && number >= e->ends_at)
    tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: message %llu is beyond the end of the stream: it has %llu", w->call,
            (unsigned long long)number, (unsigned long long)e->ends_at);
  return line != NULL;
}

static tutti_err enter_peek(struct wish *w, const tutti_channel_message *message, struct tu_error *error) {
  tutti_err err = enter(w->channel, w->call, RECEIVER, error);
  if (err != TUTTI_OK) return err;
  uint32_t slots = w->channel->end.link->view.slots;
  if (!message) err = tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: there is no place for the message", w->call);
  else if (w->ahead >= slots)
    err = tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: %u messages ahead can never be there: there are %u slots", w->call,
                  w->ahead, slots);
  if (err != TUTTI_OK) (void)leave(w->channel, TUTTI_OK, error);
  return err;
}

tutti_err tutti_channel_try_peek(tutti_channel *channel, uint32_t ahead, tutti_channel_message *message) {
  struct tu_error error;
  error.code = TUTTI_OK;
  bool granted;
  struct wish w = {.channel = channel, .call = "tutti_channel_try_peek", .granted = has_message, .ahead = ahead};
  tutti_err err = enter_peek(&w, message, &error);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  err = look_once(&w, &granted, &error);
  *message = w.message;
  return leave(channel, err, &error);
}

tutti_err tutti_channel_peek(tutti_channel *channel, uint32_t ahead, int timeout_ms, tutti_channel_message *message) {
  struct tu_error error;
  error.code = TUTTI_OK;
  struct wish w = {
      .channel = channel, .call = "tutti_channel_peek", .what = "a message", .granted = has_message, .ahead = ahead};
  tutti_err err = enter_peek(&w, message, &error);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  err = wait_for(&w, timeout_ms, &error);
  *message = w.message;
  return leave(channel, err, &error);
}

tutti_err tutti_channel_ack(tutti_channel *channel) {
  struct tu_error error;
  error.code = TUTTI_OK;
  tutti_err err = enter(channel, "tutti_channel_ack", RECEIVER, &error);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  /* What is released is acknowledged; and once all of it is, the sender's memory may serve something else. */
  if (channel->end.peeked > channel->end.taken) tu_link_ack(&channel->end);
  return leave(channel, err, &error);
}

tutti_err tutti_channel_release(tutti_channel *channel) {
  struct tu_error error;
  error.code = TUTTI_OK;
  tutti_err err = enter(channel, "tutti_channel_release", RECEIVER, &error);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  if (channel->end.peeked > channel->end.taken) tu_link_release(&channel->end);
  else
    err = tu_fail(&error, TUTTI_ERR_ARGUMENT,
                  "tutti_channel_release: there is no message that has been peeked at and not released");
  return leave(channel, err, &error);
}

/* ---- the end ---- */

bool tutti_channel_ended(const tutti_channel *channel) { return !channel || tu_link_end_is_over(&channel->end); }

static bool may_go(struct wish *w, struct tu_error *error) {
  (void)error;
  return tu_link_drained(&w->channel->end);
}

static void part(tutti_channel *channel, bool in_order) {
  unlist(channel);
  tu_link_leave(&channel->end, in_order);
  free(channel);
}

static tutti_err check_over(const tutti_channel *channel, const char *call, struct tu_error *error) {
  const struct tu_link_end *e = &channel->end;
  if (tu_link_end_is_over(e) || (tu_link_advance(e->link) && tu_link_is_refused(e->link))) return TUTTI_OK;
  if (e->ends_at > 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: the stream is not over: %llu of %llu messages have been %s", call,
                   (unsigned long long)(e->sends ? e->sent : e->taken), (unsigned long long)e->ends_at,
                   e->sends ? "sent" : "released");
  return tu_fail(error, TUTTI_ERR_ARGUMENT,
                 "%s: the stream is not over: %llu messages have been %s, none marked as the last", call,
                 (unsigned long long)(e->sends ? e->sent : e->taken), e->sends ? "sent" : "released");
}

/* timeout_ms NULL: looks once. */
static tutti_err close_channel(tutti_channel *channel, const char *call, const int *timeout_ms, bool *closed,
                               struct tu_error *error) {
  struct wish w = {
      .channel = channel, .call = call, .what = "the slots that are not released", .granted = may_go, .parts = true};
  tutti_err err = enter(channel, call, EITHER, error);
  struct tu_error verdict;
  if (err != TUTTI_OK) {
    bool others = atomic_load_explicit(&channel->busy, memory_order_relaxed) || !tu_process_is(channel->comm->process);
    *closed = !others && tu_comm_verdict(channel->comm, &verdict) != TUTTI_OK;
    if (*closed) part(channel, false);
    return err;
  }
  err = check_over(channel, call, error);
  if (err == TUTTI_OK && timeout_ms) *closed = (err = wait_for(&w, *timeout_ms, error)) == TUTTI_OK;
  else if (err == TUTTI_OK) err = look_once(&w, closed, error);
  bool failed = !*closed && err != TUTTI_OK && tu_comm_verdict(channel->comm, &verdict) != TUTTI_OK;
  (void)leave(channel, TUTTI_OK, error);
  if (*closed || failed) part(channel, *closed);
  *closed |= failed;
  return err;
}

tutti_err tutti_channel_try_close(tutti_channel *channel, bool *closed) {
  struct tu_error error;
  error.code = TUTTI_OK;
  if (!closed) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_channel_try_close: there is no place for the answer");
    return tu_thread_error(&error);
  }
  *closed = !channel;
  if (!channel) return TUTTI_OK;
  tutti_err err = close_channel(channel, "tutti_channel_try_close", NULL, closed, &error);
  return err == TUTTI_OK ? err : tu_thread_error(&error);
}

tutti_err tutti_channel_close(tutti_channel *channel, int timeout_ms) {
  struct tu_error error;
  error.code = TUTTI_OK;
  bool closed = false;
  if (!channel) return TUTTI_OK;
  tutti_err err = close_channel(channel, "tutti_channel_close", &timeout_ms, &closed, &error);
  return err == TUTTI_OK ? err : tu_thread_error(&error);
}
