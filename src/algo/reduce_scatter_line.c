/* reduce_scatter_line.c: partial sums of each block travel from both ends of a line to the rank to which the block
 * belongs, on two lanes. This rank adds the sum from lower ranks on the left and the sum from higher ranks on the
 * right, so rank order holds.
 * Cost for blocks of m bytes: N rounds on full-duplex links; at most 2(N-1)(alpha + (beta + gamma) m) if both
 * directions share one port. */
#include "algo/phases.h"

/* Sends the partial sum of a block from rank `from` one rank closer to the rank to which the block belongs.
 * partial[rank * N + block]: span of the partial sum of a block at a rank. */
static void pass(struct tu_builder *b, uint32_t block, uint32_t from, bool down, const struct tu_span *partial) {
  uint32_t n = tu_build_ranks(b), to = down ? from - 1 : from + 1;
  bool starts = down ? from + 1 == n : from == 0;
  struct tu_span in = tu_in(block, 1), with = in, target = partial[(size_t)to * n + block];
  if (to == block) {
    target = tu_out(0, 1);
    /* the sum from higher ranks (down) comes last: OUT already contains the sum over the lower ranks and this rank */
    if (down && block > 0) with = target;
  }
  tu_move_reduce(b, tu_at(from, starts ? in : partial[(size_t)from * n + block]), down ? TU_FROM_RIGHT : TU_FROM_LEFT,
                 with, tu_at(to, target));
}

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  if (n == 1) tu_copy(b, 0, tu_in(0, 1), tu_out(0, 1));
  struct tu_span *partial = tu_build_memory(b, (size_t)n * n, sizeof *partial);
  for (uint32_t rank = 1; rank + 1 < n; rank++)
    for (uint32_t block = 0; block < n; block++)
      if (block != rank) partial[(size_t)rank * n + block] = tu_tmp(b, rank, tu_in(block, 1), 1);
  /* Sums travel up first. In the loop below they travel down, so a rank adds the sum from lower ranks before the sum
   * from higher ranks. The block with the longest way starts first. */
  for (uint32_t step = 0; step + 2 < 2 * n; step++) {
    for (uint32_t from = 0; from + 1 < n; from++)
      if (step >= from && step - from + from < n - 1) pass(b, n - 1 - (step - from), from, false, partial);
  }
  tu_lane(b, 1);
  for (uint32_t step = 0; step + 2 < 2 * n; step++) {
    for (uint32_t from = n - 1; from > 0; from--) {
      uint32_t behind = n - 1 - from;
      if (step >= behind && step - behind < from) pass(b, step - behind, from, true, partial);
    }
  }
  tu_lane(b, 0);
}

const struct tu_algorithm tu_algo_reduce_scatter_line = {
    .collective = TUTTI_REDUCE_SCATTER,
    .name = "line",
    .summary = "partial sums come from both ends of a line, in rank order",
    .flags = TU_RANK_ORDER,
    .lanes = 2,
    .build = build,
};
