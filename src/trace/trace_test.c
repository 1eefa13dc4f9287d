/* trace_test.c: tests what is read from traces against simulated jobs, of which all is known: when each rank did what, which
 * messages it sent, and by how much the clocks of the hosts differ. */
#include <stddef.h>

#include "plan/collective.h"
#include "plan/plan.h"
#include "test.h"
#include "trace/costs.h"
#include "trace/line.h"
#include "trace/sums.h"

enum { RANKS_MAX = 9, COMMS_MAX = 6, BATCH_MAX = 12 };

/* ---- a simulated job; its times are ns of the true clock ---- */

struct act { /* an event, by the true clock */
  uint64_t end, took, bytes;
  uint32_t run, at, kind;
};

struct player {
  uint64_t now;
  struct act *acts;
  uint32_t act_count, act_capacity, runs, programs;
  unsigned char *records;
  uint32_t record_bytes, record_capacity;
  bool knows[COMMS_MAX];
  struct known { /* programs of messages, which are recorded once */
    uint32_t group, collective, peer, bytes, program;
  } known[256];
  uint32_t known_count;
};

struct group { /* a communicator */
  uint64_t id;
  uint32_t ranks, members[RANKS_MAX], collectives;
};

/* A message: the runs of the calls that send and take it, and the act with which each of them began to move it. */
struct truth {
  uint32_t from, to, sent_run, taken_run, sent_step, taken_step, sent_act, taken_act;
  uint64_t bytes;
  bool pair, any;
};

struct job {
  uint64_t seed;
  uint32_t ranks, hosts, host_of[RANKS_MAX];
  uint64_t base[RANKS_MAX]; /* [hosts]: what its clock shows at the true time 0 */
  double drift[RANKS_MAX];
  struct player players[RANKS_MAX];
  struct group groups[COMMS_MAX];
  uint32_t group_count;
  bool one_name; /* all hosts have it */
  struct truth *truths;
  uint32_t truth_count, truth_capacity;
};

static uint32_t below(struct job *j, uint32_t n) { return (uint32_t)(tu_random(&j->seed) % n); }

static void swap(uint32_t *a, uint32_t *b) {
  const uint32_t c = *a;
  *a = *b, *b = c;
}

static uint64_t clock_of(const struct job *j, uint32_t host, uint64_t t) {
  return j->base[host] + t + (uint64_t)(int64_t)llround(j->drift[host] * (double)t);
}

static void put(struct player *p, const void *data, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    p->records = tu_grow(p->records, p->record_bytes, &p->record_capacity, 1);
    p->records[p->record_bytes++] = ((const unsigned char *)data)[i];
  }
}

static void put_record(struct player *p, uint32_t kind, const void *data[], const size_t bytes[], uint32_t parts) {
  static const char zeros[8];
  struct tu_trace_record head = {.kind = kind};
  for (uint32_t i = 0; i < parts; i++) head.bytes += (uint32_t)bytes[i];
  put(p, &head, sizeof head);
  for (uint32_t i = 0; i < parts; i++) put(p, data[i], bytes[i]);
  put(p, zeros, tu_round_up(head.bytes, 8) - head.bytes);
}

static void act(struct player *p, const struct act *a) {
  p->acts = tu_grow(p->acts, p->act_count, &p->act_capacity, sizeof *p->acts);
  p->acts[p->act_count++] = *a;
}

static uint32_t place_of(const struct group *g, uint32_t rank) {
  uint32_t i = 0;
  while (g->members[i] != rank) i++;
  return i;
}

static void add_group(struct job *j, uint64_t id, uint32_t first, uint32_t step) {
  struct group *g = &j->groups[j->group_count++];
  *g = (struct group){.id = id};
  for (uint32_t r = first; r < j->ranks; r += step) g->members[g->ranks++] = r;
}

/* Makes a job whose clocks differ, with three kinds of communicators: of all ranks, a copy of it, and the parts of a split,
 * which have one id. */
static void open_job(struct job *j, uint64_t seed, uint32_t ranks, uint32_t hosts) {
  *j = (struct job){.seed = seed, .ranks = ranks, .hosts = hosts};
  for (uint32_t r = 0; r < ranks; r++) j->host_of[r] = r * hosts / ranks;
  for (uint32_t h = 0; h < hosts; h++) j->base[h] = 1000000000 + tu_random(&j->seed) % 1000000000000000;
  add_group(j, 1, 0, 1);
  add_group(j, 1001, 0, 1);
  const uint32_t parts = ranks > 3 ? 2 : 1;
  for (uint32_t i = 0; i < parts; i++) add_group(j, 1003, i, parts);
}

static void close_job(struct job *j) {
  for (uint32_t r = 0; r < j->ranks; r++) free(j->players[r].acts), free(j->players[r].records);
  free(j->truths);
}

/* A call on one rank, each of whose steps has one message at most. */
struct plan_step {
  enum tu_step_kind kind;
  uint64_t bytes;
  uint32_t peer;
};

struct call {
  const char *name;
  uint32_t collective, peer, count;
  uint64_t number;
  const struct plan_step *steps;
};

/* Returns the number of a program of a message that has been recorded; 0: it has not. */
static uint32_t find_known(struct player *p, const struct known *what) {
  for (uint32_t i = 0; i < p->known_count; i++)
    if (memcmp(&p->known[i], what, offsetof(struct known, program)) == 0) return p->known[i].program;
  return 0;
}

/* Records a program. Returns its number. */
static uint32_t record(struct job *j, uint32_t rank, uint32_t group, const struct call *call) {
  struct player *p = &j->players[rank];
  const struct group *g = &j->groups[group];
  const bool pair = call->collective >= TUTTI_SEND;
  struct known what = {group, call->collective, call->peer, call->count > 0 ? (uint32_t)call->steps[0].bytes : 0, 0};
  if (pair && find_known(p, &what) > 0) return find_known(p, &what);
  if (!p->knows[group]) {
    const struct tu_trace_comm comm = {g->id, place_of(g, rank), g->ranks};
    put_record(p, TU_TRACE_COMM, (const void *[]){&comm, g->members}, (size_t[]){sizeof comm, 4 * g->ranks}, 2);
    p->knows[group] = true;
  }
  struct tu_trace_program program = {.comm = g->id,
                                     .number = ++p->programs,
                                     .step_count = call->count,
                                     .peer = call->peer,
                                     .collective = call->collective};
  struct tu_trace_step *s = tu_allocate(call->count, sizeof *s);
  struct tu_trace_message *m = tu_allocate(call->count, sizeof *m);
  snprintf(program.algorithm, sizeof program.algorithm, "simulated");
  snprintf(program.call, sizeof program.call, "%s", call->name);
  for (uint32_t i = 0; i < call->count; i++) {
    const struct plan_step *step = &call->steps[i];
    s[i] = (struct tu_trace_step){.bytes = step->bytes,
                                  .kind = step->kind,
                                  .message_first = program.message_count,
                                  .message_count = step->kind != TU_COPY,
                                  .operands = step->kind == TU_RECV_REDUCE ? 2 : 0};
    if (s[i].message_count > 0)
      m[program.message_count++] =
          (struct tu_trace_message){.peer = step->peer == TU_NONE ? 0 : step->peer, .sends = step->kind == TU_SEND};
  }
  put_record(p, TU_TRACE_PROGRAM, (const void *[]){&program, s, m},
             (size_t[]){sizeof program, call->count * sizeof *s, program.message_count * sizeof *m}, 3);
  free(s);
  free(m);
  what.program = p->programs;
  if (pair && p->known_count < 256) p->known[p->known_count++] = what;
  return p->programs;
}

/* Records the begin of a call, now. Returns the number of the run. */
static uint32_t begin(struct job *j, uint32_t rank, uint32_t group, const struct call *call) {
  struct player *p = &j->players[rank];
  const uint32_t program = record(j, rank, group, call);
  act(p, &(struct act){.end = p->now, .run = ++p->runs, .at = program, .kind = TU_TRACE_BEGIN, .bytes = call->number});
  p->now += 50;
  return p->runs;
}

static void end(struct player *p, uint32_t run, uint32_t peer, uint64_t tag) {
  p->now += 30;
  act(p, &(struct act){.end = p->now, .run = run, .at = peer, .kind = TU_TRACE_END, .bytes = tag});
}

/* The rank works on a step until all of it is done: in one event, or in two. Returns the index of the first. */
static uint32_t work(struct job *j, uint32_t rank, uint32_t run, uint32_t step, uint64_t bytes, uint64_t ns) {
  struct player *p = &j->players[rank];
  const uint32_t first = p->act_count;
  const uint64_t half = bytes > 100 && below(j, 2) ? bytes / 3 : 0;
  if (half > 0) {
    p->now += ns / 2;
    act(p, &(struct act){p->now, ns / 2, half, run, step, TU_TRACE_STEP});
    p->now += 20;
  }
  p->now += ns;
  act(p, &(struct act){p->now, ns, bytes - half, run, step, TU_TRACE_LAST});
  return first;
}

/* The rank waits until the message is there. */
static void await(struct job *j, uint32_t rank, uint32_t run, uint32_t peer, uint64_t there) {
  struct player *p = &j->players[rank];
  if (p->now >= there) return;
  const uint64_t ns = there - p->now;
  p->now = there;
  if (ns > 500) act(p, &(struct act){.end = there, .took = ns, .run = run, .at = peer, .kind = TU_TRACE_WAITED});
}

static uint64_t latency(struct job *j, uint32_t a, uint32_t b) {
  return j->host_of[a] == j->host_of[b] ? 200 + below(j, 300) : 8000 + below(j, 25000);
}

static void note(struct job *j, const struct truth *t) {
  j->truths = tu_grow(j->truths, j->truth_count, &j->truth_capacity, sizeof *j->truths);
  j->truths[j->truth_count++] = *t;
}

/* A collective in which each rank sends a message to each of the next `span` ranks, and then takes those to it. */
static void exchange(struct job *j, uint32_t group, uint32_t span, const char *name) {
  struct group *g = &j->groups[group];
  const uint64_t number = ++g->collectives;
  const uint32_t n = g->ranks;
  uint64_t there[RANKS_MAX][RANKS_MAX];
  uint32_t run[RANKS_MAX], sent[RANKS_MAX][RANKS_MAX];
  const uint64_t bytes = 8u << below(j, 12);
  for (uint32_t i = 0; i < n; i++) {
    struct plan_step steps[2 * RANKS_MAX];
    for (uint32_t k = 0; k < span; k++) {
      steps[k] = (struct plan_step){TU_SEND, bytes, (i + k + 1) % n};
      steps[span + k] = (struct plan_step){k % 2 ? TU_RECV : TU_RECV_REDUCE, bytes, (i + n * 2 - k - 1) % n};
    }
    run[i] = begin(j, g->members[i], group, &(struct call){name, TUTTI_ALLREDUCE, TU_NONE, 2 * span, number, steps});
    for (uint32_t k = 0; k < span; k++) {
      const uint32_t to = (i + k + 1) % n;
      sent[i][to] = work(j, g->members[i], run[i], k, bytes, 100 + below(j, 900));
      there[i][to] = j->players[g->members[i]].now + latency(j, g->members[i], g->members[to]);
    }
  }
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t k = 0; k < span; k++) {
      const uint32_t from = (i + n * 2 - k - 1) % n, me = g->members[i];
      await(j, me, run[i], from, there[from][i]);
      const uint32_t taken = work(j, me, run[i], span + k, bytes, 100 + below(j, 900));
      note(j, &(struct truth){g->members[from], me, run[from], run[i], k, span + k, sent[from][i], taken, bytes, false,
                              false});
    }
    end(&j->players[g->members[i]], run[i], TU_NONE, 12345);
  }
}

/* Messages from rank to rank, with few tags: those of one tag are received in the order in which they were sent. Blocking
 * calls, or several at once. */
static void batch(struct job *j, uint32_t group, uint32_t from, uint32_t to) {
  const struct group *g = &j->groups[group];
  const uint32_t count = 1 + below(j, BATCH_MAX), a = g->members[from], b = g->members[to];
  const bool at_once = below(j, 2), any = below(j, 3) == 0;
  struct player *p = &j->players[a], *q = &j->players[b];
  uint32_t tag[BATCH_MAX], order[BATCH_MAX], sends[BATCH_MAX], takes[BATCH_MAX], sent[BATCH_MAX];
  uint64_t there[BATCH_MAX], size[BATCH_MAX];
  for (uint32_t i = 0; i < count; i++) tag[i] = below(j, 3), order[i] = i, size[i] = 64 * below(j, 8);
  for (uint32_t i = 1; i < count; i++) { /* another order, which keeps that of equal tags */
    const uint32_t k = i - 1;
    if (tag[order[k]] != tag[order[i]] && below(j, 2)) swap(&order[k], &order[i]);
  }
  for (uint32_t turn = 0; turn < 2; turn++)
    for (uint32_t i = 0; i < count; i++) {
      const struct plan_step step = {TU_SEND, size[i], to};
      if (turn == 0) sends[i] = begin(j, a, group, &(struct call){"send", TUTTI_SEND, to, 1, tag[i], &step});
      if (turn == 0 && at_once) continue;
      if (turn == 1 && !at_once) break;
      sent[i] = work(j, a, sends[i], 0, size[i], 100 + below(j, 500));
      there[i] = p->now + latency(j, a, b);
      end(p, sends[i], TU_NONE, tag[i]);
    }
  for (uint32_t turn = 0; turn < 2; turn++)
    for (uint32_t k = 0; k < count; k++) {
      const uint32_t i = turn == 0 ? order[k] : at_once ? k : order[k];
      const uint32_t peer = any ? TU_NONE : from;
      const struct plan_step step = {TU_RECV, size[i], peer};
      if (turn == 0)
        takes[i] = begin(j, b, group, &(struct call){"recv", TUTTI_RECV, peer, 1, any ? 0 : tag[i], &step});
      if (turn == 0 && at_once) continue;
      if (turn == 1 && !at_once) break;
      await(j, b, takes[i], from, there[i]);
      const uint32_t taken = work(j, b, takes[i], 0, size[i], 100 + below(j, 500));
      end(q, takes[i], any ? from : TU_NONE, tag[i]);
      note(j, &(struct truth){a, b, sends[i], takes[i], 0, 0, sent[i], taken, size[i], true, any});
    }
}

/* The ranks compute, and call `rounds` times. ns: the longest computation. */
static void play(struct job *j, uint32_t rounds, uint32_t ns) {
  static const char *const names[] = {"allreduce(count 1)", "allreduce(count 2)", "barrier"};
  for (uint32_t i = 0; i < rounds; i++) {
    for (uint32_t r = 0; r < j->ranks; r++) j->players[r].now += below(j, ns);
    const uint32_t group = below(j, j->group_count), n = j->groups[group].ranks;
    if (below(j, 2) || n < 2) {
      exchange(j, group, n > 1 ? 1 + below(j, n - 1) : 0, names[below(j, 3)]);
      continue;
    }
    const uint32_t from = below(j, n);
    batch(j, group, from, (from + 1 + below(j, n - 1)) % n);
  }
}

/* ---- the files of the job ---- */

struct cut {
  uint32_t capacity;     /* of the ring; 0: as many as there are events */
  uint32_t acts_max;     /* the rank is killed after so many events; 0: it is not */
  uint32_t record_bytes; /* its records are cut; 0: they are not */
};

static unsigned char *encode(const struct job *j, uint32_t rank, const struct cut *c, size_t *bytes) {
  const struct player *p = &j->players[rank];
  const uint32_t host = j->host_of[rank];
  const uint64_t written = c->acts_max > 0 ? tu_min(c->acts_max, p->act_count) : p->act_count;
  const uint64_t capacity = c->capacity > 0 ? c->capacity : tu_max(written + 1, 1);
  const size_t records = c->record_bytes > 0 ? c->record_bytes : p->record_bytes;
  struct tu_trace_head head = {.magic = TU_TRACE_MAGIC,
                               .order = TU_TRACE_ORDER,
                               .rank = rank,
                               .ranks = j->ranks,
                               .pid = 100 + rank,
                               .job = 7,
                               .began_ns = j->base[host] - 1000 * (rank + 1),
                               .capacity = capacity,
                               .written = written + (c->acts_max > 0)};
  if (rank == 0) head.began_ns += 20000; /* others have begun before */
  head.wall_ns = 1700000000000000000 - (int64_t)j->base[host];
  snprintf(head.host, sizeof head.host, "host%u", j->one_name ? 0 : host);
  const size_t ring = capacity * sizeof(struct tu_trace_event);
  unsigned char *file = tu_allocate(*bytes = TU_TRACE_HEAD_BYTES + ring + records, 1);
  memcpy(file, &head, sizeof head);
  for (uint64_t i = 0; i < written; i++) {
    const struct act *a = &p->acts[i];
    const uint64_t at = clock_of(j, host, a->end);
    const struct tu_trace_event e = {.end_ns = at,
                                     .took_ns = (uint32_t)(at - clock_of(j, host, a->end - a->took)),
                                     .run = a->run,
                                     .at = a->at,
                                     .kind = a->kind,
                                     .bytes = a->bytes};
    memcpy(file + TU_TRACE_HEAD_BYTES + i % capacity * sizeof e, &e, sizeof e);
  }
  /* An event that was not finished when the rank was killed. */
  if (c->acts_max > 0) memset(file + TU_TRACE_HEAD_BYTES + written % capacity * sizeof(struct tu_trace_event), 0, 28);
  if (records > 0) memcpy(file + TU_TRACE_HEAD_BYTES + ring, p->records, records);
  return file;
}

static void read_one(const struct job *j, uint32_t rank, const struct cut *c, struct tu_traced_rank *to) {
  struct tu_error error = {0};
  size_t bytes;
  unsigned char *file = encode(j, rank, c, &bytes);
  CHECK(tu_traced_read(file, bytes, "file", to, &error) == TUTTI_OK, "rank %u: %s", rank, error.text);
  free(file);
}

/* Reads and joins the traces of the ranks; those in `missing` (bits) have none. */
static void join(const struct job *j, const struct cut cuts[], uint32_t missing, struct tu_trace *t) {
  struct tu_traced_rank *ranks = tu_allocate(j->ranks, sizeof *ranks);
  uint32_t count = 0;
  for (uint32_t r = j->ranks; r-- > 0;)
    if (!(missing >> r & 1)) read_one(j, r, &cuts[r], &ranks[count++]);
  tu_trace_join(ranks, count, t);
}

/* ---- messages ---- */

struct key {
  uint32_t from, to, sent_run, taken_run, sent_step, taken_step;
  uint64_t bytes;
};

static int compare_keys(const void *a, const void *b) { return memcmp(a, b, sizeof(struct key)); }

static uint32_t run_of(const struct tu_traced_rank *rank, uint32_t call) {
  return rank->events[rank->calls[call].event_first].run;
}

static bool knows_call(const struct tu_traced_rank *rank, uint32_t run, bool ended) {
  for (uint32_t c = 0; c < rank->call_count; c++)
    if (run_of(rank, c) == run) return !ended || rank->calls[c].ended;
  return false;
}

/* Returns true if the trace of the rank has the act. */
static bool has_act(const struct tu_traced_rank *rank, uint32_t index) {
  return index >= rank->lost && index < rank->lost + rank->event_count;
}

static const struct tu_traced_rank *find_rank(const struct tu_trace *t, uint32_t number) {
  for (uint32_t r = 0; r < t->rank_count; r++)
    if (t->ranks[r].head.rank == number) return &t->ranks[r];
  return NULL;
}

static bool is_expected(const struct tu_trace *t, const struct truth *m) {
  const struct tu_traced_rank *from = find_rank(t, m->from), *to = find_rank(t, m->to);
  return from && to && knows_call(from, m->sent_run, false) && knows_call(to, m->taken_run, m->any) &&
         has_act(from, m->sent_act) && has_act(to, m->taken_act) &&
         (!m->pair || from->lost + from->unread + to->lost + to->unread == 0);
}

/* Checks that the messages which the traces still tell of are found, and no others. */
static void check_messages(const struct job *j, const struct tu_trace *t) {
  struct key *expected = tu_allocate(j->truth_count, sizeof *expected);
  struct key *found = tu_allocate(t->message_count, sizeof *found);
  uint32_t count = 0;
  for (uint32_t i = 0; i < j->truth_count; i++) {
    const struct truth *m = &j->truths[i];
    if (is_expected(t, m))
      expected[count++] =
          (struct key){m->from, m->to, m->sent_run, m->taken_run, m->sent_step, m->taken_step, m->bytes};
  }
  for (uint32_t i = 0; i < t->message_count; i++) {
    const struct tu_traced_end *s = &t->messages[i].sent, *k = &t->messages[i].taken;
    found[i] = (struct key){t->ranks[s->rank].head.rank,
                            t->ranks[k->rank].head.rank,
                            run_of(&t->ranks[s->rank], s->call),
                            run_of(&t->ranks[k->rank], k->call),
                            s->step,
                            k->step,
                            t->messages[i].bytes};
    const struct tu_traced_range sent = tu_trace_sent(t, s->rank, s->call, s->step);
    const struct tu_traced_range taken = tu_trace_taken(t, k->rank, k->call, k->step);
    CHECK(i >= sent.first && i < sent.first + sent.count, "message %u is not sent by its step", i);
    CHECK(taken.count > 0 && t->messages[t->by_taken[taken.first]].taken.call == k->call, "message %u is not taken", i);
  }
  qsort(expected, count, sizeof *expected, compare_keys);
  qsort(found, t->message_count, sizeof *found, compare_keys);
  CHECK(count == t->message_count, "%u messages, expected %u", t->message_count, count);
  for (uint32_t i = 0; i < tu_min(count, t->message_count); i++)
    if (memcmp(&expected[i], &found[i], sizeof *found) != 0) {
      FAIL("rank %u, run %u, to %u, run %u; expected rank %u, run %u, to %u, run %u", found[i].from, found[i].sent_run,
           found[i].to, found[i].taken_run, expected[i].from, expected[i].sent_run, expected[i].to,
           expected[i].taken_run);
      break;
    }
  free(expected);
  free(found);
}

/* ---- clocks ---- */

/* Checks the clock of each host against the first one at the true time t. */
static void check_clocks(const struct job *j, const struct tu_trace *t, uint64_t at) {
  const uint32_t first = j->host_of[t->ranks[0].head.rank];
  const double reference = tu_trace_time(t, 0, clock_of(j, first, at));
  for (uint32_t r = 0; r < t->rank_count; r++) {
    const struct tu_traced_host *h = &t->hosts[t->host_of[r]];
    const double here = tu_trace_time(t, r, clock_of(j, j->host_of[t->ranks[r].head.rank], at));
    if (h->error_ns < 0) continue;
    CHECK(fabs(here - reference) * 1e9 <= h->error_ns + 4, "%s is off by %.0f ns at %.3f ms, and its error %.0f ns",
          h->name, (here - reference) * 1e9, (double)at * 1e-6, h->error_ns);
  }
}

/* ---- the path ---- */

static void find_span(const struct tu_trace *t, double *begin_s, double *end_s) {
  *begin_s = HUGE_VAL, *end_s = -HUGE_VAL;
  for (uint32_t r = 0; r < t->rank_count; r++)
    for (uint32_t c = 0; c < t->ranks[r].call_count; c++) {
      *begin_s = fmin(*begin_s, tu_trace_time(t, r, t->ranks[r].calls[c].begin_ns));
      *end_s = fmax(*end_s, tu_trace_time(t, r, t->ranks[r].calls[c].end_ns));
    }
}

/* The ranks on which a part of the path begins and ends. */
static uint32_t begins_on(const struct tu_deed *d) { return d->kind == TU_DEED_ROOM ? d->to : d->rank; }
static uint32_t ends_on(const struct tu_deed *d) { return d->kind == TU_DEED_MESSAGE ? d->to : d->rank; }

static void check_path(const struct tu_trace *t, const struct tu_traced_path *path) {
  double begin_s, end_s;
  find_span(t, &begin_s, &end_s);
  CHECK((path->count > 0) == (end_s > begin_s), "a path of %u parts from %g to %g", path->count, begin_s, end_s);
  if (path->count == 0) return;
  CHECK(path->parts[0].begin == begin_s, "the path begins at %.9f; expected %.9f", path->parts[0].begin, begin_s);
  CHECK(path->parts[path->count - 1].end == end_s, "the path ends at %.9f; expected %.9f",
        path->parts[path->count - 1].end, end_s);
  for (uint32_t i = 0; i < path->count; i++) {
    const struct tu_deed *d = &path->parts[i], *before = i > 0 ? d - 1 : NULL;
    CHECK(d->end > d->begin, "part %u ends before it begins", i);
    CHECK(!before || d->begin == before->end, "part %u begins at %.9f; the part before ends at %.9f", i, d->begin,
          before ? before->end : 0);
    CHECK(d->rank < t->rank_count && (d->to == TU_NONE || d->to < t->rank_count), "part %u: ranks", i);
    CHECK((d->to != TU_NONE) == (d->kind == TU_DEED_MESSAGE || d->kind == TU_DEED_ROOM), "part %u: kind", i);
    if (!before) continue;
    /* Between hosts, a message may seem to take no time. */
    CHECK(begins_on(d) == ends_on(before) || t->host_of[begins_on(d)] != t->host_of[ends_on(before)],
          "part %u begins on rank %u; the part before ends on rank %u", i, begins_on(d), ends_on(before));
  }
}

/* ---- sums ---- */

static bool is_pair(const struct tu_traced_call *c) {
  return c->program->head.collective == TUTTI_SEND || c->program->head.collective == TUTTI_RECV;
}

static bool same_comm(const struct tu_traced_call *x, const struct tu_traced_call *y) {
  return x->program->comm->id == y->program->comm->id && x->program->comm->members[0] == y->program->comm->members[0];
}

static int compare_doubles(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* What is added up naively of a kind, and what of ranks. */
struct naive {
  uint32_t calls, open, latest[RANKS_MAX];
  double late_s, waited_s, awaited_s[RANKS_MAX];
  double *times;
  uint32_t timed;
};

/* Adds the call of rank r, if no rank before has taken part in it. */
static void add_naive(const struct tu_trace *t, uint32_t r, const struct tu_traced_call *call, struct naive *n) {
  double first = HUGE_VAL, last = -HUGE_VAL, until = -HUGE_VAL;
  uint32_t latest = 0;
  bool ended = true;
  for (uint32_t o = 0; o < t->rank_count; o++)
    for (uint32_t c = 0; c < t->ranks[o].call_count; c++) {
      const struct tu_traced_call *other = &t->ranks[o].calls[c];
      const bool one =
          is_pair(call) ? other == call : !is_pair(other) && same_comm(call, other) && call->number == other->number;
      if (!one) continue;
      if (o < r) return;
      const double begin_s = tu_trace_time(t, o, other->begin_ns);
      first = fmin(first, begin_s);
      if (begin_s > last) last = begin_s, latest = t->ranks[o].head.rank;
      until = fmax(until, tu_trace_time(t, o, other->end_ns));
      ended = ended && other->ended && !other->failed;
    }
  n->calls++;
  if (ended) n->times[n->timed++] = fmax(until - last, 0);
  else n->open++;
  if (is_pair(call)) return;
  n->late_s += last - first;
  n->latest[latest]++;
}

/* Returns when the rank of the job has begun the collective. */
static double came(const struct tu_trace *t, const struct tu_traced_call *call, uint32_t number) {
  const struct tu_traced_rank *rank = find_rank(t, number);
  if (!rank) return -HUGE_VAL;
  for (uint32_t c = 0; c < rank->call_count; c++)
    if (!is_pair(&rank->calls[c]) && same_comm(call, &rank->calls[c]) && rank->calls[c].number == call->number)
      return tu_trace_time(t, (uint32_t)(rank - t->ranks), rank->calls[c].begin_ns);
  return HUGE_VAL;
}

static void add_naive_waits(const struct tu_trace *t, uint32_t r, const struct tu_traced_call *call, struct naive *n,
                            struct tu_traced_waits waits[]) {
  for (uint32_t i = 0; i < call->event_count; i++) {
    const struct tu_trace_event *e = &t->ranks[r].events[call->event_first + i];
    if (e->kind != TU_TRACE_WAITED) continue;
    const uint32_t awaited = call->program->comm->members[e->at];
    const double until = tu_trace_time(t, r, e->end_ns), from = tu_trace_time(t, r, e->end_ns - e->took_ns);
    n->waited_s += until - from;
    n->awaited_s[awaited] += until - from;
    waits[t->ranks[r].head.rank].waited_s += until - from;
    waits[awaited].awaited_s += until - from;
    if (!is_pair(call)) waits[awaited].late_s += fmax(fmin(came(t, call, awaited), until) - from, 0);
  }
}

static bool is_near(double a, double b) { return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)) + 1e-12; }

static void check_kind(const struct tu_traced_kind *k, struct naive *n, uint32_t ranks) {
  uint32_t latest = TU_NONE, awaited = TU_NONE;
  qsort(n->times, n->timed, sizeof *n->times, compare_doubles);
  for (uint32_t r = 0; r < ranks; r++) {
    if (n->latest[r] > (latest == TU_NONE ? 0 : n->latest[latest])) latest = r;
    if (n->awaited_s[r] > (awaited == TU_NONE ? 0 : n->awaited_s[awaited])) awaited = r;
  }
  const char *name = k->program->head.call;
  CHECK(k->calls == n->calls && k->open == n->open, "%s: %u calls, %u open; expected %u, %u", name, k->calls, k->open,
        n->calls, n->open);
  const double median = n->timed == 0 ? 0 : (n->times[n->timed / 2] + n->times[(n->timed - 1) / 2]) / 2;
  CHECK(is_near(k->median_s, median), "%s: median %g, expected %g", name, k->median_s, median);
  CHECK(is_near(k->longest_s, n->timed > 0 ? n->times[n->timed - 1] : 0), "%s: longest %g", name, k->longest_s);
  CHECK(is_near(k->late_s, n->late_s) && k->latest == latest, "%s: late %g, rank %u; expected %g, rank %u", name,
        k->late_s, k->latest, n->late_s, latest);
  CHECK(latest == TU_NONE || k->latest_calls == n->latest[latest], "%s: last in %u calls", name, k->latest_calls);
  CHECK(is_near(k->waited_s, n->waited_s) && k->awaited == awaited, "%s: waited %g for %u; expected %g for %u", name,
        k->waited_s, k->awaited, n->waited_s, awaited);
  CHECK(awaited == TU_NONE || is_near(k->awaited_s, n->awaited_s[awaited]), "%s: awaited %g", name, k->awaited_s);
}

static void check_waits(const struct tu_trace *t, const struct tu_traced_sums *sums, struct tu_traced_waits waits[]) {
  for (uint32_t r = 0; r < t->rank_count; r++) {
    const struct tu_traced_rank *rank = &t->ranks[r];
    uint64_t in = 0, until = 0;
    for (uint32_t c = 0; c < rank->call_count; c++) {
      const uint64_t from = tu_max(rank->calls[c].begin_ns, until);
      if (rank->calls[c].end_ns > from) in += rank->calls[c].end_ns - from, until = rank->calls[c].end_ns;
    }
    waits[rank->head.rank].in_calls_s = (double)in * 1e-9;
  }
  for (uint32_t r = 0; r < t->ranks[0].head.ranks; r++) {
    const struct tu_traced_waits *w = &sums->waits[r], *e = &waits[r];
    CHECK(is_near(w->in_calls_s, e->in_calls_s) && is_near(w->waited_s, e->waited_s) &&
              is_near(w->awaited_s, e->awaited_s) && is_near(w->late_s, e->late_s),
          "rank %u: %g in calls, waited %g, awaited %g, late %g; expected %g, %g, %g, %g", r, w->in_calls_s,
          w->waited_s, w->awaited_s, w->late_s, e->in_calls_s, e->waited_s, e->awaited_s, e->late_s);
  }
}

static void check_sums(const struct tu_trace *t, const struct tu_traced_sums *sums) {
  struct tu_traced_waits waits[RANKS_MAX] = {{0}};
  uint32_t all = 0, calls = 0;
  for (uint32_t r = 0; r < t->rank_count; r++) all += t->ranks[r].call_count;
  for (uint32_t k = 0; k < sums->kind_count; k++) {
    const struct tu_traced_kind *kind = &sums->kinds[k];
    struct naive n = {.times = tu_allocate(all, sizeof(double))};
    for (uint32_t r = 0; r < t->rank_count; r++)
      for (uint32_t c = 0; c < t->ranks[r].call_count; c++) {
        const struct tu_traced_call *call = &t->ranks[r].calls[c];
        if (call->program->comm->id != kind->program->comm->id ||
            call->program->comm->members[0] != kind->program->comm->members[0] ||
            strcmp(call->program->head.call, kind->program->head.call) != 0)
          continue;
        calls++;
        add_naive(t, r, call, &n);
        add_naive_waits(t, r, call, &n, waits);
      }
    check_kind(kind, &n, t->ranks[0].head.ranks);
    free(n.times);
  }
  CHECK(calls == all, "kinds have %u calls of %u", calls, all);
  check_waits(t, sums, waits);
}

/* ---- the timeline ---- */

static bool works(const struct tu_traced_call *c, uint32_t step) {
  return c->program->steps[step].kind != TU_SEND && c->program->steps[step].kind != TU_RECV;
}

/* Checks that all calls, waits, messages and reductions are in the timeline. */
static void check_line(const struct tu_trace *t, const struct tu_traced_path *path) {
  struct tu_traced_line line;
  uint32_t calls = 0, work = 0, crossings = 0;
  for (uint32_t r = 0; r < t->rank_count; r++)
    for (uint32_t c = 0; c < t->ranks[r].call_count; c++) {
      const struct tu_traced_call *call = &t->ranks[r].calls[c];
      bool seen[4 * RANKS_MAX] = {false};
      calls++;
      for (uint32_t i = 0; i < call->event_count; i++) {
        const struct tu_trace_event *e = &t->ranks[r].events[call->event_first + i];
        calls += e->kind == TU_TRACE_WAITED;
        if (!tu_traced_is_step(e) || seen[e->at]) continue;
        seen[e->at] = true;
        work += works(call, e->at);
      }
    }
  for (uint32_t i = 0; i < t->message_count; i++) crossings += t->messages[i].sent.rank != t->messages[i].taken.rank;
  tu_trace_line(t, path, -HUGE_VAL, HUGE_VAL, &line);
  tu_traced_line_fini(&line);
  double begin_s, end_s;
  find_span(t, &begin_s, &end_s);
  if (calls == 0) return;
  tu_trace_line(t, path, begin_s, end_s, &line);
  const struct tu_timeline *l = &line.timeline;
  CHECK(l->call_count == calls, "%u calls and waits, expected %u", l->call_count, calls);
  CHECK(l->crossing_count == crossings, "%u crossings, expected %u", l->crossing_count, crossings);
  CHECK(l->deed_count == t->message_count + work + path->count, "%u deeds, expected %u messages, %u works, %u parts",
        l->deed_count, t->message_count, work, path->count);
  for (uint32_t i = 0; i < l->call_count; i++)
    CHECK(l->calls[i].begin >= 0 && l->calls[i].end >= l->calls[i].begin && l->calls[i].end <= end_s - begin_s,
          "call %u from %g to %g", i, l->calls[i].begin, l->calls[i].end);
  tu_traced_line_fini(&line);
}

/* ---- random jobs ---- */

static void check_all(const struct job *j, const struct cut cuts[], uint32_t missing) {
  struct tu_trace t;
  struct tu_traced_path path;
  struct tu_traced_sums sums;
  join(j, cuts, missing, &t);
  check_messages(j, &t);
  tu_trace_path(&t, &path);
  check_path(&t, &path);
  tu_trace_sum(&t, &sums);
  check_sums(&t, &sums);
  check_line(&t, &path);
  tu_traced_sums_fini(&sums);
  tu_traced_path_fini(&path);
  tu_trace_fini(&t);
}

static const struct cut whole[RANKS_MAX];

static uint32_t rounds(uint32_t fast) { return test_long() ? 30 * fast : fast; }

static void at_random(void) {
  uint64_t seed = test_seed();
  for (uint32_t i = 0; i < rounds(100); i++) {
    struct job j;
    const uint32_t ranks = 1 + (uint32_t)(tu_random(&seed) % RANKS_MAX);
    open_job(&j, tu_random(&seed), ranks, 1 + (uint32_t)(tu_random(&seed) % ranks));
    play(&j, below(&j, 40), 1 + below(&j, 30000));
    check_all(&j, whole, 0);
    close_job(&j);
  }
}

/* Rings that have wrapped, ranks that were killed, files that are cut or missing. */
static void incomplete(void) {
  uint64_t seed = test_seed();
  for (uint32_t i = 0; i < rounds(120); i++) {
    struct job j;
    struct cut cuts[RANKS_MAX] = {{0}};
    uint32_t missing = 0;
    const uint32_t ranks = 2 + (uint32_t)(tu_random(&seed) % (RANKS_MAX - 1));
    open_job(&j, tu_random(&seed), ranks, 1 + (uint32_t)(tu_random(&seed) % ranks));
    play(&j, 5 + below(&j, 40), 1 + below(&j, 30000));
    for (uint32_t r = 0; r < ranks; r++) {
      const struct player *p = &j.players[r];
      if (i % 4 == 0 && p->act_count > 0 && below(&j, 2)) cuts[r].capacity = 1 + below(&j, p->act_count);
      if (i % 4 == 1 && p->act_count > 0 && below(&j, 2)) cuts[r].acts_max = 1 + below(&j, p->act_count);
      if (i % 4 == 2 && p->record_bytes > 0 && below(&j, 2)) cuts[r].record_bytes = 1 + below(&j, p->record_bytes);
      if (i % 4 == 3 && r + 1 < ranks) missing |= below(&j, 2) << r;
    }
    check_all(&j, cuts, missing);
    close_job(&j);
  }
}

/* ---- clocks ---- */

/* Messages both ways between all hosts, over a time. */
static void talk(struct job *j, uint32_t turns, uint64_t ns) {
  for (uint32_t i = 0; i < turns; i++) {
    for (uint32_t r = 0; r < j->ranks; r++)
      j->players[r].now = tu_max(j->players[r].now, i * (ns / turns) + below(j, 2000));
    exchange(j, 0, j->ranks - 1, "exchange");
  }
}

static void check_times(const struct job *j, uint64_t ns) {
  struct tu_trace t;
  join(j, whole, 0, &t);
  for (uint32_t i = 0; i <= 20; i++) check_clocks(j, &t, ns / 20 * i);
  for (uint32_t h = 1; h < t.host_count; h++)
    CHECK(t.hosts[h].error_ns > 0 && t.hosts[h].error_ns < 300e3, "%s is known to %g ns", t.hosts[h].name,
          t.hosts[h].error_ns);
  tu_trace_fini(&t);
}

static void clocks(void) {
  uint64_t seed = test_seed();
  for (uint32_t i = 0; i < rounds(30); i++) {
    struct job j;
    static const uint64_t lengths[] = {1000000, 50000000, 1000000000, 4000000000, 60000000000, 3600000000000};
    const uint64_t ns = lengths[i % 6];
    const uint32_t hosts = 2 + (uint32_t)(tu_random(&seed) % 4);
    open_job(&j, tu_random(&seed), hosts + (uint32_t)(tu_random(&seed) % 3), hosts);
    for (uint32_t h = 0; h < hosts; h++) j.drift[h] = (below(&j, 100001) - 50000.0) * 1e-9;
    talk(&j, 20 + below(&j, 400), ns);
    check_times(&j, ns);
    close_job(&j);
  }
}

/* Without messages both ways, the clocks of the day tell; also of hosts that have messages with such a host only. */
static void by_day(void) {
  for (uint32_t chain = 0; chain < 2; chain++) {
    struct job j;
    struct tu_trace t;
    open_job(&j, 5 + chain, 3, 3);
    j.one_name = chain;
    for (uint32_t i = 0; i < 30; i++) {
      for (uint32_t r = 0; r < 3; r++) j.players[r].now += 1000 + below(&j, 100000);
      batch(&j, 0, 0, 1);
      if (chain) batch(&j, 0, 1, 2), batch(&j, 0, 2, 1);
      else batch(&j, 0, 2, 1);
    }
    join(&j, whole, 0, &t);
    for (uint32_t h = 1; h < 3; h++)
      CHECK(t.hosts[h].error_ns < 0, "host %u is known to %g ns", h, t.hosts[h].error_ns);
    for (uint32_t r = 1; r < 3; r++) {
      const double off =
          tu_trace_time(&t, r, clock_of(&j, r, 1000000)) - tu_trace_time(&t, 0, clock_of(&j, 0, 1000000));
      CHECK(fabs(off) < (chain ? 50e-6 : 1e-8), "rank %u is off by %g s", r, off);
    }
    check_messages(&j, &t);
    tu_trace_fini(&t);
    close_job(&j);
  }
}

/* A message that takes 1 us, with calls that do nothing else. */
static void send_one(struct job *j, uint32_t from, uint32_t to) {
  struct player *p = &j->players[from], *q = &j->players[to];
  const struct plan_step send = {TU_SEND, 64, to}, take = {TU_RECV, 64, from};
  const uint32_t sent = begin(j, from, 0, &(struct call){"send", TUTTI_SEND, to, 1, 0, &send});
  (void)work(j, from, sent, 0, 64, 100);
  const uint64_t there = p->now + 1000;
  end(p, sent, TU_NONE, 0);
  const uint32_t taken = begin(j, to, 0, &(struct call){"recv", TUTTI_RECV, from, 1, 0, &take});
  await(j, to, taken, from, there);
  (void)work(j, to, taken, 0, 64, 100);
  end(q, taken, TU_NONE, 0);
}

/* A rank that takes messages late leaves its clock much room; within it, the clock of the day is right. */
static void late_takes(void) {
  struct job j;
  struct tu_trace t;
  open_job(&j, 9, 2, 2);
  for (uint32_t i = 0; i < 20; i++) {
    send_one(&j, 1, 0);
    j.players[1].now += 50000000;
    send_one(&j, 0, 1);
  }
  join(&j, whole, 0, &t);
  const double off = tu_trace_time(&t, 1, clock_of(&j, 1, 1000000)) - tu_trace_time(&t, 0, clock_of(&j, 0, 1000000));
  CHECK(fabs(off) < 1e-8, "rank 1 is off by %g s", off);
  CHECK(t.hosts[1].error_ns > 25e6 && t.hosts[1].error_ns < 60e6, "known to %g ns", t.hosts[1].error_ns);
  tu_trace_fini(&t);
  close_job(&j);
}

/* ---- paths that are known ---- */

static double part_of(const struct tu_traced_path *path, uint32_t rank) {
  double of_rank = 0, all = 0;
  for (uint32_t i = 0; i < path->count; i++) {
    all += path->parts[i].end - path->parts[i].begin;
    if (path->parts[i].rank == rank) of_rank += path->parts[i].end - path->parts[i].begin;
  }
  return of_rank / all;
}

static void open_path(const struct job *j, struct tu_trace *t, struct tu_traced_path *path,
                      struct tu_traced_sums *sums) {
  join(j, whole, 0, t);
  tu_trace_path(t, path);
  check_path(t, path);
  tu_trace_sum(t, sums);
  check_sums(t, sums);
}

static void close_path(struct job *j, struct tu_trace *t, struct tu_traced_path *path, struct tu_traced_sums *sums) {
  tu_traced_sums_fini(sums);
  tu_traced_path_fini(path);
  tu_trace_fini(t);
  close_job(j);
}

static void slow_rank(void) {
  struct job j;
  struct tu_trace t;
  struct tu_traced_path path;
  struct tu_traced_sums sums;
  open_job(&j, 1, 3, 1);
  for (uint32_t i = 0; i < 10; i++) {
    j.players[1].now += 1000000;
    for (uint32_t k = 0; k < 3; k++) send_one(&j, 1, 0), send_one(&j, 1, 2);
    exchange(&j, 0, j.ranks - 1, "exchange");
  }
  open_path(&j, &t, &path, &sums);
  CHECK(part_of(&path, 1) > 0.95, "rank 1 has %g of the path", part_of(&path, 1));
  for (uint32_t k = 0; k < sums.kind_count; k++) {
    const struct tu_traced_kind *kind = &sums.kinds[k];
    if (strcmp(kind->program->head.call, "recv") == 0)
      CHECK(kind->awaited == 1 && kind->awaited_s > 0.019, "rank %u is awaited %g s", kind->awaited, kind->awaited_s);
  }
  close_path(&j, &t, &path, &sums);
}

/* A rank that comes late is the reason from the begin of the job on. */
static void late_rank(void) {
  struct job j;
  struct tu_trace t;
  struct tu_traced_path path;
  struct tu_traced_sums sums;
  open_job(&j, 1, 4, 1);
  j.players[2].now = 5000000;
  exchange(&j, 0, j.ranks - 1, "exchange");
  exchange(&j, 0, j.ranks - 1, "exchange");
  open_path(&j, &t, &path, &sums);
  CHECK(
      path.count > 0 && path.parts[0].rank == 2 && path.parts[0].kind == TU_DEED_OUTSIDE && path.parts[0].end > 0.0049,
      "the path does not begin outside of calls on the late rank");
  CHECK(sums.kind_count == 1 && sums.kinds[0].latest == 2 && fabs(sums.kinds[0].late_s - 5e-3) < 1e-4,
        "rank %u began last, by %g s", sums.kinds[0].latest, sums.kinds[0].late_s);
  CHECK(fabs(sums.waits[2].late_s - sums.waits[2].awaited_s) < 1e-4 && sums.waits[2].late_s > 0.0049,
        "rank 2 was awaited %g s, of that %g s before it came", sums.waits[2].awaited_s, sums.waits[2].late_s);
  close_path(&j, &t, &path, &sums);
}

/* Each rank computes 1 ms after it has taken the message of the rank before. */
static void chain(void) {
  struct job j;
  struct tu_trace t;
  struct tu_traced_path path;
  struct tu_traced_sums sums;
  open_job(&j, 1, 5, 1);
  for (uint32_t r = 0; r < 5; r++) send_one(&j, r, (r + 1) % 5), j.players[(r + 1) % 5].now += 1000000;
  send_one(&j, 0, 1);
  open_path(&j, &t, &path, &sums);
  uint32_t messages = 0, rank = 0;
  for (uint32_t i = 0; i < path.count; i++)
    if (path.parts[i].kind == TU_DEED_MESSAGE) {
      CHECK(path.parts[i].rank == rank, "message %u of the path is from rank %u", messages, path.parts[i].rank);
      messages++;
      rank = (rank + 1) % 5;
    }
  CHECK(messages == 6, "the path has %u messages", messages);
  for (uint32_t r = 0; r < 5; r++) CHECK(fabs(part_of(&path, r) - 0.2) < 0.01, "rank %u has %g", r, part_of(&path, r));
  close_path(&j, &t, &path, &sums);
}

/* While a call is open, a rank is not outside of calls, even if another one has ended. */
static void overlap(void) {
  struct job j;
  struct tu_trace t;
  struct tu_traced_path path;
  struct tu_traced_sums sums;
  const struct plan_step take = {TU_RECV, 64, 1}, send = {TU_SEND, 64, 1};
  open_job(&j, 1, 2, 1);
  const uint32_t taken = begin(&j, 0, 0, &(struct call){"recv", TUTTI_RECV, 1, 1, 0, &take});
  const uint32_t sent = begin(&j, 0, 0, &(struct call){"send", TUTTI_SEND, 1, 1, 0, &send});
  (void)work(&j, 0, sent, 0, 64, 100);
  end(&j.players[0], sent, TU_NONE, 0);
  j.players[0].now += 1000000;
  (void)work(&j, 0, taken, 0, 64, 100);
  end(&j.players[0], taken, TU_NONE, 0);
  open_path(&j, &t, &path, &sums);
  for (uint32_t i = 0; i < path.count; i++)
    CHECK(path.parts[i].kind != TU_DEED_OUTSIDE, "outside of calls from %g to %g", path.parts[i].begin,
          path.parts[i].end);
  close_path(&j, &t, &path, &sums);
}

/* A wait that was noted after the end of its call does not make the call longer. */
static void late_wait(void) {
  struct job j;
  struct tu_trace t;
  open_job(&j, 1, 2, 1);
  exchange(&j, 0, j.ranks - 1, "exchange");
  struct player *p = &j.players[0];
  const uint64_t ended = p->now;
  act(p, &(struct act){.end = ended + 700, .took = 1000, .run = 1, .at = 1, .kind = TU_TRACE_WAITED});
  join(&j, whole, 0, &t);
  CHECK(t.ranks[0].calls[0].end_ns == clock_of(&j, 0, ended), "the call ends %lld ns later",
        (long long)(t.ranks[0].calls[0].end_ns - clock_of(&j, 0, ended)));
  tu_trace_fini(&t);
  close_job(&j);
}

/* ---- large traces ---- */

/* A call with many events, and many calls of different kinds: the time grows about linearly. */
static void large(void) {
  const uint32_t slices = test_long() ? 1000000 : 200000, kinds = test_long() ? 100000 : 20000;
  struct job j;
  open_job(&j, 1, 2, 2);
  for (uint32_t turn = 0; turn < 2; turn++) {
    const struct plan_step step = {turn ? TU_RECV : TU_SEND, 64ull * slices, 1 - turn};
    const uint32_t run = begin(&j, turn, 0, &(struct call){"long", TUTTI_BROADCAST, TU_NONE, 1, 1, &step});
    struct player *p = &j.players[turn];
    p->now += turn * 100ull * slices; /* it takes what has been sent long before */
    for (uint32_t i = 0; i < slices; i++) {
      p->now += 100;
      act(p, &(struct act){p->now + turn * 30, 50, 64, run, 0, i + 1 < slices ? TU_TRACE_STEP : TU_TRACE_LAST});
    }
    end(p, run, TU_NONE, 0);
    for (uint32_t i = 0; i < kinds; i++) {
      char name[32];
      snprintf(name, sizeof name, "allreduce(count %u)", i);
      end(p, begin(&j, turn, 0, &(struct call){name, TUTTI_ALLREDUCE, TU_NONE, 0, 2 + i, NULL}), TU_NONE, 0);
    }
  }
  struct tu_trace t;
  struct tu_traced_path path;
  struct tu_traced_sums sums;
  const clock_t before = clock();
  join(&j, whole, 0, &t);
  tu_trace_path(&t, &path);
  check_path(&t, &path);
  tu_trace_sum(&t, &sums);
  const double took_s = (double)(clock() - before) / CLOCKS_PER_SEC;
  CHECK(sums.kind_count == kinds + 1, "%u kinds", sums.kind_count);
  CHECK(took_s < 2e-5 * slices, "%u events took %g s", slices, took_s);
  close_path(&j, &t, &path, &sums);
}

static const struct test tests[] = {
    {"at random", at_random},   {"incomplete", incomplete}, {"clocks", clocks},       {"by day", by_day},
    {"late takes", late_takes}, {"slow rank", slow_rank},   {"late rank", late_rank}, {"chain", chain},
    {"overlap", overlap},       {"late wait", late_wait},   {"large", large}};
int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
