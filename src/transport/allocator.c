/* allocator.c: the allocator of a rank's slice of shared memory. */
#include <stdlib.h>

#include "transport/transport.h"

static struct tu_range **used_list(struct tu_transport *t, uint64_t offset) {
  return &t->used_ranges[offset / TU_OFFSET_ALIGN % TU_RANGE_LISTS];
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

/* Splits a free range after its first `bytes` bytes. The rest becomes a free range. Returns false if out of memory. */
static bool cut(struct tu_transport *t, struct tu_range *range, size_t bytes) {
  if (range->bytes == bytes) return true;
  struct tu_range *rest = tu_try_allocate(1, sizeof *rest);
  if (!rest) return false;
  *rest = (struct tu_range){
      .before = range, .next = range->next, .offset = range->offset + bytes, .bytes = range->bytes - bytes};
  if (rest->next) rest->next->before = rest;
  range->next = rest;
  range->bytes = bytes;
  put(&t->free_ranges, rest);
  return true;
}

static bool is_free(const struct tu_range *range) { return range && !range->used && !range->rests; }

/* Merges the range `next` into its neighbour `range`. Both ranges are free and in the list of free ranges. */
static void unite(struct tu_transport *t, struct tu_range *range, struct tu_range *next) {
  take(&t->free_ranges, next);
  range->bytes += next->bytes;
  range->next = next->next;
  if (next->next) next->next->before = range;
  free(next);
}

/* Gives the pages of a range back to the system, and merges the range with its free neighbours. */
static void discard(struct tu_transport *t, struct tu_range *range) {
  t->ops->discard(t, range->offset, range->bytes);
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
    if (range->bytes != bytes || range->offset % align != 0) continue;
    *list = range->chain;
    range->rests = false;
    t->resting_bytes -= bytes;
    return range;
  }
  return NULL;
}

/* Allocates `bytes` bytes from a free range. Of the free ranges that are large enough, takes the one with the lowest
 * offset. Returns NULL if no free range is large enough, or if out of memory. */
static struct tu_range *find_free(struct tu_transport *t, size_t bytes, size_t align) {
  struct tu_range *first = NULL;
  uint64_t at = 0;
  for (struct tu_range *range = t->free_ranges; range; range = range->chain) {
    uint64_t offset = tu_round_up(range->offset, align), end = range->offset + range->bytes;
    if (offset > end || end - offset < bytes || (first && range->offset > first->offset)) continue;
    first = range;
    at = offset;
  }
  if (!first) return NULL;
  if (at > first->offset) {
    if (!cut(t, first, (size_t)(at - first->offset))) return NULL;
    first = first->next;
  }
  if (!cut(t, first, bytes)) return NULL; /* out of memory; the range stays free */
  take(&t->free_ranges, first);
  return first;
}

void *tu_transport_acquire(struct tu_transport *t, size_t bytes, uint64_t *offset, struct tu_error *error) {
  /* A request that is longer than the slice is not rounded up, because rounding could overflow to 0. Such a request
   * fails below. */
  if (bytes <= t->slice_bytes) bytes = tu_round_up(tu_max(bytes, 1), TU_OFFSET_ALIGN);
  size_t align = bytes >= TU_LARGE_PAGE ? TU_LARGE_PAGE : TU_OFFSET_ALIGN;
  pthread_mutex_lock(&t->lock);
  struct tu_range *range = find_resting(t, bytes, align);
  if (!range) range = find_free(t, bytes, align);
  if (!range && bytes <= t->free_bytes) {
    discard_all_resting(t);
    range = find_free(t, bytes, align);
  }
  if (range) {
    *offset = range->offset;
    range->used = true;
    t->free_bytes -= bytes;
    put(used_list(t, range->offset), range);
  }
  size_t used = t->slice_bytes - TU_HEAD_BYTES - t->free_bytes;
  pthread_mutex_unlock(&t->lock);
  if (range) return tu_transport_at(t, *offset);
  tu_fail(error, TUTTI_ERR_MEMORY,
          "the shared memory of rank %u is full: %zu of %zu bytes are in use, and %zu contiguous bytes were requested; "
          "free communicators or memory of tutti_alloc, or set TUTTI_SHM_BYTES higher for all ranks",
          t->rank, used, t->slice_bytes, bytes);
  return NULL;
}

static struct tu_range *find_used(struct tu_transport *t, uint64_t offset) {
  struct tu_range *range = *used_list(t, offset);
  while (range && range->offset != offset) range = range->chain;
  return range;
}

bool tu_transport_hand_over(struct tu_transport *t, uint64_t offset, bool to_user) {
  pthread_mutex_lock(&t->lock);
  struct tu_range *range = find_used(t, offset);
  bool done = range && range->users != to_user;
  if (done) range->users = to_user;
  pthread_mutex_unlock(&t->lock);
  if (done && !to_user && t->hosts) t->hosts->forget(t->hosts, tu_transport_at(t, offset));
  return done;
}

/* Lets a released range rest: it keeps its pages for the next request of its size. The total size of resting ranges is
 * limited. If the limit would be exceeded, the pages of longer resting ranges are given back first, because shorter
 * ranges are requested more often. If that is not enough, the pages of this range are given back. */
static void rest(struct tu_transport *t, struct tu_range *range) {
  struct tu_range **longest = &t->resting_ranges[TU_REST_LISTS - 1], **own = resting_list(t, range->bytes);
  /* The loop below discards other ranges, and merges them with free neighbours. Mark this range as resting first, so
   * that it is not merged with them. */
  range->rests = true;
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

bool tu_transport_release(struct tu_transport *t, uint64_t offset) {
  pthread_mutex_lock(&t->lock);
  struct tu_range *range = find_used(t, offset);
  if (range) {
    take(used_list(t, offset), range);
    range->used = range->users = range->held = false;
    t->free_bytes += range->bytes;
    rest(t, range);
  }
  pthread_mutex_unlock(&t->lock);
  return range != NULL;
}

bool tu_transport_give_back(struct tu_transport *t, uint64_t offset) {
  if (!atomic_load(&t->suspects)) return tu_transport_release(t, offset);
  pthread_mutex_lock(&t->lock);
  struct tu_range *range = find_used(t, offset);
  if (range) range->held = true;
  pthread_mutex_unlock(&t->lock);
  return range != NULL;
}

static bool find_held(struct tu_transport *t, uint64_t *offset) {
  pthread_mutex_lock(&t->lock);
  const struct tu_range *range = t->ranges;
  while (range && !range->held) range = range->next;
  if (range) *offset = range->offset;
  pthread_mutex_unlock(&t->lock);
  return range != NULL;
}

void tu_transport_release_held(struct tu_transport *t) {
  for (uint64_t offset; find_held(t, &offset);) (void)tu_transport_release(t, offset);
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
