/* cpus.h: the set of CPUs that a process may use, in a form that can be sent and put into shared memory, and the number
 * of ranks per CPU. */
#ifndef TU_CPUS_H
#define TU_CPUS_H

#include "base/base.h"

#define TU_CPUS_WORDS 16u

struct tu_cpus {
  /* CPU c is in the set if bit c % 1024 is set; on machines with more than 1024 CPUs, two CPUs may share a bit. */
  uint64_t words[TU_CPUS_WORDS];
  uint32_t quota; /* number of CPUs that the process may use at a time, as its cgroup states; UINT32_MAX: no limit */
};

/* Reads the affinity mask of the calling thread (all CPUs if it cannot be read) and the quota of its cgroup. Returns
 * the number of CPUs that the thread may use, at least 1. */
uint32_t tu_cpus_mine(struct tu_cpus *cpus);

/* Returns the smallest CPU quota of the process's cgroup and the cgroups above it, in whole CPUs, rounded up;
 * UINT32_MAX if there is no quota. `root` is put before every path that is read: "" for this machine. */
uint32_t tu_cpus_quota(const char *root);

/* Returns the bytes of the last-level cache, of level 3 or higher, that CPU 0 uses; 0: there is none, or it is not known. Not
 * by sysconf, which counts all such caches of the socket on some processors of AMD. `root` as above. */
size_t tu_cpus_cache(const char *root);

/* Returns true if the CPUs are AMD's, whose cores have a last-level cache for every few of them. */
bool tu_cpus_are_amd(void);

/* Returns the maximum number of ranks per CPU: 1 if each rank can have a CPU of its own. The function considers the CPU
 * set of each rank, and the union of these sets. For each set it counts the ranks that may use no CPU outside of the
 * set, and divides this number by the number of CPUs in the set, rounded up. It returns the largest result. This is
 * exact if any two sets are nested or disjoint; otherwise it is a lower bound. */
uint32_t tu_cpus_share(const struct tu_cpus *const ranks[], uint32_t count);
/* Returns what tu_cpus_share returns for `count` ranks that all may use the same CPUs as the calling thread. */
uint32_t tu_cpus_share_alike(uint32_t count);

#endif
