/* channel.h: a channel: a one-way FIFO of slices between two ranks, on one lane of one communicator.
 *
 * The memory of a channel lies in its sender's part of the segment. First come lines that only the receiver writes: one
 * with `taken` (how many slices it has taken), and those in which it posts targets. Then come `credits` lines that only
 * the sender writes. Slice number n uses line n % credits.
 *
 * The channel's ring of bytes lies elsewhere in the sender's part. Only the sender needs to know where the ring lies
 * and how long it is, because the receiver finds each slice through its line. So the sender may change to a longer ring
 * between any two slices. The old ring stays until all slices in it have been taken.
 *
 *   sent - taken <= credits: if all credits are used, the sender waits; no slice is lost.
 *   line.sequence == n + 1 publishes slice n. The release store of line.sequence is the only flag.
 *
 * A slice crosses in one of five ways. The sender chooses the way, and states it in the line:
 *
 * - inline: up to TU_INLINE_BYTES lie in the line itself. Payload and sequence number cross as one cache line.
 * - staged: the payload lies at `offset` in the segment, in the channel's ring, or in the sender's ring for several
 *   readers (cast.h).
 * - lent (rendezvous get): the payload lies at `offset` in the segment, in a buffer that the sender's user has passed,
 *   in memory that all ranks map. The message is complete at the sender only after the receiver has taken the slice.
 *   To a peer on another host, any memory can be lent: the wire reads it. The message is complete at the sender once
 *   the wire has read it. Then `offset` is the distance from the segment's address, and may be any number.
 * - read: as lent, but from memory that only the sender maps, at `offset` of its process. The receiver asks the kernel to copy
 *   it (transport/peer_memory.h).
 * - stored (rendezvous put): the payload is in the target that the receiver has posted. A slice from another host is
 *   stored if the receiver has posted the target before the slice arrives: the wire receives the slice there.
 *
 * A receiver does not distinguish staged from lent.
 *
 * A message is one or more slices. Both ends know its length beforehand, and every line repeats it. The messages of a
 * channel are used in ticket order. A request draws its tickets when it starts, so all messages of an earlier request
 * precede those of a later one. Each end is used by one thread at a time.
 *
 * A line also carries how many slices its writer has taken from the opposite channel. So ranks that exchange messages
 * need not read each other's `taken`, and the cache line of `taken` stays with the rank that writes it. */
#ifndef TU_CHANNEL_H
#define TU_CHANNEL_H

#include <stdatomic.h>

#include "base/base.h"

#define TU_INLINE_BYTES 32u
#define TU_POSTS 8u /* maximum number of targets (receive buffers) that are posted at a time, per channel */

/* Number of lanes: channels from one rank to one peer. The lanes below TU_POINT_TO_POINT_LANE carry the messages of
 * plans, which are ordered by the collective calls. The other lanes carry the messages of send and recv, which are
 * ordered per pair of ranks. */
#define TU_MOVER_LANES 16u
#define TU_POINT_TO_POINT_LANE 8u
#define TU_POINT_TO_POINT_LANES 8u
/* Not a lane of messages: the number under which the memory of links (stream/link.c) is announced. */
#define TU_LINKS_LANE TU_MOVER_LANES

/* SEGMENT: in the line, or at `offset` in the segment. TARGET: in the target that the receiver has posted. PROCESS: at the
 * address `offset` of the sender's process. */
enum tu_where { TU_IN_SEGMENT, TU_IN_TARGET, TU_IN_PROCESS };

struct tu_line {
  _Alignas(TU_LINE_BYTES) _Atomic uint32_t sequence;
  uint32_t taken;         /* number of slices that the writer of this line has taken from the opposite channel */
  uint64_t tag;           /* identifies the message: number and hash of the call, or the tag of a send */
  uint64_t message_bytes; /* bytes of the whole message */
  uint32_t bytes;         /* bytes of this slice */
  uint8_t where;          /* where the payload is: enum tu_where */
  union {
    unsigned char payload[TU_INLINE_BYTES];
    uint64_t offset; /* in the segment, or in the sender's process */
  } at;
};
_Static_assert(sizeof(struct tu_line) == TU_LINE_BYTES, "a line is a cache line");

/* A posted target: contiguous memory where the sender may store a whole message of the channel. The field `ticket` is
 * the ticket of this message plus 1; 0: no target. */
struct tu_post {
  _Atomic uint64_t ticket;
  uint64_t offset; /* offset of the target in the segment */
};

/* A target for a message from another host: contiguous memory of this process. The field `ticket` as in tu_post. */
struct tu_aim {
  _Atomic uint64_t ticket;
  unsigned char *to;
  uint64_t tag, bytes;
};

/* The cache lines of a channel that the receiver writes. Only the field `ring` is written by the sender. `taken` is written at
 * each message and seldom read, `far` is read at each message and seldom written, so they have lines of their own. */
struct tu_credit_line {
  _Alignas(TU_LINE_BYTES) _Atomic uint32_t taken;
  _Alignas(TU_LINE_BYTES) _Atomic uint32_t far;
  /* Offset in the segment of the ring of bytes with which the channel began. The receiver uses it only to map the pages
   * of the ring early. The sender sets it before it announces the channel. Zero: there was no ring yet. */
  uint64_t ring;
  _Alignas(TU_LINE_BYTES) struct tu_post posts[TU_POSTS];
};

struct tu_channel_shape {
  uint32_t credits;    /* number of lines (slice headers) of a channel; a power of two */
  uint32_t slot_bytes; /* maximum bytes of a staged slice (a slice copied through the ring); a multiple of 64 */
  /* The same, in programs that only send, unless their messages have more such slices than there are credits. Such a rank has
   * nothing to do but write, so its receivers read a slice while it writes the next one. At most slot_bytes; a multiple of 64. */
  uint32_t one_way_slot_bytes;
  /* Maximum bytes of the ring for staged slices: at least two slices of maximum size; a multiple of 64. */
  uint32_t ring_bytes;
  /* The same two for slices that several ranks read (cast.h). A rank has one ring for these, so it may be longer. */
  uint32_t cast_slot_bytes, cast_ring_bytes;
};

/* Returns the bytes of a channel without its ring of bytes, but with the header that announces the channel (struct
 * tu_announced). */
static inline size_t tu_channel_bytes(struct tu_channel_shape s) {
  return tu_round_up(TU_LINE_BYTES + sizeof(struct tu_credit_line) + (size_t)s.credits * sizeof(struct tu_line), 4096);
}

/* A ring of bytes for staged slices. `older` is a list of the rings that it has replaced and that may still hold
 * slices. */
struct tu_staging_ring {
  struct tu_staging_ring *older;
  uint64_t offset; /* in the segment */
  uint64_t bytes;
  bool made; /* true: all its pages of memory exist */
  /* for a replaced ring: it can be freed once this many slices have been taken (in a ring of cast.h: this many
   * pieces) */
  uint32_t until;
};

/* How far a ring of bytes is filled. The writer counts the bytes that it has written (filled) and those that readers
 * have freed; the counts never wrap. Bytes [freed, filled) are in use. A piece is contiguous: if the rest of the ring
 * is too short for it, the rest is skipped.
 *
 * To make a page of memory and have two processes map it takes longer than to fill it, so a ring whose pages do not exist
 * yet begins with a part of its length, `limit`. The part is doubled when a piece has found no room, or after some rounds, up
 * to the whole ring. So the pages of a busy ring are made little by little, and those of a ring for a few calls are not. In the
 * long run the whole ring is used, so that lines have left the reader's cache before they are written again. */
struct tu_staging {
  uint64_t offset; /* offset of the ring in the segment */
  uint64_t bytes;  /* size of the ring; 0: no ring yet */
  uint64_t limit;  /* bytes of the part that is in use */
  uint64_t filled;
  uint64_t at; /* offset in the ring where the next piece begins */
  struct tu_staging_ring *ring;
  uint64_t made; /* bytes of the ring whose pages were made, or are left to page faults */
  bool *
      outgrown; /* set to true once limit is above made, and once the ring has wrapped TU_STAGING_WRAPS times, if it grows */
  bool grows;     /* true: the ring may be replaced by a longer one */
  bool full;      /* a piece has found no room in the part in use */
  uint32_t wraps; /* how often the part in use has wrapped */
};

/* Number of wraps after which the part in use is doubled, and after which a ring is replaced by a longer one: its channel is
 * busy, so a longer ring is worth its memory. */
#define TU_STAGING_WRAPS 16u

/* Bytes of the part with which a ring begins if its pages do not exist yet. In the simulated world, two lines. */
#ifndef TU_STAGING_PART
#define TU_STAGING_PART ((uint64_t)8 << 10)
#endif

/* Bytes left unused in a ring after a short piece, because the reader's prefetcher reads ahead into these bytes. If the
 * next piece were there, its lines would first have to come back from the reader's cache. That costs more than writing
 * the piece (1 KiB allreduce of two ranks: 0.36 us without the gap, 0.18 us with it). */
#define TU_STAGING_GAP 1024u
/* Bytes that a piece takes in a ring that is not short, with the gap behind it. */
static inline uint64_t tu_staging_spaced(size_t piece_bytes) {
  return tu_round_up(piece_bytes, TU_LINE_BYTES) + (piece_bytes < 8 * TU_STAGING_GAP ? TU_STAGING_GAP : 0);
}
static inline uint64_t tu_staging_need(const struct tu_staging *s, size_t piece_bytes) {
  return s->bytes >= 64 * TU_STAGING_GAP ? tu_staging_spaced(piece_bytes) : tu_round_up(piece_bytes, TU_LINE_BYTES);
}

/* As tu_staging_room, if the piece does not fit into the rest of the part in use. The part cannot get longer while pieces
 * from before its last wrap are in it. */
static inline uint64_t tu_staging_turn(const struct tu_staging *s, uint64_t freed, uint64_t need) {
  if (s->limit < s->bytes && (s->full || s->wraps >= TU_STAGING_WRAPS))
    return s->filled - freed <= s->at ? s->offset + s->at : 0;
  const uint64_t skip = s->limit - s->at;
  return s->filled + skip + need - freed <= s->limit ? s->offset : 0;
}

/* Returns the offset in the segment of the next piece in the ring, or 0 if there is no room. A piece occupies at most
 * half of a ring, so an empty ring has room, if not at once, then after tu_staging_is_full. */
static inline uint64_t tu_staging_room(const struct tu_staging *s, uint64_t freed, size_t piece_bytes) {
  const uint64_t need = tu_staging_need(s, piece_bytes);
  if (s->at + need > s->limit) return tu_staging_turn(s, freed, need);
  return s->filled + need - freed <= s->limit ? s->offset + s->at : 0;
}

/* To be called if a piece has found no room. Returns true if there may be room now. */
static inline bool tu_staging_is_full(struct tu_staging *s) {
  if (s->full || s->limit == s->bytes) return false;
  return s->full = true;
}

static inline void tu_staging_wrap(struct tu_staging *s) {
  s->at = 0;
  if (++s->wraps >= TU_STAGING_WRAPS && s->limit == s->bytes && s->grows) *s->outgrown = true;
}

/* Makes the part in use long enough for bytes up to `end`. */
static inline void tu_staging_lengthen(struct tu_staging *s, uint64_t end) {
  while (s->limit < end) s->limit = tu_min(2 * s->limit, s->bytes);
  s->full = false;
  s->wraps = 0;
  if (s->outgrown && s->limit > s->made) *s->outgrown = true;
}

/* Marks the piece at `offset` (in the segment) as written, so that the next piece goes behind it. */
static inline void tu_staging_fill(struct tu_staging *s, uint64_t offset, size_t piece_bytes) {
  uint64_t need = tu_staging_need(s, piece_bytes);
  if (offset != s->offset + s->at) {
    s->filled += s->limit - s->at;
    tu_staging_wrap(s);
  } else if (s->at + need > s->limit) {
    tu_staging_lengthen(s, s->at + need);
  }
  s->filled += need;
  s->at += need;
  if (s->at == s->bytes) tu_staging_wrap(s);
}

/* Changes to another, empty ring for further pieces. until: number of slices that were written before the change. In a
 * ring for several readers (cast.h), it is the number of pieces instead. */
static inline void tu_staging_change(struct tu_staging *s, struct tu_staging_ring *ring, uint32_t until) {
  if (s->ring) s->ring->until = until;
  ring->older = s->ring;
  s->ring = ring;
  s->offset = ring->offset;
  s->bytes = ring->bytes;
  s->limit = s->made = ring->made ? ring->bytes : tu_min(ring->bytes, TU_STAGING_PART);
  s->full = false;
  s->at = s->wraps = 0;
}

struct tu_receiver;

struct tu_sender {
  struct tu_line *lines;
  struct tu_credit_line *credit;
  unsigned char *base; /* address in this process of offset 0 of the segment */
  uint32_t sent, taken_seen;
  uint32_t credits;
  uint32_t peer, bell;
  /* if the next slice is a joined message (it carries the data of several send steps): number of its parts written so
   * far */
  uint32_t parts_filled;
  uint64_t tickets, served; /* number of tickets drawn, and number of messages sent completely */
  struct tu_receiver *back; /* receiver of the opposite channel (peer to this rank), or NULL */
  uint64_t offset;          /* offset of the channel in the segment */
  struct tu_staging staging;
  /* [credits]: value of staging.filled (bytes written to the ring) before slice n, at index n % credits */
  uint64_t *starts;
  uint64_t next_start; /* value of staging.filled before the next slice */
  /* The ring of bytes that replaces the current one as soon as no joined message (of several send steps) is partly
   * written; NULL: none. */
  struct tu_staging_ring *coming;
  bool remote;                 /* true: the peer is on another host */
  uint32_t slot_bytes;         /* maximum bytes of a staged slice, or, if remote, of a lent one */
  _Atomic uint32_t dispatched; /* remote: number of slices whose payload the wire has read */
};

struct tu_receiver {
  struct tu_line *lines; /* lines of the channel; NULL until the sender's channel is found */
  struct tu_credit_line *credit;
  const unsigned char *base;
  uint32_t received;
  uint32_t credits;
  uint32_t peer, bell;
  uint32_t used; /* number of bytes of the oldest slice that this rank has already read */
  /* if the oldest message is joined (it carries the data of several send steps): number of its parts that were already
   * read */
  uint32_t parts_taken;
  /* number of slices of the opposite channel (from this rank to the peer) that the peer has taken, as its lines
   * state */
  uint32_t peer_taken;
  const unsigned char *expected; /* where the payload of the next slice probably is; at first `base` */
  uint32_t next_timed;           /* number of the next slice for which the transfer time of its line is measured */
  uint32_t far_samples;          /* score of time measurements; high: the two ranks share no cache (channel.c) */
  bool far;
  uint64_t tickets, served;
  uint32_t lane;                /* lane under which the sender announces the channel */
  struct tu_aim *aims;          /* [TU_POSTS]: targets, if the peer is on another host; else NULL */
  struct tu_matching *matching; /* matches the tags of messages; only for send and recv */
};

/* Returns true if the receiver has taken all slices up to number `sequence`. */
static inline bool tu_sender_taken(struct tu_sender *s, uint32_t sequence) {
  if ((int32_t)(s->taken_seen - sequence) >= 0) return true;
  if (s->back && (int32_t)(s->back->peer_taken - s->taken_seen) > 0) s->taken_seen = s->back->peer_taken;
  if ((int32_t)(s->taken_seen - sequence) >= 0) return true;
  s->taken_seen = atomic_load_explicit(&s->credit->taken, memory_order_acquire);
  return (int32_t)(s->taken_seen - sequence) >= 0;
}

/* For a remote peer: returns how many slices up to number `sequence` the wire has not read yet. */
static inline uint32_t tu_sender_unread(const struct tu_sender *s, uint32_t sequence) {
  const uint32_t left = sequence - atomic_load_explicit(&s->dispatched, memory_order_acquire);
  return (int32_t)left > 0 ? left : 0;
}

/* Returns true if the memory of all lent slices up to number `sequence` is the user's again. */
static inline bool tu_sender_returned(struct tu_sender *s, uint32_t sequence) {
  return s->remote ? tu_sender_unread(s, sequence) == 0 : tu_sender_taken(s, sequence);
}

/* Returns true if the sender has a credit for the next slice: a line whose previous slice the receiver has taken. */
static inline bool tu_sender_ready(struct tu_sender *s) {
  return s->sent - s->taken_seen < s->credits || tu_sender_taken(s, s->sent - s->credits + 1);
}

static inline struct tu_line *tu_sender_line(struct tu_sender *s) { return &s->lines[s->sent & (s->credits - 1)]; }

/* Returns the offset in the segment for the next slice of `bytes` bytes (at most slot_bytes), or 0 if there is no room.
 * The sender must have a credit. */
static inline uint64_t tu_sender_room(struct tu_sender *s, size_t bytes) {
  for (int look = 0; look < 3; look++) {
    uint64_t freed = s->taken_seen == s->sent ? s->staging.filled : s->starts[s->taken_seen & (s->credits - 1)];
    uint64_t offset = tu_staging_room(&s->staging, freed, bytes);
    if (offset || (!tu_sender_taken(s, s->taken_seen + 1) && !tu_staging_is_full(&s->staging))) return offset;
  }
  tu_assert(s->staging.bytes > 0); /* the caller has called tu_mover_reserve, so a ring exists */
  return 0;
}

/* Changes to the next ring of bytes, if one is prepared and no joined message (of several send steps) is partly
 * written. Slices that are not yet taken stay in the old ring. */
static inline void tu_sender_renew(struct tu_sender *s) {
  if (!s->coming || s->parts_filled > 0) return;
  tu_staging_change(&s->staging, s->coming, s->sent);
  s->coming = NULL;
  for (uint32_t i = 0; i < s->credits; i++) s->starts[i] = s->staging.filled;
  s->next_start = s->staging.filled;
}

/* Completes the line of the next slice and publishes the slice, whose payload is already written. The caller then rings
 * the receiver's bell. */
static inline void tu_sender_commit(struct tu_sender *s, size_t bytes, uint64_t tag, uint64_t message_bytes,
                                    enum tu_where where) {
  struct tu_line *line = tu_sender_line(s);
  s->starts[s->sent & (s->credits - 1)] = s->next_start;
  s->next_start = s->staging.filled;
  line->taken = s->back ? s->back->received : 0;
  line->bytes = (uint32_t)bytes;
  line->where = (uint8_t)where;
  line->tag = tag;
  line->message_bytes = message_bytes;
  atomic_store_explicit(&line->sequence, ++s->sent, memory_order_release);
}

/* Returns true if the receiver has taken all slices that were sent. */
static inline bool tu_sender_drained(const struct tu_sender *s) {
  return atomic_load_explicit(&s->credit->taken, memory_order_acquire) == s->sent;
}

/* Returns the offset in the segment where the receiver wants the message with that ticket to be stored; 0: the receiver
 * has posted none. */
static inline uint64_t tu_sender_posted(const struct tu_sender *s, uint64_t ticket) {
  const struct tu_post *post = &s->credit->posts[ticket % TU_POSTS];
  return atomic_load_explicit(&post->ticket, memory_order_acquire) == ticket + 1 ? post->offset : 0;
}

/* Returns true if lines take long from this rank to the receiver, as the receiver has measured. Then overwriting lines that
 * are in the peer's cache may be slow, too (tu_fills_past). The result may change, because the system may move ranks to other
 * cores. */
static inline bool tu_sender_far(const struct tu_sender *s) {
  return atomic_load_explicit(&s->credit->far, memory_order_relaxed) != 0;
}

#define TU_STREAM_BYTES 2048u /* slices of fewer bytes never get non-temporal stores */

/* How fast this rank overwrites lines that are in the cache of a rank to which lines take long. Between two caches (AMD Zen)
 * that takes several times as long as writing past the caches; within one large cache (Intel's meshes) it is faster. All 0 at
 * first: slow, and not measured yet. */
struct tu_fills {
  bool slow; /* true: it is slow, whatever is measured (tu_cpus_are_amd) */
  bool fast;
  bool measured; /* this rank has made a measurement that agrees with `fast` */
  uint8_t score; /* of measurements: at TU_FILLS_SURE it becomes fast, at 0 slow */
  uint32_t left; /* number of slices until the next measurement */
  /* Whether it is fast, as a rank of this host has found last, for ranks and communicators that have not measured it yet; 0:
   * no, or not known. NULL: each for itself. */
  _Atomic uint32_t *found;
};

#define TU_FILLS_SURE 6u

/* Returns true if overwriting is fast. If this rank has not measured it, first takes over what another one has found. */
static inline bool tu_fills_fast(struct tu_fills *f) {
  if (f->slow) return false;
  const bool found = !f->measured && f->found ? atomic_load_explicit(f->found, memory_order_relaxed) != 0 : f->fast;
  if (found != f->fast) {
    f->fast = found;
    f->score = found ? TU_FILLS_SURE : 0;
  }
  return f->fast;
}

/* Returns how long it takes to overwrite the lines of TU_STREAM_BYTES bytes at `to`, in ns; whether that is fast; and takes
 * note of a measurement. */
uint64_t tu_fills_time(unsigned char *to);
bool tu_fills_is_fast(uint64_t ns);
void tu_fills_note(struct tu_fills *f, uint64_t ns);

/* Returns where the time of overwriting can be measured before a slice is written at `to`, in that ring: there, if the ring is
 * full of lines that the peer has read; otherwise nowhere (NULL). */
static inline unsigned char *tu_fills_place(const struct tu_staging *ring, unsigned char *to) {
  return ring->wraps > 0 ? to : NULL;
}

/* Returns true if a slice of TU_STREAM_BYTES or more for a far rank should be written past the caches. Measures now and then: by
 * overwriting TU_STREAM_BYTES bytes at `place`, where the slice will be written; NULL: not now. */
static inline bool tu_fills_past(struct tu_fills *f, unsigned char *place) {
  if (f->slow) return true;
  if (f->left > 0) f->left--;
  else if (place) tu_fills_note(f, tu_fills_time(place));
  return !tu_fills_fast(f);
}

/* If lines take long to that rank, but are overwritten fast: claims those where the next slice of as many bytes will probably be
 * written. Not if the rank has long sent back nothing: then it is probably behind, this rank does not wait for it, and claiming
 * only disturbs its reading (16 KiB scans of two ranks, one after the other: 0.8 of the speed). */
static inline void tu_fills_claim(const struct tu_fills *f, const struct tu_staging *ring, const struct tu_sender *to,
                                  size_t bytes) {
  if (!to->back || to->sent - to->back->peer_taken > to->credits) return;
  if (!f->fast || !tu_sender_far(to) || ring->wraps == 0 || ring->at + bytes > ring->limit) return;
  tu_claim_lines(to->base + ring->offset + ring->at, bytes);
}

/* Returns true if the next slice has arrived. Measures the time that the read of the slice's line takes. */
bool tu_receiver_time(struct tu_receiver *r, const struct tu_line *line);

/* Returns the line (header) of the next slice, or NULL if the slice has not arrived. */
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

/* Returns where the payload of a slice lies, which is TU_IN_SEGMENT. */
static inline const unsigned char *tu_receiver_payload(const struct tu_receiver *r, const struct tu_line *line) {
  return line->message_bytes <= TU_INLINE_BYTES ? line->at.payload : r->base + line->at.offset;
}

/* Notes where the payload of the slice after this one, which is staged and short, will probably be. */
static inline void tu_receiver_expect(struct tu_receiver *r, const struct tu_line *line) {
  r->expected = r->base + line->at.offset + tu_staging_spaced(line->bytes);
}

/* Gives the oldest slice's credit back to the sender. From now on the sender may overwrite the slice's payload. The
 * caller then rings the sender's bell. */
static inline void tu_receiver_release(struct tu_receiver *r) {
  r->used = 0;
  atomic_store_explicit(&r->credit->taken, ++r->received, memory_order_release);
}

/* Returns true if a target (receive buffer) may be posted for the message with this ticket. The table has TU_POSTS
 * entries, and an entry is reused only after its message was received. */
static inline bool tu_receiver_may_post(const struct tu_receiver *r, uint64_t ticket) {
  return r->lines && ticket < r->served + TU_POSTS;
}

/* Posts memory as the target for a message from another host: from now on the wire may write there. */
static inline void tu_receiver_aim(struct tu_receiver *r, uint64_t ticket, void *to, uint64_t tag, size_t bytes) {
  struct tu_aim *aim = &r->aims[ticket % TU_POSTS];
  aim->to = to;
  aim->tag = tag;
  aim->bytes = bytes;
  atomic_store_explicit(&aim->ticket, ticket + 1, memory_order_release);
}

/* Posts the memory at `offset` in the segment as the target: from now on the sender may store the message with this
 * ticket there. */
static inline void tu_receiver_post(struct tu_receiver *r, uint64_t ticket, uint64_t offset) {
  struct tu_post *post = &r->credit->posts[ticket % TU_POSTS];
  post->offset = offset;
  atomic_store_explicit(&post->ticket, ticket + 1, memory_order_release);
}

#endif
