/* scatter, direct: the root sends every rank its block, from its neighbour on, so that several roots do not all begin at the
 * same rank. (N-1)(alpha + beta m) at the root. */
#include "algo/parts.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b);
  for (uint32_t i = 1; i <= n; i++) {
    uint32_t rank = (root + i) % n;
    tu_move(b, tu_at(root, tu_in(rank, 1)), tu_at(rank, tu_out(0, 1)));
  }
}

const struct tu_algorithm tu_algo_scatter_direct = {
    .collective = TUTTI_SCATTER,
    .name = "direct",
    .summary = "the root sends every rank its block, from its neighbour on",
    .build = build,
};
