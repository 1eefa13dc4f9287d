/* allgather_gather_broadcast.c: gather to rank 0, then broadcast from rank 0, both on binomial trees.
 * Cost for blocks of m bytes: 2 alpha l + beta m (N-1) + beta m N l, l = ceil(log2 N). */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  struct tu_span *in = tu_build_memory(b, n, sizeof *in), *out = tu_build_memory(b, n, sizeof *out);
  for (uint32_t rank = 0; rank < n; rank++) {
    in[rank] = tu_in(0, 1);
    out[rank] = tu_out(0, n);
  }
  struct tu_sub gather = {tu_algorithm_find(TUTTI_GATHER, "binomial"), .ranks = n, .in = in, .out = out, .row = out};
  tu_build_sub(b, &gather);
  struct tu_sub broadcast = {tu_algorithm_find(TUTTI_BROADCAST, "binomial"), .ranks = n, .in = out, .out = out,
                             .in_place = true};
  tu_build_sub(b, &broadcast);
}

const struct tu_algorithm tu_algo_allgather_gather_broadcast = {
    .collective = TUTTI_ALLGATHER,
    .name = "gather_broadcast",
    .summary = "binomial gather to rank 0, binomial broadcast from there",
    .build = build,
};
