/* allreduce_swing.c: the Swing algorithm (De Sensi, Bonato, Saam, Hoefler 2024). Reduce-scatter and allgather run
 * between partners on alternating sides, at distances 1, 1, 3, 5, 11, ..., which are short on a ring. The blocks that a
 * rank sends in a round are scattered over the vector, but one message carries all of them.
 * Cost for vectors of n bytes: 2 log2(N) alpha + (2 beta + gamma) n (N-1)/N if N is a power of two.
 * Let P be the largest power of two that is at most N. N - P ranks take no part in the rounds: a neighbour represents
 * each of them (folding). */
#include "algo/phases.h"

static void gather_back(struct tu_builder *b, struct tu_folding f) {
  struct tu_reach reach;
  tu_reach_init(b, &reach, f.power, tu_partner_swing);
  for (uint32_t round = reach.rounds; round-- > 0;) {
    uint32_t half = f.power >> (round + 1);
    tu_join_begin(b);
    for (uint32_t p = 0; p < f.power; p++) {
      uint32_t from = tu_fold_rank(f, p), to = tu_fold_rank(f, tu_partner_swing(p, round, f.power));
      for (uint32_t i = 0; i < half; i++) {
        struct tu_span block = tu_out(reach.round[round + 1][(size_t)p * half + i], 1);
        tu_move(b, tu_at(from, block), tu_at(to, block));
      }
    }
    tu_join_end(b);
  }
}

static void build(struct tu_builder *b) {
  struct tu_folding f = tu_fold_of(tu_build_ranks(b));
  if (f.ranks == 1) tu_copy(b, 0, tu_in(0, 1), tu_out(0, 1));
  struct tu_span *have = tu_build_memory(b, (size_t)f.ranks * f.power, sizeof *have);
  struct tu_span *keep = tu_build_memory(b, (size_t)f.ranks * f.power, sizeof *keep);
  for (uint32_t p = 0; p < f.power; p++) {
    for (uint32_t block = 0; block < f.power; block++) {
      size_t at = (size_t)tu_fold_rank(f, p) * f.power + block;
      keep[at] = tu_out(block, 1);
      have[at] = p < f.extra ? keep[at] : tu_in(block, 1);
    }
  }
  tu_fold_in(b, f);
  tu_butterfly_reduce_scatter(
      b, &(struct tu_halves){.fold = f, .partner = tu_partner_swing, .blocks = f.power, .have = have, .keep = keep});
  gather_back(b, f);
  tu_fold_out(b, f);
}

const struct tu_algorithm tu_algo_allreduce_swing = {
    .collective = TUTTI_ALLREDUCE,
    .name = "swing",
    .summary = "reduce-scatter, then allgather, between partners at short distances to alternating sides",
    .split = tu_split_power,
    .build = build,
};
