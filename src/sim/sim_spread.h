/* sim_spread.h: two ways to change the graph of a plan. tu_sim_contract reduces the number of nodes, so that plans for
 * many ranks can be simulated. tu_sim_spread extends the graph of one rank to all ranks, so that ranks may differ. */
#ifndef TU_SIM_SPREAD_H
#define TU_SIM_SPREAD_H

#include "sim/sim.h"

enum tu_sim_merge {
  /* merges reductions only if every message starts and ends at the same time as before, on any network */
  TU_SIM_EXACT,
  TU_SIM_BATCHES /* also merges some reductions whose merging can change the time; see tu_sim_contract */
};

/* Returns a smaller graph of the same plan.
 * - Receives and copies take no time, so they are removed. A node that waited for a removed node waits instead for the
 *   nodes for which the removed node waited. A node is not removed if that would add edges.
 * - Consecutive reductions of one rank that wait for the same nodes are merged into one reduction. Its weight (number
 *   of chunks to add) is the sum of their weights.
 *
 * Why the time stays the same:
 * - A node that takes no time ends when the last node for which it waits ends. Waiting directly for that last node
 *   takes equally long.
 * - Reductions that wait for the same nodes enter the queue of their rank's arithmetic unit at the same moment. The
 *   unit does them one after the other, without a pause.
 * - TU_SIM_EXACT merges two reductions only if the same nodes also wait for both. These nodes cannot start before both
 *   reductions have ended, so the merged reduction delays nothing.
 *
 * TU_SIM_BATCHES merges two reductions also if only reductions of the same rank wait for them. These waiting reductions
 * then become ready together, behind the merged one, so the unit has the same work. But other reductions that become
 * ready in the meantime now come before all of them, no longer between them. This can make the time shorter or longer:
 * by a fifth at most, over all algorithms and 2 to 20 ranks. In PAT at powers of two on a flat network, the time does
 * not change.
 *
 * A rank that starts late must have something to send or to add. If it only receives, its steps are removed. */
struct tu_sim *tu_sim_contract(const struct tu_sim *sim, enum tu_sim_merge merge);

/* Returns the graph of all `ranks` ranks. `alike` is a graph in which one rank stands for all (TU_ROTATES). */
struct tu_sim *tu_sim_spread(const struct tu_sim *alike, uint32_t ranks);

#endif
