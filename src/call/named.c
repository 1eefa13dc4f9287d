/* named.c: blocking calls: tutti_run_call, and the named functions of the public header, such as tutti_allreduce. A
 * short call that repeats the last call uses a fast path (engine/straight.c). */
#include "base/sized.h"
#include "call/again.h"
#include "call/queue.h"
#include "call/resolve.h"
#include "call/start.h"
#include "comm/enter.h"
#include "comm/failure.h"

/* ---- blocking calls; a short call that repeats the last call uses the fast path ---- */

static inline bool is_again(const struct tutti_request *kept, const struct tu_brief *b) {
  return tu_again_fits(kept, b) && (!tu_queue_others(kept->comm) || !tu_queue_find_others(kept->comm));
}

static tutti_err run_again(tutti_comm *comm, struct tutti_request **place) {
  struct tutti_request *r = *place;
  if (tu_comm_failed_by_now(comm)) return tu_thread_error(&comm->error);
  if (tu_request_run_straight(r)) return TUTTI_OK;
  *place = NULL;
  r->timeout_ms = comm->timeout_ms;
  return tutti_wait(&r);
}

static tutti_err run_first(tutti_comm *comm, const struct tu_brief *b) {
  return tu_call_and_wait(comm, &(tutti_call){.collective = b->collective,
                                              .send = b->send,
                                              .recv = b->recv,
                                              .count = b->count,
                                              .type = b->type,
                                              .op = b->op,
                                              .root = b->root});
}

static inline tutti_err run(tutti_comm *comm, const struct tu_brief *b) {
  if (!comm || !tu_enter_idle(comm)) return run_first(comm, b);
  struct tutti_request **place = tu_again_place(comm, b);
  tutti_err err = is_again(*place, b) ? run_again(comm, place) : run_first(comm, b);
  tu_leave_idle(comm);
  return err;
}

static tutti_err run_call(tutti_comm *comm, const tutti_call *call) {
  if (!comm || !tu_is_plain(call) || !tu_enter_idle(comm)) return tu_call_and_wait(comm, call);
  const struct tu_brief b = tu_brief_of(call);
  struct tutti_request **place = tu_again_place(comm, &b);
  const bool again = is_again(*place, &b) && tu_again_fits_call(*place, &b, call);
  tutti_err err = again ? run_again(comm, place) : tu_call_and_wait(comm, call);
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
  return run(comm, &(struct tu_brief){send, recv, count, TUTTI_ALLREDUCE, type, op, 0, 0, NULL});
}

tutti_err tutti_reduce(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type, tutti_op op,
                       uint32_t root) {
  return run(comm, &(struct tu_brief){send, recv, count, TUTTI_REDUCE, type, op, root, 0, NULL});
}

tutti_err tutti_broadcast(tutti_comm *comm, void *buffer, size_t count, tutti_datatype type, uint32_t root) {
  return run(comm, &(struct tu_brief){buffer, buffer, count, TUTTI_BROADCAST, type, 0, root, 0, NULL});
}

tutti_err tutti_gather(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type,
                       uint32_t root) {
  return run(comm, &(struct tu_brief){send, recv, count, TUTTI_GATHER, type, 0, root, 0, NULL});
}

tutti_err tutti_scatter(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type,
                        uint32_t root) {
  return run(comm, &(struct tu_brief){send, recv, count, TUTTI_SCATTER, type, 0, root, 0, NULL});
}

tutti_err tutti_allgather(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type) {
  return run(comm, &(struct tu_brief){send, recv, count, TUTTI_ALLGATHER, type, 0, 0, 0, NULL});
}

tutti_err tutti_reduce_scatter(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type,
                               tutti_op op) {
  return run(comm, &(struct tu_brief){send, recv, count, TUTTI_REDUCE_SCATTER, type, op, 0, 0, NULL});
}

tutti_err tutti_alltoall(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type) {
  return run(comm, &(struct tu_brief){send, recv, count, TUTTI_ALLTOALL, type, 0, 0, 0, NULL});
}

tutti_err tutti_barrier(tutti_comm *comm) { return run(comm, &(struct tu_brief){.collective = TUTTI_BARRIER}); }

tutti_err tutti_scan(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type, tutti_op op) {
  return run(comm, &(struct tu_brief){send, recv, count, TUTTI_SCAN, type, op, 0, 0, NULL});
}

tutti_err tutti_exscan(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type, tutti_op op) {
  return run(comm, &(struct tu_brief){send, recv, count, TUTTI_EXSCAN, type, op, 0, 0, NULL});
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
