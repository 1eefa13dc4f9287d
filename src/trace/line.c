/* line.c: makes a timeline of a joined trace. Its time 0 is the begin of the part that it shows. */
#include "trace/line.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

/* With more ranks, links are left out: a picture could not show them. */
enum { LINKED_RANKS_MAX = 512 };

struct maker {
  const struct tu_trace *trace;
  struct tu_traced_line *line;
  double from, until;
  uint32_t deed_capacity;
};

/* Moves and cuts a time to the part that is shown. Returns false if nothing of it is. */
static bool cut(const struct maker *m, double *begin, double *end) {
  if (*end < m->from || *begin > m->until) return false;
  *begin = fmax(*begin, m->from) - m->from;
  *end = fmin(*end, m->until) - m->from;
  if (*end < *begin) *end = *begin; /* clocks of hosts are known to some us only */
  return true;
}

static void add_deed(struct maker *m, struct tu_deed deed) {
  struct tu_timeline *t = &m->line->timeline;
  if (!cut(m, &deed.begin, &deed.end)) return;
  t->deeds = tu_grow(t->deeds, t->deed_count, &m->deed_capacity, sizeof *t->deeds);
  t->deeds[t->deed_count++] = deed;
}

static void add_call(struct maker *m, struct tu_timed_call call) {
  struct tu_timeline *t = &m->line->timeline;
  if (!cut(m, &call.begin, &call.end)) return;
  t->calls = tu_grow(t->calls, t->call_count, &t->call_capacity, sizeof *t->calls);
  t->calls[t->call_count++] = call;
}

static uint32_t number_of(const struct maker *m, uint32_t rank) { return m->trace->ranks[rank].head.rank; }

/* ---- calls, waits and work ---- */

/* Adds a deed for each step of a call that copied or reduced: from its first event to its last. */
static void add_work(struct maker *m, uint32_t r, const struct tu_traced_call *call) {
  const struct tu_traced_program *p = call->program;
  const struct tu_trace_event *events = &m->trace->ranks[r].events[call->event_first];
  struct tu_deed *deeds = tu_allocate(p->head.step_count, sizeof *deeds);
  bool *seen = tu_allocate(p->head.step_count, sizeof *seen);
  for (uint32_t i = 0; i < call->event_count; i++) {
    const uint32_t event = call->event_first + i;
    if (!tu_traced_is_step(&events[i])) continue;
    const struct tu_trace_step *step = &p->steps[events[i].at];
    struct tu_deed *d = &deeds[events[i].at];
    if (step->kind == TU_SEND || step->kind == TU_RECV) continue;
    if (!seen[events[i].at])
      *d = (struct tu_deed){.rank = number_of(m, r),
                            .to = TU_NONE,
                            .cause = TU_NONE,
                            .kind = step->kind == TU_COPY ? TU_DEED_COPY : TU_DEED_REDUCTION,
                            .bytes = (double)step->bytes,
                            .begin = tu_trace_begin_of(m->trace, r, event)};
    d->end = tu_trace_end_of(m->trace, r, event);
    seen[events[i].at] = true;
  }
  for (uint32_t s = 0; s < p->head.step_count; s++)
    if (seen[s]) add_deed(m, deeds[s]);
  free(deeds);
  free(seen);
}

static int compare_calls(const void *a, const void *b) {
  const struct tu_timed_call *x = a, *y = b;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void add_rank(struct maker *m, uint32_t r) {
  const struct tu_traced_rank *rank = &m->trace->ranks[r];
  for (uint32_t c = 0; c < rank->call_count; c++) {
    const struct tu_traced_call *call = &rank->calls[c];
    add_call(m, (struct tu_timed_call){.rank = rank->head.rank,
                                       .awaited = TU_NONE,
                                       .name = call->program->head.call,
                                       .begin = tu_trace_time(m->trace, r, call->begin_ns),
                                       .end = tu_trace_time(m->trace, r, call->end_ns)});
    for (uint32_t i = 0; i < call->event_count; i++) {
      const uint32_t event = call->event_first + i;
      if (rank->events[event].kind != TU_TRACE_WAITED) continue;
      add_call(m, (struct tu_timed_call){.rank = rank->head.rank,
                                         .awaited = call->program->comm->members[rank->events[event].at],
                                         .begin = tu_trace_begin_of(m->trace, r, event),
                                         .end = tu_trace_end_of(m->trace, r, event)});
    }
    add_work(m, r, call);
  }
}

/* ---- messages ---- */

static void make_cluster(struct maker *m, uint32_t **link_of) {
  const struct tu_trace *t = m->trace;
  const uint32_t ranks = m->line->ranks;
  const bool linked = ranks <= LINKED_RANKS_MAX;
  uint32_t *channels = tu_allocate(ranks, sizeof *channels);
  m->line->cluster = tu_cluster_create("job");
  *link_of = tu_allocate(linked ? (size_t)ranks * ranks : 1, sizeof **link_of);
  for (uint32_t r = 0; r < ranks; r++) tu_cluster_add(m->line->cluster, &(struct tu_node){.kind = TU_CHIP, .id = r});
  for (uint32_t i = 0; i < t->message_count && linked; i++) {
    const uint32_t from = number_of(m, t->messages[i].sent.rank), to = number_of(m, t->messages[i].taken.rank);
    const uint32_t a = from < to ? from : to, b = from < to ? to : from;
    uint32_t *link = &(*link_of)[(size_t)a * ranks + b];
    if (*link > 0 || a == b) continue;
    tu_cluster_connect(m->line->cluster, (struct tu_cluster_link_end){a, channels[a]++},
                       (struct tu_cluster_link_end){b, channels[b]++});
    *link = m->line->cluster->link_count;
  }
  (void)tu_cluster_index(m->line->cluster);
  free(channels);
}

static void add_crossing(struct maker *m, uint32_t link, const struct tu_deed *d) {
  struct tu_timeline *t = &m->line->timeline;
  struct tu_crossing c = {.port = 2 * (link - 1) + (d->rank > d->to),
                          .from = d->rank,
                          .to = d->to,
                          .bytes = d->bytes,
                          .begin = d->begin,
                          .end = d->end};
  if (!cut(m, &c.begin, &c.end)) return;
  t->crossings = tu_grow(t->crossings, t->crossing_count, &t->crossing_capacity, sizeof *t->crossings);
  t->crossings[t->crossing_count++] = c;
}

/* A message is shown from the time at which its sender began to write it until its receiver has taken all of it. */
static void add_messages(struct maker *m, const uint32_t link_of[]) {
  const struct tu_trace *t = m->trace;
  for (uint32_t i = 0; i < t->message_count; i++) {
    const struct tu_traced_end *sent = &t->messages[i].sent, *taken = &t->messages[i].taken;
    struct tu_deed d = {.rank = number_of(m, sent->rank),
                        .to = number_of(m, taken->rank),
                        .cause = TU_NONE,
                        .kind = TU_DEED_MESSAGE,
                        .bytes = (double)t->messages[i].bytes,
                        .begin = tu_trace_begin_of(t, sent->rank, sent->first),
                        .end = tu_trace_end_of(t, taken->rank, taken->last)};
    if (d.end < d.begin) d.end = d.begin;
    add_deed(m, d);
    if (d.rank == d.to || m->line->ranks > LINKED_RANKS_MAX) continue;
    add_crossing(m, link_of[(size_t)tu_min(d.rank, d.to) * m->line->ranks + tu_max(d.rank, d.to)], &d);
  }
}

static int compare_crossings(const void *a, const void *b) {
  const struct tu_crossing *x = a, *y = b;
  if (x->port != y->port) return x->port < y->port ? -1 : 1;
  return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* ---- the critical path ---- */

static void add_path(struct maker *m, const struct tu_traced_path *path) {
  struct tu_timeline *t = &m->line->timeline;
  for (uint32_t i = 0; i < path->count; i++) {
    struct tu_deed part = path->parts[i];
    const uint32_t count = t->deed_count;
    part.rank = number_of(m, part.rank);
    part.to = part.to == TU_NONE ? TU_NONE : number_of(m, part.to);
    part.cause = t->last;
    add_deed(m, part);
    if (t->deed_count > count) t->last = count;
  }
}

void tu_trace_line(const struct tu_trace *trace, const struct tu_traced_path *path, double from_s, double until_s,
                   struct tu_traced_line *line) {
  struct maker m = {.trace = trace, .line = line, .from = from_s, .until = until_s};
  uint32_t *link_of;
  *line = (struct tu_traced_line){.timeline.last = TU_NONE, .ranks = trace->ranks[0].head.ranks};
  struct tu_timeline *t = &line->timeline;
  make_cluster(&m, &link_of);
  for (uint32_t r = 0; r < trace->rank_count; r++) add_rank(&m, r);
  if (t->call_count > 1) qsort(t->calls, t->call_count, sizeof *t->calls, compare_calls);
  add_messages(&m, link_of);
  if (t->crossing_count > 1) qsort(t->crossings, t->crossing_count, sizeof *t->crossings, compare_crossings);
  add_path(&m, path);
  for (uint32_t i = 0; i < t->call_count; i++) t->end = fmax(t->end, t->calls[i].end);
  line->places = tu_allocate(line->ranks, sizeof *line->places);
  for (uint32_t r = 0; r < line->ranks; r++) line->places[r] = strdup("no trace");
  for (uint32_t r = 0; r < trace->rank_count; r++) {
    char **place = &line->places[number_of(&m, r)];
    free(*place);
    *place = strdup(trace->ranks[r].head.host);
  }
  free(link_of);
}

void tu_traced_line_fini(struct tu_traced_line *line) {
  for (uint32_t r = 0; r < line->ranks && line->places; r++) free(line->places[r]);
  free(line->places);
  free(line->timeline.deeds);
  free(line->timeline.crossings);
  free(line->timeline.calls);
  if (line->cluster) tu_cluster_destroy(line->cluster);
  *line = (struct tu_traced_line){0};
}
