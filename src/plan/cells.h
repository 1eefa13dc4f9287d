/* cells.h: what a rank's chunks hold, and who wrote and read each last, while a plan is built.
 *
 * Cells stand in a row (tu_plan_cell). Those of which the same is to be said are one run, so a rank whose steps move long spans
 * costs no more than one whose steps move short ones: a run is found by bisection. Once runs have become many for so many
 * cells, each cell is a run of its own, and found by its number. */
#ifndef TU_CELLS_H
#define TU_CELLS_H

#include "base/arena.h"

#define TU_CELL_NONE UINT32_MAX

struct tu_cell_run {
  uint32_t first;  /* cell; the run ends where the next one begins */
  uint32_t writer; /* step, or TU_CELL_NONE */
  uint32_t reader; /* head of the list of readers since, or TU_CELL_NONE */
  uint32_t weight; /* what the builder wants to know of them */
};

struct tu_cell_reader {
  uint32_t step;
  uint32_t next; /* or TU_CELL_NONE. Runs that were one share what follows */
};

struct tu_cells {
  struct tu_arena *arena; /* the caller's: all that cells need comes from it */
  struct tu_cell_run *runs;
  uint32_t run_count, run_capacity;
  uint32_t count; /* cells */
  bool singly;    /* a run a cell, from now on */
  struct tu_cell_reader *readers;
  uint32_t reader_count, reader_capacity;
};

/* Zero-initialise but for the arena. Adds blank cells up to `count`: of no writer, no reader, weight 0. */
void tu_cells_extend(struct tu_cells *c, uint32_t count);

/* The index of the run that the cell lies in. The runs of the cells first .. end - 1 are those from there on that begin
 * before `end`. */
uint32_t tu_cells_bisect(const struct tu_cells *c, uint32_t cell);
static inline uint32_t tu_cells_find(const struct tu_cells *c, uint32_t cell) {
  return c->singly ? cell : tu_cells_bisect(c, cell);
}
static inline bool tu_cells_within(const struct tu_cells *c, uint32_t run, uint32_t end) {
  return run < c->run_count && c->runs[run].first < end;
}

/* Of the cells first .. end - 1: a step has read them; one has written them, so earlier readers no longer matter; they
 * hold that. */
void tu_cells_read(struct tu_cells *c, uint32_t first, uint32_t end, uint32_t step);
void tu_cells_write(struct tu_cells *c, uint32_t first, uint32_t end, uint32_t step);
void tu_cells_weigh_runs(struct tu_cells *c, uint32_t first, uint32_t end, uint32_t weight);
static inline void tu_cells_weigh(struct tu_cells *c, uint32_t first, uint32_t end, uint32_t weight) {
  if (!c->singly) tu_cells_weigh_runs(c, first, end, weight);
  for (uint32_t i = first; c->singly && i < end; i++) c->runs[i].weight = weight;
}

#endif
