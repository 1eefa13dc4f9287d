/* peers.h: finds peers of a communicator that have died or left, and prints their last calls. */
#ifndef TU_PEERS_H
#define TU_PEERS_H

#include "comm/comm.h"

/* Prints the last collective of a peer, in the form "its last call is ...". Reads it from the peer's board of published
 * calls. */
void tu_print_last_call(const struct tutti_comm *comm, uint32_t peer, char *text, size_t bytes);
/* Prints a peer, for example "rank 3 (its last call is ...)". */
void tu_print_peer(const struct tutti_comm *comm, uint32_t peer, char *text, size_t bytes);

/* Whether a peer has departed (freed the communicator). A peer may depart right after it has sent its last message. So
 * its departure is an error only if this rank has received all messages and still waits for the peer. Call in this
 * order: tu_note_departed; advance the requests; fill comm->waits_for; tu_peer_lost. */
enum tu_departed { TU_IS_HERE, TU_HAS_DEPARTED, TU_NOT_LOOKED_AT };
/* Number of ranks that one call of tu_note_departed checks, in addition to the ranks of comm->waits_for. The next call
 * continues with the following ranks. */
#define TU_LOOKED_RANKS 64u
/* Records in comm->departed which peers have departed. */
void tu_note_departed(struct tutti_comm *comm);
/* Returns true and sets *error if a rank that tu_note_departed has checked is dead, or if a rank that this rank waits
 * for (comm->waits_for) has departed. `doing` names this rank's call in the message. */
bool tu_peer_lost(const struct tutti_comm *comm, const char *doing, struct tu_error *error);
/* Returns true if a rank that tu_note_departed has checked may be lost; then tu_peer_lost decides. */
bool tu_peer_may_be_lost(const struct tutti_comm *comm);
/* For a wait for any rank: marks in comm->waits_for the ranks of other hosts that tu_note_departed has checked and that
 * are here, so that tu_control_ask finds out whether they live. certain: only those whose death tu_peer_lost can tell from
 * a departure. */
void tu_watch_others(struct tutti_comm *comm, bool certain);
/* For a wait for any rank: returns true and sets *error if no other rank of the communicator is left. A communicator of
 * one rank has no other ranks to lose. */
bool tu_others_left(const struct tutti_comm *comm, const char *doing, struct tu_error *error);
/* Returns true and sets *error if that rank has died before it freed the communicator, or has failed to create it. Any
 * thread may call this function. */
bool tu_peer_died(const struct tutti_comm *comm, uint32_t peer, const char *doing, struct tu_error *error);
/* Sets *error to state that the peer has left while this rank waits for it. Returns true. */
bool tu_peer_left(const struct tutti_comm *comm, uint32_t peer, const char *doing, struct tu_error *error);

#endif
