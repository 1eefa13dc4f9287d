/* alltoall, ring: all blocks travel around a ring together; every rank takes out its own and passes the rest on, as one message.
 * (N-1)(alpha + beta m N/2): only neighbours talk. Blocks on their way lie in one of two areas of scratch, in turn. */
#include "algo/parts.h"

static void build(struct tu_builder *b) { tu_ring_alltoall(b, &(struct tu_way){.steps = tu_build_ranks(b) - 1}, 1); }

const struct tu_algorithm tu_algo_alltoall_ring = {
    .collective = TUTTI_ALLTOALL,
    .name = "ring",
    .summary = "all blocks travel around a ring together; every rank takes out its own",
    .flags = TU_EQUAL_BLOCKS,
    .build = build,
};
