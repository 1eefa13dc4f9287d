/* broadcast_scatter_allgather.c: shares of the vector are scattered on a binomial tree, then gathered by all ranks
 * around a ring (allgather).
 * Cost for vectors of n bytes: alpha (ceil(log2 N) + N - 1) + 2 beta n (N-1)/N. (Barnett et al. 1994.) */
#include "algo/composite.h"
#include "algo/phases.h"

static void build(struct tu_builder *b) { tu_composite_build(b, "sc:binomial+ag:bucket"); }

const struct tu_algorithm tu_algo_broadcast_scatter_allgather = {
    .collective = TUTTI_BROADCAST,
    .name = "scatter_allgather",
    .summary = "a tree scatters shares of the vector, which then travel around a ring",
    .split = tu_split_ranks,
    .build = build,
};
