/* reduce_scatter, pairwise: in round k every rank gives the one k behind it that one's block. (N-1)(alpha + beta m) + gamma m:
 * while one block is added the next one crosses. No scratch. */
#include "algo/parts.h"

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
    .summary = "one distance a round; every rank adds what comes to its own block",
    .flags = TU_ROTATES,
    .build = build,
};
