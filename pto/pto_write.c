/* pto_write.c: writes modules and types as text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/types.h"
#include "pto/pto_internal.h"

/* text at the beginning of a type, by the kind of the type */
static const char *const kinds[] = {
    [TU_PTO_SCALAR] = "a number",  [TU_PTO_INDEX] = "index",        [TU_PTO_BOOL] = "i1",
    [TU_PTO_EVENT] = "!pto.event", [TU_PTO_MEMREF] = "!pto.memref", [TU_PTO_GROUP] = "!pto.group",
    [TU_PTO_TILE] = "!pto.tile",
};

/* ---- types ---- */

static void write_size(const struct tu_pto_module *module, int64_t size, struct tu_text *text) {
  const struct tu_pto_name *name = size < TU_PTO_OPEN ? &module->names[TU_PTO_OPEN - 1 - size] : NULL;
  int64_t number = name ? name->number : size;
  if (number >= 0) tu_text_print(text, "%" PRId64, number);
  else tu_text_print(text, "%s", name ? name->name : "?");
}

/* Writes the contents of the brackets of a memref type. */
static void write_memref(const struct tu_pto_module *module, const struct tu_pto_type *type, struct tu_text *text) {
  uint32_t first = TUTTI_DIMS - type->dims;
  for (uint32_t d = first; d < TUTTI_DIMS; d++) {
    write_size(module, type->shape[d], text);
    tu_text_print(text, "x");
  }
  tu_text_print(text, "%s", tutti_datatype_name(type->element));
  if (!type->strided) return;
  tu_text_print(text, ", strided<[");
  for (uint32_t d = first; d < TUTTI_DIMS; d++)
    tu_text_print(text, d > first ? ", %" PRId64 : "%" PRId64, type->strides[d]);
  tu_text_print(text, "]>");
}

static void write_group(const struct tu_pto_module *module, const struct tu_pto_type *type, struct tu_text *text) {
  if (type->elided && type->count == TU_PTO_OPEN) {
    tu_text_print(text, "...");
    return;
  }
  write_size(module, type->count, text);
  if (type->elided) return;
  tu_text_print(text, "x!pto.memref<");
  write_memref(module, type, text);
  tu_text_print(text, ">");
}

static void write_valid(struct tu_pto_valid valid, uint32_t all, struct tu_text *text) {
  if (!valid.open || valid.count != all) tu_text_print(text, "%u", valid.count);
  if (valid.open) tu_text_print(text, "?");
}

static void write_tile(const struct tu_pto_type *type, struct tu_text *text) {
  tu_text_print(text, "%ux%ux%s", type->rows, type->cols, tutti_datatype_name(type->element));
  struct tu_pto_valid rows = type->valid_rows, cols = type->valid_cols;
  if (rows.count == type->rows && cols.count == type->cols && !rows.open && !cols.open) return;
  tu_text_print(text, ", valid=");
  write_valid(rows, type->rows, text);
  tu_text_print(text, "x");
  write_valid(cols, type->cols, text);
}

void tu_pto_write_type(const struct tu_pto_module *module, const struct tu_pto_type *type, struct tu_text *text) {
  if (type->kind == TU_PTO_SCALAR) tu_text_print(text, "%s", tutti_datatype_name(type->element));
  else tu_text_print(text, "%s", kinds[type->kind]);
  if (type->kind < TU_PTO_MEMREF) return;
  tu_text_print(text, "<");
  if (type->kind == TU_PTO_GROUP) write_group(module, type, text);
  else if (type->elided) tu_text_print(text, "...");
  else if (type->kind == TU_PTO_MEMREF) write_memref(module, type, text);
  else write_tile(type, text);
  tu_text_print(text, ">");
}

/* ---- values and instructions ---- */

/* Writes the number with the fewest digits that strtod reads back as the same number; 17 digits always suffice. */
static void write_fraction(double fraction, struct tu_text *text) {
  char digits[40];
  int precision = 1;
  do snprintf(digits, sizeof digits, "%.*g", precision, fraction);
  while (precision++ < 17 && strtod(digits, NULL) != fraction);
  tu_text_print(text, "%s", digits);
}

static void write_value(const struct tu_pto_module *module, const struct tu_pto_value *value, struct tu_text *text) {
  if (value->origin == TU_PTO_ARGUMENT) {
    tu_text_print(text, ".arg %%%s : ", value->name);
  } else {
    tu_text_print(text, ".const %%%s = ", value->name);
    bool whole = value->type.kind != TU_PTO_SCALAR || !tu_datatypes[value->type.element].floating;
    if (whole) tu_text_print(text, "%" PRId64, value->number);
    else write_fraction(value->fraction, text);
    tu_text_print(text, " : ");
  }
  tu_pto_write_type(module, &value->type, text);
  tu_text_print(text, "\n");
}

static void write_index(const struct tu_pto_module *module, struct tu_pto_index index, struct tu_text *text) {
  if (index.value == TU_PTO_NONE) tu_text_print(text, "%" PRId64, index.number);
  else tu_text_print(text, "%%%s", module->values[index.value].name);
}

static void write_operand(const struct tu_pto_module *module, const struct tu_pto_operand *operand,
                          struct tu_text *text) {
  tu_text_print(text, "%%%s", module->values[operand->value].name);
  for (uint32_t i = 0; i < operand->index_count; i++) {
    tu_text_print(text, i ? ", " : "[");
    write_index(module, operand->indices[i], text);
  }
  if (operand->index_count) tu_text_print(text, "]");
}

static void write_attributes(const struct tu_pto_instruction *instruction, struct tu_text *text) {
  const struct tu_pto_form *form = &tu_pto_forms[instruction->opcode];
  const char *between = " {";
  if (form->key && (form->needs_choice || instruction->choice)) {
    tu_text_print(text, "%s%s = #pto.%s<%s>", between, form->key, form->choices->name,
                  form->choices->choices[instruction->choice]);
    between = ", ";
  }
  if (instruction->rank >= 0) {
    tu_text_print(text, "%s%s = %" PRId64, between, form->collective ? "root" : "rank", instruction->rank);
    between = ", ";
  }
  if (instruction->shape_dims) {
    tu_text_print(text, "%sshape = #pto.shape<", between);
    for (uint32_t d = TUTTI_DIMS - instruction->shape_dims; d < TUTTI_DIMS; d++)
      tu_text_print(text, d > TUTTI_DIMS - instruction->shape_dims ? "x%" PRId64 : "%" PRId64, instruction->shape[d]);
    tu_text_print(text, ">");
    between = ", ";
  }
  if (between[0] == ',') tu_text_print(text, "}");
}

static void write_signature(const struct tu_pto_module *module, const struct tu_pto_instruction *instruction,
                            struct tu_text *text) {
  static const struct tu_pto_type literal = {.kind = TU_PTO_INDEX};
  tu_text_print(text, " : (");
  for (uint32_t i = 0; i < instruction->operand_count; i++) {
    const struct tu_pto_operand *operand = &module->operands[instruction->operand_first + i];
    if (i > 0) tu_text_print(text, ", ");
    tu_pto_write_type(module, &module->values[operand->value].type, text);
    for (uint32_t k = 0; k < operand->index_count; k++) {
      uint32_t value = operand->indices[k].value;
      tu_text_print(text, ", ");
      tu_pto_write_type(module, value == TU_PTO_NONE ? &literal : &module->values[value].type, text);
    }
  }
  tu_text_print(text, ")");
  if (instruction->result == TU_PTO_NONE) return;
  tu_text_print(text, " -> ");
  tu_pto_write_type(module, &module->values[instruction->result].type, text);
}

static void write_instruction(const struct tu_pto_module *module, const struct tu_pto_instruction *instruction,
                              struct tu_text *text) {
  if (instruction->result != TU_PTO_NONE) tu_text_print(text, "%%%s = ", module->values[instruction->result].name);
  tu_text_print(text, "%s", tu_pto_forms[instruction->opcode].name);
  for (uint32_t i = 0; i < instruction->operand_count; i++) {
    tu_text_print(text, i ? ", " : " ");
    write_operand(module, &module->operands[instruction->operand_first + i], text);
  }
  write_attributes(instruction, text);
  write_signature(module, instruction, text);
  tu_text_print(text, "\n");
}

void tu_pto_write(const struct tu_pto_module *module, struct tu_text *text) {
  tu_text_print(text, "%s", ""); /* makes the text of an empty module an empty string instead of NULL */
  for (int origin = TU_PTO_ARGUMENT; origin <= TU_PTO_CONSTANT; origin++)
    for (uint32_t i = 0; i < module->value_count; i++)
      if ((int)module->values[i].origin == origin) write_value(module, &module->values[i], text);
  for (uint32_t i = 0; i < module->instruction_count; i++) write_instruction(module, &module->instructions[i], text);
}
