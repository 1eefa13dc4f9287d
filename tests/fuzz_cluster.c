/* fuzz_cluster.c: libFuzzer entry for the readers of clusters, mesh graphs and core descriptions of chips. Short texts
 * without a line end are read as names of generators and as lists of reserved links. All queries of a cluster that was
 * read must succeed. Built with -fsanitize=fuzzer; seeds in tests/fuzz_seeds/cluster. */
#include <stdlib.h>
#include <string.h>

#include "topology/measure.h"
#include "topology/ring.h"
#include "topology/route.h"
#include "topology/soc.h"

/* larger inputs would only be slow */
enum { CHIPS_MAX = 24, LINKS_MAX = 400, BYTES_MAX = 1 << 15, NAME_MAX_CHARS = 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void ask(struct tu_cluster *c) {
  struct tu_grid grid;
  struct tu_ring ring;
  struct tu_walk walk;
  struct tu_router *router;
  struct tu_error error;
  uint32_t *nodes = tu_allocate(c->node_count, sizeof *nodes);
  tu_grid_find(c, &grid);
  tu_ring_find(c, &grid, &ring);
  struct tu_bounds cut = tu_cluster_bisection(c, &grid), wide = tu_cluster_diameter(c, &grid);
  tu_assert(cut.low <= cut.high && wide.low <= wide.high);
  if (c->chip_count < 8 && tu_walk_find(c, c->chip_count + 1, &walk, &error) == TUTTI_OK) tu_walk_fini(&walk);
  for (int r = TU_SHORTEST; r <= TU_DIMENSION_ORDER; r++) {
    if (tu_router_create(c, &grid, (enum tu_routing)r, &router, &error) != TUTTI_OK) continue;
    uint32_t hops = tu_router_route(router, 0, c->chip_count - 1, nodes);
    tu_assert(hops == TU_NONE || nodes[hops] == c->chip_count - 1);
    struct tu_loads loads;
    tu_loads_init(&loads, router);
    for (uint32_t from = 0; from < c->node_count; from++) {
      uint32_t length = tu_loads_add(&loads, from, 0, from, 1);
      tu_assert(length == TU_NONE || length == 0 || tu_directed_to(c, loads.links[length - 1]).node == 0);
    }
    tu_loads_fini(&loads);
    tu_router_destroy(router);
  }
  if (!tu_cluster_reach(c, nodes, NULL)) abort();
  tu_ring_fini(&ring);
  tu_grid_fini(&grid);
  free(nodes);
}

static void read_name(const uint8_t *data, size_t bytes) {
  char name[NAME_MAX_CHARS + 1] = "";
  struct tu_cluster *c;
  struct tu_error error;
  memcpy(name, data, bytes);
  if (tu_cluster_generate(name, &c, &error) == TUTTI_OK && c && c->chip_count <= CHIPS_MAX &&
      c->link_count <= LINKS_MAX)
    ask(c);
  tu_cluster_destroy(c);
  if (tu_cluster_preset("t3000", &c, &error) == TUTTI_OK && tu_cluster_reserve(c, name, &error) == TUTTI_OK) ask(c);
  tu_cluster_destroy(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct tu_cluster *c;
  struct tu_soc *soc;
  struct tu_error error;
  if (bytes > BYTES_MAX) return 0;
  if (bytes <= NAME_MAX_CHARS && !memchr(data, '\n', bytes)) read_name(data, bytes);
  if (tu_cluster_read((const char *)data, bytes, "fuzz", &c, &error) == TUTTI_OK) {
    if (c->chip_count <= CHIPS_MAX && c->link_count <= LINKS_MAX) {
      ask(c);
      tu_assert(tu_cluster_reserve(c, "dispatch", &error) == TUTTI_OK);
      ask(c);
    }
    tu_cluster_destroy(c);
  } else {
    tu_assert(error.text[0]);
  }
  if (tu_soc_read((const char *)data, bytes, "fuzz", &soc, &error) == TUTTI_OK) tu_soc_destroy(soc);
  return 0;
}
