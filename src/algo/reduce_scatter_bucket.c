/* reduce_scatter_bucket.c: blocks travel around a ring and are summed on the way.
 * Cost for blocks of m bytes: (N-1)(alpha + (beta + gamma) m). */
#include "algo/phases.h"

static void build(struct tu_builder *b) { tu_ring_reduce_scatter_in_scratch(b, &(struct tu_way){.part_count = 1}, 1); }

const struct tu_algorithm tu_algo_reduce_scatter_bucket = {
    .collective = TUTTI_REDUCE_SCATTER,
    .name = "bucket",
    .summary = "blocks travel around a ring and are reduced on the way",
    .flags = TU_ROTATES,
    .build = build,
};
