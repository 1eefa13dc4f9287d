/* machine_test.c: tests of locality groups, and of domains on synthetic machines of hwloc. */
#include "locality/machine.h"

#include <sched.h>

#include "locality/cpus.h"
#include "test.h"

#define ANY TU_DOMAIN_ANY
enum { RANKS_MAX = 16 };

/* Checks the groups that follow from given domains of the ranks. */
static void test_groups(void) {
  static const struct {
    const char *name;
    uint32_t ranks;
    struct tu_domain domains[RANKS_MAX];
    uint32_t group;
    bool by_cache;
  } table[] = {
      {"one rank", 1, {{0, 0, 0}}, 0, false},
      {"one cache", 4, {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}}, 0, false},
      {"two caches", 4, {{0, 0, 0}, {0, 0, 0}, {0, 1, 0}, {0, 1, 0}}, 2, true},
      {"caches within nodes",
       8,
       {{0, 0, 0}, {0, 0, 0}, {0, 1, 0}, {0, 1, 0}, {1, 2, 0}, {1, 2, 0}, {1, 3, 0}, {1, 3, 0}},
       2,
       true},
      {"a cache for each rank: nodes", 4, {{0, 0, 0}, {0, 1, 0}, {1, 2, 0}, {1, 3, 0}}, 2, false},
      {"caches not known: nodes",
       6,
       {{0, ANY, 0}, {0, ANY, 0}, {0, ANY, 0}, {1, ANY, 0}, {1, ANY, 0}, {1, ANY, 0}},
       3,
       false},
      {"runs of two lengths in caches, not in nodes", 4, {{0, 0, 0}, {0, 0, 0}, {1, 1, 0}, {1, 2, 0}}, 2, false},
      {"runs of two lengths", 3, {{0, 0, 0}, {0, 0, 0}, {1, 1, 0}}, 0, false},
      {"a short last run", 5, {{0, 0, 0}, {0, 0, 0}, {0, 1, 0}, {0, 1, 0}, {0, 2, 0}}, 0, false},
      {"one after the other", 4, {{0, 0, 0}, {1, 1, 0}, {0, 0, 0}, {1, 1, 0}}, 0, false},
      {"in numbers that do not count up",
       6,
       {{1, 7, 0}, {1, 7, 0}, {0, 2, 0}, {0, 2, 0}, {1, 5, 0}, {1, 5, 0}},
       2,
       true},
      {"a domain that comes again",
       8,
       {{0, 0, 0}, {0, 0, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}, {1, 1, 0}, {1, 1, 0}},
       2,
       true},
      {"no rank is bound", 4, {{ANY, ANY, 0}, {ANY, ANY, 0}, {ANY, ANY, 0}, {ANY, ANY, 0}}, 0, false},
      {"one is not bound", 4, {{0, 0, 0}, {0, 0, 0}, {1, 1, 0}, {ANY, ANY, 0}}, 0, false},
      /* each host counts its caches from 0 */
      {"two hosts of one cache", 4, {{0, 0, 0}, {0, 0, 0}, {0, 0, 2}, {0, 0, 2}}, 2, true},
      {"two hosts of two nodes", 4, {{0, 0, 0}, {1, 1, 0}, {0, 0, 2}, {1, 1, 2}}, 0, false},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    bool by_cache;
    uint32_t group = tu_group_of(table[i].domains, table[i].ranks, &by_cache);
    CHECK(group == table[i].group && by_cache == table[i].by_cache, "%s: groups of %u by %s, expected %u",
          table[i].name, group, by_cache ? "cache" : "node", table[i].group);
    CHECK(tu_group_of(table[i].domains, table[i].ranks, NULL) == group, "%s: asked for the size alone", table[i].name);
  }
}

/* Checks machines of other shapes than this one. */
static void test_machines(void) {
  static const struct {
    const char *synthetic;
    struct tu_machine machine;
    uint32_t ranks, group;
    bool by_cache;
  } table[] = {
      {"numa:2 l3:2 core:4 pu:1", {2, 4, 3}, 16, 4, true},      {"numa:2 l3:2 core:4 pu:1", {2, 4, 3}, 8, 4, true},
      {"numa:2 l3:2 core:4 pu:1", {2, 4, 3}, 4, 0, false},      {"numa:2 l3:2 core:4 pu:1", {2, 4, 3}, 12, 4, true},
      {"numa:2 l3:2 core:4 pu:1", {2, 4, 3}, 14, 0, false},     {"numa:2 l3:4 core:1 pu:1", {2, 8, 3}, 8, 4, false},
      {"numa:4 core:3 pu:1", {4, 0, 0}, 12, 3, false},          {"numa:1 l2:2 l1:4 pu:1", {1, 2, 2}, 8, 4, true},
      {"l4:2 l3:2 l2:1 pu:2", {1, 2, 4}, 8, 4, true},           {"numa:1 l3:1 pu:4", {1, 1, 3}, 4, 0, false},
      {"numa:2 pu:2(indexes=0,2,1,3)", {2, 0, 0}, 4, 0, false}, /* CPU 1 is on the second node */
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct tu_machine m;
    struct tu_domain domains[RANKS_MAX];
    bool by_cache;
    setenv("HWLOC_SYNTHETIC", table[i].synthetic, 1);
    if (!tu_machine_look(&m, domains, table[i].ranks)) {
      FAIL("%s: not known", table[i].synthetic);
      continue;
    }
    const struct tu_machine *e = &table[i].machine;
    CHECK(m.numa_nodes == e->numa_nodes && m.caches == e->caches && m.level == e->level,
          "%s: %u nodes, %u caches of level %u", table[i].synthetic, m.numa_nodes, m.caches, m.level);
    uint32_t group = tu_group_of(domains, table[i].ranks, &by_cache);
    CHECK(group == table[i].group && by_cache == table[i].by_cache, "%s, %u ranks: groups of %u by %s, expected %u",
          table[i].synthetic, table[i].ranks, group, by_cache ? "cache" : "node", table[i].group);
  }
  unsetenv("HWLOC_SYNTHETIC");
}

static void bind_to(const cpu_set_t *cpus) {
  if (sched_setaffinity(0, sizeof *cpus, cpus) != 0) FAIL("cannot bind");
}

static struct tu_domain own_domain(void) {
  struct tu_domain domain;
  pid_t thread = tu_bound_thread();
  tu_domains_look(&thread, 1, &domain);
  return domain;
}

/* Binds this thread to real CPUs of a synthetic machine, in which its first two CPUs are nodes with a cache each. */
static void test_own_domain(void) {
  cpu_set_t all, one;
  size_t cpus[2];
  int found = 0;
  char synthetic[128];
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  for (size_t cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
    if (CPU_ISSET(cpu, &all)) cpus[found++] = cpu;
  if (found < 2) {
    SKIP("one CPU: nothing to bind to");
    return;
  }
  snprintf(synthetic, sizeof synthetic, "numa:2 l3:1 pu:1(indexes=%zu,%zu)", cpus[0], cpus[1]);
  setenv("HWLOC_SYNTHETIC", synthetic, 1);
  setenv("HWLOC_THISSYSTEM", "1", 1); /* so that hwloc asks where this thread is bound */
  for (uint32_t i = 0; i < 2; i++) {
    CPU_ZERO(&one);
    CPU_SET(cpus[i], &one);
    bind_to(&one);
    struct tu_cpus mine;
    CHECK(tu_cpus_mine(&mine) == 1, "bound to one");
    struct tu_domain d = own_domain();
    CHECK(d.numa == i && d.cache == i, "CPU %zu: node %u, cache %u", cpus[i], d.numa, d.cache);
  }
  CPU_SET(cpus[0], &one);
  bind_to(&one);
  struct tu_domain d = own_domain();
  CHECK(d.numa == ANY && d.cache == ANY, "on both: node %u, cache %u", d.numa, d.cache);
  bind_to(&all);
  unsetenv("HWLOC_SYNTHETIC");
  unsetenv("HWLOC_THISSYSTEM");
  struct tu_machine m;
  CHECK(tu_machine_look(&m, &d, 1) && m.numa_nodes >= 1, "this machine");
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"groups", test_groups}, {"machines", test_machines}, {"own_domain", test_own_domain}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
