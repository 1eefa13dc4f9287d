/* gather, bidirectional: blocks travel around a ring to the root, each the shorter way; every rank passes on what comes from
 * behind it. int(N/2)(alpha + beta m) where both directions of a link work at once; with one port for both,
 * (N-1)(alpha + beta m). */
#include "algo/parts.h"

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
