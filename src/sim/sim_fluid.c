#include "sim/sim_ways.h"
tutti_err tu_sim_run_fluid(struct tu_sim_course *course, const struct tu_sim_where *where, struct tu_sim_ways *ways,
                           struct tu_sim_cluster_report *report, struct tu_error *error) {
  (void)course, (void)where, (void)ways, (void)report;
  return tu_fail(error, TUTTI_ERR_UNSUPPORTED, "todo");
}
