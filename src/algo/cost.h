/* cost.h: estimates of the work and memory that building a plan takes, without building it. */
#ifndef TU_COST_H
#define TU_COST_H

#include "algo/algo.h"

struct tu_cost {
  double work; /* amount of work to build the plan, in the unit of tu_plan.work */
  /* number of entries of the plan: steps with their peers, operands and predecessors, and chunks of scratch */
  double entries;
  double steps;
  double chunks; /* exact number of chunks of IN and OUT of all ranks */
};

/* Costs of the sample plans that were built so far. Estimates may share a memo if their tu_build arguments differ only
 * in the algorithm and the number of ranks. Zero-initialise before first use. */
struct tu_cost_memo {
  uint32_t count;
  struct {
    const struct tu_algorithm *algorithm;
    uint32_t ranks, chunks;
    bool all; /* true: the sample plan has the steps of all ranks; false: of one rank */
    struct tu_cost cost;
  } samples[128];
};

/* Estimates the cost of the plan that tu_plan_build would make. Builds the same algorithm for few ranks, for twice as
 * many, and so on, as long as this takes only some milliseconds. From there on, the cost is extrapolated: it is assumed
 * to be a power of N, and the last doubling gives the exponent. For composites with groups, the ranks per group and the
 * number of groups are extrapolated separately.
 * `what` must be valid for tu_plan_build, apart from memory. If memo is NULL, no samples are kept. */
void tu_cost_estimate(const struct tu_build *what, struct tu_cost_memo *memo, struct tu_cost *cost);

#endif
