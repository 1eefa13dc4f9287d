/* gather_bidirectional.c: blocks travel around a ring to the root, each on the shorter way. Every rank passes on the
 * blocks of ranks farther from the root.
 * Cost for blocks of m bytes: floor(N/2)(alpha + beta m) on full-duplex links; (N-1)(alpha + beta m) if both directions
 * share one port. */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  tu_ring_gather(b, (const uint32_t[]){n / 2, (n - 1) / 2});
}

const struct tu_algorithm tu_algo_gather_bidirectional = {
    .collective = TUTTI_GATHER,
    .name = "bidirectional",
    .summary = "blocks travel around a ring to the root, each the shorter way",
    .flags = TU_EQUAL_BLOCKS,
    .lanes = 2,
    .build = build,
};
