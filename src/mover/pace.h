/* pace.h: a simulated wire of limited speed, for measurements. A slice that comes to this rank over a channel of the
 * mover becomes visible only when such a wire would have delivered it. The wire carries one slice after the other.
 *
 * The rest of the code is unaware of the wire. The slice headers (lines) that a receiver reads belong to the wire,
 * which copies the sender's lines there when their time has come. The wire needs no thread: each call of tu_pace_look
 * computes from the clock how far slices have come.
 *
 * A slice starts when tu_pace_look first sees it, or when the slice before it has arrived, if that is later. The wire
 * is never idle if the sender's ring holds as much as the wire carries between two calls of tu_pace_look. If the ring
 * holds less, the wire is slower than stated, but never faster. */
#ifndef TU_PACE_H
#define TU_PACE_H

#include "mover/channel.h"

struct tu_mover;
struct tu_pace;

/* Delays the slices of all channels on which this rank receives, also of channels opened later, as if they came over
 * the simulated wire. The mover owns the wire until tu_pace_remove. Must not be called while a message is partly
 * received. Returns false if out of memory; then there is no wire. */
bool tu_pace_lay(struct tu_mover *m, double bytes_per_s);
void tu_pace_remove(struct tu_mover *m);
/* Delays, with the simulated wire, the slices of one more channel, which its receiver has just found. Returns false if
 * out of memory; the receiver then counts as not attached. */
bool tu_pace_attach(struct tu_pace *pace, struct tu_receiver *r);
/* Makes visible the slices that the simulated wire has delivered by now. Returns true if some slices are still on their
 * way. */
bool tu_pace_look(struct tu_pace *pace);

#endif
