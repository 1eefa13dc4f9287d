/* cost.h: how much work and memory a plan takes to make, known at once, before it is made. */
#ifndef TU_COST_H
#define TU_COST_H

#include "algo/algo.h"

struct tu_cost {
  double work;    /* tu_plan.work */
  double entries; /* of the plan: steps, and their peers, operands and afters; chunks of scratch */
  double steps;
  double chunks; /* of IN and OUT, of all ranks: exact */
};

/* What was built so far, for questions that differ in algorithm and numbers of ranks only. Zero-initialise. */
struct tu_cost_memo {
  uint32_t count;
  struct {
    const struct tu_algorithm *algorithm;
    uint32_t ranks, chunks;
    bool all; /* all ranks' steps */
    struct tu_cost cost;
  } samples[128];
};

/* Of the plan that tu_plan_build would make. The same algorithm is built for few ranks, for twice as many, and so on, while
 * that costs some milliseconds; what is missing follows the power of N (for composites with groups: of the ranks of a group, and
 * of the number of groups) that the last doubling shows. `what` must be such that tu_plan_build can make it, given room.
 * memo NULL: nothing is kept. */
void tu_cost_estimate(const struct tu_build *what, struct tu_cost_memo *memo, struct tu_cost *cost);

#endif
