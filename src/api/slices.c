/* slices.c: public functions that divide tensors into slices. Each call computes the slices anew, which costs some
 * divisions and no memory. */
#include "tensor/slices.h"
#include "comm/failure.h"

static tutti_err open_slices(struct tu_slices *s, const tutti_slicing *how, uint32_t worker, struct tu_error *error) {
  if (!how) return tu_fail(error, TUTTI_ERR_ARGUMENT, "slices: how is NULL; expected a slicing");
  tutti_slicing whole = *how;
  if (whole.ranks == 0) whole.ranks = 1;
  if (whole.workers == 0) whole.workers = 1;
  if (worker < whole.workers) return tu_slices_init(s, &whole, error);
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "slices: worker is %u; expected a worker below %u", worker, whole.workers);
}

tutti_err tutti_slices_count(const tutti_slicing *how, uint32_t worker, size_t *count) {
  struct tu_slices s;
  struct tu_error error;
  tutti_err err = open_slices(&s, how, worker, &error);
  if (err == TUTTI_OK && !count) err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_slices_count: count is NULL");
  if (err != TUTTI_OK) return tu_thread_error(&error);
  *count = tu_slices_dealt(&s, worker) * s.how.ranks;
  return TUTTI_OK;
}

tutti_err tutti_slices_at(const tutti_slicing *how, uint32_t worker, size_t order, tutti_slice *slice) {
  struct tu_slices s;
  struct tu_error error;
  tutti_err err = open_slices(&s, how, worker, &error);
  if (err == TUTTI_OK && !slice) err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_slices_at: slice is NULL");
  if (err == TUTTI_OK && order / s.how.ranks >= tu_slices_dealt(&s, worker))
    err = tu_fail(&error, TUTTI_ERR_ARGUMENT,
                  "tutti_slices_at: order is %zu, but worker %u has only %zu work items, counted from 0", order, worker,
                  tu_slices_dealt(&s, worker) * s.how.ranks);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  *slice = tu_slices_at(&s, worker, order);
  return TUTTI_OK;
}
