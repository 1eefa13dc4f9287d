/* scan_recursive_doubling.c: in round k every rank adds the sum that it receives from the rank 2^k before it. In the
 * canonical order, from the lower half of its block of 2^(k+1) ranks (trie.h).
 * Cost for vectors of n bytes: ceil(log2 N) (alpha + (beta + gamma) n). */
#include "algo/phases.h"
#include "algo/trie.h"

static void build(struct tu_builder *b) {
  if (tu_build_what(b)->canonical) {
    tu_trie_scan(b, false);
    return;
  }
  tu_copy(b, 0, tu_in(0, 1), tu_out(0, 1));
  tu_prefix_doubling(b, 0, tu_in(0, 1));
}

const struct tu_algorithm tu_algo_scan_recursive_doubling = {
    .collective = TUTTI_SCAN,
    .name = "recursive_doubling",
    .summary = "in round k every rank adds the sum of the rank 2^k before",
    .flags = TU_RANK_ORDER,
    .canonical = tu_canonical_always,
    .build = build,
};
