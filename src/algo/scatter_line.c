/* scatter_line.c: blocks travel along a line from the root to both sides, the block for the farthest rank first. Every
 * rank passes on the blocks for ranks farther from the root.
 * Cost for blocks of m bytes: max(root, N-1-root)(alpha + beta m) on full-duplex links; (N-1)(alpha + beta m) if both
 * directions share one port. */
#include "algo/phases.h"

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
