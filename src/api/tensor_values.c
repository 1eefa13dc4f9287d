/* tensor_values.c: copies a tensor's elements to and from f32 values in logical order without gaps. At most ELEMENTS
 * elements at a time are packed in logical order, as in a message. They are converted in this packed form. */
#include <string.h>
#include <tutti/tensor.h>

#include "base/types.h"
#include "comm/failure.h"
#include "engine/kernels.h"
#include "tensor/map.h"

enum { ELEMENTS = 512 };

/* Checks the arguments. Copies the tensor's description to *known, and creates *map, which states where each element
 * lies in memory. */
static tutti_err begin(const tutti_tensor *tensor, const float *values, const char *call, tutti_tensor *known,
                       struct tu_map **map) {
  struct tu_error error;
  tutti_err err;
  if (!tensor || !tensor->data || !values)
    err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s: %s is NULL; expected a tensor with data, and values", call,
                  !tensor         ? "the tensor"
                  : !tensor->data ? "the tensor's data"
                                  : "values");
  else err = tu_tensor_take(tensor, call, known, &error);
  if (err == TUTTI_OK) err = tu_map_create(known, map, &error);
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

/* Converts `count` f32 values of a row to items of the datatype. An item is one element, or a group of block floats. If
 * the row ends within the last item, the rest of this item becomes zeros. */
static void to_items(tutti_datatype type, void *items, const float *values, size_t count) {
  size_t group = tu_item_elements(type), item_bytes = tu_datatypes[type].bytes;
  if (group == 1) {
    for (size_t i = 0; i < count; i++) tu_from_double(type, (unsigned char *)items + i * item_bytes, (double)values[i]);
    return;
  }
  float filled[ELEMENTS] = {0};
  memcpy(filled, values, count * sizeof *values);
  tu_block_floats_from_f32(type, items, filled, tu_round_up(count, group) / group);
}

static void from_items(tutti_datatype type, float *values, const void *items, size_t count) {
  size_t group = tu_item_elements(type), item_bytes = tu_datatypes[type].bytes;
  if (group == 1) {
    for (size_t i = 0; i < count; i++)
      values[i] = (float)tu_to_double(type, (const unsigned char *)items + i * item_bytes);
    return;
  }
  float filled[ELEMENTS];
  tu_block_floats_to_f32(type, filled, items, tu_round_up(count, group) / group);
  memcpy(values, filled, count * sizeof *values);
}

/* If `to` is not NULL, copies all elements of the tensor to `to`; otherwise copies `from` to the tensor. Each row is
 * converted separately, at most ELEMENTS elements at a time, because each row begins with a new item in the packed
 * order. */
static void convert(const tutti_tensor *t, const struct tu_map *map, float *to, const float *from) {
  const struct tu_region region = whole(map);
  size_t cols = t->shape[TUTTI_DIMS - 1], total = product(t->shape), item_bytes = tu_map_item_bytes(map);
  size_t group = tu_item_elements(t->type), row_items = tu_map_shape(map)[TUTTI_DIMS - 1], row = 0;
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
  tutti_tensor known;
  struct tu_map *map;
  tutti_err err = begin(tensor, values, "tutti_tensor_to_f32", &known, &map);
  if (err != TUTTI_OK) return err;
  convert(&known, map, values, NULL);
  tu_map_destroy(map);
  return TUTTI_OK;
}

tutti_err tutti_tensor_from_f32(const tutti_tensor *tensor, const float *values) {
  tutti_tensor known;
  struct tu_map *map;
  tutti_err err = begin(tensor, values, "tutti_tensor_from_f32", &known, &map);
  if (err != TUTTI_OK) return err;
  convert(&known, map, NULL, values);
  tu_map_destroy(map);
  return TUTTI_OK;
}
