/* barrier_central.c: every rank notifies rank 0, which then notifies every rank.
 * Cost: 2 (N-1) alpha, because all messages share the port of rank 0. Every rank except rank 0 waits for only one
 * message. This saves context switches if several ranks share a CPU. Rank 0 leaves the barrier first. */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  struct tu_at *others = tu_build_memory(b, n, sizeof *others);
  for (uint32_t rank = 1; rank < n; rank++) {
    tu_move(b, tu_at(rank, tu_in(0, 1)), tu_at(0, tu_out(0, 1)));
    others[rank - 1] = tu_at(rank, tu_out(0, 1));
  }
  if (n > 1) tu_multicast(b, tu_at(0, tu_out(0, 1)), others, n - 1);
}

const struct tu_algorithm tu_algo_barrier_central = {
    .collective = TUTTI_BARRIER,
    .name = "central",
    .summary = "every rank notifies rank 0, which notifies all",
    .build = build,
};
