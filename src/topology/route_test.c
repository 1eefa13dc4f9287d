/* route_test.c: checks that routes are as short as possible, go from neighbour to neighbour, and follow the order of
 * dimensions. */
#include "topology/route.h"

#include <math.h>

#include "clusters.h"

static void check_route(const struct tu_cluster *c, uint32_t from, uint32_t to, const uint32_t nodes[], uint32_t hops) {
  CHECK(nodes[0] == from && nodes[hops] == to, "from %u to %u: goes from %u to %u", from, to, nodes[0], nodes[hops]);
  for (uint32_t h = 0; h < hops; h++)
    CHECK(tu_cluster_usable(c, nodes[h], nodes[h + 1]) > 0, "from %u to %u: no link from %u to %u", from, to, nodes[h],
          nodes[h + 1]);
}

/* Checks the links of a route: each begins at the node where the previous one ended, and none is reserved. */
static void check_links(struct tu_router *r, const struct tu_cluster *c, const uint32_t nodes[], uint32_t hops,
                        uint32_t links[]) {
  for (uint32_t spread = 0; spread < 3; spread++) {
    uint32_t again = tu_router_links(r, nodes[0], nodes[hops], spread, links);
    CHECK(again == hops, "%s: %u hops, then %u", c->name, hops, again);
    for (uint32_t h = 0; h < hops; h++)
      CHECK(tu_directed_from(c, links[h]).node == nodes[h] && tu_directed_to(c, links[h]).node == nodes[h + 1] &&
                !c->links[links[h] / 2].reserved,
            "%s, from %u to %u: hop %u over link %u", c->name, nodes[0], nodes[hops], h, links[h]);
  }
}

/* Checks that the routes between all pairs of nodes are shortest routes. */
static void check_shortest_with(const struct tu_cluster *c, const struct tu_grid *grid) {
  struct tu_router *r;
  uint32_t n = c->node_count, *d = cluster_distances(c), *nodes = tu_allocate(n, sizeof *nodes),
           *links = tu_allocate(n, sizeof *links);
  if (tu_router_create(c, grid, TU_SHORTEST, &r, NULL) != TUTTI_OK) abort();
  for (uint32_t from = 0; from < n; from++)
    for (uint32_t to = 0; to < n; to++) {
      uint32_t hops = tu_router_route(r, from, to, nodes);
      bool there = d[from * n + to] < TU_NONE / 4;
      CHECK(there ? hops == d[from * n + to] : hops == TU_NONE, "%s, from %u to %u: %u hops", c->name, from, to, hops);
      if (there) check_route(c, from, to, nodes, hops);
      if (there) check_links(r, c, nodes, hops, links);
    }
  tu_router_destroy(r);
  free(nodes);
  free(links);
  free(d);
}

static void check_shortest(const struct tu_cluster *c) {
  struct tu_grid none = {0}, grid;
  tu_grid_find(c, &grid);
  check_shortest_with(c, &none);
  check_shortest_with(c, &grid);
  tu_grid_fini(&grid);
}

static void shortest(void) {
  uint64_t seed = test_seed();
  for (uint32_t round = 0; round < (test_long() ? 500u : 50u); round++) {
    struct tu_cluster *c = cluster_random(&seed, 2 + below(&seed, 20), 5 + below(&seed, 40), 2);
    check_shortest(c);
    tu_cluster_destroy(c);
  }
  static const char *const names[] = {"t3000",        "galaxy",    "fat-tree:3x3", "fat-tree:2x4:2", "fat-tree:5x1",
                                      "fat-tree:1x3", "hosts:4x4", "hosts:1x3",    "torus:4x5",      "torus:4x2x4",
                                      "mesh:3x4x2:3", "line:7",    "ring:8",       "ring:1"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    struct tu_cluster *c = cluster_of(names[i]);
    check_shortest(c);
    tu_cluster_destroy(c);
  }
}

/* Tests a cluster with more destinations than the router can cache distances for. */
static void large(void) {
  struct tu_cluster *c = cluster_of("torus:96x96");
  struct tu_grid grid;
  struct tu_router *shortest, *ordered;
  uint64_t seed = test_seed();
  uint32_t *a = tu_allocate(c->node_count, sizeof *a), *b = tu_allocate(c->node_count, sizeof *b);
  tu_grid_find(c, &grid);
  if (tu_router_create(c, &grid, TU_SHORTEST, &shortest, NULL) != TUTTI_OK) abort();
  if (tu_router_create(c, &grid, TU_DIMENSION_ORDER, &ordered, NULL) != TUTTI_OK) abort();
  for (uint32_t i = 0; i < 4000; i++) {
    uint32_t from = below(&seed, c->chip_count), to = i < 3000 ? i : below(&seed, c->chip_count);
    uint32_t hops = tu_router_route(shortest, from, to, a), again = tu_router_route(ordered, from, to, b);
    CHECK(hops == again, "from %u to %u: %u and %u hops", from, to, hops, again);
    check_route(c, from, to, a, hops);
    check_route(c, from, to, b, again);
  }
  tu_router_destroy(shortest);
  tu_router_destroy(ordered);
  tu_grid_fini(&grid);
  free(a);
  free(b);
  tu_cluster_destroy(c);
}

/* Tests that in a grid, a route in dimension order is a shortest one, and crosses each dimension once, in order, in one
 * direction. */
static void dimension_order(void) {
  static const char *const names[] = {"mesh:3x4", "torus:4x5", "torus:3x4x5",  "ring:6",
                                      "line:5",   "t3000",     "mesh:2x3x2x3", "galaxy"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    struct tu_cluster *c = cluster_of(names[i]);
    struct tu_grid g;
    struct tu_router *r;
    uint32_t *nodes = tu_allocate(c->node_count, sizeof *nodes), *d = cluster_distances(c);
    tu_grid_find(c, &g);
    if (tu_router_create(c, &g, TU_DIMENSION_ORDER, &r, NULL) != TUTTI_OK) abort();
    for (uint32_t from = 0; from < c->chip_count; from++)
      for (uint32_t to = 0; to < c->chip_count; to++) {
        uint32_t hops = tu_router_route(r, from, to, nodes), dim = 0, way = 2;
        CHECK(hops == d[from * c->node_count + to], "%s, from %u to %u: %u hops", names[i], from, to, hops);
        check_route(c, from, to, nodes, hops);
        for (uint32_t h = 0; h < hops; h++) {
          uint32_t here = g.position[nodes[h]], next = g.position[nodes[h + 1]], back = 0, in = 0;
          for (uint32_t k = 0; k < g.dims; k++)
            for (uint32_t w = 0; w < 2; w++)
              if (tu_grid_step(&g, here, k, w) == next) in = k, back = w;
          CHECK(in > dim || (in == dim && (way == 2 || way == back)), "%s, from %u to %u: hop %u turns back", names[i],
                from, to, h);
          dim = in;
          way = back;
        }
      }
    tu_router_destroy(r);
    tu_grid_fini(&g);
    free(nodes);
    free(d);
    tu_cluster_destroy(c);
  }
  struct tu_cluster *c = cluster_of("fat-tree:2x2");
  struct tu_grid none = {0};
  struct tu_router *r;
  struct tu_error error;
  CHECK(tu_router_create(c, &none, TU_DIMENSION_ORDER, &r, &error) == TUTTI_ERR_ARGUMENT && !r &&
            strstr(error.text, "fat-tree:2x2"),
        "'%s'", error.text);
  tu_cluster_destroy(c);
}

/* Lets each chip send an amount of 0.5 to each other chip on each lane. Returns the load of the busiest directed
 * link. */
static double alltoall(const char *name, uint32_t lanes, struct tu_loads *of) {
  struct tu_cluster *c = cluster_of(name);
  struct tu_grid grid;
  struct tu_router *r;
  struct tu_loads loads;
  tu_grid_find(c, &grid);
  if (tu_router_create(c, &grid, TU_SHORTEST, &r, NULL) != TUTTI_OK) abort();
  tu_loads_init(&loads, r);
  CHECK(tu_loads_busiest(&loads) == TU_NONE && tu_loads_add(&loads, 0, 0, 0, 1) == 0, "%s: empty", name);
  for (uint32_t from = 0; from < c->chip_count; from++)
    for (uint32_t to = 0; to < c->chip_count; to++)
      for (uint32_t lane = 0; lane < lanes && from != to; lane++) tu_loads_add(&loads, from, to, lane, 0.5);
  double sum = 0, most = loads.amounts[tu_loads_busiest(&loads)];
  uint64_t messages = 0;
  for (uint32_t l = 0; l < 2 * c->link_count; l++) {
    sum += loads.amounts[l];
    messages += loads.messages[l];
    CHECK(loads.amounts[l] <= most, "%s: link %u is busier than the busiest", name, l);
  }
  CHECK(messages == loads.hops && sum == 0.5 * (double)messages, "%s: %llu hops", name, (unsigned long long)messages);
  if (of) *of = loads; /* the caller may use only the counters, because the arrays are freed below */
  tu_loads_fini(&loads);
  tu_router_destroy(r);
  tu_grid_fini(&grid);
  tu_cluster_destroy(c);
  return most;
}

/* In a fat tree no link carries more than one chip's data. In a grid of N chips, along a ring of even size S, each link
 * carries N S / 8 (odd size: N (S^2 - 1) / 8 S): routes of equal length do not favour one direction. */
static void balance(void) {
  static const struct {
    const char *name;
    uint32_t lanes;
    double busiest;
  } cases[] = {{"fat-tree:4x2", 2, 15}, {"fat-tree:2x4", 2, 15}, {"fat-tree:3x3", 2, 26}, {"hosts:4x8:4", 2, 48},
               {"ring:5", 2, 3},        {"ring:8", 2, 8},        {"torus:4x6", 2, 18},    {"torus:3x5", 2, 9},
               {"mesh:4x4", 2, 16},     {"ring:8:4", 8, 8}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    double busiest = alltoall(cases[i].name, cases[i].lanes, NULL);
    CHECK(busiest == cases[i].busiest, "%s: %g", cases[i].name, busiest);
  }
  /* With a single lane the load is not divided evenly among parallel links: allow 1.5 times the even share. */
  double shared = alltoall("ring:8:4", 1, NULL), mesh = alltoall("mesh:8x8:4", 1, NULL);
  CHECK(shared <= 0.5 * 8 / 4 * 1.5 && mesh <= 0.5 * 128 / 4 * 1.5, "%g, %g", shared, mesh);
  struct tu_loads loads;
  alltoall("line:3", 1, &loads);
  CHECK(loads.routed == 6 && loads.hops == 8 && loads.hops_max == 2, "%llu hops", (unsigned long long)loads.hops);
}

/* Tests that between neighbours, lane i uses link i modulo the number of links. */
static void lanes(void) {
  struct tu_cluster *c = cluster_of("ring:6:3");
  struct tu_grid none = {0};
  struct tu_router *r;
  uint32_t links[6], seen = 0;
  if (tu_router_create(c, &none, TU_SHORTEST, &r, NULL) != TUTTI_OK) abort();
  for (uint32_t lane = 0; lane < 6; lane++) {
    tu_router_links(r, 2, 3, lane, links);
    CHECK(links[0] / 2 == tu_cluster_link_between(c, 2, 3, lane % 3), "lane %u: link %u", lane, links[0] / 2);
    seen |= 1u << links[0] / 2 % 32;
  }
  CHECK(__builtin_popcount(seen) == 3, "%d links", __builtin_popcount(seen));
  tu_router_destroy(r);
  tu_cluster_destroy(c);
}

/* Tests clusters of the maximum number of chips; each chip sends to partners at distances 1, 2, 4, ..., as in trees and
 * butterflies. */
static void largest(void) {
  static const char *const names[] = {"torus:256x256", "fat-tree:4x8", "hosts:8192x8", "mesh:64x32x32"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    struct tu_cluster *c = cluster_of(names[i]);
    struct tu_grid grid;
    struct tu_router *r;
    struct tu_loads loads;
    tu_grid_find(c, &grid);
    if (tu_router_create(c, &grid, TU_SHORTEST, &r, NULL) != TUTTI_OK) abort();
    tu_loads_init(&loads, r);
    CHECK(c->chip_count == 65536, "%s: %u chips", names[i], c->chip_count);
    for (uint32_t from = 0; from < c->chip_count; from += test_long() ? 1 : 8)
      for (uint32_t distance = 1; distance < c->chip_count; distance *= 2)
        CHECK(tu_loads_add(&loads, from, from ^ distance, 0, 1) != TU_NONE, "%s: no way from %u", names[i], from);
    tu_loads_fini(&loads);
    tu_router_destroy(r);
    tu_grid_fini(&grid);
    tu_cluster_destroy(c);
  }
}

static const struct test tests[] = {{"shortest", shortest}, {"large", large}, {"dimension order", dimension_order},
                                    {"balance", balance},   {"lanes", lanes}, {"largest", largest}};
int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
