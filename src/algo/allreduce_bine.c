/* allreduce_bine.c: the Bine algorithm (De Sensi et al.: Bine Trees, 2025). It works like Rabenseifner's algorithm, but
 * partners are at the distances of the negabinary butterfly, which are a third shorter on average. The ranges of the
 * ranks are arranged so that every message is one range of the vector.
 * Cost for vectors of n bytes: 2 log2(N) alpha + (2 beta + gamma) n (N-1)/N if N is a power of two.
 * Let P be the largest power of two that is at most N. N - P ranks take no part in the rounds: a neighbour represents
 * each of them (folding). */
#include "algo/phases.h"

static void build(struct tu_builder *b) { tu_halving_doubling(b, tu_partner_swing); }

const struct tu_algorithm tu_algo_allreduce_bine = {
    .collective = TUTTI_ALLREDUCE,
    .name = "bine",
    .summary = "halving and reducing, then doubling, between near partners of a negabinary butterfly",
    .split = tu_split_power,
    .build = build,
};
