/* slide.c: computes any stop of a sliding tile directly, and copies from region to region, stop by stop. */
#include "tensor/slide.h"

#include <string.h>

enum { SCRATCH_BYTES = 16 << 10 };

static size_t steps(size_t length, size_t step) { return length / step + (length % step != 0); }

struct tu_slide tu_slide_over(const size_t shape[TUTTI_DIMS], size_t rows, size_t cols) {
  tu_assert(rows > 0 && cols > 0);
  struct tu_slide s = {.rows = rows, .cols = cols};
  memcpy(s.shape, shape, sizeof s.shape);
  size_t matrices = shape[0] * shape[1] * shape[2];
  s.at_once = matrices * shape[3] <= rows && shape[4] <= cols;
  s.count = matrices * steps(shape[3], rows) * steps(shape[4], cols);
  if (s.at_once && s.count > 0) s.count = 1;
  return s;
}

struct tu_stop tu_slide_stop(const struct tu_slide *s, size_t index) {
  struct tu_stop stop = {.extent = {1, 1, 1}};
  tu_assert(index < s->count);
  if (s->at_once) {
    memcpy(stop.extent, s->shape, sizeof stop.extent);
    return stop;
  }
  size_t across = steps(s->shape[4], s->cols), down = steps(s->shape[3], s->rows);
  stop.origin[4] = index % across * s->cols;
  index /= across;
  stop.origin[3] = index % down * s->rows;
  index /= down;
  for (int d = 2; d >= 0; d--) {
    stop.origin[d] = index % s->shape[d];
    index /= s->shape[d];
  }
  stop.extent[3] = tu_min(s->rows, s->shape[3] - stop.origin[3]);
  stop.extent[4] = tu_min(s->cols, s->shape[4] - stop.origin[4]);
  return stop;
}

void tu_slide_next(const struct tu_slide *s, struct tu_stop *stop) {
  const size_t step[TUTTI_DIMS] = {1, 1, 1, s->rows, s->cols};
  for (int d = TUTTI_DIMS - 1; d >= 0 && !s->at_once; d--) {
    stop->origin[d] += step[d];
    bool on = stop->origin[d] < s->shape[d];
    if (!on) stop->origin[d] = 0;
    stop->extent[d] = tu_min(step[d], s->shape[d] - stop->origin[d]);
    if (on) return;
  }
}

/* ---- copies ---- */

static struct tu_region part_of(const struct tu_region *region, const struct tu_stop *stop) {
  struct tu_region part = {.map = region->map};
  for (int d = 0; d < TUTTI_DIMS; d++) part.origin[d] = region->origin[d] + stop->origin[d];
  memcpy(part.extent, stop->extent, sizeof part.extent);
  return part;
}

static void copy_part(const struct tu_region *to, void *to_data, const struct tu_region *from, const void *from_data,
                      void *scratch) {
  size_t offset, pitch;
  if (tu_region_is_matrix(to, &offset, &pitch)) {
    tu_region_load(from, from_data, (char *)to_data + offset, pitch);
  } else if (tu_region_is_matrix(from, &offset, &pitch)) {
    tu_region_store(to, to_data, (const char *)from_data + offset, pitch);
  } else {
    pitch = to->extent[4] * tu_map_item_bytes(to->map);
    tu_region_load(from, from_data, scratch, pitch);
    tu_region_store(to, to_data, scratch, pitch);
  }
}

/* Returns true if each matrix of the region (its last two dimensions) lies in memory row by row, with equal distances
 * between the rows. Tests the first matrix, because all matrices of a region lie in the same way. */
static bool lies_in_rows(const struct tu_region *region) {
  struct tu_region first = *region;
  size_t offset, pitch;
  first.extent[0] = first.extent[1] = first.extent[2] = 1;
  return tu_region_is_matrix(&first, &offset, &pitch);
}

void tu_region_copy(const struct tu_region *to, void *to_data, const struct tu_region *from, const void *from_data) {
  _Alignas(TU_LINE_BYTES) unsigned char scratch[SCRATCH_BYTES];
  size_t offset, pitch, items = 1;
  tu_assert(memcmp(to->extent, from->extent, sizeof to->extent) == 0);
  for (int d = 0; d < TUTTI_DIMS; d++) items *= to->extent[d];
  if (items == 0) return;
  if (tu_region_is_matrix(to, &offset, &pitch) || tu_region_is_matrix(from, &offset, &pitch)) {
    copy_part(to, to_data, from, from_data, scratch);
    return;
  }
  size_t rows = to->extent[3], cols = to->extent[4];
  if (!lies_in_rows(to) && !lies_in_rows(from)) {
    size_t room = SCRATCH_BYTES / tu_map_item_bytes(to->map);
    cols = tu_min(cols, room);
    rows = tu_min(rows, room / cols);
  }
  struct tu_slide slide = tu_slide_over(to->extent, rows, cols);
  for (size_t i = 0; i < slide.count; i++) {
    struct tu_stop stop = tu_slide_stop(&slide, i);
    struct tu_region to_part = part_of(to, &stop), from_part = part_of(from, &stop);
    copy_part(&to_part, to_data, &from_part, from_data, scratch);
  }
}
