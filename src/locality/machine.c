/* machine.c: asks hwloc where processes are bound, and groups ranks by the answers. Grouping costs a look at each
 * rank. */
#include "locality/machine.h"

#include <hwloc.h>
#include <unistd.h>

#include "locality/cpus.h"

/* ---- groups ---- */

enum level { HOST, NUMA, CACHE };

/* Are two neighbours of one group? Every host counts its nodes and caches from 0. */
static bool are_alike(const struct tu_domain *a, const struct tu_domain *b, enum level level) {
  if (a->host != b->host || level == HOST) return a->host == b->host;
  return level == CACHE ? a->cache == b->cache : a->numa == b->numa;
}

/* The length of the runs of ranks that are alike; 0 unless all are of one length, above 1, and more than one. */
static uint32_t even_runs(const struct tu_domain domains[], uint32_t ranks, enum level level) {
  uint32_t group = 0, length = 0;
  for (uint32_t r = 0; r < ranks; r++) {
    if (level != HOST && (level == CACHE ? domains[r].cache : domains[r].numa) == TU_DOMAIN_ANY) return 0;
    length++;
    if (r + 1 < ranks && are_alike(&domains[r], &domains[r + 1], level)) continue;
    if (group == 0) group = length;
    if (length != group) return 0;
    length = 0;
  }
  return group > 1 && group < ranks ? group : 0;
}

uint32_t tu_group_by_host(const struct tu_domain domains[], uint32_t ranks) { return even_runs(domains, ranks, HOST); }

uint32_t tu_group_of(const struct tu_domain domains[], uint32_t ranks, bool *by_cache) {
  uint32_t group = even_runs(domains, ranks, CACHE);
  if (by_cache) *by_cache = group > 0;
  return group > 0 ? group : even_runs(domains, ranks, NUMA);
}

/* ---- hwloc ---- */

/* NULL if it cannot tell. */
static hwloc_topology_t load(void) {
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) != 0) return NULL;
  /* What its x86 part would add, Linux has told already; and it would send this thread from CPU to CPU to ask each. */
  hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  /* Another process's CPUs may be forbidden to this one. */
  hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(topology) == 0) return topology;
  hwloc_topology_destroy(topology);
  return NULL;
}

/* The caches that are last before memory; HWLOC_OBJ_PU if none are known. */
static hwloc_obj_type_t last_level(hwloc_topology_t topology) {
  static const hwloc_obj_type_t types[] = {HWLOC_OBJ_L5CACHE, HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
    if (hwloc_get_nbobjs_by_type(topology, types[i]) > 0) return types[i];
  return HWLOC_OBJ_PU;
}

/* The number of the smallest object of the type that has all these CPUs: a NUMA node of all CPUs, as memory far from all
 * of them is, says nothing. */
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
  if (hwloc_bitmap_iszero(cpus)) return domain; /* it lies in everything */
  domain.numa = holder(topology, HWLOC_OBJ_NUMANODE, cpus);
  if (cache != HWLOC_OBJ_PU) domain.cache = holder(topology, cache, cpus);
  return domain;
}

/* The CPUs of the topology that a thread may use, 0 being this one; NULL if that is not known. The caller frees it. */
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

/* ---- what a person may see ---- */

static void count_domains(hwloc_topology_t topology, struct tu_machine *machine) {
  hwloc_obj_type_t cache = last_level(topology);
  *machine = (struct tu_machine){0};
  for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, o)) != NULL;)
    machine->numa_nodes += !hwloc_bitmap_iszero(o->cpuset);
  if (cache == HWLOC_OBJ_PU) return;
  machine->caches = (uint32_t)hwloc_get_nbobjs_by_type(topology, cache);
  machine->level = hwloc_get_obj_by_type(topology, cache, 0)->attr->cache.depth;
}

/* The domains of ranks that are bound in turn to these CPUs. */
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
