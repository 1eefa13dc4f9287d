/* plan_relabel.c: renumbers the ranks of a plan.
 *
 * Blocks are renumbered with the ranks, so that each buffer stays in rank order. Chunks that were adjacent may then no
 * longer be adjacent. A step on a span of such chunks becomes several steps, one for each piece of the span. The
 * messages of the pieces are joined (they cross as one message). */
#include "plan/plan_relabel.h"

#include <string.h>

struct relabel {
  struct tu_arena arena; /* temporary memory that is not part of the new plan */
  const struct tu_plan *from;
  struct tu_plan *to;
  const uint32_t *order;
  uint32_t piece; /* number of chunks per piece of a span; 0: no step has to be cut into pieces */
  bool joins;     /* messages of the pieces are joined (cross as one); false if some message has several receivers */
};

static bool has_rows(const struct tu_plan *plan, uint32_t buffer) {
  const struct tu_collective *c = &tu_collectives[plan->collective];
  return buffer != TU_TMP && (buffer == TU_IN ? c->in : c->out) == TU_EACH;
}

/* Returns the number that a chunk of the old plan has in the new plan. */
static uint32_t new_chunk(const struct relabel *r, uint32_t buffer, uint32_t chunk) {
  uint32_t split = r->from->split;
  return has_rows(r->from, buffer) ? r->order[chunk / split] * split + chunk % split : chunk;
}

/* Returns true if the chunks of the span stay contiguous after relabelling. */
static bool stays_together(const struct relabel *r, struct tu_span span) {
  for (uint32_t i = 1; i < span.count; i++)
    if (new_chunk(r, span.buffer, span.first + i) != new_chunk(r, span.buffer, span.first) + i) return false;
  return true;
}

static uint32_t common_divisor(uint32_t a, uint32_t b) {
  while (b) {
    uint32_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Collects the spans that a step names: its source, its target and its local operands. Returns their number. */
static uint32_t spans_of(const struct tu_rank_plan *p, const struct tu_step *s, struct tu_span *spans) {
  uint32_t count = 0;
  if (s->kind == TU_SEND || s->kind == TU_COPY) spans[count++] = s->source;
  if (s->kind != TU_SEND) spans[count++] = s->target;
  for (uint32_t i = 0; i < s->operand_count; i++)
    if (p->operands[s->operand_first + i].peer == TU_LOCAL) spans[count++] = p->operands[s->operand_first + i].span;
  return count;
}

/* Returns the maximum number of chunks per piece for which all pieces of all steps stay contiguous. Returns 0 if no
 * step has to be cut into pieces. */
static uint32_t find_piece(struct relabel *r) {
  const struct tu_plan *plan = r->from;
  uint32_t piece = plan->split;
  bool needed = false;
  r->joins = true;
  for (uint32_t rank = 0; rank < plan->ranks; rank++) {
    const struct tu_rank_plan *p = &plan->rank[rank];
    struct tu_span *spans = tu_arena_allocate(&r->arena, p->operand_count + 2, sizeof *spans);
    for (uint32_t i = 0; i < p->step_count; i++) {
      uint32_t count = spans_of(p, &p->steps[i], spans);
      r->joins &= p->steps[i].kind != TU_SEND || p->steps[i].peer_count == 1;
      for (uint32_t k = 0; k < count; k++) {
        needed |= !stays_together(r, spans[k]);
        piece = common_divisor(piece, spans[k].count);
        if (has_rows(plan, spans[k].buffer)) piece = common_divisor(piece, spans[k].first);
      }
    }
    tu_arena_free(&r->arena, spans);
  }
  return needed ? piece : 0;
}

static uint32_t chunks_of(const struct tu_step *s) { return s->kind == TU_SEND ? s->source.count : s->target.count; }

static uint32_t pieces_of(const struct relabel *r, const struct tu_step *s) {
  return r->piece ? chunks_of(s) / r->piece : 1;
}

static struct tu_span new_span(const struct relabel *r, struct tu_span span, uint32_t piece) {
  uint32_t first = span.first + piece * r->piece;
  return (struct tu_span){span.buffer, new_chunk(r, span.buffer, first), r->piece ? r->piece : span.count};
}

/* ---- the new steps of one rank ---- */

struct rank_state {
  const struct tu_rank_plan *from;
  struct tu_rank_plan *to;
  uint32_t rank;  /* number of the rank in the new plan */
  uint32_t *base; /* [old step]: index of the first of its new steps */
  uint32_t step_capacity, peer_capacity, operand_capacity, after_capacity;
};

static bool overlap(const struct relabel *r, const struct rank_state *state, struct tu_span a, struct tu_span b) {
  uint32_t at = tu_plan_cell(r->to, state->rank, (enum tu_buffer)a.buffer, a.first);
  uint32_t other = tu_plan_cell(r->to, state->rank, (enum tu_buffer)b.buffer, b.first);
  return at < other + b.count && other < at + a.count;
}

/* Returns true if two steps of the new plan touch the same chunk and at least one of them writes it. */
static bool touch(const struct relabel *r, const struct rank_state *state, const struct tu_step *a,
                  const struct tu_step *b) {
  const struct tu_step *steps[2] = {a, b};
  for (int i = 0; i < 2; i++) {
    const struct tu_step *writer = steps[i], *other = steps[1 - i];
    if (writer->kind == TU_SEND) continue;
    if (other->kind != TU_SEND && overlap(r, state, writer->target, other->target)) return true;
    if ((other->kind == TU_SEND || other->kind == TU_COPY) && overlap(r, state, writer->target, other->source))
      return true;
    for (uint32_t k = 0; k < other->operand_count; k++) {
      const struct tu_operand *o = &state->to->operands[other->operand_first + k];
      if (o->peer == TU_LOCAL && overlap(r, state, writer->target, o->span)) return true;
    }
  }
  return false;
}

/* Sets the `after` list of the new step for one piece of an old step. For each earlier step in the old list, the new
 * list contains the pieces of the earlier step that conflict with this piece. If none conflicts, it contains all pieces
 * of the earlier step. Two pieces conflict if both touch a chunk, and one of them writes it. */
static void add_afters(const struct relabel *r, struct rank_state *state, const struct tu_step *old,
                       struct tu_step *step) {
  struct tu_rank_plan *p = state->to;
  step->after_first = p->after_count;
  for (uint32_t i = 0; i < old->after_count; i++) {
    uint32_t before = state->from->afters[old->after_first + i], base = state->base[before], kept = p->after_count;
    uint32_t pieces = pieces_of(r, &state->from->steps[before]);
    for (int all = 0; all < 2 && p->after_count == kept; all++)
      for (uint32_t k = 0; k < pieces; k++) {
        if (!all && pieces > 1 && !touch(r, state, step, &p->steps[base + k])) continue;
        p->afters = tu_arena_grow(&r->to->arena, p->afters, p->after_count, &state->after_capacity, sizeof *p->afters);
        p->afters[p->after_count++] = base + k;
      }
  }
  step->after_count = p->after_count - step->after_first;
}

static void add_piece(const struct relabel *r, struct rank_state *state, const struct tu_step *old, uint32_t piece) {
  struct tu_rank_plan *p = state->to;
  struct tu_step step = *old;
  step.source = new_span(r, old->source, piece);
  step.target = new_span(r, old->target, piece);
  step.joined = old->joined || (piece > 0 && r->joins && (old->kind == TU_SEND || old->kind == TU_RECV));
  step.peer_first = p->peer_count;
  for (uint32_t i = 0; i < old->peer_count; i++) {
    p->peers = tu_arena_grow(&r->to->arena, p->peers, p->peer_count, &state->peer_capacity, sizeof *p->peers);
    p->peers[p->peer_count++] = r->order[state->from->peers[old->peer_first + i]];
  }
  step.operand_first = p->operand_count;
  for (uint32_t i = 0; i < old->operand_count; i++) {
    struct tu_operand o = state->from->operands[old->operand_first + i];
    if (o.peer == TU_LOCAL) {
      o.span = new_span(r, o.span, piece);
    } else {
      o.peer = r->order[o.peer];
      o.joined |= piece > 0 && r->joins;
    }
    p->operands =
        tu_arena_grow(&r->to->arena, p->operands, p->operand_count, &state->operand_capacity, sizeof *p->operands);
    p->operands[p->operand_count++] = o;
  }
  add_afters(r, state, old, &step);
  p->steps = tu_arena_grow(&r->to->arena, p->steps, p->step_count, &state->step_capacity, sizeof *p->steps);
  p->steps[p->step_count++] = step;
}

static void relabel_rank(struct relabel *r, uint32_t rank) {
  struct rank_state state = {.from = &r->from->rank[rank], .rank = r->order[rank]};
  state.to = &r->to->rank[state.rank];
  state.base = tu_arena_allocate(&r->arena, state.from->step_count + 1, sizeof *state.base);
  state.to->tmp_count = state.from->tmp_count;
  state.to->tmp = tu_arena_allocate(&r->to->arena, state.from->tmp_count + 1, sizeof *state.to->tmp);
  for (uint32_t i = 0; i < state.from->tmp_count; i++) {
    struct tu_like like = state.from->tmp[i];
    state.to->tmp[i] = (struct tu_like){like.buffer, new_chunk(r, like.buffer, like.chunk)};
  }
  for (uint32_t i = 0; i < state.from->step_count; i++) {
    const struct tu_step *old = &state.from->steps[i];
    state.base[i] = state.to->step_count;
    for (uint32_t piece = 0; piece < pieces_of(r, old); piece++) add_piece(r, &state, old, piece);
  }
  tu_arena_free(&r->arena, state.base);
}

/* Returns true if some step receives two messages from the same sender. If these were cut into pieces, the pieces would
 * arrive in another order than the receiver takes them. */
static bool takes_two_of_one(const struct tu_plan *plan) {
  for (uint32_t rank = 0; rank < plan->ranks; rank++) {
    const struct tu_rank_plan *p = &plan->rank[rank];
    for (uint32_t i = 0; i < p->step_count; i++)
      for (uint32_t k = 0; k < p->steps[i].operand_count; k++)
        for (uint32_t j = 0; j < k; j++) {
          uint32_t a = p->operands[p->steps[i].operand_first + k].peer,
                   b = p->operands[p->steps[i].operand_first + j].peer;
          if (a == b && a != TU_LOCAL) return true;
        }
  }
  return false;
}

bool tu_plan_may_relabel(tutti_collective collective) {
  enum tu_promise promise = tu_collectives[collective].promise;
  return promise != TU_SUM_TO && promise != TU_SUM_BEFORE && collective != TUTTI_SEND;
}

static tutti_err check(struct relabel *r, bool *same, struct tu_error *error) {
  const struct tu_plan *plan = r->from;
  const uint32_t *order = r->order;
  bool *seen = tu_arena_allocate(&r->arena, plan->ranks, sizeof *seen);
  tutti_err err = TUTTI_OK;
  *same = true;
  for (uint32_t i = 0; i < plan->ranks && err == TUTTI_OK; i++) {
    if (order[i] >= plan->ranks || seen[order[i]])
      err = tu_fail(error, TUTTI_ERR_ARGUMENT,
                    "invalid order of %u ranks: expected each rank once, but position %u has rank %u", plan->ranks, i,
                    order[i]);
    else seen[order[i]] = true;
    *same &= order[i] == i;
  }
  if (err != TUTTI_OK) return err;
  if (plan->rank_count != plan->ranks)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "cannot relabel a plan with the steps of %u of %u ranks; expected all ranks", plan->rank_count,
                   plan->ranks);
  if (!*same && !tu_plan_may_relabel(plan->collective))
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s cannot be relabelled: its result depends on the order of the ranks",
                   tu_collectives[plan->collective].name);
  return TUTTI_OK;
}

static tutti_err relabel(void *argument, struct tu_error *error) {
  struct relabel *r = argument;
  const struct tu_plan *plan = r->from;
  bool same;
  tutti_err err = check(r, &same, error);
  if (err != TUTTI_OK) return err;
  r->piece = find_piece(r);
  if (r->piece && takes_two_of_one(plan))
    return tu_fail(
        error, TUTTI_ERR_ARGUMENT,
        "%s.%s cannot be relabelled: a step receives two messages from one rank and cannot be cut into pieces",
        tu_collectives[plan->collective].name, plan->algorithm);
  struct tu_plan *to = r->to = tu_plan_create();
  struct tu_arena arena = to->arena;
  *to = *plan;
  to->arena = arena;
  if (tu_collectives[plan->collective].rooted) to->root = r->order[plan->root];
  to->rank_order = plan->rank_order && same;
  if (!same) to->order = TU_BY_CHUNK;
  to->rank = tu_arena_allocate(&to->arena, plan->ranks, sizeof *to->rank);
  for (uint32_t rank = 0; rank < plan->ranks; rank++) relabel_rank(r, rank);
  return TUTTI_OK;
}

tutti_err tu_plan_relabel(const struct tu_plan *plan, const uint32_t order[], struct tu_plan **relabelled,
                          struct tu_error *error) {
  struct relabel r = {.from = plan, .order = order};
  *relabelled = NULL;
  tutti_err err = tu_arena_build(relabel, &r, "a relabelled plan", error);
  tu_arena_fini(&r.arena);
  if (err == TUTTI_OK) *relabelled = r.to;
  else tu_plan_destroy(r.to);
  return err;
}
