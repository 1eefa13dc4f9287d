/* locality.h: where the ranks of a job run (host, NUMA node, cache), and the number of ranks per CPU. The locality is
 * determined once, when the job starts, and is equal on all ranks. */
#ifndef TU_LOCALITY_H
#define TU_LOCALITY_H

#include <stdatomic.h>

#include "boot/job.h"
#include "locality/machine.h"

struct tu_locality {
  /* [ranks], owned: location of each rank; NULL: the job has one host, and no rank is bound or there are fewer than 3
   * ranks */
  struct tu_domain *domains;
  uint32_t share; /* maximum number of ranks per CPU, over all hosts */
};

/* Access to one word of shared memory per rank of this host. The host's lowest rank writes the NUMA node and cache of
 * each rank there. */
struct tu_locality_words {
  /* Returns the word of a rank of this host; the word is 0 at first. */
  _Atomic uint64_t *(*of)(void *context, uint32_t rank);
  void *context;
};

/* Collective: finds the locality of all ranks. Call it after tu_job_meet. If an error occurs, all ranks return it. */
tutti_err tu_locality_learn(struct tu_job *job, const struct tu_locality_words *words, struct tu_locality *locality,
                            struct tu_error *error);
void tu_locality_fini(struct tu_locality *locality);

#endif
