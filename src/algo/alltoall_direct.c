/* alltoall_direct.c: every rank sends every other rank its block, all at once.
 * Cost for blocks of m bytes: (N-1)(alpha + beta m). */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  tu_concurrent_begin(b);
  for (uint32_t from = 0; from < n; from++)
    for (uint32_t i = 0; i < n; i++) {
      /* rank r sends to r, r + 1, ..., so that no two ranks send to the same rank first */
      uint32_t to = (from + i) % n;
      tu_move(b, tu_at(from, tu_in(to, 1)), tu_at(to, tu_out(from, 1)));
    }
  tu_concurrent_end(b);
}

const struct tu_algorithm tu_algo_alltoall_direct = {
    .collective = TUTTI_ALLTOALL,
    .name = "direct",
    .summary = "every rank sends every other its block, all at once",
    .flags = TU_ROTATES,
    .build = build,
};
