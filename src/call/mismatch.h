/* mismatch.h: reports ranks whose calls differ although they have the same sequence number, and messages that do not
 * match the call that receives them. */
#ifndef TU_MISMATCH_H
#define TU_MISMATCH_H

#include "call/request.h"

/* Prints the call that the request carries out, for example "collective 3, allreduce(...)". */
void tu_print_call(const struct tutti_request *request, char *text, size_t bytes);
/* Appends the peer and the tag of a send, receive or probe to the text `call`. */
void tu_print_peer_and_tag(const char *call, uint32_t peer, uint32_t tag, char *text, size_t bytes);
/* Compares the calls with that sequence number on the boards, where ranks publish their calls. Returns true if two
 * calls differ; the communicator's verdict (its first failure) then names both calls. */
bool tu_find_disagreement(struct tutti_comm *comm, uint64_t number);
/* Makes the communicator fail, because a message has arrived that does not match the request. */
void tu_fail_mismatch(struct tutti_request *request);

#endif
