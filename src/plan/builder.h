/* builder.h: how an algorithm writes a plan: seeing all ranks at once.
 *
 * Every verb names both ends, so they cannot disagree, and emits the steps of the ranks that are wanted (one, or all).
 * The order between steps of a rank follows from the chunks that they read and write; nobody writes it down. */
#ifndef TU_BUILDER_H
#define TU_BUILDER_H

#include "plan/plan.h"

struct tu_builder;

/* A span at a rank. */
struct tu_at {
  uint32_t rank;
  struct tu_span span;
};

/* Facts of the plan that is being built. */
uint32_t tu_build_ranks(const struct tu_builder *b);
uint32_t tu_build_root(const struct tu_builder *b);
const struct tu_build *tu_build_what(const struct tu_builder *b);
uint32_t tu_build_split(const struct tu_builder *b);
bool tu_build_in_place(const struct tu_builder *b);
/* Is the plan for blocks of equal size only, so that one chunk of scratch may serve several blocks in turn? */
bool tu_build_equal_blocks(const struct tu_builder *b);

/* Memory for an algorithm's own tables, zeroed. Nobody frees it: it lasts until the algorithm has said its verbs. */
struct tu_arena *tu_build_arena(struct tu_builder *b);
static inline void *tu_build_memory(struct tu_builder *b, size_t count, size_t item_bytes) {
  return tu_arena_allocate(tu_build_arena(b), count, item_bytes);
}

/* For loops over ranks of which each speaks to the one `distance` further on (modulo N), in algorithms with TU_ROTATES_ROWS:
 *
 *   for (uint32_t rank = tu_next_rank(b, 0, distance); rank < n; rank = tu_next_rank(b, rank + 1, distance))
 *
 * The first rank from `rank` on whose verbs matter, N or more at the end: every rank, or, if the steps of one are built, that one
 * and the one that speaks to it. Distance 0 is for what a rank does by itself, and for scratch. */
uint32_t tu_next_rank(const struct tu_builder *b, uint32_t rank, uint32_t distance);

/* Spans: `count` chunks of IN or OUT, or the chunks of whole blocks. */
static inline struct tu_span tu_in(uint32_t first, uint32_t count) { return (struct tu_span){TU_IN, first, count}; }
static inline struct tu_span tu_out(uint32_t first, uint32_t count) { return (struct tu_span){TU_OUT, first, count}; }
struct tu_span tu_in_blocks_at(const struct tu_builder *b, uint32_t block, uint32_t count);
struct tu_span tu_out_blocks_at(const struct tu_builder *b, uint32_t block, uint32_t count);
static inline struct tu_at tu_at(uint32_t rank, struct tu_span span) { return (struct tu_at){rank, span}; }
/* Part of a span: `count` chunks from its chunk `first`. */
static inline struct tu_span tu_part(struct tu_span s, uint32_t first, uint32_t count) {
  return (struct tu_span){s.buffer, s.first + first, count};
}

/* New scratch chunks at a rank: `copies` times as many as in `like`, a span of IN or OUT that the rank has, and sized
 * like them. */
struct tu_span tu_tmp(struct tu_builder *b, uint32_t rank, struct tu_span like, uint32_t copies);

/* New scratch at a rank for the blocks `first` .. first + count - 1 (modulo N) of a row that it has no part in: sized
 * like them if an outer collective knows their sizes (tu_sub.row), else like `own`, a block that the rank has. */
struct tu_span tu_tmp_blocks(struct tu_builder *b, uint32_t rank, struct tu_span own, uint32_t first, uint32_t count);

/* From here on, messages travel on this lane, of those that the algorithm has (tu_algorithm.lanes). */
void tu_lane(struct tu_builder *b, uint32_t lane);

/* ---- the verbs. Spans of one verb have equal counts. A verb whose ends are one rank is a copy or a reduce; a copy onto
 * itself is elided, except for the mark of a first load. ---- */
void tu_move(struct tu_builder *b, struct tu_at from, struct tu_at to);
void tu_copy(struct tu_builder *b, uint32_t rank, struct tu_span source, struct tu_span target);

enum tu_side { TU_FROM_LEFT, TU_FROM_RIGHT };
/* target = from op target (TU_FROM_LEFT) or target op from (TU_FROM_RIGHT), at to.rank. `with` is the local operand
 * where it is not the target itself. */
void tu_move_reduce(struct tu_builder *b, struct tu_at from, enum tu_side side, struct tu_span with, struct tu_at to);
void tu_reduce_local(struct tu_builder *b, uint32_t rank, struct tu_span left, struct tu_span right,
                     struct tu_span target);

/* One source, many receivers; a target at from.rank is a copy. */
void tu_multicast(struct tu_builder *b, struct tu_at from, const struct tu_at targets[], uint32_t target_count);
/* target = sources[0] op sources[1] op ..., in one pass; sources at to.rank are local operands. */
void tu_reduce_from(struct tu_builder *b, const struct tu_at sources[], uint32_t source_count, struct tu_at to);
/* The same, into several targets at once: every source is multicast to them. A group of its own. */
void tu_reduce_multicast(struct tu_builder *b, const struct tu_at sources[], uint32_t source_count,
                         const struct tu_at targets[], uint32_t target_count);

/* What stands between the two happens at once: every source is read as it was before the group. At most one message
 * travels from a rank to another on a lane; a target that overwrites a source of the group must be the same span, so
 * that slices of long messages can follow each other (see plan.h). */
void tu_group_begin(struct tu_builder *b);
void tu_group_end(struct tu_builder *b);

/* A group in which what one rank sends to another, one verb after the other, crosses as one message. The parts need not
 * have equal counts. */
void tu_join_begin(struct tu_builder *b);
void tu_join_end(struct tu_builder *b);
/* The same for parts that are said far apart: while it is on, a message to one receiver goes on where the last one on its
 * ring ended. Such a ring must have one. */
void tu_go_on(struct tu_builder *b, bool on);

/* A collective within the one that is being built: among some of its ranks, on some of its chunks. */
struct tu_sub {
  const struct tu_algorithm *algorithm;
  uint32_t ranks, root;
  const uint32_t *members;        /* [ranks]: which ranks of the outer collective they are; NULL: the same */
  const struct tu_span *in, *out; /* [ranks]: where the buffers of each lie at it; count 0 where it has none */
  const struct tu_span *row; /* [ranks], or NULL: at each, a row of all N blocks, to size scratch by (tu_tmp_blocks) */
  bool in_place;             /* in and out lie on each other, as is the inner collective's form */
};
/* Has the inner algorithm say its verbs here. Spans hold as many chunks as the inner collective has, or a multiple. */
void tu_build_sub(struct tu_builder *b, const struct tu_sub *sub);
/* Chunks per block of that algorithm among so many ranks, in a plan built like this one. */
uint32_t tu_build_sub_split(const struct tu_build *what, const struct tu_algorithm *algorithm, uint32_t ranks);

/* What is to be built. `rank` = TU_ALL_RANKS for every rank's steps. slot_pieces, depth and chunks matter to algorithms
 * that aggregate (pat) or cut blocks; 0 is the default of all. */
#define TU_ALL_RANKS UINT32_MAX
struct tu_algorithm;
struct tu_build {
  const struct tu_algorithm *algorithm;
  uint32_t ranks, root;
  bool in_place;
  uint32_t rank;
  uint32_t slot_pieces; /* how many pieces of a message fit into a slot (1) */
  uint32_t depth;       /* how many slots a ring has (8) */
  uint32_t chunks;      /* into how many pieces a block is cut, one after the other (1) */
  /* Into how many parts every block is cut, for each of which the algorithm is said over (1; at least `lanes`): a long
   * vector then goes through all its phases part by part, while each is in the caches. */
  uint32_t segments;
  /* So many ways side by side (1): part i goes on way i modulo `lanes`, each of which is a lane, or as many as the
   * algorithm uses itself. Not for barriers. */
  uint32_t lanes;
};
/* MEMORY; the algorithm's requirements are met (asserts). The caller destroys the plan. */
tutti_err tu_plan_try_build(const struct tu_build *what, struct tu_plan **plan, struct tu_error *error);
/* The same for who cannot go on without memory: a refusal ends the process, or the building that the caller is in. */
struct tu_plan *tu_plan_build(const struct tu_build *what);
/* How many ways side by side there may be; 0: a barrier has nothing to cut. */
uint32_t tu_build_lanes_max(const struct tu_algorithm *algorithm);

#endif
