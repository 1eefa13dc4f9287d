/* allreduce_direct.c: every rank sends its vector to all ranks and reduces all vectors in one pass. In shared memory
 * this is a single step, because each vector is written once and read by all ranks.
 * Cost for vectors of n bytes, with one port per rank: (2N-3)(alpha + beta n) + (N-1) gamma n, because all ranks send
 * to rank 0 first. */
#include "algo/phases.h"
#include "algo/trie.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  struct tu_at *in = tu_build_memory(b, n, sizeof *in), *out = tu_build_memory(b, n, sizeof *out);
  for (uint32_t rank = 0; rank < n; rank++) {
    in[rank] = tu_at(rank, tu_in(0, 1));
    out[rank] = tu_at(rank, tu_out(0, 1));
  }
  tu_reduce_multicast(b, in, n, out, n);
}

const struct tu_algorithm tu_algo_allreduce_direct = {
    .collective = TUTTI_ALLREDUCE,
    .name = "direct",
    .summary = "every rank sends to all, and reduces all at once in rank order",
    .flags = TU_RANK_ORDER,
    .canonical = tu_canonical_always,
    .build = build,
};
