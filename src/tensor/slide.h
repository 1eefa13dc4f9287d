/* slide.h: a tile slides over tensors of one shape: where it stops, and in which order. Dimensions 0, 1 and 2 are walked one
 * matrix after the other; in each, the tile goes down in steps of its rows, and on each step across in steps of its
 * columns. At the edges it is cut. A tensor of which all rows fit the tile at once is one stop. */
#ifndef TU_SLIDE_H
#define TU_SLIDE_H

#include "tensor/map.h"

struct tu_slide {
  size_t shape[TUTTI_DIMS];
  size_t rows, cols; /* of the tile */
  bool at_once;      /* one stop */
  size_t count;      /* stops; 0 if the shape is of nothing */
};

/* A box of the shape. */
struct tu_stop {
  size_t origin[TUTTI_DIMS], extent[TUTTI_DIMS];
};

/* rows and cols are not 0. */
struct tu_slide tu_slide_over(const size_t shape[TUTTI_DIMS], size_t rows, size_t cols);
struct tu_stop tu_slide_stop(const struct tu_slide *slide, size_t index);
/* From one stop to the next, without a division; from the last one to the first. */
void tu_slide_next(const struct tu_slide *slide, struct tu_stop *stop);

/* The items of one region into those of another of the same extent: through memory of 16 KiB on the stack, where neither lies
 * in rows. */
void tu_region_copy(const struct tu_region *to, void *to_data, const struct tu_region *from, const void *from_data);

#endif
