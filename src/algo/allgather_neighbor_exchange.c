/* allgather_neighbor_exchange.c: neighbour exchange (Chen, Yuan 2005). First, pairs of ranks exchange their blocks. In
 * each later round, a rank sends the two blocks that it received last to one of its two neighbours, in alternation.
 * Cost for blocks of m bytes: N/2 (alpha + 2 beta m) - beta m. Only neighbours exchange messages. N must be even. */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  /* newest[rank] = p: in the next round, the rank sends the blocks 2p and 2p + 1. next[rank]: the value of newest[rank]
   * after the current round. */
  uint32_t *newest = tu_build_memory(b, 2 * (size_t)n, sizeof *newest), *next = newest + n;
  tu_copy_own(b);
  for (uint32_t round = 0; round < n / 2; round++) {
    tu_concurrent_begin(b);
    for (uint32_t rank = 0; rank < n; rank++) {
      uint32_t to = (rank + round) % 2 == 0 ? (rank + 1) % n : (rank + n - 1) % n;
      struct tu_span blocks = round == 0 ? tu_out(rank, 1) : tu_out(2 * newest[rank], 2);
      tu_move(b, tu_at(rank, blocks), tu_at(to, blocks));
      next[to] = round == 0 ? rank / 2 : newest[rank];
    }
    tu_concurrent_end(b);
    for (uint32_t rank = 0; rank < n; rank++) newest[rank] = next[rank];
  }
}

const struct tu_algorithm tu_algo_allgather_neighbor_exchange = {
    .collective = TUTTI_ALLGATHER,
    .name = "neighbor_exchange",
    .summary = "every rank sends its two newest blocks to its two neighbours in alternation",
    .multiple_of = 2,
    .build = build,
};
