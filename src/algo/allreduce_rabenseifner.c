/* allreduce_rabenseifner.c: Rabenseifner's algorithm (2004). Partners at distances 1, 2, 4, ... exchange and reduce
 * halves of the vector, then gather the result on the way back.
 * Cost for vectors of n bytes: 2 log2(N) alpha + (2 beta + gamma) n (N-1)/N if N is a power of two.
 * Let P be the largest power of two that is at most N. N - P ranks take no part in the rounds: a neighbour represents
 * each of them (folding). Sums are balanced trees over the ranks in rank order. */
#include "algo/phases.h"
#include "algo/trie.h"

static void build(struct tu_builder *b) { tu_halving_doubling(b, tu_partner_xor); }

const struct tu_algorithm tu_algo_allreduce_rabenseifner = {
    .collective = TUTTI_ALLREDUCE,
    .name = "rabenseifner",
    .summary = "halving and reducing, then doubling, between partners at distances 1, 2, 4, ...",
    .flags = TU_RANK_ORDER,
    .split = tu_split_power,
    .canonical = tu_canonical_if_folded,
    .build = build,
};
