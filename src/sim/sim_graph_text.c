/* sim_graph_text.c: writes a graph, and the links that its messages cross, as text for other
 * simulators. O(nodes + edges). */
#include <stdlib.h>

#include "sim/sim_ways.h"

struct writer {
  const struct tu_sim *sim;
  const struct tu_sim_where *where;
  const struct tu_sim_ways *ways;
  double chunk_bytes;
  struct tu_text *text;
};

static void write_links(const struct writer *w) {
  const struct tu_link_model *model = w->where->model;
  uint32_t ports = 2 * w->where->cluster->link_count;
  bool *crossed = tu_allocate(ports, sizeof *crossed);
  for (uint32_t h = 0; h < w->ways->hop_count; h++) crossed[w->ways->ports[h]] = true;
  for (uint32_t p = 0; p < ports; p++) {
    double slowness = w->where->slowness ? w->where->slowness[p / 2] : 1;
    if (crossed[p]) tu_text_print(w->text, "link %u %.17g %.17g\n", p, model->bandwidth / slowness, model->latency);
  }
  free(crossed);
}

static void write_message(const struct writer *w, uint32_t node) {
  const struct tu_sim_node *n = &w->sim->nodes[node];
  const struct tu_sim_way *way = &w->ways->ways[w->ways->way_of[node]];
  double bytes = n->weight * w->chunk_bytes;
  if (way->hops == 0) { /* no link is crossed, because both ranks are on one chip */
    tu_text_print(w->text, "delay %u %.17g\n", node, tu_link_noc_time(w->where->model, bytes));
    return;
  }
  tu_text_print(w->text, "message %u %u %u %.17g", node, n->rank, n->to, bytes);
  for (uint32_t h = way->first_hop; h < way->first_hop + way->hops; h++)
    tu_text_print(w->text, " %u", w->ways->ports[h]);
  tu_text_print(w->text, "\n");
}

static void write_node(const struct writer *w, uint32_t node) {
  const struct tu_sim_node *n = &w->sim->nodes[node];
  double speed = w->where->model->reduce_bandwidth;
  if (n->to != TU_NONE) write_message(w, node);
  else if (n->weight > 0 && speed > 0)
    tu_text_print(w->text, "reduce %u %u %.17g\n", node, n->rank, n->weight * w->chunk_bytes / speed);
  else tu_text_print(w->text, "step %u\n", node);
}

static void write_edges(const struct writer *w, uint32_t node) {
  const struct tu_sim_node *n = &w->sim->nodes[node];
  if (n->edge != TU_NONE) tu_text_print(w->text, "then %u", node);
  for (uint32_t e = n->edge; e != TU_NONE; e = w->sim->edges[e].next)
    tu_text_print(w->text, " %u", w->sim->edges[e].node);
  if (n->edge != TU_NONE) tu_text_print(w->text, "\n");
  if (n->ring_next != TU_NONE) tu_text_print(w->text, "behind %u %u\n", node, n->ring_next);
}

/* Writes the late starts of ranks. For a rank that starts late, writes an additional node that takes as long as the
 * rank is late. All nodes of the rank wait for this node. */
static void write_late(const struct writer *w) {
  for (uint32_t rank = 0; w->where->late && rank < w->sim->ranks; rank++) {
    if (w->where->late[rank] <= 0) continue;
    uint32_t delay = w->sim->node_count + rank;
    tu_text_print(w->text, "delay %u %.17g\n", delay, w->where->late[rank]);
    for (uint32_t i = 0; i < w->sim->node_count; i++)
      if (w->sim->nodes[i].rank == rank) tu_text_print(w->text, "then %u %u\n", delay, i);
  }
}

tutti_err tu_sim_graph_text(const struct tu_sim *sim, double bytes, const struct tu_sim_where *where,
                            struct tu_text *text, struct tu_error *error) {
  struct tu_sim_ways *ways;
  tu_assert(sim->stands_for == 1);
  tutti_err err = tu_sim_ways_create(sim, where, &ways, error);
  if (err != TUTTI_OK) return err;
  const struct writer w = {sim, where, ways, sim->parts == 0 ? 0 : bytes / sim->parts, text};
  tu_text_print(text, "graph 1\n");
  write_links(&w);
  for (uint32_t i = 0; i < sim->node_count; i++) write_node(&w, i);
  for (uint32_t i = 0; i < sim->node_count; i++) write_edges(&w, i);
  write_late(&w);
  tu_sim_ways_destroy(ways);
  return TUTTI_OK;
}
