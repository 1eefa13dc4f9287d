/* transport.c: what the transports share: the allocator of a slice, and bells on futexes. */
#include "transport/transport.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PLACE_ALIGN 4096u
_Static_assert(sizeof(struct tu_slice_head) <= TU_FIRST_PLACE, "the head of a slice lies before its first place");

void tu_transport_init(struct tu_transport *t, const struct tu_transport_ops *ops, uint32_t rank, uint32_t ranks,
                       void *base, size_t slice_bytes) {
  *t = (struct tu_transport){.ops = ops, .rank = rank, .ranks = ranks, .base = base, .slice_bytes = slice_bytes};
  pthread_mutex_init(&t->lock, NULL);
  t->used = TU_FIRST_PLACE;
  struct tu_slice_head *head = tu_transport_head(t, rank);
  bool registered = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
  atomic_store(&t->fence, true); /* until all ranks are known to be registered */
  atomic_store(&head->no_barrier, !registered);
  atomic_store(&head->present, 1);
}

void tu_transport_fini(struct tu_transport *t) {
  for (struct tu_free_range *range = t->free_ranges, *next; range; range = next) {
    next = range->next;
    free(range);
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

/* First fit over what was released (few sizes recur), else from the untouched end. */
void *tu_transport_acquire(struct tu_transport *t, size_t bytes, uint64_t *place, struct tu_error *error) {
  bytes = tu_round_up(bytes, PLACE_ALIGN);
  pthread_mutex_lock(&t->lock);
  bool found = false;
  for (struct tu_free_range **link = &t->free_ranges; *link; link = &(*link)->next) {
    struct tu_free_range *range = *link;
    if (range->bytes != bytes) continue;
    *place = range->place;
    *link = range->next;
    free(range);
    found = true;
    break;
  }
  if (!found && bytes <= t->slice_bytes - t->used) {
    *place = t->rank * (uint64_t)t->slice_bytes + t->used;
    t->used += bytes;
    found = true;
  }
  pthread_mutex_unlock(&t->lock);
  if (found) return tu_transport_at(t, *place);
  tu_fail(error, TUTTI_ERR_MEMORY,
          "the shared memory of rank %u is used up: %zu of %zu bytes are taken and %zu more were wanted; free "
          "communicators, or set TUTTI_SHM_BYTES higher for all ranks",
          t->rank, t->used, t->slice_bytes, bytes);
  return NULL;
}

void tu_transport_release(struct tu_transport *t, uint64_t place, size_t bytes) {
  bytes = tu_round_up(bytes, PLACE_ALIGN);
  t->ops->discard(t, place, bytes);
  struct tu_free_range *range = tu_allocate(1, sizeof *range);
  pthread_mutex_lock(&t->lock);
  *range = (struct tu_free_range){t->free_ranges, place, bytes};
  t->free_ranges = range;
  pthread_mutex_unlock(&t->lock);
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
  if (barrier) tu_assert(syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0);
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
