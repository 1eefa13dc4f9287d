/* ring_test.c: tests rings, lines and tours against brute force on small graphs, against theory on known graphs, and in
 * real clusters; and measures the search on graphs that were designed to be hard. */
#include "topology/ring.h"

#include "clusters.h"
#include "topology/hamilton.h"

static uint32_t kind_counts[4];

/* Checks that the result has the properties of its kind (ring, line, tour). */
static void check_ring(const struct tu_cluster *c, const struct tu_ring *r, const char *name) {
  uint32_t n = c->chip_count, hops = r->kind == TU_RING ? n : n - 1, least = UINT32_MAX;
  bool *seen = tu_allocate(n, sizeof *seen);
  kind_counts[r->kind]++;
  for (uint32_t i = 0; i < n; i++) {
    CHECK(r->order[i] < n && !seen[r->order[i]], "%s: chip %u stands twice", name, r->order[i]);
    seen[r->order[i]] = true;
  }
  free(seen);
  if (r->kind == TU_APART || r->kind == TU_TOUR || n == 1) return;
  CHECK(r->hops == hops, "%s: %u hops for %u chips", name, r->hops, n);
  for (uint32_t i = 0; i < hops; i++) {
    uint32_t usable = tu_cluster_usable(c, r->order[i], r->order[(i + 1) % n]);
    CHECK(usable > 0, "%s: %u and %u are not linked", name, r->order[i], r->order[(i + 1) % n]);
    if (usable < least) least = usable;
  }
  CHECK(r->links == least, "%s: %u links a hop, but %u", name, r->links, least);
  CHECK(r->order[0] == 0 || r->kind == TU_LINE, "%s: begins at %u", name, r->order[0]);
}

static void find(const struct tu_cluster *c, struct tu_ring *ring) {
  struct tu_grid grid;
  tu_grid_find(c, &grid);
  tu_ring_find(c, &grid, ring);
  tu_grid_fini(&grid);
}

/* Finds a ring, line or tour by search only, without knowing a grid. */
static void search(const struct tu_cluster *c, struct tu_ring *ring) {
  struct tu_grid none = {0};
  tu_ring_find(c, &none, ring);
}

/* Tries all orders of the chips: is there a ring, is there a line, and how many hops has the shortest tour? */
struct brute {
  uint32_t *distance, order[10], n, nodes, best_tour;
  bool ring, line;
};
static void try_orders(struct brute *b, uint32_t depth, uint32_t hops) {
  if (depth == b->n) {
    uint32_t last = b->distance[b->order[b->n - 1] * b->nodes + b->order[0]];
    if (hops == b->n - 1) b->line = true;
    if (hops + last == b->n && b->n > 1) b->ring = true;
    if (hops + last < b->best_tour) b->best_tour = hops + last;
    return;
  }
  for (uint32_t i = depth; i < b->n; i++) {
    uint32_t chip = b->order[i];
    b->order[i] = b->order[depth];
    b->order[depth] = chip;
    uint32_t more = depth == 0 ? 0 : b->distance[b->order[depth - 1] * b->nodes + chip];
    if (hops + more < TU_NONE / 4) try_orders(b, depth + 1, hops + more);
    b->order[depth] = b->order[i];
    b->order[i] = chip;
  }
}

static void against_brute_force(void) {
  uint64_t seed = test_seed();
  uint32_t rounds = test_long() ? 4000 : 400;
  for (uint32_t round = 0; round < rounds; round++) {
    uint32_t n = 2 + below(&seed, 7);
    struct tu_cluster *c = cluster_random(&seed, n, 15 + below(&seed, 60), 3);
    struct brute b = {.distance = cluster_distances(c), .n = n, .nodes = n, .best_tour = TU_NONE};
    for (uint32_t i = 0; i < n; i++) b.order[i] = i;
    try_orders(&b, 0, 0);
    struct tu_ring r;
    search(c, &r);
    check_ring(c, &r, "random");
    enum tu_ring_kind expected = b.ring ? TU_RING : b.line ? TU_LINE : b.best_tour < TU_NONE ? TU_TOUR : TU_APART;
    CHECK(r.kind == expected, "round %u: kind %d, brute force says %d", round, (int)r.kind, (int)expected);
    CHECK(r.kind == TU_RING || r.proved, "round %u: not proved", round);
    if (r.kind == TU_TOUR)
      CHECK(r.hops == b.best_tour, "round %u: a tour of %u hops, not %u", round, r.hops, b.best_tour);
    tu_ring_fini(&r);
    free(b.distance);
    tu_cluster_destroy(c);
  }
  printf("  %u rings, %u lines, %u tours, %u apart\n", kind_counts[0], kind_counts[1], kind_counts[2], kind_counts[3]);
  for (int k = 0; k < 4; k++) CHECK(kind_counts[k] > 0, "no case of kind %d came up", k);
}

/* Tests rings that theory predicts: tori, and meshes with an even number of chips, have a ring; meshes with an odd
 * number of chips have only a line. */
static void by_theory(void) {
  static const struct {
    const char *what;
    enum tu_ring_kind kind;
    uint32_t hops;
  } cases[] = {
      {"ring:1", TU_RING, 0},           {"ring:2", TU_RING, 2},
      {"ring:3", TU_RING, 3},           {"ring:32", TU_RING, 32},
      {"ring:1000", TU_RING, 1000},     {"line:2", TU_RING, 2},
      {"line:3", TU_LINE, 2},           {"line:32", TU_LINE, 31},
      {"line:500", TU_LINE, 499},       {"mesh:2x4", TU_RING, 8},
      {"mesh:4x8", TU_RING, 32},        {"mesh:3x3", TU_LINE, 8},
      {"mesh:5x6", TU_RING, 30},        {"mesh:6x5", TU_RING, 30},
      {"mesh:5x5", TU_LINE, 24},        {"mesh:3x3x3", TU_LINE, 26},
      {"mesh:3x3x2", TU_RING, 18},      {"torus:3x3", TU_RING, 9},
      {"torus:5x5", TU_RING, 25},       {"torus:3x3x3", TU_RING, 27},
      {"torus:4x8", TU_RING, 32},       {"torus:7x9", TU_RING, 63},
      {"torus:9x9", TU_RING, 81},       {"torus:5x7x9", TU_RING, 315},
      {"mesh:9x9", TU_LINE, 80},        {"mesh:7x9x4", TU_RING, 252},
      {"torus:8x8x8x8", TU_RING, 4096}, {"mesh:16x16", TU_RING, 256},
      {"torus:3x3x3x3", TU_RING, 81},   {"mesh:2x3x5x7", TU_RING, 210},
      {"fat-tree:2x1", TU_TOUR, 4},     {"fat-tree:4x2", TU_TOUR, 40},
      {"hosts:2x4", TU_TOUR, 20},       {"mesh:1x1", TU_RING, 0},
      {"mesh:1x2", TU_RING, 2},         {"mesh:1x7", TU_LINE, 6},
      {"hosts:1x3", TU_TOUR, 6},        {"torus:256x256", TU_RING, 65536},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct tu_cluster *c = cluster_of(cases[i].what);
    struct tu_ring r;
    find(c, &r);
    check_ring(c, &r, cases[i].what);
    CHECK(r.kind == cases[i].kind && r.hops == cases[i].hops, "%s: kind %d of %u hops", cases[i].what, (int)r.kind,
          r.hops);
    if (r.kind != TU_RING && c->chip_count > 1) CHECK(r.proved, "%s: not proved", cases[i].what);
    tu_ring_fini(&r);
    tu_cluster_destroy(c);
  }
}

/* ---- hard graphs: cubic graphs (each vertex has three edges) without a ring, and others ---- */

struct pairs {
  uint32_t count;
  uint32_t pairs[600][2];
};
static void add(struct pairs *p, uint32_t a, uint32_t b) {
  p->pairs[p->count][0] = a;
  p->pairs[p->count++][1] = b;
}

/* Adds a generalised Petersen graph: an outer ring of n vertices, each linked to an inner vertex; inner vertices that
 * are k apart are linked. */
static void petersen(struct pairs *p, uint32_t n, uint32_t k) {
  for (uint32_t i = 0; i < n; i++) {
    add(p, i, (i + 1) % n);
    add(p, i, n + i);
    add(p, n + i, n + (i + k) % n);
  }
}

/* Adds a flower snark of 4n vertices: n stars, whose leaves are linked by a ring and a double ring. */
static void flower(struct pairs *p, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    uint32_t next = (i + 1) % n;
    for (uint32_t leaf = 1; leaf <= 3; leaf++) add(p, 4 * i, 4 * i + leaf);
    add(p, 4 * i + 1, 4 * next + 1);
    bool crossed = next == 0;
    add(p, 4 * i + 2, 4 * next + (crossed ? 3 : 2));
    add(p, 4 * i + 3, 4 * next + (crossed ? 2 : 3));
  }
}

/* Adds Coxeter's graph: vertices are the triples of 7 points that are no lines of the Fano plane; disjoint triples are
 * linked. */
static void coxeter(struct pairs *p) {
  uint32_t triples[28], count = 0;
  for (uint32_t set = 0; set < 128; set++) {
    bool line = false;
    for (uint32_t i = 0; i < 7; i++) line |= set == ((1u << i) | (1u << (i + 1) % 7) | (1u << (i + 3) % 7));
    if (__builtin_popcount(set) == 3 && !line) triples[count++] = set;
  }
  for (uint32_t a = 0; a < count; a++)
    for (uint32_t b = a + 1; b < count; b++)
      if (!(triples[a] & triples[b])) add(p, a, b);
}

/* Links `few` vertices to each other and to `many` others, which are not linked to each other. With many > few there is
 * no ring. */
static void star_like(struct pairs *p, uint32_t few, uint32_t many) {
  for (uint32_t a = 0; a < few; a++)
    for (uint32_t b = a + 1; b < few + many; b++) add(p, a, b);
}

/* Adds three complete graphs that are all linked to the same two vertices. There is no ring, because removing the two
 * vertices leaves three parts. */
static void three_lobes(struct pairs *p, uint32_t lobe) {
  for (uint32_t l = 0; l < 3; l++)
    for (uint32_t a = 0; a < lobe; a++) {
      for (uint32_t b = a + 1; b < lobe; b++) add(p, 2 + l * lobe + a, 2 + l * lobe + b);
      add(p, 0, 2 + l * lobe + a);
      add(p, 1, 2 + l * lobe + a);
    }
}

/* Adds `lobes` parts that are almost complete graphs, and that are connected only through `cut` vertices. */
static void many_lobes(struct pairs *p, uint32_t cut, uint32_t lobes, uint32_t lobe) {
  for (uint32_t l = 0; l < lobes; l++)
    for (uint32_t a = 0; a < lobe; a++) {
      for (uint32_t b = a + 1; b < lobe; b++) /* leave out some edges, so that not all vertices are alike */
        if (lobe < 5 || a + b != l + 1) add(p, cut + l * lobe + a, cut + l * lobe + b);
      for (uint32_t k = 0; k < cut; k++)
        if ((a * 7 + k * 3 + l) % 5 > 0) add(p, k, cut + l * lobe + a);
    }
}

static uint32_t hardest;
static void hard(const char *name, uint32_t chips, const struct pairs *p, enum tu_ring_kind kind) {
  struct tu_cluster *c = cluster_of_pairs(chips, p->pairs, p->count, 1);
  struct tu_ring r;
  search(c, &r);
  check_ring(c, &r, name);
  printf("  %-24s %2u chips: kind %d after %u tries\n", name, chips, (int)r.kind, r.tries);
  CHECK(r.kind == kind && (r.kind == TU_RING || r.proved), "%s: kind %d, proved %d, expected %d", name, (int)r.kind,
        (int)r.proved, (int)kind);
  if (r.tries > hardest) hardest = r.tries;
  tu_ring_fini(&r);
  tu_cluster_destroy(c);
}

static void hard_graphs(void) {
  struct pairs p;
#define HARD(name, chips, kind, ...) (p.count = 0, __VA_ARGS__, hard(name, chips, &p, kind))
  HARD("Petersen", 10, TU_LINE, petersen(&p, 5, 2));
  HARD("Petersen (11, 2)", 22, TU_LINE, petersen(&p, 11, 2));
  HARD("Petersen (12, 2)", 24, TU_RING, petersen(&p, 12, 2));
  HARD("Petersen (16, 5)", 32, TU_RING, petersen(&p, 16, 5));
  HARD("flower 5", 20, TU_LINE, flower(&p, 5));
  HARD("flower 7", 28, TU_LINE, flower(&p, 7));
  HARD("Coxeter", 28, TU_LINE, coxeter(&p));
  HARD("15 linked to 17", 32, TU_TOUR, star_like(&p, 15, 17));
  HARD("15 linked to 16", 31, TU_LINE, star_like(&p, 15, 16));
  HARD("16 linked to 16", 32, TU_RING, star_like(&p, 16, 16));
  HARD("three lobes", 32, TU_LINE, three_lobes(&p, 10));
  HARD("3 hold 4 lobes", 31, TU_LINE, many_lobes(&p, 3, 4, 7));
  HARD("3 hold 5 lobes", 28, TU_TOUR, many_lobes(&p, 3, 5, 5));
  HARD("4 hold 5 lobes", 29, TU_LINE, many_lobes(&p, 4, 5, 5));
  HARD("4 hold 6 lobes", 28, TU_TOUR, many_lobes(&p, 4, 6, 4));
  HARD("5 hold 6 lobes", 29, TU_LINE, many_lobes(&p, 5, 6, 4));
  HARD("6 hold 8 lobes", 30, TU_TOUR, many_lobes(&p, 6, 8, 3));
#undef HARD
  printf("  the hardest took %u tries\n", hardest);
}

/* Returns a random graph of dense parts that are connected only through a few chips. */
static struct tu_cluster *random_lobes(uint64_t *seed) {
  uint32_t chips = 20 + below(seed, 13), cut = 1 + below(seed, 7), lobes = 2 + below(seed, 9);
  uint32_t inside = 30 + below(seed, 71), outside = 20 + below(seed, 81), at_cut = below(seed, 101);
  static uint32_t pairs[32 * 31 / 2][2];
  uint32_t count = 0;
  for (uint32_t a = 0; a < chips; a++)
    for (uint32_t b = a + 1; b < chips; b++) {
      uint32_t percent = b < cut ? at_cut : a < cut ? outside : a % lobes == b % lobes ? inside : 0;
      if (below(seed, 100) >= percent) continue;
      pairs[count][0] = a;
      pairs[count++][1] = b;
    }
  return cluster_of_pairs(chips, (const uint32_t(*)[2])pairs, count, 1);
}

/* Tests random graphs of up to 32 chips: sparse ones, which are the hardest, and dense parts connected through a few
 * chips. The search must never give up. */
static void at_random(void) {
  uint64_t seed = test_seed();
  uint32_t rounds = test_long() ? 20000 : 1500, most = 0, kinds[4] = {0};
  for (uint32_t round = 0; round < rounds; round++) {
    struct tu_cluster *c =
        round % 2 ? random_lobes(&seed) : cluster_random(&seed, 20 + below(&seed, 13), 7 + below(&seed, 15), 2);
    struct tu_ring r;
    search(c, &r);
    check_ring(c, &r, "random");
    CHECK(r.kind == TU_RING || r.proved, "round %u: given up after %u tries", round, r.tries);
    kinds[r.kind]++;
    if (r.tries > most) most = r.tries;
    tu_ring_fini(&r);
    tu_cluster_destroy(c);
  }
  printf("  %u rings, %u lines, %u tours, %u apart; at most %u tries\n", kinds[0], kinds[1], kinds[2], kinds[3], most);
}

static void print_ring(const struct tu_cluster *c, const struct tu_ring *r, char *line, size_t bytes) {
  size_t length = 0;
  for (uint32_t i = 0; i < c->chip_count && length < bytes; i++)
    length += (size_t)snprintf(line + length, bytes - length, i ? "-%u" : "%u", c->nodes[r->order[i]].id);
}

static void on_files(bool own) {
  static const struct {
    const char *file, *reserve, *ring;
    uint32_t links;
  } cases[] = {
      {"own/eight.yaml", "none", "0-5-3-4-1-6-2-7", 2},
      {"own/eight.yaml", "dispatch", "0-5-3-4-1-6-2-7", 1},
      {"own/express.textproto", "none", NULL, 2},
      {"own/pair.yaml", "dispatch", "0-1", 1},
      {"t3k_cluster_desc.yaml", "none", "0-2-6-7-3-1-5-4", 2},
      {"t3k_cluster_desc.yaml", "dispatch", "0-2-6-7-3-1-5-4", 1},
      {"wormhole_N300.yaml", "dispatch", "0-1", 1},
      {"blackhole_4xP150.yaml", "none", "0-2-1-3", 4},
      {"6u_cluster_desc.yaml", "none", NULL, 4},
      {"mesh/t3k_mesh_graph_descriptor.yaml", "none", "0-1-2-3-7-6-5-4", 2},
      {"mesh/quanta_galaxy_torus_2d_graph_descriptor.yaml", "none", NULL, 4},
      {"mesh/dual_galaxy_mesh_graph_descriptor.yaml", "none", NULL, 1},
      {"mesh/tg_mesh_graph_descriptor.yaml", "none", NULL, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    if (cluster_is_own(cases[i].file) != own) continue;
    struct tu_cluster *c = cluster_shared(cases[i].file);
    if (!c) continue;
    struct tu_ring r;
    char line[400];
    if (tu_cluster_reserve(c, cases[i].reserve, NULL) != TUTTI_OK) FAIL("%s", cases[i].file);
    find(c, &r);
    check_ring(c, &r, cases[i].file);
    CHECK(r.kind == TU_RING && r.links == cases[i].links, "%s: kind %d, %u links", cases[i].file, (int)r.kind, r.links);
    print_ring(c, &r, line, sizeof line);
    if (cases[i].ring) CHECK(strcmp(line, cases[i].ring) == 0, "%s: %s", cases[i].file, line);
    tu_ring_fini(&r);
    tu_cluster_destroy(c);
  }
}
static void own_clusters(void) { on_files(true); }
static void real_clusters(void) { on_files(false); }

static const struct test tests[] = {
    {"against brute force", against_brute_force},
    {"by theory", by_theory},
    {"hard graphs", hard_graphs},
    {"at random", at_random},
    {"own clusters", own_clusters},
    {"real clusters", real_clusters},
};
int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
