/* machine.h: the caches and NUMA nodes that the processes of a job are bound to, as hwloc reports them, and the
 * locality groups that result from them. Loading hwloc takes milliseconds (3 ms on 2 CPUs, 2 ms of it to open its
 * plugins), so one process per host loads it for all ranks, and only if ranks are bound. The environment variables of
 * hwloc apply: HWLOC_SYNTHETIC, HWLOC_XMLFILE, HWLOC_THISSYSTEM. */
#ifndef TU_MACHINE_H
#define TU_MACHINE_H

#include <sys/types.h>

#include "base/base.h"

/* In place of a NUMA node or cache: the process is bound to several of them, or they are unknown. */
#define TU_DOMAIN_ANY UINT32_MAX

/* Location of a process: the NUMA node and the last-level cache that it is bound to, and its host. */
struct tu_domain {
  uint32_t numa, cache; /* index of the NUMA node, and index of the last-level cache, on the host; or TU_DOMAIN_ANY */
  uint32_t host;        /* lowest rank of the host */
};

/* Returns the kernel's id of the calling thread, as an argument for tu_domains_look; 0 if the thread may run on all
 * CPUs. */
pid_t tu_bound_thread(void);
/* Finds the domains (NUMA node and cache) of threads of this host, of this process or others. Sets their `host` to
 * 0. */
void tu_domains_look(const pid_t threads[], uint32_t count, struct tu_domain domains[]);

/* Returns the number of ranks per locality group; 0 if there are no groups. A group is a range of consecutive ranks
 * that share a last-level cache. If ranks do not form such groups, a group is a range of ranks that share a NUMA node.
 * There must be several groups, all of the same length, which is above 1. *by_cache becomes true if the groups share
 * caches; by_cache may be NULL. */
uint32_t tu_group_of(const struct tu_domain domains[], uint32_t ranks, bool *by_cache);

struct tu_machine {
  uint32_t numa_nodes; /* number of NUMA nodes with CPUs */
  uint32_t caches;     /* number of last-level caches */
  uint32_t level;      /* level of the last-level caches; 0: no caches are known */
};
/* Describes the machine. Also computes the domains (NUMA node and cache) of `ranks` processes, as if each were bound to
 * one of the CPUs that the calling thread may use, in turn. Returns false if hwloc fails. */
bool tu_machine_look(struct tu_machine *machine, struct tu_domain domains[], uint32_t ranks);

#endif
