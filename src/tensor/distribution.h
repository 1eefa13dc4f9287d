/* distribution.h: a tensor over a mesh of ranks: what each mesh axis does to the tensor, and which part each rank
 * holds.
 *
 * Several axes may partition one dimension. Then the outermost axis partitions first, the next axis partitions its
 * pieces, and so on. In the distributions of users, an earlier axis is always further out. Between the steps of a
 * resharding (reshard.h), the axes may have any order. */
#ifndef TU_DISTRIBUTION_H
#define TU_DISTRIBUTION_H

#include <tutti/mesh.h>

#include "base/base.h"

/* The logical tensor and the mesh. Axes beyond those of the mesh have one rank. */
struct tu_whole {
  uint32_t extents[TUTTI_MESH_AXES];
  size_t shape[TUTTI_DIMS];
  tutti_datatype type;
};

/* Roles of a mesh axis that partitions no dimension. The role of any other axis is the dimension that it partitions (0
 * to 4). */
enum { TU_REPLICATED = TUTTI_DIMS, TU_PARTIAL, TU_ROLES };

/* What each mesh axis does to the tensor. An axis of one rank is always replicated, whatever the user's distribution
 * states. */
struct tu_distribution {
  uint8_t role[TUTTI_MESH_AXES]; /* dimension that the axis partitions, or TU_REPLICATED or TU_PARTIAL */
  /* for an axis that partitions: number of axes that partition the same dimension further out; otherwise 0 */
  uint8_t level[TUTTI_MESH_AXES];
  uint8_t op; /* operation that combines the summands of the partial axes; 0: no partial axes */
};

/* Reads a user's distribution of a tensor of `dims` dimensions over the first `axes` axes. Error: TUTTI_ERR_ARGUMENT if
 * it is invalid. */
tutti_err tu_distribution_read(const struct tu_whole *whole, uint32_t axes, uint32_t dims, const tutti_spread *spread,
                               struct tu_distribution *d, struct tu_error *error);
bool tu_distribution_equal(const struct tu_distribution *a, const struct tu_distribution *b);
/* Prints one token per axis, for example "S3 R P:sum": the axis partitions dimension 3; it is replicated; it is
 * partial. If the axes that partition a dimension are not in axis order, the level of each follows, for example "S3.1
 * S3.0". */
enum { TU_DISTRIBUTION_CHARS = 64 };
void tu_distribution_print(const struct tu_distribution *d, uint32_t axes, uint32_t dims,
                           char text[TU_DISTRIBUTION_CHARS]);

/* Returns the number of pieces into which a dimension is partitioned. */
uint32_t tu_distribution_pieces(const struct tu_whole *whole, const struct tu_distribution *d, uint32_t dim);
/* Returns true if a dimension can be partitioned into `pieces` equal pieces that split no group of block floats. */
bool tu_whole_divides(const struct tu_whole *whole, uint32_t dim, uint32_t pieces);
/* Returns the bytes of a rank's part, without padding. */
size_t tu_distribution_bytes(const struct tu_whole *whole, const struct tu_distribution *d);

/* The part of the tensor that a rank holds: the index of its first element, and its size. */
struct tu_box {
  size_t origin[TUTTI_DIMS], extent[TUTTI_DIMS];
};
struct tu_box tu_distribution_box(const struct tu_whole *whole, const struct tu_distribution *d,
                                  const uint32_t at[TUTTI_MESH_AXES]);
/* Finds the rank that holds, under distribution `has`, the piece that the rank at coordinates `at` holds under `wants`.
 * Sets only the coordinates of that rank along the axes that partition a dimension under `has`. Both distributions must
 * have the same pieces. */
void tu_distribution_find(const struct tu_whole *whole, const struct tu_distribution *has,
                          const struct tu_distribution *wants, const uint32_t at[TUTTI_MESH_AXES],
                          uint32_t holder[TUTTI_MESH_AXES]);

#endif
