/* mover.c: opening and ending of channels. */
#include "mover/link.h"

#include <stdlib.h>
#include <string.h>

/* Worlds of so few ranks have all pages of a channel from the start: a first touch may take 10 us on a virtual machine. Larger
 * ones, and communicators made of others, of which there may be many, take only what they use. */
#define POPULATED_RANKS 8u

/* Of the directory: one more than there are lanes. */
#define DIRECTORY_LANES (TU_MOVER_LANES + 1u)
#define LINKS_LANE TU_MOVER_LANES

static size_t boards_at(void) { return tu_round_up(sizeof(struct tu_block), 4096); }
static size_t directory_at(uint32_t ranks) { return boards_at() + tu_round_up(ranks * sizeof(struct tu_board), 4096); }
static size_t block_bytes(uint32_t ranks) {
  return directory_at(ranks) + (size_t)ranks * ranks * DIRECTORY_LANES * sizeof(uint32_t);
}

/* Two ranks must not take packets of a communicator that is gone for those of one that lies where it lay. */
static uint64_t new_session(uint64_t place) {
  uint64_t now = tu_clock_ns();
  return tu_hash(&place, sizeof place, now) | 1;
}

static _Atomic uint32_t *directory_entry(const struct tu_mover *m, uint32_t from, uint32_t to, uint32_t lane) {
  return &m->directory[((size_t)from * m->ranks + to) * DIRECTORY_LANES + lane];
}

/* Where that rank's slice begins. */
static uint64_t slice_place(const struct tu_mover *m, uint32_t rank) {
  return (uint64_t)m->members[rank] * m->transport->slice_bytes;
}

static void free_mover(struct tu_mover *m) {
  if (!m) return;
  free(m->members);
  free(m->senders);
  free(m->receivers);
  free(m);
}

/* With its tables, all blank; NULL without memory. */
static struct tu_mover *allocate_mover(uint32_t ranks) {
  struct tu_mover *m = tu_try_allocate(1, sizeof *m);
  if (!m) return NULL;
  m->members = tu_try_allocate(ranks, sizeof *m->members);
  m->senders = tu_try_allocate((size_t)ranks * TU_MOVER_LANES, sizeof *m->senders);
  m->receivers = tu_try_allocate((size_t)ranks * TU_MOVER_LANES, sizeof *m->receivers);
  if (m->members && m->senders && m->receivers) return m;
  free_mover(m);
  return NULL;
}

tutti_err tu_mover_create(struct tu_transport *t, const uint32_t members[], uint32_t ranks, uint32_t rank,
                          struct tu_channel_shape shape, uint64_t place, struct tu_mover **mover,
                          struct tu_error *error) {
  tu_assert((shape.credits & (shape.credits - 1)) == 0 && shape.slot_bytes % TU_LINE_BYTES == 0);
  tu_assert(shape.ring_bytes % TU_LINE_BYTES == 0 && shape.ring_bytes / 2 >= shape.slot_bytes);
  unsigned char *block =
      rank == 0 ? tu_transport_acquire(t, block_bytes(ranks), &place, error) : tu_transport_at(t, place);
  if (!block) return error->code;
  struct tu_mover *m = allocate_mover(ranks);
  if (!m) {
    if (rank == 0) tu_transport_release(t, place);
    return tu_fail_memory(error, (size_t)ranks * TU_MOVER_LANES * 2 * sizeof *m->senders, "channels of %u ranks",
                          ranks);
  }
  uint32_t *own_members = m->members;
  struct tu_sender **senders = m->senders;
  struct tu_receiver **receivers = m->receivers;
  *m = (struct tu_mover){.transport = t, .rank = rank, .ranks = ranks, .block_place = place};
  m->populates = place == TU_FIRST_PLACE && ranks <= POPULATED_RANKS;
  m->block = (struct tu_block *)(void *)block;
  m->boards = (struct tu_board *)(void *)(block + boards_at());
  m->directory = (_Atomic uint32_t *)(void *)(block + directory_at(ranks));
  m->members = own_members;
  memcpy(m->members, members, ranks * sizeof *members);
  m->senders = senders;
  m->receivers = receivers;
  if (rank == 0) {
    /* Others may be looking at `ready` already. */
    memset(block + sizeof m->block->ready, 0, block_bytes(ranks) - sizeof m->block->ready);
    m->block->ranks = ranks;
    m->block->shape = shape;
    if (t->ops->unreliable) m->block->session = new_session(place);
    atomic_store_explicit(&m->block->ready, 1, memory_order_release);
    tu_mover_wake_all(m);
  }
  *mover = m;
  return t->ops->unreliable ? tu_relay_create(m, &m->relay, error) : TUTTI_OK;
}

bool tu_mover_ready(const struct tu_mover *m) {
  if (!atomic_load_explicit(&m->block->ready, memory_order_acquire)) return false;
  tu_assert(m->block->ranks == m->ranks);
  return true;
}

tutti_err tu_mover_tell(struct tu_mover *m, const void *words, size_t bytes, struct tu_error *error) {
  struct tu_block *block = m->block;
  tu_assert(m->rank == 0 && !atomic_load(&block->told));
  if (bytes > 0) {
    void *to = tu_transport_acquire(m->transport, bytes, &block->words_place, error);
    if (!to) return error->code;
    memcpy(to, words, bytes);
    block->words_bytes = bytes;
  }
  atomic_store_explicit(&block->told, 1, memory_order_release);
  tu_mover_wake_all(m);
  return TUTTI_OK;
}

bool tu_mover_told(const struct tu_mover *m, const void **words, size_t *bytes) {
  if (!atomic_load_explicit(&m->block->told, memory_order_acquire)) return false;
  *bytes = m->block->words_bytes;
  *words = *bytes ? tu_transport_at(m->transport, m->block->words_place) : NULL;
  return true;
}

void tu_mover_wake_all(struct tu_mover *m) {
  for (uint32_t i = 0; i < m->ranks; i++) tu_bell_wake(m->transport, m->members[i]);
}

void tu_mover_set_timeout(struct tu_mover *m, int timeout_ms) {
  if (m->relay) tu_relay_set_patience(m->relay, timeout_ms);
}

static struct tu_credit_line *credit_of(unsigned char *memory) { return (struct tu_credit_line *)(void *)memory; }
static struct tu_line *lines_of(unsigned char *memory) {
  return (struct tu_line *)(void *)(memory + sizeof(struct tu_credit_line));
}

/* Writes where something lies, in this rank's slice. */
static void enter_at(const struct tu_mover *m, _Atomic uint32_t *entry, uint64_t place) {
  uint64_t page = (place - slice_place(m, m->rank)) / TU_PLACE_ALIGN;
  tu_assert(page > 0 && page <= UINT32_MAX); /* a slice begins with its head, and has less than 16 TiB */
  atomic_store_explicit(entry, (uint32_t)page, memory_order_release);
}

void tu_mover_set_copy(const struct tu_mover *m, uint32_t peer, uint32_t lane, uint64_t place) {
  enter_at(m, directory_entry(m, peer, m->rank, lane), place);
}

/* Says to the peer where what belongs to that lane lies, in this rank's slice. */
static void enter(struct tu_mover *m, uint32_t peer, uint32_t lane, uint64_t place) {
  enter_at(m, directory_entry(m, m->rank, peer, lane), place);
  tu_mover_ring(m, m->members[peer]);
}

void tu_mover_announce(struct tu_mover *m, uint32_t peer, uint64_t place) { enter(m, peer, LINKS_LANE, place); }

uint64_t tu_mover_announced(const struct tu_mover *m, uint32_t peer) {
  uint64_t page = atomic_load_explicit(directory_entry(m, peer, m->rank, LINKS_LANE), memory_order_acquire);
  return page == 0 ? 0 : slice_place(m, peer) + page * TU_PLACE_ALIGN;
}

struct tu_sender *tu_mover_sender(struct tu_mover *m, uint32_t peer, uint32_t lane, struct tu_error *error) {
  struct tu_sender **slot = &m->senders[peer * TU_MOVER_LANES + lane];
  if (*slot) return *slot;
  struct tu_channel_shape shape = m->block->shape;
  uint64_t place = 0;
  unsigned char *memory = tu_transport_acquire(m->transport, tu_channel_bytes(shape), &place, error);
  if (!memory) return NULL;
  if (m->populates) tu_transport_populate(m->transport, place, tu_channel_bytes(shape), true);
  memset(memory, 0, tu_channel_ring_at(shape));
  struct tu_sender *s = tu_try_allocate(1, sizeof *s);
  uint64_t *starts = s ? tu_try_allocate(shape.credits, sizeof *starts) : NULL;
  if (!starts) {
    free(s);
    tu_transport_release(m->transport, place);
    tu_fail_memory(error, sizeof *s, "a channel to rank %u", peer);
    return NULL;
  }
  *s = (struct tu_sender){
      .credit = credit_of(memory),
      .lines = lines_of(memory),
      .base = m->transport->base,
      .credits = shape.credits,
      .peer = peer,
      .world_peer = m->members[peer],
      .place = place,
      .staging = {.place = place + tu_channel_ring_at(shape), .bytes = shape.ring_bytes},
      .starts = starts,
      .back = m->receivers[peer * TU_MOVER_LANES + lane],
  };
  if (m->relay) tu_relay_add(m->relay, s, lane);
  else enter(m, peer, lane, place);
  return *slot = s;
}

struct tu_receiver *tu_mover_receiver(struct tu_mover *m, uint32_t peer, uint32_t lane) {
  struct tu_receiver **slot = &m->receivers[peer * TU_MOVER_LANES + lane];
  if (*slot) return *slot;
  struct tu_receiver *r = tu_try_allocate(1, sizeof *r);
  if (!r) return NULL;
  *r = (struct tu_receiver){
      .base = m->transport->base,
      .credits = m->block->shape.credits,
      .peer = peer,
      .world_peer = m->members[peer],
      .opened = directory_entry(m, peer, m->rank, lane),
  };
  struct tu_sender *s = m->senders[peer * TU_MOVER_LANES + lane];
  if (s) s->back = r;
  return *slot = r;
}

static void free_cast(struct tu_cast *c) {
  for (uint32_t i = 0; c->pieces && i < c->credits; i++) free(c->pieces[i].readers);
  free(c->pieces);
  free(c);
}

/* NULL without memory. */
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

struct tu_cast *tu_mover_cast(struct tu_mover *m, struct tu_error *error) {
  if (m->cast) return m->cast;
  struct tu_channel_shape shape = m->block->shape;
  uint64_t place = 0;
  if (!tu_transport_acquire(m->transport, shape.ring_bytes, &place, error)) return NULL;
  if (m->populates) tu_transport_populate(m->transport, place, shape.ring_bytes, true);
  m->cast = allocate_cast(shape.credits, m->ranks - 1);
  if (m->cast) m->cast->staging = (struct tu_staging){.place = place, .bytes = shape.ring_bytes};
  else tu_transport_release(m->transport, place);
  if (!m->cast) tu_fail_memory(error, sizeof *m->cast, "a ring for several readers");
  return m->cast;
}

static void destroy_cast(struct tu_mover *m, bool in_order) {
  struct tu_cast *c = m->cast;
  if (!c) return;
  if (in_order) tu_transport_release(m->transport, c->staging.place);
  free_cast(c);
}

bool tu_mover_attach(struct tu_mover *m, struct tu_receiver *r) {
  uint64_t page = atomic_load_explicit(r->opened, memory_order_acquire);
  if (page == 0) return false;
  uint64_t place = slice_place(m, m->relay ? m->rank : r->peer) + page * TU_PLACE_ALIGN;
  unsigned char *memory = tu_transport_at(m->transport, place);
  if (m->populates) tu_transport_populate(m->transport, place, tu_channel_bytes(m->block->shape), false);
  r->credit = credit_of(memory);
  r->lines = lines_of(memory);
  if (!m->wire || tu_wire_attach(m->wire, r)) return true;
  r->lines = NULL; /* the next look tries again */
  return false;
}

/* Once departed, a rank touches neither the block nor a channel of another again; the leader frees the block last. */
bool tu_mover_drained(struct tu_mover *m, bool *waits_for) {
  bool drained = true;
  for (uint32_t i = 0; i < m->ranks * TU_MOVER_LANES; i++) {
    if (!m->senders[i] || tu_sender_drained(m->senders[i])) continue;
    waits_for[m->senders[i]->peer] = true;
    drained = false;
  }
  if (!drained || (m->relay && !tu_relay_quiet(m->relay, waits_for))) return false;
  if (m->relay) tu_relay_stop(m->relay);
  if (!atomic_exchange(&m->boards[m->rank].departed, 1)) tu_bell_wake(m->transport, m->members[0]);
  for (uint32_t i = 0; i < m->ranks && m->rank == 0; i++) {
    if (atomic_load(&m->boards[i].departed)) continue;
    waits_for[i] = true;
    drained = false;
  }
  return drained;
}

void tu_mover_destroy(struct tu_mover *m, bool in_order) {
  if (!m) return;
  tu_wire_remove(m);
  tu_relay_destroy(m->relay, in_order);
  destroy_cast(m, in_order);
  tu_link_books_destroy(m, in_order);
  for (uint32_t i = 0; i < m->ranks * TU_MOVER_LANES; i++) {
    struct tu_sender *s = m->senders[i];
    if (in_order && s) tu_transport_release(m->transport, s->place);
    if (s) free(s->starts);
    free(s);
    free(m->receivers[i]);
  }
  if (in_order && m->rank == 0) {
    if (m->block->words_bytes) tu_transport_release(m->transport, m->block->words_place);
    tu_transport_release(m->transport, m->block_place);
  }
  free_mover(m);
}
