/* draw_rounds.c: matches sends with receives, and finds the round of every step. draw_internal.h defines a round.
 *
 * A step waits only for steps that were added to the plan before it (see plan.h). The sends of a rank on a lane also
 * run in the order in which they were added. So steps normally do not wait for each other in a cycle, and one pass in
 * topological order finds the earliest round of each step. A second pass, in reverse order, delays sends to the rounds
 * in which their messages are received. */
#include <stdlib.h>

#include "draw/draw_internal.h"

#define NONE UINT32_MAX

/* ---- the two ends of messages ----------------------------------------------------------------------------------- */

/* One end (send or receive) of a message part. The channel leads from rank `from` to rank `to`. `ordinal` is the
 * position of this end among all sends, or among all receives, of the plan, in the order of the steps. */
struct end {
  uint32_t from, to, step, ordinal;
  uint8_t lane;
  bool joined;
};

struct ends {
  struct end *all;
  uint32_t count, capacity;
};

static void add_end(struct ends *ends, struct end end) {
  ends->all = tu_grow(ends->all, ends->count, &ends->capacity, sizeof *ends->all);
  end.ordinal = ends->count;
  ends->all[ends->count++] = end;
}

static void list_ends(const struct tu_drawing *d, struct ends *sends, struct ends *recvs) {
  for (uint32_t s = 0; s < tu_drawing_steps(d); s++) {
    const struct tu_step *step = tu_drawing_step(d, s);
    const struct tu_rank_plan *r = tu_drawing_rank(d, s);
    uint32_t rank = d->rank_of[s];
    bool sends_it = step->kind == TU_SEND;
    for (uint32_t i = 0; (sends_it || step->kind == TU_RECV) && i < step->peer_count; i++) {
      uint32_t peer = r->peers[step->peer_first + i];
      if (sends_it) add_end(sends, (struct end){rank, peer, s, 0, step->lane, step->joined});
      else add_end(recvs, (struct end){peer, rank, s, 0, step->lane, step->joined});
    }
    for (uint32_t i = 0; step->kind == TU_RECV_REDUCE && i < step->operand_count; i++) {
      const struct tu_operand *o = &r->operands[step->operand_first + i];
      if (o->peer != TU_LOCAL) add_end(recvs, (struct end){o->peer, rank, s, 0, step->lane, o->joined});
    }
  }
}

/* Orders ends by channel (sender, receiver, lane); within a channel, in the order of the steps. */
static int compare_ends(const void *left, const void *right) {
  const struct end *a = left, *b = right;
  if (a->from != b->from) return a->from < b->from ? -1 : 1;
  if (a->to != b->to) return a->to < b->to ? -1 : 1;
  if (a->lane != b->lane) return a->lane < b->lane ? -1 : 1;
  return a->ordinal < b->ordinal ? -1 : a->ordinal > b->ordinal;
}

static void match_ends(struct tu_drawing *d) {
  struct ends sends = {0}, recvs = {0};
  list_ends(d, &sends, &recvs);
  tu_assert(sends.count == recvs.count);
  if (sends.all && recvs.all) {
    qsort(sends.all, sends.count, sizeof *sends.all, compare_ends);
    qsort(recvs.all, recvs.count, sizeof *recvs.all, compare_ends);
  }
  d->parts = tu_allocate(sends.count, sizeof *d->parts);
  d->messages = tu_allocate(sends.count, sizeof *d->messages);
  for (uint32_t i = 0; i < sends.count; i++) {
    const struct end *s = &sends.all[i], *r = &recvs.all[i];
    tu_assert(s->from == r->from && s->to == r->to && s->lane == r->lane && s->joined == r->joined);
    const struct tu_draw_part *before = i > 0 ? &d->parts[i - 1] : NULL;
    bool same = before && before->from == s->from && before->to == s->to && before->lane == s->lane;
    d->parts[i] = (struct tu_draw_part){s->from, s->to, s->step, r->step, s->lane, same ? before->ordinal + 1 : 0};
    if (!same || !s->joined) d->messages[d->message_count++].part_first = i;
    d->messages[d->message_count - 1].part_count++;
  }
  d->part_count = sends.count;
  free(sends.all);
  free(recvs.all);
}

/* ---- the earliest rounds ---------------------------------------------------------------------------------------- */

struct edge {
  uint32_t before, step;
};

struct graph {
  struct tu_drawing *d;
  /* [steps]: the step that represents each step in the graph. If several sends form one message, the first of them
   * represents all. Any other step represents itself */
  uint32_t *head;
  struct edge *edges;
  uint32_t edge_count, edge_capacity;
  /* [steps + 1]: for each step, index in `edges` of its first edge. Each edge of a step leads to a step that waits for
   * it */
  uint32_t *first;
  uint32_t *waits; /* [steps]: how many of the steps that a step waits for have no round yet */
  uint32_t *order;
  uint32_t ordered;
};

static void add_edge(struct graph *g, uint32_t before, uint32_t step) {
  before = g->head[before];
  step = g->head[step];
  if (before == step) return;
  g->edges = tu_grow(g->edges, g->edge_count, &g->edge_capacity, sizeof *g->edges);
  g->edges[g->edge_count++] = (struct edge){before, step};
}

static void add_waits(struct graph *g) {
  const struct tu_drawing *d = g->d;
  for (uint32_t s = 0; s < tu_drawing_steps(d); s++) {
    const struct tu_step *step = tu_drawing_step(d, s);
    for (uint32_t i = 0; i < step->after_count; i++)
      add_edge(g, d->step_base[d->rank_of[s]] + tu_drawing_rank(d, s)->afters[step->after_first + i], s);
  }
  for (uint32_t i = 0; i < d->part_count; i++) add_edge(g, d->parts[i].send, d->parts[i].recv);
}

static void add_turns(struct graph *g) {
  const struct tu_drawing *d = g->d;
  uint32_t last[TU_LANES_MAX];
  for (uint32_t s = 0; s < tu_drawing_steps(d); s++) {
    if (s == d->step_base[d->rank_of[s]])
      for (uint32_t lane = 0; lane < TU_LANES_MAX; lane++) last[lane] = NONE;
    const struct tu_step *step = tu_drawing_step(d, s);
    if (step->kind != TU_SEND || g->head[s] != s) continue;
    if (last[step->lane] != NONE) add_edge(g, last[step->lane], s);
    last[step->lane] = s;
  }
}

static int compare_edges(const void *left, const void *right) {
  const struct edge *a = left, *b = right;
  if (a->before != b->before) return a->before < b->before ? -1 : 1;
  return a->step < b->step ? -1 : a->step > b->step;
}

/* Step `step` waits for step `before`. Returns the earliest round of `step` that this allows. */
static uint32_t round_after(const struct tu_drawing *d, uint32_t before, uint32_t step) {
  const struct tu_step *a = tu_drawing_step(d, before), *b = tu_drawing_step(d, step);
  uint32_t round = d->round[before];
  if (b->kind == TU_SEND) return round + 1;
  if (b->kind == TU_RECV_REDUCE && a->kind != TU_SEND && round > 0) return round + 1;
  return round;
}

/* Sorts the steps topologically and finds their earliest rounds; returns false if steps wait for each other in a
 * cycle. */
static bool play(struct graph *g) {
  struct tu_drawing *d = g->d;
  uint32_t steps = tu_drawing_steps(d);
  if (g->edges) qsort(g->edges, g->edge_count, sizeof *g->edges, compare_edges);
  for (uint32_t s = 0; s <= steps; s++) g->first[s] = g->waits[s] = 0;
  for (uint32_t i = 0; i < g->edge_count; i++) {
    g->first[g->edges[i].before + 1]++;
    g->waits[g->edges[i].step]++;
  }
  for (uint32_t s = 0; s < steps; s++) g->first[s + 1] += g->first[s];
  g->ordered = 0;
  for (uint32_t s = 0; s < steps; s++) {
    /* earliest possible round: 1 for a send, 0 for any other step */
    d->round[s] = tu_drawing_step(d, s)->kind == TU_SEND;
    if (g->waits[s] == 0) g->order[g->ordered++] = s;
  }
  for (uint32_t i = 0; i < g->ordered; i++) {
    uint32_t s = g->order[i];
    for (uint32_t k = g->first[s]; k < g->first[s + 1]; k++) {
      uint32_t next = g->edges[k].step;
      d->round[next] = (uint32_t)tu_max(d->round[next], round_after(d, s, next));
      if (--g->waits[next] == 0) g->order[g->ordered++] = next;
    }
  }
  return g->ordered == steps;
}

/* Delays each send to the round in which its message is received, unless another step that waits for the send comes
 * earlier. */
static void delay_sends(struct graph *g) {
  struct tu_drawing *d = g->d;
  for (uint32_t i = g->ordered; i-- > 0;) {
    uint32_t s = g->order[i], latest = NONE;
    if (tu_drawing_step(d, s)->kind != TU_SEND) continue;
    for (uint32_t k = g->first[s]; k < g->first[s + 1]; k++) {
      uint32_t next = g->edges[k].step;
      bool sends = tu_drawing_step(d, next)->kind == TU_SEND;
      latest = (uint32_t)tu_min(latest, d->round[next] - sends);
    }
    if (latest != NONE && latest > d->round[s]) d->round[s] = latest;
  }
}

static void find_rounds(struct tu_drawing *d) {
  uint32_t steps = tu_drawing_steps(d);
  struct graph g = {.d = d};
  g.head = tu_allocate(steps, sizeof *g.head);
  g.first = tu_allocate((size_t)steps + 1, sizeof *g.first);
  g.waits = tu_allocate((size_t)steps + 1, sizeof *g.waits);
  g.order = tu_allocate(steps, sizeof *g.order);
  for (uint32_t s = 0; s < steps; s++) g.head[s] = s;
  for (uint32_t m = 0; m < d->message_count; m++) {
    const struct tu_draw_part *parts = &d->parts[d->messages[m].part_first];
    for (uint32_t i = 0; i < d->messages[m].part_count; i++) g.head[parts[i].send] = parts[0].send;
  }
  add_waits(&g);
  uint32_t without_turns = g.edge_count;
  add_turns(&g);
  if (!play(&g)) {
    /* The steps wait for each other in a cycle. This can happen in a plan from a file, where a rank may send its
     * messages in another order than that of its steps. Then the order of sends is ignored, and a rank may send several
     * messages in a round. */
    g.edge_count = 0;
    add_waits(&g);
    bool ended = play(&g);
    tu_assert(g.edge_count == without_turns && ended);
  }
  delay_sends(&g);
  for (uint32_t s = 0; s < steps; s++) d->round[s] = d->round[g.head[s]];
  free(g.head);
  free(g.edges);
  free(g.first);
  free(g.waits);
  free(g.order);
}

/* ---- rounds of all steps ---- */

void tu_drawing_init(struct tu_drawing *d, const struct tu_plan *plan) {
  tu_assert(plan->rank_count == plan->ranks);
  *d = (struct tu_drawing){.plan = plan};
  d->step_base = tu_allocate((size_t)plan->ranks + 1, sizeof *d->step_base);
  for (uint32_t r = 0; r < plan->ranks; r++) {
    d->step_base[r + 1] = d->step_base[r] + plan->rank[r].step_count;
    d->tmp_chunks_max = (uint32_t)tu_max(d->tmp_chunks_max, plan->rank[r].tmp_count);
  }
  d->rank_of = tu_allocate(tu_drawing_steps(d), sizeof *d->rank_of);
  d->round = tu_allocate(tu_drawing_steps(d), sizeof *d->round);
  for (uint32_t r = 0; r < plan->ranks; r++)
    for (uint32_t s = d->step_base[r]; s < d->step_base[r + 1]; s++) d->rank_of[s] = r;
  match_ends(d);
  find_rounds(d);
  for (uint32_t s = 0; s < tu_drawing_steps(d); s++) d->rounds = (uint32_t)tu_max(d->rounds, d->round[s]);
  for (uint32_t m = 0; m < d->message_count; m++) {
    struct tu_draw_message *message = &d->messages[m];
    const struct tu_draw_part *parts = &d->parts[message->part_first];
    message->sent = d->round[parts[0].send];
    for (uint32_t i = 0; i < message->part_count; i++)
      message->taken = (uint32_t)tu_max(message->taken, d->round[parts[i].recv]);
  }
}

void tu_drawing_fini(struct tu_drawing *d) {
  free(d->step_base);
  free(d->rank_of);
  free(d->round);
  free(d->parts);
  free(d->messages);
}
