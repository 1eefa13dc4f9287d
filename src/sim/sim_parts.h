/* sim_parts.h: what the parts of the simulator share. Private to sim/.
 *
 * sim_graph.c makes a graph of a plan: what waits for what. sim.c is the clock: it releases what waits, and asks the network
 * what starts: sim_ports.c, the flat one; sim_links.c, links of a cluster; sim_fluid.c, flows that share links. */
#ifndef TU_SIM_PARTS_H
#define TU_SIM_PARTS_H

#include "sim/events.h"
#include "sim/sim.h"

/* ---- the graph (sim_graph.c) ---- */

/* A message; or a step that receives, copies or reduces. Numbers follow the order of a rank's steps. */
struct tu_sim_node {
  uint32_t rank;      /* whose out-port or arithmetic unit it needs */
  uint32_t to;        /* a message: whose in-port it needs; else TU_NONE */
  uint32_t ring_next; /* the message that may become ready when this one has; or TU_NONE */
  uint32_t waits;     /* edges that point here, one more for a message with another in front of it in its ring */
  uint32_t edge;      /* the first of those who wait for its end; or TU_NONE */
  uint32_t distance : 24, lane : 8; /* a message: how many ranks further it goes, modulo all; on which lane */
  double weight;                    /* chunks that cross, or chunks that are added */
};

struct tu_sim_edge {
  uint32_t node : 31, crosses : 1; /* who waits; at the rank that receives the message, not at that which sends it */
  uint32_t next;                   /* of the same origin; or TU_NONE */
};

struct tu_sim {
  uint32_t ranks;      /* that are played: all, or one in place of all */
  uint32_t stands_for; /* of how many ranks each is the picture */
  uint32_t parts;      /* chunks in the collective's size; 0: they have no bytes */
  uint32_t node_count, edge_count, node_capacity, edge_capacity;
  struct tu_sim_node *nodes;
  struct tu_sim_edge *edges;
  uint64_t messages;
  double chunks_sent_max;
};

/* ---- a run, and the course of its events (sim.c) ---- */

/* What a node had to wait for, back to the start. Moments are numbered: later ones have greater numbers. */
struct tu_sim_chain {
  uint32_t moment; /* at which its last part ended */
  uint32_t messages;
  double sent, added; /* chunks */
};

/* Of two things that had to end first, the later one is the cause; at one moment, the longer chain. */
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
  uint32_t next; /* in a queue */
  struct tu_sim_chain chain;
};

/* Nodes in the order in which they became ready; of one moment, by number. Zero is no queue: use tu_sim_queue_init. */
struct tu_sim_queue {
  uint32_t head, tail;
  uint32_t settled; /* the last one of an earlier moment; TU_NONE: all are of this moment */
};

/* When a node became ready, and ended; and whose end made it ready. */
struct tu_sim_times {
  double begin, end;
  uint32_t cause;
};

struct tu_sim_course {
  const struct tu_sim *sim;
  struct tu_sim_state *states; /* of the nodes */
  double now;
  double ended_at;                 /* the last node so far; answers may still be on their way */
  double chunk_bytes, chunk_gamma; /* bytes of a chunk; seconds a chunk added */
  double alpha, chunk_beta;        /* of the flat network: seconds a message, a chunk sent */
  const double *late;              /* [ranks]: when each starts; NULL: at 0 */
  struct tu_sim_chain last;        /* what the end waited for */
  struct tu_sim_times *times;      /* [nodes], or NULL: nobody wants to know */
  struct tu_events events;         /* TU_SIM_ENDS: the node ends; TU_SIM_STARTS: its rank is there */
};

/* Kinds of events; from TU_SIM_KINDS on, the network's. */
enum { TU_SIM_ENDS, TU_SIM_STARTS, TU_SIM_KINDS };

/* Node ends at that time, not before now. */
static inline void tu_sim_end_at(struct tu_sim_course *course, double time, uint32_t node) {
  tu_events_put(&course->events, (struct tu_event){time, TU_SIM_ENDS, node});
}

void tu_sim_queue_init(struct tu_sim_queue *queue);
void tu_sim_queue_put(struct tu_sim_course *course, struct tu_sim_queue *queue, uint32_t node);
uint32_t tu_sim_queue_take(struct tu_sim_course *course, struct tu_sim_queue *queue);
/* The moment is over: what is put from now on goes behind. */
static inline void tu_sim_queue_settle(struct tu_sim_queue *queue) { queue->settled = queue->tail; }

/* Ranks to look at when all that happens at a moment has happened. */
struct tu_sim_marks {
  uint32_t *ranks; /* [count] */
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
/* Sorts the ranks and forgets that they are marked; the caller sets count to 0 when it has seen them. */
void tu_sim_marks_list(struct tu_sim_marks *marks);

/* ---- the network: it alone knows when a message crosses ---- */

/* What a network starts with. All are called by the clock alone. */
struct tu_sim_network {
  /* The message may cross as soon as the network lets it. */
  void (*send)(struct tu_sim_network *network, uint32_t node);
  /* Its time is over: an event TU_SIM_ENDS that the network put there has come. */
  void (*end)(struct tu_sim_network *network, uint32_t node);
  /* All that happens at a moment has happened: starts what can start now, with the network's part in the states' chains. */
  void (*settle)(struct tu_sim_network *network);
  /* An event of another kind. NULL: there are none. */
  void (*event)(struct tu_sim_network *network, const struct tu_event *event);
};

/* The flat one (sim_ports.c). */
struct tu_sim_network *tu_sim_ports_create(struct tu_sim_course *course);
void tu_sim_ports_destroy(struct tu_sim_network *network);

/* Plays the plan to its end on a network that the caller has made for the course, which has everything but its states. */
void tu_sim_play(struct tu_sim_course *course, struct tu_sim_network *network);
void tu_sim_report_on(const struct tu_sim_course *course, struct tu_sim_report *report);
void tu_sim_course_fini(struct tu_sim_course *course);

#endif
