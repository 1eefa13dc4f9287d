/* map.h: which bytes are a region of a tensor? Where its elements lie, worked out from its layout once.
 *
 * Elements are taken in logical order: dimension 4 runs fastest. That is their order on the wire, whatever the layouts of
 * both ends. Where an element lies is the sum of what its row (dimensions 0 to 3) and its column say: so columns have a
 * table, and a row costs a few divisions, or one addition from the row before.
 *
 * An *item* is what crosses as a whole: an element, or 16 neighbours of a block float with their exponent. */
#ifndef TU_MAP_H
#define TU_MAP_H

#include <tutti/tensor.h>

#include "base/base.h"

struct tu_map;

/* Checks the tensor; ARGUMENT if it cannot be. *bytes: memory that it takes. Needs no memory of its own. */
tutti_err tu_map_measure(const tutti_tensor *tensor, size_t *bytes, struct tu_error *error);
/* ARGUMENT, as above; MEMORY. */
tutti_err tu_map_create(const tutti_tensor *tensor, struct tu_map **map, struct tu_error *error);
void tu_map_destroy(struct tu_map *map);

size_t tu_map_item_bytes(const struct tu_map *map);
/* In items: block floats have a sixteenth in dimension 4, rounded up. */
const size_t *tu_map_shape(const struct tu_map *map);
/* Memory that the tensor takes. */
size_t tu_map_extent(const struct tu_map *map);
/* Does it lie in logical order, without gaps? */
bool tu_map_is_plain(const struct tu_map *map);
/* Where an item begins; not of block floats. */
size_t tu_map_offset(const struct tu_map *map, const size_t index[TUTTI_DIMS]);

/* A box of items. Of block floats it may begin and end within groups of the tensor: its rows then have `cols` elements,
 * from `skip` elements on in the first item, and are packed as items of their own. Elements of one that come from one
 * group are what they were; from two, those with the lower exponent are rounded to nearest even. */
struct tu_region {
  const struct tu_map *map;
  size_t origin[TUTTI_DIMS], extent[TUTTI_DIMS];
  size_t skip, cols; /* cols = 0: to the end of the last item, or of the row */
};

/* Bytes [from, from + bytes) of the region's items, in logical order, between the tensor's memory and packed ones. Elements
 * of a group that are not in the region are packed as zeros, and left alone by unpacking: that needs skip = 0. */
void tu_region_pack(const struct tu_region *region, const void *data, size_t from, size_t bytes, void *packed);
void tu_region_unpack(const struct tu_region *region, void *data, size_t from, size_t bytes, const void *packed);

/* All of the region's items between the tensor's memory and that of a matrix: a row for each row of the region (dimensions
 * 0 to 3 of it, 3 fastest), `pitch` bytes apart. */
void tu_region_load(const struct tu_region *region, const void *data, void *rows, size_t pitch);
void tu_region_store(const struct tu_region *region, void *data, const void *rows, size_t pitch);
/* Does the region lie in memory as such a matrix? Then it begins at *offset. */
bool tu_region_is_matrix(const struct tu_region *region, size_t *offset, size_t *pitch);

/* Do two regions, of tensors whose memory begins there, share a byte? Where the tensors reach into each other, the bytes of one
 * are marked in memory of its own, and the other's looked up: as much work as packing both. False: no such memory. (apart.c) */
bool tu_regions_share(const struct tu_region *a, const void *a_data, const struct tu_region *b, const void *b_data,
                      bool *shared);

/* A tensor in as many equal blocks along one dimension, one behind the other: bytes [from, from + bytes) of all that. */
struct tu_fold {
  const struct tu_map *map;
  uint32_t dim, blocks;
};
size_t tu_fold_block_bytes(const struct tu_fold *fold);
struct tu_region tu_fold_block(const struct tu_fold *fold, uint32_t block);
void tu_fold_pack(const struct tu_fold *fold, const void *data, size_t from, size_t bytes, void *packed);
void tu_fold_unpack(const struct tu_fold *fold, void *data, size_t from, size_t bytes, const void *packed);
/* Is each block one run of the tensor's memory, and all of them in order? Then the fold changes nothing. */
bool tu_fold_is_plain(const struct tu_fold *fold);

#endif
