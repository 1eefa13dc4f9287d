/* sums.h: what the calls of a job took, and how long its ranks waited for each other. Times are in seconds. */
#ifndef TU_TRACE_SUMS_H
#define TU_TRACE_SUMS_H

#include "trace/join.h"

/* Calls of one communicator with the same arguments and the same algorithm. */
struct tu_traced_kind {
  const struct tu_traced_program *program; /* of one of its calls */
  uint32_t calls;                          /* a collective counts once */
  uint32_t open;                           /* those that have not ended on all ranks whose trace there is */
  /* Of calls that have ended: from the time at which the last rank had begun the call until the last one had ended it. */
  double median_s, longest_s;
  double late_s;         /* sum of the times from the first begin to the last */
  uint32_t latest;       /* rank of the job that began last most often; TU_NONE: a message between two ranks */
  uint32_t latest_calls; /* how often */
  double waited_s;       /* by all ranks */
  uint32_t awaited;      /* rank of the job that was waited for longest; TU_NONE: none */
  double awaited_s;
};

/* Of a rank of the job. */
struct tu_traced_waits {
  double in_calls_s; /* time in calls; several at once count once */
  double waited_s;   /* it has waited for others */
  double awaited_s;  /* others have waited for it */
  double late_s;     /* part of that: before it had begun the call */
};

struct tu_traced_sums {
  struct tu_traced_kind *kinds; /* in the order of their first calls */
  uint32_t kind_count;
  struct tu_traced_waits *waits; /* [ranks of the job] */
};

void tu_trace_sum(const struct tu_trace *trace, struct tu_traced_sums *sums);
void tu_traced_sums_fini(struct tu_traced_sums *sums);

#endif
