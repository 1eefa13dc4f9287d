/* engine_test.c: every algorithm, carried out by one thread that plays all ranks over `loop` in a random order, with one or
 * two credits and slots of one cache line: so every message is longer than its ring, which is where slices, credits
 * and in-place exchanges could lock up. Counts are uneven where the algorithm allows it. */
#include "engine/engine.h"

#include "algo/algo.h"
#include "check/check.h"
#include "plan/plan_text.h"
#include "test.h"

enum { RANKS_MAX = 9, CALLS = 2 };

/* One rank's part in one call. */
struct part {
  struct tu_program *program;
  struct tu_execution execution;
  int64_t *in, *out, *memory;
  size_t counts_in[RANKS_MAX], counts_out[RANKS_MAX];
};

struct game {
  const char *name; /* of the algorithm, or of the plan that was read */
  tutti_collective collective;
  bool equal_blocks;
  uint32_t ranks, root;
  bool in_place;
  struct tu_transport *endpoints[RANKS_MAX];
  struct tu_mover *movers[RANKS_MAX];
  struct tu_plan *plans[RANKS_MAX];
  size_t class_count[RANKS_MAX * RANKS_MAX]; /* items of a block, by size class */
  struct part parts[CALLS][RANKS_MAX];
};

static int64_t value(uint32_t call, uint32_t rank, uint32_t block, size_t i) {
  return (int64_t)(call * 1000003u + rank * 7919u + block * 104729u + i + 1);
}

static struct tu_view view_of(const size_t *counts, uint32_t blocks, uint32_t split) {
  return (struct tu_view){.item_bytes = sizeof(int64_t), .blocks = blocks, .split = split, .counts = counts};
}

static size_t block_counts(const struct game *g, uint32_t rank, bool is_out, size_t *counts) {
  tutti_collective c = g->algorithm->collective;
  uint32_t blocks = is_out ? tu_out_blocks(c, g->ranks, g->root, rank) : tu_in_blocks(c, g->ranks, g->root, rank);
  size_t total = 0;
  for (uint32_t b = 0; b < blocks; b++) {
    bool equal = (g->algorithm->flags & TU_EQUAL_BLOCKS) != 0;
    counts[b] = g->class_count[equal ? 0 : tu_size_class(c, g->ranks, rank, is_out, b)];
    total += counts[b];
  }
  return total;
}

static size_t first_item(const size_t *counts, uint32_t block) {
  size_t at = 0;
  for (uint32_t b = 0; b < block; b++) at += counts[b];
  return at;
}

/* Buffers apart, or one on the other as the plan has it. */
static void make_buffers(struct game *g, uint32_t call, uint32_t rank) {
  struct part *p = &g->parts[call][rank];
  tutti_collective c = g->algorithm->collective;
  size_t in = block_counts(g, rank, false, p->counts_in), out = block_counts(g, rank, true, p->counts_out);
  uint32_t in_blocks = tu_in_blocks(c, g->ranks, g->root, rank), out_blocks = tu_out_blocks(c, g->ranks, g->root, rank);
  p->memory = tu_allocate(in + out + 1, sizeof *p->memory);
  p->in = p->memory;
  p->out = p->memory + in;
  if (g->in_place && in_blocks && out_blocks) {
    p->out = p->in = p->memory;
    if (in_blocks < out_blocks) p->in += first_item(p->counts_out, tu_alias_offset(c, rank));
    if (in_blocks > out_blocks) p->out += first_item(p->counts_in, tu_alias_offset(c, rank));
  }
  size_t at = 0;
  for (uint32_t b = 0; b < in_blocks; b++)
    for (size_t i = 0; i < p->counts_in[b]; i++) p->in[at++] = value(call, rank, b, i);
}

static void prepare(struct game *g, uint32_t call, uint32_t rank) {
  struct part *p = &g->parts[call][rank];
  struct tu_error error;
  tutti_collective c = g->algorithm->collective;
  make_buffers(g, call, rank);
  uint32_t split = g->plans[rank]->split;
  struct tu_lowering lowering = {
      .plan = g->plans[rank],
      .plan_rank = rank,
      .mover = g->movers[rank],
      .in = view_of(p->counts_in, tu_in_blocks(c, g->ranks, g->root, rank), split),
      .out = view_of(p->counts_out, tu_out_blocks(c, g->ranks, g->root, rank), split),
  };
  tu_assert(tu_program_create(&lowering, &p->program, &error) == TUTTI_OK);
  tu_assert(tu_execution_init(&p->execution, p->program, g->movers[rank], &error) == TUTTI_OK);
  p->execution.arithmetic = (struct tu_arithmetic){.type = TUTTI_I64, .op = TUTTI_SUM};
  tu_execution_start(&p->execution, p->in, p->out, call + 1);
}

static void judge(const struct game *g, uint32_t call, uint32_t rank) {
  const struct part *p = &g->parts[call][rank];
  tutti_collective c = g->algorithm->collective;
  if (tu_collectives[c].promise == TU_NOTHING) return;
  size_t at = 0;
  for (uint32_t b = 0; b < tu_out_blocks(c, g->ranks, g->root, rank); b++) {
    struct tu_promised promised = tu_promise_of(c, g->ranks, g->root, rank, b);
    for (size_t i = 0; i < p->counts_out[b]; i++, at++) {
      int64_t expected = 0;
      for (uint32_t from = promised.from; from < promised.to; from++)
        expected += value(call, from, promised.in_block, i);
      if (p->out[at] == expected) continue;
      FAIL("%s.%s n=%u root=%u in_place=%d call %u rank %u block %u item %zu: %lld, not %lld", tu_collectives[c].name,
           g->algorithm->name, g->ranks, g->root, g->in_place, call, rank, b, i, (long long)p->out[at],
           (long long)expected);
      return;
    }
  }
}

/* Polls a random open part of a random rank until all are done; both calls are open at once. */
static bool play(struct game *g, uint64_t *seed) {
  uint64_t idle = 0, idle_max = 2000u * g->ranks;
  for (;;) {
    bool open = false;
    for (uint32_t i = 0; i < CALLS * g->ranks; i++)
      open |= g->parts[i / g->ranks][i % g->ranks].execution.unfinished > 0;
    if (!open) return true;
    struct part *p = &g->parts[tu_random(seed) % CALLS][tu_random(seed) % g->ranks];
    bool moved = p->execution.unfinished > 0 && tu_execution_poll(&p->execution);
    idle = moved ? 0 : idle + 1;
    if (idle > idle_max || p->execution.mismatch) return false;
  }
}

static void run_game(const struct tu_algorithm *algorithm, uint32_t ranks, uint32_t root, bool in_place,
                     uint64_t *seed) {
  struct game *g = tu_allocate(1, sizeof *g);
  struct tu_error error;
  *g = (struct game){.algorithm = algorithm, .ranks = ranks, .root = root, .in_place = in_place};
  struct tu_channel_shape shape = {.credits = 1u << tu_random(seed) % 2, .slot_bytes = 64};
  uint32_t members[RANKS_MAX];
  for (uint32_t i = 0; i < RANKS_MAX * RANKS_MAX; i++)
    g->class_count[i] = tu_random(seed) % 4 ? tu_random(seed) % 70 : 0;
  /* In place, what a rank sends to another is as long as what it gets from there. */
  for (uint32_t i = 0; in_place && algorithm->collective == TUTTI_ALLTOALL && i < ranks * ranks; i++)
    g->class_count[i] = g->class_count[i % ranks * ranks + i / ranks];
  for (uint32_t i = 0; i < ranks; i++) members[i] = i;
  tu_assert(tu_loop_create(ranks, (size_t)4 << 20, g->endpoints, &error) == TUTTI_OK);
  for (uint32_t rank = 0; rank < ranks; rank++) {
    tu_assert(tu_mover_create(g->endpoints[rank], members, ranks, rank, shape, TU_FIRST_PLACE, &g->movers[rank],
                              &error) == TUTTI_OK);
    g->plans[rank] = tu_plan_build(
        &(struct tu_build){.algorithm = algorithm, .ranks = ranks, .root = root, .in_place = in_place, .rank = rank});
  }
  for (uint32_t call = 0; call < CALLS; call++)
    for (uint32_t rank = 0; rank < ranks; rank++) prepare(g, call, rank);
  if (play(g, seed)) {
    for (uint32_t i = 0; i < CALLS * ranks; i++) judge(g, i / ranks, i % ranks);
  } else {
    FAIL("%s.%s n=%u root=%u in_place=%d credits=%u is stuck", tu_collectives[algorithm->collective].name,
         algorithm->name, ranks, root, in_place, shape.credits);
  }
  for (uint32_t i = 0; i < CALLS * ranks; i++) {
    struct part *p = &g->parts[i / ranks][i % ranks];
    tu_execution_fini(&p->execution);
    tu_program_destroy(p->program);
    free(p->memory);
  }
  for (uint32_t rank = 0; rank < ranks; rank++) {
    tu_plan_destroy(g->plans[rank]);
    tu_mover_destroy(g->movers[rank], false);
    g->endpoints[rank]->ops->close(g->endpoints[rank]);
  }
  free(g);
}

static void every_algorithm_in_random_schedules(void) {
  uint64_t seed = test_seed();
  uint32_t games = 0, rounds = test_long() ? 40 : 2;
  for (uint32_t round = 0; round < rounds; round++)
    for (size_t i = 0; i < tu_algorithm_count; i++)
      for (uint32_t n = 1; n <= RANKS_MAX; n++)
        for (int in_place = 0; in_place < 2; in_place++) {
          const struct tu_algorithm *a = tu_algorithms[i];
          if (!tu_algorithm_fits(a, n)) continue;
          uint32_t root = tu_collectives[a->collective].rooted && a->collective != TUTTI_SEND
                              ? (uint32_t)(tu_random(&seed) % n)
                              : 0;
          run_game(a, n, root, in_place, &seed);
          games++;
        }
  printf("  %u games\n", games);
}

static const struct test tests[] = {
    {"every_algorithm_in_random_schedules", every_algorithm_in_random_schedules},
};

int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
