/* cpus_test.c: tests of affinity masks, cgroup quotas, and the number of ranks per CPU. */
#include "locality/cpus.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "test.h"

enum { RANKS_MAX = 6 };

static const struct {
  uint64_t masks[RANKS_MAX]; /* each rank's mask of CPUs 0 to 63; 0 ends the list */
  uint32_t quota;            /* quota in CPUs; 0: none */
  uint32_t share;            /* expected number of ranks per CPU */
} table[] = {
    {{1}, 0, 1},
    {{3, 3}, 0, 1},
    {{3, 3, 3}, 0, 2},
    {{3, 3, 3, 3, 3}, 0, 3},
    {{1, 2}, 0, 1}, /* each rank is bound to a CPU of its own */
    {{1, 1}, 0, 2},
    {{1, 2, 3}, 0, 2},
    {{1, 3}, 0, 1},
    {{1, 2, 4, 8}, 0, 1},
    {{1, 2, 4, 8}, 2, 2},
    {{15, 15, 15, 15}, 3, 2},
    {{15, 15, 15, 15}, 1, 4},
    {{1, 1, 2, 4}, 0, 2}, /* enough CPUs for four ranks, but two ranks are bound to one */
    {{1, 1, 14, 14}, 0, 2},
    {{3, 3, 12, 12}, 0, 1},
    {{3, 3, 3, 12}, 0, 2},
    {{15, 15, 1, 2}, 0, 1},
    {{3, 6, 5}, 0, 1},
    {{3, 6, 5, 7}, 0, 2},
    {{1, 2, 3, 12, 12, 12}, 0, 2},
    {{1, 1, 1, 14, 14, 14}, 0, 3},
};

static void test_share(void) {
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct tu_cpus cpus[RANKS_MAX] = {0};
    const struct tu_cpus *ranks[RANKS_MAX];
    uint32_t count = 0;
    for (; count < RANKS_MAX && table[i].masks[count]; count++) {
      cpus[count].words[i % TU_CPUS_WORDS] = table[i].masks[count];
      cpus[count].quota = table[i].quota ? table[i].quota : UINT32_MAX;
      ranks[count] = &cpus[count];
    }
    uint32_t share = tu_cpus_share(ranks, count);
    CHECK(share == table[i].share, "row %zu: %u, expected %u", i, share, table[i].share);
  }
}

static void write_file(const char *root, const char *path, const char *text) {
  char full[PATH_MAX];
  snprintf(full, sizeof full, "%s%s", root, path);
  for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(full, 0700);
    *slash = '/';
  }
  FILE *file = fopen(full, "w");
  if (!file || fputs(text, file) < 0 || fclose(file) != 0) FAIL("cannot write %s", full);
}

#define V2_MOUNT "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
#define V1_MOUNT \
  "31 23 0:27 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n32 23 0:28 /box /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"

static void remove_root(const char *root) {
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", root);
  CHECK(system(command) == 0, "cannot remove %s", root);
}

static void test_quota(void) {
  static const struct {
    const char *group, *mounts;
    const char *files[3][2];
    uint32_t cpus;
  } cases[] = {
      {"0::/\n", V2_MOUNT, {{0}}, UINT32_MAX},
      {"0::/a/b\n", V2_MOUNT, {{"/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"}}, UINT32_MAX},
      {"0::/a/b\n", V2_MOUNT, {{"/sys/fs/cgroup/a/b/cpu.max", "250000 100000\n"}}, 3},
      {"0::/a/b\n",
       V2_MOUNT,
       {{"/sys/fs/cgroup/a/b/cpu.max", "800000 100000\n"}, {"/sys/fs/cgroup/a/cpu.max", "150000 100000\n"}},
       2},
      {"0::/a\n", V2_MOUNT, {{"/sys/fs/cgroup/cpu.max", "10000 100000\n"}}, 1},
      {"0::/../other\n", V2_MOUNT, {{"/sys/fs/cgroup/cpu.max", "400000 100000\n"}}, 4},
      {"4:cpuset:/x\n3:cpu,cpuacct:/box/in\n0::/\n",
       V1_MOUNT,
       {{"/cg/cpu/in/cpu.cfs_quota_us", "350000\n"}, {"/cg/cpu/in/cpu.cfs_period_us", "50000\n"}},
       7},
      {"3:cpu,cpuacct:/box\n",
       V1_MOUNT,
       {{"/cg/cpu/cpu.cfs_quota_us", "-1\n"}, {"/cg/cpu/cpu.cfs_period_us", "1\n"}},
       UINT32_MAX},
      {"nonsense", "nonsense", {{0}}, UINT32_MAX},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char root[] = "/tmp/tutti-cpus-XXXXXX";
    if (!mkdtemp(root)) FAIL("cannot make a folder");
    write_file(root, "/proc/self/cgroup", cases[i].group);
    write_file(root, "/proc/self/mountinfo", cases[i].mounts);
    for (int k = 0; k < 3; k++) {
      if (cases[i].files[k][0]) write_file(root, cases[i].files[k][0], cases[i].files[k][1]);
    }
    uint32_t cpus = tu_cpus_quota(root);
    CHECK(cpus == cases[i].cpus, "case %zu: %u CPUs, expected %u", i, cpus, cases[i].cpus);
    remove_root(root);
  }
}

static void write_cache(const char *root, unsigned index, const char *level, const char *size) {
  char path[96];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%u/level", index);
  write_file(root, path, level);
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%u/size", index);
  write_file(root, path, size);
}

static void test_cache(void) {
  char root[] = "/tmp/tutti-cpus-XXXXXX";
  if (!mkdtemp(root)) FAIL("cannot make a folder");
  CHECK(tu_cpus_cache(root) == 0, "%zu bytes where no cache is known", tu_cpus_cache(root));
  write_cache(root, 0, "1\n", "32K\n");
  write_cache(root, 2, "2\n", "1024K\n");
  CHECK(tu_cpus_cache(root) == 0, "%zu bytes where no cache is shared", tu_cpus_cache(root));
  write_cache(root, 3, "3\n", "32768K\n");
  CHECK(tu_cpus_cache(root) == 32 << 20, "%zu bytes of 32 MiB", tu_cpus_cache(root));
  write_cache(root, 4, "4\n", "131072K\n");
  CHECK(tu_cpus_cache(root) == 128 << 20, "%zu bytes of 128 MiB", tu_cpus_cache(root));
  write_cache(root, 4, "4\n", "nonsense\n");
  CHECK(tu_cpus_cache(root) == 0, "%zu bytes of a cache of unknown size", tu_cpus_cache(root));
  remove_root(root);
}

static void test_mine(void) {
  cpu_set_t before, one;
  struct tu_cpus mine;
  sched_getaffinity(0, sizeof before, &before);
  uint32_t count = tu_cpus_mine(&mine);
  CHECK(count >= 1 && count <= (uint32_t)CPU_COUNT(&before), "%u CPUs of %d", count, CPU_COUNT(&before));
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
  static const struct test tests[] = {
      {"share", test_share}, {"quota", test_quota}, {"cache", test_cache}, {"mine", test_mine}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
