/* gather_naive.c: the root receives every rank's block, in rank order.
 * Cost for blocks of m bytes: (N-1)(alpha + beta m). */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b);
  for (uint32_t rank = 0; rank < n; rank++) tu_move(b, tu_at(rank, tu_in(0, 1)), tu_at(root, tu_out(rank, 1)));
}

const struct tu_algorithm tu_algo_gather_naive = {
    .collective = TUTTI_GATHER,
    .name = "naive",
    .summary = "the root takes every rank's block, in rank order",
    .build = build,
};
