/* sim_ports.c: the flat network: one out-port and one in-port per rank. A message occupies one
 * of each while it crosses. */
#include <stdlib.h>

#include "sim/sim_internal.h"

struct port {
  struct tu_sim_queue ready; /* out-port: messages that this rank may send and that wait for the port */
  /* out-port: its front message. This message waits for the receiver's in-port, then crosses. TU_NONE: there is
   * none. */
  uint32_t crossing;
  bool taking; /* in-port: true while a message crosses it */
  /* Ranks whose front messages wait for the same in-port form a queue. first, last: the ends of the queue for this
   * rank's in-port. next: the rank behind this rank in the queue that this rank is in. TU_NONE: no rank. */
  uint32_t first, last, next;
  /* chain of waits (tu_sim_chain) of the last message that crossed the out-port, and of the last one that crossed the
   * in-port */
  struct tu_sim_chain out_last, in_last;
};

struct ports {
  /* must be the first member, because network functions cast its address to struct ports * */
  struct tu_sim_network network;
  struct tu_sim_course *course;
  struct port *ports;
  struct tu_sim_marks out, in;
};

static void send(struct tu_sim_network *network, uint32_t node) {
  struct ports *ports = (struct ports *)network;
  uint32_t rank = ports->course->sim->nodes[node].rank;
  tu_sim_queue_put(ports->course, &ports->ports[rank].ready, node);
  tu_sim_mark(&ports->out, rank);
}

static void end(struct tu_sim_network *network, uint32_t node) {
  struct ports *ports = (struct ports *)network;
  const struct tu_sim_node *message = &ports->course->sim->nodes[node];
  struct port *out = &ports->ports[message->rank], *in = &ports->ports[message->to];
  out->out_last = in->in_last = ports->course->states[node].chain;
  out->crossing = TU_NONE;
  in->taking = false;
  tu_sim_mark(&ports->out, message->rank);
  tu_sim_mark(&ports->in, message->to);
}

/* Makes the rank's next message its front message, which waits for the receiver's in-port. */
static void come_to_front(struct ports *ports, uint32_t rank) {
  struct port *out = &ports->ports[rank];
  tu_sim_queue_settle(&out->ready);
  if (out->crossing != TU_NONE || out->ready.head == TU_NONE) return;
  out->crossing = tu_sim_queue_take(ports->course, &out->ready);
  out->next = TU_NONE;
  uint32_t to = ports->course->sim->nodes[out->crossing].to;
  struct port *in = &ports->ports[to];
  if (in->first == TU_NONE) in->first = rank;
  else ports->ports[in->last].next = rank;
  in->last = rank;
  tu_sim_mark(&ports->in, to);
}

static void start_next(struct ports *ports, uint32_t rank) {
  struct port *in = &ports->ports[rank];
  if (in->taking || in->first == TU_NONE) return;
  struct port *out = &ports->ports[in->first];
  struct tu_sim_course *course = ports->course;
  uint32_t node = out->crossing;
  in->first = out->next;
  in->taking = true;
  struct tu_sim_chain *chain = &course->states[node].chain;
  double chunks = course->sim->nodes[node].weight;
  tu_sim_chain_join(chain, &out->out_last);
  tu_sim_chain_join(chain, &in->in_last);
  chain->messages++;
  chain->sent += chunks;
  tu_sim_end_at(course, course->now + (course->alpha + course->chunk_beta * chunks), node);
}

static void settle(struct tu_sim_network *network) {
  struct ports *ports = (struct ports *)network;
  tu_sim_marks_list(&ports->out);
  for (uint32_t i = 0; i < ports->out.count; i++) come_to_front(ports, ports->out.ranks[i]);
  ports->out.count = 0;
  tu_sim_marks_list(&ports->in);
  for (uint32_t i = 0; i < ports->in.count; i++) start_next(ports, ports->in.ranks[i]);
  ports->in.count = 0;
}

struct tu_sim_network *tu_sim_ports_create(struct tu_sim_course *course) {
  uint32_t ranks = course->sim->ranks;
  struct ports *p = tu_allocate(1, sizeof *p);
  p->network = (struct tu_sim_network){send, end, settle, NULL};
  p->course = course;
  p->ports = tu_allocate(ranks, sizeof *p->ports);
  for (uint32_t i = 0; i < ranks; i++) {
    tu_sim_queue_init(&p->ports[i].ready);
    p->ports[i].crossing = p->ports[i].first = p->ports[i].last = p->ports[i].next = TU_NONE;
  }
  tu_sim_marks_init(&p->out, ranks);
  tu_sim_marks_init(&p->in, ranks);
  return &p->network;
}

void tu_sim_ports_destroy(struct tu_sim_network *network) {
  struct ports *ports = (struct ports *)network;
  tu_sim_marks_fini(&ports->out);
  tu_sim_marks_fini(&ports->in);
  free(ports->ports);
  free(ports);
}
