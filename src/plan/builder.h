/* builder.h: functions with which an algorithm builds a plan. An algorithm describes all ranks at once.
 *
 * Every call names both the sender and the receiver, so they cannot disagree. A call emits steps of the wanted ranks
 * only (one or all). The order between steps of a rank follows from the chunks that they read and write; an algorithm
 * never states it. */
#ifndef TU_BUILDER_H
#define TU_BUILDER_H

#include "plan/plan.h"

struct tu_builder;

/* A span of chunks, and the rank that has it. */
struct tu_at {
  uint32_t rank;
  struct tu_span span;
};

/* Return properties of the collective that is being built (within tu_build_sub: of the inner collective). */
uint32_t tu_build_ranks(const struct tu_builder *b);
uint32_t tu_build_root(const struct tu_builder *b);
const struct tu_build *tu_build_what(const struct tu_builder *b);
uint32_t tu_build_split(const struct tu_builder *b);
bool tu_build_in_place(const struct tu_builder *b);
/* Returns true if the plan is for blocks of equal size only. Then one chunk of scratch may hold different blocks one
 * after the other. */
bool tu_build_equal_blocks(const struct tu_builder *b);

/* Returns the arena for an algorithm's own tables. Its memory is zeroed. The builder frees it when tu_algorithm.build
 * returns. */
struct tu_arena *tu_build_arena(struct tu_builder *b);
static inline void *tu_build_memory(struct tu_builder *b, size_t count, size_t item_bytes) {
  return tu_arena_allocate(tu_build_arena(b), count, item_bytes);
}

/* For loops over ranks in algorithms with the flag TU_ROTATES_ROWS. Returns the first rank >= `rank` that the loop has
 * to visit, or a number >= N at the end. If the steps of all ranks are built, the loop visits all ranks. If the steps
 * of one rank are built, it visits only that rank and the rank that sends to it.
 * `distance`: each rank of the loop sends to the rank `distance` further on (modulo N). It is 0 in loops for local work
 * and for scratch.
 *
 *   for (uint32_t rank = tu_next_rank(b, 0, distance); rank < n; rank = tu_next_rank(b, rank + 1, distance)) */
uint32_t tu_next_rank(const struct tu_builder *b, uint32_t rank, uint32_t distance);

/* Returns the index of the part of every block that is being built (tu_build.segments, tu_build.lanes). */
uint32_t tu_build_part(const struct tu_builder *b);

/* Return a span of `count` chunks, or of `count` whole blocks, of the buffer IN or OUT. */
static inline struct tu_span tu_in(uint32_t first, uint32_t count) { return (struct tu_span){TU_IN, first, count}; }
static inline struct tu_span tu_out(uint32_t first, uint32_t count) { return (struct tu_span){TU_OUT, first, count}; }
struct tu_span tu_in_blocks_at(const struct tu_builder *b, uint32_t block, uint32_t count);
struct tu_span tu_out_blocks_at(const struct tu_builder *b, uint32_t block, uint32_t count);
static inline struct tu_at tu_at(uint32_t rank, struct tu_span span) { return (struct tu_at){rank, span}; }
/* Returns a part of a span: `count` chunks, starting at its chunk number `first`. */
static inline struct tu_span tu_part(struct tu_span s, uint32_t first, uint32_t count) {
  return (struct tu_span){s.buffer, s.first + first, count};
}

/* Allocates scratch chunks at a rank: `copies` times as many as the span `like` has, and of the same sizes. `like` is a
 * span of IN or OUT that the rank has. */
struct tu_span tu_tmp(struct tu_builder *b, uint32_t rank, struct tu_span like, uint32_t copies);

/* Allocates scratch at a rank for the blocks `first` .. first + count - 1 (modulo N) of a buffer of N blocks that the
 * rank does not have. If an outer collective states the sizes of these blocks (tu_sub.row), the scratch has these
 * sizes. Otherwise each scratch block is as large as `own`, a block that the rank has. */
struct tu_span tu_tmp_blocks(struct tu_builder *b, uint32_t rank, struct tu_span own, uint32_t first, uint32_t count);

/* Selects the lane for the messages of the following calls. The lane must be below tu_algorithm.lanes. */
void tu_lane(struct tu_builder *b, uint32_t lane);

/* ---- data movement. Spans of one call have equal counts. If sender and receiver are the same rank, the call emits a
 * local copy or a local reduction. A copy of a span onto itself emits a step only if the span is input that is not yet
 * scaled: premul_sum scales it in that step. ---- */
void tu_move(struct tu_builder *b, struct tu_at from, struct tu_at to);
void tu_copy(struct tu_builder *b, uint32_t rank, struct tu_span source, struct tu_span target);

enum tu_side { TU_FROM_LEFT, TU_FROM_RIGHT };
/* Computes target = from op with (TU_FROM_LEFT) or target = with op from (TU_FROM_RIGHT) at to.rank. `with` is the
 * local operand, and may be the same span as the target. */
void tu_move_reduce(struct tu_builder *b, struct tu_at from, enum tu_side side, struct tu_span with, struct tu_at to);
void tu_reduce_local(struct tu_builder *b, uint32_t rank, struct tu_span left, struct tu_span right,
                     struct tu_span target);

/* Sends one source to many receivers. If a target is at the sending rank (from.rank), a local copy writes it. */
void tu_multicast(struct tu_builder *b, struct tu_at from, const struct tu_at targets[], uint32_t target_count);
/* Computes target = sources[0] op sources[1] op ... in one pass. Sources at to.rank are local operands. */
void tu_reduce_from(struct tu_builder *b, const struct tu_at sources[], uint32_t source_count, struct tu_at to);
/* Reduces like tu_reduce_from, but into several targets: every source is multicast to all targets. The messages are
 * concurrent (see tu_concurrent_begin). */
void tu_reduce_multicast(struct tu_builder *b, const struct tu_at sources[], uint32_t source_count,
                         const struct tu_at targets[], uint32_t target_count);

/* Begin and end concurrent calls: every source is read as it was before the first of these calls. On a lane, these
 * calls may send at most one message from one rank to another. If a target of one call overwrites a source of another
 * call, target and source must be the same span. Then long messages can follow each other slice by slice (see
 * plan.h). */
void tu_concurrent_begin(struct tu_builder *b);
void tu_concurrent_end(struct tu_builder *b);

/* Begin and end a join. Within it, consecutive sends of a rank to the same receiver cross as one message. The parts of
 * such a message may have different numbers of chunks. */
void tu_join_begin(struct tu_builder *b);
void tu_join_end(struct tu_builder *b);
/* Switches on or off that messages are joined, for calls that are far apart in the algorithm. While this is on, each
 * send to a single receiver continues the previous message of its channel. There must be such a message. */
void tu_go_on(struct tu_builder *b, bool on);

/* A collective within the one that is being built, among some of its ranks and on some of its chunks. */
struct tu_sub {
  const struct tu_algorithm *algorithm;
  uint32_t ranks, root;
  /* [ranks]: number that each rank has in the outer collective; NULL: the same number */
  const uint32_t *members;
  /* [ranks]: input and output of the inner collective at each rank, as spans of the outer collective; a span of 0
   * chunks: the rank has no such buffer */
  const struct tu_span *in, *out;
  /* [ranks]: a span with one block per rank of the inner collective. It tells tu_tmp_blocks the sizes of the blocks
   * that this rank does not have. NULL: sizes are not stated. */
  const struct tu_span *row;
  bool in_place; /* the inner collective runs in place (in and out are one buffer) */
};
/* Builds the inner collective at this point of the plan. Each span of `sub` has as many chunks as the inner
 * collective's buffer, or a multiple of that number. */
void tu_build_sub(struct tu_builder *b, const struct tu_sub *sub);
/* Returns the chunks per block of `algorithm` among `ranks` ranks, in a plan whose other properties are those of
 * `what`. */
uint32_t tu_build_sub_split(const struct tu_build *what, const struct tu_algorithm *algorithm, uint32_t ranks);

/* What to build. `rank` = TU_ALL_RANKS builds the steps of every rank. slot_pieces and depth matter only to algorithms
 * that aggregate (pat), and `chunks` only to algorithms that cut blocks. In any field that has a default, 0 selects the
 * default. */
#define TU_ALL_RANKS UINT32_MAX
struct tu_algorithm;
struct tu_placement;
struct tu_build {
  const struct tu_algorithm *algorithm;
  uint32_t ranks, root;
  bool in_place;
  uint32_t rank;
  /* number of pieces of blocks that fit into a slot, so that one message carries them (default 1) */
  uint32_t slot_pieces;
  uint32_t depth;  /* number of slots of a channel (default 8) */
  uint32_t chunks; /* number of pieces that a block is cut into, sent one after the other (default 1) */
  /* Number of parts that every block is cut into (default 1; at least `lanes`). The algorithm is repeated for each
   * part. So each part of a long vector stays in the caches while it goes through all phases. */
  uint32_t segments;
  /* Number of parts that are handled in parallel (default 1). Each of them has lanes of its own: as many as the
   * algorithm uses, at least one. Part i uses the lanes of part i modulo `lanes`. Barriers have no parts. */
  uint32_t lanes;
  /* true: the plan has the canonical order of reduction (TU_CANONICAL), if the algorithm has such plans
   * (tu_algorithm_is_canonical): reductions of three or more operands are trees, and some algorithms take other steps */
  bool canonical;
  /* The hosts of the ranks (placement.h), as tu_placement_for returns it; NULL: one host. In an algorithm, ranks are
   * numbered by their positions in the placement; here and in the plan, `root` and `rank` are the program's numbers. */
  const struct tu_placement *placement;
};
/* Builds a plan, which the caller destroys. Returns TUTTI_ERR_MEMORY if out of memory. Asserts that the algorithm
 * supports the number of ranks, parts and lanes in `what`. */
tutti_err tu_plan_try_build(const struct tu_build *what, struct tu_plan **plan, struct tu_error *error);
/* Like tu_plan_try_build, but does not return if out of memory: it jumps (longjmp) to the caller's tu_arena_build
 * (base/arena.h), which returns TUTTI_ERR_MEMORY, or ends the process if there is none. */
struct tu_plan *tu_plan_build(const struct tu_build *what);
/* Returns the largest value that tu_build.lanes may have for the algorithm; 0 for a barrier, which has no data to
 * cut. */
uint32_t tu_build_lanes_max(const struct tu_algorithm *algorithm);

#endif
