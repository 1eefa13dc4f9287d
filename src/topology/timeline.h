/* timeline.h: what happened on a cluster while a plan ran: which wires were taken when, by whom, and what each rank did. The
 * simulator makes it, draw/ shows it. Times are seconds. */
#ifndef TU_TIMELINE_H
#define TU_TIMELINE_H

#include "topology/cluster.h"

/* A wire was taken: port 2 l is the one that leaves at end 0 of link l, port 2 l + 1 the one at end 1. Ranks: the ends of the
 * message, which may have come from further, and go on. */
struct tu_crossing {
  uint32_t port, from, to;
  double bytes, begin, end;
};

/* A rank did something: a message, from when it could cross until it was there, or a reduction. */
struct tu_deed {
  uint32_t rank;
  uint32_t to;    /* of a message; TU_NONE: a reduction */
  uint32_t cause; /* the deed whose end it waited for last; TU_NONE: none */
  double bytes, begin, end;
};

struct tu_timeline {
  double end;
  struct tu_crossing *crossings; /* in order of their beginning at each port */
  uint32_t crossing_count, crossing_capacity;
  struct tu_deed *deeds;
  uint32_t deed_count;
  uint32_t
      last; /* the deed that ended last; TU_NONE: there are none. Its causes, back to the start, are the critical path */
};

#endif
