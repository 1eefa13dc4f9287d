/* check.h: proves that a plan is correct, or reports what is wrong with it. */
#ifndef TU_CHECK_H
#define TU_CHECK_H

#include "plan/plan.h"

struct tu_check_report {
  bool proved;
  bool no_memory;            /* out of memory: the plan is neither proved nor refused */
  char text[400];            /* why the plan is refused: rank and step, and what is wrong or was expected */
  bool rank_order;           /* result: every reduction of the plan combines its operands in rank order */
  enum tu_order_class order; /* result: the order in which outputs are reduced; TU_CANONICAL if nothing is reduced */
  uint64_t messages;         /* number of messages that all ranks send; joined messages count as one */
  uint32_t tmp_chunks_max;   /* largest number of scratch chunks of a rank */
};

/* Checks that a plan is correct. The plan has the steps of all ranks. Its channels have `credits` credits (1 is the
 * strictest check).
 *  - form: spans lie in their buffers; the two ends of every message have equal size classes;
 *  - order: two steps of a rank that touch one cell are ordered by `after` if one of them writes;
 *  - matching: every message sent is received, in the order of its channel;
 *  - no deadlock: with bounded channels, every step ends, for messages of any length, and whether joined messages cross
 *    as one message or one after the other;
 *  - data: every output chunk holds exactly what the collective must deliver, with each contribution once; the marks
 *    `first` and `final` (plan.h) are where they must be; inputs that the caller keeps are never written;
 *  - barrier: the end of every rank is after the start of every rank;
 *  - rank order and the order of reduction, if the plan claims them.
 * Returns report->proved, which is also false if memory could not be allocated. */
bool tu_check(const struct tu_plan *plan, uint32_t credits, struct tu_check_report *report);

#endif
