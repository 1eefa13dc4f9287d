/* pto_read_instruction.c: reads instructions: result, opcode, operands, attributes and signature. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/types.h"
#include "pto/pto_reader.h"

/* ---- operands and attributes ---- */

/* Reads the rest of a list of indices such as "[%i, 0]", after the opening bracket. */
static tutti_err read_indices(struct tu_pto_reader *r, struct tu_pto_operand *operand) {
  do {
    if (operand->index_count == TU_PTO_INDICES) return tu_pto_expected(r, "at most 6 indices");
    struct tu_pto_index *index = &operand->indices[operand->index_count++];
    *index = (struct tu_pto_index){.value = TU_PTO_NONE};
    struct tu_pto_position position = tu_pto_position_of(r);
    if (tu_pto_take_number(r, &index->number)) continue;
    if (r->scan.at == r->scan.end || *r->scan.at != '%')
      return tu_pto_expected(r, "an index: a value, or a number of at most 2^46");
    tutti_err err = tu_pto_read_value(r, &index->value);
    if (err != TUTTI_OK) return err;
    const struct tu_pto_value *value = &r->module->values[index->value];
    bool whole = value->type.kind == TU_PTO_INDEX ||
                 (value->type.kind == TU_PTO_SCALAR && !tu_datatypes[value->type.element].floating);
    char spelled[TU_PTO_SPELLED];
    if (!whole)
      return tu_pto_fail(r->module, position, r->error, "expected an index, found %%%s : %s", value->name,
                         tu_pto_spell(r->module, &value->type, spelled));
    if (value->origin == TU_PTO_CONSTANT && value->number < 0)
      return tu_pto_fail(r->module, position, r->error, "expected an index of 0 or more, found %%%s = %" PRId64,
                         value->name, value->number);
  } while (tu_pto_take(r, ","));
  return tu_pto_take(r, "]") ? TUTTI_OK : tu_pto_expected(r, "',' or ']'");
}

static tutti_err read_choice(struct tu_pto_reader *r, const struct tu_pto_choices *choices, uint32_t *choice) {
  char what[96];
  if (!tu_pto_take(r, "<")) return tu_pto_expected(r, "'<'");
  *choice = tu_pto_take_one_of(r, choices->choices, choices->count);
  snprintf(what, sizeof what, "%s", choices->choices[0]);
  for (uint32_t i = 1; i < choices->count; i++) {
    size_t length = strlen(what);
    snprintf(what + length, sizeof what - length, "%s%s", i + 1 < choices->count ? ", " : " or ", choices->choices[i]);
  }
  if (*choice == choices->count) return tu_pto_expected_name(r, what, "", choices->choices, choices->count);
  return tu_pto_take(r, ">") ? TUTTI_OK : tu_pto_expected(r, "'>'");
}

/* Reads an attribute value such as "#pto.cmp<EQ>". The attribute must be the one that the instruction accepts. */
static tutti_err read_opaque(struct tu_pto_reader *r, struct tu_pto_instruction *instruction) {
  const struct tu_pto_form *form = &tu_pto_forms[instruction->opcode];
  char what[64], word[64];
  snprintf(what, sizeof what, "#pto.%s<...>", form->choices->name);
  snprintf(word, sizeof word, "pto.%s", form->choices->name);
  const char *const names[] = {word};
  struct tu_scan before = r->scan;
  if (tu_pto_take(r, "#") && tu_pto_take_word(r, word)) return read_choice(r, form->choices, &instruction->choice);
  r->scan = before;
  return tu_pto_expected_name(r, what, "#", names, 1);
}

static tutti_err read_operands(struct tu_pto_reader *r, struct tu_pto_instruction *instruction, bool *has_choice) {
  instruction->operand_first = r->module->operand_count;
  do {
    struct tu_pto_operand operand = {.position = tu_pto_position_of(r)};
    bool opaque = r->scan.at < r->scan.end && *r->scan.at == '#';
    if (opaque && tu_pto_forms[instruction->opcode].key && !*has_choice) {
      tutti_err err = read_opaque(r, instruction);
      if (err != TUTTI_OK) return err;
      *has_choice = true;
      continue;
    }
    tutti_err err = tu_pto_read_value(r, &operand.value);
    if (err == TUTTI_OK && tu_pto_take(r, "[")) err = read_indices(r, &operand);
    if (err != TUTTI_OK) return err;
    tu_pto_add_operand(r->module, &operand);
    instruction->operand_count++;
  } while (tu_pto_take(r, ","));
  return TUTTI_OK;
}

/* Reads a shape such as "#pto.shape<4x8>". */
static tutti_err read_shape(struct tu_pto_reader *r, struct tu_pto_instruction *instruction) {
  int64_t sizes[TUTTI_DIMS];
  uint32_t dims = 0;
  if (!tu_pto_take(r, "#") || !tu_pto_take_word(r, "pto.shape") || !tu_pto_take(r, "<"))
    return tu_pto_expected(r, "#pto.shape<...>");
  do {
    if (dims == TUTTI_DIMS) return tu_pto_expected(r, "at most 5 dimensions");
    if (!tu_pto_take_number(r, &sizes[dims])) return tu_pto_expected(r, "a size (a number of at most 2^46)");
    dims++;
  } while (tu_pto_take(r, "x"));
  for (int d = 0; d < TUTTI_DIMS; d++) instruction->shape[d] = 1;
  memcpy(instruction->shape + TUTTI_DIMS - dims, sizes, dims * sizeof *sizes);
  instruction->shape_dims = dims;
  return tu_pto_take(r, ">") ? TUTTI_OK : tu_pto_expected(r, "'x' or '>'");
}

/* Reads the rest of a list of attributes such as "{op = #pto.reduce_op<Sum>, root = 1}", after the opening bracket. */
static tutti_err read_attributes(struct tu_pto_reader *r, struct tu_pto_instruction *instruction, bool *has_choice) {
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
  if (tu_pto_take(r, "}")) return TUTTI_OK;
  do {
    struct tu_pto_position position = tu_pto_position_of(r);
    uint32_t key = tu_pto_take_one_of(r, keys, count);
    if (key == count) return tu_pto_expected_name(r, what, "", keys, count);
    if (seen[key] || (*has_choice && keys[key] == form->key))
      return tu_pto_fail(r->module, position, r->error, "expected each attribute once, found a second '%s'", keys[key]);
    seen[key] = true;
    if (!tu_pto_take(r, "=")) return tu_pto_expected(r, "'='");
    tu_scan_blanks(&r->scan);
    tutti_err err = TUTTI_OK;
    if (keys[key] == form->key) {
      err = read_opaque(r, instruction);
      *has_choice = true;
    } else if (keys[key] == what_rank) {
      if (!tu_pto_take_number(r, &instruction->rank)) err = tu_pto_expected(r, "a rank number");
    } else {
      err = read_shape(r, instruction);
    }
    if (err != TUTTI_OK) return err;
  } while (tu_pto_take(r, ","));
  return tu_pto_take(r, "}") ? TUTTI_OK : tu_pto_expected(r, "',' or '}'");
}

/* ---- signatures ---- */

/* Reads a type from a signature. The type must agree with the type of value number `value`, whose unknown parts are
 * filled from it. If `value` is TU_PTO_NONE, the type belongs to an index that is written as a number. */
static tutti_err read_fitting(struct tu_pto_reader *r, uint32_t value) {
  struct tu_pto_position position = tu_pto_position_of(r);
  struct tu_pto_type said, literal = {.kind = TU_PTO_INDEX};
  tutti_err err = tu_pto_read_type(r, &said);
  if (err != TUTTI_OK) return err;
  struct tu_pto_type *type = value == TU_PTO_NONE ? &literal : &r->module->values[value].type;
  char ours[TU_PTO_SPELLED], theirs[TU_PTO_SPELLED];
  tu_pto_spell(r->module, type, ours);
  if (type->kind == said.kind && tu_pto_merge(r->module, type, &said)) return TUTTI_OK;
  const char *name = value == TU_PTO_NONE ? "the index" : r->module->values[value].name;
  return tu_pto_fail(r->module, position, r->error, "expected %s, the type of %s%s, found %s", ours,
                     value == TU_PTO_NONE ? "" : "%", name, tu_pto_spell(r->module, &said, theirs));
}

static tutti_err fail_count(struct tu_pto_reader *r, struct tu_pto_position position, uint32_t wanted,
                            const char *found) {
  return tu_pto_fail(r->module, position, r->error, "expected %u type%s, one for each operand and index, found %s",
                     wanted, wanted == 1 ? "" : "s", found);
}

/* Reads the operand types of a signature: one type for each operand and one for each index of an operand. */
static tutti_err read_operand_types(struct tu_pto_reader *r, const struct tu_pto_instruction *instruction) {
  struct tu_pto_position position = tu_pto_position_of(r);
  uint32_t wanted = 0, read = 0;
  for (uint32_t i = 0; i < instruction->operand_count; i++)
    wanted += 1 + r->module->operands[instruction->operand_first + i].index_count;
  bool listed = tu_pto_take(r, "(");
  if (listed && tu_pto_take(r, ")")) return wanted == 0 ? TUTTI_OK : fail_count(r, position, wanted, "none");
  for (uint32_t i = 0; i < instruction->operand_count; i++) {
    const struct tu_pto_operand operand = r->module->operands[instruction->operand_first + i];
    for (uint32_t k = 0; k <= operand.index_count; k++) {
      if (read++ > 0 && (!listed || !tu_pto_take(r, ","))) return fail_count(r, position, wanted, "fewer");
      tutti_err err = read_fitting(r, k == 0 ? operand.value : operand.indices[k - 1].value);
      if (err != TUTTI_OK) return err;
    }
  }
  if (!listed) return TUTTI_OK;
  if (tu_pto_take(r, ",")) return fail_count(r, position, wanted, "more");
  return tu_pto_take(r, ")") ? TUTTI_OK : tu_pto_expected(r, "')'");
}

static tutti_err read_result_types(struct tu_pto_reader *r, const struct tu_pto_instruction *instruction) {
  struct tu_pto_position position = tu_pto_position_of(r);
  bool listed = tu_pto_take(r, "("), closed = listed && tu_pto_take(r, ")");
  if (instruction->result == TU_PTO_NONE) {
    if (closed) return TUTTI_OK;
    return tu_pto_fail(r->module, position, r->error,
                       "expected no result type, because the result is not assigned to a value");
  }
  if (closed) return tu_pto_expected(r, "the type of the result");
  tutti_err err = read_fitting(r, instruction->result);
  if (err != TUTTI_OK) return err;
  return !listed || tu_pto_take(r, ")") ? TUTTI_OK : tu_pto_expected(r, "')'");
}

/* ---- the whole instruction ---- */

static tutti_err read_opcode(struct tu_pto_reader *r, enum tu_pto_opcode *opcode) {
  const char *names[TU_PTO_OPCODES];
  for (int i = 0; i < TU_PTO_OPCODES; i++) names[i] = tu_pto_forms[i].name;
  struct tu_scan before = r->scan;
  char word[TU_PTO_NAME_BYTES];
  if (tu_pto_take_name(r, word, sizeof word)) {
    const char *bare = strncmp(word, "pto.", 4) == 0 ? word + 4 : word;
    for (int i = 0; i < TU_PTO_OPCODES; i++) {
      if (strcmp(bare, names[i]) != 0) continue;
      *opcode = (enum tu_pto_opcode)i;
      return TUTTI_OK;
    }
  }
  r->scan = before;
  return tu_pto_expected_name(r, "an instruction", "", names, TU_PTO_OPCODES);
}

/* Reads the name of a result, such as "%e =". If the text has no result here, sets `name` to the empty string. */
static tutti_err read_result(struct tu_pto_reader *r, char name[TU_PTO_NAME_BYTES], struct tu_pto_position *position) {
  name[0] = '\0';
  tu_scan_blanks(&r->scan);
  if (r->scan.at == r->scan.end || *r->scan.at != '%') return TUTTI_OK;
  tutti_err err = tu_pto_read_new_name(r, name, position);
  if (err != TUTTI_OK) return err;
  return tu_pto_take(r, "=") ? TUTTI_OK : tu_pto_expected(r, "'=' and an instruction with one result");
}

/* Reads the opcode, the operands and the attributes of an instruction. */
static tutti_err read_action(struct tu_pto_reader *r, struct tu_pto_instruction *instruction) {
  tutti_err err = read_opcode(r, &instruction->opcode);
  if (err != TUTTI_OK) return err;
  const struct tu_pto_form *form = &tu_pto_forms[instruction->opcode];
  bool has_choice = false;
  if ((err = read_operands(r, instruction, &has_choice)) != TUTTI_OK) return err;
  if (tu_pto_take(r, "{") && (err = read_attributes(r, instruction, &has_choice)) != TUTTI_OK) return err;
  if (!form->needs_choice || has_choice) return TUTTI_OK;
  return tu_pto_fail(r->module, instruction->position, r->error, "expected {%s = #pto.%s<...>} for %s, found none",
                     form->key, form->choices->name, form->name);
}

tutti_err tu_pto_read_instruction(struct tu_pto_reader *r) {
  struct tu_pto_module *m = r->module;
  struct tu_pto_position result_position;
  char result[TU_PTO_NAME_BYTES];
  tutti_err err = read_result(r, result, &result_position);
  if (err != TUTTI_OK) return err;
  struct tu_pto_instruction instruction = {
      .position = tu_pto_position_of(r), .rank = TU_PTO_OPEN, .result = TU_PTO_NONE};
  if ((err = read_action(r, &instruction)) != TUTTI_OK) return err;
  const struct tu_pto_form *form = &tu_pto_forms[instruction.opcode];
  if (result[0] && form->result == TU_PTO_SCALAR)
    return tu_pto_fail(m, result_position, r->error, "expected no result, because %s has none, found '%%%s'",
                       form->name, result);
  if (result[0]) {
    instruction.result = tu_pto_add_value(m, result, TU_PTO_RESULT, result_position);
    m->values[instruction.result].type.kind = form->result;
  }
  if (tu_pto_take(r, ":")) {
    if ((err = read_operand_types(r, &instruction)) != TUTTI_OK) return err;
    if (tu_pto_take(r, "->") && (err = read_result_types(r, &instruction)) != TUTTI_OK) return err;
  }
  m->instructions = tu_grow(m->instructions, m->instruction_count, &m->instruction_capacity, sizeof *m->instructions);
  m->instructions[m->instruction_count++] = instruction;
  return TUTTI_OK;
}
