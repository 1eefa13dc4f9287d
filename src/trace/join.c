/* join.c: finds the receiver of each message. A message of a collective is known by its communicator, the number of the
 * collective, its channel, and its place among the messages of the plan there. Messages of send and recv with one tag on one
 * channel are received in the order in which they were sent. */
#include "trace/join.h"

#include <stdlib.h>
#include <string.h>

#include "plan/collective.h"

/* The clocks of ranks on one machine show the same time of the day. */
#define SAME_CLOCK_NS INT64_C(1000000000)

/* An end of a message, and what both ends have in common. */
struct end {
  const struct tu_traced_comm *comm;
  uint64_t number;
  uint32_t from, to, lane, ordinal;
  bool pair, takes; /* pair: of send or recv */
  uint64_t bytes;
  struct tu_traced_end at;
};

struct ends {
  struct end *list;
  uint32_t count, capacity;
};

static int by_number(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

/* Compares what the ends of one message have in common. */
static int compare_keys(const struct end *x, const struct end *y) {
  int order = tu_traced_compare_comms(x->comm, y->comm);
  if (!order) order = (int)x->pair - (int)y->pair;
  if (!order) order = by_number(x->number, y->number);
  if (!order) order = by_number(x->from, y->from);
  if (!order) order = by_number(x->to, y->to);
  if (!order) order = by_number(x->lane, y->lane);
  if (!order) order = by_number(x->ordinal, y->ordinal);
  return order;
}

static int compare_ends(const void *a, const void *b) {
  const struct end *x = a, *y = b;
  int order = compare_keys(x, y);
  if (!order) order = (int)x->takes - (int)y->takes;
  if (!order) order = by_number(x->at.call, y->at.call);
  return order ? order : by_number(x->at.step, y->at.step);
}

/* ---- the ends of messages ---- */

static void add_end(struct ends *ends, const struct tu_trace *t, const struct tu_trace_message *m,
                    const struct tu_traced_end *at) {
  const struct tu_traced_rank *rank = &t->ranks[at->rank];
  const struct tu_traced_call *call = &rank->calls[at->call];
  const struct tu_traced_program *p = call->program;
  const uint32_t mine = p->comm->rank;
  const bool pair = tu_traced_is_pair(p);
  const uint32_t peer = pair ? call->peer : m->peer;
  if (peer == TU_NONE || (pair && rank->lost + rank->unread > 0)) return; /* which of them is not known */
  ends->list = tu_grow(ends->list, ends->count, &ends->capacity, sizeof *ends->list);
  ends->list[ends->count++] = (struct end){.comm = p->comm,
                                           .number = call->number,
                                           .from = m->sends ? mine : peer,
                                           .to = m->sends ? peer : mine,
                                           .lane = m->lane,
                                           .ordinal = pair ? 0 : m->ordinal,
                                           .pair = pair,
                                           .takes = !m->sends,
                                           .bytes = p->steps[at->step].bytes,
                                           .at = *at};
}

struct seen {
  uint32_t step, event;
};

static int compare_seen(const void *a, const void *b) {
  const struct seen *x = a, *y = b;
  return x->step != y->step ? by_number(x->step, y->step) : by_number(x->event, y->event);
}

/* Adds the ends of all messages of a call, as far as their steps have begun. `seen` has room for its events. */
static void add_call(struct ends *ends, const struct tu_trace *t, uint32_t r, uint32_t c, struct seen *seen) {
  const struct tu_traced_rank *rank = &t->ranks[r];
  const struct tu_traced_call *call = &rank->calls[c];
  uint32_t count = 0;
  for (uint32_t i = 0; i < call->event_count; i++) {
    const struct tu_trace_event *e = &rank->events[call->event_first + i];
    if (tu_traced_is_step(e)) seen[count++] = (struct seen){e->at, call->event_first + i};
  }
  if (count > 1) qsort(seen, count, sizeof *seen, compare_seen);
  for (uint32_t i = 0, next; i < count; i = next) {
    const struct tu_trace_step *step = &call->program->steps[seen[i].step];
    next = i + 1;
    while (next < count && seen[next].step == seen[i].step) next++;
    const struct tu_traced_end at = {r, c, seen[i].step, seen[i].event, seen[next - 1].event};
    for (uint32_t k = 0; k < step->message_count; k++)
      add_end(ends, t, &call->program->messages[step->message_first + k], &at);
  }
}

/* Numbers messages of send and recv that have all in common: first sent, first received. */
static void number_pairs(struct ends *ends) {
  for (uint32_t i = 1; i < ends->count; i++) {
    struct end *e = &ends->list[i];
    struct end before = ends->list[i - 1];
    const uint32_t number = before.ordinal + 1;
    before.ordinal = e->ordinal;
    if (e->pair && e->takes == before.takes && compare_keys(e, &before) == 0) e->ordinal = number;
  }
}

static void add_message(struct tu_trace *t, const struct end *sent, const struct end *taken) {
  t->messages = tu_grow(t->messages, t->message_count, &t->message_capacity, sizeof *t->messages);
  t->messages[t->message_count++] =
      (struct tu_traced_message){.bytes = sent->bytes, .sent = sent->at, .taken = taken->at};
}

/* ---- the messages ---- */

static int compare_at(const struct tu_traced_end *x, const struct tu_traced_end *y) {
  int order = by_number(x->rank, y->rank);
  if (!order) order = by_number(x->call, y->call);
  return order ? order : by_number(x->step, y->step);
}

static int compare_sent(const void *a, const void *b) {
  const struct tu_traced_message *x = a, *y = b;
  const int order = compare_at(&x->sent, &y->sent);
  return order ? order : compare_at(&x->taken, &y->taken);
}

static int compare_taken(const void *a, const void *b, void *context) {
  const struct tu_traced_message *messages = context;
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  const int order = compare_at(&messages[x].taken, &messages[y].taken);
  return order ? order : by_number(x, y);
}

static void find_messages(struct tu_trace *t) {
  struct ends ends = {0};
  for (uint32_t r = 0; r < t->rank_count; r++) {
    struct seen *seen = tu_allocate(t->ranks[r].event_count, sizeof *seen);
    for (uint32_t c = 0; c < t->ranks[r].call_count; c++) add_call(&ends, t, r, c, seen);
    free(seen);
  }
  if (ends.count > 1) qsort(ends.list, ends.count, sizeof *ends.list, compare_ends);
  number_pairs(&ends);
  if (ends.count > 1) qsort(ends.list, ends.count, sizeof *ends.list, compare_ends);
  for (uint32_t i = 1; i < ends.count; i++) {
    const struct end *sent = &ends.list[i - 1], *taken = &ends.list[i];
    if (!sent->takes && taken->takes && compare_keys(sent, taken) == 0) add_message(t, sent, taken);
  }
  free(ends.list);
  if (t->message_count > 1) qsort(t->messages, t->message_count, sizeof *t->messages, compare_sent);
  t->by_taken = tu_allocate(t->message_count, sizeof *t->by_taken);
  for (uint32_t i = 0; i < t->message_count; i++) t->by_taken[i] = i;
  if (t->message_count > 1) qsort_r(t->by_taken, t->message_count, sizeof *t->by_taken, compare_taken, t->messages);
}

static const struct tu_traced_end *end_at(const struct tu_trace *t, bool taken, uint32_t i) {
  return taken ? &t->messages[t->by_taken[i]].taken : &t->messages[i].sent;
}

/* Returns the first message whose end is not before `at`. */
static uint32_t find(const struct tu_trace *t, bool taken, const struct tu_traced_end *at) {
  uint32_t low = 0, high = t->message_count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (compare_at(end_at(t, taken, middle), at) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

static struct tu_traced_range range(const struct tu_trace *t, bool taken, uint32_t rank, uint32_t call, uint32_t step) {
  const struct tu_traced_end at = {.rank = rank, .call = call, .step = step};
  struct tu_traced_range found = {find(t, taken, &at), 0};
  while (found.first + found.count < t->message_count &&
         compare_at(end_at(t, taken, found.first + found.count), &at) == 0)
    found.count++;
  return found;
}

struct tu_traced_range tu_trace_sent(const struct tu_trace *trace, uint32_t rank, uint32_t call, uint32_t step) {
  return range(trace, false, rank, call, step);
}

struct tu_traced_range tu_trace_taken(const struct tu_trace *trace, uint32_t rank, uint32_t call, uint32_t step) {
  return range(trace, true, rank, call, step);
}

/* ---- the ranks ---- */

static int compare_ranks(const void *a, const void *b) {
  const struct tu_traced_rank *x = a, *y = b;
  return by_number(x->head.rank, y->head.rank);
}

/* Machines may have one name, but not one clock. */
static bool is_of(const struct tu_trace *t, uint32_t host, const struct tu_trace_head *head) {
  const int64_t apart = (int64_t)((uint64_t)head->wall_ns - (uint64_t)t->hosts[host].wall_ns);
  return strcmp(t->hosts[host].name, head->host) == 0 && apart > -SAME_CLOCK_NS && apart < SAME_CLOCK_NS;
}

static void find_hosts(struct tu_trace *t) {
  t->hosts = tu_allocate(t->rank_count, sizeof *t->hosts);
  t->host_of = tu_allocate(t->rank_count, sizeof *t->host_of);
  for (uint32_t r = 0; r < t->rank_count; r++) {
    const struct tu_trace_head *head = &t->ranks[r].head;
    uint32_t h = 0;
    while (h < t->host_count && !is_of(t, h, head)) h++;
    if (h == t->host_count) {
      t->hosts[h].wall_ns = head->wall_ns;
      memcpy(t->hosts[h].name, head->host, sizeof t->hosts[h].name);
      t->hosts[h].origin_ns = head->began_ns;
      t->host_count++;
    }
    t->host_of[r] = h;
  }
}

void tu_trace_join(struct tu_traced_rank *ranks, uint32_t count, struct tu_trace *trace) {
  *trace = (struct tu_trace){.ranks = ranks, .rank_count = count};
  if (count > 1) qsort(ranks, count, sizeof *ranks, compare_ranks);
  find_hosts(trace);
  find_messages(trace);
  tu_trace_align(trace);
}

void tu_trace_fini(struct tu_trace *trace) {
  for (uint32_t r = 0; r < trace->rank_count; r++) tu_traced_fini(&trace->ranks[r]);
  free(trace->ranks);
  free(trace->hosts);
  free(trace->host_of);
  free(trace->messages);
  free(trace->by_taken);
  *trace = (struct tu_trace){0};
}
