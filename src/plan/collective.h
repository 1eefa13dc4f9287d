/* collective.h: the table of the inputs of each collective and the outputs that it must produce. The builder, the
 * checker, the engine and the command-line tool read the table.
 *
 * A buffer of a collective is a row of *blocks*: one block, or one per rank. An algorithm may split every block into
 * `split` *chunks*; chunk index = block * split + part. The vector variants are the same collectives over blocks of
 * unequal size, so only the equal-sized collectives have plans. */
#ifndef TU_COLLECTIVE_H
#define TU_COLLECTIVE_H

#include "base/types.h"

enum tu_extent {
  TU_ONE, /* the buffer is one block (for barrier: a block of 0 bytes) */
  TU_EACH /* the buffer has one block per rank */
};

enum tu_promise {
  TU_NOTHING,    /* barrier moves no data; every rank waits for every other rank */
  TU_COPY_OF,    /* an output block is a copy of one rank's input block */
  TU_SUM_OF_ALL, /* an output block is the reduction of all ranks' input blocks */
  TU_SUM_TO,     /* scan: the reduction over ranks 0 .. this rank */
  TU_SUM_BEFORE  /* exscan: the reduction over ranks 0 .. this rank - 1; rank 0 has no output */
};

struct tu_collective {
  const char *name;
  /* the equal-sized collective whose plans this collective uses: itself, or gather for gatherv */
  tutti_collective family;
  bool vector;
  bool rooted;
  enum tu_extent in, out;
  bool in_at_root, out_at_root; /* the input (or output) buffer exists at the root only */
  enum tu_promise promise;
};
/* table entry of each collective; if name is NULL, no collective has this value */
extern const struct tu_collective tu_collectives[TU_COLLECTIVES];

/* Returns true if the value is that of a collective. (The caller's enum may hold any value.) */
static inline bool tu_is_collective(tutti_collective c) {
  return (uint32_t)c < TU_COLLECTIVES && tu_collectives[c].name;
}
/* Returns the collective with the next higher value, or TU_COLLECTIVES if there is none. For loops over all
 * collectives. */
static inline tutti_collective tu_collective_next(tutti_collective c) {
  uint32_t next = (uint32_t)c + 1;
  while (next < TU_COLLECTIVES && !tu_collectives[next].name) next++;
  return (tutti_collective)next;
}

/* Finds a collective by its name. Returns false if the name is unknown. */
bool tu_collective_find(const char *name, tutti_collective *collective);

/* Returns the name of a collective that is most similar to `name`, or NULL if none is similar. */
const char *tu_collective_nearest(const char *name);

static inline bool tu_reduces(tutti_collective c) { return tu_collectives[c].promise >= TU_SUM_OF_ALL; }

/* Returns true if every buffer is one block that can be split (so not for a barrier). */
static inline bool tu_has_one_block(tutti_collective c) {
  return tu_collectives[c].in == TU_ONE && tu_collectives[c].out == TU_ONE && c != TUTTI_BARRIER;
}

/* Return the number of blocks of a rank's buffer; 0 if the rank has no such buffer. (send: rank 0 sends, rank 1
 * receives, root = 0.) */
uint32_t tu_in_blocks(tutti_collective c, uint32_t ranks, uint32_t root, uint32_t rank);
uint32_t tu_out_blocks(tutti_collective c, uint32_t ranks, uint32_t root, uint32_t rank);

/* The input that an output block must equal. For TU_COPY_OF: block `in_block` of rank `from`. For reductions: the
 * reduction of block `in_block` of every rank in [from, to). */
struct tu_promised {
  uint32_t from, to;
  uint32_t in_block;
};
struct tu_promised tu_promise_of(tutti_collective c, uint32_t ranks, uint32_t root, uint32_t rank, uint32_t block);

/* Returns where the shorter buffer begins within the longer one if the call is in place. The offset is in blocks: block
 * b of the shorter buffer is block b + offset of the longer one. (In allgather, the input of rank r is block r of its
 * output.) Only for ranks that have both buffers. */
uint32_t tu_alias_offset(tutti_collective c, uint32_t rank);

/* Returns the size class of a block. Blocks of one class have equal sizes whatever counts a vector variant is called
 * with. `is_out`: the block belongs to the output. */
uint32_t tu_size_class(tutti_collective c, uint32_t ranks, uint32_t rank, bool is_out, uint32_t block);

#endif
