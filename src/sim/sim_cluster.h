/* sim_cluster.h: computes the time of a plan on the links of a cluster, and the load of each link. There are two kinds
 * of simulation.
 *
 * Packets (the default): A message crosses the links of its route one after the other, divided into parts that each
 * fill a slot. Every FIFO (sender, receiver, lane) has a channel of its own on each link of its route, and each channel
 * has its own slots. So no FIFO waits for the slots of another FIFO, and the simulation can deadlock only if the plan
 * can. The slots must fit the memory of the links' processors. At the sender, between two links, and at the receiver, a
 * packet crosses the network on the chip.
 *
 * Flows (`fluid`): Messages that cross a link at the same time share the bandwidth of the link fairly (max-min). Slots,
 * packets and processors are ignored. A message first takes the latency of all its links. Then its bytes take the time
 * that its share of the bandwidth allows. With `by_latency`, flows with a longer latency get a smaller share of a full
 * link, as with TCP (CM02, the model of SimGrid). Without it, all flows get equal shares, as on links with credits.
 *
 * In both kinds, a reduction of k operands takes (k - 1) * bytes / reduce_bandwidth (a value of the link model) of its
 * rank's arithmetic, one reduction after the other. */
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
  const uint32_t *chip; /* [rank]: chip of the rank; NULL: rank i runs on chip i */
  /* true: messages are simulated as flows that share links, without slots and packets */
  bool fluid;
  /* true: a flow's share of a full link is proportional to 1 / latency of its route; false: all shares are equal */
  bool by_latency;
  bool flags; /* true: the flag that announces a message is a separate message, sent after the payload */
  /* slot size in bytes; 0: the model's slot size, or, if slots of that size do not fit the memory, the largest size
   * that fits */
  double slot_bytes;
  uint32_t credits;                  /* number of slots per channel; 0: the model's number */
  const struct tu_links_down *downs; /* periods in which links are down: [down_count], sorted by link, then time */
  uint32_t down_count;
  const double *slowness; /* [link]: factor by which the link is slower than in the model; NULL: all 1 */
  const double *late;     /* [rank]: time in seconds at which the rank starts; NULL: all ranks start at 0 */
  bool traced;
};

struct tu_sim_cluster_report {
  struct tu_sim_report plan;
  /* bytes reduced by all ranks. A reduction of k operands of n bytes counts as (k - 1) n bytes. Reductions count even
   * if they take no time, because the model has no reduce_bandwidth. */
  double reduced_bytes;
  double slot_bytes; /* slot size used, in bytes; 0: messages were not divided into slots */
  uint32_t credits, channels_most;
  uint32_t port_count;
  /* [port]: load of the wire in one direction of a link. Port 2 l sends from end 0 of link l, port 2 l + 1 from end
   * 1. */
  struct tu_links_load *loads;
  uint32_t *retrained;         /* [link]: number of times that the link went down before the end of the run */
  struct tu_timeline timeline; /* events of the run; recorded only if `traced` was set */
};
void tu_sim_cluster_report_fini(struct tu_sim_cluster_report *report);

/* Simulates a plan on a cluster. `sim` must contain the steps of all ranks. `bytes` is the size of the collective, as
 * in tu_sim_run. Returns TUTTI_ERR_ARGUMENT in these cases: there are fewer chips than ranks; two ranks exchange
 * messages but no route joins their chips; the limits of a link are exceeded (the error names the link). */
tutti_err tu_sim_run_on(const struct tu_sim *sim, double bytes, const struct tu_sim_where *where,
                        struct tu_sim_cluster_report *report, struct tu_error *error);

/* Writes the graph of a plan, and the links that its messages cross, as text for another simulator (tutti-graph(5)).
 * The text does not contain slots, flags, and periods in which links are down. If the routes cannot be found, returns
 * the same error as tu_sim_run_on and writes no text. */
tutti_err tu_sim_graph_text(const struct tu_sim *sim, double bytes, const struct tu_sim_where *where,
                            struct tu_text *text, struct tu_error *error);

#endif
