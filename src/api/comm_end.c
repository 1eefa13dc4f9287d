/* comm_end.c: ends communicators: either all ranks free a communicator together, or each rank closes it on its own. */
#include "api/comm_end.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/comm_create.h"
#include "base/log.h"
#include "call/queue.h"
#include "call/stall.h"
#include "comm/chain.h"
#include "comm/enter.h"
#include "comm/failure.h"
#include "comm/peers.h"
#include "comm/stats.h"
#include "comm/wait.h"
#include "onesided/window.h"
#include "stream/channel.h"

/* Fails the communicator with TUTTI_ERR_TIMEOUT. The message names the ranks that this rank still waits for. */
static tutti_err fail_to_drain(struct tutti_comm *comm, uint64_t since) {
  struct tu_error error;
  char late[400];
  const struct tu_chain_wait wait = {.members = comm->waits_for, .since = since};
  if (!tu_chain_print(comm, &wait, late, sizeof late))
    snprintf(late, sizeof late, "messages to itself that it has not received");
  tu_fail(&error, TUTTI_ERR_TIMEOUT, "rank %u has waited %d ms in tutti_comm_free for %s", comm->rank, comm->timeout_ms,
          late);
  return tu_comm_fail(comm, &error);
}

static tutti_err wait_drained(struct tutti_comm *comm) {
  struct tu_error error;
  struct tu_wait wait = {.stall.sleep_ms = 1, .timeout_ms = comm->timeout_ms};
  tu_mover_flush(comm->mover);
  for (;;) {
    (void)tu_mover_look(comm->mover);
    /* Records which ranks have departed (freed the communicator). It checks at least the ranks in comm->waits_for,
     * which the previous round of this loop has set. */
    tu_note_departed(comm);
    memset(comm->waits_for, 0, comm->ranks * sizeof *comm->waits_for);
    if (tu_comm_failed(comm)) return comm->error.code;
    if (tu_mover_drained(comm->mover, comm->waits_for)) return TUTTI_OK;
    enum tu_due due = tu_wait_inside(comm, &wait);
    if (due == TU_GO_ON) continue;
    if (tu_peer_lost(comm, "tutti_comm_free", &error)) return tu_comm_fail(comm, &error);
    tu_chain_tell_members(comm, comm->waits_for, false, wait.since, tu_clock_ns());
    if (due == TU_TOO_LATE) return fail_to_drain(comm, wait.since);
  }
}

/* ---- closing: shared memory stays until no rank needs it, but no rank waits for that ---- */

struct closed {
  struct closed *next;
  uint64_t process;
  struct tu_mover *mover;
  struct tu_transport *transport;
  bool waits_for[]; /* [ranks], temporary: tu_mover_drained sets true for each rank that this rank still waits for */
};

static struct {
  pthread_mutex_t lock;
  struct closed *first;
} closing = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void keep(struct closed *c) {
  pthread_mutex_lock(&closing.lock);
  c->next = closing.first;
  closing.first = c;
  pthread_mutex_unlock(&closing.lock);
}

/* Removes closed communicators that use endpoint t (access to the host's shared memory) from the list, and returns
 * them. If `all` is true, removes all of them; otherwise only those that no rank needs any more. */
static struct closed *take_out(const struct tu_transport *t, bool all) {
  struct closed *taken = NULL;
  bool looked = false;
  for (struct closed **link = &closing.first; *link;) {
    struct closed *c = *link;
    bool ours = c->transport == t && tu_process_is(c->process);
    if (ours && !looked) looked = true, (void)tu_mover_look(c->mover);
    if (!ours || (!all && !tu_mover_drained(c->mover, c->waits_for))) {
      link = &c->next;
      continue;
    }
    *link = c->next;
    c->next = taken;
    taken = c;
  }
  return taken;
}

static void destroy(struct closed *c, bool in_order) {
  for (struct closed *next; c; c = next) {
    next = c->next;
    if (in_order) tu_control_depart(&c->mover->control);
    else tu_control_depart_early(&c->mover->control);
    tu_mover_destroy(c->mover, in_order);
    tu_comm_drop_endpoint(c->transport);
    free(c);
  }
}

void tu_comm_sweep(const struct tu_transport *t) {
  pthread_mutex_lock(&closing.lock);
  struct closed *over = take_out(t, false);
  pthread_mutex_unlock(&closing.lock);
  destroy(over, true);
}

static bool is_last(const struct tu_transport *t) {
  uint32_t count = 0;
  for (const struct closed *c = closing.first; c; c = c->next) count += c->transport == t && tu_process_is(c->process);
  return count > 0 && atomic_load(&t->users) == count;
}

/* Closes the endpoint (access to the host's shared memory) if all communicators that use it are closed. It is closed
 * here, because no later call would close it. This rank then departs from these communicators. Messages that it has
 * sent stay in shared memory for their receivers. */
static void end_endpoint(const struct tu_transport *t) {
  pthread_mutex_lock(&closing.lock);
  struct closed *last = is_last(t) ? take_out(t, true) : NULL;
  pthread_mutex_unlock(&closing.lock);
  destroy(last, false);
}

void tu_comm_sweep_reset(void) {
  pthread_mutex_init(&closing.lock, NULL);
  closing.first = NULL;
}

/* ---- common parts of free and close ---- */

/* Ends requests, windows and channels that are still open. Returns an error if there were any, unless the communicator
 * had failed before. */
static tutti_err end_use(tutti_comm *comm, const char *call) {
  struct tu_error error;
  tutti_err err = TUTTI_OK;
  /* If the communicator has failed, each poll ends open requests with the verdict (the first failure). */
  while (comm->open_requests > 0 && comm->failed) tu_queue_poll(comm);
  if (comm->open_requests > 0) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s: %u requests are still open on rank %u; wait for them first", call,
            comm->open_requests, comm->rank);
    err = tu_comm_fail(comm, &error);
    tu_queue_poll(comm);
  }
  uint32_t windows = tu_windows_abandon(comm);
  if (windows > 0 && err == TUTTI_OK && !comm->failed) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s: rank %u still has %u windows; call tutti_window_free first", call,
            comm->rank, windows);
    err = tu_comm_fail(comm, &error);
  }
  uint32_t channels = tu_channels_abandon(comm);
  if (channels > 0 && err == TUTTI_OK && !comm->failed) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s: rank %u still has %u channels open; call tutti_channel_close first", call,
            comm->rank, channels);
    err = tu_comm_fail(comm, &error);
  }
  return err;
}

/* Returns the error of a call that was made within the callback on_ready. Such a call is refused, because the function
 * that has called on_ready still uses the communicator. */
static tutti_err refuse_within_on_ready(const char *call) {
  struct tu_error error;
  tu_fail(&error, TUTTI_ERR_ARGUMENT,
          "%s: called within the callback on_ready, which may only call tutti_request_fill; nothing was freed", call);
  return tu_thread_error(&error);
}

tutti_err tutti_comm_free(tutti_comm *comm) {
  struct tu_visit visit;
  if (!comm) return TUTTI_OK;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_comm_free");
  if (tu_thread.telling) {
    tu_leave(&visit);
    return refuse_within_on_ready("tutti_comm_free");
  }
  if (tu_logs(TU_LOG_INFO)) tu_stats_log(comm);
  tutti_err err = end_use(comm, "tutti_comm_free");
  if (err == TUTTI_OK) err = wait_drained(comm);
  tu_chain_go_on(comm->transport);
  if (err != TUTTI_OK) (void)tu_thread_error(&comm->error);
  /* `t` may dangle after tu_comm_destroy, which frees the endpoint if no communicator uses it any more. So the
   * functions below dereference `t` only if a closed communicator keeps the endpoint open. */
  const struct tu_transport *t = comm->transport;
  tu_comm_destroy(comm, err == TUTTI_OK);
  tu_comm_sweep(t);
  end_endpoint(t);
  return err;
}

tutti_err tutti_comm_close(tutti_comm *comm) {
  struct tu_visit visit;
  if (!comm) return TUTTI_OK;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_comm_close");
  if (tu_thread.telling) {
    tu_leave(&visit);
    return refuse_within_on_ready("tutti_comm_close");
  }
  struct tu_error error;
  struct closed *c = NULL;
  /* `t` may dangle after tu_comm_destroy, which frees the endpoint if no communicator uses it any more. So the
   * functions below dereference `t` only if a closed communicator keeps the endpoint open. */
  const struct tu_transport *t = comm->transport;
  tutti_err err = end_use(comm, "tutti_comm_close");
  if (err == TUTTI_OK && !tu_comm_failed_by_now(comm)) {
    c = tu_try_allocate(1, sizeof *c + comm->ranks * sizeof c->waits_for[0]);
    if (!c) tu_fail_memory(&error, sizeof *c, "tutti_comm_close on rank %u", comm->rank);
    if (!c) err = tu_comm_fail(comm, &error);
  }
  if (err != TUTTI_OK) (void)tu_thread_error(&comm->error);
  if (c) {
    *c = (struct closed){.process = comm->process, .mover = comm->mover, .transport = comm->transport};
    tu_mover_flush(c->mover);
    tu_comm_forget_mover(comm);
  }
  /* false: keeps the shared memory of a failed communicator, as other ranks may still use it */
  tu_comm_destroy(comm, false);
  if (c) keep(c);
  tu_comm_sweep(t);
  end_endpoint(t);
  return err;
}
