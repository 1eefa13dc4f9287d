/* reduce_scatter_pairwise.c: in round k every rank sends to the rank k positions after it the block of that rank. The
 * receiver adds the block.
 * Cost for blocks of m bytes: (N-1)(alpha + beta m) + gamma m, because a block is added while the next one crosses. It
 * needs no scratch. */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  struct tu_span out = tu_out(0, 1);
  if (n == 1) tu_copy(b, 0, tu_in(0, 1), out);
  for (uint32_t distance = 1; distance < n; distance++) {
    for (uint32_t rank = 0; rank < n; rank++) {
      uint32_t to = (rank + distance) % n;
      struct tu_span block = tu_in(to, 1);
      tu_move_reduce(b, tu_at(rank, block), TU_FROM_LEFT, distance == 1 ? block : out, tu_at(to, out));
    }
  }
}

const struct tu_algorithm tu_algo_reduce_scatter_pairwise = {
    .collective = TUTTI_REDUCE_SCATTER,
    .name = "pairwise",
    .summary = "in round k every rank receives and adds a block from k ranks away",
    .flags = TU_ROTATES,
    .build = build,
};
