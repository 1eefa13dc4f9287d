/* reduce_direct.c: the root receives all vectors and sums them in one pass.
 * Cost for vectors of n bytes: (N-1)(alpha + (beta + gamma) n) at the root. */
#include "algo/phases.h"
#include "algo/trie.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  struct tu_at *in = tu_build_memory(b, n, sizeof *in);
  for (uint32_t rank = 0; rank < n; rank++) in[rank] = tu_at(rank, tu_in(0, 1));
  tu_reduce_from(b, in, n, tu_at(tu_build_root(b), tu_out(0, 1)));
}

const struct tu_algorithm tu_algo_reduce_direct = {
    .collective = TUTTI_REDUCE,
    .name = "direct",
    .summary = "the root receives from all and reduces all at once in rank order",
    .flags = TU_RANK_ORDER,
    .canonical = tu_canonical_always,
    .build = build,
};
