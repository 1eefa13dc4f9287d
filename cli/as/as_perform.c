/* as_perform.c: creates windows for the buffers of a program, and executes the program's instructions in order. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/types.h"
#include "cli/as/as.h"

static const struct tu_pto_value *value_at(const struct as_run *run, uint32_t value) {
  return &run->module->values[value];
}

/* Returns err. If it is an error, copies the library's error message into `error`. */
static tutti_err said(tutti_err err, struct tu_error *error) {
  return err == TUTTI_OK ? err : tu_fail(error, err, "%s", tutti_error_message(NULL));
}

/* ---- buffers of the program ---- */

/* Computes the strides of a type in elements: its own strides, or those of row-major order if it has none. */
static void strides_of(const struct tu_pto_type *type, size_t strides[TUTTI_DIMS]) {
  size_t stride = 1;
  for (int d = TUTTI_DIMS - 1; d >= 0; d--) {
    strides[d] = type->strided ? (size_t)type->strides[d] : stride;
    stride *= type->shape[d] > 0 ? (size_t)type->shape[d] : 1;
  }
}

static tutti_err make_tensor(const struct tu_pto_type *type, void *data, tutti_tensor *tensor, struct tu_error *error) {
  size_t shape[TUTTI_DIMS], strides[TUTTI_DIMS];
  for (int d = 0; d < TUTTI_DIMS; d++) shape[d] = (size_t)type->shape[d];
  strides_of(type, strides);
  return said(tutti_tensor_strided(tensor, (tutti_tensor_of){data, type->element, TUTTI_DIMS, shape}, strides), error);
}

tutti_err as_part(const struct as_run *run, uint32_t value, uint32_t rank, tutti_tensor *tensor,
                  struct tu_error *error) {
  const tutti_window *window = run->values[run->values[value].buffer].window;
  return make_tensor(&value_at(run, value)->type, tutti_window_address(window, rank), tensor, error);
}

/* Copies the array in the value's file into this rank's part of the window. */
static tutti_err load(struct as_run *run, uint32_t value, struct tu_error *error) {
  struct as_value *v = &run->values[value];
  struct tu_pto_type packed = value_at(run, value)->type;
  packed.strided = false;
  void *copy = NULL; /* aligned copy of the elements, because they may be unaligned in the file */
  if (v->npy.bytes == 0) return TUTTI_OK;
  if (posix_memalign(&copy, TU_LINE_BYTES, v->npy.bytes) != 0)
    return tu_fail(error, TUTTI_ERR_MEMORY, "out of memory: cannot allocate %zu bytes for %%%s", v->npy.bytes,
                   value_at(run, value)->name);
  memcpy(copy, v->npy.data, v->npy.bytes);
  tutti_tensor to, from;
  tutti_err err = as_part(run, value, run->rank, &to, error);
  if (err == TUTTI_OK) err = make_tensor(&packed, copy, &from, error);
  if (err == TUTTI_OK) err = said(tutti_put(&from, &to, NULL, NULL), error);
  free(copy);
  return err;
}

static tutti_err open_buffer(struct as_run *run, uint32_t value, struct tu_error *error) {
  tutti_tensor tensor;
  tutti_err err = make_tensor(&value_at(run, value)->type, NULL, &tensor, error);
  size_t bytes = err == TUTTI_OK ? tutti_tensor_bytes(&tensor) : 0;
  tutti_err created = tutti_window_create(run->comm, NULL, tu_max(bytes, TU_LINE_BYTES), &run->values[value].window);
  return err == TUTTI_OK ? said(created, error) : err;
}

static tutti_err allocate_tile(struct as_run *run, uint32_t value, struct tu_error *error) {
  const struct tu_pto_type *type = &value_at(run, value)->type;
  size_t bytes = (size_t)type->rows * type->cols * tu_datatypes[type->element].bytes;
  if (posix_memalign(&run->values[value].tile, TU_LINE_BYTES, bytes) == 0) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_MEMORY, "out of memory: cannot allocate %zu bytes for %%%s", bytes,
                 value_at(run, value)->name);
}

tutti_err as_open(struct as_run *run, struct tu_error *error) {
  tutti_err err = TUTTI_OK;
  /* Creating a window is collective. A rank that has failed still creates all windows, because the other ranks would
   * wait for it otherwise. */
  for (uint32_t i = 0; i < run->module->value_count; i++)
    if (run->values[i].buffer == i && open_buffer(run, i, err == TUTTI_OK ? error : NULL) != TUTTI_OK &&
        err == TUTTI_OK)
      err = error->code;
  for (uint32_t i = 0; i < run->module->value_count && err == TUTTI_OK; i++) {
    if (run->values[i].file) err = load(run, i, error);
    if (err == TUTTI_OK && value_at(run, i)->type.kind == TU_PTO_TILE) err = allocate_tile(run, i, error);
  }
  return err == TUTTI_OK ? said(tutti_session_create(&run->session), error) : err;
}

void as_close(struct as_run *run) {
  uint32_t count = run->module && run->values ? run->module->value_count : 0;
  for (uint32_t i = 0; i < count; i++) {
    (void)tutti_window_free(run->values[i].window);
    free(run->values[i].tile);
    free(run->values[i].file);
  }
  for (uint32_t i = 0; i < run->out_count; i++) free(run->outs[i].path);
  free(run->values);
  tu_pto_destroy(run->module);
}

/* ---- execution of instructions ---- */

/* One instruction during its execution. */
struct step {
  struct as_run *run;
  const struct tu_pto_instruction *instruction;
  const struct tu_pto_form *form;
  struct tu_error *error;
  int64_t extent[TUTTI_DIMS];
  tutti_staging staging;
  void *accumulator;
};

static const struct tu_pto_operand *operand_at(const struct step *s, uint32_t number) {
  return &s->run->module->operands[s->instruction->operand_first + number];
}

static size_t index_of(const struct step *s, const struct tu_pto_index *index) {
  return (size_t)(index->value == TU_PTO_NONE ? index->number : value_at(s->run, index->value)->number);
}

/* Sets *tensor to the part of operand `number` that begins at the operand's indices and has the given shape. */
static tutti_err tensor_of(const struct step *s, uint32_t number, const int64_t shape[TUTTI_DIMS],
                           tutti_tensor *tensor) {
  const struct tu_pto_operand *o = operand_at(s, number);
  const struct as_value *v = &s->run->values[o->value];
  struct tu_pto_type type = value_at(s->run, o->value)->type;
  size_t strides[TUTTI_DIMS], at = 0;
  uint32_t first = type.kind == TU_PTO_GROUP ? 1 : 0, shifts = o->index_count - first;
  size_t rank = first ? index_of(s, &o->indices[0]) : v->rank;
  strides_of(&type, strides);
  for (uint32_t i = 0; i < shifts; i++) at += index_of(s, &o->indices[first + i]) * strides[TUTTI_DIMS - shifts + i];
  char *base = tutti_window_address(s->run->values[v->buffer].window, (uint32_t)rank);
  type.strided = true;
  for (int d = 0; d < TUTTI_DIMS; d++) {
    type.shape[d] = shape[d];
    type.strides[d] = (int64_t)strides[d];
  }
  return make_tensor(&type, base + at * tu_datatypes[type.element].bytes, tensor, s->error);
}

/* Finds the tiles (small buffers) among the instruction's operands. Stores the tiles that the data passes through in
 * s->staging. A treduce (reduction) also has a tile into which it adds; this tile becomes s->accumulator. */
static void find_staging(struct step *s) {
  uint32_t next = s->form->operands, count = s->instruction->operand_count;
  if (count == next) return;
  if (s->form->tiles == 2) s->accumulator = s->run->values[operand_at(s, next++)->value].tile;
  const struct tu_pto_type *type = &value_at(s->run, operand_at(s, next)->value)->type;
  s->staging = (tutti_staging){.rows = type->rows,
                               .cols = type->cols,
                               .valid_rows = type->valid_rows.count,
                               .valid_cols = type->valid_cols.count,
                               .fixed_rows = !type->valid_rows.open,
                               .fixed_cols = !type->valid_cols.open};
  for (uint32_t i = 0; next < count; i++) s->staging.tiles[i] = s->run->values[operand_at(s, next++)->value].tile;
}

static tutti_err call_collective(struct step *s, const tutti_onesided_group *group, const tutti_tensor *local) {
  static const tutti_op ops[] = {[TU_PTO_SUM] = TUTTI_SUM, [TU_PTO_MAX] = TUTTI_MAX, [TU_PTO_MIN] = TUTTI_MIN};
  switch (s->instruction->opcode) {
    case TU_PTO_TGATHER: return tutti_onesided_gather(group, local, &s->staging, NULL);
    case TU_PTO_TSCATTER: return tutti_onesided_scatter(group, local, &s->staging, NULL);
    case TU_PTO_TBROADCAST: return tutti_onesided_broadcast(group, local, &s->staging, NULL);
    default: return tutti_onesided_reduce(group, local, ops[s->instruction->choice], s->accumulator, &s->staging, NULL);
  }
}

static tutti_err perform_collective(struct step *s) {
  struct as_run *run = s->run;
  int64_t root = s->instruction->rank >= 0 ? s->instruction->rank : run->request->root;
  if (root != run->rank) return TUTTI_OK;
  tutti_tensor local, *tensors = tu_allocate(run->ranks, sizeof *tensors);
  const tutti_onesided_group group = {.tensors = tensors, .count = run->ranks, .root = run->rank};
  tutti_err err = tensor_of(s, 1, s->extent, &local);
  for (uint32_t r = 0; r < run->ranks && err == TUTTI_OK; r++)
    err = as_part(run, operand_at(s, 0)->value, r, &tensors[r], s->error);
  if (err == TUTTI_OK) err = said(call_collective(s, &group, &local), s->error);
  free(tensors);
  return err;
}

static tutti_err call_move(struct step *s, const tutti_tensor *to, const tutti_tensor *from) {
  tutti_event event = {0};
  tutti_err err;
  switch (s->instruction->opcode) {
    case TU_PTO_TPUT:
      if (s->instruction->choice == TU_PTO_ADD) return tutti_put_add(from, to, &s->staging, NULL);
      return tutti_put(from, to, &s->staging, NULL);
    case TU_PTO_TGET: return tutti_get(from, to, &s->staging, NULL);
    case TU_PTO_TPUT_ASYNC: err = tutti_put_start(s->run->session, from, to, &event); break;
    default: err = tutti_get_start(s->run->session, from, to, &event); break;
  }
  if (s->instruction->result != TU_PTO_NONE) s->run->values[s->instruction->result].event = event;
  return err;
}

static tutti_err perform_move(struct step *s) {
  tutti_tensor to, from;
  tutti_err err = tensor_of(s, 0, s->extent, &to);
  if (err == TUTTI_OK) err = tensor_of(s, 1, s->extent, &from);
  return err == TUTTI_OK ? said(call_move(s, &to, &from), s->error) : err;
}

static tutti_err perform_signal(struct step *s) {
  static const tutti_compare compares[] = {[TU_PTO_EQ] = TUTTI_EQ, [TU_PTO_NE] = TUTTI_NE, [TU_PTO_GT] = TUTTI_GT,
                                           [TU_PTO_GE] = TUTTI_GE, [TU_PTO_LT] = TUTTI_LT, [TU_PTO_LE] = TUTTI_LE};
  uint32_t choice = s->instruction->choice;
  int32_t number = (int32_t)value_at(s->run, operand_at(s, 1)->value)->number;
  tutti_tensor signals;
  tutti_err err = tensor_of(s, 0, s->extent, &signals);
  int64_t timeout_ms = 0;
  if (err == TUTTI_OK) err = tu_env_int("TUTTI_TIMEOUT_MS", TUTTI_NO_TIMEOUT, INT_MAX, &timeout_ms, s->error);
  if (err != TUTTI_OK) return err;
  if (s->instruction->opcode == TU_PTO_TNOTIFY) {
    int32_t *signal = signals.data;
    err = choice == TU_PTO_ADD ? tutti_signal_add(signal, number, NULL) : tutti_signal_set(signal, number, NULL);
  } else if (s->instruction->opcode == TU_PTO_TWAIT) {
    err = tutti_signal_wait(&signals, compares[choice], number, (int)timeout_ms, NULL);
  } else {
    struct as_value *result = &s->run->values[s->instruction->result];
    result->was_run = true;
    err = tutti_signal_test(&signals, compares[choice], number, &result->truth);
  }
  return said(err, s->error);
}

static tutti_err perform_sync(struct step *s) {
  tutti_err err = TUTTI_OK;
  for (uint32_t i = 0; i < s->instruction->operand_count && err == TUTTI_OK; i++)
    err = said(tutti_event_wait(s->run->values[operand_at(s, i)->value].event), s->error);
  return err;
}

static tutti_err perform(struct step *s) {
  enum tu_pto_opcode opcode = s->instruction->opcode;
  if (opcode != TU_PTO_TSYNC) tu_pto_extent(s->run->module, s->instruction, s->extent);
  find_staging(s);
  if (s->form->collective) return perform_collective(s);
  if (s->instruction->rank >= 0 && s->instruction->rank != s->run->rank) return TUTTI_OK;
  if (opcode == TU_PTO_TSYNC) return perform_sync(s);
  return opcode < TU_PTO_TNOTIFY ? perform_move(s) : perform_signal(s);
}

tutti_err as_perform(struct as_run *run, struct tu_error *error) {
  const struct tu_pto_module *m = run->module;
  tutti_err err = TUTTI_OK;
  for (uint32_t i = 0; i < m->instruction_count && err == TUTTI_OK; i++) {
    const struct tu_pto_instruction *instruction = &m->instructions[i];
    struct step step = {
        .run = run, .instruction = instruction, .form = &tu_pto_forms[instruction->opcode], .error = error};
    if ((err = perform(&step)) == TUTTI_OK) continue;
    tu_fail(error, err, "%s:%u:%u: %s", m->name, instruction->position.line, instruction->position.column, error->text);
  }
  tutti_err ended = said(tutti_session_free(run->session), err == TUTTI_OK ? error : NULL);
  run->session = NULL;
  return err == TUTTI_OK ? ended : err;
}
