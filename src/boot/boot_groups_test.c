/* boot_groups_test.c: which ranks are a group, and what is read off machines that hwloc makes up. */
#include "boot/boot_groups.h"

#include <sched.h>

#include "base/cpus.h"
#include "test.h"

#define ANY TU_DOMAIN_ANY
enum { RANKS_MAX = 16 };

/* What the ranks say, and what follows. */
static void test_groups(void) {
  static const struct {
    const char *name;
    uint32_t ranks;
    struct tu_boot_domain domains[RANKS_MAX];
    uint32_t group;
    bool by_cache;
  } table[] = {
      {"one rank", 1, {{0, 0}}, 0, false},
      {"one cache", 4, {{0, 0}, {0, 0}, {0, 0}, {0, 0}}, 0, false},
      {"two caches", 4, {{0, 0}, {0, 0}, {0, 1}, {0, 1}}, 2, true},
      {"caches within nodes", 8, {{0, 0}, {0, 0}, {0, 1}, {0, 1}, {1, 2}, {1, 2}, {1, 3}, {1, 3}}, 2, true},
      {"a cache for each rank: nodes", 4, {{0, 0}, {0, 1}, {1, 2}, {1, 3}}, 2, false},
      {"caches not known: nodes", 6, {{0, ANY}, {0, ANY}, {0, ANY}, {1, ANY}, {1, ANY}, {1, ANY}}, 3, false},
      {"runs of two lengths in caches, not in nodes", 4, {{0, 0}, {0, 0}, {1, 1}, {1, 2}}, 2, false},
      {"runs of two lengths", 3, {{0, 0}, {0, 0}, {1, 1}}, 0, false},
      {"a short last run", 5, {{0, 0}, {0, 0}, {0, 1}, {0, 1}, {0, 2}}, 0, false},
      {"one after the other", 4, {{0, 0}, {1, 1}, {0, 0}, {1, 1}}, 0, false},
      {"in numbers that do not count up", 6, {{1, 7}, {1, 7}, {0, 2}, {0, 2}, {1, 5}, {1, 5}}, 2, true},
      {"a domain that comes again", 8, {{0, 0}, {0, 0}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}}, 2, true},
      {"nobody is bound", 4, {{ANY, ANY}, {ANY, ANY}, {ANY, ANY}, {ANY, ANY}}, 0, false},
      {"one is not bound", 4, {{0, 0}, {0, 0}, {1, 1}, {ANY, ANY}}, 0, false},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    bool by_cache;
    uint32_t group = tu_boot_group(table[i].domains, table[i].ranks, &by_cache);
    CHECK(group == table[i].group && by_cache == table[i].by_cache, "%s: groups of %u by %s, expected %u",
          table[i].name, group, by_cache ? "cache" : "node", table[i].group);
    CHECK(tu_boot_group(table[i].domains, table[i].ranks, NULL) == group, "%s: asked for the size alone",
          table[i].name);
  }
}

/* Machines of other shapes than this one. */
static void test_machines(void) {
  static const struct {
    const char *synthetic;
    struct tu_boot_machine machine;
    uint32_t ranks, group;
    bool by_cache;
  } table[] = {
      {"numa:2 l3:2 core:4 pu:1", {2, 4, 3}, 16, 4, true},      {"numa:2 l3:2 core:4 pu:1", {2, 4, 3}, 8, 4, true},
      {"numa:2 l3:2 core:4 pu:1", {2, 4, 3}, 4, 0, false},      {"numa:2 l3:2 core:4 pu:1", {2, 4, 3}, 12, 4, true},
      {"numa:2 l3:2 core:4 pu:1", {2, 4, 3}, 14, 0, false},     {"numa:2 l3:4 core:1 pu:1", {2, 8, 3}, 8, 4, false},
      {"numa:4 core:3 pu:1", {4, 0, 0}, 12, 3, false},          {"numa:1 l2:2 l1:4 pu:1", {1, 2, 2}, 8, 4, true},
      {"l4:2 l3:2 l2:1 pu:2", {1, 2, 4}, 8, 4, true},           {"numa:1 l3:1 pu:4", {1, 1, 3}, 4, 0, false},
      {"numa:2 pu:2(indexes=0,2,1,3)", {2, 0, 0}, 4, 0, false}, /* numbered round: CPU 1 is on the second node */
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct tu_boot_machine m;
    struct tu_boot_domain domains[RANKS_MAX];
    bool by_cache;
    setenv("HWLOC_SYNTHETIC", table[i].synthetic, 1);
    if (!tu_boot_machine(&m, domains, table[i].ranks)) {
      FAIL("%s: not known", table[i].synthetic);
      continue;
    }
    const struct tu_boot_machine *e = &table[i].machine;
    CHECK(m.numa_nodes == e->numa_nodes && m.caches == e->caches && m.level == e->level,
          "%s: %u nodes, %u caches of level %u", table[i].synthetic, m.numa_nodes, m.caches, m.level);
    uint32_t group = tu_boot_group(domains, table[i].ranks, &by_cache);
    CHECK(group == table[i].group && by_cache == table[i].by_cache, "%s, %u ranks: groups of %u by %s, expected %u",
          table[i].synthetic, table[i].ranks, group, by_cache ? "cache" : "node", table[i].group);
  }
  unsetenv("HWLOC_SYNTHETIC");
}

static void bind_to(const cpu_set_t *cpus) {
  if (sched_setaffinity(0, sizeof *cpus, cpus) != 0) FAIL("cannot bind");
}

static struct tu_boot_domain own_domain(void) {
  struct tu_boot_domain domain;
  pid_t thread = tu_boot_bound_thread();
  tu_boot_domains(&thread, 1, &domain);
  return domain;
}

/* This thread on real CPUs of a made-up machine: the first two that it may use, each a node with a cache. */
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
    struct tu_boot_domain d = own_domain();
    CHECK(d.numa == i && d.cache == i, "CPU %zu: node %u, cache %u", cpus[i], d.numa, d.cache);
  }
  CPU_SET(cpus[0], &one);
  bind_to(&one);
  struct tu_boot_domain d = own_domain();
  CHECK(d.numa == ANY && d.cache == ANY, "on both: node %u, cache %u", d.numa, d.cache);
  bind_to(&all);
  unsetenv("HWLOC_SYNTHETIC");
  unsetenv("HWLOC_THISSYSTEM");
  struct tu_boot_machine m;
  CHECK(tu_boot_machine(&m, &d, 1) && m.numa_nodes >= 1, "this machine");
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"groups", test_groups}, {"machines", test_machines}, {"own_domain", test_own_domain}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
