/* cluster_internal.h: functions shared by the readers and generators of clusters. Private to topology/. */
#ifndef TU_CLUSTER_INTERNAL_H
#define TU_CLUSTER_INTERNAL_H

#include "topology/cluster.h"
#include "topology/yaml.h"

/* Copies an architecture's name to the node. Characters other than letters, digits, '-' and '.' become '_'. A long
 * name is truncated. */
void tu_copy_arch(struct tu_node *node, const char *arch);

/* mesh_graph.c: fills an empty cluster from a mesh graph descriptor in YAML, and indexes it. */
tutti_err tu_mesh_graph_read(const struct tu_yaml *yaml, struct tu_cluster *cluster, struct tu_error *error);

/* mesh_proto.c: fills an empty cluster from a mesh graph descriptor in protobuf's text format, and indexes it. */
tutti_err tu_mesh_proto_read(const struct tu_yaml *tree, struct tu_cluster *cluster, struct tu_error *error);

/* The links of a grid of chips. The chips are numbered from `first` on, dimension 0 first: chips with consecutive
 * numbers are neighbours along dimension 0. Neighbours along dimension d are joined by links[d] links. At a chip, the
 * links to its lower neighbour along d use the channels from channel[2 * d] on; those to its higher neighbour, the
 * channels from channel[2 * d + 1] on. If the dimension wraps and has three chips or more, its last and its first chip
 * are linked, too. */
struct tu_grid_links {
  uint32_t first, dims;
  uint32_t size[TU_GRID_DIMS];
  bool wraps[TU_GRID_DIMS];
  uint32_t links[TU_GRID_DIMS];
  uint32_t channel[2 * TU_GRID_DIMS];
};
void tu_connect_grid(struct tu_cluster *cluster, const struct tu_grid_links *grid);

/* A joint: `links` links between two ranges of consecutive chips. If the file names two chips, each range is one chip.
 * If the file names two meshes, each range is all chips of a mesh. The links are spread evenly: link i joins the chips
 * at position i * count / links of each range. */
struct tu_joint {
  uint32_t first[2], count[2]; /* first chip, and number of chips, of each of the two ranges */
  uint32_t links;
  bool relaxed, loose;
};
/* Adds the links of a joint. A link uses the lowest free channel of each of its two chips. next[chip] is this channel,
 * and grows by one with each link. If a chip has no free channel, returns false and sets *chip. */
bool tu_connect_joint(struct tu_cluster *cluster, const struct tu_joint *joint, uint32_t next[], uint32_t *chip);

/* Adds a note (a line of text for the user) that states which chips belong to mesh `id`. sizes[] begins with the
 * dimension whose coordinate changes slowest from chip to chip. */
void tu_note_mesh(struct tu_cluster *cluster, uint32_t id, uint32_t first, const uint32_t sizes[], uint32_t dims);
/* Adds a note (a line of text for the user) that states how many hosts share a mesh's chips. Adds none for a single
 * host. */
void tu_note_hosts(struct tu_cluster *cluster, const char *mesh, const uint32_t hosts[], uint32_t dims);

#endif
