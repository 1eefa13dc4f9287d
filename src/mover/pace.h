/* pace.h: a wire that takes its time, for measurements: what comes to this rank over the channels of one mover is there when a
 * wire of so many bytes a second would have brought it, one slice after the other, and no sooner.
 *
 * Nothing else knows of it. A receiver looks at lines of the wire's own, and the wire copies into these the lines that senders
 * have written, when their time has come. No thread and no core is needed for that: how long a slice takes is reckoned from
 * the clock when somebody looks. A slice sets out when it is first seen, or behind the one before it; so if the sender's ring
 * holds what the wire carries between two looks, the wire never rests, and else it is slower than it says, never faster. */
#ifndef TU_PACE_H
#define TU_PACE_H

#include "mover/channel.h"

struct tu_mover;
struct tu_pace;

/* In front of all receivers of the mover, those that are attached later too; it then has it, until it is taken away. Nothing
 * may be half received. False without memory: then there is none. */
bool tu_pace_lay(struct tu_mover *m, double bytes_per_s);
void tu_pace_remove(struct tu_mover *m);
/* A receiver has found its channel. False without memory: it has not found it yet. */
bool tu_pace_attach(struct tu_pace *pace, struct tu_receiver *r);
/* Brings what has come by now. Returns whether something is still on its way. */
bool tu_pace_look(struct tu_pace *pace);

#endif
