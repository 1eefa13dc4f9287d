/* mesh.h: ranks in a grid of one to three dimensions, and tensors that are spread over it.
 *
 * A mesh tensor is one logical tensor of which each rank holds a part. Along each axis of the mesh it is replicated (all
 * ranks of a line hold the same), sharded (a dimension is cut, each rank holds its piece), or partial (each rank holds a
 * summand of the whole). tutti_reshard() brings it from any such distribution into any other; the calls along one axis are
 * resharding that changes this axis alone. The parts may lie in memory in any layout of tutti/tensor.h, which may differ
 * from rank to rank and between `from` and `to`.
 *
 * Calls that take mesh tensors wait until they are done, and are made by all ranks of the mesh (along one axis: of a line,
 * see there) with the same distributions, shape and type. What a rank refuses, or what fails,
 * becomes the verdict of the mesh, as of a communicator: only tutti_mesh_free() works from then on. Constructors refuse
 * without consequence. Sentences are at tutti_error_message(NULL). */
#ifndef TUTTI_MESH_H
#define TUTTI_MESH_H

#include <tutti/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_MESH_AXES 3

typedef struct tutti_mesh tutti_mesh;

/* ---- ranks in a grid ---------------------------------------------------------------------------------------------- */

/* Collective: arranges the ranks of `comm` row by row: the last axis runs fastest. extents: how many ranks each axis has;
 * their product is the number of ranks. Makes communicators of its own (one for every line along an axis, one for every
 * plane, one for all), so `comm` may be freed before the mesh. Errors: ARGUMENT (no such mesh of so many ranks), MISMATCH
 * (the ranks name different ones), MEMORY; if it fails on one rank, it fails on all. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_mesh_create(tutti_comm *comm, uint32_t axes, const uint32_t *extents,
                                                    tutti_mesh **mesh);
/* Collective, as tutti_comm_free. NULL is accepted. */
TUTTI_API tutti_err tutti_mesh_free(tutti_mesh *mesh);

TUTTI_API uint32_t tutti_mesh_axes(const tutti_mesh *mesh);
TUTTI_API uint32_t tutti_mesh_extent(const tutti_mesh *mesh, uint32_t axis); /* ranks along it; 0: no such axis */
/* Where a rank stands: one coordinate an axis; false if there is no such rank. The rank there; UINT32_MAX if there is none. */
TUTTI_API bool tutti_mesh_coordinates(const tutti_mesh *mesh, uint32_t rank, uint32_t *coordinates);
TUTTI_API uint32_t tutti_mesh_rank(const tutti_mesh *mesh, const uint32_t *coordinates);
/* The ranks of this rank's line along an axis, ordered by their coordinate: a communicator for the program's own calls,
 * which all ranks of the line make in the same order, those on the mesh included. It belongs to the mesh. NULL: no such
 * axis. */
TUTTI_API tutti_comm *tutti_mesh_line(const tutti_mesh *mesh, uint32_t axis);

/* ---- tensors over it ----------------------------------------------------------------------------------------------- */

typedef enum tutti_spread_kind {
  TUTTI_REPLICATED,
  TUTTI_SHARDED, /* a dimension is cut into equal pieces, in the order of the coordinates */
  TUTTI_PARTIAL, /* the logical tensor is the sum (or min, max) of what the ranks of a line hold */
} tutti_spread_kind;

/* What a mesh axis does to a tensor. Several axes may cut one dimension: the first of them into large pieces, the next each
 * of those. A dimension is a multiple of the ranks of all that cut it (the last one of block floats: of 16 times as many).
 * All partial axes of a tensor have one operation. An axis of one rank does nothing, whatever is said of it. */
typedef struct tutti_spread {
  tutti_spread_kind kind;
  int dim;     /* sharded: from 0, or from -1 downwards */
  tutti_op op; /* partial: TUTTI_SUM, TUTTI_MIN or TUTTI_MAX */
} tutti_spread;

typedef struct tutti_mesh_tensor {
  tutti_mesh *mesh;
  uint32_t dims;
  size_t shape[TUTTI_DIMS]; /* of the whole; leading ones where it has fewer dimensions */
  tutti_spread spread[TUTTI_MESH_AXES];
  tutti_tensor local; /* this rank's part */
} tutti_mesh_tensor;

/* Which part of the whole a rank holds: origin and shape (either may be NULL) take of.dims numbers. of.data is not
 * looked at. spread: one for each axis of the mesh. ARGUMENT if there is no such distribution. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_mesh_part(const tutti_mesh *mesh, uint32_t rank, tutti_tensor_of of,
                                                  const tutti_spread *spread, size_t *origin, size_t *shape);
/* A mesh tensor whose part is row-major without gaps, at of.data (NULL: to be set later, in local.data). of.shape is that of
 * the whole. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_mesh_tensor_strided(tutti_mesh_tensor *tensor, tutti_mesh *mesh,
                                                            tutti_tensor_of of, const tutti_spread *spread);
/* A mesh tensor of any part: its shape must be what tutti_mesh_part() says. shape: of the whole. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_mesh_tensor_wrap(tutti_mesh_tensor *tensor, tutti_mesh *mesh, uint32_t dims,
                                                         const size_t *shape, const tutti_spread *spread,
                                                         const tutti_tensor *local);
/* One line: type and shape of the whole, mesh and distribution (as tutti-info(1) writes it), and the part's line. */
TUTTI_API void tutti_mesh_tensor_print(const tutti_mesh_tensor *tensor, FILE *file);

/* ---- from one distribution into another ---------------------------------------------------------------------------- */

/* to = from, which are of one mesh, type and shape. The steps (collectives along axes or planes, and local ones) are those
 * of least cost: bytes that a rank sends or receives, each collective counting as 16 KiB more. They are a function
 * of shape, type, mesh and both distributions alone; `tutti info --reshard` prints them. No part in between is larger than
 * the larger of the two, unless there is no other way; then as little larger as can be. Two buffers are allocated for
 * them, at most. `from` and `to` may overlap, on some ranks or all; where a single step leads from one to the other and
 * cannot work in place, `from` is copied first.
 *
 * What is replicated or sharded becomes a partial sum without a message: who had coordinate 0, or the piece, keeps
 * it, the others hold zeros (-0 of floating types, as x + -0 is x for every x); min and max: all keep it. Floating sums
 * are rounded in the order of the collectives that are used. Errors: ARGUMENT, MISMATCH (the ranks name different tensors or
 * distributions), MEMORY, and those of collectives. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_reshard(const tutti_mesh_tensor *from, tutti_mesh_tensor *to);

/* ---- along one axis ------------------------------------------------------------------------------------------------ */

/* On all lines of the axis at once, each by itself: a line waits for no other. (Where several axes cut a dimension whose cuts
 * change, it is their planes that do not wait for each other.) `to` has the distribution of `from` but for this axis, which goes
 *
 *   allgather         from sharded to replicated       alltoall    from sharded to sharded along another dimension
 *   reduce_scatter    from partial to sharded          allreduce   from partial to replicated
 *   broadcast         stays replicated; what the rank with coordinate `root` on each line holds, all get */
TUTTI_API TUTTI_CHECKED tutti_err tutti_mesh_allgather(const tutti_mesh_tensor *from, tutti_mesh_tensor *to,
                                                       uint32_t axis);
TUTTI_API TUTTI_CHECKED tutti_err tutti_mesh_reduce_scatter(const tutti_mesh_tensor *from, tutti_mesh_tensor *to,
                                                            uint32_t axis);
TUTTI_API TUTTI_CHECKED tutti_err tutti_mesh_allreduce(const tutti_mesh_tensor *from, tutti_mesh_tensor *to,
                                                       uint32_t axis);
TUTTI_API TUTTI_CHECKED tutti_err tutti_mesh_alltoall(const tutti_mesh_tensor *from, tutti_mesh_tensor *to,
                                                      uint32_t axis);
TUTTI_API TUTTI_CHECKED tutti_err tutti_mesh_broadcast(const tutti_mesh_tensor *from, tutti_mesh_tensor *to,
                                                       uint32_t axis, uint32_t root);

#ifdef __cplusplus
}
#endif
#endif
