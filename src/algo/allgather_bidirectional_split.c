/* allgather, bidirectional, split: every block is halved, and each half travels all the way round, one half each way, on
 * lanes of their own. (N-1)(alpha + beta m/2) where both directions of a link work at once; with one port for both,
 * (N-1)(2 alpha + beta m). */
#include "algo/parts.h"

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
