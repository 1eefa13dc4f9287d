/* as_bind.c: binds the arguments of a program to files, numbers and other ranks' buffers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/types.h"
#include "cli/as/as.h"

static struct tu_pto_value *value_at(const struct as_run *run, uint32_t value) { return &run->module->values[value]; }

static bool is_memory(const struct tu_pto_value *v) {
  return v->origin == TU_PTO_ARGUMENT && (v->type.kind == TU_PTO_MEMREF || v->type.kind == TU_PTO_GROUP);
}

/* ---- names and files of the command line ---- */

static tutti_err find_value(const struct as_run *run, const char *option, const char *name, uint32_t *value,
                            struct tu_error *error) {
  const struct tu_pto_module *m = run->module;
  *value = tu_pto_find(m, name[0] == '%' ? name + 1 : name);
  if (*value != TU_PTO_NONE) return TUTTI_OK;
  const char **names = tu_allocate(m->value_count, sizeof *names);
  for (uint32_t i = 0; i < m->value_count; i++) names[i] = m->values[i].name;
  const char *near = tu_nearest(name, names, m->value_count);
  tutti_err err = tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: expected the name of a value in %s, found '%s'%s%s%s", option,
                          m->name, name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  free(names);
  return err;
}

/* Splits "NAME=REST": finds the value with this name, and sets *rest to the text after the '='. */
static tutti_err split(const struct as_run *run, const char *option, const char *item, uint32_t *value,
                       const char **rest, struct tu_error *error) {
  char name[TU_PTO_NAME_BYTES + 1];
  size_t length = strcspn(item, "=");
  if (!item[length] || length >= sizeof name)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: expected NAME=VALUE, where NAME is a name in the program, found '%s'", option, item);
  memcpy(name, item, length);
  name[length] = '\0';
  *rest = item + length + 1;
  return find_value(run, option, name, value, error);
}

/* Expands the pattern of a file name: %r is replaced by the rank, %n by the number of ranks, %% by a percent sign. */
static tutti_err expand(const struct as_run *run, const char *option, const char *pattern, struct tu_text *path,
                        struct tu_error *error) {
  tu_text_print(path, "%s", "");
  for (const char *at = pattern; *at; at++) {
    if (*at != '%') tu_text_print(path, "%c", *at);
    else if (*++at == 'r') tu_text_print(path, "%u", run->rank);
    else if (*at == 'n') tu_text_print(path, "%u", run->ranks);
    else if (*at == '%') tu_text_print(path, "%%");
    else
      return tu_fail(
          error, TUTTI_ERR_ARGUMENT,
          "%s: expected %%r (the rank), %%n (the number of ranks) or %%%% (a percent sign) in a file name, found '%s'",
          option, pattern);
  }
  return TUTTI_OK;
}

/* ---- option --arg ---- */

/* Gives an argument the element type and shape of the array in its .npy file. The strides stay those that the program
 * declares. */
static tutti_err bind_array(struct as_run *run, uint32_t value, struct tu_error *error) {
  const struct tu_npy *npy = &run->values[value].npy;
  const struct tu_pto_type *said = &value_at(run, value)->type;
  struct tu_pto_type type = {.kind = said->kind, .element = npy->type, .dims = npy->dims, .count = TU_PTO_OPEN};
  for (uint32_t d = 0; d < TUTTI_DIMS; d++) type.shape[d] = 1;
  for (uint32_t d = 0; d < npy->dims; d++) {
    if (npy->shape[d] > (size_t)INT64_MAX)
      return tu_fail(error, TUTTI_ERR_ARGUMENT, "expected an array with dimensions below 2^63, found one of %zu",
                     npy->shape[d]);
    type.shape[TUTTI_DIMS - npy->dims + d] = (int64_t)npy->shape[d];
  }
  type.strided = !said->elided && said->strided;
  memcpy(type.strides, said->strides, sizeof type.strides);
  return tu_pto_bind(run->module, value, &type, error);
}

static tutti_err bind_file(struct as_run *run, uint32_t value, const char *pattern, struct tu_error *error) {
  struct as_value *v = &run->values[value];
  struct tu_text path = {0};
  size_t bytes;
  tutti_err err = expand(run, "--arg", pattern, &path, error);
  if (err == TUTTI_OK) err = tu_read_file_of(path.chars, TU_DATA_BYTES, &v->file, &bytes, error);
  if (err == TUTTI_OK) err = tu_npy_read(v->file, bytes, path.chars, &v->npy, error);
  if (err == TUTTI_OK && (err = bind_array(run, value, error)) != TUTTI_OK)
    err = tu_fail(error, err, "%s: %s", path.chars, error->text);
  tu_text_fini(&path);
  return err;
}

static tutti_err bind_arg(struct as_run *run, const char *item, struct tu_error *error) {
  uint32_t value = 0;
  const char *rest;
  int64_t number;
  tutti_err err = split(run, "--arg", item, &value, &rest, error);
  if (err != TUTTI_OK) return err;
  const struct tu_pto_value *v = value_at(run, value);
  if (v->origin != TU_PTO_ARGUMENT || v->type.kind == TU_PTO_TILE || run->values[value].file)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "--arg: expected an argument that is a memref, group or number, given once; found '%s'", item);
  if (is_memory(v)) return bind_file(run, value, rest, error);
  if ((err = as_number(rest, run->rank, run->ranks, &number, error)) != TUTTI_OK)
    return tu_fail(error, err, "--arg %s: %s", item, error->text);
  return tu_pto_bind_number(run->module, value, number, error);
}

/* ---- option --at ---- */

/* Binds an argument by "NAME=[BUFFER@]RANK": the argument NAME then stands for rank RANK's part of the buffer BUFFER.
 * If BUFFER is omitted, the buffer is NAME. */
static tutti_err bind_at(struct as_run *run, const char *item, struct tu_error *error) {
  uint32_t value = 0;
  const char *rest;
  int64_t rank;
  tutti_err err = split(run, "--at", item, &value, &rest, error);
  if (err != TUTTI_OK) return err;
  uint32_t buffer = value;
  size_t length = strcspn(rest, "@");
  if (rest[length]) {
    char name[TU_PTO_NAME_BYTES + 1];
    snprintf(name, sizeof name, "%.*s", (int)tu_min(length, TU_PTO_NAME_BYTES), rest);
    if ((err = find_value(run, "--at", name, &buffer, error)) != TUTTI_OK) return err;
    rest += length + 1;
  }
  if ((err = as_number(rest, run->rank, run->ranks, &rank, error)) != TUTTI_OK)
    return tu_fail(error, err, "--at %s: %s", item, error->text);
  if (rank < 0 || rank >= run->ranks)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "--at %s: expected a rank below %u, found %lld", item, run->ranks,
                   (long long)rank);
  const struct tu_pto_value *v = value_at(run, value), *b = value_at(run, buffer);
  if (v->origin != TU_PTO_ARGUMENT || v->type.kind != TU_PTO_MEMREF || b->origin != TU_PTO_ARGUMENT ||
      b->type.kind != TU_PTO_MEMREF)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "--at %s: expected names of arguments that are memrefs, found a name of another kind", item);
  bool chained = run->values[buffer].buffer != buffer || (buffer != value && run->values[value].file);
  for (uint32_t i = 0; i < run->module->value_count; i++)
    chained |= buffer != value && i != value && run->values[i].buffer == value;
  if (chained)
    return tu_fail(
        error, TUTTI_ERR_ARGUMENT,
        "--at %s: expected a buffer with memory of its own, found one that another --at or --arg has already bound",
        item);
  run->values[value].buffer = buffer;
  run->values[value].rank = (uint32_t)rank;
  run->values[buffer].reached = true;
  return TUTTI_OK;
}

/* If several arguments stand for parts of one buffer (--at), gives them all the same type; returns an error if their
 * types differ. */
static tutti_err share_types(struct as_run *run, struct tu_error *error) {
  for (uint32_t i = 0; i < run->module->value_count; i++) {
    uint32_t buffer = run->values[i].buffer;
    if (buffer == TU_PTO_NONE || buffer == i) continue;
    const struct tu_pto_type type = value_at(run, buffer)->type;
    tutti_err err = tu_pto_bind(run->module, i, &type, error);
    const struct tu_pto_type merged = value_at(run, i)->type;
    if (err == TUTTI_OK) err = tu_pto_bind(run->module, buffer, &merged, error);
    if (err != TUTTI_OK) return err;
  }
  return TUTTI_OK;
}

/* ---- binding of the whole module ---- */

static tutti_err read_module(struct as_run *run, struct tu_error *error) {
  const char *path = run->request->path;
  char *data;
  size_t bytes;
  tutti_err err = tu_read_file(path, &data, &bytes, error);
  if (err != TUTTI_OK) return err;
  err = tu_pto_read(data, bytes, strcmp(path, "-") == 0 ? "standard input" : path, &run->module, error);
  free(data);
  return err;
}

static void begin_values(struct as_run *run) {
  run->values = tu_allocate(run->module->value_count, sizeof *run->values);
  for (uint32_t i = 0; i < run->module->value_count; i++) {
    run->values[i].buffer = is_memory(value_at(run, i)) ? i : TU_PTO_NONE;
    run->values[i].rank = run->rank;
  }
}

/* Sets the size of each PTO group to the number of ranks: a group is a list of one memref (tensor in memory) per
 * rank. */
static tutti_err count_groups(struct as_run *run, struct tu_error *error) {
  const struct tu_pto_type all = {.kind = TU_PTO_GROUP, .elided = true, .count = run->ranks};
  for (uint32_t i = 0; i < run->module->value_count; i++) {
    if (value_at(run, i)->type.kind != TU_PTO_GROUP) continue;
    tutti_err err = tu_pto_bind(run->module, i, &all, error);
    if (err != TUTTI_OK) return err;
  }
  return TUTTI_OK;
}

/* Returns true if values of the type are whole numbers. */
static bool is_whole(const struct tu_pto_type *type) {
  return type->kind <= TU_PTO_BOOL && (type->kind != TU_PTO_SCALAR || !tu_datatypes[type->element].floating);
}

/* Returns an error if an argument has a type with an unknown size or element type, or should be a number but has no
 * value. */
static tutti_err need_closed(const struct as_run *run, struct tu_error *error) {
  for (uint32_t i = 0; i < run->module->value_count; i++) {
    const struct tu_pto_value *v = value_at(run, i);
    struct tu_text spelled = {0};
    if (v->origin != TU_PTO_ARGUMENT) continue;
    tu_pto_write_type(run->module, &v->type, &spelled);
    tutti_err err = TUTTI_OK;
    if (is_whole(&v->type))
      err = tu_fail(error, TUTTI_ERR_ARGUMENT, "argument %%%s: expected a number (--arg %s=NUMBER), found none",
                    v->name, v->name);
    else if (!tu_pto_is_closed(&v->type))
      err =
          tu_fail(error, TUTTI_ERR_ARGUMENT,
                  "argument %%%s: expected a type with known sizes, or a file that sets them (--arg %s=FILE), found %s",
                  v->name, v->name, spelled.chars);
    tu_text_fini(&spelled);
    if (err != TUTTI_OK) return err;
  }
  return TUTTI_OK;
}

/* Returns an error if --root, or the rank of an instruction, is not below the number of ranks. */
static tutti_err need_ranks(const struct as_run *run, struct tu_error *error) {
  const struct tu_pto_module *m = run->module;
  if (run->request->root >= run->ranks)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "--root: expected a rank below %u, found %u", run->ranks,
                   run->request->root);
  for (uint32_t i = 0; i < m->instruction_count; i++)
    if (m->instructions[i].rank >= run->ranks)
      return tu_fail(error, TUTTI_ERR_ARGUMENT,
                     "%s:%u:%u: expected a root or rank below %u, the number of ranks, found %lld", m->name,
                     m->instructions[i].position.line, m->instructions[i].position.column, run->ranks,
                     (long long)m->instructions[i].rank);
  return TUTTI_OK;
}

/* Parses "NAME=FILE" of --out: NAME is written to FILE after the program has ended. NAME is a buffer of this rank, or
 * the result of a ttest instruction. */
static tutti_err bind_out(struct as_run *run, const char *item, struct tu_error *error) {
  const char *rest;
  uint32_t value = 0;
  struct tu_text path = {0};
  tutti_err err = split(run, "--out", item, &value, &rest, error);
  if (err != TUTTI_OK) return err;
  const struct tu_pto_value *v = value_at(run, value);
  if (run->values[value].buffer != value && (v->origin != TU_PTO_RESULT || v->type.kind != TU_PTO_BOOL))
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "--out: expected a buffer of this rank, or the result of a ttest, found '%s'", item);
  if (is_memory(v) && !tu_npy_has(v->type.element))
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "--out: expected elements of a type that NumPy has, found '%s' with elements of %s", item,
                   tutti_datatype_name(v->type.element));
  if ((err = expand(run, "--out", rest, &path, error)) == TUTTI_OK)
    run->outs[run->out_count++] = (struct as_out){value, path.chars};
  else tu_text_fini(&path);
  return err;
}

tutti_err as_bind(struct as_run *run, struct tu_error *error) {
  const struct as_request *r = run->request;
  tutti_err err = read_module(run, error);
  if (err != TUTTI_OK) return err;
  begin_values(run);
  err = count_groups(run, error);
  for (uint32_t i = 0; i < r->arg.count && err == TUTTI_OK; i++) err = bind_arg(run, r->arg.items[i], error);
  for (uint32_t i = 0; i < r->at.count && err == TUTTI_OK; i++) err = bind_at(run, r->at.items[i], error);
  if (err == TUTTI_OK) err = share_types(run, error);
  if (err == TUTTI_OK) err = need_closed(run, error);
  if (err == TUTTI_OK) err = need_ranks(run, error);
  for (uint32_t i = 0; i < r->out.count && err == TUTTI_OK; i++) err = bind_out(run, r->out.items[i], error);
  if (err == TUTTI_OK) err = tu_pto_check(run->module, error);
  uint32_t before = run->module->value_count;
  if (err == TUTTI_OK && r->lower) err = tu_pto_lower(run->module, &r->how, error);
  /* The module has more values now: lowering has added tiles. Extend the array that has one entry per value. A tile is
   * in no window. */
  struct as_value *values = tu_allocate(run->module->value_count, sizeof *values);
  if (before) memcpy(values, run->values, before * sizeof *values);
  for (uint32_t i = before; i < run->module->value_count; i++) values[i].buffer = TU_PTO_NONE;
  free(run->values);
  run->values = values;
  return err;
}

/* ---- agreement of the ranks ---- */

/* The properties of one argument that must be equal on all ranks. They are compared byte by byte. */
struct shared {
  uint64_t name;
  uint32_t kind, element;
  int64_t shape[TUTTI_DIMS], strides[TUTTI_DIMS];
};

static uint32_t count_memory(const struct as_run *run) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < run->module->value_count; i++) count += run->values[i].buffer == i;
  return count;
}

static struct shared describe(const struct as_run *run, uint32_t value) {
  const struct tu_pto_value *v = value_at(run, value);
  struct shared s = {.name = tu_hash(v->name, strlen(v->name), 0), .kind = v->type.kind, .element = v->type.element};
  if (!run->values[value].reached && v->type.kind != TU_PTO_GROUP) return s;
  memcpy(s.shape, v->type.shape, sizeof s.shape);
  for (int d = 0; d < TUTTI_DIMS; d++) s.strides[d] = v->type.strided ? v->type.strides[d] : -1;
  return s;
}

static tutti_err compare(const struct as_run *run, const struct shared *mine, const struct shared *theirs,
                         const char *name, uint32_t rank, struct tu_error *error) {
  if (mine->name != theirs->name || mine->kind != theirs->kind)
    return tu_fail(error, TUTTI_ERR_MISMATCH, "expected the same arguments on all ranks, but %%%s differs on rank %u",
                   name, rank);
  if (memcmp(mine, theirs, sizeof *mine) == 0) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_MISMATCH,
                 "%%%s, which other ranks access, must have the same type on all ranks: it is %s of "
                 "%lldx%lldx%lldx%lldx%lld on rank %u, but %s of %lldx%lldx%lldx%lldx%lld on rank %u",
                 name, tutti_datatype_name((tutti_datatype)mine->element), (long long)mine->shape[0],
                 (long long)mine->shape[1], (long long)mine->shape[2], (long long)mine->shape[3],
                 (long long)mine->shape[4], run->rank, tutti_datatype_name((tutti_datatype)theirs->element),
                 (long long)theirs->shape[0], (long long)theirs->shape[1], (long long)theirs->shape[2],
                 (long long)theirs->shape[3], (long long)theirs->shape[4], rank);
}

static tutti_err gather(struct as_run *run, const void *mine, void *all, size_t bytes, struct tu_error *error) {
  tutti_err err = tutti_allgather(run->comm, mine, all, bytes, TUTTI_U8);
  return err == TUTTI_OK ? err : tu_fail(error, err, "%s", tutti_error_message(run->comm));
}

tutti_err as_agree(struct as_run *run, struct tu_error *error) {
  uint32_t count = count_memory(run), *counts = tu_allocate(run->ranks, sizeof *counts), k = 0;
  tutti_err err = gather(run, &count, counts, sizeof count, error);
  for (uint32_t r = 0; r < run->ranks && err == TUTTI_OK; r++)
    if (counts[r] != count)
      err = tu_fail(
          error, TUTTI_ERR_MISMATCH,
          "expected the same number of memref and group arguments on all ranks, found %u on rank %u, but %u on rank %u",
          count, run->rank, counts[r], r);
  free(counts);
  if (err != TUTTI_OK || count == 0) return err;
  struct shared *mine = tu_allocate(count, sizeof *mine), *all = tu_allocate((size_t)count * run->ranks, sizeof *all);
  for (uint32_t i = 0; i < run->module->value_count; i++)
    if (run->values[i].buffer == i) mine[k++] = describe(run, i);
  err = gather(run, mine, all, count * sizeof *mine, error);
  for (uint32_t r = 0; r < run->ranks && err == TUTTI_OK; r++) {
    k = 0;
    for (uint32_t i = 0; i < run->module->value_count && err == TUTTI_OK; i++)
      if (run->values[i].buffer == i) {
        err = compare(run, &mine[k], &all[(size_t)r * count + k], value_at(run, i)->name, r, error);
        k++;
      }
  }
  free(mine);
  free(all);
  return err;
}
