/* channel.c: how far apart two ranks are, by the time that a cache line takes from one to the other. */
#include "mover/channel.h"

#define TIMED_EVERY 64u /* slices */
#define HIT_NS 40u      /* with the clock's own 20: the line was here already */
#define FAR_NS 140u     /* within one last-level cache it takes 60 to 90, between two 180 to 330, the clock included */

/* Two looks at the clock around one at the line. Outliers (an interrupt, another program) are cut: each sample moves the
 * value by a quarter of what it is off, at most. */
static void note(struct tu_receiver *r, uint64_t ns) {
  if (ns < HIT_NS) return;
  uint32_t sample = (uint32_t)tu_min(ns, 2 * FAR_NS);
  r->distance_ns = r->distance_ns ? (3 * r->distance_ns + sample) / 4 : sample;
  uint32_t far = r->distance_ns > FAR_NS;
  if (atomic_load_explicit(&r->credit->far, memory_order_relaxed) != far)
    atomic_store_explicit(&r->credit->far, far, memory_order_relaxed);
}

bool tu_receiver_time(struct tu_receiver *r, const struct tu_line *line) {
  uint64_t start = tu_clock_ns();
  bool there = atomic_load_explicit(&line->sequence, memory_order_acquire) == r->received + 1;
  uint64_t end = tu_clock_ns();
  if (!there) return false;
  r->next_timed = r->received + TIMED_EVERY;
  note(r, end - start);
  return true;
}
