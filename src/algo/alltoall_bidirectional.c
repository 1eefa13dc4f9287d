/* alltoall_bidirectional.c: blocks travel around a ring as in alltoall_ring.c, but each on the shorter way, up or down,
 * on two lanes. This takes about N/2 steps instead of N-1. Each direction of a link carries a quarter of the bytes that
 * a link carries in alltoall_ring.c. */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  const struct tu_way ways[] = {{.steps = n / 2}, {.lane = 1, .down = true, .steps = (n - 1) / 2}};
  tu_ring_alltoall(b, ways, 2);
}

const struct tu_algorithm tu_algo_alltoall_bidirectional = {
    .collective = TUTTI_ALLTOALL,
    .name = "bidirectional",
    .summary = "blocks travel around a ring together, each on the shorter way; every rank takes out its own",
    .flags = TU_EQUAL_BLOCKS,
    .lanes = 2,
    .build = build,
};
