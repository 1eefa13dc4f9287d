/* reduce_scatter_pat.c: reduce-scatter by PAT (parallel aggregated trees; see pat.h). A message carries several pieces
 * of blocks if they fit into a slot.
 * Cost for blocks of m bytes: ceil(log2 N) alpha + (beta + gamma) m (N-1) if N is a power of two and all pieces fit;
 * N-1 messages if each piece fills a slot.
 * Pieces travel to near ranks first and to far ranks last, when few partial sums are left. So long paths carry little
 * data. Scratch: `depth` slots for each of log2(N) dimensions. */
#include "algo/pat.h"
#include "algo/phases.h"

/* Position of a piece in the messages to one receiver, the rank 2^dim further on: number of the slot, and index of the
 * piece in the slot. */
struct position {
  int dim;
  uint32_t slot; /* number of the slot, counted from the start of the plan */
  uint32_t at;
};

struct state {
  struct tu_pat pat;
  /* [distance]: position of the partial sum for the rank at this distance, while it waits to be sent */
  struct position *positions;
  /* [distance]: true if this rank has a partial sum of the piece whose owner is `distance` ranks further on */
  bool *summed;
  /* Scratch for partial sums. An entry is the same span at all ranks, and is allocated at first use. scratch_of
   * computes the index. */
  struct tu_span *scratch;
  uint32_t depth;             /* number of slots per dimension; in a dimension, a rank sends to one receiver */
  uint32_t posted[32];        /* [dimension]: number of slots that were completed so far */
  uint32_t received_slot[32]; /* [dimension]: 1 + number of the slot of the last piece that was received; 0: none */
};

/* Returns the scratch for the partial sum of a piece at a distance (the number of ranks to its owner). It is the same
 * span at all ranks. If blocks have equal sizes, the scratch of a piece that was sent is reused for a later piece at
 * the same position; otherwise each distance has its own scratch. */
static struct tu_span scratch_of(struct tu_builder *b, struct state *s, uint32_t distance, uint32_t chunk) {
  uint32_t n = tu_build_ranks(b), per_fifo = s->depth * s->pat.per_slot;
  struct position position = s->positions[distance];
  size_t index = (size_t)position.dim * per_fifo + position.slot % s->depth * s->pat.per_slot + position.at;
  if (!tu_build_equal_blocks(b)) index = distance;
  struct tu_span *span = &s->scratch[index * tu_build_split(b) + chunk];
  if (span->count > 0) return *span;
  for (uint32_t rank = tu_next_rank(b, 0, 0); rank < n; rank = tu_next_rank(b, rank + 1, 0))
    *span = tu_tmp(b, rank, tu_part(tu_in_blocks_at(b, (rank + distance) % n, 1), chunk, 1), 1);
  return *span;
}

/* Returns the contribution of a rank to the piece at a distance: the rank's partial sum if there is one, else its
 * input. */
static struct tu_span have(struct tu_builder *b, struct state *s, uint32_t rank, uint32_t distance, uint32_t chunk) {
  uint32_t n = tu_build_ranks(b);
  if (!s->summed[distance]) return tu_part(tu_in_blocks_at(b, (rank + distance) % n, 1), chunk, 1);
  if (distance == 0) return tu_part(tu_out_blocks_at(b, 0, 1), chunk, 1);
  return scratch_of(b, s, distance, chunk);
}

/* Emits the receive of one operation at every rank: the rank receives a piece and adds its own contribution. A piece of
 * the rank's own block (distance 0) is stored in OUT. A piece of another rank's block is stored in scratch and sent
 * later. */
static void receive(struct tu_builder *b, struct state *s, const struct tu_pat_op *op, uint32_t chunk) {
  uint32_t n = tu_build_ranks(b), hop = 1u << op->recv_dim, distance = op->piece + hop;
  uint32_t *last = &s->received_slot[op->recv_dim];
  tu_go_on(b, s->positions[distance].slot + 1 == *last);
  *last = s->positions[distance].slot + 1;
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
      s->positions[op->piece] =
          (struct position){op->send_dim, s->posted[op->send_dim] + op->slot, (uint32_t)op->send_at};
    if (op->recv_dim != TU_PAT_NONE) receive(b, s, op, chunk);
    if (op->post_send) s->posted[op->send_dim]++;
  }
}

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  if (n == 1) tu_copy(b, 0, tu_in_blocks_at(b, 0, 1), tu_out_blocks_at(b, 0, 1));
  struct state s = {.positions = tu_build_memory(b, n, sizeof *s.positions),
                    .summed = tu_build_memory(b, n, sizeof *s.summed)};
  tu_pat_reduce_scatter(&s.pat, tu_build_what(b), tu_build_arena(b));
  s.depth = s.pat.aggregate / s.pat.per_slot;
  size_t entries = tu_max((size_t)s.pat.dims * s.depth * s.pat.per_slot, n);
  s.scratch = tu_build_memory(b, entries * tu_build_split(b), sizeof *s.scratch);
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
