/* mesh.h: a mesh and its tensors, as the library sees them. */
#ifndef TU_MESH_H
#define TU_MESH_H

#include "api/comm.h"
#include "tensor/distribution.h"

enum { TU_MESH_LINES = 1 << TUTTI_MESH_AXES };

struct tutti_mesh {
  uint32_t axes, rank, ranks;
  uint32_t extents[TUTTI_MESH_AXES]; /* 1 beyond `axes` */
  uint32_t at[TUTTI_MESH_AXES];      /* this rank's coordinates */
  uint32_t long_axes;                /* a bit for each axis of more than one rank */
  /* [axes, a bit each]: the ranks that differ from this one along these axes alone, row by row. There is one for each single
   * axis, and for each set of axes of more than one rank. */
  struct tutti_comm *lines[TU_MESH_LINES];
};

/* All of the mesh's ranks. */
static inline struct tutti_comm *tu_mesh_all(const struct tutti_mesh *mesh) {
  return mesh->lines[mesh->long_axes ? mesh->long_axes : 1];
}

/* ARGUMENT if it is the parent's, of which this process is a child. Calls on a mesh hold none of its communicators from one
 * step to the next: two threads that held some each would wait for each other. */
tutti_err tu_mesh_check(const struct tutti_mesh *mesh, const char *call, struct tu_error *error);

/* The mesh has failed on this rank: all that it has communicators with are told. */
tutti_err tu_mesh_fail(struct tutti_mesh *mesh, const struct tu_error *error);

/* What the tensor is, as far as it can be one; ARGUMENT if not. `name` is it in a sentence. */
tutti_err tu_mesh_tensor_read(const tutti_mesh_tensor *tensor, const char *name, struct tu_whole *whole,
                              struct tu_distribution *d, struct tu_error *error);

#endif
