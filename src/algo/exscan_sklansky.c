/* exscan_sklansky.c: prefix sums as in scan_sklansky.c. A rank that still has to send the sum of its block keeps that sum
 * beside its result, which lacks its own input.
 * Cost for vectors of n bytes: as for scan.sklansky; half of the ranks add twice. */
#include "algo/phases.h"
#include "algo/trie.h"

/* Returns true if a rank sends after this round. It sends in the round of its lowest bit that is 0, if a rank follows it. */
static bool sends_later(uint32_t rank, uint32_t round, uint32_t n) {
  return rank + 1 < n && round < (uint32_t)__builtin_ctz(~rank);
}

static void build(struct tu_builder *b) {
  const uint32_t n = tu_build_ranks(b);
  const struct tu_span in = tu_in(0, 1), out = tu_out(0, 1);
  /* [rank]: the sum of its block up to and including it, as long as it still sends it; scratch for what it receives then */
  struct tu_span *sum = tu_build_memory(b, n, sizeof *sum), *got = tu_build_memory(b, n, sizeof *got);
  bool *has = tu_build_memory(b, n, sizeof *has); /* OUT has a result */
  for (uint32_t rank = 0; rank < n; rank++) {
    sum[rank] = in;
    if (sends_later(rank, 0, n)) got[rank] = tu_tmp(b, rank, in, 1);
  }
  for (uint32_t round = 0; 1u << round < n; round++) {
    const uint32_t half = 1u << round;
    tu_concurrent_begin(b);
    for (uint32_t to = half; to < n; to++) {
      const uint32_t from = (to & ~(half - 1)) - 1;
      if (!(to & half)) continue;
      if (sends_later(to, round, n)) tu_move(b, tu_at(from, sum[from]), tu_at(to, got[to]));
      else if (has[to]) tu_move_reduce(b, tu_at(from, sum[from]), TU_FROM_LEFT, out, tu_at(to, out));
      else tu_move(b, tu_at(from, sum[from]), tu_at(to, out));
    }
    tu_concurrent_end(b);
    for (uint32_t to = half; to < n; to++) {
      if (!(to & half)) continue;
      if (sends_later(to, round, n)) {
        const struct tu_span room = sum[to].buffer == TU_TMP ? sum[to] : tu_tmp(b, to, in, 1);
        tu_reduce_local(b, to, got[to], sum[to], room);
        sum[to] = room;
        if (has[to]) tu_reduce_local(b, to, got[to], out, out);
        else tu_copy(b, to, got[to], out);
      }
      has[to] = true;
    }
  }
}

const struct tu_algorithm tu_algo_exscan_sklansky = {
    .collective = TUTTI_EXSCAN,
    .name = "sklansky",
    .summary = "as scan.sklansky, without the rank's own input",
    .flags = TU_RANK_ORDER,
    .canonical = tu_canonical_always,
    .build = build,
};
