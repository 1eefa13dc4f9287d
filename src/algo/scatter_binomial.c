/* scatter_binomial.c: on a binomial tree, a rank receives the blocks of its subtree, and passes on the blocks of the
 * subtrees of its children.
 * Cost for blocks of m bytes: alpha ceil(log2 N) + beta m (N-1). Ranks are counted from the root: v = (rank - root) mod
 * N. The subtree of v has the blocks v .. v + lowbit(v) - 1, where lowbit is the lowest set bit. */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b);
  struct tu_span out = tu_out(0, 1);
  /* [v, a rank counted from the root]: span with the blocks of the subtree of v, in the order of v */
  struct tu_span *have = tu_build_memory(b, n, sizeof *have);
  for (uint32_t v = 1; v < n; v++) {
    uint32_t size = (uint32_t)tu_min(v & (0u - v), n - v);
    have[v] = size == 1 ? out : tu_tmp_blocks(b, (root + v) % n, out, (root + v) % n, size);
  }
  for (uint32_t bit = 1u << tu_log2_ceil(n); bit > 0; bit >>= 1) {
    for (uint32_t v = 0; v + bit < n; v += 2 * bit) {
      uint32_t child = v + bit, from = (root + v) % n, to = (root + child) % n, count = have[child].count;
      if (v > 0) {
        tu_move(b, tu_at(from, tu_part(have[v], bit, count)), tu_at(to, have[child]));
        continue;
      }
      /* The root stores blocks in rank order. If a subtree wraps past rank N - 1, its blocks are two spans, which
       * are sent as one message. */
      uint32_t straight = (uint32_t)tu_min(count, n - to), rest = count - straight;
      if (rest > 0) tu_join_begin(b);
      tu_move(b, tu_at(root, tu_in(to, straight)), tu_at(to, tu_part(have[child], 0, straight)));
      if (rest == 0) continue;
      tu_move(b, tu_at(root, tu_in(0, rest)), tu_at(to, tu_part(have[child], straight, rest)));
      tu_join_end(b);
    }
  }
  tu_copy(b, root, tu_in(root, 1), out);
  for (uint32_t v = 1; v < n; v++)
    if (have[v].buffer == TU_TMP) tu_copy(b, (root + v) % n, tu_part(have[v], 0, 1), out);
}

const struct tu_algorithm tu_algo_scatter_binomial = {
    .collective = TUTTI_SCATTER,
    .name = "binomial",
    .summary = "binomial tree: subtrees receive their blocks and pass halves on",
    .flags = TU_EQUAL_BLOCKS,
    .build = build,
};
