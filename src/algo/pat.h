/* pat.h: the operations of PAT (parallel aggregated trees), for reduce-scatter and allgather.
 *
 * One list serves every rank: it speaks of distances. The piece at distance s is rank + s's block (modulo N). Data of
 * distance s moves over dimension d = lowest bit set in s: in reduce-scatter to the rank 2^d further on, for which it is at
 * distance s - 2^d; in allgather the other way. Distances from N on do not exist, so any N will do.
 *
 * Pieces are aggregated: a message of a dimension has up to `per_slot` of them, and up to aggregate / per_slot messages of
 * a dimension may be put together at once (the depth of the FIFO). The fields are those of the tables that NVIDIA's NCCL
 * makes (class PatRSAlgorithm and PatAGAlgorithm of its collectives.h, 2.23 and later; S. Jeaugey: PAT, 2025). */
#ifndef TU_PAT_H
#define TU_PAT_H

#include "algo/algo.h"

#define TU_PAT_NONE (-1)

struct tu_pat_op {
  uint32_t phase, as, a, scale;
  bool skipped;           /* nothing to do for this N; the rest is blank */
  int recv_dim, send_dim; /* TU_PAT_NONE: own data; the output */
  int recv_at, send_at;   /* place in the slot, in pieces */
  uint32_t slot;          /* the slot, counted from the first that has not been posted */
  bool post_recv, post_send;
  bool final;     /* reduce-scatter: the output is complete */
  uint32_t piece; /* distance of what is written or passed on */
};

struct tu_pat {
  uint32_t ranks, dims;
  uint32_t aggregate, delta; /* aggregate * delta = ranks, rounded up to a power of two */
  uint32_t per_slot;
  struct tu_arena *arena;
  struct tu_pat_op *ops; /* of one chunk */
  uint32_t op_count;
};

/* slot_pieces and depth as in tu_build. What they need comes from the arena. */
void tu_pat_reduce_scatter(struct tu_pat *p, const struct tu_build *what, struct tu_arena *arena);
void tu_pat_allgather(struct tu_pat *p, const struct tu_build *what, struct tu_arena *arena);

/* Chunks per block. */
uint32_t tu_pat_split(const struct tu_build *what);

/* Writes the table of all ranks as CSV: a slot has 64 elements, a piece 64 / slot_pieces of them; of several chunks the last is
 * half as long. Skipped operations are left out. */
struct tu_text;
void tu_pat_write(const struct tu_pat *p, const struct tu_build *what, struct tu_text *text);

#endif
