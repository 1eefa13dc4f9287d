/* scatter, bidirectional: blocks travel around a ring from the root, each the shorter way and the farthest first; every rank
 * passes on what goes beyond it. int(N/2)(alpha + beta m) where both directions of a link work at once; with one port for
 * both, (N-1)(alpha + beta m). A block on its way lies in one of two places of scratch, in turn. */
#include <stdlib.h>

#include "algo/parts.h"

/* The rank so many steps behind the root, on the way up or down from it. */
static uint32_t behind(uint32_t n, uint32_t root, bool down, uint32_t distance) {
  return (root + (down ? n - distance : distance)) % n;
}

/* All blocks on the way go one step further, and one leaves the root: in step 0 the one that goes farthest. */
static void advance(struct tu_builder *b, bool down, uint32_t longest, uint32_t step, const struct tu_span *places) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b);
  for (uint32_t distance = 0; distance <= step; distance++) {
    uint32_t goal = longest - (step - distance); /* of the block that is there */
    if (goal <= distance) continue;
    uint32_t from = behind(n, root, down, distance), to = behind(n, root, down, distance + 1);
    struct tu_span source = tu_in(behind(n, root, down, goal), 1);
    if (distance > 0) source = tu_part(places[from], (step - distance) % 2, 1);
    struct tu_span target = goal == distance + 1 ? tu_out(0, 1) : tu_part(places[to], (step - distance) % 2, 1);
    tu_move(b, tu_at(from, source), tu_at(to, target));
  }
}

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b);
  const uint32_t longest[2] = {n / 2, (n - 1) / 2};
  struct tu_span *places = tu_allocate(n, sizeof *places);
  for (uint32_t down = 0; down < 2; down++)
    for (uint32_t distance = 1; distance < longest[down]; distance++) {
      uint32_t rank = behind(n, root, down, distance);
      places[rank] = tu_tmp(b, rank, tu_out(0, 1), (uint32_t)tu_min(longest[down] - distance, 2));
    }
  for (uint32_t step = 0; step < longest[0]; step++) {
    for (uint32_t down = 0; down < 2; down++) {
      tu_lane(b, down);
      if (step < longest[down]) advance(b, down, longest[down], step, places);
    }
  }
  tu_lane(b, 0);
  tu_copy(b, root, tu_in(root, 1), tu_out(0, 1));
  free(places);
}

const struct tu_algorithm tu_algo_scatter_bidirectional = {
    .collective = TUTTI_SCATTER,
    .name = "bidirectional",
    .summary = "blocks travel around a ring from the root, each the shorter way and the farthest first",
    .flags = TU_EQUAL_BLOCKS,
    .lanes = 2,
    .build = build,
};
