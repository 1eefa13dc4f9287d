/* allreduce_recursive_doubling.c: partners at distances 1, 2, 4, ... exchange and reduce their vectors.
 * Cost for vectors of n bytes: log2(N) (alpha + (beta + gamma) n) if N is a power of two.
 * Let P be the largest power of two that is at most N. N - P ranks take no part in the rounds: each first gives its
 * vector to a neighbour, and receives the result from it at the end. This takes two more messages. The sum is the
 * balanced tree over the ranks in rank order. In the canonical order all ranks take part in all rounds (trie.h). */
#include "algo/phases.h"
#include "algo/trie.h"

static void build(struct tu_builder *b) {
  if (tu_build_what(b)->canonical) {
    tu_trie_allreduce(b);
    return;
  }
  struct tu_folding f = tu_fold_of(tu_build_ranks(b));
  struct tu_span in = tu_in(0, 1), out = tu_out(0, 1);
  if (f.ranks == 1) tu_copy(b, 0, in, out);
  tu_fold_in(b, f);
  for (uint32_t bit = 1; bit < f.power; bit <<= 1) {
    tu_concurrent_begin(b);
    for (uint32_t p = 0; p < f.power; p++) {
      uint32_t to = p ^ bit;
      tu_move_reduce(b, tu_at(tu_fold_rank(f, p), bit > 1 || p < f.extra ? out : in),
                     p < to ? TU_FROM_LEFT : TU_FROM_RIGHT, bit > 1 || to < f.extra ? out : in,
                     tu_at(tu_fold_rank(f, to), out));
    }
    tu_concurrent_end(b);
  }
  tu_fold_out(b, f);
}

const struct tu_algorithm tu_algo_allreduce_recursive_doubling = {
    .collective = TUTTI_ALLREDUCE,
    .name = "recursive_doubling",
    .summary = "partners at doubling distances exchange and reduce; a balanced tree in rank order",
    .flags = TU_RANK_ORDER,
    .canonical = tu_canonical_always,
    .build = build,
};
