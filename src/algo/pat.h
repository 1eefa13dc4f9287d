/* pat.h: the operations of PAT (parallel aggregated trees), for reduce-scatter and allgather.
 *
 * One list of operations serves every rank, because it contains distances instead of ranks. The piece at distance s
 * belongs to the block of rank + s (modulo N). Let d be the index of the lowest bit set in s. The piece moves over
 * dimension d, that is, between ranks at distance 2^d. In reduce-scatter, it moves to the rank 2^d further on, for
 * which it is at distance s - 2^d. In allgather, it moves in the opposite direction. Distances of N or more are not
 * used, so N may be any number.
 *
 * Pieces are aggregated: one message carries up to `per_slot` pieces that move over the same dimension. Up to aggregate
 * / per_slot messages of a dimension may be assembled at once (the depth of the FIFO).
 *
 * The fields are those of the tables that NVIDIA's NCCL makes (classes PatRSAlgorithm and PatAGAlgorithm of its
 * collectives.h, 2.23 and later; S. Jeaugey: PAT, 2025). */
#ifndef TU_PAT_H
#define TU_PAT_H

#include "algo/algo.h"

#define TU_PAT_NONE (-1)

struct tu_pat_op {
  /* columns of NCCL's table: number of the phase, and the loop variables by which NCCL computes the other columns */
  uint32_t phase, as, a, scale;
  bool skipped; /* true: this operation does nothing for this number of ranks; the other fields are not valid */
  /* Dimensions of the receive and of the send. A dimension is log2 of the distance between sender and receiver.
   * recv_dim TU_PAT_NONE: the operation uses the rank's own data instead of received data. send_dim TU_PAT_NONE: the
   * result is stored in the rank's output instead of sent. */
  int recv_dim, send_dim;
  int recv_at, send_at; /* position of the piece in its slot, counted in pieces */
  /* number of the piece's slot in its dimension, counted from the first slot that is not yet complete (posted) */
  uint32_t slot;
  bool post_recv, post_send;
  bool final;     /* true: the output of reduce-scatter is complete */
  uint32_t piece; /* distance, in ranks, from this rank to the owner of the piece that is written or passed on */
};

struct tu_pat {
  uint32_t ranks, dims;
  /* aggregate: number of pieces that all slots to one receiver hold together. delta: the number of ranks, rounded up to
   * a power of two, divided by `aggregate`. Operations come in groups of up to `aggregate`; the distances in a group
   * differ by multiples of delta. */
  uint32_t aggregate, delta;
  uint32_t per_slot;
  struct tu_arena *arena;
  struct tu_pat_op *ops; /* operations for one chunk of every block; they are repeated for each chunk */
  uint32_t op_count;
};

/* Fill *p with the operations of all pieces, for the ranks, slot_pieces and depth in `what` (see tu_build). The
 * operations are allocated in the arena. */
void tu_pat_reduce_scatter(struct tu_pat *p, const struct tu_build *what, struct tu_arena *arena);
void tu_pat_allgather(struct tu_pat *p, const struct tu_build *what, struct tu_arena *arena);

/* Returns the number of chunks per block that PAT needs (tu_algorithm.split). */
uint32_t tu_pat_split(const struct tu_build *what);

/* Writes the table of PAT operations of all ranks as CSV, without skipped operations. In this table a slot has 64
 * elements, and a piece 64 / slot_pieces elements. If blocks have several chunks, the last chunk has half as many
 * elements. */
struct tu_text;
void tu_pat_write(const struct tu_pat *p, const struct tu_build *what, struct tu_text *text);

#endif
