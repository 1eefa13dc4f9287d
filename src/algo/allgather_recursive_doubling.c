/* allgather_recursive_doubling.c: partners at distances 1, 2, 4, ... exchange all blocks that they have so far.
 * Cost for blocks of m bytes: alpha log2 N + beta m (N-1) if N is a power of two.
 * Let P be the largest power of two that is at most N. N - P ranks take no part in these exchanges: each first gives
 * its block to a neighbour, and receives the result from it at the end. */
#include "algo/phases.h"

/* Returns the first of the (one or two) ranks that butterfly participant p represents. If p is the number of
 * participants (f.power), returns the number of ranks. */
static uint32_t first_rank(struct tu_folding f, uint32_t p) { return p == f.power ? f.ranks : tu_fold_rank(f, p); }

static void build(struct tu_builder *b) {
  struct tu_folding f = tu_fold_of(tu_build_ranks(b));
  tu_copy_own(b);
  for (uint32_t p = 0; p < f.extra; p++) tu_move(b, tu_at(2 * p + 1, tu_in(0, 1)), tu_at(2 * p, tu_out(2 * p + 1, 1)));
  for (uint32_t bit = 1; bit < f.power; bit <<= 1) {
    tu_concurrent_begin(b);
    for (uint32_t p = 0; p < f.power; p++) {
      uint32_t low = p & ~(bit - 1), first = first_rank(f, low);
      struct tu_span have = tu_out(first, first_rank(f, low + bit) - first);
      tu_move(b, tu_at(tu_fold_rank(f, p), have), tu_at(tu_fold_rank(f, p ^ bit), have));
    }
    tu_concurrent_end(b);
  }
  tu_join_begin(b);
  for (uint32_t p = 0; p < f.extra; p++) {
    uint32_t to = 2 * p + 1;
    tu_move(b, tu_at(2 * p, tu_out(0, to)), tu_at(to, tu_out(0, to)));
    if (to + 1 < f.ranks) {
      struct tu_span rest = tu_out(to + 1, f.ranks - to - 1);
      tu_move(b, tu_at(2 * p, rest), tu_at(to, rest));
    }
  }
  tu_join_end(b);
}

const struct tu_algorithm tu_algo_allgather_recursive_doubling = {
    .collective = TUTTI_ALLGATHER,
    .name = "recursive_doubling",
    .summary = "partners at distances 1, 2, 4, ... exchange all that they have",
    .build = build,
};
