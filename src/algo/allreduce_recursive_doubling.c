/* allreduce, recursive doubling: partners at distance 1, 2, 4, ... exchange and reduce. log2(N) (alpha + (beta + gamma) n) at
 * powers of two. Ranks beyond are folded into a neighbour first and told the result at the end: two messages more. The sum
 * is the balanced tree over the ranks in order. */
#include "algo/parts.h"

static void build(struct tu_builder *b) {
  struct tu_folding f = tu_fold_of(tu_build_ranks(b));
  struct tu_span in = tu_in(0, 1), out = tu_out(0, 1);
  if (f.ranks == 1) tu_copy(b, 0, in, out);
  tu_fold_in(b, f);
  for (uint32_t bit = 1; bit < f.power; bit <<= 1) {
    tu_group_begin(b);
    for (uint32_t p = 0; p < f.power; p++) {
      uint32_t to = p ^ bit;
      tu_move_reduce(b, tu_at(tu_fold_rank(f, p), bit > 1 || p < f.extra ? out : in),
                     p < to ? TU_FROM_LEFT : TU_FROM_RIGHT, bit > 1 || to < f.extra ? out : in,
                     tu_at(tu_fold_rank(f, to), out));
    }
    tu_group_end(b);
  }
  tu_fold_out(b, f);
}

const struct tu_algorithm tu_algo_allreduce_recursive_doubling = {
    .collective = TUTTI_ALLREDUCE,
    .name = "recursive_doubling",
    .summary = "partners at doubling distances exchange and reduce; a balanced tree in rank order",
    .flags = TU_RANK_ORDER,
    .build = build,
};
