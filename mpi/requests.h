/* requests.h: requests of the door. */
#ifndef TM_REQUESTS_H
#define TM_REQUESTS_H

#include "door.h"

struct tm_request {
  struct tm_call call; /* what the program has called */
  struct tm_job job;
  /* from here on all zero at first */
  struct tm_comm *comm; /* the communicator of the program */
  tutti_request *tutti;
  tutti_comm *own;          /* persistent: a communicator of this request alone */
  struct tm_shadow *shadow; /* verify; NULL otherwise */
  bool persistent, active;
  bool ended; /* the call of tutti is complete, with `outcome` */
  tutti_err outcome;
  bool duplicated[2]; /* the datatypes of call.send and call.recv are duplicates of the program's */
  bool holds_op;
  uint32_t next_free;
};

/* Starts an inactive persistent request. */
int tm_request_start(struct tm_request *r);
/* Returns true if a wait for the request would not block. Advances nothing. */
bool tm_request_done(const struct tm_request *r);
/* Waits for an active request, and ends it as tm_request_finish does. */
int tm_request_wait(struct tm_request *r, MPI_Request *handle);
/* Ends an active request that is done: its results are in the program's buffers. *handle becomes MPI_REQUEST_NULL, unless
 * the request is persistent. Returns the code for the program. */
int tm_request_finish(struct tm_request *r, MPI_Request *handle);
/* Advances all open requests, on behalf of one that is active. */
void tm_request_advance(struct tm_request *r);

#endif
