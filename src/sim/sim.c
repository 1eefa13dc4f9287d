/* sim.c: the clock of the simulator. It handles all events of one moment, then those of the next moment. Takes O(log
 * ranks) time and about 90 bytes of memory per step of the plan. */
#include "sim/sim.h"

#include <stdlib.h>

#include "algo/algo.h"
#include "sim/sim_internal.h"

/* Two times whose relative difference is smaller than this count as the same moment. So rounding errors do not decide
 * the order of events. */
#define ROUNDING 1e-12

/* Arithmetic unit of a rank. It carries out one reduction at a time. */
struct unit {
  struct tu_sim_queue ready;
  bool busy;
  struct tu_sim_chain last;
};

struct play {
  struct tu_sim_course *course;
  struct tu_sim_network *network;
  struct unit *units;
  struct tu_sim_marks marks; /* ranks whose arithmetic units may start a reduction */
  uint32_t moment;
  uint32_t *ready; /* stack of nodes that no longer wait for anything */
  uint32_t ready_count, ready_capacity;
  uint64_t ended; /* number of nodes that have ended */
};

/* ---- the events of a moment ---- */

static void make_ready(struct play *p, uint32_t node) {
  p->ready = tu_grow(p->ready, p->ready_count, &p->ready_capacity, sizeof *p->ready);
  p->ready[p->ready_count++] = node;
}

/* A condition for which `node` waits is met. If it was the last one, `node` becomes ready. `cause`: the node whose end
 * met the condition; TU_NONE: none, because the condition was the start of the rank. */
static void less_waits(struct play *p, uint32_t node, uint32_t cause) {
  if (--p->course->states[node].waits > 0) return;
  if (p->course->times) p->course->times[node] = (struct tu_sim_times){p->course->now, p->course->now, cause};
  make_ready(p, node);
}

static void end(struct play *p, uint32_t node) {
  const struct tu_sim *sim = p->course->sim;
  struct tu_sim_state *states = p->course->states;
  p->ended++;
  p->course->ended_at = p->course->now;
  if (p->course->times) p->course->times[node].end = p->course->now;
  tu_sim_chain_join(&p->course->last, &states[node].chain);
  for (uint32_t e = sim->nodes[node].edge; e != TU_NONE; e = sim->edges[e].next) {
    tu_sim_chain_join(&states[sim->edges[e].node].chain, &states[node].chain);
    less_waits(p, sim->edges[e].node, node);
  }
}

/* Called when a node that takes time (a message or a reduction) has ended. */
static void end_of_time(struct play *p, uint32_t node) {
  const struct tu_sim_node *n = &p->course->sim->nodes[node];
  p->course->states[node].chain.moment = p->moment;
  if (n->to != TU_NONE) {
    p->network->end(p->network, node);
  } else {
    p->units[n->rank].busy = false;
    p->units[n->rank].last = p->course->states[node].chain;
    tu_sim_mark(&p->marks, n->rank);
  }
  end(p, node);
}

/* Handles the nodes that have become ready: messages go to the network, and reductions to the arithmetic unit of their
 * rank. Other nodes take no time and end now. */
static void pass_on(struct play *p) {
  while (p->ready_count > 0) {
    uint32_t node = p->ready[--p->ready_count];
    const struct tu_sim_node *n = &p->course->sim->nodes[node];
    if (n->to != TU_NONE) {
      p->network->send(p->network, node);
      if (n->ring_next == TU_NONE) continue;
      tu_sim_chain_join(&p->course->states[n->ring_next].chain, &p->course->states[node].chain);
      /* This message is ready, so the next message of its FIFO need not wait for it any more. This may make the next
       * message ready, too. The cause of both is then the same: the node whose end made this message ready. */
      less_waits(p, n->ring_next, p->course->times ? p->course->times[node].cause : TU_NONE);
    } else if (n->weight > 0) {
      tu_sim_queue_put(p->course, &p->units[n->rank].ready, node);
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
    uint32_t node = tu_sim_queue_take(p->course, &unit->ready);
    struct tu_sim_chain *chain = &p->course->states[node].chain;
    double chunks = p->course->sim->nodes[node].weight;
    tu_sim_chain_join(chain, &unit->last);
    chain->added += chunks;
    unit->busy = true;
    tu_sim_end_at(p->course, p->course->now + p->course->chunk_gamma * chunks, node);
  }
  p->marks.count = 0;
}

static void take_event(struct play *p, const struct tu_event *event) {
  p->course->now = event->time;
  if (event->kind == TU_SIM_ENDS) end_of_time(p, event->id);
  else if (event->kind == TU_SIM_STARTS) less_waits(p, event->id, TU_NONE);
  else p->network->event(p->network, event);
}

/* Begins a run: makes all nodes ready that wait for nothing. The nodes of a rank that starts late wait until the rank
 * starts. */
static void start(struct play *p) {
  const struct tu_sim *sim = p->course->sim;
  for (uint32_t i = 0; i < sim->node_count; i++) {
    double late = p->course->late ? p->course->late[sim->nodes[i].rank] : 0;
    if (late > 0) {
      p->course->states[i].waits++;
      tu_events_put(&p->course->events, (struct tu_event){late, TU_SIM_STARTS, i});
    } else if (sim->nodes[i].waits == 0) {
      if (p->course->times) p->course->times[i].cause = TU_NONE;
      make_ready(p, i);
    }
  }
}

static void play_all(struct play *p) {
  enum { SEEN_MOMENTS = 256 }; /* the watch is called after so many moments */
  const struct tu_sim *sim = p->course->sim;
  struct tu_events *events = &p->course->events;
  start(p);
  for (;;) {
    pass_on(p);
    p->network->settle(p->network);
    start_reductions(p);
    if (events->count == 0) break;
    double until = events->heap[0].time * (1 + ROUNDING);
    p->moment++;
    if (sim->see && p->moment % SEEN_MOMENTS == 0) sim->see(p->ended, sim->node_count);
    while (events->count > 0 && events->heap[0].time <= until) {
      struct tu_event event = tu_events_take(events);
      take_event(p, &event);
    }
  }
}

void tu_sim_play(struct tu_sim_course *course, struct tu_sim_network *network) {
  const struct tu_sim *sim = course->sim;
  struct play p = {.course = course, .network = network};
  course->states = tu_allocate(sim->node_count, sizeof *course->states);
  for (uint32_t i = 0; i < sim->node_count; i++) course->states[i].waits = sim->nodes[i].waits;
  p.units = tu_allocate(sim->ranks, sizeof *p.units);
  for (uint32_t i = 0; i < sim->ranks; i++) tu_sim_queue_init(&p.units[i].ready);
  tu_sim_marks_init(&p.marks, sim->ranks);
  play_all(&p);
  /* the plan was accepted by tu_check, so it has no deadlock and every node ends */
  tu_assert(p.ended == sim->node_count);
  tu_sim_marks_fini(&p.marks);
  free(p.units);
  free(p.ready);
}

void tu_sim_course_fini(struct tu_sim_course *course) {
  tu_events_fini(&course->events);
  free(course->states);
  free(course->times);
}

/* ---- whole runs and their reports ---- */

void tu_sim_watch(struct tu_sim *sim, void (*see)(uint64_t ended, uint64_t nodes)) { sim->see = see; }

void tu_sim_report_on(const struct tu_sim_course *course, struct tu_sim_report *report) {
  const struct tu_sim *sim = course->sim;
  *report = (struct tu_sim_report){
      .time_s = course->ended_at,
      .messages = sim->messages * sim->stands_for,
      .bytes_sent_max = sim->chunks_sent_max * course->chunk_bytes,
      .critical_messages = course->last.messages,
      .critical_bytes = course->last.sent * course->chunk_bytes,
      .critical_reduced_bytes = course->last.added * course->chunk_bytes,
  };
}

void tu_sim_run(const struct tu_sim *sim, double bytes, const struct tu_sim_cost *cost, struct tu_sim_report *report) {
  double chunk_bytes = sim->parts == 0 ? 0 : bytes / sim->parts;
  struct tu_sim_course course = {.sim = sim,
                                 .chunk_bytes = chunk_bytes,
                                 .alpha = cost->alpha,
                                 .chunk_beta = cost->beta * chunk_bytes,
                                 .chunk_gamma = cost->gamma * chunk_bytes};
  struct tu_sim_network *ports = tu_sim_ports_create(&course);
  tu_sim_play(&course, ports);
  tu_sim_report_on(&course, report);
  tu_sim_ports_destroy(ports);
  tu_sim_course_fini(&course);
}

struct tu_sim *tu_sim_build(const struct tu_build *what) {
  tu_assert(what->rank == TU_ALL_RANKS || (what->rank == 0 && what->algorithm->flags & TU_ROTATES));
  struct tu_plan *plan = tu_plan_build(what);
  struct tu_sim *sim = tu_sim_create(plan);
  tu_plan_destroy(plan);
  return sim;
}
