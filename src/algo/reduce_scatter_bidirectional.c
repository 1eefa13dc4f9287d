/* reduce_scatter, bidirectional: every block is halved, and the halves travel around a ring, one half each way, and grow on the
 * way. (N-1)(alpha + beta m/2 + gamma m) where both directions of a link work at once; with one port for both,
 * (N-1)(2 alpha + beta m), and reductions of one half hide behind messages of the other. */
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
    .lanes = 2,
    .split = tu_split_two,
    .build = build,
};
