/* lossy.h: a wire that loses packets, doubles them, damages them, changes their order, and is down for a while, all by a
 * seed; and a transport for threads that is declared unreliable: what channels carry goes over such wires. The rest (boards,
 * directories, bells) is in the memory of the loop transport that it stands on. */
#ifndef LOSSY_H
#define LOSSY_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "transport/transport.h"

enum { LOSSY_PACKET_BYTES = 2048, LOSSY_HELD = 512, LOSSY_BEHIND = 8, LOSSY_RANKS = 16 };

/* How often, of 10,000 packets. */
struct lossy_faults {
  uint32_t lost, doubled, damaged, late; /* late: put in front of up to LOSSY_BEHIND others */
  uint32_t outages;                      /* times that the wire goes down, for the next outage_packets packets */
  uint32_t outage_packets;
};

static const struct lossy_faults lossy_usual = {
    .lost = 100, .doubled = 100, .damaged = 20, .late = 100, .outages = 2, .outage_packets = 20};

struct lossy_packet {
  uint32_t from;
  uint64_t port;
  size_t bytes;
  unsigned char data[LOSSY_PACKET_BYTES];
};

struct lossy_counts {
  uint64_t sent, lost, doubled, damaged, late, outages, overflown;
};

/* Packets on their way to one end. */
struct lossy_wire {
  pthread_mutex_t lock;
  struct lossy_faults faults;
  uint64_t seed;
  uint32_t held, down_for; /* packets */
  struct lossy_packet *packets[LOSSY_HELD];
  struct lossy_counts counts;
  _Atomic bool down; /* until somebody says otherwise */
};

static inline void lossy_wire_init(struct lossy_wire *w, struct lossy_faults faults, uint64_t seed) {
  *w = (struct lossy_wire){.faults = faults, .seed = seed};
  pthread_mutex_init(&w->lock, NULL);
  for (int i = 0; i < LOSSY_HELD; i++)
    if (!(w->packets[i] = malloc(sizeof *w->packets[i]))) abort();
}

static inline void lossy_wire_fini(struct lossy_wire *w) {
  for (int i = 0; i < LOSSY_HELD; i++) free(w->packets[i]);
  pthread_mutex_destroy(&w->lock);
}

static inline bool lossy_happens(struct lossy_wire *w, uint32_t of_10000, uint64_t *count) {
  bool happens = of_10000 > 0 && tu_random(&w->seed) % 10000 < of_10000;
  *count += happens;
  return happens;
}

static inline bool lossy_is_down(struct lossy_wire *w) {
  if (w->down_for == 0 && lossy_happens(w, w->faults.outages, &w->counts.outages))
    w->down_for = w->faults.outage_packets;
  if (w->down_for > 0) w->down_for--;
  return w->down || w->down_for > 0;
}

/* One copy, at the end or before some others. */
static inline void lossy_enqueue(struct lossy_wire *w, uint32_t from, uint64_t port, const void *data, size_t bytes) {
  if (w->held == LOSSY_HELD) {
    w->counts.overflown++;
    return;
  }
  struct lossy_packet *packet = w->packets[w->held];
  *packet = (struct lossy_packet){.from = from, .port = port, .bytes = bytes};
  memcpy(packet->data, data, bytes);
  if (lossy_happens(w, w->faults.damaged, &w->counts.damaged))
    packet->data[tu_random(&w->seed) % bytes] ^= (unsigned char)(1u << tu_random(&w->seed) % 8);
  uint32_t at = w->held++;
  if (lossy_happens(w, w->faults.late, &w->counts.late))
    at -= (uint32_t)tu_min(at, 1 + tu_random(&w->seed) % LOSSY_BEHIND);
  memmove(w->packets + at + 1, w->packets + at, (w->held - 1 - at) * sizeof *w->packets);
  w->packets[at] = packet;
}

static inline void lossy_put(struct lossy_wire *w, uint32_t from, uint64_t port, const void *data, size_t bytes) {
  tu_assert(bytes <= LOSSY_PACKET_BYTES);
  pthread_mutex_lock(&w->lock);
  w->counts.sent++;
  bool lost = lossy_is_down(w);
  lost |= lossy_happens(w, w->faults.lost, &w->counts.lost);
  if (!lost) lossy_enqueue(w, from, port, data, bytes);
  if (!lost && lossy_happens(w, w->faults.doubled, &w->counts.doubled)) lossy_enqueue(w, from, port, data, bytes);
  pthread_mutex_unlock(&w->lock);
}

static inline size_t lossy_take(struct lossy_wire *w, uint64_t port, uint32_t *from, void *data) {
  size_t bytes = 0;
  pthread_mutex_lock(&w->lock);
  for (uint32_t i = 0; i < w->held; i++) {
    struct lossy_packet *packet = w->packets[i];
    if (packet->port != port) continue;
    bytes = packet->bytes;
    *from = packet->from;
    memcpy(data, packet->data, bytes);
    memmove(w->packets + i, w->packets + i + 1, (w->held - 1 - i) * sizeof *w->packets);
    w->packets[--w->held] = packet;
    break;
  }
  /* What nobody takes, of communicators that are gone, makes room. */
  if (w->held > LOSSY_HELD / 2 && bytes == 0) {
    struct lossy_packet *oldest = w->packets[0];
    memmove(w->packets, w->packets + 1, (w->held - 1) * sizeof *w->packets);
    w->packets[--w->held] = oldest;
  }
  pthread_mutex_unlock(&w->lock);
  return bytes;
}

/* ---- the transport ---- */

/* As many worlds at a time as there are tests that need one: one. */
static struct {
  struct lossy_wire wires[LOSSY_RANKS]; /* to each rank */
  struct tu_transport_ops ops;
  uint32_t ranks;
} lossy;

static inline void lossy_send(struct tu_transport *t, uint32_t rank, uint64_t port, const void *packet, size_t bytes) {
  lossy_put(&lossy.wires[rank], t->rank, port, packet, bytes);
}
static inline size_t lossy_receive(struct tu_transport *t, uint64_t port, uint32_t *rank, void *packet) {
  return lossy_take(&lossy.wires[t->rank], port, rank, packet);
}

static inline tutti_err lossy_create(uint32_t ranks, size_t slice_bytes, struct lossy_faults faults, uint64_t seed,
                                     struct tu_transport *endpoints[], struct tu_error *error) {
  tutti_err err = tu_loop_create(ranks, slice_bytes, endpoints, error);
  if (err != TUTTI_OK) return err;
  tu_assert(ranks <= LOSSY_RANKS);
  lossy.ranks = ranks;
  lossy.ops = *endpoints[0]->ops;
  lossy.ops.name = "lossy";
  lossy.ops.unreliable = true;
  lossy.ops.packet_bytes = LOSSY_PACKET_BYTES;
  lossy.ops.send = lossy_send;
  lossy.ops.receive = lossy_receive;
  for (uint32_t rank = 0; rank < ranks; rank++) {
    lossy_wire_init(&lossy.wires[rank], faults, tu_random(&seed));
    endpoints[rank]->ops = &lossy.ops;
  }
  return TUTTI_OK;
}

/* When all endpoints are closed. */
static inline struct lossy_counts lossy_end(void) {
  struct lossy_counts sum = {0};
  for (uint32_t rank = 0; rank < lossy.ranks; rank++) {
    const struct lossy_counts *c = &lossy.wires[rank].counts;
    sum.sent += c->sent, sum.lost += c->lost, sum.doubled += c->doubled, sum.damaged += c->damaged;
    sum.late += c->late, sum.outages += c->outages, sum.overflown += c->overflown;
    lossy_wire_fini(&lossy.wires[rank]);
  }
  return sum;
}

/* All packets to that rank are lost from now on, or not any more. */
static inline void lossy_cut(uint32_t rank, bool down) { lossy.wires[rank].down = down; }

#endif
