/* allgather_bidirectional_full.c: whole blocks travel half-way round a ring, in both directions, each direction on its
 * own lane. This takes fewer steps than sending halves of blocks all the way round.
 * Cost for blocks of m bytes: ceil((N-1)/2)(alpha + beta m) on full-duplex links; (N-1)(alpha + beta m) if both
 * directions share one port. */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  const struct tu_way ways[] = {{.steps = n / 2, .part_count = 1},
                                {.lane = 1, .down = true, .steps = (n - 1) / 2, .part_count = 1}};
  tu_copy_own(b);
  tu_ring_allgather(b, 1, ways, 2);
}

const struct tu_algorithm tu_algo_allgather_bidirectional_full = {
    .collective = TUTTI_ALLGATHER,
    .name = "bidirectional_full",
    .summary = "blocks travel half way round a ring, both ways",
    .flags = TU_ROTATES,
    .lanes = 2,
    .build = build,
};
