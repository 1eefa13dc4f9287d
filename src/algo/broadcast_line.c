/* broadcast_line.c: a pipeline of K pieces of the vector runs from the root to both ends of a line.
 * Cost for vectors of n bytes: (max(root, N-1-root)-1+K)(alpha + beta n/K) on full-duplex links. If both directions
 * share one port, the root sends everything twice. K is 8 by default. */
#include "algo/phases.h"

static uint32_t pieces(const struct tu_build *what) { return what->chunks ? what->chunks : 8; }

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b), count = tu_build_split(b);
  const uint32_t longest[2] = {n - 1 - root, root};
  for (uint32_t piece = 0; piece < count; piece++) {
    for (uint32_t v = 0; v < tu_max(longest[0], longest[1]); v++) {
      for (uint32_t down = 0; down < 2; down++) {
        if (v >= longest[down]) continue;
        uint32_t from = down ? root - v : root + v, to = down ? from - 1 : from + 1;
        tu_lane(b, down);
        tu_move(b, tu_at(from, v == 0 ? tu_in(piece, 1) : tu_out(piece, 1)), tu_at(to, tu_out(piece, 1)));
      }
    }
  }
  tu_lane(b, 0);
  tu_copy(b, root, tu_in_blocks_at(b, 0, 1), tu_out_blocks_at(b, 0, 1));
}

const struct tu_algorithm tu_algo_broadcast_line = {
    .collective = TUTTI_BROADCAST,
    .name = "line",
    .summary = "pieces of the vector follow each other from the root to both ends of a line",
    .lanes = 2,
    .split = pieces,
    .build = build,
};
