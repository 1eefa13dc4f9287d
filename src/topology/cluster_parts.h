/* cluster_parts.h: what the makers of clusters share. Private to topology/. */
#ifndef TU_CLUSTER_PARTS_H
#define TU_CLUSTER_PARTS_H

#include "topology/cluster.h"
#include "topology/yaml.h"

/* Letters, digits and _-. of an architecture's name, as many as there is room for. */
void tu_copy_arch(struct tu_node *node, const char *arch);

/* mesh_graph.c: fills an empty cluster from a mesh graph descriptor, and indexes it. */
tutti_err tu_mesh_graph_read(const struct tu_yaml *yaml, struct tu_cluster *cluster, struct tu_error *error);

/* A grid of chips that begins with chip `first`: sizes of its dimensions, the first one fastest. Neighbours along dimension d
 * have links[d] links, at channels from channel[2 * d] on towards lower places and channel[2 * d + 1] towards higher ones.
 * Dimensions that wrap, of three chips or more, have links between their ends as well. */
struct tu_grid_links {
  uint32_t first, dims;
  uint32_t size[TU_PLACE_DIMS];
  bool wraps[TU_PLACE_DIMS];
  uint32_t links[TU_PLACE_DIMS];
  uint32_t channel[2 * TU_PLACE_DIMS];
};
void tu_connect_grid(struct tu_cluster *cluster, const struct tu_grid_links *grid);

#endif
