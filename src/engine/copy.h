/* copy.h: copies one array into one or several others, with ordinary or with non-temporal stores (which bypass the
 * caches). */
#ifndef TU_COPY_H
#define TU_COPY_H

#include <string.h>

#include "base/base.h"

/* Says which of several targets are written with non-temporal stores, if the machine has them: none, the first, all but
 * the first (REST), or all. Such stores suit a target that is not read soon, or that another core reads. The copy ends
 * with a fence. So a rank that sees a flag, which is stored after the copy, also sees all copied data. */
enum tu_past { TU_PAST_NONE = 0, TU_PAST_FIRST = 1, TU_PAST_REST = 2, TU_PAST_ALL = 3 };
static inline bool tu_is_past(enum tu_past past, uint32_t target) { return (unsigned)past >> (target > 0) & 1; }
/* Returns what `past` means for dst_count targets. A single target counts as the first one, so FIRST becomes ALL, and
 * REST becomes NONE. */
static inline enum tu_past tu_past_of(enum tu_past past, uint32_t dst_count) {
  return dst_count > 1 ? past : past & TU_PAST_FIRST ? TU_PAST_ALL : TU_PAST_NONE;
}

/* Copies like memcpy; optimised for a target that another core may have in its cache. */
void tu_copy_bytes(void *dst, const void *src, size_t bytes);
/* Copies like tu_copy_bytes, but faster for short lengths. With bytes = 0 the addresses may be NULL. */
static inline void tu_copy_short(void *dst, const void *src, size_t bytes) {
  if (bytes == 8) memcpy(dst, src, 8);
  else if (bytes > 0) tu_copy_bytes(dst, src, bytes);
}

/* Copies src to each of dsts. No target overlaps src. Reads src once, block by block. */
void tu_copy_into(void *const dsts[], uint32_t dst_count, enum tu_past past, const void *src, size_t bytes);

/* The two parts of tu_copy_into, for callers that copy block by block. tu_stream: memcpy with non-temporal stores, for
 * any alignment. tu_stream_end: the fence after the last tu_stream; it orders the non-temporal stores before all later
 * stores. */
void tu_stream(void *dst, const void *src, size_t bytes);
void tu_stream_end(void);

#endif
