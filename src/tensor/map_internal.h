/* map_internal.h: the struct for the map of a tensor, which map.c makes and map_copy.c reads. */
#ifndef TU_MAP_INTERNAL_H
#define TU_MAP_INTERNAL_H

#include "tensor/map.h"

enum {
  TU_MAP_PLANES = 2, /* maximum number of planes; a plane holds one part of every item, such as the exponents */
  TU_MAP_GROUP = 16, /* number of elements of a block float that share an exponent */
};

/* A plane: where one part of every item lies. Block floats have two planes: in each tile all exponents come first, then
 * the other bits of all items. Other types have one plane. */
struct tu_map_plane {
  size_t unit; /* number of bytes of an item in this plane */
  size_t base; /* offset of the plane in a page (the tile, row or shard whose items lie together) */
  size_t *cols;
};

struct tu_map {
  size_t item_bytes;
  size_t columns; /* number of elements in dimension 4 */
  size_t shape[TUTTI_DIMS];
  size_t extent;
  bool plain, strided;
  size_t strides[TUTTI_DIMS]; /* strides in bytes; set only for strided and plain layouts */
  /* Fields for interleaved and sharded layouts. Rows and columns are counted as if the padded tensor were one
   * matrix. */
  size_t matrix_rows;
  size_t shard_rows, shard_cols, shard_row_step, shard_col_step;
  size_t tile_rows, tile_cols, face_rows, face_cols;
  /* bytes of a page (the tile, row or shard whose items lie together); number of pages side by side in a shard */
  size_t page_bytes, pages_across;
  size_t banks, bank_bytes;
  size_t segment; /* number of items of a row that lie together in memory */
  uint32_t plane_count;
  struct tu_map_plane planes[TU_MAP_PLANES];
};

static inline size_t tu_map_divide_up(size_t a, size_t b) { return a / b + (a % b != 0); }

#endif
