/* reduce_rs_gather.c: reduce-scatter by recursive halving sums a share of the vector at every rank. Then the root
 * gathers the shares on a binomial tree.
 * Cost for vectors of n bytes: 2 alpha log2 N + (2 beta + gamma) n (N-1)/N if N is a power of two. */
#include "algo/composite.h"
#include "algo/phases.h"
#include "algo/trie.h"

static void build(struct tu_builder *b) { tu_composite_build(b, "rs:recursive_halving+ga:binomial"); }

const struct tu_algorithm tu_algo_reduce_rs_gather = {
    .collective = TUTTI_REDUCE,
    .name = "rs_gather",
    .summary = "every rank sums up a share of the vector, the root gathers the shares",
    .flags = TU_RANK_ORDER,
    .canonical = tu_canonical_if_folded,
    .split = tu_split_ranks,
    .build = build,
};
