/* exscan, recursive doubling: inputs move one rank on, then a scan over ranks 1 .. N-1.
 * (1 + l)(alpha + beta n) + l gamma n at most, l = ceil(log2 (N-1)). */
#include "algo/parts.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  tu_group_begin(b);
  for (uint32_t rank = 0; rank + 1 < n; rank++) tu_move(b, tu_at(rank, tu_in(0, 1)), tu_at(rank + 1, tu_out(0, 1)));
  tu_group_end(b);
  tu_prefix_doubling(b, 1, tu_out(0, 1));
}

const struct tu_algorithm tu_algo_exscan_recursive_doubling = {
    .collective = TUTTI_EXSCAN,
    .name = "recursive_doubling",
    .summary = "inputs move one rank on, then a scan at doubling distances",
    .flags = TU_RANK_ORDER,
    .build = build,
};
