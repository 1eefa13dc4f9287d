/* barrier, tree: a binomial tree tells rank 0 that all have come, and all that rank 0 knows. 2 ceil(log2 N) alpha. */
#include "algo/parts.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b), top = 1u << tu_log2_ceil(n);
  struct tu_span in = tu_in(0, 1), out = tu_out(0, 1);
  for (uint32_t bit = 1; bit < n; bit <<= 1) {
    for (uint32_t v = 0; v + bit < n; v += 2 * bit) {
      bool leaf = bit == 1 || v + bit + 1 == n;
      tu_move(b, tu_at(v + bit, leaf ? in : out), tu_at(v, out));
    }
  }
  for (uint32_t bit = top; bit > 0; bit >>= 1)
    for (uint32_t v = 0; v + bit < n; v += 2 * bit) tu_move(b, tu_at(v, out), tu_at(v + bit, out));
}

const struct tu_algorithm tu_algo_barrier_tree = {
    .collective = TUTTI_BARRIER,
    .name = "tree",
    .summary = "a binomial tree tells rank 0 that all have come, and all that rank 0 knows",
    .build = build,
};
