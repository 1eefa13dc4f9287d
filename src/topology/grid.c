/* grid.c: finds places for chips. */
#include "topology/grid.h"

#include <stdlib.h>
#include <string.h>

/* Chips tried at places before a shape is given up. */
enum { TRIES_MAX = 100000, SHAPES_MAX = 256 };

void tu_grid_fini(struct tu_grid *grid) {
  free(grid->chip);
  free(grid->place);
  *grid = (struct tu_grid){0};
}

static uint32_t stride_of(const struct tu_grid *grid, uint32_t dim) {
  uint32_t stride = 1;
  for (uint32_t d = 0; d < dim; d++) stride *= grid->size[d];
  return stride;
}

static uint32_t places_of(const struct tu_grid *grid) { return stride_of(grid, grid->dims); }

uint32_t tu_grid_step(const struct tu_grid *grid, uint32_t place, uint32_t dim, bool back) {
  uint32_t stride = stride_of(grid, dim), size = grid->size[dim], at = place / stride % size;
  if (back) return at > 0 ? place - stride : grid->wraps[dim] ? place + (size - 1) * stride : TU_NONE;
  return at + 1 < size ? place + stride : grid->wraps[dim] ? place - (size - 1) * stride : TU_NONE;
}

uint32_t tu_grid_line_count(const struct tu_grid *grid, uint32_t dim) { return places_of(grid) / grid->size[dim]; }

void tu_grid_line(const struct tu_grid *grid, uint32_t dim, uint32_t index, uint32_t chips[]) {
  uint32_t stride = stride_of(grid, dim), first = index / stride * stride * grid->size[dim] + index % stride;
  for (uint32_t i = 0; i < grid->size[dim]; i++) chips[i] = grid->chip[first + i * stride];
}

static bool linked(const struct tu_cluster *c, uint32_t a, uint32_t b) { return tu_cluster_usable(c, a, b) > 0; }

/* Are all neighbours linked? Finds out which dimensions wrap. */
static bool check(struct tu_grid *grid, const struct tu_cluster *c) {
  uint32_t places = places_of(grid);
  for (uint32_t d = 0; d < grid->dims; d++) {
    uint32_t stride = stride_of(grid, d), size = grid->size[d];
    grid->wraps[d] = size > 2;
    for (uint32_t p = 0; p < places; p++) {
      uint32_t at = p / stride % size;
      if (at + 1 < size) {
        if (!linked(c, grid->chip[p], grid->chip[p + stride])) return false;
      } else if (size > 2 && !linked(c, grid->chip[p], grid->chip[p - at * stride])) grid->wraps[d] = false;
    }
  }
  return true;
}

static void allocate(struct tu_grid *grid, uint32_t chips) {
  grid->chip = tu_allocate(chips, sizeof *grid->chip);
  grid->place = tu_allocate(chips, sizeof *grid->place);
  memset(grid->chip, 0xff, chips * sizeof *grid->chip);
}

static void invert(struct tu_grid *grid, uint32_t chips) {
  for (uint32_t p = 0; p < chips; p++) grid->place[grid->chip[p]] = p;
}

/* ---- by the chips' own places ---- */

static bool find_by_places(const struct tu_cluster *c, struct tu_grid *grid) {
  uint32_t low[TU_PLACE_DIMS], high[TU_PLACE_DIMS] = {0}, dim_of[TU_PLACE_DIMS];
  size_t places = 1;
  memset(low, 0xff, sizeof low);
  for (uint32_t i = 0; i < c->chip_count; i++) {
    if (!c->nodes[i].has_place) return false;
    for (uint32_t d = 0; d < TU_PLACE_DIMS; d++) {
      low[d] = (uint32_t)tu_min(low[d], c->nodes[i].place[d]);
      high[d] = (uint32_t)tu_max(high[d], c->nodes[i].place[d]);
    }
  }
  *grid = (struct tu_grid){0};
  for (uint32_t d = 0; d < TU_PLACE_DIMS; d++) {
    if (high[d] == low[d]) continue;
    dim_of[grid->dims] = d;
    grid->size[grid->dims++] = high[d] - low[d] + 1;
    if (!tu_multiply(places, (size_t)(high[d] - low[d]) + 1, &places)) return false;
  }
  if (places != c->chip_count) return false;
  if (grid->dims == 0) grid->size[grid->dims] = 1, dim_of[grid->dims++] = 0;
  allocate(grid, c->chip_count);
  for (uint32_t i = 0; i < c->chip_count; i++) {
    uint32_t place = 0;
    for (uint32_t d = grid->dims; d-- > 0;)
      place = place * grid->size[d] + c->nodes[i].place[dim_of[d]] - low[dim_of[d]];
    if (grid->chip[place] != TU_NONE) return false;
    grid->chip[place] = i;
  }
  invert(grid, c->chip_count);
  return check(grid, c);
}

/* ---- lines and rings ---- */

/* Usable pairs of a chip with other chips. */
static uint32_t degree(const struct tu_cluster *c, uint32_t chip) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < tu_neighbour_count(c, chip); i++) {
    const struct tu_neighbour *n = &tu_neighbours(c, chip)[i];
    count += n->usable > 0 && n->node < c->chip_count;
  }
  return count;
}

/* Chips with two neighbours at most, one after the other. */
static bool find_line(const struct tu_cluster *c, struct tu_grid *grid) {
  uint32_t at = 0, last = TU_NONE, count = 0;
  for (uint32_t i = c->chip_count; i-- > 0;) {
    uint32_t neighbours = degree(c, i);
    if (neighbours > 2) return false;
    if (neighbours < 2) at = i; /* an end; a ring has none */
  }
  *grid = (struct tu_grid){.dims = 1, .size = {c->chip_count}};
  allocate(grid, c->chip_count);
  for (; at != TU_NONE && count < c->chip_count; count++) {
    uint32_t next = TU_NONE;
    grid->chip[count] = at;
    for (uint32_t i = tu_neighbour_count(c, at); i-- > 0;) {
      const struct tu_neighbour *n = &tu_neighbours(c, at)[i];
      if (n->usable > 0 && n->node < c->chip_count && n->node != last && n->node != grid->chip[0]) next = n->node;
    }
    last = at;
    at = next;
  }
  if (count < c->chip_count) return false;
  invert(grid, c->chip_count);
  return check(grid, c);
}

/* ---- rows and columns, by search ---- */

struct shape {
  uint32_t rows, cols;
  bool wraps_rows, wraps_cols; /* along rows, along columns */
  uint32_t pairs;
};

static uint32_t shape_pairs(struct shape s) {
  return s.rows * (s.cols - !s.wraps_rows) + s.cols * (s.rows - !s.wraps_cols);
}

static int compare_shapes(const void *left, const void *right) {
  const struct shape *a = left, *b = right;
  if (a->pairs != b->pairs) return a->pairs > b->pairs ? -1 : 1;
  return a->rows > b->rows ? -1 : a->rows < b->rows;
}

struct search {
  const struct tu_cluster *cluster;
  struct tu_grid *grid;
  bool exact;       /* all pairs belong to the grid: a chip has as many as its place */
  uint32_t *cells;  /* places in the order in which they are filled */
  uint32_t *at;     /* of each: how many candidates have been tried */
  uint32_t *degree; /* of each chip */
};

/* A place's neighbours that are there; up to 4. */
static uint32_t around(const struct tu_grid *grid, uint32_t place, uint32_t places[4]) {
  uint32_t count = 0;
  for (uint32_t d = 0; d < grid->dims; d++)
    for (int back = 0; back < 2; back++) {
      uint32_t next = tu_grid_step(grid, place, d, back);
      if (next != TU_NONE) places[count++] = next;
    }
  return count;
}

/* The next chip for a place, after `tried` candidates: one that is linked to all that lie beside it. TU_NONE: no more. */
static uint32_t next_chip(const struct search *s, uint32_t place, uint32_t *tried) {
  uint32_t beside[4], count = around(s->grid, place, beside), filled = 0;
  for (uint32_t i = 0; i < count; i++)
    if (s->grid->chip[beside[i]] != TU_NONE) beside[filled++] = s->grid->chip[beside[i]];
  const struct tu_cluster *c = s->cluster;
  uint32_t candidates = filled ? tu_neighbour_count(c, beside[0]) : c->chip_count;
  while (*tried < candidates) {
    uint32_t i = (*tried)++, chip = filled ? tu_neighbours(c, beside[0])[i].node : i;
    if (chip >= c->chip_count || s->grid->place[chip] != TU_NONE) continue;
    if (s->exact ? s->degree[chip] != count : s->degree[chip] < count) continue;
    bool fits = true;
    for (uint32_t b = 0; b < filled && fits; b++) fits = linked(c, beside[b], chip);
    if (fits) return chip;
  }
  return TU_NONE;
}

static bool search(const struct search *s) {
  uint32_t chips = s->cluster->chip_count, depth = 0;
  s->at[0] = 0;
  for (uint32_t tries = 0; depth < chips && tries < TRIES_MAX; tries++) {
    uint32_t place = s->cells[depth], chip = next_chip(s, place, &s->at[depth]);
    if (chip == TU_NONE) {
      if (depth == 0) return false;
      uint32_t last = s->cells[--depth];
      s->grid->place[s->grid->chip[last]] = TU_NONE;
      s->grid->chip[last] = TU_NONE;
      continue;
    }
    s->grid->chip[place] = chip;
    s->grid->place[chip] = place;
    if (++depth < chips) s->at[depth] = 0;
  }
  return depth == chips;
}

/* Squares from a corner on, each larger by one: so that most places have two neighbours when they are filled. */
static void order_cells(const struct shape *shape, uint32_t cells[]) {
  uint32_t count = 0, most = (uint32_t)tu_max(shape->rows, shape->cols);
  for (uint32_t shell = 0; shell < most; shell++)
    for (uint32_t i = 0; i < 2 * shell + 1; i++) {
      uint32_t row = i < shell ? i : shell, col = i < shell ? shell : i - shell;
      if (row < shape->rows && col < shape->cols) cells[count++] = row * shape->cols + col;
    }
}

static bool find_shape(const struct tu_cluster *c, const struct shape *shape, uint32_t pairs, struct tu_grid *grid) {
  uint32_t chips = c->chip_count;
  *grid = (struct tu_grid){.dims = 2, .size = {shape->cols, shape->rows}};
  grid->wraps[0] = shape->wraps_rows;
  grid->wraps[1] = shape->wraps_cols;
  allocate(grid, chips);
  memset(grid->place, 0xff, chips * sizeof *grid->place);
  struct search s = {.cluster = c, .grid = grid, .exact = pairs == shape->pairs};
  s.cells = tu_allocate(chips, sizeof *s.cells);
  s.at = tu_allocate(chips, sizeof *s.at);
  s.degree = tu_allocate(chips, sizeof *s.degree);
  for (uint32_t i = 0; i < chips; i++) s.degree[i] = degree(c, i);
  order_cells(shape, s.cells);
  bool found = search(&s);
  free(s.cells);
  free(s.at);
  free(s.degree);
  return found;
}

static bool find_by_search(const struct tu_cluster *c, struct tu_grid *grid) {
  uint32_t pairs = 0, count = 0;
  struct shape shapes[SHAPES_MAX];
  for (uint32_t i = 0; i < c->chip_count; i++) pairs += degree(c, i);
  pairs /= 2;
  for (uint32_t rows = 2; rows * rows <= c->chip_count; rows++) {
    for (int wraps = 0; wraps < 4 && c->chip_count % rows == 0 && count < SHAPES_MAX; wraps++) {
      struct shape shape = {rows, c->chip_count / rows, wraps & 1, wraps >> 1, 0};
      shape.pairs = shape_pairs(shape);
      bool can = !(shape.wraps_cols && rows < 3) && !(shape.wraps_rows && shape.cols < 3);
      if (can && shape.pairs <= pairs) shapes[count++] = shape;
    }
  }
  qsort(shapes, count, sizeof *shapes, compare_shapes);
  for (uint32_t i = 0; i < count; i++) {
    if (find_shape(c, &shapes[i], pairs, grid)) return true;
    tu_grid_fini(grid);
  }
  return false;
}

void tu_grid_find(const struct tu_cluster *cluster, struct tu_grid *grid) {
  *grid = (struct tu_grid){0};
  if (find_by_places(cluster, grid)) return;
  tu_grid_fini(grid);
  if (find_line(cluster, grid)) return;
  tu_grid_fini(grid);
  if (cluster->chip_count <= TU_GRID_SEARCH_MAX && find_by_search(cluster, grid)) return;
  tu_grid_fini(grid);
}

/* One step apart along one dimension, also round its end if it wraps. */
static bool are_neighbours(const struct tu_grid *grid, uint32_t a, uint32_t b) {
  uint32_t steps = 0;
  for (uint32_t d = 0; d < grid->dims; d++) {
    uint32_t size = grid->size[d], from = a % size, to = b % size;
    uint32_t apart = from > to ? from - to : to - from;
    if (grid->wraps[d]) apart = (uint32_t)tu_min(apart, size - apart);
    steps += apart;
    a /= size;
    b /= size;
  }
  return steps == 1;
}

uint32_t tu_grid_beyond(const struct tu_grid *grid, const struct tu_cluster *cluster, uint32_t pairs[][2],
                        uint32_t max) {
  uint32_t count = 0;
  for (uint32_t chip = 0; chip < cluster->chip_count && grid->dims > 0; chip++)
    for (uint32_t i = 0; i < tu_neighbour_count(cluster, chip); i++) {
      const struct tu_neighbour *other = &tu_neighbours(cluster, chip)[i];
      if (other->usable == 0 || other->node < chip || other->node >= cluster->chip_count) continue;
      if (are_neighbours(grid, grid->place[chip], grid->place[other->node])) continue;
      if (count < max) pairs[count][0] = chip, pairs[count][1] = other->node;
      count++;
    }
  return count;
}

uint32_t tu_grid_is_all(const struct tu_grid *grid, const struct tu_cluster *cluster) {
  if (grid->dims == 0) return 0;
  uint32_t pairs = 0, usable = 0, links = TU_NONE;
  for (uint32_t d = 0; d < grid->dims; d++)
    for (uint32_t i = 0; i < tu_grid_line_count(grid, d); i++) pairs += grid->size[d] - !grid->wraps[d];
  for (uint32_t n = 0; n < cluster->node_count; n++)
    for (uint32_t i = 0; i < tu_neighbour_count(cluster, n); i++) {
      const struct tu_neighbour *other = &tu_neighbours(cluster, n)[i];
      if (other->usable == 0 || other->node < n) continue;
      if (other->node >= cluster->chip_count) return 0;
      usable++;
      if (links != TU_NONE && links != other->usable) return 0;
      links = other->usable;
    }
  return usable == pairs && usable > 0 ? links : 0;
}
