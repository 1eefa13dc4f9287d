/* scan_chain.c: the running sum passes from rank to rank.
 * Cost for vectors of n bytes: (N-1)(alpha + (beta + gamma) n). */
#include "algo/phases.h"
#include "algo/trie.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  struct tu_span in = tu_in(0, 1), out = tu_out(0, 1);
  tu_copy(b, 0, in, out);
  for (uint32_t rank = 1; rank < n; rank++) tu_move_reduce(b, tu_at(rank - 1, out), TU_FROM_LEFT, in, tu_at(rank, out));
}

const struct tu_algorithm tu_algo_scan_chain = {
    .collective = TUTTI_SCAN,
    .name = "chain",
    .summary = "the running sum passes from rank to rank",
    .flags = TU_RANK_ORDER,
    .canonical = tu_canonical_to_three,
    .build = build,
};
