/* cluster.h: what a cluster is: chips, and links between their channels.
 *
 * Nodes stand in a row: first the chips, which are the ranks of a job, in ascending order of their ids; then what only
 * passes data on: gateways, through which a host reaches chips, and switches. A *pair* is two nodes that are linked, by one
 * link or several. Reserved links (a dispatcher's, for example) are there, and have channels, but nothing is planned over
 * them: `usable` counts the others.
 *
 * A cluster is made by adding nodes and links and then indexing it, once; after that only `reserved` changes. */
#ifndef TU_CLUSTER_H
#define TU_CLUSTER_H

#include "base/arena.h"
#include "base/text.h"

enum {
  TU_CHIPS_MAX = 65536,
  TU_LINKS_MAX = 1 << 20, /* of what is generated */
  TU_CHANNELS_MAX = 1024, /* of a chip: numbers are below that; switches have as many as they need */
  TU_PLACE_DIMS = 4,
  TU_ARCH_BYTES = 24,
  TU_CLUSTER_NAME_BYTES = 100,
  TU_NOTES_MAX = 16
};

enum tu_node_kind { TU_CHIP, TU_GATEWAY, TU_SWITCH };

struct tu_node {
  enum tu_node_kind kind;
  uint32_t id; /* its number in the file it comes from; gateways and switches: counted from 0 */
  bool mmio;   /* a host has its memory mapped, and needs no link to reach it */
  bool has_place;
  uint32_t
      place[TU_PLACE_DIMS]; /* x, y, rack, shelf; in what a generator made: the grid's dimensions, last one first */
  char arch[TU_ARCH_BYTES]; /* "" if nobody said */
};

struct tu_cluster_link_end {
  uint32_t node;
  uint32_t channel;
};

struct tu_cluster_link {
  struct tu_cluster_link_end ends[2];
  bool reserved;
  bool relaxed; /* a file asks for it, and is content without, as long as the pair (or the two meshes) keep one */
  bool loose;   /* a file says which meshes it joins and not at which chips: those here were chosen by the reader */
};

/* A link to a chip that the cluster knows by name only: it takes a channel, and leads out. */
struct tu_cluster_remote {
  struct tu_cluster_link_end end;
  uint64_t chip; /* its unique id */
  uint32_t channel;
};

/* One of a node's channels that has a link. */
struct tu_port {
  uint32_t channel;
  uint32_t link;
};

/* One of a node's neighbours. */
struct tu_neighbour {
  uint32_t node;
  uint32_t links, usable;
};

struct tu_cluster {
  struct tu_arena arena; /* all of it, this struct as well, and what is needed while it is made */
  char name[TU_CLUSTER_NAME_BYTES];
  uint32_t chip_count, node_count, node_capacity;
  struct tu_node *nodes;
  uint32_t link_count, link_capacity;
  struct tu_cluster_link *links;
  uint32_t remote_count, remote_capacity;
  struct tu_cluster_remote *remotes;
  uint32_t tree_arity, tree_levels; /* of what was made as a fat tree; else 0 */
  /* Lines for people: what the file says beyond chips and links, and what in it is not known here. */
  struct tu_text notes;
  uint32_t note_count;

  /* The index. Of node n: [first[n], first[n + 1]) of ports, by channel, and of neighbours, by node. */
  uint32_t *port_first;
  struct tu_port *ports;
  uint32_t *neighbour_first;
  struct tu_neighbour *neighbours;
};

/* ---- making one ---- */

struct tu_cluster *tu_cluster_create(const char *name);
void tu_cluster_destroy(struct tu_cluster *cluster);
/* Chips before all others. Returns its number. */
uint32_t tu_cluster_add(struct tu_cluster *cluster, const struct tu_node *node);
void tu_cluster_connect(struct tu_cluster *cluster, struct tu_cluster_link_end a, struct tu_cluster_link_end b);
/* Adds a line to the notes. Beyond TU_NOTES_MAX of them they are only counted. */
void tu_cluster_note(struct tu_cluster *cluster, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Which link has an end that an earlier link has already, or that leads out? TU_NONE: none. Then the cluster is indexed. */
uint32_t tu_cluster_index(struct tu_cluster *cluster);

/* A cluster from what a person names: a preset, a generator, or a file (a cluster description, or a mesh graph descriptor).
 * ARGUMENT, SYSTEM, MEMORY. */
tutti_err tu_cluster_load(const char *what, struct tu_cluster **cluster, struct tu_error *error);
/* From the text of such a file. */
tutti_err tu_cluster_read(const char *data, size_t bytes, const char *name, struct tu_cluster **cluster,
                          struct tu_error *error);
/* The first one alone (presets.c, generate.c): *cluster is NULL if `what` names neither; else the caller destroys it, whatever
 * comes back. Within a building (base/arena.h), as all that follows. */
tutti_err tu_cluster_preset(const char *what, struct tu_cluster **cluster, struct tu_error *error);
tutti_err tu_cluster_generate(const char *what, struct tu_cluster **cluster, struct tu_error *error);

/* Says which links are reserved: "none"; "dispatch": one link of each pair of a chip or gateway with mmio and a chip without,
 * that of the lowest channel at the former; or a list of ends, CHIP:CHANNEL,..., chips by id. NULL: leaves them as they
 * are. */
tutti_err tu_cluster_reserve(struct tu_cluster *cluster, const char *which, struct tu_error *error);

/* ---- asking ---- */

static inline uint32_t tu_neighbour_count(const struct tu_cluster *c, uint32_t node) {
  return c->neighbour_first[node + 1] - c->neighbour_first[node];
}
static inline const struct tu_neighbour *tu_neighbours(const struct tu_cluster *c, uint32_t node) {
  return c->neighbours + c->neighbour_first[node];
}
/* NULL if the two are not linked. */
const struct tu_neighbour *tu_cluster_pair(const struct tu_cluster *cluster, uint32_t a, uint32_t b);
/* How many links the pair has that may be used. */
uint32_t tu_cluster_usable(const struct tu_cluster *cluster, uint32_t a, uint32_t b);
/* The `index`-th of them, by channel at `a`; TU_NONE past the last. */
uint32_t tu_cluster_link_between(const struct tu_cluster *cluster, uint32_t a, uint32_t b, uint32_t index);
/* The link at a channel; TU_NONE: there is none. */
uint32_t tu_cluster_link_at(const struct tu_cluster *cluster, struct tu_cluster_link_end end);
/* The end of the link that is not at this node. */
static inline struct tu_cluster_link_end tu_link_far(const struct tu_cluster_link *link,
                                                     struct tu_cluster_link_end near) {
  bool first = link->ends[0].node == near.node && link->ends[0].channel == near.channel;
  return link->ends[first ? 1 : 0];
}
/* The chip of that id; TU_NONE. */
uint32_t tu_cluster_chip(const struct tu_cluster *cluster, uint32_t id);
/* How messages call it: "4", "gateway 1", "switch 12". */
struct tu_node_name {
  char chars[24];
};
struct tu_node_name tu_node_name(const struct tu_cluster *cluster, uint32_t node);

/* How a host reaches each chip: by which node with mmio (the nearest; of several, the one of the lowest number), over how many
 * links. A host's own way takes reserved links too. hops = TU_NONE: not at all. Arrays of chip_count; either may be NULL. False
 * without memory. */
bool tu_cluster_reach(const struct tu_cluster *cluster, uint32_t mmio[], uint32_t hops[]);

/* Hops over usable links from a node to each; TU_NONE: there is no way. [node_count] */
void tu_cluster_distances(const struct tu_cluster *cluster, uint32_t from, uint32_t distance[]);

/* In how many parts the chips are over usable links; 1: all in one. If there are two or more, *other is a chip that chip 0
 * does not reach. */
uint32_t tu_cluster_parts(const struct tu_cluster *cluster, uint32_t *other);

struct tu_cluster_counts {
  uint32_t gateways, switches, mmio; /* mmio: of chips */
  uint32_t links, reserved;          /* between chips and switches */
  uint32_t relaxed, loose;           /* of them */
  uint32_t gateway_links;
  uint32_t pairs; /* not of gateways */
};
struct tu_cluster_counts tu_cluster_count(const struct tu_cluster *cluster);

#endif
