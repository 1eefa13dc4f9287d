/* cpus_test.c: what a thread's mask says, and which masks crowd. */
#include "base/cpus.h"

#include <sched.h>

#include "test.h"

enum { RANKS_MAX = 6 };

static const struct {
  uint64_t masks[RANKS_MAX]; /* of CPUs 0 to 63; 0 ends them */
  bool crowded;
} table[] = {
    {{1}, false},
    {{3, 3}, false},
    {{3, 3, 3}, true},
    {{1, 2}, false}, /* each rank bound to a CPU of its own sees one CPU, and has it */
    {{1, 1}, true},
    {{1, 2, 3}, true},
    {{1, 3}, false},
    {{1, 2, 4, 8}, false},
    {{1, 1, 2, 4}, true}, /* four ranks, and enough CPUs, but two on one */
    {{1, 1, 14, 14}, true},
    {{3, 3, 12, 12}, false},
    {{3, 3, 3, 12}, true},
    {{15, 15, 1, 2}, false},
    {{3, 6, 5}, false},
    {{3, 6, 5, 7}, true},
    {{1, 2, 3, 12, 12, 12}, true},
};

static void test_crowded(void) {
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct tu_cpus cpus[RANKS_MAX] = {0};
    const struct tu_cpus *ranks[RANKS_MAX];
    uint32_t count = 0;
    for (; count < RANKS_MAX && table[i].masks[count]; count++) {
      cpus[count].words[i % TU_CPUS_WORDS] = table[i].masks[count];
      ranks[count] = &cpus[count];
    }
    bool crowded = tu_cpus_crowded(ranks, count);
    CHECK(crowded == table[i].crowded, "row %zu: %d", i, crowded);
  }
}

static void test_mine(void) {
  cpu_set_t before, one;
  struct tu_cpus mine;
  sched_getaffinity(0, sizeof before, &before);
  uint32_t count = tu_cpus_mine(&mine);
  CHECK(count == (uint32_t)CPU_COUNT(&before), "%u CPUs of %d", count, CPU_COUNT(&before));
  for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    CHECK((mine.words[cpu / 64] >> cpu % 64 & 1) == (uint64_t) !!CPU_ISSET(cpu, &before), "CPU %zu", cpu);
    if (!CPU_ISSET(cpu, &before)) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
  }
  sched_setaffinity(0, sizeof one, &one);
  count = tu_cpus_mine(&mine);
  CHECK(count == 1, "%u CPUs where one is allowed", count);
  sched_setaffinity(0, sizeof before, &before);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"crowded", test_crowded}, {"mine", test_mine}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
