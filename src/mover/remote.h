/* remote.h: ranks of other hosts. For them the far end of each channel, and of the control, is played here, in this process.
 *
 * A sender publishes its slices in lines of this rank's slice as ever, and finds its credits there. What has been published is
 * sent as frames when somebody looks; what comes is put into a copy of the channel, whose lines the receiver reads as it would
 * read the sender's. A copy has a slot for each credit: so there is always room for what a sender may send, frames never wait
 * for each other, and the argument about deadlock in plan.h holds as it stands. The copy is made when the first slice comes,
 * also if this rank has not made the communicator yet.
 *
 * Credits ride on the slices that go the other way. They go alone when half of them are due, or two slots of bytes, or when
 * this rank is about to sleep. What ranks say beside data goes at once. */
#ifndef TU_REMOTE_H
#define TU_REMOTE_H

#include "mover/control.h"
#include "transport/wire.h"

struct tu_remote;

/* The endpoint becomes rank `rank` of a job of so many ranks: locals[r] is the rank of its segment that r is, or TU_REMOTE;
 * bells[]: an eventfd for each rank of the segment, which this process may write to. It owns both the wire and the bells from now
 * on, also if it fails. */
tutti_err tu_remote_create(struct tu_transport *t, uint32_t rank, uint32_t ranks, const uint32_t locals[],
                           const int bells[], struct tu_wire *wire, struct tu_error *error);
/* The endpoint's; NULL: it has none. */
struct tu_remote *tu_remote_of(const struct tu_transport *t);

/* ---- looking; any thread. Each returns true if something has moved. ---- */

/* Takes what has come, for whichever communicator, and sends what has been published on this one, or was left to be sent. */
bool tu_remote_look(const struct tu_control *c);
/* Sends alone. */
bool tu_remote_send(const struct tu_control *c);
/* Sends all credits that are due on any communicator, too. */
bool tu_remote_flush(const struct tu_control *c);

/* ---- a communicator; its control is ready ---- */

tutti_err tu_remote_open(struct tu_control *c, struct tu_error *error);
void tu_remote_close(struct tu_control *c);
/* What the sender publishes on that lane goes to its peer. MEMORY. */
tutti_err tu_remote_join(struct tu_control *c, struct tu_sender *s, uint32_t lane, struct tu_error *error);
/* Has something come on the receiver's lane? Then it has its lines. */
bool tu_remote_attach(const struct tu_control *c, struct tu_receiver *r);

/* ---- control, to all ranks of other hosts in the communicator, or to those marked ---- */

void tu_remote_say_verdict(const struct tu_control *c, const struct tu_error *error);
void tu_remote_say_here(const struct tu_control *c);
void tu_remote_say_departed(const struct tu_control *c);
bool tu_remote_say_words(const struct tu_control *c, const void *words, size_t bytes);
void tu_remote_say_missed(struct tu_transport *t, uint64_t session, tutti_err why, const uint32_t members[],
                          uint32_t ranks);
/* Tells them this rank's last call, and asks for theirs of that number (0: the last). */
void tu_remote_ask(const struct tu_control *c, const bool whom[], uint64_t number);
bool tu_remote_alive(const struct tu_transport *t, uint32_t job_rank);

#endif
