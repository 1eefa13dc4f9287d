/* mesh.h: the internal struct of a mesh, and a function that reads mesh tensors. */
#ifndef TU_MESH_H
#define TU_MESH_H

#include "comm/comm.h"
#include "tensor/distribution.h"

enum { TU_MESH_LINES = 1 << TUTTI_MESH_AXES };

struct tutti_mesh {
  uint32_t axes, rank, ranks;
  uint32_t extents[TUTTI_MESH_AXES]; /* number of ranks along each axis; 1 for the unused axes, from `axes` on */
  uint32_t at[TUTTI_MESH_AXES];      /* this rank's coordinates */
  uint32_t long_axes;                /* bit mask of the axes with more than one rank */
  /* [bit mask of axes]: communicator of the ranks whose coordinates differ from this rank's along these axes only. Its
   * ranks are numbered in row-major order of their coordinates. A communicator exists for each single axis, and for
   * each set of axes that all have more than one rank. */
  struct tutti_comm *lines[TU_MESH_LINES];
};

/* Returns the communicator of all ranks of the mesh. */
static inline struct tutti_comm *tu_mesh_all(const struct tutti_mesh *mesh) {
  return mesh->lines[mesh->long_axes ? mesh->long_axes : 1];
}

/* Returns TUTTI_ERR_ARGUMENT if this process is a child of fork() and the mesh belongs to its parent process. The
 * function does not lock the mesh's communicators. If it did, two threads that each held some of them could wait for
 * each other. */
tutti_err tu_mesh_check(const struct tutti_mesh *mesh, const char *call, struct tu_error *error);

/* Fails all communicators of the mesh, so that all ranks that share a communicator with this rank detect the
 * failure. Returns the code of the error. */
tutti_err tu_mesh_fail(struct tutti_mesh *mesh, const struct tu_error *error);

/* Checks a mesh tensor and reads its shape, type and distribution. Copies the description of its shard to *local, in
 * the form of this version of the library: the program may have been compiled with other headers. Error:
 * TUTTI_ERR_ARGUMENT if the tensor is invalid. `name` is the tensor's name for messages. */
tutti_err tu_mesh_tensor_read(const tutti_mesh_tensor *tensor, const char *name, struct tu_whole *whole,
                              struct tu_distribution *d, tutti_tensor *local, struct tu_error *error);

#endif
