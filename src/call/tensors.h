/* tensors.h: the tensors of a call: converts a call with tensors into a call with vectors, which the engine can run. */
#ifndef TU_CALL_TENSORS_H
#define TU_CALL_TENSORS_H

#include "call/call.h"
#include "comm/comm.h"

/* Converts a call with tensors into the call *flat with vectors. has_in, has_out: true if this rank has an input, an
 * output. resolved->tensors becomes the description of the tensors. */
tutti_err tu_call_of_tensors(const struct tutti_comm *comm, const tutti_call *call, bool has_in, bool has_out,
                             tutti_call *flat, struct tu_call *resolved, bool *in_place, struct tu_error *error);
/* Makes the views access the tensors where they lie in memory. A tensor whose memory order differs from the order in
 * messages gets a fold (a mapping to its packed form). */
void tu_call_fold(struct tu_call *resolved, const tutti_call *flat);
bool tu_call_tensors_same(const struct tu_call_tensors *a, const struct tu_call_tensors *b);
/* Returns true if both tensors have the same memory, type, shape and layout. */
bool tu_tensor_same(const tutti_tensor *a, const tutti_tensor *b);
/* Returns true if both tensors have the same shape and layout. */
bool tu_tensors_alike(const tutti_tensor *a, const tutti_tensor *b);
void tu_call_tensors_release(struct tu_call_tensors *tensors);

#endif
