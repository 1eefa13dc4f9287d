/* named.c: blocking calls: tutti_run_call, and the named functions of the public header, such as tutti_allreduce. A
 * short call that repeats the last call uses a fast path (engine/straight.c). */
#include "base/sized.h"
#include "call/queue.h"
#include "call/request.h"
#include "call/resolve.h"
#include "call/start.h"
#include "comm/enter.h"
#include "comm/failure.h"
#include "comm/operations.h"
#include "plan/collective.h"

/* ---- blocking calls; a short call that repeats the last call uses the fast path ---- */

static inline bool is_again(const struct tutti_request *last, const struct tu_brief *b) {
  return last && b->send == last->brief.send && b->recv == last->brief.recv && b->count == last->brief.count &&
         b->type == last->brief.type && b->op == last->brief.op && b->root == last->brief.root && !last->comm->first &&
         (!tu_queue_others(last->comm) || !tu_queue_find_others(last->comm));
}

/* Returns where the request of such a call is kept. */
static inline struct tutti_request **place_of(tutti_comm *comm, const struct tu_brief *b, tutti_order order) {
  return &comm->again[(2 * (b->root % TU_AGAIN_ROOTS) + (order != TUTTI_ORDER_ANY)) * TU_COLLECTIVES + b->collective];
}

static tutti_err run_again(tutti_comm *comm, struct tutti_request **place) {
  struct tutti_request *r = *place;
  if (tu_comm_failed_by_now(comm)) return tu_thread_error(&comm->error);
  if (tu_request_run_straight(r)) return TUTTI_OK;
  *place = NULL;
  r->timeout_ms = comm->timeout_ms;
  return tutti_wait(&r);
}

/* Removes the request of the call that has just finished from the cache of idle requests, and keeps it in comm->again,
 * so that a repetition of the call can take the fast path. */
static void keep_for_again(tutti_comm *comm, const struct tu_brief *b, struct tutti_request **place) {
  struct tutti_request *r = tu_request_take_idle(comm), *before = *place;
  struct tu_user_op user;
  r->brief = *b;
  /* Another thread may have freed the operation during the call. */
  bool freed = tu_reduces(b->collective) && b->op >= TUTTI_COMM_OPS && !tu_user_op_find(comm, b->op, &user);
  if (freed || !tu_execution_prepare_straight(&r->execution, r->in_data, r->out_data)) {
    tu_request_release(r);
    return;
  }
  *place = r;
  if (before) tu_request_release(before);
}

static inline bool has_blocks(const tutti_call *call) { return call->send_blocks || call->recv_blocks; }

static tutti_err run_first(tutti_comm *comm, const struct tu_brief *b, const tutti_call *call) {
  tutti_request *request = NULL;
  tutti_err err = tu_refuse_to_hang(comm);
  if (err == TUTTI_OK) err = tu_call_start(comm, call, &request);
  if (err != TUTTI_OK) return err;
  const struct tutti_request *r = request;
  err = tutti_wait(&request);
  if (err == TUTTI_OK && (comm->memo->valid || call->counts || has_blocks(call)) && comm->idle == r &&
      tu_execution_goes_straight(&r->execution, r->in_data, r->out_data))
    keep_for_again(comm, b, place_of(comm, b, call->order));
  return err;
}

static tutti_err run_brief(tutti_comm *comm, const struct tu_brief *b) {
  return run_first(comm, b,
                   &(tutti_call){.collective = b->collective,
                                 .send = b->send,
                                 .recv = b->recv,
                                 .count = b->count,
                                 .type = b->type,
                                 .op = b->op,
                                 .root = b->root});
}

__attribute__((noinline)) static tutti_err run_entering(tutti_comm *comm, const struct tu_brief *b) {
  struct tu_visit visit;
  if (!comm) return tu_refuse_null(tu_call_name(b->collective), "comm");
  if (!tu_hold(comm, &visit)) return tu_refuse_visit(tu_call_name(b->collective));
  tutti_err err = run_brief(comm, b);
  tu_leave(&visit);
  return err;
}

static inline tutti_err run(tutti_comm *comm, const struct tu_brief *b) {
  if (!comm || !tu_enter_idle(comm)) return run_entering(comm, b);
  struct tutti_request **place = place_of(comm, b, TUTTI_ORDER_ANY);
  tutti_err err = is_again(*place, b) ? run_again(comm, place) : run_brief(comm, b);
  tu_leave_idle(comm);
  return err;
}

/* Returns true if the call sets only what a named function can set, and an order. Then a repetition of the call can take
 * the fast path. */
static inline bool is_plain(const tutti_call *call) {
  return !call->algorithm && !call->plan && !call->in && !call->out && !call->on_ready && !call->in_parts &&
         !call->lanes && !call->timeout_ms && !call->message && !call->op_context && !call->element_bytes &&
         !call->flags && !call->leaves && !call->folded && (uint32_t)call->order <= TUTTI_ORDER_CANONICAL &&
         tu_is_collective(call->collective) && call->collective < TUTTI_SEND;
}

/* Stands in tu_brief for a buffer whose blocks have addresses of their own, so that no call with a buffer is taken for
 * a repetition. */
static char by_blocks;

static tutti_err run_call(tutti_comm *comm, const tutti_call *call) {
  const struct tu_brief b = {call->send_blocks && !call->send ? &by_blocks : call->send,
                             call->recv_blocks && !call->recv ? &by_blocks : call->recv,
                             call->count,
                             call->collective,
                             call->type,
                             call->op,
                             call->root};
  if (!comm || !is_plain(call) || !tu_enter_idle(comm)) return tu_call_and_wait(comm, call);
  struct tutti_request **place = place_of(comm, &b, call->order);
  bool again = is_again(*place, &b);
  if (again && (b.collective >= TUTTI_GATHERV || has_blocks(call))) again = tu_request_has_blocks(*place, call);
  tutti_err err = again ? run_again(comm, place) : run_first(comm, &b, call);
  tu_leave_idle(comm);
  return err;
}

/* Runs a call of a program that was compiled with other headers, in which tutti_call has another size. */
__attribute__((noinline)) static tutti_err run_sized(tutti_comm *comm, const tutti_call *call, size_t call_bytes) {
  tutti_call known;
  struct tu_error error;
  if (!comm || !call) return tu_refuse_null("tutti_run_call", comm ? "call" : "comm");
  if (tu_sized_take(&tu_sized_call, call, call_bytes, &known, "tutti_run_call", &error) != TUTTI_OK)
    return tu_call_refuse(comm, "tutti_run_call", &error);
  return run_call(comm, &known);
}

tutti_err tutti_run_call_sized(tutti_comm *comm, const tutti_call *call, size_t call_bytes) {
  return call && call_bytes == sizeof *call ? run_call(comm, call) : run_sized(comm, call, call_bytes);
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

/* ---- vector variants ---- */

tutti_err tutti_gatherv(tutti_comm *comm, const void *send, size_t count, void *recv, const size_t *counts,
                        const size_t *offsets, tutti_datatype type, uint32_t root) {
  return run_call(comm, &(tutti_call){.collective = TUTTI_GATHERV,
                                      .send = send,
                                      .count = count,
                                      .recv = recv,
                                      .counts = counts,
                                      .offsets = offsets,
                                      .type = type,
                                      .root = root});
}

tutti_err tutti_scatterv(tutti_comm *comm, const void *send, const size_t *counts, const size_t *offsets, void *recv,
                         size_t count, tutti_datatype type, uint32_t root) {
  return run_call(comm, &(tutti_call){.collective = TUTTI_SCATTERV,
                                      .send = send,
                                      .counts = counts,
                                      .offsets = offsets,
                                      .recv = recv,
                                      .count = count,
                                      .type = type,
                                      .root = root});
}

tutti_err tutti_allgatherv(tutti_comm *comm, const void *send, void *recv, const size_t *counts, const size_t *offsets,
                           tutti_datatype type) {
  return run_call(comm, &(tutti_call){.collective = TUTTI_ALLGATHERV,
                                      .send = send,
                                      .recv = recv,
                                      .counts = counts,
                                      .offsets = offsets,
                                      .type = type});
}

tutti_err tutti_reduce_scatterv(tutti_comm *comm, const void *send, const size_t *counts, const size_t *offsets,
                                void *recv, tutti_datatype type, tutti_op op) {
  return run_call(comm, &(tutti_call){.collective = TUTTI_REDUCE_SCATTERV,
                                      .send = send,
                                      .counts = counts,
                                      .offsets = offsets,
                                      .recv = recv,
                                      .type = type,
                                      .op = op});
}

tutti_err tutti_alltoallv(tutti_comm *comm, const void *send, const size_t *counts, const size_t *offsets, void *recv,
                          const size_t *recv_counts, const size_t *recv_offsets, tutti_datatype type) {
  return run_call(comm, &(tutti_call){.collective = TUTTI_ALLTOALLV,
                                      .send = send,
                                      .counts = counts,
                                      .offsets = offsets,
                                      .recv = recv,
                                      .recv_counts = recv_counts,
                                      .recv_offsets = recv_offsets,
                                      .type = type});
}

/* ---- point to point ---- */

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
