/* memory_test.c: many communicators at once exhaust nothing, and what they took comes back when they are freed: pages
 * of the shared memory, the heap, descriptors and mappings. And a rank that talks to all others takes no more than the
 * bound says that docs/PERFORMANCE.md has. */
#include <dirent.h>
#include <malloc.h>
#include <sys/stat.h>

#include "memory_bound.h"
#include "ranks.h"
#include "test.h"

/* HEAP_SLACK: what the C library keeps at hand counts as used. A kilobyte for each communicator would not pass. */
enum { COMMUNICATORS = 64, BYTES = 1 << 20, TIMEOUT_MS = 50000, HEAP_SLACK = 64 << 10 };

struct usage {
  uint64_t shared_bytes; /* of all ranks together */
  uint64_t heap_bytes;   /* 0 where the C library does not say */
  uint64_t fds, mappings;
};

/* No barrier of the library: it would open channels. */
static void meet(struct ranks_world *w) {
  uint64_t before = atomic_fetch_add(&w->shared->numbers[0], 1), all = (before / w->ranks + 1) * w->ranks;
  while (atomic_load(&w->shared->numbers[0]) < all) ranks_sleep_us(100);
}

static uint64_t heap_bytes(void) {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
#else
  return 0;
#endif
}

static uint64_t count_mappings(void) {
  uint64_t lines = 0;
  FILE *file = fopen("/proc/self/maps", "r");
  for (int c; file && (c = getc(file)) != EOF;) lines += c == '\n';
  if (file) fclose(file);
  return lines;
}

/* Counts the descriptors and looks at the library's shared memory through its own: its locks would go with another. */
static void look_at_fds(struct usage *usage) {
  DIR *folder = opendir("/proc/self/fd");
  for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
    char target[64] = "";
    struct stat status;
    usage->fds++;
    if (readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1) > 0 &&
        strncmp(target, "/memfd:tutti", 12) == 0 && fstat((int)strtol(entry->d_name, NULL, 10), &status) == 0)
      usage->shared_bytes = (uint64_t)status.st_blocks * 512;
  }
  if (folder) closedir(folder);
}

static struct usage look(struct ranks_world *w) {
  struct usage usage = {.heap_bytes = heap_bytes(), .mappings = count_mappings()};
  meet(w);
  look_at_fds(&usage);
  meet(w);
  return usage;
}

static tutti_err use_all(struct ranks_world *w, tutti_comm *world, float *buffer, struct usage *held) {
  tutti_comm *comms[COMMUNICATORS] = {NULL};
  tutti_err err = TUTTI_OK;
  for (int i = 0; i < COMMUNICATORS && err == TUTTI_OK; i++) {
    err = tutti_comm_dup(world, &comms[i]);
    if (err == TUTTI_OK)
      err = tutti_allreduce(comms[i], TUTTI_IN_PLACE, buffer, BYTES / sizeof *buffer, TUTTI_F32, TUTTI_SUM);
  }
  *held = look(w);
  for (int i = 0; i < COMMUNICATORS; i++) {
    tutti_err freed = tutti_comm_free(comms[i]);
    if (err == TUTTI_OK) err = freed;
  }
  return err;
}

static bool equal(uint32_t rank, const char *what, uint64_t before, uint64_t after) {
  if (before == after) return true;
  printf("  rank %u: %s: %llu before, %llu after\n", rank, what, (unsigned long long)before, (unsigned long long)after);
  return false;
}

/* The first round leaves what is kept for the next one: channels and requests of the world. */
static int give_back(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  struct usage held, before, after;
  float *buffer = calloc(BYTES, 1);
  if (!buffer || tutti_init(NULL, &world) != TUTTI_OK) return 2;
  if (use_all(w, world, buffer, &held) != TUTTI_OK) return 3;
  before = look(w);
  if (use_all(w, world, buffer, &held) != TUTTI_OK) return 3;
  after = look(w);
  bool good = equal(rank, "bytes of shared memory", before.shared_bytes, after.shared_bytes);
  if (after.heap_bytes >= before.heap_bytes + HEAP_SLACK)
    good = equal(rank, "bytes of the heap", before.heap_bytes, after.heap_bytes);
  good &= equal(rank, "descriptors", before.fds, after.fds) & equal(rank, "descriptors, held", before.fds, held.fds);
#ifndef __SANITIZE_ADDRESS__ /* it maps what the heap needs, and keeps it */
  good &= equal(rank, "mappings", before.mappings, after.mappings);
#endif
  if (held.shared_bytes <= before.shared_bytes) good = equal(rank, "shared memory that is seen to grow", 1, 0);
  free(buffer);
  return tutti_comm_free(world) == TUTTI_OK && good ? 0 : 1;
}

static void play(uint32_t ranks, int (*body)(struct ranks_world *w, uint32_t rank)) {
  struct ranks_world w = {0};
  ranks_start(&w, ranks, body);
  CHECK(ranks_end(&w, TIMEOUT_MS), "%u ranks: did not end within %d ms", ranks, TIMEOUT_MS);
  for (uint32_t rank = 0; rank < ranks; rank++)
    CHECK(w.status[rank] == 0, "%u ranks: rank %u ended with wait status %#x", ranks, rank, (unsigned)w.status[rank]);
  ranks_fini(&w);
}

/* numbers[1]: the bounds of all ranks together. */
static int stay_within_bound(struct ranks_world *w, uint32_t rank) {
  enum { BLOCK_BYTES = 64 << 10 };
  tutti_comm *world;
  uint64_t channels = 0;
  unsigned char *buffer = calloc(2 * w->ranks, BLOCK_BYTES);
  if (!buffer || tutti_init(NULL, &world) != TUTTI_OK) return 2;
  if (tutti_alltoall(world, buffer, buffer + (size_t)w->ranks * BLOCK_BYTES, BLOCK_BYTES, TUTTI_U8) != TUTTI_OK)
    return 3;
  atomic_fetch_add(&w->shared->numbers[1], MEMORY_HEAD_BYTES + memory_bound(world, &channels));
  struct usage usage = look(w);
  uint64_t bound = atomic_load(&w->shared->numbers[1]);
  bool good = usage.shared_bytes > 0 && usage.shared_bytes <= bound;
  if (!good)
    printf("  rank %u: %llu bytes of shared memory, at most %llu expected\n", rank,
           (unsigned long long)usage.shared_bytes, (unsigned long long)bound);
  free(buffer);
  return tutti_comm_free(world) == TUTTI_OK && good ? 0 : 1;
}

static void alltoall_stays_within_bound(void) {
  play(2, stay_within_bound);
  play(5, stay_within_bound);
}

static void communicators_give_back(void) {
  play(2, give_back);
  play(5, give_back);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"communicators_give_back", communicators_give_back},
      {"alltoall_stays_within_bound", alltoall_stays_within_bound},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
