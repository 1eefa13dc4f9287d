/* pto_types.c: validity of types, agreement of two types, and replacement of named sizes once their numbers are
 * known. */
#include <string.h>

#include "base/types.h"
#include "pto/pto_internal.h"

/* ---- validity of types ---- */

/* Returns NULL if the strides are valid; otherwise a text that states what is expected of them. A stride is valid if it
 * is larger than the largest offset that the dimensions with smaller strides can reach together. Then no two elements
 * overlap. All views made by slicing and transposing have such strides. */
static const char *why_not_strided(const struct tu_pto_type *type) {
  uint32_t order[TUTTI_DIMS], count = 0;
  for (uint32_t d = 0; d < TUTTI_DIMS; d++) {
    if (type->shape[d] == 0 || type->shape[d] < 0)
      return NULL; /* no check is possible: a size is not known yet, or the type has no elements */
    if (type->shape[d] == 1) continue;
    uint32_t at = count++;
    for (; at > 0 && type->strides[order[at - 1]] > type->strides[d]; at--) order[at] = order[at - 1];
    order[at] = d;
  }
  int64_t reach = 0, farthest = (int64_t)1 << TU_PTO_SIZE_MAX_LOG2;
  for (uint32_t i = 0; i < count; i++) {
    int64_t extent = type->shape[order[i]], stride = type->strides[order[i]], step;
    if (stride <= reach) return "strides with which no elements overlap";
    if (__builtin_mul_overflow(extent - 1, stride, &step) || step > farthest - reach)
      return "a memref of at most 64 TiB";
    reach += step;
  }
  return reach > farthest / tu_datatypes[type->element].bytes ? "a memref of at most 64 TiB" : NULL;
}

static const char *why_not_tile(const struct tu_pto_type *type) {
  size_t bytes = tu_datatypes[type->element].bytes;
  if (type->rows == 0 || type->cols == 0) return "a tile of at least one row and one column";
  if (type->cols * bytes % 32 != 0) return "a tile whose rows are a multiple of 32 bytes";
  if (type->rows * bytes * type->cols > (size_t)1 << 30) return "a tile of at most 1 GiB";
  if (type->valid_rows.count == 0 || type->valid_rows.count > type->rows)
    return "a number of valid rows from 1 to the number of rows";
  if (type->valid_cols.count == 0 || type->valid_cols.count > type->cols)
    return "a number of valid columns from 1 to the number of columns";
  return NULL;
}

const char *tu_pto_why_not(const struct tu_pto_type *type) {
  if (type->kind == TU_PTO_GROUP && type->count == 0) return "a group of at least one memref";
  if (type->elided) return NULL;
  if (type->kind == TU_PTO_TILE) return why_not_tile(type);
  if (type->kind != TU_PTO_MEMREF && type->kind != TU_PTO_GROUP) return NULL;
  int64_t bytes = tu_datatypes[type->element].bytes;
  for (int d = 0; d < TUTTI_DIMS; d++)
    if (type->shape[d] > 0 && __builtin_mul_overflow(bytes, type->shape[d], &bytes))
      return "a memref of at most 64 TiB";
  if (bytes > (int64_t)1 << TU_PTO_SIZE_MAX_LOG2) return "a memref of at most 64 TiB";
  return type->strided ? why_not_strided(type) : NULL;
}

bool tu_pto_is_closed(const struct tu_pto_type *type) {
  bool closed = !type->elided && (type->kind != TU_PTO_GROUP || type->count >= 0);
  if (type->kind == TU_PTO_MEMREF || type->kind == TU_PTO_GROUP)
    for (int d = 0; d < TUTTI_DIMS; d++) closed &= type->shape[d] >= 0;
  return closed;
}

/* ---- agreement of two types ---- */

static struct tu_pto_name *name_of(const struct tu_pto_module *module, int64_t size) {
  return size < TU_PTO_OPEN ? &module->names[TU_PTO_OPEN - 1 - size] : NULL;
}

/* Returns the number for which `size` stands: `size` itself, or the number of a name if `size` is the code of a name
 * (see TU_PTO_OPEN). Returns TU_PTO_OPEN if the number is unknown. */
static int64_t number_of(const struct tu_pto_module *module, int64_t size) {
  const struct tu_pto_name *name = name_of(module, size);
  return name ? name->number : size;
}

static bool merge_size(struct tu_pto_module *module, int64_t *size, int64_t said) {
  int64_t ours = number_of(module, *size), theirs = number_of(module, said);
  if (ours >= 0 && theirs >= 0) return ours == theirs;
  if (name_of(module, *size) && theirs >= 0) name_of(module, *size)->number = theirs;
  if (name_of(module, said) && ours >= 0) name_of(module, said)->number = ours;
  if (*size == TU_PTO_OPEN) *size = said;
  return true;
}

/* Computes the strides of a type, as far as its sizes are known. The elements of a type without strides are stored row
 * by row. */
static void strides_of(const struct tu_pto_module *module, const struct tu_pto_type *type,
                       int64_t strides[TUTTI_DIMS]) {
  int64_t stride = 1;
  for (int d = TUTTI_DIMS - 1; d >= 0; d--) {
    int64_t size = number_of(module, type->shape[d]);
    strides[d] = type->strided ? type->strides[d] : stride;
    if (stride < 0 || size == 0) continue;
    if (size < 0 || __builtin_mul_overflow(stride, size, &stride)) stride = TU_PTO_OPEN;
  }
}

/* Returns true if the known strides of the two types agree. The stride of a dimension of size 0 or 1 does not
 * matter. */
static bool same_strides(const struct tu_pto_module *module, const struct tu_pto_type *a, const struct tu_pto_type *b) {
  int64_t left[TUTTI_DIMS], right[TUTTI_DIMS];
  strides_of(module, a, left);
  strides_of(module, b, right);
  for (int d = 0; d < TUTTI_DIMS; d++) {
    int64_t size = number_of(module, a->shape[d]);
    if (size != 0 && size != 1 && left[d] >= 0 && right[d] >= 0 && left[d] != right[d]) return false;
  }
  return true;
}

static bool merge_memref(struct tu_pto_module *module, struct tu_pto_type *type, const struct tu_pto_type *said) {
  if (said->elided) return true;
  if (type->elided) {
    int64_t count = type->count;
    *type = *said;
    type->count = count;
    return true;
  }
  if (type->element != said->element) return false;
  for (int d = 0; d < TUTTI_DIMS; d++)
    if (!merge_size(module, &type->shape[d], said->shape[d])) return false;
  return same_strides(module, type, said);
}

static bool same_valid(struct tu_pto_valid a, struct tu_pto_valid b) { return a.count == b.count && a.open == b.open; }

bool tu_pto_same_tile(const struct tu_pto_type *a, const struct tu_pto_type *b) {
  return a->element == b->element && a->rows == b->rows && a->cols == b->cols &&
         same_valid(a->valid_rows, b->valid_rows) && same_valid(a->valid_cols, b->valid_cols);
}

bool tu_pto_merge(struct tu_pto_module *module, struct tu_pto_type *type, const struct tu_pto_type *said) {
  tu_assert(type->kind == said->kind);
  switch (type->kind) {
    case TU_PTO_INDEX:
    case TU_PTO_BOOL:
    case TU_PTO_EVENT: return true;
    case TU_PTO_SCALAR: return type->element == said->element;
    case TU_PTO_GROUP: return merge_size(module, &type->count, said->count) && merge_memref(module, type, said);
    case TU_PTO_MEMREF: return merge_memref(module, type, said);
    case TU_PTO_TILE: break;
  }
  if (type->elided || said->elided) {
    if (type->elided) *type = *said;
    return true;
  }
  return tu_pto_same_tile(type, said);
}

static void close_size(const struct tu_pto_module *module, int64_t *size) {
  int64_t number = number_of(module, *size);
  if (number >= 0) *size = number;
}

tutti_err tu_pto_close_names(struct tu_pto_module *module, struct tu_error *error) {
  for (uint32_t i = 0; i < module->value_count; i++) {
    struct tu_pto_value *value = &module->values[i];
    if (value->type.kind != TU_PTO_MEMREF && value->type.kind != TU_PTO_GROUP) continue;
    if (value->type.kind == TU_PTO_GROUP) close_size(module, &value->type.count);
    if (!value->type.elided)
      for (int d = 0; d < TUTTI_DIMS; d++) close_size(module, &value->type.shape[d]);
    const char *wanted = tu_pto_why_not(&value->type);
    char spelled[TU_PTO_SPELLED];
    if (wanted)
      return tu_pto_fail(module, value->position, error, "expected %s, found %%%s : %s", wanted, value->name,
                         tu_pto_spell(module, &value->type, spelled));
  }
  return TUTTI_OK;
}

tutti_err tu_pto_bind(struct tu_pto_module *module, uint32_t value, const struct tu_pto_type *type,
                      struct tu_error *error) {
  tu_assert(value < module->value_count && module->values[value].origin == TU_PTO_ARGUMENT);
  struct tu_pto_value *v = &module->values[value];
  char ours[TU_PTO_SPELLED], theirs[TU_PTO_SPELLED];
  struct tu_pto_type merged = v->type;
  if (v->type.kind != type->kind || !tu_pto_merge(module, &merged, type))
    return tu_pto_fail(module, v->position, error, "expected %s for %%%s, found %s",
                       tu_pto_spell(module, &v->type, ours), v->name, tu_pto_spell(module, type, theirs));
  v->type = merged;
  return tu_pto_close_names(module, error);
}

/* ---- numbers as values ---- */

bool tu_pto_fits(const struct tu_pto_type *type, bool negative, uint64_t magnitude, int64_t *number) {
  uint64_t below = 0, above = INT64_MAX; /* the type can represent all numbers from -below to above */
  if (type->kind == TU_PTO_BOOL) above = 1;
  if (type->kind == TU_PTO_SCALAR) {
    const struct tu_datatype *t = &tu_datatypes[type->element];
    uint32_t bits = 8u * t->bytes - (t->is_signed ? 1 : 0);
    if (bits < 63) above = ((uint64_t)1 << bits) - 1;
    if (t->is_signed) below = above + 1;
  }
  if (magnitude > (negative ? below : above)) return false;
  *number = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
  return true;
}

tutti_err tu_pto_bind_number(struct tu_pto_module *module, uint32_t value, int64_t number, struct tu_error *error) {
  tu_assert(value < module->value_count && module->values[value].origin == TU_PTO_ARGUMENT);
  struct tu_pto_value *v = &module->values[value];
  char spelled[TU_PTO_SPELLED];
  bool whole =
      v->type.kind <= TU_PTO_BOOL && (v->type.kind != TU_PTO_SCALAR || !tu_datatypes[v->type.element].floating);
  uint64_t magnitude = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
  if (!whole || !tu_pto_fits(&v->type, number < 0, magnitude, &v->number))
    return tu_pto_fail(module, v->position, error, "expected %s for %%%s, found %lld",
                       tu_pto_spell(module, &v->type, spelled), v->name, (long long)number);
  v->origin = TU_PTO_CONSTANT;
  return TUTTI_OK;
}
