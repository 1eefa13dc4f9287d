/* sim_fluid.c: the network in which messages are flows. A message first takes the latency of its links. Then its bytes
 * flow at a rate that all its links permit. Links divide their bandwidth among flows by max-min fairness. All rates are
 * computed again whenever a flow begins or ends. One such computation takes O(flows * hops). */
#include <math.h>
#include <stdlib.h>

#include "sim/sim_ways.h"

enum { FLOWS = TU_SIM_KINDS, NEXT_END };

/* A message has ended if less than this fraction of its bytes is left. Rates are rounded, so the rest may never be
 * exactly 0. */
#define REST 1e-12

struct flow {
  uint32_t node, way;
  bool flows; /* true: the message's bytes flow; false: the latency of the message's links is not over yet */
  double left, rate, began;
};

/* One direction of a link. Used while rates are computed. */
struct pipe {
  double room;    /* bandwidth that is not assigned to a flow yet, in bytes per second */
  double weight;  /* sum of the weights (shares) of the flows that cross the pipe and have no rate yet */
  uint32_t flows; /* number of flows that cross the pipe and have no rate yet */
};

struct fluid {
  /* must be the first member, because network functions cast its address to struct fluid * */
  struct tu_sim_network network;
  struct tu_sim_course *course;
  const struct tu_sim_where *where;
  struct tu_sim_cluster_report *report;
  struct tu_sim_ways *ways;
  struct flow *flows; /* flows in progress, in any order */
  uint32_t flow_count, flow_capacity;
  uint32_t *flow_of;  /* [node]: index in `flows` of the message's flow */
  struct pipe *pipes; /* [port]: one per direction of a link */
  uint32_t *used;     /* [used_count]: the ports (directions of links) that flows use now */
  uint32_t used_count;
  double reckoned_at;
  /* number of times that the rates were computed. An event NEXT_END contains this number. It is ignored if the rates
   * have been computed again since. */
  uint32_t version;
  bool changed;
};

static double capacity(const struct fluid *f, uint32_t port) {
  return f->where->model->bandwidth / (f->where->slowness ? f->where->slowness[port / 2] : 1);
}

/* ---- rates ---- */

/* Returns the weight of a flow: on a full link, the rates of flows are proportional to their weights. All weights are
 * 1, or, with by_latency, 1 / latency of the route. Because all links have the same latency, this is computed as 1 /
 * hops. */
static double weight_of(const struct fluid *f, const struct tu_sim_way *way) {
  return f->where->by_latency && f->where->model->latency > 0 ? 1.0 / way->hops : 1;
}

static void open_pipes(struct fluid *f) {
  f->used_count = 0;
  for (uint32_t i = 0; i < f->flow_count; i++) {
    if (!f->flows[i].flows) continue;
    const struct tu_sim_way *w = &f->ways->ways[f->flows[i].way];
    f->flows[i].rate = -1;
    for (uint32_t h = w->first_hop; h < w->first_hop + w->hops; h++) {
      struct pipe *pipe = &f->pipes[f->ways->ports[h]];
      pipe->weight = (pipe->flows > 0 ? pipe->weight : 0) + weight_of(f, w);
      if (pipe->flows++ > 0) continue;
      pipe->room = capacity(f, f->ways->ports[h]);
      f->used[f->used_count++] = f->ways->ports[h];
    }
  }
}

/* Returns the pipe (direction of a link) that gives its flows the lowest rates. Its room (bandwidth not assigned yet)
 * is divided among its flows without a rate, by weight; so this is the pipe with the least room per weight. TU_NONE:
 * all flows have their rates. */
static uint32_t narrowest(const struct fluid *f) {
  uint32_t best = TU_NONE;
  for (uint32_t i = 0; i < f->used_count; i++) {
    const struct pipe *p = &f->pipes[f->used[i]];
    if (p->flows == 0) continue;
    if (best == TU_NONE || p->room / p->weight < f->pipes[best].room / f->pipes[best].weight) best = f->used[i];
  }
  return best;
}

static bool goes_through(const struct fluid *f, const struct flow *flow, uint32_t port) {
  const struct tu_sim_way *w = &f->ways->ways[flow->way];
  for (uint32_t h = w->first_hop; h < w->first_hop + w->hops; h++)
    if (f->ways->ports[h] == port) return true;
  return false;
}

static void fix_rates(struct fluid *f, uint32_t port) {
  double share = f->pipes[port].room / f->pipes[port].weight;
  for (uint32_t i = 0; i < f->flow_count; i++) {
    struct flow *flow = &f->flows[i];
    if (!flow->flows || flow->rate >= 0 || !goes_through(f, flow, port)) continue;
    const struct tu_sim_way *w = &f->ways->ways[flow->way];
    double weight = weight_of(f, w);
    flow->rate = share * weight;
    for (uint32_t h = w->first_hop; h < w->first_hop + w->hops; h++) {
      struct pipe *pipe = &f->pipes[f->ways->ports[h]];
      pipe->room = fmax(pipe->room - flow->rate, 0);
      pipe->weight -= weight;
      pipe->flows--;
    }
  }
}

/* Lets time pass: subtracts from each flow the bytes that it has moved at its rate since the last call. */
static void flow_on(struct fluid *f) {
  double seconds = f->course->now - f->reckoned_at;
  for (uint32_t i = 0; i < f->flow_count; i++)
    if (f->flows[i].flows) f->flows[i].left -= seconds * f->flows[i].rate;
  f->reckoned_at = f->course->now;
}

static void settle(struct tu_sim_network *network) {
  struct fluid *f = (struct fluid *)network;
  double next = INFINITY;
  if (!f->changed) return;
  f->changed = false;
  open_pipes(f);
  for (uint32_t port; (port = narrowest(f)) != TU_NONE;) fix_rates(f, port);
  for (uint32_t i = 0; i < f->flow_count; i++)
    if (f->flows[i].flows) next = fmin(next, f->flows[i].left / f->flows[i].rate);
  f->version++;
  if (!isinf(next))
    tu_events_put(&f->course->events, (struct tu_event){f->course->now + fmax(next, 0), NEXT_END, f->version});
}

/* ---- begin and end of flows ---- */

static void send(struct tu_sim_network *network, uint32_t node) {
  struct fluid *f = (struct fluid *)network;
  const struct tu_sim_way *w = &f->ways->ways[f->ways->way_of[node]];
  struct tu_sim_chain *chain = &f->course->states[node].chain;
  double bytes = f->course->sim->nodes[node].weight * f->course->chunk_bytes;
  double there = f->course->now + w->hops * f->where->model->latency;
  chain->messages++;
  chain->sent += f->course->sim->nodes[node].weight;
  if (bytes <= 0 || w->hops == 0) {
    tu_sim_end_at(f->course, w->hops == 0 ? f->course->now + tu_link_noc_time(f->where->model, bytes) : there, node);
    return;
  }
  f->flows = tu_grow(f->flows, f->flow_count, &f->flow_capacity, sizeof *f->flows);
  f->flow_of[node] = f->flow_count;
  f->flows[f->flow_count++] = (struct flow){.node = node, .way = f->ways->way_of[node], .left = bytes, .began = there};
  tu_events_put(&f->course->events, (struct tu_event){there, FLOWS, node});
}

static void finish(struct fluid *f, uint32_t index) {
  struct flow flow = f->flows[index];
  const struct tu_sim_way *w = &f->ways->ways[flow.way];
  double bytes = f->course->sim->nodes[flow.node].weight * f->course->chunk_bytes;
  for (uint32_t h = w->first_hop; h < w->first_hop + w->hops; h++) {
    uint32_t port = f->ways->ports[h];
    struct tu_links_load *load = &f->report->loads[port];
    load->bytes += bytes;
    load->packets++;
    load->busy += bytes / capacity(f, port);
    if (f->where->traced)
      tu_sim_note(f->report, (struct tu_crossing){port, w->from, w->to, bytes, flow.began, f->course->now});
  }
  f->flows[index] = f->flows[--f->flow_count];
  if (index < f->flow_count) f->flow_of[f->flows[index].node] = index;
  tu_sim_end_at(f->course, f->course->now, flow.node);
}

static void event(struct tu_sim_network *network, const struct tu_event *e) {
  struct fluid *f = (struct fluid *)network;
  /* outdated event: the rates have changed since the event was put */
  if (e->kind == NEXT_END && e->id != f->version) return;
  flow_on(f);
  f->changed = true;
  if (e->kind == FLOWS) {
    f->flows[f->flow_of[e->id]].flows = true;
    return;
  }
  for (uint32_t i = 0; i < f->flow_count;) {
    const struct flow *flow = &f->flows[i];
    double bytes = f->course->sim->nodes[flow->node].weight * f->course->chunk_bytes;
    bool done = flow->left <= bytes * REST || f->course->now + flow->left / flow->rate == f->course->now;
    if (flow->flows && done) finish(f, i);
    else i++;
  }
}

static void end(struct tu_sim_network *network, uint32_t node) { (void)network, (void)node; }

static int compare_crossings(const void *a, const void *b) {
  const struct tu_crossing *x = a, *y = b;
  if (x->port != y->port) return x->port < y->port ? -1 : 1;
  return (x->begin > y->begin) - (x->begin < y->begin);
}

tutti_err tu_sim_run_fluid(struct tu_sim_course *course, const struct tu_sim_where *where, struct tu_sim_ways *ways,
                           struct tu_sim_cluster_report *report, struct tu_error *error) {
  struct fluid f = {
      .network = {send, end, settle, event}, .course = course, .where = where, .report = report, .ways = ways};
  (void)error;
  f.flow_of = tu_allocate(course->sim->node_count, sizeof *f.flow_of);
  f.pipes = tu_allocate(report->port_count, sizeof *f.pipes);
  f.used = tu_allocate(report->port_count, sizeof *f.used);
  tu_sim_play(course, &f.network);
  if (report->timeline.crossing_count > 1)
    qsort(report->timeline.crossings, report->timeline.crossing_count, sizeof *report->timeline.crossings,
          compare_crossings);
  free(f.flow_of);
  free(f.pipes);
  free(f.used);
  free(f.flows);
  return TUTTI_OK;
}
