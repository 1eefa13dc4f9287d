/* copy.h: one array into several, with ordinary stores or past the caches. */
#ifndef TU_COPY_H
#define TU_COPY_H

#include <string.h>

#include "base/base.h"

/* Which of several targets are stored past the caches (where the machine can): those that are not read soon, or not by this
 * core. All of it is visible to others once the call returns and a flag is stored after it. */
enum tu_past { TU_PAST_NONE = 0, TU_PAST_FIRST = 1, TU_PAST_REST = 2, TU_PAST_ALL = 3 };
static inline bool tu_is_past(enum tu_past past, uint32_t target) { return (unsigned)past >> (target > 0) & 1; }
/* The same for so many targets alone: NONE or ALL if they are all of one kind. */
static inline enum tu_past tu_past_of(enum tu_past past, uint32_t dst_count) {
  return dst_count > 1 ? past : past & TU_PAST_FIRST ? TU_PAST_ALL : TU_PAST_NONE;
}

/* memcpy, of some length, to memory that another core may have in its cache. */
void tu_copy_bytes(void *dst, const void *src, size_t bytes);
/* The same where short lengths count nanoseconds. Of nothing, the addresses may be NULL. */
static inline void tu_copy_short(void *dst, const void *src, size_t bytes) {
  if (bytes == 8) memcpy(dst, src, 8);
  else if (bytes > 0) tu_copy_bytes(dst, src, bytes);
}

/* Copies src to every one of dsts, none of which overlaps it: src is read once, block by block. */
void tu_copy_into(void *const dsts[], uint32_t dst_count, enum tu_past past, const void *src, size_t bytes);

/* The pieces of that: memcpy past the caches, of any alignment; then, after the last one, the fence that orders these
 * stores before all later ones. */
void tu_stream(void *dst, const void *src, size_t bytes);
void tu_stream_end(void);

#endif
