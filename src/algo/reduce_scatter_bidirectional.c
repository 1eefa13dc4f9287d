/* reduce_scatter, bidirectional: every block is halved, and the halves travel around a ring, one half each way, and grow on the
 * way. (N-1)(alpha + (beta + gamma) m/2) where both directions of a link work at once. */
#include "algo/parts.h"

static void build(struct tu_builder *b) {
  const struct tu_way ways[] = {{.part_count = 1}, {.lane = 1, .down = true, .part_first = 1, .part_count = 1}};
  tu_ring_reduce_scatter_in_scratch(b, ways, 2);
}

const struct tu_algorithm tu_algo_reduce_scatter_bidirectional = {
    .collective = TUTTI_REDUCE_SCATTER,
    .name = "bidirectional",
    .summary = "halves of the blocks travel around a ring, one half each way, and are reduced on the way",
    .flags = TU_ROTATES,
    .split = tu_split_two,
    .build = build,
};
