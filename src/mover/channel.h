/* channel.h: how bytes cross: a one-way FIFO of slices between two ranks on one lane of one communicator.
 *
 * Memory of a channel, in its sender's slice: a line that only the receiver writes (`taken`), then `credits` lines and as
 * many slots that only the sender writes. Slice number n uses line and slot n % credits. A slice of up to
 * TU_INLINE_BYTES travels within its line: payload and sequence number in one cache line, one transfer.
 *
 *   sent - taken <= credits: a full ring means that the receiver is slow, not lost.
 *   line.sequence == n + 1 publishes slice n; the release store of it is the only flag.
 *
 * A message is one or more slices; each end of it knows its length beforehand, and every line repeats it. Messages of a channel
 * are used in the order of tickets: a request draws its tickets when it is started, so all messages of an
 * earlier request precede those of a later one. Both ends are single-threaded. */
#ifndef TU_CHANNEL_H
#define TU_CHANNEL_H

#include <stdatomic.h>

#include "base/base.h"

#define TU_INLINE_BYTES 40u

struct tu_line {
  _Alignas(TU_LINE_BYTES) _Atomic uint32_t sequence;
  uint32_t bytes;         /* of this slice */
  uint64_t tag;           /* whose message it is: number and hash of the call; the tag of a send */
  uint64_t message_bytes; /* of all its slices */
  unsigned char payload[TU_INLINE_BYTES];
};
_Static_assert(sizeof(struct tu_line) == TU_LINE_BYTES, "a line is a cache line");

struct tu_credit_line {
  _Alignas(TU_LINE_BYTES) _Atomic uint32_t taken;
};

struct tu_channel_shape {
  uint32_t credits;    /* a power of two */
  uint32_t slot_bytes; /* a multiple of 64 */
};

static inline size_t tu_channel_slots_at(struct tu_channel_shape s) {
  return tu_round_up((1 + (size_t)s.credits) * TU_LINE_BYTES, 4096);
}
static inline size_t tu_channel_bytes(struct tu_channel_shape s) {
  return tu_channel_slots_at(s) + (size_t)s.credits * s.slot_bytes;
}

struct tu_sender {
  struct tu_line *lines;
  unsigned char *slots;
  struct tu_credit_line *credit;
  uint32_t sent, taken_seen;
  uint32_t credits, slot_bytes;
  uint64_t tickets, served; /* tickets drawn; messages completely sent */
  uint32_t parts_filled;    /* of the message that is being put together */
  uint32_t peer, world_peer;
  uint64_t place;
};

struct tu_receiver {
  struct tu_line *lines; /* NULL until the sender has opened the channel */
  unsigned char *slots;
  struct tu_credit_line *credit;
  uint32_t received;
  uint32_t credits, slot_bytes;
  uint64_t tickets, served;
  uint32_t parts_taken; /* of the message in front */
  uint32_t peer, world_peer;
  const _Atomic uint64_t *opened; /* where the sender announces the channel's place */
  struct tu_matching *matching;   /* point-to-point only */
};

/* The line of the next slice, or NULL if there is no credit. */
static inline struct tu_line *tu_sender_line(struct tu_sender *s) {
  if (s->sent - s->taken_seen == s->credits) {
    s->taken_seen = atomic_load_explicit(&s->credit->taken, memory_order_acquire);
    if (s->sent - s->taken_seen == s->credits) return NULL;
  }
  return &s->lines[s->sent & (s->credits - 1)];
}

/* Where the payload of the next slice goes; there must be a credit. */
static inline void *tu_sender_payload(struct tu_sender *s, size_t bytes) {
  uint32_t index = s->sent & (s->credits - 1);
  return bytes <= TU_INLINE_BYTES ? (void *)s->lines[index].payload : s->slots + (size_t)index * s->slot_bytes;
}

/* Publishes the slice; the caller then rings the receiver's bell. */
static inline void tu_sender_commit(struct tu_sender *s, size_t bytes, uint64_t tag, uint64_t message_bytes) {
  struct tu_line *line = &s->lines[s->sent & (s->credits - 1)];
  line->bytes = (uint32_t)bytes;
  line->tag = tag;
  line->message_bytes = message_bytes;
  atomic_store_explicit(&line->sequence, ++s->sent, memory_order_release);
}

/* Has everything that was sent been taken? */
static inline bool tu_sender_drained(const struct tu_sender *s) {
  return atomic_load_explicit(&s->credit->taken, memory_order_acquire) == s->sent;
}

/* The line of the next slice, or NULL if it is not there yet. */
static inline const struct tu_line *tu_receiver_line(const struct tu_receiver *r) {
  const struct tu_line *line = &r->lines[r->received & (r->credits - 1)];
  return atomic_load_explicit(&line->sequence, memory_order_acquire) == r->received + 1 ? line : NULL;
}

static inline const void *tu_receiver_payload(const struct tu_receiver *r, const struct tu_line *line) {
  if (line->bytes <= TU_INLINE_BYTES) return line->payload;
  return r->slots + (size_t)(r->received & (r->credits - 1)) * r->slot_bytes;
}

/* Gives the credit back; the payload may be overwritten from now on. The caller then rings the sender's bell. */
static inline void tu_receiver_release(struct tu_receiver *r) {
  atomic_store_explicit(&r->credit->taken, ++r->received, memory_order_release);
}

#endif
