/* sim_ways.h: the routes of messages: which links the messages of a graph cross. Private to sim/. */
#ifndef TU_SIM_WAYS_H
#define TU_SIM_WAYS_H

#include "sim/sim_cluster.h"
#include "sim/sim_internal.h"

/* The way (route) of a FIFO: all messages from one rank to another on one lane cross these links. */
struct tu_sim_way {
  uint32_t from, to;
  uint32_t first_message;
  /* first_hop: index in ports[] of the route's first link; hops: number of links of the route; 0 if both ranks are on
   * one chip */
  uint32_t first_hop, hops;
};

struct tu_sim_ways {
  uint32_t way_count, way_capacity;
  struct tu_sim_way *ways;
  uint32_t hop_count, hop_capacity;
  uint32_t *ports;  /* [hop]: port number of the link that the hop crosses: 2 * link + direction */
  uint32_t *way_of; /* [node]: index in ways[] of the message's route; TU_NONE: the node is not a message */
};

/* Finds the route of each FIFO (all messages from one rank to another on one lane). If two nodes of the route are
 * joined by several links, chooses the link that the fewest FIFOs use so far in this direction. If several links are
 * equally used, the lane's number decides, so that different lanes use different links. */
tutti_err tu_sim_ways_create(const struct tu_sim *sim, const struct tu_sim_where *where, struct tu_sim_ways **ways,
                             struct tu_error *error);
void tu_sim_ways_destroy(struct tu_sim_ways *ways);

/* Both functions run the simulation (`course`) to its end. tu_sim_run_links simulates packets on links;
 * tu_sim_run_fluid simulates messages as flows that share the bandwidth of links. */
tutti_err tu_sim_run_links(struct tu_sim_course *course, const struct tu_sim_where *where, struct tu_sim_ways *ways,
                           struct tu_sim_cluster_report *report, struct tu_error *error);
tutti_err tu_sim_run_fluid(struct tu_sim_course *course, const struct tu_sim_where *where, struct tu_sim_ways *ways,
                           struct tu_sim_cluster_report *report, struct tu_error *error);

static inline void tu_sim_note(struct tu_sim_cluster_report *report, struct tu_crossing crossing) {
  struct tu_timeline *t = &report->timeline;
  t->crossings = tu_grow(t->crossings, t->crossing_count, &t->crossing_capacity, sizeof *t->crossings);
  t->crossings[t->crossing_count++] = crossing;
}

#endif
