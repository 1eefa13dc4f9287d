/* allreduce_line.c: partial sums of each share of the vector travel from both ends of a line to the rank to which the
 * share belongs. The sum then travels to both ends.
 * Cost for vectors of n bytes: about 2(N-1)(alpha + beta n/N) + gamma n (N-1)/N on full-duplex links. */
#include "algo/composite.h"
#include "algo/phases.h"

static void build(struct tu_builder *b) { tu_composite_build(b, "rs:line+ag:line"); }

const struct tu_algorithm tu_algo_allreduce_line = {
    .collective = TUTTI_ALLREDUCE,
    .name = "line",
    .summary = "reduce_scatter.line, then allgather.line: only neighbour links, in rank order",
    .flags = TU_RANK_ORDER,
    .lanes = 2,
    .split = tu_split_ranks,
    .build = build,
};
