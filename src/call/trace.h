/* trace.h: records what this rank does (TUTTI_TRACE): when each call began and ended, and when each step of it advanced. The
 * file is that of trace/format.h. Without TUTTI_TRACE no instruction is added to a call. */
#ifndef TU_CALL_TRACE_H
#define TU_CALL_TRACE_H

#include "call/request.h"

/* tu_execution_poll, or what polls while this process records. */
extern bool (*tu_poll_execution)(struct tu_execution *e);
/* true: each call has to be told of (tu_call_watch), by the log or by a trace. */
extern bool tu_calls_are_watched;

/* Who records: a rank of a job. */
struct tu_trace_rank {
  uint64_t job; /* number of the job; 0: the rank is alone */
  uint32_t rank, ranks;
  const struct tu_transport *transport; /* its calls are recorded */
};

/* Makes the file of this rank, if TUTTI_TRACE is set. A world that this process has joined before is
 * recorded no longer. Error: TUTTI_ERR_ENVIRONMENT. */
tutti_err tu_trace_open(const struct tu_trace_rank *who, struct tu_error *error);
/* Called before an endpoint closes: its world is recorded no longer. */
void tu_trace_close(const struct tu_transport *t);
/* From now on, the calls of this process are watched, if there is a trace, or the log wants it. The caller forgets the calls
 * that the world has kept (call/again.h). */
void tu_trace_start(void);
/* Called when a request is about to start, and when it has failed. */
void tu_call_watch(struct tutti_request *r);
void tu_call_failed(struct tutti_request *r);

#endif
