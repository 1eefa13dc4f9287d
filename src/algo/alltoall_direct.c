/* alltoall, direct: every rank sends every other its block, all at once. (N-1)(alpha + beta m). */
#include "algo/parts.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  tu_group_begin(b);
  for (uint32_t from = 0; from < n; from++)
    for (uint32_t i = 0; i < n; i++) {
      uint32_t to = (from + i) % n; /* everybody starts with another one */
      tu_move(b, tu_at(from, tu_in(to, 1)), tu_at(to, tu_out(from, 1)));
    }
  tu_group_end(b);
}

const struct tu_algorithm tu_algo_alltoall_direct = {
    .collective = TUTTI_ALLTOALL,
    .name = "direct",
    .summary = "every rank sends every other its block, all at once",
    .flags = TU_ROTATES,
    .build = build,
};
