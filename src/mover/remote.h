/* remote.h: channels and control with ranks of other hosts.
 *
 * Sending: a sender publishes slices in lines (slice headers) in this rank's memory, as for a peer on this host, and
 * reads its credits there. When a thread of the rank calls tu_remote_look, the published slices are sent as frames.
 *
 * Receiving: slices that arrive go into a copy of the peer's channel. The receiver reads this copy like the channel of
 * a peer on this host. The copy is created when the first slice arrives, even if this rank has not made the
 * communicator yet. It has one slot per credit, so there is room for everything that a sender may send. So frames never
 * wait for each other, and the proof against deadlock in plan.h holds unchanged.
 *
 * Credits travel with slices of the opposite direction. They travel alone in three cases: when half of them are due,
 * when the slices that were taken fill two slots, or when this rank is about to sleep. Control frames are sent at
 * once. */
#ifndef TU_REMOTE_H
#define TU_REMOTE_H

#include "mover/control.h"
#include "transport/wire.h"

struct tu_remote;

/* Makes the endpoint rank `rank` of a job of `ranks` ranks on several hosts. locals[r]: number of rank r in the
 * segment, or TU_REMOTE. The endpoint becomes the owner of the wire, even if the call fails. */
tutti_err tu_remote_create(struct tu_transport *t, uint32_t rank, uint32_t ranks, const uint32_t locals[],
                           struct tu_wire *wire, struct tu_error *error);
/* Returns the endpoint's state for ranks on other hosts; NULL: the job has one host. */
struct tu_remote *tu_remote_of(const struct tu_transport *t);

/* ---- sending and receiving: any thread may call; each function returns true if it sent or received something ---- */

/* Receives what has arrived for any communicator. Sends what is published on this communicator. Of other communicators,
 * sends only what an earlier call could not send. */
bool tu_remote_look(const struct tu_control *c);
/* Sends as tu_remote_look does, but receives nothing. */
bool tu_remote_send(const struct tu_control *c);
/* Receives and sends as tu_remote_look does, and also sends all credits that are due on any communicator. c: NULL, or the
 * communicator whose published slices are sent. */
bool tu_remote_flush(struct tu_transport *t, const struct tu_control *c);
/* Called right before a thread sleeps on the bell, after its last look. */
void tu_remote_arm(struct tu_transport *t);

/* Returns true if slices or frames are left that could not be sent yet. */
bool tu_remote_is_unsent(const struct tu_transport *t);
/* Returns true if frames to and from that rank of the job, on another host, go over a fabric now, and sets `text` to its
 * PROVIDER/DOMAIN. Any thread. */
bool tu_remote_fabric(const struct tu_transport *t, uint32_t job_rank, char *text, size_t text_bytes);

/* ---- the state of a communicator; called after tu_control_ready has returned true ---- */

tutti_err tu_remote_open(struct tu_control *c, struct tu_error *error);
void tu_remote_close(struct tu_control *c);
/* Sends no more slices of a communicator that has failed. When this returns, its calls' buffers are the user's again. */
void tu_remote_withdraw(const struct tu_control *c);
/* Connects a sender to its peer on that lane, so that its slices are sent. Error: TUTTI_ERR_MEMORY. */
tutti_err tu_remote_join(struct tu_control *c, struct tu_sender *s, uint32_t lane, struct tu_error *error);
/* Returns true once something has arrived on the receiver's lane. Then also sets the receiver's lines (slice
 * headers). */
bool tu_remote_attach(const struct tu_control *c, struct tu_receiver *r);

/* ---- links (stream/link.h) ---- */

/* Sends a frame about a link to that rank of the communicator, after all earlier ones. Sets the head's comm_id and kind.
 * The body must stay unchanged until the peer has received it, or the communicator has failed or ended. owned: freed
 * when it is sent; may be NULL. Returns false if out of memory. Any thread may call it. */
bool tu_remote_tell_link(struct tu_control *c, uint32_t rank, struct tu_link_head *head, const void *body, size_t bytes,
                         void *owned);

/* ---- control frames (frames without slices) ----
 * A rank tells its verdict and its departure to the members that it has a path to. A rank that waits for another one
 * makes a path, and asks: so it learns the same from the answer, and a rank that is dead does not accept the path. */

/* If the communicator has a verdict: tells it to the members on other hosts that this rank has a path to. Each rank that
 * adopts a verdict does that, so the verdict reaches each rank that waits for one of them, directly or not. */
void tu_remote_spread_verdict(const struct tu_control *c);
void tu_remote_say_departed(const struct tu_control *c);
/* To one rank of each other host, which stores it for all ranks of its host: */
void tu_remote_say_here(const struct tu_control *c);
bool tu_remote_say_words(const struct tu_control *c, const void *words, size_t bytes);
void tu_remote_say_missed(struct tu_transport *t, uint64_t comm_id, tutti_err why, const uint32_t members[],
                          uint32_t ranks);
/* As tu_control_ask. */
void tu_remote_ask(const struct tu_control *c, const bool whom[], uint64_t number, bool urgent);
/* Asks a rank of the job, on another host, for which ranks it waits. */
void tu_remote_ask_waits(struct tu_transport *t, uint32_t job_rank);
/* Copies what that rank has told about its waits after time `since`. Returns false if it has told nothing since. */
bool tu_remote_read_waits(struct tu_transport *t, uint32_t job_rank, uint64_t since,
                          struct tu_waits notes[TU_WAITS_THREADS]);
bool tu_remote_alive(const struct tu_transport *t, uint32_t job_rank);

#endif
