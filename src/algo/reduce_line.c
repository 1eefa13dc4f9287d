/* reduce_line.c: K pieces of the vector travel from both ends of a line to the root as a pipeline and are summed on the
 * way. The root adds the sum from lower ranks on the left and the sum from higher ranks on the right, so rank order
 * holds.
 * Cost for vectors of n bytes: about (max(root, N-1-root)-1+K)(alpha + (beta + gamma) n/K) on full-duplex links. K is 8
 * by default. */
#include "algo/phases.h"

static uint32_t pieces(const struct tu_build *what) { return what->chunks ? what->chunks : 8; }

/* Sends the partial sum of a piece from rank `from` one rank closer to the root. partial[rank]: span of the partial
 * sums of all pieces. */
static void pass(struct tu_builder *b, uint32_t piece, uint32_t from, bool down, const struct tu_span *partial) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b), to = down ? from - 1 : from + 1;
  bool starts = down ? from + 1 == n : from == 0;
  struct tu_span in = tu_in(piece, 1), out = tu_out(piece, 1);
  /* For a sum from higher ranks (down), the root's operand is OUT, which already contains the sum over the lower ranks
   * and the root. */
  struct tu_span with = to == root && down && root > 0 ? out : in;
  tu_lane(b, down);
  tu_move_reduce(b, tu_at(from, starts ? in : tu_part(partial[from], piece, 1)), down ? TU_FROM_RIGHT : TU_FROM_LEFT,
                 with, tu_at(to, to == root ? out : tu_part(partial[to], piece, 1)));
}

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b), count = tu_build_split(b);
  if (n == 1) tu_copy(b, root, tu_in(0, count), tu_out(0, count));
  struct tu_span *partial = tu_build_memory(b, n, sizeof *partial); /* [rank]: span of the partial sums of all pieces */
  for (uint32_t rank = 1; rank + 1 < n; rank++)
    if (rank != root) partial[rank] = tu_tmp(b, rank, tu_in(0, count), 1);
  for (uint32_t piece = 0; piece < count; piece++) {
    for (uint32_t from = 0; from < root; from++) pass(b, piece, from, false, partial);
    for (uint32_t from = n - 1; from > root; from--) pass(b, piece, from, true, partial);
  }
  tu_lane(b, 0);
}

const struct tu_algorithm tu_algo_reduce_line = {
    .collective = TUTTI_REDUCE,
    .name = "line",
    .summary = "sums of the vector's pieces grow from both ends of a line to the root, in rank order",
    .flags = TU_RANK_ORDER,
    .lanes = 2,
    .split = pieces,
    .build = build,
};
