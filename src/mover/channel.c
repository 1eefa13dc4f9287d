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
  /* What one slow (far) transfer adds to the score far_samples; a fast transfer subtracts 1. Slow transfers count more,
   * because a fast one proves less: a line that arrived before the measurement began also looks fast. */
  FAR_EACH = 16,
  FAR_SURE = 32,
  FAR_MOST = 64,
  /* In ns, for TU_STREAM_BYTES: 260 to 470 within the cache of that Xeon, 1,000 to 2,000 between two caches of Zen. */
  FAST_FILL_NS = 700,
  FILLS_MEASURED_EVERY = 1000
};

static void note(struct tu_receiver *r, uint64_t ns) {
  if (ns > FAR_NS) r->far_samples = (uint32_t)tu_min(r->far_samples + FAR_EACH, FAR_MOST);
  else if (r->far_samples > 0) r->far_samples--;
  if (r->far_samples >= FAR_SURE) r->far = true;
  if (r->far_samples == 0) r->far = false;
  if (atomic_load_explicit(&r->credit->far, memory_order_relaxed) != r->far)
    atomic_store_explicit(&r->credit->far, r->far, memory_order_relaxed);
}

bool tu_receiver_time(struct tu_receiver *r, const struct tu_line *line) {
  uint64_t start = tu_clock_ns();
  bool there = atomic_load_explicit(&line->sequence, memory_order_acquire) == r->received + 1;
  uint64_t end = tu_clock_ns();
  if (!there) return false;
  r->next_timed = r->received + (line->bytes >= LONG_BYTES ? 2 : (uint32_t)tu_min(r->received + 1, TIMED_EVERY));
  note(r, end - start);
  return true;
}

uint64_t tu_fills_time(unsigned char *to) {
  const uint64_t start = tu_clock_ns();
  for (size_t at = 0; at < TU_STREAM_BYTES; at += TU_LINE_BYTES) *(volatile unsigned char *)(to + at) = 0;
  atomic_thread_fence(memory_order_seq_cst); /* the stores have left the core */
  return tu_clock_ns() - start;
}

bool tu_fills_is_fast(uint64_t ns) { return ns < FAST_FILL_NS; }

/* Two measurements in a row have to agree, because one may have been interrupted. */
void tu_fills_note(struct tu_fills *f, uint64_t ns) {
  const bool differs = tu_fills_is_fast(ns) != f->fast;
  if (differs && f->doubted) f->fast = !f->fast;
  f->doubted = differs && !f->doubted;
  f->left = f->doubted ? 0 : FILLS_MEASURED_EVERY;
  if (f->doubted) return;
  f->measured = true;
  if (f->found && atomic_load_explicit(f->found, memory_order_relaxed) != f->fast)
    atomic_store_explicit(f->found, f->fast, memory_order_relaxed);
}
