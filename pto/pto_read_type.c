/* pto_read_type.c: reads types, such as !pto.memref<16x32xf32>. */
#include <string.h>

#include "base/types.h"
#include "pto/pto_reader.h"

/* Reads the name of a size. A name has only capitals, digits and underscores, because the letter x separates sizes. */
static bool take_size_name(struct tu_pto_reader *r, int64_t *size) {
  const char *at = r->scan.at;
  struct tu_pto_name name = {.number = TU_PTO_OPEN};
  size_t length = 0;
  for (; at < r->scan.end && ((*at >= 'A' && *at <= 'Z') || (length && ((*at >= '0' && *at <= '9') || *at == '_')));) {
    if (length == sizeof name.name - 1) return false;
    name.name[length++] = *at++;
  }
  if (length == 0) return false;
  r->scan.at = at;
  *size = TU_PTO_OPEN - 1 - (int64_t)tu_pto_size_name(r->module, name.name);
  return true;
}

static tutti_err read_size(struct tu_pto_reader *r, int64_t *size) {
  if (tu_pto_take(r, "?")) {
    *size = TU_PTO_OPEN;
    return TUTTI_OK;
  }
  if (tu_pto_take_number(r, size) || take_size_name(r, size)) return TUTTI_OK;
  return tu_pto_expected(r, "a size: a number of at most 2^46, ?, or a name of at most 15 capitals");
}

/* Lists the datatypes whose items are single elements (no block floats), with their names. Returns their number. */
static uint32_t element_names(const char *names[], tutti_datatype types[]) {
  uint32_t count = 0;
  for (tutti_datatype i = 0; i < TU_DATATYPES; i = tu_datatype_next(i)) {
    if (tu_datatypes[i].elements > 1) continue;
    types[count] = i;
    names[count++] = tu_datatypes[i].name;
  }
  return count;
}

static tutti_err read_element(struct tu_pto_reader *r, tutti_datatype *element) {
  const char *names[TU_DATATYPES];
  tutti_datatype types[TU_DATATYPES];
  uint32_t count = element_names(names, types), i = tu_pto_take_one_of(r, names, count);
  if (i == count) return tu_pto_expected_name(r, "an element type", "", names, count);
  *element = types[i];
  return TUTTI_OK;
}

static bool at_element(struct tu_pto_reader *r) {
  tu_scan_blanks(&r->scan);
  return r->scan.at < r->scan.end && *r->scan.at >= 'a' && *r->scan.at <= 'z';
}

/* Reads sizes separated by x, such as "16x32". *element_follows becomes true if an element type follows after an x (as
 * in "16x32xf32"). */
static tutti_err read_sizes(struct tu_pto_reader *r, struct tu_pto_type *type, bool *element_follows) {
  int64_t sizes[TUTTI_DIMS];
  *element_follows = false;
  do {
    if (type->dims == TUTTI_DIMS) return tu_pto_expected(r, "at most 5 dimensions");
    tutti_err err = read_size(r, &sizes[type->dims]);
    if (err != TUTTI_OK) return err;
    type->dims++;
    if (!tu_pto_take(r, "x")) break;
    *element_follows = at_element(r);
  } while (!*element_follows);
  memcpy(type->shape + TUTTI_DIMS - type->dims, sizes, type->dims * sizeof *sizes);
  return TUTTI_OK;
}

/* Reads the rest of "strided<[64, 1]>", after the word "strided". */
static tutti_err read_strides(struct tu_pto_reader *r, struct tu_pto_type *type) {
  if (!tu_pto_take(r, "<") || !tu_pto_take(r, "[")) return tu_pto_expected(r, "'<[', for example strided<[64, 1]>");
  for (uint32_t d = TUTTI_DIMS - type->dims; d < TUTTI_DIMS; d++) {
    if (!tu_pto_take_number(r, &type->strides[d]))
      return tu_pto_expected(r, "a stride for each dimension (a number of at most 2^46)");
    if (d + 1 < TUTTI_DIMS && !tu_pto_take(r, ",")) return tu_pto_expected(r, "',' and a stride for each dimension");
  }
  if (!tu_pto_take(r, "]") || !tu_pto_take(r, ">")) return tu_pto_expected(r, "']>'");
  type->strided = true;
  return TUTTI_OK;
}

/* Reads the contents of a memref's brackets: "16x32xf32", "i32", "i32, MxN" or "...". All forms except "..." may be
 * followed by strides. */
static tutti_err read_memref(struct tu_pto_reader *r, struct tu_pto_type *type) {
  for (int d = 0; d < TUTTI_DIMS; d++) type->shape[d] = 1;
  if (tu_pto_take(r, "...")) {
    type->elided = true;
    return TUTTI_OK;
  }
  tutti_err err;
  bool sizes_first = !at_element(r), element_follows;
  if (sizes_first) {
    if ((err = read_sizes(r, type, &element_follows)) != TUTTI_OK) return err;
    if (!element_follows) return tu_pto_expected(r, "'x' and a size, or 'x' and an element type");
  }
  if ((err = read_element(r, &type->element)) != TUTTI_OK) return err;
  bool more = tu_pto_take(r, ",");
  if (more && !sizes_first && !at_element(r)) {
    if ((err = read_sizes(r, type, &element_follows)) != TUTTI_OK) return err;
    if (element_follows) return tu_pto_expected(r, "a size");
    more = tu_pto_take(r, ",");
  }
  if (!more) return TUTTI_OK;
  if (type->dims == 0 || !tu_pto_take_word(r, "strided"))
    return tu_pto_expected(r, type->dims ? "'strided<[...]>'" : "sizes, for example i32, 4x8");
  return read_strides(r, type);
}

/* Reads the contents of a group's brackets: "4x!pto.memref<...>", "4" or "...". */
static tutti_err read_group(struct tu_pto_reader *r, struct tu_pto_type *type) {
  type->count = TU_PTO_OPEN;
  type->elided = true;
  if (tu_pto_take(r, "...")) return TUTTI_OK;
  int64_t count;
  tutti_err err = read_size(r, &count);
  if (err != TUTTI_OK) return err;
  type->count = count;
  if (!tu_pto_take(r, "x")) return TUTTI_OK;
  if (!tu_pto_take(r, "!pto.memref") || !tu_pto_take(r, "<")) return tu_pto_expected(r, "'!pto.memref<'");
  type->elided = false;
  if ((err = read_memref(r, type)) != TUTTI_OK) return err;
  return tu_pto_take(r, ">") ? TUTTI_OK : tu_pto_expected(r, "'>'");
}

static tutti_err read_tile_size(struct tu_pto_reader *r, uint32_t *size) {
  int64_t number;
  struct tu_scan before = r->scan;
  if (tu_pto_take_number(r, &number) && number <= TU_PTO_TILE_MAX) {
    *size = (uint32_t)number;
    return TUTTI_OK;
  }
  r->scan = before;
  return tu_pto_expected(r, "a number of at most 2^20");
}

/* Reads a number of valid rows or columns: "5" (exactly 5), "5?" (up to 5), or "?" (up to `all`). */
static tutti_err read_valid(struct tu_pto_reader *r, uint32_t all, struct tu_pto_valid *valid) {
  valid->count = all;
  valid->open = tu_pto_take(r, "?");
  if (valid->open) return TUTTI_OK;
  tutti_err err = read_tile_size(r, &valid->count);
  if (err == TUTTI_OK) valid->open = tu_pto_take(r, "?");
  return err;
}

/* Reads the contents of a tile's brackets: "16x32xf32, valid=?x32" or "...". */
static tutti_err read_tile(struct tu_pto_reader *r, struct tu_pto_type *type) {
  type->elided = tu_pto_take(r, "...");
  if (type->elided) return TUTTI_OK;
  tutti_err err;
  if ((err = read_tile_size(r, &type->rows)) != TUTTI_OK) return err;
  if (!tu_pto_take(r, "x")) return tu_pto_expected(r, "'x' and columns");
  if ((err = read_tile_size(r, &type->cols)) != TUTTI_OK) return err;
  if (!tu_pto_take(r, "x")) return tu_pto_expected(r, "'x' and an element type");
  if ((err = read_element(r, &type->element)) != TUTTI_OK) return err;
  type->valid_rows.count = type->rows;
  type->valid_cols.count = type->cols;
  if (!tu_pto_take(r, ",")) return TUTTI_OK;
  if (!tu_pto_take_word(r, "valid") || !tu_pto_take(r, "=")) return tu_pto_expected(r, "'valid='");
  if ((err = read_valid(r, type->rows, &type->valid_rows)) != TUTTI_OK) return err;
  if (!tu_pto_take(r, "x")) return tu_pto_expected(r, "'x' and valid columns");
  return read_valid(r, type->cols, &type->valid_cols);
}

/* Reads a type that begins with !pto, such as !pto.memref<...>. */
static tutti_err read_pto_type(struct tu_pto_reader *r, struct tu_pto_type *type) {
  static const char *const names[] = {"pto.event", "pto.memref", "pto.group", "pto.tile"};
  struct tu_scan before = r->scan;
  uint32_t name = tu_pto_take(r, "!") ? tu_pto_take_one_of(r, names, 4) : 4;
  if (name == 4) {
    r->scan = before;
    return tu_pto_expected_name(r, "!pto.memref, !pto.group, !pto.tile or !pto.event", "!", names, 4);
  }
  type->kind = (enum tu_pto_kind)(TU_PTO_EVENT + name);
  if (type->kind == TU_PTO_EVENT) return TUTTI_OK;
  if (!tu_pto_take(r, "<")) return tu_pto_expected(r, "'<'");
  tutti_err err = type->kind == TU_PTO_MEMREF  ? read_memref(r, type)
                  : type->kind == TU_PTO_GROUP ? read_group(r, type)
                                               : read_tile(r, type);
  if (err != TUTTI_OK) return err;
  return tu_pto_take(r, ">") ? TUTTI_OK : tu_pto_expected(r, "'>'");
}

static tutti_err read_scalar(struct tu_pto_reader *r, struct tu_pto_type *type) {
  const char *names[TU_DATATYPES + 2];
  tutti_datatype types[TU_DATATYPES];
  uint32_t count = element_names(names, types);
  names[count] = "index";
  names[count + 1] = "i1";
  uint32_t i = tu_pto_take_one_of(r, names, count + 2);
  if (i == count + 2)
    return tu_pto_expected_name(
        r, "a type (!pto.memref<...>, !pto.group<...>, !pto.tile<...>, !pto.event, index, i1, i32, ...)", "", names,
        count + 2);
  type->kind = i == count ? TU_PTO_INDEX : i > count ? TU_PTO_BOOL : TU_PTO_SCALAR;
  if (i < count) type->element = types[i];
  return TUTTI_OK;
}

tutti_err tu_pto_read_type(struct tu_pto_reader *r, struct tu_pto_type *type) {
  struct tu_pto_position position = tu_pto_position_of(r);
  *type = (struct tu_pto_type){0};
  bool ours = r->scan.at < r->scan.end && *r->scan.at == '!';
  tutti_err err = ours ? read_pto_type(r, type) : read_scalar(r, type);
  if (err != TUTTI_OK) return err;
  const char *wanted = tu_pto_why_not(type);
  char spelled[TU_PTO_SPELLED];
  if (!wanted) return TUTTI_OK;
  return tu_pto_fail(r->module, position, r->error, "expected %s, found %s", wanted,
                     tu_pto_spell(r->module, type, spelled));
}
