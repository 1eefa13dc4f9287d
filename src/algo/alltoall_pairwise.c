/* alltoall_pairwise.c: in round k, every rank exchanges blocks with the ranks k before and k after it.
 * Cost for blocks of m bytes: (N-1)(alpha + beta m). Each round sends in both directions so that, in place, a block is
 * sent in the same round in which it is overwritten. */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  for (uint32_t rank = 0; rank < n; rank++) tu_copy(b, rank, tu_in(rank, 1), tu_out(rank, 1));
  for (uint32_t distance = 1; 2 * distance <= n; distance++) {
    tu_concurrent_begin(b);
    for (uint32_t rank = 0; rank < n; rank++) {
      uint32_t behind = (rank + distance) % n, before = (rank + n - distance) % n;
      tu_move(b, tu_at(rank, tu_in(behind, 1)), tu_at(behind, tu_out(rank, 1)));
      if (before != behind) tu_move(b, tu_at(rank, tu_in(before, 1)), tu_at(before, tu_out(rank, 1)));
    }
    tu_concurrent_end(b);
  }
}

const struct tu_algorithm tu_algo_alltoall_pairwise = {
    .collective = TUTTI_ALLTOALL,
    .name = "pairwise",
    .summary = "in round k, exchanges with the ranks k before and k after",
    .flags = TU_ROTATES,
    .build = build,
};
