/* schedule.h: when does each of several transfers go, if each holds all links of its way, both their ends, for one timestep?
 *
 * Transfers are said with their ways; over which of a pair's links a hop goes is chosen here. Each link end then has a list of
 * commands, in order of time.
 *
 * Why that cannot deadlock, whatever the chips' clocks do: all lists are parts of one order of all transfers. Of those that
 * are not over, the first in that order is at the head of all of its lists, so it can go. */
#ifndef TU_SCHEDULE_H
#define TU_SCHEDULE_H

#include "topology/cluster.h"

struct tu_transfer {
  uint32_t hops;
  const uint32_t *nodes; /* [hops + 1] */
};

struct tu_schedule {
  uint32_t count;
  uint32_t steps;
  uint32_t bound;       /* no schedule has fewer steps; equal to steps: this is the best */
  uint32_t *step;       /* [count]: when each goes */
  uint32_t *order;      /* [count]: transfers, in order of time */
  uint32_t *link_first; /* [count + 1] */
  uint32_t *links;      /* of each transfer's hops, from link_first on */
};

#define TU_SCHEDULE_MAX 4096u

/* Transfers are taken one after the other, in the order in which they stand (or `order`, if not NULL): each goes as soon as
 * all of its links are done with what came before. ARGUMENT: a way that cannot be gone, too many. */
tutti_err tu_schedule_in_order(const struct tu_cluster *cluster, const struct tu_transfer transfers[], uint32_t count,
                               const uint32_t *order, struct tu_schedule *schedule, struct tu_error *error);
/* In the fewest steps: exact for TU_SCHEDULE_EXACT transfers, and for more if the search ends in time (two seconds). */
#define TU_SCHEDULE_EXACT 10u
tutti_err tu_schedule_find(const struct tu_cluster *cluster, const struct tu_transfer transfers[], uint32_t count,
                           struct tu_schedule *schedule, struct tu_error *error);
void tu_schedule_fini(struct tu_schedule *schedule);

#endif
