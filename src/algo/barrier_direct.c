/* barrier_direct.c: every rank notifies every other rank.
 * Cost: (N-1) alpha. */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  struct tu_at *others = tu_build_memory(b, n, sizeof *others);
  tu_concurrent_begin(b);
  for (uint32_t rank = 0; rank < n; rank++) {
    for (uint32_t i = 1; i < n; i++) others[i - 1] = tu_at((rank + i) % n, tu_out(0, 1));
    if (n > 1) tu_multicast(b, tu_at(rank, tu_in(0, 1)), others, n - 1);
  }
  tu_concurrent_end(b);
}

const struct tu_algorithm tu_algo_barrier_direct = {
    .collective = TUTTI_BARRIER,
    .name = "direct",
    .summary = "every rank notifies every other rank",
    .build = build,
};
