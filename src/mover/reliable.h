/* reliable.h: one end of a link that may lose packets, double them, damage them, or bring them in another order: what is put in
 * at one end comes out at the other, once and in order.
 *
 * Each message is one packet with a number. A packet waits in its place (number % window) until the other end has said that
 * it has taken all up to it; the oldest is sent again when it has waited long enough, or when the other end holds later ones.
 *
 *   sent - acked <= window: who reads no messages gets no more.
 *   acked <= wired <= sent: wired is how many have been on the wire at least once.
 *
 * There is no clock, wire, thread or lock in here: the caller says what time it is, in ticks of its own, and carries packets.
 * An end costs 2 * window * packet_bytes of memory. */
#ifndef TU_RELIABLE_H
#define TU_RELIABLE_H

#include "base/base.h"

#define TU_RELIABLE_HEAD_BYTES 24u

struct tu_reliable_shape {
  uint32_t packet_bytes; /* the longest packet; a multiple of 8, above TU_RELIABLE_HEAD_BYTES */
  uint32_t window;       /* a power of two */
  uint64_t resend_ticks; /* the first time; then after twice as many, up to 16 times as many */
  uint64_t session;      /* the same at both ends, another for each pair of ends: what is left of others is damaged */
};

/* Packets in places: of messages on their way, or come before their turn. */
struct tu_reliable_window {
  unsigned char *packets;
  uint32_t *bytes; /* of the message; 0: the place is empty */
};

struct tu_reliable {
  struct tu_reliable_shape shape;
  struct tu_reliable_window out, in;
  uint32_t sent, wired, acked; /* messages put in; on the wire; taken by the other end */
  uint32_t taken;              /* messages released here, and so acknowledged */
  uint32_t held;               /* in places of `in` */
  bool owes;                   /* an acknowledgement */
  bool beyond;                 /* the other end holds what follows the oldest: that one is lost */
  bool hurried;                /* ... and it has been sent again for that */
  uint32_t resent;             /* times that the oldest was sent again since anything was acknowledged */
  uint64_t timed_at;           /* when the oldest was last sent */
  uint64_t moved_at;           /* when something was last acknowledged, or the first of what waits was put in */
  uint64_t resent_count, doubled_count, damaged_count;
  unsigned char alone[TU_RELIABLE_HEAD_BYTES]; /* an acknowledgement without a message */
};

void tu_reliable_init(struct tu_reliable *r, struct tu_reliable_shape shape);
void tu_reliable_fini(struct tu_reliable *r);

/* Of a message: 1 to so many bytes. */
static inline uint32_t tu_reliable_bytes_max(const struct tu_reliable *r) {
  return r->shape.packet_bytes - TU_RELIABLE_HEAD_BYTES;
}
/* Is there room for one more message? */
static inline bool tu_reliable_ready(const struct tu_reliable *r) { return r->sent - r->acked < r->shape.window; }
/* Where the next message is to be written; then it is put in. */
unsigned char *tu_reliable_place(struct tu_reliable *r);
void tu_reliable_put(struct tu_reliable *r, uint32_t bytes, uint64_t now);

/* The next message that has come, or NULL; valid until it is released. */
const unsigned char *tu_reliable_get(const struct tu_reliable *r, uint32_t *bytes);
void tu_reliable_release(struct tu_reliable *r);

/* The packet that is to go on the wire now, or NULL; valid until the next call. */
const unsigned char *tu_reliable_next(struct tu_reliable *r, uint64_t now, uint32_t *bytes);
/* A packet that came off the wire; false: it is damaged, or not of this link. */
bool tu_reliable_take(struct tu_reliable *r, const unsigned char *packet, size_t bytes, uint64_t now);

/* Has everything been taken by the other end? */
static inline bool tu_reliable_quiet(const struct tu_reliable *r) { return r->sent == r->acked; }
/* For how long has a message waited while nothing was acknowledged? 0: none waits. */
static inline uint64_t tu_reliable_silence(const struct tu_reliable *r, uint64_t now) {
  return tu_reliable_quiet(r) ? 0 : now - r->moved_at;
}

#endif
