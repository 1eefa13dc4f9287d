/* reduce_scatter_recursive_halving.c: partners at distances 1, 2, 4, ... send each other the half of their blocks for
 * which the other is responsible.
 * Cost for blocks of m bytes: alpha log2 N + (beta + gamma) m (N-1) if N is a power of two.
 * Let P be the largest power of two that is at most N. N - P ranks take no part in the rounds (they are folded): a
 * neighbour represents each of them, and sends it its block at the end. Distances grow, so that sums are balanced trees
 * over the ranks in rank order. The blocks for a partner are not contiguous, but are sent as one message. */
#include "algo/phases.h"
#include "algo/trie.h"

struct spans {
  struct tu_folding fold;
  /* [rank * N + block]: have: span of a block's partial sum; keep: span of its next partial sum */
  struct tu_span *have, *keep;
};

/* Folds `extra` ranks, where `extra` is the number by which N exceeds a power of two. Of the first 2 * extra ranks,
 * each odd rank sends its whole input to the even rank before it. The even rank adds its own input, and represents both
 * ranks from then on. */
static void fold_in(struct tu_builder *b, const struct spans *l) {
  uint32_t n = l->fold.ranks;
  for (uint32_t p = 0; p < l->fold.extra; p++) {
    uint32_t rank = tu_fold_rank(l->fold, p);
    struct tu_span sum = tu_tmp(b, rank, tu_in(0, n), 1);
    tu_move_reduce(b, tu_at(rank + 1, tu_in(0, n)), TU_FROM_RIGHT, tu_in(0, n), tu_at(rank, sum));
    for (uint32_t block = 0; block < n; block++)
      l->have[(size_t)rank * n + block] = l->keep[(size_t)rank * n + block] = tu_part(sum, block, 1);
  }
}

/* Assigns memory to the partial sums of participants that represent one rank only. (For participants that represent two
 * ranks, fold_in has done this.) Blocks that are sent away in the first round need no memory. */
static void lay_out(struct tu_builder *b, const struct spans *l) {
  uint32_t n = l->fold.ranks;
  for (uint32_t p = l->fold.extra; p < l->fold.power; p++) {
    uint32_t rank = tu_fold_rank(l->fold, p);
    for (uint32_t owner = 0; owner < l->fold.power; owner++) {
      uint32_t first = tu_fold_rank(l->fold, owner);
      for (uint32_t block = first; block < first + tu_fold_count(l->fold, owner); block++) {
        l->have[(size_t)rank * n + block] = tu_in(block, 1);
        if (owner == p) l->keep[(size_t)rank * n + block] = tu_out(0, 1);
        else if ((owner ^ p) % 2 == 0) l->keep[(size_t)rank * n + block] = tu_tmp(b, rank, tu_in(block, 1), 1);
      }
    }
  }
}

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  if (n == 1) tu_copy(b, 0, tu_in(0, 1), tu_out(0, 1));
  struct spans l = {.fold = tu_fold_of(n),
                    .have = tu_build_memory(b, (size_t)n * n, sizeof *l.have),
                    .keep = tu_build_memory(b, (size_t)n * n, sizeof *l.keep)};
  fold_in(b, &l);
  if (n > 1) lay_out(b, &l);
  tu_butterfly_reduce_scatter(
      b, &(struct tu_halves){
             .fold = l.fold, .partner = tu_partner_xor, .blocks = n, .per_rank = true, .have = l.have, .keep = l.keep});
  for (uint32_t p = 0; p < l.fold.extra; p++) {
    uint32_t rank = tu_fold_rank(l.fold, p);
    tu_copy(b, rank, l.have[(size_t)rank * n + rank], tu_out(0, 1));
    tu_move(b, tu_at(rank, l.have[(size_t)rank * n + rank + 1]), tu_at(rank + 1, tu_out(0, 1)));
  }
}

const struct tu_algorithm tu_algo_reduce_scatter_recursive_halving = {
    .collective = TUTTI_REDUCE_SCATTER,
    .name = "recursive_halving",
    .summary = "partners at distances 1, 2, 4, ... exchange halves of their remaining blocks, in rank order",
    .flags = TU_RANK_ORDER,
    .canonical = tu_canonical_if_folded,
    .build = build,
};
