/* alltoall, pairwise: in round k, exchange with the ranks k before and k behind. (N-1)(alpha + beta m).
 * Both distances in one round, so that in place a block is sent in the round that overwrites it. */
#include "algo/parts.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  for (uint32_t rank = 0; rank < n; rank++) tu_copy(b, rank, tu_in(rank, 1), tu_out(rank, 1));
  for (uint32_t distance = 1; 2 * distance <= n; distance++) {
    tu_group_begin(b);
    for (uint32_t rank = 0; rank < n; rank++) {
      uint32_t behind = (rank + distance) % n, before = (rank + n - distance) % n;
      tu_move(b, tu_at(rank, tu_in(behind, 1)), tu_at(behind, tu_out(rank, 1)));
      if (before != behind) tu_move(b, tu_at(rank, tu_in(before, 1)), tu_at(before, tu_out(rank, 1)));
    }
    tu_group_end(b);
  }
}

const struct tu_algorithm tu_algo_alltoall_pairwise = {
    .collective = TUTTI_ALLTOALL,
    .name = "pairwise",
    .summary = "one distance a round, both ways",
    .flags = TU_ROTATES,
    .build = build,
};
