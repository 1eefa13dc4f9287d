/* distribution.h: a tensor over a mesh of ranks: what does each axis of the mesh do to it, and which part of it has whom?
 *
 * Axes that cut one dimension are ordered: the outermost cuts it first. Users' distributions have them in the order of the
 * axes; those between the steps of a resharding (reshard.h) have any order. */
#ifndef TU_DISTRIBUTION_H
#define TU_DISTRIBUTION_H

#include <tutti/mesh.h>

#include "base/base.h"

/* The logical tensor, and the mesh. Axes that the mesh does not have have one rank. */
struct tu_whole {
  uint32_t extents[TUTTI_MESH_AXES];
  size_t shape[TUTTI_DIMS];
  tutti_datatype type;
};

/* A mesh axis cuts a dimension, or: */
enum { TU_REPLICATED = TUTTI_DIMS, TU_PARTIAL, TU_ROLES };

/* Axes of one rank are replicated, whatever was said of them. */
struct tu_distribution {
  uint8_t role[TUTTI_MESH_AXES];  /* the dimension that the axis cuts, or TU_REPLICATED, or TU_PARTIAL */
  uint8_t level[TUTTI_MESH_AXES]; /* cutting axes: how many cut that dimension further out; others: 0 */
  uint8_t op;                     /* of partial axes; 0 if there are none */
};

/* What a user says of the first `axes` axes, and of a tensor of `dims` dimensions; ARGUMENT if it cannot be. */
tutti_err tu_distribution_read(const struct tu_whole *whole, uint32_t axes, uint32_t dims, const tutti_spread *spread,
                               struct tu_distribution *d, struct tu_error *error);
bool tu_distribution_equal(const struct tu_distribution *a, const struct tu_distribution *b);
/* "S3 R P:sum": one token an axis. Where the cuts of a dimension are not in the order of the axes, their levels stand behind
 * them: "S3.1 S3.0". */
enum { TU_DISTRIBUTION_CHARS = 64 };
void tu_distribution_print(const struct tu_distribution *d, uint32_t axes, uint32_t dims,
                           char text[TU_DISTRIBUTION_CHARS]);

/* Into how many pieces is a dimension cut? */
uint32_t tu_distribution_pieces(const struct tu_whole *whole, const struct tu_distribution *d, uint32_t dim);
/* Could it be cut into so many equal pieces? Block floats stay whole. */
bool tu_whole_divides(const struct tu_whole *whole, uint32_t dim, uint32_t pieces);
/* Of a rank's part, without padding. */
size_t tu_distribution_bytes(const struct tu_whole *whole, const struct tu_distribution *d);

/* The part of the rank at those coordinates. */
struct tu_box {
  size_t origin[TUTTI_DIMS], extent[TUTTI_DIMS];
};
struct tu_box tu_distribution_box(const struct tu_whole *whole, const struct tu_distribution *d,
                                  const uint32_t at[TUTTI_MESH_AXES]);
/* Two distributions cut dimensions into the same pieces. Sets the coordinates, along the axes that cut under `has`, of who
 * holds under it the piece that the rank `at` holds under `wants`. */
void tu_distribution_find(const struct tu_whole *whole, const struct tu_distribution *has,
                          const struct tu_distribution *wants, const uint32_t at[TUTTI_MESH_AXES],
                          uint32_t holder[TUTTI_MESH_AXES]);

#endif
