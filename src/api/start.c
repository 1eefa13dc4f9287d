/* start.c: the calls of the public header. Everything goes through one description and one door; the named calls are thin. */
#include <stdlib.h>

#include "api/comm.h"

/* The call has taken its number, and whoever waits for this rank learns why it does not come. */
static tutti_err refuse(tutti_comm *comm, const struct tu_error *why) {
  struct tu_error error;
  tu_fail(&error, why->code, "rank %u: %s", comm->rank, why->text);
  comm->number++;
  return tu_comm_fail(comm, &error);
}

static tutti_err no_communicator(const char *what) {
  struct tu_error error;
  tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s: the communicator or the call is NULL", what);
  return tu_thread_error(&error);
}

/* May it be started now, by a caller who keeps its handle, or does not? */
static tutti_err check_parts(const tutti_call *call, bool has_handle, struct tu_error *error) {
  if (!tu_thread.telling && (has_handle || !call->in_parts)) return TUTTI_OK;
  const char *name = tutti_collective_name(call->collective);
  if (tu_thread.telling)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s was started within on_ready, where only tutti_request_fill is possible", name);
  return tu_fail(error, TUTTI_ERR_ARGUMENT,
                 "%s: its input comes in parts, but nobody has a request to fill: start it by itself, and keep that",
                 name);
}

static tutti_err acquire(tutti_comm *comm, const tutti_call *call, bool has_handle, struct tutti_request **request) {
  tutti_err err;
  struct tu_error error;
  if (tu_comm_failed_by_now(comm)) return tu_thread_error(&comm->error);
  if ((err = check_parts(call, has_handle, &error)) != TUTTI_OK) return refuse(comm, &error);
  if ((err = tu_call_resolve(comm, call, &error)) != TUTTI_OK) return refuse(comm, &error);
  if ((err = tu_request_acquire(comm, &comm->memo.resolved, request, &error)) != TUTTI_OK) return refuse(comm, &error);
  (*request)->on_ready = call->on_ready;
  (*request)->on_ready_context = call->on_ready_context;
  (*request)->timeout_ms = call->timeout_ms ? call->timeout_ms : comm->timeout_ms;
  (*request)->persistent = false;
  (*request)->detached = false;
  return TUTTI_OK;
}

/* What was just started goes as far as it can; then a thread that sleeps has it to move on, too. */
static void move_started(tutti_comm *comm) {
  (void)tu_queue_poll(comm);
  if (comm->first) tu_bell_ring(comm->transport, comm->transport->rank);
}

static tutti_err start(tutti_comm *comm, const tutti_call *call, tutti_request **request) {
  struct tutti_request *r;
  tutti_err err = acquire(comm, call, request != NULL, &r);
  if (err != TUTTI_OK) return err;
  r->detached = !request;
  if (request) *request = r;
  tu_request_start(r);
  move_started(comm);
  return TUTTI_OK;
}

tutti_err tutti_start(tutti_comm *comm, const tutti_call *call, tutti_request **request) {
  struct tu_visit visit;
  if (!comm || !call) return no_communicator("tutti_start");
  if (request) *request = NULL;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_start");
  tutti_err err = start(comm, call, request);
  tu_leave(&visit);
  return err;
}

static tutti_err start_group(tutti_comm *comm, const tutti_call *calls, size_t count, tutti_request **request) {
  if (!request || count == 0) {
    for (size_t i = 0; i < count; i++) {
      tutti_err err = start(comm, &calls[i], NULL);
      if (err != TUTTI_OK) return err;
    }
    return TUTTI_OK;
  }
  struct tutti_request *group = tu_try_allocate(1, sizeof *group);
  struct tutti_request **children = group ? tu_try_allocate(count, sizeof(struct tutti_request *)) : NULL;
  if (!children) {
    struct tu_error error;
    free(group);
    tu_fail_memory(&error, count * sizeof(struct tutti_request *), "a group of %zu calls", count);
    return refuse(comm, &error);
  }
  group->comm = comm;
  group->children = children;
  for (size_t i = 0; i < count; i++) {
    tutti_err err = acquire(comm, &calls[i], false, &group->children[i]);
    if (err != TUTTI_OK) {
      tu_queue_poll(comm); /* the communicator has failed: this ends those that were started */
      tu_request_release(group);
      return err;
    }
    group->child_count++;
    tu_request_start(group->children[i]);
  }
  move_started(comm);
  *request = group;
  return TUTTI_OK;
}

tutti_err tutti_start_group(tutti_comm *comm, const tutti_call *calls, size_t count, tutti_request **request) {
  struct tu_visit visit;
  if (!comm || (!calls && count > 0)) return no_communicator("tutti_start_group");
  if (request) *request = NULL;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_start_group");
  tutti_err err = start_group(comm, calls, count, request);
  tu_leave(&visit);
  return err;
}

tutti_err tutti_prepare(tutti_comm *comm, const tutti_call *call, tutti_request **request) {
  struct tu_visit visit;
  if (!comm || !call || !request) return no_communicator("tutti_prepare");
  *request = NULL;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_prepare");
  struct tutti_request *r;
  tutti_err err = acquire(comm, call, true, &r);
  if (err == TUTTI_OK) {
    r->persistent = true;
    r->open = r->done = false;
    *request = r;
  }
  tu_leave(&visit);
  return err;
}

static tutti_err restart(tutti_request *request) {
  struct tu_error error;
  if (!request->persistent || request->open) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_restart: this request is %s",
            request->open ? "open; wait for it first" : "not persistent; tutti_prepare makes such");
    return tu_thread_error(&error);
  }
  if (tu_thread.telling) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT,
            "tutti_restart was called within on_ready, where only tutti_request_fill is possible");
    return tu_thread_error(&error);
  }
  if (tu_comm_failed_by_now(request->comm)) return tu_thread_error(&request->comm->error);
  tu_request_start(request);
  move_started(request->comm);
  return TUTTI_OK;
}

tutti_err tutti_restart(tutti_request *request) {
  struct tu_visit visit;
  if (!request) return no_communicator("tutti_restart");
  if (!tu_hold(request->comm, &visit)) return tu_refuse_visit("tutti_restart");
  tutti_err err = restart(request);
  tu_leave(&visit);
  return err;
}

/* Its buffers are still in use, and nobody would know until when: so the communicator fails, which ends what is open in it. */
static void refuse_free(struct tutti_request *request) {
  struct tu_error error;
  struct tutti_comm *comm = request->comm;
  tu_fail(&error, TUTTI_ERR_ARGUMENT,
          "rank %u: tutti_request_free: %s is still open, and its buffers in use; wait for it, or test it, first",
          comm->rank, request->child_count > 0 ? "a call of the group" : "the request");
  tu_comm_fail(comm, &error);
}

static void free_request(tutti_request *request) {
  struct tutti_comm *comm = request->comm;
  struct tutti_request *one[1] = {request}, **all = request->child_count > 0 ? request->children : one;
  size_t count = tu_max(request->child_count, 1), open = 0;
  for (size_t i = 0; i < count; i++) open += all[i]->open;
  if (open > 0) refuse_free(request);
  if (request->child_count > 0 && open > 0) { /* as tu_request_release has it, but for those that are open */
    for (size_t i = 0; i < count; i++) {
      if (all[i]->open) all[i]->detached = true;
      else tu_request_release(all[i]);
    }
    request->child_count = 0;
    tu_request_destroy(request);
  } else if (open > 0) {
    request->detached = true;
  } else {
    tu_request_release(request);
  }
  if (open > 0 && !tu_thread.telling) tu_queue_poll(comm);
}

void tutti_request_free(tutti_request *request) {
  struct tu_visit visit;
  if (!request) return;
  if (!tu_hold(request->comm, &visit)) {
    (void)tu_refuse_visit("tutti_request_free");
    return;
  }
  free_request(request);
  tu_leave(&visit);
}

/* ---- calls that wait: the last one again goes straight, if it is short ---- */

static inline bool is_again(const struct tutti_request *last, const struct tu_brief *b) {
  return last && b->send == last->brief.send && b->recv == last->brief.recv && b->count == last->brief.count &&
         b->type == last->brief.type && b->op == last->brief.op && b->root == last->brief.root && !last->comm->first &&
         !tu_queue_others(last->comm);
}

static tutti_err run_again(tutti_comm *comm, struct tutti_request *r) {
  if (tu_comm_failed_by_now(comm)) return tu_thread_error(&comm->error);
  if (tu_request_run_straight(r)) return TUTTI_OK;
  comm->again[r->brief.collective] = NULL;
  r->timeout_ms = comm->timeout_ms;
  return tutti_wait(&r);
}

/* Keeps the request that has just come back to the cache for the same call to come. */
static void keep_for_again(tutti_comm *comm, const struct tu_brief *b) {
  struct tutti_request *r = tu_request_take_idle(comm), *before = comm->again[b->collective];
  r->brief = *b;
  if (!tu_execution_prepare_straight(&r->execution, r->in_data, r->out_data)) {
    tu_request_release(r);
    return;
  }
  comm->again[b->collective] = r;
  if (before) tu_request_release(before);
}

tutti_err tu_refuse_to_hang(tutti_comm *comm) {
  struct tu_error error;
  if (!comm || tu_comm_failed(comm) || !tu_input_is_missing(comm, NULL, &error)) return TUTTI_OK;
  return refuse(comm, &error);
}

static const char *public_name(tutti_collective collective) {
  static const char *const names[TUTTI_COLLECTIVES] = {
      [TUTTI_ALLREDUCE] = "tutti_allreduce",
      [TUTTI_REDUCE] = "tutti_reduce",
      [TUTTI_BROADCAST] = "tutti_broadcast",
      [TUTTI_GATHER] = "tutti_gather",
      [TUTTI_SCATTER] = "tutti_scatter",
      [TUTTI_ALLGATHER] = "tutti_allgather",
      [TUTTI_REDUCE_SCATTER] = "tutti_reduce_scatter",
      [TUTTI_ALLTOALL] = "tutti_alltoall",
      [TUTTI_BARRIER] = "tutti_barrier",
      [TUTTI_SCAN] = "tutti_scan",
      [TUTTI_EXSCAN] = "tutti_exscan",
      [TUTTI_SEND] = "tutti_send",
      [TUTTI_RECV] = "tutti_recv",
  };
  return names[collective];
}

tutti_err tu_call_and_wait(tutti_comm *comm, const tutti_call *call) {
  struct tu_visit visit;
  const char *name = public_name(call->collective);
  if (!comm) return no_communicator(name);
  if (!tu_hold(comm, &visit)) return tu_refuse_visit(name);
  tutti_request *request = NULL;
  tutti_err err = tu_refuse_to_hang(comm);
  if (err == TUTTI_OK) err = start(comm, call, &request);
  if (err == TUTTI_OK) err = tutti_wait(&request);
  tu_leave(&visit);
  return err;
}

static tutti_err run_first(tutti_comm *comm, const struct tu_brief *b) {
  const tutti_call call = {.collective = b->collective,
                           .send = b->send,
                           .recv = b->recv,
                           .count = b->count,
                           .type = b->type,
                           .op = b->op,
                           .root = b->root};
  tutti_request *request = NULL;
  tutti_err err = tu_refuse_to_hang(comm);
  if (err == TUTTI_OK) err = start(comm, &call, &request);
  if (err != TUTTI_OK) return err;
  const struct tutti_request *r = request;
  err = tutti_wait(&request);
  if (err == TUTTI_OK && comm->memo.valid && comm->idle == r &&
      tu_execution_goes_straight(&r->execution, r->in_data, r->out_data))
    keep_for_again(comm, b);
  return err;
}

__attribute__((noinline)) static tutti_err run_entering(tutti_comm *comm, const struct tu_brief *b) {
  struct tu_visit visit;
  if (!comm) return no_communicator(public_name(b->collective));
  if (!tu_hold(comm, &visit)) return tu_refuse_visit(public_name(b->collective));
  tutti_err err = run_first(comm, b);
  tu_leave(&visit);
  return err;
}

static inline tutti_err run(tutti_comm *comm, const struct tu_brief *b) {
  if (!comm || !tu_enter_idle(comm)) return run_entering(comm, b);
  struct tutti_request *last = comm->again[b->collective];
  tutti_err err = is_again(last, b) ? run_again(comm, last) : run_first(comm, b);
  tu_leave_idle(comm);
  return err;
}

tutti_err tutti_allreduce(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type,
                          tutti_op op) {
  return run(comm, &(struct tu_brief){send, recv, count, TUTTI_ALLREDUCE, type, op, 0});
}

tutti_err tutti_reduce(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type, tutti_op op,
                       uint32_t root) {
  return run(comm, &(struct tu_brief){send, recv, count, TUTTI_REDUCE, type, op, root});
}

tutti_err tutti_broadcast(tutti_comm *comm, void *buffer, size_t count, tutti_datatype type, uint32_t root) {
  return run(comm, &(struct tu_brief){buffer, buffer, count, TUTTI_BROADCAST, type, 0, root});
}

tutti_err tutti_gather(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type,
                       uint32_t root) {
  return run(comm, &(struct tu_brief){send, recv, count, TUTTI_GATHER, type, 0, root});
}

tutti_err tutti_scatter(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type,
                        uint32_t root) {
  return run(comm, &(struct tu_brief){send, recv, count, TUTTI_SCATTER, type, 0, root});
}

tutti_err tutti_allgather(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type) {
  return run(comm, &(struct tu_brief){send, recv, count, TUTTI_ALLGATHER, type, 0, 0});
}

tutti_err tutti_reduce_scatter(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type,
                               tutti_op op) {
  return run(comm, &(struct tu_brief){send, recv, count, TUTTI_REDUCE_SCATTER, type, op, 0});
}

tutti_err tutti_alltoall(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type) {
  return run(comm, &(struct tu_brief){send, recv, count, TUTTI_ALLTOALL, type, 0, 0});
}

tutti_err tutti_barrier(tutti_comm *comm) { return run(comm, &(struct tu_brief){.collective = TUTTI_BARRIER}); }

tutti_err tutti_scan(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type, tutti_op op) {
  return run(comm, &(struct tu_brief){send, recv, count, TUTTI_SCAN, type, op, 0});
}

tutti_err tutti_exscan(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type, tutti_op op) {
  return run(comm, &(struct tu_brief){send, recv, count, TUTTI_EXSCAN, type, op, 0});
}

tutti_err tutti_send(tutti_comm *comm, const void *buffer, size_t count, tutti_datatype type, uint32_t peer,
                     uint32_t tag) {
  return tu_call_and_wait(
      comm,
      &(tutti_call){.collective = TUTTI_SEND, .send = buffer, .count = count, .type = type, .peer = peer, .tag = tag});
}

tutti_err tutti_recv(tutti_comm *comm, void *buffer, size_t count, tutti_datatype type, uint32_t peer, uint32_t tag) {
  return tu_call_and_wait(
      comm,
      &(tutti_call){.collective = TUTTI_RECV, .recv = buffer, .count = count, .type = type, .peer = peer, .tag = tag});
}
