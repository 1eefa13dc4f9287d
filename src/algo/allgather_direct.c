/* allgather_direct.c: every rank sends its block to all ranks.
 * Cost for blocks of m bytes: (N-1)(alpha + beta m). */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  struct tu_at *out = tu_build_memory(b, n, sizeof *out);
  for (uint32_t from = 0; from < n; from++) {
    /* Rank r sends to r, r + 1, ..., so that no two ranks send to the same rank at the same time. */
    for (uint32_t i = 0; i < n; i++) out[i] = tu_at((from + i) % n, tu_out(from, 1));
    tu_multicast(b, tu_at(from, tu_in(0, 1)), out, n);
  }
}

const struct tu_algorithm tu_algo_allgather_direct = {
    .collective = TUTTI_ALLGATHER,
    .name = "direct",
    .summary = "every rank sends its block to all at once",
    .flags = TU_ROTATES,
    .build = build,
};
