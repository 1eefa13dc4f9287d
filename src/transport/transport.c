/* transport.c: creates and closes endpoints, and records ranks that gave up before they had a communicator. */
#include "transport/suspects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(struct tu_slice_head) <= TU_HEAD_BYTES,
               "the head of a slice lies before the memory that the rank allocates");

bool tu_transport_init(struct tu_transport *t, const struct tu_transport_ops *ops, uint32_t rank, uint32_t ranks,
                       void *base, size_t slice_bytes) {
  *t = (struct tu_transport){.ops = ops, .rank = rank, .ranks = ranks, .base = base, .slice_bytes = slice_bytes};
  t->ranges = tu_try_allocate(1, sizeof *t->ranges);
  if (!t->ranges) return false;
  pthread_mutex_init(&t->lock, NULL);
  pthread_mutex_init(&t->waits.lock, NULL);
  t->free_ranges = t->ranges;
  t->free_bytes = slice_bytes - TU_HEAD_BYTES;
  *t->ranges = (struct tu_range){.offset = rank * (uint64_t)slice_bytes + TU_HEAD_BYTES, .bytes = t->free_bytes};
  struct tu_slice_head *head = tu_transport_head(t, rank);
  bool registered = tu_bell_register();
  atomic_store(&t->fence, true); /* ring bells with a fence until all ranks are known to support membarrier */
  atomic_store(&head->no_barrier, !registered);
  atomic_store(&head->present, 1);
  return true;
}

void tu_transport_fini(struct tu_transport *t) {
  if (t->hosts) t->hosts->close(t->hosts);
  tu_suspects_forget(t);
  for (struct tu_range *range = t->ranges, *next; range; range = next) {
    next = range->next;
    free(range);
  }
  for (struct tu_registered *registered = atomic_load(&t->registered), *next; registered; registered = next) {
    /* free only the entry of the list; the registered memory itself stays mapped for the user */
    next = atomic_load(&registered->next);
    free(registered);
  }
  for (struct tu_registered *retired = t->retired, *next; retired; retired = next) {
    next = atomic_load(&retired->next);
    free(retired);
  }
  pthread_mutex_destroy(&t->lock);
  pthread_mutex_destroy(&t->waits.lock);
}

void tu_transport_give_up(struct tu_transport *t, const struct tu_error *reason) {
  struct tu_slice_head *head = tu_transport_head(t, t->rank);
  head->reason = *reason;
  atomic_store_explicit(&head->gave_up, 1, memory_order_release);
}

bool tu_transport_gave_up(const struct tu_transport *t, uint32_t rank, struct tu_error *error) {
  const struct tu_slice_head *head = tu_transport_head(t, rank);
  if (!atomic_load_explicit(&head->gave_up, memory_order_acquire)) return false;
  *error = head->reason;
  error->text[sizeof error->text - 1] = '\0';
  return true;
}

void tu_transport_settle(struct tu_transport *t) {
  bool fence = false;
  for (uint32_t rank = 0; rank < t->ranks; rank++) fence |= atomic_load(&tu_transport_head(t, rank)->no_barrier) != 0;
  atomic_store(&t->fence, fence);
}
