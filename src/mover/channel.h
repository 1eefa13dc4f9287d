/* channel.h: how bytes cross: a one-way FIFO of slices between two ranks on one lane of one communicator.
 *
 * Memory of a channel, in its sender's slice: a line that only the receiver writes (`taken`), lines in which it posts
 * targets, then `credits` lines that only the sender writes. Slice number n uses line n % credits. The ring of bytes lies
 * elsewhere in the sender's slice. Only the sender knows where, and how long it is: its receiver goes by the lines. So
 * the sender may change to a longer ring between any two slices; the one before stays until all slices in it have been
 * taken.
 *
 *   sent - taken <= credits: a full ring means that the receiver is slow, not lost.
 *   line.sequence == n + 1 publishes slice n; the release store of it is the only flag.
 *
 * A slice crosses in one of four ways, which its sender chooses and its line tells:
 *   inline  up to TU_INLINE_BYTES lie in the line itself: payload and sequence number in one cache line, one transfer;
 *   staged  they lie at `place`, in the channel's ring of bytes, or in the sender's ring for many readers (cast.h);
 *   lent    they lie at `place`, where the sender's caller has them (memory that all ranks map): the sender must not call
 *           its message done before the slice has been taken;
 *   stored  they are already where they belong: the receiver had posted its target.
 * A receiver does not tell staged from lent.
 *
 * A message is one or more slices; each end of it knows its length beforehand, and every line repeats it. Messages of a channel
 * are used in the order of tickets: a request draws its tickets when it is started, so all messages of an
 * earlier request precede those of a later one. Both ends are single-threaded.
 *
 * A line also carries how far its writer has come as the receiver of the channel in the other direction: ranks that
 * exchange messages never read each other's `taken`, whose line then stays where it is written. */
#ifndef TU_CHANNEL_H
#define TU_CHANNEL_H

#include <stdatomic.h>

#include "base/base.h"

#define TU_INLINE_BYTES 32u
#define TU_POSTS 8u /* targets that a receiver may have posted at a time, on one channel */

struct tu_line {
  _Alignas(TU_LINE_BYTES) _Atomic uint32_t sequence;
  uint32_t taken;         /* by the writer, of the channel in the other direction */
  uint64_t tag;           /* whose message it is: number and hash of the call; the tag of a send */
  uint64_t message_bytes; /* of all its slices */
  uint32_t bytes;         /* of this slice */
  uint8_t stored;         /* in the posted target */
  union {
    unsigned char payload[TU_INLINE_BYTES];
    uint64_t place;
  } at;
};
_Static_assert(sizeof(struct tu_line) == TU_LINE_BYTES, "a line is a cache line");

/* Where message number ticket - 1 of the channel may be stored; all of it, without a gap. */
struct tu_post {
  _Atomic uint64_t ticket;
  uint64_t place;
};

/* What the receiver writes. */
struct tu_credit_line {
  _Alignas(TU_LINE_BYTES) _Atomic uint32_t taken;
  _Atomic uint32_t far;
  uint64_t
      ring; /* by the sender, before it announces the channel: its ring, to be mapped at once; 0: it has none yet */
  _Alignas(TU_LINE_BYTES) struct tu_post posts[TU_POSTS];
};

struct tu_channel_shape {
  uint32_t credits;    /* a power of two */
  uint32_t slot_bytes; /* the longest staged slice; a multiple of 64 */
  uint32_t ring_bytes; /* the longest ring for staged slices: at least two of them; a multiple of 64 */
};

/* Without its ring; with the line by which it is announced (mover.h). */
static inline size_t tu_channel_bytes(struct tu_channel_shape s) {
  return tu_round_up(TU_LINE_BYTES + sizeof(struct tu_credit_line) + (size_t)s.credits * sizeof(struct tu_line), 4096);
}

/* Where a ring of bytes lies, and those before it, in which there may still be slices. */
struct tu_staging_ring {
  struct tu_staging_ring *older;
  uint64_t place;
  uint64_t bytes;
  uint32_t until; /* of an older one: free when slices, or pieces, up to that number have been taken */
};

/* A ring of bytes, of which the writer takes one piece after the other, counted on and on: [freed, filled) is in use. A
 * piece lies without a gap: what is left at the end of the ring is skipped if it is too short. */
struct tu_staging {
  uint64_t place;
  uint64_t bytes; /* 0: there is no ring yet */
  uint64_t filled;
  uint64_t at; /* filled, in the ring */
  struct tu_staging_ring *ring;
  bool *worn;     /* to be set when this ring has been gone round often; NULL: it can get no longer */
  uint32_t wraps; /* how often */
};

/* A ring that has been gone round so often belongs to a channel that is in use: a longer one is worth its memory. */
#define TU_STAGING_WORN 16u

/* What a piece takes. Behind a short one some lines are left out: its reader's prefetcher runs ahead into them, and to take
 * them back for the next piece would cost more than the piece (1 KiB allreduce of two ranks: 0.36 us, and 0.18 so). */
#define TU_STAGING_GAP 1024u
static inline uint64_t tu_staging_need(const struct tu_staging *s, size_t piece_bytes) {
  bool gap = piece_bytes < 8 * TU_STAGING_GAP && s->bytes >= 64 * TU_STAGING_GAP;
  return tu_round_up(piece_bytes, TU_LINE_BYTES) + (gap ? TU_STAGING_GAP : 0);
}

/* Where the next piece goes, or 0 if there is no room; a piece is at most half a ring, so an empty one has room. */
static inline uint64_t tu_staging_room(const struct tu_staging *s, uint64_t freed, size_t piece_bytes) {
  uint64_t need = tu_staging_need(s, piece_bytes), skip = s->at + need > s->bytes ? s->bytes - s->at : 0;
  return s->filled + skip + need - freed <= s->bytes ? s->place + (skip ? 0 : s->at) : 0;
}

static inline void tu_staging_wrap(struct tu_staging *s) {
  s->at = 0;
  if (s->worn && ++s->wraps == TU_STAGING_WORN) *s->worn = true;
}

/* It is there. */
static inline void tu_staging_fill(struct tu_staging *s, uint64_t place, size_t piece_bytes) {
  uint64_t need = tu_staging_need(s, piece_bytes);
  if (place != s->place + s->at) {
    s->filled += s->bytes - s->at;
    tu_staging_wrap(s);
  }
  s->filled += need;
  s->at += need;
  if (s->at == s->bytes) tu_staging_wrap(s);
}

/* From now on pieces go into that ring, which is empty. */
static inline void tu_staging_change(struct tu_staging *s, struct tu_staging_ring *ring, uint32_t until) {
  if (s->ring) s->ring->until = until;
  ring->older = s->ring;
  s->ring = ring;
  s->place = ring->place;
  s->bytes = ring->bytes;
  s->at = s->wraps = 0;
}

struct tu_receiver;

struct tu_sender {
  struct tu_line *lines;
  struct tu_credit_line *credit;
  unsigned char *base; /* of the memory in which places are */
  uint32_t sent, taken_seen;
  uint32_t credits;
  uint32_t peer, bell;
  uint32_t parts_filled;    /* of the message that is being put together */
  uint64_t tickets, served; /* tickets drawn; messages completely sent */
  struct tu_receiver *back; /* of the other direction, or NULL */
  uint64_t place;           /* of the channel */
  struct tu_staging staging;
  uint64_t *starts;               /* [credits]: of slice n, at n % credits: how far `staging` was filled before it */
  uint64_t next_start;            /* ... of the next slice */
  struct tu_staging_ring *coming; /* which takes over once no message is half put together; or NULL */
};

struct tu_receiver {
  struct tu_line *lines; /* NULL until the sender has opened the channel */
  struct tu_credit_line *credit;
  const unsigned char *base;
  uint32_t received;
  uint32_t credits;
  uint32_t peer, bell;
  uint32_t used;        /* bytes of the slice in front that have been used */
  uint32_t parts_taken; /* of the message in front */
  uint32_t peer_taken;  /* what the peer has said of the other direction */
  uint32_t next_timed;  /* the slice of which the line's way here is timed next */
  uint32_t far_samples; /* how often that took long, lately */
  bool far;
  uint64_t tickets, served;
  uint32_t lane;                /* by which the sender announces the channel's place */
  struct tu_matching *matching; /* point-to-point only */
};

/* Has the receiver taken slices up to that number? */
static inline bool tu_sender_taken(struct tu_sender *s, uint32_t sequence) {
  if ((int32_t)(s->taken_seen - sequence) >= 0) return true;
  if (s->back && (int32_t)(s->back->peer_taken - s->taken_seen) > 0) s->taken_seen = s->back->peer_taken;
  if ((int32_t)(s->taken_seen - sequence) >= 0) return true;
  s->taken_seen = atomic_load_explicit(&s->credit->taken, memory_order_acquire);
  return (int32_t)(s->taken_seen - sequence) >= 0;
}

/* Is there a credit for the next slice? */
static inline bool tu_sender_ready(struct tu_sender *s) {
  return s->sent - s->taken_seen < s->credits || tu_sender_taken(s, s->sent - s->credits + 1);
}

static inline struct tu_line *tu_sender_line(struct tu_sender *s) { return &s->lines[s->sent & (s->credits - 1)]; }

/* Room for `bytes` (at most a slot) in the ring, for the next slice: its place, or 0. There must be a credit. */
static inline uint64_t tu_sender_room(struct tu_sender *s, size_t bytes) {
  for (int look = 0; look < 2; look++) {
    uint64_t freed = s->taken_seen == s->sent ? s->staging.filled : s->starts[s->taken_seen & (s->credits - 1)];
    uint64_t place = tu_staging_room(&s->staging, freed, bytes);
    if (place || !tu_sender_taken(s, s->taken_seen + 1)) return place;
  }
  tu_assert(s->staging.bytes > 0); /* tu_mover_reserve comes before */
  return 0;
}

/* Goes on in the ring that is coming, if that is possible now. What is on its way takes nothing of it. */
static inline void tu_sender_renew(struct tu_sender *s) {
  if (!s->coming || s->parts_filled > 0) return;
  tu_staging_change(&s->staging, s->coming, s->sent);
  s->coming = NULL;
  for (uint32_t i = 0; i < s->credits; i++) s->starts[i] = s->staging.filled;
  s->next_start = s->staging.filled;
}

/* Publishes the slice that was described in its line; the caller then rings the receiver's bell. */
static inline void tu_sender_commit(struct tu_sender *s, size_t bytes, uint64_t tag, uint64_t message_bytes,
                                    bool stored) {
  struct tu_line *line = tu_sender_line(s);
  s->starts[s->sent & (s->credits - 1)] = s->next_start;
  s->next_start = s->staging.filled;
  line->taken = s->back ? s->back->received : 0;
  line->bytes = (uint32_t)bytes;
  line->stored = stored;
  line->tag = tag;
  line->message_bytes = message_bytes;
  atomic_store_explicit(&line->sequence, ++s->sent, memory_order_release);
}

/* Has everything that was sent been taken? */
static inline bool tu_sender_drained(const struct tu_sender *s) {
  return atomic_load_explicit(&s->credit->taken, memory_order_acquire) == s->sent;
}

/* Where the receiver wants that message of the channel (its ticket); 0: it has not said. */
static inline uint64_t tu_sender_posted(const struct tu_sender *s, uint64_t ticket) {
  const struct tu_post *post = &s->credit->posts[ticket % TU_POSTS];
  return atomic_load_explicit(&post->ticket, memory_order_acquire) == ticket + 1 ? post->place : 0;
}

/* Are the two ranks so far apart (no cache between them) that to write what the peer's cache holds takes much longer than to
 * write past the caches? Ranks are moved about: the answer may change. Receivers find it out, by the time that a line takes
 * to come, and tell. */
static inline bool tu_sender_far(const struct tu_sender *s) {
  return atomic_load_explicit(&s->credit->far, memory_order_relaxed) != 0;
}

/* Is the next slice there? Looks at its line, and takes the time. */
bool tu_receiver_time(struct tu_receiver *r, const struct tu_line *line);

/* The line of the next slice, or NULL if it is not there yet. */
static inline const struct tu_line *tu_receiver_line(struct tu_receiver *r) {
  const struct tu_line *line = &r->lines[r->received & (r->credits - 1)];
  if (r->received == r->next_timed) {
    if (!tu_receiver_time(r, line)) return NULL;
  } else if (atomic_load_explicit(&line->sequence, memory_order_acquire) != r->received + 1) {
    return NULL;
  }
  r->peer_taken = line->taken;
  return line;
}

/* The bytes of the slice; not of one that is stored. */
static inline const unsigned char *tu_receiver_payload(const struct tu_receiver *r, const struct tu_line *line) {
  return line->message_bytes <= TU_INLINE_BYTES ? line->at.payload : r->base + line->at.place;
}

/* Gives the credit back; the payload may be overwritten from now on. The caller then rings the sender's bell. */
static inline void tu_receiver_release(struct tu_receiver *r) {
  r->used = 0;
  atomic_store_explicit(&r->credit->taken, ++r->received, memory_order_release);
}

/* May message `ticket` be posted? Not while an earlier one has its place. */
static inline bool tu_receiver_may_post(const struct tu_receiver *r, uint64_t ticket) {
  return r->lines && ticket < r->served + TU_POSTS;
}

/* Says where message `ticket` may be stored, from now on. */
static inline void tu_receiver_post(struct tu_receiver *r, uint64_t ticket, uint64_t place) {
  struct tu_post *post = &r->credit->posts[ticket % TU_POSTS];
  post->place = place;
  atomic_store_explicit(&post->ticket, ticket + 1, memory_order_release);
}

#endif
