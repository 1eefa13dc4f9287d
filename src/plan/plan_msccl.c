/* plan_msccl.c: makes a plan of an MSCCL algorithm.
 *
 * The file is played once, all GPUs together, with rings that never fill: that gives the order of each rank's steps and
 * what every chunk holds, and so the marks (`first`, `final`) and the sizes of scratch.
 *
 * Order. MSCCL cuts a message into pieces that fit its rings and runs the whole algorithm once for each piece, so a
 * threadblock's order binds the same piece of its steps only. A plan's `after` binds whole steps where they do not
 * share a span. So `after` is given where two steps touch the same memory, one of them writing, and the file orders
 * them: by their place in a threadblock, by depid and deps, or by a chain of both. What the file does not order stays
 * unordered: check/ then refuses the plan for the race that it is. */
#include "plan/plan_msccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE TU_MSCCL_NONE
#define RAW (1u << 31) /* of a weight: input as it came */

/* Chunks that a file may name in all, and chunks that its steps may touch: this much, and more for longer files. */
enum { CHUNKS_FREE = 1 << 20, CHUNKS_PER_BYTE = 64, TOUCHES_FREE = 1 << 22, TOUCHES_PER_BYTE = 256, MOST = 1 << 30 };

/* What a type does. rrs has a target too: scratch that is given to it here. */
static const struct {
  bool sends, receives, source, target;
} kinds[] = {
    [TU_MSCCL_S] = {true, false, true, false},     [TU_MSCCL_R] = {false, true, false, true},
    [TU_MSCCL_RCS] = {true, true, false, true},    [TU_MSCCL_RRS] = {true, true, true, true},
    [TU_MSCCL_RRC] = {false, true, true, true},    [TU_MSCCL_RRCS] = {true, true, true, true},
    [TU_MSCCL_CPY] = {false, false, true, true},   [TU_MSCCL_RE] = {false, false, true, true},
    [TU_MSCCL_NOP] = {false, false, false, false},
};

/* Marks of one chunk of a step. */
enum { SENDS_RAW = 1, SOURCE_RAW = 2, TARGET_RAW = 4, FINAL = 8 };

/* What a chunk holds: how many ranks' contributions (and RAW), and which part of a block it is as large as. */
struct value {
  uint32_t weight, part;
};

struct step_state {
  uint32_t chunks;   /* its first chunk in marks and sent */
  uint32_t from;     /* the step whose message it takes, or NONE */
  bool taken;        /* somebody takes its message */
  bool cut_message;  /* chunks of its message have different marks: they are sent one by one, joined */
  bool cut;          /* of a local step: likewise */
  uint32_t snapshot; /* of a step that is waited for: in emitter.snapshots; NONE */
};

struct tb_state {
  uint32_t done;           /* steps */
  uint32_t partner, taken; /* the threadblock that sends to it, or NONE, and how many of its steps were looked at */
  uint32_t waiter, next;   /* those that wait for it, as a list */
  bool queued;
};

struct convert {
  struct tu_arena arena; /* of what is here; the plan has its own */
  struct tu_msccl *file;
  struct tu_error *error;
  struct tu_plan *plan;
  size_t bytes;  /* of the file */
  bool in_place; /* what a file that serves both is to serve */
  bool sums;     /* the collective reduces */
  struct step_state *steps;
  struct tb_state *tbs;
  uint32_t *next_signal; /* of each step: the first from there on, in its threadblock, that signals; NONE */
  uint32_t *order;       /* steps of each GPU in the order in which they were played, from its first step on */
  uint32_t *played;      /* of each GPU: steps in `order` */
  uint32_t *cell_base;   /* of each GPU; [ranks + 1] */
  uint32_t *weights;     /* of each cell */
  uint32_t *parts;       /* of each cell of scratch: NONE until written */
  uint8_t *marks;        /* of each chunk of each step */
  struct value *sent;    /* likewise */
  uint32_t *queue;       /* of threadblocks that may move: a ring of tb_count */
  uint32_t queue_head, queue_count;
};

static tutti_err fail_at(const struct convert *c, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static tutti_err fail_at(const struct convert *c, uint32_t line, const char *format, ...) {
  char text[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return tu_fail(c->error, TUTTI_ERR_ARGUMENT, "%s:%u: %s", c->file->file, line, text);
}

static uint32_t step_of(const struct tu_msccl_gpu *gpus, const struct tu_msccl *f, uint32_t gpu) {
  return gpus[gpu].tb_count ? f->tbs[gpus[gpu].tb_first].step_first : 0;
}

/* ---- how the tables fit together -------------------------------------------------------------------------------- */

/* The root sends and does not receive, or the other way round. */
static tutti_err find_root(struct convert *c) {
  const struct tu_msccl *f = c->file;
  const struct tu_collective *collective = &tu_collectives[f->collective];
  if (!collective->rooted) return TUTTI_OK;
  uint32_t roots = 0, first = 0, last = 0;
  for (uint32_t g = 0; g < f->ranks; g++) {
    bool is_root = true;
    for (uint32_t t = 0; t < f->gpus[g].tb_count; t++) {
      const struct tu_msccl_tb *tb = &f->tbs[f->gpus[g].tb_first + t];
      for (uint32_t s = 0; s < tb->step_count; s++) {
        uint8_t type = f->steps[tb->step_first + s].type;
        is_root &= collective->in_at_root ? !kinds[type].receives : !kinds[type].sends;
      }
    }
    if (!is_root) continue;
    if (roots++ == 0) first = g;
    last = g;
  }
  c->plan->root = first;
  if (roots == 1) return TUTTI_OK;
  const char *does = collective->in_at_root ? "receives" : "sends";
  if (roots == 0)
    return fail_at(c, f->line,
                   "<algo>: the file does not say which gpu is %s's root: expected one that %s nothing, "
                   "found none",
                   collective->name, does);
  return fail_at(c, f->line,
                 "<algo>: the file does not say which gpu is %s's root: expected one that %s nothing, found "
                 "%u, as gpus %u and %u",
                 collective->name, does, roots, first, last);
}

/* Chunks: nchunksperloop of them make up `count` elements, or `count` for each gpu where MSCCL's calls count so. */
static tutti_err lay_out(struct convert *c) {
  const struct tu_msccl *f = c->file;
  const struct tu_collective *collective = &tu_collectives[f->collective];
  struct tu_plan *p = c->plan;
  tu_assert(f->ranks > 0);
  bool rows = collective->in == TU_EACH || collective->out == TU_EACH, whole = rows && !collective->rooted;
  uint64_t chunks = 2 * (uint64_t)f->ranks * f->chunks * (rows && !whole ? f->ranks : 1);
  for (uint32_t g = 0; g < f->ranks; g++) chunks += f->gpus[g].chunks[TU_TMP];
  if (chunks > tu_min(CHUNKS_FREE + CHUNKS_PER_BYTE * c->bytes, MOST))
    return fail_at(c, f->line, "<algo>: expected chunks in proportion to the file's length, found %llu in all buffers",
                   (unsigned long long)chunks);
  if (whole && f->chunks % f->ranks != 0)
    return fail_at(c, f->line,
                   "<algo> attribute 'nchunksperloop': expected a multiple of the %u gpus, for %s has a "
                   "block for each, found '%u'",
                   f->ranks, collective->name, f->chunks);
  p->split = whole ? f->chunks / f->ranks : f->chunks;
  p->equal_blocks = rows;
  return TUTTI_OK;
}

static tutti_err check_pairs(const struct convert *c, uint32_t tb) {
  const struct tu_msccl *f = c->file;
  const struct tu_msccl_tb *b = &f->tbs[tb];
  for (uint32_t other = f->gpus[b->gpu].tb_first; other < tb; other++) {
    const struct tu_msccl_tb *a = &f->tbs[other];
    bool send = a->send == b->send && b->send != NONE, recv = a->recv == b->recv && b->recv != NONE;
    if (a->lane != b->lane || (!send && !recv)) continue;
    return fail_at(c, b->line,
                   "<tb>: expected one threadblock of gpu %u that %s gpu %u on channel %u, found another at "
                   "line %u",
                   b->gpu, send ? "sends to" : "receives from", send ? b->send : b->recv, b->lane, a->line);
  }
  return TUTTI_OK;
}

/* The span lies in its buffer, as the file declares it and as the collective has it. */
static tutti_err settle_span(const struct convert *c, uint32_t gpu, uint32_t line, const char *side,
                             struct tu_span *span) {
  static const char letters[] = {[TU_IN] = 'i', [TU_OUT] = 'o', [TU_TMP] = 's'};
  const struct tu_plan *p = c->plan;
  uint32_t declared = c->file->gpus[gpu].chunks[span->buffer], buffer = span->buffer;
  if (span->first == NONE) return fail_at(c, line, "<step> attribute '%soff': expected a chunk, found '-1'", side);
  if (span->count > declared || span->first > declared - span->count)
    return fail_at(c, line,
                   "<step> attribute '%soff': expected %u chunks within the %u that gpu %u declares in "
                   "%c_chunks, found '%u'",
                   side, span->count, declared, gpu, letters[buffer], span->first);
  if (buffer == TU_TMP) return TUTTI_OK;
  uint32_t chunks = tu_plan_chunks(p, gpu, (enum tu_buffer)buffer), other = buffer == TU_IN ? TU_OUT : TU_IN;
  const struct tu_collective *collective = &tu_collectives[p->collective];
  if (chunks == 0 && p->in_place && collective->in == collective->out) { /* the two are one */
    span->buffer = other;
    chunks = tu_plan_chunks(p, gpu, (enum tu_buffer)other);
  }
  if (chunks == 0)
    return fail_at(c, line,
                   "<step> attribute '%sbuf': expected a buffer that gpu %u has in %s from root %u, found '%c'", side,
                   gpu, collective->name, p->root, letters[buffer]);
  if (span->first <= chunks && span->count <= chunks - span->first) return TUTTI_OK;
  return fail_at(c, line,
                 "<step> attribute '%soff': expected %u chunks within the %u that %c has in %s with "
                 "nchunksperloop %u, found '%u'",
                 side, span->count, chunks, letters[buffer], collective->name, c->file->chunks, span->first);
}

/* Who is waited for must be there, and must say so: MSCCL's wait ends at the first step from there on that signals. */
static tutti_err settle_wait(const struct convert *c, uint32_t gpu, struct tu_msccl_step *step) {
  const struct tu_msccl *f = c->file;
  if (step->wait_tb == NONE) return TUTTI_OK;
  if (step->wait_tb >= f->gpus[gpu].tb_count)
    return fail_at(c, step->line, "<step> attribute 'depid': expected one of the %u threadblocks of gpu %u, found '%u'",
                   f->gpus[gpu].tb_count, gpu, step->wait_tb);
  const struct tu_msccl_tb *tb = &f->tbs[f->gpus[gpu].tb_first + step->wait_tb];
  if (step->wait_step >= tb->step_count)
    return fail_at(c, step->line, "<step> attribute 'deps': expected one of the %u steps of threadblock %u, found '%d'",
                   tb->step_count, step->wait_tb, (int)step->wait_step);
  uint32_t signal = c->next_signal[tb->step_first + step->wait_step];
  if (signal == NONE)
    return fail_at(c, step->line,
                   "<step>: it waits for step %u of threadblock %u (depid, deps); expected hasdep=\"1\" "
                   "there or later in that threadblock, found none: the wait would never end",
                   step->wait_step, step->wait_tb);
  step->wait_step = signal - tb->step_first;
  return TUTTI_OK;
}

static tutti_err settle_step(struct convert *c, const struct tu_msccl_tb *tb, struct tu_msccl_step *step) {
  struct tu_rank_plan *rank = &c->plan->rank[tb->gpu];
  tutti_err err;
  if (kinds[step->type].sends && tb->send == NONE)
    return fail_at(c, step->line, "<step>: it sends; expected a peer in 'send' of its threadblock, found '-1'");
  if (kinds[step->type].receives && tb->recv == NONE)
    return fail_at(c, step->line, "<step>: it receives; expected a peer in 'recv' of its threadblock, found '-1'");
  if (!tu_reduces(c->file->collective) &&
      (step->type == TU_MSCCL_RE || (kinds[step->type].receives && kinds[step->type].source)))
    return fail_at(c, step->line, "<step> attribute 'type': expected one that does not reduce, for %s does not",
                   tu_collectives[c->file->collective].name);
  if (kinds[step->type].source && (err = settle_span(c, tb->gpu, step->line, "src", &step->source)) != TUTTI_OK)
    return err;
  if (step->type == TU_MSCCL_RRS) {
    step->target = (struct tu_span){TU_TMP, rank->tmp_count, step->source.count};
    rank->tmp_count += step->source.count;
  } else if (kinds[step->type].target) {
    if ((err = settle_span(c, tb->gpu, step->line, "dst", &step->target)) != TUTTI_OK) return err;
  }
  return settle_wait(c, tb->gpu, step);
}

/* Spans, waits and partners; afterwards every index lies in its array. */
static tutti_err settle(struct convert *c) {
  struct tu_msccl *f = c->file;
  uint64_t touches = 0;
  tutti_err err;
  for (uint32_t t = f->tb_count; t-- > 0;) {
    uint32_t next = NONE, first = f->tbs[t].step_first;
    for (uint32_t s = first + f->tbs[t].step_count; s-- > first;)
      c->next_signal[s] = next = f->steps[s].signals ? s : next;
  }
  for (uint32_t g = 0; g < f->ranks; g++) c->plan->rank[g].tmp_count = f->gpus[g].chunks[TU_TMP];
  for (uint32_t t = 0; t < f->tb_count; t++) {
    const struct tu_msccl_tb *tb = &f->tbs[t];
    if ((err = check_pairs(c, t)) != TUTTI_OK) return err;
    c->tbs[t].partner = NONE;
    for (uint32_t k = 0; tb->recv != NONE && k < f->gpus[tb->recv].tb_count; k++) {
      uint32_t other = f->gpus[tb->recv].tb_first + k;
      if (f->tbs[other].send == tb->gpu && f->tbs[other].lane == tb->lane) c->tbs[t].partner = other;
    }
    for (uint32_t s = tb->step_first; s < tb->step_first + tb->step_count; s++) {
      c->steps[s] = (struct step_state){.chunks = (uint32_t)touches, .from = NONE, .snapshot = NONE};
      touches += f->steps[s].source.count;
      if (touches > tu_min(TOUCHES_FREE + TOUCHES_PER_BYTE * c->bytes, MOST))
        return fail_at(c, f->steps[s].line,
                       "<step> attribute 'cnt': expected counts in proportion to the file's length, "
                       "found over %llu chunks up to here",
                       (unsigned long long)touches);
      if ((err = settle_step(c, tb, &f->steps[s])) != TUTTI_OK) return err;
    }
  }
  c->marks = tu_arena_allocate(&c->arena, touches, sizeof *c->marks);
  c->sent = tu_arena_allocate(&c->arena, touches, sizeof *c->sent);
  return TUTTI_OK;
}

/* ---- playing ---------------------------------------------------------------------------------------------------- */

static uint32_t cell_at(const struct convert *c, uint32_t gpu, struct tu_span span) {
  return c->cell_base[gpu] + tu_plan_cell(c->plan, gpu, (enum tu_buffer)span.buffer, span.first);
}

static void prepare_values(struct convert *c) {
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
      c->weights[cell_at(c, g, (struct tu_span){TU_IN, i, 1})] = 1 | RAW;
}

static uint32_t part_at(const struct convert *c, struct tu_span span, uint32_t cell, uint32_t i) {
  if (span.buffer != TU_TMP) return (span.first + i) % c->plan->split;
  return c->parts[cell + i] == NONE ? 0 : c->parts[cell + i];
}

/* Chunk i of a step: its value moves on, and its marks are found. */
static uint8_t apply_chunk(struct convert *c, uint32_t gpu, uint32_t s, uint32_t i) {
  const struct tu_msccl_step *step = &c->file->steps[s];
  const struct step_state *state = &c->steps[s];
  struct value v = {0};
  uint8_t marks = 0;
  uint32_t source = kinds[step->type].source ? cell_at(c, gpu, step->source) : 0;
  uint32_t target = kinds[step->type].target ? cell_at(c, gpu, step->target) : 0;
  if (state->from != NONE) v = c->sent[c->steps[state->from].chunks + i];
  if (kinds[step->type].source) {
    if (c->weights[source + i] & RAW) marks |= kinds[step->type].target ? SOURCE_RAW : SENDS_RAW;
    if (!kinds[step->type].receives) v.part = part_at(c, step->source, source, i);
    v.weight += c->weights[source + i] & ~RAW;
  }
  if (step->type == TU_MSCCL_RE) {
    if (c->weights[target + i] & RAW) marks |= TARGET_RAW;
    v.weight += c->weights[target + i] & ~RAW;
  }
  bool combines = kinds[step->type].source && kinds[step->type].target;
  if (step->type == TU_MSCCL_CPY) combines = marks & SOURCE_RAW;
  if (combines && v.weight == c->plan->ranks) marks |= FINAL;
  if (kinds[step->type].target) {
    c->weights[target + i] = v.weight;
    /* A chunk of scratch is as large as what comes into it first. */
    if (step->target.buffer == TU_TMP && c->parts[target + i] == NONE) c->parts[target + i] = v.part;
  }
  if (kinds[step->type].sends) c->sent[state->chunks + i] = v;
  return c->sums ? marks : 0;
}

static void apply(struct convert *c, uint32_t gpu, uint32_t s) {
  const struct tu_msccl_step *step = &c->file->steps[s];
  struct step_state *state = &c->steps[s];
  uint8_t *marks = c->marks + state->chunks;
  bool *cut = state->from != NONE ? &c->steps[state->from].cut_message : &state->cut;
  if (step->type == TU_MSCCL_NOP) return;
  for (uint32_t i = 0; i < step->source.count; i++) {
    marks[i] = apply_chunk(c, gpu, s, i);
    uint8_t unlike = marks[i] ^ marks[0];
    if (unlike & SENDS_RAW) state->cut_message = true;
    if (unlike & ~SENDS_RAW) *cut = true;
  }
}

static void enqueue(struct convert *c, uint32_t tb) {
  if (c->tbs[tb].queued) return;
  c->tbs[tb].queued = true;
  c->queue[(c->queue_head + c->queue_count++) % c->file->tb_count] = tb;
}

static bool wait_for(struct convert *c, uint32_t tb, uint32_t other) {
  c->tbs[tb].next = c->tbs[other].waiter;
  c->tbs[other].waiter = tb;
  return false;
}

/* The next message of the threadblock's partner; false: not sent yet. */
static bool take_message(struct convert *c, uint32_t tb, uint32_t s) {
  const struct tu_msccl *f = c->file;
  struct tb_state *state = &c->tbs[tb];
  if (state->partner == NONE) return false;
  const struct tu_msccl_tb *partner = &f->tbs[state->partner];
  while (state->taken < partner->step_count && !kinds[f->steps[partner->step_first + state->taken].type].sends)
    state->taken++;
  if (state->taken >= c->tbs[state->partner].done) return wait_for(c, tb, state->partner);
  uint32_t from = partner->step_first + state->taken++;
  c->steps[from].taken = true;
  /* What the two ends disagree about is check's to say. */
  if (f->steps[from].source.count == f->steps[s].source.count) c->steps[s].from = from;
  return true;
}

/* Plays the threadblock's next step, if it may start. */
static bool advance(struct convert *c, uint32_t tb, bool follows_messages) {
  const struct tu_msccl *f = c->file;
  const struct tu_msccl_tb *b = &f->tbs[tb];
  struct tb_state *state = &c->tbs[tb];
  if (state->done == b->step_count) return false;
  uint32_t s = b->step_first + state->done;
  const struct tu_msccl_step *step = &f->steps[s];
  if (step->wait_tb != NONE) {
    uint32_t other = f->gpus[b->gpu].tb_first + step->wait_tb;
    if (c->tbs[other].done <= step->wait_step) return wait_for(c, tb, other);
  }
  if (follows_messages) {
    if (kinds[step->type].receives && !take_message(c, tb, s)) return false;
    apply(c, b->gpu, s);
  }
  c->order[step_of(f->gpus, f, b->gpu) + c->played[b->gpu]++] = s;
  state->done++;
  return true;
}

static void play(struct convert *c, bool follows_messages) {
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

/* Some steps may be left that wait for messages: those are still put in an order, and check/ says what is wrong. What
 * waits for itself has none. */
static tutti_err play_all(struct convert *c) {
  prepare_values(c);
  play(c, true);
  play(c, false);
  for (uint32_t t = 0; t < c->file->tb_count; t++) {
    const struct tu_msccl_tb *tb = &c->file->tbs[t];
    if (c->tbs[t].done == tb->step_count) continue;
    const struct tu_msccl_step *step = &c->file->steps[tb->step_first + c->tbs[t].done];
    if (step->wait_tb == NONE) continue;
    return fail_at(c, step->line,
                   "<step>: step %u of threadblock %u of gpu %u waits for step %u of threadblock %u (depid, "
                   "deps), and that waits for it in turn: a circle",
                   c->tbs[t].done, t - c->file->gpus[tb->gpu].tb_first, tb->gpu, step->wait_step, step->wait_tb);
  }
  return TUTTI_OK;
}

/* ---- emitting the steps of a rank ------------------------------------------------------------------------------- */

struct cell {
  uint32_t writer; /* step of the plan, or NONE */
  uint32_t reader; /* in emitter.readers, or NONE */
};

struct reader {
  uint32_t step, next;
};

/* Where a step of the plan comes from: the index-th step of a threadblock. */
struct origin {
  uint32_t tb, index;
  uint32_t stamp; /* the last step that has it in its list of afters */
};

struct emitter {
  struct convert *c;
  uint32_t gpu;
  const struct tu_msccl_gpu *g;
  struct tu_rank_plan *r;
  uint32_t step_capacity, peer_capacity, operand_capacity, after_capacity;
  struct cell *cells;
  struct reader *readers;
  uint32_t reader_count, reader_capacity;
  struct origin *origins;
  uint32_t origin_capacity;
  uint32_t *clocks;    /* [tb][tb]: of how many steps of the second a step of the first knows that they are done */
  uint32_t *snapshots; /* [step that is waited for][tb]: the clock as it was there */
  uint32_t *afters;    /* of the step that is being emitted */
  uint32_t list_count, list_capacity;
};

/* Is the plan's step `before` done before the index-th step of the threadblock begins, by the file's own order? */
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

/* The step comes after who wrote what it reads, and after who reads, or else wrote, what it writes. */
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

/* Appends the step with what it comes after. Reads are marked first: what it writes comes after what it reads. */
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

/* Whatever the step does but sending. */
static void emit_arrival(struct emitter *e, const struct tu_msccl_tb *tb, uint32_t s, bool cut, uint32_t i) {
  struct convert *c = e->c;
  const struct tu_msccl_step *from = &c->file->steps[s];
  uint8_t marks = c->marks[c->steps[s].chunks + i];
  struct tu_span source = part_of(from->source, cut, i), target = part_of(from->target, cut, i);
  struct tu_step step = {.lane = tb->lane, .target = target, .final = (marks & FINAL) != 0};
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
      step.first = (marks & SOURCE_RAW) != 0;
      break;
    case TU_MSCCL_RE:
      step.kind = TU_REDUCE;
      step.lane = 0;
      add_operand(e, &step, (struct tu_operand){TU_LOCAL, target, (marks & TARGET_RAW) != 0, false});
      add_operand(e, &step, (struct tu_operand){TU_LOCAL, source, (marks & SOURCE_RAW) != 0, false});
      break;
    default:
      step.kind = TU_RECV_REDUCE;
      add_operand(e, &step, (struct tu_operand){TU_LOCAL, source, (marks & SOURCE_RAW) != 0, false});
      add_operand(e, &step, (struct tu_operand){.peer = tb->recv, .joined = joined});
      break;
  }
  append(e, step, (uint32_t)(tb - c->file->tbs) - e->g->tb_first, s - tb->step_first);
}

static void emit_departure(struct emitter *e, const struct tu_msccl_tb *tb, uint32_t s, bool cut, uint32_t i) {
  struct convert *c = e->c;
  const struct tu_msccl_step *from = &c->file->steps[s];
  struct tu_step step = {.kind = TU_SEND,
                         .lane = tb->lane,
                         .first = (c->marks[c->steps[s].chunks + i] & SENDS_RAW) != 0,
                         .joined = cut && i > 0,
                         .source = part_of(kinds[from->type].target ? from->target : from->source, cut, i)};
  set_peer(e, &step, tb->send);
  append(e, step, (uint32_t)(tb - c->file->tbs) - e->g->tb_first, s - tb->step_first);
}

static void emit_step(struct emitter *e, const struct tu_msccl_tb *tb, uint32_t s) {
  const struct convert *c = e->c;
  const struct tu_msccl_step *from = &c->file->steps[s];
  const struct step_state *state = &c->steps[s];
  uint32_t count = from->source.count;
  if (kinds[from->type].target) {
    bool cut = state->from != NONE ? c->steps[state->from].cut_message : state->cut;
    for (uint32_t i = 0; i < (cut ? count : 1); i++) emit_arrival(e, tb, s, cut, i);
  }
  if (!kinds[from->type].sends) return;
  bool cut = state->taken && state->cut_message;
  for (uint32_t i = 0; i < (cut ? count : 1); i++) emit_departure(e, tb, s, cut, i);
}

/* What the threadblock knows once it has waited. */
static void learn(struct emitter *e, uint32_t tb, const struct tu_msccl_step *step) {
  if (step->wait_tb == NONE) return;
  uint32_t tbs = e->g->tb_count;
  uint32_t waited_for = e->c->file->tbs[e->g->tb_first + step->wait_tb].step_first + step->wait_step;
  const uint32_t *known = e->snapshots + (size_t)e->c->steps[waited_for].snapshot * tbs;
  uint32_t *clock = e->clocks + (size_t)tb * tbs;
  for (uint32_t i = 0; i < tbs; i++)
    if (known[i] > clock[i]) clock[i] = known[i];
}

/* Gives every step that is waited for a place for its clock. */
static uint32_t place_snapshots(struct emitter *e) {
  struct convert *c = e->c;
  uint32_t count = 0;
  for (uint32_t t = e->g->tb_first; t < e->g->tb_first + e->g->tb_count; t++) {
    const struct tu_msccl_tb *tb = &c->file->tbs[t];
    for (uint32_t s = tb->step_first; s < tb->step_first + tb->step_count; s++) {
      const struct tu_msccl_step *step = &c->file->steps[s];
      if (step->wait_tb == NONE) continue;
      struct step_state *other = &c->steps[c->file->tbs[e->g->tb_first + step->wait_tb].step_first + step->wait_step];
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
    r->tmp[i] = (struct tu_like){like, part_at(e->c, span, cell_at(e->c, e->gpu, span), 0)};
  }
}

static void emit_rank(struct convert *c, uint32_t gpu) {
  const struct tu_msccl_gpu *g = &c->file->gpus[gpu];
  struct emitter e = {.c = c, .gpu = gpu, .g = g, .r = &c->plan->rank[gpu]};
  uint32_t cells = c->cell_base[gpu + 1] - c->cell_base[gpu], first = step_of(c->file->gpus, c->file, gpu);
  e.cells = tu_arena_allocate(&c->arena, cells, sizeof *e.cells);
  memset(e.cells, 0xff, cells * sizeof *e.cells);
  e.clocks = tu_arena_allocate(&c->arena, (size_t)g->tb_count * g->tb_count, sizeof *e.clocks);
  e.snapshots = tu_arena_allocate(&c->arena, (size_t)place_snapshots(&e) * g->tb_count, sizeof *e.snapshots);
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
  void *const own[] = {e.cells, e.readers, e.origins, e.clocks, e.snapshots, e.afters};
  for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) tu_arena_free(&c->arena, own[i]);
}

/* ----------------------------------------------------------------------------------------------------------------- */

static tutti_err make_plan(struct convert *c) {
  struct tu_msccl *f = c->file;
  struct tu_plan *p = c->plan;
  tutti_err err;
  p->collective = f->collective;
  p->ranks = p->rank_count = f->ranks;
  p->in_place = f->in_place;
  memcpy(p->algorithm, f->name, sizeof p->algorithm);
  p->rank = tu_arena_allocate(&p->arena, p->ranks, sizeof *p->rank);
  if ((err = find_root(c)) != TUTTI_OK) return err;
  if ((err = lay_out(c)) != TUTTI_OK) return err;
  c->sums = tu_reduces(f->collective);
  c->steps = tu_arena_allocate(&c->arena, f->step_count, sizeof *c->steps);
  c->tbs = tu_arena_allocate(&c->arena, f->tb_count, sizeof *c->tbs);
  c->next_signal = tu_arena_allocate(&c->arena, f->step_count, sizeof *c->next_signal);
  c->order = tu_arena_allocate(&c->arena, f->step_count, sizeof *c->order);
  c->played = tu_arena_allocate(&c->arena, p->ranks, sizeof *c->played);
  c->cell_base = tu_arena_allocate(&c->arena, p->ranks + 1, sizeof *c->cell_base);
  c->queue = tu_arena_allocate(&c->arena, f->tb_count, sizeof *c->queue);
  if ((err = settle(c)) != TUTTI_OK) return err;
  if ((err = play_all(c)) != TUTTI_OK) return err;
  for (uint32_t g = 0; g < p->ranks; g++) emit_rank(c, g);
  return TUTTI_OK;
}

static tutti_err convert(void *argument, struct tu_error *error) {
  struct convert *c = argument;
  c->error = error;
  /* A file may claim that it serves both. */
  c->file->in_place = c->file->in_place && (c->in_place || !c->file->out_of_place);
  c->plan = tu_plan_create();
  return make_plan(c);
}

tutti_err tu_plan_read_msccl(const char *data, size_t bytes, const char *name, bool in_place, struct tu_plan **plan,
                             struct tu_error *error) {
  struct tu_msccl file;
  tutti_err err = tu_msccl_read(data, bytes, name, &file, error);
  struct convert c = {.file = &file, .bytes = bytes, .in_place = in_place};
  if (err == TUTTI_OK) err = tu_arena_build(convert, &c, file.file, error);
  tu_arena_fini(&c.arena);
  tu_msccl_fini(&file);
  if (err == TUTTI_OK) *plan = c.plan;
  else tu_plan_destroy(c.plan);
  return err;
}

tutti_err tu_plan_read_any(const char *data, size_t bytes, const char *name, bool in_place, struct tu_plan **plan,
                           struct tu_error *error) {
  /* XML begins with a tag, or with the mark of its encoding. */
  size_t at = 0;
  while (at < bytes && strchr(" \t\r\n", data[at]) && data[at]) at++;
  bool xml = at < bytes && (data[at] == '<' || (unsigned char)data[at] >= 0xef);
  if (xml) return tu_plan_read_msccl(data, bytes, name, in_place, plan, error);
  return tu_plan_read(data, bytes, name, plan, error);
}
