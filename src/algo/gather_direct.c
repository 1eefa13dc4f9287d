/* gather_direct.c: every rank sends its block to the root, which receives in the order root + 1, root + 2, ... (modulo
 * N).
 * Cost for blocks of m bytes: (N-1)(alpha + beta m) at the root. */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t rank = (root + i) % n;
    tu_move(b, tu_at(rank, tu_in(0, 1)), tu_at(root, tu_out(rank, 1)));
  }
}

const struct tu_algorithm tu_algo_gather_direct = {
    .collective = TUTTI_GATHER,
    .name = "direct",
    .summary = "every rank sends its block to the root",
    .build = build,
};
