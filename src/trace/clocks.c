/* clocks.c: aligns the clocks of hosts by the messages between them. A message from A to B shows that B's clock is ahead of
 * A's by no more than the difference of the times at which it was taken and sent; a message from B to A, by no less. With
 * messages both ways the middle is the estimate, and half the distance its error (A. Duda et al., Estimating global time in
 * distributed systems, ICDCS 1987). Clocks drift, so a run is divided into windows, and a line goes through their middles. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "trace/join.h"

enum { WINDOWS = 16, WINDOWS_MIN = 4, FITS_MAX = 4 };
/* Quartz clocks drift by less. */
#define DRIFT_MAX 200e-6
/* If messages leave a clock more room than this, in ns, the clock of the day is the better estimate: hosts that keep time agree
 * on it within that, but messages of ranks that always wait for others first may tell little. */
#define DAY_NS 1e6

/* By how much a clock may be ahead: what messages to it and from it allow. */
struct bounds {
  double most, least;
};

/* The bounds of a host's clock: of the whole run, and of each window of its own clock, from from_ns on. */
struct sights {
  struct bounds all, windows[WINDOWS];
  uint64_t from_ns;
  double window_ns;
};

struct aligner {
  struct tu_trace *trace;
  bool *aligned; /* [hosts] */
  /* [hosts + 1]: the messages between a host and others are list[first[host]] to list[first[host + 1] - 1] */
  uint32_t *first;
  uint32_t *list;         /* indices of messages */
  uint64_t *from, *until; /* [hosts]: begin of its first call, end of its last one */
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
static double middle(const struct bounds *b) { return (b->most + b->least) / 2; }
static bool both_ways(const struct bounds *b) { return b->most < DBL_MAX && b->least > -DBL_MAX; }

/* ---- what messages tell ---- */

static void narrow(struct bounds *b, bool to, double ahead, double error) {
  if (to) b->most = fmin(b->most, ahead + error);
  else b->least = fmax(b->least, ahead - error);
}

/* Collects what messages between a host and aligned ones tell of its clock, beyond the drift `drift`. Hosts of which only the
 * clock of the day is known count if `days`, and then only they. */
static void collect(const struct aligner *a, uint32_t host, double drift, bool days, struct sights *s) {
  const struct tu_trace *t = a->trace;
  s->all = (struct bounds){DBL_MAX, -DBL_MAX};
  for (uint32_t w = 0; w < WINDOWS; w++) s->windows[w] = s->all;
  for (uint32_t i = a->first[host]; i < a->first[host + 1]; i++) {
    const struct tu_traced_end *sent = &t->messages[a->list[i]].sent, *taken = &t->messages[a->list[i]].taken;
    const bool to = t->host_of[taken->rank] == host;
    const struct tu_traced_host *other = &t->hosts[t->host_of[to ? sent->rank : taken->rank]];
    if (!a->aligned[other - t->hosts] || (other->error_ns < 0) != days) continue;
    const uint64_t sent_ns = tu_traced_begin(&t->ranks[sent->rank].events[sent->first]);
    const uint64_t taken_ns = t->ranks[taken->rank].events[taken->first].end_ns, own_ns = to ? taken_ns : sent_ns;
    const double own = (double)(int64_t)(own_ns - t->ranks[0].head.began_ns);
    const double there = to ? common_ns(t, sent->rank, sent_ns) : common_ns(t, taken->rank, taken_ns);
    const double ahead = own - there - drift * (double)(int64_t)(own_ns - t->hosts[host].origin_ns);
    const double place = s->window_ns > 0 ? (double)(int64_t)(own_ns - s->from_ns) / s->window_ns : 0;
    narrow(&s->all, to, ahead, fmax(other->error_ns, 0));
    narrow(&s->windows[(uint32_t)fmin(fmax(place, 0), WINDOWS - 1)], to, ahead, fmax(other->error_ns, 0));
  }
}

/* Puts a line through the middles of the windows, of which narrow ones weigh more. Returns its slope; 0: there are too few,
 * or no clock drifts like that. */
static double fit(const struct sights *s) {
  double weight = 0, x = 0, y = 0, xx = 0, xy = 0;
  uint32_t count = 0;
  for (uint32_t w = 0; w < WINDOWS; w++) {
    const struct bounds *b = &s->windows[w];
    if (!both_ways(b)) continue;
    const double at = (w + 0.5) * s->window_ns, one = 1 / (1e3 + fabs(width(b))) / (1e3 + fabs(width(b)));
    weight += one, x += one * at, y += one * middle(b), xx += one * at * at, xy += one * at * middle(b);
    count++;
  }
  const double spread = weight * xx - x * x, slope = spread > 0 ? (weight * xy - x * y) / spread : 0;
  return count >= WINDOWS_MIN && fabs(slope) <= DRIFT_MAX ? slope : 0;
}

/* Returns by how much the clock of a host is ahead, by the clocks of the day. */
static double ahead_by_day(const struct tu_trace *t, uint32_t host) {
  return (double)(int64_t)((uint64_t)t->hosts[0].wall_ns - (uint64_t)t->hosts[host].wall_ns);
}

/* Sets the clock of a host to the middle of its bounds. Its error is what any window still allows, because the drift is known
 * roughly only; or what the whole run allows, and what the clock may have drifted. */
static void settle(const struct aligner *a, uint32_t host, double drift, const struct sights *s,
                   struct tu_traced_host *h) {
  const double day = ahead_by_day(a->trace, host);
  const bool wide = width(&s->all) / 2 > DAY_NS && fabs(day - middle(&s->all)) < width(&s->all);
  const double ahead = wide ? fmin(fmax(day, s->all.least), s->all.most) : middle(&s->all);
  double error = 0;
  for (uint32_t w = 0; w < WINDOWS; w++)
    if (both_ways(&s->windows[w]))
      error = fmax(error, fmax(fabs(s->windows[w].most - ahead), fabs(s->windows[w].least - ahead)));
  const double run = fmax(fabs(s->all.most - ahead), fabs(s->all.least - ahead)) +
                     DRIFT_MAX * (double)(a->until[host] - a->from[host]);
  h->drift = drift;
  h->ahead_ns = ahead;
  h->error_ns = error > 0 ? fmin(error, run) : run;
}

/* Aligns a host with those that are aligned. A clock that drifts much within a window is fitted again without the drift that
 * has been found. Returns the error; DBL_MAX: messages do not go both ways. */
static double align(const struct aligner *a, uint32_t host, bool days, struct tu_traced_host *result) {
  const struct tu_traced_host *h = &a->trace->hosts[host];
  struct sights s = {.from_ns = a->from[host], .window_ns = (double)(a->until[host] - a->from[host]) / WINDOWS};
  struct tu_traced_host drifting = *h;
  *result = *h;
  collect(a, host, 0, days, &s);
  if (!both_ways(&s.all)) return DBL_MAX;
  settle(a, host, 0, &s, result);
  double drift = 0, more;
  for (int i = 0; i < FITS_MAX && (more = fit(&s)) != 0; i++) {
    drift += more;
    collect(a, host, drift, days, &s);
    settle(a, host, drift, &s, &drifting);
    if (drifting.error_ns >= result->error_ns) break;
    *result = drifting;
  }
  const double error = result->error_ns;
  if (days) result->error_ns = -1;
  return error;
}

/* ---- all hosts ---- */

/* Finds the messages of each host, and when it called. */
static void open_aligner(struct aligner *a) {
  const struct tu_trace *t = a->trace;
  uint32_t *next = tu_allocate((size_t)t->host_count + 1, sizeof *next);
  a->aligned = tu_allocate(t->host_count, sizeof *a->aligned);
  a->first = tu_allocate((size_t)t->host_count + 1, sizeof *a->first);
  a->from = tu_allocate(t->host_count, sizeof *a->from);
  a->until = tu_allocate(t->host_count, sizeof *a->until);
  for (uint32_t pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; i < t->message_count; i++) {
      const uint32_t hosts[] = {t->host_of[t->messages[i].sent.rank], t->host_of[t->messages[i].taken.rank]};
      for (uint32_t k = 0; k < 2 && hosts[0] != hosts[1]; k++)
        if (pass == 0) a->first[hosts[k] + 1]++;
        else a->list[next[hosts[k]]++] = i;
    }
    if (pass == 1) continue;
    for (uint32_t h = 0; h < t->host_count; h++) next[h] = a->first[h], a->first[h + 1] += a->first[h];
    a->list = tu_allocate(a->first[t->host_count], sizeof *a->list);
  }
  for (uint32_t h = 0; h < t->host_count; h++) a->from[h] = UINT64_MAX;
  for (uint32_t r = 0; r < t->rank_count; r++)
    for (uint32_t c = 0; c < t->ranks[r].call_count; c++) {
      const uint32_t h = t->host_of[r];
      a->from[h] = tu_min(a->from[h], t->ranks[r].calls[c].begin_ns);
      a->until[h] = tu_max(a->until[h], t->ranks[r].calls[c].end_ns);
    }
  free(next);
}

/* Aligns the host that can be aligned best. Returns it; TU_NONE: there is none. */
static uint32_t align_next(struct aligner *a, bool days) {
  struct tu_traced_host best, result;
  uint32_t next = TU_NONE;
  double least = DBL_MAX;
  for (uint32_t h = 0; h < a->trace->host_count; h++) {
    const double error = a->aligned[h] ? DBL_MAX : align(a, h, days, &result);
    if (error >= least) continue;
    next = h;
    least = error;
    best = result;
  }
  if (next != TU_NONE) a->trace->hosts[next] = best;
  return next;
}

void tu_trace_align(struct tu_trace *trace) {
  struct aligner a = {.trace = trace};
  if (trace->host_count < 2) return;
  open_aligner(&a);
  a.aligned[0] = true;
  for (uint32_t left = trace->host_count - 1; left > 0; left--) {
    uint32_t next = align_next(&a, false);
    if (next == TU_NONE) next = align_next(&a, true);
    if (next == TU_NONE) {
      for (next = 0; a.aligned[next];) next++;
      trace->hosts[next].ahead_ns = ahead_by_day(trace, next);
      trace->hosts[next].error_ns = -1;
    }
    a.aligned[next] = true;
  }
  free(a.aligned);
  free(a.first);
  free(a.list);
  free(a.from);
  free(a.until);
}
