/* draw_values.c: computes the value of every chunk, round by round. The caller has already checked that the plan is
 * correct, so nothing is verified here. */
#include <stdlib.h>
#include <string.h>

#include "draw/draw_internal.h"

struct following {
  struct tu_draw_values *v;
  const struct tu_drawing *d;
  struct tu_draw_value **cells; /* [ranks]: values of all cells (chunks) of each rank */
  /* [steps], for a barrier: bit mask of the ranks that are known to have arrived when the step has run */
  uint64_t *knows;
  uint32_t *complete_count; /* [ranks]: number of output chunks that hold their final value */
  uint32_t *takes_first; /* [steps]: index in `takes` of the first message part (send step) that each step receives */
  const struct tu_draw_part **takes;
};

static bool is_barrier(const struct tu_plan *p) { return tu_collectives[p->collective].promise == TU_NOTHING; }

uint32_t tu_draw_cells(const struct tu_plan *plan, uint32_t rank) {
  return tu_plan_chunks(plan, rank, TU_IN) + tu_plan_chunks(plan, rank, TU_OUT) + tu_plan_chunks(plan, rank, TU_TMP);
}

struct tu_draw_value tu_draw_initial(const struct tu_plan *plan, uint32_t rank, uint32_t cell) {
  uint32_t in = tu_plan_chunks(plan, rank, TU_IN);
  /* At the start of a barrier, a rank has information only about its own arrival. */
  if (is_barrier(plan)) return (struct tu_draw_value){0, 1ull << rank};
  uint32_t base = in ? tu_plan_cell(plan, rank, TU_IN, 0) : 0;
  if (cell < base || cell - base >= in) return (struct tu_draw_value){0};
  return (struct tu_draw_value){cell - base, 1ull << rank};
}

struct tu_draw_value tu_draw_promised(const struct tu_plan *plan, uint32_t rank, uint32_t chunk) {
  struct tu_promised promised = tu_promise_of(plan->collective, plan->ranks, plan->root, rank, chunk / plan->split);
  if (is_barrier(plan)) promised = (struct tu_promised){0, plan->ranks, 0};
  struct tu_draw_value value = {promised.in_block * plan->split + chunk % plan->split, 0};
  if (is_barrier(plan)) value.chunk = 0;
  for (uint32_t rank_in = promised.from; rank_in < promised.to; rank_in++) value.ranks |= 1ull << rank_in;
  return value;
}

static bool equal_values(struct tu_draw_value a, struct tu_draw_value b) {
  return a.chunk == b.chunk && a.ranks == b.ranks;
}

static bool is_complete(const struct tu_plan *plan, uint32_t rank, uint32_t cell, struct tu_draw_value value) {
  uint32_t out = tu_plan_chunks(plan, rank, TU_OUT), base = out ? tu_plan_cell(plan, rank, TU_OUT, 0) : 0;
  return cell >= base && cell - base < out && equal_values(value, tu_draw_promised(plan, rank, cell - base));
}

static void note_complete(struct following *f, uint32_t rank, uint32_t round) {
  bool all = f->complete_count[rank] == tu_plan_chunks(f->d->plan, rank, TU_OUT) && f->complete_count[rank] > 0;
  if (!all) f->v->complete[rank] = TU_DRAW_NEVER;
  else if (f->v->complete[rank] == TU_DRAW_NEVER) f->v->complete[rank] = round;
}

static void write_cell(struct following *f, uint32_t round, uint32_t rank, uint32_t cell, struct tu_draw_value value) {
  const struct tu_plan *plan = f->d->plan;
  struct tu_draw_values *v = f->v;
  f->complete_count[rank] -= is_complete(plan, rank, cell, f->cells[rank][cell]);
  f->complete_count[rank] += is_complete(plan, rank, cell, value);
  f->cells[rank][cell] = value;
  note_complete(f, rank, round);
  v->writes = tu_grow(v->writes, v->write_count, &v->write_capacity, sizeof *v->writes);
  v->writes[v->write_count++] = (struct tu_draw_write){round, rank, cell, value};
}

/* ---- parts that each step receives, in order of the sender ---- */

static int compare_takes(const void *left, const void *right) {
  const struct tu_draw_part *a = *(const struct tu_draw_part *const *)left;
  const struct tu_draw_part *b = *(const struct tu_draw_part *const *)right;
  if (a->recv != b->recv) return a->recv < b->recv ? -1 : 1;
  return a->from < b->from ? -1 : a->from > b->from;
}

static void list_takes(struct following *f) {
  const struct tu_drawing *d = f->d;
  uint32_t steps = tu_drawing_steps(d);
  f->takes = tu_allocate(d->part_count, sizeof(void *));
  f->takes_first = tu_allocate((size_t)steps + 1, sizeof *f->takes_first);
  for (uint32_t i = 0; i < d->part_count; i++) {
    f->takes[i] = &d->parts[i];
    f->takes_first[d->parts[i].recv + 1]++;
  }
  for (uint32_t s = 0; s < steps; s++) f->takes_first[s + 1] += f->takes_first[s];
  if (d->part_count > 1) qsort(f->takes, d->part_count, sizeof(void *), compare_takes);
}

/* A step receives at most one message part from each rank. Returns the number of the send step that sent the part from
 * rank `rank` to `step`. */
static uint32_t send_from(const struct following *f, uint32_t step, uint32_t rank) {
  uint32_t i = f->takes_first[step];
  while (f->takes[i]->from != rank) i++;
  tu_assert(i < f->takes_first[step + 1]);
  return f->takes[i]->send;
}

/* ---- execution of a step ---- */

static struct tu_draw_value *cell_at(struct following *f, uint32_t rank, struct tu_span span, uint32_t i) {
  return &f->cells[rank][tu_plan_cell(f->d->plan, rank, (enum tu_buffer)span.buffer, span.first) + i];
}

static void send_values(struct following *f, uint32_t step) {
  const struct tu_step *s = tu_drawing_step(f->d, step);
  struct tu_draw_value *sent = f->v->sent + f->v->sent_first[step];
  for (uint32_t i = 0; i < s->source.count; i++) sent[i] = *cell_at(f, f->d->rank_of[step], s->source, i);
}

static struct tu_draw_value result_of(struct following *f, uint32_t step, uint32_t i) {
  const struct tu_step *s = tu_drawing_step(f->d, step);
  const struct tu_rank_plan *r = tu_drawing_rank(f->d, step);
  uint32_t rank = f->d->rank_of[step];
  if (s->kind == TU_COPY) return *cell_at(f, rank, s->source, i);
  if (s->kind == TU_RECV) return f->v->sent[f->v->sent_first[send_from(f, step, r->peers[s->peer_first])] + i];
  struct tu_draw_value value = {0};
  for (uint32_t k = 0; k < s->operand_count; k++) {
    const struct tu_operand *o = &r->operands[s->operand_first + k];
    struct tu_draw_value operand = o->peer == TU_LOCAL ? *cell_at(f, rank, o->span, i)
                                                       : f->v->sent[f->v->sent_first[send_from(f, step, o->peer)] + i];
    value = (struct tu_draw_value){operand.chunk, value.ranks | operand.ranks};
  }
  return value;
}

static void take_values(struct following *f, uint32_t step) {
  const struct tu_step *s = tu_drawing_step(f->d, step);
  uint32_t rank = f->d->rank_of[step];
  /* Compute all results before the first write, because a step may write its result into a chunk that it also reads. */
  struct tu_draw_value *results = tu_allocate(s->target.count, sizeof *results);
  for (uint32_t i = 0; i < s->target.count; i++) results[i] = result_of(f, step, i);
  uint32_t cell = tu_plan_cell(f->d->plan, rank, (enum tu_buffer)s->target.buffer, s->target.first);
  for (uint32_t i = 0; i < s->target.count; i++) write_cell(f, f->d->round[step], rank, cell + i, results[i]);
  free(results);
}

/* Computes which ranks are known to have arrived when a step of a barrier has run. These are the step's own rank, and
 * all ranks that were known at the steps for which this step waits, and at the sender of a message that it receives. A
 * barrier's chunks contain no data. */
static void follow_knowledge(struct following *f, uint32_t step) {
  const struct tu_drawing *d = f->d;
  const struct tu_step *s = tu_drawing_step(d, step);
  uint32_t rank = d->rank_of[step], *afters = tu_drawing_rank(d, step)->afters;
  uint64_t knows = 1ull << rank;
  for (uint32_t i = 0; i < s->after_count; i++) knows |= f->knows[d->step_base[rank] + afters[s->after_first + i]];
  for (uint32_t i = f->takes_first[step]; i < f->takes_first[step + 1]; i++) knows |= f->knows[f->takes[i]->send];
  f->knows[step] = knows;
  for (uint32_t i = 0; s->kind == TU_SEND && i < s->source.count; i++)
    f->v->sent[f->v->sent_first[step] + i] = (struct tu_draw_value){0, knows};
  if (s->kind == TU_SEND) return;
  uint32_t cell = tu_plan_cell(d->plan, rank, TU_OUT, 0);
  write_cell(f, d->round[step], rank, cell, (struct tu_draw_value){0, f->cells[rank][cell].ranks | knows});
}

/* ---- execution of all steps, in order of the rounds ---- */

struct turn {
  uint32_t step, round;
  bool takes;
};

static int compare_turns(const void *left, const void *right) {
  const struct turn *a = left, *b = right;
  if (a->round != b->round) return a->round < b->round ? -1 : 1;
  if (a->takes != b->takes) return a->takes ? 1 : -1;
  return a->step < b->step ? -1 : a->step > b->step;
}

static void follow(struct following *f) {
  const struct tu_drawing *d = f->d;
  uint32_t steps = tu_drawing_steps(d), sent = 0;
  struct turn *turns = tu_allocate(steps, sizeof *turns);
  for (uint32_t s = 0; s < steps; s++) {
    const struct tu_step *step = tu_drawing_step(d, s);
    turns[s] = (struct turn){s, d->round[s], step->kind != TU_SEND};
    f->v->sent_first[s] = sent;
    if (step->kind == TU_SEND) sent += step->source.count;
  }
  f->v->sent_first[steps] = sent;
  f->v->sent = tu_allocate(sent, sizeof *f->v->sent);
  if (steps > 1) qsort(turns, steps, sizeof *turns, compare_turns);
  for (uint32_t i = 0; i < steps; i++) {
    if (is_barrier(d->plan)) follow_knowledge(f, turns[i].step);
    else if (turns[i].takes) take_values(f, turns[i].step);
    else send_values(f, turns[i].step);
  }
  free(turns);
}

void tu_draw_values_init(struct tu_draw_values *v, const struct tu_drawing *d) {
  const struct tu_plan *plan = d->plan;
  uint32_t ranks = plan->ranks, steps = tu_drawing_steps(d);
  tu_assert(ranks <= TU_DRAW_RANKS_MAX);
  *v = (struct tu_draw_values){0};
  v->complete = tu_allocate(ranks, sizeof *v->complete);
  v->sent_first = tu_allocate((size_t)steps + 1, sizeof *v->sent_first);
  struct following f = {.v = v, .d = d};
  f.cells = tu_allocate(ranks, sizeof(void *));
  f.complete_count = tu_allocate(ranks, sizeof *f.complete_count);
  f.knows = tu_allocate(steps, sizeof *f.knows);
  for (uint32_t r = 0; r < ranks; r++) {
    uint32_t cells = tu_draw_cells(plan, r);
    f.cells[r] = tu_allocate(cells, sizeof **f.cells);
    for (uint32_t i = 0; i < cells; i++) {
      f.cells[r][i] = tu_draw_initial(plan, r, i);
      f.complete_count[r] += is_complete(plan, r, i, f.cells[r][i]);
    }
    v->complete[r] = TU_DRAW_NEVER;
    note_complete(&f, r, 0);
  }
  list_takes(&f);
  follow(&f);
  for (uint32_t r = 0; r < ranks; r++) free(f.cells[r]);
  free(f.cells);
  free(f.complete_count);
  free(f.knows);
  free(f.takes_first);
  free(f.takes);
}

void tu_draw_values_fini(struct tu_draw_values *v) {
  free(v->sent_first);
  free(v->sent);
  free(v->writes);
  free(v->complete);
}

struct tu_draw_value *tu_draw_carried(const struct tu_drawing *d, const struct tu_draw_values *v, uint32_t message,
                                      uint32_t *count) {
  const struct tu_draw_message *m = &d->messages[message];
  const struct tu_draw_part *parts = &d->parts[m->part_first];
  *count = 0;
  for (uint32_t i = 0; i < m->part_count; i++) *count += tu_drawing_step(d, parts[i].send)->source.count;
  struct tu_draw_value *values = tu_allocate(*count, sizeof *values), *at = values;
  for (uint32_t i = 0; i < m->part_count; i++) {
    uint32_t first = v->sent_first[parts[i].send], chunks = v->sent_first[parts[i].send + 1] - first;
    memcpy(at, v->sent + first, chunks * sizeof *at);
    at += chunks;
  }
  return values;
}
