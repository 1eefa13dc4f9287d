/* scan_sklansky.c: Sklansky's prefix sums (1960). In round k the last rank of the lower half of every block of 2^(k+1) ranks
 * sends the sum of this half, which is its own result so far, to all ranks of the upper half.
 * Cost for vectors of n bytes: ceil(log2 N) rounds; the sender of the last round sends up to N/2 messages. No rank waits for
 * a higher one, so calls in a loop follow each other. The sums are those of the canonical order. */
#include "algo/phases.h"
#include "algo/trie.h"

static void build(struct tu_builder *b) {
  const uint32_t n = tu_build_ranks(b);
  const struct tu_span in = tu_in(0, 1), out = tu_out(0, 1);
  struct tu_span *have = tu_build_memory(b, n, sizeof *have);
  for (uint32_t rank = 0; rank < n; rank++) have[rank] = in;
  tu_copy(b, 0, in, out);
  for (uint32_t half = 1; half < n; half <<= 1) {
    tu_concurrent_begin(b);
    for (uint32_t to = half; to < n; to++) {
      const uint32_t from = (to & ~(half - 1)) - 1;
      if (to & half) tu_move_reduce(b, tu_at(from, have[from]), TU_FROM_LEFT, have[to], tu_at(to, out));
    }
    tu_concurrent_end(b);
    for (uint32_t to = half; to < n; to++)
      if (to & half) have[to] = out;
  }
}

const struct tu_algorithm tu_algo_scan_sklansky = {
    .collective = TUTTI_SCAN,
    .name = "sklansky",
    .summary = "the last rank of each half block sends its sum to the ranks of the next half",
    .flags = TU_RANK_ORDER,
    .canonical = tu_canonical_always,
    .build = build,
};
