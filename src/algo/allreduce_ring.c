/* allreduce, ring: reduce-scatter and allgather around a ring. 2(N-1)(alpha + beta n/N) + gamma n (N-1)/N. */
#include <stdlib.h>

#include "algo/parts.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  if (n == 1) {
    tu_copy(b, 0, tu_in(0, 1), tu_out(0, 1));
    return;
  }
  struct tu_span *partial = tu_allocate((size_t)n * n, sizeof *partial);
  for (uint32_t i = 0; i < n * n; i++) partial[i] = tu_out(i % n, 1);
  struct tu_span *result = tu_allocate(n, sizeof *result);
  for (uint32_t rank = 0; rank < n; rank++) result[rank] = tu_out(rank, 1);
  tu_bucket_reduce_scatter(b, partial, result);
  tu_bucket_allgather(b);
  free(partial);
  free(result);
}

const struct tu_algorithm tu_algo_allreduce_ring = {
    .collective = TUTTI_ALLREDUCE,
    .name = "ring",
    .summary = "reduce-scatter, then allgather, around a ring",
    .split = tu_split_ranks,
    .build = build,
};
