/* grid.h: is a cluster a grid? Then its chips have places whose neighbours are linked, and its rows and columns are lines, or
 * rings, that can all work at once. Only links that may be used count. */
#ifndef TU_GRID_H
#define TU_GRID_H

#include "topology/cluster.h"

struct tu_grid {
  uint32_t dims; /* 0: none was found */
  uint32_t
      size[TU_PLACE_DIMS]; /* of each dimension, 2 or more (a single chip: 1); place = i[0] + size[0] * (i[1] + ...) */
  bool wraps[TU_PLACE_DIMS]; /* the last one is linked to the first, everywhere; not where there are two */
  uint32_t *chip;            /* [chips]: at each place */
  uint32_t *place;           /* [chips]: of each chip */
};

/* By the places that chips say they have, if those fit; else chips of a plain line or ring are one; else rows and columns
 * are searched for, among up to TU_GRID_SEARCH_MAX chips: of all that fit, the grid with the most pairs. The search is a
 * backtracking one that gives up on hard cases. */
#define TU_GRID_SEARCH_MAX 1024u
void tu_grid_find(const struct tu_cluster *cluster, struct tu_grid *grid);
void tu_grid_fini(struct tu_grid *grid);

/* Lines along a dimension: how many there are, and the chips of one, size[dim] of them. */
uint32_t tu_grid_line_count(const struct tu_grid *grid, uint32_t dim);
void tu_grid_line(const struct tu_grid *grid, uint32_t dim, uint32_t index, uint32_t chips[]);

/* The place one further (or back) along a dimension; TU_NONE at the edge. */
uint32_t tu_grid_step(const struct tu_grid *grid, uint32_t place, uint32_t dim, bool back);

/* Pairs of chips with usable links that are no neighbours in the grid: what a cluster has beyond the grid that was found in it.
 * Returns how many there are, 0 if there is no grid; the first `max`, by their chips, are in pairs[]. Shortest ways take them,
 * ways in dimension order do not (route.h). */
uint32_t tu_grid_beyond(const struct tu_grid *grid, const struct tu_cluster *cluster, uint32_t pairs[][2],
                        uint32_t max);

/* Are the grid's pairs all that the chips have, and is each of `links` usable ones? (0: they differ.) For formulas. */
uint32_t tu_grid_is_all(const struct tu_grid *grid, const struct tu_cluster *cluster);

#endif
