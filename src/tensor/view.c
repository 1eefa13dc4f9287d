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

struct tu_run tu_view_chunk(const struct tu_view *v, uint32_t chunk) {
  uint32_t block = chunk / v->split, part = chunk % v->split;
  size_t count = block_count(v, block), unit = TU_LINE_BYTES / v->item_bytes;
  size_t begin = tu_part_begin(count, v->split, part, unit), end = tu_part_begin(count, v->split, part + 1, unit);
  return (struct tu_run){(block_offset(v, block) + begin) * v->item_bytes, (end - begin) * v->item_bytes};
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
