/* scatter_naive.c: the root sends every rank its block, one after the other in rank order.
 * Cost for blocks of m bytes: (N-1)(alpha + beta m). */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b);
  for (uint32_t rank = 0; rank < n; rank++) tu_move(b, tu_at(root, tu_in(rank, 1)), tu_at(rank, tu_out(0, 1)));
}

const struct tu_algorithm tu_algo_scatter_naive = {
    .collective = TUTTI_SCATTER,
    .name = "naive",
    .summary = "the root sends every rank its block, in rank order",
    .build = build,
};
