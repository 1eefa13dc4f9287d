/* read.c: reads the trace of one rank. Nothing in the file is trusted: each number is checked against the file's size, or
 * against the count of what it points at. */
#include "trace/read.h"

#include <stdlib.h>
#include <string.h>

#define TEXT(field) (field)[sizeof(field) - 1] = '\0'

void tu_traced_fini(struct tu_traced_rank *rank) {
  for (uint32_t i = 0; i < rank->comm_count; i++) free(rank->comms[i].members);
  for (uint32_t i = 0; i < rank->program_count; i++) {
    free(rank->programs[i].steps);
    free(rank->programs[i].messages);
  }
  free(rank->comms);
  free(rank->programs);
  free(rank->events);
  free(rank->calls);
  *rank = (struct tu_traced_rank){0};
}

/* Returns a copy of `count` items; *at moves behind them. */
static void *take(const unsigned char **at, size_t count, size_t item_bytes) {
  void *copy = tu_allocate(count, item_bytes);
  memcpy(copy, *at, count * item_bytes);
  *at += count * item_bytes;
  return copy;
}

/* ---- records ---- */

static void read_comm(struct tu_traced_rank *rank, const unsigned char *at, size_t bytes) {
  struct tu_trace_comm head;
  if (bytes < sizeof head) return;
  memcpy(&head, at, sizeof head);
  at += sizeof head;
  if (head.ranks == 0 || head.rank >= head.ranks || (bytes - sizeof head) / sizeof(uint32_t) < head.ranks) return;
  uint32_t *members = take(&at, head.ranks, sizeof *members);
  bool good = true;
  for (uint32_t i = 0; i < head.ranks; i++) good = good && members[i] < rank->head.ranks;
  if (!good) {
    free(members);
    return;
  }
  rank->comms = tu_grow(rank->comms, rank->comm_count, &rank->comm_capacity, sizeof *rank->comms);
  rank->comms[rank->comm_count++] = (struct tu_traced_comm){head.id, head.rank, head.ranks, members};
}

static bool check_program(const struct tu_traced_program *p, uint32_t ranks) {
  for (uint32_t i = 0; i < p->head.step_count; i++) {
    const struct tu_trace_step *s = &p->steps[i];
    if (s->message_first > p->head.message_count || s->message_count > p->head.message_count - s->message_first)
      return false;
  }
  for (uint32_t i = 0; i < p->head.message_count; i++)
    if (p->messages[i].peer >= ranks) return false;
  return p->head.peer == TU_NONE || p->head.peer < ranks;
}

static const struct tu_traced_comm *find_comm(const struct tu_traced_rank *rank, uint64_t id) {
  for (uint32_t i = 0; i < rank->comm_count; i++)
    if (rank->comms[i].id == id) return &rank->comms[i];
  return NULL;
}

static void read_program(struct tu_traced_rank *rank, const unsigned char *at, size_t bytes) {
  struct tu_traced_program p = {0};
  if (bytes < sizeof p.head) return;
  memcpy(&p.head, at, sizeof p.head);
  TEXT(p.head.algorithm);
  TEXT(p.head.call);
  at += sizeof p.head;
  const struct tu_traced_comm *comm = find_comm(rank, p.head.comm);
  const uint64_t need =
      (uint64_t)p.head.step_count * sizeof *p.steps + (uint64_t)p.head.message_count * sizeof *p.messages;
  if (!comm || need > bytes - sizeof p.head) return;
  p.steps = take(&at, p.head.step_count, sizeof *p.steps);
  p.messages = take(&at, p.head.message_count, sizeof *p.messages);
  if (!check_program(&p, comm->ranks)) {
    free(p.steps);
    free(p.messages);
    return;
  }
  rank->programs = tu_grow(rank->programs, rank->program_count, &rank->program_capacity, sizeof *rank->programs);
  rank->programs[rank->program_count++] = p;
}

/* Reads records up to the end of the file, or to one that was not written whole. */
static void read_records(struct tu_traced_rank *rank, const unsigned char *at, size_t bytes) {
  struct tu_trace_record head;
  while (bytes >= sizeof head) {
    memcpy(&head, at, sizeof head);
    at += sizeof head, bytes -= sizeof head;
    const size_t all = tu_round_up(head.bytes, 8);
    if (all > bytes) break;
    if (head.kind == TU_TRACE_COMM) read_comm(rank, at, head.bytes);
    if (head.kind == TU_TRACE_PROGRAM) read_program(rank, at, head.bytes);
    at += all, bytes -= all;
  }
  /* only now, because communicators move in memory while records are read */
  for (uint32_t i = 0; i < rank->program_count; i++)
    rank->programs[i].comm = find_comm(rank, rank->programs[i].head.comm);
}

/* ---- events ---- */

static int compare_events(const void *a, const void *b) {
  const struct tu_trace_event *x = a, *y = b;
  if (x->run != y->run) return x->run < y->run ? -1 : 1;
  if ((x->kind == TU_TRACE_BEGIN) != (y->kind == TU_TRACE_BEGIN)) return x->kind == TU_TRACE_BEGIN ? -1 : 1;
  if (x->end_ns != y->end_ns) return x->end_ns < y->end_ns ? -1 : 1;
  return x->kind < y->kind ? -1 : x->kind > y->kind;
}

static void read_events(struct tu_traced_rank *rank, const unsigned char *at, uint64_t places) {
  const uint64_t written = tu_min(rank->head.written, places);
  rank->lost = rank->head.written - written;
  rank->events = tu_allocate(2 * written, sizeof *rank->events);
  for (uint64_t i = 0; i < written; i++) {
    struct tu_trace_event *e = &rank->events[rank->event_count];
    memcpy(e, at + i * sizeof *e, sizeof *e);
    rank->event_count += e->kind > TU_TRACE_NONE && e->kind <= TU_TRACE_DONE && e->run != 0;
    if (e->kind != TU_TRACE_DONE || e->run == 0) continue;
    e->kind = TU_TRACE_LAST;
    rank->events[rank->event_count++] =
        (struct tu_trace_event){.end_ns = e->end_ns, .run = e->run, .at = TU_NONE, .kind = TU_TRACE_END};
  }
  if (rank->event_count > 1) qsort(rank->events, rank->event_count, sizeof *rank->events, compare_events);
}

static const struct tu_traced_program *find_program(const struct tu_traced_rank *rank, uint32_t number) {
  for (uint32_t i = 0; i < rank->program_count; i++) {
    const uint32_t k = (number - 1 + i) % rank->program_count; /* usually at its number */
    if (rank->programs[k].head.number == number) return &rank->programs[k];
  }
  return NULL;
}

static bool is_sound(const struct tu_traced_program *p, const struct tu_trace_event *e) {
  if (tu_traced_is_step(e)) return e->at < p->head.step_count;
  if (e->kind == TU_TRACE_WAITED) return e->at < p->comm->ranks;
  return true;
}

/* Makes a call of the events [first, first + count) of one run. Events without the call's begin are left out, as they are lost
 * already. */
static void add_call(struct tu_traced_rank *rank, uint32_t first, uint32_t count) {
  const struct tu_trace_event *begin = &rank->events[first];
  const struct tu_traced_program *p =
      begin->kind == TU_TRACE_BEGIN && rank->program_count > 0 ? find_program(rank, begin->at) : NULL;
  if (!p) {
    rank->unread += begin->kind == TU_TRACE_BEGIN;
    return;
  }
  struct tu_traced_call call = {.program = p,
                                .number = begin->bytes,
                                .begin_ns = begin->end_ns,
                                .end_ns = begin->end_ns,
                                .peer = p->head.peer,
                                .event_first = first,
                                .event_count = count};
  for (uint32_t i = 0; i < count; i++) {
    const struct tu_trace_event *e = begin + i;
    if (!is_sound(p, e) || (i > 0 && e->kind == TU_TRACE_BEGIN)) {
      rank->unread++;
      return;
    }
    if (!call.ended) call.end_ns = tu_max(call.end_ns, e->end_ns); /* a wait may be noted after the end */
    if (e->kind != TU_TRACE_END && e->kind != TU_TRACE_FAILED) continue;
    call.ended = true;
    call.failed = e->kind == TU_TRACE_FAILED;
    if (e->at < p->comm->ranks) call.peer = e->at;
    if (call.peer != TU_NONE && e->kind == TU_TRACE_END) call.number = e->bytes;
  }
  rank->calls = tu_grow(rank->calls, rank->call_count, &rank->call_capacity, sizeof *rank->calls);
  rank->calls[rank->call_count++] = call;
}

static int compare_calls(const void *a, const void *b) {
  const struct tu_traced_call *x = a, *y = b;
  if (x->begin_ns != y->begin_ns) return x->begin_ns < y->begin_ns ? -1 : 1;
  return x->event_first < y->event_first ? -1 : x->event_first > y->event_first;
}

static void find_calls(struct tu_traced_rank *rank) {
  for (uint32_t i = 0, next; i < rank->event_count; i = next) {
    next = i + 1;
    while (next < rank->event_count && rank->events[next].run == rank->events[i].run) next++;
    add_call(rank, i, next - i);
  }
  if (rank->call_count > 1) qsort(rank->calls, rank->call_count, sizeof *rank->calls, compare_calls);
}

/* ---- the file ---- */

static tutti_err refuse(struct tu_error *error, const char *name, const char *found) {
  return tu_fail(error, TUTTI_ERR_ARGUMENT,
                 "%s: expected the trace of a rank, which a program writes if TUTTI_TRACE is set; found %s", name,
                 found);
}

tutti_err tu_traced_read(const void *data, size_t bytes, const char *name, struct tu_traced_rank *rank,
                         struct tu_error *error) {
  const unsigned char *at = data;
  *rank = (struct tu_traced_rank){0};
  struct tu_trace_head *head = &rank->head;
  if (bytes < TU_TRACE_HEAD_BYTES) return refuse(error, name, "a file that is too short");
  memcpy(head, at, sizeof *head);
  TEXT(head->host);
  if (memcmp(head->magic, TU_TRACE_MAGIC, sizeof head->magic) != 0)
    return refuse(error, name, "another file, or one of another version of tutti");
  if (head->order != TU_TRACE_ORDER) return refuse(error, name, "one of a machine with another order of bytes");
  if (head->ranks == 0 || head->ranks > 65536 || head->rank >= head->ranks)
    return refuse(error, name, "a damaged one: its rank is out of range");
  const uint64_t places = (bytes - TU_TRACE_HEAD_BYTES) / sizeof(struct tu_trace_event);
  if (head->capacity == 0 || head->capacity > places)
    return refuse(error, name, "a damaged one: it is shorter than its ring of events");
  const size_t ring = head->capacity * sizeof(struct tu_trace_event);
  rank->unread = head->left_out;
  read_records(rank, at + TU_TRACE_HEAD_BYTES + ring, bytes - TU_TRACE_HEAD_BYTES - ring);
  read_events(rank, at + TU_TRACE_HEAD_BYTES, head->capacity);
  find_calls(rank);
  return TUTTI_OK;
}
