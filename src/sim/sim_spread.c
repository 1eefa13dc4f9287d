/* sim_spread.c: implements sim_spread.h. Reductions are merged in rounds, until a round merges none. A round takes
 * O(edges log edges). */
#include "sim/sim_spread.h"

#include <stdlib.h>
#include <string.h>

#include "sim/sim_internal.h"

/* Encodes a cause, that is, a node for which another node waits. The lowest bit is 1 if the cause is a message and the
 * waiting node belongs to the rank that receives it. */
static uint32_t cause_of(uint32_t node, bool crosses) { return node << 1 | crosses; }

struct list {
  uint32_t first, count; /* the list is causes[first] to causes[first + count - 1] */
};

struct contraction {
  const struct tu_sim *sim;
  /* [node]: a node that stays: the node itself; a merged node: the reduction into which it was merged; a removed node:
   * TU_NONE */
  uint32_t *into;
  double *weight;     /* [node]: weight of the node, including the weights of reductions that were merged into it */
  struct list *lists; /* [node]: its causes, that is, the nodes for which it waits; sorted after all removals */
  uint32_t *causes;
  uint32_t cause_count, cause_capacity;
  /* [cause]: 1 + the number of the last node to whose list this cause was added; so a cause is not added to the same
   * list twice */
  uint32_t *seen;
};

static bool reduces(const struct contraction *c, uint32_t node) {
  return c->sim->nodes[node].to == TU_NONE && c->sim->nodes[node].weight > 0;
}

/* ---- which node waits for which ---- */

struct origins {
  uint32_t *first; /* [nodes + 1]: index in `list` of each node's first cause */
  uint32_t *list;  /* the causes of all nodes, that is, the nodes for which each node waits */
};

static struct origins find_origins(const struct tu_sim *sim) {
  struct origins o = {.first = tu_allocate((size_t)sim->node_count + 2, sizeof *o.first),
                      .list = tu_allocate(sim->edge_count, sizeof *o.list)};
  /* While the list is filled, fill[n] is the index of the next free entry for the causes of node n. At the end, this is
   * the first entry of node n + 1, and so first[n + 1]. */
  uint32_t *fill = o.first + 1;
  for (uint32_t e = 0; e < sim->edge_count; e++) fill[sim->edges[e].node + 1]++;
  for (uint32_t i = 0; i < sim->node_count; i++) fill[i + 1] += fill[i];
  for (uint32_t i = 0; i < sim->node_count; i++)
    for (uint32_t e = sim->nodes[i].edge; e != TU_NONE; e = sim->edges[e].next)
      o.list[fill[sim->edges[e].node]++] = cause_of(i, sim->edges[e].crosses);
  return o;
}

/* Returns all nodes in an order in which each node comes after the nodes for which it waits. The caller frees the
 * array. */
static uint32_t *find_order(const struct tu_sim *sim) {
  uint32_t *order = tu_allocate(sim->node_count, sizeof *order), *waits = tu_allocate(sim->node_count, sizeof *waits);
  uint32_t count = 0;
  for (uint32_t i = 0; i < sim->node_count; i++) {
    waits[i] = sim->nodes[i].waits;
    if (waits[i] == 0) order[count++] = i;
  }
  for (uint32_t k = 0; k < count; k++) {
    const struct tu_sim_node *n = &sim->nodes[order[k]];
    if (n->ring_next != TU_NONE && --waits[n->ring_next] == 0) order[count++] = n->ring_next;
    for (uint32_t e = n->edge; e != TU_NONE; e = sim->edges[e].next)
      if (--waits[sim->edges[e].node] == 0) order[count++] = sim->edges[e].node;
  }
  tu_assert(count == sim->node_count);
  free(waits);
  return order;
}

/* ---- removal of steps that take no time ---- */

static void take_up(struct contraction *c, uint32_t node, uint32_t cause) {
  if (c->seen[cause] == node + 1) return;
  c->seen[cause] = node + 1;
  c->causes = tu_grow(c->causes, c->cause_count, &c->cause_capacity, sizeof *c->causes);
  c->causes[c->cause_count++] = cause;
}

static uint32_t count_waiters(const struct tu_sim *sim, uint32_t node) {
  uint32_t count = 0;
  for (uint32_t e = sim->nodes[node].edge; e != TU_NONE; e = sim->edges[e].next) count++;
  return count;
}

static void look_through(struct contraction *c, uint32_t node, const struct origins *origins) {
  struct list *list = &c->lists[node];
  list->first = c->cause_count;
  for (uint32_t i = origins->first[node]; i < origins->first[node + 1]; i++) {
    uint32_t cause = origins->list[i], before = cause >> 1;
    if (c->into[before] != TU_NONE) {
      take_up(c, node, cause);
      continue;
    }
    /* `before` was removed, so it is not a message. Only messages are waited for by nodes of another rank, so the
     * lowest bit of the cause is 0. */
    tu_assert(!(cause & 1));
    struct list through = c->lists[before];
    for (uint32_t k = 0; k < through.count; k++) take_up(c, node, c->causes[through.first + k]);
  }
  list->count = c->cause_count - list->first;
  bool timeless = c->sim->nodes[node].to == TU_NONE && c->sim->nodes[node].weight == 0;
  /* If this node is removed, each of its waiters must wait for each of its causes: causes * waiters edges replace
   * causes + waiters edges. The node is removed only if this does not increase the number of edges. */
  uint64_t waiters = count_waiters(c->sim, node);
  bool stays = !timeless || list->count * waiters > list->count + waiters;
  c->into[node] = stays ? node : TU_NONE;
}

static int compare_causes(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static void sort_list(struct contraction *c, struct list *list) {
  uint32_t *causes = c->causes + list->first, kept = 0;
  if (list->count > 1) qsort(causes, list->count, sizeof *causes, compare_causes);
  for (uint32_t i = 0; i < list->count; i++)
    if (kept == 0 || causes[i] != causes[kept - 1]) causes[kept++] = causes[i];
  list->count = kept;
}

static void leave_out_timeless(struct contraction *c) {
  struct origins origins = find_origins(c->sim);
  uint32_t *order = find_order(c->sim);
  c->seen = tu_allocate(2 * (size_t)c->sim->node_count, sizeof *c->seen);
  for (uint32_t k = 0; k < c->sim->node_count; k++) look_through(c, order[k], &origins);
  for (uint32_t i = 0; i < c->sim->node_count; i++)
    if (c->into[i] == i) sort_list(c, &c->lists[i]);
  free(c->seen);
  free(order);
  free(origins.first);
  free(origins.list);
}

/* ---- merging of reductions ---- */

/* For each node, the list of the nodes that wait for it, in ascending order. */
struct waiters {
  uint32_t *first; /* [nodes + 1]: index in `list` of the first node that waits for each node */
  uint32_t *list;
};

static struct waiters find_waiters(const struct contraction *c) {
  uint32_t nodes = c->sim->node_count;
  struct waiters w = {.first = tu_allocate((size_t)nodes + 2, sizeof *w.first),
                      .list = tu_allocate(c->cause_count, sizeof *w.list)};
  uint32_t *fill = w.first + 1;
  for (uint32_t i = 0; i < nodes; i++)
    for (uint32_t k = 0; c->into[i] == i && k < c->lists[i].count; k++)
      fill[(c->causes[c->lists[i].first + k] >> 1) + 1]++;
  for (uint32_t i = 0; i < nodes; i++) fill[i + 1] += fill[i];
  for (uint32_t i = 0; i < nodes; i++)
    for (uint32_t k = 0; c->into[i] == i && k < c->lists[i].count; k++)
      w.list[fill[c->causes[c->lists[i].first + k] >> 1]++] = i;
  return w;
}

static bool same_list(const uint32_t *a, uint32_t a_count, const uint32_t *b, uint32_t b_count) {
  return a_count == b_count && (a_count == 0 || memcmp(a, b, a_count * sizeof *a) == 0);
}

static bool only_reductions_wait(const struct contraction *c, const struct waiters *w, uint32_t node) {
  bool only = w->first[node] < w->first[node + 1];
  for (uint32_t i = w->first[node]; i < w->first[node + 1]; i++) only = only && reduces(c, w->list[i]);
  return only;
}

static bool merge(const struct contraction *c, const struct waiters *w, enum tu_sim_merge how, uint32_t a, uint32_t b) {
  const struct list *x = &c->lists[a], *y = &c->lists[b];
  if (!same_list(c->causes + x->first, x->count, c->causes + y->first, y->count)) return false;
  if (same_list(w->list + w->first[a], w->first[a + 1] - w->first[a], w->list + w->first[b],
                w->first[b + 1] - w->first[b]))
    return true;
  return how == TU_SIM_BATCHES && only_reductions_wait(c, w, a) && only_reductions_wait(c, w, b);
}

/* Merges each reduction with the rank's previous one if merge() allows it. Returns how many were merged. */
static uint32_t merge_level(struct contraction *c, enum tu_sim_merge how) {
  struct waiters waiters = find_waiters(c);
  /* [rank]: 1 + node number of the rank's last reduction; 0: none yet */
  uint32_t *last = tu_allocate(c->sim->ranks, sizeof *last), merged = 0;
  for (uint32_t i = 0; i < c->sim->node_count; i++) {
    if (c->into[i] != i || !reduces(c, i)) continue;
    uint32_t *before = &last[c->sim->nodes[i].rank];
    if (*before > 0 && merge(c, &waiters, how, *before - 1, i)) {
      c->into[i] = *before - 1;
      c->weight[*before - 1] += c->weight[i];
      merged++;
    } else {
      *before = i + 1;
    }
  }
  free(last);
  free(waiters.first);
  free(waiters.list);
  return merged;
}

/* Replaces merged reductions in all lists of causes by the reductions into which they were merged. */
static void follow_merged(struct contraction *c) {
  for (uint32_t i = 0; i < c->sim->node_count; i++) {
    if (c->into[i] != i) continue;
    uint32_t *causes = c->causes + c->lists[i].first;
    bool moved = false;
    for (uint32_t k = 0; k < c->lists[i].count; k++) {
      uint32_t node = causes[k] >> 1;
      moved |= c->into[node] != node;
      causes[k] = cause_of(c->into[node], causes[k] & 1);
    }
    if (moved) sort_list(c, &c->lists[i]);
  }
}

/* ---- writing the new graph ---- */

static void add_edge(struct tu_sim *sim, uint32_t from, uint32_t to, bool crosses) {
  sim->edges[sim->edge_count] = (struct tu_sim_edge){to & 0x7fffffffu, crosses, sim->nodes[from].edge};
  sim->nodes[from].edge = sim->edge_count++;
}

static struct tu_sim *write_out(const struct contraction *c) {
  struct tu_sim *sim = tu_allocate(1, sizeof *sim);
  *sim = *c->sim;
  sim->node_count = sim->edge_count = sim->edge_capacity = 0;
  uint32_t *number = tu_allocate(c->sim->node_count, sizeof *number);
  for (uint32_t i = 0; i < c->sim->node_count; i++) {
    if (c->into[i] != i) continue;
    number[i] = sim->node_count++;
    sim->edge_capacity += c->lists[i].count;
  }
  sim->node_capacity = sim->node_count;
  sim->nodes = tu_allocate(sim->node_count, sizeof *sim->nodes);
  sim->edges = tu_allocate(sim->edge_capacity, sizeof *sim->edges);
  for (uint32_t i = 0; i < c->sim->node_count; i++) {
    if (c->into[i] != i) continue;
    struct tu_sim_node *node = &sim->nodes[number[i]];
    /* In the new graph, a message waits for the previous message of its FIFO. If that one has been written, the code
     * below has counted this wait in node->waits already: 1. Otherwise 0. */
    uint32_t ring_waits = node->waits;
    *node = c->sim->nodes[i];
    node->weight = c->weight[i];
    node->waits = c->lists[i].count + ring_waits;
    node->edge = TU_NONE;
    if (node->ring_next != TU_NONE) {
      node->ring_next = number[node->ring_next];
      /* the next message of the FIFO waits for this one; it has a higher node number, so this loop writes it later */
      sim->nodes[node->ring_next].waits++;
    }
  }
  for (uint32_t i = 0; i < c->sim->node_count; i++)
    for (uint32_t k = 0; c->into[i] == i && k < c->lists[i].count; k++) {
      uint32_t cause = c->causes[c->lists[i].first + k];
      add_edge(sim, number[cause >> 1], number[i], cause & 1);
    }
  free(number);
  return sim;
}

struct tu_sim *tu_sim_contract(const struct tu_sim *sim, enum tu_sim_merge merge) {
  tu_assert(sim->node_count <= INT32_MAX);
  struct contraction c = {.sim = sim};
  c.into = tu_allocate(sim->node_count, sizeof *c.into);
  c.weight = tu_allocate(sim->node_count, sizeof *c.weight);
  c.lists = tu_allocate(sim->node_count, sizeof *c.lists);
  for (uint32_t i = 0; i < sim->node_count; i++) c.weight[i] = sim->nodes[i].weight;
  leave_out_timeless(&c);
  while (merge_level(&c, merge) > 0) follow_merged(&c);
  struct tu_sim *result = write_out(&c);
  free(c.into);
  free(c.weight);
  free(c.lists);
  free(c.causes);
  return result;
}

/* ---- extending the graph of one rank to all ranks ---- */

struct tu_sim *tu_sim_spread(const struct tu_sim *alike, uint32_t ranks) {
  tu_assert(alike->ranks == 1 && alike->stands_for == ranks);
  tu_assert((uint64_t)alike->node_count * ranks <= INT32_MAX && (uint64_t)alike->edge_count * ranks < TU_NONE);
  struct tu_sim *sim = tu_allocate(1, sizeof *sim);
  *sim = *alike;
  sim->ranks = ranks;
  sim->stands_for = 1;
  sim->messages = alike->messages * ranks;
  sim->node_count = sim->node_capacity = alike->node_count * ranks;
  sim->edge_count = sim->edge_capacity = alike->edge_count * ranks;
  sim->nodes = tu_allocate(sim->node_count, sizeof *sim->nodes);
  sim->edges = tu_allocate(sim->edge_count, sizeof *sim->edges);
  for (uint32_t rank = 0; rank < ranks; rank++) {
    /* numbers in the new graph of this rank's first node and first edge */
    uint32_t nodes = rank * alike->node_count, edges = rank * alike->edge_count;
    for (uint32_t i = 0; i < alike->node_count; i++) {
      struct tu_sim_node *node = &sim->nodes[nodes + i];
      *node = alike->nodes[i];
      uint32_t receiver = (rank + node->distance) % ranks;
      node->rank = rank;
      if (node->to != TU_NONE) node->to = receiver;
      if (node->ring_next != TU_NONE) node->ring_next += nodes;
      if (node->edge != TU_NONE) node->edge += edges;
      for (uint32_t e = alike->nodes[i].edge; e != TU_NONE; e = alike->edges[e].next) {
        struct tu_sim_edge *edge = &sim->edges[edges + e];
        *edge = alike->edges[e];
        edge->node = (edge->node + (edge->crosses ? receiver : rank) * alike->node_count) & 0x7fffffffu;
        if (edge->next != TU_NONE) edge->next += edges;
      }
    }
  }
  return sim;
}
