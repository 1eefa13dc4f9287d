/* scan_recursive_doubling.c: in round k every rank adds the sum that it receives from the rank 2^k before it.
 * Cost for vectors of n bytes: ceil(log2 N) (alpha + (beta + gamma) n). */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  tu_copy(b, 0, tu_in(0, 1), tu_out(0, 1));
  tu_prefix_doubling(b, 0, tu_in(0, 1));
}

const struct tu_algorithm tu_algo_scan_recursive_doubling = {
    .collective = TUTTI_SCAN,
    .name = "recursive_doubling",
    .summary = "in round k every rank adds the sum of the rank 2^k before",
    .flags = TU_RANK_ORDER,
    .build = build,
};
