/* pto_check.c: checks that the operands of instructions have types that fit. A size that is not known yet fits any
 * size. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/types.h"
#include "pto/pto_internal.h"

struct check {
  const struct tu_pto_module *module;
  const struct tu_pto_instruction *instruction;
  const struct tu_pto_form *form;
  struct tu_error *error;
};

static const struct tu_pto_operand *operand_at(const struct check *c, uint32_t number) {
  return &c->module->operands[c->instruction->operand_first + number];
}
static const struct tu_pto_value *value_of(const struct check *c, const struct tu_pto_operand *operand) {
  return &c->module->values[operand->value];
}

/* Returns TUTTI_ERR_ARGUMENT with the message "expected WANTED, found %NAME : TYPE", which describes the operand. */
static tutti_err fail_operand(const struct check *c, const struct tu_pto_operand *operand, const char *wanted) {
  const struct tu_pto_value *value = value_of(c, operand);
  char spelled[TU_PTO_SPELLED];
  return tu_pto_fail(c->module, operand->position, c->error, "expected %s, found %%%s : %s", wanted, value->name,
                     tu_pto_spell(c->module, &value->type, spelled));
}

static void spell_shape(const int64_t shape[TUTTI_DIMS], char spelled[TU_PTO_SPELLED]) {
  size_t length = 0;
  for (int d = 0; d < TUTTI_DIMS; d++) {
    size_t room = TU_PTO_SPELLED - length;
    int printed = shape[d] >= 0 ? snprintf(spelled + length, room, d ? "x%" PRId64 : "%" PRId64, shape[d])
                                : snprintf(spelled + length, room, d ? "x?" : "?");
    length += (size_t)printed;
  }
}

/* ---- memrefs and their parts ---- */

/* A memref, or one memref of a group, as an instruction uses it. */
struct view {
  const struct tu_pto_operand *operand;
  bool elided;
  bool indexed; /* true: the operand has indices, so an instruction may use a part of the view */
  tutti_datatype element;
  int64_t shape[TUTTI_DIMS]; /* the shape of the part from the indices to the end of the memref */
  int64_t inner_stride;
};

static int64_t index_number(const struct check *c, const struct tu_pto_index *index) {
  if (index->value == TU_PTO_NONE) return index->number;
  const struct tu_pto_value *value = &c->module->values[index->value];
  return value->origin == TU_PTO_CONSTANT ? value->number : TU_PTO_OPEN;
}

/* Moves the beginning of the view to the operand's indices: subtracts each index from the size of its dimension. Uses
 * the indices from number `first` on. They belong to the last dimensions of the memref. */
static tutti_err shift(const struct check *c, struct view *v, uint32_t first, uint32_t dims) {
  const struct tu_pto_operand *o = v->operand;
  uint32_t count = o->index_count - first;
  if (v->elided) return TUTTI_OK;
  if (count > dims)
    return tu_pto_fail(c->module, o->position, c->error,
                       "expected at most %u indices of %%%s, one for each dimension, found %u", dims + first,
                       value_of(c, o)->name, o->index_count);
  for (uint32_t i = 0; i < count; i++) {
    int64_t at = index_number(c, &o->indices[first + i]), *size = &v->shape[TUTTI_DIMS - count + i];
    if (*size >= 0 && at >= *size)
      return tu_pto_fail(c->module, o->position, c->error, "expected an index below %" PRId64 ", found %" PRId64, *size,
                         at);
    *size = at >= 0 && *size >= 0 ? *size - at : TU_PTO_OPEN;
  }
  return TUTTI_OK;
}

static tutti_err view(const struct check *c, uint32_t number, struct view *v) {
  const struct tu_pto_operand *o = operand_at(c, number);
  const struct tu_pto_type *type = &value_of(c, o)->type;
  bool group = type->kind == TU_PTO_GROUP;
  if (type->kind != TU_PTO_MEMREF && !group) return fail_operand(c, o, "a memref");
  if (group && o->index_count == 0) return fail_operand(c, o, "a memref, or one memref of a group such as %group[0]");
  *v = (struct view){.operand = o,
                     .elided = type->elided,
                     .indexed = o->index_count > (group ? 1u : 0u),
                     .element = type->element,
                     .inner_stride = type->strided ? type->strides[TUTTI_DIMS - 1] : 1};
  for (int d = 0; d < TUTTI_DIMS; d++) v->shape[d] = type->elided || type->shape[d] < 0 ? TU_PTO_OPEN : type->shape[d];
  int64_t rank = group ? index_number(c, &o->indices[0]) : 0;
  if (group && type->count >= 0 && rank >= type->count)
    return tu_pto_fail(c->module, o->position, c->error,
                       "expected a rank below %" PRId64 " as the first index of %%%s, found %" PRId64, type->count,
                       value_of(c, o)->name, rank);
  return shift(c, v, group ? 1 : 0, type->dims);
}

/* Returns true if `part`, a shape, fits the view. If the operand has indices, the view must be at least as large as the
 * part, otherwise exactly as large. */
static bool has_part(const struct view *v, const int64_t part[TUTTI_DIMS]) {
  for (int d = 0; d < TUTTI_DIMS; d++) {
    if (v->shape[d] < 0 || part[d] < 0) continue;
    if (v->indexed ? part[d] > v->shape[d] : part[d] != v->shape[d]) return false;
  }
  return true;
}

static tutti_err need_part(const struct check *c, const struct view *v, const int64_t part[TUTTI_DIMS],
                           const char *whose) {
  char wanted[TU_PTO_SPELLED], found[TU_PTO_SPELLED];
  if (v->elided || has_part(v, part)) return TUTTI_OK;
  spell_shape(part, wanted);
  spell_shape(v->shape, found);
  return tu_pto_fail(c->module, v->operand->position, c->error, "expected %s%s, %s, found %s",
                     v->indexed ? "at least " : "", wanted, whose, found);
}

static tutti_err need_element(const struct check *c, const struct view *v, const struct view *of) {
  if (v->elided || of->elided || v->element == of->element) return TUTTI_OK;
  char wanted[64];
  snprintf(wanted, sizeof wanted, "elements of %s, like %%%.30s", tutti_datatype_name(of->element),
           value_of(c, of->operand)->name);
  return fail_operand(c, v->operand, wanted);
}

/* ---- tiles ---- */

/* Returns true if all data, as one matrix, fits into the tile at once. Then the sizes of the data need not be multiples
 * of the tile's sizes. If a size is unknown, the data is assumed to fit. */
static bool may_fit(const int64_t shape[TUTTI_DIMS], const struct tu_pto_type *tile) {
  int64_t rows = 1;
  for (int d = 0; d < TUTTI_DIMS - 1; d++)
    if (shape[d] >= 0 && __builtin_mul_overflow(rows, shape[d], &rows)) return false;
  return rows <= tile->valid_rows.count && shape[4] <= tile->valid_cols.count;
}

/* Checks that `size` is a multiple of the tile's number of valid rows (or columns), because each part of the data must
 * fill the tile. If this number is only an upper bound (`open`), every size is valid. */
static tutti_err check_valid(const struct check *c, const struct tu_pto_operand *o, struct tu_pto_valid valid,
                             int64_t size, const char *what) {
  if (valid.open || size < 0 || size % valid.count == 0) return TUTTI_OK;
  return tu_pto_fail(c->module, o->position, c->error,
                     "expected a fixed number of valid %s that divides %" PRId64
                     ", found %u; use a dynamic number (%u?)",
                     what, size, valid.count, valid.count);
}

/* Checks the instruction's tiles, which are its operands from number form->operands on: they must be different tiles of
 * the same type. */
static tutti_err check_tiles(const struct check *c, const struct view *of) {
  const struct tu_pto_type *first = NULL;
  for (uint32_t i = c->form->operands; i < c->instruction->operand_count; i++) {
    const struct tu_pto_operand *o = operand_at(c, i);
    const struct tu_pto_type *type = &value_of(c, o)->type;
    char wanted[TU_PTO_SPELLED + 32], spelled[TU_PTO_SPELLED];
    if (type->kind != TU_PTO_TILE || o->index_count > 0) return fail_operand(c, o, "a tile");
    for (uint32_t k = c->form->operands; k < i; k++)
      if (operand_at(c, k)->value == o->value) return fail_operand(c, o, "tiles that do not overlap");
    if (type->elided) continue;
    if (!of->elided && type->element != of->element) {
      snprintf(wanted, sizeof wanted, "a tile of %s", tutti_datatype_name(of->element));
      return fail_operand(c, o, wanted);
    }
    tutti_err err = TUTTI_OK;
    bool slides = !may_fit(of->shape, type);
    if (slides) err = check_valid(c, o, type->valid_rows, of->shape[3], "rows");
    if (slides && err == TUTTI_OK) err = check_valid(c, o, type->valid_cols, of->shape[4], "columns");
    if (err != TUTTI_OK) return err;
    if (first && !tu_pto_same_tile(first, type)) {
      snprintf(wanted, sizeof wanted, "tiles of one type, %s", tu_pto_spell(c->module, first, spelled));
      return fail_operand(c, o, wanted);
    }
    first = type;
  }
  return TUTTI_OK;
}

/* ---- instructions ---- */

/* Computes the shape of a collective's local tensor from one memref of the group. */
static void local_part(enum tu_pto_opcode opcode, int64_t count, const struct view *part, int64_t shape[TUTTI_DIMS]) {
  memcpy(shape, part->shape, sizeof part->shape);
  if (opcode != TU_PTO_TGATHER && opcode != TU_PTO_TSCATTER) return;
  if (count < 0 || shape[3] < 0 || __builtin_mul_overflow(shape[3], count, &shape[3])) shape[3] = TU_PTO_OPEN;
}

/* Makes a view of one memref of the group, which is operand 0. Sets *count to the number of memrefs of the group. */
static tutti_err view_group(const struct check *c, struct view *v, int64_t *count) {
  const struct tu_pto_operand *o = operand_at(c, 0);
  const struct tu_pto_type *type = &value_of(c, o)->type;
  if (type->kind != TU_PTO_GROUP || o->index_count > 0) return fail_operand(c, o, "a group");
  *v = (struct view){.operand = o, .elided = type->elided, .element = type->element};
  for (int d = 0; d < TUTTI_DIMS; d++) v->shape[d] = type->elided || type->shape[d] < 0 ? TU_PTO_OPEN : type->shape[d];
  *count = type->count < 0 ? TU_PTO_OPEN : type->count;
  return TUTTI_OK;
}

static tutti_err check_collective(const struct check *c) {
  struct view part, local;
  int64_t count, needed[TUTTI_DIMS];
  tutti_err err = view_group(c, &part, &count);
  if (err == TUTTI_OK) err = view(c, 1, &local);
  if (err == TUTTI_OK) err = need_element(c, &local, &part);
  if (err != TUTTI_OK) return err;
  local_part(c->instruction->opcode, count, &part, needed);
  /* For a gather or a scatter the local tensor may have more rows than all memrefs of the group together. A gather
   * leaves the additional rows unchanged, a scatter ignores them. */
  bool gathers = c->instruction->opcode == TU_PTO_TGATHER || c->instruction->opcode == TU_PTO_TSCATTER;
  if (gathers && needed[3] >= 0 && local.shape[3] > needed[3]) local.shape[3] = needed[3];
  if ((err = need_part(c, &local, needed, gathers ? "the rows of all ranks" : "as in each rank's memref")) != TUTTI_OK)
    return err;
  if (count >= 0 && c->instruction->rank >= count)
    return tu_pto_fail(c->module, c->instruction->position, c->error,
                       "expected a root below %" PRId64 ", the size of the group, found %" PRId64, count,
                       c->instruction->rank);
  return check_tiles(c, &part);
}

/* Computes the shape of the data that is moved between two memrefs. If no memref is indexed, everything is moved. If
 * both memrefs are indexed, the attribute `shape` must be given. */
static tutti_err moved_part(const struct check *c, const struct view *to, const struct view *from,
                            int64_t shape[TUTTI_DIMS]) {
  const struct tu_pto_instruction *i = c->instruction;
  if (!i->shape_dims && to->indexed && from->indexed)
    return tu_pto_fail(c->module, i->position, c->error,
                       "expected {shape = #pto.shape<...>}, as both memrefs are indexed, found none");
  for (int d = 0; d < TUTTI_DIMS; d++) {
    shape[d] = to->indexed ? TU_PTO_OPEN : to->shape[d];
    if (shape[d] < 0 && !from->indexed) shape[d] = from->shape[d];
    if (i->shape_dims) shape[d] = i->shape[d];
  }
  return TUTTI_OK;
}

static tutti_err check_flat(const struct check *c, const struct view *v, const int64_t shape[TUTTI_DIMS]) {
  bool flat = v->inner_stride == 1 || shape[4] == 1;
  for (int d = 0; d < TUTTI_DIMS - 1; d++) flat &= shape[d] < 0 || shape[d] == 1;
  char found[TU_PTO_SPELLED];
  if (flat) return TUTTI_OK;
  spell_shape(shape, found);
  return tu_pto_fail(c->module, v->operand->position, c->error,
                     "expected a flat memref (one dimension, no gaps) for %s, found %s%s", c->form->name, found,
                     v->inner_stride == 1 ? "" : " with gaps");
}

static bool adds_atomically(tutti_datatype type) {
  switch (type) {
    case TUTTI_I32:
    case TUTTI_U32:
    case TUTTI_I64:
    case TUTTI_U64:
    case TUTTI_F32:
    case TUTTI_F64:
    case TUTTI_F16:
    case TUTTI_BF16: return true;
    default: return false;
  }
}

static tutti_err check_move(const struct check *c) {
  struct view to, from;
  int64_t part[TUTTI_DIMS];
  enum tu_pto_opcode opcode = c->instruction->opcode;
  tutti_err err = view(c, 0, &to);
  if (err == TUTTI_OK) err = view(c, 1, &from);
  if (err == TUTTI_OK) err = need_element(c, &from, &to);
  if (err == TUTTI_OK) err = moved_part(c, &to, &from, part);
  const char *whose = c->instruction->shape_dims ? "as given by shape" : "as in the other memref";
  if (err == TUTTI_OK) err = need_part(c, &from, part, whose);
  if (err == TUTTI_OK) err = need_part(c, &to, part, whose);
  if (err != TUTTI_OK) return err;
  if (opcode == TU_PTO_TPUT && c->instruction->choice == TU_PTO_ADD && !to.elided && !adds_atomically(to.element))
    return fail_operand(c, to.operand,
                        "elements of a type with atomic addition (i32, u32, i64, u64, f16, bf16, f32, f64)");
  if (opcode == TU_PTO_TPUT_ASYNC || opcode == TU_PTO_TGET_ASYNC) {
    err = check_flat(c, &to, part);
    return err == TUTTI_OK ? check_flat(c, &from, part) : err;
  }
  struct view moved = to.elided ? from : to;
  memcpy(moved.shape, part, sizeof part);
  return check_tiles(c, &moved);
}

/* Computes the shape of the signals that an instruction uses: the attribute `shape` if it is given; one signal if the
 * operand is indexed or the instruction is tnotify; otherwise all signals. */
static void signals_part(const struct check *c, const struct view *v, int64_t shape[TUTTI_DIMS]) {
  bool one = c->instruction->opcode == TU_PTO_TNOTIFY || v->indexed;
  for (int d = 0; d < TUTTI_DIMS; d++)
    shape[d] = c->instruction->shape_dims ? c->instruction->shape[d] : one ? 1 : v->shape[d];
}

static tutti_err check_signal(const struct check *c) {
  struct view signals;
  int64_t part[TUTTI_DIMS];
  tutti_err err = view(c, 0, &signals);
  if (err != TUTTI_OK) return err;
  if (!signals.elided && signals.element != TUTTI_I32)
    return fail_operand(c, signals.operand, "signals (a memref of i32)");
  signals_part(c, &signals, part);
  bool notifies = c->instruction->opcode == TU_PTO_TNOTIFY;
  err = need_part(c, &signals, part, notifies ? "one signal (select it by an index)" : "as given by shape");
  if (err != TUTTI_OK) return err;
  const struct tu_pto_operand *o = operand_at(c, 1);
  const struct tu_pto_type *type = &value_of(c, o)->type;
  if (type->kind != TU_PTO_SCALAR || type->element != TUTTI_I32 || o->index_count > 0)
    return fail_operand(c, o, "a value of type i32");
  if (c->instruction->opcode == TU_PTO_TTEST && c->instruction->result == TU_PTO_NONE)
    return tu_pto_fail(c->module, c->instruction->position, c->error,
                       "expected a result, for example %%all = ttest, found none");
  return TUTTI_OK;
}

static tutti_err check_sync(const struct check *c) {
  for (uint32_t i = 0; i < c->instruction->operand_count; i++) {
    const struct tu_pto_operand *o = operand_at(c, i);
    if (value_of(c, o)->type.kind != TU_PTO_EVENT || o->index_count > 0) return fail_operand(c, o, "an event");
  }
  return TUTTI_OK;
}

/* Checks the number of operands: either no tiles, or all tiles of the opcode, with one staging tile or with two. */
static tutti_err check_count(const struct check *c) {
  uint32_t count = c->instruction->operand_count, plain = c->form->operands, tiles = c->form->tiles;
  if (count == plain || (c->instruction->opcode == TU_PTO_TSYNC && count > plain)) return TUTTI_OK;
  if (tiles == 0)
    return tu_pto_fail(c->module, c->instruction->position, c->error, "expected %u operand%s of %s, found %u", plain,
                       plain == 1 ? "" : "s", c->form->name, count);
  if (count == plain + tiles || count == plain + tiles + 1) return TUTTI_OK;
  return tu_pto_fail(c->module, c->instruction->position, c->error,
                     "expected %u operands of %s, or %u or %u if it names tiles, found %u", plain, c->form->name,
                     plain + tiles, plain + tiles + 1, count);
}

static tutti_err check_instruction(const struct check *c) {
  tutti_err err = check_count(c);
  if (err != TUTTI_OK) return err;
  switch (c->instruction->opcode) {
    case TU_PTO_TNOTIFY:
    case TU_PTO_TWAIT:
    case TU_PTO_TTEST: return check_signal(c);
    case TU_PTO_TSYNC: return check_sync(c);
    default: return c->form->collective ? check_collective(c) : check_move(c);
  }
}

tutti_err tu_pto_check(const struct tu_pto_module *module, struct tu_error *error) {
  for (uint32_t i = 0; i < module->instruction_count; i++) {
    const struct tu_pto_instruction *instruction = &module->instructions[i];
    const struct check c = {module, instruction, &tu_pto_forms[instruction->opcode], error};
    tutti_err err = check_instruction(&c);
    if (err != TUTTI_OK) return err;
  }
  return TUTTI_OK;
}

void tu_pto_extent(const struct tu_pto_module *module, const struct tu_pto_instruction *instruction,
                   int64_t shape[TUTTI_DIMS]) {
  const struct check c = {module, instruction, &tu_pto_forms[instruction->opcode], NULL};
  struct view first = {0}, second = {0};
  int64_t count;
  tutti_err err = TUTTI_OK;
  tu_assert(instruction->opcode != TU_PTO_TSYNC);
  if (c.form->collective) {
    err = view_group(&c, &first, &count);
    if (err == TUTTI_OK) local_part(instruction->opcode, count, &first, shape);
  } else {
    err = view(&c, 0, &first);
    bool moves = instruction->opcode < TU_PTO_TNOTIFY;
    if (err == TUTTI_OK && moves) err = view(&c, 1, &second);
    if (err == TUTTI_OK && moves) err = moved_part(&c, &first, &second, shape);
    if (err == TUTTI_OK && !moves) signals_part(&c, &first, shape);
  }
  tu_assert(err == TUTTI_OK); /* no failure is possible, because the instruction has been checked */
}
