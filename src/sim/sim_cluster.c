/* sim_cluster.c: simulates a plan on a cluster: finds the routes, runs the simulation of packets or of flows, then
 * makes the report. */
#include "sim/sim_cluster.h"

#include <math.h>
#include <stdlib.h>

#include "sim/sim_ways.h"

/* ---- routes ---- */

struct finder {
  const struct tu_sim_where *where;
  struct tu_sim_ways *ways;
  uint32_t *nodes; /* buffer for the nodes (chips and switches) of one route */
  /* [port], that is, one direction of a link: number of FIFOs (messages from one rank to another on one lane) that use
   * it */
  uint32_t *on_port;
};

static uint32_t choose_port(struct finder *f, uint32_t from, uint32_t to, uint32_t lane) {
  const struct tu_cluster *cluster = f->where->cluster;
  uint32_t usable = tu_cluster_usable(cluster, from, to), best = TU_NONE;
  tu_assert(usable > 0);
  for (uint32_t i = 0; i < usable; i++) {
    uint32_t link = tu_cluster_link_between(cluster, from, to, (lane + i) % usable);
    uint32_t port = tu_directed(link, cluster->links[link].ends[0].node != from);
    if (best == TU_NONE || f->on_port[port] < f->on_port[best]) best = port;
  }
  f->on_port[best]++;
  return best;
}

static tutti_err find_way(struct finder *f, const struct tu_sim *sim, uint32_t node, struct tu_error *error) {
  struct tu_sim_ways *w = f->ways;
  const struct tu_sim_node *message = &sim->nodes[node];
  const uint32_t *chip = f->where->chip;
  uint32_t from = chip ? chip[message->rank] : message->rank, to = chip ? chip[message->to] : message->to;
  uint32_t hops = from == to ? 0 : tu_router_route(f->where->router, from, to, f->nodes);
  if (hops == TU_NONE)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "rank %u sends to rank %u, but there is no route from chip %u to chip %u over usable links",
                   message->rank, message->to, f->where->cluster->nodes[from].id, f->where->cluster->nodes[to].id);
  w->ways = tu_grow(w->ways, w->way_count, &w->way_capacity, sizeof *w->ways);
  w->ways[w->way_count++] = (struct tu_sim_way){message->rank, message->to, node, w->hop_count, hops};
  for (uint32_t h = 0; h < hops; h++) {
    w->ports = tu_grow(w->ports, w->hop_count, &w->hop_capacity, sizeof *w->ports);
    w->ports[w->hop_count++] = choose_port(f, f->nodes[h], f->nodes[h + 1], message->lane);
  }
  return TUTTI_OK;
}

void tu_sim_ways_destroy(struct tu_sim_ways *ways) {
  if (!ways) return;
  free(ways->ways);
  free(ways->ports);
  free(ways->way_of);
  free(ways);
}

tutti_err tu_sim_ways_create(const struct tu_sim *sim, const struct tu_sim_where *where, struct tu_sim_ways **ways,
                             struct tu_error *error) {
  if (!where->chip && sim->ranks > where->cluster->chip_count)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s has %u chips, fewer than the plan's %u ranks", where->cluster->name,
                   where->cluster->chip_count, sim->ranks);
  struct tu_sim_ways *w = tu_allocate(1, sizeof *w);
  struct finder f = {.where = where, .ways = w};
  tutti_err err = TUTTI_OK;
  f.nodes = tu_allocate(where->cluster->node_count, sizeof *f.nodes);
  f.on_port = tu_allocate(2 * (size_t)where->cluster->link_count, sizeof *f.on_port);
  w->way_of = tu_allocate(sim->node_count, sizeof *w->way_of);
  for (uint32_t i = 0; i < sim->node_count; i++) w->way_of[i] = TU_NONE;
  for (uint32_t i = 0; i < sim->node_count && err == TUTTI_OK; i++) {
    if (sim->nodes[i].to == TU_NONE) continue;
    /* this is the first message of its FIFO (sender, receiver, lane), so the FIFO has no route yet */
    if (w->way_of[i] == TU_NONE) {
      w->way_of[i] = w->way_count;
      err = find_way(&f, sim, i, error);
    }
    if (sim->nodes[i].ring_next != TU_NONE) w->way_of[sim->nodes[i].ring_next] = w->way_of[i];
  }
  free(f.nodes);
  free(f.on_port);
  if (err == TUTTI_OK) *ways = w;
  else tu_sim_ways_destroy(w);
  return err;
}

/* ---- the report ---- */

void tu_sim_cluster_report_fini(struct tu_sim_cluster_report *report) {
  free(report->loads);
  free(report->retrained);
  free(report->timeline.crossings);
  free(report->timeline.deeds);
}

static void count_retrained(const struct tu_sim_where *where, struct tu_sim_cluster_report *report) {
  for (uint32_t d = 0; d < where->down_count; d++)
    if (where->downs[d].from < report->plan.time_s) report->retrained[where->downs[d].link]++;
}

/* Returns the number of chunks that the reductions of all ranks add. All nodes that are not messages count; only
 * reductions have a weight. */
static double reduced_chunks(const struct tu_sim *sim) {
  double chunks = 0;
  for (uint32_t i = 0; i < sim->node_count; i++) chunks += sim->nodes[i].to == TU_NONE ? sim->nodes[i].weight : 0;
  return chunks;
}

static bool takes_time(const struct tu_sim_node *node) { return node->to != TU_NONE || node->weight > 0; }

/* Writes the nodes that take time (messages and reductions) into the timeline as deeds. The cause of a deed is the deed
 * that ended last among those for which it waited. A cause that takes no time, such as a copy, is no deed: it is
 * replaced by its own cause. */
static void make_deeds(const struct tu_sim_course *course, struct tu_timeline *t) {
  const struct tu_sim *sim = course->sim;
  uint32_t *deed_of = tu_allocate(sim->node_count, sizeof *deed_of);
  for (uint32_t i = 0; i < sim->node_count; i++) deed_of[i] = takes_time(&sim->nodes[i]) ? t->deed_count++ : TU_NONE;
  t->deeds = tu_allocate(t->deed_count, sizeof *t->deeds);
  t->last = TU_NONE;
  t->end = course->ended_at;
  for (uint32_t i = 0; i < sim->node_count; i++) {
    if (deed_of[i] == TU_NONE) continue;
    const struct tu_sim_times *times = &course->times[i];
    uint32_t cause = times->cause;
    while (cause != TU_NONE && deed_of[cause] == TU_NONE) cause = course->times[cause].cause;
    t->deeds[deed_of[i]] = (struct tu_deed){.rank = sim->nodes[i].rank,
                                            .to = sim->nodes[i].to,
                                            .kind = sim->nodes[i].to == TU_NONE ? TU_DEED_REDUCTION : TU_DEED_MESSAGE,
                                            .cause = cause == TU_NONE ? TU_NONE : deed_of[cause],
                                            .bytes = sim->nodes[i].weight * course->chunk_bytes,
                                            .begin = times->begin,
                                            .end = times->end};
    if (t->last == TU_NONE || times->end > t->deeds[t->last].end) t->last = deed_of[i];
  }
  free(deed_of);
}

tutti_err tu_sim_run_on(const struct tu_sim *sim, double bytes, const struct tu_sim_where *where,
                        struct tu_sim_cluster_report *report, struct tu_error *error) {
  tu_assert(sim->stands_for == 1);
  *report = (struct tu_sim_cluster_report){.port_count = 2 * where->cluster->link_count};
  struct tu_sim_ways *ways;
  tutti_err err = tu_sim_ways_create(sim, where, &ways, error);
  if (err != TUTTI_OK) return err;
  double chunk_bytes = sim->parts == 0 ? 0 : bytes / sim->parts, reduces = where->model->reduce_bandwidth;
  struct tu_sim_course course = {.sim = sim,
                                 .chunk_bytes = chunk_bytes,
                                 .chunk_gamma = reduces > 0 ? chunk_bytes / reduces : 0,
                                 .late = where->late};
  if (where->traced) course.times = tu_allocate(sim->node_count, sizeof *course.times);
  report->loads = tu_allocate(report->port_count, sizeof *report->loads);
  report->retrained = tu_allocate(where->cluster->link_count, sizeof *report->retrained);
  err = where->fluid ? tu_sim_run_fluid(&course, where, ways, report, error)
                     : tu_sim_run_links(&course, where, ways, report, error);
  if (err == TUTTI_OK) {
    tu_sim_report_on(&course, &report->plan);
    report->reduced_bytes = reduced_chunks(sim) * chunk_bytes;
    count_retrained(where, report);
    if (where->traced) make_deeds(&course, &report->timeline);
  } else {
    tu_sim_cluster_report_fini(report);
  }
  tu_sim_ways_destroy(ways);
  tu_sim_course_fini(&course);
  return err;
}
