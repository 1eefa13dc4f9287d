/* reduce_binomial.c: reduce on a binomial tree over the ranks counted from the root.
 * Cost for vectors of n bytes: ceil(log2 N) (alpha + (beta + gamma) n). */
#include "algo/phases.h"

static void build(struct tu_builder *b) { tu_binomial_reduce(b, tu_build_root(b), tu_out(0, 1)); }

const struct tu_algorithm tu_algo_reduce_binomial = {
    .collective = TUTTI_REDUCE,
    .name = "binomial",
    .summary = "binomial tree towards the root",
    .build = build,
};
