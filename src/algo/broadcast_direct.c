/* broadcast_direct.c: the root writes the vector once, and all ranks read it.
 * Cost for vectors of n bytes: (N-1)(alpha + beta n) on a network without multicast. */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  struct tu_at *out = tu_build_memory(b, n, sizeof *out);
  for (uint32_t rank = 0; rank < n; rank++) out[rank] = tu_at(rank, tu_out(0, 1));
  tu_multicast(b, tu_at(tu_build_root(b), tu_in(0, 1)), out, n);
}

const struct tu_algorithm tu_algo_broadcast_direct = {
    .collective = TUTTI_BROADCAST,
    .name = "direct",
    .summary = "the root sends to all at once",
    .build = build,
};
