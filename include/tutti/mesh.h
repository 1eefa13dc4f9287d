/* mesh.h: ranks in a grid of one to three axes, and tensors that are distributed over the grid.
 *
 * A mesh tensor is one logical tensor of which each rank holds a shard. A line is the set of ranks that differ only in
 * their coordinate along one axis. Along each axis of the mesh the tensor has one of three forms. Replicated: all ranks
 * of a line hold the same data. Sharded: a dimension is cut, and each rank of a line holds a piece. Partial: each rank
 * of a line holds a summand of the tensor (or an operand of a minimum or maximum). tutti_reshard() converts any such
 * distribution into any other; the calls along one axis change the distribution along this axis alone. The shards may
 * have any layout of tutti/tensor.h; the layouts may differ between ranks, and between the input and the output of a
 * call.
 *
 * Calls that move mesh tensors block until they are complete. All ranks of the mesh make them (calls along one axis:
 * all ranks of a line), with equal distributions, shape and datatype. If a call fails or is refused on one rank, the
 * mesh fails on all its ranks, like a communicator. From then on only tutti_mesh_free() works. Constructors that fail
 * leave the mesh usable. tutti_error_message(NULL) returns the message of an error.
 *
 * Who may call: one thread at a time makes collective calls on a mesh; any thread may make the local calls
 * (tutti/tutti.h). A mesh tensor belongs to the program, which keeps the mesh and the memory of the shard as long as it
 * uses the tensor. */
#ifndef TUTTI_MESH_H
#define TUTTI_MESH_H

#include <tutti/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_MESH_AXES 3 /* maximum number of axes */

typedef struct tutti_mesh tutti_mesh;

/* ---- ranks in a grid --------------------------------------------------------------------------------------------- */

/* Makes a mesh of the ranks of `comm` and sets *mesh. Collective over comm. extents[axes] is the number of ranks along
 * each axis; the product must be the number of ranks; the array is copied. Ranks are arranged in row-major order: the
 * last axis runs fastest. The mesh has its own communicators: one for every line along an axis, one for every plane,
 * and one for all ranks. Therefore `comm` may be freed before the mesh. The caller frees the mesh. Errors:
 * TUTTI_ERR_ARGUMENT (invalid number of axes, or the product of the extents is not the number of ranks),
 * TUTTI_ERR_MISMATCH (ranks give different extents), TUTTI_ERR_MEMORY. If the call fails on one rank, it fails on
 * all. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_mesh_create(tutti_comm *comm, uint32_t axes, const uint32_t *extents,
                                                    tutti_mesh **mesh);
/* Frees a mesh and its communicators. Collective; returns the errors of tutti_comm_free. NULL is accepted. */
TUTTI_API tutti_err tutti_mesh_free(tutti_mesh *mesh);

/* Returns the number of axes of a mesh. Local. */
TUTTI_API uint32_t tutti_mesh_axes(const tutti_mesh *mesh);
/* Returns the number of ranks along an axis; 0 if there is no such axis. Local. */
TUTTI_API uint32_t tutti_mesh_extent(const tutti_mesh *mesh, uint32_t axis);
/* Sets the coordinates of a rank, one per axis; returns false if there is no such rank. Local. */
TUTTI_API bool tutti_mesh_coordinates(const tutti_mesh *mesh, uint32_t rank, uint32_t *coordinates);
/* Returns the rank at these coordinates, one per axis; UINT32_MAX if there is none. Local. */
TUTTI_API uint32_t tutti_mesh_rank(const tutti_mesh *mesh, const uint32_t *coordinates);
/* Returns the communicator of this rank's line along an axis, in which ranks are ordered by their coordinate. The
 * program may use the communicator for its own calls; all ranks of the line must make these calls and the calls on the
 * mesh in the same order. The mesh owns the communicator. Returns NULL if there is no such axis. Local. */
TUTTI_API tutti_comm *tutti_mesh_line(const tutti_mesh *mesh, uint32_t axis);

/* ---- mesh tensors ------------------------------------------------------------------------------------------------ */

typedef enum tutti_spread_kind {
  TUTTI_REPLICATED = 0, /* all ranks along the axis hold the same data */
  TUTTI_SHARDED = 1,    /* a dimension is cut into equal pieces, one per rank along the axis, in coordinate order */
  TUTTI_PARTIAL = 2,    /* the logical tensor is the sum (or min, max) of what the ranks along the axis hold */
} tutti_spread_kind;

/* Distribution of a tensor along one axis of the mesh. If several axes partition the same dimension, the first axis
 * cuts the dimension into large pieces, and the next axis cuts each of these pieces. The size of a dimension must be a
 * multiple of the product of the extents of all axes that partition it; for block floats, the last dimension must be a
 * multiple of 16 times this product. All partial axes of a tensor have the same operation. An axis of one rank has no
 * effect, regardless of its tutti_spread. */
typedef struct tutti_spread {
  tutti_spread_kind kind;
  int dim;     /* sharded: the dimension that is cut; 0 is the first, -1 the last */
  tutti_op op; /* partial: TUTTI_SUM, TUTTI_MIN or TUTTI_MAX */
} tutti_spread;

typedef struct tutti_mesh_tensor {
  tutti_mesh *mesh;
  uint32_t dims;                        /* number of dimensions, 1 to 5 */
  size_t shape[TUTTI_DIMS];             /* shape of the whole tensor; if it has fewer than five dimensions, the leading
                                         * sizes are 1 */
  tutti_spread spread[TUTTI_MESH_AXES]; /* distribution along each axis of the mesh */
  tutti_tensor local; /* this rank's shard; the last field, because later versions may extend its type */
} tutti_mesh_tensor;

/* Computes a rank's shard of a tensor. of.shape is the shape of the whole tensor; of.data is ignored; spread has one
 * entry per axis of the mesh. Sets origin[of.dims] to the index of the shard's first element in the whole tensor, and
 * shape[of.dims] to the shard's shape; either array may be NULL. Not collective. Error: TUTTI_ERR_ARGUMENT (no such
 * rank, or an impossible distribution). */
TUTTI_API TUTTI_CHECKED tutti_err tutti_mesh_shard(const tutti_mesh *mesh, uint32_t rank, tutti_tensor_of of,
                                                   const tutti_spread *spread, size_t *origin, size_t *shape);
/* Constructor of a mesh tensor whose shard is row-major without gaps and lies at of.data. If of.data is NULL, the
 * program sets tensor->local.data later. of.shape is the shape of the whole tensor. Not collective. Error:
 * TUTTI_ERR_ARGUMENT. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_mesh_tensor_strided_sized(tutti_mesh_tensor *tensor, size_t local_bytes,
                                                                  tutti_mesh *mesh, tutti_tensor_of of,
                                                                  const tutti_spread *spread);
TUTTI_CHECKED static inline tutti_err tutti_mesh_tensor_strided(tutti_mesh_tensor *tensor, tutti_mesh *mesh,
                                                                tutti_tensor_of of, const tutti_spread *spread) {
  return tutti_mesh_tensor_strided_sized(tensor, sizeof(tutti_tensor), mesh, of, spread);
}
/* Constructor of a mesh tensor whose shard is a given tensor of any layout. The description of this tensor is
 * copied, but not its elements. Its shape must be the shape that tutti_mesh_shard() computes. shape[dims] is the shape
 * of the whole tensor. Not collective. Error: TUTTI_ERR_ARGUMENT. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_mesh_tensor_wrap_sized(tutti_mesh_tensor *tensor, size_t local_bytes,
                                                               tutti_mesh *mesh, uint32_t dims, const size_t *shape,
                                                               const tutti_spread *spread, const tutti_tensor *local);
TUTTI_CHECKED static inline tutti_err tutti_mesh_tensor_wrap(tutti_mesh_tensor *tensor, tutti_mesh *mesh, uint32_t dims,
                                                             const size_t *shape, const tutti_spread *spread,
                                                             const tutti_tensor *local) {
  return tutti_mesh_tensor_wrap_sized(tensor, sizeof(tutti_tensor), mesh, dims, shape, spread, local);
}
/* Prints one line: datatype and shape of the whole tensor, mesh, distribution (in the form of tutti-info(1)), and this
 * rank's shard. Local. */
TUTTI_API void tutti_mesh_tensor_print(const tutti_mesh_tensor *tensor, FILE *file);

/* ---- from one distribution into another -------------------------------------------------------------------------- */

/* Copies `from` to `to`, which have the same mesh, datatype and shape, but may have different distributions. Collective
 * over the mesh. Only the elements of `to` are written, not its description.
 *
 * The steps are collectives along axes or planes, and local steps. The sequence of steps has the least cost; the cost
 * is the number of bytes that a rank sends or receives, plus 16 KiB per collective. The sequence depends only on shape,
 * datatype, mesh and both distributions; `tutti info --reshard` prints it. If possible, an intermediate shard is not
 * larger than the larger one of the shards in `from` and `to`; otherwise it is as small as possible. At most two
 * buffers are allocated for intermediate shards. `from` and `to` may overlap, on some ranks or on all. If they overlap,
 * and the sequence has at most one step, `from` is copied first, unless both shards are the same memory and the step
 * can work in place.
 *
 * A replicated or sharded tensor becomes a partial sum without messages. If it was replicated, the rank with coordinate
 * 0 keeps its elements, and the other ranks get zeros. If it was sharded, each rank keeps its piece, and its other
 * elements become zeros. Zeros of floating-point types are -0 (except in block floats), because x + -0 is x for every
 * x. A replicated or sharded tensor becomes a partial min or max without any change. Sums of floating-point types are
 * rounded in the order of the collectives that are used.
 *
 * Errors: TUTTI_ERR_ARGUMENT, TUTTI_ERR_MISMATCH (ranks give different tensors or distributions), TUTTI_ERR_MEMORY, and
 * the errors of collectives. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_reshard(const tutti_mesh_tensor *from, const tutti_mesh_tensor *to);

/* ---- along one axis ---------------------------------------------------------------------------------------------- */

/* The calls below run on all lines of the axis at once, and no line waits for another line. Exception: if the call
 * changes how several axes together cut a dimension, it runs on all planes of these axes at once instead. `to` has the
 * distribution of `from`, except along this axis. The errors are those of tutti_reshard. */

/* Allgather along an axis: from sharded to replicated. Collective over the lines, in this function and in those
 * below. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_mesh_allgather(const tutti_mesh_tensor *from, const tutti_mesh_tensor *to,
                                                       uint32_t axis);
/* Reduce-scatter along an axis: from partial to sharded. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_mesh_reduce_scatter(const tutti_mesh_tensor *from, const tutti_mesh_tensor *to,
                                                            uint32_t axis);
/* Allreduce along an axis: from partial to replicated. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_mesh_allreduce(const tutti_mesh_tensor *from, const tutti_mesh_tensor *to,
                                                       uint32_t axis);
/* Alltoall along an axis: from sharded to sharded along another dimension. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_mesh_alltoall(const tutti_mesh_tensor *from, const tutti_mesh_tensor *to,
                                                      uint32_t axis);
/* Broadcast along an axis. The tensor is replicated along this axis before and after the call: all ranks along the axis
 * get the shard of the rank whose coordinate is `root`. On the other ranks `from` is not read. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_mesh_broadcast(const tutti_mesh_tensor *from, const tutti_mesh_tensor *to,
                                                       uint32_t axis, uint32_t root);

#ifdef __cplusplus
}
#endif
#endif
