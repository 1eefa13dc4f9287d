/* reduce, reduce-scatter then gather: every rank sums up a share of the vector (recursive halving), the root collects them
 * (binomial tree). 2 alpha log2 N + (2 beta + gamma) n (N-1)/N at powers of two. */
#include <stdlib.h>

#include "algo/parts.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b);
  struct tu_span *in = tu_allocate(n, sizeof *in), *share = tu_allocate(n, sizeof *share);
  struct tu_span *out = tu_allocate(n, sizeof *out);
  for (uint32_t rank = 0; rank < n; rank++) {
    in[rank] = tu_in(0, n);
    out[rank] = tu_out(0, n);
    share[rank] = rank == root ? tu_out(rank, 1) : tu_tmp(b, rank, tu_in(rank, 1), 1);
  }
  struct tu_sub sums = {tu_algorithm_find(TUTTI_REDUCE_SCATTER, "recursive_halving"), .ranks = n, .in = in,
                        .out = share};
  tu_build_sub(b, &sums);
  struct tu_sub gather = {tu_algorithm_find(TUTTI_GATHER, "binomial"),
                          .ranks = n,
                          .root = root,
                          .in = share,
                          .out = out,
                          .row = in,
                          .in_place = true};
  tu_build_sub(b, &gather);
  free(in);
  free(share);
  free(out);
}

const struct tu_algorithm tu_algo_reduce_rs_gather = {
    .collective = TUTTI_REDUCE,
    .name = "rs_gather",
    .summary = "every rank sums up a share of the vector, the root gathers the shares",
    .flags = TU_RANK_ORDER,
    .split = tu_split_ranks,
    .build = build,
};
