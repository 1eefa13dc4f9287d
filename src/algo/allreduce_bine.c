/* allreduce, Bine (De Sensi et al.: Bine Trees, 2025): as Rabenseifner's, with partners at the distances of the negabinary
 * butterfly, a third shorter on average. Ranges are laid out so that every message is one range of the vector.
 * 2 log2(N) alpha + (2 beta + gamma) n (N-1)/N at powers of two; other ranks are folded into a neighbour. */
#include "algo/parts.h"

static void build(struct tu_builder *b) { tu_halving_doubling(b, tu_partner_swing); }

const struct tu_algorithm tu_algo_allreduce_bine = {
    .collective = TUTTI_ALLREDUCE,
    .name = "bine",
    .summary = "halving and reducing, then doubling, between near partners of a negabinary butterfly",
    .split = tu_split_power,
    .build = build,
};
