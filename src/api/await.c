/* await.c: the wait of a rank for other ranks, while it creates a communicator. */
#include "api/await.h"

#include <stdio.h>

#include "call/queue.h"
#include "comm/chain.h"
#include "comm/enter.h"
#include "comm/wait.h"

#define SLEEP_MS_MAX 16u /* longest sleep in ms; short, because the awaited event may occur without waking this rank */

static tutti_err fail_to_come(const struct tutti_comm *comm, const struct tu_comm_goal *goal, int timeout_ms,
                              uint64_t since, struct tu_error *error) {
  char list[200] = "";
  size_t at = 0;
  uint32_t ranks = comm->mover ? comm->ranks : comm->transport->ranks, late = 0;
  for (uint32_t r = 0; r < ranks; r++) {
    if (!goal->lacks(comm, r)) continue;
    if (at + 16 < sizeof list) at += (size_t)snprintf(list + at, sizeof list - at, "%s%u", late ? ", " : "", r);
    else if (list[at - 1] != '.') at += (size_t)snprintf(list + at, sizeof list - at, ", ...");
    late++;
  }
  char chain[400] = "";
  const struct tu_chain_wait wait = {.members = comm->waits_for, .since = since, .creates = true};
  bool others = goal->chains && tu_chain_print(comm, &wait, chain, sizeof chain);
  return tu_fail(error, TUTTI_ERR_TIMEOUT, "rank %u has waited %d ms for rank%s %s %s%s%s", comm->rank, timeout_ms,
                 late == 1 ? "" : "s", list, goal->what, others ? "; this rank waits for " : "", chain);
}

/* Returns true, and sets *error, if one of the missing ranks (for which the goal still waits) has died or has given
 * up. */
static bool find_lost(const struct tutti_comm *comm, const struct tu_comm_goal *goal, struct tu_error *error) {
  const struct tu_control *control = comm->mover ? &comm->mover->control : NULL;
  uint32_t ranks = control ? comm->ranks : comm->transport->ranks;
  for (uint32_t i = 0; i < ranks; i++) {
    if (!goal->lacks(comm, i)) continue;
    uint32_t local = control ? tu_control_local(control, i) : i;
    if (local != TU_REMOTE && tu_transport_gave_up(comm->transport, local, error)) return true;
    tutti_err missed = control ? tu_control_missed(control, i) : TUTTI_OK;
    if (missed != TUTTI_OK) tu_fail(error, missed, "rank %u could not create its part of the communicator", i);
    else if (control ? !tu_control_alive(control, i) : !tu_transport_alive(comm->transport, local))
      tu_fail(error, TUTTI_ERR_PEER, "rank %u has died or exited while the communicator was being created", i);
    else continue;
    return true;
  }
  return false;
}

/* Publishes for which ranks this rank waits, and asks those on other hosts: if they have done their part or have failed,
 * they answer that, and if they are dead, the question shows it. */
static void tell_lacking(struct tutti_comm *comm, const struct tu_comm_goal *goal, uint64_t since) {
  for (uint32_t r = 0; r < comm->ranks; r++) comm->waits_for[r] = goal->lacks(comm, r);
  if (comm->mover->control.block) tu_control_ask(&comm->mover->control, comm->waits_for, 0, false);
  tu_chain_tell_members(comm, comm->waits_for, true, since, tu_clock_ns());
}

struct awaiting {
  struct tutti_comm *comm;
  const struct tu_comm_goal *goal;
};

static bool is_there(void *context) {
  const struct awaiting *a = context;
  if (a->comm->mover) (void)tu_mover_look(a->comm->mover);
  if (!tu_thread.telling) (void)tu_queue_poll_others(a->comm);
  return a->goal->there(a->comm);
}

/* Waits until the goal's condition holds. A rank that has done its part may exit, so a dead rank is an error only if
 * its part is still missing. The rank may have done its part just before it died, so the condition is checked once more
 * after a dead rank was found. */
tutti_err tu_comm_await(struct tutti_comm *comm, const struct tu_comm_goal *goal, int timeout_ms,
                        struct tu_error *error) {
  struct awaiting awaiting = {comm, goal};
  struct tu_wait wait = {.timeout_ms = timeout_ms, .stall.sleep_ms = 1};
  tutti_err err = TUTTI_OK;
  while (err == TUTTI_OK && !is_there(&awaiting)) {
    enum tu_due due = tu_wait_outside(comm, &wait, is_there, &awaiting);
    if (wait.since) wait.stall.sleep_ms = (int)tu_min(2 * (size_t)wait.stall.sleep_ms, SLEEP_MS_MAX);
    if (due != TU_GO_ON && goal->chains) tell_lacking(comm, goal, wait.since);
    if (due != TU_GO_ON && find_lost(comm, goal, error) && !goal->there(comm)) err = error->code;
    else if (due == TU_TOO_LATE && !goal->there(comm)) err = fail_to_come(comm, goal, timeout_ms, wait.since, error);
  }
  if (wait.since && goal->chains) tu_chain_go_on(comm->transport);
  return err;
}
