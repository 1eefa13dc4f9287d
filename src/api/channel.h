/* channel.h: an end of a channel, as the library sees it. */
#ifndef TU_CHANNEL_API_H
#define TU_CHANNEL_API_H

#include <tutti/channel.h>

#include "api/comm.h"
#include "mover/link.h"

struct tutti_channel {
  struct tu_link_end end;
  tutti_comm *comm;
  _Atomic bool busy;                     /* a thread is in a call */
  bool given_up;                         /* tutti_channel_open has: nobody has it, and nobody need close it */
  struct tu_stall tests;                 /* looks in vain, since the last that was not */
  struct tutti_channel *previous, *next; /* of the communicator */
};

/* An end more in the communicator's list. */
void tu_channel_list(tutti_comm *comm, struct tutti_channel *channel);

#endif
