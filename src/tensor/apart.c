/* apart.c: finds whether two tensors share bytes. A layout may have gaps, and another tensor may lie in these gaps. */
#include <stdlib.h>
#include <string.h>

#include "tensor/map.h"

/* If `marks` is true, sets the bytes of a region in `memory` to 1. Otherwise returns true if any of these bytes is not
 * 0. */
static bool visit(const struct tu_region *region, unsigned char *memory, bool marks) {
  enum { BLOCK = 4096 };
  unsigned char block[BLOCK];
  size_t bytes = tu_map_item_bytes(region->map), found = 0;
  for (int d = 0; d < TUTTI_DIMS; d++) bytes *= region->extent[d];
  memset(block, 1, sizeof block);
  for (size_t at = 0; at < bytes && found == 0; at += BLOCK) {
    size_t part = tu_min(BLOCK, bytes - at);
    if (marks) {
      tu_region_unpack(region, memory, at, part, block);
      continue;
    }
    tu_region_pack(region, memory, at, part, block);
    for (size_t i = 0; i < part; i++) found |= block[i];
  }
  return found != 0;
}

bool tu_regions_share(const struct tu_region *a, const void *a_data, const struct tu_region *b, const void *b_data,
                      bool *shared) {
  uintptr_t x = (uintptr_t)a_data, y = (uintptr_t)b_data, first = tu_min(x, y);
  size_t a_bytes = tu_map_extent(a->map), b_bytes = tu_map_extent(b->map);
  *shared = false;
  if (x >= y + b_bytes || y >= x + a_bytes) return true;
  unsigned char *shadow = calloc(tu_max(x + a_bytes, y + b_bytes) - first, 1);
  if (!shadow) return false;
  visit(a, shadow + (x - first), true);
  *shared = visit(b, shadow + (y - first), false);
  free(shadow);
  return true;
}
