/* sim_links.c: the network of links. Each FIFO (messages from one rank to another on one lane) gets a channel on each
 * link of its route. A message is cut into packets, each of which fills a slot. links.c simulates the packets. */
#include <math.h>
#include <stdlib.h>

#include "sim/sim_ways.h"

enum { SLOTS_MAX = 1 << 27 }; /* maximum number of slots of all channels together; this many take 1 GiB of memory */

/* Packets of a FIFO that have crossed one link of their route and wait for a slot of the channel on the next link. */
struct hop {
  uint32_t waiting; /* number of packets that have crossed this link and wait for a slot on the next link */
  uint32_t first; /* index in bytes[] of the oldest waiting packet; bytes[] is a circular buffer of `credits` entries */
  double *bytes;
};

struct way_state {
  /* number of messages of the FIFO that are ready but not begun: none of their packets is in a slot yet */
  uint32_t ready;
  /* the message whose packets the sender is putting into slots, or will put next. Messages follow the order of the
   * FIFO. */
  uint32_t sending;
  /* number of packets of the message `sending` that are not in slots yet; 0: the message has not begun */
  uint32_t packets;
  uint32_t arriving; /* the message of the FIFO whose packets are arriving, or will arrive next */
  /* number of packets of the message `arriving` that have not arrived; 0: none of its packets has arrived yet */
  uint32_t left;
  double filled_at, drained_at;
};

struct net {
  /* must be the first member, because network functions cast its address to struct net * */
  struct tu_sim_network network;
  struct tu_sim_course *course;
  const struct tu_sim_where *where;
  struct tu_sim_cluster_report *report;
  struct tu_sim_ways *ways;
  struct tu_links *links;
  struct way_state *states; /* [way]: state of the two ends of each way (route of a FIFO) */
  struct hop *hops;
  uint32_t *on_port; /* [port], that is, one direction of a link: number of channels on it */
  /* [hop]: hop_way: index of the way (route) to which the hop belongs; hop_index: its position in this way, from 0. The
   * number of a hop is also the number of its channel. */
  uint32_t *hop_way, *hop_index;
  double *waiting_bytes;
};

static uint32_t packets_of(const struct net *n, double bytes) {
  return n->report->slot_bytes > 0 && bytes > n->report->slot_bytes ? (uint32_t)ceil(bytes / n->report->slot_bytes) : 1;
}

static double message_bytes(const struct net *n, uint32_t node) {
  return n->course->sim->nodes[node].weight * n->course->chunk_bytes;
}

static double packet_bytes(const struct net *n, uint32_t node, uint32_t left) {
  double bytes = message_bytes(n, node), slot = n->report->slot_bytes;
  return left > 1 ? slot : bytes - (packets_of(n, bytes) - 1) * slot;
}

/* ---- at the sender ---- */

static void begin_message(struct net *n, uint32_t way) {
  struct way_state *state = &n->states[way];
  state->ready--;
  state->packets = packets_of(n, message_bytes(n, state->sending));
}

/* Simulates the worker at the sender: a processor that fills one slot after the other, as long as there are messages
 * and free slots. */
static void fill(struct net *n, uint32_t way, double now) {
  const struct tu_sim_way *w = &n->ways->ways[way];
  struct way_state *state = &n->states[way];
  uint32_t channel = w->first_hop;
  while (state->packets > 0 || state->ready > 0) {
    if (state->packets == 0) begin_message(n, way);
    if (!tu_links_has_slot(n->links, channel)) return;
    double bytes = packet_bytes(n, state->sending, state->packets);
    state->filled_at = fmax(state->filled_at, now) + tu_link_noc_time(n->where->model, bytes);
    if (--state->packets == 0) state->sending = n->course->sim->nodes[state->sending].ring_next;
    tu_links_send(n->links, channel, bytes, state->filled_at);
  }
}

static void send(struct tu_sim_network *network, uint32_t node) {
  struct net *n = (struct net *)network;
  uint32_t way = n->ways->way_of[node];
  const struct tu_sim_way *w = &n->ways->ways[way];
  struct tu_sim_chain *chain = &n->course->states[node].chain;
  chain->messages++;
  chain->sent += n->course->sim->nodes[node].weight;
  if (w->hops > 0) {
    n->states[way].ready++;
    fill(n, way, n->course->now);
    return;
  }
  /* sender and receiver are on one chip, so the message crosses no link */
  struct way_state *state = &n->states[way];
  state->filled_at = fmax(state->filled_at, n->course->now) + tu_link_noc_time(n->where->model, message_bytes(n, node));
  tu_sim_end_at(n->course, state->filled_at, node);
}

/* ---- between sender and receiver ---- */

static void relay(struct net *n, uint32_t hop, double bytes, double when) {
  tu_links_send(n->links, hop + 1, bytes, when);
  tu_links_release(n->links, hop, when);
}

/* Simulates the worker at the receiver: a processor that takes a packet out of its slot. The message ends when the
 * worker has taken its last packet. */
static void drain(struct net *n, uint32_t way, uint32_t hop, double bytes, double when) {
  struct way_state *state = &n->states[way];
  state->drained_at = fmax(state->drained_at, when) + tu_link_noc_time(n->where->model, bytes);
  tu_links_release(n->links, hop, state->drained_at);
  if (state->left == 0) state->left = packets_of(n, message_bytes(n, state->arriving));
  if (--state->left > 0) return;
  uint32_t node = state->arriving;
  state->arriving = n->course->sim->nodes[node].ring_next;
  tu_sim_end_at(n->course, state->drained_at, node);
}

static void arrived(void *self, uint32_t channel, double bytes, double when) {
  struct net *n = self;
  uint32_t hop = channel, way = n->hop_way[hop];
  struct hop *h = &n->hops[hop];
  if (n->hop_index[hop] + 1 == n->ways->ways[way].hops) drain(n, way, hop, bytes, when);
  else if (h->waiting == 0 && tu_links_has_slot(n->links, hop + 1)) relay(n, hop, bytes, when);
  else h->bytes[(h->first + h->waiting++) % n->report->credits] = bytes;
}

static void freed(void *self, uint32_t channel, double when) {
  struct net *n = self;
  uint32_t hop = channel;
  if (n->hop_index[hop] == 0) {
    fill(n, n->hop_way[hop], when);
    return;
  }
  struct hop *before = &n->hops[hop - 1];
  if (before->waiting == 0) return;
  double bytes = before->bytes[before->first];
  before->first = (before->first + 1) % n->report->credits;
  before->waiting--;
  relay(n, hop - 1, bytes, when);
}

static void crosses(void *self, uint32_t port, uint32_t channel, double bytes, double from, double until) {
  struct net *n = self;
  const struct tu_sim_way *w = &n->ways->ways[n->hop_way[channel]];
  if (bytes > 0) tu_sim_note(n->report, (struct tu_crossing){port, w->from, w->to, bytes, from, until});
}

static void event(struct tu_sim_network *network, const struct tu_event *e) {
  tu_links_event(((struct net *)network)->links, e);
}

static void end(struct tu_sim_network *network, uint32_t node) { (void)network, (void)node; }
static void settle(struct tu_sim_network *network) { (void)network; }

/* ---- setup ---- */

/* Chooses the slot size: the size that the caller requested, or else the model's slot size. In the second case, if the
 * slots do not fit the memory at the end of a link, chooses the largest size that fits at all ends. Returns an error if
 * the channels exceed a limit of the model. */
static tutti_err choose_slot(struct net *n, struct tu_error *error) {
  const struct tu_link_model *m = n->where->model;
  struct tu_sim_cluster_report *r = n->report;
  uint32_t worst = 0, most = 0, out, in;
  for (uint32_t p = 0; p < r->port_count; p++) {
    out = n->on_port[p], in = n->on_port[p ^ 1];
    if (out > r->channels_most) r->channels_most = out;
    if (out + in <= most) continue;
    most = out + in;
    worst = p;
  }
  r->slot_bytes = n->where->slot_bytes > 0 ? n->where->slot_bytes : m->slot_bytes;
  if (n->where->slot_bytes == 0 && m->memory_bytes > 0 && most > 0 && r->credits > 0) {
    double room = m->memory_bytes / (r->credits * (double)most) - TU_ACK_BYTES;
    double granule = m->granule > 0 ? m->granule : 1;
    if (room < r->slot_bytes) r->slot_bytes = fmax(floor(room / granule), 0) * granule;
  }
  /* `worst` is the port with the most channels: check it first, so that an error names it */
  for (uint32_t i = 0; i < r->port_count; i++) {
    uint32_t port = i == 0 ? worst : i == worst ? 0 : i;
    out = n->on_port[port], in = n->on_port[port ^ 1];
    struct tu_error why;
    if (tu_link_fits(m, out, in, r->slot_bytes > 0 ? r->slot_bytes : 1, r->credits, &why) == TUTTI_OK) continue;
    const struct tu_cluster_link_end near = tu_directed_from(n->where->cluster, port);
    return tu_fail(
        error, TUTTI_ERR_ARGUMENT,
        "the link from %s to %s (channel %u): %s; use a smaller --slot, fewer --credits or --lanes, or a plan that "
        "sends only to neighbours",
        tu_node_name(n->where->cluster, near.node).chars,
        tu_node_name(n->where->cluster, tu_directed_to(n->where->cluster, port).node).chars, near.channel, why.text);
  }
  return TUTTI_OK;
}

/* Counts the channels of each port, checks that there are not too many slots, and chooses the slot size. Must be called
 * before slots are allocated: even if a cluster has few links, there may be too many slots for the memory. */
static tutti_err choose_channels(struct net *n, struct tu_error *error) {
  struct tu_sim_cluster_report *r = n->report;
  n->on_port = tu_allocate(r->port_count, sizeof *n->on_port);
  for (uint32_t h = 0; h < n->ways->hop_count; h++) n->on_port[n->ways->ports[h]]++;
  uint64_t slots = (uint64_t)n->ways->hop_count * r->credits;
  if (slots > SLOTS_MAX)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "there are %u channels of %u slots each, but expected at most 2^27 slots in all; use fewer "
                   "--credits, fewer ranks, --fluid or a plan that sends only to neighbours",
                   n->ways->hop_count, r->credits);
  return choose_slot(n, error);
}

static void add_way(struct net *n, uint32_t way) {
  const struct tu_sim_way *w = &n->ways->ways[way];
  n->states[way].sending = n->states[way].arriving = w->first_message;
  for (uint32_t h = 0; h < w->hops; h++) {
    uint32_t hop = w->first_hop + h;
    uint32_t channel = tu_links_add(n->links, n->ways->ports[hop], n->report->credits,
                                    h + 1 < w->hops ? TU_LINKS_RELAYS : TU_LINKS_KEEPS);
    n->hops[hop].bytes = n->waiting_bytes + (size_t)hop * n->report->credits;
    /* hops and channels are numbered in the same order: way (route) by way, and hop by hop within a way */
    tu_assert(channel == hop);
    n->hop_way[hop] = way;
    n->hop_index[hop] = h;
  }
}

static void fini(struct net *n) {
  tu_links_destroy(n->links);
  free(n->on_port);
  free(n->states);
  free(n->hops);
  free(n->hop_way);
  free(n->hop_index);
  free(n->waiting_bytes);
}

tutti_err tu_sim_run_links(struct tu_sim_course *course, const struct tu_sim_where *where, struct tu_sim_ways *ways,
                           struct tu_sim_cluster_report *report, struct tu_error *error) {
  struct net n = {
      .network = {send, end, settle, event}, .course = course, .where = where, .report = report, .ways = ways};
  const struct tu_links_options options = {.model = where->model,
                                           .links = where->cluster->link_count,
                                           .flags = where->flags,
                                           .downs = where->downs,
                                           .down_count = where->down_count,
                                           .slowness = where->slowness};
  const struct tu_links_told told = {&n, arrived, freed, where->traced ? crosses : NULL};
  report->credits = where->credits > 0 ? where->credits : (uint32_t)where->model->credits;
  tutti_err err = choose_channels(&n, error);
  if (err != TUTTI_OK) {
    fini(&n);
    return err;
  }
  n.links = tu_links_create(&options, &course->events, TU_SIM_KINDS, &told);
  n.states = tu_allocate(ways->way_count, sizeof *n.states);
  n.hops = tu_allocate(ways->hop_count, sizeof *n.hops);
  n.hop_way = tu_allocate(ways->hop_count, sizeof *n.hop_way);
  n.hop_index = tu_allocate(ways->hop_count, sizeof *n.hop_index);
  n.waiting_bytes = tu_allocate((size_t)ways->hop_count * report->credits, sizeof *n.waiting_bytes);
  for (uint32_t w = 0; w < ways->way_count; w++) add_way(&n, w);
  tu_sim_play(course, &n.network);
  for (uint32_t p = 0; p < report->port_count; p++) report->loads[p] = *tu_links_load(n.links, p);
  fini(&n);
  return TUTTI_OK;
}
