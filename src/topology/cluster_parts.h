/* cluster_parts.h: what the makers of clusters share. Private to topology/. */
#ifndef TU_CLUSTER_PARTS_H
#define TU_CLUSTER_PARTS_H

#include "topology/cluster.h"
#include "topology/yaml.h"

/* Letters, digits and _-. of an architecture's name, as many as there is room for. */
void tu_copy_arch(struct tu_node *node, const char *arch);

/* mesh_graph.c: fills an empty cluster from a mesh graph descriptor, and indexes it. */
tutti_err tu_mesh_graph_read(const struct tu_yaml *yaml, struct tu_cluster *cluster, struct tu_error *error);

/* mesh_proto.c: the same from a descriptor in protobuf's text format. */
tutti_err tu_mesh_proto_read(const struct tu_yaml *tree, struct tu_cluster *cluster, struct tu_error *error);

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

/* Links between two runs of chips. Of each run one chip, or, where the file says no more than "these two meshes", several:
 * then link i of n is at chip i * count / n of either run, so that they are spread evenly. */
struct tu_joint {
  uint32_t first[2], count[2]; /* chips */
  uint32_t links;
  bool relaxed, loose;
};
/* At the lowest channels that are free by next[chips], which goes on. False, with *chip: it has no channel left. */
bool tu_connect_joint(struct tu_cluster *cluster, const struct tu_joint *joint, uint32_t next[], uint32_t *chip);

/* Notes which chips a mesh of several is. Sizes slowest first. */
void tu_note_mesh(struct tu_cluster *cluster, uint32_t id, uint32_t first, const uint32_t sizes[], uint32_t dims);
/* Notes that a mesh is of several hosts. */
void tu_note_hosts(struct tu_cluster *cluster, const char *mesh, const uint32_t hosts[], uint32_t dims);

#endif
