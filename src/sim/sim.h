/* sim.h: times a plan on a network that nobody needs to own: flat, full duplex, one port a rank.
 *
 * A message takes alpha + beta * bytes, and holds the sender's out-port and the receiver's in-port all that time. Both
 * ports work side by side, each carries one message at a time. A reduction of k operands takes gamma * (k - 1) * bytes of
 * the rank's arithmetic unit, one reduction after the other, and holds no port. Copies cost nothing.
 *
 * A step starts when its `after` are done. A multicast is a message for each receiver, one after the other. Joined sends
 * are one message that starts when all of them may; their receives start when all of it is there. A send is done when
 * its message has left, which is when it arrives. Rings keep their order and never fill. A rank's messages leave in the order in
 * which they became ready, and wait for the one in front; an in-port takes them in the order in which they came to the
 * front. What is ready at the same moment goes in the order of steps, or of ranks. So a plan has one time, always. */
#ifndef TU_SIM_H
#define TU_SIM_H

#include "plan/builder.h"

struct tu_sim_cost {
  double alpha; /* seconds a message */
  double beta;  /* seconds a byte sent */
  double gamma; /* seconds a byte reduced */
};

struct tu_sim_report {
  double time_s;
  uint64_t messages;     /* of all ranks; joined ones count as one */
  double bytes_sent_max; /* by the rank that sends most */
  /* The chain of messages and reductions, each of which held up the next, that the end waited for:
   * time_s = critical_messages * alpha + critical_bytes * beta + critical_reduced_bytes * gamma. Of several such chains,
   * one with most messages. */
  uint64_t critical_messages;
  double critical_bytes, critical_reduced_bytes;
};

/* A plan made ready to be timed, as often as one likes; the plan itself is no longer needed. */
struct tu_sim;

/* Of a plan that tu_check proves. If it has the steps of one rank only, these stand for all ranks' (TU_ROTATES). */
struct tu_sim *tu_sim_create(const struct tu_plan *plan);
/* Of what is to be built, whose steps `what` chooses as in tu_plan_build; 0 will do if the algorithm has TU_ROTATES. */
struct tu_sim *tu_sim_build(const struct tu_build *what);
void tu_sim_destroy(struct tu_sim *sim);
/* Do all messages go to the next rank or the one before, modulo all? */
bool tu_sim_goes_round(const struct tu_sim *sim);

/* `bytes` is the size of the collective: of a buffer, the longer one where one is a block and one a block for every rank.
 * Blocks and chunks are exact parts of it, fractions of bytes included. */
void tu_sim_run(const struct tu_sim *sim, double bytes, const struct tu_sim_cost *cost, struct tu_sim_report *report);

#endif
