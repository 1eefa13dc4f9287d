/* pat.c: computes the operations of PAT (parallel aggregated trees); see pat.h. */
#include "algo/pat.h"

#include "base/text.h"

static int low_bit(uint32_t s) { return s == 0 ? TU_PAT_NONE : __builtin_ctz(s); }

/* Returns the number i of log2(count) bits with these bits in reverse order and inverted. */
static uint32_t mirror_inverted(uint32_t i, uint32_t count) {
  uint32_t result = 0;
  for (uint32_t bit = 1, mirror = count / 2; bit < count; bit <<= 1, mirror >>= 1)
    if (!(i & bit)) result |= mirror;
  return result;
}

/* Returns true if i is 0, or if mirror_inverted(i) and mirror_inverted(i - 1) have different lowest set bits. The
 * lowest set bit selects the dimension, that is, the receiver. */
static bool changes_peer(uint32_t i, uint32_t count) { return __builtin_popcount((i ^ (count - 1)) + 1) == 1; }

static void init(struct tu_pat *p, const struct tu_build *what, struct tu_arena *arena) {
  uint32_t n = what->ranks, pieces = what->slot_pieces ? what->slot_pieces : 1, depth = what->depth ? what->depth : 8;
  *p = (struct tu_pat){.ranks = n, .dims = tu_log2_ceil(n), .aggregate = 1, .arena = arena};
  while (pieces / p->aggregate >= 2 && p->aggregate < n / 2) p->aggregate *= 2;
  p->per_slot = p->aggregate;
  for (; depth > 1 && p->aggregate < n / 2; depth /= 2) p->aggregate *= 2;
  p->delta = (1u << p->dims) / p->aggregate;
}

uint32_t tu_pat_split(const struct tu_build *what) { return what->chunks ? what->chunks : 1; }

/* Appends `count` operations that do nothing yet, and returns the first of them. All have the given phase, as and
 * scale; their fields `a` are 0 .. count - 1. (tu_pat_op explains these fields.) */
static struct tu_pat_op *add_phase(struct tu_pat *p, uint32_t *capacity, uint32_t phase, uint32_t as, uint32_t scale,
                                   uint32_t count) {
  uint32_t first = p->op_count;
  for (uint32_t a = 0; a < count; a++) {
    p->ops = tu_arena_grow(p->arena, p->ops, p->op_count, capacity, sizeof *p->ops);
    p->ops[p->op_count++] = (struct tu_pat_op){.phase = phase,
                                               .as = as,
                                               .a = a,
                                               .scale = scale,
                                               .recv_dim = TU_PAT_NONE,
                                               .send_dim = TU_PAT_NONE,
                                               .recv_at = TU_PAT_NONE,
                                               .send_at = TU_PAT_NONE};
  }
  return p->ops + first;
}

static bool ends_slot(const struct tu_pat *p, uint32_t position) { return (position + 1) % p->per_slot == 0; }

/* ---- operations of reduce-scatter ---- */

/* Makes the operations by which a rank sends pieces of its input to the next rank (dimension 0). The owners of these
 * pieces are the ranks at the distances as, as + delta, as + 2 delta, .... These distances are odd, because `as` is odd
 * and delta is even. */
static void rs_leaves(struct tu_pat *p, struct tu_pat_op *ops, uint32_t as) {
  for (uint32_t a = 0; a < p->aggregate; a++) {
    struct tu_pat_op *op = &ops[a];
    op->piece = mirror_inverted(a, p->aggregate) * p->delta + as;
    op->skipped = op->piece >= p->ranks;
    op->send_dim = 0;
    op->send_at = (int)(a % p->per_slot);
    op->post_send = ends_slot(p, a) || a + 1 == p->aggregate;
  }
}

/* Fills an operation that receives a piece, adds the rank's own piece, and passes the sum on.
 * s: distance from the sender of the piece to the piece's owner. If s is not below the number of ranks, nothing is
 * received, and only the rank's own piece is passed on.
 * at: number of the piece among the received ones. post: true for the last piece of its slot. */
static void rs_receive(const struct tu_pat *p, struct tu_pat_op *op, uint32_t s, uint32_t at, bool post) {
  uint32_t dim = (uint32_t)low_bit(s);
  op->piece = s - (1u << dim);
  op->send_dim = low_bit(op->piece);
  op->skipped = op->piece >= p->ranks;
  if (s >= p->ranks) return;
  op->recv_dim = (int)dim;
  op->recv_at = (int)(at % p->per_slot);
  op->post_recv = post;
}

static void rs_trunk(struct tu_pat *p, struct tu_pat_op *ops, uint32_t as) {
  uint32_t slot = 0, turn = 0, dim = (uint32_t)low_bit(as);
  for (uint32_t a = 0; a < p->aggregate; a++) {
    struct tu_pat_op *op = &ops[a];
    bool ends = ends_slot(p, a) || a + 1 == p->aggregate;
    rs_receive(p, op, mirror_inverted(a, p->aggregate) * p->delta + as, a, ends);
    op->post_send = dim == 0 && ends;
    if (op->send_dim != TU_PAT_NONE) {
      /* If `as` is a power of two, successive pieces are sent to different ranks. Slots are counted per receiver, so
       * the count starts at 0 again when the receiver changes. */
      if (as == 1u << dim && changes_peer(a, p->aggregate)) {
        turn = a;
        slot = 0;
      }
      op->send_at = (int)((as == 1u << dim ? a - turn : a) % p->per_slot);
    }
    op->slot = slot;
    if (dim > 0 && ends_slot(p, a - turn) && !op->skipped) slot++;
  }
}

static void rs_branches(struct tu_pat *p, struct tu_pat_op *near, struct tu_pat_op *far, uint32_t scale) {
  uint32_t count = p->aggregate / (2 * scale), slot = 0, turn = 0;
  for (uint32_t a = 0; a < count; a++) {
    uint32_t s = (2 * mirror_inverted(a, count) + 1) * scale * p->delta;
    uint32_t at = a + p->aggregate - p->aggregate / scale;
    rs_receive(p, &near[a], s + 1, at, ends_slot(p, at));
    near[a].post_send = ends_slot(p, a) || a + 1 == count;
    near[a].send_at = (int)(a % p->per_slot);
    struct tu_pat_op *op = &far[a];
    rs_receive(p, op, s, a, ends_slot(p, a) || a + 1 == count);
    if (changes_peer(a, count)) {
      turn = a;
      slot = 0;
    }
    op->slot = slot;
    if (ends_slot(p, a - turn) && !op->skipped) slot++;
    if (op->send_dim != TU_PAT_NONE) op->send_at = (int)((a - turn) % p->per_slot);
  }
}

void tu_pat_reduce_scatter(struct tu_pat *p, const struct tu_build *what, struct tu_arena *arena) {
  uint32_t capacity = 0;
  init(p, what, arena);
  for (uint32_t as = p->delta - 1; as > 0; as--) {
    if (as % 2 == 1) rs_leaves(p, add_phase(p, &capacity, 0, as, 1, p->aggregate), as);
    if (as > 1) rs_trunk(p, add_phase(p, &capacity, 1, as, 1, p->aggregate), as);
  }
  uint32_t scale = 1;
  for (; scale < p->aggregate; scale *= 2) {
    uint32_t count = p->aggregate / (2 * scale), first = p->op_count;
    add_phase(p, &capacity, 2, 1, scale, count);
    add_phase(p, &capacity, 3, 1, scale, count);
    rs_branches(p, p->ops + first, p->ops + first + count, scale);
  }
  if (p->ranks == 1) return;
  struct tu_pat_op *op = add_phase(p, &capacity, 4, 1, scale, 1);
  op->recv_dim = 0;
  op->recv_at = (int)((p->aggregate - 1) % p->per_slot);
  op->post_recv = op->final = true;
}

/* ---- operations of allgather ---- */

/* Returns the number of pieces that arrive from the same rank before this piece. `piece`: distance to its owner. */
static uint32_t arrival(const struct tu_pat *p, uint32_t piece) {
  return piece % p->delta == 0 ? piece >> (low_bit(piece) + 1) : piece / p->delta;
}

/* Returns the piece that arrives next, after this piece, from the same rank. `piece`: distance to its owner. */
static uint32_t next_arrival(const struct tu_pat *p, uint32_t piece) {
  return piece + (piece % p->delta == 0 ? 2u << low_bit(piece) : p->delta);
}

/* Fills an operation that passes a piece on.
 * s: distance from the receiver to the piece's owner. The distance from this rank to the owner is s minus the lowest
 * set bit of s. next: the value of s in the following operation. */
static void ag_pass(const struct tu_pat *p, struct tu_pat_op *op, uint32_t s, uint32_t next) {
  uint32_t dim = (uint32_t)low_bit(s), came = op->a;
  op->piece = s - (1u << dim);
  op->recv_dim = low_bit(op->piece);
  if (op->recv_dim != TU_PAT_NONE) {
    came = arrival(p, op->piece);
    op->recv_at = (int)(came % p->per_slot);
    op->post_recv = dim == 0 && (ends_slot(p, came) || next_arrival(p, op->piece) >= p->ranks);
  }
  op->slot = dim == 0 ? 0 : came / p->per_slot;
  if (s < p->ranks) {
    op->send_dim = (int)dim;
    op->send_at = (int)(op->a % p->per_slot);
    op->post_send = ends_slot(p, op->a) || next >= p->ranks;
  }
  /* In dimension 0 a piece is used for the last time, so this operation frees the piece's slot. Therefore a rank that
   * has the piece (its distance is below the number of ranks) needs the operation even if no rank receives the
   * piece. */
  op->skipped = s >= p->ranks && (dim > 0 || op->piece >= p->ranks);
}

static void ag_step(struct tu_pat *p, uint32_t *capacity, uint32_t as) {
  struct tu_pat_op *ops = add_phase(p, capacity, 1, as, 0, p->aggregate);
  for (uint32_t a = 0; a < p->aggregate; a++) ag_pass(p, &ops[a], a * p->delta + as, (a + 1) * p->delta + as);
  if (as % 2 == 0) return;
  ops = add_phase(p, capacity, 0, as, 0, p->aggregate);
  for (uint32_t a = 0; a < p->aggregate; a++) {
    struct tu_pat_op *op = &ops[a];
    op->piece = a * p->delta + as;
    op->skipped = op->piece >= p->ranks;
    op->recv_dim = 0;
    op->recv_at = (int)(a % p->per_slot);
    op->post_recv = ends_slot(p, a) || op->piece + p->delta >= p->ranks;
  }
}

/* Let the distances 0 .. delta - 1 be a tree, where the parent of a distance is the distance without its lowest set
 * bit. Returns the distance after `s` in a walk that visits each distance before its children, and larger children
 * first. Returns 0 after the last distance. */
static uint32_t next_in_tree(uint32_t s, uint32_t delta) {
  uint32_t bit = s == 0 ? delta : s & (0u - s);
  if (bit > 1) return s + bit / 2; /* the next distance is the largest child of s */
  /* Finds the nearest ancestor with a child not yet visited, and returns this child. */
  while (s != 0) {
    uint32_t low = s & (0u - s), parent = s - low;
    if (low > 1) return parent + low / 2;
    s = parent;
  }
  return 0;
}

void tu_pat_allgather(struct tu_pat *p, const struct tu_build *what, struct tu_arena *arena) {
  uint32_t capacity = 0;
  init(p, what, arena);
  uint32_t as = p->delta > 1 ? next_in_tree(0, p->delta) : 0;
  for (uint32_t scale = p->aggregate / 2; scale > 0; scale /= 2) {
    uint32_t count = p->aggregate / (2 * scale), step = scale * p->delta;
    struct tu_pat_op *ops = add_phase(p, &capacity, 2, as, scale, count);
    for (uint32_t a = 0; a < count; a++) {
      ag_pass(p, &ops[a], (2 * a + 1) * step, (2 * a + 3) * step);
      ops[a].post_recv = false;
    }
  }
  for (; as != 0; as = next_in_tree(as, p->delta)) ag_step(p, &capacity, as);
}

/* ---- the table of operations, as CSV ---- */

void tu_pat_write(const struct tu_pat *p, const struct tu_build *what, struct tu_text *text) {
  enum { SLOT = 64 };
  bool reduces = what->algorithm->collective == TUTTI_REDUCE_SCATTER;
  uint32_t piece = SLOT / (what->slot_pieces ? what->slot_pieces : 1), chunks = tu_pat_split(what);
  uint32_t count = chunks == 1 ? piece : chunks * piece - piece / 2;
  tu_text_print(text,
                "rank,op,phase,as,a,scale,recvDim,sendDim,recvOffset,sendOffset,stepOffset,postRecv,postSend,nelem,"
                "inpIx,outIx,last,isFinalWrite\n");
  for (uint32_t rank = 0; rank < p->ranks; rank++) {
    for (uint32_t i = 0; i < chunks * p->op_count; i++) {
      const struct tu_pat_op *op = &p->ops[i % p->op_count];
      if (op->skipped) continue;
      uint32_t offset = i / p->op_count * piece, nelem = (uint32_t)tu_min(piece, count - offset);
      uint32_t index = (rank + op->piece) % p->ranks * count + offset;
      uint32_t in = reduces ? index : op->phase == 0 ? 0 : offset;
      uint32_t out = !reduces ? index : op->phase == 0 ? 0 : offset;
      int recv_at = op->recv_at < 0 ? TU_PAT_NONE : op->recv_at * (int)nelem;
      int send_at = op->send_at < 0 ? TU_PAT_NONE : op->send_at * (int)nelem;
      tu_text_print(text, "%u,%u,%u,%u,%u,%u,%d,%d,%d,%d,%u,%d,%d,%u,%u,%u,%d,%d\n", rank, i, op->phase, op->as, op->a,
                    op->scale, op->recv_dim, op->send_dim, recv_at, send_at, op->slot, op->post_recv, op->post_send,
                    nelem, in, out, i + 1 == chunks * p->op_count ? 2 : 0, op->final);
    }
  }
}
