/* reduce_scatter, PAT (parallel aggregated trees; see pat.h). Messages of several pieces where slots have room: ceil(log2 N)
 * alpha + (beta + gamma) m (N-1) at powers of two when all fit, N-1 messages when each fills a slot. Near ranks first, so that
 * the long way is gone with little data. Scratch: log2(N) dimensions of `depth` slots. */
#include "algo/parts.h"
#include "algo/pat.h"

/* A place of the FIFO of a dimension. */
struct place {
  int dim;
  uint32_t slot; /* since the beginning */
  uint32_t at;
};

struct state {
  struct tu_pat pat;
  struct place *places;       /* [distance]: where the partial sum for it waits to be sent */
  bool *summed;               /* [distance]: there is one */
  struct tu_span *scratch;    /* [place in the FIFOs, or distance][chunk], at all ranks; made when first needed */
  uint32_t depth;             /* slots of a FIFO */
  uint32_t posted[32];        /* of a dimension: slots */
  uint32_t received_slot[32]; /* of a dimension: slot of the last piece received, + 1 */
};

/* Scratch at all ranks for the partial sum at a distance: its place in the FIFO, or, where blocks may differ in size, one of
 * its own. */
static struct tu_span scratch_of(struct tu_builder *b, struct state *s, uint32_t distance, uint32_t chunk) {
  uint32_t n = tu_build_ranks(b), per_fifo = s->depth * s->pat.per_slot;
  struct place place = s->places[distance];
  size_t index = (size_t)place.dim * per_fifo + place.slot % s->depth * s->pat.per_slot + place.at;
  if (!tu_build_equal_blocks(b)) index = distance;
  struct tu_span *span = &s->scratch[index * tu_build_split(b) + chunk];
  if (span->count > 0) return *span;
  for (uint32_t rank = tu_next_rank(b, 0, 0); rank < n; rank = tu_next_rank(b, rank + 1, 0))
    *span = tu_tmp(b, rank, tu_part(tu_in_blocks_at(b, (rank + distance) % n, 1), chunk, 1), 1);
  return *span;
}

/* What a rank has of the piece at a distance: its partial sum, or its own input. */
static struct tu_span have(struct tu_builder *b, struct state *s, uint32_t rank, uint32_t distance, uint32_t chunk) {
  uint32_t n = tu_build_ranks(b);
  if (!s->summed[distance]) return tu_part(tu_in_blocks_at(b, (rank + distance) % n, 1), chunk, 1);
  if (distance == 0) return tu_part(tu_out_blocks_at(b, 0, 1), chunk, 1);
  return scratch_of(b, s, distance, chunk);
}

/* Every rank receives what it passes on, or keeps, and adds what it has. */
static void receive(struct tu_builder *b, struct state *s, const struct tu_pat_op *op, uint32_t chunk) {
  uint32_t n = tu_build_ranks(b), hop = 1u << op->recv_dim, distance = op->piece + hop;
  uint32_t *last = &s->received_slot[op->recv_dim];
  tu_go_on(b, s->places[distance].slot + 1 == *last);
  *last = s->places[distance].slot + 1;
  struct tu_span target = tu_part(tu_out_blocks_at(b, 0, 1), chunk, 1);
  if (op->piece > 0) target = scratch_of(b, s, op->piece, chunk);
  for (uint32_t from = tu_next_rank(b, 0, hop); from < n; from = tu_next_rank(b, from + 1, hop)) {
    uint32_t to = (from + hop) % n;
    tu_move_reduce(b, tu_at(from, have(b, s, from, distance, chunk)), TU_FROM_LEFT, have(b, s, to, op->piece, chunk),
                   tu_at(to, target));
  }
  tu_go_on(b, false);
  s->summed[op->piece] = true;
}

static void run_chunk(struct tu_builder *b, struct state *s, uint32_t chunk) {
  for (uint32_t i = 0; i < s->pat.ranks; i++) s->summed[i] = false;
  for (uint32_t i = 0; i < s->pat.op_count; i++) {
    const struct tu_pat_op *op = &s->pat.ops[i];
    if (op->skipped) continue;
    if (op->send_dim != TU_PAT_NONE)
      s->places[op->piece] = (struct place){op->send_dim, s->posted[op->send_dim] + op->slot, (uint32_t)op->send_at};
    if (op->recv_dim != TU_PAT_NONE) receive(b, s, op, chunk);
    if (op->post_send) s->posted[op->send_dim]++;
  }
}

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  if (n == 1) tu_copy(b, 0, tu_in_blocks_at(b, 0, 1), tu_out_blocks_at(b, 0, 1));
  struct state s = {.places = tu_build_memory(b, n, sizeof *s.places),
                    .summed = tu_build_memory(b, n, sizeof *s.summed)};
  tu_pat_reduce_scatter(&s.pat, tu_build_what(b), tu_build_arena(b));
  s.depth = s.pat.aggregate / s.pat.per_slot;
  size_t places = tu_max((size_t)s.pat.dims * s.depth * s.pat.per_slot, n);
  s.scratch = tu_build_memory(b, places * tu_build_split(b), sizeof *s.scratch);
  for (uint32_t chunk = 0; chunk < tu_build_split(b); chunk++) run_chunk(b, &s, chunk);
}

const struct tu_algorithm tu_algo_reduce_scatter_pat = {
    .collective = TUTTI_REDUCE_SCATTER,
    .name = "pat",
    .summary = "parallel aggregated trees: near ranks first, pieces aggregated into messages",
    .flags = TU_EQUAL_BLOCKS | TU_ROTATES | TU_ROTATES_ROWS | TU_AGGREGATES,
    .split = tu_pat_split,
    .build = build,
};
