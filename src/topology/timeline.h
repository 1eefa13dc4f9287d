/* timeline.h: record of a plan's run on a cluster: when each link carried which message, and what each rank did. The
 * simulator writes the record, or it comes from the traces of a real job (trace/). draw/ displays it. Times are in
 * seconds. */
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

/* Simulations have messages and reductions only. */
enum tu_deed_kind {
  TU_DEED_MESSAGE, /* from the time at which it could be sent until it has arrived */
  TU_DEED_REDUCTION,
  TU_DEED_COPY,    /* within the rank's memory */
  TU_DEED_SEND,    /* the rank writes a message */
  TU_DEED_TAKE,    /* the rank reads a message */
  TU_DEED_ROOM,    /* the rank waits until `to` has taken earlier messages */
  TU_DEED_OUTSIDE, /* the rank is in no call */
  TU_DEED_PAUSE    /* the rank is in a call, and neither works nor waits: its program, or another one, has its core */
};

/* A deed is one action of a rank. */
struct tu_deed {
  uint32_t rank;
  uint32_t to; /* the other rank of a message or of room; otherwise TU_NONE */
  enum tu_deed_kind kind;
  /* index of the deed for which this one waited; of several, the one that ended last; TU_NONE: it waited for none */
  uint32_t cause;
  double bytes, begin, end;
};

/* A call of a rank, or a wait for another rank in a call. */
struct tu_timed_call {
  uint32_t rank;
  uint32_t awaited; /* the rank that it waits for; TU_NONE: a call */
  const char *name; /* of the call */
  double begin, end;
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
  /* Calls and waits of a real job, ordered by rank, then by begin; NULL: a simulation. Its critical path consists of deeds of
   * its own, and lists every moment. */
  struct tu_timed_call *calls;
  uint32_t call_count, call_capacity;
};

#endif
