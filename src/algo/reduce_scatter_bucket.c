/* reduce_scatter, bucket: blocks travel around a ring and grow on the way. (N-1)(alpha + (beta + gamma) m). */
#include <stdlib.h>

#include "algo/parts.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  if (n == 1) {
    tu_copy(b, 0, tu_in(0, 1), tu_out(0, 1));
    return;
  }
  struct tu_span *partial = tu_allocate((size_t)n * n, sizeof *partial);
  struct tu_span *result = tu_allocate(n, sizeof *result);
  for (uint32_t rank = 0; rank < n; rank++) {
    result[rank] = tu_out(0, 1);
    /* A block ends at its own rank and starts at the next one: neither keeps a partial sum of it. */
    for (uint32_t block = 0; block < n; block++)
      if (block != rank && (block + 1) % n != rank) partial[rank * n + block] = tu_tmp(b, rank, tu_in(block, 1), 1);
  }
  tu_bucket_reduce_scatter(b, partial, result);
  free(partial);
  free(result);
}

const struct tu_algorithm tu_algo_reduce_scatter_bucket = {
    .collective = TUTTI_REDUCE_SCATTER,
    .name = "bucket",
    .summary = "blocks travel around a ring and are reduced on the way",
    .build = build,
};
