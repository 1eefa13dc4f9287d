/* relay.h: channels between ranks whose memory the other cannot reach: over an unreliable transport. Each rank has a thread
 * that carries what its senders have put into their channels to a copy of the channel at the receiver, and how much the
 * receiver has taken back; reliable.h sees to it that all of it arrives, once and in order.
 *
 * Senders and receivers do not know: each has lines and credits in its own slice, and there they change as they would if the
 * other end wrote them. So a transport that is reliable pays nothing: it has no relay, and the same code. What does not go
 * through channels (calls, verdicts, where a channel is, bells) stays in the memory that all ranks of a transport share. */
#ifndef TU_RELAY_H
#define TU_RELAY_H

#include <stdatomic.h>

#include "base/base.h"

struct tu_mover;
struct tu_relay;
struct tu_sender;

/* For that mover, whose block may not be ready yet: *relay is set in any case, and the mover's destroy frees it. SYSTEM: there
 * is no thread to be had. */
tutti_err tu_relay_create(struct tu_mover *m, struct tu_relay **relay, struct tu_error *error);
/* A new sender, of that lane; any thread of the mover's rank. */
void tu_relay_add(struct tu_relay *r, const struct tu_sender *s, uint32_t lane);
/* One end of a channel of a link, at one of the ranks. */
struct tu_relay_stream {
  struct tu_relay_stream *next; /* the relay's, as all that follows `acked` */
  uint32_t peer;
  uint64_t key; /* the same at both ends; of no other stream of the two ranks, earlier ones included */
  bool sends;
  uint32_t slots;
  size_t line_stride, slot_stride;
  unsigned char *lines, *payloads; /* in the sender's memory, or in the receiver's copy of it */
  _Atomic uint32_t *done, *acked;
  uint32_t carried, part_at;      /* messages carried there, or written here; how much of the next one */
  uint32_t told_done, told_acked; /* receiver: as the sender knows */
};

/* From now on it is carried; before the peer can know of it. It stays the caller's. */
void tu_relay_add_stream(struct tu_relay *r, struct tu_relay_stream *s);
/* Its memory is not touched any more. One that was not added is ignored. */
void tu_relay_remove_stream(struct tu_relay *r, struct tu_relay_stream *s);
/* Is it on its way to the sender how many messages were released? */
bool tu_relay_has_told(struct tu_relay *r, const struct tu_relay_stream *s);

/* After so long without a word of a peer that owes one, the link is down, which is the communicator's verdict. <= 0: never. */
void tu_relay_set_patience(struct tu_relay *r, int timeout_ms);
/* Once nothing more is sent, and all that came was taken: does every peer that has not departed know of all of it? Marks
 * those that do not. Once true it stays true. */
bool tu_relay_quiet(struct tu_relay *r, bool *waits_for);
/* No packet from here on: the thread has ended. */
void tu_relay_stop(struct tu_relay *r);
void tu_relay_destroy(struct tu_relay *r, bool in_order);

#endif
