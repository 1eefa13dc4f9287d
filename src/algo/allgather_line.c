/* allgather_line.c: blocks travel in both directions to the ends of a line.
 * Cost for blocks of m bytes: (N-1)(alpha + beta m) on full-duplex links; about 1.5 times as much if both directions
 * share one port. */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t all = tu_build_ranks(b) - 1;
  const struct tu_way ways[] = {{.line = true, .steps = all, .part_count = 1},
                                {.lane = 1, .line = true, .down = true, .steps = all, .part_count = 1}};
  tu_copy_own(b);
  tu_ring_allgather(b, 1, ways, 2);
}

const struct tu_algorithm tu_algo_allgather_line = {
    .collective = TUTTI_ALLGATHER,
    .name = "line",
    .summary = "blocks travel both ways to the ends of a line",
    .lanes = 2,
    .build = build,
};
