/* broadcast, scatter then allgather: a binomial tree deals the vector's shares out, which then travel around a ring.
 * alpha (ceil(log2 N) + N - 1) + 2 beta n (N-1)/N. (Barnett et al. 1994.) */
#include <stdlib.h>

#include "algo/parts.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b);
  struct tu_span *in = tu_allocate(n, sizeof *in), *share = tu_allocate(n, sizeof *share);
  struct tu_span *out = tu_allocate(n, sizeof *out);
  for (uint32_t rank = 0; rank < n; rank++) {
    in[rank] = tu_in(0, n);
    out[rank] = tu_out(0, n);
    share[rank] = tu_out(rank, 1);
  }
  struct tu_sub scatter = {
      tu_algorithm_find(TUTTI_SCATTER, "binomial"), .ranks = n, .root = root, .in = in, .out = share, .row = out};
  tu_build_sub(b, &scatter);
  struct tu_sub allgather = {tu_algorithm_find(TUTTI_ALLGATHER, "bucket"), .ranks = n, .in = share, .out = out,
                             .in_place = true};
  tu_build_sub(b, &allgather);
  free(in);
  free(share);
  free(out);
}

const struct tu_algorithm tu_algo_broadcast_scatter_allgather = {
    .collective = TUTTI_BROADCAST,
    .name = "scatter_allgather",
    .summary = "a tree deals the vector's shares out, which then travel around a ring",
    .split = tu_split_ranks,
    .build = build,
};
