/* allgather_bidirectional_split.c: each block is halved, and the halves travel all the way round a ring in opposite
 * directions, each on its own lane.
 * Cost for blocks of m bytes: (N-1)(alpha + beta m/2) on full-duplex links; (N-1)(2 alpha + beta m) if both directions
 * share one port. */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t all = tu_build_ranks(b) - 1;
  const struct tu_way ways[] = {{.steps = all, .part_count = 1},
                                {.lane = 1, .down = true, .steps = all, .part_first = 1, .part_count = 1}};
  tu_copy_own(b);
  tu_ring_allgather(b, 2, ways, 2);
}

const struct tu_algorithm tu_algo_allgather_bidirectional_split = {
    .collective = TUTTI_ALLGATHER,
    .name = "bidirectional_split",
    .summary = "halves of the blocks travel around a ring, one half each way",
    .flags = TU_ROTATES,
    .lanes = 2,
    .split = tu_split_two,
    .build = build,
};
