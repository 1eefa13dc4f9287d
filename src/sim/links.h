/* links.h: simulates links message by message: wires, channels with slots, and the processors that serve the channels.
 * A *packet* is here what fills one slot. (The packets of a link model, each with a header, are smaller parts of it.)
 *
 * A *port* is one end of a link, together with the wire that leaves there. Ports 2 l and 2 l + 1 are the ends of link
 * l. A channel belongs to the port at which it sends. Its packets arrive at the opposite port.
 *
 * Each port has a processor, which serves in turn all channels that leave or arrive there. At each channel it handles
 * answers (acknowledgements), starts a send, then handles one arrived packet. A processor without work keeps checking
 * its channels. The time at which it reaches a channel is computed. Only checks that find work are events of the
 * simulation: three or four per packet. */
#ifndef TU_LINKS_H
#define TU_LINKS_H

#include "sim/events.h"
#include "sim/link_model.h"

#define TU_LINKS_NONE UINT32_MAX

/* What the processor of a port does at a channel that has no work. */
enum tu_links_way {
  TU_LINKS_LOOKS, /* the processor checks each channel in turn, and moves on if a channel has no work */
  TU_LINKS_WAITS, /* the processor waits at each channel until it has served the channel; some benchmarks do this */
};

/* What happens to a packet at the receiving end of a channel. */
enum tu_links_use {
  TU_LINKS_ANSWERS, /* sends an answer (acknowledgement) at once; the answer frees the slot */
  TU_LINKS_KEEPS,   /* keeps the packet in its slot until tu_links_release frees the slot */
  /* passes the packet on to another processor of the chip, and sends an answer at once, which frees the slot */
  TU_LINKS_FORWARDS,
  TU_LINKS_RELAYS, /* passes the packet on to another processor of the chip; tu_links_release frees the slot */
};

struct tu_links_told {
  void *self;
  /* Called when the processor at the channel's receiving end handles a packet. `when`: time at which the processor is
   * done with that; it may be later than the current event. */
  void (*arrived)(void *self, uint32_t channel, double bytes, double when);
  /* Called when the processor at the channel's sending end handles an answer (acknowledgement), which frees one slot.
   * `when`: time at which it has done so. */
  void (*freed)(void *self, uint32_t channel, double when);
  /* Called for each use of the wire that leaves at the port, from time `from` to `until`. `bytes` is the payload, or
   * 0 for an answer or a flag. NULL: not called. */
  void (*crosses)(void *self, uint32_t port, uint32_t channel, double bytes, double from, double until);
};

/* A period in which a link is down. Bytes that would cross the link in this period are delayed until the end of the
 * period. */
struct tu_links_down {
  uint32_t link;
  double from, until; /* start and end of the period, in seconds; `until` includes the time to retrain the link */
};

struct tu_links_options {
  const struct tu_link_model *model;
  uint32_t links;
  enum tu_links_way way;
  bool flags; /* true: the flag that announces a message is a separate message, sent after the payload */
  /* [down_count]: periods in which links are down, sorted by link, then by time. The array is not copied, so the caller
   * keeps it. */
  const struct tu_links_down *downs;
  uint32_t down_count;
  /* [link]: factor by which the link's wires are slower than in the model; NULL: all 1. The array is not copied, so the
   * caller keeps it. */
  const double *slowness;
};

/* The load of a wire from the start of the run until now. */
struct tu_links_load {
  double busy; /* seconds in which the wire was occupied */
  double bytes;
  uint64_t packets; /* number of packets; each one fills a slot */
};

struct tu_links;

/* Creates links that have no channels yet. The links put their events into the queue `events`, with event kind
 * `kind`. */
struct tu_links *tu_links_create(const struct tu_links_options *options, struct tu_events *events, uint32_t kind,
                                 const struct tu_links_told *told);
void tu_links_destroy(struct tu_links *links);
/* Adds a channel that leaves at the port, with `slots` slots (0: no limit). Returns the channel's number; the first
 * channel has number 0. */
uint32_t tu_links_add(struct tu_links *links, uint32_t port, uint32_t slots, enum tu_links_use use);
/* Returns true if the channel has a free slot. */
bool tu_links_has_slot(const struct tu_links *links, uint32_t channel);
/* Sends a packet in a slot that is full at time `when`. The channel must have a free slot. */
void tu_links_send(struct tu_links *links, uint32_t channel, double bytes, double when);
/* Releases a packet that the receiver keeps (TU_LINKS_KEEPS, TU_LINKS_RELAYS): the oldest one that is not released yet.
 * From time `when` on, its slot may be overwritten. */
void tu_links_release(struct tu_links *links, uint32_t channel, double when);
void tu_links_event(struct tu_links *links, const struct tu_event *event);

const struct tu_links_load *tu_links_load(const struct tu_links *links, uint32_t port);

#endif
