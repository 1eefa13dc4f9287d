/* reduce_scatter_bidirectional.c: each block is halved. The halves travel around a ring in opposite directions and are
 * summed on the way.
 * Cost for blocks of m bytes: (N-1)(alpha + beta m/2 + gamma m) on full-duplex links. If both directions share one
 * port: (N-1)(2 alpha + beta m), and the reductions of one half overlap with the messages of the other. */
#include "algo/phases.h"

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
