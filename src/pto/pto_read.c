/* pto_read.c: modules from text, by recursive descent. One statement follows the other, each on one line or ended by ';'. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/types.h"
#include "pto/pto_parts.h"

struct reader {
  struct tu_scan scan;
  const char *begin; /* of the text */
  const char *line_begin;
  uint32_t line; /* whose begin that is */
  struct tu_pto_module *module;
  struct tu_error *error;
};

/* ---- places and sentences ---- */

static struct tu_pto_place place_of(struct reader *r) {
  tu_scan_blanks(&r->scan);
  if (r->line != r->scan.line) {
    const char *begin = r->scan.at;
    while (begin > r->begin && begin[-1] != '\n') begin--;
    r->line_begin = begin;
    r->line = r->scan.line;
  }
  return (struct tu_pto_place){r->scan.line, (uint32_t)(r->scan.at - r->line_begin) + 1};
}

static bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

enum { NEXT_BYTES = 48 };

/* What comes next, as a sentence has it: a word with what leads it, or one character. */
static void spell_next(struct reader *r, char spelled[NEXT_BYTES]) {
  tu_scan_blanks(&r->scan);
  const char *at = r->scan.at, *end = r->scan.end;
  if (at == end || *at == '\n') {
    snprintf(spelled, NEXT_BYTES, "the end of the %s", at == end ? "text" : "line");
    return;
  }
  char word[NEXT_BYTES - 2];
  size_t length = 0;
  do word[length++] = *at < ' ' || *at > '~' ? '?' : *at;
  while ((length > 1 || is_name_char(*at) || strchr("%!#-", *at)) && ++at < end && is_name_char(*at) &&
         length < sizeof word - 1);
  word[length] = '\0';
  snprintf(spelled, NEXT_BYTES, "'%s'", word);
}

static tutti_err expected(struct reader *r, const char *what) {
  char found[NEXT_BYTES];
  spell_next(r, found);
  return tu_pto_fail(r->module, place_of(r), r->error, "expected %s, found %s", what, found);
}

/* ... where a name may be meant: of these, or that follows `prefix`. */
static tutti_err expected_name(struct reader *r, const char *what, const char *prefix, const char *const names[],
                               size_t count) {
  char found[NEXT_BYTES], word[NEXT_BYTES];
  spell_next(r, found);
  snprintf(word, sizeof word, "%s", found + 1);
  word[strcspn(word, "'")] = '\0';
  size_t skip = strncmp(word, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
  const char *near = found[0] == '\'' ? tu_nearest(word + skip, names, count) : NULL;
  if (!near) return tu_pto_fail(r->module, place_of(r), r->error, "expected %s, found %s", what, found);
  return tu_pto_fail(r->module, place_of(r), r->error, "expected %s, found %s; did you mean '%s%s'?", what, found,
                     prefix, near);
}

/* ---- words and numbers ---- */

static bool take(struct reader *r, const char *chars) { return tu_scan_literal(&r->scan, chars); }

/* All name characters that come next; false if there are none, or too many. */
static bool take_name(struct reader *r, char *name, size_t name_bytes) {
  tu_scan_blanks(&r->scan);
  size_t length = 0, left = (size_t)(r->scan.end - r->scan.at);
  while (length < left && is_name_char(r->scan.at[length])) length++;
  if (length == 0 || length >= name_bytes) return false;
  memcpy(name, r->scan.at, length);
  name[length] = '\0';
  r->scan.at += length;
  return true;
}

/* Takes one of these words; returns its number, `count` if none of them comes next. */
static uint32_t take_one_of(struct reader *r, const char *const words[], uint32_t count) {
  struct tu_scan before = r->scan;
  char word[TU_PTO_NAME_BYTES];
  uint32_t i = count;
  if (take_name(r, word, sizeof word))
    for (i = 0; i < count && strcmp(word, words[i]) != 0;) i++;
  if (i == count) r->scan = before;
  return i;
}

/* Digits; false if there are none, or they say more than any size may be. */
static bool take_number(struct reader *r, int64_t *number) {
  tu_scan_blanks(&r->scan);
  const char *at = r->scan.at;
  int64_t value = 0;
  for (; at < r->scan.end && *at >= '0' && *at <= '9'; at++) {
    value = value * 10 + (*at - '0');
    if (value > (int64_t)1 << TU_PTO_SIZE_MAX_LOG2) return false;
  }
  if (at == r->scan.at) return false;
  r->scan.at = at;
  *number = value;
  return true;
}

/* ---- types ---- */

/* A name for a size: capitals, digits, underscores, so that the x between two sizes is no part of it. */
static bool take_size_name(struct reader *r, int64_t *size) {
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

static tutti_err read_size(struct reader *r, int64_t *size) {
  if (take(r, "?")) {
    *size = TU_PTO_OPEN;
    return TUTTI_OK;
  }
  if (take_number(r, size) || take_size_name(r, size)) return TUTTI_OK;
  return expected(r, "a size: a number of at most 2^46, ?, or a name of at most 15 capitals");
}

/* Data types that an element can have by itself. */
static uint32_t element_names(const char *names[], tutti_datatype types[]) {
  uint32_t count = 0;
  for (int i = 0; i < TUTTI_DATATYPES; i++) {
    if (tu_datatypes[i].group > 1) continue;
    types[count] = (tutti_datatype)i;
    names[count++] = tu_datatypes[i].name;
  }
  return count;
}

static tutti_err read_element(struct reader *r, tutti_datatype *element) {
  const char *names[TUTTI_DATATYPES];
  tutti_datatype types[TUTTI_DATATYPES];
  uint32_t count = element_names(names, types), i = take_one_of(r, names, count);
  if (i == count) return expected_name(r, "a type of elements", "", names, count);
  *element = types[i];
  return TUTTI_OK;
}

static bool at_element(struct reader *r) {
  tu_scan_blanks(&r->scan);
  return r->scan.at < r->scan.end && *r->scan.at >= 'a' && *r->scan.at <= 'z';
}

/* "16x32": until no x follows, or an x and an element type. */
static tutti_err read_sizes(struct reader *r, struct tu_pto_type *type, bool *element_follows) {
  int64_t sizes[TUTTI_DIMS];
  *element_follows = false;
  do {
    if (type->dims == TUTTI_DIMS) return expected(r, "at most 5 dimensions");
    tutti_err err = read_size(r, &sizes[type->dims]);
    if (err != TUTTI_OK) return err;
    type->dims++;
    if (!take(r, "x")) break;
    *element_follows = at_element(r);
  } while (!*element_follows);
  memcpy(type->shape + TUTTI_DIMS - type->dims, sizes, type->dims * sizeof *sizes);
  return TUTTI_OK;
}

/* "strided<[64, 1]>" behind its first word. */
static tutti_err read_strides(struct reader *r, struct tu_pto_type *type) {
  if (!take(r, "<") || !take(r, "[")) return expected(r, "'<[', as in strided<[64, 1]>");
  for (uint32_t d = TUTTI_DIMS - type->dims; d < TUTTI_DIMS; d++) {
    if (!take_number(r, &type->strides[d])) return expected(r, "a stride for each dimension, a number of at most 2^46");
    if (d + 1 < TUTTI_DIMS && !take(r, ",")) return expected(r, "',': there is a stride for each dimension");
  }
  if (!take(r, "]") || !take(r, ">")) return expected(r, "']>'");
  type->strided = true;
  return TUTTI_OK;
}

static bool take_word(struct reader *r, const char *word) { return take_one_of(r, &word, 1) == 0; }

/* What stands in the brackets: "16x32xf32", "i32", "i32, MxN", "...", each with strides or without. */
static tutti_err read_memref(struct reader *r, struct tu_pto_type *type) {
  for (int d = 0; d < TUTTI_DIMS; d++) type->shape[d] = 1;
  if (take(r, "...")) {
    type->elided = true;
    return TUTTI_OK;
  }
  tutti_err err;
  bool sizes_first = !at_element(r), element_follows;
  if (sizes_first) {
    if ((err = read_sizes(r, type, &element_follows)) != TUTTI_OK) return err;
    if (!element_follows) return expected(r, "'x' and a size, or 'x' and a type of elements");
  }
  if ((err = read_element(r, &type->element)) != TUTTI_OK) return err;
  bool more = take(r, ",");
  if (more && !sizes_first && !at_element(r)) {
    if ((err = read_sizes(r, type, &element_follows)) != TUTTI_OK) return err;
    if (element_follows) return expected(r, "a size");
    more = take(r, ",");
  }
  if (!more) return TUTTI_OK;
  if (type->dims == 0 || !take_word(r, "strided"))
    return expected(r, type->dims ? "'strided<[...]>'" : "sizes, as in i32, 4x8");
  return read_strides(r, type);
}

/* "4x!pto.memref<...>", "4", "..." */
static tutti_err read_group(struct reader *r, struct tu_pto_type *type) {
  type->count = TU_PTO_OPEN;
  type->elided = true;
  if (take(r, "...")) return TUTTI_OK;
  int64_t count;
  tutti_err err = read_size(r, &count);
  if (err != TUTTI_OK) return err;
  type->count = count;
  if (!take(r, "x")) return TUTTI_OK;
  if (!take(r, "!pto.memref") || !take(r, "<")) return expected(r, "'!pto.memref<'");
  type->elided = false;
  if ((err = read_memref(r, type)) != TUTTI_OK) return err;
  return take(r, ">") ? TUTTI_OK : expected(r, "'>'");
}

static tutti_err read_tile_size(struct reader *r, uint32_t *size) {
  int64_t number;
  struct tu_scan before = r->scan;
  if (take_number(r, &number) && number <= TU_PTO_TILE_MAX) {
    *size = (uint32_t)number;
    return TUTTI_OK;
  }
  r->scan = before;
  return expected(r, "a number of at most 2^20");
}

/* "5", "5?" or "?" of so many. */
static tutti_err read_valid(struct reader *r, uint32_t all, struct tu_pto_valid *valid) {
  valid->count = all;
  valid->open = take(r, "?");
  if (valid->open) return TUTTI_OK;
  tutti_err err = read_tile_size(r, &valid->count);
  if (err == TUTTI_OK) valid->open = take(r, "?");
  return err;
}

/* "16x32xf32, valid=?x32" or "..." */
static tutti_err read_tile(struct reader *r, struct tu_pto_type *type) {
  type->elided = take(r, "...");
  if (type->elided) return TUTTI_OK;
  tutti_err err;
  if ((err = read_tile_size(r, &type->rows)) != TUTTI_OK) return err;
  if (!take(r, "x")) return expected(r, "'x' and columns");
  if ((err = read_tile_size(r, &type->cols)) != TUTTI_OK) return err;
  if (!take(r, "x")) return expected(r, "'x' and a type of elements");
  if ((err = read_element(r, &type->element)) != TUTTI_OK) return err;
  type->valid_rows.count = type->rows;
  type->valid_cols.count = type->cols;
  if (!take(r, ",")) return TUTTI_OK;
  if (!take_word(r, "valid") || !take(r, "=")) return expected(r, "'valid='");
  if ((err = read_valid(r, type->rows, &type->valid_rows)) != TUTTI_OK) return err;
  if (!take(r, "x")) return expected(r, "'x' and valid columns");
  return read_valid(r, type->cols, &type->valid_cols);
}

/* !pto.memref<...> and its like. */
static tutti_err read_pto_type(struct reader *r, struct tu_pto_type *type) {
  static const char *const names[] = {"pto.event", "pto.memref", "pto.group", "pto.tile"};
  struct tu_scan before = r->scan;
  uint32_t name = take(r, "!") ? take_one_of(r, names, 4) : 4;
  if (name == 4) {
    r->scan = before;
    return expected_name(r, "!pto.memref, !pto.group, !pto.tile or !pto.event", "!", names, 4);
  }
  type->kind = (enum tu_pto_kind)(TU_PTO_EVENT + name);
  if (type->kind == TU_PTO_EVENT) return TUTTI_OK;
  if (!take(r, "<")) return expected(r, "'<'");
  tutti_err err = type->kind == TU_PTO_MEMREF  ? read_memref(r, type)
                  : type->kind == TU_PTO_GROUP ? read_group(r, type)
                                               : read_tile(r, type);
  if (err != TUTTI_OK) return err;
  return take(r, ">") ? TUTTI_OK : expected(r, "'>'");
}

static tutti_err read_scalar(struct reader *r, struct tu_pto_type *type) {
  const char *names[TUTTI_DATATYPES + 2];
  tutti_datatype types[TUTTI_DATATYPES];
  uint32_t count = element_names(names, types);
  names[count] = "index";
  names[count + 1] = "i1";
  uint32_t i = take_one_of(r, names, count + 2);
  if (i == count + 2)
    return expected_name(r,
                         "a type (!pto.memref<...>, !pto.group<...>, !pto.tile<...>, !pto.event, index, i1, i32, ...)",
                         "", names, count + 2);
  type->kind = i == count ? TU_PTO_INDEX : i > count ? TU_PTO_BOOL : TU_PTO_SCALAR;
  if (i < count) type->element = types[i];
  return TUTTI_OK;
}

static tutti_err read_type(struct reader *r, struct tu_pto_type *type) {
  struct tu_pto_place place = place_of(r);
  *type = (struct tu_pto_type){0};
  bool ours = r->scan.at < r->scan.end && *r->scan.at == '!';
  tutti_err err = ours ? read_pto_type(r, type) : read_scalar(r, type);
  if (err != TUTTI_OK) return err;
  const char *wanted = tu_pto_why_not(type);
  char spelled[TU_PTO_SPELLED];
  if (!wanted) return TUTTI_OK;
  return tu_pto_fail(r->module, place, r->error, "expected %s, found %s", wanted,
                     tu_pto_spell(r->module, type, spelled));
}

/* ---- values ---- */

/* %name of a value to be. */
static tutti_err read_new_name(struct reader *r, char name[TU_PTO_NAME_BYTES], struct tu_pto_place *place) {
  struct tu_scan before = r->scan;
  *place = place_of(r);
  if (!take(r, "%") || !take_name(r, name, TU_PTO_NAME_BYTES)) {
    r->scan = before;
    return expected(r, "a value to define, % and a name of at most 63 letters, digits, _ and .");
  }
  uint32_t other = tu_pto_find(r->module, name);
  if (other == TU_PTO_NONE) return TUTTI_OK;
  return tu_pto_fail(r->module, *place, r->error, "expected a new name, found '%%%s', which line %u defines", name,
                     r->module->values[other].place.line);
}

static tutti_err read_new_value(struct reader *r, enum tu_pto_origin origin, uint32_t *value) {
  char name[TU_PTO_NAME_BYTES];
  struct tu_pto_place place;
  tutti_err err = read_new_name(r, name, &place);
  if (err == TUTTI_OK) *value = tu_pto_add_value(r->module, name, origin, place);
  return err;
}

/* %name of a value that was defined. */
static tutti_err read_value(struct reader *r, uint32_t *value) {
  struct tu_scan before = r->scan;
  char name[TU_PTO_NAME_BYTES];
  if (take(r, "%") && take_name(r, name, sizeof name)) {
    *value = tu_pto_find(r->module, name);
    if (*value != TU_PTO_NONE) return TUTTI_OK;
  }
  r->scan = before;
  uint32_t count = r->module->value_count;
  const char **names = tu_allocate(count, sizeof *names);
  for (uint32_t i = 0; i < count; i++) names[i] = r->module->values[i].name;
  tutti_err err = expected_name(r, "a value that is defined above", "%", names, count);
  free(names);
  return err;
}

static tutti_err read_literal(struct reader *r, struct tu_pto_value *value, const char *chars,
                              struct tu_pto_place place) {
  const struct tu_pto_type *type = &value->type;
  bool negative = chars[0] == '-';
  uint64_t magnitude;
  char spelled[TU_PTO_SPELLED];
  if (type->kind > TU_PTO_BOOL)
    return tu_pto_fail(r->module, place, r->error, "expected a constant of a number's type, found %s",
                       tu_pto_spell(r->module, type, spelled));
  if (type->kind == TU_PTO_SCALAR && tu_datatypes[type->element].floating) {
    if (tu_parse_number(chars + negative, &value->fraction)) {
      if (negative) value->fraction = -value->fraction;
      return TUTTI_OK;
    }
  } else if (tu_parse_uint(chars + negative, UINT64_MAX, &magnitude) &&
             tu_pto_fits(type, negative, magnitude, &value->number)) {
    return TUTTI_OK;
  }
  return tu_pto_fail(r->module, place, r->error, "expected a number that %s holds, found '%s'",
                     tu_pto_spell(r->module, type, spelled), chars);
}

static bool is_number_char(char c) {
  return (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E';
}

/* %c = 0 : index */
static tutti_err read_constant(struct reader *r) {
  uint32_t number;
  tutti_err err = read_new_value(r, TU_PTO_CONSTANT, &number);
  if (err != TUTTI_OK) return err;
  if (!take(r, "=")) return expected(r, "'='");
  struct tu_pto_place place = place_of(r);
  struct tu_scan before = r->scan;
  char chars[64];
  size_t length = 0;
  while (r->scan.at < r->scan.end && length < sizeof chars - 1 && is_number_char(*r->scan.at))
    chars[length++] = *r->scan.at++;
  chars[length] = '\0';
  if (length == 0 || length == sizeof chars - 1) {
    r->scan = before;
    return expected(r, "a number of at most 62 characters");
  }
  if (!take(r, ":")) return expected(r, "':' and a type");
  struct tu_pto_type type;
  if ((err = read_type(r, &type)) != TUTTI_OK) return err;
  r->module->values[number].type = type;
  return read_literal(r, &r->module->values[number], chars, place);
}

/* %a : type */
static tutti_err read_argument(struct reader *r) {
  uint32_t number;
  tutti_err err = read_new_value(r, TU_PTO_ARGUMENT, &number);
  if (err != TUTTI_OK) return err;
  if (!take(r, ":")) return expected(r, "':' and a type");
  struct tu_pto_place place = place_of(r);
  struct tu_pto_type type;
  if ((err = read_type(r, &type)) != TUTTI_OK) return err;
  if (type.kind == TU_PTO_EVENT)
    return tu_pto_fail(r->module, place, r->error,
                       "expected a type that an argument can have, found !pto.event, which only instructions give");
  r->module->values[number].type = type;
  return TUTTI_OK;
}

static tutti_err read_directive(struct reader *r) {
  static const char *const names[] = {".arg", ".const"};
  uint32_t name = take_one_of(r, names, 2);
  if (name == 2) return expected_name(r, ".arg or .const", "", names, 2);
  return name == 0 ? read_argument(r) : read_constant(r);
}

/* ---- instructions ---- */

/* "[%i, 0]" behind its bracket. */
static tutti_err read_indices(struct reader *r, struct tu_pto_operand *operand) {
  do {
    if (operand->index_count == TU_PTO_INDICES) return expected(r, "at most 6 indices");
    struct tu_pto_index *index = &operand->indices[operand->index_count++];
    *index = (struct tu_pto_index){.value = TU_PTO_NONE};
    struct tu_pto_place place = place_of(r);
    if (take_number(r, &index->number)) continue;
    if (r->scan.at == r->scan.end || *r->scan.at != '%')
      return expected(r, "an index, a value or a number of at most 2^46");
    tutti_err err = read_value(r, &index->value);
    if (err != TUTTI_OK) return err;
    const struct tu_pto_value *value = &r->module->values[index->value];
    bool whole = value->type.kind == TU_PTO_INDEX ||
                 (value->type.kind == TU_PTO_SCALAR && !tu_datatypes[value->type.element].floating);
    char spelled[TU_PTO_SPELLED];
    if (!whole)
      return tu_pto_fail(r->module, place, r->error, "expected an index, found %%%s : %s", value->name,
                         tu_pto_spell(r->module, &value->type, spelled));
    if (value->origin == TU_PTO_CONSTANT && value->number < 0)
      return tu_pto_fail(r->module, place, r->error, "expected an index of 0 or more, found %%%s = %" PRId64,
                         value->name, value->number);
  } while (take(r, ","));
  return take(r, "]") ? TUTTI_OK : expected(r, "',' or ']'");
}

static tutti_err read_choice(struct reader *r, const struct tu_pto_choices *choices, uint32_t *choice) {
  char what[96];
  if (!take(r, "<")) return expected(r, "'<'");
  *choice = take_one_of(r, choices->choices, choices->count);
  snprintf(what, sizeof what, "%s", choices->choices[0]);
  for (uint32_t i = 1; i < choices->count; i++) {
    size_t length = strlen(what);
    snprintf(what + length, sizeof what - length, "%s%s", i + 1 < choices->count ? ", " : " or ", choices->choices[i]);
  }
  if (*choice == choices->count) return expected_name(r, what, "", choices->choices, choices->count);
  return take(r, ">") ? TUTTI_OK : expected(r, "'>'");
}

/* "#pto.cmp<EQ>", of the kind that the instruction takes. */
static tutti_err read_opaque(struct reader *r, struct tu_pto_instruction *instruction) {
  const struct tu_pto_form *form = &tu_pto_forms[instruction->opcode];
  char what[64], word[64];
  snprintf(what, sizeof what, "#pto.%s<...>", form->choices->name);
  snprintf(word, sizeof word, "pto.%s", form->choices->name);
  const char *const names[] = {word};
  struct tu_scan before = r->scan;
  if (take(r, "#") && take_word(r, word)) return read_choice(r, form->choices, &instruction->choice);
  r->scan = before;
  return expected_name(r, what, "#", names, 1);
}

static tutti_err read_operands(struct reader *r, struct tu_pto_instruction *instruction, bool *has_choice) {
  instruction->operand_first = r->module->operand_count;
  do {
    struct tu_pto_operand operand = {.place = place_of(r)};
    bool opaque = r->scan.at < r->scan.end && *r->scan.at == '#';
    if (opaque && tu_pto_forms[instruction->opcode].key && !*has_choice) {
      tutti_err err = read_opaque(r, instruction);
      if (err != TUTTI_OK) return err;
      *has_choice = true;
      continue;
    }
    tutti_err err = read_value(r, &operand.value);
    if (err == TUTTI_OK && take(r, "[")) err = read_indices(r, &operand);
    if (err != TUTTI_OK) return err;
    tu_pto_add_operand(r->module, &operand);
    instruction->operand_count++;
  } while (take(r, ","));
  return TUTTI_OK;
}

/* "#pto.shape<4x8>" */
static tutti_err read_shape(struct reader *r, struct tu_pto_instruction *instruction) {
  int64_t sizes[TUTTI_DIMS];
  uint32_t dims = 0;
  if (!take(r, "#") || !take_word(r, "pto.shape") || !take(r, "<")) return expected(r, "#pto.shape<...>");
  do {
    if (dims == TUTTI_DIMS) return expected(r, "at most 5 dimensions");
    if (!take_number(r, &sizes[dims])) return expected(r, "a size, a number of at most 2^46");
    dims++;
  } while (take(r, "x"));
  for (int d = 0; d < TUTTI_DIMS; d++) instruction->shape[d] = 1;
  memcpy(instruction->shape + TUTTI_DIMS - dims, sizes, dims * sizeof *sizes);
  instruction->shape_dims = dims;
  return take(r, ">") ? TUTTI_OK : expected(r, "'x' or '>'");
}

/* "{op = #pto.reduce_op<Sum>, root = 1}" behind its bracket. */
static tutti_err read_attributes(struct reader *r, struct tu_pto_instruction *instruction, bool *has_choice) {
  const struct tu_pto_form *form = &tu_pto_forms[instruction->opcode];
  const char *keys[3], *what_rank = form->collective ? "root" : "rank";
  uint32_t count = 0;
  bool seen[3] = {false};
  if (form->key) keys[count++] = form->key;
  keys[count++] = what_rank;
  if (form->shaped) keys[count++] = "shape";
  char what[64] = "";
  for (uint32_t i = 0; i < count; i++) {
    size_t length = strlen(what);
    snprintf(what + length, sizeof what - length, "%s%s =", i == 0 ? "" : i + 1 < count ? ", " : " or ", keys[i]);
  }
  if (take(r, "}")) return TUTTI_OK;
  do {
    struct tu_pto_place place = place_of(r);
    uint32_t key = take_one_of(r, keys, count);
    if (key == count) return expected_name(r, what, "", keys, count);
    if (seen[key] || (*has_choice && keys[key] == form->key))
      return tu_pto_fail(r->module, place, r->error, "expected each attribute once, found another '%s'", keys[key]);
    seen[key] = true;
    if (!take(r, "=")) return expected(r, "'='");
    tu_scan_blanks(&r->scan);
    tutti_err err = TUTTI_OK;
    if (keys[key] == form->key) {
      err = read_opaque(r, instruction);
      *has_choice = true;
    } else if (keys[key] == what_rank) {
      if (!take_number(r, &instruction->rank)) err = expected(r, "the number of a rank");
    } else {
      err = read_shape(r, instruction);
    }
    if (err != TUTTI_OK) return err;
  } while (take(r, ","));
  return take(r, "}") ? TUTTI_OK : expected(r, "',' or '}'");
}

/* ---- signatures ---- */

/* Reads a type that must fit the value's, and adds to it what that leaves open. value == TU_PTO_NONE: a literal index. */
static tutti_err read_fitting(struct reader *r, uint32_t value) {
  struct tu_pto_place place = place_of(r);
  struct tu_pto_type said, literal = {.kind = TU_PTO_INDEX};
  tutti_err err = read_type(r, &said);
  if (err != TUTTI_OK) return err;
  struct tu_pto_type *type = value == TU_PTO_NONE ? &literal : &r->module->values[value].type;
  char ours[TU_PTO_SPELLED], theirs[TU_PTO_SPELLED];
  tu_pto_spell(r->module, type, ours);
  if (type->kind == said.kind && tu_pto_merge(r->module, type, &said)) return TUTTI_OK;
  const char *name = value == TU_PTO_NONE ? "the index" : r->module->values[value].name;
  return tu_pto_fail(r->module, place, r->error, "expected %s, the type of %s%s, found %s", ours,
                     value == TU_PTO_NONE ? "" : "%", name, tu_pto_spell(r->module, &said, theirs));
}

static tutti_err fail_count(struct reader *r, struct tu_pto_place place, uint32_t wanted, const char *found) {
  return tu_pto_fail(r->module, place, r->error, "expected %u type%s, one for each operand and index, found %s", wanted,
                     wanted == 1 ? "" : "s", found);
}

/* One type for each operand and each of its indices. */
static tutti_err read_operand_types(struct reader *r, const struct tu_pto_instruction *instruction) {
  struct tu_pto_place place = place_of(r);
  uint32_t wanted = 0, read = 0;
  for (uint32_t i = 0; i < instruction->operand_count; i++)
    wanted += 1 + r->module->operands[instruction->operand_first + i].index_count;
  bool listed = take(r, "(");
  if (listed && take(r, ")")) return wanted == 0 ? TUTTI_OK : fail_count(r, place, wanted, "none");
  for (uint32_t i = 0; i < instruction->operand_count; i++) {
    const struct tu_pto_operand operand = r->module->operands[instruction->operand_first + i];
    for (uint32_t k = 0; k <= operand.index_count; k++) {
      if (read++ > 0 && (!listed || !take(r, ","))) return fail_count(r, place, wanted, "fewer");
      tutti_err err = read_fitting(r, k == 0 ? operand.value : operand.indices[k - 1].value);
      if (err != TUTTI_OK) return err;
    }
  }
  if (!listed) return TUTTI_OK;
  if (take(r, ",")) return fail_count(r, place, wanted, "more");
  return take(r, ")") ? TUTTI_OK : expected(r, "')'");
}

static tutti_err read_result_types(struct reader *r, const struct tu_pto_instruction *instruction) {
  struct tu_pto_place place = place_of(r);
  bool listed = take(r, "("), closed = listed && take(r, ")");
  if (instruction->result == TU_PTO_NONE) {
    if (closed) return TUTTI_OK;
    return tu_pto_fail(r->module, place, r->error, "expected no type, as nothing takes a result of this instruction");
  }
  if (closed) return expected(r, "the type of the result");
  tutti_err err = read_fitting(r, instruction->result);
  if (err != TUTTI_OK) return err;
  return !listed || take(r, ")") ? TUTTI_OK : expected(r, "')'");
}

/* ---- statements ---- */

static tutti_err read_opcode(struct reader *r, enum tu_pto_opcode *opcode) {
  const char *names[TU_PTO_OPCODES];
  for (int i = 0; i < TU_PTO_OPCODES; i++) names[i] = tu_pto_forms[i].name;
  struct tu_scan before = r->scan;
  char word[TU_PTO_NAME_BYTES];
  if (take_name(r, word, sizeof word)) {
    const char *bare = strncmp(word, "pto.", 4) == 0 ? word + 4 : word;
    for (int i = 0; i < TU_PTO_OPCODES; i++) {
      if (strcmp(bare, names[i]) != 0) continue;
      *opcode = (enum tu_pto_opcode)i;
      return TUTTI_OK;
    }
  }
  r->scan = before;
  return expected_name(r, "an instruction", "", names, TU_PTO_OPCODES);
}

/* "%e =", if it is there; else the name is empty. */
static tutti_err read_result(struct reader *r, char name[TU_PTO_NAME_BYTES], struct tu_pto_place *place) {
  name[0] = '\0';
  tu_scan_blanks(&r->scan);
  if (r->scan.at == r->scan.end || *r->scan.at != '%') return TUTTI_OK;
  tutti_err err = read_new_name(r, name, place);
  if (err != TUTTI_OK) return err;
  return take(r, "=") ? TUTTI_OK : expected(r, "'=' and an instruction, which has one result at most");
}

/* Opcode, operands, attributes. */
static tutti_err read_action(struct reader *r, struct tu_pto_instruction *instruction) {
  tutti_err err = read_opcode(r, &instruction->opcode);
  if (err != TUTTI_OK) return err;
  const struct tu_pto_form *form = &tu_pto_forms[instruction->opcode];
  bool has_choice = false;
  if ((err = read_operands(r, instruction, &has_choice)) != TUTTI_OK) return err;
  if (take(r, "{") && (err = read_attributes(r, instruction, &has_choice)) != TUTTI_OK) return err;
  if (!form->needs_choice || has_choice) return TUTTI_OK;
  return tu_pto_fail(r->module, instruction->place, r->error, "expected {%s = #pto.%s<...>} with %s, found none",
                     form->key, form->choices->name, form->name);
}

static tutti_err read_instruction(struct reader *r) {
  struct tu_pto_module *m = r->module;
  struct tu_pto_place result_place;
  char result[TU_PTO_NAME_BYTES];
  tutti_err err = read_result(r, result, &result_place);
  if (err != TUTTI_OK) return err;
  struct tu_pto_instruction instruction = {.place = place_of(r), .rank = TU_PTO_OPEN, .result = TU_PTO_NONE};
  if ((err = read_action(r, &instruction)) != TUTTI_OK) return err;
  const struct tu_pto_form *form = &tu_pto_forms[instruction.opcode];
  if (result[0] && form->result == TU_PTO_SCALAR)
    return tu_pto_fail(m, result_place, r->error, "expected no result, as %s has none, found '%%%s'", form->name,
                       result);
  if (result[0]) {
    instruction.result = tu_pto_add_value(m, result, TU_PTO_RESULT, result_place);
    m->values[instruction.result].type.kind = form->result;
  }
  if (take(r, ":")) {
    if ((err = read_operand_types(r, &instruction)) != TUTTI_OK) return err;
    if (take(r, "->") && (err = read_result_types(r, &instruction)) != TUTTI_OK) return err;
  }
  m->instructions = tu_grow(m->instructions, m->instruction_count, &m->instruction_capacity, sizeof *m->instructions);
  m->instructions[m->instruction_count++] = instruction;
  return TUTTI_OK;
}

static tutti_err read_statement(struct reader *r) {
  tutti_err err = *r->scan.at == '.' ? read_directive(r) : read_instruction(r);
  if (err != TUTTI_OK || take(r, ";") || tu_scan_end_of_line(&r->scan)) return err;
  return expected(r, "';' or the end of the line");
}

tutti_err tu_pto_read(const char *data, size_t bytes, const char *name, struct tu_pto_module **module,
                      struct tu_error *error) {
  struct reader r = {.scan = {.at = data, .end = data + bytes, .line = 1, .name = name, .comment = "//"},
                     .begin = data,
                     .module = tu_allocate(1, sizeof *r.module),
                     .error = error};
  struct tu_text copy = {0};
  tu_text_print(&copy, "%s", name);
  r.module->name = copy.chars;
  tutti_err err = TUTTI_OK;
  while (err == TUTTI_OK && !tu_scan_at_end(&r.scan)) err = take(&r, ";") ? TUTTI_OK : read_statement(&r);
  if (err == TUTTI_OK) err = tu_pto_close_names(r.module, error);
  if (err == TUTTI_OK) err = tu_pto_check(r.module, error);
  if (err != TUTTI_OK) {
    tu_pto_destroy(r.module);
    return err;
  }
  *module = r.module;
  return TUTTI_OK;
}
