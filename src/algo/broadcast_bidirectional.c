/* broadcast_bidirectional.c: the two halves of the vector go all the way around a ring in opposite directions, each as
 * a pipeline of K pieces.
 * Cost for vectors of n bytes: (N-2+K)(alpha + beta n/2K) on full-duplex links. K is 8 by default. */
#include "algo/phases.h"

static uint32_t pieces(const struct tu_build *what) { return 2 * (what->chunks ? what->chunks : 8); }

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b), half = tu_build_split(b) / 2;
  for (uint32_t piece = 0; piece < half; piece++) {
    for (uint32_t v = 0; v + 1 < n; v++) {
      for (uint32_t down = 0; down < 2; down++) {
        uint32_t from = (root + (down ? n - v : v)) % n, to = (from + (down ? n - 1 : 1)) % n;
        uint32_t chunk = down * half + piece;
        tu_lane(b, down);
        tu_move(b, tu_at(from, v == 0 ? tu_in(chunk, 1) : tu_out(chunk, 1)), tu_at(to, tu_out(chunk, 1)));
      }
    }
  }
  tu_lane(b, 0);
  tu_copy(b, root, tu_in_blocks_at(b, 0, 1), tu_out_blocks_at(b, 0, 1));
}

const struct tu_algorithm tu_algo_broadcast_bidirectional = {
    .collective = TUTTI_BROADCAST,
    .name = "bidirectional",
    .summary = "pieces of the vector's halves follow each other around a ring, one half each way",
    .lanes = 2,
    .split = pieces,
    .build = build,
};
