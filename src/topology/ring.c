/* ring.c: finds a ring, a line or a short tour through all chips. */
#include "topology/ring.h"

#include <stdlib.h>
#include <string.h>

#include "topology/hamilton.h"

/* TOUR_EXACT: maximum number of chips for which the shortest tour is computed. TOUR_IMPROVED: maximum number of chips
 * for which a tour is improved by reversing parts of it (2-opt). */
enum { TOUR_EXACT = 14, TOUR_IMPROVED = 1024 };

void tu_ring_fini(struct tu_ring *ring) {
  free(ring->order);
  *ring = (struct tu_ring){0};
}

/* ---- rings in grids of any size ---- */

/* Returns entry i of a path through the grid, as a grid position. Consecutive entries are neighbours. If `without` is
 * TU_NONE, the path visits all positions. If `without` is a dimension, the path visits only the positions whose
 * coordinate in this dimension is 0. */
static uint32_t snake(const struct tu_grid *grid, uint32_t without, uint32_t i) {
  uint32_t position = 0, stride = 1, turns = 0, at[TU_GRID_DIMS] = {0};
  for (uint32_t d = 0; d < grid->dims; d++) {
    if (d == without) continue;
    at[d] = i % grid->size[d];
    i /= grid->size[d];
  }
  /* Begin with the last dimension, whose coordinate changes slowest along the path. The path goes backwards through a
   * dimension if the combined index of the dimensions after it is odd. */
  for (uint32_t d = grid->dims; d-- > 0;) {
    if (d == without) continue;
    uint32_t here = turns % 2 ? grid->size[d] - 1 - at[d] : at[d];
    turns = turns * grid->size[d] + at[d];
    at[d] = here;
  }
  for (uint32_t d = 0; d < grid->dims; d++) {
    if (d != without) position += at[d] * stride;
    stride *= grid->size[d];
  }
  return position;
}

/* Makes a ring through a grid whose size along `dim` is even. A row is here all positions with the same coordinate
 * along `dim`. snake() gives a path through each row. The ring visits row after row, each along its path except the
 * first position, and alternates between forwards and backwards. At the end the ring returns through the first
 * positions of all rows. */
static void ring_of_even(const struct tu_grid *grid, uint32_t dim, uint32_t chips, uint32_t order[]) {
  uint32_t rows = grid->size[dim], cols = chips / rows, stride = 1, count = 0;
  for (uint32_t d = 0; d < dim; d++) stride *= grid->size[d];
  for (uint32_t row = 0; row < rows; row++)
    for (uint32_t k = 1; k < cols; k++)
      order[count++] = grid->chip[row * stride + snake(grid, dim, row % 2 ? cols - k : k)];
  for (uint32_t row = rows; row-- > 0;) order[count++] = grid->chip[row * stride + snake(grid, dim, 0)];
}

/* Makes a ring through a grid whose sizes are all odd, and whose dimension `dim` wraps. A column is here all positions
 * with the same coordinate along `dim`. The ring goes down one column and up the next, except in the last two. While it
 * returns along the second-to-last column, it visits the last column, two chips at a time. From the last column it goes
 * back to the first one. */
static void ring_of_odd(const struct tu_grid *grid, uint32_t dim, uint32_t chips, uint32_t order[]) {
  uint32_t cols = grid->size[dim], rows = chips / cols, stride = 1, count = 0;
  for (uint32_t d = 0; d < dim; d++) stride *= grid->size[d];
  for (uint32_t col = 0; col + 1 < cols; col++)
    for (uint32_t k = 0; k < rows; k++) {
      uint32_t row = col % 2 ? rows - 1 - k : k;
      if (col + 2 == cols && k > 0 && row % 2 == 1)
        for (uint32_t beside = 2; beside-- > 0;) /* at the last column: first the chip of row + 1, then that of `row` */
          order[count++] = grid->chip[(cols - 1) * stride + snake(grid, dim, row + beside)];
      order[count++] = grid->chip[col * stride + snake(grid, dim, row)];
    }
  order[count++] = grid->chip[(cols - 1) * stride + snake(grid, dim, 0)];
  tu_assert(count == chips);
}

static bool ring_of_grid(const struct tu_grid *grid, uint32_t chips, uint32_t order[]) {
  if (grid->dims == 1) {
    for (uint32_t i = 0; i < chips; i++) order[i] = grid->chip[i];
    return grid->wraps[0];
  }
  for (uint32_t d = 0; d < grid->dims; d++)
    if (grid->size[d] % 2 == 0) {
      ring_of_even(grid, d, chips, order);
      return true;
    }
  for (uint32_t d = 0; d < grid->dims; d++)
    if (grid->wraps[d]) {
      ring_of_odd(grid, d, chips, order);
      return true;
    }
  return false;
}

/* Returns true if a chip has fewer than two neighbours. Then there is no ring of more than two chips. */
static bool has_dead_end(const struct tu_cluster *c) {
  for (uint32_t chip = 0; chip < c->chip_count && c->chip_count > 2; chip++) {
    uint32_t ways = 0;
    for (uint32_t i = 0; i < tu_neighbour_count(c, chip); i++) {
      const struct tu_neighbour *n = &tu_neighbours(c, chip)[i];
      ways += n->usable > 0 && n->node < c->chip_count;
    }
    if (ways < 2) return true;
  }
  return false;
}

/* Tries to colour the chips with two colours so that linked chips have different colours. Returns true if this is
 * possible and one colour is used more often than the other. Then there is no ring, because the colours alternate along
 * a ring. */
static bool colours_forbid(const struct tu_cluster *c) {
  uint32_t n = c->chip_count, count = 0;
  int64_t balance = 0;
  uint32_t *queue = tu_allocate(n, sizeof *queue);
  int8_t *colour = tu_allocate(n, sizeof *colour);
  bool two = true;
  for (uint32_t first = 0; first < n && two; first++) {
    if (colour[first]) continue;
    colour[first] = 1;
    queue[count++] = first;
    for (uint32_t at = count - 1; at < count && two; at++) {
      balance += colour[queue[at]];
      for (uint32_t i = 0; i < tu_neighbour_count(c, queue[at]); i++) {
        const struct tu_neighbour *next = &tu_neighbours(c, queue[at])[i];
        if (next->usable == 0 || next->node >= n) continue;
        if (colour[next->node] == colour[queue[at]]) two = false;
        if (colour[next->node]) continue;
        colour[next->node] = (int8_t)-colour[queue[at]];
        queue[count++] = next->node;
      }
    }
  }
  free(queue);
  free(colour);
  return two && balance != 0;
}

/* ---- small clusters, by search ---- */

static void fill_links(const struct tu_cluster *c, uint64_t linked[]) {
  for (uint32_t a = 0; a < c->chip_count; a++) {
    linked[a] = 0;
    for (uint32_t i = 0; i < tu_neighbour_count(c, a); i++) {
      const struct tu_neighbour *n = &tu_neighbours(c, a)[i];
      if (n->usable > 0 && n->node < c->chip_count) linked[a] |= UINT64_C(1) << n->node;
    }
  }
}

/* Searches for a line of all chips. Adds a vertex that is linked to all chips, and searches for a ring through all
 * vertices. The ring without the added vertex is a line. */
static enum tu_answer search_line(const uint64_t linked[], uint32_t n, uint32_t order[], uint32_t *tries) {
  uint64_t more[TU_HAMILTON_MAX];
  uint32_t found[TU_HAMILTON_MAX], at = 0;
  for (uint32_t v = 0; v < n; v++) more[v] = linked[v] | UINT64_C(1) << n;
  more[n] = (UINT64_C(1) << n) - 1;
  enum tu_answer answer = tu_hamilton(more, n + 1, found, tries);
  if (answer != TU_FOUND) return answer;
  while (found[at] != n) at++;
  for (uint32_t i = 0; i < n; i++) order[i] = found[(at + 1 + i) % (n + 1)];
  return answer;
}

/* ---- tours (orders in which some consecutive chips are not linked) ---- */

/* Reverses the entries i to j of order[]. */
static void turn(uint32_t order[], uint32_t i, uint32_t j) {
  for (; i < j; i++, j--) {
    uint32_t first = order[i];
    order[i] = order[j];
    order[j] = first;
  }
}

struct tour {
  uint32_t count;
  uint32_t *distance; /* [count * count]: number of hops between any two chips */
  uint32_t *order;
};
static uint32_t between(const struct tour *t, uint32_t a, uint32_t b) { return t->distance[a * t->count + b]; }

static uint32_t tour_hops(const struct tour *t) {
  uint32_t hops = 0;
  for (uint32_t i = 0; i < t->count; i++) hops += between(t, t->order[i], t->order[(i + 1) % t->count]);
  return hops;
}

/* Computes the shortest tour (Held and Karp). best[set][k] is the length, in hops, of the shortest path that begins at
 * chip 0, visits all chips of `set`, and ends at chip k + 1. `set` is a bit mask that contains chip k + 1. */
static void shortest_tour(struct tour *t) {
  uint32_t n = t->count - 1;
  uint32_t *best = tu_allocate((size_t)n << n, sizeof *best);
  for (uint32_t set = 1; set < 1u << n; set++)
    for (uint32_t last = 0; last < n; last++) {
      uint32_t *b = &best[(size_t)set * n + last], rest = set & ~(1u << last);
      *b = UINT32_MAX / 2;
      if (!(set >> last & 1)) continue;
      if (!rest) *b = between(t, 0, last + 1);
      for (uint32_t k = 0; k < n; k++)
        if (rest >> k & 1) *b = (uint32_t)tu_min(*b, best[(size_t)rest * n + k] + between(t, k + 1, last + 1));
    }
  /* Reconstruct the tour backwards, from the chip before chip 0: in each round, find the chip before `after`. */
  for (uint32_t set = (1u << n) - 1, position = n, after = 0; set; position--) {
    uint32_t chosen = 0, least = UINT32_MAX;
    for (uint32_t k = 0; k < n; k++) {
      if (!(set >> k & 1)) continue;
      uint32_t hops = best[(size_t)set * n + k] + between(t, k + 1, after);
      if (hops < least) least = hops, chosen = k;
    }
    t->order[position] = after = chosen + 1;
    set &= ~(1u << chosen);
  }
  t->order[0] = 0;
  free(best);
}

/* Makes a short tour: always goes to the nearest remaining chip. Then reverses parts of the tour as long as this makes
 * it shorter. */
static void short_tour(struct tour *t) {
  uint32_t n = t->count;
  for (uint32_t i = 0; i < n; i++) t->order[i] = i;
  for (uint32_t i = 1; i < n; i++) {
    uint32_t nearest = i;
    for (uint32_t k = i + 1; k < n; k++)
      if (between(t, t->order[i - 1], t->order[k]) < between(t, t->order[i - 1], t->order[nearest])) nearest = k;
    uint32_t chip = t->order[nearest];
    memmove(&t->order[i + 1], &t->order[i], (nearest - i) * sizeof *t->order);
    t->order[i] = chip;
  }
  for (bool better = true; better;) {
    better = false;
    for (uint32_t i = 0; i + 2 < n; i++)
      for (uint32_t j = i + 2; j < n && (i > 0 || j + 1 < n); j++) {
        uint32_t a = t->order[i], b = t->order[i + 1], c = t->order[j], d = t->order[(j + 1) % n];
        if (between(t, a, c) + between(t, b, d) >= between(t, a, b) + between(t, c, d)) continue;
        turn(t->order, i + 1, j);
        better = true;
      }
  }
}

static void find_tour(const struct tu_cluster *c, struct tu_ring *ring) {
  uint32_t n = c->chip_count;
  ring->kind = TU_TOUR;
  ring->hops = TU_NONE;
  for (uint32_t i = 0; i < n; i++) ring->order[i] = i;
  if (n > TOUR_IMPROVED) return;
  struct tour t = {.count = n, .order = ring->order};
  uint32_t *distance = tu_allocate(c->node_count, sizeof *distance);
  t.distance = tu_allocate((size_t)n * n, sizeof *t.distance);
  for (uint32_t i = 0; i < n; i++) {
    tu_cluster_distances(c, i, distance);
    memcpy(t.distance + (size_t)i * n, distance, n * sizeof *distance);
  }
  if (n <= TOUR_EXACT) shortest_tour(&t);
  else short_tour(&t);
  ring->hops = tour_hops(&t);
  free(distance);
  free(t.distance);
}

/* ---- the result ---- */

/* Puts the order into a standard form. A ring begins at chip 0, and goes on with the lower of that chip's two
 * neighbours in the ring. A line begins with the lower of its two end chips. */
static void straighten(struct tu_ring *ring, uint32_t n) {
  uint32_t at = 0;
  if (ring->kind == TU_LINE) {
    if (ring->order[0] > ring->order[n - 1]) turn(ring->order, 0, n - 1);
    return;
  }
  while (ring->order[at] != 0) at++;
  uint32_t *turned = tu_allocate(n, sizeof *turned);
  bool back = ring->order[(at + n - 1) % n] < ring->order[(at + 1) % n];
  for (uint32_t i = 0; i < n; i++) turned[i] = ring->order[(back ? at + n - i : at + i) % n];
  free(ring->order);
  ring->order = turned;
}

static void count_links(const struct tu_cluster *c, struct tu_ring *ring) {
  uint32_t n = c->chip_count, hops = ring->kind == TU_RING ? n : n - 1;
  ring->hops = n == 1 ? 0 : hops;
  for (uint32_t i = 0; i < ring->hops; i++) {
    uint32_t usable = tu_cluster_usable(c, ring->order[i], ring->order[(i + 1) % n]);
    tu_assert(usable > 0);
    ring->links = i == 0 ? usable : (uint32_t)tu_min(ring->links, usable);
  }
}

/* Finds a ring; if that fails, a line. Sets ring->kind. Sets ring->proved if it is proved that there is no ring, and,
 * if no line was found either, that there is no line. Returns false if neither was found. */
static bool find_neighbours(const struct tu_cluster *c, const struct tu_grid *grid, struct tu_ring *ring) {
  uint32_t n = c->chip_count, tries = 0;
  ring->proved = has_dead_end(c) || colours_forbid(c);
  if (grid->dims > 0 && (n == 1 || (n > 2 && ring_of_grid(grid, n, ring->order)))) return true;
  uint64_t linked[TU_HAMILTON_MAX];
  enum tu_answer answer = TU_GAVE_UP;
  if (n <= TU_HAMILTON_MAX) {
    fill_links(c, linked);
    answer = tu_hamilton(linked, n, ring->order, &ring->tries);
    if (answer == TU_FOUND) return true;
    ring->proved |= answer == TU_NONE_EXISTS;
  }
  ring->kind = TU_LINE;
  if (grid->dims > 0) {
    for (uint32_t i = 0; i < n; i++) ring->order[i] = grid->chip[snake(grid, TU_NONE, i)];
    return true;
  }
  answer = TU_GAVE_UP;
  if (n < TU_HAMILTON_MAX) answer = search_line(linked, n, ring->order, &tries);
  ring->tries += tries;
  if (answer == TU_GAVE_UP) ring->proved = false;
  return answer == TU_FOUND;
}

void tu_ring_find(const struct tu_cluster *cluster, const struct tu_grid *grid, struct tu_ring *ring) {
  uint32_t n = cluster->chip_count, other;
  *ring = (struct tu_ring){.kind = TU_RING};
  ring->order = tu_allocate(n, sizeof *ring->order);
  if (tu_cluster_parts(cluster, &other) > 1) {
    for (uint32_t i = 0; i < n; i++) ring->order[i] = i;
    ring->kind = TU_APART;
    ring->proved = true;
    ring->hops = TU_NONE;
    return;
  }
  if (find_neighbours(cluster, grid, ring)) {
    if (ring->kind == TU_RING) ring->proved = false;
    straighten(ring, n);
    count_links(cluster, ring);
  } else {
    find_tour(cluster, ring);
  }
}
