/* tensor.h: tensors of up to five dimensions, and their layouts in memory.
 *
 * A tensor has a logical shape, and a layout that defines where each element lies. Collectives take tensors
 * (tutti_call.in, tutti_call.out). Input and output may have different layouts; data is converted between the layouts
 * while it is moved.
 *
 * Sizes are in elements, unless a name contains "bytes". Functions that can fail return TUTTI_ERR_ARGUMENT; the message
 * is at tutti_error_message(NULL).
 *
 * Who may call: all functions are local (tutti/tutti.h), and any thread may call them. A tensor and the memory of its
 * elements belong to the program; shapes, strides, tiles and grids that a constructor gets are copied. */
#ifndef TUTTI_TENSOR_H
#define TUTTI_TENSOR_H

#include <stdio.h>

#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tutti_placement {
  TUTTI_STRIDED = 0,        /* the element with index i[] lies at the sum of i[d] * strides[d] */
  TUTTI_INTERLEAVED = 1,    /* pages (rows, or tiles) are assigned to banks in turn */
  TUTTI_WIDTH_SHARDED = 2,  /* columns are distributed over cores */
  TUTTI_HEIGHT_SHARDED = 3, /* rows are distributed over cores */
  TUTTI_BLOCK_SHARDED = 4,  /* rows and columns are distributed over a grid of cores */
} tutti_placement;

/* Sizes of a tile. A tile is a small matrix whose elements lie together in memory. Without faces, its elements lie row
 * by row. With faces (small matrices into which the tile is divided), the faces lie one after the other, each of them
 * row by row. A matrix (the last two dimensions of a tensor) is padded if its sizes are not multiples of the tile's
 * sizes. No collective reads or writes the padding. */
typedef struct tutti_tiles {
  uint32_t rows, cols;           /* size of a tile, often 32 x 32 */
  uint32_t face_rows, face_cols; /* size of a face, often 16 x 16, which must divide the tile; 0, 0: no faces */
} tutti_tiles;

/* Layout of a tensor: where its elements lie. An interleaved or sharded tensor is treated as one matrix. The width of
 * this matrix is the last dimension; its height is the product of the other dimensions. With tiles, each matrix of the
 * last two dimensions is padded first, and the height counts the padded rows. The banks or shards of a tensor lie one
 * after the other. Each has the size of a full bank or shard, even if it is not full. */
typedef struct tutti_layout {
  tutti_placement placement;
  tutti_tiles tiles;             /* sizes of the tiles; rows = 0: row-major without tiles */
  uint32_t banks;                /* interleaved: number of banks */
  uint32_t grid_rows, grid_cols; /* sharded: size of the grid of cores; width-sharded: 1 x n; height-sharded: n x 1 */
  /* sharded: size of a core's shard, in elements; the last shards may be partly filled or empty */
  size_t shard_rows, shard_cols;
  bool column_orientation; /* true: cores are numbered down the columns of the grid; false: along the rows */
} tutti_layout;

/* A tensor. tutti/tutti.h declares the typedef, because C99 allows it only once. */
struct tutti_tensor {
  void *data; /* memory of the elements, owned by the program */
  tutti_datatype type;
  uint32_t struct_bytes;      /* size of this struct; set by the constructors */
  size_t shape[TUTTI_DIMS];   /* sizes of the five dimensions; if the tensor has fewer dimensions, the leading sizes are
                               * 1 */
  size_t strides[TUTTI_DIMS]; /* strided: distance between neighbours along each dimension, in elements */
  uint32_t dims;              /* number of dimensions as given to the constructor, 1 to 5 */
  tutti_layout layout;
};

/* The properties of a tensor that every constructor needs. */
typedef struct tutti_tensor_of {
  void *data;          /* memory of the elements; NULL: the program sets tutti_tensor.data later */
  tutti_datatype type; /* datatype; block floats need tiles, and the width of tiles and faces must then be a multiple of
                        * 16 */
  uint32_t dims;       /* number of dimensions, 1 to 5 */
  const size_t *shape; /* [dims] sizes of the dimensions; copied */
} tutti_tensor_of;

/* Tensors are made by the constructors below. Each is inline: it passes the size of the program's tutti_tensor to the
 * exported function of the same name with _sized, which callers from other languages use (docs/ABI.md). All tensors of
 * an array must have the same struct_bytes. */

/* Constructor of a strided tensor. strides has one stride per dimension, in elements; NULL: row-major without gaps. No
 * two elements may lie at the same address. After an error, this constructor and the constructors below set *tensor to
 * zeros. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_tensor_strided_sized(tutti_tensor *tensor, size_t struct_bytes,
                                                             tutti_tensor_of of, const size_t *strides);
TUTTI_CHECKED static inline tutti_err tutti_tensor_strided(tutti_tensor *tensor, tutti_tensor_of of,
                                                           const size_t *strides) {
  return tutti_tensor_strided_sized(tensor, sizeof *tensor, of, strides);
}
/* Constructor of a tensor whose pages are assigned to `banks` banks in turn. A page is a tile, or a row if tiles is
 * NULL. With one bank, the pages lie one after the other. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_tensor_interleaved_sized(tutti_tensor *tensor, size_t struct_bytes,
                                                                 tutti_tensor_of of, const tutti_tiles *tiles,
                                                                 uint32_t banks);
TUTTI_CHECKED static inline tutti_err tutti_tensor_interleaved(tutti_tensor *tensor, tutti_tensor_of of,
                                                               const tutti_tiles *tiles, uint32_t banks) {
  return tutti_tensor_interleaved_sized(tensor, sizeof *tensor, of, tiles, banks);
}
/* Constructor of a tensor whose columns are distributed over `cores` cores. Each core gets shard_cols columns, a
 * multiple of the tile's width. All shards together must have at least as many columns as the tensor. tiles may be
 * NULL. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_tensor_width_sharded_sized(tutti_tensor *tensor, size_t struct_bytes,
                                                                   tutti_tensor_of of, const tutti_tiles *tiles,
                                                                   uint32_t cores, size_t shard_cols);
TUTTI_CHECKED static inline tutti_err tutti_tensor_width_sharded(tutti_tensor *tensor, tutti_tensor_of of,
                                                                 const tutti_tiles *tiles, uint32_t cores,
                                                                 size_t shard_cols) {
  return tutti_tensor_width_sharded_sized(tensor, sizeof *tensor, of, tiles, cores, shard_cols);
}
/* Constructor of a tensor whose rows are distributed over `cores` cores. Each core gets shard_rows rows, a multiple of
 * the tile's height. All shards together must have at least as many rows as the tensor. tiles may be NULL. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_tensor_height_sharded_sized(tutti_tensor *tensor, size_t struct_bytes,
                                                                    tutti_tensor_of of, const tutti_tiles *tiles,
                                                                    uint32_t cores, size_t shard_rows);
TUTTI_CHECKED static inline tutti_err tutti_tensor_height_sharded(tutti_tensor *tensor, tutti_tensor_of of,
                                                                  const tutti_tiles *tiles, uint32_t cores,
                                                                  size_t shard_rows) {
  return tutti_tensor_height_sharded_sized(tensor, sizeof *tensor, of, tiles, cores, shard_rows);
}
/* Grid of cores for tutti_tensor_block_sharded. */
typedef struct tutti_grid {
  uint32_t rows, cols;           /* number of rows and columns of cores */
  size_t shard_rows, shard_cols; /* size of a core's shard, in elements */
  bool column_orientation;       /* true: cores are numbered down the columns of the grid; false: along the rows */
} tutti_grid;
/* Constructor of a tensor whose rows and columns are distributed over a grid of cores. tiles may be NULL. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_tensor_block_sharded_sized(tutti_tensor *tensor, size_t struct_bytes,
                                                                   tutti_tensor_of of, const tutti_tiles *tiles,
                                                                   tutti_grid grid);
TUTTI_CHECKED static inline tutti_err tutti_tensor_block_sharded(tutti_tensor *tensor, tutti_tensor_of of,
                                                                 const tutti_tiles *tiles, tutti_grid grid) {
  return tutti_tensor_block_sharded_sized(tensor, sizeof *tensor, of, tiles, grid);
}

/* Returns the size in bytes of the tensor's memory, starting at `data` and including padding; 0 if the tensor is NULL
 * or invalid. Local; any thread. */
TUTTI_API size_t tutti_tensor_bytes(const tutti_tensor *tensor);
/* Returns the offset of an element from `data`, in bytes. index has five numbers, one per dimension; if the tensor has
 * fewer dimensions, the leading numbers are 0. Returns SIZE_MAX if the index is outside the tensor, if the elements are
 * block floats, or if memory allocation fails. Local; any thread. */
TUTTI_API size_t tutti_tensor_offset(const tutti_tensor *tensor, const size_t index[TUTTI_DIMS]);
/* Sets all elements from f32 values, which lie in logical order (dimension 4 runs fastest) without gaps. The values are
 * rounded to nearest even in the tensor's datatype; integers wrap. Padding is not changed. Error: TUTTI_ERR_ARGUMENT (a
 * pointer is NULL, or the tensor is invalid). Local; any thread. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_tensor_from_f32(const tutti_tensor *tensor, const float *values);
/* Reads all elements as f32 values, in logical order (dimension 4 runs fastest) without gaps. The values are exact,
 * except those of f64 and long integers. Error: TUTTI_ERR_ARGUMENT (a pointer is NULL, or the tensor is invalid).
 * Local; any thread. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_tensor_to_f32(const tutti_tensor *tensor, float *values);
/* Prints the tensor's datatype, shape and layout in one line. Local; any thread. */
TUTTI_API void tutti_tensor_print(const tutti_tensor *tensor, FILE *file);

/* ---- slices ---- */

/* How to cut a region of a tensor into slices. One dimension of the region is cut into pieces called fractures, one per
 * rank. Every fracture is cut in the same way into slices that fit into a buffer. A slice is what a window of rows and
 * columns covers at one position. The window slides over the last two dimensions of the fracture: across, then down,
 * then to the next matrix. The slices of a fracture are assigned to workers in turn. A worker processes its first slice
 * in all fractures, one fracture per step, then its second slice in all fractures, and so on. Pages, such as the tiles
 * of a layout, are never cut. */
typedef struct tutti_slicing {
  size_t shape[TUTTI_DIMS];    /* sizes of the region, in elements; if it has fewer dimensions, the leading sizes are
                                * 1 */
  uint32_t dim, ranks;         /* dimension `dim` (0 to 4) is cut into `ranks` equal fractures (pieces); ranks = 0 means
                                * 1 */
  uint32_t workers;            /* number of workers; worker w processes slices w, w + workers, ...; 0 means 1 */
  size_t page_rows, page_cols; /* size of a page, in elements; pages at the edges may be smaller; 0, 0 means 1 x 1 */
  /* Size of a slice, in pages. 0, 0: the library chooses the size. It is as large as possible, but small enough that
   * there is a slice for every worker. If a whole row fits, the slice consists of whole rows. */
  size_t slice_rows, slice_cols;
  size_t pages_max; /* maximum number of pages of a slice; 0: any number */
  /* Number of the fracture (piece of the region) that step 0 processes. In a ring algorithm it is the fracture after
   * the rank's own one, so that the rank's own fracture comes last. */
  uint32_t first;
  bool down; /* true: the fractures (pieces of the region) follow each other in descending order */
} tutti_slicing;

/* One step of a worker: one slice in one fracture (piece of the region). */
typedef struct tutti_slice {
  size_t number;                                 /* number of the slice in its fracture (piece of the region) */
  uint32_t step, fracture;                       /* step of the slice, 0 to ranks - 1, and its fracture (piece of the
                                                  * region) */
  size_t origin[TUTTI_DIMS], extent[TUTTI_DIMS]; /* index of the first element in the region, and size of the slice; in
                                                  * elements */
} tutti_slice;

/* Sets *count to the number of steps of a worker: the number of its slices times how->ranks (0 counts as 1). Error:
 * TUTTI_ERR_ARGUMENT (the region cannot be cut in this way, there is no such worker, or a pointer is NULL). Any thread
 * may call this function. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_slices_count(const tutti_slicing *how, uint32_t worker, size_t *count);
/* Sets *slice to step number `order` of a worker, counted from 0. Calls are independent of each other. Errors: those of
 * tutti_slices_count, and TUTTI_ERR_ARGUMENT if `order` is not below the count. Any thread may call this function. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_slices_at(const tutti_slicing *how, uint32_t worker, size_t order,
                                                  tutti_slice *slice);

#ifdef __cplusplus
}
#endif
#endif
