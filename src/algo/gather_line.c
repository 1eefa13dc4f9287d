/* gather_line.c: blocks travel along a line to the root, from both sides. Every rank passes on the blocks of ranks
 * farther from the root.
 * Cost for blocks of m bytes: max(root, N-1-root)(alpha + beta m) on full-duplex links; (N-1)(alpha + beta m) if both
 * directions share one port. */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b);
  tu_ring_gather(b, (const uint32_t[]){root, n - 1 - root});
}

const struct tu_algorithm tu_algo_gather_line = {
    .collective = TUTTI_GATHER,
    .name = "line",
    .summary = "blocks travel along a line to the root, from both sides",
    .flags = TU_EQUAL_BLOCKS,
    .lanes = 2,
    .build = build,
};
