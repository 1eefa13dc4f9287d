/* measure.h: diameter and bisection width of a cluster, over usable links. */
#ifndef TU_MEASURE_H
#define TU_MEASURE_H

#include "topology/grid.h"

/* Lower and upper bound of a number; low == high if the number is known exactly. */
struct tu_bounds {
  uint32_t low, high;
};

/* Returns bounds of the diameter: the largest distance between two chips, in hops. TU_NONE: some chips are not
 * connected. The result is exact for up to 8192 nodes, and for grids. */
struct tu_bounds tu_cluster_diameter(const struct tu_cluster *cluster, const struct tu_grid *grid);

/* Returns bounds of the bisection width: the smallest number of links whose removal divides the chips into two halves
 * (sizes differ by at most one). The result is exact for meshes and tori in which all pairs have the same number of
 * links, and for most clusters of up to 40 nodes. For other clusters, `high` is the best division found, and `low` may
 * be far too small. */
struct tu_bounds tu_cluster_bisection(const struct tu_cluster *cluster, const struct tu_grid *grid);

#endif
