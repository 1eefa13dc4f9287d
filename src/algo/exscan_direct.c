/* exscan_direct.c: as scan_direct.c, without the rank's own vector.
 * Cost for vectors of n bytes: (N-1)(alpha + beta n) + (N-2) gamma n. */
#include "algo/phases.h"
#include "algo/trie.h"

static void build(struct tu_builder *b) {
  const uint32_t n = tu_build_ranks(b);
  struct tu_at *in = tu_build_memory(b, n, sizeof *in);
  for (uint32_t rank = 0; rank < n; rank++) in[rank] = tu_at(rank, tu_in(0, 1));
  tu_concurrent_begin(b);
  if (n > 1) tu_move(b, in[0], tu_at(1, tu_out(0, 1)));
  for (uint32_t to = 2; to < n; to++) tu_reduce_from(b, in, to, tu_at(to, tu_out(0, 1)));
  tu_concurrent_end(b);
}

const struct tu_algorithm tu_algo_exscan_direct = {
    .collective = TUTTI_EXSCAN,
    .name = "direct",
    .summary = "every rank sends to all later ones, which reduce all earlier ones at once in rank order",
    .flags = TU_RANK_ORDER,
    .canonical = tu_canonical_always,
    .build = build,
};
