/* channel.c: estimates whether slices should be written past the caches: from the time that a cache line needs from one rank
 * to the other, and from the time that it takes to overwrite lines that are in the other rank's cache. */
#include "mover/channel.h"

enum {
  /* Every 61st slice is timed, at first more of them; one measurement costs 40 ns. Of long slices, every second one is. */
  TIMED_EVERY = 61,
  LONG_BYTES = 16 << 10, /* minimum bytes of a long slice */
  /* In ns: a slower transfer counts as far. Within one last-level cache of AMD's Zen a transfer takes 45 ns, including the
   * clock; between two of them 110 to 200 ns; within the one cache of an Intel Xeon with a mesh 100 to 200 ns. */
  FAR_NS = 80,
  /* What one slow (far) transfer adds to the score far_samples; a fast one subtracts 1, or NEAR_LONG if the slice is long. Slow
   * transfers count more, because a fast one proves less: a line that arrived before the measurement began, together with the
   * one before it, also looks fast. Lines of long slices rarely do. */
  FAR_EACH = 16,
  NEAR_LONG = 4,
  FAR_SURE = 32,
  FAR_MOST = 64,
  /* In ns, for TU_STREAM_BYTES: 260 to 470 within the cache of that Xeon, mostly 550 to 2,000 between two of Zen. */
  FAST_FILL_NS = 510,
  SLOW_FILL = 2, /* what a slow measurement subtracts from the score; a fast one adds 1 */
  FILLS_MEASURED_EVERY = 250
};

static void note(struct tu_receiver *r, uint64_t ns, bool is_long) {
  if (ns > FAR_NS) r->far_samples = (uint32_t)tu_min(r->far_samples + FAR_EACH, FAR_MOST);
  else r->far_samples -= (uint32_t)tu_min(r->far_samples, is_long ? NEAR_LONG : 1);
  if (r->far_samples >= FAR_SURE) r->far = true;
  if (r->far_samples == 0) r->far = false;
  if (atomic_load_explicit(&r->credit->far, memory_order_relaxed) != r->far)
    atomic_store_explicit(&r->credit->far, r->far, memory_order_relaxed);
}

bool tu_receiver_time(struct tu_receiver *r, const struct tu_line *line) {
  /* After long copies the line's page must be looked up, which takes as long as a far line. So the line before is read first. */
  (void)atomic_load_explicit(&r->lines[(r->received - 1) & (r->credits - 1)].sequence, memory_order_acquire);
  uint64_t start = tu_clock_ns();
  bool there = atomic_load_explicit(&line->sequence, memory_order_acquire) == r->received + 1;
  uint64_t end = tu_clock_ns();
  if (!there) return false;
  const bool is_long = line->bytes >= LONG_BYTES;
  r->next_timed = r->received + (is_long ? 2 : (uint32_t)tu_min(r->received + 1, TIMED_EVERY));
  note(r, end - start, is_long);
  return true;
}

uint64_t tu_fills_time(unsigned char *to) {
  const uint64_t start = tu_clock_ns();
  for (size_t at = 0; at < TU_STREAM_BYTES; at += TU_LINE_BYTES) *(volatile unsigned char *)(to + at) = 0;
  atomic_thread_fence(memory_order_seq_cst); /* the stores have left the core */
  return tu_clock_ns() - start;
}

bool tu_fills_is_fast(uint64_t ns) { return ns < FAST_FILL_NS; }

/* Between two caches, lines that have meanwhile left the peer's are overwritten fast, and a measurement may be interrupted. So
 * many have to agree before it counts as fast, fewer before it counts as slow: to be wrong then costs less. */
void tu_fills_note(struct tu_fills *f, uint64_t ns) {
  const bool fast = tu_fills_is_fast(ns);
  f->score = fast ? (uint8_t)tu_min(f->score + 1u, TU_FILLS_SURE) : (uint8_t)(f->score - tu_min(f->score, SLOW_FILL));
  if (f->score == TU_FILLS_SURE) f->fast = true;
  if (f->score == 0) f->fast = false;
  f->left = fast == f->fast ? FILLS_MEASURED_EVERY : 0;
  if (f->left == 0) return;
  f->measured = true;
  if (f->found && atomic_load_explicit(f->found, memory_order_relaxed) != f->fast)
    atomic_store_explicit(f->found, f->fast, memory_order_relaxed);
}
