/* sim_spread.h: the same course of events with fewer nodes, and of one rank's graph that of all: so that many ranks fit a network
 * on which they are not alike. */
#ifndef TU_SIM_SPREAD_H
#define TU_SIM_SPREAD_H

#include "sim/sim.h"

enum tu_sim_merge {
  TU_SIM_EXACT,  /* every message comes and goes when it did, on any network */
  TU_SIM_BATCHES /* reductions that only reductions wait for may be put together, too */
};

/* Without the steps that take no time: who waited for a receive or a copy waits for what that waited for. (One of which
 * edges would become more stays.) And reductions of a rank that begin for the same reasons are one, of their
 * weights together.
 *
 * Why the time stays. A step that takes no time ends at the moment at which the last of those that it waits for does; so do
 * those that stand for it. Reductions that wait for the same come into their unit's queue at one moment; if no other one of the
 * rank has its number between theirs, they stand there one behind the other, and the unit does them without a pause. Exact:
 * and the same wait for all of them, so that nobody sees anything before the last has ended. Batches: those that wait are
 * reductions of the rank, not the same for all. They come into the queue behind all of these, so the unit has just as much to do;
 * but what else becomes ready while it does these stands before all of those that wait, and no longer between them. Where
 * nothing does, as in PAT at powers of two on a flat network, the time is the same; elsewhere it may be shorter or longer, by a
 * fifth at most over all algorithms and 2 to 20 ranks.
 *
 * Ranks that start late must have something to send or to add: a receive that is the only thing that they do is gone. */
struct tu_sim *tu_sim_contract(const struct tu_sim *sim, enum tu_sim_merge merge);

/* Of a graph in which one rank stands for all (TU_ROTATES), that of all `ranks` of them. */
struct tu_sim *tu_sim_spread(const struct tu_sim *alike, uint32_t ranks);

#endif
