/* allreduce_reduce_broadcast.c: reduce to rank 0, then broadcast from rank 0, both on binomial trees.
 * Cost for vectors of n bytes: 2 ceil(log2 N) (alpha + beta n) + gamma n ceil(log2 N). */
#include "algo/phases.h"
#include "algo/trie.h"

static void build(struct tu_builder *b) {
  struct tu_span out = tu_out(0, 1);
  tu_binomial_reduce(b, 0, out);
  tu_binomial_broadcast(b, 0, out);
}

const struct tu_algorithm tu_algo_allreduce_reduce_broadcast = {
    .collective = TUTTI_ALLREDUCE,
    .name = "reduce_broadcast",
    .summary = "binomial reduce to rank 0, binomial broadcast from there",
    .flags = TU_RANK_ORDER,
    .canonical = tu_canonical_always,
    .build = build,
};
