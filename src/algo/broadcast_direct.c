/* broadcast, direct: the root writes once, all read. (N-1)(alpha + beta n) where a wire has no multicast. */
#include "algo/parts.h"

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
