/* reliable.c: a sliding window. Only the oldest packet has a timer: what follows it has probably arrived. */
#include "mover/reliable.h"

#include <stdlib.h>
#include <string.h>

enum { BACKOFF_MAX = 4 }; /* doublings */

struct head {
  uint64_t check;    /* of all that follows */
  uint32_t sequence; /* number of the message */
  uint32_t ack;      /* all up to this one have been taken */
  uint32_t bytes;    /* of the message; 0: an acknowledgement alone */
  uint32_t beyond;   /* the one after `ack` is missing, and later ones are here */
};
_Static_assert(sizeof(struct head) == TU_RELIABLE_HEAD_BYTES, "the head of a packet has no gaps");

static struct tu_reliable_window make_window(const struct tu_reliable_shape *shape) {
  return (struct tu_reliable_window){.packets = tu_allocate(shape->window, shape->packet_bytes),
                                     .bytes = tu_allocate(shape->window, sizeof(uint32_t))};
}

void tu_reliable_init(struct tu_reliable *r, struct tu_reliable_shape shape) {
  tu_assert(shape.window > 0 && (shape.window & (shape.window - 1)) == 0);
  tu_assert(shape.packet_bytes > TU_RELIABLE_HEAD_BYTES && shape.packet_bytes % 8 == 0);
  *r = (struct tu_reliable){.shape = shape, .out = make_window(&shape), .in = make_window(&shape)};
}

void tu_reliable_fini(struct tu_reliable *r) {
  struct tu_reliable_window *windows[] = {&r->out, &r->in};
  for (int i = 0; i < 2; i++) {
    free(windows[i]->packets);
    free(windows[i]->bytes);
  }
}

static uint32_t place_of(const struct tu_reliable *r, uint32_t sequence) { return sequence & (r->shape.window - 1); }
static unsigned char *packet_at(const struct tu_reliable *r, const struct tu_reliable_window *w, uint32_t sequence) {
  return w->packets + (size_t)place_of(r, sequence) * r->shape.packet_bytes;
}

/* ---- messages ---- */

unsigned char *tu_reliable_place(struct tu_reliable *r) {
  tu_assert(tu_reliable_ready(r));
  return packet_at(r, &r->out, r->sent + 1) + TU_RELIABLE_HEAD_BYTES;
}

void tu_reliable_put(struct tu_reliable *r, uint32_t bytes, uint64_t now) {
  tu_assert(tu_reliable_ready(r) && bytes > 0 && bytes <= tu_reliable_bytes_max(r));
  if (tu_reliable_quiet(r)) r->moved_at = now;
  r->out.bytes[place_of(r, ++r->sent)] = bytes;
}

const unsigned char *tu_reliable_get(const struct tu_reliable *r, uint32_t *bytes) {
  *bytes = r->in.bytes[place_of(r, r->taken + 1)];
  return *bytes ? packet_at(r, &r->in, r->taken + 1) + TU_RELIABLE_HEAD_BYTES : NULL;
}

void tu_reliable_release(struct tu_reliable *r) {
  tu_assert(r->in.bytes[place_of(r, r->taken + 1)] > 0);
  r->in.bytes[place_of(r, ++r->taken)] = 0;
  r->held--;
  r->owes = true;
}

/* ---- packets ---- */

static uint64_t check_of(const struct tu_reliable *r, const unsigned char *packet, size_t bytes) {
  return tu_hash(packet + sizeof(uint64_t), bytes - sizeof(uint64_t), r->shape.session);
}

/* Everything that leaves says how far this end has come. */
static const unsigned char *stamp(struct tu_reliable *r, unsigned char *packet, uint32_t sequence, uint32_t message,
                                  uint32_t *bytes) {
  bool missing = r->held > 0 && r->in.bytes[place_of(r, r->taken + 1)] == 0;
  struct head head = {.sequence = sequence, .ack = r->taken, .bytes = message, .beyond = missing};
  memcpy(packet, &head, sizeof head);
  *bytes = TU_RELIABLE_HEAD_BYTES + message;
  head.check = check_of(r, packet, *bytes);
  memcpy(packet, &head.check, sizeof head.check);
  r->owes = false;
  return packet;
}

/* Is the oldest packet on the wire to be sent again? */
static bool is_overdue(const struct tu_reliable *r, uint64_t now) {
  if (r->wired == r->acked) return false;
  if (r->beyond && !r->hurried) return true;
  uint32_t doublings = (uint32_t)tu_min(r->resent, BACKOFF_MAX);
  return now - r->timed_at >= r->shape.resend_ticks << doublings;
}

const unsigned char *tu_reliable_next(struct tu_reliable *r, uint64_t now, uint32_t *bytes) {
  uint32_t sequence = r->acked + 1;
  if (is_overdue(r, now)) {
    r->hurried = r->beyond;
    r->resent++;
    r->resent_count++;
    r->timed_at = now;
  } else if (r->wired != r->sent) {
    if (r->wired == r->acked) r->timed_at = now;
    sequence = ++r->wired;
  } else if (r->owes) {
    return stamp(r, r->alone, r->sent, 0, bytes);
  } else {
    return NULL;
  }
  return stamp(r, packet_at(r, &r->out, sequence), sequence, r->out.bytes[place_of(r, sequence)], bytes);
}

/* An old acknowledgement that came late says nothing. */
static void take_ack(struct tu_reliable *r, const struct head *head, uint64_t now) {
  uint32_t more = head->ack - r->acked;
  if (more > r->wired - r->acked) return;
  if (more > 0) {
    r->acked = head->ack;
    r->resent = 0;
    r->hurried = false;
    r->timed_at = r->moved_at = now;
  }
  r->beyond = head->beyond != 0;
}

static void take_message(struct tu_reliable *r, const struct head *head, const unsigned char *packet) {
  uint32_t *bytes = &r->in.bytes[place_of(r, head->sequence)];
  r->owes = true; /* also of what came before: its acknowledgement was lost, perhaps */
  if (head->sequence - r->taken - 1 >= r->shape.window || *bytes > 0) {
    r->doubled_count++;
    return;
  }
  memcpy(packet_at(r, &r->in, head->sequence), packet, TU_RELIABLE_HEAD_BYTES + head->bytes);
  *bytes = head->bytes;
  r->held++;
}

bool tu_reliable_take(struct tu_reliable *r, const unsigned char *packet, size_t bytes, uint64_t now) {
  struct head head;
  bool whole = bytes >= sizeof head && bytes <= r->shape.packet_bytes;
  if (whole) memcpy(&head, packet, sizeof head);
  if (!whole || head.bytes != bytes - sizeof head || head.check != check_of(r, packet, bytes)) {
    r->damaged_count++;
    return false;
  }
  take_ack(r, &head, now);
  if (head.bytes > 0) take_message(r, &head, packet);
  return true;
}
