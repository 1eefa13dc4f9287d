/* reduce_scatter, recursive halving: partners at distances 1, 2, 4, ... exchange the half of their blocks that the other is
 * responsible for. alpha log2 N + (beta + gamma) m (N-1) at powers of two; the ranks beyond are folded into a neighbour
 * that stands for both, and told their block at the end. Distances grow, so that the sums are balanced trees over the
 * ranks in order. A partner's blocks are scattered and cross as one message. */
#include "algo/parts.h"

struct places {
  struct tu_folding fold;
  struct tu_span *have, *keep; /* [rank * N + block] */
};

/* The odd ranks of the first pairs give all they have to their neighbours. */
static void fold_in(struct tu_builder *b, const struct places *l) {
  uint32_t n = l->fold.ranks;
  for (uint32_t p = 0; p < l->fold.extra; p++) {
    uint32_t rank = tu_fold_rank(l->fold, p);
    struct tu_span sum = tu_tmp(b, rank, tu_in(0, n), 1);
    tu_move_reduce(b, tu_at(rank + 1, tu_in(0, n)), TU_FROM_RIGHT, tu_in(0, n), tu_at(rank, sum));
    for (uint32_t block = 0; block < n; block++)
      l->have[(size_t)rank * n + block] = l->keep[(size_t)rank * n + block] = tu_part(sum, block, 1);
  }
}

/* Where partial sums go: those that leave in the first round need no place. */
static void lay_out(struct tu_builder *b, const struct places *l) {
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
  struct places l = {.fold = tu_fold_of(n),
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
    .summary = "partners at distances 1, 2, 4, ... exchange halves of what they have left, in rank order",
    .flags = TU_RANK_ORDER,
    .build = build,
};
