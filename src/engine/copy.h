/* copy.h: one array into several, with ordinary stores or past the caches. */
#ifndef TU_COPY_H
#define TU_COPY_H

#include "base/base.h"

/* Copies src to every one of dsts, none of which overlaps it: src is read once, block by block. With `stream`, whole
 * cache lines are stored past the caches (where the machine can), and all of it is visible to others once this
 * returns and a flag is stored after it. For targets that are not read soon, or not by this core. */
void tu_copy_into(void *const dsts[], uint32_t dst_count, bool stream, const void *src, size_t bytes);

/* The pieces of that: memcpy past the caches, of any alignment; then, after the last one, the fence that orders these
 * stores before all later ones. */
void tu_stream(void *dst, const void *src, size_t bytes);
void tu_stream_end(void);

#endif
