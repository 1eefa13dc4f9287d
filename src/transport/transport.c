/* transport.c: what the transports share: the allocator of a slice, and bells on futexes. */
#include "transport/transport.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(struct tu_slice_head) <= TU_FIRST_PLACE, "the head of a slice lies before its first place");

bool tu_transport_init(struct tu_transport *t, const struct tu_transport_ops *ops, uint32_t rank, uint32_t ranks,
                       void *base, size_t slice_bytes) {
  *t = (struct tu_transport){.ops = ops, .rank = rank, .ranks = ranks, .base = base, .slice_bytes = slice_bytes};
  t->ranges = tu_try_allocate(1, sizeof *t->ranges);
  if (!t->ranges) return false;
  pthread_mutex_init(&t->lock, NULL);
  *t->ranges =
      (struct tu_range){.place = rank * (uint64_t)slice_bytes + TU_FIRST_PLACE, .bytes = slice_bytes - TU_FIRST_PLACE};
  struct tu_slice_head *head = tu_transport_head(t, rank);
  bool registered = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
  atomic_store(&t->fence, true); /* until all ranks are known to be registered */
  atomic_store(&head->no_barrier, !registered);
  tu_cpus_mine(&head->cpus);
  atomic_store(&head->present, 1);
  return true;
}

void tu_transport_fini(struct tu_transport *t) {
  for (struct tu_range *range = t->ranges, *next; range; range = next) {
    next = range->next;
    free(range);
  }
  for (struct tu_registered *registered = atomic_load(&t->registered), *next; registered; registered = next) {
    next = registered->next; /* its pages stay mapped, for the user */
    free(registered);
  }
  for (struct tu_registered *retired = t->retired, *next; retired; retired = next) {
    next = retired->retired;
    free(retired);
  }
  pthread_mutex_destroy(&t->lock);
}

bool tu_transport_alive(struct tu_transport *t, uint32_t rank) {
  return rank == t->rank || !atomic_load(&tu_transport_head(t, rank)->present) || t->ops->alive(t, rank);
}

void tu_transport_settle(struct tu_transport *t) {
  bool fence = false;
  for (uint32_t rank = 0; rank < t->ranks; rank++) fence |= atomic_load(&tu_transport_head(t, rank)->no_barrier) != 0;
  atomic_store(&t->fence, fence);
}

uint32_t tu_transport_share(const struct tu_transport *t) {
  const struct tu_cpus **cpus = tu_try_allocate(t->ranks, sizeof *cpus);
  if (!cpus) return 0;
  for (uint32_t rank = 0; rank < t->ranks; rank++) cpus[rank] = &tu_transport_head(t, rank)->cpus;
  uint32_t share = tu_cpus_share(cpus, t->ranks);
  free(cpus);
  return share;
}

/* ---- memory ---- */

/* Cuts a range in two; the second part is as used as the first. False without memory. */
static bool cut(struct tu_range *range, uint64_t at) {
  struct tu_range *rest = tu_try_allocate(1, sizeof *rest);
  if (!rest) return false;
  *rest = (struct tu_range){range->next, at, range->bytes - (size_t)(at - range->place), range->used, false};
  range->bytes -= rest->bytes;
  range->next = rest;
  return true;
}

static void unite_with_next(struct tu_range *range) {
  struct tu_range *next = range->next;
  if (!next || range->used || next->used) return;
  range->bytes += next->bytes;
  range->next = next->next;
  free(next);
}

/* First fit; what was released is united with its neighbours. */
static struct tu_range *find_room(struct tu_transport *t, size_t bytes, size_t align) {
  for (struct tu_range *range = t->ranges; range; range = range->next) {
    uint64_t place = tu_round_up(range->place, align), end = range->place + range->bytes;
    if (range->used || place > end || end - place < bytes) continue;
    if (place > range->place) {
      if (!cut(range, place)) return NULL;
      range = range->next;
    }
    if (range->bytes > bytes && !cut(range, place + bytes)) return NULL; /* cut in two: still free, all of it */
    range->used = true;
    return range;
  }
  return NULL;
}

void *tu_transport_acquire(struct tu_transport *t, size_t bytes, uint64_t *place, struct tu_error *error) {
  /* What is longer than a slice does not fit as it is; rounded up it might have become 0. */
  if (bytes <= t->slice_bytes) bytes = tu_round_up(tu_max(bytes, 1), TU_PLACE_ALIGN);
  pthread_mutex_lock(&t->lock);
  const struct tu_range *range = find_room(t, bytes, bytes >= TU_LARGE_PAGE ? TU_LARGE_PAGE : TU_PLACE_ALIGN);
  size_t used = 0;
  for (const struct tu_range *r = t->ranges; r && !range; r = r->next) used += r->used ? r->bytes : 0;
  if (range) *place = range->place;
  pthread_mutex_unlock(&t->lock);
  if (range) return tu_transport_at(t, *place);
  tu_fail(error, TUTTI_ERR_MEMORY,
          "the shared memory of rank %u is used up: %zu of %zu bytes are taken and %zu more were wanted, in one piece; "
          "free "
          "communicators and tutti_alloc's memory, or set TUTTI_SHM_BYTES higher for all ranks",
          t->rank, used, t->slice_bytes, bytes);
  return NULL;
}

bool tu_transport_hand_over(struct tu_transport *t, uint64_t place, bool to_user) {
  pthread_mutex_lock(&t->lock);
  struct tu_range *range = t->ranges;
  while (range && (range->place != place || !range->used)) range = range->next;
  bool done = range && range->users != to_user;
  if (done) range->users = to_user;
  pthread_mutex_unlock(&t->lock);
  return done;
}

bool tu_transport_release(struct tu_transport *t, uint64_t place) {
  size_t bytes = 0;
  pthread_mutex_lock(&t->lock);
  for (struct tu_range *range = t->ranges, *before = NULL; range && bytes == 0; before = range, range = range->next) {
    if (range->place != place || !range->used) continue;
    bytes = range->bytes;
    t->ops->discard(t, place, bytes);
    range->used = false;
    unite_with_next(range);
    if (before) unite_with_next(before);
    break;
  }
  pthread_mutex_unlock(&t->lock);
  return bytes > 0;
}

/* ---- the user's own memory ---- */

uint64_t tu_transport_registered(const struct tu_transport *t, const void *memory, size_t bytes) {
  for (const struct tu_registered *r = atomic_load_explicit(&t->registered, memory_order_acquire); r; r = r->next) {
    size_t offset = (size_t)((uintptr_t)memory - (uintptr_t)r->memory);
    if (offset < r->bytes && bytes <= r->bytes - offset) return r->place ? r->place + offset : 0;
  }
  return 0;
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
  uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return x < y + b_bytes && y < x + a_bytes;
}

static bool within(uint64_t offset, size_t bytes, size_t whole) { return offset <= whole && bytes <= whole - offset; }

bool tu_transport_offers(struct tu_transport *t, const void *memory, size_t bytes, uint64_t *place) {
  bool offers = false;
  *place = (uint64_t)((uintptr_t)memory - (uintptr_t)t->base);
  pthread_mutex_lock(&t->lock);
  for (const struct tu_range *range = t->ranges; range && !offers; range = range->next)
    offers =
        range->used && range->users && *place >= range->place && within(*place - range->place, bytes, range->bytes);
  for (const struct tu_registered *r = atomic_load(&t->registered); r && !offers; r = r->next) {
    uint64_t offset = (uint64_t)((uintptr_t)memory - (uintptr_t)r->memory);
    offers = within(offset, bytes, r->bytes);
    if (offers) *place = r->place ? r->place + offset : 0;
  }
  pthread_mutex_unlock(&t->lock);
  return offers;
}

bool tu_transport_shares(const struct tu_transport *t, const void *memory, size_t bytes) {
  bool shares = overlap(memory, bytes, t->base, t->slice_bytes * t->ranks);
  for (const struct tu_registered *r = atomic_load_explicit(&t->registered, memory_order_acquire); r; r = r->next)
    shares |= overlap(memory, bytes, r->memory, r->bytes);
  return shares;
}

static tutti_err move_in(struct tu_transport *t, void *memory, size_t bytes, uint64_t *place, struct tu_error *error) {
  void *room = tu_transport_acquire(t, bytes, place, error);
  if (!room) return error->code;
  tu_transport_populate(t, *place, bytes, true);
  memcpy(room, memory, bytes);
  if (t->ops->map_over(t, memory, *place, bytes)) return TUTTI_OK;
  tutti_err err = tu_fail_errno(error, "cannot map %zu bytes of shared memory at %p", bytes, memory);
  tu_transport_release(t, *place);
  return err;
}

tutti_err tu_transport_register(struct tu_transport *t, void *memory, size_t bytes, struct tu_error *error) {
  uint64_t place = 0;
  struct tu_registered *registered = tu_try_allocate(1, sizeof *registered);
  if (!registered) return tu_fail_memory(error, sizeof *registered, "registering memory");
  tutti_err err = t->ops->map_over ? move_in(t, memory, bytes, &place, error) : TUTTI_OK;
  if (err != TUTTI_OK) {
    free(registered);
    return err;
  }
  pthread_mutex_lock(&t->lock);
  *registered =
      (struct tu_registered){.next = atomic_load(&t->registered), .memory = memory, .bytes = bytes, .place = place};
  atomic_store_explicit(&t->registered, registered, memory_order_release);
  pthread_mutex_unlock(&t->lock);
  return TUTTI_OK;
}

tutti_err tu_transport_deregister(struct tu_transport *t, void *memory, struct tu_error *error) {
  pthread_mutex_lock(&t->lock);
  struct tu_registered *before = NULL, *found = atomic_load(&t->registered);
  while (found && found->memory != memory) before = found, found = found->next;
  if (found) {
    atomic_store(before ? &before->next : &t->registered, atomic_load(&found->next));
    found->retired = t->retired;
    t->retired = found;
  }
  pthread_mutex_unlock(&t->lock);
  if (!found) return tu_fail(error, TUTTI_ERR_ARGUMENT, "memory at %p is not registered", memory);
  tutti_err err = TUTTI_OK;
  if (found->place && !t->ops->map_over(t, memory, 0, found->bytes))
    err = tu_fail_errno(error, "cannot map %zu bytes of private memory at %p", found->bytes, memory);
  if (found->place && err == TUTTI_OK) {
    memcpy(memory, tu_transport_at(t, found->place), found->bytes);
    tu_transport_release(t, found->place);
  }
  return err;
}

/* ---- bells ---- */

static void futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout) {
  (void)syscall(SYS_futex, (uintptr_t)word, operation, value, timeout, NULL, 0);
}

uint32_t tu_bell_arm(struct tu_transport *t) {
  struct tu_bell *bell = &tu_transport_head(t, t->rank)->bell;
  uint32_t token = atomic_load(&bell->rings);
  atomic_fetch_add(&bell->sleepers, 1);
  /* Also while this rank still fences itself: its peers may have stopped doing so. */
  bool barrier = !atomic_load_explicit(&tu_transport_head(t, t->rank)->no_barrier, memory_order_relaxed);
  long failed = barrier ? syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) : 0;
  tu_assert(failed == 0);
  return token;
}

void tu_bell_sleep(struct tu_transport *t, uint32_t token, int timeout_ms) {
  struct tu_bell *bell = &tu_transport_head(t, t->rank)->bell;
  struct timespec timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
  futex(&bell->rings, FUTEX_WAIT, token, &timeout);
}

void tu_bell_disarm(struct tu_transport *t) { atomic_fetch_sub(&tu_transport_head(t, t->rank)->bell.sleepers, 1); }

void tu_bell_wake(struct tu_transport *t, uint32_t rank) {
  struct tu_bell *bell = &tu_transport_head(t, rank)->bell;
  atomic_fetch_add(&bell->rings, 1);
  futex(&bell->rings, FUTEX_WAKE, INT_MAX, NULL);
}
