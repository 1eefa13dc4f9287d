/* allgather, direct: every rank sends its block to all. (N-1)(alpha + beta m). */
#include "algo/parts.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  struct tu_at *out = tu_build_memory(b, n, sizeof *out);
  for (uint32_t from = 0; from < n; from++) {
    /* Each starts with another one: with a port each, they do not stand in one another's way. */
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
