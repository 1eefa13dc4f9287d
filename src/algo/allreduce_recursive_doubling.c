/* allreduce, recursive doubling: partners at distance 1, 2, 4, ... exchange and reduce. log2(N) (alpha + (beta + gamma) n).
 * Ranks beyond a power of two are folded into a neighbour first and told the result at the end. The sum is the
 * balanced tree over the ranks in order. */
#include "algo/parts.h"

/* The rank of participant j: of the first `extra` pairs of ranks, the even one takes part. */
static uint32_t participant(uint32_t j, uint32_t extra) { return j < extra ? 2 * j : j + extra; }

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b), power = tu_pow2_floor(n), extra = n - power;
  struct tu_span in = tu_in(0, 1), out = tu_out(0, 1);
  if (n == 1) tu_copy(b, 0, in, out);
  for (uint32_t j = 0; j < extra; j++) tu_move_reduce(b, tu_at(2 * j + 1, in), TU_FROM_RIGHT, in, tu_at(2 * j, out));
  for (uint32_t bit = 1; bit < power; bit <<= 1) {
    tu_group_begin(b);
    for (uint32_t j = 0; j < power; j++) {
      uint32_t partner = j ^ bit, from = participant(j, extra), to = participant(partner, extra);
      struct tu_span sent = bit == 1 && j >= extra ? in : out, with = bit == 1 && partner >= extra ? in : out;
      tu_move_reduce(b, tu_at(from, sent), j < partner ? TU_FROM_LEFT : TU_FROM_RIGHT, with, tu_at(to, out));
    }
    tu_group_end(b);
  }
  for (uint32_t j = 0; j < extra; j++) tu_move(b, tu_at(2 * j, out), tu_at(2 * j + 1, out));
}

const struct tu_algorithm tu_algo_allreduce_recursive_doubling = {
    .collective = TUTTI_ALLREDUCE,
    .name = "recursive_doubling",
    .summary = "partners at doubling distances exchange and reduce; a balanced tree in rank order",
    .flags = TU_RANK_ORDER,
    .build = build,
};
