/* plan_relabel.h: renumbers the ranks of a plan, for example so that neighbours in a ring algorithm are chips with a
 * physical link between them.
 *
 * Rank order[i] takes over the steps of rank i. Block b of a buffer belongs to rank b in both plans, so inputs and
 * outputs stay in rank order. The order of operands in reductions changes, so the new plan does not claim rank
 * order. */
#ifndef TU_PLAN_RELABEL_H
#define TU_PLAN_RELABEL_H

#include "plan/plan.h"

/* Returns true if plans of the collective can be relabelled. Plans of scan, exscan and send cannot, because these
 * depend on the order of ranks. */
bool tu_plan_may_relabel(tutti_collective collective);

/* Makes a relabelled plan, which the caller destroys. `order` contains each rank once. `plan` has the steps of all
 * ranks.
 * Returns TUTTI_ERR_ARGUMENT for a collective that cannot be relabelled, except in the order 0, 1, 2, ..., which
 * changes nothing. Returns it also for the few plans with a step that would have to be cut into pieces, but cannot be
 * cut because it receives two messages from one rank. */
tutti_err tu_plan_relabel(const struct tu_plan *plan, const uint32_t order[], struct tu_plan **relabelled,
                          struct tu_error *error);

#endif
