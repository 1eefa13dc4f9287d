/* alltoall_ring.c: all blocks travel around a ring together. Every rank removes its own blocks and passes on the rest
 * as one message.
 * Cost for blocks of m bytes: (N-1)(alpha + beta m N/2). Only neighbours exchange messages. Blocks in transit use two
 * scratch areas in alternation. */
#include "algo/phases.h"

static void build(struct tu_builder *b) { tu_ring_alltoall(b, &(struct tu_way){.steps = tu_build_ranks(b) - 1}, 1); }

const struct tu_algorithm tu_algo_alltoall_ring = {
    .collective = TUTTI_ALLTOALL,
    .name = "ring",
    .summary = "all blocks travel around a ring together; every rank takes out its own",
    .flags = TU_EQUAL_BLOCKS,
    .build = build,
};
