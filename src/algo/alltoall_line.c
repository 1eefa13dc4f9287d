/* alltoall_line.c: all blocks travel along a line together, up to higher ranks and down to lower ones. Every rank
 * removes its own blocks and passes on the rest as one message. This takes N-1 steps. The link in the middle carries
 * N/2 blocks in each of N/2 steps. Blocks in transit use two scratch areas in alternation. */
#include "algo/phases.h"

struct course {
  bool down;
  /* Scratch for blocks in transit: areas[0][rank] and areas[1][rank] are used in alternation. An area holds the blocks
   * of one sender that go to the ranks further along the line, in rank order. */
  struct tu_span *areas[2];
};

static void lay_course(struct tu_builder *b, struct course *c) {
  uint32_t n = tu_build_ranks(b);
  for (int k = 0; k < 2; k++) c->areas[k] = tu_build_memory(b, n, sizeof *c->areas[k]);
  for (uint32_t rank = 0; rank < n; rank++) {
    uint32_t count = c->down ? rank : n - 1 - rank;
    if (count == 0) continue;
    for (int k = 0; k < 2; k++) c->areas[k][rank] = tu_tmp(b, rank, tu_in(0, 1), count);
    /* In place, an arriving block overwrites a block that is not sent yet. Therefore blocks are copied to scratch and
     * sent from there. */
    for (uint32_t i = 0; tu_build_in_place(b) && i < count; i++)
      tu_copy(b, rank, tu_in(c->down ? i : rank + 1 + i, 1), tu_part(c->areas[0][rank], i, 1));
  }
}

/* Sends blocks one rank further: those that `rank` received from the rank `step` positions before it. The next rank
 * stores its own block in OUT, and the rest in scratch. */
static void pass_on(struct tu_builder *b, const struct course *c, uint32_t step, uint32_t rank) {
  uint32_t n = tu_build_ranks(b), to = c->down ? rank - 1 : rank + 1, sender = c->down ? rank + step : rank - step;
  uint32_t rest = c->down ? rank - 1 : n - 2 - rank;
  bool in_scratch = step > 0 || tu_build_in_place(b);
  struct tu_span here = in_scratch ? c->areas[step % 2][rank] : c->down ? tu_in(0, rank) : tu_in(rank + 1, rest + 1);
  tu_move(b, tu_at(rank, tu_part(here, c->down ? rest : 0, 1)), tu_at(to, tu_out(sender, 1)));
  if (rest == 0) return;
  tu_move(b, tu_at(rank, tu_part(here, c->down ? 0 : 1, rest)),
          tu_at(to, tu_part(c->areas[(step + 1) % 2][to], 0, rest)));
}

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  struct course courses[2] = {{.down = false}, {.down = true}};
  for (uint32_t rank = 0; rank < n; rank++) tu_copy(b, rank, tu_in(rank, 1), tu_out(rank, 1));
  for (int k = 0; k < 2; k++) lay_course(b, &courses[k]);
  for (uint32_t step = 0; step + 1 < n; step++) {
    for (uint32_t down = 0; down < 2; down++) {
      tu_lane(b, down);
      tu_join_begin(b);
      for (uint32_t rank = down ? 1 : step; down ? rank + step < n : rank + 1 < n; rank++)
        pass_on(b, &courses[down], step, rank);
      tu_join_end(b);
    }
  }
  tu_lane(b, 0);
}

const struct tu_algorithm tu_algo_alltoall_line = {
    .collective = TUTTI_ALLTOALL,
    .name = "line",
    .summary = "blocks travel along a line together, up and down; every rank takes out its own",
    .flags = TU_EQUAL_BLOCKS,
    .lanes = 2,
    .build = build,
};
