/* registered.c: registers memory of the user: the memory becomes shared memory, and keeps its address. */
#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "transport/transport.h"

/* Finds the registration that contains these bytes of the user's memory. Sets *offset to their offset in the segment,
 * or to 0 if all ranks are in this process and use the address. Returns false if the bytes do not lie within one
 * registration. */
static bool find_registered(const struct tu_transport *t, const void *memory, size_t bytes, uint64_t *offset) {
  const struct tu_registered *r = atomic_load_explicit(&t->registered, memory_order_acquire);
  for (; r; r = atomic_load_explicit(&r->next, memory_order_acquire)) {
    size_t from_begin = (size_t)((uintptr_t)memory - (uintptr_t)atomic_load_explicit(&r->memory, memory_order_acquire));
    size_t whole = atomic_load_explicit(&r->bytes, memory_order_acquire);
    uint64_t begin = atomic_load_explicit(&r->offset, memory_order_acquire);
    if (from_begin >= whole || bytes > whole - from_begin) continue;
    *offset = begin ? begin + from_begin : 0;
    return true;
  }
  return false;
}

/* First reads the list of registered memory without the lock. The result is valid if the list's version is even before
 * the read and unchanged after it, because a change makes the version odd first (a seqlock). All loads before the
 * second load of the version are acquire loads, and all stores of a change are release stores. If the result is not
 * valid, reads the list again with the lock. */
uint64_t tu_transport_registered(struct tu_transport *t, const void *memory, size_t bytes) {
  uint64_t offset = 0;
  uint32_t version = atomic_load_explicit(&t->registered_version, memory_order_acquire);
  if (!find_registered(t, memory, bytes, &offset)) offset = 0;
  if (version % 2 == 0 && atomic_load_explicit(&t->registered_version, memory_order_relaxed) == version) return offset;
  pthread_mutex_lock(&t->lock);
  if (!find_registered(t, memory, bytes, &offset)) offset = 0;
  pthread_mutex_unlock(&t->lock);
  return offset;
}

/* Begins a change of the list of registered memory; the lock is held. Readers see the whole change or nothing of it. */
static void begin_change(struct tu_transport *t) {
  atomic_fetch_add_explicit(&t->registered_version, 1, memory_order_relaxed);
}

static void end_change(struct tu_transport *t) {
  atomic_fetch_add_explicit(&t->registered_version, 1, memory_order_release);
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
  uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return x < y + b_bytes && y < x + a_bytes;
}

static bool within(uint64_t offset, size_t bytes, size_t whole) { return offset <= whole && bytes <= whole - offset; }

static bool find_allocated(const struct tu_transport *t, const void *memory, size_t bytes, void **base, size_t *whole) {
  const uint64_t offset = (uint64_t)((uintptr_t)memory - (uintptr_t)t->base);
  for (const struct tu_range *range = t->ranges; range; range = range->next) {
    if (!range->used || !range->users || offset < range->offset || !within(offset - range->offset, bytes, range->bytes))
      continue;
    *base = tu_transport_at(t, range->offset);
    *whole = range->bytes;
    return true;
  }
  return false;
}

bool tu_transport_whole(struct tu_transport *t, const void *memory, size_t bytes, void **base, size_t *whole) {
  const bool in_segment = overlap(memory, bytes, t->base, t->slice_bytes * t->ranks);
  bool found = false;
  pthread_mutex_lock(&t->lock);
  if (in_segment) found = find_allocated(t, memory, bytes, base, whole);
  for (const struct tu_registered *r = atomic_load(&t->registered); r && !found; r = atomic_load(&r->next)) {
    *base = atomic_load(&r->memory);
    *whole = atomic_load(&r->bytes);
    found = within((uint64_t)((uintptr_t)memory - (uintptr_t)*base), bytes, *whole);
  }
  pthread_mutex_unlock(&t->lock);
  return found;
}

bool tu_transport_offers(struct tu_transport *t, const void *memory, size_t bytes, uint64_t *offset) {
  bool offers;
  void *base;
  size_t whole;
  *offset = (uint64_t)((uintptr_t)memory - (uintptr_t)t->base);
  pthread_mutex_lock(&t->lock);
  offers = find_allocated(t, memory, bytes, &base, &whole);
  if (!offers) offers = find_registered(t, memory, bytes, offset);
  pthread_mutex_unlock(&t->lock);
  return offers;
}

bool tu_transport_shares(struct tu_transport *t, const void *memory, size_t bytes) {
  bool shares = overlap(memory, bytes, t->base, t->slice_bytes * t->ranks);
  pthread_mutex_lock(&t->lock);
  for (const struct tu_registered *r = atomic_load(&t->registered); r; r = atomic_load(&r->next))
    shares |= overlap(memory, bytes, atomic_load(&r->memory), atomic_load(&r->bytes));
  pthread_mutex_unlock(&t->lock);
  return shares;
}

static tutti_err move_in(struct tu_transport *t, void *memory, size_t bytes, uint64_t *offset, struct tu_error *error) {
  void *room = tu_transport_acquire(t, bytes, offset, error);
  if (!room) return error->code;
  tu_transport_populate(t, *offset, bytes, true);
  memcpy(room, memory, bytes);
  if (t->ops->map_over(t, memory, *offset, bytes)) return TUTTI_OK;
  tutti_err err = tu_fail_errno(error, "cannot map %zu bytes of shared memory at %p", bytes, memory);
  tu_transport_release(t, *offset);
  return err;
}

/* Keeps an unused entry of the list for reuse. Entries are freed only when the endpoint closes, as other threads may
 * still read them. */
static void keep(struct tu_transport *t, struct tu_registered *registered) {
  atomic_store_explicit(&registered->next, t->retired, memory_order_release);
  t->retired = registered;
}

static struct tu_registered *take_retired(struct tu_transport *t) {
  pthread_mutex_lock(&t->lock);
  struct tu_registered *registered = t->retired;
  if (registered) t->retired = atomic_load(&registered->next);
  pthread_mutex_unlock(&t->lock);
  return registered;
}

tutti_err tu_transport_register(struct tu_transport *t, void *memory, size_t bytes, struct tu_error *error) {
  uint64_t offset = 0;
  struct tu_registered *registered = take_retired(t);
  if (!registered) registered = tu_try_allocate(1, sizeof *registered);
  if (!registered) return tu_fail_memory(error, sizeof *registered, "an entry of registered memory");
  tutti_err err = t->ops->map_over ? move_in(t, memory, bytes, &offset, error) : TUTTI_OK;
  pthread_mutex_lock(&t->lock);
  if (err != TUTTI_OK) {
    keep(t, registered);
    pthread_mutex_unlock(&t->lock);
    return err;
  }
  begin_change(t);
  atomic_store_explicit(&registered->memory, memory, memory_order_release);
  atomic_store_explicit(&registered->bytes, bytes, memory_order_release);
  atomic_store_explicit(&registered->offset, offset, memory_order_release);
  atomic_store_explicit(&registered->next, atomic_load(&t->registered), memory_order_release);
  atomic_store_explicit(&t->registered, registered, memory_order_release);
  end_change(t);
  pthread_mutex_unlock(&t->lock);
  return TUTTI_OK;
}

static struct tu_registered *_Atomic *link_to(struct tu_transport *t, const void *memory) {
  struct tu_registered *_Atomic *link = &t->registered;
  while (*link && atomic_load(&(*link)->memory) != memory) link = &(*link)->next;
  return link;
}

/* Removes an entry from the list of registered memory. */
static void retire(struct tu_transport *t, struct tu_registered *_Atomic *link) {
  struct tu_registered *registered = *link;
  begin_change(t);
  atomic_store_explicit(link, atomic_load(&registered->next), memory_order_release);
  keep(t, registered);
  end_change(t);
}

tutti_err tu_transport_deregister(struct tu_transport *t, void *memory, struct tu_error *error) {
  if (t->hosts) t->hosts->forget(t->hosts, memory);
  pthread_mutex_lock(&t->lock);
  struct tu_registered *_Atomic *link = link_to(t, memory);
  const struct tu_registered *found = *link;
  uint64_t offset = found ? found->offset : 0;
  size_t bytes = found ? found->bytes : 0;
  tutti_err err = TUTTI_OK;
  if (!found) err = tu_fail(error, TUTTI_ERR_ARGUMENT, "memory at %p is not registered", memory);
  else if (offset && !t->ops->map_over(t, memory, 0, bytes))
    err = tu_fail_errno(error, "cannot map %zu bytes of private memory at %p", bytes, memory);
  if (err == TUTTI_OK && offset) memcpy(memory, tu_transport_at(t, offset), bytes);
  if (err == TUTTI_OK) retire(t, link);
  pthread_mutex_unlock(&t->lock);
  if (err == TUTTI_OK && offset) (void)tu_transport_give_back(t, offset);
  return err;
}
