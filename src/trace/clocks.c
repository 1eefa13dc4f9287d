/* clocks.c: aligns the clocks of hosts by the messages between them. A message from A to B shows that B's clock is ahead of
 * A's by no more than the difference of the times at which it was taken and sent; a message from B to A, by no less. With
 * messages both ways the middle is the estimate, and half the distance its error (A. Duda et al., Estimating global time in
 * distributed systems, ICDCS 1987). Clocks drift, so a long run is divided into windows, and a line goes through their
 * middles. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "trace/join.h"

enum { WINDOWS = 16, WINDOWS_MIN = 4 };
/* A run must take that long for its drift to be seen. */
#define DRIFT_NS 5e9

/* By how much a clock may be ahead: what messages to it and from it allow. */
struct bounds {
  double most, least;
};

static double ahead_at(const struct tu_traced_host *h, uint64_t ns) {
  return h->ahead_ns + h->drift * (double)(int64_t)(ns - h->origin_ns);
}

/* Returns a time of a rank's clock, in ns of the first host's clock since the trace of the first rank began. */
static double common_ns(const struct tu_trace *t, uint32_t rank, uint64_t ns) {
  return (double)(int64_t)(ns - t->ranks[0].head.began_ns) - ahead_at(&t->hosts[t->host_of[rank]], ns);
}

double tu_trace_time(const struct tu_trace *trace, uint32_t rank, uint64_t ns) {
  return common_ns(trace, rank, ns) * 1e-9;
}

static double width(const struct bounds *b) { return b->most - b->least; }

static bool both_ways(const struct bounds *b) { return b->most < DBL_MAX && b->least > -DBL_MAX; }

/* Collects what messages between host `host` and aligned hosts tell of its clock: of the whole run, and of each window of
 * its own clock, from `from_ns` on. */
static struct bounds collect(const struct tu_trace *t, const bool aligned[], uint32_t host, uint64_t from_ns,
                             double window_ns, struct bounds windows[WINDOWS]) {
  struct bounds all = {DBL_MAX, -DBL_MAX};
  for (uint32_t w = 0; w < WINDOWS; w++) windows[w] = all;
  for (uint32_t i = 0; i < t->message_count; i++) {
    const struct tu_traced_end *sent = &t->messages[i].sent, *taken = &t->messages[i].taken;
    const bool to = t->host_of[taken->rank] == host && aligned[t->host_of[sent->rank]];
    const bool of = t->host_of[sent->rank] == host && aligned[t->host_of[taken->rank]];
    if (!to && !of) continue;
    const uint64_t sent_ns = tu_traced_begin(&t->ranks[sent->rank].events[sent->first]);
    const uint64_t taken_ns = t->ranks[taken->rank].events[taken->first].end_ns, own_ns = to ? taken_ns : sent_ns;
    const double own = (double)(int64_t)(own_ns - t->ranks[0].head.began_ns);
    const double other = to ? common_ns(t, sent->rank, sent_ns) : common_ns(t, taken->rank, taken_ns);
    const double place = window_ns > 0 ? (double)(int64_t)(own_ns - from_ns) / window_ns : 0;
    struct bounds *w = &windows[(uint32_t)fmin(fmax(place, 0), WINDOWS - 1)];
    if (to) w->most = fmin(w->most, own - other), all.most = fmin(all.most, own - other);
    else w->least = fmax(w->least, own - other), all.least = fmax(all.least, own - other);
  }
  return all;
}

/* Puts a line through the middles of the windows, of which narrow ones weigh more. Returns false if there are too few. */
static bool fit(struct tu_traced_host *host, const struct bounds windows[WINDOWS], uint64_t from_ns, double window_ns) {
  double weight = 0, x = 0, y = 0, xx = 0, xy = 0, error = 0;
  uint32_t count = 0;
  for (uint32_t w = 0; w < WINDOWS; w++) {
    const struct bounds *b = &windows[w];
    if (!both_ways(b)) continue;
    const double at = (w + 0.5) * window_ns + (double)(int64_t)(from_ns - host->origin_ns);
    const double middle = (b->most + b->least) / 2, one = 1 / (1e3 + fabs(width(b))) / (1e3 + fabs(width(b)));
    weight += one, x += one * at, y += one * middle, xx += one * at * at, xy += one * at * middle;
    error = fmax(error, fabs(width(b)) / 2);
    count++;
  }
  const double spread = weight * xx - x * x;
  if (count < WINDOWS_MIN || !(spread > 0)) return false;
  host->drift = (weight * xy - x * y) / spread;
  host->ahead_ns = (y - host->drift * x) / weight;
  host->error_ns = error;
  return true;
}

static void run_of(const struct tu_trace *t, uint32_t host, uint64_t *from, uint64_t *until) {
  *from = UINT64_MAX, *until = 0;
  for (uint32_t r = 0; r < t->rank_count; r++)
    for (uint32_t c = 0; c < t->ranks[r].call_count && t->host_of[r] == host; c++) {
      *from = tu_min(*from, t->ranks[r].calls[c].begin_ns);
      *until = tu_max(*until, t->ranks[r].calls[c].end_ns);
    }
}

/* Aligns a host with those that are aligned. Returns half the width of what the messages allow; DBL_MAX: they do not go both
 * ways. */
static double align(const struct tu_trace *t, const bool aligned[], uint32_t host, struct tu_traced_host *result) {
  struct bounds windows[WINDOWS];
  uint64_t from, until;
  run_of(t, host, &from, &until);
  if (from > until) return DBL_MAX;
  const double window_ns = (double)(until - from) / WINDOWS;
  const struct bounds all = collect(t, aligned, host, from, window_ns, windows);
  *result = t->hosts[host];
  if (!both_ways(&all)) return DBL_MAX;
  /* A width below 0: no constant difference fits, so the clocks have drifted. */
  if ((window_ns * WINDOWS < DRIFT_NS && width(&all) >= 0) || !fit(result, windows, from, window_ns)) {
    result->ahead_ns = (all.most + all.least) / 2;
    result->error_ns = fabs(width(&all)) / 2;
  }
  return fabs(width(&all)) / 2;
}

static void align_by_day(struct tu_trace *t, uint32_t host) {
  uint32_t first = 0;
  while (t->host_of[first] != host) first++;
  t->hosts[host].ahead_ns = (double)(t->ranks[0].head.wall_ns - t->ranks[first].head.wall_ns);
  t->hosts[host].error_ns = -1;
}

void tu_trace_align(struct tu_trace *trace) {
  bool *aligned = tu_allocate(trace->host_count, sizeof *aligned);
  if (trace->host_count > 0) aligned[0] = true;
  for (uint32_t left = trace->host_count; left > 1; left--) {
    struct tu_traced_host best = {.error_ns = -1}, result;
    uint32_t next = TU_NONE;
    double narrowest = DBL_MAX;
    for (uint32_t h = 0; h < trace->host_count; h++) {
      if (aligned[h]) continue;
      const double error = align(trace, aligned, h, &result);
      if (error < narrowest || next == TU_NONE) {
        next = h;
        narrowest = error;
        best = result;
      }
    }
    if (narrowest < DBL_MAX) trace->hosts[next] = best;
    else align_by_day(trace, next);
    aligned[next] = true;
  }
  free(aligned);
}
