/* derive.c: derives advice on slots from the measured or simulated performance of a link. */
#include "sim/derive.h"

#define GOOD_SHARE 0.95

const struct tu_wire_bandwidth *tu_wire_best(const struct tu_wire_figures *f, size_t bytes) {
  const struct tu_wire_bandwidth *best = NULL;
  for (uint32_t i = 0; i < f->bandwidth_count; i++) {
    const struct tu_wire_bandwidth *b = &f->bandwidths[i];
    if (b->bytes == bytes && (!best || b->gbs > best->gbs)) best = b;
  }
  return best;
}

/* Returns the measurement with the highest bandwidth, over all sizes and numbers of channels. */
static const struct tu_wire_bandwidth *fastest(const struct tu_wire_figures *f) {
  const struct tu_wire_bandwidth *best = NULL;
  for (uint32_t i = 0; i < f->bandwidth_count; i++)
    if (!best || f->bandwidths[i].gbs > best->gbs) best = &f->bandwidths[i];
  return best;
}

double tu_wire_peak(const struct tu_wire_figures *f) {
  const struct tu_wire_bandwidth *best = fastest(f);
  return best ? best->gbs / 2 : 0;
}

void tu_wire_complete(struct tu_wire_figures *f) {
  double peak = tu_wire_peak(f);
  for (uint32_t i = 0; i < f->trip_count; i++) {
    struct tu_wire_trip *t = &f->trips[i];
    t->ideal_ns = peak > 0 ? (double)t->bytes / peak : 0;
    t->wire_ns = (t->full_ns - t->issue_ns - t->answer_ns - t->ideal_ns) / 2;
    t->hop_ns = (t->full_ns - t->ideal_ns) / 2;
  }
}

/* Returns the largest message size with a measured bandwidth that is smaller than `bytes`; 0: there is none. */
static size_t next_below(const struct tu_wire_figures *f, size_t bytes) {
  size_t next = 0;
  for (uint32_t i = 0; i < f->bandwidth_count; i++) {
    size_t size = f->bandwidths[i].bytes;
    if (size < bytes && size > next) next = size;
  }
  return next;
}

/* Let `best` be the message size with the highest bandwidth. Returns the smallest measured size from which on all sizes
 * up to `best` reach at least the fraction GOOD_SHARE of that bandwidth. */
static size_t least_good(const struct tu_wire_figures *f) {
  const struct tu_wire_bandwidth *best = fastest(f);
  size_t bytes = best->bytes;
  for (size_t next; (next = next_below(f, bytes)) != 0 && tu_wire_best(f, next)->gbs >= GOOD_SHARE * best->gbs;)
    bytes = next;
  return bytes;
}

/* Returns the longest time of a hop, in ns, among the measured round trips of `low` to `high` bytes; if there are none,
 * among all round trips. */
static double longest_hop(const struct tu_wire_figures *f, size_t low, size_t high) {
  double within = 0, any = 0;
  for (uint32_t i = 0; i < f->trip_count; i++) {
    const struct tu_wire_trip *t = &f->trips[i];
    if (t->hop_ns > any) any = t->hop_ns;
    if (t->bytes >= low && t->bytes <= high && t->hop_ns > within) within = t->hop_ns;
  }
  return within > 0 ? within : any;
}

static size_t round_up_to_pow2(double bytes) {
  size_t n = 1;
  while ((double)n < bytes && n < SIZE_MAX / 2) n *= 2;
  return n;
}

/* Fits *fixed_ns + *ns_per_byte * bytes to the time of a hop, by least squares. Uses the pings with one channel on the
 * shortest ring; returns false if these have fewer than two sizes. */
static bool fit_hop(const struct tu_wire_figures *f, double *fixed_ns, double *ns_per_byte) {
  uint32_t hops = UINT32_MAX;
  for (uint32_t i = 0; i < f->ping_count; i++)
    if (f->pings[i].channels == 1 && f->pings[i].hops < hops) hops = f->pings[i].hops;
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (uint32_t i = 0; i < f->ping_count; i++) {
    const struct tu_wire_ping *p = &f->pings[i];
    if (p->channels != 1 || p->hops != hops) continue;
    double bytes = (double)p->bytes, hop = p->ns / hops;
    n += 1, x += bytes, y += hop, xx += bytes * bytes, xy += bytes * hop;
  }
  double spread = n * xx - x * x;
  if (n < 2 || spread <= 0) return false;
  *ns_per_byte = (n * xy - x * y) / spread;
  *fixed_ns = (y - *ns_per_byte * x) / n;
  return true;
}

bool tu_wire_advise(const struct tu_wire_figures *f, struct tu_wire_advice *a) {
  double fixed_ns, ns_per_byte;
  const struct tu_wire_bandwidth *best = fastest(f);
  if (!best || f->trip_count == 0 || !fit_hop(f, &fixed_ns, &ns_per_byte)) return false;
  *a = (struct tu_wire_advice){.slot_low = least_good(f), .slot_high = best->bytes};
  a->outstanding_bytes = round_up_to_pow2(tu_wire_peak(f) * longest_hop(f, a->slot_low, a->slot_high));
  a->slots = (uint32_t)tu_max(2, (a->outstanding_bytes + a->slot_low - 1) / a->slot_low);
  if (ns_per_byte > 0 && fixed_ns > 0) a->crossover_bytes = (size_t)(fixed_ns / ns_per_byte + 0.5);
  return true;
}
