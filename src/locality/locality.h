/* locality.h: where the ranks of a job run: host, NUMA node, cache; and how many of them share a CPU. Asked once when the job
 * begins, and the same on all ranks. */
#ifndef TU_LOCALITY_H
#define TU_LOCALITY_H

#include <stdatomic.h>

#include "boot/job.h"
#include "locality/machine.h"

struct tu_locality {
  struct tu_domain *domains; /* [ranks], owned; NULL: no rank is bound, or they are too few for groups */
  uint32_t share;            /* ranks that share a CPU: the maximum over all hosts */
};

/* What the ranks of this host leave for each other: a word of memory that they share, zero at first, for each rank. */
struct tu_locality_words {
  _Atomic uint64_t *(*of)(void *context, uint32_t rank);
  void *context;
};

/* Collective: the processes of the job have met. The error is the same on all ranks. */
tutti_err tu_locality_learn(struct tu_job *job, const struct tu_locality_words *words, struct tu_locality *locality,
                            struct tu_error *error);
void tu_locality_fini(struct tu_locality *locality);

#endif
