/* events.h: events of one-sided calls, and sessions of non-blocking copies. */
#ifndef TU_ONESIDED_EVENTS_H
#define TU_ONESIDED_EVENTS_H

#include <tutti/window.h>

#include "base/base.h"

/* Sets *events->event to zero (a complete event), because a blocking call is complete when it returns. Then waits for
 * the events in events->after. If events is NULL, does nothing. */
tutti_err tu_events_begin(const char *call, const tutti_events *events, struct tu_error *error);

/* A copy of one contiguous block of memory. */
struct tu_flat {
  void *to;
  const void *from;
  size_t bytes;
};
/* Returns TUTTI_ERR_ARGUMENT if the session was created by another process (the parent, if this process is a child
 * of fork()). */
tutti_err tu_session_check(const tutti_session *session, const char *call, struct tu_error *error);
tutti_event tu_session_start(tutti_session *session, const struct tu_flat *flat);

#endif
