/* scan_direct.c: every rank sends its vector to all later ranks, and reduces its own and those of all earlier ones in one pass.
 * Cost for vectors of n bytes: (N-1)(alpha + (beta + gamma) n). In shared memory this is a single step. */
#include "algo/phases.h"
#include "algo/trie.h"

static void build(struct tu_builder *b) {
  const uint32_t n = tu_build_ranks(b);
  struct tu_at *in = tu_build_memory(b, n, sizeof *in);
  for (uint32_t rank = 0; rank < n; rank++) in[rank] = tu_at(rank, tu_in(0, 1));
  tu_concurrent_begin(b);
  for (uint32_t to = 0; to < n; to++) tu_reduce_from(b, in, to + 1, tu_at(to, tu_out(0, 1)));
  tu_concurrent_end(b);
}

const struct tu_algorithm tu_algo_scan_direct = {
    .collective = TUTTI_SCAN,
    .name = "direct",
    .summary = "every rank sends to all later ones, and reduces all earlier ones at once in rank order",
    .flags = TU_RANK_ORDER,
    .canonical = tu_canonical_always,
    .build = build,
};
