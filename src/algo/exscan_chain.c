/* exscan_chain.c: every rank keeps the sum that it receives, adds its own input and sends the result to the next rank.
 * The last rank adds nothing.
 * Cost for vectors of n bytes: (N-1)(alpha + beta n) + (N-2) gamma n. */
#include "algo/phases.h"
#include "algo/trie.h"

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  struct tu_span in = tu_in(0, 1), out = tu_out(0, 1), sum = in;
  for (uint32_t rank = 1; rank < n; rank++) {
    /* In place, OUT is the same memory as the input that must still be added. Therefore the sum is received in
     * scratch. */
    struct tu_span got = tu_build_in_place(b) ? tu_tmp(b, rank, in, 1) : out;
    tu_move(b, tu_at(rank - 1, sum), tu_at(rank, got));
    if (rank + 1 < n) {
      sum = tu_tmp(b, rank, in, 1);
      tu_reduce_local(b, rank, got, in, sum);
    }
    if (got.buffer == TU_TMP) tu_copy(b, rank, got, out);
  }
}

const struct tu_algorithm tu_algo_exscan_chain = {
    .collective = TUTTI_EXSCAN,
    .name = "chain",
    .summary = "the running sum passes from rank to rank",
    .flags = TU_RANK_ORDER,
    .canonical = tu_canonical_to_four,
    .build = build,
};
