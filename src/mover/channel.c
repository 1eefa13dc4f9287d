/* channel.c: estimates whether two ranks share a cache, from the time that a cache line needs from one rank to the
 * other. */
#include "mover/channel.h"

enum {
  /* Every 61st slice is timed; one measurement costs 40 ns. Of long slices, every second slice is timed. */
  TIMED_EVERY = 61,
  LONG_BYTES = 16 << 10, /* minimum bytes of a long slice */
  /* In ns: a slower transfer counts as far (the two ranks share no cache). Within one last-level cache a transfer takes
   * 45 ns, including the clock; between two caches, 110 to 200 ns. */
  FAR_NS = 80,
  /* What one slow (far) transfer adds to the score far_samples; a fast transfer subtracts 1. Slow transfers count more,
   * because a fast one proves less: a line that arrived before the measurement began also looks fast. */
  FAR_EACH = 16,
  FAR_SURE = 32,
  FAR_MOST = 64
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
  r->next_timed = r->received + (line->bytes >= LONG_BYTES ? 2 : TIMED_EVERY);
  note(r, end - start);
  return true;
}
