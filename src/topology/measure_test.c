/* measure_test.c: compares diameters with all-pairs distances, and bisections with brute force on small graphs and with
 * formulas for known graphs. */
#include "topology/measure.h"

#include "clusters.h"

static struct tu_bounds diameter(const struct tu_cluster *c, bool with_grid) {
  struct tu_grid g = {0};
  if (with_grid) tu_grid_find(c, &g);
  struct tu_bounds b = tu_cluster_diameter(c, &g);
  tu_grid_fini(&g);
  return b;
}

static struct tu_bounds bisection(const struct tu_cluster *c, bool with_grid) {
  struct tu_grid g = {0};
  if (with_grid) tu_grid_find(c, &g);
  struct tu_bounds b = tu_cluster_bisection(c, &g);
  tu_grid_fini(&g);
  return b;
}

/* Returns the bisection width by brute force: tries all halves of the chips, with all divisions of the other nodes. */
static uint32_t brute_bisection(const struct tu_cluster *c) {
  uint32_t n = c->node_count, least = TU_NONE;
  for (uint32_t set = 0; set < 1u << n; set++) {
    uint32_t chips = (uint32_t)__builtin_popcount(set & ((1u << c->chip_count) - 1)), cut = 0;
    if (chips != c->chip_count / 2) continue;
    for (uint32_t l = 0; l < c->link_count; l++) {
      const struct tu_cluster_link *link = &c->links[l];
      cut += !link->reserved && ((set >> link->ends[0].node ^ set >> link->ends[1].node) & 1);
    }
    if (cut < least) least = cut;
  }
  return least;
}

static uint32_t brute_diameter(const struct tu_cluster *c) {
  uint32_t *d = cluster_distances(c), most = 0;
  for (uint32_t a = 0; a < c->chip_count; a++)
    for (uint32_t b = 0; b < c->chip_count; b++)
      if (d[a * c->node_count + b] > most) most = d[a * c->node_count + b];
  free(d);
  return most >= TU_NONE / 4 ? TU_NONE : most;
}

static void against_brute_force(void) {
  uint64_t seed = test_seed();
  uint32_t rounds = test_long() ? 2000 : 200, apart = 0;
  for (uint32_t round = 0; round < rounds; round++) {
    struct tu_cluster *c = cluster_random(&seed, 2 + below(&seed, 10), 20 + below(&seed, 60), 3);
    for (uint32_t l = 0; l < c->link_count; l++) c->links[l].reserved = false;
    char list[100];
    if (c->link_count > 0) { /* reserve one link */
      struct tu_cluster_link_end end = c->links[below(&seed, c->link_count)].ends[0];
      snprintf(list, sizeof list, "%u:%u", c->nodes[end.node].id, end.channel);
      if (tu_cluster_reserve(c, list, NULL) != TUTTI_OK) FAIL("round %u", round);
    }
    for (int with_grid = 0; with_grid < 2; with_grid++) {
      struct tu_bounds d = diameter(c, with_grid), b = bisection(c, with_grid);
      uint32_t expected = brute_diameter(c);
      CHECK(d.low == expected && d.high == expected, "round %u: diameter %u to %u, not %u", round, d.low, d.high,
            expected);
      apart += expected == TU_NONE;
      expected = brute_bisection(c);
      CHECK(b.low == expected && b.high == expected, "round %u: bisection %u to %u, not %u", round, b.low, b.high,
            expected);
    }
    tu_cluster_destroy(c);
  }
  CHECK(apart > 0, "no graph in parts came up");
}

static void small_known(void) {
  static const char *const names[] = {"ring:2",       "ring:3",       "line:7",      "ring:9",      "mesh:2x4:2",
                                      "mesh:3x5",     "mesh:3x3",     "torus:3x5",   "torus:4x4",   "torus:3x3",
                                      "torus:2x5",    "torus:3x3:3",  "mesh:2x2x3",  "torus:2x3x3", "fat-tree:2x3",
                                      "fat-tree:3x2", "hosts:3x4",    "hosts:4x2:2", "t3000",       "n300",
                                      "mesh:1x1",     "torus:2x2x2x2"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    struct tu_cluster *c = cluster_of(names[i]);
    struct tu_bounds d = diameter(c, true), b = bisection(c, true), again = bisection(c, false);
    uint32_t expected = brute_diameter(c);
    CHECK(d.low == expected && d.high == expected, "%s: diameter %u to %u, not %u", names[i], d.low, d.high, expected);
    expected = c->chip_count < 2 ? 0 : brute_bisection(c);
    CHECK(b.low == expected && b.high == expected, "%s: bisection %u to %u, not %u", names[i], b.low, b.high, expected);
    CHECK(again.low == expected && again.high == expected, "%s: bisection by search %u to %u, not %u", names[i],
          again.low, again.high, expected);
    tu_cluster_destroy(c);
  }
}

/* Compares large clusters with textbook values: a mesh or torus is cut across its longest side; the bisection width of
 * a fat tree is half of its number of chips. */
static void large_known(void) {
  static const struct {
    const char *what, *reserve;
    uint32_t diameter, low, high;
  } cases[] = {
      {"galaxy", "none", 10, 16, 16},
      {"galaxy-torus", NULL, 6, 32, 32},
      {"torus:16x16", NULL, 16, 32, 32},
      {"mesh:32x32", NULL, 62, 32, 32},
      {"torus:8x8x8", NULL, 12, 128, 128},
      {"mesh:5x5", NULL, 8, 6, 6},
      {"torus:256x256", NULL, 256, 512, 512},
      {"ring:65536", NULL, 32768, 2, 2},
      {"mesh:4x8:4", NULL, 10, 16, 16},
      {"fat-tree:4x2", NULL, 4, 8, 8},
      {"hosts:4x8", NULL, 4, 2, 2},
      {"hosts:64x16", NULL, 4, 1, 32},
      {"t3000", "none", 4, 4, 4},
      {"t3000", "dispatch", 4, 4, 4},
      {"torus:5x5", NULL, 4, 12, 12},
      {"line:100", NULL, 99, 1, 1},
      {"fat-tree:2x5", NULL, 10, 1, 16},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct tu_cluster *c = cluster_reserved(cases[i].what, cases[i].reserve);
    struct tu_bounds d = diameter(c, true), b = bisection(c, true);
    CHECK(d.low == cases[i].diameter && d.high == d.low, "%s: diameter %u to %u", cases[i].what, d.low, d.high);
    CHECK(b.low == cases[i].low && b.high == cases[i].high, "%s: bisection %u to %u", cases[i].what, b.low, b.high);
    tu_cluster_destroy(c);
  }
}

/* Tests a cluster that is too large to compute all distances: the bounds of the diameter must hold. */
static void bounds(void) {
  struct tu_cluster *c = cluster_of("fat-tree:16x4");
  struct tu_bounds d = diameter(c, true);
  CHECK(d.low <= 8 && d.high >= 8 && d.low >= 4, "fat tree: diameter %u to %u", d.low, d.high);
  tu_cluster_destroy(c);
}

static void on_files(bool own) {
  static const struct {
    const char *file;
    uint32_t diameter, bisection;
  } cases[] = {
      {"own/eight.yaml", 4, 4},
      {"own/pair.yaml", 1, 2},
      {"own/express.textproto", 4, 14},
      {"t3k_cluster_desc.yaml", 4, 4},
      {"6u_cluster_desc.yaml", 10, 16},
      {"blackhole_4xP150.yaml", 2, 8},
      {"wormhole_N300.yaml", 1, 2},
      {"wormhole_N150.yaml", 0, 0},
      {"mesh/dual_galaxy_mesh_graph_descriptor.yaml", 14, 8},
      {"mesh/quanta_galaxy_torus_2d_graph_descriptor.yaml", 6, 32},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    if (cluster_is_own(cases[i].file) != own) continue;
    struct tu_cluster *c = cluster_shared(cases[i].file);
    if (!c) continue;
    struct tu_bounds d = diameter(c, true), b = bisection(c, true);
    CHECK(d.low == cases[i].diameter && d.high == d.low, "%s: diameter %u to %u", cases[i].file, d.low, d.high);
    CHECK(b.low == cases[i].bisection && b.high == b.low, "%s: bisection %u to %u", cases[i].file, b.low, b.high);
    tu_cluster_destroy(c);
  }
}
static void own_clusters(void) { on_files(true); }
static void real_clusters(void) { on_files(false); }

static const struct test tests[] = {
    {"against brute force", against_brute_force},
    {"small known", small_known},
    {"large known", large_known},
    {"bounds", bounds},
    {"own clusters", own_clusters},
    {"real clusters", real_clusters},
};
int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
