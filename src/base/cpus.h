/* cpus.h: which CPUs a thread may use, as a set that fits into shared memory, and whether some ranks have too few. */
#ifndef TU_CPUS_H
#define TU_CPUS_H

#include "base/base.h"

#define TU_CPUS_WORDS 16u

/* CPU c is bit c % 1024: on a machine of more, two may look like one. */
struct tu_cpus {
  uint64_t words[TU_CPUS_WORDS];
};

/* The affinity mask of the calling thread; returns how many CPUs it has. If it cannot be read: all of them. */
uint32_t tu_cpus_mine(struct tu_cpus *cpus);

/* Are there CPUs that more ranks have to share than they are? True for sure if some ranks' CPUs, all together, are fewer than
 * those who can use no other; where that cannot be told from one rank's CPUs or from those of all, it may say false. */
bool tu_cpus_crowded(const struct tu_cpus *const ranks[], uint32_t count);

#endif
