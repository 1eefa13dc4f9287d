/* grid.h: finds out whether a cluster is a grid (mesh or torus). In a grid each chip has a position, and chips at
 * neighbouring positions are linked. So the chips of each row, and of each column, form a line or a ring. All rows can
 * work at the same time, and so can all columns. Only usable links count. */
#ifndef TU_GRID_H
#define TU_GRID_H

#include "topology/cluster.h"

struct tu_grid {
  uint32_t dims; /* number of dimensions; 0: the cluster is not a grid */
  uint32_t
      /* size of each dimension, at least 2 (1 if the cluster is a single chip); the chip with coordinates i[0], i[1],
       * ... has position i[0] + size[0] * (i[1] + size[1] * ...) */
      size[TU_GRID_DIMS];
  /* true if in every line along the dimension the last chip is linked to the first one; false if the size is 2 */
  bool wraps[TU_GRID_DIMS];
  uint32_t *chip;     /* [positions]: the chip at each position */
  uint32_t *position; /* [chips]: the position of each chip */
};

/* Finds the cluster's grid. Tries these ways one after the other:
 * - the chips' coordinates in the cluster description, if the links fit them;
 * - a line or ring of all chips;
 * - a search for rows and columns, if there are at most TU_GRID_SEARCH_MAX chips. If several grids fit, the search
 *   takes the one with the most pairs of neighbours. If it needs too many steps, it gives up. */
#define TU_GRID_SEARCH_MAX 1024u
void tu_grid_find(const struct tu_cluster *cluster, struct tu_grid *grid);
void tu_grid_fini(struct tu_grid *grid);

/* tu_grid_line_count returns the number of lines along a dimension (rows or columns, for example); tu_grid_line writes
 * the size[dim] chips of one line. */
uint32_t tu_grid_line_count(const struct tu_grid *grid, uint32_t dim);
void tu_grid_line(const struct tu_grid *grid, uint32_t dim, uint32_t index, uint32_t chips[]);

/* Returns the next position along a dimension, or the previous position if `back` is true; TU_NONE at the edge. */
uint32_t tu_grid_step(const struct tu_grid *grid, uint32_t position, uint32_t dim, bool back);

/* Counts the pairs of chips that have usable links but are not neighbours in the grid; returns 0 if there is no grid.
 * Writes the first `max` of these pairs to pairs[], ordered by chip. Their links are used by shortest routes, but not
 * by routes in dimension order (route.h). */
uint32_t tu_grid_beyond(const struct tu_grid *grid, const struct tu_cluster *cluster, uint32_t pairs[][2],
                        uint32_t max);

/* Returns the number of usable links of a pair of neighbours, if it is the same for all, and if no other chips are
 * linked. Otherwise returns 0. Formulas that hold for grids may be used only if this is not 0. */
uint32_t tu_grid_is_all(const struct tu_grid *grid, const struct tu_cluster *cluster);

#endif
