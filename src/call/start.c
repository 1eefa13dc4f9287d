/* start.c: starts calls: tutti_start and related functions. The named functions (named.c) start their calls here,
 * too. */
#include "call/start.h"

#include <stdlib.h>

#include "base/sized.h"
#include "call/again.h"
#include "call/partition.h"
#include "call/progress.h"
#include "call/queue.h"
#include "call/resolve.h"
#include "call/stall.h"
#include "call/trace.h"
#include "call/user_plan.h"
#include "comm/enter.h"
#include "comm/failure.h"
#include "plan/algorithm.h"

/* Sets *error to the error with which this rank refuses a call. */
static void explain(const tutti_comm *comm, const struct tu_error *why, struct tu_error *error) {
  tu_fail(error, why->code, "rank %u: %s", comm->rank, why->text);
}

/* Refuses a call and makes the communicator fail, so that the ranks that wait for this rank get the reason. The refused
 * call uses up a sequence number. */
static tutti_err refuse(tutti_comm *comm, const struct tu_error *why) {
  struct tu_error error;
  explain(comm, why, &error);
  comm->number++;
  return tu_comm_fail(comm, &error);
}

static void open_request(struct tutti_request *r) {
  tu_request_set_state(r, TU_REQUEST_OPEN);
  r->error.code = TUTTI_OK;
  r->stalled_since = 0;
  r->slow = false;
  tu_stall_moved(&r->tests);
  r->comm->open_requests++;
}

/* Publishes the call on this rank's board, where other ranks can read it. The board has a slot for this sequence
 * number. If an equal call is already in that slot, only the number is written. */
static inline void post(struct tutti_request *r) {
  struct tutti_comm *comm = r->comm;
  struct tu_control *control = &comm->mover->control;
  uint64_t *shown = &comm->board_requests[r->number % TU_BOARD_CALLS];
  if (*shown == r->id) {
    tu_control_repeat(control, r->number);
    return;
  }
  *shown = r->id;
  uint64_t words[TU_BOARD_WORDS];
  memcpy(words, &r->facts, sizeof words);
  tu_control_post(control, r->number, words);
}

static uint64_t tag_of(const struct tutti_request *r) { return r->number << 32 | r->facts.hash; }

void tu_request_start(struct tutti_request *r) {
  open_request(r);
  if (r->comm->mover->outgrown) tu_mover_grow(r->comm->mover);
  tu_queue_leave_straight(r->comm);
  uint64_t tag = tu_p2p_tag(r->tag, r->signature.lanes);
  if (!r->program->point_to_point) {
    r->number = ++r->comm->number;
    post(r);
    tag = tag_of(r);
  } else {
    tu_control_count(&r->comm->mover->control, tu_facts_bytes(&r->facts));
  }
  if (tu_calls_are_watched) tu_call_watch(r);
  const void *in = r->leaves ? tu_leaf_sum_take(r->leaves, r->in_data) : r->in_data;
  tu_execution_start(&r->execution, in, r->out_data, tag);
  tu_queue_add(r);
}

/* Starts a request on the fast path. Returns true if it is complete already. Sends data first and publishes the call
 * afterwards. The publication is not urgent, because other ranks read it only after they have waited for some time. */
static inline bool start_straight(struct tutti_request *r) {
  struct tu_execution *e = &r->execution;
  if (r->comm->mover->outgrown) tu_mover_grow(r->comm->mover);
  r->number = ++r->comm->number;
  r->ready = false; /* an operation of the program, from which it may call, does not find the request that runs */
  tu_execution_start_straight(e, tag_of(r));
  bool done = tu_execution_poll_straight(e, 0);
  post(r);
  return r->ready = done;
}

bool tu_request_run_straight(struct tutti_request *r) {
  struct tu_execution *e = &r->execution;
  if (start_straight(r) || (r->ready = tu_wait_straight(r->comm, e))) return true;
  open_request(r);
  tu_execution_leave_straight(e);
  tu_queue_add(r);
  return false;
}

/* Returns an error if a call may not be started here. Within on_ready no call may be started. A call with partitioned
 * input may be started only if the caller receives a request for it (has_handle), because the caller needs the request
 * to fill in the input. */
static tutti_err check_parts(const tutti_call *call, bool has_handle, struct tu_error *error) {
  if (!tu_thread.telling && (has_handle || !call->in_parts)) return TUTTI_OK;
  const char *name = tutti_collective_name(call->collective);
  if (tu_thread.telling)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: called within the callback on_ready, which may only call tutti_request_fill", name);
  return tu_fail(error, TUTTI_ERR_ARGUMENT,
                 "%s: in_parts is set, but the call has no request to fill; start it outside a group, with a request",
                 name);
}

static tutti_err check_call(const tutti_call *call, bool has_handle, struct tu_error *error) {
  tutti_err err =
      tu_check_timeout(tutti_collective_name(call->collective), "tutti_call.timeout_ms", call->timeout_ms, error);
  if (err == TUTTI_OK) err = check_parts(call, has_handle, error);
  return err == TUTTI_OK ? tu_call_check_message(call, error) : err;
}

/* Returns the call in the form that this version of the library uses: the caller's struct, or a copy of it in *copy if
 * the struct's size differs. Returns NULL and sets *error if the struct has an unknown field that is not zero. */
static const tutti_call *known_call(const char *function, const tutti_call *call, size_t call_bytes, tutti_call *copy,
                                    struct tu_error *error) {
  if (tu_sized_fits(&tu_sized_call, call, call_bytes)) return call;
  return tu_sized_take(&tu_sized_call, call, call_bytes, copy, function, error) == TUTTI_OK ? copy : NULL;
}

/* Sets *request to a request for the call that is ready to be started. Nothing that other ranks see changes. */
static tutti_err find_request(tutti_comm *comm, const tutti_call *call, bool has_handle, struct tutti_request **request,
                              struct tu_error *error) {
  tutti_err err = check_call(call, has_handle, error);
  if (err == TUTTI_OK) err = tu_call_resolve(comm, call, error);
  return err == TUTTI_OK ? tu_request_acquire(comm, &comm->memo->resolved, request, error) : err;
}

static tutti_err acquire(tutti_comm *comm, const tutti_call *call, bool has_handle, struct tutti_request **request) {
  struct tu_error error;
  if (tu_comm_failed_by_now(comm)) return tu_thread_error(&comm->error);
  if (find_request(comm, call, has_handle, request, &error) != TUTTI_OK) return refuse(comm, &error);
  (*request)->on_ready = call->on_ready;
  (*request)->on_ready_context = call->on_ready_context;
  (*request)->message = call->message;
  (*request)->user.context = call->op_context ? call->op_context : (*request)->own_op_context;
  (*request)->timeout_ms = call->timeout_ms ? call->timeout_ms : comm->timeout_ms;
  (*request)->persistent = (*request)->detached = (*request)->ready = false;
  (*request)->place = NULL;
  return TUTTI_OK;
}

/* Advances the requests that were just started as far as possible. Then wakes a sleeping thread of this process, which
 * has to advance them from now on. */
static void move_started(tutti_comm *comm) {
  (void)tu_queue_poll(comm);
  if (comm->first) tu_bell_ring(comm->transport, comm->transport->rank);
}

/* Starts a request that is ready for the fast path. No other request is open. */
static void start_ready(struct tutti_request *r) {
  struct tutti_comm *comm = r->comm;
  if (start_straight(r)) {
    r->error.code = TUTTI_OK;
    tu_request_set_state(r, TU_REQUEST_COMPLETE);
    return;
  }
  open_request(r);
  r->straight = true;
  tu_queue_add(r);
  tu_bell_ring(comm->transport, comm->transport->rank);
}

static void note_place(struct tutti_request *r, const tutti_call *call) {
  r->brief = tu_brief_of(call);
  r->place = tu_again_place(r->comm, &r->brief);
}

/* Starts a call that repeats an earlier one. Returns false if it does not. */
static bool start_again(tutti_comm *comm, const tutti_call *call, tutti_request **request) {
  const struct tu_brief b = tu_brief_of(call);
  struct tutti_request **place = tu_again_place(comm, &b), *r = *place;
  if (!tu_again_fits_call(r, &b, call) || !r->ready) return false;
  *place = NULL;
  r->timeout_ms = comm->timeout_ms;
  *request = r;
  start_ready(r);
  return true;
}

/* Returns true if the request has run on the fast path with other buffers, and can run there with these. */
static bool goes_straight_again(struct tutti_request *r) {
  return r->place && r->execution.hops && !r->comm->first && !tu_queue_others(r->comm) && !tu_calls_are_watched &&
         tu_again_prepare(r);
}

/* waits: the caller waits for the call at once, so that it may run on the fast path. */
static tutti_err start(tutti_comm *comm, const tutti_call *call, bool waits, tutti_request **request) {
  struct tutti_request *r;
  const bool plain = request && tu_is_plain(call);
  if (plain && !tu_comm_failed_by_now(comm) && start_again(comm, call, request)) return TUTTI_OK;
  tutti_err err = acquire(comm, call, request != NULL, &r);
  if (err != TUTTI_OK) return err;
  if (plain) note_place(r, call);
  r->detached = !request;
  if (request) *request = r;
  if (!waits || !goes_straight_again(r)) {
    tu_request_start(r);
    move_started(comm);
  } else if (tu_request_run_straight(r)) {
    r->error.code = TUTTI_OK;
    tu_request_set_state(r, TU_REQUEST_COMPLETE);
  }
  return TUTTI_OK;
}

tutti_err tu_call_start(tutti_comm *comm, const tutti_call *call, tutti_request **request) {
  return start(comm, call, false, request);
}

tutti_err tutti_start_sized(tutti_comm *comm, const tutti_call *call, size_t call_bytes, tutti_request **request) {
  struct tu_visit visit;
  struct tu_error error;
  tutti_call copy;
  if (!comm || !call) return tu_refuse_null("tutti_start", comm ? "call" : "comm");
  if (request) *request = NULL;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_start");
  const tutti_call *known = known_call("tutti_start", call, call_bytes, &copy, &error);
  tutti_err err = known ? tu_call_start(comm, known, request) : refuse(comm, &error);
  tu_progress_note(comm);
  tu_leave(&visit);
  return err;
}

tutti_err tu_call_start_named(const char *function, tutti_comm *comm, const tutti_call *call, tutti_request **request) {
  struct tu_visit visit;
  if (!comm) return tu_refuse_null(function, "comm");
  if (request) *request = NULL;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit(function);
  tutti_err err = tu_call_start(comm, call, request);
  tu_progress_note(comm);
  tu_leave(&visit);
  return err;
}

/* ---- would a call be accepted? ---- */

/* What a call would use. */
struct answer {
  const char *algorithm;
  bool canonical;
};

/* Does all that a start does before it changes anything that other ranks see. The request stays in the cache of idle
 * requests, where a start of the same call finds it. Sets *found to what it would use; NULL: not asked. */
static tutti_err try_call(const char *function, tutti_comm *comm, const tutti_call *call, size_t call_bytes,
                          struct answer *found) {
  struct tutti_request *r;
  struct tu_error why, error;
  tutti_call copy;
  if (tu_comm_failed_by_now(comm)) return tu_thread_error(&comm->error);
  const tutti_call *known = known_call(function, call, call_bytes, &copy, &why);
  if (known && find_request(comm, known, true, &r, &why) == TUTTI_OK) {
    if (found)
      *found = (struct answer){r->algorithm ? r->algorithm->name : tu_user_plan_name(known->plan), r->canonical};
    tu_request_release(r);
    return TUTTI_OK;
  }
  explain(comm, &why, &error);
  return tu_thread_error(&error);
}

tutti_err tutti_check_call_sized(tutti_comm *comm, const tutti_call *call, size_t call_bytes) {
  struct tu_visit visit;
  if (!comm || !call) return tu_refuse_null("tutti_check_call", comm ? "call" : "comm");
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_check_call");
  tutti_err err = try_call("tutti_check_call", comm, call, call_bytes, NULL);
  tu_leave(&visit);
  return err;
}

tutti_err tutti_query_call_sized(tutti_comm *comm, const tutti_call *call, size_t call_bytes, const char **algorithm,
                                 bool *canonical) {
  struct tu_visit visit;
  struct answer found = {NULL, false};
  if (algorithm) *algorithm = NULL;
  if (canonical) *canonical = false;
  if (!comm || !call) return tu_refuse_null("tutti_query_call", comm ? "call" : "comm");
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_query_call");
  tutti_err err = try_call("tutti_query_call", comm, call, call_bytes, &found);
  if (algorithm) *algorithm = found.algorithm;
  if (canonical) *canonical = found.canonical;
  tu_leave(&visit);
  return err;
}

/* ---- many calls, one request ---- */

/* An array of the caller's calls, each of call_bytes bytes. */
struct calls {
  const tutti_call *first;
  size_t call_bytes, count;
};

static const tutti_call *known_at(const struct calls *calls, size_t i, tutti_call *copy, struct tu_error *error) {
  const void *call = (const unsigned char *)calls->first + i * calls->call_bytes;
  return known_call("tutti_start_all", call, calls->call_bytes, copy, error);
}

/* Starts the calls without a request handle for the caller. A request that succeeds is released when it is complete. */
static tutti_err start_detached(tutti_comm *comm, const struct calls *calls) {
  tutti_call copy;
  struct tu_error error;
  tutti_err err = TUTTI_OK;
  for (size_t i = 0; i < calls->count && err == TUTTI_OK; i++) {
    const tutti_call *known = known_at(calls, i, &copy, &error);
    err = known ? tu_call_start(comm, known, NULL) : refuse(comm, &error);
  }
  return err;
}

static tutti_err start_children(tutti_comm *comm, const struct calls *calls, struct tutti_request *parent) {
  tutti_call copy;
  struct tu_error error;
  for (size_t i = 0; i < calls->count; i++) {
    const tutti_call *known = known_at(calls, i, &copy, &error);
    tutti_err err = known ? acquire(comm, known, false, &parent->children[i]) : refuse(comm, &error);
    if (err != TUTTI_OK) {
      tu_queue_poll(comm); /* the communicator has failed: this completes the requests that were started */
      return err;
    }
    parent->child_count++;
    tu_request_start(parent->children[i]);
  }
  move_started(comm);
  return TUTTI_OK;
}

static tutti_err start_all(tutti_comm *comm, const struct calls *calls, tutti_request **request) {
  if (!request || calls->count == 0) return start_detached(comm, calls);
  struct tutti_request *parent = tu_try_allocate(1, sizeof *parent);
  struct tutti_request **children = parent ? tu_try_allocate(calls->count, sizeof(struct tutti_request *)) : NULL;
  if (!children) {
    struct tu_error error;
    free(parent);
    tu_fail_memory(&error, calls->count * sizeof(struct tutti_request *), "a request for %zu calls", calls->count);
    return refuse(comm, &error);
  }
  parent->comm = comm;
  parent->children = children;
  tutti_err err = start_children(comm, calls, parent);
  if (err == TUTTI_OK) *request = parent;
  else tu_request_release(parent);
  return err;
}

tutti_err tutti_start_all_sized(tutti_comm *comm, const tutti_call *calls, size_t call_bytes, size_t count,
                                tutti_request **request) {
  struct tu_visit visit;
  if (!comm || (!calls && count > 0)) return tu_refuse_null("tutti_start_all", comm ? "calls" : "comm");
  if (request) *request = NULL;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_start_all");
  tutti_err err = start_all(comm, &(struct calls){calls, call_bytes, count}, request);
  tu_progress_note(comm);
  tu_leave(&visit);
  return err;
}

/* ---- persistent requests ---- */

static tutti_err prepare(tutti_comm *comm, const tutti_call *call, tutti_request **request) {
  struct tutti_request *r;
  tutti_err err = acquire(comm, call, true, &r);
  if (err != TUTTI_OK) return err;
  r->persistent = true;
  if (tu_is_plain(call)) note_place(r, call);
  tu_request_set_state(r, TU_REQUEST_UNSTARTED);
  *request = r;
  return TUTTI_OK;
}

tutti_err tutti_prepare_sized(tutti_comm *comm, const tutti_call *call, size_t call_bytes, tutti_request **request) {
  struct tu_visit visit;
  struct tu_error error;
  tutti_call copy;
  if (!comm || !call) return tu_refuse_null("tutti_prepare", comm ? "call" : "comm");
  if (!request) return tu_refuse_null("tutti_prepare", "request");
  *request = NULL;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_prepare");
  const tutti_call *known = known_call("tutti_prepare", call, call_bytes, &copy, &error);
  tutti_err err = known ? prepare(comm, known, request) : refuse(comm, &error);
  tu_leave(&visit);
  return err;
}

static tutti_err restart(tutti_request *request) {
  struct tu_error error;
  const bool is_open = tu_request_is_open(request);
  if (!request->persistent || is_open) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_restart: this request is %s",
            is_open ? "open; wait for it first" : "not persistent; expected one from tutti_prepare");
    return tu_thread_error(&error);
  }
  if (tu_thread.telling) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT,
            "tutti_restart: called within the callback on_ready, which may only call tutti_request_fill");
    return tu_thread_error(&error);
  }
  if (tu_comm_failed_by_now(request->comm)) return tu_thread_error(&request->comm->error);
  if (request->ready && !request->comm->first) {
    start_ready(request);
    return TUTTI_OK;
  }
  tu_request_start(request);
  move_started(request->comm);
  return TUTTI_OK;
}

tutti_err tutti_restart(tutti_request *request) {
  struct tu_visit visit;
  if (!request) return tu_refuse_null("tutti_restart", "request");
  if (!tu_hold(request->comm, &visit)) return tu_refuse_visit("tutti_restart");
  tutti_err err = restart(request);
  tu_progress_note(request->comm);
  tu_leave(&visit);
  return err;
}

/* Makes the communicator fail, because the program frees a request that is still open. The failure ends all open
 * requests. Without it, the program could not find out when the request no longer uses its buffers. */
static void refuse_free(struct tutti_request *request) {
  struct tu_error error;
  struct tutti_comm *comm = request->comm;
  tu_fail(&error, TUTTI_ERR_ARGUMENT,
          "rank %u: tutti_request_free: %s is still open and uses its buffers; wait for it or test it first",
          comm->rank, request->child_count > 0 ? "a call of the group" : "the request");
  tu_comm_fail(comm, &error);
}

static void free_request(tutti_request *request) {
  struct tutti_comm *comm = request->comm;
  struct tutti_request *one[1] = {request}, **all = request->child_count > 0 ? request->children : one;
  size_t count = tu_max(request->child_count, 1), open = 0;
  for (size_t i = 0; i < count; i++) open += tu_request_is_open(all[i]);
  if (open > 0) refuse_free(request);
  /* like tu_request_release, but keeps the requests of the group that are still open */
  if (request->child_count > 0 && open > 0) {
    for (size_t i = 0; i < count; i++) {
      if (tu_request_is_open(all[i])) all[i]->detached = true;
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

tutti_err tu_refuse_to_hang(tutti_comm *comm) {
  struct tu_error error;
  if (!comm || tu_comm_failed(comm) || !tu_input_is_missing(comm, NULL, &error)) return TUTTI_OK;
  return refuse(comm, &error);
}

const char *tu_call_name(tutti_collective collective) {
  static const char *const names[TU_COLLECTIVES] = {
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
      [TUTTI_GATHERV] = "tutti_gatherv",
      [TUTTI_SCATTERV] = "tutti_scatterv",
      [TUTTI_ALLGATHERV] = "tutti_allgatherv",
      [TUTTI_REDUCE_SCATTERV] = "tutti_reduce_scatterv",
      [TUTTI_ALLTOALLV] = "tutti_alltoallv",
      [TUTTI_SEND] = "tutti_send",
      [TUTTI_RECV] = "tutti_recv",
  };
  return tu_is_collective(collective) ? names[collective] : "tutti_run_call";
}

/* Starts a call and waits for it. Refuses a call with partitioned input, because no other thread has the request that
 * is needed to fill in the input. */
static tutti_err run(tutti_comm *comm, const tutti_call *call) {
  struct tu_error error;
  tutti_request *request = NULL;
  tutti_err err = tu_refuse_to_hang(comm);
  if (err == TUTTI_OK && check_parts(call, false, &error) != TUTTI_OK) err = refuse(comm, &error);
  if (err == TUTTI_OK) err = start(comm, call, true, &request);
  return err == TUTTI_OK ? tutti_wait(&request) : err;
}

tutti_err tu_call_and_wait(tutti_comm *comm, const tutti_call *call) {
  struct tu_visit visit;
  const char *name = tu_call_name(call->collective);
  if (!comm) return tu_refuse_null(name, "comm");
  if (!tu_hold(comm, &visit)) return tu_refuse_visit(name);
  tutti_err err = run(comm, call);
  tu_leave(&visit);
  return err;
}

tutti_err tu_call_refuse(tutti_comm *comm, const char *function, const struct tu_error *error) {
  struct tu_visit visit;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit(function);
  tutti_err err = refuse(comm, error);
  tu_leave(&visit);
  return err;
}
