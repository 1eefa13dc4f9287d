/* machine.h: which caches and NUMA nodes the processes of a job are bound to, as hwloc knows the machine, and the
 * groups of ranks that follow from it. hwloc takes milliseconds (3 on 2 CPUs, 2 of them to open its plugins), so one process
 * asks it for all, and only if some are bound. Its own variables count: HWLOC_SYNTHETIC, HWLOC_XMLFILE, HWLOC_THISSYSTEM. */
#ifndef TU_MACHINE_H
#define TU_MACHINE_H

#include <sys/types.h>

#include "base/base.h"

#define TU_DOMAIN_ANY UINT32_MAX

/* Where a process runs: numbers among the NUMA nodes and among the last-level caches of its host (TU_DOMAIN_ANY: not in one
 * alone, or not known), and which host that is. */
struct tu_domain {
  uint32_t numa, cache;
  uint32_t host; /* its lowest rank */
};

/* What the calling thread goes by for tu_domains_look: its number in the kernel, or 0 if it may run on all CPUs. */
pid_t tu_bound_thread(void);
/* The domains of threads of this host, of this process or others; host is 0. */
void tu_domains_look(const pid_t threads[], uint32_t count, struct tu_domain domains[]);

/* Ranks of a group, 0 if there are no groups: runs of ranks that share a last-level cache or, if those are no groups, a
 * NUMA node. All runs must be of one length, above 1, and more than one. *by_cache (or NULL): is it the cache? */
uint32_t tu_group_of(const struct tu_domain domains[], uint32_t ranks, bool *by_cache);

/* Ranks of a host, 0 if there is one host only, or if they are not runs of one length. */
uint32_t tu_group_by_host(const struct tu_domain domains[], uint32_t ranks);

struct tu_machine {
  uint32_t numa_nodes; /* with CPUs */
  uint32_t caches;     /* of the last level */
  uint32_t level;      /* that level; 0: no caches are known */
};
/* The whole machine, and the domains of `ranks` processes that are bound to one CPU each, in turn, of those that this
 * thread may use. False if hwloc cannot tell. */
bool tu_machine_look(struct tu_machine *machine, struct tu_domain domains[], uint32_t ranks);

#endif
