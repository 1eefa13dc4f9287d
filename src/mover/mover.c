/* mover.c: creates and frees channels, and the rings of bytes through which channels copy slices. */
#include "mover/mover.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "locality/cpus.h"

/* In a world communicator of at most this many ranks, a new channel gets all its memory pages at once, because the
 * first access to a page may take 10 us on a virtual machine. Larger worlds get only the pages that they use. So do
 * communicators that are made from others, because there may be many. In the simulated world, 2. */
#ifndef TU_POPULATED_RANKS
#define TU_POPULATED_RANKS 16u
#endif

/* Limits of a ring of bytes. A ring has room for one slice per credit, and at least RING_BYTES_MIN bytes. But it never
 * takes more than 1 / RING_PART of the memory that is left, so that some memory always remains for another
 * communicator. */
#define RING_BYTES_MIN ((size_t)64 << 10)
#define RING_PART 256u

/* Shape of channels to ranks of other hosts. A long slice costs fewer system calls (allreduce of 4 MiB on two hosts:
 * 2.5 ms with slices of 128 KiB, 1.4 ms with 1 MiB). The receiver has memory for as many slices as there are credits,
 * and touches what arrives before it is wanted; with many ranks on other hosts, at most FAR_BYTES. */
#define FAR_CREDITS 8u
#define FAR_SLICE_BYTES ((size_t)1 << 20)
#define FAR_BYTES ((size_t)64 << 20)

/* Lower bounds of past_bytes: of few ranks, and of MANY_RANKS or more. The first one was measured with a last-level cache of 32
 * MiB (AMD Zen); the second one there (4 ranks, 16 MiB, allgather: 2.9 ms instead of 3.8), and with 504 MiB (an Intel Xeon with a
 * mesh; 8 ranks, 16 MiB: allgather 5.5 ms instead of 6.7, gather 3.3 instead of 3.9). */
#define PAST_BYTES_MIN ((size_t)24 << 20)
#define PAST_BYTES_MIN_MANY ((size_t)12 << 20)
#define MANY_RANKS 4u

static void free_mover(struct tu_mover *m) {
  if (!m) return;
  for (uint32_t i = 0; i < m->pair_count; i++) free(m->pairs[i]);
  free(m->pairs);
  free(m->pair_of);
  free(m);
}

/* Allocates a mover (the channels of one communicator) with an empty table of pairs. NULL: out of memory. */
static struct tu_mover *allocate_mover(uint32_t ranks) {
  struct tu_mover *m = tu_try_allocate(1, sizeof *m);
  if (!m) return NULL;
  m->pair_of = tu_try_allocate(ranks, sizeof *m->pair_of);
  if (m->pair_of) return m;
  free_mover(m);
  return NULL;
}

/* Returns the bytes that each of the ranks may move so that a last-level cache holds what all of them move. Other machines may
 * share it: a virtual one sees all of its host's cache. So only a quarter counts, and for one rank an eighth: 64 MiB take 6.5 ms
 * past a cache of 504 MiB, 7.4 through it. */
static size_t past_bytes(size_t cache, uint32_t ranks) {
  return tu_max(ranks >= MANY_RANKS ? PAST_BYTES_MIN_MANY : PAST_BYTES_MIN, cache / 4 / tu_max(ranks, 2));
}

static size_t found_bytes;
static void find_cache(void) { found_bytes = tu_cpus_cache(""); }

/* Returns the bytes of the last-level cache; 0: not known. */
static size_t cache_bytes(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, find_cache);
  return found_bytes;
}

tutti_err tu_mover_create(struct tu_transport *t, const uint32_t members[], uint32_t ranks, uint32_t rank,
                          uint64_t comm_id, struct tu_channel_shape shape, struct tu_mover **mover,
                          struct tu_error *error) {
  tu_assert((shape.credits & (shape.credits - 1)) == 0 && shape.slot_bytes % TU_LINE_BYTES == 0);
  tu_assert(shape.one_way_slot_bytes % TU_LINE_BYTES == 0 && shape.one_way_slot_bytes <= shape.slot_bytes);
  tu_assert(shape.one_way_slot_bytes >= TU_LINE_BYTES);
  tu_assert(shape.ring_bytes % TU_LINE_BYTES == 0 && shape.ring_bytes / 2 >= shape.slot_bytes);
  tu_assert(shape.cast_ring_bytes / 2 >= shape.cast_slot_bytes && shape.cast_slot_bytes >= TU_LINE_BYTES);
  struct tu_mover *m = allocate_mover(ranks);
  if (!m) return tu_fail_memory(error, ranks * sizeof *m->pair_of, "channels of %u ranks", ranks);
  m->transport = t;
  m->wired = t->hosts != NULL;
  m->rank = rank;
  m->ranks = ranks;
  m->cache_bytes = cache_bytes();
  m->past_bytes = past_bytes(m->cache_bytes, t->ranks);
  m->fills.found = &tu_transport_head(t, 0)->fills_fast;
  m->fills.slow = m->target_fills.slow = tu_cpus_are_amd();
  m->populates = comm_id == TU_WORLD_ID && ranks <= TU_POPULATED_RANKS;
  tutti_err err = tu_control_open(&m->control, t, members, ranks, rank, comm_id, shape, error);
  if (err == TUTTI_OK) *mover = m;
  else tu_mover_destroy(m, true);
  return err;
}

static struct tu_channel_shape far_shape(const struct tu_mover *m) {
  struct tu_channel_shape shape = m->shape;
  size_t far = 1;
  for (uint32_t i = 0; i < m->ranks; i++) far += tu_control_local(&m->control, i) == TU_REMOTE;
  shape.credits = FAR_CREDITS;
  const size_t bytes = tu_min(FAR_SLICE_BYTES, FAR_BYTES / shape.credits / far) / TU_LINE_BYTES * TU_LINE_BYTES;
  shape.slot_bytes = (uint32_t)tu_max(shape.slot_bytes, bytes);
  return shape;
}

bool tu_mover_ready(struct tu_mover *m) {
  if (!tu_control_ready(&m->control)) return false;
  m->shape = m->control.shape;
  if (m->control.remote) m->far_shape = far_shape(m);
  return true;
}

static struct tu_credit_line *credit_of(unsigned char *memory) {
  return (struct tu_credit_line *)(void *)(memory + sizeof(struct tu_announced));
}
static struct tu_line *lines_of(unsigned char *memory) { return (struct tu_line *)(void *)(credit_of(memory) + 1); }

/* ---- rings ---- */

static size_t pow2_ceil(size_t bytes) {
  size_t power = TU_OFFSET_ALIGN;
  while (power < bytes) power *= 2;
  return power;
}

/* Returns the length, in bytes, of a ring of at most `most` bytes that has room for one piece of piece_bytes bytes per credit,
 * within its limits. For piece_bytes 0, returns the maximum length. */
static size_t wanted_bytes(uint32_t credits, size_t most, size_t piece_bytes) {
  if (piece_bytes == 0) return most;
  return tu_min(most, tu_max(RING_BYTES_MIN, pow2_ceil(credits * tu_staging_spaced(piece_bytes))));
}

/* Returns the minimum length of a ring of bytes: room for two pieces. */
static size_t least_bytes(size_t most, size_t piece_bytes) { return tu_min(most, pow2_ceil(2 * piece_bytes)); }

static size_t half_of(size_t bytes) { return pow2_ceil(bytes) / 2; }

/* Allocates a ring of between `least` and `bytes` bytes, depending on the memory that is left. */
static struct tu_staging_ring *acquire_ring(struct tu_mover *m, size_t bytes, size_t least, bool populates,
                                            struct tu_error *error) {
  for (uint64_t offset;; bytes = tu_max(least, half_of(bytes))) {
    if (tu_transport_acquire(m->transport, bytes, &offset, error)) {
      if (populates) tu_transport_populate(m->transport, offset, bytes, true);
      struct tu_staging_ring *ring = tu_try_allocate(1, sizeof *ring);
      if (!ring) {
        tu_transport_release(m->transport, offset);
        tu_fail_memory(error, sizeof *ring, "a ring buffer of a channel");
        return NULL;
      }
      *ring = (struct tu_staging_ring){.offset = offset, .bytes = bytes, .made = populates};
      return ring;
    }
    if (bytes == least) return NULL;
  }
}

/* Lets the mover know when a ring needs more memory. `bytes`, `most`: length of the ring, and maximum length. */
static void watch_ring(struct tu_mover *m, struct tu_staging *s, uint64_t bytes, size_t most) {
  s->outgrown = &m->outgrown;
  s->grows = bytes < most;
}

/* Frees older rings of bytes whose slices have all been taken. */
static void reclaim(struct tu_transport *t, struct tu_staging_ring *ring, uint32_t taken) {
  for (struct tu_staging_ring **link = ring ? &ring->older : NULL; link && *link;) {
    struct tu_staging_ring *old = *link;
    if ((int32_t)(taken - old->until) < 0) {
      link = &old->older;
      continue;
    }
    *link = old->older;
    tu_transport_release(t, old->offset);
    free(old);
  }
}

static void destroy_rings(struct tu_transport *t, struct tu_staging_ring *ring, bool in_order) {
  for (struct tu_staging_ring *older; ring; ring = older) {
    older = ring->older;
    if (in_order) tu_transport_release(t, ring->offset);
    free(ring);
  }
}

/* Returns a new ring of at most `most` bytes for pieces of piece_bytes bytes, to replace a ring of `now` bytes. piece_bytes
 * 0: a ring of maximum length is wanted, because the old one has wrapped often. An old ring that suffices is replaced only if
 * there is memory to spare, and only by a ring of at least twice its length.
 *
 * NULL: the old ring stays, and error->code is TUTTI_OK; or the old ring is too short, but memory ran out, and *error
 * says so. */
static struct tu_staging_ring *next_ring(struct tu_mover *m, size_t now, size_t most, size_t piece_bytes,
                                         struct tu_error *error) {
  size_t least = least_bytes(most, piece_bytes);
  size_t bytes = m->populates ? most : tu_max(least, wanted_bytes(m->shape.credits, most, piece_bytes));
  bool holds = now >= least;
  error->code = TUTTI_OK;
  if (now >= bytes && holds) return NULL;
  if (!m->populates) {
    size_t spare = tu_transport_free_bytes(m->transport) / RING_PART;
    if (holds) least = tu_min(most, 2 * now);
    if (holds && bytes < least) return NULL;
    while (bytes > least && bytes > spare) bytes = tu_max(least, half_of(bytes));
    if (holds && bytes > spare) return NULL;
  }
  struct tu_staging_ring *ring = acquire_ring(m, bytes, least, m->populates || piece_bytes == 0, error);
  if (!ring && holds) error->code = TUTTI_OK;
  return ring;
}

static tutti_err renew_sender(struct tu_mover *m, struct tu_sender *s, size_t piece_bytes, struct tu_error *error) {
  size_t now = s->coming ? s->coming->bytes : s->staging.bytes;
  struct tu_staging_ring *ring = next_ring(m, now, m->shape.ring_bytes, piece_bytes, error);
  if (!ring) return error->code;
  destroy_rings(m->transport, s->coming, true); /* s->coming, the next ring, was prepared but has never been used */
  s->coming = ring;
  watch_ring(m, &s->staging, ring->bytes, m->shape.ring_bytes);
  tu_sender_renew(s);
  (void)tu_sender_taken(s, s->sent);
  reclaim(m->transport, s->staging.ring, s->taken_seen);
  return TUTTI_OK;
}

tutti_err tu_mover_reserve(struct tu_mover *m, struct tu_sender *s, size_t slice_bytes, struct tu_error *error) {
  return renew_sender(m, s, tu_min(slice_bytes, m->shape.slot_bytes), error);
}

static tutti_err renew_cast(struct tu_mover *m, struct tu_cast *c, size_t piece_bytes, struct tu_error *error) {
  struct tu_staging_ring *ring = next_ring(m, c->staging.bytes, m->shape.cast_ring_bytes, piece_bytes, error);
  if (!ring) return error->code;
  tu_cast_renew(c, ring);
  if (!ring->made) tu_transport_populate(m->transport, ring->offset, c->staging.made, true);
  watch_ring(m, &c->staging, ring->bytes, m->shape.cast_ring_bytes);
  tu_cast_reclaim(c);
  reclaim(m->transport, ring, c->first);
  return TUTTI_OK;
}

/* Makes the pages that a ring begins to use. */
static void make_pages(struct tu_mover *m, struct tu_staging *s) {
  if (s->made < s->limit) tu_transport_populate(m->transport, s->offset + s->made, s->limit - s->made, true);
  s->made = s->limit;
}

/* Returns true if a longer ring should be tried. If there is not enough memory, it is not tried again. */
static bool wants_longer(struct tu_staging *s) {
  if (!s->grows || s->wraps < TU_STAGING_WRAPS || s->limit < s->bytes) return false;
  s->grows = false;
  return true;
}

void tu_mover_grow(struct tu_mover *m) {
  struct tu_error error;
  m->outgrown = false;
  for (uint32_t i = 0; i < tu_mover_channels(m); i++) {
    struct tu_sender *s = tu_mover_nth_sender(m, i);
    if (!s || s->coming) continue;
    if (wants_longer(&s->staging)) (void)renew_sender(m, s, 0, &error);
    else make_pages(m, &s->staging);
  }
  struct tu_cast *c = m->cast;
  if (!c) return;
  if (wants_longer(&c->staging)) (void)renew_cast(m, c, 0, &error);
  else make_pages(m, &c->staging);
}

/* ---- channels ---- */

/* Returns the pair (the channels with one peer) of that peer, created on first use. NULL: out of memory. */
static struct tu_pair *pair_with(struct tu_mover *m, uint32_t peer) {
  if (m->pair_of[peer] > 0) return m->pairs[m->pair_of[peer] - 1];
  struct tu_pair **pairs = tu_try_grow(m->pairs, m->pair_count, &m->pair_capacity, sizeof(struct tu_pair *));
  if (!pairs) return NULL;
  m->pairs = pairs;
  struct tu_pair *pair = tu_try_allocate(1, sizeof *pair);
  if (!pair) return NULL;
  m->pairs[m->pair_count++] = pair;
  m->pair_of[peer] = m->pair_count;
  return pair;
}

static void destroy_sender(struct tu_mover *m, struct tu_sender *s, bool in_order) {
  destroy_rings(m->transport, s->coming, in_order);
  destroy_rings(m->transport, s->staging.ring, in_order);
  if (in_order) tu_transport_release(m->transport, s->offset);
  free(s->starts);
  free(s);
}

struct tu_sender *tu_mover_sender(struct tu_mover *m, uint32_t peer, uint32_t lane, struct tu_error *error) {
  struct tu_pair *pair = pair_with(m, peer);
  if (!pair) tu_fail_memory(error, sizeof *pair, "a channel to rank %u", peer);
  if (!pair || pair->senders[lane]) return pair ? pair->senders[lane] : NULL;
  const bool remote = tu_control_local(&m->control, peer) == TU_REMOTE;
  const struct tu_channel_shape shape = remote ? m->far_shape : m->shape;
  uint64_t offset = 0;
  unsigned char *memory = tu_transport_acquire(m->transport, tu_channel_bytes(shape), &offset, error);
  if (!memory) return NULL;
  memset(memory, 0, tu_channel_bytes(shape));
  struct tu_sender *s = tu_try_allocate(1, sizeof *s);
  uint64_t *starts = s ? tu_try_allocate(shape.credits, sizeof *starts) : NULL;
  if (!starts) {
    free(s);
    tu_transport_release(m->transport, offset);
    tu_fail_memory(error, sizeof *s, "a channel to rank %u", peer);
    return NULL;
  }
  *s = (struct tu_sender){
      .credit = credit_of(memory),
      .lines = lines_of(memory),
      .base = m->transport->base,
      .credits = shape.credits,
      .peer = peer,
      .bell = tu_control_bell(&m->control, peer),
      .remote = remote,
      .slot_bytes = shape.slot_bytes,
      .offset = offset,
      .starts = starts,
      .back = pair->receivers[lane],
  };
  if (m->populates && tu_mover_reserve(m, s, m->shape.slot_bytes, error) != TUTTI_OK) {
    destroy_sender(m, s, true);
    return NULL;
  }
  s->credit->ring = s->staging.offset;
  if (!s->remote) tu_control_announce(&m->control, peer, lane, offset);
  else if (tu_remote_join(&m->control, s, lane, error) != TUTTI_OK) {
    destroy_sender(m, s, true);
    return NULL;
  }
  return pair->senders[lane] = s;
}

struct tu_receiver *tu_mover_receiver(struct tu_mover *m, uint32_t peer, uint32_t lane) {
  struct tu_pair *pair = pair_with(m, peer);
  if (!pair || pair->receivers[lane]) return pair ? pair->receivers[lane] : NULL;
  struct tu_receiver *r = tu_try_allocate(1, sizeof *r);
  if (!r) return NULL;
  *r = (struct tu_receiver){
      .base = m->transport->base,
      .expected = m->transport->base,
      .credits = m->shape.credits,
      .peer = peer,
      .bell = tu_control_bell(&m->control, peer),
      .lane = lane,
  };
  if (pair->senders[lane]) pair->senders[lane]->back = r;
  return pair->receivers[lane] = r;
}

static void free_cast(struct tu_cast *c) {
  for (uint32_t i = 0; c->pieces && i < c->credits; i++) free(c->pieces[i].readers);
  free(c->pieces);
  free(c);
}

/* Allocates a ring for slices that several ranks read. NULL: out of memory. */
static struct tu_cast *allocate_cast(uint32_t credits, uint32_t readers_max) {
  struct tu_cast *c = tu_try_allocate(1, sizeof *c);
  if (!c) return NULL;
  *c = (struct tu_cast){.credits = credits, .readers_max = readers_max};
  bool all = (c->pieces = tu_try_allocate(credits, sizeof *c->pieces)) != NULL;
  for (uint32_t i = 0; all && i < credits; i++)
    all = (c->pieces[i].readers = tu_try_allocate(readers_max, sizeof *c->pieces[i].readers)) != NULL;
  if (all) return c;
  free_cast(c);
  return NULL;
}

struct tu_cast *tu_mover_cast(struct tu_mover *m, size_t piece_bytes, struct tu_error *error) {
  if (!m->cast) m->cast = allocate_cast(m->shape.credits, m->ranks - 1);
  if (!m->cast) {
    tu_fail_memory(error, sizeof *m->cast, "a ring buffer for messages to several ranks");
    return NULL;
  }
  return renew_cast(m, m->cast, tu_min(piece_bytes, m->shape.cast_slot_bytes), error) == TUTTI_OK ? m->cast : NULL;
}

static void destroy_cast(struct tu_mover *m, bool in_order) {
  struct tu_cast *c = m->cast;
  if (!c) return;
  destroy_rings(m->transport, c->staging.ring, in_order);
  free_cast(c);
}

static bool attach(struct tu_mover *m, struct tu_receiver *r) {
  if (tu_control_local(&m->control, r->peer) == TU_REMOTE) return tu_remote_attach(&m->control, r);
  uint64_t offset = tu_control_look_up(&m->control, r->peer, r->lane);
  if (offset == 0) return false;
  unsigned char *memory = tu_transport_at(m->transport, offset);
  r->credit = credit_of(memory);
  if (m->populates && r->credit->ring) tu_transport_populate(m->transport, r->credit->ring, m->shape.ring_bytes, false);
  r->lines = lines_of(memory);
  return true;
}

bool tu_mover_attach(struct tu_mover *m, struct tu_receiver *r) {
  if (!attach(m, r)) return false;
  if (!m->pace || tu_pace_attach(m->pace, r)) return true;
  r->lines = NULL; /* out of memory, so the receiver is not attached; the next call tries again */
  return false;
}

bool tu_mover_drained(struct tu_mover *m, bool *waits_for) {
  bool drained = true;
  for (uint32_t i = 0; i < tu_mover_channels(m); i++) {
    const struct tu_sender *s = tu_mover_nth_sender(m, i);
    if (!s || tu_sender_drained(s)) continue;
    waits_for[s->peer] = true;
    drained = false;
  }
  if (!drained) return false;
  tu_control_depart(&m->control);
  return tu_control_may_close(&m->control, waits_for);
}

void tu_mover_destroy(struct tu_mover *m, bool in_order) {
  if (!m) return;
  tu_pace_remove(m);
  if (m->control.remote) tu_remote_close(&m->control);
  destroy_cast(m, in_order);
  if (m->books) m->destroy_books(m, in_order);
  for (uint32_t i = 0; i < tu_mover_channels(m); i++) {
    struct tu_sender *s = tu_mover_nth_sender(m, i);
    if (s) destroy_sender(m, s, in_order);
    free(tu_mover_nth_receiver(m, i));
  }
  tu_control_close(&m->control, in_order);
  free_mover(m);
}
