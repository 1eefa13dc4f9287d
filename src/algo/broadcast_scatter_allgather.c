/* broadcast, scatter then allgather: a binomial tree deals the vector's shares out, which then travel around a ring.
 * alpha (ceil(log2 N) + N - 1) + 2 beta n (N-1)/N. (Barnett et al. 1994.) */
#include "algo/composite.h"
#include "algo/parts.h"

static void build(struct tu_builder *b) { tu_composite_build(b, "sc:binomial+ag:bucket"); }

const struct tu_algorithm tu_algo_broadcast_scatter_allgather = {
    .collective = TUTTI_BROADCAST,
    .name = "scatter_allgather",
    .summary = "a tree deals the vector's shares out, which then travel around a ring",
    .split = tu_split_ranks,
    .build = build,
};
