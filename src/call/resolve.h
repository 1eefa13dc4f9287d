/* resolve.h: checks a call, and resolves it into views and addresses. The last call is remembered, so that a program
 * can repeat it cheaply. */
#ifndef TU_RESOLVE_H
#define TU_RESOLVE_H

#include "call/call.h"
#include "comm/comm.h"

/* The last call that was resolved, so that a repetition need not be resolved again. */
struct tu_memo {
  bool valid;
  tutti_call call; /* copy of the call; its pointers to tensors may dangle, so they are only compared with NULL */
  tutti_tensor in, out;
  struct tu_call resolved;
  size_t in_begin, in_end, out_begin, out_end; /* in each buffer, the range of bytes that the call uses */
};

/* Checks the call, and resolves it into comm->memo->resolved. Errors: TUTTI_ERR_ARGUMENT, TUTTI_ERR_MEMORY. */
tutti_err tu_call_resolve(struct tutti_comm *comm, const tutti_call *call, struct tu_error *error);
/* Checks and resolves only what concerns the input, whose memory need not exist: its view, tensor, type, operation and
 * leaves. The caller releases the tensors of *out. Errors as above. */
tutti_err tu_call_resolve_input(const struct tutti_comm *comm, const tutti_call *call, struct tu_call *out,
                                struct tu_error *error);
/* Checks what tu_call_resolve does not, because a repeated call may differ in it: tag and message. */
tutti_err tu_call_check_message(const tutti_call *call, struct tu_error *error);
void tu_memo_destroy(struct tu_memo *memo);

#endif
