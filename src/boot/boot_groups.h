/* boot_groups.h: which caches and NUMA nodes the processes of a job are bound to, as hwloc knows the machine, and the
 * groups of ranks that follow from it. hwloc takes milliseconds (3 on 2 CPUs, 2 of them to open its plugins), so one process
 * asks it for all, and only if some are bound. Its own variables count: HWLOC_SYNTHETIC, HWLOC_XMLFILE, HWLOC_THISSYSTEM. */
#ifndef TU_BOOT_GROUPS_H
#define TU_BOOT_GROUPS_H

#include <sys/types.h>

#include "base/base.h"

#define TU_DOMAIN_ANY UINT32_MAX

/* The part of the machine that a process runs in: numbers among its NUMA nodes and among its last-level caches;
 * TU_DOMAIN_ANY: not in one alone, or not known. */
struct tu_boot_domain {
  uint32_t numa, cache;
};

/* What the calling thread goes by for tu_boot_domains: its number in the kernel, or 0 if it may run on all CPUs. */
pid_t tu_boot_bound_thread(void);
/* The domains of threads, of this process or others. */
void tu_boot_domains(const pid_t threads[], uint32_t count, struct tu_boot_domain domains[]);

/* Ranks of a group, 0 if there are no groups: runs of ranks that share a last-level cache or, if those are no groups, a
 * NUMA node. All runs must be of one length, above 1, and more than one. *by_cache (or NULL): is it the cache? */
uint32_t tu_boot_group(const struct tu_boot_domain domains[], uint32_t ranks, bool *by_cache);

struct tu_boot_machine {
  uint32_t numa_nodes; /* with CPUs */
  uint32_t caches;     /* of the last level */
  uint32_t level;      /* that level; 0: no caches are known */
};
/* The whole machine, and the domains of `ranks` processes that are bound to one CPU each, in turn, of those that this
 * thread may use. False if hwloc cannot tell. */
bool tu_boot_machine(struct tu_boot_machine *machine, struct tu_boot_domain domains[], uint32_t ranks);

#endif
