/* broadcast_binomial.c: broadcast on a binomial tree from the root.
 * Cost for vectors of n bytes: ceil(log2 N) (alpha + beta n). */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t root = tu_build_root(b);
  tu_binomial_broadcast(b, root, tu_in(0, 1));
  tu_copy(b, root, tu_in(0, 1), tu_out(0, 1));
}

const struct tu_algorithm tu_algo_broadcast_binomial = {
    .collective = TUTTI_BROADCAST,
    .name = "binomial",
    .summary = "binomial tree from the root",
    .build = build,
};
