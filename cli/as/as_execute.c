/* as_execute.c: `tutti as --execute`: every rank of a job executes a program. If ranks fail before the program starts,
 * all ranks are informed, and the failed rank with the lowest number prints its message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/types.h"
#include "cli/as/as.h"

/* Returns true if no rank has failed. Otherwise the failed rank with the lowest number prints its error. Collective. */
static bool all_good(struct as_run *run, tutti_err err, const struct tu_error *error) {
  uint8_t mine = err != TUTTI_OK, *all = tu_allocate(run->ranks, 1);
  bool met = tutti_allgather(run->comm, &mine, all, 1, TUTTI_U8) == TUTTI_OK;
  uint32_t first = 0;
  while (met && first < run->ranks && !all[first]) first++;
  free(all);
  if (met && first == run->ranks) return true;
  if (!met && err == TUTTI_OK) cli_fail("as", CLI_FAILED, "rank %u: %s", run->rank, tutti_error_message(run->comm));
  else if (!met || first == run->rank) cli_fail("as", CLI_FAILED, "rank %u: %s", run->rank, error->text);
  return false;
}

/* ---- files of --out ---- */

static tutti_err write_truth(const struct as_run *run, uint32_t value, const char *path, struct tu_error *error) {
  const uint8_t truth = run->values[value].truth;
  if (!run->values[value].was_run) return TUTTI_OK;
  return tu_npy_write(path, &(struct tu_npy){.type = TUTTI_U8, .data = &truth}, error);
}

static tutti_err write_buffer(const struct as_run *run, uint32_t value, const char *path, struct tu_error *error) {
  const struct tu_pto_type *type = &run->module->values[value].type;
  struct tu_npy npy = {.type = type->element, .dims = type->dims};
  size_t bytes = tu_datatypes[type->element].bytes, shape[TUTTI_DIMS];
  for (int d = 0; d < TUTTI_DIMS; d++) bytes *= shape[d] = (size_t)type->shape[d];
  memcpy(npy.shape, shape + TUTTI_DIMS - type->dims, type->dims * sizeof *shape);
  void *packed = NULL;
  if (posix_memalign(&packed, TU_LINE_BYTES, tu_max(bytes, 1)) != 0)
    return tu_fail(error, TUTTI_ERR_MEMORY, "out of memory: cannot allocate %zu bytes to write '%s'", bytes, path);
  tutti_tensor to, from;
  tutti_err err = as_part(run, value, run->rank, &from, error);
  if (err == TUTTI_OK) {
    err = tutti_tensor_strided(&to, (tutti_tensor_of){packed, type->element, TUTTI_DIMS, shape}, NULL);
    if (err == TUTTI_OK) err = tutti_get(&from, &to, NULL, NULL);
    if (err != TUTTI_OK) tu_fail(error, err, "%s", tutti_error_message(NULL));
  }
  npy.data = packed;
  if (err == TUTTI_OK) err = tu_npy_write(path, &npy, error);
  free(packed);
  return err;
}

static tutti_err write_files(const struct as_run *run, struct tu_error *error) {
  tutti_err err = TUTTI_OK;
  for (uint32_t i = 0; i < run->out_count && err == TUTTI_OK; i++) {
    const struct as_out *out = &run->outs[i];
    bool is_buffer = run->values[out->value].buffer == out->value;
    err = is_buffer ? write_buffer(run, out->value, out->path, error) : write_truth(run, out->value, out->path, error);
  }
  return err;
}

/* ---- the program ---- */

/* Executes the program. A failure aborts the communicator. A rank prints only its own failures, not those of other
 * ranks. */
static bool carry_out(struct as_run *run) {
  struct tu_error error = {0};
  tutti_err err = as_perform(run, &error);
  if (err == TUTTI_OK && (err = tutti_barrier(run->comm)) != TUTTI_OK)
    tu_fail(&error, err, "%s", tutti_error_message(run->comm));
  if (err == TUTTI_OK) return true;
  if (err != TUTTI_ERR_ABORTED) cli_fail("as", CLI_FAILED, "rank %u: %s", run->rank, error.text);
  tutti_abort(run->comm, error.text);
  return false;
}

static bool execute(struct as_run *run) {
  struct tu_error error = {0};
  tutti_err err = as_bind(run, &error);
  if (!all_good(run, err, &error)) return false;
  if (!all_good(run, as_agree(run, &error), &error)) return false;
  if (!all_good(run, as_open(run, &error), &error)) return false;
  return carry_out(run) && all_good(run, write_files(run, &error), &error);
}

int as_execute(const struct as_request *request) {
  struct as_run run = {.request = request};
  if (tutti_init(NULL, &run.comm) != TUTTI_OK) return cli_fail("as", CLI_FAILED, "%s", tutti_error_message(NULL));
  run.rank = tutti_rank(run.comm);
  run.ranks = tutti_ranks(run.comm);
  bool good = execute(&run);
  as_close(&run);
  if (tutti_comm_free(run.comm) != TUTTI_OK && good)
    return cli_fail("as", CLI_FAILED, "rank %u: %s", run.rank, tutti_error_message(NULL));
  return good ? CLI_GOOD : CLI_FAILED;
}
