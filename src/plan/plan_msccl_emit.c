/* plan_msccl_emit.c: emits the steps of a plan, after the MSCCL algorithm has been simulated.
 *
 * Order. MSCCL cuts a message into pieces that fit its buffers, and runs the whole algorithm once for each piece. So
 * the steps of a threadblock are ordered for each piece, not as a whole. The `after` of a plan orders whole steps,
 * except steps that use the same span. Therefore `after` is set only where two steps touch the same memory, one of them
 * writes, and the file orders them.
 *
 * The file orders steps by their position in a threadblock, by depid and deps, or by a chain of both. Steps that the
 * file does not order stay unordered. If such steps race, the checker (check/) refuses the plan. */
#include "plan/plan_msccl_internal.h"

#include <stdlib.h>
#include <string.h>

#define NONE TU_MSCCL_NONE

struct cell {
  uint32_t writer; /* last step of the plan that wrote the chunk, or NONE */
  /* first entry of the list, in emitter.readers, of the steps that read the chunk since the last write; or NONE */
  uint32_t reader;
};

struct reader {
  uint32_t step, next;
};

/* The MSCCL step from which a step of the plan was made: step number `index` of a threadblock. */
struct origin {
  uint32_t tb, index;
  uint32_t stamp; /* number of the last step of the plan whose `after` list contains this step */
};

struct emitter {
  struct tu_msccl_convert *c;
  uint32_t gpu;
  const struct tu_msccl_gpu *g;
  struct tu_rank_plan *r;
  uint32_t step_capacity, peer_capacity, operand_capacity, after_capacity;
  struct cell *cells;
  struct reader *readers;
  uint32_t reader_count, reader_capacity;
  struct origin *origins;
  uint32_t origin_capacity;
  /* [tb a][tb b]: vector clock of threadblock a: number of steps of threadblock b that are certainly done when a
   * proceeds */
  uint32_t *clocks;
  /* [s][tb]: vector clock of the threadblock of step s at the end of s, where s is a step that other steps wait for */
  uint32_t *snapshots;
  uint32_t *afters; /* `after` list of the step that is being emitted */
  uint32_t list_count, list_capacity;
};

/* Returns true if the MSCCL file orders step `before` of the plan before the current step of threadblock `tb`. */
static bool precedes(const struct emitter *e, uint32_t before, uint32_t tb) {
  const struct origin *o = &e->origins[before];
  return o->tb == tb || e->clocks[tb * e->g->tb_count + o->tb] > o->index;
}

static void note_after(struct emitter *e, uint32_t before, uint32_t tb) {
  if (before == NONE || e->origins[before].stamp == e->r->step_count || !precedes(e, before, tb)) return;
  e->origins[before].stamp = e->r->step_count;
  e->afters = tu_arena_grow(&e->c->arena, e->afters, e->list_count, &e->list_capacity, sizeof *e->afters);
  e->afters[e->list_count++] = before;
}

/* Records the steps that an access must come after: for a read, the last writer; for a write, the readers since the
 * last write, or the last writer if there are none. */
static void note_span(struct emitter *e, struct tu_span span, bool writes, uint32_t tb) {
  const struct cell *cells = e->cells + tu_plan_cell(e->c->plan, e->gpu, (enum tu_buffer)span.buffer, span.first);
  for (uint32_t i = 0; i < span.count; i++) {
    if (!writes || cells[i].reader == NONE) note_after(e, cells[i].writer, tb);
    for (uint32_t k = cells[i].reader; writes && k != NONE; k = e->readers[k].next)
      note_after(e, e->readers[k].step, tb);
  }
}

static void mark_span(struct emitter *e, struct tu_span span, bool writes, uint32_t step) {
  struct cell *cells = e->cells + tu_plan_cell(e->c->plan, e->gpu, (enum tu_buffer)span.buffer, span.first);
  for (uint32_t i = 0; i < span.count; i++) {
    if (writes) {
      cells[i] = (struct cell){step, NONE};
      continue;
    }
    e->readers = tu_arena_grow(&e->c->arena, e->readers, e->reader_count, &e->reader_capacity, sizeof *e->readers);
    e->readers[e->reader_count] = (struct reader){step, cells[i].reader};
    cells[i].reader = e->reader_count++;
  }
}

static int compare_steps(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* Appends the step and its `after` list to the plan. Its reads are recorded before its write, because the step reads
 * before it writes. */
static void append(struct emitter *e, struct tu_step step, uint32_t tb, uint32_t index) {
  struct tu_rank_plan *r = e->r;
  bool reads = step.kind == TU_SEND || step.kind == TU_COPY, writes = step.kind != TU_SEND;
  uint32_t number = r->step_count;
  const struct tu_operand *operands = step.operand_count ? r->operands + step.operand_first : NULL;
  e->list_count = 0;
  if (reads) note_span(e, step.source, false, tb);
  for (uint32_t i = 0; i < step.operand_count; i++)
    if (operands[i].peer == TU_LOCAL) note_span(e, operands[i].span, false, tb);
  if (writes) note_span(e, step.target, true, tb);
  if (reads) mark_span(e, step.source, false, number);
  for (uint32_t i = 0; i < step.operand_count; i++)
    if (operands[i].peer == TU_LOCAL) mark_span(e, operands[i].span, false, number);
  if (writes) mark_span(e, step.target, true, number);
  if (e->list_count > 1) qsort(e->afters, e->list_count, sizeof *e->afters, compare_steps);
  step.after_first = r->after_count;
  step.after_count = e->list_count;
  for (uint32_t i = 0; i < e->list_count; i++) {
    r->afters = tu_arena_grow(&e->c->plan->arena, r->afters, r->after_count, &e->after_capacity, sizeof *r->afters);
    r->afters[r->after_count++] = e->afters[i];
  }
  e->origins = tu_arena_grow(&e->c->arena, e->origins, number, &e->origin_capacity, sizeof *e->origins);
  e->origins[number] = (struct origin){tb, index, NONE};
  r->steps = tu_arena_grow(&e->c->plan->arena, r->steps, number, &e->step_capacity, sizeof *r->steps);
  r->steps[r->step_count++] = step;
}

static void set_peer(struct emitter *e, struct tu_step *step, uint32_t peer) {
  struct tu_rank_plan *r = e->r;
  step->peer_first = r->peer_count;
  step->peer_count = 1;
  r->peers = tu_arena_grow(&e->c->plan->arena, r->peers, r->peer_count, &e->peer_capacity, sizeof *r->peers);
  r->peers[r->peer_count++] = peer;
}

static void add_operand(struct emitter *e, struct tu_step *step, struct tu_operand operand) {
  struct tu_rank_plan *r = e->r;
  if (step->operand_count++ == 0) step->operand_first = r->operand_count;
  r->operands =
      tu_arena_grow(&e->c->plan->arena, r->operands, r->operand_count, &e->operand_capacity, sizeof *r->operands);
  r->operands[r->operand_count++] = operand;
}

static struct tu_span part_of(struct tu_span span, bool cut, uint32_t i) {
  return cut ? (struct tu_span){span.buffer, span.first + i, 1} : span;
}

/* Emits the plan's step for the receive, copy or reduction of an MSCCL step, that is, for all of it except its send. */
static void emit_arrival(struct emitter *e, const struct tu_msccl_tb *tb, uint32_t s, bool cut, uint32_t i) {
  struct tu_msccl_convert *c = e->c;
  const struct tu_msccl_step *from = &c->file->steps[s];
  uint8_t marks = c->marks[c->steps[s].chunks + i];
  struct tu_span source = part_of(from->source, cut, i), target = part_of(from->target, cut, i);
  struct tu_step step = {.lane = tb->lane, .target = target, .final = (marks & TU_MSCCL_FINAL) != 0};
  bool joined = cut && i > 0;
  switch (from->type) {
    case TU_MSCCL_R:
    case TU_MSCCL_RCS:
      step.kind = TU_RECV;
      step.joined = joined;
      set_peer(e, &step, tb->recv);
      break;
    case TU_MSCCL_CPY:
      step.kind = TU_COPY;
      step.lane = 0;
      step.source = source;
      step.first = (marks & TU_MSCCL_SOURCE_RAW) != 0;
      break;
    case TU_MSCCL_RE:
      step.kind = TU_REDUCE;
      step.lane = 0;
      add_operand(e, &step, (struct tu_operand){TU_LOCAL, target, (marks & TU_MSCCL_TARGET_RAW) != 0, false});
      add_operand(e, &step, (struct tu_operand){TU_LOCAL, source, (marks & TU_MSCCL_SOURCE_RAW) != 0, false});
      break;
    default:
      step.kind = TU_RECV_REDUCE;
      add_operand(e, &step, (struct tu_operand){TU_LOCAL, source, (marks & TU_MSCCL_SOURCE_RAW) != 0, false});
      add_operand(e, &step, (struct tu_operand){.peer = tb->recv, .joined = joined});
      break;
  }
  append(e, step, (uint32_t)(tb - c->file->tbs) - e->g->tb_first, s - tb->step_first);
}

static void emit_departure(struct emitter *e, const struct tu_msccl_tb *tb, uint32_t s, bool cut, uint32_t i) {
  struct tu_msccl_convert *c = e->c;
  const struct tu_msccl_step *from = &c->file->steps[s];
  struct tu_step step = {.kind = TU_SEND,
                         .lane = tb->lane,
                         .first = (c->marks[c->steps[s].chunks + i] & TU_MSCCL_SENDS_RAW) != 0,
                         .joined = cut && i > 0,
                         .source = part_of(tu_msccl_kinds[from->type].target ? from->target : from->source, cut, i)};
  set_peer(e, &step, tb->send);
  append(e, step, (uint32_t)(tb - c->file->tbs) - e->g->tb_first, s - tb->step_first);
}

static void emit_step(struct emitter *e, const struct tu_msccl_tb *tb, uint32_t s) {
  const struct tu_msccl_convert *c = e->c;
  const struct tu_msccl_step *from = &c->file->steps[s];
  const struct tu_msccl_step_state *state = &c->steps[s];
  uint32_t count = from->source.count;
  if (tu_msccl_kinds[from->type].target) {
    bool cut = state->from != NONE ? c->steps[state->from].cut_message : state->cut;
    for (uint32_t i = 0; i < (cut ? count : 1); i++) emit_arrival(e, tb, s, cut, i);
  }
  if (!tu_msccl_kinds[from->type].sends) return;
  bool cut = state->taken && state->cut_message;
  for (uint32_t i = 0; i < (cut ? count : 1); i++) emit_departure(e, tb, s, cut, i);
}

/* Merges the vector clock of the step that a threadblock waits for into the clock of the threadblock. */
static void learn(struct emitter *e, uint32_t tb, const struct tu_msccl_step *step) {
  if (step->wait_tb == NONE) return;
  uint32_t tbs = e->g->tb_count;
  uint32_t waited_for = e->c->file->tbs[e->g->tb_first + step->wait_tb].step_first + step->wait_step;
  const uint32_t *known = e->snapshots + (size_t)e->c->steps[waited_for].snapshot * tbs;
  uint32_t *clock = e->clocks + (size_t)tb * tbs;
  for (uint32_t i = 0; i < tbs; i++)
    if (known[i] > clock[i]) clock[i] = known[i];
}

/* Numbers the steps that other steps wait for; the numbers are indices of emitter.snapshots. Returns how many there
 * are. */
static uint32_t number_snapshots(struct emitter *e) {
  struct tu_msccl_convert *c = e->c;
  uint32_t count = 0;
  for (uint32_t t = e->g->tb_first; t < e->g->tb_first + e->g->tb_count; t++) {
    const struct tu_msccl_tb *tb = &c->file->tbs[t];
    for (uint32_t s = tb->step_first; s < tb->step_first + tb->step_count; s++) {
      const struct tu_msccl_step *step = &c->file->steps[s];
      if (step->wait_tb == NONE) continue;
      struct tu_msccl_step_state *other =
          &c->steps[c->file->tbs[e->g->tb_first + step->wait_tb].step_first + step->wait_step];
      if (other->snapshot == NONE) other->snapshot = count++;
    }
  }
  return count;
}

static void emit_scratch(struct emitter *e) {
  const struct tu_plan *p = e->c->plan;
  struct tu_rank_plan *r = e->r;
  uint32_t like = tu_plan_chunks(p, e->gpu, TU_IN) ? TU_IN : TU_OUT;
  r->tmp = tu_arena_allocate(&e->c->plan->arena, r->tmp_count, sizeof *r->tmp);
  for (uint32_t i = 0; i < r->tmp_count; i++) {
    struct tu_span span = {TU_TMP, i, 1};
    r->tmp[i] = (struct tu_like){like, tu_msccl_part_at(e->c, span, tu_msccl_cell_at(e->c, e->gpu, span), 0)};
  }
}

void tu_msccl_emit_rank(struct tu_msccl_convert *c, uint32_t gpu) {
  const struct tu_msccl_gpu *g = &c->file->gpus[gpu];
  struct emitter e = {.c = c, .gpu = gpu, .g = g, .r = &c->plan->rank[gpu]};
  uint32_t cells = c->cell_base[gpu + 1] - c->cell_base[gpu], first = tu_msccl_step_of(c->file->gpus, c->file, gpu);
  e.cells = tu_arena_allocate(&c->arena, cells, sizeof *e.cells);
  memset(e.cells, 0xff, cells * sizeof *e.cells);
  e.clocks = tu_arena_allocate(&c->arena, (size_t)g->tb_count * g->tb_count, sizeof *e.clocks);
  e.snapshots = tu_arena_allocate(&c->arena, (size_t)number_snapshots(&e) * g->tb_count, sizeof *e.snapshots);
  emit_scratch(&e);
  for (uint32_t i = 0; i < c->played[gpu]; i++) {
    uint32_t s = c->order[first + i], t = g->tb_first;
    while (s - c->file->tbs[t].step_first >= c->file->tbs[t].step_count) t++;
    const struct tu_msccl_tb *tb = &c->file->tbs[t];
    uint32_t *clock = e.clocks + (size_t)(t - g->tb_first) * g->tb_count;
    learn(&e, t - g->tb_first, &c->file->steps[s]);
    emit_step(&e, tb, s);
    clock[t - g->tb_first] = s - tb->step_first + 1;
    if (c->steps[s].snapshot != NONE)
      memcpy(e.snapshots + (size_t)c->steps[s].snapshot * g->tb_count, clock, g->tb_count * sizeof *clock);
  }
  e.r->origins = tu_arena_allocate(&c->plan->arena, (size_t)e.r->step_count + 1, sizeof *e.r->origins);
  for (uint32_t i = 0; i < e.r->step_count; i++) {
    const uint32_t step = c->file->tbs[g->tb_first + e.origins[i].tb].step_first + e.origins[i].index;
    e.r->origins[i] = (struct tu_origin){e.origins[i].tb, c->file->steps[step].line};
  }
  void *const own[] = {e.cells, e.readers, e.origins, e.clocks, e.snapshots, e.afters};
  for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) tu_arena_free(&c->arena, own[i]);
}
