/* view.c: converts blocks and chunks (parts of blocks) to runs of bytes. */
#include "tensor/view.h"

static size_t block_count(const struct tu_view *v, uint32_t block) { return v->counts ? v->counts[block] : v->count; }

static size_t block_offset(const struct tu_view *v, uint32_t block) {
  if (v->offsets) return v->offsets[block];
  if (!v->counts) return v->count * block;
  size_t offset = 0;
  for (uint32_t i = 0; i < block; i++) offset += v->counts[i];
  return offset;
}

struct tu_run tu_view_part(const struct tu_view *v, uint32_t chunk, uint32_t *block) {
  uint32_t part = chunk % v->split;
  *block = chunk / v->split;
  size_t count = block_count(v, *block), unit = tu_max(TU_LINE_BYTES / v->item_bytes, 1);
  size_t begin = tu_part_begin(count, v->split, part, unit), end = tu_part_begin(count, v->split, part + 1, unit);
  return (struct tu_run){begin * v->item_bytes, (end - begin) * v->item_bytes};
}

struct tu_run tu_view_chunk(const struct tu_view *v, uint32_t chunk) {
  uint32_t block;
  struct tu_run run = tu_view_part(v, chunk, &block);
  run.offset += block_offset(v, block) * v->item_bytes;
  return run;
}

const void *tu_view_lowest(const struct tu_view *v) {
  const void *lowest = NULL;
  for (uint32_t block = 0; block < v->blocks; block++)
    if (block_count(v, block) > 0 && (!lowest || (uintptr_t)v->addresses[block] < (uintptr_t)lowest))
      lowest = v->addresses[block];
  return lowest;
}

void tu_view_keep(struct tu_view *view, size_t *kept) {
  size_t offset = 0;
  for (uint32_t i = 0; i < view->blocks; i++) {
    kept[i] = view->counts[i];
    kept[view->blocks + i] = view->offsets ? view->offsets[i] : offset;
    offset += view->counts[i];
  }
  view->counts = kept;
  view->offsets = kept + view->blocks;
}

size_t tu_view_extent(const struct tu_view *v, size_t *begin) {
  size_t low = SIZE_MAX, high = 0, offset = 0;
  for (uint32_t block = 0; block < v->blocks; block++) {
    size_t count = block_count(v, block);
    if (v->offsets) offset = v->offsets[block];
    if (count > 0) {
      low = tu_min(low, offset);
      high = tu_max(high, offset + count);
    }
    offset += count;
  }
  *begin = high ? low * v->item_bytes : 0;
  return high * v->item_bytes;
}
