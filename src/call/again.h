/* again.h: calls that repeat an earlier one. A communicator keeps the requests of some calls in tutti_comm.again. A call
 * with the same arguments takes the request from there, without checks and translation. If its messages are short, it is
 * carried out on the fast path (engine/straight.c). A blocking call with other buffers is checked and translated, and then
 * runs there, too, if its request has run there before (start.c). */
#ifndef TU_AGAIN_H
#define TU_AGAIN_H

#include <string.h>

#include "algo/algo.h"
#include "call/request.h"
#include "plan/collective.h"

static inline bool tu_has_blocks(const tutti_call *call) { return call->send_blocks || call->recv_blocks; }

/* Returns true if the call sets only what a named function can set, an order, and an algorithm. Only such calls are kept. */
static inline bool tu_is_plain(const tutti_call *call) {
  return !call->plan && !call->in && !call->out && !call->on_ready && !call->in_parts && !call->lanes &&
         !call->timeout_ms && !call->message && !call->op_context && !call->element_bytes && !call->flags &&
         !call->leaves && !call->folded && (uint32_t)call->order <= TUTTI_ORDER_CANONICAL &&
         tu_is_collective(call->collective) && call->collective < TUTTI_SEND;
}

/* Stands in tu_brief for a buffer whose blocks have addresses of their own, so that no call with a buffer is taken for
 * a repetition. */
extern const char tu_by_blocks;

static inline struct tu_brief tu_brief_of(const tutti_call *call) {
  return (struct tu_brief){call->send_blocks && !call->send ? &tu_by_blocks : call->send,
                           call->recv_blocks && !call->recv ? (void *)(uintptr_t)&tu_by_blocks : call->recv,
                           call->count,
                           call->collective,
                           call->type,
                           call->op,
                           call->root,
                           call->order,
                           call->algorithm};
}

/* Returns where the request of such a call is kept. Calls with one root after the other have different places. So have,
 * most often, short calls with different buffers or counts, as programs that repeat several calls in turn make. Long calls
 * have not, so that scratch memory is kept for few of them. */
static inline struct tutti_request **tu_again_place(struct tutti_comm *comm, const struct tu_brief *b) {
  enum { LONG = 1024, APART = 11 };
  const uint64_t mixed = ((uintptr_t)b->send + 3 * (uintptr_t)b->recv + b->count) * UINT64_C(0x9e3779b97f4a7c15);
  const uint32_t first = b->count < LONG ? (uint32_t)(mixed >> 32) : 0;
  return &comm->again[(first + APART * (uint32_t)b->collective + b->root) % TU_AGAIN_PLACES];
}

/* Returns true if the call has the arguments of the kept request, and no request of the communicator is open. */
static inline bool tu_again_fits(const struct tutti_request *kept, const struct tu_brief *b) {
  return kept && b->send == kept->brief.send && b->recv == kept->brief.recv && b->count == kept->brief.count &&
         b->collective == kept->brief.collective && b->type == kept->brief.type && b->op == kept->brief.op &&
         b->root == kept->brief.root && b->order == kept->brief.order && b->algorithm == kept->brief.algorithm &&
         !kept->comm->first;
}

/* The same for a plain call, which may have an algorithm, counts, displacements, and addresses of blocks. The program may have
 * written another name where the algorithm's name was. */
static inline bool tu_again_fits_call(const struct tutti_request *kept, const struct tu_brief *b,
                                      const tutti_call *call) {
  return tu_again_fits(kept, b) && (!b->algorithm || strcmp(b->algorithm, kept->algorithm->name) == 0) &&
         ((b->collective < TUTTI_GATHERV && !tu_has_blocks(call)) || tu_request_has_blocks(kept, call));
}

/* Prepares a complete request of a plain call for the fast path, with the buffers of its last run. Returns false if the
 * fast path cannot carry it out, or there is no memory. */
bool tu_again_prepare(struct tutti_request *request);
/* Keeps a complete request at its place, or retires it (request.h). */
void tu_request_release(struct tutti_request *request);
/* Releases all kept requests. */
void tu_again_forget(struct tutti_comm *comm);
/* Makes later calls with this operation, which is freed, unlike all earlier ones. The requests stay, because one of them may
 * be running: the program may call from within an operation. */
void tu_again_forget_op(struct tutti_comm *comm, tutti_op op);

#endif
