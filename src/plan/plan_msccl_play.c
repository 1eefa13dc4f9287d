/* plan_msccl_play.c: simulates an MSCCL algorithm once, on all GPUs together, with channels that never become full.
 *
 * The simulation gives the order of each rank's steps. It also gives, for each chunk, the number of GPUs whose inputs
 * are summed in it. The marks (`first`, `final`) and the sizes of scratch follow from these. */
#include "plan/plan_msccl_internal.h"

#include <string.h>

#define NONE TU_MSCCL_NONE

uint32_t tu_msccl_step_of(const struct tu_msccl_gpu *gpus, const struct tu_msccl *f, uint32_t gpu) {
  return gpus[gpu].tb_count ? f->tbs[gpus[gpu].tb_first].step_first : 0;
}

uint32_t tu_msccl_cell_at(const struct tu_msccl_convert *c, uint32_t gpu, struct tu_span span) {
  return c->cell_base[gpu] + tu_plan_cell(c->plan, gpu, (enum tu_buffer)span.buffer, span.first);
}

static void prepare_values(struct tu_msccl_convert *c) {
  const struct tu_plan *p = c->plan;
  for (uint32_t g = 0; g < p->ranks; g++) {
    uint32_t in = tu_plan_chunks(p, g, TU_IN), out = tu_plan_chunks(p, g, TU_OUT);
    c->cell_base[g + 1] = c->cell_base[g] + in + out + p->rank[g].tmp_count;
  }
  uint32_t cells = c->cell_base[p->ranks];
  c->weights = tu_arena_allocate(&c->arena, cells, sizeof *c->weights);
  c->parts = tu_arena_allocate(&c->arena, cells, sizeof *c->parts);
  memset(c->parts, 0xff, cells * sizeof *c->parts);
  for (uint32_t g = 0; g < p->ranks; g++)
    for (uint32_t i = 0; i < tu_plan_chunks(p, g, TU_IN); i++)
      c->weights[tu_msccl_cell_at(c, g, (struct tu_span){TU_IN, i, 1})] = 1 | TU_MSCCL_RAW;
}

uint32_t tu_msccl_part_at(const struct tu_msccl_convert *c, struct tu_span span, uint32_t cell, uint32_t i) {
  if (span.buffer != TU_TMP) return (span.first + i) % c->plan->split;
  return c->parts[cell + i] == NONE ? 0 : c->parts[cell + i];
}

/* Simulates a step for its chunk i: updates the weights of the chunks (numbers of GPUs whose inputs are summed in
 * them), and returns the marks of chunk i. */
static uint8_t apply_chunk(struct tu_msccl_convert *c, uint32_t gpu, uint32_t s, uint32_t i) {
  const struct tu_msccl_step *step = &c->file->steps[s];
  const struct tu_msccl_step_state *state = &c->steps[s];
  struct tu_msccl_value v = {0};
  uint8_t marks = 0;
  uint32_t source = tu_msccl_kinds[step->type].source ? tu_msccl_cell_at(c, gpu, step->source) : 0;
  uint32_t target = tu_msccl_kinds[step->type].target ? tu_msccl_cell_at(c, gpu, step->target) : 0;
  if (state->from != NONE) v = c->sent[c->steps[state->from].chunks + i];
  if (tu_msccl_kinds[step->type].source) {
    if (c->weights[source + i] & TU_MSCCL_RAW)
      marks |= tu_msccl_kinds[step->type].target ? TU_MSCCL_SOURCE_RAW : TU_MSCCL_SENDS_RAW;
    if (!tu_msccl_kinds[step->type].receives) v.part = tu_msccl_part_at(c, step->source, source, i);
    v.weight += c->weights[source + i] & ~TU_MSCCL_RAW;
  }
  if (step->type == TU_MSCCL_RE) {
    if (c->weights[target + i] & TU_MSCCL_RAW) marks |= TU_MSCCL_TARGET_RAW;
    v.weight += c->weights[target + i] & ~TU_MSCCL_RAW;
  }
  bool combines = tu_msccl_kinds[step->type].source && tu_msccl_kinds[step->type].target;
  if (step->type == TU_MSCCL_CPY) combines = marks & TU_MSCCL_SOURCE_RAW;
  if (combines && v.weight == c->plan->ranks) marks |= TU_MSCCL_FINAL;
  if (tu_msccl_kinds[step->type].target) {
    c->weights[target + i] = v.weight;
    /* The first value that is written to a chunk of scratch determines the chunk's size. */
    if (step->target.buffer == TU_TMP && c->parts[target + i] == NONE) c->parts[target + i] = v.part;
  }
  if (tu_msccl_kinds[step->type].sends) c->sent[state->chunks + i] = v;
  return c->sums ? marks : 0;
}

static void apply(struct tu_msccl_convert *c, uint32_t gpu, uint32_t s) {
  const struct tu_msccl_step *step = &c->file->steps[s];
  struct tu_msccl_step_state *state = &c->steps[s];
  uint8_t *marks = c->marks + state->chunks;
  bool *cut = state->from != NONE ? &c->steps[state->from].cut_message : &state->cut;
  if (step->type == TU_MSCCL_NOP) return;
  for (uint32_t i = 0; i < step->source.count; i++) {
    marks[i] = apply_chunk(c, gpu, s, i);
    uint8_t unlike = marks[i] ^ marks[0];
    if (unlike & TU_MSCCL_SENDS_RAW) state->cut_message = true;
    if (unlike & ~TU_MSCCL_SENDS_RAW) *cut = true;
  }
}

static void enqueue(struct tu_msccl_convert *c, uint32_t tb) {
  if (c->tbs[tb].queued) return;
  c->tbs[tb].queued = true;
  c->queue[(c->queue_head + c->queue_count++) % c->file->tb_count] = tb;
}

static bool wait_for(struct tu_msccl_convert *c, uint32_t tb, uint32_t other) {
  c->tbs[tb].next = c->tbs[other].waiter;
  c->tbs[other].waiter = tb;
  return false;
}

/* Receives the next message from the threadblock's partner (the threadblock that sends to it). Returns false if that
 * message is not sent yet. */
static bool take_message(struct tu_msccl_convert *c, uint32_t tb, uint32_t s) {
  const struct tu_msccl *f = c->file;
  struct tu_msccl_tb_state *state = &c->tbs[tb];
  if (state->partner == NONE) return false;
  const struct tu_msccl_tb *partner = &f->tbs[state->partner];
  while (state->taken < partner->step_count && !tu_msccl_kinds[f->steps[partner->step_first + state->taken].type].sends)
    state->taken++;
  if (state->taken >= c->tbs[state->partner].done) return wait_for(c, tb, state->partner);
  uint32_t from = partner->step_first + state->taken++;
  c->steps[from].taken = true;
  /* The data of the message is followed only if both ends have equally many chunks. If not, the checker (check/) will
   * refuse the plan. */
  if (f->steps[from].source.count == f->steps[s].source.count) c->steps[s].from = from;
  return true;
}

/* Simulates the threadblock's next step. Returns false if there is no such step, or if it may not start yet. If
 * follows_messages is false, a receive does not wait for its message. */
static bool advance(struct tu_msccl_convert *c, uint32_t tb, bool follows_messages) {
  const struct tu_msccl *f = c->file;
  const struct tu_msccl_tb *b = &f->tbs[tb];
  struct tu_msccl_tb_state *state = &c->tbs[tb];
  if (state->done == b->step_count) return false;
  uint32_t s = b->step_first + state->done;
  const struct tu_msccl_step *step = &f->steps[s];
  if (step->wait_tb != NONE) {
    uint32_t other = f->gpus[b->gpu].tb_first + step->wait_tb;
    if (c->tbs[other].done <= step->wait_step) return wait_for(c, tb, other);
  }
  if (follows_messages) {
    if (tu_msccl_kinds[step->type].receives && !take_message(c, tb, s)) return false;
    apply(c, b->gpu, s);
  }
  c->order[tu_msccl_step_of(f->gpus, f, b->gpu) + c->played[b->gpu]++] = s;
  state->done++;
  return true;
}

static void play(struct tu_msccl_convert *c, bool follows_messages) {
  uint32_t tb_count = c->file->tb_count;
  if (tb_count == 0) return;
  for (uint32_t t = 0; t < tb_count; t++) {
    c->tbs[t].waiter = NONE;
    enqueue(c, t);
  }
  while (c->queue_count > 0) {
    uint32_t tb = c->queue[c->queue_head];
    c->queue_head = (c->queue_head + 1) % tb_count;
    c->queue_count--;
    c->tbs[tb].queued = false;
    if (!advance(c, tb, follows_messages)) continue;
    for (uint32_t w = c->tbs[tb].waiter; w != NONE; w = c->tbs[w].next) enqueue(c, w);
    c->tbs[tb].waiter = NONE;
    enqueue(c, tb);
  }
}

/* Simulates all steps. If some steps wait for messages forever, a second simulation, which does not wait for messages,
 * puts them in order; the checker (check/) then refuses the plan. Steps that wait for each other in a cycle have no
 * order, which is an error here. */
tutti_err tu_msccl_play_all(struct tu_msccl_convert *c) {
  prepare_values(c);
  play(c, true);
  play(c, false);
  for (uint32_t t = 0; t < c->file->tb_count; t++) {
    const struct tu_msccl_tb *tb = &c->file->tbs[t];
    if (c->tbs[t].done == tb->step_count) continue;
    const struct tu_msccl_step *step = &c->file->steps[tb->step_first + c->tbs[t].done];
    if (step->wait_tb == NONE) continue;
    return tu_msccl_fail_at(c, step->line,
                            "<step>: cycle of waits: step %u of threadblock %u of gpu %u waits for step %u of "
                            "threadblock %u (depid, deps), which waits for the first step",
                            c->tbs[t].done, t - c->file->gpus[tb->gpu].tb_first, tb->gpu, step->wait_step,
                            step->wait_tb);
  }
  return TUTTI_OK;
}
