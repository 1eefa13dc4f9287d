/* events.h: a queue of future events in order of time (a binary heap). O(log events) per call. */
#ifndef TU_EVENTS_H
#define TU_EVENTS_H

#include <stdlib.h>

#include "base/base.h"

struct tu_event {
  double time;
  /* kind: kind of the event; id: number of the object that it concerns. The code that puts the event into the queue
   * defines what both mean. */
  uint32_t kind, id;
};

struct tu_events {
  /* binary heap with the earliest event first; zero-initialise it, free it with tu_events_fini */
  struct tu_event *heap;
  uint32_t count, capacity;
};

void tu_events_put(struct tu_events *events, struct tu_event event);
struct tu_event tu_events_take(struct tu_events *events);
static inline void tu_events_fini(struct tu_events *events) { free(events->heap); }

#endif
