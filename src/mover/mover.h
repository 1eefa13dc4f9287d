/* mover.h: the channels of one communicator, made when first used; its call boards and its verdict.
 *
 * Opening: the sender makes the channel in its own slice and announces its place to the receiver, which looks there until it
 * finds it. So no byte flows into memory whose owner is not there. Ending: a sender waits until every
 * credit has come home, then frees the channel; the leader (rank 0), who owns what all share, goes last. */
#ifndef TU_MOVER_H
#define TU_MOVER_H

#include "mover/board.h"
#include "mover/cast.h"
#include "mover/wire.h"
#include "transport/transport.h"

/* Those of plans, and those of send and recv: these are ordered per pair, plans by the calls of all ranks. */
#define TU_MOVER_LANES 16u
#define TU_POINT_TO_POINT_LANE 8u
#define TU_POINT_TO_POINT_LANES 8u

/* What the ranks of a communicator share; lies in the leader's slice. Boards and doors follow. */
struct tu_block {
  _Atomic uint32_t ready; /* the leader has filled in the rest */
  uint32_t ranks;
  struct tu_channel_shape shape;
  uint64_t session; /* a number that no other communicator of these ranks has had */
  struct tu_verdict verdict;
  _Atomic uint32_t told; /* the leader has set what follows: a place in its slice, 0 if it has nothing to tell */
  uint64_t words_place;
  size_t words_bytes;
};

/* What a rank has announced to another one begins so, in its slice; the first is found by the door between the two. */
struct tu_announced {
  _Alignas(TU_LINE_BYTES) _Atomic uint32_t lane; /* TU_MOVER_LANES: the cells of links */
  _Atomic uint32_t next;                         /* page of the slice where the one announced before it is; 0: none */
};

/* What a rank has for one that it has met. */
struct tu_pair {
  struct tu_sender *senders[TU_MOVER_LANES]; /* NULL until used */
  struct tu_receiver *receivers[TU_MOVER_LANES];
};

struct tu_link_book;

/* Of a peer that it has never met a rank has 12 bytes: a member, an index of pairs, and a door. */
struct tu_mover {
  struct tu_transport *transport;
  struct tu_wire *wire; /* NULL: what is sent is there */
  uint32_t rank, ranks;
  uint32_t *members; /* rank in the communicator -> rank of the transport */
  struct tu_block *block;
  uint64_t block_place;
  struct tu_board *boards; /* [ranks], shared */
  /* [from][to], shared: page of the slice of `from` where the last is that it has announced to `to`; 0: nothing. */
  _Atomic uint32_t *doors;
  uint32_t *pair_of; /* [ranks]: 0: not met; else one more than its index in pairs */
  struct tu_pair **pairs;
  uint32_t pair_count, pair_capacity;
  struct tu_cast *cast;        /* NULL until used */
  struct tu_link_book **books; /* [ranks], of links (link.h); NULL until used */
  bool populates;              /* pages of channels are made with them, not one by one when they are first touched */
  bool worn;                   /* a ring has been gone round often */
};

/* The leader makes the block (at the transport's first place if it is the first thing acquired there); the others are told
 * `place` and wait for tu_mover_ready. members are copied. */
tutti_err tu_mover_create(struct tu_transport *t, const uint32_t members[], uint32_t ranks, uint32_t rank,
                          struct tu_channel_shape shape, uint64_t place, struct tu_mover **mover,
                          struct tu_error *error);
bool tu_mover_ready(const struct tu_mover *m);

/* The leader tells the others something, once; it stays readable for as long as the communicator lives. */
tutti_err tu_mover_tell(struct tu_mover *m, const void *words, size_t bytes, struct tu_error *error);
/* Has it? Then *words lie in shared memory, and nobody writes there any more. */
bool tu_mover_told(const struct tu_mover *m, const void **words, size_t *bytes);

/* What there is of a channel to, or from, that peer; NULL: it was never used. */
static inline struct tu_sender *tu_mover_known_sender(const struct tu_mover *m, uint32_t peer, uint32_t lane) {
  uint32_t i = m->pair_of[peer];
  return i > 0 ? m->pairs[i - 1]->senders[lane] : NULL;
}
static inline struct tu_receiver *tu_mover_known_receiver(const struct tu_mover *m, uint32_t peer, uint32_t lane) {
  uint32_t i = m->pair_of[peer];
  return i > 0 ? m->pairs[i - 1]->receivers[lane] : NULL;
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

/* Where this rank's cells for links to that peer lie, behind a struct tu_announced: says so, once; and where the peer's are,
 * 0: it has not said. Any thread. */
void tu_mover_announce(struct tu_mover *m, uint32_t peer, uint64_t place);
uint64_t tu_mover_announced(const struct tu_mover *m, uint32_t peer);

static inline void tu_mover_ring(const struct tu_mover *m, uint32_t world_peer) {
  tu_bell_ring(m->transport, world_peer);
}
void tu_mover_wake_all(struct tu_mover *m);

/* One look at the end of an orderly life: true when this rank may destroy. Marks the ranks that it still waits for. */
bool tu_mover_drained(struct tu_mover *m, bool *waits_for);
/* Frees this side. in_order: tu_mover_drained said true, so the shared memory is given back; otherwise it is left alone. */
void tu_mover_destroy(struct tu_mover *m, bool in_order);

#endif
