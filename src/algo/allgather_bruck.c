/* allgather_bruck.c: the algorithm of Bruck et al. (1997). Before round k, a rank has the blocks of 2^k ranks,
 * beginning with its own. It sends these to the rank whose number is lower by 2^k (modulo N).
 * Cost for blocks of m bytes: ceil(log2 N) alpha + beta m (N-1), for any N.
 * Every block is stored at its final position at once, so OUT need not be rotated at the end. Blocks that wrap past
 * rank N - 1 are sent as one message of two spans. */
#include "algo/phases.h"

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
    .summary = "in round k every rank sends all its blocks to the rank 2^k before it",
    .build = build,
};
