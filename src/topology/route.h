/* route.h: ways between nodes that are not linked, over links that may be used; and how much each link carries.
 *
 * No table is quadratic. In a grid whose pairs are all that there are, in a fat tree, and where there is one way only, ways
 * follow from numbers; else from the distances to the destination, which are kept while there is room. */
#ifndef TU_ROUTE_H
#define TU_ROUTE_H

#include "topology/grid.h"

enum tu_routing {
  TU_SHORTEST,        /* of several ways that are equally short, the two ends' numbers choose */
  TU_DIMENSION_ORDER, /* in a grid: all the way along dimension 0, then 1, ...; the shorter way round, upwards if equal */
};

struct tu_router;

/* Keeps pointers to both; links must not become reserved afterwards. Serves one thread at a time. ARGUMENT: dimension order
 * where there is no grid. */
tutti_err tu_router_create(const struct tu_cluster *cluster, const struct tu_grid *grid, enum tu_routing routing,
                           struct tu_router **router, struct tu_error *error);
void tu_router_destroy(struct tu_router *router);
/* All nodes of the way, both ends included; room for node_count of them. Returns its hops; TU_NONE: there is no way. The same
 * two ends have the same way every time. */
uint32_t tu_router_route(struct tu_router *router, uint32_t from, uint32_t to, uint32_t nodes[]);

/* ---- over links ---- */

/* A link in one of its directions: 2 * link, + 1 if it is left at ends[1]. */
static inline uint32_t tu_directed(uint32_t link, bool back) { return 2 * link + back; }
static inline struct tu_cluster_link_end tu_directed_from(const struct tu_cluster *c, uint32_t directed) {
  return c->links[directed / 2].ends[directed % 2];
}
static inline struct tu_cluster_link_end tu_directed_to(const struct tu_cluster *c, uint32_t directed) {
  return c->links[directed / 2].ends[1 - directed % 2];
}

/* The way's directed links, one for each hop; room for node_count of them. Where a pair has several, `spread` chooses: equal
 * numbers take equal links, which keeps messages in order (a lane, for example), and consecutive ones take turns. Of ways of
 * several hops the two ends choose, too, so that those of one lane spread as well. */
uint32_t tu_router_links(struct tu_router *router, uint32_t from, uint32_t to, uint32_t spread, uint32_t links[]);

/* What each directed link carries. */
struct tu_loads {
  struct tu_router *router;
  uint64_t *messages; /* [2 * link_count] */
  double *amounts;    /* [2 * link_count]: in the caller's unit */
  uint64_t routed;    /* messages, of any length of way but 0 */
  uint64_t hops;      /* of all of them */
  uint32_t hops_max;
  uint32_t *links; /* of a way */
};

void tu_loads_init(struct tu_loads *loads, struct tu_router *router);
void tu_loads_fini(struct tu_loads *loads);
/* A message goes its way. Returns its hops; TU_NONE: there is no way. */
uint32_t tu_loads_add(struct tu_loads *loads, uint32_t from, uint32_t to, uint32_t spread, double amount);
/* The directed link that carries most; of several the first. TU_NONE: none carries anything. */
uint32_t tu_loads_busiest(const struct tu_loads *loads);

#endif
