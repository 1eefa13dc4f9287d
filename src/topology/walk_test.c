/* walk_test.c: checks that each hop of a closed walk has a link of its own, or that the error names the pair of chips
 * with too few links; compares with brute force on small graphs. */
#include "clusters.h"
#include "topology/hamilton.h"
#include "topology/ring.h"

static void check_walk(const struct tu_cluster *c, const struct tu_walk *w, uint32_t hops, const char *name) {
  CHECK(w->hops == hops, "%s: %u hops, not %u", name, w->hops, hops);
  bool *used = tu_allocate(c->link_count + 1, sizeof *used), *seen = tu_allocate(c->chip_count, sizeof *seen);
  uint32_t visited = 0;
  for (uint32_t i = 0; i < w->hops; i++) {
    uint32_t from = w->chips[i], to = w->chips[(i + 1) % hops], l = w->links[i];
    const struct tu_cluster_link *link = &c->links[l];
    bool there = (link->ends[0].node == from && link->ends[1].node == to) ||
                 (link->ends[1].node == from && link->ends[0].node == to);
    CHECK(there && !link->reserved, "%s: hop %u: link %u does not lead from %u to %u", name, i, l, from, to);
    CHECK(!used[l], "%s: link %u is used twice", name, l);
    used[l] = true;
    if (!seen[from]) seen[from] = true, visited++;
  }
  CHECK(visited == (hops < c->chip_count ? hops : c->chip_count), "%s: %u chips visited", name, visited);
  free(used);
  free(seen);
}

static void found(const char *what, const char *reserve, uint32_t hops) {
  struct tu_cluster *c = cluster_reserved(what, reserve);
  struct tu_walk w;
  struct tu_error error = {.text = ""};
  char name[100];
  snprintf(name, sizeof name, "%s, reserve %s, %u hops", what, reserve, hops);
  tutti_err err = tu_walk_find(c, hops, &w, &error);
  CHECK(err == TUTTI_OK, "%s: %s", name, error.text);
  if (err == TUTTI_OK) check_walk(c, &w, hops, name);
  tu_walk_fini(&w);
  tu_cluster_destroy(c);
}

static void refused(const char *what, const char *reserve, uint32_t hops, const char *facts) {
  struct tu_cluster *c = cluster_reserved(what, reserve);
  struct tu_walk w;
  struct tu_error error = {.text = ""};
  CHECK(tu_walk_find(c, hops, &w, &error) == TUTTI_ERR_ARGUMENT && test_contains(error.text, facts),
        "%s, %u hops: '%s'", what, hops, error.text);
  tu_cluster_destroy(c);
}

static void known(void) {
  /* 2, 4, 8 and 12 hops are the cases of the ring benchmark; 20 hops use all links of the machine. */
  for (uint32_t hops = 2; hops <= 20; hops += 2) found("t3000", "none", hops);
  for (uint32_t hops = 4; hops <= 12; hops += 2) found("t3000", "dispatch", hops);
  found("galaxy", NULL, 32);
  found("galaxy", NULL, 40);
  found("galaxy", NULL, 64);
  found("galaxy-torus", NULL, 33 + 1);
  found("ring:8:2", NULL, 16);
  found("ring:5:2", NULL, 10);
  found("ring:5:3", NULL, 15);
  found("line:4:2", NULL, 6);
  found("torus:3x3", NULL, 11);
  found("torus:5x5x5", NULL, 125);
  found("torus:5x5x5:2", NULL, 130);
  found("torus:5x5x5:2", NULL, 131);
  found("torus:16x16x8", NULL, 2048);
  found("torus:16x16x8:2", NULL, 3000);
  found("mesh:3x3:2", NULL, 10);
}

static void none(void) {
  refused("n300", NULL, 2, "no walk|of 2 hops|chips 0 and 1|needs 2|found 1 usable");
  refused("ring:8", NULL, 16, "no walk|of 16 hops|chips 0 and 1|needs 2|found 1 usable");
  /* A walk leaves each chip as often as it enters it. So here it can cross each outer pair, and every second inner
   * pair, only once. */
  refused("t3000", "dispatch", 14, "no walk|of 14 hops|chips 1 and 2|needs 3|found 2 usable");
  refused("t3000", "none", 13, "no walk|of 13 hops|each link");
  refused("line:3", NULL, 4, "no walk|of 4 hops|chips 1 and 2|needs 2|found 1 usable");
  refused("mesh:2x4", NULL, 3, "no walk|of 3 hops|different chip");
  refused("ring:8", NULL, 1, "closed walk|2 to 65536 hops|found 1");
  refused("hosts:2x2", NULL, 4, "no walk|of 4 hops|each link");
  struct tu_cluster *c = cluster_of("t3000");
  struct tu_walk w;
  struct tu_error error;
  static const uint32_t inner[] = {0, 4, 5, 1, 2, 3, 0, 1, 2, 6, 7, 3};
  /* The walk of twelve hops in Tenstorrent's multi-chip guide, with the guide's numbers of the chips. */
  CHECK(tu_walk_assign(c, inner, 12, &w, &error) == TUTTI_OK, "twelve hops: %s", error.text);
  check_walk(c, &w, 12, "twelve hops");
  tu_walk_fini(&w);
  static const struct {
    uint32_t chips[8], hops;
    const char *facts;
  } cases[] = {
      {{0, 4, 0, 4}, 4, "chips 0 and 4|needs 4|found 1 usable"},
      {{0, 2, 1, 3}, 4, "hop 0|chips 0 and 2|no usable"},
      {{0, 0}, 2, "hop 0|chips 0 and 0|no usable"},
      {{0}, 1, "closed walk|2 hops|found 1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    CHECK(tu_walk_assign(c, cases[i].chips, cases[i].hops, &w, &error) == TUTTI_ERR_ARGUMENT &&
              test_contains(error.text, cases[i].facts),
          "'%s'", error.text);
  tu_cluster_destroy(c);
}

/* Returns true if a closed walk of `hops` hops begins with the chips in path[]; tries all of them. A walk with fewer
 * hops than there are chips must not repeat a chip. */
static bool brute(const struct tu_cluster *c, uint32_t used[8][8], uint32_t path[], uint32_t hop, uint32_t hops) {
  uint32_t at = path[hop], n = c->chip_count, seen = 0;
  for (uint32_t i = 0; i <= hop; i++) seen |= 1u << path[i];
  if (hop == hops) return at == path[0] && (hops < n || seen == (1u << n) - 1);
  for (uint32_t next = 0; next < n; next++) {
    bool again = seen >> next & 1;
    if (hops < n && again && !(hop + 1 == hops && next == path[0])) continue;
    if (next == at || used[at][next] >= tu_cluster_usable(c, at, next)) continue;
    used[at][next] = ++used[next][at];
    path[hop + 1] = next;
    bool is = brute(c, used, path, hop + 1, hops);
    used[at][next] = --used[next][at];
    if (is) return true;
  }
  return false;
}

static void against_brute_force(void) {
  uint64_t seed = test_seed();
  uint32_t rounds = test_long() ? 3000 : 400, there = 0;
  for (uint32_t round = 0; round < rounds; round++) {
    uint32_t n = 2 + below(&seed, 4), hops = 2 + below(&seed, 7), path[12];
    struct tu_cluster *c = cluster_random(&seed, n, 40 + below(&seed, 60), 3);
    bool expected = false;
    for (uint32_t start = 0; start < (hops < n ? n : 1) && !expected; start++) {
      uint32_t used[8][8] = {{0}};
      path[0] = start;
      expected = brute(c, used, path, 0, hops);
    }
    struct tu_walk w;
    struct tu_error error = {.text = ""};
    tutti_err err = tu_walk_find(c, hops, &w, &error);
    CHECK((err == TUTTI_OK) == expected, "round %u: %u chips, %u hops: brute force says %d; %s", round, n, hops,
          expected, error.text);
    CHECK(err == TUTTI_OK || !strstr(error.text, "gave up"), "round %u: given up", round);
    if (err == TUTTI_OK) check_walk(c, &w, hops, "random");
    there += err == TUTTI_OK;
    tu_walk_fini(&w);
    tu_cluster_destroy(c);
  }
  printf("  %u of %u have a walk\n", there, rounds);
  CHECK(there > 0 && there < rounds, "all cases are alike");
}

static void walk_eight(const char *file) {
  struct tu_cluster *c = cluster_shared(file);
  if (!c) return;
  static const uint32_t hops[] = {2, 4, 8, 12};
  static const char *const reserve[] = {"none", "dispatch"};
  for (size_t i = 0; i < 8; i++) {
    struct tu_walk w;
    struct tu_error error;
    if (tu_cluster_reserve(c, reserve[i % 2], &error) != TUTTI_OK) FAIL("%s", error.text);
    tutti_err err = tu_walk_find(c, hops[i / 2], &w, &error);
    CHECK(err == TUTTI_OK, "%u hops: %s", hops[i / 2], error.text);
    if (err == TUTTI_OK) check_walk(c, &w, hops[i / 2], file);
    tu_walk_fini(&w);
  }
  tu_cluster_destroy(c);
}
static void own_cluster(void) { walk_eight("own/eight.yaml"); }
static void real_cluster(void) { walk_eight("t3k_cluster_desc.yaml"); }

static const struct test tests[] = {{"known", known},
                                    {"none", none},
                                    {"against brute force", against_brute_force},
                                    {"own cluster", own_cluster},
                                    {"real cluster", real_cluster}};
int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
