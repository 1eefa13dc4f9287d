/* reduce_binomial.c: reduce on a binomial tree over the ranks counted from the root; in the canonical order, on
 * the trie of the ranks (trie.h).
 * Cost for vectors of n bytes: ceil(log2 N) (alpha + (beta + gamma) n). */
#include "algo/phases.h"
#include "algo/trie.h"

static void build(struct tu_builder *b) {
  if (tu_build_what(b)->canonical) tu_trie_reduce(b, tu_build_root(b), tu_out(0, 1));
  else tu_binomial_reduce(b, tu_build_root(b), tu_out(0, 1));
}

const struct tu_algorithm tu_algo_reduce_binomial = {
    .collective = TUTTI_REDUCE,
    .name = "binomial",
    .summary = "binomial tree towards the root",
    .canonical = tu_canonical_always,
    .build = build,
};
