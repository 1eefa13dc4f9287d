/* view.h: the bytes of a chunk. A view describes a buffer of equal items. The buffer is cut into blocks, which may lie
 * anywhere in it, and each block is cut into `split` chunks of almost equal size. A contiguous buffer is one run of
 * bytes. */
#ifndef TU_VIEW_H
#define TU_VIEW_H

#include "base/base.h"

struct tu_fold;

struct tu_view {
  size_t item_bytes;
  uint32_t blocks;
  uint32_t split;
  size_t count;          /* number of items of every block, if counts is NULL */
  const size_t *counts;  /* number of items of each block; NULL: `count` for every block */
  const size_t *offsets; /* start of each block, in items; NULL: the blocks lie one after the other */
  /* address of each block, wherever it lies in memory; NULL: the blocks lie in the buffer. With addresses, the offsets
   * of chunks and extents are those that the blocks would have if they were packed. */
  const void *const *addresses;
  /* NULL: the items lie in the buffer in order. Otherwise they lie where the fold (map.h) states, and the view
   * describes their packed form. */
  const struct tu_fold *fold;
};

/* A run of bytes: [offset, offset + bytes) from the start of the buffer. */
struct tu_run {
  size_t offset;
  size_t bytes;
};

/* Returns where a chunk lies. A chunk begins at a multiple of a cache line from the block's start, if the item size
 * divides a cache line. Otherwise it begins at a multiple of as many whole items as fit into a cache line. */
struct tu_run tu_view_chunk(const struct tu_view *view, uint32_t chunk);

/* Returns where a chunk lies within its block, and sets *block to this block. */
struct tu_run tu_view_part(const struct tu_view *view, uint32_t chunk, uint32_t *block);

/* Returns the lowest of the addresses of the blocks that are not empty; NULL if all are empty. For a view with
 * addresses. */
const void *tu_view_lowest(const struct tu_view *view);

/* Copies the counts and offsets of a view that has counts to `kept`, which has room for 2 * blocks numbers, and makes the
 * view point at the copies. Offsets that the view lacks are those of packed blocks. */
void tu_view_keep(struct tu_view *view, size_t *kept);

/* Returns the offset after the last byte of all blocks; 0 if all blocks are empty. *begin: offset of the first byte. */
size_t tu_view_extent(const struct tu_view *view, size_t *begin);

#endif
