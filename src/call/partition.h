/* partition.h: partitioned calls: the caller fills the input part by part, or is told part by part which output is
 * final. */
#ifndef TU_PARTITION_H
#define TU_PARTITION_H

#include "call/request.h"

/* Calls the caller's on_ready function for the output that has become final. */
void tu_request_tell(struct tutti_request *request);
/* Returns true if the request waits for the program to fill in input; *element is the first missing element. */
bool tu_request_lacks_input(const struct tutti_request *request, size_t *element);
/* Returns true and sets *error to TUTTI_ERR_ARGUMENT if the program has not filled in all input of an open request that
 * this thread has started. Checks `last` and the requests started before it; last = NULL: checks all requests of the
 * communicator. */
bool tu_input_is_missing(const struct tutti_comm *comm, const struct tutti_request *last, struct tu_error *error);

#endif
