/* partition.c: partitioned calls: reports which output is final, and records which input the caller has filled.
 * Elements are counted from the start of the call's buffer; those of a tensor are counted in the order in which
 * messages carry them. */
#include "call/partition.h"

#include "comm/enter.h"
#include "comm/failure.h"

void tu_request_tell(struct tutti_request *r) {
  struct tu_run run;
  size_t item = r->program->item_bytes;
  while (!r->comm->failed && tu_partition_tell(&r->execution, &run)) {
    tu_thread.telling = true;
    r->on_ready(r->on_ready_context, run.offset / item, run.bytes / item);
    tu_thread.telling = false;
  }
}

bool tu_request_lacks_input(const struct tutti_request *r, size_t *element) {
  if (!r->program || !r->execution.partition || !tu_request_is_open(r)) return false;
  size_t offset;
  if (!tu_partition_missing(&r->execution, &offset)) return false;
  *element = offset / r->program->item_bytes;
  return true;
}

bool tu_input_is_missing(const struct tutti_comm *comm, const struct tutti_request *last, struct tu_error *error) {
  size_t element;
  for (const struct tutti_request *r = last ? last : comm->last; r; r = r->previous) {
    if (r->starter != &tu_thread || !tu_request_lacks_input(r, &element)) continue;
    tu_fail(error, TUTTI_ERR_ARGUMENT,
            "element %zu of the input of %s, which this thread has started, has not been filled; call "
            "tutti_request_fill "
            "before you wait for this call or for later calls; until then, tutti_test advances them",
            element, tutti_collective_name((tutti_collective)r->signature.collective));
    return true;
  }
  return false;
}

/* Returns TUTTI_OK if these elements can be filled; otherwise an error with the reason. */
static tutti_err check_fill(const struct tutti_request *r, size_t first, size_t count, struct tu_error *error) {
  static const char call[] = "tutti_request_fill";
  if (r->child_count > 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: a group has no input of its own; start the call outside a group",
                   call);
  if (!r->execution.partition || !r->program->partition->filled)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: the input of this request was complete at its start; expected a call with tutti_call.in_parts",
                   call);
  const enum tu_request_state state = tu_request_state(r);
  if (state == TU_REQUEST_COMPLETE && r->error.code != TUTTI_OK) return *error = r->error, error->code;
  if (state == TU_REQUEST_UNSTARTED)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: this persistent request has not been started; call tutti_restart first", call);
  size_t elements = r->program->partition->input_bytes / r->program->item_bytes;
  if (first > elements || count > elements - first)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: invalid range: %zu elements from element %zu on; the input has %zu elements", call, count,
                   first, elements);
  return TUTTI_OK;
}

static tutti_err fill(tutti_request *request, size_t first, size_t count) {
  struct tu_error error;
  if (check_fill(request, first, count, &error) != TUTTI_OK) return tu_thread_error(&error);
  size_t item = request->program->item_bytes;
  enum tu_filling filling = tu_partition_fill(&request->execution, first * item, count * item);
  /* the elements count as filled; wake a sleeping thread of this rank, which may have to advance the request now */
  if (filling == TU_FILLED) {
    tu_bell_ring(request->comm->transport, request->comm->transport->rank);
    return TUTTI_OK;
  }
  if (filling == TU_FILL_NO_MEMORY)
    tu_fail(
        &error, TUTTI_ERR_MEMORY,
        "tutti_request_fill: out of memory; the elements from %zu on do not count as filled: call it again, or first "
        "fill elements next to filled ones",
        first);
  else
    tu_fail(&error, TUTTI_ERR_ARGUMENT,
            "tutti_request_fill: some of the %zu elements that begin at element %zu have been filled before; fill each "
            "element once",
            count, first);
  return tu_thread_error(&error);
}

tutti_err tutti_request_fill(tutti_request *request, size_t first, size_t count) {
  struct tu_error error;
  struct tu_visit visit;
  if (!request) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT,
            "tutti_request_fill: the request is NULL, because it is complete or was never started");
    return tu_thread_error(&error);
  }
  if (!tu_hold(request->comm, &visit)) return tu_refuse_visit("tutti_request_fill");
  tutti_err err = fill(request, first, count);
  tu_leave(&visit);
  return err;
}
