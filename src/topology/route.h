/* route.h: finds routes between nodes that are not linked directly, and counts the load of each link. Only usable links
 * count.
 *
 * In a fat tree, in a tree, and in a grid whose links all connect grid neighbours, a route is computed from the numbers
 * of its two ends. In other clusters, a route follows the distances of all nodes to the destination. The distances to
 * some destinations are cached, but no table has an entry for every pair of nodes. */
#ifndef TU_ROUTE_H
#define TU_ROUTE_H

#include "topology/grid.h"

enum tu_routing {
  TU_SHORTEST, /* a shortest route; if there are several, the choice depends only on the numbers of the two end nodes */
  /* for grids only: a route goes along dimension 0 first, then along 1, and so on. In a dimension that wraps, it goes
   * the shorter way; if both ways are equally long, towards higher coordinates. */
  TU_DIMENSION_ORDER,
};

struct tu_router;

/* Creates a router, which only one thread may use. The router keeps pointers to cluster and grid. While it exists, no
 * link may become reserved, because it stores which links are usable. Returns TUTTI_ERR_ARGUMENT if dimension order is
 * requested and there is no grid. */
tutti_err tu_router_create(const struct tu_cluster *cluster, const struct tu_grid *grid, enum tu_routing routing,
                           struct tu_router **router, struct tu_error *error);
void tu_router_destroy(struct tu_router *router);
/* Writes all nodes of the route, including both end nodes, to nodes[], which has room for node_count nodes. Returns
 * the number of hops; TU_NONE: the nodes are not connected. The route between two given nodes is always the same. */
uint32_t tu_router_route(struct tu_router *router, uint32_t from, uint32_t to, uint32_t nodes[]);

/* ---- the links of a route ---- */

/* Number of a link in one direction: 2 * link, plus 1 if the direction starts at ends[1]. */
static inline uint32_t tu_directed(uint32_t link, bool back) { return 2 * link + back; }
static inline struct tu_cluster_link_end tu_directed_from(const struct tu_cluster *c, uint32_t directed) {
  return c->links[directed / 2].ends[directed % 2];
}
static inline struct tu_cluster_link_end tu_directed_to(const struct tu_cluster *c, uint32_t directed) {
  return c->links[directed / 2].ends[1 - directed % 2];
}

/* Writes the links of the route to links[], one for each hop, as numbers of directed links. links[] has room for
 * node_count entries. If two nodes are joined by several links, `spread` selects one of them. Messages with the same
 * ends and the same `spread` use the same links, so they stay in order (those of a lane, for example). Consecutive
 * values select the links in turn. On a route of several hops, the choice also depends on the two end nodes, so that
 * the messages of one lane are distributed over the links, too. */
uint32_t tu_router_links(struct tu_router *router, uint32_t from, uint32_t to, uint32_t spread, uint32_t links[]);

/* The load of each directed link (one direction of a link). */
struct tu_loads {
  struct tu_router *router;
  uint64_t *messages; /* [2 * link_count]: number of messages that cross each link, per direction */
  double *amounts;    /* [2 * link_count]: amount of data, in the caller's unit */
  uint64_t routed;    /* number of messages that cross at least one link */
  uint64_t hops;      /* total number of hops of all messages */
  uint32_t hops_max;
  uint32_t *links; /* buffer for the directed links of one route */
};

void tu_loads_init(struct tu_loads *loads, struct tu_router *router);
void tu_loads_fini(struct tu_loads *loads);
/* Adds a message of size `amount` to the load of all links on its route. Returns the number of hops; TU_NONE: the nodes
 * are not connected. */
uint32_t tu_loads_add(struct tu_loads *loads, uint32_t from, uint32_t to, uint32_t spread, double amount);
/* Returns the directed link with the largest amount of data, the first one if several have it; TU_NONE: no link has
 * any load. */
uint32_t tu_loads_busiest(const struct tu_loads *loads);

#endif
