/* builder_emit.c: emits the steps of the built ranks, and sets their `after` lists and their marks `first` and `final`.
 *
 * Order. Each cell (the state of a chunk, cells.h) records its last writer and the readers since that write. A step
 * comes after the writer of each cell that it reads. It comes after the readers of each cell that it overwrites, or
 * after the writer if there are no readers. All other orderings follow by transitivity. */
#include "plan/builder_internal.h"

#include <stdlib.h>

#define NONE TU_CELL_NONE

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
  uint32_t cell = tu_build_cell_of(b, rank, span);
  for (uint32_t i = tu_cells_find(c, cell); tu_cells_within(c, i, cell + span.count); i++)
    note_after(b, c->runs[i].writer);
}

static void note_write(struct tu_builder *b, uint32_t rank, struct tu_span span) {
  const struct tu_cells *c = &b->ranks[rank].cells;
  uint32_t cell = tu_build_cell_of(b, rank, span);
  for (uint32_t i = tu_cells_find(c, cell); tu_cells_within(c, i, cell + span.count); i++) {
    if (c->runs[i].reader == NONE) note_after(b, c->runs[i].writer);
    for (uint32_t k = c->runs[i].reader; k != NONE; k = c->readers[k].next) note_after(b, c->readers[k].step);
  }
}

static void mark_read(struct tu_builder *b, uint32_t rank, struct tu_span span, uint32_t step) {
  uint32_t cell = tu_build_cell_of(b, rank, span);
  tu_cells_read(&b->ranks[rank].cells, cell, cell + span.count, step);
}

static void mark_write(struct tu_builder *b, uint32_t rank, struct tu_span span, uint32_t step) {
  uint32_t cell = tu_build_cell_of(b, rank, span);
  tu_cells_write(&b->ranks[rank].cells, cell, cell + span.count, step);
}

static int compare_steps(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* Appends the step to the rank's steps, with the list in b->scratch as its `after`. Returns its index. */
static uint32_t append_step(struct tu_builder *b, uint32_t rank, struct tu_step step) {
  struct tu_build_rank *r = &b->ranks[rank];
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

static void append_peer(const struct tu_builder *b, struct tu_build_rank *r, uint32_t peer) {
  struct tu_rank_plan *p = r->plan;
  p->peers = tu_arena_grow(&b->plan->arena, p->peers, p->peer_count, &r->peer_capacity, sizeof *p->peers);
  p->peers[p->peer_count++] = peer;
}

/* Returns true if a send to this peer is to be joined with the previous message to the peer. Within a join
 * (tu_join_begin), also records this send, because the next call compares its peer and lane with those of this one. */
static bool goes_on(struct tu_builder *b, struct tu_build_rank *r, uint32_t peer) {
  if (b->continues) return true;
  if (!b->in_join) return b->go_on;
  bool joined = r->join == b->joins && r->join_peer == peer && r->join_lane == b->lane;
  r->join = b->joins;
  r->join_peer = peer;
  r->join_lane = b->lane;
  return joined;
}

uint32_t tu_build_emit_send(struct tu_builder *b, struct tu_at from, const struct tu_at to[], uint32_t to_count,
                            bool *joined) {
  uint32_t weight = tu_build_span_weight(b, from.rank, from.span);
  struct tu_build_rank *r = &b->ranks[from.rank];
  uint32_t peers = 0, peer = NONE;
  b->work += to_count;
  for (uint32_t i = 0; i < to_count; i++) {
    uint32_t rank = tu_build_rank_in_plan(b, to[i].rank);
    if (rank != from.rank) peer = peers++ == 0 ? rank : NONE;
  }
  *joined = goes_on(b, r, peer) && peer != NONE;
  if (!r->plan || peers == 0) return weight;
  struct tu_step step = {.kind = TU_SEND,
                         .lane = b->lane,
                         .first = (weight & TU_BUILD_RAW) != 0,
                         .joined = *joined,
                         .source = from.span,
                         .peer_first = r->plan->peer_count,
                         .peer_count = peers};
  for (uint32_t i = 0; i < to_count; i++)
    if (tu_build_rank_in_plan(b, to[i].rank) != from.rank) append_peer(b, r, tu_build_rank_in_plan(b, to[i].rank));
  note_read(b, from.rank, from.span);
  mark_read(b, from.rank, from.span, append_step(b, from.rank, step));
  return weight;
}

/* Returns the sum of the operands' weights (numbers of ranks whose inputs are summed in them). Sets *final to true if
 * the step completes a reduction over all ranks. */
static uint32_t combined_weight(const struct tu_builder *b, const struct tu_build_pending *p, bool *final) {
  uint32_t weight = 0;
  bool raw_copy = false;
  for (uint32_t i = 0; i < p->operand_count; i++) {
    uint32_t w = b->operands[p->operand_first + i].weight;
    weight += w & ~TU_BUILD_RAW;
    raw_copy = p->kind == TU_COPY && (w & TU_BUILD_RAW);
  }
  bool combines = p->kind == TU_RECV_REDUCE || p->kind == TU_REDUCE || raw_copy;
  *final = b->reduces && combines && weight == b->plan->ranks &&
           tu_collectives[b->plan->collective].promise == TU_SUM_OF_ALL;
  return weight;
}

static void emit_operands(struct tu_builder *b, const struct tu_build_pending *p, struct tu_step *step) {
  struct tu_build_rank *r = &b->ranks[p->rank];
  step->operand_first = r->plan->operand_count;
  step->operand_count = p->operand_count;
  step->tree = b->frame->what.canonical && p->operand_count > 2;
  for (uint32_t i = 0; i < p->operand_count; i++) {
    const struct tu_build_operand *o = &b->operands[p->operand_first + i];
    struct tu_operand out = {.peer = o->from, .joined = o->joined};
    if (o->from == p->rank) out = (struct tu_operand){TU_LOCAL, o->span, (o->weight & TU_BUILD_RAW) != 0, false};
    struct tu_rank_plan *plan = r->plan;
    plan->operands = tu_arena_grow(&b->plan->arena, plan->operands, plan->operand_count, &r->operand_capacity,
                                   sizeof *plan->operands);
    plan->operands[plan->operand_count++] = out;
  }
}

/* Emits a step that receives, copies or reduces, at the end of the concurrent calls. */
static void emit_pending(struct tu_builder *b, const struct tu_build_pending *p) {
  bool final = false;
  uint32_t weight = combined_weight(b, p, &final);
  struct tu_build_rank *r = &b->ranks[p->rank];
  const struct tu_build_operand *first = &b->operands[p->operand_first];
  if (r->plan) {
    tu_build_ensure_cells(b, p->rank);
    struct tu_step step = {.kind = p->kind, .lane = p->lane, .final = final, .target = p->target};
    if (p->kind == TU_COPY) {
      step.source = first->span;
      step.first = (first->weight & TU_BUILD_RAW) != 0;
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
  tu_build_set_weight(b, p->rank, p->target, weight);
}

void tu_build_flush(struct tu_builder *b) {
  if (b->concurrent_depth > 0) return;
  for (uint32_t i = 0; i < b->pending_count; i++) emit_pending(b, &b->pending[i]);
  b->pending_count = 0;
  b->operand_count = 0;
}
