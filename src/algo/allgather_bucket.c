/* allgather_bucket.c: blocks travel around a ring.
 * Cost for blocks of m bytes: (N-1)(alpha + beta m). */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  tu_copy_own(b);
  tu_ring_allgather(b, 1, &(struct tu_way){.steps = tu_build_ranks(b) - 1, .part_count = 1}, 1);
}

const struct tu_algorithm tu_algo_allgather_bucket = {
    .collective = TUTTI_ALLGATHER,
    .name = "bucket",
    .summary = "blocks travel around a ring",
    .flags = TU_ROTATES,
    .build = build,
};
