/* sim.c: the clock of the simulator, and what happens at a moment. O(log ranks) a step; it holds some 90 bytes a step. */
#include "sim/sim.h"

#include <stdlib.h>

#include "algo/algo.h"
#include "sim/sim_parts.h"

/* Times that differ by less are one moment: sums in another order must not decide who comes first. */
#define ROUNDING 1e-12

/* A rank's arithmetic: one reduction at a time. */
struct unit {
  struct tu_sim_queue ready;
  bool busy;
  struct tu_sim_chain last;
};

struct play {
  struct tu_sim_course course;
  struct tu_sim_ports *ports;
  struct unit *units;
  struct tu_sim_marks marks; /* of units */
  uint32_t moment;
  uint32_t *ready; /* a stack of nodes that wait for nothing more */
  uint32_t ready_count, ready_capacity;
  uint64_t ended; /* nodes */
  struct tu_sim_chain last;
};

/* ---- queues and marks ---- */

void tu_sim_queue_init(struct tu_sim_queue *queue) { *queue = (struct tu_sim_queue){TU_NONE, TU_NONE, TU_NONE}; }

void tu_sim_queue_put(struct tu_sim_course *course, struct tu_sim_queue *queue, uint32_t node) {
  struct tu_sim_state *states = course->states;
  uint32_t before = queue->tail; /* most come in order */
  if (queue->tail != queue->settled && queue->tail > node) {
    before = queue->settled;
    for (;;) {
      uint32_t next = before == TU_NONE ? queue->head : states[before].next;
      if (next > node) break;
      before = next;
    }
  }
  uint32_t *link = before == TU_NONE ? &queue->head : &states[before].next;
  states[node].next = before == queue->tail ? TU_NONE : *link;
  *link = node;
  if (before == queue->tail) queue->tail = node;
}

uint32_t tu_sim_queue_take(struct tu_sim_course *course, struct tu_sim_queue *queue) {
  uint32_t node = queue->head;
  queue->head = course->states[node].next;
  if (queue->head == TU_NONE) queue->tail = queue->settled = TU_NONE;
  return node;
}

void tu_sim_marks_init(struct tu_sim_marks *marks, uint32_t ranks) {
  marks->ranks = tu_allocate(ranks, sizeof *marks->ranks);
  marks->marked = tu_allocate(ranks, sizeof *marks->marked);
}

void tu_sim_marks_fini(struct tu_sim_marks *marks) {
  free(marks->ranks);
  free(marks->marked);
}

static int compare_ranks(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

void tu_sim_marks_list(struct tu_sim_marks *marks) {
  if (marks->count > 1) qsort(marks->ranks, marks->count, sizeof *marks->ranks, compare_ranks);
  for (uint32_t i = 0; i < marks->count; i++) marks->marked[marks->ranks[i]] = false;
}

/* ---- events ---- */

void tu_sim_end_at(struct tu_sim_course *course, double time, uint32_t node) {
  course->events = tu_grow(course->events, course->event_count, &course->event_capacity, sizeof *course->events);
  uint32_t at = course->event_count++;
  for (; at > 0 && course->events[(at - 1) / 2].time > time; at = (at - 1) / 2)
    course->events[at] = course->events[(at - 1) / 2];
  course->events[at] = (struct tu_sim_event){time, node};
}

static struct tu_sim_event next_event(struct tu_sim_course *course) {
  struct tu_sim_event next = course->events[0], moved = course->events[--course->event_count];
  uint32_t at = 0;
  for (;;) {
    uint32_t child = 2 * at + 1;
    if (child >= course->event_count) break;
    if (child + 1 < course->event_count && course->events[child + 1].time < course->events[child].time) child++;
    if (course->events[child].time >= moved.time) break;
    course->events[at] = course->events[child];
    at = child;
  }
  course->events[at] = moved;
  return next;
}

/* ---- what happens at a moment ---- */

static void less_waits(struct play *p, uint32_t node) {
  if (--p->course.states[node].waits > 0) return;
  p->ready = tu_grow(p->ready, p->ready_count, &p->ready_capacity, sizeof *p->ready);
  p->ready[p->ready_count++] = node;
}

static void end(struct play *p, uint32_t node) {
  const struct tu_sim *sim = p->course.sim;
  struct tu_sim_state *states = p->course.states;
  p->ended++;
  tu_sim_chain_join(&p->last, &states[node].chain);
  for (uint32_t e = sim->nodes[node].edge; e != TU_NONE; e = sim->edges[e].next) {
    tu_sim_chain_join(&states[sim->edges[e].node].chain, &states[node].chain);
    less_waits(p, sim->edges[e].node);
  }
}

/* A message or a reduction has had its time. */
static void end_of_time(struct play *p, uint32_t node) {
  const struct tu_sim_node *n = &p->course.sim->nodes[node];
  p->course.states[node].chain.moment = p->moment;
  if (n->to != TU_NONE) {
    tu_sim_ports_end(p->ports, node);
  } else {
    p->units[n->rank].busy = false;
    p->units[n->rank].last = p->course.states[node].chain;
    tu_sim_mark(&p->marks, n->rank);
  }
  end(p, node);
}

/* Passes on what waits for nothing more: to the network, to a unit, or to its end. */
static void pass_on(struct play *p) {
  while (p->ready_count > 0) {
    uint32_t node = p->ready[--p->ready_count];
    const struct tu_sim_node *n = &p->course.sim->nodes[node];
    if (n->to != TU_NONE) {
      tu_sim_ports_send(p->ports, node);
      if (n->ring_next == TU_NONE) continue;
      tu_sim_chain_join(&p->course.states[n->ring_next].chain, &p->course.states[node].chain);
      less_waits(p, n->ring_next);
    } else if (n->weight > 0) {
      tu_sim_queue_put(&p->course, &p->units[n->rank].ready, node);
      tu_sim_mark(&p->marks, n->rank);
    } else {
      end(p, node);
    }
  }
}

static void start_reductions(struct play *p) {
  tu_sim_marks_list(&p->marks);
  for (uint32_t i = 0; i < p->marks.count; i++) {
    struct unit *unit = &p->units[p->marks.ranks[i]];
    tu_sim_queue_settle(&unit->ready);
    if (unit->busy || unit->ready.head == TU_NONE) continue;
    uint32_t node = tu_sim_queue_take(&p->course, &unit->ready);
    struct tu_sim_chain *chain = &p->course.states[node].chain;
    double chunks = p->course.sim->nodes[node].weight;
    tu_sim_chain_join(chain, &unit->last);
    chain->added += chunks;
    unit->busy = true;
    tu_sim_end_at(&p->course, p->course.now + p->course.chunk_gamma * chunks, node);
  }
  p->marks.count = 0;
}

static void play_all(struct play *p) {
  struct tu_sim_course *course = &p->course;
  for (uint32_t i = 0; i < course->sim->node_count; i++) {
    if (course->sim->nodes[i].waits > 0) continue;
    p->ready = tu_grow(p->ready, p->ready_count, &p->ready_capacity, sizeof *p->ready);
    p->ready[p->ready_count++] = i;
  }
  for (;;) {
    pass_on(p);
    tu_sim_ports_settle(p->ports);
    start_reductions(p);
    if (course->event_count == 0) break;
    double until = course->events[0].time * (1 + ROUNDING);
    p->moment++;
    while (course->event_count > 0 && course->events[0].time <= until) {
      struct tu_sim_event event = next_event(course);
      course->now = event.time;
      end_of_time(p, event.node);
    }
  }
}

/* ---- */

static void report_on(const struct play *p, double chunk_bytes, struct tu_sim_report *report) {
  const struct tu_sim *sim = p->course.sim;
  *report = (struct tu_sim_report){
      .time_s = p->course.now,
      .messages = sim->messages * sim->stands_for,
      .bytes_sent_max = sim->chunks_sent_max * chunk_bytes,
      .critical_messages = p->last.messages,
      .critical_bytes = p->last.sent * chunk_bytes,
      .critical_reduced_bytes = p->last.added * chunk_bytes,
  };
}

void tu_sim_run(const struct tu_sim *sim, double bytes, const struct tu_sim_cost *cost, struct tu_sim_report *report) {
  double chunk_bytes = sim->parts == 0 ? 0 : bytes / sim->parts;
  struct play p = {.course = {.sim = sim,
                              .alpha = cost->alpha,
                              .chunk_beta = cost->beta * chunk_bytes,
                              .chunk_gamma = cost->gamma * chunk_bytes}};
  p.course.states = tu_allocate(sim->node_count, sizeof *p.course.states);
  for (uint32_t i = 0; i < sim->node_count; i++) p.course.states[i].waits = sim->nodes[i].waits;
  p.ports = tu_sim_ports_create(&p.course);
  p.units = tu_allocate(sim->ranks, sizeof *p.units);
  for (uint32_t i = 0; i < sim->ranks; i++) tu_sim_queue_init(&p.units[i].ready);
  tu_sim_marks_init(&p.marks, sim->ranks);
  play_all(&p);
  tu_assert(p.ended == sim->node_count); /* a plan that tu_check proves comes to its end */
  report_on(&p, chunk_bytes, report);
  tu_sim_marks_fini(&p.marks);
  tu_sim_ports_destroy(p.ports);
  free(p.units);
  free(p.ready);
  free(p.course.events);
  free(p.course.states);
}

struct tu_sim *tu_sim_build(const struct tu_build *what) {
  tu_assert(what->rank == TU_ALL_RANKS || (what->rank == 0 && what->algorithm->flags & TU_ROTATES));
  struct tu_plan *plan = tu_plan_build(what);
  struct tu_sim *sim = tu_sim_create(plan);
  tu_plan_destroy(plan);
  return sim;
}
