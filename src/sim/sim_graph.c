/* sim_graph.c: makes the graph of a plan. Its nodes are messages and other steps; its edges state which node waits
 * for which. O(steps). */
#include <stdlib.h>

#include "sim/sim_internal.h"

/* A FIFO: the messages from one rank to another on one lane. */
struct ring {
  uint64_t key;   /* encodes sender, receiver and lane; 0: this entry of the hash table is free */
  uint32_t first; /* first message sent on the FIFO, as a node number */
  uint32_t sent;  /* last message sent so far, as a node number; TU_NONE: none */
  uint32_t taken; /* last message received so far, as a node number; TU_NONE: none */
};

struct graph {
  const struct tu_plan *plan;
  struct tu_sim *sim;
  /* true: one rank stands for all ranks. The messages that it sends then also stand for those that it receives, and a
   * peer is identified by its distance from the rank. */
  bool alike;
  struct ring *rings; /* hash table of FIFOs, at most half full */
  uint32_t ring_count, ring_capacity;
  /* [step]: the first node of the step; a send has one node per receiver. A joined send has no node of its own: the
   * entry is the node of the message of which the send is a part. */
  uint32_t *node_of;
};

static uint32_t ring_index(const struct graph *g, uint64_t key) {
  uint32_t mask = g->ring_capacity - 1, at = (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 32) & mask;
  while (g->rings[at].key != 0 && g->rings[at].key != key) at = (at + 1) & mask;
  return at;
}

static void grow_rings(struct graph *g) {
  struct ring *old = g->rings;
  uint32_t old_capacity = g->ring_capacity;
  g->ring_capacity = old_capacity ? 2 * old_capacity : 64;
  g->rings = tu_allocate(g->ring_capacity, sizeof *g->rings);
  for (uint32_t i = 0; i < old_capacity; i++)
    if (old[i].key != 0) g->rings[ring_index(g, old[i].key)] = old[i];
  free(old);
}

/* Returns the FIFO of messages from rank `from` to rank `to` on the lane. One of the two is the rank whose step is
 * added to the graph. */
static struct ring *find_ring(struct graph *g, uint32_t from, uint32_t to, uint8_t lane) {
  if (g->alike) {
    to = (to + g->plan->ranks - from) % g->plan->ranks;
    from = 0;
  }
  if (g->ring_count >= g->ring_capacity / 2) grow_rings(g);
  uint64_t key = (((uint64_t)from << 17 | to) << 8 | lane) + 1;
  struct ring *ring = &g->rings[ring_index(g, key)];
  if (ring->key == 0) {
    *ring = (struct ring){key, TU_NONE, TU_NONE, TU_NONE};
    g->ring_count++;
  }
  return ring;
}

/* ---- nodes ---- */

static uint32_t add_node(struct graph *g, uint32_t rank, uint32_t to, double weight) {
  struct tu_sim *sim = g->sim;
  sim->nodes = tu_grow(sim->nodes, sim->node_count, &sim->node_capacity, sizeof *sim->nodes);
  sim->nodes[sim->node_count] = (struct tu_sim_node){
      .rank = g->alike ? 0 : rank, .to = to, .ring_next = TU_NONE, .edge = TU_NONE, .weight = weight};
  return sim->node_count++;
}

/* Adds a node for each message of a send, one per receiver. Returns the first of these nodes. A joined send
 * (tu_step.joined) is a further part of the previous message to the same receiver, so it adds no node. */
static uint32_t add_send(struct graph *g, uint32_t rank, const struct tu_rank_plan *plan, const struct tu_step *step) {
  uint32_t first = TU_NONE;
  for (uint32_t i = 0; i < step->peer_count; i++) {
    uint32_t peer = plan->peers[step->peer_first + i];
    struct ring *ring = find_ring(g, rank, peer, step->lane);
    if (step->joined) {
      tu_assert(ring->sent != TU_NONE);
      g->sim->nodes[ring->sent].weight += step->source.count;
      return ring->sent;
    }
    uint32_t node = add_node(g, rank, g->alike ? 0 : peer, step->source.count);
    g->sim->nodes[node].distance = (peer + g->plan->ranks - rank) % g->plan->ranks & 0xffffffu;
    g->sim->nodes[node].lane = step->lane;
    if (ring->sent == TU_NONE) {
      ring->first = node;
    } else {
      g->sim->nodes[ring->sent].ring_next = node;
      g->sim->nodes[node].waits++;
    }
    ring->sent = node;
    g->sim->messages++;
    if (i == 0) first = node;
  }
  tu_assert(first != TU_NONE);
  return first;
}

static void add_nodes(struct graph *g, uint32_t rank, const struct tu_rank_plan *plan, uint32_t *node_of) {
  double sent = 0;
  for (uint32_t s = 0; s < plan->step_count; s++) {
    const struct tu_step *step = &plan->steps[s];
    if (step->kind == TU_SEND) {
      node_of[s] = add_send(g, rank, plan, step);
      sent += (double)step->source.count * step->peer_count;
      continue;
    }
    bool reduces = step->kind == TU_RECV_REDUCE || step->kind == TU_REDUCE;
    node_of[s] = add_node(g, rank, TU_NONE, reduces ? (double)step->target.count * (step->operand_count - 1) : 0);
  }
  if (sent > g->sim->chunks_sent_max) g->sim->chunks_sent_max = sent;
}

/* ---- edges ---- */

static void add_edge(struct tu_sim *sim, uint32_t from, uint32_t to, bool crosses) {
  tu_assert(to <= INT32_MAX);
  sim->edges = tu_grow(sim->edges, sim->edge_count, &sim->edge_capacity, sizeof *sim->edges);
  sim->edges[sim->edge_count] = (struct tu_sim_edge){to & 0x7fffffffu, crosses, sim->nodes[from].edge};
  sim->nodes[from].edge = sim->edge_count++;
  sim->nodes[to].waits++;
}

/* Makes the node, which receives, wait for the message that it receives. This is the FIFO's next message. But if the
 * receive is joined (tu_step.joined), it receives a further part of the message of the previous receive, so it waits
 * for that message. */
static void add_message(struct graph *g, struct ring *ring, bool joined, uint32_t node) {
  if (!joined) ring->taken = ring->taken == TU_NONE ? ring->first : g->sim->nodes[ring->taken].ring_next;
  tu_assert(ring->taken != TU_NONE);
  add_edge(g->sim, ring->taken, node, true);
}

static uint32_t nodes_of(const struct tu_step *step) { return step->kind == TU_SEND ? step->peer_count : 1; }

static void add_edges(struct graph *g, uint32_t rank, const struct tu_rank_plan *plan, const uint32_t *node_of) {
  for (uint32_t s = 0; s < plan->step_count; s++) {
    const struct tu_step *step = &plan->steps[s];
    for (uint32_t i = 0; i < step->after_count; i++) {
      uint32_t earlier = plan->afters[step->after_first + i];
      for (uint32_t a = 0; a < nodes_of(&plan->steps[earlier]); a++)
        for (uint32_t b = 0; b < nodes_of(step); b++) add_edge(g->sim, node_of[earlier] + a, node_of[s] + b, false);
    }
    if (step->kind == TU_RECV)
      add_message(g, find_ring(g, plan->peers[step->peer_first], rank, step->lane), step->joined, node_of[s]);
    for (uint32_t i = 0; step->kind == TU_RECV_REDUCE && i < step->operand_count; i++) {
      const struct tu_operand *o = &plan->operands[step->operand_first + i];
      if (o->peer != TU_LOCAL) add_message(g, find_ring(g, o->peer, rank, step->lane), o->joined, node_of[s]);
    }
  }
}

/* ---- the whole graph ---- */

/* Returns the number of chunks into which the plan divides the size of the collective; 0: the collective carries no
 * data (a barrier). */
static uint32_t count_parts(const struct tu_plan *plan) {
  const struct tu_collective *c = &tu_collectives[plan->collective];
  if (c->promise == TU_NOTHING) return 0;
  return plan->split * (c->in == TU_EACH || c->out == TU_EACH ? plan->ranks : 1);
}

struct tu_sim *tu_sim_create(const struct tu_plan *plan) {
  bool alike = plan->rank_count < plan->ranks;
  tu_assert(plan->rank_count == plan->ranks || plan->rank_count == 1);
  struct tu_sim *sim = tu_allocate(1, sizeof *sim);
  *sim = (struct tu_sim){
      .ranks = plan->rank_count, .stands_for = plan->ranks / plan->rank_count, .parts = count_parts(plan)};
  struct graph g = {.plan = plan, .sim = sim, .alike = alike};
  size_t steps = 0;
  for (uint32_t i = 0; i < plan->rank_count; i++) steps += plan->rank[i].step_count;
  g.node_of = tu_allocate(steps, sizeof *g.node_of);
  uint32_t *node_of = g.node_of;
  for (uint32_t i = 0; i < plan->rank_count; node_of += plan->rank[i++].step_count)
    add_nodes(&g, plan->rank_first + i, &plan->rank[i], node_of);
  node_of = g.node_of;
  for (uint32_t i = 0; i < plan->rank_count; node_of += plan->rank[i++].step_count)
    add_edges(&g, plan->rank_first + i, &plan->rank[i], node_of);
  free(g.node_of);
  free(g.rings);
  return sim;
}

void tu_sim_destroy(struct tu_sim *sim) {
  if (!sim) return;
  free(sim->nodes);
  free(sim->edges);
  free(sim);
}

bool tu_sim_goes_round(const struct tu_sim *sim) {
  uint32_t ranks = sim->ranks * sim->stands_for;
  for (uint32_t i = 0; i < sim->node_count; i++) {
    uint32_t distance = sim->nodes[i].distance;
    if (sim->nodes[i].to != TU_NONE && distance != 1 && distance != ranks - 1) return false;
  }
  return true;
}
