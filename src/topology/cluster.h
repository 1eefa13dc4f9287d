/* cluster.h: a cluster: chips, and links between their channels.
 *
 * Nodes are numbered in this order: first the chips, in ascending order of their ids, then the other nodes, which only
 * forward data. These are gateways, through which a host reaches chips, and switches. The chips are the ranks of a job.
 *
 * A *pair* is two nodes that are connected by at least one link. Some links may be reserved, for example for a
 * dispatcher. A reserved link has channels like any other link, but plans do not use it. The links that are not
 * reserved are called usable.
 *
 * To make a cluster, add all nodes and links, then index it once. After that only `reserved` changes. */
#ifndef TU_CLUSTER_H
#define TU_CLUSTER_H

#include "base/arena.h"
#include "base/text.h"

enum {
  TU_CHIPS_MAX = 65536,
  TU_LINKS_MAX = 1 << 20, /* maximum number of links that a generator or a mesh graph descriptor may create */
  /* upper bound (exclusive) of a chip's channel numbers; switches have as many channels as they need */
  TU_CHANNELS_MAX = 1024,
  TU_GRID_DIMS = 4,
  TU_ARCH_BYTES = 24,
  TU_CLUSTER_NAME_BYTES = 100,
  TU_NOTES_MAX = 16
};

enum tu_node_kind { TU_CHIP, TU_GATEWAY, TU_SWITCH };

struct tu_node {
  enum tu_node_kind kind;
  uint32_t id; /* a chip's number in its file; gateways and switches have numbers of their own, from 0 */
  /* true: a host has mapped the node's registers (memory-mapped I/O), so the host needs no link to reach the node */
  bool mmio;
  bool has_coords;
  /* in a cluster from a file: x, y, rack, shelf, as the file states them. In a generated cluster: the position in the
   * grid; coords[0] belongs to the dimension whose size comes last in the cluster's name. */
  uint32_t coords[TU_GRID_DIMS];
  char arch[TU_ARCH_BYTES]; /* name of the chip's architecture; "" if unknown */
};

struct tu_cluster_link_end {
  uint32_t node;
  uint32_t channel;
};

struct tu_cluster_link {
  struct tu_cluster_link_end ends[2];
  bool reserved;
  /* true: the file wants this link, but accepts that it is missing, if another link connects the same pair of chips (or
   * of meshes, if the file names only meshes) */
  bool relaxed;
  /* true: the file only says which two meshes the link connects; the reader of the file has chosen the chips */
  bool loose;
};

/* A link to a chip outside the cluster. It occupies a channel of a chip of the cluster. */
struct tu_cluster_remote {
  struct tu_cluster_link_end end;
  uint64_t chip; /* unique id of the remote chip (the chip outside the cluster) */
  uint32_t channel;
};

/* One channel of a node, and the link that ends there. */
struct tu_port {
  uint32_t channel;
  uint32_t link;
};

/* One neighbour of a node: the number of links to it, and how many of these are usable (not reserved). */
struct tu_neighbour {
  uint32_t node;
  uint32_t links, usable;
};

struct tu_cluster {
  struct tu_arena arena; /* memory of the whole cluster, including this struct and temporary arrays */
  char name[TU_CLUSTER_NAME_BYTES];
  uint32_t chip_count, node_count, node_capacity;
  struct tu_node *nodes;
  uint32_t link_count, link_capacity;
  struct tu_cluster_link *links;
  uint32_t remote_count, remote_capacity;
  struct tu_cluster_remote *remotes;
  uint32_t tree_arity, tree_levels; /* arity and number of switch levels of a fat tree; 0 for any other cluster */
  /* Notes: lines of text for the user. They state facts of the file that are not chips or links, and keys that the
   * reader does not support. */
  struct tu_text notes;
  uint32_t note_count;

  /* The index. Node n has ports [port_first[n], port_first[n + 1]), sorted by channel, and neighbours
   * [neighbour_first[n], neighbour_first[n + 1]), sorted by node. */
  uint32_t *port_first;
  struct tu_port *ports;
  uint32_t *neighbour_first;
  struct tu_neighbour *neighbours;
};

/* ---- making a cluster ---- */

struct tu_cluster *tu_cluster_create(const char *name);
void tu_cluster_destroy(struct tu_cluster *cluster);
/* Adds a node and returns its number. Chips must be added before all other nodes. */
uint32_t tu_cluster_add(struct tu_cluster *cluster, const struct tu_node *node);
void tu_cluster_connect(struct tu_cluster *cluster, struct tu_cluster_link_end a, struct tu_cluster_link_end b);
/* Adds a note: a line of text for the user. At most TU_NOTES_MAX lines are stored; the others are only counted. */
void tu_cluster_note(struct tu_cluster *cluster, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Builds the index and returns TU_NONE. Fails if a link uses a channel that is already in use: by a link of lower
 * number, or by a link to a chip outside the cluster. Then builds no index, and returns the first link for which this
 * is true. */
uint32_t tu_cluster_index(struct tu_cluster *cluster);

/* Makes a cluster from a user's argument: the name of a preset, a generator with sizes, or a file (a cluster
 * description or a mesh graph descriptor). Errors: TUTTI_ERR_ARGUMENT, TUTTI_ERR_SYSTEM, TUTTI_ERR_MEMORY. */
tutti_err tu_cluster_load(const char *what, struct tu_cluster **cluster, struct tu_error *error);
/* Makes a cluster from the text of a cluster description or a mesh graph descriptor. */
tutti_err tu_cluster_read(const char *data, size_t bytes, const char *name, struct tu_cluster **cluster,
                          struct tu_error *error);
/* Makes a preset (presets.c) or a generated cluster (generate.c). If `what` names none, *cluster becomes NULL.
 * Otherwise the caller destroys *cluster, also after an error. Both functions must be called within tu_arena_build
 * (base/arena.h), which handles a lack of memory. */
tutti_err tu_cluster_preset(const char *what, struct tu_cluster **cluster, struct tu_error *error);
/* Returns the name of a preset; NULL: there are no more than `number`. */
const char *tu_cluster_preset_name(uint32_t number);
tutti_err tu_cluster_generate(const char *what, struct tu_cluster **cluster, struct tu_error *error);

/* Sets which links are reserved. `which` is one of
 * - "none": no link is reserved.
 * - "dispatch": concerns all pairs of a node with mmio (chip or gateway) and a chip without mmio. One link of each such
 *   pair is reserved: the one with the lowest channel at the node with mmio.
 * - CHIP:CHANNEL,...: the links that have one of these ends are reserved. CHIP is the id of a chip.
 * - NULL: all links stay as they are. */
tutti_err tu_cluster_reserve(struct tu_cluster *cluster, const char *which, struct tu_error *error);

/* ---- queries ---- */

static inline uint32_t tu_neighbour_count(const struct tu_cluster *c, uint32_t node) {
  return c->neighbour_first[node + 1] - c->neighbour_first[node];
}
static inline const struct tu_neighbour *tu_neighbours(const struct tu_cluster *c, uint32_t node) {
  return c->neighbours + c->neighbour_first[node];
}
/* Returns the entry of b in the list of a's neighbours; NULL if nodes a and b are not linked. */
const struct tu_neighbour *tu_cluster_pair(const struct tu_cluster *cluster, uint32_t a, uint32_t b);
/* Returns the number of usable links (those that are not reserved) between two nodes. */
uint32_t tu_cluster_usable(const struct tu_cluster *cluster, uint32_t a, uint32_t b);
/* Returns a usable link between nodes a and b. The links are ordered by their channels at `a`, and numbered from 0.
 * TU_NONE: there is no link with number `index`. */
uint32_t tu_cluster_link_between(const struct tu_cluster *cluster, uint32_t a, uint32_t b, uint32_t index);
/* Returns the link at a channel; TU_NONE if the channel has no link. */
uint32_t tu_cluster_link_at(const struct tu_cluster *cluster, struct tu_cluster_link_end end);
/* Returns the end of the link opposite to `near`. */
static inline struct tu_cluster_link_end tu_link_far(const struct tu_cluster_link *link,
                                                     struct tu_cluster_link_end near) {
  bool first = link->ends[0].node == near.node && link->ends[0].channel == near.channel;
  return link->ends[first ? 1 : 0];
}
/* Returns the chip with this id; TU_NONE if no chip has it. */
uint32_t tu_cluster_chip(const struct tu_cluster *cluster, uint32_t id);
/* The name of a node in messages: "4", "gateway 1", "switch 12". */
struct tu_node_name {
  char chars[24];
};
struct tu_node_name tu_node_name(const struct tu_cluster *cluster, uint32_t node);

/* Finds for each chip the nearest node that a host has mapped (mmio), and the number of hops to it. Of several nearest
 * nodes, finds the one with the lowest number. The way to it may use reserved links. hops[chip] is TU_NONE if no host
 * reaches the chip. Both arrays have chip_count entries; either array may be NULL. Returns false if out of memory. */
bool tu_cluster_reach(const struct tu_cluster *cluster, uint32_t mmio[], uint32_t hops[]);

/* Computes the number of hops from node `from` to each node over usable (not reserved) links, as distance[node_count];
 * TU_NONE: the node is unreachable. */
void tu_cluster_distances(const struct tu_cluster *cluster, uint32_t from, uint32_t distance[]);

/* Returns the number of groups of connected chips (connected components) over usable links; 1: all chips are connected.
 * If there are two or more groups, *other is a chip that chip 0 does not reach. */
uint32_t tu_cluster_parts(const struct tu_cluster *cluster, uint32_t *other);

struct tu_cluster_counts {
  uint32_t gateways, switches, mmio; /* numbers of gateways, of switches, and of chips with mmio (mapped by a host) */
  /* links: number of links that do not end at a gateway; reserved: how many of these are reserved */
  uint32_t links, reserved;
  /* relaxed: number of links that the file prefers but does not require; loose: number of links for which the file
   * names only the two meshes, not the chips */
  uint32_t relaxed, loose;
  uint32_t gateway_links;
  uint32_t pairs; /* number of pairs of linked nodes, without those that contain a gateway */
};
struct tu_cluster_counts tu_cluster_count(const struct tu_cluster *cluster);

#endif
