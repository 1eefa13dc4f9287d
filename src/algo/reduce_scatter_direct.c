/* reduce_scatter, direct: every rank receives its block from all and sums it in one pass. With one port a rank
 * (2N-3)(alpha + beta m) + (N-1) gamma m, as all begin with rank 0; where messages need no ports, as in shared memory, they
 * do not wait for each other. */
#include "algo/parts.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  struct tu_at *in = tu_build_memory(b, n, sizeof *in);
  for (uint32_t to = 0; to < n; to++) {
    for (uint32_t from = 0; from < n; from++) in[from] = tu_at(from, tu_in(to, 1));
    tu_reduce_from(b, in, n, tu_at(to, tu_out(0, 1)));
  }
}

const struct tu_algorithm tu_algo_reduce_scatter_direct = {
    .collective = TUTTI_REDUCE_SCATTER,
    .name = "direct",
    .summary = "every rank receives its block from all and reduces all at once in rank order",
    .flags = TU_RANK_ORDER,
    .build = build,
};
