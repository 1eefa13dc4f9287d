/* control.c: what the ranks of a communicator tell each other besides data: through the block of memory that the ranks
 * of a host share, and in frames to ranks of other hosts. */
#include "mover/control.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "mover/remote.h"
#include "transport/suspects.h"

#define BLOCK_BEGIN offsetof(struct tu_block, ranks)

/* Returns the offset in the segment where the slice of a rank of this host begins. */
static uint64_t slice_offset(const struct tu_control *c, uint32_t rank) {
  return (uint64_t)tu_control_local(c, rank) * c->transport->slice_bytes;
}

/* ---- the list of shared blocks in a leader's slice ---- */

/* Protects the lists of shared blocks of all ranks in this process. Readers in other processes check the list's
 * version, which is odd while the list changes. */
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

static struct tu_block *block_at(const struct tu_transport *t, uint32_t rank, uint32_t page) {
  return tu_transport_at(t, rank * (uint64_t)t->slice_bytes + page * (uint64_t)TU_OFFSET_ALIGN);
}

static uint32_t page_of(const struct tu_control *c) {
  uint64_t page = (c->offset - slice_offset(c, c->leader)) / TU_OFFSET_ALIGN;
  /* Page 0 contains the head of the slice, so no block begins there. A slice has less than 16 TiB, so its page numbers
   * fit into 32 bits. */
  tu_assert(page > 0 && page <= UINT32_MAX);
  return (uint32_t)page;
}

static void publish(const struct tu_control *c) {
  struct tu_slice_head *head = tu_transport_head(c->transport, c->transport->rank);
  pthread_mutex_lock(&blocks_lock);
  atomic_fetch_add(&head->blocks_version, 1);
  atomic_store(&c->block->next, atomic_load(&head->blocks));
  atomic_store(&head->blocks, page_of(c));
  atomic_fetch_add(&head->blocks_version, 1);
  pthread_mutex_unlock(&blocks_lock);
}

static void withdraw(const struct tu_control *c) {
  struct tu_slice_head *head = tu_transport_head(c->transport, c->transport->rank);
  const uint32_t page = page_of(c);
  pthread_mutex_lock(&blocks_lock);
  atomic_fetch_add(&head->blocks_version, 1);
  _Atomic uint32_t *link = &head->blocks;
  while (atomic_load(link) != page) link = &block_at(c->transport, c->transport->rank, atomic_load(link))->next;
  atomic_store(link, atomic_load(&c->block->next));
  atomic_fetch_add(&head->blocks_version, 1);
  pthread_mutex_unlock(&blocks_lock);
}

/* Returns the page number of this communicator's block in the leader's slice. Returns 0 if there is none yet, or if the
 * list of blocks changes meanwhile. While the list's version stays the same, every page number that was read from the
 * list is that of a block. The block that is found stays allocated, since this rank has not departed. */
static uint32_t find_page(const struct tu_control *c) {
  const struct tu_transport *t = c->transport;
  const uint32_t leader = tu_control_local(c, c->leader);
  const struct tu_slice_head *head = tu_transport_head(t, leader);
  const uint32_t version = atomic_load(&head->blocks_version);
  uint32_t page = version % 2 ? 0 : atomic_load(&head->blocks);
  while (page > 0 && atomic_load(&head->blocks_version) == version) {
    const struct tu_block *block = block_at(t, leader, page);
    const uint64_t comm_id = atomic_load(&block->comm_id);
    const uint32_t next = atomic_load(&block->next);
    if (atomic_load(&head->blocks_version) != version) return 0;
    if (comm_id == c->comm_id) return page;
    page = next;
  }
  return 0;
}

static void attach(struct tu_control *c, unsigned char *block) {
  c->block = (struct tu_block *)(void *)block;
  c->boards = (struct tu_board *)(void *)(block + tu_block_boards_at());
  c->awaited_ns = (_Atomic uint64_t *)(void *)(block + tu_block_awaited_at(c->ranks));
  c->doors = (_Atomic uint32_t *)(void *)(block + tu_block_doors_at(c->ranks));
}

/* ---- begin and end ---- */

static void ring_all(const struct tu_control *c) {
  for (uint32_t i = 0; i < c->ranks; i++) tu_bell_ring(c->transport, tu_control_bell(c, i));
}

static tutti_err make_block(struct tu_control *c, struct tu_error *error) {
  unsigned char *block = tu_transport_acquire(c->transport, tu_block_bytes(c->ranks), &c->offset, error);
  if (!block) return error->code;
  attach(c, block);
  /* This memory may have been the block of an earlier communicator. Then a rank that searches the leader's list of
   * blocks may still read these two words. So they are stored atomically. */
  atomic_store_explicit(&c->block->comm_id, 0, memory_order_relaxed);
  atomic_store_explicit(&c->block->next, 0, memory_order_relaxed);
  memset(block + BLOCK_BEGIN, 0, tu_block_bytes(c->ranks) - BLOCK_BEGIN);
  c->block->ranks = c->ranks;
  c->block->shape = c->shape;
  memcpy(block + tu_block_members_at(c->ranks), c->members, c->ranks * sizeof *c->members);
  atomic_store(&c->block->comm_id, c->comm_id);
  publish(c);
  ring_all(c);
  return TUTTI_OK;
}

tutti_err tu_control_open(struct tu_control *c, struct tu_transport *t, const uint32_t members[], uint32_t ranks,
                          uint32_t rank, uint64_t comm_id, struct tu_channel_shape shape, struct tu_error *error) {
  *c = (struct tu_control){.transport = t, .rank = rank, .ranks = ranks, .comm_id = comm_id, .shape = shape};
  c->members = tu_try_allocate(ranks, sizeof *c->members);
  if (!c->members) return tu_fail_memory(error, ranks * sizeof *c->members, "a communicator of %u ranks", ranks);
  memcpy(c->members, members, ranks * sizeof *members);
  while (tu_control_local(c, c->leader) == TU_REMOTE) c->leader++;
  for (uint32_t i = 0; t->hosts && i < ranks; i++) c->remote |= tu_control_local(c, i) == TU_REMOTE;
  if (c->remote && !(c->others = tu_try_allocate(ranks, sizeof *c->others)))
    return tu_fail_memory(error, ranks * sizeof *c->others, "a communicator of %u ranks", ranks);
  return rank == c->leader ? make_block(c, error) : TUTTI_OK;
}

bool tu_control_ready(struct tu_control *c) {
  if (c->block) return true;
  uint32_t page = find_page(c);
  if (page == 0) return false;
  c->offset = slice_offset(c, c->leader) + page * (uint64_t)TU_OFFSET_ALIGN;
  attach(c, tu_transport_at(c->transport, c->offset));
  tu_assert(c->block->ranks == c->ranks);
  c->shape = c->block->shape;
  return true;
}

tutti_err tu_control_begin(struct tu_control *c, struct tu_error *error) {
  return c->remote ? tu_remote_open(c, error) : TUTTI_OK;
}

/* Records the other ranks as suspects, that is, ranks that may still be writing into memory of this rank's user. The
 * shared block is not freed, because it contains the suspects' `ended` words. */
static void suspect_members(struct tu_control *c) {
  for (uint32_t i = 0; i < c->ranks; i++) c->members[i] = tu_control_local(c, i);
  tu_suspects_add(c->transport, (struct tu_suspects){.locals = c->members,
                                                     .ranks = c->ranks,
                                                     .rank = c->rank,
                                                     .ended = &c->boards[0].ended,
                                                     .stride = sizeof c->boards[0]});
  c->members = NULL;
}

void tu_control_close(struct tu_control *c, bool in_order) {
  if (!in_order && c->block && !c->left) {
    atomic_store(&c->boards[c->rank].ended, 1);
    if (c->exposes) suspect_members(c);
  }
  if (in_order && c->block && c->rank == c->leader) {
    withdraw(c);
    if (c->block->words_bytes) tu_transport_release(c->transport, c->block->words_offset);
    tu_transport_release(c->transport, c->offset);
  }
  free(c->others);
  free(c->members);
}

/* ---- ranks that cannot make their side of a communicator ---- */

void tu_control_miss(struct tu_transport *t, uint64_t comm_id, tutti_err why, const uint32_t members[],
                     uint32_t ranks) {
  struct tu_slice_head *head = tu_transport_head(t, t->rank);
  uint32_t at = atomic_fetch_add(&head->misses, 1) % TU_MISSED;
  atomic_store(&head->missed_codes[at], (uint32_t)why);
  atomic_store(&head->missed[at], comm_id);
  for (uint32_t i = 0; i < ranks; i++)
    if (tu_transport_local(t, members[i]) != TU_REMOTE) tu_bell_wake(t, tu_transport_local(t, members[i]));
  if (t->hosts) tu_remote_say_missed(t, comm_id, why, members, ranks);
}

tutti_err tu_control_missed(const struct tu_control *c, uint32_t rank) {
  const uint32_t local = tu_control_local(c, rank);
  if (local == TU_REMOTE) return c->block ? (tutti_err)atomic_load(&c->boards[rank].missed) : TUTTI_OK;
  const struct tu_slice_head *head = tu_transport_head(c->transport, local);
  for (uint32_t i = 0; i < TU_MISSED; i++)
    if (atomic_load(&head->missed[i]) == c->comm_id) return (tutti_err)atomic_load(&head->missed_codes[i]);
  return TUTTI_OK;
}

void tu_control_come(struct tu_control *c) {
  atomic_store(&c->boards[c->rank].here, 1);
  if (c->remote) tu_remote_say_here(c);
  ring_all(c);
}

bool tu_control_alive_in_job(struct tu_transport *t, uint32_t job_rank) {
  uint32_t local = tu_transport_local(t, job_rank);
  return local == TU_REMOTE ? tu_remote_alive(t, job_rank) : tu_transport_alive(t, local);
}

bool tu_control_alive(const struct tu_control *c, uint32_t rank) {
  return tu_control_alive_in_job(c->transport, c->members[rank]);
}

/* ---- calls ---- */

void tu_control_ask(const struct tu_control *c, const bool whom[], uint64_t number, bool urgent) {
  if (c->remote) tu_remote_ask(c, whom, number, urgent);
}

/* ---- waits ---- */

void tu_control_ask_waits(const struct tu_control *c, uint32_t job_rank) {
  if (tu_transport_local(c->transport, job_rank) == TU_REMOTE) tu_remote_ask_waits(c->transport, job_rank);
}

bool tu_control_read_waits(const struct tu_control *c, uint32_t job_rank, uint64_t since,
                           struct tu_waits notes[TU_WAITS_THREADS]) {
  const uint32_t local = tu_transport_local(c->transport, job_rank);
  if (local == TU_REMOTE) {
    (void)tu_remote_look(c);
    return tu_remote_read_waits(c->transport, job_rank, since, notes);
  }
  for (uint32_t i = 0; i < TU_WAITS_THREADS; i++)
    if (!tu_waits_read(c->transport, local, i, &notes[i])) notes[i].count = 0;
  return true;
}

/* ---- the verdict ---- */

void tu_control_fail(struct tu_control *c, const struct tu_error *error) {
  if (tu_verdict_post(&c->block->verdict, c->rank, error)) tu_control_wake_all(c);
  tu_control_spread(c);
}

void tu_control_spread(const struct tu_control *c) {
  if (c->remote) tu_remote_spread_verdict(c);
}

/* ---- data from rank 0 ---- */

tutti_err tu_control_tell(struct tu_control *c, const void *words, size_t bytes, struct tu_error *error) {
  tu_assert(c->rank == 0 && !atomic_load(&c->block->told));
  tutti_err err = tu_control_keep_words(c, words, bytes, error);
  if (err == TUTTI_OK && c->remote && !tu_remote_say_words(c, words, bytes))
    err = tu_fail_memory(error, bytes, "data from rank 0 for ranks of other hosts");
  return err;
}

bool tu_control_told(const struct tu_control *c, const void **words, size_t *bytes) {
  if (!atomic_load_explicit(&c->block->told, memory_order_acquire)) return false;
  *bytes = c->block->words_bytes;
  *words = *bytes ? tu_transport_at(c->transport, c->block->words_offset) : NULL;
  return true;
}

/* ---- announcements ---- */

static _Atomic uint32_t *door(const struct tu_control *c, uint32_t from, uint32_t to) {
  return &c->doors[(size_t)from * c->ranks + to];
}

void tu_control_announce(const struct tu_control *c, uint32_t peer, uint32_t lane, uint64_t offset) {
  uint64_t page = (offset - slice_offset(c, c->rank)) / TU_OFFSET_ALIGN;
  tu_assert(page > 0 && page <= UINT32_MAX);
  struct tu_announced *head = tu_transport_at(c->transport, offset);
  uint32_t before = atomic_load_explicit(door(c, c->rank, peer), memory_order_relaxed);
  atomic_store_explicit(&head->lane, lane, memory_order_relaxed);
  do atomic_store_explicit(&head->next, before, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(door(c, c->rank, peer), &before, (uint32_t)page, memory_order_release,
                                                memory_order_relaxed));
  tu_bell_ring(c->transport, tu_control_bell(c, peer));
}

/* Searches the headers that the peer has announced to this rank. A peer departs before it reuses their memory. So what
 * was read is valid if the peer had not departed by then. A peer that departs early never reuses this memory. */
uint64_t tu_control_look_up(const struct tu_control *c, uint32_t peer, uint32_t lane) {
  uint64_t page = atomic_load_explicit(door(c, peer, c->rank), memory_order_acquire);
  while (page > 0) {
    uint64_t offset = slice_offset(c, peer) + page * TU_OFFSET_ALIGN;
    const struct tu_announced *head = tu_transport_at(c->transport, offset);
    uint32_t found = atomic_load_explicit(&head->lane, memory_order_acquire);
    uint32_t next = atomic_load_explicit(&head->next, memory_order_acquire);
    if (atomic_load(&c->boards[peer].departed) == TU_DEPARTED) return 0;
    if (found == lane) return offset;
    page = next;
  }
  return 0;
}

/* ---- departing ---- */

static void depart(struct tu_control *c, enum tu_departure how) {
  if (c->left) return;
  c->left = true;
  /* From now on this rank handles no frames of the communicator. The reason: the leader may free the shared block once
   * it has learned that this rank has departed. */
  if (c->remote) tu_remote_say_departed(c);
  atomic_store(&c->boards[c->rank].departed, how);
  tu_bell_ring(c->transport, tu_control_local(c, c->leader));
}

void tu_control_depart(struct tu_control *c) { depart(c, TU_DEPARTED); }

void tu_control_depart_early(struct tu_control *c) { depart(c, TU_DEPARTED_EARLY); }

bool tu_control_may_close(const struct tu_control *c, bool *waits_for) {
  bool may = true;
  for (uint32_t i = 0; i < c->ranks && c->rank == c->leader; i++) {
    if (tu_control_local(c, i) == TU_REMOTE || tu_control_departed(c, i)) continue;
    waits_for[i] = true;
    may = false;
  }
  return may;
}
