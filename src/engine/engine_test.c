/* engine_test.c: runs every algorithm, including composites, in one thread that plays all ranks over `loop` in a random
 * order. There are one or two credits, and slots from one cache line on. So messages are longer than their rings, where
 * slices, credits and in-place exchanges could deadlock. Joined messages cross as one, separately, or in both ways
 * within one plan. Counts are uneven where the algorithm allows it, and some are zero. Further plans have relabelled
 * ranks, such as those around a ring of chips, or are plans that no algorithm would write. */
#include "engine/engine.h"

#include "algo/algo.h"
#include "check/check.h"
#include "clusters.h"
#include "plan/plan_relabel.h"
#include "plan/plan_text.h"
#include "topology/ring.h"

enum { RANKS_MAX = 9, BLOCKS_MAX = RANKS_MAX * RANKS_MAX, CALLS = 2 };

/* The state of one rank in one call. */
struct part {
  struct tu_program *program;
  struct tu_execution execution;
  int64_t *in, *out, *memory;
  size_t counts_in[RANKS_MAX], counts_out[RANKS_MAX];
  bool is_shared;
};

struct game {
  struct tu_plan *plans[RANKS_MAX]; /* plan of each rank; all are the same plan if one_for_all is set */
  bool one_for_all;
  bool in_builder_order;
  /* bit mask; bit RANKS_MAX * call + rank is set if the rank's buffers of that call lie in shared memory */
  uint32_t shared;
  struct tu_channel_shape shape;
  struct tu_arithmetic arithmetic;
  /* [size class]: number of items of each block of that class (blocks of one class have equal length) */
  size_t class_count[BLOCKS_MAX];
  struct tu_transport *endpoints[RANKS_MAX];
  struct tu_mover *movers[RANKS_MAX];
  struct part parts[CALLS][RANKS_MAX];
};

/* Number of all games. Of the games with joined messages (several messages in one slice if they fit): in how many all
 * crossed as one slice, all crossed apart, or both occurred. */
struct tally {
  uint32_t games, as_one, apart, mixed;
  uint32_t ways[TU_WAYS], casts; /* number of messages for each enum tu_way; number of staged multicasts */
};

/* Returns an element of the input: a multiple of the number of ranks, so that avg can divide it. */
static int64_t value(const struct game *g, uint32_t call, uint32_t rank, uint32_t block, size_t i) {
  return (int64_t)(call * 1000003u + rank * 7919u + block * 104729u + i + 1) * g->plans[0]->ranks;
}

static struct tu_view view_of(const size_t *counts, uint32_t blocks, uint32_t split) {
  return (struct tu_view){.item_bytes = sizeof(int64_t), .blocks = blocks, .split = split, .counts = counts};
}

static uint32_t blocks_of(const struct game *g, uint32_t rank, bool is_out) {
  const struct tu_plan *p = g->plans[rank];
  return is_out ? tu_out_blocks(p->collective, p->ranks, p->root, rank)
                : tu_in_blocks(p->collective, p->ranks, p->root, rank);
}

static size_t block_counts(const struct game *g, uint32_t rank, bool is_out, size_t *counts) {
  const struct tu_plan *p = g->plans[rank];
  size_t total = 0;
  for (uint32_t b = 0; b < blocks_of(g, rank, is_out); b++) {
    counts[b] = g->class_count[p->equal_blocks ? 0 : tu_size_class(p->collective, p->ranks, rank, is_out, b)];
    total += counts[b];
  }
  return total;
}

static size_t first_item(const size_t *counts, uint32_t block) {
  size_t at = 0;
  for (uint32_t b = 0; b < block; b++) at += counts[b];
  return at;
}

/* Allocates the buffers of a rank, separate ones, or overlapping ones if the plan is in place. Fills the input. */
static void make_buffers(struct game *g, uint32_t call, uint32_t rank) {
  struct part *p = &g->parts[call][rank];
  tutti_collective c = g->plans[rank]->collective;
  size_t in = block_counts(g, rank, false, p->counts_in), out = block_counts(g, rank, true, p->counts_out);
  uint32_t in_blocks = blocks_of(g, rank, false), out_blocks = blocks_of(g, rank, true);
  size_t bytes = (in + out + 1) * sizeof *p->memory;
  uint64_t offset;
  struct tu_error error;
  p->is_shared = g->shared >> (RANKS_MAX * call + rank) & 1;
  if (p->is_shared) p->memory = memset(tu_transport_acquire(g->endpoints[rank], bytes, &offset, &error), 0, bytes);
  else p->memory = tu_allocate(in + out + 1, sizeof *p->memory);
  p->in = p->memory;
  p->out = p->memory + in;
  if (g->plans[rank]->in_place && in_blocks && out_blocks) {
    p->out = p->in = p->memory;
    if (in_blocks < out_blocks) p->in += first_item(p->counts_out, tu_alias_offset(c, rank));
    if (in_blocks > out_blocks) p->out += first_item(p->counts_in, tu_alias_offset(c, rank));
  }
  size_t at = 0;
  for (uint32_t b = 0; b < in_blocks; b++)
    for (size_t i = 0; i < p->counts_in[b]; i++) p->in[at++] = value(g, call, rank, b, i);
}

static void set_up(struct game *g, uint32_t call, uint32_t rank) {
  struct part *p = &g->parts[call][rank];
  struct tu_error error;
  make_buffers(g, call, rank);
  uint32_t split = g->plans[rank]->split;
  struct tu_lowering lowering = {
      .plan = g->plans[rank],
      .plan_rank = rank,
      .mover = g->movers[rank],
      .in = view_of(p->counts_in, blocks_of(g, rank, false), split),
      .out = view_of(p->counts_out, blocks_of(g, rank, true), split),
      .in_builder_order = g->in_builder_order,
  };
  tu_assert(tu_program_create(&lowering, &p->program, &error) == TUTTI_OK);
  tu_assert(tu_execution_init(&p->execution, p->program, g->movers[rank], &error) == TUTTI_OK);
  p->execution.arithmetic = g->arithmetic;
  p->execution.direct_bytes = TU_INLINE_BYTES + 1;
}

static void prepare(struct game *g, uint32_t call, uint32_t rank) {
  set_up(g, call, rank);
  struct part *p = &g->parts[call][rank];
  tu_execution_start(&p->execution, p->in, p->out, call + 1);
}

static void describe(const struct game *g) {
  const struct tu_plan *p = g->plans[0];
  printf("  ^ %s.%s, %u ranks, root %u%s, split %u, %s, %u credits, slots of %u bytes\n",
         tu_collectives[p->collective].name, p->algorithm, p->ranks, p->root, p->in_place ? ", in place" : "", p->split,
         tutti_op_name(g->arithmetic.op), g->shape.credits, g->shape.slot_bytes);
}

static int64_t promised_item(const struct game *g, uint32_t call, struct tu_promised promised, size_t i) {
  int64_t sum = 0;
  for (uint32_t from = promised.from; from < promised.to; from++) sum += value(g, call, from, promised.in_block, i);
  if (!tu_reduces(g->plans[0]->collective)) return sum;
  if (g->arithmetic.op == TUTTI_AVG) return sum / g->plans[0]->ranks;
  return g->arithmetic.op == TUTTI_PREMUL_SUM ? sum * (int64_t)g->arithmetic.scale : sum;
}

static void judge(const struct game *g, uint32_t call, uint32_t rank) {
  const struct part *p = &g->parts[call][rank];
  const struct tu_plan *plan = g->plans[rank];
  if (tu_collectives[plan->collective].promise == TU_NOTHING) return;
  size_t at = 0;
  for (uint32_t b = 0; b < blocks_of(g, rank, true); b++) {
    struct tu_promised promised = tu_promise_of(plan->collective, plan->ranks, plan->root, rank, b);
    for (size_t i = 0; i < p->counts_out[b]; i++, at++) {
      int64_t expected = promised_item(g, call, promised, i);
      if (p->out[at] == expected) continue;
      FAIL("call %u rank %u block %u item %zu: %lld, not %lld", call, rank, b, i, (long long)p->out[at],
           (long long)expected);
      return;
    }
  }
}

/* Polls the executions of random ranks and calls until all are finished; returns false if stuck. Both calls are open at
 * the same time. */
static bool play(struct game *g, uint64_t *seed) {
  uint32_t ranks = g->plans[0]->ranks;
  uint64_t idle = 0, idle_max = 2000u * ranks;
  for (;;) {
    bool open = false;
    for (uint32_t i = 0; i < CALLS * ranks; i++) open |= g->parts[i / ranks][i % ranks].execution.unfinished > 0;
    if (!open) return true;
    struct part *p = &g->parts[tu_random(seed) % CALLS][tu_random(seed) % ranks];
    bool moved = p->execution.unfinished > 0 && tu_execution_poll(&p->execution);
    idle = moved ? 0 : idle + 1;
    if (idle > idle_max || p->execution.mismatch) return false;
  }
}

/* Counts how joined messages crossed. Those that cross as one need fewer messages on their channels than there are
 * sends. */
static void count(const struct game *g, struct tally *t) {
  uint32_t joined = 0, sends = 0, messages = 0;
  for (uint32_t rank = 0; rank < g->plans[0]->ranks; rank++) {
    const struct tu_plan *plan = g->plans[rank];
    const struct tu_rank_plan *r = &plan->rank[rank - plan->rank_first];
    const struct tu_program *p = g->parts[0][rank].program;
    for (uint32_t i = 0; i < r->step_count; i++) joined += r->steps[i].kind == TU_SEND && r->steps[i].joined;
    for (uint32_t i = 0; i < p->instruction_count; i++) sends += p->instructions[i].kind == TU_SEND;
    for (uint32_t i = 0; i < p->ring_count; i++) messages += p->rings[i].sender ? p->rings[i].messages : 0;
  }
  t->games++;
  if (joined == 0) return;
  if (messages == sends) t->apart++;
  else if (sends - messages == joined) t->as_one++;
  else t->mixed++;
}

static void count_ways(const struct part *p, struct tally *t) {
  for (uint32_t i = 0; i < p->program->instruction_count; i++) {
    const struct tu_instruction *ins = &p->program->instructions[i];
    t->ways[p->execution.progress[i].way] += ins->kind == TU_SEND;
    t->casts += ins->cast != TU_NO_CAST && p->execution.progress[i].way == TU_WAY_STAGED;
  }
}

static void open_world(struct game *g, size_t segment_bytes) {
  uint32_t ranks = g->plans[0]->ranks, members[RANKS_MAX];
  struct tu_error error;
  for (uint32_t i = 0; i < ranks; i++) members[i] = i;
  tu_assert(tu_loop_create(ranks, segment_bytes, g->endpoints, &error) == TUTTI_OK);
  for (uint32_t rank = 0; rank < ranks; rank++)
    tu_assert(tu_mover_create(g->endpoints[rank], members, ranks, rank, TU_WORLD_ID, g->shape, &g->movers[rank],
                              &error) == TUTTI_OK);
  for (uint32_t rank = 0; rank < ranks; rank++) tu_assert(tu_mover_ready(g->movers[rank]));
}

/* Ends the calls, and destroys the world and the plans. */
static void close_world(struct game *g) {
  uint32_t ranks = g->plans[0]->ranks;
  for (uint32_t i = 0; i < CALLS * ranks; i++) {
    struct part *p = &g->parts[i / ranks][i % ranks];
    tu_execution_fini(&p->execution);
    tu_program_destroy(p->program);
    if (!p->is_shared) free(p->memory);
  }
  for (uint32_t rank = ranks; rank-- > 0;) {
    if (rank == 0 || !g->one_for_all) tu_plan_destroy(g->plans[rank]);
    tu_mover_destroy(g->movers[rank], false);
    g->endpoints[rank]->ops->close(g->endpoints[rank]);
  }
}

/* Runs the game's plans on all ranks, checks the results, and destroys the plans. */
static void run_game(struct game *g, uint64_t *seed, struct tally *t) {
  uint32_t ranks = g->plans[0]->ranks;
  int failures = test_failures;
  open_world(g, (size_t)4 << 20);
  for (uint32_t call = 0; call < CALLS; call++)
    for (uint32_t rank = 0; rank < ranks; rank++) prepare(g, call, rank);
  count(g, t);
  bool played = play(g, seed);
  for (uint32_t i = 0; i < CALLS * ranks; i++) count_ways(&g->parts[i / ranks][i % ranks], t);
  if (played) {
    for (uint32_t i = 0; i < CALLS * ranks; i++) judge(g, i / ranks, i % ranks);
  } else {
    FAIL("the run is stuck");
  }
  if (test_failures > failures) describe(g);
  close_world(g);
}

/* Draws random sizes: blocks of 0 to 69 items, and slots that hold none, one or many blocks. */
static void draw_sizes(struct game *g, uint64_t *seed) {
  const struct tu_plan *p = g->plans[0];
  g->shape = (struct tu_channel_shape){.credits = 1u << tu_random(seed) % 2,
                                       .slot_bytes = 64u << tu_random(seed) % 2 * (1 + tu_random(seed) % 5)};
  g->shape.one_way_slot_bytes = tu_random(seed) % 2 ? 64 : g->shape.slot_bytes;
  g->shape.ring_bytes = (uint32_t)(2 + tu_random(seed) % 2) * g->shape.slot_bytes;
  g->shape.cast_slot_bytes = g->shape.slot_bytes << tu_random(seed) % 2;
  g->shape.cast_ring_bytes = 2 * g->shape.cast_slot_bytes;
  g->shared = (uint32_t)(tu_random(seed) & tu_random(seed));
  g->in_builder_order = true;
  for (uint32_t i = 0; i < BLOCKS_MAX; i++)
    g->class_count[i] = tu_random(seed) % 4 ? tu_random(seed) % 70 >> tu_random(seed) % 4 : 0;
  /* In place, the blocks that two ranks exchange have the same length. */
  for (uint32_t i = 0; p->in_place && p->collective == TUTTI_ALLTOALL && i < p->ranks * p->ranks; i++)
    g->class_count[i] = g->class_count[i % p->ranks * p->ranks + i / p->ranks];
}

static struct tu_arithmetic draw_arithmetic(const struct tu_plan *p, uint64_t *seed) {
  static const tutti_op ops[] = {TUTTI_SUM, TUTTI_PREMUL_SUM, TUTTI_AVG}; /* avg divides by the number of all ranks */
  uint32_t count = tu_collectives[p->collective].promise == TU_SUM_OF_ALL ? 3 : tu_reduces(p->collective) ? 2 : 1;
  return (struct tu_arithmetic){.type = TUTTI_I64, .op = ops[tu_random(seed) % count], .scale = 3, .divisor = p->ranks};
}

static void run_algorithm(const struct tu_algorithm *a, uint32_t ranks, bool in_place, uint64_t *seed,
                          struct tally *t) {
  struct game *g = tu_allocate(1, sizeof *g);
  bool rooted = tu_collectives[a->collective].rooted && a->collective != TUTTI_SEND;
  struct tu_build what = {.algorithm = a,
                          .ranks = ranks,
                          .root = rooted ? (uint32_t)(tu_random(seed) % ranks) : 0,
                          .in_place = in_place,
                          .slot_pieces = (uint32_t)(tu_random(seed) % 5),
                          .depth = (uint32_t)(tu_random(seed) % 5),
                          .chunks = (uint32_t)(tu_random(seed) % 3),
                          .segments = a->collective == TUTTI_BARRIER ? 0 : (uint32_t)(tu_random(seed) % 4),
                          .lanes = a->collective == TUTTI_BARRIER ? 0 : (uint32_t)(tu_random(seed) % 4)};
  for (what.rank = 0; what.rank < ranks; what.rank++) g->plans[what.rank] = tu_plan_build(&what);
  draw_sizes(g, seed);
  g->arithmetic = draw_arithmetic(g->plans[0], seed);
  run_game(g, seed, t);
  free(g);
}

static void every_algorithm_in_random_schedules(void) {
  uint64_t seed = test_seed();
  struct tally t = {0};
  const struct tu_algorithm *a;
  uint32_t rounds = test_long() ? 80 : 4;
  for (uint32_t round = 0; round < rounds; round++)
    for (size_t i = 0; (a = tu_algorithm_at(i)) != NULL; i++)
      for (uint32_t n = 1; n <= RANKS_MAX; n++)
        for (int in_place = 0; in_place < 2; in_place++)
          if (tu_algorithm_fits(a, n)) run_algorithm(a, n, in_place, &seed, &t);
  printf("  %u games; joined messages crossed as one in %u, separately in %u, in both ways in %u\n", t.games, t.as_one,
         t.apart, t.mixed);
  printf("  messages: %u inline, %u staged (%u of them multicasts), %u lent, %u stored\n", t.ways[TU_WAY_INLINE],
         t.ways[TU_WAY_STAGED], t.casts, t.ways[TU_WAY_LENT], t.ways[TU_WAY_STORED]);
  CHECK(t.as_one > 10 && t.apart > 10 && t.mixed > 10, "a way of crossing was tested too rarely");
  CHECK(t.ways[TU_WAY_INLINE] > 100 && t.casts > 100 && t.ways[TU_WAY_LENT] > 100 && t.ways[TU_WAY_STORED] > 100,
        "a way of crossing was tested too rarely");
}

/* Runs a plan in text form; the checker must prove it first. */
static void run_text(const char *text, uint64_t *seed) {
  struct game *g = tu_allocate(1, sizeof *g);
  struct tu_error error;
  struct tu_check_report report;
  struct tally t = {0};
  tutti_err err = tu_plan_read(text, strlen(text), "plan", &g->plans[0], &error);
  if (err != TUTTI_OK) FAIL("%s", error.text);
  else if (!tu_check(g->plans[0], 1, &report)) FAIL("not proved: %s", report.text);
  for (uint32_t rank = 1; err == TUTTI_OK && rank < g->plans[0]->ranks; rank++) g->plans[rank] = g->plans[0];
  g->one_for_all = true;
  g->arithmetic = (struct tu_arithmetic){.type = TUTTI_I64, .op = TUTTI_SUM};
  g->shape = (struct tu_channel_shape){.credits = 1,
                                       .slot_bytes = 64,
                                       .one_way_slot_bytes = 64,
                                       .ring_bytes = 128,
                                       .cast_slot_bytes = 64,
                                       .cast_ring_bytes = 128};
  for (uint32_t i = 0; i < BLOCKS_MAX; i++) g->class_count[i] = 5000;
  if (err == TUTTI_OK) run_game(g, seed, &t);
  free(g);
}

/* Tests a plan in which each rank lists all its sends before its first receive, so that the only instruction that can
 * advance is far behind the first unfinished one. */
static void far_steps(void) {
  enum { SPLIT = 300 };
  uint64_t seed = test_seed();
  struct tu_text text = {0};
  tu_text_print(&text,
                "tutti-plan 1\ncollective alltoall\nalgorithm far\nranks 2\nroot 0\nsplit %d\nin_place no\n"
                "equal_blocks yes\nrank_order no\n",
                SPLIT);
  for (uint32_t rank = 0; rank < 2; rank++) {
    uint32_t own = rank * SPLIT, other = SPLIT - own;
    tu_text_print(&text, "rank %u\n0: copy in[%u:%u] into out[%u:%u]\n", rank, own, own + SPLIT, own, own + SPLIT);
    for (uint32_t i = 0; i < SPLIT; i++) tu_text_print(&text, "%u: send in[%u] to %u\n", 1 + i, other + i, 1 - rank);
    for (uint32_t i = 0; i < SPLIT; i++)
      tu_text_print(&text, "%u: recv from %u into out[%u]\n", 1 + SPLIT + i, 1 - rank, other + i);
  }
  run_text(text.chars, &seed);
  tu_text_fini(&text);
}

/* ---- who copies a long message in shared memory ---- */

static uint32_t first_told;
static void tell_first(struct tu_teller *teller, uint32_t instruction, size_t bytes, bool last) {
  (void)teller, (void)bytes, (void)last;
  if (first_told == UINT32_MAX) first_told = instruction;
}

/* Returns the first send of a part's program. */
static uint32_t send_of(const struct part *p) {
  uint32_t i = 0;
  while (i < p->program->instruction_count && p->program->instructions[i].kind != TU_SEND) i++;
  return i;
}

/* In the second call, rank 0 has begun, and published or posted what it can, before rank 1 begins. (In the first one, rank 0
 * cannot post, because it has not mapped the channel yet.) */
static void long_messages(void) {
  enum { ITEMS = 160 << 10, SEGMENT = 32 << 20, SLOT = 8192 };
  static const struct {
    const char *what;
    tutti_collective collective;
    bool far;        /* lines take long between the ranks */
    enum tu_way way; /* of the message of rank 1 */
  } rows[] = {{"each copies what it gets", TUTTI_ALLGATHER, false, TU_WAY_LENT},
              {"each copies what it gets, far", TUTTI_ALLGATHER, true, TU_WAY_LENT},
              {"the root has posted its target", TUTTI_GATHER, false, TU_WAY_STORED},
              {"the root has posted its target, far", TUTTI_GATHER, true, TU_WAY_STORED}};
  uint64_t seed = test_seed();
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct game *g = tu_allocate(1, sizeof *g);
    struct tu_build what = {.algorithm = tu_algorithm_find(rows[i].collective, "direct"),
                            .ranks = 2,
                            .in_place = true,
                            .rank = TU_ALL_RANKS};
    g->plans[0] = g->plans[1] = tu_plan_build(&what);
    g->one_for_all = g->in_builder_order = true;
    g->shape = (struct tu_channel_shape){.credits = 2,
                                         .slot_bytes = SLOT,
                                         .one_way_slot_bytes = SLOT,
                                         .ring_bytes = 2 * SLOT,
                                         .cast_slot_bytes = SLOT,
                                         .cast_ring_bytes = 2 * SLOT};
    g->shared = UINT32_MAX;
    for (uint32_t k = 0; k < BLOCKS_MAX; k++) g->class_count[k] = ITEMS;
    g->arithmetic = (struct tu_arithmetic){.type = TUTTI_I64, .op = TUTTI_SUM};
    open_world(g, SEGMENT);
    g->movers[1]->target_fills.slow = false; /* or nothing is measured on CPUs of AMD */
    for (uint32_t rank = 0; rank < 2; rank++) prepare(g, 0, rank);
    CHECK(play(g, &seed), "%s: the first call is stuck", rows[i].what);
    prepare(g, 1, 0);
    tu_execution_poll(&g->parts[1][0].execution);
    prepare(g, 1, 1);
    struct part *second = &g->parts[1][1];
    const uint32_t send = send_of(second);
    struct tu_execution *e = &second->execution;
    struct tu_sender *s = second->program->messages[second->program->instructions[send].message_first].sender;
    atomic_store(&s->credit->far, rows[i].far);
    first_told = UINT32_MAX;
    e->teller = tu_allocate(1, sizeof *e->teller + second->program->instruction_count * sizeof e->teller->told[0]);
    e->teller->tell = tell_first;
    tu_execution_poll_and_tell(e);
    CHECK(first_told == send, "%s: rank 1 does not send first", rows[i].what);
    CHECK(e->progress[send].way == rows[i].way, "%s: way %d, not %d", rows[i].what, e->progress[send].way, rows[i].way);
    const struct tu_fills *f = &g->movers[1]->target_fills;
    const bool measured = f->left > 0 || f->score > 0;
    CHECK(measured == (rows[i].far && rows[i].way == TU_WAY_STORED), "%s: overwriting is %smeasured", rows[i].what,
          measured ? "" : "not ");
    CHECK(play(g, &seed), "%s: the second call is stuck", rows[i].what);
    for (uint32_t k = 0; k < CALLS * 2; k++) judge(g, k / 2, k % 2);
    close_world(g);
    free(g);
  }
}

/* Results go past the caches if these do not hold what the program moves; but not where ranks share CPUs of AMD. */
static void past_the_caches(void) {
  static const struct {
    size_t moved;
    bool amd;
    uint32_t share;
    bool past;
  } rows[] = {{999, false, 1, false}, {1000, false, 1, true}, {1000, false, 2, true},
              {1000, true, 1, true},  {999, true, 1, false},  {1000, true, 2, false}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct tu_program program = {.moved_bytes = rows[i].moved};
    struct tu_mover mover = {.past_bytes = 1000, .share = rows[i].share, .fills = {.slow = rows[i].amd}};
    const struct tu_execution e = {.program = &program, .mover = &mover};
    CHECK(tu_execution_overflows(&e) == rows[i].past, "row %zu", i);
  }
}

/* ---- slices, and the fast path ---- */

/* Prepares a game of calls with blocks of `items` items, in slots of 8 KiB. Ranks that only send may send slices of 1 KiB. */
static struct game *prepare_calls(tutti_collective collective, const char *algorithm, uint32_t ranks, uint32_t credits,
                                  size_t items) {
  enum { SLOT = 8192 };
  struct game *g = tu_allocate(1, sizeof *g);
  struct tu_build what = {.algorithm = tu_algorithm_find(collective, algorithm), .ranks = ranks, .rank = TU_ALL_RANKS};
  struct tu_plan *plan = tu_plan_build(&what);
  for (uint32_t rank = 0; rank < ranks; rank++) g->plans[rank] = plan;
  g->one_for_all = g->in_builder_order = true;
  g->shape = (struct tu_channel_shape){.credits = credits,
                                       .slot_bytes = SLOT,
                                       .one_way_slot_bytes = SLOT / 8,
                                       .ring_bytes = 2 * SLOT,
                                       .cast_slot_bytes = SLOT,
                                       .cast_ring_bytes = 2 * SLOT};
  for (uint32_t i = 0; i < BLOCKS_MAX; i++) g->class_count[i] = items;
  g->arithmetic = (struct tu_arithmetic){.type = TUTTI_I64, .op = TUTTI_SUM};
  open_world(g, 4 << 20);
  return g;
}

/* A rank that only sends cuts its message into slices, at most as many as there are credits. */
static void slices_of_one_way(void) {
  static const struct {
    size_t items, slices;
  } rows[] = {{64, 1}, {128, 1}, {129, 2}, {512, 4}, {1024, 8}, {2048, 8}, {8192, 8}, {16384, 16}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct game *g = prepare_calls(TUTTI_BROADCAST, "direct", 2, 8, rows[i].items);
    for (uint32_t rank = 0; rank < 2; rank++) prepare(g, 0, rank);
    const struct tu_program *sends = g->parts[0][0].program, *receives = g->parts[0][1].program;
    const size_t bytes = rows[i].items * sizeof(int64_t), slices = (bytes + sends->slot_bytes - 1) / sends->slot_bytes;
    CHECK(sends->sends_only && slices == rows[i].slices, "%zu bytes: %zu slices, expected %zu", bytes, slices,
          rows[i].slices);
    CHECK(!receives->sends_only && receives->slot_bytes == g->shape.slot_bytes,
          "rank 1, which receives, has slots of %zu bytes", receives->slot_bytes);
    uint64_t seed = test_seed();
    CHECK(play(g, &seed), "%zu bytes: stuck", bytes);
    for (uint32_t rank = 0; rank < 2; rank++) judge(g, 0, rank);
    close_world(g);
    free(g);
  }
}

/* Plays the first call, which finds the channels, and sets up the second one. */
static void prepare_second(struct game *g, uint32_t ranks, uint64_t *seed) {
  for (uint32_t rank = 0; rank < ranks; rank++) prepare(g, 0, rank);
  CHECK(play(g, seed), "the first call is stuck");
  for (uint32_t rank = 0; rank < ranks; rank++) set_up(g, 1, rank);
}

static struct tu_execution *start_straight(struct game *g, uint32_t call, uint32_t rank) {
  struct part *p = &g->parts[call][rank];
  tu_assert(p->program->order && tu_execution_goes_straight(&p->execution, p->in, p->out));
  tu_assert(tu_execution_prepare_straight(&p->execution, p->in, p->out));
  tu_execution_start_straight(&p->execution, call + 1);
  return &p->execution;
}

/* Runs the second call on the fast path: with few credits, its message of four slices comes bit by bit. A rank may leave the
 * fast path in the middle of it. Messages of several ranks that are used together are taken only if they are whole. */
static void slices_on_the_fast_path(void) {
  enum { ITEMS = 512, ROUNDS = 100 };
  static const struct {
    const char *what;
    tutti_collective collective;
    uint32_t ranks, credits;
    bool leaves[3]; /* it leaves when it has sent or received a part of the message */
    bool unfit;     /* rank 0 cannot take what comes */
  } rows[] = {{"all slices at once", TUTTI_BROADCAST, 2, 4, {false}, false},
              {"two at a time", TUTTI_BROADCAST, 2, 2, {false}, false},
              {"one at a time", TUTTI_BROADCAST, 2, 1, {false}, false},
              {"the sender leaves", TUTTI_BROADCAST, 2, 1, {true, false}, false},
              {"the receiver leaves", TUTTI_BROADCAST, 2, 2, {false, true}, false},
              {"both leave", TUTTI_BROADCAST, 2, 1, {true, true}, false},
              {"reduced at once", TUTTI_REDUCE, 2, 4, {false}, false},
              {"reduced one at a time", TUTTI_REDUCE, 2, 1, {false}, false},
              {"the one that reduces leaves", TUTTI_REDUCE, 2, 2, {true, false}, false},
              {"both leave a reduction", TUTTI_REDUCE, 2, 1, {true, true}, false},
              {"two operands", TUTTI_REDUCE, 3, 4, {false}, true}};
  uint64_t seed = test_seed();
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const uint32_t ranks = rows[i].ranks;
    struct game *g = prepare_calls(rows[i].collective, "direct", ranks, rows[i].credits, ITEMS);
    prepare_second(g, ranks, &seed);
    bool finished[3] = {false}, left[3] = {false}, unfit = false;
    for (uint32_t rank = 0; rank < ranks; rank++) {
      /* also if there are fewer credits than slices */
      if (g->parts[1][rank].program->sends_only) g->parts[1][rank].execution.slot_bytes = 1024;
      start_straight(g, 1, rank);
    }
    for (int round = 0; round < ROUNDS; round++)
      for (uint32_t rank = 0; rank < ranks; rank++) {
        struct tu_execution *e = &g->parts[1][rank].execution;
        if (left[rank]) tu_execution_poll(e);
        else if (!finished[rank]) finished[rank] = tu_execution_poll_straight(e, 1);
        if (left[rank]) finished[rank] = e->unfinished == 0;
        if (left[rank] || finished[rank] || !(e->unfit || (rows[i].leaves[rank] && e->hop_done > 0))) continue;
        unfit |= e->unfit;
        tu_execution_leave_straight(e);
        left[rank] = true;
      }
    CHECK(unfit == rows[i].unfit, "%s: unfit %d", rows[i].what, unfit);
    for (uint32_t rank = 0; rank < ranks; rank++) {
      CHECK(finished[rank], "%s: rank %u is stuck", rows[i].what, rank);
      CHECK(left[rank] == (rows[i].leaves[rank] || (rows[i].unfit && rank == 0)), "%s: rank %u", rows[i].what, rank);
      if (finished[rank]) judge(g, 1, rank);
    }
    close_world(g);
    free(g);
  }
}

/* A rank of four waits: for whom, seen from its CPU? */
static void for_whom_the_fast_path_waits(void) {
  enum { ALL = 4, LONG = 512 };
  static const char *const names[] = {
      [TU_AWAITS_HERE] = "here", [TU_AWAITS_AFAR] = "afar", [TU_AWAITS_ROOT] = "root", [TU_AWAITS_OTHER] = "other"};
  static const struct {
    const char *what;
    tutti_collective collective;
    const char *algorithm;
    uint32_t waits; /* the rank that waits */
    uint64_t here;  /* as in tu_execution_awaits_where: bit i: the rank that comes i ranks after it */
    uint32_t come;  /* bit r: rank r has started, and polled once */
    size_t items;
    enum tu_awaits awaits;
  } rows[] = {
      {"no rank has come", TUTTI_ALLGATHER, "direct", 0, 1 << 2, 0, 4, TU_AWAITS_HERE},
      {"the others have", TUTTI_ALLGATHER, "direct", 0, 1 << 2, 1 << 1 | 1 << 3, 4, TU_AWAITS_HERE},
      {"the one here has", TUTTI_ALLGATHER, "direct", 0, 1 << 2, 1 << 2, 4, TU_AWAITS_AFAR},
      {"rank 0, after rank 3", TUTTI_ALLGATHER, "direct", 3, 1 << 1, 1 << 0, 4, TU_AWAITS_AFAR},
      {"rank 1, after rank 3", TUTTI_ALLGATHER, "direct", 3, 1 << 2, 1 << 0, 4, TU_AWAITS_HERE},
      {"one of two here", TUTTI_ALLGATHER, "direct", 0, 1 << 1 | 1 << 2, 1 << 2, 4, TU_AWAITS_HERE},
      {"alone", TUTTI_ALLGATHER, "direct", 0, 0, 1 << 2, 4, TU_AWAITS_AFAR},
      {"messages that are used together", TUTTI_ALLREDUCE, "direct", 0, 1 << 2, 1 << 2, 4, TU_AWAITS_AFAR},
      {"no bytes", TUTTI_BARRIER, "direct", 0, 1 << 3, 1 << 3, 4, TU_AWAITS_AFAR},
      {"long messages", TUTTI_ALLGATHER, "direct", 0, 1 << 2, 1 << 2, LONG, TU_AWAITS_OTHER},
      {"the root is here", TUTTI_BROADCAST, "direct", 2, 1 << 2, 0, 4, TU_AWAITS_HERE},
      {"the root is elsewhere", TUTTI_BROADCAST, "direct", 2, 1 << 1, 1 << 3, 4, TU_AWAITS_ROOT},
      {"the root is elsewhere, long message", TUTTI_BROADCAST, "direct", 2, 1 << 1, 1 << 3, LONG, TU_AWAITS_OTHER},
      {"a parent that is not the root", TUTTI_BROADCAST, "binomial", 3, 1 << 1, 0, 4, TU_AWAITS_OTHER},
      {"more to send", TUTTI_SCAN, "chain", 2, 0, 0, 4, TU_AWAITS_OTHER},
      {"nothing more to send", TUTTI_SCAN, "chain", 3, 0, 0, 4, TU_AWAITS_AFAR},
      {"a neighbour here, more to send", TUTTI_SCAN, "chain", 2, 1 << 3, 0, 4, TU_AWAITS_HERE},
  };
  uint64_t seed = test_seed();
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct game *g = prepare_calls(rows[i].collective, rows[i].algorithm, ALL, 8, rows[i].items);
    prepare_second(g, ALL, &seed);
    for (uint32_t rank = 0; rank < ALL; rank++) {
      struct tu_execution *e = start_straight(g, 1, rank);
      if (rows[i].come >> rank & 1) tu_execution_poll_straight(e, 0);
    }
    struct tu_execution *e = &g->parts[1][rows[i].waits].execution;
    CHECK(!tu_execution_poll_straight(e, 0), "%s: finished", rows[i].what);
    const enum tu_awaits awaits = tu_execution_awaits_where(e, rows[i].here);
    CHECK(awaits == rows[i].awaits, "%s: %s, expected %s", rows[i].what, names[awaits], names[rows[i].awaits]);
    bool open = true;
    for (int round = 0; round < 100 && open; round++) {
      open = false;
      for (uint32_t rank = 0; rank < ALL; rank++) open |= !tu_execution_poll_straight(&g->parts[1][rank].execution, 0);
    }
    CHECK(!open, "%s: stuck", rows[i].what);
    for (uint32_t rank = 0; rank < ALL; rank++) judge(g, 1, rank);
    close_world(g);
    free(g);
  }
}

/* Rank 2 of a ring waits for its last message. It has heard of rank 1 only, twice. */
static void one_neighbour_does_not_speak_for_others(void) {
  enum { ALL = 4 };
  static const struct {
    uint64_t here;
    enum tu_awaits awaits;
  } rows[] = {{1 << 2, TU_AWAITS_OTHER}, {1 << 3, TU_AWAITS_HERE}, {0, TU_AWAITS_AFAR}};
  uint64_t seed = test_seed();
  struct game *g = prepare_calls(TUTTI_ALLGATHER, "bucket", ALL, 8, 4);
  prepare_second(g, ALL, &seed);
  for (uint32_t rank = 0; rank < ALL; rank++) (void)start_straight(g, 1, rank);
  struct tu_execution *e = &g->parts[1][2].execution;
  const uint32_t last = e->program->instruction_count - 1;
  /* each rank before the one of which it receives, so one step at a time */
  for (int round = 0; round < 100 && e->head < last; round++)
    for (uint32_t rank = ALL; rank-- > 0;) (void)tu_execution_poll_straight(&g->parts[1][rank].execution, 0);
  CHECK(e->head == last, "instruction %u of %u", e->head, last);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const enum tu_awaits awaits = tu_execution_awaits_where(e, rows[i].here);
    CHECK(awaits == rows[i].awaits, "row %zu: awaits %d, expected %d", i, awaits, rows[i].awaits);
  }
  close_world(g);
  free(g);
}

/* A root waits for the credits of receivers that have not taken its last message. */
static void a_root_waits_for_credits(void) {
  enum { ALL = 3 };
  static const struct {
    uint32_t taken; /* bit r: rank r has taken the first message */
    uint64_t here;
    enum tu_awaits awaits;
  } rows[] = {{0, 1 << 1, TU_AWAITS_HERE},
              {1 << 2, 1 << 1, TU_AWAITS_HERE},
              {1 << 1, 1 << 1, TU_AWAITS_OTHER},
              {0, 0, TU_AWAITS_OTHER}};
  uint64_t seed = test_seed();
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct game *g = prepare_calls(TUTTI_BROADCAST, "direct", ALL, 1, 4);
    prepare_second(g, ALL, &seed);
    for (uint32_t rank = 0; rank < ALL; rank++)
      if (rank == 0 || rows[i].taken >> rank & 1) tu_assert(tu_execution_poll_straight(start_straight(g, 1, rank), 0));
    struct tu_execution *root = start_straight(g, 1, 0);
    CHECK(!tu_execution_poll_straight(root, 0), "row %zu: sent", i);
    CHECK(tu_execution_awaits_where(root, rows[i].here) == rows[i].awaits, "row %zu: awaits %d", i,
          tu_execution_awaits_where(root, rows[i].here));
    close_world(g);
    free(g);
  }
}

/* ---- relabelled ranks ---- */

/* Runs an algorithm whose ranks are relabelled. Blocks of input and output stay in the order of the ranks. */
static void run_in_order(const struct tu_algorithm *a, const uint32_t order[], uint32_t ranks, bool in_place,
                         uint64_t *seed, struct tally *t) {
  bool rooted = tu_collectives[a->collective].rooted;
  struct tu_build what = {.algorithm = a,
                          .ranks = ranks,
                          .root = rooted ? below(seed, ranks) : 0,
                          .in_place = in_place,
                          .rank = TU_ALL_RANKS,
                          .slot_pieces = 1 + below(seed, 4),
                          .lanes = a->collective == TUTTI_BARRIER ? 0 : below(seed, 3)};
  struct tu_plan *plan = tu_plan_build(&what);
  struct game *g = tu_allocate(1, sizeof *g);
  struct tu_error error;
  tutti_err err = tu_plan_relabel(plan, order, &g->plans[0], &error);
  CHECK(err == TUTTI_OK, "%s: %s", a->name, error.text);
  tu_plan_destroy(plan);
  if (err == TUTTI_OK) {
    for (uint32_t rank = 1; rank < ranks; rank++) g->plans[rank] = g->plans[0];
    g->one_for_all = true;
    draw_sizes(g, seed);
    g->in_builder_order = false;
    g->arithmetic = draw_arithmetic(g->plans[0], seed);
    run_game(g, seed, t);
  }
  free(g);
}

static void in_other_orders(void) {
  uint64_t seed = test_seed();
  struct tally t = {0};
  const struct tu_algorithm *a;
  for (uint32_t round = 0; round < (test_long() ? 40u : 2u); round++)
    for (size_t i = 0; (a = tu_algorithm_at(i)) != NULL; i++) {
      uint32_t ranks = 2 + below(&seed, RANKS_MAX - 1), order[RANKS_MAX];
      if (!tu_plan_may_relabel(a->collective) || !tu_algorithm_fits(a, ranks)) continue;
      for (uint32_t k = 0; k < ranks; k++) {
        uint32_t other = below(&seed, k + 1);
        order[k] = order[other];
        order[other] = k;
      }
      run_in_order(a, order, ranks, round % 2, &seed, &t);
    }
  CHECK(t.games > 50, "%u games", t.games);
}

/* Runs plans on a T3000, a machine of 8 chips: around the ring that tu_ring_find finds, and along the rows and then the
 * columns of the grid. */
static void play_t3000(struct tu_cluster *c) {
  static const struct {
    tutti_collective collective;
    const char *name;
    bool rows;
  } plans[] = {{TUTTI_ALLGATHER, "bucket", false},
               {TUTTI_ALLGATHER, "bidirectional_split", false},
               {TUTTI_REDUCE_SCATTER, "bidirectional", false},
               {TUTTI_ALLREDUCE, "bidirectional_ring", false},
               {TUTTI_ALLTOALL, "bidirectional", false},
               {TUTTI_BROADCAST, "bidirectional", false},
               {TUTTI_REDUCE, "bidirectional", false},
               {TUTTI_GATHER, "bidirectional", false},
               {TUTTI_SCATTER, "bidirectional", false},
               {TUTTI_ALLGATHER, "ag:line/4+ag:line", true},
               {TUTTI_REDUCE_SCATTER, "rs:line+rs:line/4", true},
               {TUTTI_ALLREDUCE, "rs:line/4+rs:line+ag:line+ag:line/4", true},
               {TUTTI_BROADCAST, "bc:line+bc:line/4", true},
               {TUTTI_REDUCE, "re:line/4+re:line", true}};
  uint64_t seed = test_seed();
  struct tally t = {0};
  struct tu_grid grid;
  struct tu_ring ring;
  tu_grid_find(c, &grid);
  tu_ring_find(c, &grid, &ring);
  CHECK(ring.kind == TU_RING && grid.dims == 2 && grid.size[0] == 4, "%s: no ring, or no rows of 4", c->name);
  for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
    const struct tu_algorithm *a = tu_algorithm_find(plans[i].collective, plans[i].name);
    for (int in_place = 0; in_place < 2 && a; in_place++)
      run_in_order(a, plans[i].rows ? grid.chip : ring.order, 8, in_place, &seed, &t);
  }
  CHECK(t.games == 2 * sizeof plans / sizeof plans[0], "%u games", t.games);
  tu_ring_fini(&ring);
  tu_grid_fini(&grid);
  tu_cluster_destroy(c);
}

static void on_a_t3000(void) {
  play_t3000(cluster_of("t3000"));
  play_t3000(cluster_shared("own/eight.yaml"));
}

static void on_a_real_t3000(void) {
  struct tu_cluster *real = cluster_shared("t3k_cluster_desc.yaml");
  if (real) play_t3000(real);
}

static const struct test tests[] = {
    {"every_algorithm_in_random_schedules", every_algorithm_in_random_schedules},
    {"in_other_orders", in_other_orders},
    {"on_a_t3000", on_a_t3000},
    {"on_a_real_t3000", on_a_real_t3000},
    {"far_steps", far_steps},
    {"long_messages", long_messages},
    {"past_the_caches", past_the_caches},
    {"slices_of_one_way", slices_of_one_way},
    {"slices_on_the_fast_path", slices_on_the_fast_path},
    {"for_whom_the_fast_path_waits", for_whom_the_fast_path_waits},
    {"one_neighbour_does_not_speak_for_others", one_neighbour_does_not_speak_for_others},
    {"a_root_waits_for_credits", a_root_waits_for_credits},
};

int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
