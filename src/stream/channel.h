/* channel.h: internal declarations of channels, through which two ranks stream messages (tutti/channel.h). */
#ifndef TU_CHANNEL_API_H
#define TU_CHANNEL_API_H

#include <tutti/channel.h>

#include "comm/patience.h"
#include "stream/link.h"

struct tutti_channel {
  struct tu_link_end end;
  tutti_comm *comm;
  _Atomic bool busy; /* true while a thread is in a call on this end of the channel */
  /* true: tutti_channel_open has given this end up after a time-out. The user has no pointer to this end, and need not
   * close it. */
  bool given_up;
  struct tu_stall tests; /* how long the calls with `try` in their name have found nothing; reset when one succeeds */
  uint64_t tested_since; /* time when such a call first looked around, in ns; 0: not since one has succeeded */
  struct tutti_channel *previous, *next; /* neighbours in the communicator's list of channels */
};

/* Adds one end of a channel to the communicator's list. */
void tu_channel_list(tutti_comm *comm, struct tutti_channel *channel);
/* Frees the channels of a communicator that ends. Returns how many of them the user should have closed before. */
uint32_t tu_channels_abandon(tutti_comm *comm);

#endif
