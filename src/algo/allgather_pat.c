/* allgather_pat.c: allgather by PAT (parallel aggregated trees; see pat.h). A message carries several pieces of blocks
 * if they fit into a slot.
 * Cost for blocks of m bytes: ceil(log2 N) alpha + beta m (N-1) if N is a power of two and all pieces fit; N-1 messages
 * if each piece fills a slot.
 * Pieces travel to far ranks first, while there are few of them, and to near ranks last. So long paths carry little
 * data. */
#include "algo/pat.h"
#include "algo/phases.h"

static void pass_on(struct tu_builder *b, const struct tu_pat_op *op, uint32_t chunk) {
  uint32_t n = tu_build_ranks(b), distance = n - (1u << op->send_dim);
  for (uint32_t rank = tu_next_rank(b, 0, distance); rank < n; rank = tu_next_rank(b, rank + 1, distance)) {
    uint32_t to = (rank + distance) % n;
    struct tu_span piece = tu_part(tu_out_blocks_at(b, (rank + op->piece) % n, 1), chunk, 1);
    tu_move(b, tu_at(rank, piece), tu_at(to, piece));
  }
}

static void build(struct tu_builder *b) {
  struct tu_pat pat;
  tu_pat_allgather(&pat, tu_build_what(b), tu_build_arena(b));
  /* [d]: true if the last message from a rank to the rank 2^d before it has room for the next piece */
  bool open[32] = {false};
  tu_copy_own(b);
  for (uint32_t chunk = 0; chunk < tu_build_split(b); chunk++) {
    for (uint32_t i = 0; i < pat.op_count; i++) {
      const struct tu_pat_op *op = &pat.ops[i];
      if (op->skipped || op->send_dim == TU_PAT_NONE) continue;
      tu_go_on(b, open[op->send_dim]);
      pass_on(b, op, chunk);
      open[op->send_dim] = !op->post_send;
    }
  }
  tu_go_on(b, false);
}

const struct tu_algorithm tu_algo_allgather_pat = {
    .collective = TUTTI_ALLGATHER,
    .name = "pat",
    .summary = "parallel aggregated trees: far ranks first, pieces aggregated into messages",
    .flags = TU_ROTATES | TU_ROTATES_ROWS | TU_AGGREGATES,
    .split = tu_pat_split,
    .build = build,
};
