/* start.h: starts calls. */
#ifndef TU_START_H
#define TU_START_H

#include "call/request.h"

/* Starts a call. The caller holds the communicator, and waits for the call with *request. request NULL: the call gets
 * no handle, and is released when it is complete. */
tutti_err tu_call_start(struct tutti_comm *comm, const tutti_call *call, struct tutti_request **request);
/* Starts a call; error messages name the public function `function`. */
tutti_err tu_call_start_named(const char *function, tutti_comm *comm, const tutti_call *call, tutti_request **request);
/* Starts the call and waits for it. */
tutti_err tu_call_and_wait(tutti_comm *comm, const tutti_call *call);
/* Refuses a call whose struct the library cannot read. The communicator fails. */
tutti_err tu_call_refuse(tutti_comm *comm, const char *function, const struct tu_error *error);
/* Returns TUTTI_ERR_ARGUMENT while the input of an earlier call of this thread is missing, because a blocking call
 * would then never end. */
tutti_err tu_refuse_to_hang(tutti_comm *comm);
/* Starts a request. */
void tu_request_start(struct tutti_request *request);
/* Starts a request on the fast path, and waits for it for a short time; no other request may be open. Returns true if the
 * request is complete; otherwise it is open. */
bool tu_request_run_straight(struct tutti_request *request);
/* Returns the name of the public function for a collective, for example "tutti_allreduce". */
const char *tu_call_name(tutti_collective collective);

#endif
