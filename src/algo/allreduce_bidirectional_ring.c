/* allreduce_bidirectional_ring.c: two rings in opposite directions, each with one half of the vector and its own lane.
 * Cost for vectors of n bytes: 2(N-1)(alpha + beta n/2N) + gamma n (N-1)/N on full-duplex links. If both directions
 * share one port: 2(N-1)(2 alpha + beta n/N), and the reductions of one half overlap with the messages of the other. */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t all = tu_build_ranks(b) - 1;
  const struct tu_way ways[] = {{.steps = all, .part_count = 1},
                                {.lane = 1, .down = true, .steps = all, .part_first = 1, .part_count = 1}};
  tu_ring_allreduce(b, ways, 2);
}

const struct tu_algorithm tu_algo_allreduce_bidirectional_ring = {
    .collective = TUTTI_ALLREDUCE,
    .name = "bidirectional_ring",
    .summary = "reduce-scatter, then allgather, around a ring, half of the vector each way",
    .flags = TU_ROTATES,
    .lanes = 2,
    .split = tu_split_two_ranks,
    .build = build,
};
