/* memory_test.c: many communicators at a time do not use up a resource, and all they use comes back when they are
 * freed: pages of shared memory, heap, descriptors, mappings. Objects created and freed again and again use no more
 * memory over time. A rank that talks to all others uses no more shared memory than the bound in
 * docs/PERFORMANCE.md. */
#include <dirent.h>
#include <malloc.h>
#include <sys/stat.h>
#include <tutti/channel.h>
#include <tutti/window.h>

#include "memory_bound.h"
#include "ranks.h"
#include "test.h"

/* HEAP_SLACK: tolerance, as freed memory that the C library keeps counts as used. A leak of 1 KiB per communicator
 * exceeds it. */
enum { COMMUNICATORS = 64, BYTES = 1 << 20, TIMEOUT_MS = 50000, HEAP_SLACK = 64 << 10 };

struct usage {
  uint64_t shared_bytes; /* of all ranks together */
  uint64_t heap_bytes;   /* 0 if the C library does not report it */
  uint64_t fds, mappings;
};

/* Waits for all ranks. A barrier of the library would open channels. */
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

/* Counts the descriptors, and finds the size of the library's shared memory. It uses the library's own descriptor, as
 * closing another one of the same file would release the library's file locks. */
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

/* Compares the resources before and after the second round. The first round leaves channels and requests of the world,
 * which later rounds use. Released ranges may rest with their pages, and how many pages of a ring were used depends on time. */
static int give_back(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  struct usage held, before, after;
  float *buffer = calloc(BYTES, 1);
  if (!buffer || tutti_init(NULL, &world) != TUTTI_OK) return 2;
  if (use_all(w, world, buffer, &held) != TUTTI_OK) return 3;
  before = look(w);
  const size_t free_before = tu_transport_free_bytes(world->transport);
  if (use_all(w, world, buffer, &held) != TUTTI_OK) return 3;
  after = look(w);
  bool good = equal(rank, "bytes of the slice that are free", free_before, tu_transport_free_bytes(world->transport));
  if (after.shared_bytes > before.shared_bytes + w->ranks * TU_REST_BYTES_MAX)
    good = equal(rank, "bytes of shared memory", before.shared_bytes, after.shared_bytes);
  if (after.heap_bytes >= before.heap_bytes + HEAP_SLACK)
    good = equal(rank, "bytes of the heap", before.heap_bytes, after.heap_bytes);
  good &= equal(rank, "descriptors", before.fds, after.fds) & equal(rank, "descriptors, held", before.fds, held.fds);
#ifndef __SANITIZE_ADDRESS__ /* AddressSanitizer maps memory for the heap, and keeps it */
  good &= equal(rank, "mappings", before.mappings, after.mappings);
#endif
  if (held.shared_bytes <= before.shared_bytes)
    good = equal(rank, "shared memory did not grow with communicators", 1, 0);
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

/* Checks the shared memory in use against the bound. numbers[1] is the sum of all ranks' bounds. */
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

/* ---- objects created and freed again and again ---- */

enum { CYCLES = 120, CYCLES_SLACK = 12 << 10, LONG_BYTES = 64 << 10, PAGE_BYTES = 4096 };

static bool cycle_allocation(tutti_comm *comm, float *buffer) {
  void *memory;
  (void)buffer;
  return tutti_alloc(comm, LONG_BYTES, &memory) == TUTTI_OK && tutti_free(comm, memory) == TUTTI_OK;
}

static bool cycle_registration(tutti_comm *comm, float *buffer) {
  return tutti_register(comm, buffer, LONG_BYTES) == TUTTI_OK && tutti_deregister(comm, buffer) == TUTTI_OK;
}

static bool cycle_window(tutti_comm *comm, float *buffer) {
  tutti_window *window;
  (void)buffer;
  return tutti_window_create(comm, NULL, 5000, &window) == TUTTI_OK && tutti_window_free(window) == TUTTI_OK;
}

static bool cycle_split(tutti_comm *comm, float *buffer) {
  tutti_comm *half;
  (void)buffer;
  return tutti_comm_split(comm, (int)(tutti_rank(comm) % 2), 0, &half) == TUTTI_OK && tutti_barrier(half) == TUTTI_OK &&
         tutti_comm_free(half) == TUTTI_OK;
}

/* Uses every kind of channel: inline messages, a short ring, a longer ring, rings for many readers, and lanes of send
 * and recv. */
static bool use_all_channels(tutti_comm *comm, float *buffer) {
  uint32_t rank = tutti_rank(comm), ranks = tutti_ranks(comm);
  for (size_t bytes = 8; bytes <= LONG_BYTES; bytes *= 16) {
    const tutti_call calls[] = {
        {.collective = TUTTI_ALLREDUCE, .send = TUTTI_IN_PLACE, .recv = buffer, .count = bytes / 4, .type = TUTTI_F32},
        {.collective = TUTTI_BROADCAST, .recv = buffer, .count = bytes / 4, .type = TUTTI_F32, .algorithm = "direct"}};
    for (int i = 0; i < 2; i++) {
      tutti_call call = calls[i];
      tutti_request *request;
      if (i == 1 && rank == 0) call.send = buffer, call.recv = NULL;
      if (tutti_start(comm, &call, &request) != TUTTI_OK || tutti_wait(&request) != TUTTI_OK) return false;
    }
  }
  tutti_request *requests[2];
  const tutti_call send = {.collective = TUTTI_SEND,
                           .send = buffer,
                           .count = 500,
                           .type = TUTTI_F32,
                           .peer = (rank + 1) % ranks},
                   recv = {.collective = TUTTI_RECV,
                           .recv = buffer + 500,
                           .count = 500,
                           .type = TUTTI_F32,
                           .peer = (rank + ranks - 1) % ranks};
  return tutti_start(comm, &send, &requests[0]) == TUTTI_OK && tutti_start(comm, &recv, &requests[1]) == TUTTI_OK &&
         tutti_wait(&requests[0]) == TUTTI_OK && tutti_wait(&requests[1]) == TUTTI_OK;
}

static bool cycle_communicator(tutti_comm *comm, float *buffer) {
  tutti_comm *copy;
  return tutti_comm_dup(comm, &copy) == TUTTI_OK && use_all_channels(copy, buffer) && tutti_comm_free(copy) == TUTTI_OK;
}

/* Repeats a call so often that its rings are replaced by longer ones. */
static bool cycle_worn_rings(tutti_comm *comm, float *buffer) {
  tutti_comm *copy;
  if (tutti_comm_dup(comm, &copy) != TUTTI_OK) return false;
  for (int i = 0; i < 400; i++)
    if (tutti_allreduce(copy, TUTTI_IN_PLACE, buffer, 1024, TUTTI_F32, TUTTI_SUM) != TUTTI_OK) return false;
  return tutti_comm_free(copy) == TUTTI_OK;
}

/* Rank 0 sends rank 1 one message, over a channel opened and closed for it. */
static bool cycle_channel(tutti_comm *comm, float *buffer) {
  const tutti_channel_options options = {.slots = 2, .slot_bytes = PAGE_BYTES, .ending = TUTTI_CHANNEL_MARKED};
  uint32_t rank = tutti_rank(comm);
  tutti_channel *channel;
  void *slot;
  tutti_channel_message message;
  (void)buffer;
  if (rank > 1) return true;
  tutti_channel_direction direction = rank == 0 ? TUTTI_CHANNEL_SENDS : TUTTI_CHANNEL_RECEIVES;
  if (tutti_channel_open(comm, 1 - rank, direction, &options, &channel) != TUTTI_OK) return false;
  bool good = rank == 0 ? tutti_channel_acquire(channel, 0, &slot) == TUTTI_OK &&
                              tutti_channel_commit(channel, PAGE_BYTES, true) == TUTTI_OK
                        : tutti_channel_peek(channel, 0, 0, &message) == TUTTI_OK &&
                              tutti_channel_ack(channel) == TUTTI_OK && tutti_channel_release(channel) == TUTTI_OK;
  return good && tutti_channel_close(channel, 0) == TUTTI_OK;
}

struct cycle {
  const char *name;
  int cycles;
  bool (*go)(tutti_comm *comm, float *buffer);
};

static const struct cycle all_cycles[] = {
    {"alloc and free", CYCLES, cycle_allocation},
    {"register and deregister", 600, cycle_registration},
    {"window create and free", CYCLES, cycle_window},
    {"split and free", CYCLES, cycle_split},
    {"dup, calls of all kinds and free", CYCLES, cycle_communicator},
    {"dup, calls until rings grow and free", 3, cycle_worn_rings},
    {"channel build and close", CYCLES, cycle_channel},
};

/* Checks that repeated cycles use no more memory. CYCLES_SLACK is a tolerance, as freed memory that the C library keeps
 * counts as used; a leak of 48 bytes per registration, which there was once, exceeds it. */
static int cycles_take_nothing(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  (void)rank;
  float *buffer = mmap(NULL, LONG_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (buffer == MAP_FAILED || tutti_init(NULL, &world) != TUTTI_OK) return 2;
  bool good = true;
  for (size_t i = 0; i < sizeof all_cycles / sizeof all_cycles[0] && good; i++) {
    const struct cycle *c = &all_cycles[i];
    for (int k = 0; k < c->cycles && good; k++)
      good = c->go(world, buffer); /* the first cycles leave what later ones use again */
    size_t free_before = tu_transport_free_bytes(world->transport);
    uint64_t heap[3] = {heap_bytes()};
    for (int half = 1; half <= 2; half++) { /* a leak goes on; what the C library keeps once does not */
      for (int k = 0; k < c->cycles && good; k++) good = c->go(world, buffer);
      heap[half] = heap_bytes();
    }
    if (!good) printf("  %s: %s\n", c->name, tutti_error_message(NULL));
    good &= equal(rank, c->name, free_before, tu_transport_free_bytes(world->transport));
    if (heap[1] > heap[0] + CYCLES_SLACK && heap[2] > heap[1] + CYCLES_SLACK)
      good = equal(rank, c->name, heap[0], heap[2]);
  }
  meet(w);
  return tutti_comm_free(world) == TUTTI_OK && good ? 0 : 1;
}

static void cycles(void) {
  play(2, cycles_take_nothing);
  play(3, cycles_take_nothing);
}

/* ---- very many communicators at a time ---- */

enum { VERY_MANY = 2000, SOME_BYTES = 16 << 10 };

static bool call_in_all(tutti_comm *comms[], float *buffer, size_t bytes, uint32_t rank) {
  for (int i = 0; i < VERY_MANY; i++) {
    for (size_t k = 0; k < bytes / 4; k++) buffer[k] = (float)(rank + 1);
    if (tutti_allreduce(comms[i], TUTTI_IN_PLACE, buffer, bytes / 4, TUTTI_F32, TUTTI_SUM) != TUTTI_OK) {
      printf("  communicator %d, %zu bytes: %s\n", i, bytes, tutti_error_message(comms[i]));
      return false;
    }
    if (buffer[0] != 3 || buffer[bytes / 4 - 1] != 3) return false;
  }
  return true;
}

/* Holds 2000 communicators, and runs a short call on each, then a longer one; on the last one also a long call. */
static int hold_very_many(struct ranks_world *w, uint32_t rank) {
  static tutti_comm *comms[VERY_MANY];
  tutti_comm *world;
  (void)w;
  float *buffer = calloc(BYTES, 1);
  setenv("TUTTI_SHM_BYTES", "1G", 1);
  if (!buffer || tutti_init(NULL, &world) != TUTTI_OK) return 2;
  if (tutti_barrier(world) != TUTTI_OK) return 2; /* creates the world's own channels before the measurement */
  size_t before = tu_transport_free_bytes(world->transport);
  for (int i = 0; i < VERY_MANY; i++)
    if (tutti_comm_dup(world, &comms[i]) != TUTTI_OK) {
      printf("  communicator %d: %s\n", i, tutti_error_message(NULL));
      return 3;
    }
  if (!call_in_all(comms, buffer, 8, rank)) return 4;
  size_t shortly = tu_transport_free_bytes(world->transport);
  if (!call_in_all(comms, buffer, SOME_BYTES, rank)) return 5;
  if (tutti_allreduce(comms[VERY_MANY - 1], TUTTI_IN_PLACE, buffer, BYTES / 4, TUTTI_F32, TUTTI_SUM) != TUTTI_OK)
    return 6;
  size_t later = tu_transport_free_bytes(world->transport);
  if (rank == 0)
    printf("  %d communicators of 2 ranks: %zu KiB each after 8 bytes, %zu KiB after %d\n", VERY_MANY,
           (before - shortly) / VERY_MANY >> 10, (before - later) / VERY_MANY >> 10, SOME_BYTES);
  for (int i = 0; i < VERY_MANY; i++)
    if (tutti_comm_free(comms[i]) != TUTTI_OK) return 7;
  bool good = equal(rank, "free bytes of the slice", before, tu_transport_free_bytes(world->transport));
  free(buffer);
  return tutti_comm_free(world) == TUTTI_OK && good ? 0 : 1;
}

static void very_many_fit(void) { play(2, hold_very_many); }

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"communicators_give_back", communicators_give_back},
      {"alltoall_stays_within_bound", alltoall_stays_within_bound},
      {"cycles", cycles},
      {"very_many_fit", very_many_fit},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
