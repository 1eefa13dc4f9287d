/* reshard.h: how does a tensor come from one distribution over a mesh into another? By the cheapest sequence of steps:
 * collectives over the lines or planes of some axes, and local ones. A pure function of struct tu_reshard, so all ranks
 * come to the same.
 *
 * A step adds innermost cuts of a dimension, or takes innermost ones away: only so are whole pieces split and joined. The
 * exchange lets axes change roles. Found by Dijkstra's algorithm over at most some 1,600 distributions. */
#ifndef TU_RESHARD_H
#define TU_RESHARD_H

#include "base/arena.h"
#include "tensor/distribution.h"

struct tu_reshard {
  struct tu_whole whole;
  struct tu_distribution from, to;
};

enum tu_reshard_kind {
  TU_RESHARD_SLICE,   /* replicated to sharded: each keeps its piece; local */
  TU_RESHARD_PARTIAL, /* replicated or sharded to partial, see tutti_reshard(); local */
  TU_RESHARD_ALLGATHER,
  TU_RESHARD_REDUCE_SCATTER,
  TU_RESHARD_ALLREDUCE,
  TU_RESHARD_ALLTOALL,
  TU_RESHARD_EXCHANGE, /* axes change roles, so others hold the parts: each sends its own to one rank, and receives one */
  TU_RESHARD_KINDS
};
extern const char *const tu_reshard_names[TU_RESHARD_KINDS];

struct tu_reshard_step {
  enum tu_reshard_kind kind;
  uint8_t axes;         /* a bit for each that it concerns */
  uint8_t dim, out_dim; /* of collectives: the cut, or gathered, one; alltoall: pieces are joined along out_dim */
  uint8_t places[TUTTI_MESH_AXES]; /* exchange: the axis whose role each axis takes */
  struct tu_distribution after;    /* what the tensor is then */
  size_t moved;                    /* bytes that a rank sends, or receives, whichever is more */
  size_t part_bytes;               /* of a rank's part afterwards, without padding */
};

struct tu_route {
  struct tu_arena arena;
  struct tu_reshard_step *steps; /* NULL: the two are equal */
  uint32_t count;
  uint8_t axes; /* of all steps with messages */
  size_t moved;
  size_t largest_bytes; /* the largest part of all, the first and the last one included */
};

/* What a collective costs besides the bytes that it moves. */
#define TU_RESHARD_COLLECTIVE_BYTES 16384u

/* MEMORY. Free it with tu_route_fini, which may come twice. */
tutti_err tu_reshard_find(const struct tu_reshard *r, struct tu_route *route, struct tu_error *error);
void tu_route_fini(struct tu_route *route);

/* In an exchange: the coordinates of the rank from which the rank `at` receives, and of that to which it sends. */
void tu_reshard_source(const struct tu_whole *whole, const struct tu_reshard_step *step,
                       const struct tu_distribution *before, const uint32_t at[TUTTI_MESH_AXES],
                       uint32_t source[TUTTI_MESH_AXES]);
void tu_reshard_target(const struct tu_whole *whole, const struct tu_reshard_step *step,
                       const struct tu_distribution *before, const uint32_t at[TUTTI_MESH_AXES],
                       uint32_t target[TUTTI_MESH_AXES]);

static inline bool tu_reshard_is_local(enum tu_reshard_kind kind) { return kind <= TU_RESHARD_PARTIAL; }

#endif
