/* tensor_values.c: a tensor's elements to and from dense rows of f32. Some hundred at a time are packed as they would cross,
 * and converted there. */
#include <string.h>
#include <tutti/tensor.h>

#include "api/comm.h"
#include "base/types.h"
#include "engine/kernels.h"

enum { ELEMENTS = 512 };

static tutti_err begin(const tutti_tensor *tensor, const float *values, const char *call, struct tu_map **map) {
  struct tu_error error;
  tutti_err err;
  if (!tensor || !tensor->data || !values)
    err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s: %s is NULL; it needs a tensor with memory, and values", call,
                  !tensor         ? "the tensor"
                  : !tensor->data ? "the tensor's data"
                                  : "values");
  else err = tu_map_create(tensor, map, &error);
  return err == TUTTI_OK ? TUTTI_OK : tu_thread_error(&error);
}

static size_t product(const size_t shape[TUTTI_DIMS]) {
  size_t count = 1;
  for (int d = 0; d < TUTTI_DIMS; d++) count *= shape[d];
  return count;
}

static struct tu_region whole(const struct tu_map *map) {
  struct tu_region region = {.map = map};
  memcpy(region.extent, tu_map_shape(map), sizeof region.extent);
  return region;
}

/* So many elements of a row, from one on; those of an item that are beyond the row are zeros. */
static void to_items(tutti_datatype type, void *items, const float *values, size_t count) {
  size_t group = tu_datatype_group(type), item_bytes = tu_datatypes[type].bytes;
  if (group == 1) {
    for (size_t i = 0; i < count; i++) tu_from_double(type, (unsigned char *)items + i * item_bytes, (double)values[i]);
    return;
  }
  float filled[ELEMENTS] = {0};
  memcpy(filled, values, count * sizeof *values);
  tu_groups_from_f32(type, items, filled, tu_round_up(count, group) / group);
}

static void from_items(tutti_datatype type, float *values, const void *items, size_t count) {
  size_t group = tu_datatype_group(type), item_bytes = tu_datatypes[type].bytes;
  if (group == 1) {
    for (size_t i = 0; i < count; i++)
      values[i] = (float)tu_to_double(type, (const unsigned char *)items + i * item_bytes);
    return;
  }
  float filled[ELEMENTS];
  tu_groups_to_f32(type, filled, items, tu_round_up(count, group) / group);
  memcpy(values, filled, count * sizeof *values);
}

/* Rows of items, each a whole number: a piece never goes on in the next row. */
static void convert(const tutti_tensor *t, const struct tu_map *map, float *to, const float *from) {
  const struct tu_region region = whole(map);
  size_t cols = t->shape[TUTTI_DIMS - 1], total = product(t->shape), item_bytes = tu_map_item_bytes(map);
  size_t group = tu_datatype_group(t->type), row_items = tu_map_shape(map)[TUTTI_DIMS - 1], row = 0;
  for (size_t at = 0; at < total; at += cols, row++)
    for (size_t col = 0; col < cols; col += ELEMENTS) {
      _Alignas(TU_LINE_BYTES) unsigned char items[ELEMENTS * sizeof(double)];
      size_t count = tu_min(ELEMENTS, cols - col), bytes = tu_round_up(count, group) / group * item_bytes;
      size_t offset = (row * row_items + col / group) * item_bytes;
      if (to) {
        tu_region_pack(&region, t->data, offset, bytes, items);
        from_items(t->type, to + at + col, items, count);
      } else {
        to_items(t->type, items, from + at + col, count);
        tu_region_unpack(&region, t->data, offset, bytes, items);
      }
    }
}

tutti_err tutti_tensor_to_f32(const tutti_tensor *tensor, float *values) {
  struct tu_map *map;
  tutti_err err = begin(tensor, values, "tutti_tensor_to_f32", &map);
  if (err != TUTTI_OK) return err;
  convert(tensor, map, values, NULL);
  tu_map_destroy(map);
  return TUTTI_OK;
}

tutti_err tutti_tensor_from_f32(const tutti_tensor *tensor, const float *values) {
  struct tu_map *map;
  tutti_err err = begin(tensor, values, "tutti_tensor_from_f32", &map);
  if (err != TUTTI_OK) return err;
  convert(tensor, map, NULL, values);
  tu_map_destroy(map);
  return TUTTI_OK;
}
