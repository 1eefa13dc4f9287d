/* route_test.c: routes are as short as can be, step from neighbour to neighbour, and keep to their dimensions' order. */
#include "topology/route.h"

#include "clusters.h"

static void check_route(const struct tu_cluster *c, uint32_t from, uint32_t to, const uint32_t nodes[], uint32_t hops) {
  CHECK(nodes[0] == from && nodes[hops] == to, "from %u to %u: goes from %u to %u", from, to, nodes[0], nodes[hops]);
  for (uint32_t h = 0; h < hops; h++)
    CHECK(tu_cluster_usable(c, nodes[h], nodes[h + 1]) > 0, "from %u to %u: no link from %u to %u", from, to, nodes[h],
          nodes[h + 1]);
}

/* All pairs of nodes. */
static void check_shortest(const struct tu_cluster *c) {
  struct tu_grid none = {0};
  struct tu_router *r;
  uint32_t n = c->node_count, *d = cluster_distances(c), *nodes = tu_allocate(n, sizeof *nodes);
  if (tu_router_create(c, &none, TU_SHORTEST, &r, NULL) != TUTTI_OK) abort();
  for (uint32_t from = 0; from < n; from++)
    for (uint32_t to = 0; to < n; to++) {
      uint32_t hops = tu_router_route(r, from, to, nodes);
      bool there = d[from * n + to] < TU_NONE / 4;
      CHECK(there ? hops == d[from * n + to] : hops == TU_NONE, "%s, from %u to %u: %u hops", c->name, from, to, hops);
      if (there) check_route(c, from, to, nodes, hops);
    }
  tu_router_destroy(r);
  free(nodes);
  free(d);
}

static void shortest(void) {
  uint64_t seed = test_seed();
  for (uint32_t round = 0; round < (test_long() ? 500u : 50u); round++) {
    struct tu_cluster *c = cluster_random(&seed, 2 + below(&seed, 20), 5 + below(&seed, 40), 2);
    check_shortest(c);
    tu_cluster_destroy(c);
  }
  static const char *const names[] = {"t3000", "galaxy", "fat-tree:3x3", "hosts:4x4", "torus:4x5"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    struct tu_cluster *c = cluster_of(names[i]);
    check_shortest(c);
    tu_cluster_destroy(c);
  }
}

/* More destinations than distances are kept of. */
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

/* In a grid: hops are the sum over dimensions, each of which is gone in one stretch, in order, one way. */
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
          uint32_t here = g.place[nodes[h]], next = g.place[nodes[h + 1]], back = 0, in = 0;
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
            strstr(error.text, "no grid"),
        "'%s'", error.text);
  tu_cluster_destroy(c);
}

static const struct test tests[] = {{"shortest", shortest}, {"large", large}, {"dimension order", dimension_order}};
int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
