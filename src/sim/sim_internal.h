/* sim_internal.h: declarations that the parts of the simulator share. Private to sim/.
 *
 * - sim_graph.c makes the graph of a plan. Its nodes are messages and steps. An edge says that one node waits for
 *   another.
 * - sim.c is the clock. It makes nodes ready. A message that is ready goes to the network, which decides when the
 *   message starts.
 * - There are three networks: the flat one (sim_ports.c), the links of a cluster (sim_links.c), and flows that share
 *   links (sim_fluid.c).
 *
 * A FIFO is the sequence of messages from one rank to another on one lane. Names in the code (ring_next, for example)
 * call a FIFO a ring. */
#ifndef TU_SIM_INTERNAL_H
#define TU_SIM_INTERNAL_H

#include "sim/events.h"
#include "sim/sim.h"

/* ---- the graph (sim_graph.c) ---- */

/* A node of the graph: a message, or a step that receives, copies or reduces. Within a rank, node numbers follow the
 * order of the steps. */
struct tu_sim_node {
  uint32_t rank; /* rank whose out-port (for a message) or arithmetic unit (for a reduction) the node needs */
  uint32_t to;   /* for a message: the rank whose in-port it needs; for other nodes: TU_NONE */
  /* for a message: the next message of its FIFO, which becomes ready at the same time as this one or later; TU_NONE:
   * there is none */
  uint32_t ring_next;
  /* number of nodes for which this node waits: one for each edge that ends here. A message that is not the first of its
   * FIFO also waits until the previous message is ready, which counts as one more. */
  uint32_t waits;
  uint32_t edge; /* first edge that leads from this node to a node that waits for its end; TU_NONE: no node waits */
  /* for a message: distance from sender to receiver in ranks, modulo the number of ranks; its lane */
  uint32_t distance : 24, lane : 8;
  /* number of chunks that the message carries, or that the reduction adds; 0 for a step that takes no time */
  double weight;
};

struct tu_sim_edge {
  /* node: the node that waits. crosses: 0 if the node that waits and the node for which it waits belong to the same
   * rank; 1 if the node that waits belongs to the receiver of a message. */
  uint32_t node : 31, crosses : 1;
  uint32_t next; /* next edge that starts at the same node; TU_NONE: there is none */
};

struct tu_sim {
  uint32_t ranks;      /* number of ranks that are simulated: all ranks, or a single one that stands for all */
  uint32_t stands_for; /* number of ranks for which each simulated rank stands */
  uint32_t parts;      /* number of chunks into which the collective's size is divided; 0: chunks have no bytes */
  uint32_t node_count, edge_count, node_capacity, edge_capacity;
  struct tu_sim_node *nodes;
  struct tu_sim_edge *edges;
  uint64_t messages;
  double chunks_sent_max;
  void (*see)(uint64_t ended, uint64_t nodes); /* see tu_sim_watch; NULL: nothing */
};

/* ---- a run and its events (sim.c) ---- */

/* The chain of waits that delayed a node. It consists of nodes from the start of the run up to this node; each of them
 * had to wait for the one before. Only the sums over the chain are stored. Moments (times at which something happens)
 * are numbered in order of time. */
struct tu_sim_chain {
  uint32_t moment; /* moment at which the last message or reduction of the chain ended */
  uint32_t messages;
  double sent, added; /* number of chunks sent and number of chunks added (reduced) along the chain */
};

/* A node waits for two others, whose chains of waits are *a and *b. Replaces *a by the chain of waits that delayed the
 * node: the one that ended later. If both ended at the same moment, this is the longer one. */
static inline void tu_sim_chain_join(struct tu_sim_chain *a, const struct tu_sim_chain *b) {
  bool longer = b->moment > a->moment;
  if (b->moment == a->moment) {
    longer = b->messages > a->messages;
    if (b->messages == a->messages) longer = b->sent > a->sent || (b->sent == a->sent && b->added > a->added);
  }
  if (longer) *a = *b;
}

struct tu_sim_state {
  uint32_t waits;
  uint32_t next; /* next node in the queue of ready nodes */
  struct tu_sim_chain chain;
};

/* A queue of nodes in the order in which they became ready. Nodes that became ready at the same moment are ordered by
 * node number. Must be initialised by tu_sim_queue_init; zeros are not enough. */
struct tu_sim_queue {
  uint32_t head, tail;
  /* the last node of the queue that became ready before the current moment; nodes of the current moment are sorted in
   * behind it. TU_NONE: there is none */
  uint32_t settled;
};

/* The times at which a node became ready and ended, and the node whose end made it ready. */
struct tu_sim_times {
  double begin, end;
  uint32_t cause;
};

struct tu_sim_course {
  const struct tu_sim *sim;
  /* [node]: the number of conditions for which each node still waits, and the chain of waits that has delayed it so
   * far */
  struct tu_sim_state *states;
  double now;
  /* time at which a node last ended; acknowledgements may still be in transit at this time */
  double ended_at;
  /* chunk_bytes: bytes per chunk; chunk_gamma: seconds of arithmetic per chunk that a reduction adds */
  double chunk_bytes, chunk_gamma;
  double alpha, chunk_beta;   /* flat network only: alpha: seconds per message; chunk_beta: seconds per chunk sent */
  const double *late;         /* [rank]: time at which the rank starts; NULL: all ranks start at 0 */
  struct tu_sim_chain last;   /* chain of waits of the node that ended last */
  struct tu_sim_times *times; /* [node]: when each node became ready and ended; NULL: these times are not recorded */
  /* queue of future events, of these kinds: TU_SIM_ENDS: a node ends; TU_SIM_STARTS: a rank that starts late starts,
   * which concerns one of its nodes; further kinds: events of the network */
  struct tu_events events;
};

/* Kinds of events. Kinds from TU_SIM_KINDS on are defined by the network. */
enum { TU_SIM_ENDS, TU_SIM_STARTS, TU_SIM_KINDS };

/* Puts an event into the queue of future events: the node ends at `time`, which must not be in the past. */
static inline void tu_sim_end_at(struct tu_sim_course *course, double time, uint32_t node) {
  tu_events_put(&course->events, (struct tu_event){time, TU_SIM_ENDS, node});
}

void tu_sim_queue_init(struct tu_sim_queue *queue);
void tu_sim_queue_put(struct tu_sim_course *course, struct tu_sim_queue *queue, uint32_t node);
uint32_t tu_sim_queue_take(struct tu_sim_course *course, struct tu_sim_queue *queue);
/* Called at the end of a moment: nodes that are put into the queue later go behind all nodes that are in the queue
 * now. */
static inline void tu_sim_queue_settle(struct tu_sim_queue *queue) { queue->settled = queue->tail; }

/* The ranks whose ports or arithmetic units must be checked at the end of the current moment. */
struct tu_sim_marks {
  uint32_t *ranks; /* [count]: the ranks in the set */
  bool *marked;
  uint32_t count;
};
void tu_sim_marks_init(struct tu_sim_marks *marks, uint32_t ranks);
void tu_sim_marks_fini(struct tu_sim_marks *marks);
static inline void tu_sim_mark(struct tu_sim_marks *marks, uint32_t rank) {
  if (marks->marked[rank]) return;
  marks->marked[rank] = true;
  marks->ranks[marks->count++] = rank;
}
/* Sorts the ranks of the set, and clears their entries in `marked`. The caller sets count to 0 afterwards. */
void tu_sim_marks_list(struct tu_sim_marks *marks);

/* ---- the network: it decides when a message crosses ---- */

/* Functions of a network; the first member of every network's struct. Only the clock (sim.c) calls these functions. */
struct tu_sim_network {
  /* Called when the message becomes ready: it may cross as soon as the network permits. */
  void (*send)(struct tu_sim_network *network, uint32_t node);
  /* Called when the message ends, that is, when its event TU_SIM_ENDS comes. */
  void (*end)(struct tu_sim_network *network, uint32_t node);
  /* Called when all events of a moment have been handled. Starts the messages that can start now. A message that had to
   * wait until a port was free continues the chain of waits (tu_sim_chain) of the message that used the port. */
  void (*settle)(struct tu_sim_network *network);
  /* Called for an event of one of the network's own kinds (from TU_SIM_KINDS on). NULL: the network has none. */
  void (*event)(struct tu_sim_network *network, const struct tu_event *event);
};

/* Creates the flat network (sim_ports.c). */
struct tu_sim_network *tu_sim_ports_create(struct tu_sim_course *course);
void tu_sim_ports_destroy(struct tu_sim_network *network);

/* Runs the plan to its end on `network`, which the caller has created for `course`. The caller sets all fields of
 * *course except `states`. */
void tu_sim_play(struct tu_sim_course *course, struct tu_sim_network *network);
void tu_sim_report_on(const struct tu_sim_course *course, struct tu_sim_report *report);
void tu_sim_course_fini(struct tu_sim_course *course);

#endif
