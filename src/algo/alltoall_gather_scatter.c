/* alltoall_gather_scatter.c: rank 0 gathers the blocks of all ranks and scatters them again.
 * Cost for blocks of m bytes: 2(N-1)(alpha + beta m N) at rank 0. It is a baseline for comparisons. */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  /* [rank]: span at rank 0 with the N blocks from that rank */
  struct tu_span *rows = tu_build_memory(b, n, sizeof *rows);
  rows[0] = tu_in(0, n);
  for (uint32_t from = 1; from < n; from++) {
    rows[from] = tu_tmp(b, 0, tu_in(0, n), 1);
    tu_move(b, tu_at(from, tu_in(0, n)), tu_at(0, rows[from]));
  }
  /* Rank 0 writes its own output last because, in place, this output overwrites blocks that rank 0 must still send. */
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
    .summary = "rank 0 gathers all blocks and scatters them again",
    .flags = TU_EQUAL_BLOCKS,
    .build = build,
};
