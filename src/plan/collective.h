/* collective.h: what each collective promises, as data. The builder, the checker, the engine and the command read it.
 *
 * A buffer of a collective is a row of *blocks*: one, or one a rank. An algorithm may split every block into
 * `split` *chunks*; chunk index = block * split + part. The vector variants are the same collectives over blocks of
 * unequal size, so only the equal-sized ones are listed as plans. */
#ifndef TU_COLLECTIVE_H
#define TU_COLLECTIVE_H

#include "base/base.h"

enum tu_extent {
  TU_ONE, /* one block (barrier: of no bytes) */
  TU_EACH /* one block a rank */
};

enum tu_promise {
  TU_NOTHING,    /* barrier: that every rank waits for every other */
  TU_COPY_OF,    /* an output block is some rank's input block */
  TU_SUM_OF_ALL, /* ... the reduction of all ranks' input blocks */
  TU_SUM_TO,     /* scan: of ranks 0 .. this one */
  TU_SUM_BEFORE  /* exscan: of ranks 0 .. the one before; rank 0 has none */
};

struct tu_collective {
  const char *name;
  tutti_collective family; /* the equal-sized collective whose plans serve this one */
  bool vector;
  bool rooted;
  enum tu_extent in, out;
  bool in_at_root, out_at_root; /* that buffer exists at the root only */
  enum tu_promise promise;
};
extern const struct tu_collective tu_collectives[TUTTI_COLLECTIVES];

/* By name; false if there is none of it. */
bool tu_collective_find(const char *name, tutti_collective *collective);

/* The collective whose name is most like `name`, or NULL. */
const char *tu_collective_nearest(const char *name);

static inline bool tu_reduces(tutti_collective c) { return tu_collectives[c].promise >= TU_SUM_OF_ALL; }

/* Has every buffer one block, and does that block have parts? */
static inline bool tu_has_one_block(tutti_collective c) {
  return tu_collectives[c].in == TU_ONE && tu_collectives[c].out == TU_ONE && c != TUTTI_BARRIER;
}

/* Does the rank have that buffer, and of how many blocks? (send: rank 0 sends, rank 1 receives, root = 0.) */
uint32_t tu_in_blocks(tutti_collective c, uint32_t ranks, uint32_t root, uint32_t rank);
uint32_t tu_out_blocks(tutti_collective c, uint32_t ranks, uint32_t root, uint32_t rank);

/* The output block `block` of `rank` is to hold this input. For TU_COPY_OF: block `in_block` of rank `from`; for the
 * sums: block in_block of every rank in [from, to). */
struct tu_promised {
  uint32_t from, to;
  uint32_t in_block;
};
struct tu_promised tu_promise_of(tutti_collective c, uint32_t ranks, uint32_t root, uint32_t rank, uint32_t block);

/* In place, block b of the shorter buffer lies on block b + tu_alias_offset() of the longer one, at the ranks
 * that have both buffers. */
uint32_t tu_alias_offset(tutti_collective c, uint32_t rank);

/* The size class of a block: blocks of one class have one size, whatever a vector variant's counts are.
 * `is_out` says of which buffer. */
uint32_t tu_size_class(tutti_collective c, uint32_t ranks, uint32_t rank, bool is_out, uint32_t block);

#endif
