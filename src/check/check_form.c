/* check_form.c: checks the form of a plan. Every index must lie in its array and every span in its buffer. Sizes within
 * a step must agree. The marks `first`, `final` and `joined` may be set only on steps that allow them, and a step may
 * write only where writing is allowed. The other parts of the checker rely on this. */
#include "check/check_internal.h"

/* Limits of the numbers of chunks and steps. A larger plan is refused, because the checker follows a plan chunk by
 * chunk. */
enum { CHUNKS_MAX = 1 << 26, STEPS_MAX = 1 << 26 };

/* Limit of the number of chunks that all steps touch, added up over the steps: TOUCHES_FREE, plus TOUCHES_PER_STEP for
 * each step. So the time for a plan with few steps is bounded. */
enum { TOUCHES_FREE = 1 << 28, TOUCHES_PER_STEP = 512 };
static uint64_t touches_max(const struct tu_checking *c) {
  return tu_min(TOUCHES_FREE + (uint64_t)tu_check_steps(c) * TOUCHES_PER_STEP, INT32_MAX);
}

struct form {
  struct tu_checking *c;
  uint32_t *seen; /* [rank]: number of the step that last named the rank as a peer, as counted by `stamp` */
  uint32_t stamp;
  uint64_t touches;
};

static bool check_header(struct tu_checking *c) {
  const struct tu_plan *p = c->plan;
  if (p->ranks == 0 || p->ranks > TU_RANKS_MAX)
    return tu_check_refuse(c, "the plan has %u ranks; expected 1 to %u", p->ranks, TU_RANKS_MAX);
  if (p->rank_first != 0 || p->rank_count != p->ranks)
    return tu_check_refuse(c, "the plan has the steps of %u of its %u ranks; expected the steps of all ranks",
                           p->rank_count, p->ranks);
  if (!tu_is_collective(p->collective) || tu_collectives[p->collective].family != p->collective)
    return tu_check_refuse(c, "invalid collective of the plan; expected one that is no vector variant");
  if (p->root >= (tu_collectives[p->collective].rooted ? p->ranks : 1))
    return tu_check_refuse(c, "the plan's root is %u; expected one of its %u ranks, or 0 for a collective without root",
                           p->root, p->ranks);
  if (p->split == 0 || p->split > CHUNKS_MAX / p->ranks)
    return tu_check_refuse(c, "the plan splits a block into %u chunks; expected 1 to %u", p->split,
                           CHUNKS_MAX / p->ranks);
  return true;
}

/* Numbers the steps, cells and input chunks of all ranks of the plan, in one sequence each. */
static bool lay_out(struct tu_checking *c) {
  const struct tu_plan *p = c->plan;
  c->ranks = tu_arena_allocate(c->arena, p->ranks + 1, sizeof *c->ranks);
  uint64_t steps = 0, cells = 0, inputs = 0;
  for (uint32_t i = 0; i < p->ranks; i++) {
    c->ranks[i] = (struct tu_check_rank){(uint32_t)steps, (uint32_t)cells, (uint32_t)inputs, {0}};
    for (uint32_t b = TU_IN; b <= TU_TMP; b++)
      c->ranks[i].cell[b] = (uint32_t)cells + tu_plan_cell(p, i, (enum tu_buffer)b, 0);
    uint32_t in = tu_plan_chunks(p, i, TU_IN), out = tu_plan_chunks(p, i, TU_OUT), tmp = p->rank[i].tmp_count;
    steps += p->rank[i].step_count;
    cells += (uint64_t)in + out + tmp;
    inputs += in;
    if (steps > STEPS_MAX || cells > CHUNKS_MAX)
      return tu_check_refuse(c, "the plan is too large to check: it has more than %d steps or %d chunks", STEPS_MAX,
                             CHUNKS_MAX);
    if (tmp > c->report->tmp_chunks_max) c->report->tmp_chunks_max = tmp;
    for (uint32_t k = 0; k < tmp; k++) {
      const struct tu_like *like = &p->rank[i].tmp[k];
      if (like->buffer >= TU_TMP || like->chunk >= (like->buffer == TU_IN ? in : out))
        return tu_check_refuse(c, "rank %u: the size of tmp[%u] is invalid; expected a chunk of in or out of this rank",
                               i, k);
    }
  }
  c->ranks[p->ranks] = (struct tu_check_rank){(uint32_t)steps, (uint32_t)cells, (uint32_t)inputs, {0}};
  c->steps = tu_arena_allocate(c->arena, steps, sizeof *c->steps);
  c->writable = tu_arena_allocate(c->arena, cells, sizeof *c->writable);
  for (uint32_t i = 0; i < p->ranks; i++) {
    for (uint32_t s = 0; s < p->rank[i].step_count; s++)
      c->steps[c->ranks[i].step_base + s] = (struct tu_check_step){.step = &p->rank[i].steps[s], .rank = i};
    for (uint32_t b = TU_OUT; b <= TU_TMP; b++) {
      uint32_t chunks = tu_plan_chunks(p, i, (enum tu_buffer)b);
      uint32_t cell = chunks ? tu_check_cell(c, i, (struct tu_span){b, 0, chunks}) : 0;
      for (uint32_t k = 0; k < chunks; k++) c->writable[cell + k] = true;
    }
  }
  return true;
}

static bool fits(uint32_t first, uint32_t count, uint32_t total) { return first <= total && count <= total - first; }

static bool check_span(struct form *f, uint32_t step, const char *what, struct tu_span span) {
  struct tu_checking *c = f->c;
  if (span.buffer > TU_TMP)
    return tu_check_refuse_step(c, step, "unknown buffer of the step's %s; expected in, out or tmp", what);
  uint32_t chunks = tu_plan_chunks(c->plan, c->steps[step].rank, (enum tu_buffer)span.buffer);
  if (span.count == 0 || !fits(span.first, span.count, chunks))
    return tu_check_refuse_step(c, step, "the step's %s has %u chunks from chunk %u on, but the buffer has %u chunks",
                                what, span.count, span.first, chunks);
  f->touches += span.count;
  if (f->touches > touches_max(c))
    return tu_check_refuse_step(
        c, step, "the plan is too large to check: this step and the steps before it touch more than %llu chunks",
        (unsigned long long)touches_max(c));
  return true;
}

/* Checks a local source. Each of its chunks must have the size of the target's chunk. The source and the target must be
 * identical or disjoint. */
static bool check_source(struct form *f, uint32_t step, struct tu_span source, struct tu_span target) {
  struct tu_checking *c = f->c;
  if (!check_span(f, step, "source", source)) return false;
  if (source.count != target.count)
    return tu_check_refuse_step(c, step, "the step's source has %u chunks, but its target has %u", source.count,
                                target.count);
  uint32_t rank = c->steps[step].rank;
  for (uint32_t i = 0; i < source.count; i++) {
    uint32_t from = tu_plan_chunk_class(c->plan, rank, (enum tu_buffer)source.buffer, source.first + i);
    uint32_t to = tu_plan_chunk_class(c->plan, rank, (enum tu_buffer)target.buffer, target.first + i);
    if (from != to)
      return tu_check_refuse_step(
          c, step, "chunk %u of the step's source may differ in size from the same chunk of its target", i);
  }
  uint32_t a = tu_check_cell(c, rank, source), b = tu_check_cell(c, rank, target);
  if (a != b && a < b + source.count && b < a + source.count)
    return tu_check_refuse_step(c, step,
                                "the step's source and target overlap; expected the same span or no common chunk");
  return true;
}

static bool check_target(struct form *f, uint32_t step, struct tu_span target) {
  if (!check_span(f, step, "target", target)) return false;
  uint32_t cell = tu_check_cell(f->c, f->c->steps[step].rank, target);
  for (uint32_t i = 0; i < target.count; i++)
    if (!f->c->writable[cell + i])
      return tu_check_refuse_step(
          f->c, step, "the step writes chunk %u of an input that the caller keeps; expected output or scratch",
          target.first + i);
  return true;
}

/* Checks that a peer is another rank, and that the step names it only once. (A step has at most one message for each
 * channel.) */
static bool check_peer(struct form *f, uint32_t step, uint32_t peer) {
  struct tu_checking *c = f->c;
  if (peer >= c->plan->ranks || peer == c->steps[step].rank)
    return tu_check_refuse_step(c, step, "invalid peer %u; expected another one of the %u ranks", peer, c->plan->ranks);
  if (f->seen[peer] == f->stamp) return tu_check_refuse_step(c, step, "the step names rank %u as a peer twice", peer);
  f->seen[peer] = f->stamp;
  return true;
}

static bool check_operands(struct form *f, uint32_t step, const struct tu_step *s) {
  struct tu_checking *c = f->c;
  const struct tu_rank_plan *r = tu_check_rank_of(c, step);
  if (s->operand_count < 2)
    return tu_check_refuse_step(c, step, "the step reduces %u operands; expected two or more", s->operand_count);
  uint32_t remote = 0;
  for (uint32_t i = 0; i < s->operand_count; i++) {
    const struct tu_operand *o = &r->operands[s->operand_first + i];
    if (o->peer == TU_LOCAL) {
      if (o->joined)
        return tu_check_refuse_step(c, step,
                                    "a local operand is marked as joined; expected this mark only on messages");
      if (!check_source(f, step, o->span, s->target)) return false;
      continue;
    }
    remote++;
    if (o->first)
      return tu_check_refuse_step(
          c, step, "a message is marked as unscaled input; expected this mark only on input of this rank");
    if (!check_peer(f, step, o->peer)) return false;
  }
  if ((remote > 0) != (s->kind == TU_RECV_REDUCE))
    return tu_check_refuse_step(c, step, "the step has %u operands that are messages; expected %s", remote,
                                remote ? "none in a reduce" : "at least one in a recv_reduce");
  return true;
}

static bool check_marks(struct form *f, uint32_t step, const struct tu_step *s) {
  struct tu_checking *c = f->c;
  const struct tu_collective *promise = &tu_collectives[c->plan->collective];
  const struct tu_rank_plan *r = tu_check_rank_of(c, step);
  bool combines = s->kind == TU_RECV_REDUCE || s->kind == TU_REDUCE;
  bool first = s->first;
  for (uint32_t i = 0; combines && i < s->operand_count; i++) first |= r->operands[s->operand_first + i].first;
  if (!tu_reduces(c->plan->collective) && (first || s->final || combines))
    return tu_check_refuse_step(c, step, "the step %s, but %s does not reduce data",
                                combines ? "reduces" : "is marked first or final", promise->name);
  if (s->tree && (!combines || s->operand_count < 3))
    return tu_check_refuse_step(
        c, step, "the step is marked as a tree; expected this mark only on a reduction of three or more operands");
  bool one_message = s->kind == TU_RECV || (s->kind == TU_SEND && s->peer_count == 1);
  if (s->joined && !one_message)
    return tu_check_refuse_step(
        c, step, "the step is marked as joined; expected this mark only on a recv, or on a send to one peer");
  if (s->first && s->kind != TU_SEND && s->kind != TU_COPY)
    return tu_check_refuse_step(c, step, "the step is marked first; expected this mark only on a send or a copy");
  if (s->final && (promise->promise != TU_SUM_OF_ALL || (s->kind != TU_COPY && !combines)))
    return tu_check_refuse_step(c, step, "the step is marked final, but does not complete a sum of all ranks");
  return true;
}

static bool check_step(struct form *f, uint32_t step) {
  struct tu_checking *c = f->c;
  const struct tu_rank_plan *r = tu_check_rank_of(c, step);
  const struct tu_step *s = tu_check_step_at(c, step);
  uint32_t rank = c->steps[step].rank, number = step - c->ranks[rank].step_base;
  bool sends = s->kind == TU_SEND, receives = s->kind == TU_RECV;
  bool combines = s->kind == TU_RECV_REDUCE || s->kind == TU_REDUCE;
  /* The message for these cases omits the text of the step, because a step with values out of range cannot be
   * printed. */
  const char *outside = NULL;
  if (s->kind > TU_REDUCE) outside = "kind";
  else if (s->lane >= TU_LANES_MAX) outside = "lane";
  else if (!fits(s->after_first, s->after_count, r->after_count)) outside = "list of earlier steps (`after`)";
  else if ((sends || receives) && !fits(s->peer_first, s->peer_count, r->peer_count)) outside = "list of peers";
  else if (combines && !fits(s->operand_first, s->operand_count, r->operand_count)) outside = "list of operands";
  if (outside) return tu_check_refuse(c, "rank %u, step %u: the step's %s is out of range", rank, number, outside);
  for (uint32_t i = 0; i < s->after_count; i++)
    if (r->afters[s->after_first + i] >= number)
      return tu_check_refuse_step(c, step, "the step's `after` names step %u; expected an earlier step",
                                  r->afters[s->after_first + i]);
  f->stamp++;
  if (receives ? s->peer_count != 1 : sends && s->peer_count == 0)
    return tu_check_refuse_step(
        c, step, "the step has %u peers; expected one for a receive, or at least one for a send", s->peer_count);
  for (uint32_t i = 0; (sends || receives) && i < s->peer_count; i++)
    if (!check_peer(f, step, r->peers[s->peer_first + i])) return false;
  if (sends ? !check_span(f, step, "source", s->source) : !check_target(f, step, s->target)) return false;
  if (s->kind == TU_COPY && !check_source(f, step, s->source, s->target)) return false;
  if (combines && !check_operands(f, step, s)) return false;
  return check_marks(f, step, s);
}

bool tu_check_form(struct tu_checking *c) {
  if (!check_header(c) || !lay_out(c)) return false;
  struct form f = {.c = c, .seen = tu_arena_allocate(c->arena, c->plan->ranks, sizeof *f.seen)};
  bool good = true;
  for (uint32_t step = 0; good && step < tu_check_steps(c); step++) good = check_step(&f, step);
  tu_arena_free(c->arena, f.seen);
  return good;
}
