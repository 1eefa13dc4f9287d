/* allreduce, bidirectional ring: two rings at once, each for one half of the vector and one direction, on lanes of their own.
 * 2(N-1)(alpha + beta n/2N) + gamma n (N-1)/N where both directions of a link work at once; with one port for both,
 * 2(N-1)(2 alpha + beta n/N), and reductions of one half hide behind messages of the other. */
#include "algo/parts.h"

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
