/* measure.c: computes the diameter and the bisection width of a cluster. */
#include "topology/measure.h"

#include <stdlib.h>
#include <string.h>

enum { DIAMETER_NODES = 8192, BISECTION_NODES = 40, TRIES = 3000000, STARTS = 64, IMPROVE_STEPS = 1 << 24 };

/* ---- diameter ---- */

static uint32_t farthest(const struct tu_cluster *c, uint32_t from, uint32_t distance[], uint32_t *chip) {
  tu_cluster_distances(c, from, distance);
  uint32_t most = 0;
  *chip = from;
  for (uint32_t i = 0; i < c->chip_count; i++)
    /* the distance of an unreachable node is TU_NONE, which is larger than any other */
    if (distance[i] > most) most = distance[i], *chip = i;
  return most;
}

struct tu_bounds tu_cluster_diameter(const struct tu_cluster *cluster, const struct tu_grid *grid) {
  struct tu_bounds bounds = {0, 0};
  if (tu_grid_is_all(grid, cluster)) {
    for (uint32_t d = 0; d < grid->dims; d++) bounds.low += grid->wraps[d] ? grid->size[d] / 2 : grid->size[d] - 1;
    return (struct tu_bounds){bounds.low, bounds.low};
  }
  uint32_t *distance = tu_allocate(cluster->node_count, sizeof *distance), chip = 0;
  bool all = cluster->node_count <= DIAMETER_NODES;
  for (uint32_t i = 0; i < (all ? cluster->chip_count : 1) && bounds.low != TU_NONE; i++) {
    uint32_t most = farthest(cluster, i, distance, &chip);
    bounds.low = (uint32_t)tu_max(bounds.low, most);
  }
  bounds.high = bounds.low;
  /* Here only the distances from chip 0 are known. The largest one, `low`, is a lower bound. The diameter is at most
   * twice as large, because any two chips are connected by a way over chip 0. The largest distance from the chip
   * farthest from chip 0 may be a better lower bound. */
  if (!all && bounds.low != TU_NONE) {
    bounds.high = 2 * bounds.low;
    bounds.low = (uint32_t)tu_max(bounds.low, farthest(cluster, chip, distance, &chip));
  }
  free(distance);
  return bounds;
}

/* ---- bisection ---- */

/* Computes the bisection width of a grid in which all neighbours have the same number of links. Returns false if only
 * some dimensions wrap. The cut divides the largest dimension into two halves. If its size is odd, this leaves a middle
 * layer of chips, which is divided along the next smaller dimension. This is repeated up to the first dimension of even
 * size. *cut is the sum of the links that are cut. In a torus each cut counts twice, because the dimension is a ring.
 * (Efe and Feng, A proof for bisection width of grids, 2007; Aroca and Fernandez Anta, 2014.) */
static bool grid_bisection(const struct tu_grid *grid, uint32_t links, uint32_t *cut) {
  uint32_t size[TU_GRID_DIMS], wraps = 0, all = 1, sum = 0;
  for (uint32_t d = 0; d < grid->dims; d++) {
    uint32_t at = d;
    for (; at > 0 && size[at - 1] < grid->size[d]; at--) size[at] = size[at - 1];
    size[at] = grid->size[d];
    wraps += grid->wraps[d];
    all *= grid->size[d];
  }
  if (wraps > 0 && wraps < grid->dims) return false;
  for (uint32_t d = 0; d < grid->dims; d++) {
    all /= size[d];
    sum += all;
    if (size[d] % 2 == 0) break;
  }
  *cut = sum * links * (wraps ? 2 : 1);
  return true;
}

/* The state of a search that divides the chips into two halves: nodes are put on a side one by one, or are moved to the
 * other side. */
struct halves {
  const struct tu_cluster *cluster;
  uint8_t *side;         /* side of each node: 0 or 1; 2: not assigned yet */
  uint32_t (*weight)[2]; /* for each node: number of links to nodes on side 0 and on side 1 */
  uint32_t chips[2];
  uint32_t cut;
};

static void open_halves(struct halves *h, const struct tu_cluster *c) {
  *h = (struct halves){.cluster = c};
  h->side = tu_allocate(c->node_count, 1);
  memset(h->side, 2, c->node_count);
  h->weight = tu_allocate(c->node_count, sizeof *h->weight);
}

static void close_halves(struct halves *h) {
  free(h->side);
  free(h->weight);
}

static void put(struct halves *h, uint32_t node, uint8_t side) {
  h->side[node] = side;
  h->cut += h->weight[node][1 - side];
  if (node < h->cluster->chip_count) h->chips[side]++;
  for (uint32_t i = 0; i < tu_neighbour_count(h->cluster, node); i++) {
    const struct tu_neighbour *n = &tu_neighbours(h->cluster, node)[i];
    h->weight[n->node][side] += n->usable;
  }
}

static void take(struct halves *h, uint32_t node) {
  uint8_t side = h->side[node];
  h->side[node] = 2;
  h->cut -= h->weight[node][1 - side];
  if (node < h->cluster->chip_count) h->chips[side]--;
  for (uint32_t i = 0; i < tu_neighbour_count(h->cluster, node); i++) {
    const struct tu_neighbour *n = &tu_neighbours(h->cluster, node)[i];
    h->weight[n->node][side] -= n->usable;
  }
}

/* Orders all nodes by a breadth-first search from node `first`. */
static void order_from(const struct tu_cluster *c, uint32_t first, uint32_t order[]) {
  bool *seen = tu_allocate(c->node_count, sizeof *seen);
  for (uint32_t i = 0, count = 0, at = 0; i < c->node_count; i++) {
    uint32_t node = (first + i) % c->node_count;
    if (!seen[node]) seen[node] = true, order[count++] = node;
    for (; at < count; at++)
      for (uint32_t k = 0; k < tu_neighbour_count(c, order[at]); k++) {
        const struct tu_neighbour *n = &tu_neighbours(c, order[at])[k];
        if (n->usable > 0 && !seen[n->node]) seen[n->node] = true, order[count++] = n->node;
      }
  }
  free(seen);
}

/* Returns by how much the number of cut links shrinks if the node changes sides; negative: the number grows. */
static int64_t gain(const struct halves *h, uint32_t node) {
  return (int64_t)h->weight[node][1 - h->side[node]] - h->weight[node][h->side[node]];
}

static void move(struct halves *h, uint32_t node) {
  uint8_t side = h->side[node];
  take(h, node);
  put(h, node, 1 - side);
}

/* Divides the chips into two halves. Begins with the nodes in the order of order[]: puts them on side 0 until it has
 * half of the chips, and the rest on side 1. Then reduces the number of cut links, until that fails or a limit of steps
 * is reached: it swaps two chips of different sides, or moves a node that is not a chip. Returns the number of cut
 * links. */
static uint32_t improve(const struct tu_cluster *c, const uint32_t order[]) {
  struct halves h;
  open_halves(&h, c);
  for (uint32_t i = 0, chips = 0; i < c->node_count; i++) {
    put(&h, order[i], chips >= c->chip_count / 2);
    chips += order[i] < c->chip_count;
  }
  uint32_t rounds = IMPROVE_STEPS / c->node_count + 1;
  for (uint32_t before = UINT32_MAX; h.cut < before && rounds > 0; rounds--) {
    before = h.cut;
    for (uint32_t n = c->chip_count; n < c->node_count; n++)
      if (gain(&h, n) > 0) move(&h, n);
    uint32_t best[2] = {TU_NONE, TU_NONE}; /* for each side, the chip whose move removes the most links from the cut */
    for (uint32_t i = 0; i < c->chip_count; i++) {
      uint32_t *b = &best[h.side[i]];
      if (*b == TU_NONE || gain(&h, i) > gain(&h, *b)) *b = i;
    }
    if (best[0] == TU_NONE || best[1] == TU_NONE) break;
    uint32_t cut = h.cut;
    move(&h, best[0]);
    move(&h, best[1]);
    if (h.cut < cut) continue;
    move(&h, best[0]);
    move(&h, best[1]);
  }
  uint32_t cut = h.cut;
  close_halves(&h);
  return cut;
}

/* Some nodes have been assigned to a side; order[from] and the following nodes have not. Returns a lower bound of the
 * number of cut links, however those are assigned. It counts the links that are cut already. For each node without a
 * side, it adds the number of its links to side 0 or of those to side 1, whichever is smaller. */
static uint32_t bound(const struct halves *h, const uint32_t order[], uint32_t from) {
  uint32_t cut = h->cut;
  for (uint32_t i = from; i < h->cluster->node_count; i++)
    cut += (uint32_t)tu_min(h->weight[order[i]][0], h->weight[order[i]][1]);
  return cut;
}

/* Finds the bisection width (smallest number of cut links) by trying both sides for each node (branch and bound). On
 * entry, *best is the number of a known division; on return, the smallest number. Returns false if the search takes too
 * many steps; *best may then be too large. */
static bool exact_bisection(const struct tu_cluster *c, const uint32_t order[], uint32_t *best) {
  struct halves h;
  open_halves(&h, c);
  uint32_t depth = 0, tries = 0, most = (c->chip_count + 1) / 2, n = c->node_count;
  /* [depth]: number of sides on which node order[depth] has been tried (0 to 2). The side that cuts fewer links is
   * tried first. */
  uint8_t tried[BISECTION_NODES + 1] = {0};
  bool first_side[BISECTION_NODES + 1];
  while (tries < TRIES) {
    uint32_t node = depth < n ? order[depth] : 0;
    if (depth == n) *best = (uint32_t)tu_min(*best, h.cut);
    if (depth < n && tried[depth] == 0) first_side[depth] = h.weight[node][1] > h.weight[node][0];
    bool put_down = false;
    while (depth < n && !put_down && tried[depth] < (depth == 0 ? 1 : 2)) {
      uint8_t side = (uint8_t)(first_side[depth] ^ (tried[depth]++ == 1));
      if (node < c->chip_count && h.chips[side] == most) continue;
      tries++;
      put(&h, node, side);
      put_down = bound(&h, order, depth + 1) < *best;
      if (!put_down) take(&h, node);
    }
    if (put_down) {
      tried[++depth] = 0;
      continue;
    }
    if (depth == 0) break;
    take(&h, order[--depth]);
  }
  close_halves(&h);
  return tries < TRIES;
}

struct tu_bounds tu_cluster_bisection(const struct tu_cluster *cluster, const struct tu_grid *grid) {
  uint32_t links = tu_grid_is_all(grid, cluster), cut, other;
  if (cluster->chip_count < 2) return (struct tu_bounds){0, 0};
  if (links && grid_bisection(grid, links, &cut)) return (struct tu_bounds){cut, cut};
  uint32_t *order = tu_allocate(cluster->node_count, sizeof *order), best = TU_NONE;
  uint32_t stride = cluster->node_count / STARTS + 1;
  for (uint32_t start = 0; start < cluster->node_count; start += stride) {
    order_from(cluster, start, order);
    best = (uint32_t)tu_min(best, improve(cluster, order));
  }
  bool exact = best == 0;
  if (!exact && cluster->node_count <= BISECTION_NODES) {
    order_from(cluster, 0, order);
    exact = exact_bisection(cluster, order, &best);
  }
  free(order);
  uint32_t low = tu_cluster_parts(cluster, &other) > 1 ? 0 : 1;
  return (struct tu_bounds){exact ? best : low, best};
}
