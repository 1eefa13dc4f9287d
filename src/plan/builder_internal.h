/* builder_internal.h: the state of a plan builder, which the builder*.c files share. The calls of an algorithm
 * (builder.c) change the state of chunks (builder_cells.c) and emit steps (builder_emit.c). builder_plan.c runs the
 * algorithm and the algorithms of inner collectives. */
#ifndef TU_BUILDER_INTERNAL_H
#define TU_BUILDER_INTERNAL_H

#include "plan/algorithm.h"
#include "plan/builder.h"
#include "plan/cells.h"

/* bit in the weight of a chunk: the chunk is input that premul_sum has not scaled yet */
#define TU_BUILD_RAW (1u << 31)

/* State of one rank while a plan is built, with the rank's part of the plan. */
struct tu_build_rank {
  struct tu_rank_plan *plan; /* the rank's part of the plan; NULL: the steps of this rank are not built */
  uint32_t chunks[2];        /* number of chunks of IN and of OUT */
  /* number of the first cell of each buffer, where the cells are the chunks of IN, OUT and TMP, numbered in one
   * sequence */
  uint32_t first_cell[3];
  uint32_t step_capacity, peer_capacity, operand_capacity, after_capacity, tmp_capacity;
  uint32_t tmp_count;
  /* An algorithm may build the blocks in several parts, one after the other. Index of the first scratch chunk of the
   * current part; scratch of earlier parts lies before it. */
  uint32_t tmp_first;
  /* States of the chunks, made at first use. The weight of a chunk is the number of ranks whose inputs are summed in
   * it, plus TU_BUILD_RAW if premul_sum has not scaled it yet. */
  struct tu_cells cells;
  /* The rank's last send within a join (messages that cross as one): number of the join, peer and lane. If the next
   * send has the same three numbers, it continues the message of this send. */
  uint32_t join, join_peer;
  uint8_t join_lane;
};

/* One operand of a step that receives, copies or reduces. `from` is the rank that sends the operand; for a local
 * operand, it is the step's own rank. */
struct tu_build_operand {
  uint32_t from;
  struct tu_span span;
  /* weight of each chunk, the same for all: number of ranks whose inputs are summed in it, plus TU_BUILD_RAW if
   * unscaled */
  uint32_t weight;
  bool joined;
};

/* A step that receives, copies or reduces, recorded until it is emitted at the end of the concurrent calls. */
struct tu_build_pending {
  uint32_t rank;
  uint8_t kind, lane;
  struct tu_span target;
  uint32_t operand_first, operand_count;
};

/* Further indices of tu_build_frame.bases, after those of enum tu_buffer. TU_BUILD_ROW: the span tu_sub.row.
 * TU_BUILD_BASES: number of all indices. */
enum { TU_BUILD_ROW = TU_TMP + 1, TU_BUILD_BASES };

/* A frame: the collective that the algorithm's calls refer to. It is the plan's own collective, or an inner one
 * (tu_build_sub). */
struct tu_build_frame {
  struct tu_build what;
  uint32_t split;
  uint32_t scale; /* number of chunks of the plan that make one chunk of this collective */
  /* maximum length of a run, that is, of consecutive chunks that are handled together; a run never crosses a block's
   * end */
  uint32_t run;
  const uint32_t *members; /* [rank of this collective]: number of the rank in the plan; NULL: the same number */
  /* [rank * TU_BUILD_BASES + buffer or TU_BUILD_ROW]: the buffer, as a span of the plan; NULL: the plan's own
   * buffers */
  const struct tu_span *bases;
  struct tu_build_frame *outer;
  struct tu_arena arena; /* memory that the algorithm of this collective allocates (tu_build_arena) */
};

struct tu_builder {
  struct tu_plan *plan;
  struct tu_arena arena; /* memory of the builder; freed when the plan is finished */
  struct tu_build_frame *frame;
  struct tu_build_rank *ranks;
  uint8_t lane;
  bool reduces;
  /* only one rank's steps are built, and that rank's state stands for the state of all ranks (TU_ROTATES_ROWS) */
  bool one_for_all;
  /* [rank of the algorithm]: its rank in the plan, for the plan's own collective; NULL: the same number */
  const uint32_t *order;
  uint32_t concurrent_depth;
  uint32_t joins; /* number of joins (groups of messages that cross as one) opened so far */
  bool in_join, go_on;
  /* the current run of consecutive chunks belongs to the message of the previous run, because both are of one call */
  bool continues;
  /* Every block is built in `parts` parts, one after the other; `part` is the index of the current one. part_split:
   * number of chunks that a block has in one part. */
  uint32_t part, parts, part_split;
  /* index of the first lane, and number of lanes, that the current part of the blocks uses */
  uint32_t lane_first, lane_count;
  struct tu_build_pending *pending;
  uint32_t pending_count, pending_capacity;
  struct tu_build_operand *operands; /* operands of the steps in `pending` */
  uint32_t operand_count, operand_capacity;
  uint32_t *scratch; /* `after` list of the step that is being emitted */
  uint32_t scratch_count, scratch_capacity;
  uint64_t work; /* amount of work done so far; see tu_plan.work */
};

/* ---- frames, parts and cells: see builder_cells.c ---- */

static inline uint32_t tu_build_rank_in_plan(const struct tu_builder *b, uint32_t rank) {
  return b->frame->members ? b->frame->members[rank] : rank;
}

struct tu_at tu_build_out_of_frame(const struct tu_builder *b, struct tu_at at);
/* Translates a span of the frame (the current collective) to the span of the plan that has the same chunks. */
static inline struct tu_at tu_build_in_plan(const struct tu_builder *b, struct tu_at at) {
  tu_assert(at.rank < b->frame->what.ranks);
  return b->frame->bases ? tu_build_out_of_frame(b, at) : tu_at(tu_build_rank_in_plan(b, at.rank), at.span);
}

/* A run is a number of consecutive chunks, handled together, that is contiguous in every buffer. Returns the length of
 * the run that begins at chunk number `done` of a call's `count` chunks. It does not depend on the buffers of the call,
 * so that messages are the same in place and out of place. */
uint32_t tu_build_run_of(const struct tu_builder *b, uint32_t count, uint32_t done);
/* Returns the maximum number of chunks that are handled together (a run) in a frame (the plan's collective or an inner
 * one). A run of this length never crosses the end of a block. */
uint32_t tu_build_frame_run(const struct tu_builder *b, const struct tu_build_frame *f);
/* Returns, as a span of the plan, the `run` consecutive chunks of a call's span from chunk number `done` on. */
struct tu_at tu_build_run_in_plan(const struct tu_builder *b, struct tu_at at, uint32_t done, uint32_t run);
/* An algorithm may build the blocks in several parts, one after the other, each with its own scratch. Returns the
 * number of scratch chunks that the rank has so far for the current part. */
uint32_t tu_build_part_tmp(const struct tu_builder *b, uint32_t rank);

static inline uint32_t tu_build_cell_of(const struct tu_builder *b, uint32_t rank, struct tu_span span) {
  return b->ranks[rank].first_cell[span.buffer] + span.first;
}

/* Asserts that the span lies in a buffer of the rank. */
void tu_build_assert_span(const struct tu_builder *b, uint32_t rank, struct tu_span span);
/* Creates the cells (states of chunks) of a rank if it has none yet, and cells for scratch that was added since. */
void tu_build_ensure_cells(struct tu_builder *b, uint32_t rank);
/* Returns the weight of each chunk of the span: the number of ranks whose inputs are summed in it, plus TU_BUILD_RAW if
 * premul_sum has not scaled it yet. Asserts that all chunks have the same weight. */
uint32_t tu_build_span_weight(struct tu_builder *b, uint32_t rank, struct tu_span span);
void tu_build_set_weight(struct tu_builder *b, uint32_t rank, struct tu_span span, uint32_t weight);

/* ---- emitting steps: see builder_emit.c ---- */

/* Emits the send of a span to the ranks in `to` (numbers in the current collective), except to the sender itself.
 * Returns the weight of the span (number of ranks whose inputs are summed in it). Sets *joined to true if the message
 * continues an earlier one. */
uint32_t tu_build_emit_send(struct tu_builder *b, struct tu_at from, const struct tu_at to[], uint32_t to_count,
                            bool *joined);
/* Emits the steps that were recorded until the end of the concurrent calls. Does nothing while concurrent calls are
 * open. */
void tu_build_flush(struct tu_builder *b);

#endif
