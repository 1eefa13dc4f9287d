/* pto.c: the table of instructions, modules, and the sentences about their places. */
#include "pto/pto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pto/pto_parts.h"

static const char *const reductions[] = {[TU_PTO_SUM] = "Sum", [TU_PTO_MAX] = "Max", [TU_PTO_MIN] = "Min"};
static const char *const notices[] = {[TU_PTO_SET] = "Set", [TU_PTO_ADD] = "AtomicAdd"};
static const char *const comparisons[] = {[TU_PTO_EQ] = "EQ", [TU_PTO_NE] = "NE", [TU_PTO_GT] = "GT",
                                          [TU_PTO_GE] = "GE", [TU_PTO_LT] = "LT", [TU_PTO_LE] = "LE"};
static const char *const stores[] = {[TU_PTO_SET] = "None", [TU_PTO_ADD] = "Add"};

static const struct tu_pto_choices reduce_op = {"reduce_op", reductions, 3};
static const struct tu_pto_choices notify_op = {"notify_op", notices, 2};
static const struct tu_pto_choices cmp = {"cmp", comparisons, 6};
static const struct tu_pto_choices atomic = {"atomic", stores, 2};

const struct tu_pto_form tu_pto_forms[TU_PTO_OPCODES] = {
    [TU_PTO_TGATHER] = {.name = "tgather", .collective = true, .operands = 2, .tiles = 1, .result = TU_PTO_EVENT},
    [TU_PTO_TSCATTER] = {.name = "tscatter", .collective = true, .operands = 2, .tiles = 1, .result = TU_PTO_EVENT},
    [TU_PTO_TBROADCAST] = {.name = "tbroadcast", .collective = true, .operands = 2, .tiles = 1, .result = TU_PTO_EVENT},
    [TU_PTO_TREDUCE] = {.name = "treduce",
                        .key = "op",
                        .choices = &reduce_op,
                        .needs_choice = true,
                        .collective = true,
                        .operands = 2,
                        .tiles = 2,
                        .result = TU_PTO_EVENT},
    [TU_PTO_TPUT] = {.name = "tput",
                     .key = "atomic",
                     .choices = &atomic,
                     .shaped = true,
                     .operands = 2,
                     .tiles = 1,
                     .result = TU_PTO_EVENT},
    [TU_PTO_TGET] = {.name = "tget", .shaped = true, .operands = 2, .tiles = 1, .result = TU_PTO_EVENT},
    [TU_PTO_TPUT_ASYNC] = {.name = "tput_async", .shaped = true, .operands = 2, .result = TU_PTO_EVENT},
    [TU_PTO_TGET_ASYNC] = {.name = "tget_async", .shaped = true, .operands = 2, .result = TU_PTO_EVENT},
    [TU_PTO_TNOTIFY] = {.name = "tnotify", .key = "op", .choices = &notify_op, .needs_choice = true, .operands = 2},
    [TU_PTO_TWAIT] =
        {.name = "twait", .key = "cmp", .choices = &cmp, .needs_choice = true, .shaped = true, .operands = 2},
    [TU_PTO_TTEST] = {.name = "ttest",
                      .key = "cmp",
                      .choices = &cmp,
                      .needs_choice = true,
                      .shaped = true,
                      .operands = 2,
                      .result = TU_PTO_BOOL},
    [TU_PTO_TSYNC] = {.name = "tsync", .operands = 1},
};

const char *const tu_pto_kinds[] = {
    [TU_PTO_SCALAR] = "a number",  [TU_PTO_INDEX] = "index",        [TU_PTO_BOOL] = "i1",
    [TU_PTO_EVENT] = "!pto.event", [TU_PTO_MEMREF] = "!pto.memref", [TU_PTO_GROUP] = "!pto.group",
    [TU_PTO_TILE] = "!pto.tile",
};

tutti_err tu_pto_fail(const struct tu_pto_module *module, struct tu_pto_place place, struct tu_error *error,
                      const char *format, ...) {
  char text[sizeof error->text];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s:%u:%u: %s", module->name, place.line, place.column, text);
}

const char *tu_pto_spell(const struct tu_pto_module *module, const struct tu_pto_type *type,
                         char spelled[TU_PTO_SPELLED]) {
  struct tu_text text = {0};
  tu_pto_write_type(module, type, &text);
  snprintf(spelled, TU_PTO_SPELLED, "%s", text.chars);
  tu_text_fini(&text);
  return spelled;
}

/* ---- names ---- */

_Static_assert(offsetof(struct tu_pto_value, name) == 0 && offsetof(struct tu_pto_name, name) == 0,
               "a table finds names where items begin");

static const char *name_of(const void *items, size_t item_bytes, uint32_t number) {
  return (const char *)items + number * item_bytes;
}

/* Where the name stands in the table, or would. */
static uint32_t place_in(const struct tu_pto_table *t, const void *items, size_t item_bytes, const char *name) {
  uint32_t at = (uint32_t)tu_hash(name, strlen(name), 0) & (t->places - 1);
  while (t->numbers[at] != 0 && strcmp(name_of(items, item_bytes, t->numbers[at] - 1), name) != 0)
    at = (at + 1) & (t->places - 1);
  return at;
}

static uint32_t find_in(const struct tu_pto_table *t, const void *items, size_t item_bytes, const char *name) {
  uint32_t number = t->places ? t->numbers[place_in(t, items, item_bytes, name)] : 0;
  return number ? number - 1 : TU_PTO_NONE;
}

/* The last of `count` items is new. Of two items of one name, the first is found. */
static void add_to(struct tu_pto_table *t, const void *items, size_t item_bytes, uint32_t count) {
  uint32_t first = count - 1;
  if (t->places < 2 * count) {
    free(t->numbers);
    t->places = 2 * tu_pow2_floor(count) * 2;
    t->numbers = tu_allocate(t->places, sizeof *t->numbers);
    first = 0;
  }
  for (uint32_t i = first; i < count; i++) {
    uint32_t at = place_in(t, items, item_bytes, name_of(items, item_bytes, i));
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

/* ---- parts of a module ---- */

uint32_t tu_pto_add_value(struct tu_pto_module *module, const char *name, enum tu_pto_origin origin,
                          struct tu_pto_place place) {
  module->values = tu_grow(module->values, module->value_count, &module->value_capacity, sizeof *module->values);
  struct tu_pto_value *value = &module->values[module->value_count];
  *value = (struct tu_pto_value){.origin = origin, .place = place};
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
