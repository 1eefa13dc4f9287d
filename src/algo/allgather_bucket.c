/* allgather, bucket: blocks travel around a ring. (N-1)(alpha + beta m). */
#include "algo/parts.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  for (uint32_t rank = 0; rank < n; rank++) tu_copy(b, rank, tu_in(0, 1), tu_out(rank, 1));
  tu_bucket_allgather(b);
}

const struct tu_algorithm tu_algo_allgather_bucket = {
    .collective = TUTTI_ALLGATHER,
    .name = "bucket",
    .summary = "blocks travel around a ring",
    .build = build,
};
