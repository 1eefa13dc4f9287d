/* channel.c: public calls on channels: checks arguments, and waits for handshakes, slots and messages.
 *
 * Several threads of a rank may be in these functions while another thread uses the communicator. So the functions read
 * only constants of the communicator, and words in shared memory. They advance open requests that no other thread
 * advances. */
#include "stream/channel.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/process.h"
#include "call/progress.h"
#include "call/queue.h"
#include "comm/chain.h"
#include "comm/failure.h"
#include "comm/peers.h"
#include "comm/wait.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the lists of channels of all communicators */

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

/* Publishes that the calls with `try` in their name no longer wait, if they have published a wait. */
static void end_tests(tutti_channel *c) {
  if (c->tested_since == 0) return;
  c->tested_since = 0;
  tu_chain_go_on(c->comm->transport);
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
    end_tests(channel);
    tu_link_leave(&channel->end, false);
    free(channel);
  }
  return count;
}

/* ---- entering and leaving a call ---- */

enum side { SENDER, RECEIVER, EITHER };

/* Enters a call on one end of a channel. Two threads must not be in calls on one end, and the busy flag detects most
 * such cases. The flag is read and then set, without an atomic exchange, because that takes almost no time. */
static tutti_err enter(tutti_channel *c, const char *call, enum side side, struct tu_error *error) {
  if (!c) return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: channel is NULL", call);
  const struct tu_link_end *e = &c->end;
  if (!tu_process_is(c->comm->process)) return tu_refuse_child(c->comm->process, call, error);
  if (atomic_load_explicit(&c->busy, memory_order_relaxed))
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: another thread is in a call on this end of channel %u of link %u with rank %u; expected one "
                   "thread at a time per end",
                   call, e->number, e->link->number, e->link->peer);
  if (side != EITHER && e->sends != (side == SENDER))
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: this is the %s end of channel %u of link %u with rank %u; expected the other end", call,
                   e->sends ? "sending" : "receiving", e->number, e->link->number, e->link->peer);
  tutti_err err = tu_comm_verdict(c->comm, error);
  if (err != TUTTI_OK) {
    end_tests(c);
    return err;
  }
  atomic_store_explicit(&c->busy, true, memory_order_relaxed);
  return TUTTI_OK;
}

static tutti_err leave(tutti_channel *c, tutti_err err, const struct tu_error *error) {
  atomic_store_explicit(&c->busy, false, memory_order_relaxed);
  if (c->end.link->far) tu_progress_note_at(c->comm->transport, NULL);
  return err == TUTTI_OK ? err : tu_thread_error(error);
}

/* ---- wishes: conditions that a call checks once, or waits for ----
 * Callers set only the code of a struct tu_error to TUTTI_OK. Clearing its text, too, would take as long as the call
 * itself. */

struct wish {
  tutti_channel *channel;
  const char *call;
  const char *what; /* what the call waits for, as text for messages */
  /* Returns true if the condition holds. If the check itself fails, sets *error and returns false. Called only once the
   * link is open. If `even_if_refused` is true, also called if the link is refused (the two ends did not agree). */
  bool (*granted)(struct wish *w, struct tu_error *error);
  bool even_if_refused; /* true: the condition is also checked if the link is refused (its two ends did not agree) */
  void *slot;
  uint64_t messages;
  uint32_t ahead;
  tutti_channel_message message;
};

/* Checks the call's condition once. Returns true if it holds. Otherwise error->code is TUTTI_OK if the condition does
 * not hold yet, or the error of the check if the check itself has failed. */
static bool look(struct wish *w, struct tu_error *error) {
  struct tu_link *link = w->channel->end.link;
  if (!tu_link_is_open(link)) {
    if (!tu_link_advance(link)) return false;
    if (tu_link_is_refused(link) && !w->even_if_refused) {
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
  if (!tu_link_is_open(e->link))
    snprintf(state, sizeof state, "the other end has not been built, or has not answered the handshake");
  else if (e->sends)
    snprintf(state, sizeof state, "%llu messages have been sent, %llu of them have been released",
             (unsigned long long)e->sent, (unsigned long long)tu_link_done(e));
  else
    snprintf(state, sizeof state, "%llu messages have arrived, %llu of them have been released",
             (unsigned long long)e->peeked, (unsigned long long)e->taken);
  return tu_fail(error, TUTTI_ERR_TIMEOUT,
                 "%s: rank %u has waited %d ms for %s on channel %u of link %u with rank %u: %s%s%s", w->call,
                 w->channel->comm->rank, timeout_ms, w->what, e->number, e->link->number, e->link->peer, state,
                 others ? "; this rank waits for " : "", others ? late : "");
}

/* Fails the communicator on all ranks with *error. If the communicator has failed before, that first failure stays its
 * verdict. Sets *error to the verdict. Other calls find the verdict in shared memory. */
static tutti_err condemn(const tutti_comm *comm, struct tu_error *error) {
  tu_control_fail(&comm->mover->control, error);
  (void)tu_comm_verdict(comm, error);
  return error->code;
}

/* Checks whether the wait can never succeed. That is so if the peer has left, or if any rank has died: the peer may
 * itself wait for the dead rank. The condition is checked once more, because the peer may have satisfied it before it
 * left. Returns true if the wait is over, with success or failure. */
static bool look_round(struct wish *w, struct tu_error *error) {
  const tutti_comm *comm = w->channel->comm;
  uint32_t peer = w->channel->end.link->peer;
  bool left = tu_control_departed(&comm->mover->control, peer);
  if (look(w, error) || error->code != TUTTI_OK) return true;
  bool lost = left && tu_peer_left(comm, peer, w->call, error);
  for (uint32_t p = 0; p < comm->ranks && !lost; p++) {
    /* A rank of another host that has left may not have told this rank. If it is dead, the ranks that wait for it tell. */
    if (p != peer && tu_control_local(&comm->mover->control, p) == TU_REMOTE) continue;
    lost = p != comm->rank && tu_peer_died(comm, p, w->call, error);
  }
  if (!lost) return false;
  /* The peer may have written its last word between that look and its end. */
  struct tu_error other = {.code = TUTTI_OK};
  if (look(w, &other)) {
    error->code = TUTTI_OK;
    return true;
  }
  (void)condemn(comm, error);
  return true;
}

/* Receives what other hosts have sent, and advances open requests, of which the peer may wait for one. Within on_ready, the
 * function that has called it is in the middle of advancing requests. */
static void advance_others(const tutti_comm *comm) {
  (void)tu_mover_look(comm->mover);
  if (!tu_thread.telling) (void)tu_queue_poll_others(NULL);
}

/* Checks the call's condition once, for calls with `try` in their name. Sets *granted if it holds. If such calls are
 * repeated without success, they also check from time to time whether the other ranks are alive, and publish for which
 * rank this one waits. */
static tutti_err look_once(struct wish *w, bool *granted, struct tu_error *error) {
  tutti_channel *c = w->channel;
  advance_others(c->comm);
  *granted = look(w, error);
  if (*granted) tu_stall_moved(&c->tests);
  else if (error->code == TUTTI_OK && tu_patience_test(c->comm, &c->tests, false)) {
    const uint64_t now = tu_clock_ns();
    if (c->tested_since == 0) c->tested_since = now;
    tu_chain_tell_one(c->comm, c->end.link->peer, c->tested_since, now);
    if (look_round(w, error)) *granted = error->code == TUTTI_OK;
  }
  if (*granted || error->code != TUTTI_OK) end_tests(c);
  return error->code;
}

struct waiting {
  struct wish *wish;
  struct tu_error *error;
};

static bool is_there(void *context) {
  const struct waiting *w = context;
  advance_others(w->wish->channel->comm);
  return look(w->wish, w->error) || w->error->code != TUTTI_OK ||
         tu_comm_verdict(w->wish->channel->comm, w->error) != TUTTI_OK;
}

/* Waits until the call's condition holds. *error is TUTTI_OK at the start. */
static tutti_err wait_for(struct wish *w, int timeout_ms, struct tu_error *error) {
  struct waiting waiting = {w, error};
  if (tu_check_timeout(w->call, "timeout_ms", timeout_ms, error) != TUTTI_OK) return error->code;
  struct tu_wait wait = {.timeout_ms = timeout_ms};
  const tutti_comm *comm = w->channel->comm;
  while (!is_there(&waiting)) {
    enum tu_due due = tu_wait_outside(comm, &wait, is_there, &waiting);
    if (due == TU_GO_ON) continue;
    tu_chain_tell_one(comm, w->channel->end.link->peer, wait.since, tu_clock_ns());
    if (look_round(w, error)) break;
    if (due == TU_TOO_LATE) {
      (void)fail_late(w, timeout_ms, wait.since, error);
      (void)tu_comm_verdict(comm,
                            error); /* there may be one by now, while this rank has asked others for their waits */
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
  else err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_channel_try_ready: ready is NULL");
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
  if (!slot) err = tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: slot is NULL", w->call);
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
                   "tutti_channel_commit: no slot is acquired; call tutti_channel_acquire first");
  if (bytes > v->slot_bytes)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "tutti_channel_commit: %zu bytes do not fit into a slot of %u bytes",
                   bytes, v->slot_bytes);
  if (last && v->counted)
    return tu_fail(
        error, TUTTI_ERR_ARGUMENT,
        "tutti_channel_commit: last is true, but a counted stream ends after its %llu messages; expected last = false",
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
  if (!messages) err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_channel_try_acked: messages is NULL");
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
    err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s: messages is %llu, but only %llu have been sent", w.call,
                  (unsigned long long)messages, (unsigned long long)channel->end.sent);
  else if (messages > 0) err = wait_for(&w, timeout_ms, &error);
  else err = tu_check_timeout(w.call, "timeout_ms", timeout_ms, &error);
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
    tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: message %llu is beyond the end of the stream, which has %llu messages",
            w->call, (unsigned long long)number, (unsigned long long)e->ends_at);
  return line != NULL;
}

static tutti_err enter_peek(struct wish *w, const tutti_channel_message *message, struct tu_error *error) {
  tutti_err err = enter(w->channel, w->call, RECEIVER, error);
  if (err != TUTTI_OK) return err;
  uint32_t slots = w->channel->end.link->view.slots;
  if (!message) err = tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: message is NULL", w->call);
  else if (w->ahead >= slots)
    err = tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: ahead is %u, but the channel has %u slots", w->call, w->ahead, slots);
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
  /* tu_link_ack writes a counter in the sender's memory. Once all messages are released, the sender may use this memory
   * for something else. So write only if a message was peeked at and is not released yet. Otherwise there is nothing to
   * acknowledge anyway, because a released message counts as acknowledged. */
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
    err = tu_fail(
        &error, TUTTI_ERR_ARGUMENT,
        "tutti_channel_release: no message to release; expected a message that was peeked at and is not released");
  return leave(channel, err, &error);
}

/* ---- closing ---- */

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

/* Closes the channel once its slots are no longer in use, and sets *closed. Waits for that for at most *timeout_ms ms;
 * if timeout_ms is NULL, checks once and does not wait. */
static tutti_err close_channel(tutti_channel *channel, const char *call, const int *timeout_ms, bool *closed,
                               struct tu_error *error) {
  struct wish w = {
      .channel = channel, .call = call, .what = "the release of its slots", .granted = may_go, .even_if_refused = true};
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
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_channel_try_close: closed is NULL");
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
