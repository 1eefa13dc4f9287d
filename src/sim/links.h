/* links.h: links at work, message by message: wires, channels with their slots, and the processors that look after them.
 *
 * A *port* is an end of a link together with the wire that leaves there: port 2 l and 2 l + 1 are the ends of link l. Channels
 * belong to a port: they send there, and arrive at the port opposite. A port's processor looks after all channels that leave or
 * arrive there, in turn: at each it takes in answers, starts a send, then sees to one packet that has come. Where nobody has
 * anything to do it goes round and round: when it comes by is reckoned, not played. One event a look that finds something:
 * three or four a packet. */
#ifndef TU_LINKS_H
#define TU_LINKS_H

#include "sim/events.h"
#include "sim/link_model.h"

#define TU_LINKS_NONE UINT32_MAX

/* How the processor of a port goes about it. */
enum tu_links_way {
  TU_LINKS_LOOKS, /* it looks at each channel in turn */
  TU_LINKS_WAITS, /* it waits at each channel until that is served: a program for one purpose */
};

/* What a receiving channel does with a packet. */
enum tu_links_use {
  TU_LINKS_ANSWERS,  /* answers: the slot is free again */
  TU_LINKS_KEEPS,    /* says that it came; tu_links_release frees the slot */
  TU_LINKS_FORWARDS, /* passes it on to another processor of the chip, and answers */
  TU_LINKS_RELAYS,   /* passes it on; tu_links_release frees the slot */
};

struct tu_links_told {
  void *self;
  /* The packet has been seen to at the far end, at `when` (now or later). */
  void (*arrived)(void *self, uint32_t channel, double bytes, double when);
  /* The sender knows that one more slot is free. */
  void (*freed)(void *self, uint32_t channel, double when);
  /* Something crosses the wire that leaves at the port from `from` until `until`: payload, or (0 bytes) an answer or a flag.
   * NULL: nobody wants to know. */
  void (*crosses)(void *self, uint32_t port, uint32_t channel, double bytes, double from, double until);
};

/* A time at which a link is of no use; what crosses then is held up until it is over. */
struct tu_links_down {
  uint32_t link;
  double from, until; /* retraining included */
};

struct tu_links_options {
  const struct tu_link_model *model;
  uint32_t links;
  enum tu_links_way way;
  bool flags;                        /* cross by themselves, behind the payload */
  const struct tu_links_down *downs; /* [down_count], by link, then time; stays */
  uint32_t down_count;
  const double *slowness; /* [links]: by how much wires are slower; NULL: not at all. Stays */
};

/* What a wire has done. */
struct tu_links_load {
  double busy; /* seconds */
  double bytes;
  uint64_t packets; /* slots' worth */
};

struct tu_links;

/* Events that this puts there are of kinds from `kind` on, one kind. */
struct tu_links *tu_links_create(const struct tu_links_options *options, struct tu_events *events, uint32_t kind,
                                 const struct tu_links_told *told);
void tu_links_destroy(struct tu_links *links);
/* A channel that leaves at the port, with so many slots (0: no limit). Numbered from 0. */
uint32_t tu_links_add(struct tu_links *links, uint32_t port, uint32_t slots, enum tu_links_use use);
/* Has it a free slot? */
bool tu_links_has_slot(const struct tu_links *links, uint32_t channel);
/* A slot of it is full at `when`. It must have been free. */
void tu_links_send(struct tu_links *links, uint32_t channel, double bytes, double when);
/* What came first, and is kept, may be overwritten from `when` on. */
void tu_links_release(struct tu_links *links, uint32_t channel, double when);
void tu_links_event(struct tu_links *links, const struct tu_event *event);

const struct tu_links_load *tu_links_load(const struct tu_links *links, uint32_t port);

#endif
