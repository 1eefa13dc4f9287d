/* look.h: the checks of a stalled rank. It checks the communicator's verdict (its first failure), the boards (where
 * ranks publish their calls), the peers and the time-outs. */
#ifndef TU_LOOK_H
#define TU_LOOK_H

#include "call/queue.h"

/* Checks all open requests of the communicator, and of other communicators that no other thread holds. If a
 * communicator fails here, its requests end at the next poll. Returns the time until the next check is due, in ms, at
 * most ms_max. Time limits run in the communicators of the same rank only. comm NULL: no thread of the program waits. Then
 * no time limit runs, and no wait is published. */
int tu_look_round(struct tutti_comm *comm, uint64_t now, int ms_max);

/* Called before a call fails because its time limit has passed; NULL: nothing is called (TUTTI_HANG_REPORT). */
extern void (*tu_when_late)(struct tu_transport *t);

#endif
