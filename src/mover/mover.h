/* mover.h: the channels of one communicator, created on first use.
 *
 * Opening a channel: the sender creates it in its own slice and announces its offset in the segment. The receiver looks
 * for the announcement until it finds it. So the sender never writes into memory of a rank that has not joined yet or
 * has left.
 *
 * Closing a channel: the sender waits until all its credits are back, then frees the channel. The leader of a host owns
 * the block of memory that the ranks of the host share, so the leader closes last. */
#ifndef TU_MOVER_H
#define TU_MOVER_H

#include "mover/cast.h"
#include "mover/control.h"
#include "mover/pace.h"
#include "mover/remote.h"
#include "transport/peer_memory.h"

/* The channels of a rank with one peer. */
struct tu_pair {
  struct tu_sender *senders[TU_MOVER_LANES]; /* [lane]; NULL until used */
  struct tu_receiver *receivers[TU_MOVER_LANES];
};

struct tu_link_book;
struct tu_expected;

/* The channels of one communicator at one rank. For a peer without channels, a rank stores only 12 bytes: an entry each
 * of `members`, `pair_of` and `doors`. */
struct tu_mover {
  struct tu_control control;
  struct tu_transport *transport;
  struct tu_channel_shape shape; /* sizes of channels; valid once tu_mover_ready has returned true */
  /* The same for channels to ranks of other hosts, if the communicator has any; slot_bytes is the maximum of a lent
   * slice. Staged slices there are as long as on this host. */
  struct tu_channel_shape far_shape;
  struct tu_pace *pace; /* simulated wire that delays slices, for measurements; NULL: slices arrive without delay */
  uint32_t rank, ranks;
  uint32_t *pair_of; /* [ranks]: index of the peer in `pairs`, plus 1; 0: no channels to or from this peer yet */
  struct tu_pair **pairs;
  uint32_t pair_count, pair_capacity;
  struct tu_cast *cast;    /* ring for slices that several ranks read; NULL until used */
  uint64_t receives;       /* number of point-to-point receives that were started (engine/matching.c) */
  struct tu_expected *any; /* those from any rank that have no message yet, in the order in which they were started */
  uint32_t any_turn;       /* peer whose messages such a receive takes first */
  struct tu_link_book **books; /* [ranks]: state of stream/link.c for each peer; NULL until used */
  void (*destroy_books)(struct tu_mover *mover, bool in_order); /* frees `books`; set by the code that sets `books` */
  bool populates; /* true: all pages of a channel are created with the channel, not when they are first touched */
  bool wired;     /* true: the job has ranks on other hosts, which are reached over a wire */
  bool is_pair;   /* true: there are two ranks, each with a CPU of its own */
  /* Programs that move at least this many bytes write their results past the caches, because the caches cannot hold all data. */
  size_t past_bytes;
  size_t cache_bytes;           /* of the last-level cache; 0: not known */
  uint32_t share;               /* maximum number of ranks per CPU */
  struct tu_fills fills;        /* in rings */
  struct tu_fills target_fills; /* in targets that peers have posted */
  bool outgrown;                /* true: a ring needs more memory (tu_mover_grow) */
};

/* Creates a mover (the channels of one communicator). Arguments and errors are those of tu_control_open. */
tutti_err tu_mover_create(struct tu_transport *t, const uint32_t members[], uint32_t ranks, uint32_t rank,
                          uint64_t comm_id, struct tu_channel_shape shape, struct tu_mover **mover,
                          struct tu_error *error);
/* Returns true once this rank has found the shared block, which the leader of its host creates. Before that, no other
 * function may be called with the mover. */
bool tu_mover_ready(struct tu_mover *m);

/* Returns the sender of the channel to that peer on that lane; NULL: that channel was never used. */
static inline struct tu_sender *tu_mover_known_sender(const struct tu_mover *m, uint32_t peer, uint32_t lane) {
  uint32_t i = m->pair_of[peer];
  return i > 0 ? m->pairs[i - 1]->senders[lane] : NULL;
}
/* Returns a number that is greater than all channel numbers, which begin at 0. Some numbers below it may belong to no
 * channel in use; for these, tu_mover_nth_sender and tu_mover_nth_receiver return NULL. */
static inline uint32_t tu_mover_channels(const struct tu_mover *m) { return m->pair_count * TU_MOVER_LANES; }
static inline struct tu_sender *tu_mover_nth_sender(const struct tu_mover *m, uint32_t n) {
  return m->pairs[n / TU_MOVER_LANES]->senders[n % TU_MOVER_LANES];
}
static inline struct tu_receiver *tu_mover_nth_receiver(const struct tu_mover *m, uint32_t n) {
  return m->pairs[n / TU_MOVER_LANES]->receivers[n % TU_MOVER_LANES];
}
/* Returns the sender of the channel to that peer on that lane, created on first use. Returns NULL and sets
 * TUTTI_ERR_MEMORY if there is no room for it. Call tu_mover_reserve before the first staged slice is written to it. */
struct tu_sender *tu_mover_sender(struct tu_mover *m, uint32_t peer, uint32_t lane, struct tu_error *error);
/* Ensures that the channel has a ring for staged slices of slice_bytes bytes (at most slot_bytes). The ring is shorter
 * than the best length if little memory is left. Error: TUTTI_ERR_MEMORY. */
tutti_err tu_mover_reserve(struct tu_mover *m, struct tu_sender *s, size_t slice_bytes, struct tu_error *error);
struct tu_receiver *tu_mover_receiver(struct tu_mover *m, uint32_t peer, uint32_t lane);
/* Returns this rank's ring for slices that several ranks read, with room for pieces of piece_bytes bytes (at most
 * cast_slot_bytes). Returns NULL and sets TUTTI_ERR_MEMORY if there is no memory. */
struct tu_cast *tu_mover_cast(struct tu_mover *m, size_t piece_bytes, struct tu_error *error);
/* Makes the pages that rings of bytes begin to use. Replaces rings that have wrapped often by rings of maximum length, if
 * there is memory to spare. Called between two calls of the user. */
void tu_mover_grow(struct tu_mover *m);
/* Looks for the channel that the sender has opened. Returns true once it is found. */
bool tu_mover_attach(struct tu_mover *m, struct tu_receiver *r);

static inline void tu_mover_ring(const struct tu_mover *m, uint32_t bell) { tu_bell_ring(m->transport, bell); }

/* Number of links (stream/link.h) of this process whose handshakes are not over, and the function that continues those
 * of an endpoint; both are in stream/link.c. */
extern _Atomic uint32_t tu_mover_handshakes;
extern void (*const tu_mover_continue_handshakes)(const struct tu_transport *t);
/* Continues the handshakes of this rank, on all its communicators, without waiting. Every wait calls this function: the
 * rank at the other end may need the answer before it can do what this rank waits for. */
static inline void tu_mover_shake_hands(const struct tu_mover *m) {
  if (atomic_load_explicit(&tu_mover_handshakes, memory_order_relaxed) > 0) tu_mover_continue_handshakes(m->transport);
}

/* Continues handshakes, and exchanges data with ranks of other hosts: receives what has arrived, and sends what is
 * ready. It does so for all communicators of this rank, so that the other communicators also advance while the rank
 * waits in one of them. Returns true if anything was received or sent. */
static inline bool tu_mover_look(const struct tu_mover *m) {
  tu_mover_shake_hands(m);
  return m->wired && tu_remote_look(&m->control);
}
static inline bool tu_mover_send(const struct tu_mover *m) { return m->wired && tu_remote_send(&m->control); }
/* Sends all remaining credits to the ranks of other hosts, and receives what has arrived, for all communicators. Called
 * before this rank leaves or sleeps: what has arrived would wake it again and again. */
static inline void tu_mover_flush(const struct tu_mover *m) {
  if (m->transport->hosts) (void)tu_remote_flush(m->transport, m->wired ? &m->control : NULL);
}

/* Called when the communicator has failed: the buffers of its calls are no longer used. */
static inline void tu_mover_withdraw(const struct tu_mover *m) {
  if (m->control.remote) tu_remote_withdraw(&m->control);
}

/* Checks once, without waiting, whether this rank may destroy the mover in order. If not, marks in waits_for the ranks
 * that it still waits for. */
bool tu_mover_drained(struct tu_mover *m, bool *waits_for);
/* Frees this rank's side of the communicator. in_order: tu_mover_drained has returned true, so shared memory is
 * released. Otherwise shared memory is left as it is. */
void tu_mover_destroy(struct tu_mover *m, bool in_order);

#endif
