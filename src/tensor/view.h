/* view.h: which bytes are a chunk? A buffer of equal items, cut into blocks that lie anywhere in it, each cut into
 * `split` chunks of almost equal size. A contiguous buffer is one run of bytes. */
#ifndef TU_VIEW_H
#define TU_VIEW_H

#include "base/base.h"

struct tu_fold;

struct tu_view {
  size_t item_bytes;
  uint32_t blocks;
  uint32_t split;
  size_t count;          /* items of every block, or ... */
  const size_t *counts;  /* ... of each one */
  const size_t *offsets; /* where each begins, in items; NULL: one after the other */
  /* Not NULL: the items lie elsewhere, as this says (map.h); the view is of what they would be if packed. */
  const struct tu_fold *fold;
};

/* Bytes [offset, offset + bytes) from the start of the buffer. */
struct tu_run {
  size_t offset;
  size_t bytes;
};

/* Where a chunk lies. Inner boundaries fall on whole cache lines from the start of the block, if items divide these; else on
 * as many whole items as a line holds. */
struct tu_run tu_view_chunk(const struct tu_view *view, uint32_t chunk);

/* One past the last byte that any block has, 0 if none has any; *begin is the first. */
size_t tu_view_extent(const struct tu_view *view, size_t *begin);

#endif
