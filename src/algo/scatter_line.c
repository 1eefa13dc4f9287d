/* scatter, line: blocks travel along a line from the root to both sides, the farthest first; every rank passes on what goes
 * beyond it. max(root, N-1-root)(alpha + beta m) where both directions of a link work at once; with one port for both,
 * (N-1)(alpha + beta m). */
#include "algo/parts.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b);
  tu_ring_scatter(b, (const uint32_t[]){n - 1 - root, root});
}

const struct tu_algorithm tu_algo_scatter_line = {
    .collective = TUTTI_SCATTER,
    .name = "line",
    .summary = "blocks travel along a line from the root to both sides, the farthest first",
    .flags = TU_EQUAL_BLOCKS,
    .lanes = 2,
    .build = build,
};
