/* grid.c: finds a grid in a cluster, and the position of each chip in the grid. */
#include "topology/grid.h"

#include <stdlib.h>
#include <string.h>

/* TRIES_MAX: number of search steps after which the search for one shape (rows x columns) gives up; SHAPES_MAX: maximum
 * number of shapes to try. */
enum { TRIES_MAX = 100000, SHAPES_MAX = 256 };

void tu_grid_fini(struct tu_grid *grid) {
  free(grid->chip);
  free(grid->position);
  *grid = (struct tu_grid){0};
}

static uint32_t stride_of(const struct tu_grid *grid, uint32_t dim) {
  uint32_t stride = 1;
  for (uint32_t d = 0; d < dim; d++) stride *= grid->size[d];
  return stride;
}

static uint32_t positions_of(const struct tu_grid *grid) { return stride_of(grid, grid->dims); }

uint32_t tu_grid_step(const struct tu_grid *grid, uint32_t position, uint32_t dim, bool back) {
  uint32_t stride = stride_of(grid, dim), size = grid->size[dim], at = position / stride % size;
  if (back) return at > 0 ? position - stride : grid->wraps[dim] ? position + (size - 1) * stride : TU_NONE;
  return at + 1 < size ? position + stride : grid->wraps[dim] ? position - (size - 1) * stride : TU_NONE;
}

uint32_t tu_grid_line_count(const struct tu_grid *grid, uint32_t dim) { return positions_of(grid) / grid->size[dim]; }

void tu_grid_line(const struct tu_grid *grid, uint32_t dim, uint32_t index, uint32_t chips[]) {
  uint32_t stride = stride_of(grid, dim), first = index / stride * stride * grid->size[dim] + index % stride;
  for (uint32_t i = 0; i < grid->size[dim]; i++) chips[i] = grid->chip[first + i * stride];
}

static bool linked(const struct tu_cluster *c, uint32_t a, uint32_t b) { return tu_cluster_usable(c, a, b) > 0; }

/* Returns true if all chips at neighbouring positions of the grid are linked. Sets grid->wraps: in which dimensions the
 * last chips are linked to the first ones. */
static bool check(struct tu_grid *grid, const struct tu_cluster *c) {
  uint32_t positions = positions_of(grid);
  for (uint32_t d = 0; d < grid->dims; d++) {
    uint32_t stride = stride_of(grid, d), size = grid->size[d];
    grid->wraps[d] = size > 2;
    for (uint32_t p = 0; p < positions; p++) {
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
  grid->position = tu_allocate(chips, sizeof *grid->position);
  memset(grid->chip, 0xff, chips * sizeof *grid->chip);
}

static void invert(struct tu_grid *grid, uint32_t chips) {
  for (uint32_t p = 0; p < chips; p++) grid->position[grid->chip[p]] = p;
}

/* ---- by the chips' coordinates in the file ---- */

static bool find_by_coords(const struct tu_cluster *c, struct tu_grid *grid) {
  uint32_t low[TU_GRID_DIMS], high[TU_GRID_DIMS] = {0}, dim_of[TU_GRID_DIMS];
  size_t positions = 1;
  memset(low, 0xff, sizeof low);
  for (uint32_t i = 0; i < c->chip_count; i++) {
    if (!c->nodes[i].has_coords) return false;
    for (uint32_t d = 0; d < TU_GRID_DIMS; d++) {
      low[d] = (uint32_t)tu_min(low[d], c->nodes[i].coords[d]);
      high[d] = (uint32_t)tu_max(high[d], c->nodes[i].coords[d]);
    }
  }
  *grid = (struct tu_grid){0};
  for (uint32_t d = 0; d < TU_GRID_DIMS; d++) {
    if (high[d] == low[d]) continue;
    dim_of[grid->dims] = d;
    grid->size[grid->dims++] = high[d] - low[d] + 1;
    if (!tu_multiply(positions, (size_t)(high[d] - low[d]) + 1, &positions)) return false;
  }
  if (positions != c->chip_count) return false;
  if (grid->dims == 0) grid->size[grid->dims] = 1, dim_of[grid->dims++] = 0;
  allocate(grid, c->chip_count);
  for (uint32_t i = 0; i < c->chip_count; i++) {
    uint32_t position = 0;
    for (uint32_t d = grid->dims; d-- > 0;)
      position = position * grid->size[d] + c->nodes[i].coords[dim_of[d]] - low[dim_of[d]];
    if (grid->chip[position] != TU_NONE) return false;
    grid->chip[position] = i;
  }
  invert(grid, c->chip_count);
  return check(grid, c);
}

/* ---- lines and rings ---- */

/* Returns the number of other chips to which a chip has usable links. */
static uint32_t degree(const struct tu_cluster *c, uint32_t chip) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < tu_neighbour_count(c, chip); i++) {
    const struct tu_neighbour *n = &tu_neighbours(c, chip)[i];
    count += n->usable > 0 && n->node < c->chip_count;
  }
  return count;
}

/* Finds a line or a ring of all chips. Returns false if a chip has more than two neighbours, or the chips are not
 * connected. */
static bool find_line(const struct tu_cluster *c, struct tu_grid *grid) {
  uint32_t at = 0, last = TU_NONE, count = 0;
  for (uint32_t i = c->chip_count; i-- > 0;) {
    uint32_t neighbours = degree(c, i);
    if (neighbours > 2) return false;
    if (neighbours < 2) at = i; /* the chip is an end of a line; a ring has no end */
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

/* ---- search for rows and columns ---- */

struct shape {
  uint32_t rows, cols;
  bool wraps_rows, wraps_cols; /* wraps_rows: the rows are rings; wraps_cols: the columns are rings */
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
  /* true: the cluster has no links except between neighbours in the grid, so a chip must have exactly as many
   * neighbours as its position has. false: a chip may have more. */
  bool exact;
  uint32_t *cells;  /* grid positions in the order in which the search fills them */
  uint32_t *at;     /* [depth]: number of chips that have been tried so far at position cells[depth] */
  uint32_t *degree; /* number of neighbours of each chip */
};

/* Writes the positions next to a grid position (at most 4) and returns their number. */
static uint32_t around(const struct tu_grid *grid, uint32_t position, uint32_t positions[4]) {
  uint32_t count = 0;
  for (uint32_t d = 0; d < grid->dims; d++)
    for (int back = 0; back < 2; back++) {
      uint32_t next = tu_grid_step(grid, position, d, back);
      if (next != TU_NONE) positions[count++] = next;
    }
  return count;
}

/* Returns the next chip to try at a grid position. The chip must be linked to all chips that are already at
 * neighbouring positions. *tried: number of chips already considered for this position; they are skipped. TU_NONE:
 * there is no further chip. */
static uint32_t next_chip(const struct search *s, uint32_t position, uint32_t *tried) {
  uint32_t beside[4], count = around(s->grid, position, beside), filled = 0;
  for (uint32_t i = 0; i < count; i++)
    if (s->grid->chip[beside[i]] != TU_NONE) beside[filled++] = s->grid->chip[beside[i]];
  const struct tu_cluster *c = s->cluster;
  uint32_t candidates = filled ? tu_neighbour_count(c, beside[0]) : c->chip_count;
  while (*tried < candidates) {
    uint32_t i = (*tried)++, chip = filled ? tu_neighbours(c, beside[0])[i].node : i;
    if (chip >= c->chip_count || s->grid->position[chip] != TU_NONE) continue;
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
    uint32_t position = s->cells[depth], chip = next_chip(s, position, &s->at[depth]);
    if (chip == TU_NONE) {
      if (depth == 0) return false;
      uint32_t last = s->cells[--depth];
      s->grid->position[s->grid->chip[last]] = TU_NONE;
      s->grid->chip[last] = TU_NONE;
      continue;
    }
    s->grid->chip[position] = chip;
    s->grid->position[chip] = position;
    if (++depth < chips) s->at[depth] = 0;
  }
  return depth == chips;
}

/* Lists the grid positions in the order in which the search fills them: as a square that grows from one corner. With
 * this order, most positions have two filled neighbours when they are filled, which leaves few chips to try. */
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
  memset(grid->position, 0xff, chips * sizeof *grid->position);
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
  if (find_by_coords(cluster, grid)) return;
  tu_grid_fini(grid);
  if (find_line(cluster, grid)) return;
  tu_grid_fini(grid);
  if (cluster->chip_count <= TU_GRID_SEARCH_MAX && find_by_search(cluster, grid)) return;
  tu_grid_fini(grid);
}

/* Returns true if two positions are one step apart in one dimension. If the dimension wraps, the step from the last
 * position to the first counts, too. */
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
      if (are_neighbours(grid, grid->position[chip], grid->position[other->node])) continue;
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
