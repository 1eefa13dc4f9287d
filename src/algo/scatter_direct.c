/* scatter_direct.c: the root sends every rank its block, in the order root + 1, root + 2, ... (modulo N), so that
 * different roots of concurrent calls do not send to the same rank first.
 * Cost for blocks of m bytes: (N-1)(alpha + beta m) at the root. */
#include "algo/phases.h"

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
    .summary = "the root sends every rank its block, its neighbour first",
    .build = build,
};
