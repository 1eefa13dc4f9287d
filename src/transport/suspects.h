/* suspects.h: ranks that may still write into this rank's memory for a communicator that has failed: one that was stopped in
 * the middle of a copy goes on with it when it wakes up. Each rank says when it has ended its side; one that has died writes
 * no more. Until then what the user gives back is not used for anything else. */
#ifndef TU_SUSPECTS_H
#define TU_SUSPECTS_H

#include "transport/transport.h"

/* The ranks of a communicator that has failed, and ends on this rank. */
struct tu_suspects {
  uint32_t
      *locals; /* [ranks], of the segment, or TU_REMOTE: on another host, where this memory is not; owned from now on */
  uint32_t ranks, rank;
  const _Atomic uint32_t *ended; /* [ranks]: a word of each, not 0 once it has ended its side; it stays readable */
  size_t stride;                 /* from one to the next, in bytes */
};
void tu_suspects_add(struct tu_transport *t, struct tu_suspects suspects);
/* Looks whether there are any left, of those that share memory with this rank; else what was held is released. May make a system
 * call for each. */
void tu_suspects_look(struct tu_transport *t);
/* The endpoint goes. */
void tu_suspects_forget(struct tu_transport *t);

#endif
