/* costs.h: what messages and reductions of a job took, as costs of tutti sim. */
#ifndef TU_TRACE_COSTS_H
#define TU_TRACE_COSTS_H

#include "trace/join.h"

/* Medians; 0: the trace has too few to tell. */
enum { TU_TRACE_SHORT_BYTES = 4096 };
struct tu_traced_costs {
  double alpha_s; /* of a message of at most TU_TRACE_SHORT_BYTES */
  double beta_s;  /* per byte of a longer one, beyond alpha */
  double gamma_s; /* per byte of a reduction, for each operand after the first */
};

/* Only messages count that were taken as soon as they were there. If the job has several hosts, only those between them. */
void tu_trace_costs(const struct tu_trace *trace, struct tu_traced_costs *costs);

#endif
