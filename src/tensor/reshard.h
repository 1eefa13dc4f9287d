/* reshard.h: finds the cheapest sequence of steps that converts a tensor from one distribution over a mesh to another.
 * A step is a collective of the ranks along one or several mesh axes, or local work of each rank. The result is a
 * function of struct tu_reshard alone, so all ranks find the same sequence.
 *
 * If several axes partition a dimension, a step may split or join the pieces of the innermost axes only, because these
 * pieces are contiguous in the dimension. An exchange lets axes swap roles. The search is Dijkstra's algorithm over at
 * most about 1,600 distributions. */
#ifndef TU_RESHARD_H
#define TU_RESHARD_H

#include "base/arena.h"
#include "tensor/distribution.h"

struct tu_reshard {
  struct tu_whole whole;
  struct tu_distribution from, to;
};

enum tu_reshard_kind {
  TU_RESHARD_SLICE, /* replicated to sharded: each rank keeps its piece; without messages */
  /* replicated or sharded to partial: each rank keeps or clears its own data, without messages (see tutti_reshard) */
  TU_RESHARD_PARTIAL,
  TU_RESHARD_ALLGATHER,
  TU_RESHARD_REDUCE_SCATTER,
  TU_RESHARD_ALLREDUCE,
  TU_RESHARD_ALLTOALL,
  TU_RESHARD_EXCHANGE, /* axes swap roles: each rank sends its part to its new holder, and receives one part */
  TU_RESHARD_KINDS
};
extern const char *const tu_reshard_names[TU_RESHARD_KINDS];

struct tu_reshard_step {
  enum tu_reshard_kind kind;
  uint8_t axes; /* bit mask of the axes that take part */
  /* dim: dimension that is joined (allgather) or split (alltoall, reduce_scatter, slice); out_dim: dimension that
   * alltoall joins */
  uint8_t dim, out_dim;
  uint8_t from_axes[TUTTI_MESH_AXES]; /* exchange: for each axis, the axis whose role it adopts */
  struct tu_distribution after;       /* distribution after this step */
  size_t moved;                       /* bytes that a rank sends or receives, whichever is more */
  size_t part_bytes;                  /* length of a rank's part after this step, in bytes, without padding */
};

struct tu_route {
  struct tu_arena arena;
  struct tu_reshard_step *steps; /* steps in their order; NULL: the two distributions are equal */
  uint32_t count;
  uint8_t axes; /* bit mask of the axes that take part in steps with messages */
  size_t moved;
  size_t largest_bytes; /* length in bytes of the largest part on the route, including the first and the last part */
};

/* The search counts each collective as this many bytes, in addition to the bytes that it moves. */
#define TU_RESHARD_COLLECTIVE_BYTES 16384u

/* Finds the route (the sequence of steps). Error: TUTTI_ERR_MEMORY. Free the route with tu_route_fini, which may be
 * called twice. */
tutti_err tu_reshard_find(const struct tu_reshard *r, struct tu_route *route, struct tu_error *error);
void tu_route_fini(struct tu_route *route);

/* Find the partners of rank `at` in an exchange, as mesh coordinates. tu_reshard_source finds the rank from which it
 * receives, tu_reshard_target the rank to which it sends. */
void tu_reshard_source(const struct tu_whole *whole, const struct tu_reshard_step *step,
                       const struct tu_distribution *before, const uint32_t at[TUTTI_MESH_AXES],
                       uint32_t source[TUTTI_MESH_AXES]);
void tu_reshard_target(const struct tu_whole *whole, const struct tu_reshard_step *step,
                       const struct tu_distribution *before, const uint32_t at[TUTTI_MESH_AXES],
                       uint32_t target[TUTTI_MESH_AXES]);

static inline bool tu_reshard_is_local(enum tu_reshard_kind kind) { return kind <= TU_RESHARD_PARTIAL; }

#endif
