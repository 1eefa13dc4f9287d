/* reduce_bidirectional.c: the two halves of the vector travel around a ring to the root, in opposite directions. Each
 * half is a pipeline of K pieces, which are summed on the way.
 * Cost for vectors of n bytes: (N-2+K)(alpha + (beta + gamma) n/2K) on full-duplex links. K is 8 by default. */
#include "algo/phases.h"

static uint32_t pieces(const struct tu_build *what) { return 2 * (what->chunks ? what->chunks : 8); }

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b), half = tu_build_split(b) / 2;
  if (n == 1) tu_copy(b, root, tu_in(0, 2 * half), tu_out(0, 2 * half));
  /* [half * N + rank]: span of the partial sum of a half of the vector at a rank */
  struct tu_span *partial = tu_build_memory(b, 2 * (size_t)n, sizeof *partial);
  for (uint32_t down = 0; down < 2; down++)
    for (uint32_t v = 2; v < n; v++) {
      uint32_t rank = (root + (down ? n - v : v)) % n;
      partial[down * n + rank] = tu_tmp(b, rank, tu_in(down * half, half), 1);
    }
  for (uint32_t piece = 0; piece < half; piece++) {
    for (uint32_t v = 1; v < n; v++) {
      for (uint32_t down = 0; down < 2; down++) {
        uint32_t from = (root + (down ? n - v : v)) % n, to = (from + (down ? n - 1 : 1)) % n;
        struct tu_span in = tu_in(down * half + piece, 1), out = tu_out(down * half + piece, 1);
        struct tu_span source = v == 1 ? in : tu_part(partial[down * n + from], piece, 1);
        struct tu_span target = to == root ? out : tu_part(partial[down * n + to], piece, 1);
        tu_lane(b, down);
        tu_move_reduce(b, tu_at(from, source), TU_FROM_LEFT, in, tu_at(to, target));
      }
    }
  }
  tu_lane(b, 0);
}

const struct tu_algorithm tu_algo_reduce_bidirectional = {
    .collective = TUTTI_REDUCE,
    .name = "bidirectional",
    .summary = "pieces of the vector's halves are summed on the way around a ring to the root, half each way",
    .lanes = 2,
    .split = pieces,
    .build = build,
};
