/* sim_cluster.h: times a plan on the links of a cluster, and says what each of them carried.
 *
 * A message goes over the links of a route, hop by hop, cut into what fits a slot. Every ring (sender, receiver, lane) has a
 * channel of its own on each link of its route, with slots of its own, so that no ring waits for another one's slots: it
 * cannot deadlock if the plan cannot. What that takes has to fit the links' processors. At its ends, and between hops, a
 * packet crosses the chip's own network. A reduction of k operands takes its rank's arithmetic for (k - 1) * bytes at the
 * model's reduce_bandwidth, one reduction after the other.
 *
 * Or as flows: messages that cross at once share each link's bandwidth fairly (max-min), and slots, packets and processors do
 * not count: latency of all links, then bytes at the flow's share. By latency: of a full link a flow gets the less the longer
 * its own latency is, as TCP's do (CM02, the model of SimGrid); links with credits are fair. */
#ifndef TU_SIM_CLUSTER_H
#define TU_SIM_CLUSTER_H

#include "base/text.h"
#include "sim/links.h"
#include "sim/sim.h"
#include "topology/route.h"
#include "topology/timeline.h"

struct tu_sim_where {
  const struct tu_cluster *cluster;
  struct tu_router *router;
  const struct tu_link_model *model;
  const uint32_t *chip;              /* [ranks]: where each is; NULL: rank i on chip i */
  bool fluid;                        /* as flows */
  bool by_latency;                   /* flows: their shares are as 1 / latency, not equal */
  bool flags;                        /* cross by themselves, behind the payload */
  double slot_bytes;                 /* 0: the model's, or what fits if that is less */
  uint32_t credits;                  /* slots of a channel; 0: the model's */
  const struct tu_links_down *downs; /* [down_count], by link, then time */
  uint32_t down_count;
  const double *slowness; /* [links], or NULL: by how much each is slower */
  const double *late;     /* [ranks], or NULL: when each starts */
  bool traced;
};

struct tu_sim_cluster_report {
  struct tu_sim_report plan;
  double
      reduced_bytes; /* of all ranks; k operands of n bytes are (k - 1) n. Free where the model has no reduce_bandwidth */
  double slot_bytes; /* 0: messages are not cut */
  uint32_t credits, channels_most;
  uint32_t port_count;
  struct tu_links_load *loads; /* [port_count]: 2 l leaves at end 0 of link l, 2 l + 1 at end 1 */
  uint32_t *retrained;         /* [links]: times that it went down before the end */
  struct tu_timeline timeline; /* if traced */
};
void tu_sim_cluster_report_fini(struct tu_sim_cluster_report *report);

/* Of a graph that has all ranks; `bytes` as in tu_sim_run. ARGUMENT: fewer chips than ranks, no way between two, or what does
 * not fit, and where. */
tutti_err tu_sim_run_on(const struct tu_sim *sim, double bytes, const struct tu_sim_where *where,
                        struct tu_sim_cluster_report *report, struct tu_error *error);

/* The graph and the links that it crosses, as text for another simulator (tutti-graph(5)). Slots, downs and flags are not in it.
 * Errors as above; the text is then empty. */
tutti_err tu_sim_graph_text(const struct tu_sim *sim, double bytes, const struct tu_sim_where *where,
                            struct tu_text *text, struct tu_error *error);

#endif
