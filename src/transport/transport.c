/* transport.c: what the transports share: the allocator of a slice. */
#include "transport/suspects.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(sizeof(struct tu_slice_head) <= TU_HEAD_BYTES, "the head of a slice lies before its first place");

bool tu_transport_init(struct tu_transport *t, const struct tu_transport_ops *ops, uint32_t rank, uint32_t ranks,
                       void *base, size_t slice_bytes) {
  *t = (struct tu_transport){.ops = ops, .rank = rank, .ranks = ranks, .base = base, .slice_bytes = slice_bytes};
  t->ranges = tu_try_allocate(1, sizeof *t->ranges);
  if (!t->ranges) return false;
  pthread_mutex_init(&t->lock, NULL);
  pthread_mutex_init(&t->waits.lock, NULL);
  t->free_ranges = t->ranges;
  t->free_bytes = slice_bytes - TU_HEAD_BYTES;
  *t->ranges = (struct tu_range){.place = rank * (uint64_t)slice_bytes + TU_HEAD_BYTES, .bytes = t->free_bytes};
  struct tu_slice_head *head = tu_transport_head(t, rank);
  bool registered = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
  atomic_store(&t->fence, true); /* until all ranks are known to be registered */
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
    next = atomic_load(&registered->next); /* its pages stay mapped, for the user */
    free(registered);
  }
  for (struct tu_registered *retired = t->retired, *next; retired; retired = next) {
    next = atomic_load(&retired->next);
    free(retired);
  }
  pthread_mutex_destroy(&t->lock);
  pthread_mutex_destroy(&t->waits.lock);
}

bool tu_transport_alive(struct tu_transport *t, uint32_t rank) {
  return rank == t->rank || !atomic_load(&tu_transport_head(t, rank)->present) || t->ops->alive(t, rank);
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

/* ---- memory ---- */

static struct tu_range **used_list(struct tu_transport *t, uint64_t place) {
  return &t->used_ranges[place / TU_PLACE_ALIGN % TU_RANGE_LISTS];
}

static struct tu_range **resting_list(struct tu_transport *t, size_t bytes) {
  return &t->resting_ranges[63 - __builtin_clzll(bytes)];
}

static void put(struct tu_range **list, struct tu_range *range) {
  range->chain = *list;
  *list = range;
}

static void take(struct tu_range **list, struct tu_range *range) {
  while (*list != range) list = &(*list)->chain;
  *list = range->chain;
}

/* Cuts off what is free behind a free range's first bytes. False without memory. */
static bool cut(struct tu_transport *t, struct tu_range *range, size_t bytes) {
  if (range->bytes == bytes) return true;
  struct tu_range *rest = tu_try_allocate(1, sizeof *rest);
  if (!rest) return false;
  *rest = (struct tu_range){
      .before = range, .next = range->next, .place = range->place + bytes, .bytes = range->bytes - bytes};
  if (rest->next) rest->next->before = rest;
  range->next = rest;
  range->bytes = bytes;
  put(&t->free_ranges, rest);
  return true;
}

static bool is_free(const struct tu_range *range) { return range && !range->used && !range->rests; }

/* Both are free and in the list. */
static void unite(struct tu_transport *t, struct tu_range *range, struct tu_range *next) {
  take(&t->free_ranges, next);
  range->bytes += next->bytes;
  range->next = next->next;
  if (next->next) next->next->before = range;
  free(next);
}

/* Its pages go back to the system; it is united with its neighbours. */
static void discard(struct tu_transport *t, struct tu_range *range) {
  t->ops->discard(t, range->place, range->bytes);
  put(&t->free_ranges, range);
  if (is_free(range->next)) unite(t, range, range->next);
  if (is_free(range->before)) unite(t, range->before, range);
}

static void discard_resting(struct tu_transport *t, struct tu_range **list) {
  struct tu_range *range = *list;
  *list = range->chain;
  range->rests = false;
  t->resting_bytes -= range->bytes;
  discard(t, range);
}

static void discard_all_resting(struct tu_transport *t) {
  for (uint32_t i = 0; i < TU_REST_LISTS; i++)
    while (t->resting_ranges[i]) discard_resting(t, &t->resting_ranges[i]);
}

static struct tu_range *find_resting(struct tu_transport *t, size_t bytes, size_t align) {
  for (struct tu_range **list = resting_list(t, bytes); *list; list = &(*list)->chain) {
    struct tu_range *range = *list;
    if (range->bytes != bytes || range->place % align != 0) continue;
    *list = range->chain;
    range->rests = false;
    t->resting_bytes -= bytes;
    return range;
  }
  return NULL;
}

/* The first one that fits. */
static struct tu_range *find_free(struct tu_transport *t, size_t bytes, size_t align) {
  struct tu_range *first = NULL;
  uint64_t at = 0;
  for (struct tu_range *range = t->free_ranges; range; range = range->chain) {
    uint64_t place = tu_round_up(range->place, align), end = range->place + range->bytes;
    if (place > end || end - place < bytes || (first && range->place > first->place)) continue;
    first = range;
    at = place;
  }
  if (!first) return NULL;
  if (at > first->place) {
    if (!cut(t, first, (size_t)(at - first->place))) return NULL;
    first = first->next;
  }
  if (!cut(t, first, bytes)) return NULL; /* cut in two, perhaps: still free, all of it */
  take(&t->free_ranges, first);
  return first;
}

void *tu_transport_acquire(struct tu_transport *t, size_t bytes, uint64_t *place, struct tu_error *error) {
  /* What is longer than a slice does not fit as it is; rounded up it might have become 0. */
  if (bytes <= t->slice_bytes) bytes = tu_round_up(tu_max(bytes, 1), TU_PLACE_ALIGN);
  size_t align = bytes >= TU_LARGE_PAGE ? TU_LARGE_PAGE : TU_PLACE_ALIGN;
  pthread_mutex_lock(&t->lock);
  struct tu_range *range = find_resting(t, bytes, align);
  if (!range) range = find_free(t, bytes, align);
  if (!range && bytes <= t->free_bytes) {
    discard_all_resting(t);
    range = find_free(t, bytes, align);
  }
  if (range) {
    *place = range->place;
    range->used = true;
    t->free_bytes -= bytes;
    put(used_list(t, range->place), range);
  }
  size_t used = t->slice_bytes - TU_HEAD_BYTES - t->free_bytes;
  pthread_mutex_unlock(&t->lock);
  if (range) return tu_transport_at(t, *place);
  tu_fail(error, TUTTI_ERR_MEMORY,
          "the shared memory of rank %u is used up: %zu of %zu bytes are taken and %zu more were wanted, in one piece; "
          "free "
          "communicators and tutti_alloc's memory, or set TUTTI_SHM_BYTES higher for all ranks",
          t->rank, used, t->slice_bytes, bytes);
  return NULL;
}

static struct tu_range *find_used(struct tu_transport *t, uint64_t place) {
  struct tu_range *range = *used_list(t, place);
  while (range && range->place != place) range = range->chain;
  return range;
}

bool tu_transport_hand_over(struct tu_transport *t, uint64_t place, bool to_user) {
  pthread_mutex_lock(&t->lock);
  struct tu_range *range = find_used(t, place);
  bool done = range && range->users != to_user;
  if (done) range->users = to_user;
  pthread_mutex_unlock(&t->lock);
  return done;
}

/* What is longer than it makes room for it: short ones come again more often, and cost a system call all the same. */
static void rest(struct tu_transport *t, struct tu_range *range) {
  struct tu_range **longest = &t->resting_ranges[TU_REST_LISTS - 1], **own = resting_list(t, range->bytes);
  range->rests = true; /* no neighbour is united with it meanwhile */
  for (; longest > own && t->resting_bytes + range->bytes > TU_REST_BYTES_MAX; longest--)
    while (*longest && t->resting_bytes + range->bytes > TU_REST_BYTES_MAX) discard_resting(t, longest);
  if (t->resting_bytes + range->bytes > TU_REST_BYTES_MAX) {
    range->rests = false;
    discard(t, range);
    return;
  }
  t->resting_bytes += range->bytes;
  put(own, range);
}

bool tu_transport_release(struct tu_transport *t, uint64_t place) {
  pthread_mutex_lock(&t->lock);
  struct tu_range *range = find_used(t, place);
  if (range) {
    take(used_list(t, place), range);
    range->used = range->users = range->held = false;
    t->free_bytes += range->bytes;
    rest(t, range);
  }
  pthread_mutex_unlock(&t->lock);
  return range != NULL;
}

bool tu_transport_give_back(struct tu_transport *t, uint64_t place) {
  if (!atomic_load(&t->suspects)) return tu_transport_release(t, place);
  pthread_mutex_lock(&t->lock);
  struct tu_range *range = find_used(t, place);
  if (range) range->held = true;
  pthread_mutex_unlock(&t->lock);
  return range != NULL;
}

static bool find_held(struct tu_transport *t, uint64_t *place) {
  pthread_mutex_lock(&t->lock);
  const struct tu_range *range = t->ranges;
  while (range && !range->held) range = range->next;
  if (range) *place = range->place;
  pthread_mutex_unlock(&t->lock);
  return range != NULL;
}

void tu_transport_release_held(struct tu_transport *t) {
  for (uint64_t place; find_held(t, &place);) (void)tu_transport_release(t, place);
}

void tu_transport_trim(struct tu_transport *t) {
  pthread_mutex_lock(&t->lock);
  discard_all_resting(t);
  pthread_mutex_unlock(&t->lock);
}

size_t tu_transport_free_bytes(struct tu_transport *t) {
  pthread_mutex_lock(&t->lock);
  size_t bytes = t->free_bytes;
  pthread_mutex_unlock(&t->lock);
  return bytes;
}

/* ---- the user's own memory ---- */

/* The place of so many bytes, if they are within what is registered; place 0: at its own address. */
static bool find_registered(const struct tu_transport *t, const void *memory, size_t bytes, uint64_t *place) {
  const struct tu_registered *r = atomic_load_explicit(&t->registered, memory_order_acquire);
  for (; r; r = atomic_load_explicit(&r->next, memory_order_acquire)) {
    size_t offset = (size_t)((uintptr_t)memory - (uintptr_t)atomic_load_explicit(&r->memory, memory_order_acquire));
    size_t whole = atomic_load_explicit(&r->bytes, memory_order_acquire);
    uint64_t begin = atomic_load_explicit(&r->place, memory_order_acquire);
    if (offset >= whole || bytes > whole - offset) continue;
    *place = begin ? begin + offset : 0;
    return true;
  }
  return false;
}

/* What was read belongs together if the version is even, and the same afterwards: each load before that one is an acquire, and
 * what they see of a change has been released after the odd version. */
uint64_t tu_transport_registered(struct tu_transport *t, const void *memory, size_t bytes) {
  uint64_t place = 0;
  uint32_t version = atomic_load_explicit(&t->registered_version, memory_order_acquire);
  if (!find_registered(t, memory, bytes, &place)) place = 0;
  if (version % 2 == 0 && atomic_load_explicit(&t->registered_version, memory_order_relaxed) == version) return place;
  pthread_mutex_lock(&t->lock);
  if (!find_registered(t, memory, bytes, &place)) place = 0;
  pthread_mutex_unlock(&t->lock);
  return place;
}

/* With the lock held: what comes between is not seen by others, or all of it. */
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

bool tu_transport_offers(struct tu_transport *t, const void *memory, size_t bytes, uint64_t *place) {
  bool offers = false;
  *place = (uint64_t)((uintptr_t)memory - (uintptr_t)t->base);
  pthread_mutex_lock(&t->lock);
  for (const struct tu_range *range = t->ranges; range && !offers; range = range->next)
    offers =
        range->used && range->users && *place >= range->place && within(*place - range->place, bytes, range->bytes);
  if (!offers) offers = find_registered(t, memory, bytes, place);
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

/* To be used again: entries are never freed before the end, as others may still be looking through the list. */
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
  uint64_t place = 0;
  struct tu_registered *registered = take_retired(t);
  if (!registered) registered = tu_try_allocate(1, sizeof *registered);
  if (!registered) return tu_fail_memory(error, sizeof *registered, "registering memory");
  tutti_err err = t->ops->map_over ? move_in(t, memory, bytes, &place, error) : TUTTI_OK;
  pthread_mutex_lock(&t->lock);
  if (err != TUTTI_OK) {
    keep(t, registered);
    pthread_mutex_unlock(&t->lock);
    return err;
  }
  begin_change(t);
  atomic_store_explicit(&registered->memory, memory, memory_order_release);
  atomic_store_explicit(&registered->bytes, bytes, memory_order_release);
  atomic_store_explicit(&registered->place, place, memory_order_release);
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

/* Not in the list any more. */
static void retire(struct tu_transport *t, struct tu_registered *_Atomic *link) {
  struct tu_registered *registered = *link;
  begin_change(t);
  atomic_store_explicit(link, atomic_load(&registered->next), memory_order_release);
  keep(t, registered);
  end_change(t);
}

tutti_err tu_transport_deregister(struct tu_transport *t, void *memory, struct tu_error *error) {
  pthread_mutex_lock(&t->lock);
  struct tu_registered *_Atomic *link = link_to(t, memory);
  const struct tu_registered *found = *link;
  uint64_t place = found ? found->place : 0;
  size_t bytes = found ? found->bytes : 0;
  tutti_err err = TUTTI_OK;
  if (!found) err = tu_fail(error, TUTTI_ERR_ARGUMENT, "memory at %p is not registered", memory);
  else if (place && !t->ops->map_over(t, memory, 0, bytes))
    err = tu_fail_errno(error, "cannot map %zu bytes of private memory at %p", bytes, memory);
  if (err == TUTTI_OK && place) memcpy(memory, tu_transport_at(t, place), bytes);
  if (err == TUTTI_OK) retire(t, link);
  pthread_mutex_unlock(&t->lock);
  if (err == TUTTI_OK && place) (void)tu_transport_give_back(t, place);
  return err;
}
