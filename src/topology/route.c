/* route.c: finds routes. In a grid, a fat tree or a tree, a route is computed from the numbers of its two ends, in time
 * O(hops). In other clusters, a route follows the distances of all nodes to the destination. This takes O(hops) times
 * the number of neighbours of a node. Computing the distances to a destination takes time O(links). */
#include "topology/route.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT_MAX = 1 << 24 }; /* maximum number of distances (from one node to another) that are cached */

enum method { BY_DISTANCE, BY_COORDS, BY_DIGITS, BY_PARENT };

struct tu_router {
  const struct tu_cluster *cluster;
  const struct tu_grid *grid;
  enum tu_routing routing;
  enum method method; /* method by which shortest routes are computed */
  uint32_t slot_count;
  /* [slot_count]: the destination of each slot of the cache; a slot holds the distances of all nodes to one
   * destination */
  uint32_t *slot_of;
  uint32_t *distance;
  uint32_t *parent, *depth; /* [node_count] each, used by the method BY_PARENT only */
  uint32_t *nodes;          /* [node_count]: nodes of one route */
  /* The usable links of each pair, sorted by channel. Those of entry i of cluster->neighbours are links[link_first[i]]
   * up to links[link_first[i + 1] - 1]. */
  uint32_t *link_first, *links;
};

/* ---- tables that are made when the router is created ---- */

static void list_links(struct tu_router *r) {
  const struct tu_cluster *c = r->cluster;
  uint32_t neighbours = c->neighbour_first[c->node_count], count = 0;
  r->link_first = tu_allocate((size_t)neighbours + 1, sizeof *r->link_first);
  for (uint32_t i = 0; i < neighbours; i++) {
    r->link_first[i] = count;
    count += c->neighbours[i].usable;
  }
  r->link_first[neighbours] = count;
  r->links = tu_allocate((size_t)count + 1, sizeof *r->links);
  uint32_t *next = tu_allocate((size_t)neighbours + 1, sizeof *next);
  memcpy(next, r->link_first, neighbours * sizeof *next);
  for (uint32_t n = 0; n < c->node_count; n++)
    for (uint32_t p = c->port_first[n]; p < c->port_first[n + 1]; p++) {
      const struct tu_cluster_link *link = &c->links[c->ports[p].link];
      const struct tu_neighbour *to =
          tu_cluster_pair(c, n, tu_link_far(link, (struct tu_cluster_link_end){n, c->ports[p].channel}).node);
      if (to && !link->reserved) r->links[next[to - c->neighbours]++] = c->ports[p].link;
    }
  free(next);
}

/* Returns true if the cluster is a tree (exactly one route between any two nodes). Sets the parent of each node except
 * node 0, which is the root, and the depth of each node. */
static bool find_parents(struct tu_router *r) {
  const struct tu_cluster *c = r->cluster;
  uint32_t *queue = r->nodes, queued = 1, pairs = 0;
  r->parent = tu_allocate(c->node_count, sizeof *r->parent);
  r->depth = tu_allocate(c->node_count, sizeof *r->depth);
  memset(r->depth, 0xff, c->node_count * sizeof *r->depth);
  queue[0] = r->depth[0] = 0;
  for (uint32_t i = 0; i < queued; i++)
    for (uint32_t k = c->neighbour_first[queue[i]]; k < c->neighbour_first[queue[i] + 1]; k++) {
      const struct tu_neighbour *next = &c->neighbours[k];
      if (next->usable == 0) continue;
      pairs++;
      if (r->depth[next->node] != TU_NONE) continue;
      r->depth[next->node] = r->depth[queue[i]] + 1;
      r->parent[next->node] = queue[i];
      queue[queued++] = next->node;
    }
  /* each pair of linked nodes was counted twice, once from each of its nodes; a tree of n nodes has n - 1 pairs */
  return queued == c->node_count && pairs == 2 * (queued - 1);
}

static bool all_pairs_usable(const struct tu_cluster *c) {
  for (uint32_t i = 0; i < c->neighbour_first[c->node_count]; i++)
    if (c->neighbours[i].usable == 0) return false;
  return true;
}

static enum method choose_method(struct tu_router *r) {
  if (tu_grid_is_all(r->grid, r->cluster) > 0) return BY_COORDS;
  if (r->cluster->tree_levels > 0 && all_pairs_usable(r->cluster)) return BY_DIGITS;
  return find_parents(r) ? BY_PARENT : BY_DISTANCE;
}

tutti_err tu_router_create(const struct tu_cluster *cluster, const struct tu_grid *grid, enum tu_routing routing,
                           struct tu_router **router, struct tu_error *error) {
  *router = NULL;
  if (routing == TU_DIMENSION_ORDER && grid->dims == 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "dimension order needs a grid, but the chips of %s do not form one; use shortest routes",
                   cluster->name);
  struct tu_router *r = tu_allocate(1, sizeof *r);
  *r = (struct tu_router){.cluster = cluster, .grid = grid, .routing = routing};
  r->nodes = tu_allocate(cluster->node_count, sizeof *r->nodes);
  list_links(r);
  if (routing == TU_SHORTEST) r->method = choose_method(r);
  *router = r;
  return TUTTI_OK;
}

void tu_router_destroy(struct tu_router *router) {
  if (!router) return;
  free(router->slot_of);
  free(router->distance);
  free(router->parent);
  free(router->depth);
  free(router->nodes);
  free(router->link_first);
  free(router->links);
  free(router);
}

/* ---- routes ---- */

static const uint32_t *distances_to(struct tu_router *r, uint32_t to) {
  uint32_t nodes = r->cluster->node_count;
  if (!r->distance) {
    r->slot_count = (uint32_t)tu_min(tu_max(KEPT_MAX / nodes, 1), nodes);
    r->slot_of = tu_allocate(r->slot_count, sizeof *r->slot_of);
    memset(r->slot_of, 0xff, r->slot_count * sizeof *r->slot_of);
    r->distance = tu_allocate((size_t)r->slot_count * nodes, sizeof *r->distance);
  }
  uint32_t slot = to % r->slot_count;
  uint32_t *distance = r->distance + (size_t)slot * nodes;
  if (r->slot_of[slot] != to) tu_cluster_distances(r->cluster, to, distance);
  r->slot_of[slot] = to;
  return distance;
}

/* Returns how many neighbours of node `at` are nearer to the destination than `at`. *next receives one of them: the one
 * with index `chosen`. */
static uint32_t nearer(const struct tu_cluster *c, const uint32_t distance[], uint32_t at, uint32_t chosen,
                       uint32_t *next) {
  uint32_t ways = 0;
  for (uint32_t i = 0; i < tu_neighbour_count(c, at); i++) {
    const struct tu_neighbour *to = &tu_neighbours(c, at)[i];
    if (to->usable == 0 || distance[to->node] + 1 != distance[at]) continue;
    if (ways++ == chosen) *next = to->node;
  }
  return ways;
}

/* Follows the distances to the destination. At a node with several neighbours that are nearer to it, a digit of the
 * destination's number selects one of them. Each further node on the route uses the next digit. The same digit would be
 * useless there, because all routes that made the same choice before have the same digit. */
static uint32_t by_distance(struct tu_router *r, uint32_t from, uint32_t to, uint32_t nodes[]) {
  const struct tu_cluster *c = r->cluster;
  const uint32_t *distance = distances_to(r, to);
  if (distance[from] == TU_NONE) return TU_NONE;
  nodes[0] = from;
  for (uint32_t hop = 0, digits = to; hop < distance[from]; hop++) {
    uint32_t ways = nearer(c, distance, nodes[hop], 0, &nodes[hop + 1]);
    tu_assert(ways > 0);
    if (ways > 1) nearer(c, distance, nodes[hop], digits % ways, &nodes[hop + 1]);
    digits /= ways;
  }
  return distance[from];
}

/* Goes up the tree from `from` to the nearest common ancestor of `from` and `to`, then down to `to`. */
static uint32_t by_parent(const struct tu_router *r, uint32_t from, uint32_t to, uint32_t nodes[]) {
  uint32_t a = from, b = to, up = 0, hops = 0;
  while (a != b) {
    bool a_is_deeper = r->depth[a] >= r->depth[b];
    if (a_is_deeper) a = r->parent[a], up++;
    else b = r->parent[b];
    hops++;
  }
  nodes[0] = from;
  for (uint32_t i = 0; i < up; i++) nodes[i + 1] = r->parent[nodes[i]];
  for (uint32_t i = hops, node = to; i > up; i--, node = r->parent[node]) nodes[i] = node;
  return hops;
}

/* Routes in a fat tree. The number of a switch in its level consists of digits; each step upwards may change one digit,
 * that of the switch's level. The route goes up until the digits that can no longer be changed on the way down are
 * those of the destination's switch. On the way down, each step sets one digit to that of the destination's switch. On
 * the way up, any digits would be correct. The digits of the destination's number are used, because they distribute the
 * routes over the links. */
static uint32_t by_digits(const struct tu_router *r, uint32_t from, uint32_t to, uint32_t nodes[]) {
  const struct tu_cluster *c = r->cluster;
  uint32_t arity = c->tree_arity, hops = 0;
  tu_assert(arity > 0);
  uint32_t per_level = c->chip_count / arity, at = from / arity, goal = to / arity;
  nodes[0] = from;
  if (from == to) return 0;
  nodes[++hops] = c->chip_count + at;
  uint32_t power = 1, first = c->chip_count;
  for (uint32_t choice = to; at / power != goal / power; choice /= arity, power *= arity) {
    at = at - at / power % arity * power + choice % arity * power;
    first += per_level;
    nodes[++hops] = first + at;
  }
  while (power > 1) {
    power /= arity;
    at = at - at / power % arity * power + goal / power % arity * power;
    first -= per_level;
    nodes[++hops] = first + at;
  }
  nodes[++hops] = to;
  return hops;
}

static uint32_t coordinate(const struct tu_grid *grid, uint32_t position, uint32_t dim) {
  for (uint32_t d = 0; d < dim; d++) position /= grid->size[d];
  return position % grid->size[dim];
}

/* Returns true if the route goes upwards in the dimension, that is, towards higher coordinates, because that way is
 * shorter or the only one. If both ways are equally long, TU_DIMENSION_ORDER goes upwards. TU_SHORTEST then decides by
 * the parity of a sum: the start's coordinate in this dimension, plus all other coordinates of both ends. So half of
 * the routes go each way. */
static bool upwards(const struct tu_router *r, uint32_t dim, uint32_t from, uint32_t to) {
  const struct tu_grid *grid = r->grid;
  uint32_t size = grid->size[dim], at = coordinate(grid, from, dim), goal = coordinate(grid, to, dim);
  if (!grid->wraps[dim]) return goal > at;
  uint32_t up = (goal + size - at) % size, down = (at + size - goal) % size, sum = at;
  if (up != down || r->routing == TU_DIMENSION_ORDER) return up <= down;
  for (uint32_t d = 0; d < grid->dims; d++)
    if (d != dim) sum += coordinate(grid, from, d) + coordinate(grid, to, d);
  return sum % 2 == 0;
}

static uint32_t by_coords(const struct tu_router *r, uint32_t from, uint32_t to, uint32_t nodes[]) {
  const struct tu_grid *grid = r->grid;
  uint32_t start = grid->position[from], position = start, goal = grid->position[to], hops = 0;
  nodes[0] = from;
  for (uint32_t d = 0; d < grid->dims; d++) {
    uint32_t end = coordinate(grid, goal, d);
    for (bool up = upwards(r, d, start, goal); coordinate(grid, position, d) != end;) {
      position = tu_grid_step(grid, position, d, !up);
      nodes[++hops] = grid->chip[position];
    }
  }
  return hops;
}

uint32_t tu_router_route(struct tu_router *r, uint32_t from, uint32_t to, uint32_t nodes[]) {
  tu_assert(from < r->cluster->node_count && to < r->cluster->node_count);
  bool chips = from < r->cluster->chip_count && to < r->cluster->chip_count;
  if (r->routing == TU_DIMENSION_ORDER) return chips ? by_coords(r, from, to, nodes) : TU_NONE;
  if (r->method == BY_PARENT) return by_parent(r, from, to, nodes);
  if (chips && r->method == BY_COORDS) return by_coords(r, from, to, nodes);
  if (chips && r->method == BY_DIGITS) return by_digits(r, from, to, nodes);
  return by_distance(r, from, to, nodes);
}

/* ---- the links of a route ---- */

uint32_t tu_router_links(struct tu_router *r, uint32_t from, uint32_t to, uint32_t spread, uint32_t links[]) {
  const struct tu_cluster *c = r->cluster;
  uint32_t hops = tu_router_route(r, from, to, r->nodes);
  if (hops == TU_NONE) return hops;
  if (hops > 1)
    /* `spread` selects one of the links of each pair. On a route of several hops, add a number that depends on the two
     * ends of the route. For shifts, exchanges and alltoall on grids, this formula spreads messages more evenly than a
     * hash does. */
    spread += from + to / 2 + to / 8 + to / 32;
  for (uint32_t h = 0; h < hops; h++) {
    uint32_t near = r->nodes[h];
    const struct tu_neighbour *next = tu_cluster_pair(c, near, r->nodes[h + 1]);
    uint32_t index = (uint32_t)(next - c->neighbours), first = r->link_first[index];
    uint32_t link = r->links[first + spread % (r->link_first[index + 1] - first)];
    links[h] = tu_directed(link, c->links[link].ends[0].node != near);
  }
  return hops;
}

void tu_loads_init(struct tu_loads *loads, struct tu_router *router) {
  const struct tu_cluster *c = router->cluster;
  *loads = (struct tu_loads){.router = router};
  loads->messages = tu_allocate(2 * (size_t)c->link_count + 1, sizeof *loads->messages);
  loads->amounts = tu_allocate(2 * (size_t)c->link_count + 1, sizeof *loads->amounts);
  loads->links = tu_allocate(c->node_count, sizeof *loads->links);
}

void tu_loads_fini(struct tu_loads *loads) {
  free(loads->messages);
  free(loads->amounts);
  free(loads->links);
}

uint32_t tu_loads_add(struct tu_loads *loads, uint32_t from, uint32_t to, uint32_t spread, double amount) {
  uint32_t hops = tu_router_links(loads->router, from, to, spread, loads->links);
  if (hops == TU_NONE || hops == 0) return hops;
  for (uint32_t h = 0; h < hops; h++) {
    loads->messages[loads->links[h]]++;
    loads->amounts[loads->links[h]] += amount;
  }
  loads->routed++;
  loads->hops += hops;
  loads->hops_max = (uint32_t)tu_max(loads->hops_max, hops);
  return hops;
}

uint32_t tu_loads_busiest(const struct tu_loads *loads) {
  uint32_t busiest = TU_NONE, count = 2 * loads->router->cluster->link_count;
  for (uint32_t l = 0; l < count; l++)
    if (loads->messages[l] > 0 && (busiest == TU_NONE || loads->amounts[l] > loads->amounts[busiest])) busiest = l;
  return busiest;
}
