/* sim.h: computes the time of a plan on an ideal network: flat, full duplex, one port per rank.
 *
 * Costs:
 * - A message takes alpha + beta * bytes. During this time it occupies the out-port of the sender and the in-port of
 *   the receiver. Each port carries one message at a time. The two ports of a rank work in parallel.
 * - A reduction of k operands occupies the rank's arithmetic unit for gamma * (k - 1) * bytes. The unit does one
 *   reduction after the other. A reduction occupies no port.
 * - A copy costs nothing.
 *
 * Order:
 * - A step starts when the steps in its `after` list are done. A send is done when its message has arrived.
 * - A multicast is one message per receiver, one after the other.
 * - Joined sends (tu_step.joined) are parts of one message. The message starts when all of these sends may start. Their
 *   receives start when the whole message has arrived.
 * - A FIFO (sender, receiver, lane) keeps the order of its messages and never fills.
 * - The messages of a rank leave in the order in which they became ready. If the first of them waits for its receiver's
 *   in-port, all messages behind it wait, too.
 * - An in-port takes the messages that wait for it in the order in which they began to wait.
 * - Messages that become ready at the same moment are ordered by the steps of their rank. Ranks that act at the same
 *   moment are ordered by rank. So all runs of a plan give the same time. */
#ifndef TU_SIM_H
#define TU_SIM_H

#include "plan/builder.h"

struct tu_sim_cost {
  double alpha; /* seconds per message, regardless of its size */
  double beta;  /* seconds per byte sent */
  double gamma; /* seconds per byte reduced */
};

struct tu_sim_report {
  double time_s;
  uint64_t messages;     /* number of messages of all ranks; joined sends count as one message */
  double bytes_sent_max; /* bytes sent by the rank that sends the most bytes */
  /* The critical path: a chain of messages and reductions from the start to the end of the plan. Each one delayed the
   * next one, so the chain explains the whole time:
   * time_s = critical_messages * alpha + critical_bytes * beta + critical_reduced_bytes * gamma
   * If there are several such chains, one with the most messages is reported. */
  uint64_t critical_messages;
  double critical_bytes, critical_reduced_bytes;
};

/* The simulation of a plan. It can be run any number of times, and does not need the plan any more. */
struct tu_sim;

/* Creates the simulation of a plan that tu_check has accepted. A plan may contain the steps of one rank only
 * (TU_ROTATES). Then all other ranks do the same steps, with peers counted from their own rank. */
struct tu_sim *tu_sim_create(const struct tu_plan *plan);
/* Builds a plan as tu_plan_build does, and creates its simulation. For an algorithm with TU_ROTATES, what->rank may be
 * 0: the steps of rank 0 then stand for those of all ranks. */
struct tu_sim *tu_sim_build(const struct tu_build *what);
void tu_sim_destroy(struct tu_sim *sim);
/* Returns true if every message goes to the next or to the previous rank, modulo the number of ranks. */
bool tu_sim_goes_round(const struct tu_sim *sim);

/* Has `see` called during runs, now and then, with the number of nodes of the graph (messages and steps) that have ended,
 * and the number of all. */
void tu_sim_watch(struct tu_sim *sim, void (*see)(uint64_t ended, uint64_t nodes));

/* Runs the simulation and writes the report. `bytes` is the size of the collective: the size of the longer of a rank's
 * two buffers. (In an allgather, for example, one buffer has one block and the other has one block per rank.) Blocks
 * and chunks are exact fractions of `bytes`, so their sizes need not be whole numbers of bytes. */
void tu_sim_run(const struct tu_sim *sim, double bytes, const struct tu_sim_cost *cost, struct tu_sim_report *report);

#endif
