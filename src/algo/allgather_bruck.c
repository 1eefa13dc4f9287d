/* allgather, Bruck et al. (1997): in round k a rank has the blocks of 2^k ranks from its own on, and gives them to the rank 2^k
 * before it. ceil(log2 N) alpha + beta m (N-1), any N. A message that passes rank N - 1 goes on at 0: it has two spans,
 * and nothing is rotated at the end. */
#include "algo/parts.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  tu_copy_own(b);
  for (uint32_t have = 1; have < n; have <<= 1) {
    uint32_t count = (uint32_t)tu_min(have, n - have);
    tu_join_begin(b);
    for (uint32_t rank = 0; rank < n; rank++) {
      uint32_t to = (rank + n - have) % n, straight = (uint32_t)tu_min(count, n - rank);
      struct tu_span blocks = tu_out(rank, straight), wrapped = tu_out(0, count - straight);
      tu_move(b, tu_at(rank, blocks), tu_at(to, blocks));
      if (wrapped.count > 0) tu_move(b, tu_at(rank, wrapped), tu_at(to, wrapped));
    }
    tu_join_end(b);
  }
}

const struct tu_algorithm tu_algo_allgather_bruck = {
    .collective = TUTTI_ALLGATHER,
    .name = "bruck",
    .summary = "in round k every rank gives the one 2^k before it all that it has",
    .build = build,
};
