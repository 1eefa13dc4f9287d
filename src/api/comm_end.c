/* comm_end.c: the end of a communicator: freed by all ranks together, or closed by one at a time. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/comm.h"

/* The time is over. */
static tutti_err fail_to_drain(struct tutti_comm *comm, uint64_t since) {
  struct tu_error error;
  char late[400];
  const struct tu_chain_wait wait = {.members = comm->waits_for, .since = since};
  if (!tu_chain_print(comm, &wait, late, sizeof late)) snprintf(late, sizeof late, "its own messages");
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
    tu_note_departed(comm); /* with those that it waited for at the last look */
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

/* ---- closing: the shared part stays until nobody needs it, and nobody waits for that ---- */

struct closed {
  struct closed *next;
  uint64_t process;
  struct tu_mover *mover;
  struct tu_transport *transport;
  bool waits_for[]; /* scratch */
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

/* Out of the list: those of that endpoint of which nothing is needed any more, or all. */
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
    tu_control_depart(&c->mover->control);
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

/* If all communicators of that endpoint are closed, none of them will be looked at again: then it is closed, too. What they
 * have sent stays where it is, and this rank has left all of them. */
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

/* ---- what both ways of ending have in common ---- */

/* Ends what is left of it; TUTTI_OK: nothing was. */
static tutti_err end_use(tutti_comm *comm, const char *call) {
  struct tu_error error;
  tutti_err err = TUTTI_OK;
  while (comm->open_requests > 0 && comm->failed) tu_queue_poll(comm); /* ends them with the verdict */
  if (comm->open_requests > 0) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s: %u requests are still open on rank %u; wait for them first", call,
            comm->open_requests, comm->rank);
    err = tu_comm_fail(comm, &error);
    tu_queue_poll(comm);
  }
  uint32_t windows = tu_windows_abandon(comm);
  if (windows > 0 && err == TUTTI_OK && !comm->failed) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s: rank %u still has %u windows; tutti_window_free comes first", call,
            comm->rank, windows);
    err = tu_comm_fail(comm, &error);
  }
  uint32_t channels = tu_channels_abandon(comm);
  if (channels > 0 && err == TUTTI_OK && !comm->failed) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s: rank %u still has %u channels open; tutti_channel_close comes first", call,
            comm->rank, channels);
    err = tu_comm_fail(comm, &error);
  }
  return err;
}

/* on_ready is called within a function that goes on with the communicator afterwards. */
static tutti_err refuse_within_on_ready(const char *call) {
  struct tu_error error;
  tu_fail(&error, TUTTI_ERR_ARGUMENT,
          "%s was called within on_ready, where only tutti_request_fill is possible; nothing is freed", call);
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
  tutti_err err = end_use(comm, "tutti_comm_free");
  if (err == TUTTI_OK) err = wait_drained(comm);
  tu_chain_go_on(comm->transport);
  if (err != TUTTI_OK) (void)tu_thread_error(&comm->error);
  const struct tu_transport *t = comm->transport; /* to compare with, alone: it may be gone */
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
  const struct tu_transport *t = comm->transport; /* to compare with, alone: it may be gone */
  tutti_err err = end_use(comm, "tutti_comm_close");
  if (err == TUTTI_OK && !tu_comm_failed_by_now(comm)) {
    c = tu_try_allocate(1, sizeof *c + comm->ranks * sizeof c->waits_for[0]);
    if (!c) tu_fail_memory(&error, sizeof *c, "tutti_comm_close, on rank %u", comm->rank);
    if (!c) err = tu_comm_fail(comm, &error);
  }
  if (err != TUTTI_OK) (void)tu_thread_error(&comm->error);
  if (c) {
    *c = (struct closed){.process = comm->process, .mover = comm->mover, .transport = comm->transport};
    tu_mover_flush(c->mover);
    tu_comm_forget_mover(comm);
  }
  tu_comm_destroy(comm, false); /* of one that has failed the shared part is left alone */
  if (c) keep(c);
  tu_comm_sweep(t);
  end_endpoint(t);
  return err;
}
