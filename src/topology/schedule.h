/* schedule.h: computes a timestep for each of several transfers. In its timestep, a transfer occupies all links of its
 * route.
 *
 * The caller gives the route of each transfer as a list of nodes. The scheduler chooses the links between these nodes.
 * From the schedule, each end of a link gets a list of commands, ordered by timestep.
 *
 * The chips can carry out their lists without a common clock, and cannot deadlock, because all lists have the transfers
 * in the same order. Of all unfinished transfers, the first one in this order is at the head of every list that
 * contains it. So it can run. */
#ifndef TU_SCHEDULE_H
#define TU_SCHEDULE_H

#include "topology/cluster.h"

struct tu_transfer {
  uint32_t hops;
  const uint32_t *nodes; /* [hops + 1]: the nodes of the route */
};

struct tu_schedule {
  uint32_t count;
  uint32_t steps;
  /* lower bound of the number of steps of any schedule; if `bound` equals `steps`, the schedule is optimal */
  uint32_t bound;
  uint32_t *step;  /* [count]: the timestep of each transfer */
  uint32_t *order; /* [count]: the transfers, ordered by time */
  /* [count + 1]: the links of transfer t are links[link_first[t]] up to links[link_first[t + 1] - 1] */
  uint32_t *link_first;
  uint32_t *links; /* the links of all transfers, one for each hop */
};

#define TU_SCHEDULE_MAX 4096u

/* Schedules the transfers one after the other, in the order of the array, or, if `order` is not NULL, in that order.
 * Each transfer gets the first step in which links are free for all of its hops. Returns TUTTI_ERR_ARGUMENT if a route
 * is impossible, or if count > TU_SCHEDULE_MAX. */
tutti_err tu_schedule_in_order(const struct tu_cluster *cluster, const struct tu_transfer transfers[], uint32_t count,
                               const uint32_t *order, struct tu_schedule *schedule, struct tu_error *error);
/* Schedules the transfers in the minimum number of steps. The result is exact for up to TU_SCHEDULE_EXACT transfers;
 * for more transfers it is exact if the search ends within two seconds. */
#define TU_SCHEDULE_EXACT 10u
tutti_err tu_schedule_find(const struct tu_cluster *cluster, const struct tu_transfer transfers[], uint32_t count,
                           struct tu_schedule *schedule, struct tu_error *error);
void tu_schedule_fini(struct tu_schedule *schedule);

#endif
