/* relay.c: one thread a rank and communicator, which naps when nothing moves. A message between relays is a part of a slice, or
 * a count of slices taken. Slice n lies, at its receiver, in slot n % credits: there is always room for what a sender may
 * send, so no channel ever waits for another one that shares the link. */
#include "mover/relay.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mover/relay_parts.h"

#define WINDOW 64u
#define RESEND_NS 1000000u
#define NAP_NS_MIN 20000
#define NAP_NS_MAX 200000
#define NS_PER_MS 1000000u

/* ---- what comes ---- */

static void fail(struct tu_relay *r, const struct tu_error *error) {
  r->failed = true;
  tu_verdict_post(&r->mover->block->verdict, error);
  tu_mover_wake_all(r->mover);
}

/* Makes the copy of a channel, and announces it to this rank, as its sender's memory would have been. */
static bool open_copy(struct tu_relay *r, uint32_t peer, uint32_t lane) {
  struct tu_error error;
  struct tu_relay_incoming *in = &r->incoming[peer * TU_MOVER_LANES + lane];
  size_t head = tu_channel_bytes(r->shape), slots = (size_t)r->shape.credits * r->shape.slot_bytes;
  unsigned char *memory = tu_transport_acquire(r->mover->transport, head + slots, &in->place, &error);
  if (!memory) {
    fail(r, &error);
    return false;
  }
  memset(memory, 0, head);
  in->credit = (struct tu_credit_line *)(void *)memory;
  in->lines = (struct tu_line *)(void *)(memory + sizeof *in->credit);
  in->slots = memory + head;
  in->slots_place = in->place + head;
  tu_mover_set_copy(r->mover, peer, lane, in->place);
  return true;
}

/* The other end has taken so many. A line may say it sooner than a message of its own does, or later. */
static void advance(const struct tu_relay *r, uint32_t peer, uint32_t lane, uint32_t taken) {
  const struct tu_sender *s = atomic_load(&r->outgoing[peer * TU_MOVER_LANES + lane].sender);
  if (!s || (int32_t)(taken - atomic_load_explicit(&s->credit->taken, memory_order_relaxed)) <= 0) return;
  atomic_store_explicit(&s->credit->taken, taken, memory_order_release);
}

static void take_slice(struct tu_relay *r, uint32_t peer, const struct tu_relay_message *m, const unsigned char *part) {
  struct tu_relay_incoming *in = &r->incoming[peer * TU_MOVER_LANES + m->lane];
  if (!in->slots && !open_copy(r, peer, m->lane)) return;
  uint32_t slot = in->arrived & (r->shape.credits - 1);
  struct tu_line *line = &in->lines[slot];
  size_t offset = (size_t)slot * r->shape.slot_bytes;
  bool is_inline = m->message_bytes <= TU_INLINE_BYTES;
  tu_assert(m->at + m->part <= m->bytes && m->bytes <= (is_inline ? TU_INLINE_BYTES : r->shape.slot_bytes));
  unsigned char *to = is_inline ? line->at.payload : in->slots + offset;
  tu_assert(to);
  memcpy(to + m->at, part, m->part);
  if (m->at + m->part < m->bytes) return;
  advance(r, peer, m->lane, m->taken);
  if (!is_inline) line->at.place = in->slots_place + offset;
  line->taken = m->taken;
  line->bytes = m->bytes;
  line->stored = false;
  line->tag = m->tag;
  line->message_bytes = m->message_bytes;
  atomic_store_explicit(&line->sequence, ++in->arrived, memory_order_release);
}

static void take_message(struct tu_relay *r, uint32_t peer, const unsigned char *bytes) {
  struct tu_relay_message m;
  memcpy(&m, bytes, sizeof m);
  tu_assert(m.lane < TU_MOVER_LANES);
  switch ((enum tu_relay_kind)m.kind) {
    case TU_RELAY_SLICE: take_slice(r, peer, &m, bytes + sizeof m); return;
    case TU_RELAY_TAKEN: advance(r, peer, m.lane, m.taken); return;
    case TU_RELAY_LINE: tu_relay_take_line(r, peer, &m, bytes + sizeof m); return;
    case TU_RELAY_COUNTS: tu_relay_take_counts(r, peer, &m); return;
  }
  tu_assert(false); /* a message of no kind */
}

static bool take_packets(struct tu_relay *r) {
  struct tu_transport *t = r->mover->transport;
  bool moved = false;
  uint32_t from, length;
  size_t bytes;
  while ((bytes = t->ops->receive(t, r->mover->block->session, &from, r->packet)) > 0) {
    uint32_t peer = 0;
    while (peer < r->mover->ranks && r->mover->members[peer] != from) peer++;
    if (peer == r->mover->ranks || !tu_reliable_take(&r->links[peer], r->packet, bytes, tu_clock_ns())) continue;
    const unsigned char *message;
    while (!r->failed && (message = tu_reliable_get(&r->links[peer], &length)) != NULL) {
      take_message(r, peer, message);
      tu_reliable_release(&r->links[peer]);
    }
    moved = true;
  }
  return moved;
}

/* ---- what goes ---- */

/* The next part of a slice that its sender has published. */
static void put_part(struct tu_relay *r, uint32_t peer, uint32_t lane, const struct tu_sender *s,
                     const struct tu_line *line) {
  struct tu_reliable *link = &r->links[peer];
  struct tu_relay_outgoing *out = &r->outgoing[peer * TU_MOVER_LANES + lane];
  bool is_inline = line->message_bytes <= TU_INLINE_BYTES;
  const unsigned char *from = is_inline ? line->at.payload : s->base + line->at.place;
  uint32_t room = tu_reliable_bytes_max(link) - (uint32_t)sizeof(struct tu_relay_message);
  struct tu_relay_message m = {
      .kind = TU_RELAY_SLICE, .lane = lane, .taken = line->taken, .bytes = line->bytes, .at = out->part_at};
  m.part = (uint32_t)tu_min(room, line->bytes - out->part_at);
  m.tag = line->tag;
  m.message_bytes = line->message_bytes;
  tu_assert(!line->stored);
  unsigned char *to = tu_reliable_place(link);
  memcpy(to, &m, sizeof m);
  memcpy(to + sizeof m, from + m.at, m.part);
  tu_reliable_put(link, (uint32_t)sizeof m + m.part, tu_clock_ns());
  out->part_at += m.part;
  if (out->part_at < line->bytes) return;
  out->part_at = 0;
  out->carried++;
}

static bool carry_slices(struct tu_relay *r, uint32_t peer, uint32_t lane) {
  const struct tu_relay_outgoing *out = &r->outgoing[peer * TU_MOVER_LANES + lane];
  const struct tu_sender *s = atomic_load_explicit(&out->sender, memory_order_acquire);
  bool moved = false;
  while (s && tu_reliable_ready(&r->links[peer])) {
    const struct tu_line *line = &s->lines[out->carried & (r->shape.credits - 1)];
    if (atomic_load_explicit(&line->sequence, memory_order_acquire) != out->carried + 1) break;
    put_part(r, peer, lane, s, line);
    moved = true;
  }
  return moved;
}

static bool tell_taken(struct tu_relay *r, uint32_t peer, uint32_t lane) {
  struct tu_relay_incoming *in = &r->incoming[peer * TU_MOVER_LANES + lane];
  struct tu_reliable *link = &r->links[peer];
  if (!in->lines || !tu_reliable_ready(link)) return false;
  struct tu_relay_message m = {.kind = TU_RELAY_TAKEN, .lane = lane};
  m.taken = atomic_load_explicit(&in->credit->taken, memory_order_acquire);
  if (m.taken == in->told) return false;
  memcpy(tu_reliable_place(link), &m, sizeof m);
  tu_reliable_put(link, sizeof m, tu_clock_ns());
  in->told = m.taken;
  return true;
}

static bool send_packets(struct tu_relay *r, uint32_t peer) {
  struct tu_transport *t = r->mover->transport;
  const unsigned char *packet;
  uint32_t bytes;
  bool moved = false;
  while ((packet = tu_reliable_next(&r->links[peer], tu_clock_ns(), &bytes)) != NULL) {
    t->ops->send(t, r->mover->members[peer], r->mover->block->session, packet, bytes);
    moved = true;
  }
  return moved;
}

static bool has_departed(const struct tu_relay *r, uint32_t peer) {
  return atomic_load(&r->mover->boards[peer].departed) != 0;
}

static void look_for_silence(struct tu_relay *r, uint32_t peer) {
  uint64_t patience = atomic_load_explicit(&r->patience_ns, memory_order_relaxed);
  uint64_t now = tu_clock_ns(), silence = tu_reliable_silence(&r->links[peer], now);
  /* Who has not come is late; the link is not to blame. */
  if (r->since[peer] == 0 && atomic_load(&r->mover->boards[peer].relays)) r->since[peer] = now;
  if (r->since[peer] == 0 || patience == 0 || has_departed(r, peer)) return;
  if (silence < patience || now - r->since[peer] < patience) return;
  const struct tu_reliable *link = &r->links[peer];
  struct tu_error error;
  tu_fail(
      &error, TUTTI_ERR_PEER,
      "the link from rank %u to rank %u is down: %u messages wait, the oldest has been sent %u times, and nothing was "
      "acknowledged for %llu ms",
      r->mover->rank, peer, link->sent - link->acked, link->resent + 1, (unsigned long long)(silence / NS_PER_MS));
  fail(r, &error);
}

static bool serve(struct tu_relay *r, uint32_t peer) {
  bool moved = false;
  for (uint32_t lane = 0; lane < TU_MOVER_LANES; lane++) {
    moved |= carry_slices(r, peer, lane);
    moved |= tell_taken(r, peer, lane);
  }
  moved |= tu_relay_carry_streams(r, peer);
  moved |= send_packets(r, peer);
  look_for_silence(r, peer);
  atomic_store(&r->quiet[peer], (!moved && tu_reliable_quiet(&r->links[peer])) || has_departed(r, peer));
  return moved;
}

/* ---- the thread ---- */

static void nap(long ns) {
  struct timespec t = {.tv_nsec = ns};
  (void)nanosleep(&t, NULL);
}

static void make_links(struct tu_relay *r) {
  const struct tu_mover *m = r->mover;
  r->shape = m->block->shape;
  for (uint32_t peer = 0; peer < m->ranks; peer++)
    tu_reliable_init(&r->links[peer], (struct tu_reliable_shape){.packet_bytes = m->transport->ops->packet_bytes,
                                                                 .window = WINDOW,
                                                                 .resend_ticks = RESEND_NS,
                                                                 .session = m->block->session});
  atomic_store(&m->boards[m->rank].relays, 1);
}

/* One time round; true if anything moved. */
static bool go_round(struct tu_relay *r) {
  uint32_t asked = atomic_load(&r->asked);
  bool came = take_packets(r), moved = came, quiet = !came;
  for (uint32_t peer = 0; peer < r->mover->ranks && !r->failed; peer++) {
    if (peer == r->mover->rank) continue;
    moved |= serve(r, peer);
    quiet &= atomic_load(&r->quiet[peer]);
  }
  if (asked && quiet && !r->failed) atomic_store(&r->answered, 1);
  if (came) tu_bell_ring(r->mover->transport, r->mover->transport->rank);
  return moved;
}

static void *run(void *argument) {
  struct tu_relay *r = argument;
  long nap_ns = NAP_NS_MIN;
  while (!tu_mover_ready(r->mover) && !atomic_load(&r->stops)) nap(NAP_NS_MAX);
  if (atomic_load(&r->stops)) return NULL;
  make_links(r);
  while (!atomic_load_explicit(&r->stops, memory_order_acquire)) {
    bool moved = go_round(r);
    nap_ns = moved ? NAP_NS_MIN : (long)tu_min((size_t)nap_ns * 2, NAP_NS_MAX);
    if (!moved) nap(nap_ns);
  }
  return NULL;
}

static void free_relay(struct tu_relay *r) {
  free(r->links);
  free(r->since);
  free(r->outgoing);
  free(r->incoming);
  free(r->quiet);
  free(r->packet);
  free(r);
}

tutti_err tu_relay_create(struct tu_mover *m, struct tu_relay **relay, struct tu_error *error) {
  struct tu_relay *r = tu_try_allocate(1, sizeof *r);
  if (!r) return tu_fail_memory(error, sizeof *r, "the relay of an unreliable transport");
  r->mover = m;
  r->links = tu_try_allocate(m->ranks, sizeof *r->links);
  r->since = tu_try_allocate(m->ranks, sizeof *r->since);
  r->outgoing = tu_try_allocate((size_t)m->ranks * TU_MOVER_LANES, sizeof *r->outgoing);
  r->incoming = tu_try_allocate((size_t)m->ranks * TU_MOVER_LANES, sizeof *r->incoming);
  r->quiet = tu_try_allocate(m->ranks, sizeof *r->quiet);
  r->packet = tu_try_allocate(1, m->transport->ops->packet_bytes);
  if (!r->links || !r->since || !r->outgoing || !r->incoming || !r->quiet || !r->packet) {
    free_relay(r);
    return tu_fail_memory(error, m->transport->ops->packet_bytes, "the relay of an unreliable transport");
  }
  pthread_mutex_init(&r->lock, NULL);
  *relay = r; /* the thread looks for it */
  int failed = pthread_create(&r->thread, NULL, run, r);
  if (failed) {
    r->stopped = true;
    errno = failed;
    return tu_fail_errno(error, "rank %u cannot start the thread that its unreliable transport needs", m->rank);
  }
  return TUTTI_OK;
}

void tu_relay_add(struct tu_relay *r, const struct tu_sender *s, uint32_t lane) {
  atomic_store_explicit(&r->outgoing[s->peer * TU_MOVER_LANES + lane].sender, s, memory_order_release);
}

void tu_relay_set_patience(struct tu_relay *r, int timeout_ms) {
  /* Sooner than the wait's own deadline, which does not know why. */
  atomic_store(&r->patience_ns, timeout_ms > 0 ? (uint64_t)timeout_ms * NS_PER_MS / 2 : 0);
}

bool tu_relay_quiet(struct tu_relay *r, bool *waits_for) {
  atomic_store(&r->asked, 1);
  if (r->stopped || atomic_load(&r->answered)) return true;
  for (uint32_t peer = 0; peer < r->mover->ranks; peer++)
    if (peer != r->mover->rank && !atomic_load(&r->quiet[peer]) && !has_departed(r, peer)) waits_for[peer] = true;
  return false;
}

void tu_relay_stop(struct tu_relay *r) {
  if (r->stopped) return;
  atomic_store(&r->stops, true);
  pthread_join(r->thread, NULL);
  r->stopped = true;
}

void tu_relay_destroy(struct tu_relay *r, bool in_order) {
  if (!r) return;
  tu_relay_stop(r);
  for (uint32_t i = 0; i < r->mover->ranks * TU_MOVER_LANES; i++)
    if (in_order && r->incoming[i].lines) tu_transport_release(r->mover->transport, r->incoming[i].place);
  for (uint32_t i = 0; i < r->mover->ranks; i++) tu_reliable_fini(&r->links[i]);
  pthread_mutex_destroy(&r->lock);
  free_relay(r);
}
