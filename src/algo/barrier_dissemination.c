/* barrier_dissemination.c: in round k every rank notifies the rank 2^k after it.
 * Cost: ceil(log2 N) alpha. (Hensgen, Finkel, Manber 1988.) */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  for (uint32_t distance = 1; distance < n; distance <<= 1) {
    tu_concurrent_begin(b);
    for (uint32_t rank = 0; rank < n; rank++)
      tu_move(b, tu_at(rank, distance == 1 ? tu_in(0, 1) : tu_out(0, 1)), tu_at((rank + distance) % n, tu_out(0, 1)));
    tu_concurrent_end(b);
  }
}

const struct tu_algorithm tu_algo_barrier_dissemination = {
    .collective = TUTTI_BARRIER,
    .name = "dissemination",
    .summary = "in round k every rank notifies the rank 2^k after it",
    .flags = TU_ROTATES,
    .build = build,
};
