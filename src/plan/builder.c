/* builder.c: the functions that algorithms call to build a plan. A send is emitted by its call. A step that receives,
 * copies or reduces is recorded, and emitted at the end of the concurrent calls. */
#include "plan/builder_internal.h"

uint32_t tu_build_ranks(const struct tu_builder *b) { return b->frame->what.ranks; }
uint32_t tu_build_root(const struct tu_builder *b) { return b->frame->what.root; }
uint32_t tu_build_split(const struct tu_builder *b) { return b->frame->split; }
const struct tu_build *tu_build_what(const struct tu_builder *b) { return &b->frame->what; }
uint32_t tu_build_part(const struct tu_builder *b) { return b->part; }
bool tu_build_equal_blocks(const struct tu_builder *b) { return b->plan->equal_blocks; }
bool tu_build_in_place(const struct tu_builder *b) { return b->frame->what.in_place; }
struct tu_arena *tu_build_arena(struct tu_builder *b) {
  return &b->frame->arena;
}

struct tu_span tu_in_blocks_at(const struct tu_builder *b, uint32_t block, uint32_t count) {
  return tu_in(block * b->frame->split, count * b->frame->split);
}

struct tu_span tu_out_blocks_at(const struct tu_builder *b, uint32_t block, uint32_t count) {
  return tu_out(block * b->frame->split, count * b->frame->split);
}

void tu_lane(struct tu_builder *b, uint32_t lane) {
  tu_assert(lane < b->lane_count);
  b->lane = (uint8_t)(b->lane_first + lane);
}

uint32_t tu_next_rank(const struct tu_builder *b, uint32_t rank, uint32_t distance) {
  if (!b->one_for_all) return rank;
  uint32_t n = b->plan->ranks, own = b->plan->rank_first, before = (own + n - distance % n) % n;
  uint32_t low = (uint32_t)tu_min(own, before), high = (uint32_t)tu_max(own, before);
  return rank <= low ? low : rank <= high ? high : n;
}

/* ---- concurrent calls ---- */

void tu_concurrent_begin(struct tu_builder *b) { b->concurrent_depth++; }

void tu_concurrent_end(struct tu_builder *b) {
  tu_assert(b->concurrent_depth > 0);
  b->concurrent_depth--;
  tu_build_flush(b);
}

void tu_join_begin(struct tu_builder *b) {
  tu_assert(!b->in_join);
  tu_concurrent_begin(b);
  b->in_join = true;
  b->joins++;
}

void tu_go_on(struct tu_builder *b, bool on) { b->go_on = on; }

void tu_join_end(struct tu_builder *b) {
  b->in_join = false;
  tu_concurrent_end(b);
}

/* ---- data movement ---- */

/* Adds a step of a rank to the steps that are emitted at the end of the concurrent calls. Calls of add_operand then add
 * its operands. */
static struct tu_build_pending *add_pending(struct tu_builder *b, enum tu_step_kind kind, struct tu_at to) {
  b->pending = tu_arena_grow(&b->arena, b->pending, b->pending_count, &b->pending_capacity, sizeof *b->pending);
  struct tu_build_pending *p = &b->pending[b->pending_count++];
  *p = (struct tu_build_pending){to.rank, (uint8_t)kind, b->lane, to.span, b->operand_count, 0};
  return p;
}

static void add_operand(struct tu_builder *b, struct tu_build_pending *p, struct tu_build_operand operand) {
  tu_assert(operand.span.count == p->target.count);
  b->operands = tu_arena_grow(&b->arena, b->operands, b->operand_count, &b->operand_capacity, sizeof *b->operands);
  b->operands[b->operand_count++] = operand;
  p->operand_count++;
  b->work++;
}

static struct tu_build_operand local_operand(struct tu_builder *b, uint32_t rank, struct tu_span span) {
  return (struct tu_build_operand){rank, span, tu_build_span_weight(b, rank, span), false};
}

static void copy_in_plan(struct tu_builder *b, uint32_t rank, struct tu_span source, struct tu_span target) {
  tu_build_assert_span(b, rank, target);
  struct tu_build_operand operand = local_operand(b, rank, source);
  /* A copy of a span onto itself moves no data. It is needed only if the span is input that premul_sum has not scaled
   * yet: this step scales it. */
  if (tu_build_cell_of(b, rank, source) == tu_build_cell_of(b, rank, target) && !(operand.weight & TU_BUILD_RAW))
    return;
  add_operand(b, add_pending(b, TU_COPY, tu_at(rank, target)), operand);
  tu_build_flush(b);
}

void tu_copy(struct tu_builder *b, uint32_t rank, struct tu_span source, struct tu_span target) {
  struct tu_at ends[2] = {tu_build_in_plan(b, tu_at(rank, source)), tu_build_in_plan(b, tu_at(rank, target))};
  for (uint32_t done = 0, run; done < ends[0].span.count; done += run) {
    run = tu_build_run_of(b, ends[0].span.count, done);
    copy_in_plan(b, ends[0].rank, tu_build_run_in_plan(b, ends[0], done, run).span,
                 tu_build_run_in_plan(b, ends[1], done, run).span);
  }
}

void tu_move(struct tu_builder *b, struct tu_at from, struct tu_at to) { tu_multicast(b, from, &to, 1); }

/* Emits the part of a multicast that sends `run` consecutive chunks of the spans, from chunk number `done` on. */
static void multicast_run(struct tu_builder *b, struct tu_at from, const struct tu_at targets[], uint32_t target_count,
                          uint32_t done, uint32_t run) {
  bool joined;
  struct tu_at source = tu_build_run_in_plan(b, from, done, run);
  uint32_t weight = tu_build_emit_send(b, source, targets, target_count, &joined);
  for (uint32_t i = 0; i < target_count; i++) {
    struct tu_at target = tu_build_run_in_plan(b, tu_build_in_plan(b, targets[i]), done, run);
    if (target.rank == source.rank) {
      copy_in_plan(b, source.rank, source.span, target.span);
      continue;
    }
    tu_build_assert_span(b, target.rank, target.span);
    add_operand(b, add_pending(b, TU_RECV, target),
                (struct tu_build_operand){source.rank, source.span, weight & ~TU_BUILD_RAW, joined});
  }
}

/* Sends a span in runs of consecutive chunks. With one receiver, all runs are joined into one message. With several
 * receivers, each run is a message of its own, because multicasts cannot join. */
void tu_multicast(struct tu_builder *b, struct tu_at from, const struct tu_at targets[], uint32_t target_count) {
  struct tu_at source = tu_build_in_plan(b, from);
  if (target_count == 1) tu_concurrent_begin(b);
  for (uint32_t done = 0, run; done < source.span.count; done += run) {
    run = tu_build_run_of(b, source.span.count, done);
    if (target_count > 1) tu_concurrent_begin(b);
    b->continues = target_count == 1 && done > 0;
    multicast_run(b, source, targets, target_count, done, run);
    if (target_count > 1) tu_concurrent_end(b);
  }
  b->continues = false;
  if (target_count == 1) tu_concurrent_end(b);
}

void tu_reduce_local(struct tu_builder *b, uint32_t rank, struct tu_span left, struct tu_span right,
                     struct tu_span target) {
  tu_reduce_from(b, (const struct tu_at[]){tu_at(rank, left), tu_at(rank, right)}, 2, tu_at(rank, target));
}

void tu_move_reduce(struct tu_builder *b, struct tu_at from, enum tu_side side, struct tu_span with, struct tu_at to) {
  struct tu_at left = side == TU_FROM_LEFT ? from : tu_at(to.rank, with);
  struct tu_at right = side == TU_FROM_LEFT ? tu_at(to.rank, with) : from;
  tu_reduce_from(b, (const struct tu_at[]){left, right}, 2, to);
}

void tu_reduce_from(struct tu_builder *b, const struct tu_at sources[], uint32_t source_count, struct tu_at to) {
  tu_reduce_multicast(b, sources, source_count, &to, 1);
}

/* Adds the step that reduces into one target, for one run of consecutive chunks. */
static void add_reduction(struct tu_builder *b, const struct tu_at sources[], uint32_t source_count, const bool *joined,
                          struct tu_at to, uint32_t done, uint32_t run) {
  struct tu_at target = tu_build_run_in_plan(b, tu_build_in_plan(b, to), done, run);
  tu_build_assert_span(b, target.rank, target.span);
  bool remote = false;
  for (uint32_t s = 0; s < source_count; s++) remote |= tu_build_rank_in_plan(b, sources[s].rank) != target.rank;
  struct tu_build_pending *p = add_pending(b, remote ? TU_RECV_REDUCE : TU_REDUCE, target);
  for (uint32_t s = 0; s < source_count; s++) {
    struct tu_at source = tu_build_run_in_plan(b, tu_build_in_plan(b, sources[s]), done, run);
    struct tu_build_operand operand = local_operand(b, source.rank, source.span);
    if (source.rank != target.rank) {
      /* the sender has scaled the operand (premul_sum), so it is no longer raw input */
      operand.weight &= ~TU_BUILD_RAW;
      operand.joined = joined[s];
    }
    add_operand(b, p, operand);
  }
}

void tu_reduce_multicast(struct tu_builder *b, const struct tu_at sources[], uint32_t source_count,
                         const struct tu_at targets[], uint32_t target_count) {
  tu_assert(source_count > 0);
  if (source_count == 1) {
    for (uint32_t t = 0; t < target_count; t++) tu_assert(targets[t].rank == sources[0].rank);
    for (uint32_t t = 0; t < target_count; t++) tu_copy(b, sources[0].rank, sources[0].span, targets[t].span);
    return;
  }
  bool few[8], *joined = source_count <= 8 ? few : tu_build_memory(b, source_count, sizeof *joined);
  bool together = target_count == 1;
  if (together) tu_concurrent_begin(b);
  uint32_t chunks = tu_build_in_plan(b, targets[0]).span.count;
  for (uint32_t done = 0, run; done < chunks; done += run) {
    run = tu_build_run_of(b, chunks, done);
    if (!together) tu_concurrent_begin(b);
    b->continues = together && done > 0;
    for (uint32_t s = 0; s < source_count; s++)
      tu_build_emit_send(b, tu_build_run_in_plan(b, tu_build_in_plan(b, sources[s]), done, run), targets, target_count,
                         &joined[s]);
    for (uint32_t t = 0; t < target_count; t++) add_reduction(b, sources, source_count, joined, targets[t], done, run);
    if (!together) tu_concurrent_end(b);
  }
  b->continues = false;
  if (together) tu_concurrent_end(b);
  if (joined != few) tu_arena_free(tu_build_arena(b), joined);
}
