/* links.c: simulates processors, wires and channels. A channel has four queues of packets, and each packet is in
 * exactly one of them:
 * - sends: it waits to be sent;
 * - arrivals: it waits to be handled by the receiver;
 * - kept: it waits to be released;
 * - answers: its answer (acknowledgement) waits to be handled by the sender.
 * The packet's field `ready` is the earliest time at which its wait can end. */
#include "sim/links.h"

#include <math.h>
#include <stdlib.h>

struct packet {
  uint32_t next;
  double bytes, ready;
};

struct queue {
  uint32_t head, tail;
};

struct channel {
  /* port: the end of a link (port) at which the channel sends; index: number of the channel among those that leave at
   * this port, from 0. It decides when the processors serve the channel. */
  uint32_t port, index;
  uint32_t slots, taken;
  enum tu_links_use use;
  /* [side]: true if this end of the channel is in the list `active` of its processor, that is, if it may have work */
  bool active[2];
  struct queue sends; /* packets in filled slots that wait to be sent */
  /* packets that were sent: they are crossing the link, or the receiver has not handled them yet */
  struct queue arrivals;
  /* packets that the receiver has handled and that keep their slots; a packet's `ready` is set when it is released */
  struct queue kept;
  struct queue answers;   /* packets whose answers are crossing the link, or have not been handled by the sender yet */
  uint32_t kept_released; /* number of packets in `kept` that were released */
};

/* The two ends of a channel: the sending end and the receiving end. The processor of the port there checks each end. */
enum side { SENDS, RECEIVES };
struct entry {
  uint32_t channel;
  enum side side;
};

struct processor {
  /* The processor checks its channels in turn. free_at: time at which it is at position `at` of the turn */
  double free_at;
  uint32_t at;      /* position in the turn: 2 * (index of a channel) + side */
  uint32_t out, in; /* number of channels that leave at this port, and number of channels that arrive there */
  /* time of the processor's next check that finds work, which is a check of the channel end `next`; INFINITY: no
   * channel end has work */
  double planned;
  struct entry next;
  struct entry *active;
  uint32_t active_count, active_capacity;
};

struct wire {
  double free_at;
  struct tu_links_load load;
};

struct tu_links {
  struct tu_links_options options;
  const struct tu_link_model *model;
  struct tu_events *events;
  uint32_t kind;
  struct tu_links_told told;
  struct processor *processors; /* [2 * links]: one processor per port (end of a link) */
  struct wire *wires;           /* [2 * links]: one wire per port (link end) */
  struct channel *channels;
  uint32_t channel_count, channel_capacity;
  struct packet *packets;
  uint32_t packet_count, packet_capacity, unused;
  /* [links + 1]: index in options.downs of the first period in which each link is down; NULL: no link goes down */
  uint32_t *first_down;
};

/* ---- queues ---- */

static void put(struct tu_links *l, struct queue *queue, uint32_t packet) {
  l->packets[packet].next = TU_LINKS_NONE;
  if (queue->head == TU_LINKS_NONE) queue->head = packet;
  else l->packets[queue->tail].next = packet;
  queue->tail = packet;
}

static uint32_t take(struct tu_links *l, struct queue *queue) {
  uint32_t packet = queue->head;
  queue->head = l->packets[packet].next;
  return packet;
}

static double head_ready(const struct tu_links *l, const struct queue *queue) {
  return queue->head == TU_LINKS_NONE ? INFINITY : l->packets[queue->head].ready;
}

static uint32_t new_packet(struct tu_links *l) {
  if (l->unused == TU_LINKS_NONE) {
    l->packets = tu_grow(l->packets, l->packet_count, &l->packet_capacity, sizeof *l->packets);
    return l->packet_count++;
  }
  uint32_t packet = l->unused;
  l->unused = l->packets[packet].next;
  return packet;
}

/* ---- the order in which a processor checks its channels ---- */

/* Returns the time that the processor needs to move to another channel; 0 if it has only one channel. */
static double change_time(const struct tu_links *l, const struct processor *p) {
  return p->out > 1 || p->in > 1 ? l->model->change : 0;
}

/* Returns the time from the start of a processor's turn until it reaches a position of the turn. */
static double time_before(const struct tu_links *l, const struct processor *p, uint32_t position) {
  uint32_t index = position / 2, sends = index + position % 2;
  if (sends > p->out) sends = p->out;
  uint32_t receives = index < p->in ? index : p->in;
  return sends * l->model->look_send + receives * l->model->look_receive + index * change_time(l, p);
}

static double turn_time(const struct tu_links *l, const struct processor *p) {
  return time_before(l, p, 2 * (p->out > p->in ? p->out : p->in));
}

static double entry_ready(const struct tu_links *l, struct entry entry) {
  const struct channel *c = &l->channels[entry.channel];
  if (entry.side == SENDS) return fmin(head_ready(l, &c->sends), head_ready(l, &c->answers));
  double ready = head_ready(l, &c->arrivals);
  return c->kept_released > 0 ? fmin(ready, head_ready(l, &c->kept)) : ready;
}

static uint32_t entry_position(const struct tu_links *l, struct entry entry) {
  return 2 * l->channels[entry.channel].index + entry.side;
}

/* Returns the first time, not before `ready`, at which the processor reaches this entry (end of a channel) in its
 * turn. */
static double look_time(const struct tu_links *l, const struct processor *p, struct entry entry, double ready) {
  if (l->options.way == TU_LINKS_WAITS) return fmax(p->free_at, ready);
  double turn = turn_time(l, p), way = time_before(l, p, entry_position(l, entry)) - time_before(l, p, p->at);
  double first = p->free_at + (entry_position(l, entry) < p->at ? way + turn : way);
  if (first >= ready) return first;
  return turn > 0 ? first + ceil((ready - first) / turn) * turn : ready;
}

/* Returns true if the processor may serve the entry (end of a channel) next. With TU_LINKS_WAITS, the processor serves
 * the channels in order and waits at each one. But it may handle the answers (acknowledgements) of any channel at any
 * time. */
static bool is_in_turn(const struct tu_links *l, const struct processor *p, struct entry entry) {
  const struct channel *c = &l->channels[entry.channel];
  if (l->options.way != TU_LINKS_WAITS || c->answers.head != TU_LINKS_NONE) return true;
  return c->index == p->at / 2 % tu_max(entry.side == SENDS ? p->out : p->in, 1);
}

/* Plans the next check of the port's processor. Chooses the entry (end of a channel) that the processor can serve
 * earliest. If there are several, chooses the first one at or behind the processor's position in its turn. */
static void plan(struct tu_links *l, uint32_t port) {
  struct processor *p = &l->processors[port];
  double best = INFINITY;
  uint32_t positions = 2 * (p->out > p->in ? p->out : p->in), best_way = 0;
  for (uint32_t i = 0; i < p->active_count;) {
    struct entry entry = p->active[i];
    double ready = entry_ready(l, entry);
    if (isinf(ready)) { /* the entry (end of a channel) has no work */
      l->channels[entry.channel].active[entry.side] = false;
      p->active[i] = p->active[--p->active_count];
      continue;
    }
    i++;
    if (!is_in_turn(l, p, entry)) continue;
    double when = look_time(l, p, entry, ready);
    uint32_t way = (entry_position(l, entry) + positions - p->at % positions) % positions;
    if (when > best || (when == best && way >= best_way)) continue;
    best = when;
    best_way = way;
    p->next = entry;
  }
  if (best == p->planned) return;
  p->planned = best;
  if (!isinf(best)) tu_events_put(l->events, (struct tu_event){best, l->kind, port});
}

static void activate(struct tu_links *l, uint32_t port, uint32_t channel, enum side side) {
  struct processor *p = &l->processors[port];
  if (!l->channels[channel].active[side]) {
    l->channels[channel].active[side] = true;
    p->active = tu_grow(p->active, p->active_count, &p->active_capacity, sizeof *p->active);
    p->active[p->active_count++] = (struct entry){channel, side};
  }
  plan(l, port);
}

/* ---- wires ---- */

/* Returns the time at which a transfer ends. It begins at `start` and takes `seconds`, plus the time in which the link
 * is down meanwhile. */
static double end_on(struct tu_links *l, uint32_t port, double start, double seconds) {
  double end = start + seconds;
  if (!l->first_down) return end;
  for (uint32_t d = l->first_down[port / 2]; d < l->first_down[port / 2 + 1]; d++) {
    const struct tu_links_down *down = &l->options.downs[d];
    if (down->until <= start) continue;
    if (down->from >= end) break;
    end += down->until - fmax(down->from, start);
  }
  return end;
}

/* Sends bytes over the wire that leaves at the port. They leave at time `when`, or later if the wire is occupied.
 * Returns the time at which all of them have arrived. */
static double cross(struct tu_links *l, uint32_t port, uint32_t channel, double bytes, bool payload, double when) {
  struct wire *wire = &l->wires[port];
  const struct tu_link_model *m = l->model;
  double slowness = l->options.slowness ? l->options.slowness[port / 2] : 1, start = fmax(when, wire->free_at);
  double taken = tu_link_wire_time(m, bytes) * slowness;
  double crossing = tu_link_crossing(m, bytes) + (slowness - 1) * (tu_link_crossing(m, bytes) - m->latency);
  wire->free_at = end_on(l, port, start, taken);
  wire->load.busy += taken;
  if (payload) wire->load.packets++, wire->load.bytes += bytes;
  if (l->told.crosses) l->told.crosses(l->told.self, port, channel, payload ? bytes : 0, start, wire->free_at);
  return end_on(l, port, start, crossing);
}

static void forget(struct tu_links *l, uint32_t packet) {
  l->packets[packet].next = l->unused;
  l->unused = packet;
}

/* Sends an answer (acknowledgement) to a packet. If the number of slots is unlimited, no sender waits for answers, so
 * none is sent. */
static void answer(struct tu_links *l, uint32_t channel, uint32_t packet, double when) {
  struct channel *c = &l->channels[channel];
  if (c->slots == 0) {
    forget(l, packet);
    return;
  }
  l->packets[packet].ready = cross(l, c->port ^ 1, channel, TU_ACK_BYTES, false, when);
  put(l, &c->answers, packet);
  activate(l, c->port, channel, SENDS);
}

/* ---- one check of a channel by a processor ---- */

/* Checks the sending end of a channel: handles all answers that have arrived by now, then sends one packet. Returns the
 * time when this is done. *sent: false if there was no packet to send. */
static double look_to_send(struct tu_links *l, uint32_t channel, double now, bool *sent) {
  const struct tu_link_model *m = l->model;
  struct channel *c = &l->channels[channel];
  double then = now;
  while (head_ready(l, &c->answers) <= now) {
    forget(l, take(l, &c->answers));
    c->taken--;
    then += m->acknowledge;
    l->told.freed(l->told.self, channel, then);
  }
  *sent = head_ready(l, &c->sends) <= then;
  if (!*sent) return then;
  uint32_t packet = take(l, &c->sends);
  then += m->issue;
  double there = cross(l, c->port, channel, l->packets[packet].bytes, true, then);
  if (l->options.flags) {
    then += m->flag_gap;
    there = fmax(there, cross(l, c->port, channel, TU_ACK_BYTES, false, then));
  }
  l->packets[packet].ready = there;
  put(l, &c->arrivals, packet);
  activate(l, c->port ^ 1, channel, RECEIVES);
  return then;
}

/* Checks the receiving end of a channel: answers all packets that were released, then handles one arrived packet.
 * Returns the time when this is done. */
static double look_to_receive(struct tu_links *l, uint32_t channel, double now) {
  const struct tu_link_model *m = l->model;
  struct channel *c = &l->channels[channel];
  double then = now;
  while (c->kept_released > 0 && head_ready(l, &c->kept) <= now) {
    then += m->issue;
    c->kept_released--;
    answer(l, channel, take(l, &c->kept), then);
  }
  if (head_ready(l, &c->arrivals) > now) return then;
  uint32_t packet = take(l, &c->arrivals);
  double bytes = l->packets[packet].bytes;
  bool passes_on = c->use == TU_LINKS_FORWARDS || c->use == TU_LINKS_RELAYS;
  then += passes_on ? m->forward + tu_link_noc_time(m, bytes) : m->respond;
  if (c->use == TU_LINKS_KEEPS || c->use == TU_LINKS_RELAYS) {
    l->packets[packet].ready = INFINITY;
    put(l, &c->kept, packet);
  } else {
    answer(l, channel, packet, then);
  }
  l->told.arrived(l->told.self, channel, bytes, then);
  return then;
}

void tu_links_event(struct tu_links *l, const struct tu_event *event) {
  struct processor *p = &l->processors[event->id];
  if (event->time != p->planned) return; /* outdated event: the check has been moved to another time since */
  struct entry entry = p->next;
  bool sends = entry.side == SENDS, done = true, waits = l->options.way == TU_LINKS_WAITS;
  p->planned = INFINITY;
  p->free_at = INFINITY; /* so that plan() chooses no other check before this one has ended */
  double then =
      sends ? look_to_send(l, entry.channel, event->time, &done) : look_to_receive(l, entry.channel, event->time);
  if (!waits) then += sends ? l->model->look_send : l->model->look_receive + change_time(l, p);
  p->free_at = then;
  if (!waits) p->at = entry_position(l, entry) + 1;
  else if (done) p->at = 2 * l->channels[entry.channel].index + 2;
  p->planned = NAN;
  plan(l, event->id);
}

/* ---- public functions ---- */

static void index_downs(struct tu_links *l) {
  if (l->options.down_count == 0) return;
  l->first_down = tu_allocate(l->options.links + 1, sizeof *l->first_down);
  for (uint32_t d = 0; d < l->options.down_count; d++) l->first_down[l->options.downs[d].link + 1]++;
  for (uint32_t i = 0; i < l->options.links; i++) l->first_down[i + 1] += l->first_down[i];
}

struct tu_links *tu_links_create(const struct tu_links_options *options, struct tu_events *events, uint32_t kind,
                                 const struct tu_links_told *told) {
  struct tu_links *l = tu_allocate(1, sizeof *l);
  *l = (struct tu_links){.options = *options,
                         .model = options->model,
                         .events = events,
                         .kind = kind,
                         .told = *told,
                         .unused = TU_LINKS_NONE};
  l->processors = tu_allocate(2 * (size_t)options->links, sizeof *l->processors);
  l->wires = tu_allocate(2 * (size_t)options->links, sizeof *l->wires);
  for (uint32_t p = 0; p < 2 * options->links; p++) l->processors[p].planned = INFINITY;
  index_downs(l);
  return l;
}

void tu_links_destroy(struct tu_links *l) {
  if (!l) return;
  for (uint32_t p = 0; p < 2 * l->options.links; p++) free(l->processors[p].active);
  free(l->processors);
  free(l->wires);
  free(l->channels);
  free(l->packets);
  free(l->first_down);
  free(l);
}

uint32_t tu_links_add(struct tu_links *l, uint32_t port, uint32_t slots, enum tu_links_use use) {
  const struct queue none = {TU_LINKS_NONE, TU_LINKS_NONE};
  tu_assert(port < 2 * l->options.links);
  l->channels = tu_grow(l->channels, l->channel_count, &l->channel_capacity, sizeof *l->channels);
  struct processor *here = &l->processors[port], *there = &l->processors[port ^ 1];
  tu_assert(here->out == there->in);
  l->channels[l->channel_count] = (struct channel){.port = port,
                                                   .index = here->out,
                                                   .slots = slots,
                                                   .use = use,
                                                   .sends = none,
                                                   .arrivals = none,
                                                   .kept = none,
                                                   .answers = none};
  here->out++;
  there->in++;
  return l->channel_count++;
}

bool tu_links_has_slot(const struct tu_links *l, uint32_t channel) {
  const struct channel *c = &l->channels[channel];
  return c->slots == 0 || c->taken < c->slots;
}

void tu_links_send(struct tu_links *l, uint32_t channel, double bytes, double when) {
  tu_assert(tu_links_has_slot(l, channel));
  double granule = l->model->granule;
  uint32_t packet = new_packet(l);
  struct channel *c = &l->channels[channel];
  l->packets[packet] = (struct packet){.bytes = granule > 0 ? ceil(bytes / granule) * granule : bytes, .ready = when};
  c->taken++;
  put(l, &c->sends, packet);
  activate(l, c->port, channel, SENDS);
}

void tu_links_release(struct tu_links *l, uint32_t channel, double when) {
  struct channel *c = &l->channels[channel];
  uint32_t packet = c->kept.head;
  for (uint32_t i = 0; i < c->kept_released; i++) packet = l->packets[packet].next;
  tu_assert(packet != TU_LINKS_NONE);
  l->packets[packet].ready = when;
  c->kept_released++;
  activate(l, c->port ^ 1, channel, RECEIVES);
}

const struct tu_links_load *tu_links_load(const struct tu_links *l, uint32_t port) { return &l->wires[port].load; }
