/* peers.c: finds peers of a communicator that have died or left, and prints their last calls. */
#include "comm/peers.h"

#include <stdio.h>
#include <string.h>

#include "comm/facts.h"

void tu_print_last_call(const struct tutti_comm *comm, uint32_t peer, char *text, size_t bytes) {
  const struct tu_control *control = &comm->mover->control;
  uint64_t latest = tu_control_latest(control, peer), words[TU_BOARD_WORDS];
  struct tu_call_facts facts;
  char call[200];
  if (latest == 0) {
    snprintf(text, bytes, "has started no collective yet");
  } else if (tu_control_call(control, peer, latest, words)) {
    memcpy(&facts, words, sizeof facts);
    tu_facts_print(comm, &facts, call, sizeof call);
    snprintf(text, bytes, "its last call is collective %llu, %s", (unsigned long long)latest, call);
  } else {
    snprintf(text, bytes, "its last known call is collective %llu", (unsigned long long)latest);
  }
}

void tu_print_peer(const struct tutti_comm *comm, uint32_t peer, char *text, size_t bytes) {
  char last[280] = "has freed the communicator";
  if (!tu_control_departed(&comm->mover->control, peer)) tu_print_last_call(comm, peer, last, sizeof last);
  snprintf(text, bytes, "rank %u (%s)", peer, last);
}

static void look_whether_departed(const struct tutti_comm *comm, uint32_t p) {
  comm->departed[p] = tu_control_departed(&comm->mover->control, p) ? TU_HAS_DEPARTED : TU_IS_HERE;
}

void tu_note_departed(struct tutti_comm *comm) {
  memset(comm->departed, TU_NOT_LOOKED_AT, comm->ranks * sizeof *comm->departed);
  comm->looked = (comm->looked + TU_LOOKED_RANKS) % comm->ranks;
  for (uint32_t i = 0; i < tu_min(comm->ranks, TU_LOOKED_RANKS); i++)
    look_whether_departed(comm, (comm->looked + i) % comm->ranks);
  for (uint32_t p = 0; p < comm->ranks; p++)
    if (comm->waits_for[p]) look_whether_departed(comm, p);
}

bool tu_peer_died(const struct tutti_comm *comm, uint32_t p, const char *doing, struct tu_error *error) {
  char state[300];
  if (tu_control_missed(&comm->mover->control, p)) {
    tu_fail(error, TUTTI_ERR_PEER,
            "rank %u could not create its part of the communicator in tutti_comm_split or tutti_comm_dup; rank %u "
            "noticed it in %s",
            p, comm->rank, doing);
    return true;
  }
  if (tu_control_alive(&comm->mover->control, p)) return false;
  /* rank p no longer lives, but has freed the communicator before, which is not a failure */
  if (tu_control_departed(&comm->mover->control, p)) return false;
  tu_print_peer(comm, p, state, sizeof state);
  tu_fail(error, TUTTI_ERR_PEER, "%s has died or exited; rank %u noticed it in %s", state, comm->rank, doing);
  return true;
}

bool tu_peer_left(const struct tutti_comm *comm, uint32_t p, const char *doing, struct tu_error *error) {
  tu_fail(error, TUTTI_ERR_PEER, "rank %u has freed the communicator while rank %u still waits for it in %s", p,
          comm->rank, doing);
  return true;
}

/* Of a rank of another host that this rank does not wait for, the departure may be unknown here. That it has ended is then
 * no failure. */
static bool may_have_departed(const struct tutti_comm *comm, uint32_t p) {
  return !comm->waits_for[p] && tu_control_local(&comm->mover->control, p) == TU_REMOTE;
}

/* Returns true if rank p has left while this rank waits for it, or has died; tu_peer_died looks again at the latter. */
static bool may_be_lost(const struct tutti_comm *comm, uint32_t p) {
  const struct tu_control *control = &comm->mover->control;
  if (may_have_departed(comm, p)) return false;
  if (comm->departed[p] == TU_HAS_DEPARTED) return comm->waits_for[p];
  return comm->departed[p] == TU_IS_HERE && (tu_control_missed(control, p) || !tu_control_alive(control, p));
}

bool tu_peer_lost(const struct tutti_comm *comm, const char *doing, struct tu_error *error) {
  for (uint32_t p = 0; p < comm->ranks; p++) {
    if (!may_be_lost(comm, p)) continue;
    if (comm->departed[p] == TU_HAS_DEPARTED) return tu_peer_left(comm, p, doing, error);
    if (tu_peer_died(comm, p, doing, error)) return true;
  }
  return false;
}

bool tu_peer_may_be_lost(const struct tutti_comm *comm) {
  for (uint32_t p = 0; p < comm->ranks; p++)
    if (may_be_lost(comm, p)) return true;
  return false;
}

void tu_watch_others(struct tutti_comm *comm, bool certain) {
  const struct tu_control *control = &comm->mover->control;
  for (uint32_t p = 0; p < comm->ranks && control->remote; p++)
    if (tu_control_local(control, p) == TU_REMOTE && comm->departed[p] == TU_IS_HERE)
      comm->waits_for[p] = !certain || tu_control_would_tell(control, p);
}

bool tu_others_left(const struct tutti_comm *comm, const char *doing, struct tu_error *error) {
  const struct tu_control *control = &comm->mover->control;
  for (uint32_t p = 0; p < comm->ranks; p++)
    if (p != comm->rank && !tu_control_departed(control, p) && tu_control_alive(control, p)) return false;
  if (comm->ranks == 1) return false;
  tu_fail(error, TUTTI_ERR_PEER,
          "all other ranks have freed the communicator or exited while rank %u still waits for any of them in %s",
          comm->rank, doing);
  return true;
}
