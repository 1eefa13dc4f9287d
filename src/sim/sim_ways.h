/* sim_ways.h: which links the messages of a graph cross. Private to sim/. */
#ifndef TU_SIM_WAYS_H
#define TU_SIM_WAYS_H

#include "sim/sim_cluster.h"
#include "sim/sim_parts.h"

/* A ring on the cluster: the messages from one rank to another on one lane go over these links. */
struct tu_sim_way {
  uint32_t from, to;
  uint32_t first_message;
  uint32_t first_hop, hops; /* 0: both are on one chip */
};

struct tu_sim_ways {
  uint32_t way_count, way_capacity;
  struct tu_sim_way *ways;
  uint32_t hop_count, hop_capacity;
  uint32_t *ports;  /* [hop_count]: over which link, in which direction */
  uint32_t *way_of; /* [nodes]: of messages */
};

/* Of parallel links a ring takes one on which the fewest go the same way, the lane's turn first. */
tutti_err tu_sim_ways_create(const struct tu_sim *sim, const struct tu_sim_where *where, struct tu_sim_ways **ways,
                             struct tu_error *error);
void tu_sim_ways_destroy(struct tu_sim_ways *ways);

/* The two networks, each played to the end. */
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
