/* cells.c: stores the states of chunks (cells) as runs, which are ranges of consecutive cells with the same state; see
 * cells.h. */
#include "plan/cells.h"

#include <string.h>

/* CELLS_FEW: up to this number of cells (chunks), each cell is a run of its own from the start. CELLS_A_RUN: minimum
 * average number of cells in a run; if the average is lower, each cell becomes a run of its own. */
enum { CELLS_FEW = 256, CELLS_A_RUN = 16 };

static void append_run(struct tu_cells *c, uint32_t first) {
  c->runs = tu_arena_grow(c->arena, c->runs, c->run_count, &c->run_capacity, sizeof *c->runs);
  c->runs[c->run_count++] = (struct tu_cell_run){first, TU_CELL_NONE, TU_CELL_NONE, 0};
}

void tu_cells_extend(struct tu_cells *c, uint32_t count) {
  if (c->count == 0 && count <= CELLS_FEW) {
    c->singly = true;
    c->runs = tu_arena_allocate(c->arena, count, sizeof *c->runs);
    c->run_capacity = count;
  }
  while (c->count < count) {
    append_run(c, c->count);
    c->count = c->singly ? c->count + 1 : count;
  }
}

uint32_t tu_cells_bisect(const struct tu_cells *c, uint32_t cell) {
  uint32_t low = 0, high = c->run_count; /* invariant: runs[low].first <= cell < runs[high].first */
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (c->runs[middle].first <= cell) low = middle;
    else high = middle;
  }
  return low;
}

/* Makes each cell a run of its own (a run is a range of cells with the same state). */
static void part_all(struct tu_cells *c) {
  struct tu_cell_run *runs = tu_arena_allocate(c->arena, c->count, sizeof *runs);
  for (uint32_t i = 0, cell = 0; i < c->run_count; i++) {
    uint32_t end = i + 1 < c->run_count ? c->runs[i + 1].first : c->count;
    for (; cell < end; cell++) {
      runs[cell] = c->runs[i];
      runs[cell].first = cell;
    }
  }
  tu_arena_free(c->arena, c->runs);
  c->runs = runs;
  c->run_count = c->run_capacity = c->count;
  c->singly = true;
}

/* Makes a run (range of cells with the same state) begin at the cell, by cutting the run that contains the cell. */
static void cut(struct tu_cells *c, uint32_t cell) {
  if (c->singly || cell >= c->count) return;
  uint32_t at = tu_cells_find(c, cell);
  if (c->runs[at].first == cell) return;
  c->runs = tu_arena_grow(c->arena, c->runs, c->run_count, &c->run_capacity, sizeof *c->runs);
  memmove(c->runs + at + 1, c->runs + at, (c->run_count - at) * sizeof *c->runs);
  c->run_count++;
  c->runs[at + 1].first = cell;
  if (c->run_count > c->count / CELLS_A_RUN) part_all(c);
}

/* Cuts runs (ranges of cells with the same state) at the cells `first` and `end`, so that whole runs cover exactly the
 * cells first .. end - 1. Returns the index of the first of these runs. */
static uint32_t cut_out(struct tu_cells *c, uint32_t first, uint32_t end) {
  tu_assert(first < end && end <= c->count);
  if (c->singly) return first;
  cut(c, first);
  cut(c, end);
  return tu_cells_find(c, first);
}

/* Merges neighbouring runs of cells that have equal states: the runs from number `at` on that begin before cell
 * `end`. */
static void unite(struct tu_cells *c, uint32_t at, uint32_t end) {
  uint32_t last = at, next = at + 1;
  for (; tu_cells_within(c, next, end); next++) {
    const struct tu_cell_run *a = &c->runs[last], *b = &c->runs[next];
    if (a->writer != b->writer || a->reader != b->reader || a->weight != b->weight) c->runs[++last] = *b;
  }
  if (next == ++last) return;
  memmove(c->runs + last, c->runs + next, (c->run_count - next) * sizeof *c->runs);
  c->run_count -= next - last;
}

void tu_cells_read(struct tu_cells *c, uint32_t first, uint32_t end, uint32_t step) {
  for (uint32_t i = cut_out(c, first, end); tu_cells_within(c, i, end); i++) {
    c->readers = tu_arena_grow(c->arena, c->readers, c->reader_count, &c->reader_capacity, sizeof *c->readers);
    c->readers[c->reader_count] = (struct tu_cell_reader){step, c->runs[i].reader};
    c->runs[i].reader = c->reader_count++;
  }
}

void tu_cells_write(struct tu_cells *c, uint32_t first, uint32_t end, uint32_t step) {
  uint32_t at = cut_out(c, first, end);
  for (uint32_t i = at; tu_cells_within(c, i, end); i++) {
    c->runs[i].writer = step;
    c->runs[i].reader = TU_CELL_NONE;
  }
  if (!c->singly) unite(c, at, end);
}

void tu_cells_weigh_runs(struct tu_cells *c, uint32_t first, uint32_t end, uint32_t weight) {
  uint32_t at = cut_out(c, first, end);
  for (uint32_t i = at; tu_cells_within(c, i, end); i++) c->runs[i].weight = weight;
  if (!c->singly) unite(c, at, end);
}
