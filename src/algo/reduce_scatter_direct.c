/* reduce_scatter_direct.c: every rank receives its block from all ranks and sums the received blocks in one pass.
 * Cost for blocks of m bytes, with one port per rank: (2N-3)(alpha + beta m) + (N-1) gamma m, because all ranks send to
 * rank 0 first. In shared memory, which has no ports, ranks do not wait for each other. */
#include "algo/phases.h"
#include "algo/trie.h"

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
    .canonical = tu_canonical_always,
    .build = build,
};
