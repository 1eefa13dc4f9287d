/* gather, line: blocks travel along a line to the root, from both sides; every rank passes on what comes from behind it.
 * max(root, N-1-root)(alpha + beta m) where both directions of a link work at once; with one port for both,
 * (N-1)(alpha + beta m). */
#include "algo/parts.h"

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
