/* cpus.c: reads the affinity mask of a thread, and computes how many ranks share a CPU. */
#include "locality/cpus.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

enum { MASK_CPUS_MAX = 1 << 16, CACHES_MAX = 16 };

/* Adds the CPUs of the calling thread's affinity mask to `set`, and returns how many there are. `cpus` is the size of
 * the buffer for the mask, in bits. Returns 0 if the kernel's mask is longer, and -1 if the mask cannot be read. */
static int read_mask(struct tu_cpus *set, size_t cpus) {
  cpu_set_t *mask = CPU_ALLOC(cpus);
  if (!mask) return -1;
  size_t bytes = CPU_ALLOC_SIZE(cpus);
  bool got = sched_getaffinity(0, bytes, mask) == 0;
  int count = got ? CPU_COUNT_S(bytes, mask) : errno == EINVAL ? 0 : -1;
  for (size_t c = 0; got && c < cpus; c++)
    if (CPU_ISSET_S(c, bytes, mask)) set->words[c / 64 % TU_CPUS_WORDS] |= UINT64_C(1) << c % 64;
  CPU_FREE(mask);
  return count;
}

static uint32_t count_mine(struct tu_cpus *cpus) {
  int count = 0;
  /* The kernel rejects a mask that is shorter than its own, and does not report the length. So try longer and longer
   * masks. */
  for (size_t size = 1024; size <= MASK_CPUS_MAX && count == 0; size *= 2) count = read_mask(cpus, size);
  if (count > 0) return (uint32_t)count;
  for (uint32_t w = 0; w < TU_CPUS_WORDS; w++) cpus->words[w] = UINT64_MAX;
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (uint32_t)online : 1;
}

uint32_t tu_cpus_mine(struct tu_cpus *cpus) {
  *cpus = (struct tu_cpus){.quota = tu_cpus_quota("")};
  return (uint32_t)tu_max(1, tu_min(count_mine(cpus), cpus->quota));
}

/* Reads a number that describes a cache of CPU 0 (a size is in KiB, with a K). Returns 0 if there is no such file. */
static size_t read_of_cache(const char *root, unsigned cache, const char *name) {
  char path[PATH_MAX];
  unsigned long number = 0;
  (void)snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu0/cache/index%u/%s", root, cache, name);
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  if (fscanf(file, "%lu", &number) != 1) number = 0;
  (void)fclose(file);
  return number;
}

size_t tu_cpus_cache(const char *root) {
  size_t level = 2, bytes = 0;
  for (unsigned i = 0; i < CACHES_MAX; i++) {
    const size_t its_level = read_of_cache(root, i, "level");
    if (its_level <= level) continue;
    level = its_level;
    bytes = read_of_cache(root, i, "size") << 10;
  }
  return bytes;
}

static uint32_t count_of(const struct tu_cpus *cpus) {
  uint32_t count = 0;
  for (uint32_t w = 0; w < TU_CPUS_WORDS; w++) count += (uint32_t)__builtin_popcountll(cpus->words[w]);
  return count;
}

static bool within(const struct tu_cpus *inner, const struct tu_cpus *outer) {
  uint64_t beyond = 0;
  for (uint32_t w = 0; w < TU_CPUS_WORDS; w++) beyond |= inner->words[w] & ~outer->words[w];
  return beyond == 0;
}

/* Counts the ranks that may use only CPUs of `cpus`. Returns this number divided by the number of CPUs, rounded up. */
static uint32_t share_of(const struct tu_cpus *cpus, const struct tu_cpus *const ranks[], uint32_t count) {
  uint32_t users = 0, have = (uint32_t)tu_max(1, tu_min(count_of(cpus), cpus->quota));
  for (uint32_t r = 0; r < count; r++) users += within(ranks[r], cpus);
  return (users + have - 1) / have;
}

uint32_t tu_cpus_share(const struct tu_cpus *const ranks[], uint32_t count) {
  struct tu_cpus all = {.quota = UINT32_MAX};
  uint32_t share = 1;
  for (uint32_t r = 0; r < count; r++) {
    for (uint32_t w = 0; w < TU_CPUS_WORDS; w++) all.words[w] |= ranks[r]->words[w];
    all.quota = (uint32_t)tu_min(all.quota, ranks[r]->quota);
    share = (uint32_t)tu_max(share, share_of(ranks[r], ranks, count));
  }
  return (uint32_t)tu_max(share, share_of(&all, ranks, count));
}

bool tu_cpus_are_amd(void) {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}

uint32_t tu_cpus_share_alike(uint32_t count) {
  struct tu_cpus mine;
  uint32_t cpus = tu_cpus_mine(&mine);
  return (count + cpus - 1) / cpus;
}
