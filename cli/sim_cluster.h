/* sim_cluster.h: `tutti sim --cluster`: what is asked of the links of a cluster. */
#ifndef CLI_SIM_CLUSTER_H
#define CLI_SIM_CLUSTER_H

#include "base/base.h"

struct tu_sim;

struct sim_cluster_question {
  const char *cluster, *reserve, *links, *place, *flag, *share, *trace, *page, *graph;
  const char *late, *down, *slow; /* lists */
  uint64_t slot_bytes;
  uint32_t credits;
  bool fluid, dimension_order;
};

/* The plan as answers name it. */
struct sim_plan_name {
  const char *collective, *algorithm;
  uint64_t bytes;
};

/* How many chips it has; says what is wrong with its name. Exit codes. */
int sim_cluster_chips(const struct sim_cluster_question *question, uint32_t *chips);
/* Plays the graph of all ranks, and prints what came of it. */
int sim_cluster_run(const struct sim_cluster_question *question, const struct sim_plan_name *plan,
                    const struct tu_sim *sim, uint32_t ranks, bool json);

/* Plays the rows of a file of measurements (link_rows.h) with a link model, and prints both beside each other, as a table for
 * documents. CLI_FAILED: rows are further off than they may be. */
int sim_rows(const char *path, const char *links, bool json);

#endif
