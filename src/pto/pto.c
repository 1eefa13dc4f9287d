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

uint32_t tu_pto_find(const struct tu_pto_module *module, const char *name) {
  for (uint32_t i = 0; i < module->value_count; i++)
    if (strcmp(module->values[i].name, name) == 0) return i;
  return TU_PTO_NONE;
}

uint32_t tu_pto_add_value(struct tu_pto_module *module, const char *name, enum tu_pto_origin origin,
                          struct tu_pto_place place) {
  module->values = tu_grow(module->values, module->value_count, &module->value_capacity, sizeof *module->values);
  struct tu_pto_value *value = &module->values[module->value_count];
  *value = (struct tu_pto_value){.origin = origin, .place = place};
  snprintf(value->name, sizeof value->name, "%s", name);
  return module->value_count++;
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
  free(module);
}
