/* alltoall, ring: all blocks travel around a ring together; every rank takes out its own and passes the rest on, as one message.
 * (N-1)(alpha + beta m N/2): only neighbours talk. Blocks on their way lie in one of two areas of scratch, in turn. */
#include <stdlib.h>

#include "algo/parts.h"

/* The first step: `rank` sends all of its blocks, the next rank's first. In place, arriving blocks lie where others have not
 * left: they are sent from scratch. */
static void depart(struct tu_builder *b, uint32_t rank, struct tu_span area, struct tu_span next_area) {
  uint32_t n = tu_build_ranks(b), to = (rank + 1) % n;
  /* From the next rank's block on, and on at 0 after the last. */
  uint32_t straight = rank + 2 < n ? n - rank - 2 : 0;
  const uint32_t counts[] = {1, straight, n - 2 - straight};
  const uint32_t firsts[] = {to, rank + 2, rank + 1 < n ? 0 : 1};
  for (uint32_t k = 0, done = 0; k < 3; done += counts[k++]) {
    if (counts[k] == 0) continue;
    struct tu_span source = tu_build_in_place(b) ? tu_part(area, done, counts[k]) : tu_in(firsts[k], counts[k]);
    struct tu_span target = k == 0 ? tu_out(rank, 1) : tu_part(next_area, done - 1, counts[k]);
    tu_move(b, tu_at(rank, source), tu_at(to, target));
  }
}

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  for (uint32_t rank = 0; rank < n; rank++) tu_copy(b, rank, tu_in(rank, 1), tu_out(rank, 1));
  if (n == 1) return;
  struct tu_span *areas[2] = {tu_allocate(n, sizeof **areas), tu_allocate(n, sizeof **areas)};
  for (uint32_t rank = 0; rank < n; rank++) {
    for (int k = 0; k < 2; k++) areas[k][rank] = tu_tmp(b, rank, tu_in(0, 1), n - 1);
    for (uint32_t i = 0; tu_build_in_place(b) && i + 1 < n; i++)
      tu_copy(b, rank, tu_in((rank + 1 + i) % n, 1), tu_part(areas[0][rank], i, 1));
  }
  for (uint32_t step = 1; step < n; step++) {
    const struct tu_span *here = areas[(step - 1) % 2], *there = areas[step % 2];
    uint32_t rest = n - 1 - step; /* blocks that go on after this step */
    tu_join_begin(b);
    for (uint32_t rank = 0; rank < n; rank++) {
      uint32_t to = (rank + 1) % n, from = (rank + n - (step - 1)) % n;
      if (step == 1) {
        depart(b, rank, here[rank], there[to]);
        continue;
      }
      tu_move(b, tu_at(rank, tu_part(here[rank], 0, 1)), tu_at(to, tu_out(from, 1)));
      if (rest > 0) tu_move(b, tu_at(rank, tu_part(here[rank], 1, rest)), tu_at(to, tu_part(there[to], 0, rest)));
    }
    tu_join_end(b);
  }
  free(areas[0]);
  free(areas[1]);
}

const struct tu_algorithm tu_algo_alltoall_ring = {
    .collective = TUTTI_ALLTOALL,
    .name = "ring",
    .summary = "all blocks travel around a ring together; every rank takes out its own",
    .flags = TU_EQUAL_BLOCKS,
    .build = build,
};
