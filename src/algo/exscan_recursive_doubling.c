/* exscan_recursive_doubling.c: every rank sends its input to the next rank; then the ranks 1 .. N-1 run a scan of what
 * they received. In the canonical order, see trie.h.
 * Cost for vectors of n bytes: at most (1 + l)(alpha + beta n) + l gamma n, l = ceil(log2 (N-1)). */
#include "algo/phases.h"
#include "algo/trie.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  if (tu_build_what(b)->canonical) {
    tu_trie_scan(b, true);
    return;
  }
  tu_concurrent_begin(b);
  for (uint32_t rank = 0; rank + 1 < n; rank++) tu_move(b, tu_at(rank, tu_in(0, 1)), tu_at(rank + 1, tu_out(0, 1)));
  tu_concurrent_end(b);
  tu_prefix_doubling(b, 1, tu_out(0, 1));
}

const struct tu_algorithm tu_algo_exscan_recursive_doubling = {
    .collective = TUTTI_EXSCAN,
    .name = "recursive_doubling",
    .summary = "inputs move one rank up, then a scan at doubling distances",
    .flags = TU_RANK_ORDER,
    .canonical = tu_canonical_always,
    .build = build,
};
