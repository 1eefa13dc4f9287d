/* alltoall, bidirectional: as around a ring, but every block goes the shorter way, up or down, on lanes of their own: about
 * N/2 steps, and a quarter of the bytes on each direction of a link. */
#include "algo/parts.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  const struct tu_way ways[] = {{.steps = n / 2}, {.lane = 1, .down = true, .steps = (n - 1) / 2}};
  tu_ring_alltoall(b, ways, 2);
}

const struct tu_algorithm tu_algo_alltoall_bidirectional = {
    .collective = TUTTI_ALLTOALL,
    .name = "bidirectional",
    .summary = "blocks travel around a ring together, each the shorter way; every rank takes out its own",
    .flags = TU_EQUAL_BLOCKS,
    .lanes = 2,
    .build = build,
};
