/* gather_binomial.c: on a binomial tree, a rank collects the blocks of its subtree, then passes them on.
 * Cost for blocks of m bytes: alpha ceil(log2 N) + beta m (N-1). Ranks are counted from the root: v = (rank - root) mod
 * N. The subtree of v has the blocks v .. v + lowbit(v) - 1, where lowbit is the lowest set bit. */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b);
  struct tu_span in = tu_in(0, 1);
  /* [v, a rank counted from the root]: span with the blocks of the subtree of v, in the order of v */
  struct tu_span *have = tu_build_memory(b, n, sizeof *have);
  for (uint32_t v = 1; v < n; v++) {
    uint32_t size = (uint32_t)tu_min(v & (0u - v), n - v);
    have[v] = in;
    if (size == 1) continue;
    have[v] = tu_tmp_blocks(b, (root + v) % n, in, (root + v) % n, size);
    tu_copy(b, (root + v) % n, in, tu_part(have[v], 0, 1));
  }
  tu_copy(b, root, in, tu_out(root, 1));
  for (uint32_t bit = 1; bit < n; bit <<= 1) {
    for (uint32_t v = 0; v + bit < n; v += 2 * bit) {
      uint32_t child = v + bit, from = (root + child) % n, to = (root + v) % n, count = have[child].count;
      if (v > 0) {
        tu_move(b, tu_at(from, have[child]), tu_at(to, tu_part(have[v], bit, count)));
        continue;
      }
      /* The root stores blocks in rank order. If a subtree wraps past rank N - 1, its blocks are two spans, which
       * are sent as one message. */
      uint32_t straight = (uint32_t)tu_min(count, n - from), rest = count - straight;
      if (rest > 0) tu_join_begin(b);
      tu_move(b, tu_at(from, tu_part(have[child], 0, straight)), tu_at(to, tu_out(from, straight)));
      if (rest == 0) continue;
      tu_move(b, tu_at(from, tu_part(have[child], straight, rest)), tu_at(to, tu_out(0, rest)));
      tu_join_end(b);
    }
  }
}

const struct tu_algorithm tu_algo_gather_binomial = {
    .collective = TUTTI_GATHER,
    .name = "binomial",
    .summary = "binomial tree: subtrees collect their blocks and pass them on",
    .flags = TU_EQUAL_BLOCKS,
    .build = build,
};
