/* events.h: events of one-sided calls, and sessions of non-blocking copies. */
#ifndef TU_ONESIDED_EVENTS_H
#define TU_ONESIDED_EVENTS_H

#include <tutti/window.h>

#include "onesided/far.h"

/* Sets *events->event to zero (a complete event), because a blocking call is complete when it returns. Then waits for
 * the events in events->after. If events is NULL, does nothing. */
tutti_err tu_events_begin(const char *call, const tutti_events *events, struct tu_error *error);

/* A copy of one contiguous block of memory. */
struct tu_flat {
  void *to;
  const void *from;
  size_t bytes;
  struct tu_far_memory to_far, from_far; /* window NULL: the memory is on this host */
};
/* Returns TUTTI_ERR_ARGUMENT if the session was created by another process (the parent, if this process is a child
 * of fork()). */
tutti_err tu_session_check(const tutti_session *session, const char *call, struct tu_error *error);
/* Adds a copy to the session, and sets *event. Error: that of an earlier copy, which the call had to complete. */
tutti_err tu_session_start(tutti_session *session, const struct tu_flat *flat, tutti_event *event,
                           struct tu_error *error);

#endif
