/* sums.c: adds up calls by kind, and waits by rank. */
#include "trace/sums.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/collective.h"

/* A call on one rank. The entries of one collective stand together, in the order of ranks. */
struct entry {
  const struct tu_traced_call *call;
  uint32_t rank, index; /* index in tu_trace.ranks, and in the rank's calls */
  bool pair;            /* a message between two ranks: it stands alone */
  uint32_t kind;        /* index in tu_traced_sums.kinds */
  double begin, end;
};

struct adder {
  const struct tu_trace *trace;
  struct tu_traced_sums *sums;
  struct entry *entries;
  uint32_t count;
  uint32_t ranks;   /* of the job */
  double *awaited;  /* [kind * ranks + rank] */
  uint32_t *latest; /* the same */
  double **times;   /* [kind]: what its calls took */
};

static int by_number(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

static int compare_entries(const void *a, const void *b) {
  const struct entry *x = a, *y = b;
  int order = tu_traced_compare_comms(x->call->program->comm, y->call->program->comm);
  if (!order) order = (int)x->pair - (int)y->pair;
  if (!order && !x->pair) order = by_number(x->call->number, y->call->number);
  if (!order) order = by_number(x->rank, y->rank);
  return order ? order : by_number(x->index, y->index);
}

static bool are_one(const struct entry *x, const struct entry *y) {
  return !x->pair && !y->pair && x->call->number == y->call->number &&
         tu_traced_compare_comms(x->call->program->comm, y->call->program->comm) == 0;
}

static void collect(struct adder *a) {
  const struct tu_trace *t = a->trace;
  size_t all = 0;
  for (uint32_t r = 0; r < t->rank_count; r++) all += t->ranks[r].call_count;
  a->entries = tu_allocate(all, sizeof *a->entries);
  for (uint32_t r = 0; r < t->rank_count; r++)
    for (uint32_t c = 0; c < t->ranks[r].call_count; c++) {
      const struct tu_traced_call *call = &t->ranks[r].calls[c];
      a->entries[a->count++] = (struct entry){.call = call,
                                              .rank = r,
                                              .index = c,
                                              .pair = tu_traced_is_pair(call->program),
                                              .begin = tu_trace_time(t, r, call->begin_ns),
                                              .end = tu_trace_time(t, r, call->end_ns)};
    }
  if (a->count > 1) qsort(a->entries, a->count, sizeof *a->entries, compare_entries);
}

/* ---- kinds ---- */

/* A program of a rank, while programs are sorted by kind. */
struct named {
  const struct tu_traced_program *program;
  uint32_t rank, index;
};

/* A kind, while kinds are sorted by their first calls. */
struct found {
  const struct tu_traced_program *program;
  double first;
  uint32_t number;
};

static int compare_kinds(const struct tu_traced_program *x, const struct tu_traced_program *y) {
  const int order = tu_traced_compare_comms(x->comm, y->comm);
  return order ? order : strcmp(x->head.call, y->head.call);
}

static int compare_named(const void *a, const void *b) {
  const struct named *x = a, *y = b;
  int order = compare_kinds(x->program, y->program);
  if (!order) order = by_number(x->rank, y->rank);
  return order ? order : by_number(x->index, y->index);
}

static int compare_found(const void *a, const void *b) {
  const struct found *x = a, *y = b;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return by_number(x->number, y->number);
}

/* Gives the programs of all ranks the numbers of their kinds: kinds[rank][program]. Returns the kinds, of which *count. */
static struct found *number_kinds(const struct tu_trace *t, uint32_t **kinds, uint32_t *count) {
  size_t all = 0, next = 0;
  for (uint32_t r = 0; r < t->rank_count; r++) all += t->ranks[r].program_count;
  struct named *named = tu_allocate(all, sizeof *named);
  struct found *found = tu_allocate(all, sizeof *found);
  for (uint32_t r = 0; r < t->rank_count; r++) {
    kinds[r] = tu_allocate(t->ranks[r].program_count, sizeof **kinds);
    for (uint32_t i = 0; i < t->ranks[r].program_count; i++)
      named[next++] = (struct named){&t->ranks[r].programs[i], r, i};
  }
  if (all > 1) qsort(named, all, sizeof *named, compare_named);
  *count = 0;
  for (size_t i = 0; i < all; i++) {
    if (i == 0 || compare_kinds(named[i - 1].program, named[i].program) != 0) {
      found[*count] = (struct found){named[i].program, HUGE_VAL, *count};
      ++*count;
    }
    kinds[named[i].rank][named[i].index] = *count - 1;
  }
  free(named);
  return found;
}

static void find_kinds(struct adder *a) {
  const struct tu_trace *t = a->trace;
  struct tu_traced_sums *s = a->sums;
  uint32_t **kinds = tu_allocate(t->rank_count, sizeof *kinds), count;
  struct found *found = number_kinds(t, kinds, &count);
  uint32_t *places = tu_allocate(count, sizeof *places);
  for (uint32_t i = 0; i < a->count; i++) {
    struct entry *e = &a->entries[i];
    e->kind = kinds[e->rank][e->call->program - t->ranks[e->rank].programs];
    found[e->kind].first = fmin(found[e->kind].first, e->begin);
  }
  if (count > 1) qsort(found, count, sizeof *found, compare_found);
  s->kinds = tu_allocate(count, sizeof *s->kinds);
  for (uint32_t k = 0; k < count; k++) {
    places[found[k].number] = k;
    if (found[k].first == HUGE_VAL) continue; /* a program without calls */
    s->kinds[k] = (struct tu_traced_kind){.program = found[k].program, .latest = TU_NONE, .awaited = TU_NONE};
    s->kind_count = k + 1;
  }
  for (uint32_t i = 0; i < a->count; i++) {
    a->entries[i].kind = places[a->entries[i].kind];
    if (i == 0 || !are_one(&a->entries[i - 1], &a->entries[i])) s->kinds[a->entries[i].kind].calls++;
  }
  for (uint32_t r = 0; r < t->rank_count; r++) free(kinds[r]);
  free(kinds);
  free(found);
  free(places);
}

/* Adds a call: the entries [first, next). */
static void add_call(struct adder *a, uint32_t first, uint32_t next, uint32_t counts[]) {
  const struct entry *e = &a->entries[first];
  struct tu_traced_kind *kind = &a->sums->kinds[e->kind];
  double earliest = e->begin, latest = e->begin, end = e->end;
  bool ended = true;
  uint32_t last = 0;
  for (uint32_t i = 0; i < next - first; i++) {
    ended = ended && e[i].call->ended && !e[i].call->failed;
    earliest = fmin(earliest, e[i].begin);
    if (e[i].begin > latest) latest = e[i].begin, last = i;
    end = fmax(end, e[i].end);
  }
  if (!ended) kind->open++;
  else a->times[e->kind][counts[e->kind]++] = fmax(end - latest, 0);
  if (e->pair) return;
  kind->late_s += latest - earliest;
  a->latest[(size_t)e->kind * a->ranks + a->trace->ranks[e[last].rank].head.rank]++;
}

/* ---- waits ---- */

/* Returns the begin of the collective of `e` on the rank of the job; HUGE_VAL: it has not come, as far as is known. */
static double begin_of(const struct adder *a, const struct entry *e, uint32_t job_rank) {
  const struct entry *first = e, *last = e;
  while (first > a->entries && are_one(first - 1, e)) first--;
  while (last + 1 < a->entries + a->count && are_one(last + 1, e)) last++;
  for (; first <= last; first++)
    if (a->trace->ranks[first->rank].head.rank == job_rank) return first->begin;
  for (uint32_t r = 0; r < a->trace->rank_count; r++)
    if (a->trace->ranks[r].head.rank == job_rank) return HUGE_VAL;
  return -HUGE_VAL; /* its trace is missing */
}

static void add_waits(struct adder *a, const struct entry *e) {
  const struct tu_traced_rank *rank = &a->trace->ranks[e->rank];
  for (uint32_t i = 0; i < e->call->event_count; i++) {
    const struct tu_trace_event *event = &rank->events[e->call->event_first + i];
    if (event->kind != TU_TRACE_WAITED) continue;
    const uint32_t awaited = e->call->program->comm->members[event->at];
    const double begin = tu_trace_begin_of(a->trace, e->rank, e->call->event_first + i);
    const double end = tu_trace_end_of(a->trace, e->rank, e->call->event_first + i);
    a->sums->kinds[e->kind].waited_s += end - begin;
    a->awaited[(size_t)e->kind * a->ranks + awaited] += end - begin;
    a->sums->waits[rank->head.rank].waited_s += end - begin;
    a->sums->waits[awaited].awaited_s += end - begin;
    if (!e->pair) a->sums->waits[awaited].late_s += fmax(fmin(begin_of(a, e, awaited), end) - begin, 0);
  }
}

static void add_time_in_calls(struct adder *a) {
  for (uint32_t r = 0; r < a->trace->rank_count; r++) {
    const struct tu_traced_rank *rank = &a->trace->ranks[r];
    uint64_t until = 0, ns = 0;
    for (uint32_t c = 0; c < rank->call_count; c++) { /* they are ordered by their begin */
      const uint64_t from = tu_max(rank->calls[c].begin_ns, until);
      if (rank->calls[c].end_ns <= from) continue;
      ns += rank->calls[c].end_ns - from;
      until = rank->calls[c].end_ns;
    }
    a->sums->waits[rank->head.rank].in_calls_s = (double)ns * 1e-9;
  }
}

/* ---- all ---- */

static int compare_numbers(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void end_kind(struct adder *a, uint32_t k, uint32_t timed) {
  struct tu_traced_kind *kind = &a->sums->kinds[k];
  double *times = a->times[k];
  if (timed > 1) qsort(times, timed, sizeof *times, compare_numbers);
  if (timed > 0) {
    kind->median_s = timed % 2 ? times[timed / 2] : (times[timed / 2 - 1] + times[timed / 2]) / 2;
    kind->longest_s = times[timed - 1];
  }
  for (uint32_t r = 0; r < a->ranks; r++) {
    const size_t at = (size_t)k * a->ranks + r;
    if (a->latest[at] > kind->latest_calls) kind->latest = r, kind->latest_calls = a->latest[at];
    if (a->awaited[at] > kind->awaited_s) kind->awaited = r, kind->awaited_s = a->awaited[at];
  }
}

void tu_trace_sum(const struct tu_trace *trace, struct tu_traced_sums *sums) {
  struct adder a = {.trace = trace, .sums = sums, .ranks = trace->ranks[0].head.ranks};
  *sums = (struct tu_traced_sums){.waits = tu_allocate(a.ranks, sizeof *sums->waits)};
  collect(&a);
  find_kinds(&a);
  const size_t cells = (size_t)sums->kind_count * a.ranks;
  uint32_t *counts = tu_allocate(sums->kind_count, sizeof *counts);
  a.awaited = tu_allocate(cells, sizeof *a.awaited);
  a.latest = tu_allocate(cells, sizeof *a.latest);
  a.times = tu_allocate(sums->kind_count, sizeof *a.times);
  for (uint32_t k = 0; k < sums->kind_count; k++) a.times[k] = tu_allocate(sums->kinds[k].calls, sizeof **a.times);
  for (uint32_t i = 0, next; i < a.count; i = next) {
    for (next = i + 1; next < a.count && are_one(&a.entries[i], &a.entries[next]);) next++;
    add_call(&a, i, next, counts);
  }
  for (uint32_t i = 0; i < a.count; i++) add_waits(&a, &a.entries[i]);
  add_time_in_calls(&a);
  for (uint32_t k = 0; k < sums->kind_count; k++) {
    end_kind(&a, k, counts[k]);
    free(a.times[k]);
  }
  free(counts);
  free(a.awaited);
  free(a.latest);
  free(a.times);
  free(a.entries);
}

void tu_traced_sums_fini(struct tu_traced_sums *sums) {
  free(sums->kinds);
  free(sums->waits);
  *sums = (struct tu_traced_sums){0};
}
