/* builder_cells.c: the state of chunks while a plan is built. Its functions translate the spans of calls to spans of
 * the plan, keep the weights of chunks, and allocate scratch.
 *
 * Marks. In a reducing collective, the weight of a cell (chunk) is the number of ranks whose inputs are summed in it.
 * The mark `first` of a step means that it loads raw input, which premul_sum has not scaled yet. The mark `final` means
 * that the step completes a sum.
 *
 * Weights are recorded for all ranks, even if only one rank's steps are built. There is one exception: if that rank
 * stands for all ranks (TU_ROTATES_ROWS), only its weights are recorded. The weights of another rank are the same,
 * rotated. */
#include "plan/builder_internal.h"

/* ---- frames: from the ranks and chunks of an inner collective (tu_build_sub) to those of the plan ---- */

struct tu_at tu_build_out_of_frame(const struct tu_builder *b, struct tu_at at) {
  const struct tu_build_frame *f = b->frame;
  struct tu_span base = f->bases[at.rank * TU_BUILD_BASES + at.span.buffer];
  struct tu_span span = {base.buffer, base.first + at.span.first * f->scale, at.span.count * f->scale};
  tu_assert(at.span.buffer == TU_TMP || span.first + span.count <= base.first + base.count);
  return tu_at(tu_build_rank_in_plan(b, at.rank), span);
}

/* ---- parts: an algorithm builds one part of every block at a time (tu_build.segments), and may number the ranks, and so
 * their blocks, in another order (tu_build.placement). These functions translate the chunks of a part into chunks of
 * the plan, where the parts of a block are adjacent, and blocks are in the program's order. So chunks that are
 * neighbours for the algorithm may be apart in the plan. ---- */

uint32_t tu_build_run_of(const struct tu_builder *b, uint32_t count, uint32_t done) {
  bool apart = (b->parts > 1 || b->order) && !tu_has_one_block(b->plan->collective);
  return apart ? (uint32_t)tu_min(count - done, b->frame->run) : count - done;
}

uint32_t tu_build_frame_run(const struct tu_builder *b, const struct tu_build_frame *f) {
  return f->split * f->scale == b->part_split ? b->part_split : tu_divisor(f->scale, b->part_split);
}

static uint32_t chunk_in_plan(const struct tu_builder *b, uint32_t rank, uint32_t buffer, uint32_t chunk) {
  if (buffer == TU_TMP) return b->ranks[rank].tmp_first + chunk;
  uint32_t block = chunk / b->part_split, within = chunk % b->part_split;
  bool row = b->ranks[rank].chunks[buffer] > b->plan->split;
  if (row && b->order) block = b->order[block];
  return (block * b->parts + b->part) * b->part_split + within;
}

struct tu_at tu_build_run_in_plan(const struct tu_builder *b, struct tu_at at, uint32_t done, uint32_t run) {
  bool within = at.span.buffer == TU_TMP || (at.span.first + done) % b->part_split + run <= b->part_split;
  tu_assert((b->parts == 1 && !b->order) || within);
  uint32_t first = chunk_in_plan(b, at.rank, at.span.buffer, at.span.first + done);
  return tu_at(at.rank, (struct tu_span){at.span.buffer, first, run});
}

uint32_t tu_build_part_tmp(const struct tu_builder *b, uint32_t rank) {
  return b->ranks[rank].tmp_count - b->ranks[rank].tmp_first;
}

/* ---- cells: the states of chunks ---- */

/* Returns the rank whose tmp_count counts the scratch chunks of `rank`: `rank` itself or, if only one rank is built and
 * stands for all ranks (TU_ROTATES_ROWS), the built rank. */
static uint32_t tmp_teller(const struct tu_builder *b, uint32_t rank) {
  return b->one_for_all ? b->plan->rank_first : rank;
}

void tu_build_assert_span(const struct tu_builder *b, uint32_t rank, struct tu_span span) {
  tu_assert(rank < b->plan->ranks);
  const struct tu_build_rank *r = &b->ranks[rank];
  uint32_t chunks = span.buffer == TU_TMP ? b->ranks[tmp_teller(b, rank)].tmp_count : r->chunks[span.buffer];
  tu_assert(span.count > 0 && span.first <= chunks && span.count <= chunks - span.first);
}

void tu_build_ensure_cells(struct tu_builder *b, uint32_t rank) {
  struct tu_build_rank *r = &b->ranks[rank];
  uint32_t need = r->first_cell[TU_TMP] + r->tmp_count;
  if ((!r->plan && !b->reduces) || r->cells.count >= need) return;
  bool fresh = r->cells.count == 0;
  tu_cells_extend(&r->cells, need);
  if (!b->reduces || !fresh || r->chunks[TU_IN] == 0) return;
  uint32_t in = r->first_cell[TU_IN];
  tu_cells_weigh(&r->cells, in, in + r->chunks[TU_IN], 1 | TU_BUILD_RAW);
}

/* Translates a span of another rank to the corresponding span of the built rank. Used if only one rank is built and its
 * state stands for that of all ranks (TU_ROTATES_ROWS). */
static struct tu_at own_in_place_of(const struct tu_builder *b, uint32_t rank, struct tu_span span) {
  uint32_t n = b->plan->ranks, own = b->plan->rank_first, split = b->plan->split;
  bool row = span.buffer != TU_TMP && b->ranks[rank].chunks[span.buffer] > split;
  if (row) {
    uint32_t block = span.first / split, within = span.first % split;
    tu_assert(within + span.count <= split); /* a span within one block stays contiguous when the blocks are rotated */
    span.first = (block + own + n - rank) % n * split + within;
  }
  return tu_at(own, span);
}

uint32_t tu_build_span_weight(struct tu_builder *b, uint32_t rank, struct tu_span span) {
  if (b->one_for_all && rank != b->plan->rank_first) {
    struct tu_at own = own_in_place_of(b, rank, span);
    rank = own.rank;
    span = own.span;
  }
  tu_build_assert_span(b, rank, span);
  tu_build_ensure_cells(b, rank);
  if (!b->reduces) return 0;
  const struct tu_cells *cells = &b->ranks[rank].cells;
  uint32_t cell = tu_build_cell_of(b, rank, span), at = tu_cells_find(cells, cell), weight = cells->runs[at].weight;
  for (uint32_t i = at; tu_cells_within(cells, i, cell + span.count); i++, b->work++)
    tu_assert(cells->runs[i].weight == weight && weight != 0);
  return weight;
}

void tu_build_set_weight(struct tu_builder *b, uint32_t rank, struct tu_span span, uint32_t weight) {
  /* only the state of the built rank is kept; it stands for that of all ranks */
  if (b->one_for_all && rank != b->plan->rank_first) return;
  tu_build_assert_span(b, rank, span);
  tu_build_ensure_cells(b, rank);
  if (!b->reduces) return;
  uint32_t cell = tu_build_cell_of(b, rank, span);
  tu_cells_weigh(&b->ranks[rank].cells, cell, cell + span.count, weight);
}

/* Adds scratch to the rank of `like`: one chunk for each chunk of the span `like`, of the same size. If blocks are
 * built in several parts, `like` is a span of the current part. */
static void append_tmp(struct tu_builder *b, struct tu_at like) {
  struct tu_build_rank *r = &b->ranks[like.rank];
  r->tmp_count += like.span.count;
  b->work++;
  for (uint32_t i = 0; r->plan && i < like.span.count; i++) {
    uint32_t chunk = chunk_in_plan(b, like.rank, like.span.buffer, like.span.first + i);
    struct tu_like size = {like.span.buffer, chunk};
    tu_build_assert_span(b, like.rank, (struct tu_span){like.span.buffer, chunk, 1});
    if (size.buffer == TU_TMP) size = r->plan->tmp[chunk];
    b->work++;
    r->plan->tmp =
        tu_arena_grow(&b->plan->arena, r->plan->tmp, r->plan->tmp_count, &r->tmp_capacity, sizeof *r->plan->tmp);
    r->plan->tmp[r->plan->tmp_count++] = size;
  }
}

/* Returns the scratch that a rank got since it had `before` scratch chunks, as one span. The span is of the collective
 * that is being built (the current frame). */
static struct tu_span new_tmp(const struct tu_builder *b, uint32_t rank, uint32_t before) {
  const struct tu_build_frame *f = b->frame;
  uint32_t base = f->bases ? f->bases[rank * TU_BUILD_BASES + TU_TMP].first : 0;
  uint32_t count = tu_build_part_tmp(b, tu_build_rank_in_plan(b, rank)) - before;
  return (struct tu_span){TU_TMP, (before - base) / f->scale, count / f->scale};
}

struct tu_span tu_tmp(struct tu_builder *b, uint32_t rank, struct tu_span like, uint32_t copies) {
  struct tu_at model = tu_build_in_plan(b, tu_at(rank, like));
  uint32_t before = tu_build_part_tmp(b, model.rank);
  for (uint32_t i = 0; i < copies; i++) append_tmp(b, model);
  return new_tmp(b, rank, before);
}

struct tu_span tu_tmp_blocks(struct tu_builder *b, uint32_t rank, struct tu_span own, uint32_t first, uint32_t count) {
  const struct tu_build_frame *f = b->frame;
  if (!f->bases || f->bases[rank * TU_BUILD_BASES + TU_BUILD_ROW].count == 0) return tu_tmp(b, rank, own, count);
  uint32_t before = tu_build_part_tmp(b, tu_build_rank_in_plan(b, rank)), chunks = f->split * f->scale;
  for (uint32_t i = 0; i < count; i++) {
    struct tu_span block = f->bases[rank * TU_BUILD_BASES + TU_BUILD_ROW];
    block.first += (first + i) % f->what.ranks * chunks;
    block.count = chunks;
    append_tmp(b, tu_at(tu_build_rank_in_plan(b, rank), block));
  }
  return new_tmp(b, rank, before);
}
