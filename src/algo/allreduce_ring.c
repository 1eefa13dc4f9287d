/* allreduce_ring.c: reduce-scatter, then allgather, around a ring.
 * Cost for vectors of n bytes: 2(N-1)(alpha + beta n/N) + gamma n (N-1)/N. */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  tu_ring_allreduce(b, &(struct tu_way){.steps = tu_build_ranks(b) - 1, .part_count = 1}, 1);
}

const struct tu_algorithm tu_algo_allreduce_ring = {
    .collective = TUTTI_ALLREDUCE,
    .name = "ring",
    .summary = "reduce-scatter, then allgather, around a ring",
    .flags = TU_ROTATES,
    .split = tu_split_ranks,
    .build = build,
};
