/* pto_read_value.c: reads values: new names, names of values that are defined earlier in the text, arguments and
 * constants. */
#include <stdlib.h>

#include "base/types.h"
#include "pto/pto_reader.h"

tutti_err tu_pto_read_new_name(struct tu_pto_reader *r, char name[TU_PTO_NAME_BYTES],
                               struct tu_pto_position *position) {
  struct tu_scan before = r->scan;
  *position = tu_pto_position_of(r);
  if (!tu_pto_take(r, "%") || !tu_pto_take_name(r, name, TU_PTO_NAME_BYTES)) {
    r->scan = before;
    return tu_pto_expected(r, "a new value: % and a name of at most 63 letters, digits, _ and .");
  }
  uint32_t other = tu_pto_find(r->module, name);
  if (other == TU_PTO_NONE) return TUTTI_OK;
  return tu_pto_fail(r->module, *position, r->error, "expected a new name, found '%%%s', which is defined in line %u",
                     name, r->module->values[other].position.line);
}

static tutti_err read_new_value(struct tu_pto_reader *r, enum tu_pto_origin origin, uint32_t *value) {
  char name[TU_PTO_NAME_BYTES];
  struct tu_pto_position position;
  tutti_err err = tu_pto_read_new_name(r, name, &position);
  if (err == TUTTI_OK) *value = tu_pto_add_value(r->module, name, origin, position);
  return err;
}

tutti_err tu_pto_read_value(struct tu_pto_reader *r, uint32_t *value) {
  struct tu_scan before = r->scan;
  char name[TU_PTO_NAME_BYTES];
  if (tu_pto_take(r, "%") && tu_pto_take_name(r, name, sizeof name)) {
    *value = tu_pto_find(r->module, name);
    if (*value != TU_PTO_NONE) return TUTTI_OK;
  }
  r->scan = before;
  uint32_t count = r->module->value_count;
  const char **names = tu_allocate(count, sizeof *names);
  for (uint32_t i = 0; i < count; i++) names[i] = r->module->values[i].name;
  tutti_err err = tu_pto_expected_name(r, "a value that is defined above", "%", names, count);
  free(names);
  return err;
}

static tutti_err read_literal(struct tu_pto_reader *r, struct tu_pto_value *value, const char *chars,
                              struct tu_pto_position position) {
  const struct tu_pto_type *type = &value->type;
  bool negative = chars[0] == '-';
  uint64_t magnitude;
  char spelled[TU_PTO_SPELLED];
  if (type->kind > TU_PTO_BOOL)
    return tu_pto_fail(r->module, position, r->error, "expected a constant of a numeric type, found %s",
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
  return tu_pto_fail(r->module, position, r->error, "expected a number that fits type %s, found '%s'",
                     tu_pto_spell(r->module, type, spelled), chars);
}

static bool is_number_char(char c) {
  return (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E';
}

/* Reads a constant, such as %c = 0 : index */
static tutti_err read_constant(struct tu_pto_reader *r) {
  uint32_t number;
  tutti_err err = read_new_value(r, TU_PTO_CONSTANT, &number);
  if (err != TUTTI_OK) return err;
  if (!tu_pto_take(r, "=")) return tu_pto_expected(r, "'='");
  struct tu_pto_position position = tu_pto_position_of(r);
  struct tu_scan before = r->scan;
  char chars[64];
  size_t length = 0;
  while (r->scan.at < r->scan.end && length < sizeof chars - 1 && is_number_char(*r->scan.at))
    chars[length++] = *r->scan.at++;
  chars[length] = '\0';
  if (length == 0 || length == sizeof chars - 1) {
    r->scan = before;
    return tu_pto_expected(r, "a number of at most 62 characters");
  }
  if (!tu_pto_take(r, ":")) return tu_pto_expected(r, "':' and a type");
  struct tu_pto_type type;
  if ((err = tu_pto_read_type(r, &type)) != TUTTI_OK) return err;
  r->module->values[number].type = type;
  return read_literal(r, &r->module->values[number], chars, position);
}

/* Reads an argument, such as %a : type */
static tutti_err read_argument(struct tu_pto_reader *r) {
  uint32_t number;
  tutti_err err = read_new_value(r, TU_PTO_ARGUMENT, &number);
  if (err != TUTTI_OK) return err;
  if (!tu_pto_take(r, ":")) return tu_pto_expected(r, "':' and a type");
  struct tu_pto_position position = tu_pto_position_of(r);
  struct tu_pto_type type;
  if ((err = tu_pto_read_type(r, &type)) != TUTTI_OK) return err;
  if (type.kind == TU_PTO_EVENT)
    return tu_pto_fail(r->module, position, r->error,
                       "expected the type of an argument, found !pto.event (only instructions make events)");
  r->module->values[number].type = type;
  return TUTTI_OK;
}

tutti_err tu_pto_read_directive(struct tu_pto_reader *r) {
  static const char *const names[] = {".arg", ".const"};
  uint32_t name = tu_pto_take_one_of(r, names, 2);
  if (name == 2) return tu_pto_expected_name(r, ".arg or .const", "", names, 2);
  return name == 0 ? read_argument(r) : read_constant(r);
}
