/* mover.h: the channels of one communicator, made when first used.
 *
 * Opening: the sender makes the channel in its own slice and announces its place to the receiver, which looks there until it
 * finds it. So no byte flows into memory whose owner is not there. Ending: a sender waits until every
 * credit has come home, then frees the channel; the leader (rank 0), who owns what all share, goes last. */
#ifndef TU_MOVER_H
#define TU_MOVER_H

#include "mover/cast.h"
#include "mover/control.h"
#include "mover/pace.h"
#include "mover/remote.h"

/* Those of plans, and those of send and recv: these are ordered per pair, plans by the calls of all ranks. */
#define TU_MOVER_LANES 16u
#define TU_POINT_TO_POINT_LANE 8u
#define TU_POINT_TO_POINT_LANES 8u
#define TU_LINKS_LANE TU_MOVER_LANES /* not a lane: by which the cells of links are announced */

/* What a rank has for one that it has met. */
struct tu_pair {
  struct tu_sender *senders[TU_MOVER_LANES]; /* NULL until used */
  struct tu_receiver *receivers[TU_MOVER_LANES];
};

struct tu_link_book;

/* Of a peer that it has never met a rank has 12 bytes here: a member, an index of pairs, and a door. */
struct tu_mover {
  struct tu_control control;
  struct tu_transport *transport;
  struct tu_channel_shape shape; /* once the control is ready */
  struct tu_pace *pace;          /* NULL: what is sent is there */
  uint32_t rank, ranks;
  uint32_t *pair_of; /* [ranks]: 0: not met; else one more than its index in pairs */
  struct tu_pair **pairs;
  uint32_t pair_count, pair_capacity;
  struct tu_cast *cast;        /* NULL until used */
  struct tu_link_book **books; /* [ranks], of links (link.h); NULL until used */
  bool populates;              /* pages of channels are made with them, not one by one when they are first touched */
  bool wired;                  /* the job has ranks on other hosts */
  bool worn;                   /* a ring has been gone round often */
};

/* As tu_control_open. */
tutti_err tu_mover_create(struct tu_transport *t, const uint32_t members[], uint32_t ranks, uint32_t rank,
                          uint64_t session, struct tu_channel_shape shape, struct tu_mover **mover,
                          struct tu_error *error);
/* Nothing else may be done before. */
bool tu_mover_ready(struct tu_mover *m);

/* What there is of a channel to, or from, that peer; NULL: it was never used. */
static inline struct tu_sender *tu_mover_known_sender(const struct tu_mover *m, uint32_t peer, uint32_t lane) {
  uint32_t i = m->pair_of[peer];
  return i > 0 ? m->pairs[i - 1]->senders[lane] : NULL;
}
/* Of all that are in use, or may be: those of number 0 to tu_mover_channels - 1; NULL: it is not used. */
static inline uint32_t tu_mover_channels(const struct tu_mover *m) { return m->pair_count * TU_MOVER_LANES; }
static inline struct tu_sender *tu_mover_nth_sender(const struct tu_mover *m, uint32_t n) {
  return m->pairs[n / TU_MOVER_LANES]->senders[n % TU_MOVER_LANES];
}
static inline struct tu_receiver *tu_mover_nth_receiver(const struct tu_mover *m, uint32_t n) {
  return m->pairs[n / TU_MOVER_LANES]->receivers[n % TU_MOVER_LANES];
}
/* NULL and MEMORY if there is no room for the channel. Before anything is staged on it: tu_mover_reserve. */
struct tu_sender *tu_mover_sender(struct tu_mover *m, uint32_t peer, uint32_t lane, struct tu_error *error);
/* Sees to it that the channel has a ring that can stage slices of so many bytes, at most a slot; or MEMORY. Where little
 * memory is left the ring is shorter than it would be best. */
tutti_err tu_mover_reserve(struct tu_mover *m, struct tu_sender *s, size_t slice_bytes, struct tu_error *error);
struct tu_receiver *tu_mover_receiver(struct tu_mover *m, uint32_t peer, uint32_t lane);
/* This rank's ring for many readers, and room in it for pieces of so many bytes, at most a slot; NULL and MEMORY if there is
 * none. */
struct tu_cast *tu_mover_cast(struct tu_mover *m, size_t piece_bytes, struct tu_error *error);
/* Gives rings that are worn all the length that they can have, where there is memory to spare. Between two calls. */
void tu_mover_grow(struct tu_mover *m);
/* Looks whether the sender has opened the channel by now. */
bool tu_mover_attach(struct tu_mover *m, struct tu_receiver *r);

static inline void tu_mover_ring(const struct tu_mover *m, uint32_t bell) { tu_bell_ring(m->transport, bell); }

/* Ranks of other hosts: takes what has come from them, and sends what is there for them, on other communicators as well: so a
 * rank of a job of several hosts does it whatever it waits for. True if anything moved. */
static inline bool tu_mover_look(const struct tu_mover *m) { return m->wired && tu_remote_look(&m->control); }
static inline bool tu_mover_send(const struct tu_mover *m) { return m->wired && tu_remote_send(&m->control); }
/* To be called before this rank sleeps, or goes: the others get all their credits, too. */
static inline void tu_mover_flush(const struct tu_mover *m) {
  if (m->wired) (void)tu_remote_flush(&m->control);
}

/* One look at the end of an orderly life: true when this rank may destroy. Marks the ranks that it still waits for. */
bool tu_mover_drained(struct tu_mover *m, bool *waits_for);
/* Frees this side. in_order: tu_mover_drained said true, so the shared memory is given back; otherwise it is left alone. */
void tu_mover_destroy(struct tu_mover *m, bool in_order);

#endif
