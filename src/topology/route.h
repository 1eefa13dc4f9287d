/* route.h: ways between nodes that are not linked, over links that may be used. */
#ifndef TU_ROUTE_H
#define TU_ROUTE_H

#include "topology/grid.h"

enum tu_routing {
  TU_SHORTEST,        /* of several ways on that are equally short, the destination's number chooses */
  TU_DIMENSION_ORDER, /* in a grid: all the way along dimension 0, then 1, ...; the shorter way round, upwards if equal */
};

struct tu_router;

/* Keeps pointers to both. ARGUMENT: dimension order where there is no grid. */
tutti_err tu_router_create(const struct tu_cluster *cluster, const struct tu_grid *grid, enum tu_routing routing,
                           struct tu_router **router, struct tu_error *error);
void tu_router_destroy(struct tu_router *router);
/* All nodes of the way, both ends included; room for node_count of them. Returns its hops; TU_NONE: there is no way. */
uint32_t tu_router_route(struct tu_router *router, uint32_t from, uint32_t to, uint32_t nodes[]);

#endif
