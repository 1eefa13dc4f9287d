/* parts.c: a call in parts, as its caller sees it: tells of output that is final, and is told of input that is there. Elements
 * are counted from where the call's buffers begin; those of a tensor that does not lie as it crosses, in that order. */
#include "api/comm.h"

void tu_request_tell(struct tutti_request *r) {
  struct tu_run run;
  size_t item = r->program->item_bytes;
  while (!r->comm->failed && tu_parts_tell(&r->execution, &run)) {
    tu_thread.telling = true;
    r->on_ready(r->on_ready_context, run.offset / item, run.bytes / item);
    tu_thread.telling = false;
  }
}

bool tu_request_lacks_input(const struct tutti_request *r, size_t *element) {
  if (!r->program || !r->execution.parts || !r->open) return false;
  size_t offset;
  if (!tu_parts_missing(&r->execution, &offset)) return false;
  *element = offset / r->program->item_bytes;
  return true;
}

bool tu_input_is_missing(const struct tutti_comm *comm, const struct tutti_request *last, struct tu_error *error) {
  size_t element;
  for (const struct tutti_request *r = last ? last : comm->last; r; r = r->previous) {
    if (r->starter != &tu_thread || !tu_request_lacks_input(r, &element)) continue;
    tu_fail(error, TUTTI_ERR_ARGUMENT,
            "element %zu of the input of %s, which this thread has started, has not been filled: call "
            "tutti_request_fill before "
            "you wait for that call or for later ones; tutti_test moves them on until then",
            element, tutti_collective_name((tutti_collective)r->signature.collective));
    return true;
  }
  return false;
}

/* Why that cannot be filled; TUTTI_OK if it can. */
static tutti_err check_fill(const struct tutti_request *r, size_t first, size_t count, struct tu_error *error) {
  static const char call[] = "tutti_request_fill";
  if (r->child_count > 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: a group has no input of its own; start the call by itself", call);
  if (!r->execution.parts || !r->program->parts->filled)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: the input of this request was given as a whole; tutti_call.in_parts asks for parts", call);
  if (r->done && r->error.code != TUTTI_OK) return *error = r->error, error->code;
  if (!r->open && !r->done)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: this persistent request has not been started; tutti_restart comes first", call);
  size_t elements = r->program->parts->input_bytes / r->program->item_bytes;
  if (first > elements || count > elements - first)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: %zu elements from %zu on; the input has %zu", call, count, first,
                   elements);
  return TUTTI_OK;
}

static tutti_err fill(tutti_request *request, size_t first, size_t count) {
  struct tu_error error;
  if (check_fill(request, first, count, &error) != TUTTI_OK) return tu_thread_error(&error);
  size_t item = request->program->item_bytes;
  enum tu_filling filling = tu_parts_fill(&request->execution, first * item, count * item);
  if (filling == TU_FILLED) { /* a thread that sleeps may have to move it on */
    tu_bell_ring(request->comm->transport, request->comm->transport->rank);
    return TUTTI_OK;
  }
  if (filling == TU_FILL_NO_MEMORY)
    tu_fail(
        &error, TUTTI_ERR_MEMORY,
        "tutti_request_fill: no memory to note that elements from %zu on are filled; they are not: call it again, or "
        "fill neighbours first",
        first);
  else
    tu_fail(&error, TUTTI_ERR_ARGUMENT,
            "tutti_request_fill: of %zu elements from %zu on some have been filled before; each is filled once", count,
            first);
  return tu_thread_error(&error);
}

tutti_err tutti_request_fill(tutti_request *request, size_t first, size_t count) {
  struct tu_error error;
  struct tu_visit visit;
  if (!request) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT,
            "tutti_request_fill: the request is NULL: it is complete, or was never started");
    return tu_thread_error(&error);
  }
  if (!tu_hold(request->comm, &visit)) return tu_refuse_visit("tutti_request_fill");
  tutti_err err = fill(request, first, count);
  tu_leave(&visit);
  return err;
}
