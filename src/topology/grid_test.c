/* grid_test.c: checks that grids are found under any numbering of the chips, and only if there is a grid. */
#include "topology/grid.h"

#include "clusters.h"

/* Checks that g is a grid of the cluster: neighbours are linked, positions and chips are inverse, lines are in
 * order. */
static void check_grid(const struct tu_cluster *c, const struct tu_grid *g, const char *name) {
  uint32_t positions = 1;
  for (uint32_t d = 0; d < g->dims; d++) positions *= g->size[d];
  CHECK(positions == c->chip_count, "%s: %u positions for %u chips", name, positions, c->chip_count);
  for (uint32_t p = 0; p < positions; p++) CHECK(g->position[g->chip[p]] == p, "%s: position %u", name, p);
  for (uint32_t d = 0, stride = 1; d < g->dims; stride *= g->size[d++]) {
    CHECK(tu_grid_line_count(g, d) * g->size[d] == positions, "%s: lines", name);
    uint32_t *chips = tu_allocate(g->size[d], sizeof *chips);
    bool *seen = tu_allocate(positions, sizeof *seen);
    for (uint32_t i = 0; i < tu_grid_line_count(g, d); i++) {
      tu_grid_line(g, d, i, chips);
      for (uint32_t k = 0; k < g->size[d]; k++) {
        bool last = k + 1 == g->size[d];
        CHECK(!seen[chips[k]], "%s: chip %u is in two lines", name, chips[k]);
        seen[chips[k]] = true;
        CHECK((last && !g->wraps[d]) || tu_cluster_usable(c, chips[k], chips[last ? 0 : k + 1]) > 0,
              "%s: dimension %u, line %u: a gap", name, d, i);
        uint32_t next = tu_grid_step(g, g->position[chips[k]], d, false);
        CHECK(last && !g->wraps[d] ? next == TU_NONE : next == g->position[chips[last ? 0 : k + 1]], "%s: step", name);
        uint32_t back = tu_grid_step(g, g->position[chips[k]], d, true);
        bool first = k == 0;
        CHECK(first && !g->wraps[d] ? back == TU_NONE : back == g->position[chips[first ? g->size[d] - 1 : k - 1]],
              "%s: step back", name);
      }
    }
    free(chips);
    free(seen);
  }
}

/* Returns the same cluster with its chips in random order and, unless `coords`, without their coordinates. */
static struct tu_cluster *shuffled(const struct tu_cluster *c, uint64_t *seed, bool coords) {
  struct tu_cluster *out = tu_cluster_create(c->name);
  uint32_t *order = tu_allocate(c->chip_count, sizeof *order), *at = tu_allocate(c->chip_count, sizeof *at);
  for (uint32_t i = 0; i < c->chip_count; i++) {
    uint32_t k = below(seed, i + 1);
    order[i] = order[k];
    order[k] = i;
  }
  for (uint32_t i = 0; i < c->chip_count; i++) {
    struct tu_node node = c->nodes[order[i]];
    node.id = i;
    node.has_coords &= coords;
    at[order[i]] = tu_cluster_add(out, &node);
  }
  for (uint32_t l = 0; l < c->link_count; l++) {
    struct tu_cluster_link_end a = c->links[l].ends[0], b = c->links[l].ends[1];
    a.node = at[a.node], b.node = at[b.node];
    tu_cluster_connect(out, a, b);
  }
  free(order);
  free(at);
  if (tu_cluster_index(out) != TU_NONE) abort();
  return out;
}

static void generated(void) {
  static const struct {
    const char *what;
    uint32_t dims, size[4], wraps; /* wraps: bit mask: bit d is set if dimension d wraps */
  } cases[] = {
      {"ring:1", 1, {1}, 0},
      {"ring:2", 1, {2}, 0},
      {"line:5", 1, {5}, 0},
      {"ring:7", 1, {7}, 1},
      {"mesh:2x4", 2, {4, 2}, 0},
      {"mesh:4x8", 2, {8, 4}, 0},
      {"torus:4x8", 2, {8, 4}, 3},
      {"torus:2x6", 2, {6, 2}, 1},
      {"mesh:3x3", 2, {3, 3}, 0},
      {"torus:5x5", 2, {5, 5}, 3},
      {"mesh:16x16", 2, {16, 16}, 0},
      {"torus:16x24", 2, {24, 16}, 3},
      {"mesh:2x2", 2, {2, 2}, 0},
      {"torus:3x3", 2, {3, 3}, 3},
      {"mesh:32x32", 2, {32, 32}, 0},
      {"torus:4x4x4", 3, {4, 4, 4}, 7},
      {"mesh:2x3x4x5", 4, {5, 4, 3, 2}, 0},
      {"mesh:1x6", 1, {6}, 0},
  };
  uint64_t seed = test_seed();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int how = 0; how < 3; how++) {
      struct tu_cluster *plain = cluster_of(cases[i].what);
      struct tu_cluster *c = how ? shuffled(plain, &seed, how == 1) : plain;
      struct tu_grid g;
      tu_grid_find(c, &g);
      uint32_t wraps = 0;
      for (uint32_t d = 0; d < g.dims; d++) wraps |= (uint32_t)g.wraps[d] << d;
      /* the chips' coordinates were removed: the search may swap the two dimensions, and finds no more than two */
      bool searched = how == 2;
      /* a 2x2 mesh is also a ring, so four chips may give either */
      if (!searched || (cases[i].dims <= 2 && c->chip_count != 4)) {
        bool same = g.dims == cases[i].dims && memcmp(g.size, cases[i].size, g.dims * sizeof g.size[0]) == 0;
        CHECK(same && wraps == cases[i].wraps, "%s (%d): %u dimensions, %ux%u, wraps %u", cases[i].what, how, g.dims,
              g.size[0], g.size[1], wraps);
      }
      if (g.dims) check_grid(c, &g, cases[i].what);
      if (g.dims && cases[i].dims <= 2 && c->chip_count > 1 && c->chip_count != 4)
        CHECK(tu_grid_is_all(&g, c) == 1, "%s: has pairs beside the grid", cases[i].what);
      tu_grid_fini(&g);
      if (c != plain) tu_cluster_destroy(plain);
      tu_cluster_destroy(c);
    }
}

/* Wrong coordinates, a missing link, an extra chip. */
static void not_a_grid(void) {
  struct tu_grid g;
  struct tu_cluster *c = cluster_of("mesh:3x4");
  c->nodes[0].coords[0] = 1; /* two chips with the same coordinates: the search finds the grid anyway */
  tu_grid_find(c, &g);
  CHECK(g.dims == 2, "wrong coordinates: %u dimensions", g.dims);
  check_grid(c, &g, "wrong coordinates");
  tu_grid_fini(&g);
  tu_cluster_destroy(c);

  static const char *const none[] = {"hosts:2x4", "fat-tree:2x3"};
  for (size_t i = 0; i < 2; i++) {
    c = cluster_of(none[i]);
    tu_grid_find(c, &g);
    CHECK(g.dims == 0, "%s is no grid", none[i]);
    tu_cluster_destroy(c);
  }
  /* One link of a 3x3 mesh is reserved. The rest is not a grid, because a 3x3 mesh needs all its links. */
  c = cluster_reserved("mesh:3x3", "0:1");
  tu_grid_find(c, &g);
  CHECK(g.dims == 0, "a mesh without a link: %u dimensions", g.dims);
  tu_cluster_destroy(c);
  /* One link of a torus is reserved: the cluster no longer wraps in the dimension of this link, but still wraps in the
   * other one. */
  c = cluster_reserved("torus:4x6", "0:0");
  tu_grid_find(c, &g);
  CHECK(g.dims == 2 && !g.wraps[0] && g.wraps[1] && tu_grid_is_all(&g, c) == 0, "a torus without a link");
  check_grid(c, &g, "a torus without a link");
  tu_grid_fini(&g);
  tu_cluster_destroy(c);
}

/* Returns true if the chips can be arranged as a grid of rows x cols, by trying all arrangements. at[]: the chips at
 * the first `depth` positions. */
static bool brute(const struct tu_cluster *c, uint32_t rows, uint32_t cols, uint32_t at[], uint32_t depth) {
  if (depth == rows * cols) return true;
  for (uint32_t chip = 0; chip < c->chip_count; chip++) {
    bool fits = true;
    for (uint32_t k = 0; k < depth; k++) fits &= at[k] != chip;
    if (depth % cols) fits = fits && tu_cluster_usable(c, chip, at[depth - 1]);
    if (depth >= cols) fits = fits && tu_cluster_usable(c, chip, at[depth - cols]);
    at[depth] = chip;
    if (fits && brute(c, rows, cols, at, depth + 1)) return true;
  }
  return false;
}

static void against_brute_force(void) {
  uint64_t seed = test_seed();
  uint32_t found = 0, rounds = test_long() ? 3000 : 300;
  for (uint32_t round = 0; round < rounds; round++) {
    static const uint32_t shapes[][2] = {{2, 2}, {2, 3}, {2, 4}, {3, 3}, {2, 5}};
    const uint32_t *shape = shapes[below(&seed, 5)];
    uint32_t chips = shape[0] * shape[1], at[16];
    struct tu_cluster *c = cluster_random(&seed, chips, 30 + below(&seed, 40), 2);
    struct tu_grid g;
    tu_grid_find(c, &g);
    bool expected = brute(c, shape[0], shape[1], at, 0);
    bool line = g.dims == 1;
    CHECK(line || (g.dims == 2) == expected, "round %u, %u chips: %u dimensions, brute force says %d", round, chips,
          g.dims, expected);
    if (g.dims) check_grid(c, &g, "random");
    found += g.dims == 2;
    tu_grid_fini(&g);
    tu_cluster_destroy(c);
  }
  printf("  %u of %u are grids\n", found, rounds);
  CHECK(found > 0 && found < rounds, "all cases are alike");
}

static void on_files(bool own) {
  static const struct {
    const char *file;
    uint32_t dims, size[2], wraps;
  } cases[] = {
      {"own/eight.yaml", 2, {4, 2}, 0},
      {"own/pair.yaml", 1, {2}, 0},
      {"own/express.textproto", 2, {3, 6}, 3},
      {"own/ports.yaml", 0, {0}, 0},
      {"t3k_cluster_desc.yaml", 2, {4, 2}, 0},
      {"6u_cluster_desc.yaml", 2, {8, 4}, 0},
      {"blackhole_4xP150.yaml", 1, {4}, 1},
      {"wormhole_N300.yaml", 1, {2}, 0},
      {"wormhole_N150.yaml", 1, {1}, 0},
      {"mesh/quanta_galaxy_torus_2d_graph_descriptor.yaml", 2, {4, 8}, 3},
      {"mesh/dual_galaxy_mesh_graph_descriptor.yaml", 2, {8, 8}, 0},
      {"mesh/tg_mesh_graph_descriptor.yaml", 0, {0}, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    if (cluster_is_own(cases[i].file) != own) continue;
    struct tu_cluster *c = cluster_shared(cases[i].file);
    if (!c) continue;
    struct tu_grid g;
    tu_grid_find(c, &g);
    uint32_t wraps = (uint32_t)g.wraps[0] | (uint32_t)g.wraps[1] << 1;
    CHECK(g.dims == cases[i].dims && g.size[0] == cases[i].size[0] && g.size[1] == cases[i].size[1] &&
              wraps == cases[i].wraps,
          "%s: %u dimensions, %u and %u, wraps %u", cases[i].file, g.dims, g.size[0], g.size[1], wraps);
    if (g.dims) check_grid(c, &g, cases[i].file);
    tu_grid_fini(&g);
    tu_cluster_destroy(c);
  }
}
static void own_clusters(void) { on_files(true); }
static void real_clusters(void) { on_files(false); }

/* Adds up to three links between distant chips of a grid: tu_grid_beyond must return exactly these pairs. They are too
 * few to make a grid of another shape. */
static void beyond(void) {
  static const char *const grids[] = {"mesh:4x5", "torus:4x5", "torus:3x3x4", "ring:8"};
  uint64_t seed = test_seed();
  for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++)
    for (uint32_t round = 0; round < 20; round++) {
      struct tu_cluster *plain = cluster_of(grids[i]), *c = tu_cluster_create("test");
      uint32_t chips = plain->chip_count, wanted = below(&seed, 4), added = 0, far[4][2], channel = 100;
      for (uint32_t n = 0; n < chips; n++) tu_cluster_add(c, &plain->nodes[n]);
      for (uint32_t l = 0; l < plain->link_count; l++)
        tu_cluster_connect(c, plain->links[l].ends[0], plain->links[l].ends[1]);
      for (uint32_t k = 0; k < wanted; k++, channel++) {
        uint32_t a = below(&seed, chips), b = below(&seed, chips);
        bool again = a == b || tu_cluster_pair(plain, a, b);
        for (uint32_t f = 0; f < added; f++) again |= far[f][0] == tu_min(a, b) && far[f][1] == tu_max(a, b);
        if (again) continue;
        far[added][0] = (uint32_t)tu_min(a, b), far[added++][1] = (uint32_t)tu_max(a, b);
        tu_cluster_connect(c, (struct tu_cluster_link_end){a, channel}, (struct tu_cluster_link_end){b, channel});
      }
      if (tu_cluster_index(c) != TU_NONE) abort();
      struct tu_grid grid;
      uint32_t pairs[4][2] = {{0}}, found;
      tu_grid_find(c, &grid);
      found = tu_grid_beyond(&grid, c, pairs, 4);
      CHECK(grid.dims > 0 && found == added, "%s: %u of %u", grids[i], found, added);
      for (uint32_t f = 0; f < found; f++) {
        bool known = false;
        for (uint32_t k = 0; k < added; k++) known |= pairs[f][0] == far[k][0] && pairs[f][1] == far[k][1];
        CHECK(known, "%s: %u-%u", grids[i], pairs[f][0], pairs[f][1]);
      }
      tu_grid_fini(&grid);
      tu_cluster_destroy(plain);
      tu_cluster_destroy(c);
    }
}

static const struct test tests[] = {
    {"generated", generated},       {"not a grid", not_a_grid},       {"against brute force", against_brute_force},
    {"own clusters", own_clusters}, {"real clusters", real_clusters}, {"beyond", beyond},
};
int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
