/* check.h: proves a plan, or says what is wrong with it. */
#ifndef TU_CHECK_H
#define TU_CHECK_H

#include "plan/plan.h"

struct tu_check_report {
  bool proved;
  bool no_memory;          /* it is not known: memory was refused */
  char text[400];          /* why not: rank, step, and what was expected */
  bool rank_order;         /* found: every reduction combines its operands in rank order */
  uint64_t messages;       /* of all ranks; joined ones count as one */
  uint32_t tmp_chunks_max; /* scratch of the rank that has most */
};

/* Proves, for a plan with all ranks' steps, that with `credits` credits a ring (1 is the strictest):
 *  - form: spans lie in their buffers, the two ends of every message have equal size classes;
 *  - order: two steps of a rank that touch one cell, one of them writing, are ordered by `after`;
 *  - matching: every message sent is received, in the order of its ring;
 *  - no deadlock: played with bounded rings, every step ends, however long messages are, and whichever joined ones
 *    cross as one;
 *  - data: every output chunk holds exactly what the collective promises, each contribution once; `first` and `final`
 *    marks stand where they must; inputs that the caller keeps are never written; barrier: every rank's end is
 *    after every rank's start;
 *  - rank order, if the plan claims it.
 * Returns report->proved; false, too, if memory was refused. */
bool tu_check(const struct tu_plan *plan, uint32_t credits, struct tu_check_report *report);

#endif
