/* map.h: the bytes of a region of a tensor. A map states where each element lies; it is computed once from the layout.
 *
 * Elements have a logical order, in which dimension 4 runs fastest. In messages, elements have this order, whatever the
 * layouts on both ranks. The offset of an element is the sum of two numbers. The one for its column (dimension 4) is in
 * a table. The one for its row (dimensions 0 to 3) takes a few divisions, or one addition to the number of the previous
 * row.
 *
 * An *item* is a unit that is never split: one element, or, in block floats, the 16 elements that share an exponent. */
#ifndef TU_MAP_H
#define TU_MAP_H

#include <tutti/tensor.h>

#include "base/base.h"

struct tu_map;

/* Copies a tensor of the program, which may have been compiled with other headers, to *ours. The other functions of
 * the library read only such copies. what: names the function and the argument, for the message. Error:
 * TUTTI_ERR_ARGUMENT if the size of the struct is impossible, or if a field that this version does not have is not
 * zero. */
tutti_err tu_tensor_take(const tutti_tensor *theirs, const char *what, tutti_tensor *ours, struct tu_error *error);

/* Checks the tensor. *bytes: memory that it occupies. Error: TUTTI_ERR_ARGUMENT if the tensor is invalid. Allocates
 * nothing. */
tutti_err tu_map_measure(const tutti_tensor *tensor, size_t *bytes, struct tu_error *error);
/* Makes the map of a tensor. Errors: TUTTI_ERR_ARGUMENT if the tensor is invalid, TUTTI_ERR_MEMORY. */
tutti_err tu_map_create(const tutti_tensor *tensor, struct tu_map **map, struct tu_error *error);
void tu_map_destroy(struct tu_map *map);

size_t tu_map_item_bytes(const struct tu_map *map);
/* Returns the shape in items. For block floats, dimension 4 is divided by 16, rounded up. */
const size_t *tu_map_shape(const struct tu_map *map);
/* Returns the bytes of memory that the tensor occupies. */
size_t tu_map_extent(const struct tu_map *map);
/* Returns true if the elements lie in logical order, without gaps. */
bool tu_map_is_plain(const struct tu_map *map);
/* Returns the offset of an item in the tensor's memory, in bytes; not for block floats. */
size_t tu_map_offset(const struct tu_map *map, const size_t index[TUTTI_DIMS]);

/* A box of items. In block floats, an item is a group of 16 elements that share an exponent, and a region may begin and
 * end within groups. Then each row of the region has `cols` elements, which begin `skip` elements after the start of
 * the row's first item. Packing groups these elements anew. A new group may combine elements of two old groups with
 * different exponents. Then the elements of the old group with the lower exponent are rounded to nearest even. All
 * other elements keep their value. */
struct tu_region {
  const struct tu_map *map;
  size_t origin[TUTTI_DIMS], extent[TUTTI_DIMS];
  /* Only for block floats. skip: number of elements of a row's first item that lie before the region. cols: elements
   * per row of the region; 0: to the end of the last item, or to the end of the tensor's row if that comes first. */
  size_t skip, cols;
};

/* Copy bytes [from, from + bytes) of the region's items, in logical order, between the tensor's memory and a packed
 * buffer. In block floats, elements of a row's last item that lie outside the region are packed as zeros. Unpacking
 * leaves these elements unchanged, and requires skip = 0. */
void tu_region_pack(const struct tu_region *region, const void *data, size_t from, size_t bytes, void *packed);
void tu_region_unpack(const struct tu_region *region, void *data, size_t from, size_t bytes, const void *packed);

/* Copy all items of a region: load copies from the tensor to a matrix, store from a matrix to the tensor. The matrix
 * has one row for each row of the region: a row is what lies along dimension 4, and rows are in the order of dimensions
 * 0 to 3, dimension 3 fastest. The rows of the matrix are `pitch` bytes apart. */
void tu_region_load(const struct tu_region *region, const void *data, void *rows, size_t pitch);
void tu_region_store(const struct tu_region *region, void *data, const void *rows, size_t pitch);
/* Returns true if the rows of the region lie in memory as one matrix, at *offset, with rows *pitch bytes apart. */
bool tu_region_is_matrix(const struct tu_region *region, size_t *offset, size_t *pitch);

/* Finds whether two regions share a byte; a_data and b_data are the addresses of their tensors. If the tensors overlap,
 * the bytes of one region are marked in temporary memory, and the bytes of the other region are looked up there. This
 * costs as much as packing both regions. Returns false if out of memory. (apart.c) */
bool tu_regions_share(const struct tu_region *a, const void *a_data, const struct tu_region *b, const void *b_data,
                      bool *shared);

/* A tensor that is cut into `blocks` equal blocks along dimension `dim`, and packed block after block. The argument
 * `from` of functions on folds is an offset in this packed form, in bytes. */
struct tu_fold {
  const struct tu_map *map;
  uint32_t dim, blocks;
};
size_t tu_fold_block_bytes(const struct tu_fold *fold);
struct tu_region tu_fold_block(const struct tu_fold *fold, uint32_t block);
void tu_fold_pack(const struct tu_fold *fold, const void *data, size_t from, size_t bytes, void *packed);
void tu_fold_unpack(const struct tu_fold *fold, void *data, size_t from, size_t bytes, const void *packed);
/* Returns true if each block is one run of bytes in the tensor's memory and the blocks are in order. Then packing
 * changes nothing. */
bool tu_fold_is_plain(const struct tu_fold *fold);

#endif
