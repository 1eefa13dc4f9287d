/* copy.c: copies with ordinary and with non-temporal stores. Non-temporal stores write memory without reading it first,
 * leave the caches to other data, and are ordered only by a fence. On a machine without such stores, memcpy is used. */
#include "engine/copy.h"

#include <string.h>

#include "engine/kernels_set.h"
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

/* Bytes of a block. A copy to several targets goes block by block, so that the block of the source stays in the
 * first-level cache until it has been copied to the last target. */
enum { BLOCK_BYTES = 4096 };
/* Copies of fewer bytes use the memcpy of the C library, which is as fast for them as the loops of this library; and so do those
 * of LONG_BYTES and more, which it copies by a string instruction. That does not read the target first: up to twice as fast. */
enum { LOOP_BYTES = 512, LONG_BYTES = 16 << 10 };

void tu_copy_bytes(void *dst, const void *src, size_t bytes) {
  size_t lines = bytes >= LOOP_BYTES && bytes < LONG_BYTES ? bytes / TU_LINE_BYTES * TU_LINE_BYTES : 0;
  if (lines) tu_kernels()->copy(dst, src, lines);
  if (bytes > lines) memcpy((char *)dst + lines, (const char *)src + lines, bytes - lines);
}

/* Copies to one target: whole cache lines with non-temporal stores, the bytes before and after them with ordinary
 * stores. */
static void stream_one(const struct tu_kernel_set *set, char *dst, const char *src, size_t bytes) {
  size_t head = tu_min(bytes, -(uintptr_t)dst % TU_LINE_BYTES);
  size_t lines = (bytes - head) / TU_LINE_BYTES * TU_LINE_BYTES, tail = bytes - head - lines;
  void *first_line = dst + head;
  if (head) memcpy(dst, src, head);
  if (lines) set->stream_copy(&first_line, 1, src + head, lines);
  if (tail) memcpy(dst + head + lines, src + head + lines, tail);
}

void tu_stream(void *dst, const void *src, size_t bytes) {
  const struct tu_kernel_set *set = tu_kernels();
  if (set->stream_copy) stream_one(set, dst, src, bytes);
  else memcpy(dst, src, bytes);
}

void tu_stream_end(void) {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

/* Copies the source to all targets with non-temporal stores. If all targets begin on a cache line, it copies line by
 * line: each line to all targets. Otherwise it copies block by block: each block to one target after the other. */
static void stream_all(const struct tu_kernel_set *set, void *const dsts[], uint32_t dst_count, const char *src,
                       size_t bytes) {
  uintptr_t beside = 0;
  for (uint32_t d = 0; d < dst_count; d++) beside |= (uintptr_t)dsts[d] % TU_LINE_BYTES;
  size_t lines = beside ? 0 : bytes / TU_LINE_BYTES * TU_LINE_BYTES, block = dst_count > 1 ? BLOCK_BYTES : bytes;
  if (lines) set->stream_copy(dsts, dst_count, src, lines);
  for (size_t at = lines; at < bytes; at += block)
    for (uint32_t d = 0; d < dst_count; d++) stream_one(set, (char *)dsts[d] + at, src + at, tu_min(block, bytes - at));
}

static void copy_blocks(void *const dsts[], uint32_t dst_count, enum tu_past past, const char *src, size_t bytes) {
  for (size_t at = 0; at < bytes; at += BLOCK_BYTES)
    for (uint32_t d = 0; d < dst_count; d++) {
      size_t block = tu_min(BLOCK_BYTES, bytes - at);
      if (tu_is_past(past, d)) tu_stream((char *)dsts[d] + at, src + at, block);
      else tu_copy_bytes((char *)dsts[d] + at, src + at, block);
    }
}

void tu_copy_into(void *const dsts[], uint32_t dst_count, enum tu_past past, const void *src, size_t bytes) {
  if (bytes == 0 || dst_count == 0) return;
  past = tu_past_of(past, dst_count);
  const struct tu_kernel_set *set = tu_kernels();
  if (dst_count == 1 && past == TU_PAST_NONE) tu_copy_bytes(dsts[0], src, bytes);
  else if (past == TU_PAST_ALL && set->stream_copy) stream_all(set, dsts, dst_count, src, bytes);
  else copy_blocks(dsts, dst_count, past, src, bytes);
  if (past != TU_PAST_NONE) tu_stream_end();
}
