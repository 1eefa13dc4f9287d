/* located.c: tensor arguments of one-sided calls: checks the tensors, finds their windows, and compares tensors. */
#include "onesided/located.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call/tensors.h"
#include "onesided/windows.h"

static tutti_err fail(const struct tu_located *located, struct tu_error *error, const char *what) {
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: %s: %s", located->call, located->name, what);
}

static tutti_err find(struct tu_located *located, struct tu_error *error) {
  located->window = tu_window_find(located->tensor.data, &located->rank);
  if (!located->window) return TUTTI_OK;
  const struct tu_window_part *part = &located->window->parts[located->rank];
  size_t offset = (size_t)((uintptr_t)located->tensor.data - (uintptr_t)part->memory);
  if (located->extent > part->bytes - offset)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: %s takes %zu bytes from byte %zu of rank %u's part of a window, but the part has %zu bytes; "
                   "make the window larger or the tensor smaller",
                   located->call, located->name, located->extent, offset, located->rank, part->bytes);
  located->far = tu_window_is_far(located->window, located->rank);
  return tu_window_check(located->window, located->call, error);
}

struct tu_far_memory tu_located_far(const struct tu_located *l) {
  const unsigned char *part = l->window->parts[l->rank].memory;
  return (struct tu_far_memory){l->window, l->rank, (size_t)((uintptr_t)l->tensor.data - (uintptr_t)part)};
}

tutti_err tu_located_open(struct tu_located *located, const char *call, const char *name, const tutti_tensor *tensor,
                          struct tu_error *error) {
  struct tu_error why;
  *located = (struct tu_located){.call = call, .name = name};
  if (!tensor) return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: %s is NULL", call, name);
  tutti_err err = tu_tensor_take(tensor, "tensor", &located->tensor, &why);
  if (err == TUTTI_OK) err = tu_map_create(&located->tensor, &located->map, &why);
  if (err != TUTTI_OK) return tu_fail(error, err, "%s: %s: %.400s", call, name, why.text);
  located->extent = tu_map_extent(located->map);
  if (tu_located_is_empty(located)) return TUTTI_OK;
  if (!located->tensor.data)
    return fail(located, error, "data is NULL; tutti_window_address returns the address of a window's memory");
  return find(located, error);
}

void tu_located_close(struct tu_located *located) {
  tu_map_destroy(located->map);
  located->map = NULL;
}

bool tu_located_is_empty(const struct tu_located *located) {
  for (int d = 0; d < TUTTI_DIMS; d++)
    if (located->tensor.shape[d] == 0) return true;
  return false;
}

tutti_err tu_located_need_window(const struct tu_located *located, struct tu_error *error) {
  if (located->window) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT,
                 "%s: %s is at %p, which is in no window of this process; expected memory of a window "
                 "(tutti_window_create, tutti_window_address)",
                 located->call, located->name, located->tensor.data);
}

static void print_shape(const size_t shape[TUTTI_DIMS], char text[128]) {
  snprintf(text, 128, "%zux%zux%zux%zux%zu", shape[0], shape[1], shape[2], shape[3], shape[4]);
}

tutti_err tu_located_match(const struct tu_located *a, const struct tu_located *b, bool also_rows,
                           struct tu_error *error) {
  char of_a[128], of_b[128];
  bool same = true;
  if (a->tensor.type != b->tensor.type)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: %s has type %s, but %s has type %s; the types must be equal",
                   a->call, a->name, tutti_datatype_name(a->tensor.type), b->name, tutti_datatype_name(b->tensor.type));
  for (int d = 0; d < TUTTI_DIMS; d++)
    if (d != 3 || also_rows) same &= a->tensor.shape[d] == b->tensor.shape[d];
  if (same) return TUTTI_OK;
  print_shape(a->tensor.shape, of_a);
  print_shape(b->tensor.shape, of_b);
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: %s has shape %s, but %s has shape %s; the shapes must be equal%s",
                 a->call, a->name, of_a, b->name, of_b, also_rows ? "" : ", except in dimension 3");
}

/* ---- row ranges of tensors ---- */

struct tu_region tu_end_region(const struct tu_end *end) {
  struct tu_region region = {.map = end->located->map, .origin[3] = end->row};
  memcpy(region.extent, tu_map_shape(end->located->map), sizeof region.extent);
  region.extent[3] = end->rows;
  return region;
}

/* Returns true if both tensors are strided and have equal strides in all dimensions with an extent above 1. Such
 * tensors may be views of the same memory. */
static bool same_steps(const tutti_tensor *x, const tutti_tensor *y, const size_t extent[TUTTI_DIMS]) {
  for (int d = 0; d < TUTTI_DIMS; d++)
    if (extent[d] > 1 && x->strides[d] != y->strides[d]) return false;
  return x->layout.placement == TUTTI_STRIDED && y->layout.placement == TUTTI_STRIDED;
}

bool tu_end_same(const struct tu_end *a, const struct tu_end *b) {
  const tutti_tensor *x = &a->located->tensor, *y = &b->located->tensor;
  struct tu_region g = tu_end_region(a), h = tu_end_region(b);
  if (memcmp(g.extent, h.extent, sizeof g.extent) != 0) return false;
  if (same_steps(x, y, g.extent))
    return (char *)x->data + tu_map_offset(g.map, g.origin) == (char *)y->data + tu_map_offset(h.map, h.origin);
  return x->data == y->data && a->row == b->row && tu_tensors_alike(x, y);
}

tutti_err tu_end_apart(const struct tu_end *to, const struct tu_end *from, struct tu_error *error) {
  const struct tu_located *a = to->located, *b = from->located;
  const struct tu_region target = tu_end_region(to), source = tu_end_region(from);
  bool shared;
  if (!tu_regions_share(&target, a->tensor.data, &source, b->tensor.data, &shared))
    return tu_fail(error, TUTTI_ERR_MEMORY,
                   "%s: out of memory: cannot check whether %s and %s overlap; their memory ranges, of %zu and %zu "
                   "bytes, intersect",
                   a->call, a->name, b->name, a->extent, b->extent);
  if (!shared) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT,
                 "%s: %s and %s overlap; expected exactly the same elements, or no common memory", a->call, a->name,
                 b->name);
}
