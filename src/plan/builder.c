/* builder.c: turns an algorithm's verbs into the steps of one rank or of all.
 *
 * Order: each cell (cells.h) remembers its last writer and its readers since; a step comes after the writer of what it reads and
 * after the readers (or else the writer) of what it overwrites. Everything else follows transitively.
 * Marks: each cell of a reducing collective carries the number of contributions in it; `first` is a load of raw input,
 * `final` the reduction that completes a sum. These are followed for all ranks, also when one rank's steps are built; unless
 * that one stands for all (TU_ROTATES_ROWS): then another's are its own, moved on. */
#include "plan/builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/algorithm.h"
#include "plan/cells.h"

#define NONE TU_CELL_NONE
#define RAW (1u << 31)

struct rank_state {
  struct tu_rank_plan *plan; /* NULL: this rank's steps are not wanted */
  uint32_t chunks[2];        /* of IN and OUT */
  uint32_t first_cell[3];    /* of each buffer: cells of a buffer stand in a row */
  uint32_t step_capacity, peer_capacity, operand_capacity, after_capacity, tmp_capacity;
  uint32_t tmp_count;
  uint32_t tmp_first;    /* the scratch of earlier parts lies before */
  struct tu_cells cells; /* none until touched. Weight: contributions in a cell, with RAW for input as it came */
  /* The last send within a join: what follows it to the same peer goes on with its message. */
  uint32_t join, join_peer;
  uint8_t join_lane;
};

/* An operand of a receiving step, with what its sender had in it. `from` = the receiver itself: a local one. */
struct operand {
  uint32_t from;
  struct tu_span span;
  uint32_t weight; /* of each chunk (they are all alike) */
  bool joined;
};

/* A receiving or local step that waits for the end of its group. */
struct pending {
  uint32_t rank;
  uint8_t kind, lane;
  struct tu_span target;
  uint32_t operand_first, operand_count;
};

enum { ROW = TU_TMP + 1, BASES };

/* The collective that verbs speak of: the plan's own, or one within it (tu_build_sub). */
struct frame {
  struct tu_build what;
  uint32_t split;
  uint32_t scale;          /* chunks of the plan for each of the frame's */
  uint32_t run;            /* see frame_run */
  const uint32_t *members; /* rank of the frame -> rank of the plan; NULL: the same */
  const struct tu_span
      *bases; /* [rank * BASES + buffer, or ROW]: where its buffers lie in the plan's; NULL: the same */
  struct frame *outer;
  struct tu_arena arena; /* of what its algorithm asks for (tu_build_arena) */
};

struct tu_builder {
  struct tu_plan *plan;
  struct tu_arena arena; /* of what is here, and of the frames */
  struct frame *frame;
  struct rank_state *ranks;
  uint8_t lane;
  bool reduces;
  bool one_for_all; /* one rank's steps are built, and what others have is as what it has (TU_ROTATES_ROWS) */
  uint32_t group_depth;
  uint32_t joins; /* opened so far */
  bool in_join, go_on;
  bool continues; /* the verb's next run of chunks, in the same message */
  /* Which part of every block is being said, and of how many; chunks of a block in one part; lanes of the part's own. */
  uint32_t part, parts, part_split;
  uint32_t lane_first, lane_count;
  struct pending *pending;
  uint32_t pending_count, pending_capacity;
  struct operand *operands; /* of pending */
  uint32_t operand_count, operand_capacity;
  uint32_t *scratch; /* afters of the step that is being emitted */
  uint32_t scratch_count, scratch_capacity;
  uint64_t work; /* see tu_plan.work */
};

uint32_t tu_build_ranks(const struct tu_builder *b) { return b->frame->what.ranks; }
uint32_t tu_build_root(const struct tu_builder *b) { return b->frame->what.root; }
uint32_t tu_build_split(const struct tu_builder *b) { return b->frame->split; }
const struct tu_build *tu_build_what(const struct tu_builder *b) { return &b->frame->what; }
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

/* ---- frames: from what an algorithm says to the ranks and chunks of the whole collective ---- */

static uint32_t rank_in_plan(const struct tu_builder *b, uint32_t rank) {
  return b->frame->members ? b->frame->members[rank] : rank;
}

static struct tu_at out_of_frame(const struct tu_builder *b, struct tu_at at) {
  const struct frame *f = b->frame;
  struct tu_span base = f->bases[at.rank * BASES + at.span.buffer];
  struct tu_span span = {base.buffer, base.first + at.span.first * f->scale, at.span.count * f->scale};
  tu_assert(at.span.buffer == TU_TMP || span.first + span.count <= base.first + base.count);
  return tu_at(rank_in_plan(b, at.rank), span);
}

static inline struct tu_at in_plan(const struct tu_builder *b, struct tu_at at) {
  tu_assert(at.rank < b->frame->what.ranks);
  return b->frame->bases ? out_of_frame(b, at) : at;
}

/* ---- parts: from the chunks of a collective that has one part of every block to those of the plan, where the parts of a
 * block stand side by side: what lies together in the one may lie apart in the other. All below the verbs is the plan's. ---- */

/* How many chunks of a verb's spans, from `done` on, are one run. That depends on the frame, not on where the spans lie (in
 * scratch blocks lie together): messages are the same in place and not. */
static uint32_t run_of(const struct tu_builder *b, uint32_t count, uint32_t done) {
  bool apart = b->parts > 1 && !tu_has_one_block(b->plan->collective);
  return apart ? (uint32_t)tu_min(count - done, b->frame->run) : count - done;
}

/* Runs of a frame whose spans begin and end with its own chunks, or with its blocks: no longer than what never passes from
 * one block of the part into the next. */
static uint32_t frame_run(const struct tu_builder *b, const struct frame *f) {
  return f->split * f->scale == b->part_split ? b->part_split : tu_divisor(f->scale, b->part_split);
}

static uint32_t chunk_in_plan(const struct tu_builder *b, uint32_t rank, uint32_t buffer, uint32_t chunk) {
  if (buffer == TU_TMP) return b->ranks[rank].tmp_first + chunk;
  uint32_t block = chunk / b->part_split, within = chunk % b->part_split;
  return (block * b->parts + b->part) * b->part_split + within;
}

static struct tu_at run_in_plan(const struct tu_builder *b, struct tu_at at, uint32_t done, uint32_t run) {
  bool within = at.span.buffer == TU_TMP || (at.span.first + done) % b->part_split + run <= b->part_split;
  tu_assert(b->parts == 1 || within);
  uint32_t first = chunk_in_plan(b, at.rank, at.span.buffer, at.span.first + done);
  return tu_at(at.rank, (struct tu_span){at.span.buffer, first, run});
}

/* Scratch of the part, so far. */
static uint32_t part_tmp(const struct tu_builder *b, uint32_t rank) {
  return b->ranks[rank].tmp_count - b->ranks[rank].tmp_first;
}

/* ---- cells ---- */

static uint32_t cell_of(const struct tu_builder *b, uint32_t rank, struct tu_span span) {
  return b->ranks[rank].first_cell[span.buffer] + span.first;
}

/* Which rank says how much scratch that one has. */
static uint32_t tmp_teller(const struct tu_builder *b, uint32_t rank) {
  return b->one_for_all ? b->plan->rank_first : rank;
}

static void assert_span(const struct tu_builder *b, uint32_t rank, struct tu_span span) {
  tu_assert(rank < b->plan->ranks);
  const struct rank_state *r = &b->ranks[rank];
  uint32_t chunks = span.buffer == TU_TMP ? b->ranks[tmp_teller(b, rank)].tmp_count : r->chunks[span.buffer];
  tu_assert(span.count > 0 && span.first <= chunks && span.count <= chunks - span.first);
}

static void ensure_cells(struct tu_builder *b, uint32_t rank) {
  struct rank_state *r = &b->ranks[rank];
  uint32_t need = r->first_cell[TU_TMP] + r->tmp_count;
  if ((!r->plan && !b->reduces) || r->cells.count >= need) return;
  bool fresh = r->cells.count == 0;
  tu_cells_extend(&r->cells, need);
  if (!b->reduces || !fresh || r->chunks[TU_IN] == 0) return;
  uint32_t in = r->first_cell[TU_IN];
  tu_cells_weigh(&r->cells, in, in + r->chunks[TU_IN], 1 | RAW);
}

/* What the one rank that stands for all has in the place of that span. */
static struct tu_at own_in_place_of(const struct tu_builder *b, uint32_t rank, struct tu_span span) {
  uint32_t n = b->plan->ranks, own = b->plan->rank_first, split = b->plan->split;
  bool row = span.buffer != TU_TMP && b->ranks[rank].chunks[span.buffer] > split;
  if (row) {
    uint32_t block = span.first / split, within = span.first % split;
    tu_assert(within + span.count <= split); /* so that it is in one piece */
    span.first = (block + own + n - rank) % n * split + within;
  }
  return tu_at(own, span);
}

/* What each chunk of the span holds: contributions, and RAW. All chunks of a span are alike. */
static uint32_t span_weight(struct tu_builder *b, uint32_t rank, struct tu_span span) {
  if (b->one_for_all && rank != b->plan->rank_first) {
    struct tu_at own = own_in_place_of(b, rank, span);
    rank = own.rank;
    span = own.span;
  }
  assert_span(b, rank, span);
  ensure_cells(b, rank);
  if (!b->reduces) return 0;
  const struct tu_cells *cells = &b->ranks[rank].cells;
  uint32_t cell = cell_of(b, rank, span), at = tu_cells_find(cells, cell), weight = cells->runs[at].weight;
  for (uint32_t i = at; tu_cells_within(cells, i, cell + span.count); i++, b->work++)
    tu_assert(cells->runs[i].weight == weight && weight != 0);
  return weight;
}

static void set_weight(struct tu_builder *b, uint32_t rank, struct tu_span span, uint32_t weight) {
  if (b->one_for_all && rank != b->plan->rank_first) return; /* it sets its own when its turn comes */
  assert_span(b, rank, span);
  ensure_cells(b, rank);
  if (!b->reduces) return;
  uint32_t cell = cell_of(b, rank, span);
  tu_cells_weigh(&b->ranks[rank].cells, cell, cell + span.count, weight);
}

/* Scratch of a rank, sized like that span of its part. */
static void append_tmp(struct tu_builder *b, struct tu_at like) {
  struct rank_state *r = &b->ranks[like.rank];
  r->tmp_count += like.span.count;
  b->work++;
  for (uint32_t i = 0; r->plan && i < like.span.count; i++) {
    uint32_t chunk = chunk_in_plan(b, like.rank, like.span.buffer, like.span.first + i);
    struct tu_like size = {like.span.buffer, chunk};
    assert_span(b, like.rank, (struct tu_span){like.span.buffer, chunk, 1});
    if (size.buffer == TU_TMP) size = r->plan->tmp[chunk];
    b->work++;
    r->plan->tmp =
        tu_arena_grow(&b->plan->arena, r->plan->tmp, r->plan->tmp_count, &r->tmp_capacity, sizeof *r->plan->tmp);
    r->plan->tmp[r->plan->tmp_count++] = size;
  }
}

/* The scratch that a rank of the frame has got since it had `before` chunks, as the frame sees it. */
static struct tu_span new_tmp(const struct tu_builder *b, uint32_t rank, uint32_t before) {
  const struct frame *f = b->frame;
  uint32_t base = f->bases ? f->bases[rank * BASES + TU_TMP].first : 0;
  uint32_t count = part_tmp(b, rank_in_plan(b, rank)) - before;
  return (struct tu_span){TU_TMP, (before - base) / f->scale, count / f->scale};
}

struct tu_span tu_tmp(struct tu_builder *b, uint32_t rank, struct tu_span like, uint32_t copies) {
  struct tu_at model = in_plan(b, tu_at(rank, like));
  uint32_t before = part_tmp(b, model.rank);
  for (uint32_t i = 0; i < copies; i++) append_tmp(b, model);
  return new_tmp(b, rank, before);
}

struct tu_span tu_tmp_blocks(struct tu_builder *b, uint32_t rank, struct tu_span own, uint32_t first, uint32_t count) {
  const struct frame *f = b->frame;
  if (!f->bases || f->bases[rank * BASES + ROW].count == 0) return tu_tmp(b, rank, own, count);
  uint32_t before = part_tmp(b, rank_in_plan(b, rank)), chunks = f->split * f->scale;
  for (uint32_t i = 0; i < count; i++) {
    struct tu_span block = f->bases[rank * BASES + ROW];
    block.first += (first + i) % f->what.ranks * chunks;
    block.count = chunks;
    append_tmp(b, tu_at(rank_in_plan(b, rank), block));
  }
  return new_tmp(b, rank, before);
}

/* ---- emitting a step of one rank ---- */

static void note_after(struct tu_builder *b, uint32_t step) {
  b->work++;
  if (step == NONE) return;
  for (uint32_t i = 0; i < b->scratch_count; i++)
    if (b->scratch[i] == step) return;
  b->scratch = tu_arena_grow(&b->arena, b->scratch, b->scratch_count, &b->scratch_capacity, sizeof *b->scratch);
  b->scratch[b->scratch_count++] = step;
}

static void note_read(struct tu_builder *b, uint32_t rank, struct tu_span span) {
  const struct tu_cells *c = &b->ranks[rank].cells;
  uint32_t cell = cell_of(b, rank, span);
  for (uint32_t i = tu_cells_find(c, cell); tu_cells_within(c, i, cell + span.count); i++)
    note_after(b, c->runs[i].writer);
}

static void note_write(struct tu_builder *b, uint32_t rank, struct tu_span span) {
  const struct tu_cells *c = &b->ranks[rank].cells;
  uint32_t cell = cell_of(b, rank, span);
  for (uint32_t i = tu_cells_find(c, cell); tu_cells_within(c, i, cell + span.count); i++) {
    if (c->runs[i].reader == NONE) note_after(b, c->runs[i].writer);
    for (uint32_t k = c->runs[i].reader; k != NONE; k = c->readers[k].next) note_after(b, c->readers[k].step);
  }
}

static void mark_read(struct tu_builder *b, uint32_t rank, struct tu_span span, uint32_t step) {
  uint32_t cell = cell_of(b, rank, span);
  tu_cells_read(&b->ranks[rank].cells, cell, cell + span.count, step);
}

static void mark_write(struct tu_builder *b, uint32_t rank, struct tu_span span, uint32_t step) {
  uint32_t cell = cell_of(b, rank, span);
  tu_cells_write(&b->ranks[rank].cells, cell, cell + span.count, step);
}

static int compare_steps(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* Appends the step with the afters noted in scratch. */
static uint32_t append_step(struct tu_builder *b, uint32_t rank, struct tu_step step) {
  struct rank_state *r = &b->ranks[rank];
  struct tu_rank_plan *p = r->plan;
  if (b->scratch_count > 1) qsort(b->scratch, b->scratch_count, sizeof *b->scratch, compare_steps);
  step.after_first = p->after_count;
  step.after_count = b->scratch_count;
  for (uint32_t i = 0; i < b->scratch_count; i++) {
    p->afters = tu_arena_grow(&b->plan->arena, p->afters, p->after_count, &r->after_capacity, sizeof *p->afters);
    p->afters[p->after_count++] = b->scratch[i];
  }
  b->scratch_count = 0;
  p->steps = tu_arena_grow(&b->plan->arena, p->steps, p->step_count, &r->step_capacity, sizeof *p->steps);
  p->steps[p->step_count] = step;
  return p->step_count++;
}

static void append_peer(const struct tu_builder *b, struct rank_state *r, uint32_t peer) {
  struct tu_rank_plan *p = r->plan;
  p->peers = tu_arena_grow(&b->plan->arena, p->peers, p->peer_count, &r->peer_capacity, sizeof *p->peers);
  p->peers[p->peer_count++] = peer;
}

/* Does a send to this peer go on with the rank's last message? Notes it for the next one. */
static bool goes_on(struct tu_builder *b, struct rank_state *r, uint32_t peer) {
  if (b->continues) return true;
  if (!b->in_join) return b->go_on;
  bool joined = r->join == b->joins && r->join_peer == peer && r->join_lane == b->lane;
  r->join = b->joins;
  r->join_peer = peer;
  r->join_lane = b->lane;
  return joined;
}

/* Sends a span to the ranks in `to` (of the frame) other than itself; returns what the span holds for its receivers,
 * and whether it goes on with an earlier message. */
static uint32_t emit_send(struct tu_builder *b, struct tu_at from, const struct tu_at to[], uint32_t to_count,
                          bool *joined) {
  uint32_t weight = span_weight(b, from.rank, from.span);
  struct rank_state *r = &b->ranks[from.rank];
  uint32_t peers = 0, peer = NONE;
  b->work += to_count;
  for (uint32_t i = 0; i < to_count; i++) {
    uint32_t rank = rank_in_plan(b, to[i].rank);
    if (rank != from.rank) peer = peers++ == 0 ? rank : NONE;
  }
  *joined = goes_on(b, r, peer) && peer != NONE;
  if (!r->plan || peers == 0) return weight;
  struct tu_step step = {.kind = TU_SEND,
                         .lane = b->lane,
                         .first = (weight & RAW) != 0,
                         .joined = *joined,
                         .source = from.span,
                         .peer_first = r->plan->peer_count,
                         .peer_count = peers};
  for (uint32_t i = 0; i < to_count; i++)
    if (rank_in_plan(b, to[i].rank) != from.rank) append_peer(b, r, rank_in_plan(b, to[i].rank));
  note_read(b, from.rank, from.span);
  mark_read(b, from.rank, from.span, append_step(b, from.rank, step));
  return weight;
}

/* Sum of the operands' contributions, and whether that completes a reduction here. */
static uint32_t combined_weight(const struct tu_builder *b, const struct pending *p, bool *final) {
  uint32_t weight = 0;
  bool raw_copy = false;
  for (uint32_t i = 0; i < p->operand_count; i++) {
    uint32_t w = b->operands[p->operand_first + i].weight;
    weight += w & ~RAW;
    raw_copy = p->kind == TU_COPY && (w & RAW);
  }
  bool combines = p->kind == TU_RECV_REDUCE || p->kind == TU_REDUCE || raw_copy;
  *final = b->reduces && combines && weight == b->plan->ranks &&
           tu_collectives[b->plan->collective].promise == TU_SUM_OF_ALL;
  return weight;
}

static void emit_operands(struct tu_builder *b, const struct pending *p, struct tu_step *step) {
  struct rank_state *r = &b->ranks[p->rank];
  step->operand_first = r->plan->operand_count;
  step->operand_count = p->operand_count;
  for (uint32_t i = 0; i < p->operand_count; i++) {
    const struct operand *o = &b->operands[p->operand_first + i];
    struct tu_operand out = {.peer = o->from, .joined = o->joined};
    if (o->from == p->rank) out = (struct tu_operand){TU_LOCAL, o->span, (o->weight & RAW) != 0, false};
    struct tu_rank_plan *plan = r->plan;
    plan->operands = tu_arena_grow(&b->plan->arena, plan->operands, plan->operand_count, &r->operand_capacity,
                                   sizeof *plan->operands);
    plan->operands[plan->operand_count++] = out;
  }
}

/* Emits a step that receives, copies or reduces. */
static void emit_pending(struct tu_builder *b, const struct pending *p) {
  bool final = false;
  uint32_t weight = combined_weight(b, p, &final);
  struct rank_state *r = &b->ranks[p->rank];
  const struct operand *first = &b->operands[p->operand_first];
  if (r->plan) {
    ensure_cells(b, p->rank);
    struct tu_step step = {.kind = p->kind, .lane = p->lane, .final = final, .target = p->target};
    if (p->kind == TU_COPY) {
      step.source = first->span;
      step.first = (first->weight & RAW) != 0;
    } else if (p->kind == TU_RECV) {
      step.peer_first = r->plan->peer_count;
      step.peer_count = 1;
      step.joined = first->joined;
      append_peer(b, r, first->from);
    } else {
      emit_operands(b, p, &step);
    }
    for (uint32_t i = 0; i < p->operand_count; i++)
      if (first[i].from == p->rank) note_read(b, p->rank, first[i].span);
    note_write(b, p->rank, p->target);
    uint32_t index = append_step(b, p->rank, step);
    for (uint32_t i = 0; i < p->operand_count; i++)
      if (first[i].from == p->rank) mark_read(b, p->rank, first[i].span, index);
    mark_write(b, p->rank, p->target, index);
  }
  set_weight(b, p->rank, p->target, weight);
}

static void flush(struct tu_builder *b) {
  if (b->group_depth > 0) return;
  for (uint32_t i = 0; i < b->pending_count; i++) emit_pending(b, &b->pending[i]);
  b->pending_count = 0;
  b->operand_count = 0;
}

void tu_group_begin(struct tu_builder *b) { b->group_depth++; }

void tu_group_end(struct tu_builder *b) {
  tu_assert(b->group_depth > 0);
  b->group_depth--;
  flush(b);
}

void tu_join_begin(struct tu_builder *b) {
  tu_assert(!b->in_join);
  tu_group_begin(b);
  b->in_join = true;
  b->joins++;
}

void tu_go_on(struct tu_builder *b, bool on) { b->go_on = on; }

void tu_join_end(struct tu_builder *b) {
  b->in_join = false;
  tu_group_end(b);
}

/* ---- the verbs ---- */

/* Opens a step at a rank; its operands follow by add_operand. */
static struct pending *add_pending(struct tu_builder *b, enum tu_step_kind kind, struct tu_at to) {
  b->pending = tu_arena_grow(&b->arena, b->pending, b->pending_count, &b->pending_capacity, sizeof *b->pending);
  struct pending *p = &b->pending[b->pending_count++];
  *p = (struct pending){to.rank, (uint8_t)kind, b->lane, to.span, b->operand_count, 0};
  return p;
}

static void add_operand(struct tu_builder *b, struct pending *p, struct operand operand) {
  tu_assert(operand.span.count == p->target.count);
  b->operands = tu_arena_grow(&b->arena, b->operands, b->operand_count, &b->operand_capacity, sizeof *b->operands);
  b->operands[b->operand_count++] = operand;
  p->operand_count++;
  b->work++;
}

static struct operand local_operand(struct tu_builder *b, uint32_t rank, struct tu_span span) {
  return (struct operand){rank, span, span_weight(b, rank, span), false};
}

static void copy_in_plan(struct tu_builder *b, uint32_t rank, struct tu_span source, struct tu_span target) {
  assert_span(b, rank, target);
  struct operand operand = local_operand(b, rank, source);
  /* In place there is nothing to do, but a first load is still to be made. */
  if (cell_of(b, rank, source) == cell_of(b, rank, target) && !(operand.weight & RAW)) return;
  add_operand(b, add_pending(b, TU_COPY, tu_at(rank, target)), operand);
  flush(b);
}

void tu_copy(struct tu_builder *b, uint32_t rank, struct tu_span source, struct tu_span target) {
  struct tu_at ends[2] = {in_plan(b, tu_at(rank, source)), in_plan(b, tu_at(rank, target))};
  for (uint32_t done = 0, run; done < ends[0].span.count; done += run) {
    run = run_of(b, ends[0].span.count, done);
    copy_in_plan(b, ends[0].rank, run_in_plan(b, ends[0], done, run).span, run_in_plan(b, ends[1], done, run).span);
  }
}

void tu_move(struct tu_builder *b, struct tu_at from, struct tu_at to) { tu_multicast(b, from, &to, 1); }

/* One run of chunks. */
static void multicast_run(struct tu_builder *b, struct tu_at from, const struct tu_at targets[], uint32_t target_count,
                          uint32_t done, uint32_t run) {
  bool joined;
  struct tu_at source = run_in_plan(b, from, done, run);
  uint32_t weight = emit_send(b, source, targets, target_count, &joined);
  for (uint32_t i = 0; i < target_count; i++) {
    struct tu_at target = run_in_plan(b, in_plan(b, targets[i]), done, run);
    if (target.rank == source.rank) {
      copy_in_plan(b, source.rank, source.span, target.span);
      continue;
    }
    assert_span(b, target.rank, target.span);
    add_operand(b, add_pending(b, TU_RECV, target), (struct operand){source.rank, source.span, weight & ~RAW, joined});
  }
}

/* Runs of one verb to one receiver are a message, those to several are messages of their own (which do not join). */
void tu_multicast(struct tu_builder *b, struct tu_at from, const struct tu_at targets[], uint32_t target_count) {
  struct tu_at source = in_plan(b, from);
  if (target_count == 1) tu_group_begin(b);
  for (uint32_t done = 0, run; done < source.span.count; done += run) {
    run = run_of(b, source.span.count, done);
    if (target_count > 1) tu_group_begin(b);
    b->continues = target_count == 1 && done > 0;
    multicast_run(b, source, targets, target_count, done, run);
    if (target_count > 1) tu_group_end(b);
  }
  b->continues = false;
  if (target_count == 1) tu_group_end(b);
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

/* The step of one target. */
static void add_reduction(struct tu_builder *b, const struct tu_at sources[], uint32_t source_count, const bool *joined,
                          struct tu_at to, uint32_t done, uint32_t run) {
  struct tu_at target = run_in_plan(b, in_plan(b, to), done, run);
  assert_span(b, target.rank, target.span);
  bool remote = false;
  for (uint32_t s = 0; s < source_count; s++) remote |= rank_in_plan(b, sources[s].rank) != target.rank;
  struct pending *p = add_pending(b, remote ? TU_RECV_REDUCE : TU_REDUCE, target);
  for (uint32_t s = 0; s < source_count; s++) {
    struct tu_at source = run_in_plan(b, in_plan(b, sources[s]), done, run);
    struct operand operand = local_operand(b, source.rank, source.span);
    if (source.rank != target.rank) {
      operand.weight &= ~RAW; /* scaled as it was sent */
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
  if (together) tu_group_begin(b);
  uint32_t chunks = in_plan(b, targets[0]).span.count;
  for (uint32_t done = 0, run; done < chunks; done += run) {
    run = run_of(b, chunks, done);
    if (!together) tu_group_begin(b);
    b->continues = together && done > 0;
    for (uint32_t s = 0; s < source_count; s++)
      emit_send(b, run_in_plan(b, in_plan(b, sources[s]), done, run), targets, target_count, &joined[s]);
    for (uint32_t t = 0; t < target_count; t++) add_reduction(b, sources, source_count, joined, targets[t], done, run);
    if (!together) tu_group_end(b);
  }
  b->continues = false;
  if (together) tu_group_end(b);
  if (joined != few) tu_arena_free(tu_build_arena(b), joined);
}

/* ---- collectives within the collective ---- */

uint32_t tu_build_sub_split(const struct tu_build *what, const struct tu_algorithm *algorithm, uint32_t ranks) {
  struct tu_build inner = *what;
  inner.algorithm = algorithm;
  inner.ranks = ranks;
  return algorithm->split ? algorithm->split(&inner) : 1;
}

void tu_build_sub(struct tu_builder *b, const struct tu_sub *sub) {
  tu_assert(!b->one_for_all); /* members would have to be moved on, too */
  struct frame *outer = b->frame, *f = tu_arena_allocate(&b->arena, 1, sizeof *f);
  *f = (struct frame){.what = outer->what, .outer = outer};
  f->what.algorithm = sub->algorithm;
  f->what.ranks = sub->ranks;
  f->what.root = sub->root;
  f->what.in_place = sub->in_place;
  f->split = tu_build_sub_split(&outer->what, sub->algorithm, sub->ranks);
  tutti_collective c = sub->algorithm->collective;
  uint32_t *members = tu_arena_allocate(&b->arena, sub->ranks, sizeof *members);
  struct tu_span *bases = tu_arena_allocate(&b->arena, (size_t)sub->ranks * BASES, sizeof *bases);
  for (uint32_t i = 0; i < sub->ranks; i++) {
    uint32_t rank = sub->members ? sub->members[i] : i;
    members[i] = rank_in_plan(b, rank);
    const struct tu_span *given[2] = {&sub->in[i], &sub->out[i]};
    uint32_t need[2] = {tu_in_blocks(c, sub->ranks, sub->root, i) * f->split,
                        tu_out_blocks(c, sub->ranks, sub->root, i) * f->split};
    for (uint32_t k = 0; k < 2; k++) {
      if (need[k] == 0) continue;
      struct tu_span span = in_plan(b, tu_at(rank, *given[k])).span;
      tu_assert(span.count % need[k] == 0 && (f->scale == 0 || f->scale == span.count / need[k]));
      f->scale = span.count / need[k];
      bases[i * BASES + k] = span;
    }
    bases[i * BASES + TU_TMP] = (struct tu_span){TU_TMP, part_tmp(b, members[i]), 0};
    if (sub->row) bases[i * BASES + ROW] = in_plan(b, tu_at(rank, sub->row[i])).span;
  }
  f->run = frame_run(b, f);
  f->members = members;
  f->bases = bases;
  b->frame = f;
  sub->algorithm->build(b);
  b->frame = outer;
  tu_arena_fini(&f->arena);
  tu_arena_free(&b->arena, members);
  tu_arena_free(&b->arena, bases);
  tu_arena_free(&b->arena, f);
}

/* ---- */

/* The algorithm says its verbs for one part of every block after the other. */
static void build_parts(struct tu_builder *b, const struct tu_build *what) {
  uint32_t lanes = (uint32_t)tu_max(what->lanes, 1);
  for (b->part = 0; b->part < b->parts; b->part++) {
    for (uint32_t rank = 0; rank < what->ranks; rank++) b->ranks[rank].tmp_first = b->ranks[rank].tmp_count;
    b->lane_first = b->part % lanes * b->lane_count;
    tu_lane(b, 0);
    what->algorithm->build(b);
    tu_arena_fini(tu_build_arena(b));
  }
}

uint32_t tu_build_lanes_max(const struct tu_algorithm *algorithm) {
  if (algorithm->collective == TUTTI_BARRIER) return 0;
  return TU_LANES_MAX / (uint32_t)tu_max(algorithm->lanes, 1);
}

static void begin_plan(struct tu_plan *plan, const struct tu_build *what) {
  const struct tu_algorithm *algorithm = what->algorithm;
  plan->collective = algorithm->collective;
  plan->ranks = what->ranks;
  plan->root = what->root;
  plan->in_place = what->in_place;
  plan->equal_blocks = (algorithm->flags & TU_EQUAL_BLOCKS) != 0;
  plan->rank_order = (algorithm->flags & TU_RANK_ORDER) != 0;
  plan->rank_first = what->rank == TU_ALL_RANKS ? 0 : what->rank;
  plan->rank_count = what->rank == TU_ALL_RANKS ? what->ranks : 1;
  tu_assert(strlen(algorithm->name) < sizeof plan->algorithm);
  memcpy(plan->algorithm, algorithm->name, strlen(algorithm->name) + 1);
  plan->rank = tu_arena_allocate(&plan->arena, plan->rank_count, sizeof *plan->rank);
}

struct job {
  const struct tu_build *what;
  struct tu_builder b;
};

static tutti_err build(void *argument, struct tu_error *error) {
  struct job *job = argument;
  const struct tu_build *what = job->what;
  struct tu_builder *b = &job->b;
  (void)error;
  const struct tu_algorithm *algorithm = what->algorithm;
  uint32_t split = algorithm->split ? algorithm->split(what) : 1;
  struct tu_plan *plan = b->plan = tu_plan_create();
  begin_plan(plan, what);
  plan->split = split * b->parts;
  b->part_split = split;
  b->reduces = tu_reduces(plan->collective);
  b->frame = tu_arena_allocate(&b->arena, 1, sizeof *b->frame);
  *b->frame = (struct frame){.what = *what, .split = split, .scale = 1, .run = split};
  b->ranks = tu_arena_allocate(&b->arena, what->ranks, sizeof *b->ranks);
  for (uint32_t i = 0; i < plan->rank_count; i++) b->ranks[plan->rank_first + i].plan = &plan->rank[i];
  for (uint32_t i = 0; i < what->ranks; i++) {
    b->ranks[i].cells.arena = &b->arena;
    for (int k = TU_IN; k <= TU_OUT; k++) {
      b->ranks[i].chunks[k] = tu_plan_chunks(plan, i, (enum tu_buffer)k);
      b->ranks[i].first_cell[TU_TMP] += b->ranks[i].chunks[k];
      b->ranks[i].first_cell[k] = tu_plan_cell(plan, i, (enum tu_buffer)k, 0);
    }
  }
  build_parts(b, what);
  tu_assert(b->group_depth == 0);
  plan->work = b->work;
  return TUTTI_OK;
}

tutti_err tu_plan_try_build(const struct tu_build *what, struct tu_plan **plan, struct tu_error *error) {
  const struct tu_algorithm *algorithm = what->algorithm;
  uint32_t parts = (uint32_t)tu_max(tu_max(what->segments, what->lanes), 1);
  tu_assert(what->ranks > 0 && what->ranks <= TU_RANKS_MAX && what->root < what->ranks);
  tu_assert(tu_algorithm_fits(algorithm, what->ranks));
  tu_assert(what->lanes <= tu_build_lanes_max(algorithm) && (parts == 1 || tu_build_lanes_max(algorithm) > 0));
  struct job job = {.what = what,
                    .b = {.one_for_all = what->rank != TU_ALL_RANKS && (algorithm->flags & TU_ROTATES_ROWS),
                          .parts = parts,
                          .lane_count = (uint32_t)tu_max(algorithm->lanes, 1)}};
  char thing[TU_NAME_BYTES + 64];
  snprintf(thing, sizeof thing, "a plan of %s.%s", tu_collectives[algorithm->collective].name, algorithm->name);
  tutti_err err = tu_arena_build(build, &job, thing, error);
  for (struct frame *f = job.b.frame; f; f = f->outer) tu_arena_fini(&f->arena);
  tu_arena_fini(&job.b.arena);
  if (err == TUTTI_OK) *plan = job.b.plan;
  else tu_plan_destroy(job.b.plan);
  return err;
}

struct tu_plan *tu_plan_build(const struct tu_build *what) {
  struct tu_plan *plan;
  if (tu_plan_try_build(what, &plan, NULL) != TUTTI_OK) tu_arena_refuse_again();
  return plan;
}
