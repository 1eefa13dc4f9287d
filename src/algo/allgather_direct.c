/* allgather, direct: every rank sends its block to all. (N-1)(alpha + beta m). */
#include <stdlib.h>

#include "algo/parts.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  struct tu_at *out = tu_allocate(n, sizeof *out);
  for (uint32_t from = 0; from < n; from++) {
    for (uint32_t to = 0; to < n; to++) out[to] = tu_at(to, tu_out(from, 1));
    tu_multicast(b, tu_at(from, tu_in(0, 1)), out, n);
  }
  free(out);
}

const struct tu_algorithm tu_algo_allgather_direct = {
    .collective = TUTTI_ALLGATHER,
    .name = "direct",
    .summary = "every rank sends its block to all at once",
    .build = build,
};
