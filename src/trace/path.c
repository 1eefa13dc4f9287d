/* path.c: finds the critical path of a job, backwards from its last event. A rank that was at work before an event was the
 * reason itself. If it had to wait, for a message that was sent later than the rank stopped working, the path goes on at the
 * sender. */
#include "trace/path.h"

#include <math.h>
#include <stdlib.h>

#include "plan/plan.h"

/* A send that begins so much later than its rank was last at work has waited for its receiver. */
#define WAITED_S 2e-6

/* The events of a rank in the order of time. */
struct line {
  uint32_t *events, count;
  bool *outside; /* [count]: after the event the rank is in no call */
  uint32_t next; /* the path has come to the event before this one */
};

/* The events of a rank, by number. Those with which one step of a call advances are its slices. */
struct slices {
  uint32_t *calls;  /* [events]: index of its call, or TU_NONE */
  uint32_t *sorted; /* [events]: events by call, then by step, then by time */
  uint32_t *places; /* [events]: place in `sorted` */
  uint64_t *before; /* [events]: bytes that its step had done before it */
};

struct walk {
  const struct tu_trace *trace;
  struct tu_traced_path *path;
  struct line *lines;    /* [rank_count] */
  struct slices *slices; /* [rank_count] */
  uint32_t rank;
  double time; /* the path is known from here on */
};

static const struct tu_trace_event *event_at(const struct walk *w, uint32_t rank, uint32_t event) {
  return &w->trace->ranks[rank].events[event];
}

/* ---- events in the order of time ---- */

static int compare_time(const void *a, const void *b, void *context) {
  const struct tu_trace_event *events = context;
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  if (events[x].end_ns != events[y].end_ns) return events[x].end_ns < events[y].end_ns ? -1 : 1;
  return x < y ? -1 : x > y;
}

static bool ends_call(const struct tu_trace_event *e) { return e->kind == TU_TRACE_END || e->kind == TU_TRACE_FAILED; }

/* Waits are no work: they are left out. */
static void order_events(struct walk *w, uint32_t r) {
  const struct tu_traced_rank *rank = &w->trace->ranks[r];
  struct line *line = &w->lines[r];
  int64_t open = 0;
  line->events = tu_allocate(rank->event_count, sizeof *line->events);
  for (uint32_t c = 0; c < rank->call_count; c++)
    for (uint32_t i = 0; i < rank->calls[c].event_count; i++) {
      const uint32_t e = rank->calls[c].event_first + i;
      if (rank->events[e].kind != TU_TRACE_WAITED) line->events[line->count++] = e;
    }
  if (line->count > 1) qsort_r(line->events, line->count, sizeof *line->events, compare_time, rank->events);
  line->outside = tu_allocate(line->count, sizeof *line->outside);
  for (uint32_t i = 0; i < line->count; i++) {
    const struct tu_trace_event *e = &rank->events[line->events[i]];
    open += (e->kind == TU_TRACE_BEGIN) - ends_call(e);
    line->outside[i] = open <= 0;
  }
  line->next = line->count;
}

/* ---- slices ---- */

struct sorting {
  const struct tu_trace_event *events;
  const uint32_t *calls;
};

static int compare_slices(const void *a, const void *b, void *context) {
  const struct sorting *s = context;
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  if (s->calls[x] != s->calls[y]) return s->calls[x] < s->calls[y] ? -1 : 1;
  if (s->events[x].at != s->events[y].at) return s->events[x].at < s->events[y].at ? -1 : 1;
  return x < y ? -1 : x > y;
}

/* Events that are no slices are before all slices. */
static void find_slices(struct walk *w, uint32_t r) {
  const struct tu_traced_rank *rank = &w->trace->ranks[r];
  struct slices *s = &w->slices[r];
  uint32_t count = 0;
  s->calls = tu_allocate(rank->event_count, sizeof *s->calls);
  s->sorted = tu_allocate(rank->event_count, sizeof *s->sorted);
  s->places = tu_allocate(rank->event_count, sizeof *s->places);
  s->before = tu_allocate(rank->event_count, sizeof *s->before);
  for (uint32_t i = 0; i < rank->event_count; i++) s->calls[i] = TU_NONE;
  for (uint32_t c = 0; c < rank->call_count; c++)
    for (uint32_t i = 0; i < rank->calls[c].event_count; i++) {
      const uint32_t e = rank->calls[c].event_first + i;
      s->calls[e] = c;
      if (tu_traced_is_step(&rank->events[e])) s->sorted[count++] = e;
    }
  if (count > 1)
    qsort_r(s->sorted, count, sizeof *s->sorted, compare_slices, &(struct sorting){rank->events, s->calls});
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t e = s->sorted[i], last = i > 0 ? s->sorted[i - 1] : e;
    s->places[e] = i;
    if (i > 0 && s->calls[e] == s->calls[last] && rank->events[e].at == rank->events[last].at)
      s->before[e] = s->before[last] + rank->events[last].bytes;
  }
}

/* Returns the slice of an end of a message with which its byte number `byte` was sent or taken; the last one, if there is no
 * such byte. */
static uint32_t slice_of(const struct walk *w, const struct tu_traced_end *end, uint64_t byte) {
  const struct slices *s = &w->slices[end->rank];
  uint32_t low = s->places[end->first], high = s->places[end->last];
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2, e = s->sorted[middle];
    if (s->before[e] + event_at(w, end->rank, e)->bytes > byte) high = middle;
    else low = middle + 1;
  }
  return s->sorted[low];
}

/* ---- the parts of the path, from the end to the begin ---- */

static void add(struct walk *w, const struct tu_deed *part) {
  struct tu_traced_path *path = w->path;
  struct tu_deed *last = path->count > 0 ? &path->parts[path->count - 1] : NULL;
  if (!(part->end > part->begin)) return;
  if (last && last->kind == part->kind && last->rank == part->rank && last->to == part->to &&
      part->kind != TU_DEED_MESSAGE) {
    last->begin = part->begin;
    last->bytes += part->bytes;
    return;
  }
  path->parts = tu_grow(path->parts, path->count, &path->capacity, sizeof *path->parts);
  path->parts[path->count++] = *part;
}

static enum tu_deed_kind kind_of(const struct tu_trace_step *step) {
  switch (step->kind) {
    case TU_SEND: return TU_DEED_SEND;
    case TU_RECV: return TU_DEED_TAKE;
    case TU_COPY: return TU_DEED_COPY;
    default: return TU_DEED_REDUCTION;
  }
}

/* Goes on at another rank, at the event `event` of it, which has to be before those that the path has passed. Returns false
 * if it is not. */
static bool go_to(struct walk *w, uint32_t rank, uint32_t event) {
  struct line *line = &w->lines[rank];
  uint32_t low = 0, high = line->next;
  const struct tu_trace_event *events = w->trace->ranks[rank].events;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (compare_time(&line->events[middle], &event, (void *)(uintptr_t)events) < 0) low = middle + 1;
    else high = middle;
  }
  if (low >= line->next || line->events[low] != event) return false;
  line->next = low + 1;
  w->rank = rank;
  return true;
}

/* If the event took a message that was sent after `idle_since`, goes on at its sender. */
static bool follow_taken(struct walk *w, uint32_t event, uint32_t call, double idle_since) {
  const struct tu_trace *t = w->trace;
  const struct tu_trace_event *e = event_at(w, w->rank, event);
  const struct tu_traced_range range = tu_trace_taken(t, w->rank, call, e->at);
  const struct tu_traced_end *latest = NULL;
  double sent_at = idle_since;
  uint32_t sent_event = 0;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < range.count; i++) {
    const struct tu_traced_message *m = &t->messages[t->by_taken[range.first + i]];
    const uint32_t slice = slice_of(w, &m->sent, w->slices[w->rank].before[event]);
    const double at = tu_trace_end_of(t, m->sent.rank, slice);
    if (at <= sent_at || m->sent.rank == w->rank) continue;
    latest = &m->sent;
    sent_at = at;
    sent_event = slice;
    bytes = e->bytes;
  }
  const uint32_t here = w->rank;
  if (!latest || !go_to(w, latest->rank, sent_event)) return false;
  const double left = fmin(sent_at, w->time);
  add(w, &(struct tu_deed){.rank = latest->rank,
                           .to = here,
                           .cause = TU_NONE,
                           .kind = TU_DEED_MESSAGE,
                           .bytes = (double)bytes,
                           .begin = left,
                           .end = w->time});
  w->time = left;
  return true;
}

/* If the event is of a send that had to wait for its receiver, goes on there. */
static bool follow_sent(struct walk *w, uint32_t event, uint32_t call, double idle_since) {
  const struct tu_trace *t = w->trace;
  const struct tu_traced_range range = tu_trace_sent(t, w->rank, call, event_at(w, w->rank, event)->at);
  if (w->time - idle_since < WAITED_S) return false;
  for (uint32_t i = 0; i < range.count; i++) {
    const uint32_t to = t->messages[range.first + i].taken.rank, here = w->rank;
    const struct line *line = &w->lines[to];
    uint32_t low = 0, high = line->next;
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (tu_trace_end_of(t, to, line->events[middle]) <= w->time) low = middle + 1;
      else high = middle;
    }
    if (low == 0 || tu_trace_end_of(t, to, line->events[low - 1]) <= idle_since || to == here) continue;
    if (!go_to(w, to, line->events[low - 1])) continue;
    const double freed = tu_trace_end_of(t, to, line->events[low - 1]);
    add(w, &(struct tu_deed){
               .rank = here, .to = to, .cause = TU_NONE, .kind = TU_DEED_ROOM, .begin = freed, .end = w->time});
    w->time = freed;
    return true;
  }
  return false;
}

/* Takes the part of the path that ends at the last event of the rank that it has not passed. Returns false at the begin. */
static bool step_back(struct walk *w) {
  const struct tu_trace *t = w->trace;
  struct line *line = &w->lines[w->rank];
  if (line->next == 0) return false;
  const uint32_t event = line->events[--line->next], call = w->slices[w->rank].calls[event];
  const struct tu_trace_event *e = event_at(w, w->rank, event);
  const double end = fmin(tu_trace_end_of(t, w->rank, event), w->time);
  struct tu_deed part = {.rank = w->rank,
                         .to = TU_NONE,
                         .cause = TU_NONE,
                         .kind = line->outside[line->next] ? TU_DEED_OUTSIDE : TU_DEED_PAUSE,
                         .begin = end,
                         .end = w->time};
  add(w, &part);
  w->time = end;
  if (!tu_traced_is_step(e)) return true;
  part.kind = kind_of(&t->ranks[w->rank].calls[call].program->steps[e->at]);
  part.bytes = (double)e->bytes;
  part.begin = fmin(tu_trace_begin_of(t, w->rank, event), end);
  part.end = end;
  add(w, &part);
  w->time = part.begin;
  if (line->next == 0) return true;
  const double idle_since = tu_trace_end_of(t, w->rank, line->events[line->next - 1]);
  if (!follow_taken(w, event, call, idle_since)) (void)follow_sent(w, event, call, idle_since);
  return true;
}

/* Finds where the path ends: at the end of the call that has ended last. Returns the begin of the first call. */
static double find_end(struct walk *w) {
  const struct tu_trace *t = w->trace;
  double first = HUGE_VAL;
  for (uint32_t r = 0; r < t->rank_count; r++)
    for (uint32_t c = 0; c < t->ranks[r].call_count; c++) {
      const double end = tu_trace_time(t, r, t->ranks[r].calls[c].end_ns);
      first = fmin(first, tu_trace_time(t, r, t->ranks[r].calls[c].begin_ns));
      if (w->rank != TU_NONE && end <= w->time) continue;
      w->rank = r;
      w->time = end;
    }
  return first;
}

void tu_trace_path(const struct tu_trace *trace, struct tu_traced_path *path) {
  struct walk w = {.trace = trace, .path = path, .rank = TU_NONE};
  *path = (struct tu_traced_path){0};
  w.lines = tu_allocate(trace->rank_count, sizeof *w.lines);
  w.slices = tu_allocate(trace->rank_count, sizeof *w.slices);
  for (uint32_t r = 0; r < trace->rank_count; r++) {
    order_events(&w, r);
    find_slices(&w, r);
  }
  const double first = find_end(&w);
  while (w.rank != TU_NONE && step_back(&w)) {}
  /* The rank to which the path has come began its first call later than another one. */
  add(&w, &(struct tu_deed){
              .rank = w.rank, .to = TU_NONE, .cause = TU_NONE, .kind = TU_DEED_OUTSIDE, .begin = first, .end = w.time});
  for (uint32_t i = 0; i < path->count / 2; i++) {
    const struct tu_deed other = path->parts[i];
    path->parts[i] = path->parts[path->count - 1 - i];
    path->parts[path->count - 1 - i] = other;
  }
  for (uint32_t r = 0; r < trace->rank_count; r++) {
    free(w.lines[r].events);
    free(w.lines[r].outside);
    free(w.slices[r].calls);
    free(w.slices[r].sorted);
    free(w.slices[r].places);
    free(w.slices[r].before);
  }
  free(w.lines);
  free(w.slices);
}

void tu_traced_path_fini(struct tu_traced_path *path) {
  free(path->parts);
  *path = (struct tu_traced_path){0};
}
