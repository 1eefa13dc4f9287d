/* events.h: what will happen, in order of time: a heap. O(log events) each. */
#ifndef TU_EVENTS_H
#define TU_EVENTS_H

#include <stdlib.h>

#include "base/base.h"

struct tu_event {
  double time;
  uint32_t kind, id; /* mean something to whoever put it there */
};

struct tu_events {
  struct tu_event *heap; /* the next one first; zero-initialise, free with tu_events_fini */
  uint32_t count, capacity;
};

void tu_events_put(struct tu_events *events, struct tu_event event);
struct tu_event tu_events_take(struct tu_events *events);
static inline void tu_events_fini(struct tu_events *events) { free(events->heap); }

#endif
