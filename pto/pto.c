/* pto.c: modules and their symbol tables, and error messages with a position in the text. */
#include "pto/pto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pto/pto_internal.h"

tutti_err tu_pto_fail(const struct tu_pto_module *module, struct tu_pto_position position, struct tu_error *error,
                      const char *format, ...) {
  char text[sizeof error->text];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s:%u:%u: %s", module->name, position.line, position.column, text);
}

const char *tu_pto_spell(const struct tu_pto_module *module, const struct tu_pto_type *type,
                         char spelled[TU_PTO_SPELLED]) {
  struct tu_text text = {0};
  tu_pto_write_type(module, type, &text);
  snprintf(spelled, TU_PTO_SPELLED, "%s", text.chars);
  tu_text_fini(&text);
  return spelled;
}

/* ---- look-up by name ---- */

_Static_assert(offsetof(struct tu_pto_value, name) == 0 && offsetof(struct tu_pto_name, name) == 0,
               "a table finds names where items begin");

static const char *name_of(const void *items, size_t item_bytes, uint32_t number) {
  return (const char *)items + number * item_bytes;
}

/* Looks up a name in a hash table of items. If an entry of the table holds the name, returns the index of this entry.
 * Otherwise returns the index of the free entry in which to store the name. */
static uint32_t entry_in(const struct tu_pto_table *t, const void *items, size_t item_bytes, const char *name) {
  uint32_t at = (uint32_t)tu_hash(name, strlen(name), 0) & (t->entries - 1);
  while (t->numbers[at] != 0 && strcmp(name_of(items, item_bytes, t->numbers[at] - 1), name) != 0)
    at = (at + 1) & (t->entries - 1);
  return at;
}

static uint32_t find_in(const struct tu_pto_table *t, const void *items, size_t item_bytes, const char *name) {
  uint32_t number = t->entries ? t->numbers[entry_in(t, items, item_bytes, name)] : 0;
  return number ? number - 1 : TU_PTO_NONE;
}

/* Adds an item, the last of the `count` items, to the hash table. If two items have the same name, a search finds the
 * first one. */
static void add_to(struct tu_pto_table *t, const void *items, size_t item_bytes, uint32_t count) {
  uint32_t first = count - 1;
  if (t->entries < 2 * count) {
    free(t->numbers);
    t->entries = 2 * tu_pow2_floor(count) * 2;
    t->numbers = tu_allocate(t->entries, sizeof *t->numbers);
    first = 0;
  }
  for (uint32_t i = first; i < count; i++) {
    uint32_t at = entry_in(t, items, item_bytes, name_of(items, item_bytes, i));
    if (t->numbers[at] == 0) t->numbers[at] = i + 1;
  }
}

uint32_t tu_pto_find(const struct tu_pto_module *module, const char *name) {
  return find_in(&module->value_table, module->values, sizeof *module->values, name);
}

uint32_t tu_pto_size_name(struct tu_pto_module *module, const char *name) {
  uint32_t number = find_in(&module->name_table, module->names, sizeof *module->names, name);
  if (number != TU_PTO_NONE) return number;
  module->names = tu_grow(module->names, module->name_count, &module->name_capacity, sizeof *module->names);
  struct tu_pto_name *added = &module->names[module->name_count];
  *added = (struct tu_pto_name){.number = TU_PTO_OPEN};
  snprintf(added->name, sizeof added->name, "%s", name);
  add_to(&module->name_table, module->names, sizeof *module->names, ++module->name_count);
  return module->name_count - 1;
}

/* ---- parts of a module: values and operands ---- */

uint32_t tu_pto_add_value(struct tu_pto_module *module, const char *name, enum tu_pto_origin origin,
                          struct tu_pto_position position) {
  module->values = tu_grow(module->values, module->value_count, &module->value_capacity, sizeof *module->values);
  struct tu_pto_value *value = &module->values[module->value_count];
  *value = (struct tu_pto_value){.origin = origin, .position = position};
  snprintf(value->name, sizeof value->name, "%s", name);
  add_to(&module->value_table, module->values, sizeof *module->values, ++module->value_count);
  return module->value_count - 1;
}

void tu_pto_add_operand(struct tu_pto_module *module, const struct tu_pto_operand *operand) {
  module->operands =
      tu_grow(module->operands, module->operand_count, &module->operand_capacity, sizeof *module->operands);
  module->operands[module->operand_count++] = *operand;
}

void tu_pto_destroy(struct tu_pto_module *module) {
  if (!module) return;
  free(module->name);
  free(module->values);
  free(module->instructions);
  free(module->operands);
  free(module->names);
  free(module->value_table.numbers);
  free(module->name_table.numbers);
  free(module);
}
