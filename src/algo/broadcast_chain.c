/* broadcast_chain.c: a pipeline of K pieces of the vector passes from rank to rank.
 * Cost for vectors of n bytes: (N-2+K)(alpha + beta n/K). K is 8 by default; the optimal K is sqrt((N-2) beta n /
 * alpha). */
#include "algo/phases.h"

static uint32_t pieces(const struct tu_build *what) { return what->chunks ? what->chunks : 8; }

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b), count = tu_build_split(b);
  for (uint32_t piece = 0; piece < count; piece++) {
    for (uint32_t v = 0; v + 1 < n; v++) {
      struct tu_span source = v == 0 ? tu_in(piece, 1) : tu_out(piece, 1);
      tu_move(b, tu_at((root + v) % n, source), tu_at((root + v + 1) % n, tu_out(piece, 1)));
    }
  }
  tu_copy(b, root, tu_in_blocks_at(b, 0, 1), tu_out_blocks_at(b, 0, 1));
}

const struct tu_algorithm tu_algo_broadcast_chain = {
    .collective = TUTTI_BROADCAST,
    .name = "chain",
    .summary = "pieces of the vector follow each other from rank to rank",
    .split = pieces,
    .build = build,
};
