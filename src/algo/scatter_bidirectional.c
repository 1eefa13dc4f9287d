/* scatter_bidirectional.c: blocks travel around a ring from the root, each on the shorter way, the block for the
 * farthest rank first. Every rank passes on the blocks for ranks farther from the root.
 * Cost for blocks of m bytes: floor(N/2)(alpha + beta m) on full-duplex links; (N-1)(alpha + beta m) if both directions
 * share one port. */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  tu_ring_scatter(b, (const uint32_t[]){n / 2, (n - 1) / 2});
}

const struct tu_algorithm tu_algo_scatter_bidirectional = {
    .collective = TUTTI_SCATTER,
    .name = "bidirectional",
    .summary = "blocks travel around a ring from the root, each on the shorter way, the farthest first",
    .flags = TU_EQUAL_BLOCKS,
    .lanes = 2,
    .build = build,
};
