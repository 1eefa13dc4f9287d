/* probe.c: tutti_probe: searches for a message without receiving it. A probe is no request: it looks at the channels
 * itself, after each poll of the open requests. */
#include <string.h>

#include "call/mismatch.h"
#include "call/progress.h"
#include "call/stall.h"
#include "comm/chain.h"
#include "comm/failure.h"
#include "comm/peers.h"

/* Maximum duration of one sleep, in ms: a message that comes between the search and the sleep does not end the sleep. */
#define SLEEP_MS 1

struct probe {
  struct tutti_comm *comm;
  uint32_t rank, tag;
  int timeout_ms;
  bool found;
  tutti_message message;
};

/* Advances the open requests, which may take messages. Then searches. */
static tutti_err search(struct probe *p, struct tu_error *error) {
  struct tutti_comm *comm = p->comm;
  (void)tu_poll_all(comm);
  if (tu_comm_failed(comm)) {
    *error = comm->error;
    return error->code;
  }
  return tu_matching_probe(comm->mover, p->rank, p->tag, &p->found, &p->message, error);
}

/* ---- looking for dead peers ---- */

/* Returns true if the probe waits for that one rank as a receive does. A probe with a time limit only asks whether there
 * is a message, so a rank that has freed the communicator is no error. */
static bool needs_one(const struct probe *p) { return p->rank != TUTTI_ANY_RANK && p->timeout_ms < 0; }

/* Marks in comm->waits_for the ranks that must live. */
static void mark(const struct probe *p, bool certain) {
  struct tutti_comm *comm = p->comm;
  memset(comm->waits_for, 0, comm->ranks * sizeof *comm->waits_for);
  if (needs_one(p)) comm->waits_for[p->rank] = p->rank != comm->rank;
  else tu_watch_others(comm, certain);
}

static bool find_lost(const struct probe *p, struct tu_error *error) {
  char call[100];
  tu_print_peer_and_tag("tutti_probe", p->rank, p->tag, call, sizeof call);
  mark(p, true);
  if (tu_peer_lost(p->comm, call, error)) return true;
  return p->timeout_ms < 0 && p->rank == TUTTI_ANY_RANK && tu_others_left(p->comm, call, error);
}

/* Fails the communicator if a rank is lost whose message the probe may wait for. A rank may have sent its last message
 * right before it ended, so the probe searches after each look. */
static tutti_err look_for_peers(struct probe *p, struct tu_error *error) {
  struct tutti_comm *comm = p->comm;
  struct tu_error lost;
  mark(p, false);
  tu_note_departed(comm);
  mark(p, false);
  tu_control_ask(&comm->mover->control, comm->waits_for, 0, false);
  tutti_err err = search(p, error);
  if (err != TUTTI_OK || p->found || !find_lost(p, &lost)) return err;
  err = search(p, error);
  if (err != TUTTI_OK || p->found) return err;
  (void)tu_comm_fail(comm, &lost);
  *error = comm->error;
  return error->code;
}

/* ---- the call ---- */

static tutti_err wait_for_message(struct probe *p, struct tu_error *error) {
  struct tutti_comm *comm = p->comm;
  struct tu_wait wait = {.stall.sleep_ms = SLEEP_MS, .timeout_ms = p->timeout_ms};
  enum tu_due due = TU_GO_ON;
  tutti_err err = TUTTI_OK;
  while (err == TUTTI_OK && !p->found && due != TU_TOO_LATE) {
    due = tu_wait_inside(comm, &wait);
    if (wait.since) tu_chain_tell_sender(comm, p->rank, wait.since, tu_clock_ns());
    err = due == TU_GO_ON ? search(p, error) : look_for_peers(p, error);
  }
  tu_chain_go_on(comm->transport);
  return err;
}

static tutti_err probe(struct probe *p, struct tu_error *error) {
  struct tutti_comm *comm = p->comm;
  tutti_err err = tu_matching_prepare_from(comm->mover, p->rank, error);
  if (err == TUTTI_OK) err = search(p, error);
  if (err != TUTTI_OK || p->found) return err;
  if (p->timeout_ms != 0) return wait_for_message(p, error);
  tu_mover_flush(comm->mover);
  return tu_patience_test(comm, &comm->probes, false) ? look_for_peers(p, error) : TUTTI_OK;
}

static tutti_err check(const struct probe *p, struct tu_error *error) {
  if (tu_thread.telling)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_probe: called within the callback on_ready, which may only call tutti_request_fill");
  if (p->rank >= p->comm->ranks && p->rank != TUTTI_ANY_RANK)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_probe: rank %u is not in the communicator; expected a rank from 0 to %u, or TUTTI_ANY_RANK",
                   p->rank, p->comm->ranks - 1);
  return tu_check_timeout("tutti_probe", "timeout_ms", p->timeout_ms, error);
}

tutti_err tutti_probe(tutti_comm *comm, uint32_t rank, uint32_t tag, int timeout_ms, bool *found,
                      tutti_message *message) {
  struct tu_visit visit;
  struct tu_error error;
  if (!comm || !found || !message) return tu_refuse_null("tutti_probe", comm ? found ? "message" : "found" : "comm");
  struct probe p = {.comm = comm, .rank = rank, .tag = tag, .timeout_ms = timeout_ms};
  *found = false;
  tutti_err err = check(&p, &error);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_probe");
  tu_progress_pause(comm);
  err = probe(&p, &error);
  tu_progress_resume(comm);
  tu_leave(&visit);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  *found = p.found;
  if (p.found) *message = p.message;
  return TUTTI_OK;
}
