/* slide.h: a tile that slides over tensors of one shape: where it stops, and in which order. A tensor is a sequence of
 * matrices, numbered by dimensions 0, 1 and 2. The tile visits one matrix after the other. In a matrix it first moves
 * across, in steps of its columns, then down by its rows, and so on. At the edges the tile is cut. If the tile has room
 * for the rows of all matrices together, it covers the whole tensor at one stop. */
#ifndef TU_SLIDE_H
#define TU_SLIDE_H

#include "tensor/map.h"

struct tu_slide {
  size_t shape[TUTTI_DIMS];
  size_t rows, cols; /* size of the tile, in the units of `shape` (items, or pages of a slice) */
  bool at_once;      /* true: the tile covers the whole tensor at one stop */
  size_t count;      /* number of stops (positions of the tile); 0: the tensor is empty */
};

/* The part of the tensor that the tile covers at one stop. */
struct tu_stop {
  size_t origin[TUTTI_DIMS], extent[TUTTI_DIMS];
};

/* Returns the sequence of stops of a tile of rows x cols over a tensor of this shape. rows and cols must not be 0. */
struct tu_slide tu_slide_over(const size_t shape[TUTTI_DIMS], size_t rows, size_t cols);
struct tu_stop tu_slide_stop(const struct tu_slide *slide, size_t index);
/* Moves from one stop to the next, without a division; after the last stop comes the first. */
void tu_slide_next(const struct tu_slide *slide, struct tu_stop *stop);

/* Copies the items of a region to another region of the same extent. If neither region lies in memory row by row, uses
 * 16 KiB of stack. */
void tu_region_copy(const struct tu_region *to, void *to_data, const struct tu_region *from, const void *from_data);

#endif
