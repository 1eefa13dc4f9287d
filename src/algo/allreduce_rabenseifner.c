/* allreduce, Rabenseifner's (2004): halves of the vector are exchanged and reduced at distances 1, 2, 4, ..., then gathered
 * again on the way back. 2 log2(N) alpha + (2 beta + gamma) n (N-1)/N at powers of two; other ranks are folded into a
 * neighbour. Sums are balanced trees over the ranks in order. */
#include "algo/parts.h"

static void build(struct tu_builder *b) { tu_halving_doubling(b, tu_partner_xor); }

const struct tu_algorithm tu_algo_allreduce_rabenseifner = {
    .collective = TUTTI_ALLREDUCE,
    .name = "rabenseifner",
    .summary = "halving and reducing, then doubling, between partners at distances 1, 2, 4, ...",
    .flags = TU_RANK_ORDER,
    .split = tu_split_power,
    .build = build,
};
