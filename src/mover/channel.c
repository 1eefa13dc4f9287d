/* channel.c: how far apart two ranks are, by the time that a cache line takes from one to the other. */
#include "mover/channel.h"

enum {
  TIMED_EVERY = 61,      /* slices: a sample costs 40 ns; of long ones, every other */
  LONG_BYTES = 16 << 10, /* a slice is long */
  FAR_NS = 80,           /* within one last-level cache it takes 45, the clock included; between two 110 to 200 */
  FAR_EACH = 16, /* what one far sample weighs against others; those come also from lines that are here already */
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
