/* scatter, bidirectional: blocks travel around a ring from the root, each the shorter way and the farthest first; every rank
 * passes on what goes beyond it. int(N/2)(alpha + beta m) where both directions of a link work at once; with one port for
 * both, (N-1)(alpha + beta m). */
#include "algo/parts.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  tu_ring_scatter(b, (const uint32_t[]){n / 2, (n - 1) / 2});
}

const struct tu_algorithm tu_algo_scatter_bidirectional = {
    .collective = TUTTI_SCATTER,
    .name = "bidirectional",
    .summary = "blocks travel around a ring from the root, each the shorter way and the farthest first",
    .flags = TU_EQUAL_BLOCKS,
    .lanes = 2,
    .build = build,
};
