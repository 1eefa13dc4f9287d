/* test: fast */
/* rings_test.c: rings that start short and are replaced by longer ones, through public calls and real processes.
 * Several calls are open when a longer one comes, messages of several parts have arrived in part, one rank sends to
 * several through one ring, memory is short. Checks every result, and that rings are replaced and their memory comes
 * back. */
#include <sys/mman.h>

#include "comm/comm.h"
#include "ranks.h"
#include "test.h"

enum { RANKS = 6, ROUNDS = 40, OPEN_MAX = 6, TIMEOUT_MS = 60000, ELEMENTS_MAX = 96 << 10, WORN_CALLS = 4000 };

struct open_call {
  tutti_request *request;
  uint64_t key;
  tutti_collective collective;
  size_t count; /* elements of a block */
  uint32_t *in, *out;
};

static uint32_t element(uint64_t key, uint32_t rank, size_t i) {
  return (uint32_t)(key * 2654435761u + rank * 40503u + i * 97u);
}

/* Returns the expected element i of the output of `rank`. */
static uint32_t wanted(const struct open_call *c, uint32_t rank, uint32_t ranks, size_t i) {
  uint32_t sum = 0;
  switch (c->collective) {
    case TUTTI_ALLREDUCE:
      for (uint32_t r = 0; r < ranks; r++) sum += element(c->key, r, i);
      return sum;
    case TUTTI_BROADCAST: return element(c->key, (uint32_t)(c->key % ranks), i);
    case TUTTI_ALLGATHER: return element(c->key, (uint32_t)(i / c->count), i % c->count);
    default: return element(c->key, (uint32_t)(i / c->count), rank * c->count + i % c->count);
  }
}

static const struct {
  tutti_collective collective;
  const char *algorithm;
} kinds[] = {{TUTTI_ALLREDUCE, "ring"},   {TUTTI_ALLREDUCE, "direct"}, {TUTTI_ALLREDUCE, "rabenseifner"},
             {TUTTI_BROADCAST, "direct"}, {TUTTI_BROADCAST, "chain"},  {TUTTI_ALLGATHER, "bruck"},
             {TUTTI_ALLGATHER, "pat"},    {TUTTI_ALLTOALL, "bruck"},   {TUTTI_ALLTOALL, "direct"},
             {TUTTI_ALLGATHER, "direct"}, {TUTTI_ALLTOALL, "ring"}};

/* Starts a random call, the same on all ranks. Calls get longer from round to round. */
static bool start(tutti_comm *comm, struct open_call *c, uint64_t *random, int round) {
  uint32_t ranks = tutti_ranks(comm), rank = tutti_rank(comm);
  uint64_t draw = ranks_random(random);
  bool last =
      round == ROUNDS; /* the last call is long and uses the whole ring of ranks, so that all rings have to grow */
  size_t kind = last ? 0 : draw % (sizeof kinds / sizeof kinds[0]), most = 16u << round / 3;
  c->key = ranks_random(random) % 1000000;
  c->collective = kinds[kind].collective;
  c->count = 1 + ranks_random(random) % (most < ELEMENTS_MAX / RANKS ? most : ELEMENTS_MAX / RANKS);
  if (last) c->count = ELEMENTS_MAX;
  size_t blocks = c->collective == TUTTI_ALLTOALL ? ranks : 1;
  for (size_t i = 0; i < c->count * blocks; i++) c->in[i] = element(c->key, rank, i);
  memset(c->out, 0xee, sizeof *c->out * tu_min(c->count * ranks, ELEMENTS_MAX));
  tutti_call call = {.collective = c->collective,
                     .send = c->in,
                     .recv = c->out,
                     .count = c->count,
                     .type = TUTTI_U32,
                     .op = TUTTI_SUM,
                     .root = (uint32_t)(c->key % ranks),
                     .algorithm = kinds[kind].algorithm};
  if (c->collective != TUTTI_BROADCAST) call.root = 0;
  return tutti_start(comm, &call, &c->request) == TUTTI_OK;
}

static bool finish(tutti_comm *comm, struct open_call *c) {
  uint32_t ranks = tutti_ranks(comm), rank = tutti_rank(comm);
  if (tutti_wait(&c->request) != TUTTI_OK) return false;
  bool gathers = c->collective == TUTTI_ALLGATHER || c->collective == TUTTI_ALLTOALL;
  for (size_t i = 0; i < c->count * (gathers ? ranks : 1); i++) {
    if (c->out[i] == wanted(c, rank, ranks, i)) continue;
    printf("  rank %u: %s of %zu: element %zu is wrong\n", rank, tutti_collective_name(c->collective), c->count, i);
    return false;
  }
  return true;
}

/* Allocates pieces as long as rings, and overwrites them, so that a ring freed too early would be damaged. */
static bool scribble(tutti_comm *comm) {
  for (size_t bytes = 64 << 10; bytes <= (512 << 10); bytes *= 2) {
    void *memory;
    if (tutti_alloc(comm, bytes, &memory) != TUTTI_OK) continue; /* little memory may be left */
    memset(memory, 0x99, bytes);
    if (tutti_free(comm, memory) != TUTTI_OK) return false;
  }
  return true;
}

/* Keeps up to OPEN_MAX calls open at a time. Earlier ones may not be done when later, longer ones are prepared. */
static bool play_calls(tutti_comm *comm, uint64_t seed) {
  struct open_call open[OPEN_MAX] = {{0}};
  uint64_t random = seed;
  bool good = true;
  for (int i = 0; i < OPEN_MAX; i++) {
    open[i].in = malloc(sizeof(uint32_t) * ELEMENTS_MAX);
    open[i].out = malloc(sizeof(uint32_t) * ELEMENTS_MAX);
    if (!open[i].in || !open[i].out) abort();
  }
  for (int round = 0; round <= ROUNDS && good; round++) {
    int count = 1 + (int)(ranks_random(&random) % OPEN_MAX);
    for (int i = 0; i < count && good; i++) good = start(comm, &open[i], &random, round) && scribble(comm);
    for (int i = 0; i < count && good; i++) good = finish(comm, &open[i]);
  }
  if (!good) printf("  rank %u: %s\n", tutti_rank(comm), tutti_error_message(NULL));
  for (int i = 0; i < OPEN_MAX; i++) free(open[i].in), free(open[i].out);
  return good;
}

static uint64_t longest_ring(const tutti_comm *comm) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < tu_mover_channels(comm->mover); i++) {
    const struct tu_sender *s = tu_mover_nth_sender(comm->mover, i);
    if (s) bytes = tu_max(bytes, s->staging.bytes);
  }
  return bytes;
}

static uint64_t cast_ring(const tutti_comm *comm) { return comm->mover->cast ? comm->mover->cast->staging.bytes : 0; }

static tutti_comm *join(const struct ranks_world *w) {
  tutti_comm *world;
  (void)w;
  if (tutti_init(&(tutti_options){.timeout_ms = TIMEOUT_MS / 2}, &world) == TUTTI_OK &&
      tutti_barrier(world) == TUTTI_OK)
    return world;
  printf("  %s\n", tutti_error_message(NULL));
  return NULL;
}

static int leave(tutti_comm *world, tutti_comm *comm, size_t free_before, bool good) {
  if (tutti_comm_free(comm) != TUTTI_OK) return 4;
  size_t free_after = tu_transport_free_bytes(world->transport);
  if (free_after != free_before) printf("  %zu bytes were free before, %zu after\n", free_before, free_after);
  return tutti_comm_free(world) == TUTTI_OK && good && free_after == free_before ? 0 : 5;
}

static int grow_while_in_use(struct ranks_world *w, uint32_t rank) {
  setenv("TUTTI_RING_BYTES", "512K", 1); /* those of many ranks that share a CPU are too short to grow much */
  tutti_comm *world = join(w), *comm;
  if (!world) return 2;
  size_t free_before = tu_transport_free_bytes(world->transport);
  if (tutti_comm_dup(world, &comm) != TUTTI_OK) return 3;
  bool good = play_calls(comm, w->seed);
  if (longest_ring(comm) < (256 << 10)) good = false, printf("  rank %u: rings did not grow\n", rank);
  return leave(world, comm, free_before, good);
}

/* Short rings that have carried many messages are replaced by the longest, also by calls that take the fast path. */
static int grow_when_worn(struct ranks_world *w, uint32_t rank) {
  enum { COUNT = 1000 };
  tutti_comm *world = join(w), *comm;
  if (!world) return 2;
  size_t free_before = tu_transport_free_bytes(world->transport);
  if (tutti_comm_dup(world, &comm) != TUTTI_OK) return 3;
  uint32_t data[COUNT], sum[COUNT];
  bool good = true;
  uint64_t first = 0;
  for (uint32_t k = 0; k < WORN_CALLS && good; k++) {
    for (uint32_t i = 0; i < COUNT; i++) data[i] = element(k, rank, i);
    const struct open_call as = {.key = k, .collective = TUTTI_ALLREDUCE};
    good = tutti_allreduce(comm, data, sum, COUNT, TUTTI_U32, TUTTI_SUM) == TUTTI_OK;
    for (uint32_t i = 0; i < COUNT && good; i++) good = sum[i] == wanted(&as, rank, w->ranks, i);
    if (k == 0) first = tu_max(longest_ring(comm), cast_ring(comm));
  }
  const struct tu_channel_shape *shape = &comm->mover->shape;
  uint64_t last = tu_max(longest_ring(comm), cast_ring(comm));
  good &= first < shape->ring_bytes && last == shape->ring_bytes;
  if (!good)
    printf("  rank %u: rings of %llu bytes at first, of %llu at the end\n", rank, (unsigned long long)first,
           (unsigned long long)last);
  return leave(world, comm, free_before, good);
}

/* With almost no memory left, rings are as short as possible, and all calls succeed. */
static int stay_short(struct ranks_world *w, uint32_t rank) {
  void *most;
  setenv("TUTTI_SHM_BYTES", "32M", 1);
  tutti_comm *world = join(w), *comm;
  if (!world) return 2;
  size_t free_before = tu_transport_free_bytes(world->transport);
  if (tutti_alloc(world, free_before - (6 << 20), &most) != TUTTI_OK || tutti_comm_dup(world, &comm) != TUTTI_OK)
    return 3;
  bool good = play_calls(comm, w->seed);
  uint64_t longest = longest_ring(comm);
  if (longest > (128 << 10))
    good = false,
    printf("  rank %u: a ring of %llu bytes, expected at most 128 KiB\n", rank, (unsigned long long)longest);
  if (tutti_free(world, most) != TUTTI_OK) return 6;
  return leave(world, comm, free_before, good);
}

/* Returns true if all pages of the part of the ring that is in use exist. */
static bool has_pages(const tutti_comm *comm, const struct tu_staging *s) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = s->made / page;
  unsigned char there[512];
  bool all = pages > 0 && pages <= sizeof there && mincore(comm->transport->base + s->offset, s->made, there) == 0;
  for (size_t i = 0; i < pages && all; i++) all = there[i] & 1;
  return all;
}

/* Returns the number of receivers that expected the payload of their last slice where it is. `expected`: what they expected
 * before the last call. Notes what they expect now. */
static uint32_t count_right(const tutti_comm *comm, const unsigned char **expected) {
  uint32_t right = 0;
  for (uint32_t i = 0; i < tu_mover_channels(comm->mover); i++) {
    const struct tu_receiver *r = tu_mover_nth_receiver(comm->mover, i);
    if (!r || !r->lines || r->received == 0) continue;
    const struct tu_line *line = &r->lines[(r->received - 1) & (r->credits - 1)];
    right += expected[i] == tu_receiver_payload(r, line);
    expected[i] = r->expected;
  }
  return right;
}

/* A new ring that several ranks read has the pages of the part that is used first, as each reader would have to map each page
 * that comes later. Receivers find out where the next short message will be. */
static int begin(struct ranks_world *w, uint32_t rank) {
  enum { COUNT = 16, CALLS = 200, CHANNELS_MAX = 8 * TU_MOVER_LANES };
  tutti_comm *world = join(w), *comm;
  if (!world) return 2;
  size_t free_before = tu_transport_free_bytes(world->transport);
  if (tutti_comm_dup(world, &comm) != TUTTI_OK) return 3;
  const unsigned char *expected[CHANNELS_MAX] = {0};
  uint32_t data[COUNT] = {0}, sum[COUNT], right = 0;
  bool good = true;
  for (uint32_t k = 0; k < CALLS && good; k++) {
    good = tutti_allreduce(comm, data, sum, COUNT, TUTTI_U32, TUTTI_SUM) == TUTTI_OK;
    right += count_right(comm, expected);
    if (k > 0 || !comm->mover->cast || has_pages(comm, &comm->mover->cast->staging)) continue;
    good = false, printf("  rank %u: pages of the ring are missing\n", rank);
  }
  if (w->ranks > 2 && !comm->mover->cast) good = false, printf("  rank %u: no ring that several ranks read\n", rank);
  if (right == 0) good = false, printf("  rank %u: no message lay where it was expected\n", rank);
  return leave(world, comm, free_before, good);
}

static void play(uint32_t ranks, uint64_t seed, int (*body)(struct ranks_world *w, uint32_t rank)) {
  struct ranks_world w = {.seed = seed};
  ranks_start(&w, ranks, body);
  CHECK(ranks_end(&w, TIMEOUT_MS), "%u ranks: did not end within %d ms", ranks, TIMEOUT_MS);
  for (uint32_t rank = 0; rank < ranks; rank++)
    CHECK(w.status[rank] == 0, "%u ranks: rank %u ended with wait status %#x", ranks, rank, (unsigned)w.status[rank]);
  ranks_fini(&w);
}

static void rings_grow_while_in_use(void) {
  uint64_t seed = test_seed();
  play(3, seed, grow_while_in_use);
  play(RANKS, seed, grow_while_in_use);
}

static void rings_grow_when_worn(void) {
  play(2, 0, grow_when_worn);
  play(3, 0, grow_when_worn);
}

static void rings_begin(void) {
  play(2, 0, begin);
  play(3, 0, begin);
}

static void rings_stay_short(void) { play(3, test_seed(), stay_short); }

int main(int argc, char **argv) {
  const struct test tests[] = {
      {"rings_begin", rings_begin},
      {"rings_grow_while_in_use", rings_grow_while_in_use},
      {"rings_grow_when_worn", rings_grow_when_worn},
      {"rings_stay_short", rings_stay_short},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
