/* allreduce, line: partial sums of every share come from both ends of a line to its rank, from where it travels to both ends.
 * About 2(N-1)(alpha + beta n/N) + gamma n (N-1)/N where both directions of a link work at once. */
#include "algo/composite.h"
#include "algo/parts.h"

static void build(struct tu_builder *b) { tu_composite_build(b, "rs:line+ag:line"); }

const struct tu_algorithm tu_algo_allreduce_line = {
    .collective = TUTTI_ALLREDUCE,
    .name = "line",
    .summary = "reduce_scatter.line, then allgather.line: only neighbours talk, in rank order",
    .flags = TU_RANK_ORDER,
    .lanes = 2,
    .split = tu_split_ranks,
    .build = build,
};
