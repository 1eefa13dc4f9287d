/* again.c: which requests a communicator keeps for calls that repeat an earlier one. */
#include "call/again.h"

#include "base/log.h"
#include "comm/operations.h"

const char tu_by_blocks;

/* Returns true if the program has freed the operation since the call began. */
static bool op_is_freed(const struct tutti_request *r) {
  struct tu_user_op user;
  const struct tu_brief *b = &r->brief;
  return tu_reduces(b->collective) && b->op >= TUTTI_COMM_OPS && !tu_user_op_find(r->comm, b->op, &user);
}

bool tu_again_prepare(struct tutti_request *r) {
  struct tu_execution *e = &r->execution;
  if (r->ready && !r->comm->pace && !op_is_freed(r)) return true;
  /* A call that repeats an earlier one does not log itself. */
  r->ready = r->place && !tu_logs(TU_LOG_DEBUG) && !op_is_freed(r) &&
             tu_execution_goes_straight(e, r->in_data, r->out_data) &&
             tu_execution_prepare_straight(e, r->in_data, r->out_data);
  return r->ready;
}

void tu_request_release(struct tutti_request *r) {
  struct tutti_request **place = r->place;
  /* A persistent request that was never started has not run with its buffers. */
  if (!place || r->comm->failed || tu_request_state(r) != TU_REQUEST_COMPLETE || !tu_again_prepare(r)) {
    tu_request_retire(r);
    return;
  }
  struct tutti_request *before = *place;
  *place = r;
  r->persistent = false;
  if (before) tu_request_retire(before);
}

void tu_again_forget(struct tutti_comm *comm) {
  for (size_t i = 0; i < TU_AGAIN_PLACES; i++) {
    struct tutti_request *kept = comm->again[i];
    comm->again[i] = NULL;
    if (kept) tu_request_retire(kept);
  }
}

void tu_again_forget_op(struct tutti_comm *comm, tutti_op op) {
  for (size_t i = 0; i < TU_AGAIN_PLACES; i++) {
    struct tutti_request *kept = comm->again[i];
    if (kept && tu_reduces(kept->brief.collective) && kept->brief.op == op)
      kept->brief.send = kept; /* no call has such a buffer */
  }
}
