/* test: slow timeout=600 */
/* heap_test.c: shared memory (tutti_alloc, tutti_register), through public calls only, with real processes: errors and
 * their messages; every collective with buffers of each rank in a different kind of memory; memory that is freed as
 * soon as a call is done; a rank that dies while others read from its memory or store into it. */
#include "buffers.h"
#include "plan/collective.h"
#include "ranks.h"
#include "reference.h"
#include "test.h"

enum { IN_TIME_MS = 10000, HANG_MS = 60000, SLOT_BYTES = 10 << 20, PAGE = 4096 };

static tutti_comm *join(uint32_t rank) {
  tutti_comm *world = NULL;
  test_failures = 0; /* failures of earlier ranks do not count for this one */
  if (tutti_init(&(tutti_options){.timeout_ms = 20000}, &world) == TUTTI_OK) return world;
  printf("  rank %u cannot join: %s\n", rank, tutti_error_message(NULL));
  fflush(stdout);
  _exit(9);
}

/* Returns the exit status of a rank, which checks and prints its own failures. */
static int verdict(void) { return test_failures ? 1 : 0; }

static void play(const char *name, uint32_t ranks, uint64_t seed, int (*body)(struct ranks_world *w, uint32_t rank)) {
  struct ranks_world w = {.seed = seed};
  ranks_start(&w, ranks, body);
  bool in_time = ranks_end(&w, HANG_MS);
  CHECK(in_time, "%s, %u ranks: hangs", name, ranks);
  for (uint32_t r = 0; r < ranks && in_time; r++)
    CHECK(w.status[r] == 0, "%s, %u ranks: rank %u ended with status %x", name, ranks, r, (unsigned)w.status[r]);
  ranks_fini(&w);
}

static void good(tutti_err err, const char *what) {
  CHECK(err == TUTTI_OK, "%s: %s: %s", what, tutti_err_name(err), tutti_error_message(NULL));
}

static unsigned char *map_pages(size_t bytes) {
  unsigned char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) abort();
  return memory;
}

/* ---- errors ---- */

static void refused(tutti_err err, tutti_err wanted, const char *words, const char *what) {
  CHECK(err == wanted, "%s: %s, expected %s", what, tutti_err_name(err), tutti_err_name(wanted));
  CHECK(err == TUTTI_OK || strstr(tutti_error_message(NULL), words), "%s: '%s' is not in: %s", what, words,
        tutti_error_message(NULL));
}

static void refuse_allocations(tutti_comm *world) {
  void *memory = NULL, *other = &memory;
  int mine = 0;
  refused(tutti_alloc(NULL, 10, &memory), TUTTI_ERR_ARGUMENT, "tutti_alloc", "alloc without a communicator");
  refused(tutti_alloc(world, 10, NULL), TUTTI_ERR_ARGUMENT, "tutti_alloc", "alloc without an address for the result");
  refused(tutti_alloc(world, (size_t)100 << 20, &other), TUTTI_ERR_MEMORY, "TUTTI_SHM_BYTES", "alloc of too much");
  CHECK(other == NULL, "after a failed alloc, memory is %p", other);
  refused(tutti_alloc(world, SIZE_MAX, &other), TUTTI_ERR_MEMORY, "TUTTI_SHM_BYTES", "alloc of SIZE_MAX");
  refused(tutti_alloc(world, SIZE_MAX - 5000, &other), TUTTI_ERR_MEMORY, "TUTTI_SHM_BYTES", "alloc of almost SIZE_MAX");
  good(tutti_alloc(world, 0, &memory), "alloc of 0 bytes");
  good(tutti_free(world, memory), "free of 0 bytes");
  good(tutti_alloc(world, 3 * PAGE, &memory), "alloc");
  CHECK((uintptr_t)memory % PAGE == 0, "%p is not aligned to a page", memory);
  memset(memory, 1, (size_t)3 * PAGE);
  good(tutti_free(world, NULL), "free of NULL");
  good(tutti_free(NULL, NULL), "free of NULL without a communicator");
  refused(tutti_free(NULL, memory), TUTTI_ERR_ARGUMENT, "tutti_free", "free without a communicator");
  refused(tutti_free(world, (char *)memory + 1), TUTTI_ERR_ARGUMENT, "beginning",
          "free with an address one byte behind the beginning");
  refused(tutti_free(world, (char *)memory + PAGE), TUTTI_ERR_ARGUMENT, "beginning",
          "free with an address one page behind the beginning");
  refused(tutti_free(world, &mine), TUTTI_ERR_ARGUMENT, "beginning", "free of the stack");
  good(tutti_free(world, memory), "free");
  refused(tutti_free(world, memory), TUTTI_ERR_ARGUMENT, "beginning", "free twice");
  tutti_comm *copy; /* uses memory of the same slice, perhaps the freed piece */
  good(tutti_comm_dup(world, &copy), "dup");
  refused(tutti_free(world, memory), TUTTI_ERR_ARGUMENT, "beginning", "free of the library's own memory");
  good(tutti_comm_free(copy), "free of the dup");
}

static void refuse_registrations(tutti_comm *world) {
  void *heap = NULL;
  unsigned char *memory = map_pages((size_t)8 * PAGE), *large = map_pages((size_t)100 << 20);
  for (size_t i = 0; i < 8; i++) memory[i * PAGE] = (unsigned char)(i + 1);
  good(tutti_alloc(world, PAGE, &heap), "alloc");
  refused(tutti_register(NULL, memory, PAGE), TUTTI_ERR_ARGUMENT, "tutti_register", "register without a communicator");
  refused(tutti_register(world, NULL, PAGE), TUTTI_ERR_ARGUMENT, "tutti_register", "register NULL");
  refused(tutti_register(world, memory, 0), TUTTI_ERR_ARGUMENT, "tutti_register", "register 0 bytes");
  refused(tutti_register(world, memory + 8, PAGE), TUTTI_ERR_ARGUMENT, "whole pages", "register from within a page");
  refused(tutti_register(world, memory, PAGE + 8), TUTTI_ERR_ARGUMENT, "whole pages", "register a part of a page");
  refused(tutti_register(world, heap, PAGE), TUTTI_ERR_ARGUMENT, "shared", "register the heap");
  refused(tutti_deregister(world, memory), TUTTI_ERR_ARGUMENT, "not registered",
          "deregister memory that is not registered");
  refused(tutti_deregister(world, NULL), TUTTI_ERR_ARGUMENT, "tutti_deregister", "deregister NULL");
  refused(tutti_deregister(NULL, memory), TUTTI_ERR_ARGUMENT, "tutti_deregister", "deregister without a communicator");
  good(tutti_register(world, memory + (size_t)2 * PAGE, (size_t)4 * PAGE), "register");
  unsigned char *const overlapping[] = {memory + (size_t)2 * PAGE, memory + (size_t)3 * PAGE, memory + PAGE, memory};
  const size_t pages[] = {4, 1, 2, 8};
  for (int i = 0; i < 4; i++)
    refused(tutti_register(world, overlapping[i], pages[i] * PAGE), TUTTI_ERR_ARGUMENT, "shared",
            "register memory that is registered, in part or as a whole");
  refused(tutti_free(world, memory + (size_t)2 * PAGE), TUTTI_ERR_ARGUMENT, "beginning", "free of registered memory");
  refused(tutti_deregister(world, memory + (size_t)3 * PAGE), TUTTI_ERR_ARGUMENT, "not registered",
          "deregister from the middle of a registration");
  refused(tutti_deregister(world, heap), TUTTI_ERR_ARGUMENT, "not registered", "deregister the heap");
  good(tutti_deregister(world, memory + (size_t)2 * PAGE), "deregister");
  refused(tutti_deregister(world, memory + (size_t)2 * PAGE), TUTTI_ERR_ARGUMENT, "not registered", "deregister twice");
  if (tutti_ranks(world) > 1)
    refused(tutti_register(world, large, (size_t)100 << 20), TUTTI_ERR_MEMORY, "TUTTI_SHM_BYTES", "register too much");
  for (size_t i = 0; i < 8; i++) CHECK(memory[i * PAGE] == i + 1, "page %zu has changed", i);
  good(tutti_free(world, heap), "free");
  munmap(memory, (size_t)8 * PAGE);
  munmap(large, (size_t)100 << 20);
}

/* An error of these calls concerns one rank only; the world works as before. */
static int refusals(struct ranks_world *w, uint32_t rank) {
  setenv("TUTTI_SHM_BYTES", "16M", 1);
  tutti_comm *world = join(rank);
  refuse_allocations(world);
  refuse_registrations(world);
  int32_t one = 1, sum = 0;
  good(tutti_allreduce(world, &one, &sum, 1, TUTTI_I32, TUTTI_SUM), "allreduce");
  CHECK(sum == (int32_t)w->ranks, "the sum is %d", sum);
  good(tutti_comm_free(world), "free of the world");
  return verdict();
}

static void what_cannot_be_is_refused(void) {
  for (uint32_t ranks = 1; ranks <= 2; ranks++) play("refusals", ranks, 0, refusals);
}

/* ---- results ---- */

/* Sizes around a page, around the length from which messages are lent, and of several slices and segments. */
static const size_t sizes[] = {0,      8, 4088, 4096, 4104, (32 << 10) - 8, 32 << 10, (64 << 10) + 8, (1 << 20) + 16,
                               9 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0], LONG_FROM = SIZES - 2 };

static struct ref_case draw_case(tutti_collective collective, size_t bytes, uint32_t ranks, uint64_t *state) {
  static const tutti_datatype types[] = {TUTTI_F64, TUTTI_I32, TUTTI_U8, TUTTI_BF16};
  struct ref_case c = {.collective = collective, .ranks = ranks};
  c.type = bytes > sizes[LONG_FROM] ? TUTTI_F64 : types[ranks_random(state) % 4];
  bool shares = ref_longer_of(collective) || ref_vector(collective) || collective == TUTTI_ALLTOALL;
  c.count = bytes / ref_item_bytes(c.type) / (bytes > sizes[LONG_FROM] && shares ? ranks : 1);
  c.aliasing = collective == TUTTI_BARRIER ? REF_APART : (enum ref_aliasing)(ranks_random(state) % REF_ALIASINGS);
  c.blocks = (enum ref_blocks)(ranks_random(state) % REF_BLOCKS);
  c.root = (uint32_t)(ranks_random(state) % ranks);
  c.op = ranks_random(state) % 3 ? TUTTI_SUM : TUTTI_PREMUL_SUM;
  c.seed = ranks_random(state);
  c.pointers = c.seed >> 63;
  return c;
}

static void judge(const struct ref_run *run) {
  char text[768];
  if (!ref_agrees(run, text, sizeof text)) FAIL("%s", text);
}

/* Runs a case twice, as the second call may take other paths. */
static bool carry_out(tutti_comm *comm, const struct ref_case *c) {
  struct ref_run run;
  ref_run_init(&run, c, tutti_rank(comm));
  tutti_err err = TUTTI_OK;
  for (int round = 0; round < 2 && err == TUTTI_OK; round++) {
    tutti_request *request;
    ref_fill(&run);
    ref_want(&run);
    err = tutti_start(comm, &run.call, &request);
    if (err == TUTTI_OK) err = tutti_wait(&request);
    if (err == TUTTI_OK) judge(&run);
  }
  char text[512];
  ref_case_print(c, text, sizeof text);
  good(err, text);
  ref_run_fini(&run);
  return err == TUTTI_OK;
}

static tutti_comm *join_with_buffers(uint32_t rank) {
  tutti_comm *world = join(rank);
  good(buffers_init(world, SLOT_BYTES), "buffers");
  ref_memory = (struct ref_memory){buffers_acquire, buffers_release};
  return world;
}

static int leave(tutti_comm *world) {
  good(buffers_fini(), "end of the buffers");
  good(tutti_comm_free(world), "free of the world");
  return verdict();
}

static int collectives(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world = join_with_buffers(rank);
  uint64_t state = w->seed;
  int rounds = test_long() ? 10 : 1;
  for (int round = 0; round < rounds; round++)
    for (tutti_collective k = 0; k < TUTTI_SEND; k = tu_collective_next(k))
      for (int size = 0; size < SIZES; size++) {
        struct ref_case c = draw_case(k, sizes[size], w->ranks, &state);
        if (size >= LONG_FROM && ranks_random(&state) % 3 && !test_long()) continue;
        if (!carry_out(world, &c)) return 1;
      }
  return leave(world);
}

static void every_collective_from_every_memory(void) {
  uint64_t seed = test_seed();
  for (uint32_t ranks = 1; ranks <= 5; ranks++) play("collectives", ranks, seed + ranks, collectives);
}

/* ---- several calls at a time ---- */

static void open_several(tutti_comm *const comms[], uint32_t comm_count, uint64_t seed) {
  enum { OPEN = 9 };
  static const tutti_collective kinds[] = {TUTTI_ALLREDUCE, TUTTI_ALLGATHER,      TUTTI_BROADCAST,
                                           TUTTI_ALLTOALL,  TUTTI_REDUCE_SCATTER, TUTTI_SCAN};
  struct ref_run runs[OPEN];
  tutti_request *requests[OPEN] = {NULL};
  for (uint32_t i = 0; i < OPEN; i++) {
    tutti_comm *comm = comms[i % comm_count];
    uint64_t state = seed + i; /* equal on all ranks of this communicator only */
    struct ref_case c =
        draw_case(kinds[ranks_random(&state) % 6], 4096u << ranks_random(&state) % 8, tutti_ranks(comm), &state);
    ref_run_init(&runs[i], &c, tutti_rank(comm));
    ref_fill(&runs[i]);
    ref_want(&runs[i]);
    good(tutti_start(comm, &runs[i].call, &requests[i]), "start");
  }
  for (uint32_t i = OPEN; i-- > 0;) {
    good(tutti_wait(&requests[i]), "wait");
    judge(&runs[i]);
    ref_run_fini(&runs[i]);
  }
}

static int several(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world = join_with_buffers(rank), *comms[3] = {world};
  good(tutti_comm_dup(world, &comms[1]), "dup");
  good(tutti_comm_split(world, (int)(rank % 2), -(int)rank, &comms[2]), "split");
  for (uint64_t round = 0; round < (test_long() ? 200 : 12) && !test_failures; round++)
    open_several(comms, 3, w->seed + round * 100);
  good(tutti_comm_free(comms[2]), "free of a part");
  good(tutti_comm_free(comms[1]), "free of a dup");
  return leave(world);
}

static void several_calls_are_open(void) {
  uint64_t seed = test_seed();
  for (uint32_t ranks = 2; ranks <= 4; ranks++) play("several", ranks, seed + ranks, several);
}

/* ---- messages ---- */

enum { MESSAGE_ITEMS = 700000, MESSAGES = 3 };

static void fill_messages(int64_t *messages[MESSAGES], const size_t counts[MESSAGES], uint32_t rank) {
  for (int k = 0; k < MESSAGES; k++)
    for (size_t i = 0; i < counts[k]; i++) messages[k][i] = (int64_t)(rank * 1000u + (uint32_t)k) << 32 | (int64_t)i;
}

/* Sends messages round a ring, received in another order than sent. Sent buffers are overwritten as soon as their
 * requests are done. */
static void pass_round(tutti_comm *world, uint64_t *state) {
  uint32_t n = tutti_ranks(world), rank = tutti_rank(world), to = (rank + 1) % n, from = (rank + n - 1) % n;
  static const size_t lengths[] = {1, 5, 511, 513, 8192, 262144, 262145, MESSAGE_ITEMS};
  int64_t *in[MESSAGES], *out[MESSAGES];
  size_t counts[MESSAGES];
  tutti_request *sends[MESSAGES], *receives[MESSAGES];
  for (int k = 0; k < MESSAGES; k++) {
    uint64_t own = ref_hash(*state, rank, (uint64_t)k, 3);
    counts[k] = lengths[ranks_random(state) % 8];
    in[k] = buffers_acquire(counts[k] * 8, own);
    out[k] = buffers_acquire(counts[k] * 8, own >> 7);
  }
  fill_messages(in, counts, rank);
  for (uint32_t k = 0; k < MESSAGES; k++)
    good(tutti_start(
             world,
             &(tutti_call){
                 .collective = TUTTI_SEND, .send = in[k], .count = counts[k], .type = TUTTI_I64, .peer = to, .tag = k},
             &sends[k]),
         "send");
  for (uint32_t k = MESSAGES; k-- > 0;)
    good(tutti_start(world,
                     &(tutti_call){.collective = TUTTI_RECV,
                                   .recv = out[k],
                                   .count = counts[k],
                                   .type = TUTTI_I64,
                                   .peer = from,
                                   .tag = k},
                     &receives[k]),
         "recv");
  for (int k = 0; k < MESSAGES; k++) {
    good(tutti_wait(&sends[k]), "wait for a send");
    memset(in[k], 0xee, counts[k] * 8);
    buffers_release(in[k]);
  }
  for (int k = 0; k < MESSAGES; k++) {
    size_t bad = 0;
    good(tutti_wait(&receives[k]), "wait for a receive");
    for (size_t i = 0; i < counts[k]; i++)
      bad += out[k][i] != ((int64_t)(from * 1000u + (uint32_t)k) << 32 | (int64_t)i);
    CHECK(bad == 0, "rank %u, message %d: %zu of %zu items are wrong", rank, k, bad, counts[k]);
    buffers_release(out[k]);
  }
}

static int messages(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world = join_with_buffers(rank);
  uint64_t state = w->seed;
  for (int round = 0; round < (test_long() ? 500 : 30) && !test_failures; round++) pass_round(world, &state);
  return leave(world);
}

static void messages_from_every_memory(void) {
  uint64_t seed = test_seed();
  for (uint32_t ranks = 2; ranks <= 3; ranks++) play("messages", ranks, seed + ranks, messages);
}

/* ---- ranks that take different paths ---- */

/* Rank 0 starts and waits, slice by slice. The other ranks repeat a blocking call, which may take the fast path if all
 * messages are short. As slots are longer than the piece that is copied at a time, messages to them may come in several
 * pieces. */
static int own_ways(struct ranks_world *w, uint32_t rank) {
  enum { COUNT = 131072 };
  setenv("TUTTI_RING_BYTES", "4M", 1);
  setenv("TUTTI_SLOT_BYTES", "1M", 1);
  tutti_comm *world = join(rank);
  int32_t *in = malloc(COUNT * sizeof *in), *out = malloc(COUNT * sizeof *out);
  if (!in || !out) abort();
  const tutti_call call = {.collective = TUTTI_SCAN, .send = in, .recv = out, .count = COUNT, .type = TUTTI_I32};
  for (int round = 0; round < 12 && !test_failures; round++) {
    size_t bad = 0;
    tutti_request *request = NULL;
    for (int32_t i = 0; i < COUNT; i++) in[i] = round * 1000 + i;
    if (rank > 0) good(tutti_scan(world, in, out, COUNT, TUTTI_I32, TUTTI_SUM), "scan");
    else good(tutti_start(world, &call, &request), "start");
    good(tutti_wait(&request), "wait");
    for (int32_t i = 0; i < COUNT; i++) bad += out[i] != (int32_t)(rank + 1) * in[i];
    CHECK(bad == 0, "rank %u of %u, round %d: %zu items are wrong", rank, w->ranks, round, bad);
  }
  if (!test_failures) good(tutti_comm_free(world), "free of the world");
  free(in);
  free(out);
  return verdict();
}

static void every_rank_goes_its_own_way(void) {
  for (uint32_t ranks = 2; ranks <= 3; ranks++) play("own ways", ranks, 0, own_ways);
}

/* ---- memory that is freed ---- */

/* When a rank's call is done, no other rank reads or writes its buffers. They are overwritten, freed, and allocated
 * again at once. */
static int short_lives(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world = join(rank);
  uint64_t state = w->seed, own = w->seed + rank;
  for (int round = 0; round < (test_long() ? 2000 : 100) && !test_failures; round++) {
    size_t count = 512u << ranks_random(&state) % 11, bad = 0;
    uint64_t kind = ranks_random(&state) % 3;
    void *memory[2];
    for (int k = 0; k < 2; k++) good(tutti_alloc(world, count * 4 * (k ? w->ranks : 1), &memory[k]), "alloc");
    int32_t *in = memory[0], *out = memory[1];
    for (size_t i = 0; i < count; i++) in[i] = (int32_t)(rank * 100000u + (uint32_t)round + i);
    if (kind == 0) good(tutti_allreduce(world, in, out, count, TUTTI_I32, TUTTI_SUM), "allreduce");
    else if (kind == 1) good(tutti_allgather(world, in, out, count, TUTTI_I32), "allgather");
    else good(tutti_broadcast(world, in, count, TUTTI_I32, (uint32_t)round % w->ranks), "broadcast");
    if (kind != 2) memset(in, 0xee, count * 4);
    for (size_t i = 0; i < count; i++) {
      int32_t at = round + (int32_t)i, n = (int32_t)w->ranks;
      if (kind == 0) bad += out[i] != n * (n - 1) / 2 * 100000 + n * at;
      else if (kind == 2) bad += in[i] != round % n * 100000 + at;
      for (int32_t r = 0; r < n && kind == 1; r++) bad += out[(size_t)r * count + i] != r * 100000 + at;
    }
    CHECK(bad == 0, "rank %u, round %d, %zu items: %zu wrong", rank, round, count, bad);
    memset(out, 0xdd, count * 4);
    for (int k = 0; k < 2; k++) good(tutti_free(world, memory[k]), "free");
    if (ranks_random(&own) % 8 == 0) ranks_sleep_us(ranks_random(&own) % 2000);
  }
  good(tutti_comm_free(world), "free of the world");
  return verdict();
}

static void memory_goes_when_a_call_is_done(void) {
  uint64_t seed = test_seed();
  for (uint32_t ranks = 2; ranks <= 3; ranks++) play("short lives", ranks, seed + ranks, short_lives);
}

/* Buffers of which only a part is registered, or that two registrations cover, give correct results. */
static int borders(struct ranks_world *w, uint32_t rank) {
  enum { PAGES = 64, ITEMS = PAGES * PAGE / 4 };
  tutti_comm *world = join(rank);
  void *in_pages = map_pages((size_t)PAGES * PAGE), *out_pages = map_pages((size_t)PAGES * PAGE);
  int32_t *in = in_pages, *out = out_pages;
  unsigned char *const begins[] = {in_pages, out_pages};
  for (int k = 0; k < 2; k++) good(tutti_register(world, begins[k], (size_t)PAGES / 2 * PAGE), "register");
  for (int round = 0; round < 2; round++) {
    size_t bad = 0;
    for (int32_t i = 0; i < ITEMS; i++) in[i] = i + (int32_t)rank, out[i] = -1;
    good(tutti_allreduce(world, in, out, ITEMS, TUTTI_I32, TUTTI_SUM), "allreduce");
    int32_t n = (int32_t)w->ranks;
    for (int32_t i = 0; i < ITEMS; i++) bad += out[i] != n * i + n * (n - 1) / 2;
    CHECK(bad == 0, "rank %u: %s: %zu of %d items are wrong", rank, round ? "two registrations" : "half registered",
          bad, (int)ITEMS);
    good(tutti_barrier(world), "barrier");
    for (int k = 0; k < 2 && round == 0; k++)
      good(tutti_register(world, begins[k] + (size_t)PAGES / 2 * PAGE, (size_t)PAGES / 2 * PAGE), "register the rest");
  }
  good(tutti_comm_free(world), "free of the world");
  for (int32_t i = 0; i < ITEMS; i++) in[i]++; /* the memory stays usable */
  CHECK(in[ITEMS - 1] == ITEMS + (int32_t)rank, "the memory lost its content when the world was freed");
  return verdict();
}

static void buffers_across_borders(void) {
  for (uint32_t ranks = 2; ranks <= 3; ranks++) play("borders", ranks, 0, borders);
}

/* ---- death ---- */

/* All ranks read each other's memory, and store into it, until one dies. */
static int until_one_dies(struct ranks_world *w, uint32_t rank) {
  enum { COUNT = 600000 };
  tutti_comm *world = join(rank);
  void *memory[2] = {NULL, NULL};
  for (int k = 0; k < 2; k++) good(tutti_alloc(world, (size_t)COUNT * 4, &memory[k]), "alloc");
  if (!memory[0] || !memory[1]) return 1;
  memset(memory[0], 0, (size_t)COUNT * 4);
  tutti_err err = tutti_barrier(world);
  w->shared->rank[rank].stage = 1;
  for (int round = 0; err == TUTTI_OK; round++) {
    if (round % 3 == 0) err = tutti_allreduce(world, memory[0], memory[1], COUNT, TUTTI_I32, TUTTI_SUM);
    else if (round % 3 == 1) err = tutti_alltoall(world, memory[0], memory[1], COUNT / w->ranks, TUTTI_I32);
    else err = tutti_broadcast(world, memory[0], COUNT, TUTTI_I32, (uint32_t)round % w->ranks);
  }
  ranks_note(w, rank, err, tutti_error_message(world));
  tutti_comm_free(world);
  return verdict();
}

static void one_death(uint64_t seed) {
  uint64_t state = seed;
  uint32_t ranks = 2 + (uint32_t)(ranks_random(&state) % 3), victim = (uint32_t)(ranks_random(&state) % ranks);
  struct ranks_world w = {0};
  ranks_start(&w, ranks, until_one_dies);
  uint64_t limit = ranks_now_ms() + HANG_MS;
  for (uint32_t r = 0; r < ranks; r++)
    while (w.shared->rank[r].stage == 0 && ranks_now_ms() < limit) ranks_sleep_us(200);
  ranks_sleep_us(ranks_random(&state) % 20000);
  uint64_t died = ranks_now_ms();
  kill(w.pids[victim], SIGKILL);
  CHECK(ranks_end(&w, HANG_MS), "%u ranks, %u killed: a rank hangs", ranks, victim);
  for (uint32_t r = 0; r < ranks; r++) {
    const struct ranks_note *note = w.shared->rank[r].notes;
    if (r == victim) continue;
    CHECK(w.status[r] == 0 && w.shared->rank[r].noted == 1, "%u ranks, %u killed: rank %u ended with status %x", ranks,
          victim, r, (unsigned)w.status[r]);
    CHECK(note->err == TUTTI_ERR_PEER, "%u ranks, %u killed: rank %u: %s: %s", ranks, victim, r,
          tutti_err_name(note->err), note->text);
    CHECK(note->at_ms <= died + IN_TIME_MS, "rank %u got the error after %llu ms", r,
          (unsigned long long)(note->at_ms - died));
  }
  ranks_fini(&w);
}

static void killed_while_others_use_its_memory(void) {
  uint64_t seed = test_seed();
  int times = test_long() ? 100 : 8;
  for (int k = 0; k < times; k++) one_death(seed + (uint64_t)k * 7919);
}

int main(int argc, char **argv) {
  const struct test tests[] = {{"what_cannot_be_is_refused", what_cannot_be_is_refused},
                               {"every_collective_from_every_memory", every_collective_from_every_memory},
                               {"several_calls_are_open", several_calls_are_open},
                               {"messages_from_every_memory", messages_from_every_memory},
                               {"every_rank_goes_its_own_way", every_rank_goes_its_own_way},
                               {"memory_goes_when_a_call_is_done", memory_goes_when_a_call_is_done},
                               {"buffers_across_borders", buffers_across_borders},
                               {"killed_while_others_use_its_memory", killed_while_others_use_its_memory}};
  ranks_clear_environment();
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
