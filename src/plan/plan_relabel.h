/* plan_relabel.h: a plan for ranks that stand in another order than that of their numbers: around a ring of chips, for example,
 * whose neighbours are really linked.
 *
 * What rank i of the plan does is done by rank order[i]. Blocks keep their meaning: block b of a buffer belongs to rank b before
 * and after, so inputs and outputs stay in rank order. The order of operands in reductions changes; the new plan does not
 * claim rank order. */
#ifndef TU_PLAN_RELABEL_H
#define TU_PLAN_RELABEL_H

#include "plan/plan.h"

/* Not scan, exscan and send, which mean the ranks' order itself. */
bool tu_plan_may_relabel(tutti_collective collective);

/* order: each rank once. The plan has the steps of all ranks. The caller destroys the new one. ARGUMENT: what may
 * not be relabelled, but in its own order; and a few plans that would have to be taken apart and cannot be. */
tutti_err tu_plan_relabel(const struct tu_plan *plan, const uint32_t order[], struct tu_plan **relabelled,
                          struct tu_error *error);

#endif
