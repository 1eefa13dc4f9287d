/* machine.c: queries hwloc for the caches and NUMA nodes that processes are bound to. Forms locality groups of ranks,
 * in time linear in the number of ranks. */
#include "locality/machine.h"

#include <hwloc.h>
#include <unistd.h>

#include "locality/cpus.h"

/* ---- locality groups ---- */

enum level { NUMA, CACHE };

/* Returns true if two ranks are in the same domain (NUMA node or cache) of this level. Hosts are always compared,
 * because each host numbers its nodes and caches from 0. */
static bool are_alike(const struct tu_domain *a, const struct tu_domain *b, enum level level) {
  return a->host == b->host && (level == CACHE ? a->cache == b->cache : a->numa == b->numa);
}

/* Returns the length of the runs (consecutive ranks in the same domain). Returns 0 if there is only one run, if the
 * runs differ in length, or if the length is 1. */
static uint32_t even_runs(const struct tu_domain domains[], uint32_t ranks, enum level level) {
  uint32_t group = 0, length = 0;
  for (uint32_t r = 0; r < ranks; r++) {
    if ((level == CACHE ? domains[r].cache : domains[r].numa) == TU_DOMAIN_ANY) return 0;
    length++;
    if (r + 1 < ranks && are_alike(&domains[r], &domains[r + 1], level)) continue;
    if (group == 0) group = length;
    if (length != group) return 0;
    length = 0;
  }
  return group > 1 && group < ranks ? group : 0;
}

uint32_t tu_group_of(const struct tu_domain domains[], uint32_t ranks, bool *by_cache) {
  uint32_t group = even_runs(domains, ranks, CACHE);
  if (by_cache) *by_cache = group > 0;
  return group > 0 ? group : even_runs(domains, ranks, NUMA);
}

/* ---- queries to hwloc ---- */

/* Loads the topology of this machine; returns NULL if hwloc fails. */
static hwloc_topology_t load(void) {
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) != 0) return NULL;
  /* Exclude the x86 component: it would add nothing to what Linux reports, and would move this thread to every CPU to
   * query that CPU. */
  hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  /* Include all CPUs, because other processes may be bound to CPUs that this process may not use. */
  hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(topology) == 0) return topology;
  hwloc_topology_destroy(topology);
  return NULL;
}

/* Returns the type of the last-level caches; HWLOC_OBJ_PU if no caches are known. */
static hwloc_obj_type_t last_level(hwloc_topology_t topology) {
  static const hwloc_obj_type_t types[] = {HWLOC_OBJ_L5CACHE, HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
    if (hwloc_get_nbobjs_by_type(topology, types[i]) > 0) return types[i];
  return HWLOC_OBJ_PU;
}

/* Returns the index of the smallest object of the type (NUMA node or cache) that contains all these CPUs; TU_DOMAIN_ANY
 * if there is none. The smallest is meant, because a machine may also have a NUMA node that contains all CPUs: memory
 * that is far from all of them. */
static uint32_t holder(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_const_cpuset_t cpus) {
  hwloc_obj_t found = NULL;
  for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_type(topology, type, o)) != NULL;) {
    if (!hwloc_bitmap_isincluded(cpus, o->cpuset)) continue;
    if (!found || hwloc_bitmap_weight(o->cpuset) < hwloc_bitmap_weight(found->cpuset)) found = o;
  }
  return found ? found->logical_index : TU_DOMAIN_ANY;
}

static struct tu_domain domain_of(hwloc_topology_t topology, hwloc_const_cpuset_t cpus) {
  hwloc_obj_type_t cache = last_level(topology);
  struct tu_domain domain = {.numa = TU_DOMAIN_ANY, .cache = TU_DOMAIN_ANY};
  /* The set of CPUs is empty. Any object contains the empty set, so a search would find an object that means
   * nothing. */
  if (hwloc_bitmap_iszero(cpus)) return domain;
  domain.numa = holder(topology, HWLOC_OBJ_NUMANODE, cpus);
  if (cache != HWLOC_OBJ_PU) domain.cache = holder(topology, cache, cpus);
  return domain;
}

/* Returns the CPUs of the topology that a thread (0: the calling thread) may use; NULL if they are unknown. The caller
 * frees the set. */
static hwloc_cpuset_t cpus_of(hwloc_topology_t topology, pid_t thread) {
  hwloc_cpuset_t cpus = hwloc_bitmap_alloc();
  if (!cpus) return NULL;
  int failed = thread ? hwloc_get_proc_cpubind(topology, thread, cpus, HWLOC_CPUBIND_THREAD)
                      : hwloc_get_cpubind(topology, cpus, HWLOC_CPUBIND_THREAD);
  if (failed == 0) {
    hwloc_bitmap_and(cpus, cpus, hwloc_topology_get_topology_cpuset(topology));
    return cpus;
  }
  hwloc_bitmap_free(cpus);
  return NULL;
}

pid_t tu_bound_thread(void) {
  struct tu_cpus mine;
  return (long)tu_cpus_mine(&mine) < sysconf(_SC_NPROCESSORS_ONLN) ? gettid() : 0;
}

void tu_domains_look(const pid_t threads[], uint32_t count, struct tu_domain domains[]) {
  hwloc_topology_t topology = NULL;
  for (uint32_t i = 0; i < count; i++) {
    domains[i] = (struct tu_domain){.numa = TU_DOMAIN_ANY, .cache = TU_DOMAIN_ANY};
    if (threads[i] == 0) continue;
    if (!topology && (topology = load()) == NULL) continue;
    hwloc_cpuset_t cpus = cpus_of(topology, threads[i]);
    if (cpus) domains[i] = domain_of(topology, cpus);
    hwloc_bitmap_free(cpus);
  }
  if (topology) hwloc_topology_destroy(topology);
}

/* ---- description of the machine, for people ---- */

static void count_domains(hwloc_topology_t topology, struct tu_machine *machine) {
  hwloc_obj_type_t cache = last_level(topology);
  *machine = (struct tu_machine){0};
  for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, o)) != NULL;)
    machine->numa_nodes += !hwloc_bitmap_iszero(o->cpuset);
  if (cache == HWLOC_OBJ_PU) return;
  machine->caches = (uint32_t)hwloc_get_nbobjs_by_type(topology, cache);
  machine->level = hwloc_get_obj_by_type(topology, cache, 0)->attr->cache.depth;
}

/* Computes the domains (NUMA node and cache) of ranks, as if rank r were bound to CPU number (r modulo the number of
 * CPUs) of `cpus`. */
static void take_turns(hwloc_topology_t topology, hwloc_const_cpuset_t cpus, struct tu_domain domains[],
                       uint32_t ranks) {
  hwloc_cpuset_t one = hwloc_bitmap_alloc();
  int cpu = -1;
  for (uint32_t r = 0; r < ranks; r++) {
    cpu = hwloc_bitmap_next(cpus, cpu);
    if (cpu < 0) cpu = hwloc_bitmap_first(cpus);
    if (one && cpu >= 0) hwloc_bitmap_only(one, (unsigned)cpu);
    domains[r] = one ? domain_of(topology, one) : (struct tu_domain){.numa = TU_DOMAIN_ANY, .cache = TU_DOMAIN_ANY};
  }
  hwloc_bitmap_free(one);
}

bool tu_machine_look(struct tu_machine *machine, struct tu_domain domains[], uint32_t ranks) {
  hwloc_topology_t topology = load();
  hwloc_cpuset_t cpus = topology ? cpus_of(topology, 0) : NULL;
  if (cpus) {
    count_domains(topology, machine);
    take_turns(topology, cpus, domains, ranks);
  }
  bool known = cpus != NULL;
  hwloc_bitmap_free(cpus);
  if (topology) hwloc_topology_destroy(topology);
  return known;
}
