/* route.c: shortest ways by the distances from each destination, which are kept while there is room; dimension order by
 * arithmetic. */
#include "topology/route.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT_MAX = 1 << 24 }; /* distances */

struct tu_router {
  const struct tu_cluster *cluster;
  const struct tu_grid *grid;
  enum tu_routing routing;
  uint32_t slot_count;
  uint32_t *slot_of; /* [slot_count]: the destination whose distances it has */
  uint32_t *distance;
};

tutti_err tu_router_create(const struct tu_cluster *cluster, const struct tu_grid *grid, enum tu_routing routing,
                           struct tu_router **router, struct tu_error *error) {
  *router = NULL;
  if (routing == TU_DIMENSION_ORDER && grid->dims == 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "dimension order: the chips of %s are no grid; shortest ways will do",
                   cluster->name);
  struct tu_router *r = tu_allocate(1, sizeof *r);
  *r = (struct tu_router){.cluster = cluster, .grid = grid, .routing = routing};
  r->slot_count = (uint32_t)tu_min(tu_max(KEPT_MAX / cluster->node_count, 1), cluster->node_count);
  r->slot_of = tu_allocate(r->slot_count, sizeof *r->slot_of);
  memset(r->slot_of, 0xff, r->slot_count * sizeof *r->slot_of);
  if (routing == TU_SHORTEST)
    r->distance = tu_allocate((size_t)r->slot_count * cluster->node_count, sizeof *r->distance);
  *router = r;
  return TUTTI_OK;
}

void tu_router_destroy(struct tu_router *router) {
  if (!router) return;
  free(router->slot_of);
  free(router->distance);
  free(router);
}

static const uint32_t *distances_to(struct tu_router *r, uint32_t to) {
  uint32_t slot = to % r->slot_count;
  uint32_t *distance = r->distance + (size_t)slot * r->cluster->node_count;
  if (r->slot_of[slot] != to) tu_cluster_distances(r->cluster, to, distance);
  r->slot_of[slot] = to;
  return distance;
}

static uint32_t shortest(struct tu_router *r, uint32_t from, uint32_t to, uint32_t nodes[]) {
  const struct tu_cluster *c = r->cluster;
  const uint32_t *distance = distances_to(r, to);
  if (distance[from] == TU_NONE) return TU_NONE;
  nodes[0] = from;
  for (uint32_t hop = 0; hop < distance[from]; hop++) {
    const struct tu_neighbour *all = tu_neighbours(c, nodes[hop]);
    uint32_t count = tu_neighbour_count(c, nodes[hop]), ways = 0;
    for (uint32_t pass = 0, chosen = 0; pass < 2; pass++, chosen = to % ways, ways = 0)
      for (uint32_t i = 0; i < count; i++) {
        if (all[i].usable == 0 || distance[all[i].node] != distance[nodes[hop]] - 1) continue;
        if (pass == 1 && ways == chosen) nodes[hop + 1] = all[i].node;
        ways++;
      }
  }
  return distance[from];
}

/* Do `steps` upwards lead there no later than downwards? */
static bool upwards(const struct tu_grid *grid, uint32_t dim, uint32_t at, uint32_t goal) {
  uint32_t size = grid->size[dim];
  return grid->wraps[dim] ? (goal + size - at) % size <= (at + size - goal) % size : goal > at;
}

static uint32_t dimension_order(const struct tu_router *r, uint32_t from, uint32_t to, uint32_t nodes[]) {
  const struct tu_grid *grid = r->grid;
  if (from >= r->cluster->chip_count || to >= r->cluster->chip_count) return TU_NONE;
  uint32_t place = grid->place[from], goal = grid->place[to], hops = 0;
  nodes[0] = from;
  for (uint32_t d = 0, stride = 1; d < grid->dims; stride *= grid->size[d++]) {
    uint32_t at = place / stride % grid->size[d], end = goal / stride % grid->size[d];
    for (bool up = upwards(grid, d, at, end); place / stride % grid->size[d] != end;) {
      place = tu_grid_step(grid, place, d, !up);
      nodes[++hops] = grid->chip[place];
    }
  }
  return hops;
}

uint32_t tu_router_route(struct tu_router *router, uint32_t from, uint32_t to, uint32_t nodes[]) {
  tu_assert(from < router->cluster->node_count && to < router->cluster->node_count);
  if (router->routing == TU_DIMENSION_ORDER) return dimension_order(router, from, to, nodes);
  return shortest(router, from, to, nodes);
}
