/* sim_cluster.h: `tutti sim --cluster`: options and functions of the simulation on a cluster. */
#ifndef CLI_SIM_CLUSTER_H
#define CLI_SIM_CLUSTER_H

#include "base/base.h"

struct tu_sim;

struct sim_cluster_question {
  const char *cluster, *reserve, *links, *place, *flag, *share, *trace, *page, *graph;
  const char *late, *down, *slow; /* lists of faults, as given on the command line; NULL: none */
  uint64_t slot_bytes;
  uint32_t credits;
  bool fluid, dimension_order;
};

/* Name and size of the plan, for the output. */
struct sim_plan_name {
  const char *collective, *algorithm;
  uint64_t bytes;
};

/* Sets *chips to the number of chips of the cluster. On failure prints the error. Returns an exit status. */
int sim_cluster_chips(const struct sim_cluster_question *question, uint32_t *chips);
/* Simulates the plan's graph, which must have the steps of all ranks, and prints the results. Returns an exit
 * status. */
int sim_cluster_run(const struct sim_cluster_question *question, const struct sim_plan_name *plan,
                    const struct tu_sim *sim, uint32_t ranks, bool json);

/* Simulates the rows of a file of measurements (link_rows.h) with a link model, and prints a table of measured and
 * simulated values. Returns CLI_FAILED if a row is outside its tolerance. */
int sim_rows(const char *path, const char *links, bool json);

#endif
