/* cpus.h: which CPUs this process may use, in a form that fits into shared memory, and how many ranks have to share one. */
#ifndef TU_CPUS_H
#define TU_CPUS_H

#include "base/base.h"

#define TU_CPUS_WORDS 16u

struct tu_cpus {
  uint64_t words[TU_CPUS_WORDS]; /* CPU c is bit c % 1024: on a machine of more, two may look like one */
  uint32_t quota;                /* of them, so many at a time; UINT32_MAX: all */
};

/* The affinity mask of the calling thread (all CPUs if it cannot be read) and the quota of its cgroup; returns how many CPUs
 * that is, at least 1. */
uint32_t tu_cpus_mine(struct tu_cpus *cpus);

/* The smallest cgroup quota above this process, in whole CPUs rounded up; UINT32_MAX if there is none. `root` stands
 * before every path that is read: "" for this machine. */
uint32_t tu_cpus_quota(const char *root);

/* How many of these ranks share a CPU, where it is worst: 1 if each can have one of its own. The most, over all ranks'
 * CPUs and over each rank's, of the ranks that can use no others, by their number: exact where any two ranks' CPUs are
 * within each other or apart, else it may be too few. */
uint32_t tu_cpus_share(const struct tu_cpus *const ranks[], uint32_t count);
/* The same for ranks that may all use just what the calling thread may. */
uint32_t tu_cpus_share_alike(uint32_t count);

#endif
