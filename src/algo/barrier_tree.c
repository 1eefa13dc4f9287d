/* barrier_tree.c: notifications travel up a binomial tree to rank 0 until all ranks have arrived, then down the tree to
 * release all ranks.
 * Cost: 2 ceil(log2 N) alpha. */
#include "algo/phases.h"

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
    .summary = "a binomial tree collects arrivals at rank 0, then carries back the release",
    .build = build,
};
