/* gather, bidirectional: blocks travel around a ring to the root, each the shorter way; every rank passes on what comes from
 * behind it. int(N/2)(alpha + beta m) where both directions of a link work at once; with one port for both,
 * (N-1)(alpha + beta m). A block on its way lies in one of two places of scratch, in turn. */
#include <stdlib.h>

#include "algo/parts.h"

/* The rank so many steps before the root, on the way up or down to it. */
static uint32_t before(uint32_t n, uint32_t root, bool down, uint32_t distance) {
  return (root + (down ? distance : n - distance)) % n;
}

/* The blocks that are `step` steps from their ranks go one step further. */
static void advance(struct tu_builder *b, bool down, uint32_t longest, uint32_t step, const struct tu_span *places) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b);
  for (uint32_t distance = 1; distance + step <= longest; distance++) {
    uint32_t from = before(n, root, down, distance), to = before(n, root, down, distance - 1);
    struct tu_span source = step == 0 ? tu_in(0, 1) : tu_part(places[from], (step - 1) % 2, 1);
    struct tu_span target = tu_out(before(n, root, down, distance + step), 1);
    tu_move(b, tu_at(from, source), tu_at(to, to == root ? target : tu_part(places[to], step % 2, 1)));
  }
}

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b);
  const uint32_t longest[2] = {n / 2, (n - 1) / 2};
  struct tu_span *places = tu_allocate(n, sizeof *places);
  for (uint32_t down = 0; down < 2; down++)
    for (uint32_t distance = 1; distance < longest[down]; distance++) {
      uint32_t rank = before(n, root, down, distance);
      places[rank] = tu_tmp(b, rank, tu_in(0, 1), (uint32_t)tu_min(longest[down] - distance, 2));
    }
  tu_copy(b, root, tu_in(0, 1), tu_out(root, 1));
  for (uint32_t step = 0; step < longest[0]; step++) {
    for (uint32_t down = 0; down < 2; down++) {
      tu_lane(b, down);
      advance(b, down, longest[down], step, places);
    }
  }
  tu_lane(b, 0);
  free(places);
}

const struct tu_algorithm tu_algo_gather_bidirectional = {
    .collective = TUTTI_GATHER,
    .name = "bidirectional",
    .summary = "blocks travel around a ring to the root, each the shorter way",
    .flags = TU_EQUAL_BLOCKS,
    .lanes = 2,
    .build = build,
};
