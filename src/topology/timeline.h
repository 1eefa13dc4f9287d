/* timeline.h: record of a plan's run on a cluster: when each link carried which message, and what each rank did. The
 * simulator writes the record, and draw/ displays it. Times are in seconds. */
#ifndef TU_TIMELINE_H
#define TU_TIMELINE_H

#include "topology/cluster.h"

/* One use of a link by a message. Port 2 l is link l in the direction from its end 0; port 2 l + 1 is the other
 * direction. from, to: sender and receiver of the message. They are not the ends of this link if the message's route
 * has several hops. */
struct tu_crossing {
  uint32_t port, from, to;
  double bytes, begin, end;
};

/* A deed is one action of a rank: a message or a reduction. A message lasts from the time at which it could be sent
 * until it has arrived. */
struct tu_deed {
  uint32_t rank;
  uint32_t to; /* receiving rank of a message; TU_NONE: the action is a reduction */
  /* index of the deed for which this one waited; of several, the one that ended last; TU_NONE: it waited for none */
  uint32_t cause;
  double bytes, begin, end;
};

struct tu_timeline {
  double end;
  struct tu_crossing *crossings; /* all uses of links by messages; those of each port are ordered by their begin */
  uint32_t crossing_count, crossing_capacity;
  struct tu_deed *deeds;
  uint32_t deed_count;
  /* index of the deed that ended last; TU_NONE: there are no deeds. This deed, its cause, the cause of that, and so on
   * are the critical path. */
  uint32_t last;
};

#endif
