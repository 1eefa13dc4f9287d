/* cells.h: the state of a rank's chunks while a plan is built: the last writer, the readers since then, and a weight.
 *
 * A cell is a chunk, numbered by tu_plan_cell. Neighbouring cells with the same state form one run, so long spans cost
 * no more than short ones. A run is found by bisection. If there are too many runs for the number of cells, each cell
 * becomes a run of its own. Then the number of the cell is the index of its run. */
#ifndef TU_CELLS_H
#define TU_CELLS_H

#include "base/arena.h"

#define TU_CELL_NONE UINT32_MAX

struct tu_cell_run {
  uint32_t first;  /* number of the first chunk of the run, which ends where the next run begins */
  uint32_t writer; /* last step that wrote these chunks, or TU_CELL_NONE */
  uint32_t reader; /* first entry of the list of steps that read these chunks since the last write, or TU_CELL_NONE */
  uint32_t weight; /* set by the builder: number of ranks whose inputs are summed in each of these chunks */
};

struct tu_cell_reader {
  uint32_t step;
  /* Index of the next entry of a list of readers, or TU_CELL_NONE. If a run was cut into several runs, their lists
   * share the entries from before the cut. */
  uint32_t next;
};

struct tu_cells {
  struct tu_arena *arena; /* arena of the caller, for all memory of the cells */
  struct tu_cell_run *runs;
  uint32_t run_count, run_capacity;
  uint32_t count; /* number of cells */
  bool singly;    /* true: from now on, every cell (chunk) is a run of its own */
  struct tu_cell_reader *readers;
  uint32_t reader_count, reader_capacity;
};

/* Adds cells (chunks with their states) until there are `count`. New cells have no writer, no readers and weight 0.
 * Before the first call, set `arena` and zero all other fields. */
void tu_cells_extend(struct tu_cells *c, uint32_t count);

/* Returns the index of the run (range of cells with the same state) that contains the cell. To visit the runs of the
 * cells first .. end - 1, begin with the run of `first` and go on while tu_cells_within is true. */
uint32_t tu_cells_bisect(const struct tu_cells *c, uint32_t cell);
static inline uint32_t tu_cells_find(const struct tu_cells *c, uint32_t cell) {
  return c->singly ? cell : tu_cells_bisect(c, cell);
}
static inline bool tu_cells_within(const struct tu_cells *c, uint32_t run, uint32_t end) {
  return run < c->run_count && c->runs[run].first < end;
}

/* Change the states of the cells (chunks) first .. end - 1. tu_cells_read adds a reader. tu_cells_write sets the last
 * writer and removes all earlier readers. tu_cells_weigh and tu_cells_weigh_runs set the weight (number of ranks whose
 * inputs are summed in a chunk). */
void tu_cells_read(struct tu_cells *c, uint32_t first, uint32_t end, uint32_t step);
void tu_cells_write(struct tu_cells *c, uint32_t first, uint32_t end, uint32_t step);
void tu_cells_weigh_runs(struct tu_cells *c, uint32_t first, uint32_t end, uint32_t weight);
static inline void tu_cells_weigh(struct tu_cells *c, uint32_t first, uint32_t end, uint32_t weight) {
  if (!c->singly) tu_cells_weigh_runs(c, first, end, weight);
  for (uint32_t i = first; c->singly && i < end; i++) c->runs[i].weight = weight;
}

#endif
