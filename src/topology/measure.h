/* measure.h: how wide a cluster is, and how narrow. Over links that may be used. */
#ifndef TU_MEASURE_H
#define TU_MEASURE_H

#include "topology/grid.h"

/* A number, or what it lies between. */
struct tu_bounds {
  uint32_t low, high;
};

/* The most hops between two chips on a shortest way; TU_NONE: some cannot reach each other. Exact up to 8192 nodes, and
 * for grids. */
struct tu_bounds tu_cluster_diameter(const struct tu_cluster *cluster, const struct tu_grid *grid);

/* The fewest links that must be cut for the chips to fall into two halves (of sizes that differ by one at most). Exact for
 * grids, meshes and tori, whose pairs have equal numbers of links, and for most clusters of up to 40 nodes; else `high`
 * is what was found, and `low` says little. */
struct tu_bounds tu_cluster_bisection(const struct tu_cluster *cluster, const struct tu_grid *grid);

#endif
