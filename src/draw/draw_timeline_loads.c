/* draw_timeline_loads.c: sums up the crossings of a timeline (uses of links by messages) in time bins and along the
 * critical path, in time O(n log n) for n crossings. */
#include <math.h>
#include <stdlib.h>

#include "draw/draw_timeline_internal.h"

/* Adds the interval from `begin` to `end`, in seconds, to the time bins that it overlaps. `width`: seconds per bin. */
static void add_time(double bins[], uint32_t count, double width, double begin, double end) {
  if (end <= begin || width <= 0) return;
  double first = floor(begin / width);
  for (uint32_t b = first < count ? (uint32_t)first : count - 1; b < count; b++) {
    double from = fmax(begin, b * width), until = b + 1 < count ? fmin(end, (b + 1) * width) : end;
    if (from >= end) return;
    if (until > from) bins[b] += until - from;
  }
}

/* ---- ports ---- */

void tu_draw_loads_init(struct tu_draw_loads *l, const struct tu_timeline *t, const uint32_t order[], uint32_t bins) {
  *l = (struct tu_draw_loads){.bins = bins, .width = tu_draw_timeline_end(t) / bins};
  for (uint32_t i = 0; i < t->crossing_count; i++)
    l->count += i == 0 || t->crossings[order[i]].port != t->crossings[order[i - 1]].port;
  l->ports = tu_allocate(l->count, sizeof *l->ports);
  l->busy = tu_allocate(l->count, sizeof *l->busy);
  l->bytes = tu_allocate(l->count, sizeof *l->bytes);
  l->crossings = tu_allocate(l->count, sizeof *l->crossings);
  l->taken = tu_allocate((size_t)l->count * bins, sizeof *l->taken);
  uint32_t next = 0;
  double until = 0; /* end of the port's busy time that has been counted so far */
  for (uint32_t i = 0; i < t->crossing_count; i++) {
    const struct tu_crossing *c = &t->crossings[order[i]];
    if (i == 0 || c->port != l->ports[next - 1]) {
      l->ports[next++] = c->port;
      until = 0;
    }
    double begin = fmax(c->begin, until), end = fmax(c->end, begin);
    until = fmax(until, end);
    l->busy[next - 1] += end - begin;
    l->bytes[next - 1] += c->bytes;
    l->crossings[next - 1]++;
    add_time(l->taken + (size_t)(next - 1) * bins, bins, l->width, begin, end);
  }
}

void tu_draw_loads_fini(struct tu_draw_loads *l) {
  free(l->ports);
  free(l->taken);
  free(l->busy);
  free(l->bytes);
  free(l->crossings);
}

/* ---- ranks ---- */

double *tu_draw_rank_loads(const struct tu_draw_timeline *what, const uint32_t order[], uint32_t bins,
                           bool reductions) {
  const struct tu_timeline *t = what->timeline;
  double *taken = tu_allocate((size_t)what->ranks * bins, sizeof *taken), until = 0;
  double width = tu_draw_timeline_end(t) / bins;
  for (uint32_t i = 0; i < t->deed_count; i++) {
    const struct tu_deed *d = &t->deeds[order[i]];
    if (i == 0 || t->deeds[order[i - 1]].rank != d->rank ||
        (t->deeds[order[i - 1]].to == TU_NONE) != (d->to == TU_NONE))
      until = 0;
    if ((d->to == TU_NONE) != reductions || d->kind > TU_DEED_COPY) continue;
    double begin = fmax(d->begin, until);
    add_time(taken + (size_t)d->rank * bins, bins, width, begin, d->end);
    until = fmax(until, d->end);
  }
  return taken;
}

/* ---- ports of the critical path ---- */

/* A message on the critical path; `number`: its index in the path. */
struct leg {
  uint32_t from, to, number;
  double begin, end;
};

static int compare_legs(const void *a, const void *b) {
  const struct leg *x = a, *y = b;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  if (x->to != y->to) return x->to < y->to ? -1 : 1;
  /* the legs (messages on the critical path) are numbered in order of time */
  return x->number < y->number ? -1 : x->number > y->number;
}

/* One use of a port (directed link) while a message of the critical path was in progress. `leg`: number of this
 * message. */
struct sight {
  uint32_t leg, port;
  double begin;
};

static int compare_sights(const void *a, const void *b) {
  const struct sight *x = a, *y = b;
  if (x->leg != y->leg) return x->leg < y->leg ? -1 : 1;
  if (x->port != y->port) return x->port < y->port ? -1 : 1;
  return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static int compare_first_sights(const void *a, const void *b) {
  const struct sight *x = a, *y = b;
  if (x->leg != y->leg) return x->leg < y->leg ? -1 : 1;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return x->port < y->port ? -1 : x->port > y->port;
}

/* `legs` (messages on the critical path) is sorted by sender, receiver and begin. Returns, by binary search, the index
 * behind the last leg with the crossing's sender and receiver that begins before the crossing ends. If there is no such
 * leg, returns the index at which it would stand. */
static uint32_t find_leg(const struct leg legs[], uint32_t count, const struct tu_crossing *c) {
  uint32_t low = 0, high = count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    const struct leg *l = &legs[middle];
    bool before = l->from != c->from ? l->from < c->from : l->to != c->to ? l->to < c->to : l->begin < c->end;
    if (before) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* If a message used a port several times, keeps only the first use. Sorts what is kept by message, then by time.
 * Returns how many uses were kept. */
static uint32_t keep_first(struct sight sights[], uint32_t count) {
  uint32_t kept = 0;
  if (count > 1) qsort(sights, count, sizeof *sights, compare_sights);
  for (uint32_t i = 0; i < count; i++)
    if (kept == 0 || sights[kept - 1].leg != sights[i].leg || sights[kept - 1].port != sights[i].port)
      sights[kept++] = sights[i];
  if (kept > 1) qsort(sights, kept, sizeof *sights, compare_first_sights);
  return kept;
}

void tu_draw_trail_init(struct tu_draw_trail *trail, const struct tu_timeline *t, const uint32_t path[],
                        uint32_t count) {
  struct leg *legs = tu_allocate(count, sizeof *legs);
  struct sight *sights = NULL;
  uint32_t leg_count = 0, sight_count = 0, sight_capacity = 0;
  for (uint32_t k = 0; k < count; k++) {
    const struct tu_deed *d = &t->deeds[path[k]];
    if (d->to != TU_NONE) legs[leg_count++] = (struct leg){d->rank, d->to, k, d->begin, d->end};
  }
  if (leg_count > 1) qsort(legs, leg_count, sizeof *legs, compare_legs);
  for (uint32_t i = 0; i < t->crossing_count; i++) {
    const struct tu_crossing *c = &t->crossings[i];
    for (uint32_t k = find_leg(legs, leg_count, c); k-- > 0;) {
      if (legs[k].from != c->from || legs[k].to != c->to || legs[k].end <= c->begin) break;
      sights = tu_grow(sights, sight_count, &sight_capacity, sizeof *sights);
      sights[sight_count++] = (struct sight){legs[k].number, c->port, c->begin};
    }
  }
  sight_count = keep_first(sights, sight_count);
  *trail = (struct tu_draw_trail){.first = tu_allocate((size_t)count + 1, sizeof *trail->first),
                                  .ports = tu_allocate(sight_count, sizeof *trail->ports)};
  for (uint32_t i = 0; i < sight_count; i++) {
    trail->first[sights[i].leg + 1]++;
    trail->ports[i] = sights[i].port;
  }
  for (uint32_t k = 0; k < count; k++) trail->first[k + 1] += trail->first[k];
  free(legs);
  free(sights);
}

void tu_draw_trail_fini(struct tu_draw_trail *trail) {
  free(trail->first);
  free(trail->ports);
}
