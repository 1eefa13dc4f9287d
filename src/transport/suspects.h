/* suspects.h: suspects are ranks of a failed communicator that may still write into this rank's memory. For example, a
 * rank that was stopped in the middle of a copy finishes the copy when it resumes. A rank is no longer a suspect once
 * it has published that it has ended its side of the communicator, or once it is dead. While suspects are left, memory
 * that the user gives back is not reused. */
#ifndef TU_SUSPECTS_H
#define TU_SUSPECTS_H

#include "transport/transport.h"

/* The ranks of a failed communicator that may still write into this rank's memory. */
struct tu_suspects {
  /* [ranks]: each rank's number in the segment; TU_REMOTE: the rank cannot write into this memory, for example because
   * it runs on another host. tu_suspects_add takes ownership of the array. */
  uint32_t *locals;
  uint32_t ranks, rank;
  /* Flag of rank 0; the flags of the other ranks follow. A flag is nonzero once its rank has ended its side of the
   * communicator. All flags stay readable. */
  const _Atomic uint32_t *ended;
  size_t stride; /* bytes from one rank's flag to the next */
};
void tu_suspects_add(struct tu_transport *t, struct tu_suspects suspects);
/* Checks whether any suspects (ranks that may still write into this rank's memory) are left on this host. If none is
 * left, releases the memory that was held back. May make one system call per suspect. */
void tu_suspects_look(struct tu_transport *t);
/* Frees the list of suspects, when the endpoint closes. */
void tu_suspects_forget(struct tu_transport *t);

#endif
