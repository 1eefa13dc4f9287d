/* tensor.h: tensors of up to five dimensions, and how they lie in memory.
 *
 * A tensor has a logical shape, and a layout that says where each element lies. Collectives take tensors (tutti_call.in,
 * .out): input and output may lie in different ways, and are brought from one into the other as they cross.
 *
 * Sizes are in elements unless a name says bytes. Errors are ARGUMENT; the sentence is at tutti_error_message(NULL). */
#ifndef TUTTI_TENSOR_H
#define TUTTI_TENSOR_H

#include <stdio.h>

#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tutti_placement {
  TUTTI_STRIDED,     /* element i lies at the sum of i[d] * strides[d] */
  TUTTI_INTERLEAVED, /* pages (rows, or tiles) go to banks in turn */
  TUTTI_WIDTH_SHARDED,
  TUTTI_HEIGHT_SHARDED,
  TUTTI_BLOCK_SHARDED,
  TUTTI_PLACEMENTS
} tutti_placement;

/* A tile is a small matrix whose elements lie together: row by row, or, if it has faces, face by face and row by row in
 * each. Matrices (the last two dimensions) whose sizes are no multiples of a tile's are padded with what no collective
 * reads or writes. */
typedef struct tutti_tiles {
  uint32_t rows, cols;           /* 32, 32 is usual */
  uint32_t face_rows, face_cols; /* 0, 0: no faces; 16, 16 is usual; they divide the tile */
} tutti_tiles;

/* Where the elements lie. Interleaved and sharded tensors are seen as one matrix: width is the last dimension, height the
 * product of the others (in tiles: each matrix padded by itself). Bank b begins at b * bank_bytes, core c's shard at c *
 * shard_bytes, whether or not it is full. */
typedef struct tutti_layout {
  tutti_placement placement;
  tutti_tiles tiles;             /* rows = 0: row-major */
  uint32_t banks;                /* interleaved */
  uint32_t grid_rows, grid_cols; /* sharded: cores; width: 1 x n, height: n x 1 */
  size_t shard_rows, shard_cols; /* of a core; the last ones of a row or column may be filled in part, or not at all */
  bool column_orientation;       /* cores are numbered down the grid's columns, not along its rows */
} tutti_layout;

typedef struct tutti_tensor {
  void *data;
  tutti_datatype type;
  size_t shape[TUTTI_DIMS];   /* leading ones where it has fewer dimensions */
  size_t strides[TUTTI_DIMS]; /* strided only */
  uint32_t dims;              /* as it was made: -1 is the last of them */
  tutti_layout layout;
} tutti_tensor;

/* What all constructors take. */
typedef struct tutti_tensor_of {
  void *data;          /* may be NULL, to be set later */
  tutti_datatype type; /* block floats: in tiles, whose width (and that of their faces) is a multiple of 16 */
  uint32_t dims;       /* 1 to 5 */
  const size_t *shape;
} tutti_tensor_of;

/* Row-major. strides: one for each dimension, of elements; NULL: without gaps. No two elements may share a place. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_tensor_strided(tutti_tensor *tensor, tutti_tensor_of of, const size_t *strides);
/* Pages in `banks` banks, in turn; tiles NULL: a page is a row, else a tile. One bank: one after the other. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_tensor_interleaved(tutti_tensor *tensor, tutti_tensor_of of,
                                                           const tutti_tiles *tiles, uint32_t banks);
/* Columns dealt to `cores`: shard_cols each (a multiple of the tile's), together at least as many as there are. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_tensor_width_sharded(tutti_tensor *tensor, tutti_tensor_of of,
                                                             const tutti_tiles *tiles, uint32_t cores,
                                                             size_t shard_cols);
/* Rows dealt to `cores`: shard_rows each. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_tensor_height_sharded(tutti_tensor *tensor, tutti_tensor_of of,
                                                              const tutti_tiles *tiles, uint32_t cores,
                                                              size_t shard_rows);
/* Both, over a grid of cores. */
typedef struct tutti_grid {
  uint32_t rows, cols;
  size_t shard_rows, shard_cols;
  bool column_orientation;
} tutti_grid;
TUTTI_API TUTTI_CHECKED tutti_err tutti_tensor_block_sharded(tutti_tensor *tensor, tutti_tensor_of of,
                                                             const tutti_tiles *tiles, tutti_grid grid);

/* Bytes of memory from `data` on, padding included. */
TUTTI_API size_t tutti_tensor_bytes(const tutti_tensor *tensor);
/* Byte at which an element lies, from `data` on. index: one for each of the five dimensions. SIZE_MAX if it is outside, of block
 * floats, and if there is no memory to find out. */
TUTTI_API size_t tutti_tensor_offset(const tutti_tensor *tensor, const size_t index[TUTTI_DIMS]);
/* All elements as f32, in logical order (dimension 4 runs fastest), without gaps. from: rounded to the tensor's type, to
 * nearest even; integers wrap. to: exact, but of f64 and long integers. Padding is left alone. ARGUMENT if something is
 * NULL, or the tensor cannot be. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_tensor_from_f32(const tutti_tensor *tensor, const float *values);
TUTTI_API TUTTI_CHECKED tutti_err tutti_tensor_to_f32(const tutti_tensor *tensor, float *values);
/* One line: type, shape, layout. */
TUTTI_API void tutti_tensor_print(const tutti_tensor *tensor, FILE *file);

/* ---- slices ---- */

/* A region is cut along one dimension into a fracture for each rank, and every fracture by the same lines into slices
 * that fit some buffer: what a window of rows and columns covers that slides over the last two dimensions, across, then
 * down, then on to the next matrix. Slices are dealt out to workers; each takes one slice after the other, and each
 * slice from all fractures, one a step, before its next. Pages are what is never cut, as the tiles of a layout. */
typedef struct tutti_slicing {
  size_t shape[TUTTI_DIMS];      /* of the region, in elements; leading ones where it has fewer dimensions */
  uint32_t dim, ranks;           /* dimension `dim`, of the five, becomes `ranks` fractures, equally long; ranks 0: 1 */
  uint32_t workers;              /* worker w takes slices w, w + workers, ...; 0: 1 */
  size_t page_rows, page_cols;   /* elements; 0, 0: a page is an element; the last of a row or column may be less */
  size_t slice_rows, slice_cols; /* pages; 0, 0: as many as fit, in whole rows if one fits, but some for every worker */
  size_t pages_max;              /* of a slice; 0: any number */
  uint32_t first;                /* fracture of step 0; a rank of a ring whose own comes last: the one after its own */
  bool down;                     /* fractures follow each other downwards */
} tutti_slicing;

typedef struct tutti_slice {
  size_t number; /* of the slice, in its fracture */
  uint32_t step, fracture;
  size_t origin[TUTTI_DIMS], extent[TUTTI_DIMS]; /* in the region, in elements */
} tutti_slice;

/* How many things a worker does: its slices, each once for every rank. ARGUMENT: the region cannot be cut so, or there
 * is no such worker. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_slices_count(const tutti_slicing *how, uint32_t worker, size_t *count);
/* The `order`-th of them, from 0. Nothing is remembered between calls. ARGUMENT also: order is not below that count. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_slices_at(const tutti_slicing *how, uint32_t worker, size_t order,
                                                  tutti_slice *slice);

#ifdef __cplusplus
}
#endif
#endif
