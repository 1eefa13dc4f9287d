/* alltoall, gather then scatter: rank 0 collects everything and deals it out again. 2(N-1)(alpha + beta m N) at rank 0: what
 * the others are compared with. */
#include "algo/parts.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  struct tu_span *rows = tu_build_memory(b, n, sizeof *rows); /* at rank 0: what each rank has for all */
  rows[0] = tu_in(0, n);
  for (uint32_t from = 1; from < n; from++) {
    rows[from] = tu_tmp(b, 0, tu_in(0, n), 1);
    tu_move(b, tu_at(from, tu_in(0, n)), tu_at(0, rows[from]));
  }
  /* Rank 0 itself last: in place, its output lies on what it has for the others. */
  for (uint32_t i = 1; i <= n; i++) {
    uint32_t to = i % n;
    tu_join_begin(b);
    for (uint32_t from = 0; from < n; from++)
      tu_move(b, tu_at(0, tu_part(rows[from], to, 1)), tu_at(to, tu_out(from, 1)));
    tu_join_end(b);
  }
}

const struct tu_algorithm tu_algo_alltoall_gather_scatter = {
    .collective = TUTTI_ALLTOALL,
    .name = "gather_scatter",
    .summary = "rank 0 collects everything and deals it out again",
    .flags = TU_EQUAL_BLOCKS,
    .build = build,
};
