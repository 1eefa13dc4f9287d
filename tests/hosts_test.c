/* test: slow waits timeout=600 */
/* hosts_test.c: jobs whose ranks run on several (simulated) hosts, as users see them: calls of all kinds, communicators
 * created and freed, failures, and calls that such jobs do not support. Ranks are threads or real processes. */
#include <dirent.h>
#include <malloc.h>
#include <tutti/channel.h>
#include <tutti/window.h>

#include "algo/algo.h"
#include "api/tuning.h"
#include "buffers.h"
#include "call/request.h"
#include "call/stall.h"
#include "comm/enter.h"
#include "comm/failure.h"
#include "conform.h"
#include "hosts.h"

enum { SLOT_BYTES = 4 << 20, LATE_MS = 300, PATIENCE_MS = 60000 };

/* ---- worlds ---- */

enum { THREADS = 1, PROCESSES = 2 };

static const struct hosts_world worlds[] = {
#ifndef __SANITIZE_THREAD__
    {"two hosts, processes", troupe_over_processes_of_two_hosts, hosts_woven, PROCESSES, 4, 4096},
    {"three hosts, processes", troupe_over_processes_of_three_hosts, hosts_growing, PROCESSES, 6, 0},
#endif
    {"two hosts, threads", troupe_over_two_hosts, hosts_woven, THREADS, 5, 0},
    {"three hosts, threads", troupe_over_three_hosts, hosts_growing, THREADS, 6, 4096},
};
enum { WORLDS = sizeof worlds / sizeof worlds[0] };

/* Shared memory in which the ranks exchange data without the library. */
static struct side {
  _Atomic uint32_t ended; /* number of ranks whose call has failed as expected */
  _Atomic uint32_t awake; /* number of times that a stopped rank has continued */
  _Atomic int pids[TROUPE_MAX];
  _Atomic uint32_t numbers[TROUPE_MAX];
} * side;

static const struct hosts_world *world; /* the current world */
static _Thread_local uint32_t row;      /* current row of the running test's table */

static void play_in(const struct hosts_world *w, struct troupe t) {
  world = w;
  memset(side, 0, sizeof *side);
  hosts_perform(w, t);
}

static void play_everywhere(void (*run)(struct player *p), int kinds, uint64_t seed) {
  for (uint32_t i = 0; i < WORLDS; i++)
    if (worlds[i].kind & kinds) play_in(&worlds[i], (struct troupe){.run = run, .seed = seed});
}

static uint32_t host_of(uint32_t rank) { return world->host_of(rank, world->ranks); }

/* Returns a number of rounds: fewer under TSan, which is slow, more in the long test. */
static int rounds_of(int usual) {
#ifdef __SANITIZE_THREAD__
  return usual / 8 + 1;
#else
  return test_long() ? usual * 20 : usual;
#endif
}

/* ---- players ---- */

/* Waits until the number has reached the goal. */
static void await(struct player *p, _Atomic uint32_t *number, uint32_t goal) {
  const uint64_t end = ranks_now_ms() + PATIENCE_MS;
  while (*number < goal && ranks_now_ms() < end) ranks_sleep_us(500);
  if (*number < goal) wrong(p, "rank %u: count is %u, expected %u", p->rank, *number, goal);
}

static bool fine(struct player *p, tutti_comm *comm, tutti_err err, const char *what) {
  if (err == TUTTI_OK) return true;
  wrong(p, "rank %u: %s: %s: %s", p->rank, what, tutti_err_name(err), tutti_error_message(comm));
  return false;
}

/* Checks that the communicator has failed with error `wanted`, and that its message contains both parts. */
static void expect(struct player *p, tutti_comm *comm, tutti_err err, tutti_err wanted, const char *one,
                   const char *other) {
  const char *text = tutti_error_message(comm);
  if (err != wanted || !strstr(text, one) || !strstr(text, other))
    wrong(p, "row %u: rank %u: %s, expected %s with '%s' and '%s': %s", row, p->rank, tutti_err_name(err),
          tutti_err_name(wanted), one, other, err == TUTTI_OK ? "" : text);
}

static bool sums_up(struct player *p, tutti_comm *comm, int32_t mine, int32_t wanted, const char *what) {
  int32_t sum = -1;
  if (!fine(p, comm, tutti_allreduce(comm, &mine, &sum, 1, TUTTI_I32, TUTTI_SUM), what)) return false;
  if (sum != wanted) wrong(p, "rank %u: %s: sum %d, expected %d", p->rank, what, sum, wanted);
  return sum == wanted;
}

static bool works(struct player *p, tutti_comm *comm, const char *what) {
  return sums_up(p, comm, 1, (int32_t)tutti_ranks(comm), what);
}

static void shuffle(uint32_t order[], uint32_t count, uint64_t *state) {
  for (uint32_t i = 0; i < count; i++) order[i] = i;
  for (uint32_t i = count; i > 1; i--) {
    uint32_t k = (uint32_t)(ranks_random(state) % i), swap = order[i - 1];
    order[i - 1] = order[k];
    order[k] = swap;
  }
}

static uint32_t draw(uint64_t *state, uint32_t below) { return (uint32_t)(ranks_random(state) % below); }

/* ---- a sample of all cases ---- */

enum { SWEEP_BATCHES = 90, BATCH = 4 };

static size_t draw_count(uint64_t *state, const struct ref_case *c) {
  static const size_t counts[] = {0, 1, 2, 7, 64, 1000, 4097, 20011};
  size_t share =
      ref_longer_of(c->collective) || ref_vector(c->collective) || c->collective == TUTTI_ALLTOALL ? c->ranks : 1;
  uint32_t kind = draw(state, 48);
  if (kind == 0 && ref_item_bytes(c->type) >= 4) return ((size_t)3 << 20) / ref_item_bytes(c->type) / share + 5;
  if (kind < 4) return 100003 / share;
  return counts[kind % (sizeof counts / sizeof counts[0])];
}

static void draw_subject(uint64_t *state, struct ref_case *c) {
  static const tutti_collective vectors[TUTTI_SEND] = {[TUTTI_GATHER] = TUTTI_GATHERV,
                                                       [TUTTI_SCATTER] = TUTTI_SCATTERV,
                                                       [TUTTI_ALLGATHER] = TUTTI_ALLGATHERV,
                                                       [TUTTI_REDUCE_SCATTER] = TUTTI_REDUCE_SCATTERV,
                                                       [TUTTI_ALLTOALL] = TUTTI_ALLTOALLV};
  uint32_t at = draw(state, (uint32_t)tu_algorithm_count + TUTTI_SEND);
  const struct tu_algorithm *a = at < tu_algorithm_count ? tu_algorithms[at] : NULL;
  c->collective = ref_collectives[draw(state, REF_COLLECTIVES)];
  if (!a || a->collective >= TUTTI_SEND || !tu_algorithm_fits(a, c->ranks)) return;
  c->collective = a->collective;
  c->algorithm = a->name;
  if (vectors[a->collective] && !(a->flags & TU_EQUAL_BLOCKS) && draw(state, 2)) c->collective = vectors[a->collective];
}

static bool draw_case(uint64_t *state, uint32_t ranks, struct ref_case *c) {
  *c = (struct ref_case){.ranks = ranks};
  draw_subject(state, c);
  const struct tu_algorithm *a = c->algorithm ? tu_algorithm_find(c->collective, c->algorithm) : NULL;
  c->type = ref_types[draw(state, REF_TYPES)];
  c->aliasing = (enum ref_aliasing)draw(state, REF_ALIASINGS);
  c->blocks = (enum ref_blocks)draw(state, REF_BLOCKS);
  c->pointers = draw(state, 2);
  if (c->collective == TUTTI_BARRIER) c->aliasing = REF_APART;
  if (ref_reduces(c->collective)) c->op = draw(state, REF_OPS);
  c->root = draw(state, ranks);
  c->lanes = draw(state, 3) ? 0 : draw(state, (a ? tu_build_lanes_max(a) : TU_LANES_MAX) + 1);
  c->count = draw_count(state, c);
  c->seed = ranks_random(state);
  return ref_valid(c) && (!a || a->flags & TU_RANK_ORDER || c->op != REF_AFFINE);
}

static tutti_err start_case(struct player *p, struct ref_run *run, bool persistent, tutti_request **request) {
  if (!persistent) return tutti_start(p->comm, &run->call, request);
  tutti_err err = tutti_prepare(p->comm, &run->call, request);
  return err == TUTTI_OK ? tutti_restart(*request) : err;
}

static tutti_err end_case(tutti_request **request, bool persistent, bool tests) {
  bool done = false;
  tutti_err err = TUTTI_OK;
  while (tests && !done && err == TUTTI_OK) err = tutti_test(request, &done);
  if (!tests) err = tutti_wait(request);
  if (persistent && err == TUTTI_OK) tutti_request_free(*request);
  return err;
}

/* Runs some calls, open at the same time. Each rank waits for them in its own order. */
static void one_batch(struct player *p, uint64_t *state, uint64_t *own) {
  struct ref_run runs[BATCH];
  tutti_request *requests[BATCH] = {NULL};
  uint32_t order[BATCH], count = 0;
  bool persistent[BATCH], whole = true;
  char text[768];
  for (uint32_t drawn = 1 + draw(state, BATCH); drawn > 0; drawn--) {
    struct ref_case c;
    persistent[count] = draw(state, 4) == 0;
    if (!draw_case(state, p->ranks, &c)) continue;
    ref_run_init(&runs[count], &c, p->rank);
    ref_fill(&runs[count]);
    ref_want(&runs[count]);
    count++;
  }
  for (uint32_t i = 0; i < count && whole; i++) {
    ref_case_print(&runs[i].c, text, sizeof text);
    whole = good(p, start_case(p, &runs[i], persistent[i], &requests[i]), text);
    if (draw(own, 60) == 0) ranks_sleep_us(draw(own, 3000));
  }
  shuffle(order, count, own);
  for (uint32_t k = 0; k < count && whole; k++) {
    uint32_t i = order[k];
    ref_case_print(&runs[i].c, text, sizeof text);
    whole = good(p, end_case(&requests[i], persistent[i], draw(own, 4) == 0), text);
  }
  for (uint32_t i = 0; i < count && whole; i++) {
    if (!ref_agrees(&runs[i], text, sizeof text)) wrong(p, "%s", text);
    ref_run_fini(&runs[i]);
  }
}

static void sweep(struct player *p) {
  uint64_t state = p->seed + p->ranks, own = p->seed * 31 + p->rank;
  if (buffers_init(p->comm, SLOT_BYTES) != TUTTI_OK) {
    wrong(p, "rank %u: buffers: %s", p->rank, tutti_error_message(NULL));
    return;
  }
  for (int i = 0; i < rounds_of(SWEEP_BATCHES) && p->stage->failures == 0; i++) one_batch(p, &state, &own);
  if (p->stage->failures == 0 && buffers_fini() != TUTTI_OK)
    wrong(p, "rank %u: end of the buffers: %s", p->rank, tutti_error_message(NULL));
}

static void test_sweep(void) { play_everywhere(sweep, THREADS | PROCESSES, test_seed()); }

/* ---- ranks that only test ---- */

enum { TESTED_ITEMS = 100003, TESTED_TIMEOUT_MS = 60000 };

static tutti_err test_until_done(tutti_comm *comm, tutti_request **request, bool progresses) {
  bool done = false;
  tutti_err err = TUTTI_OK;
  while (!done && err == TUTTI_OK) {
    if (progresses) err = tutti_progress(comm, 0);
    if (err == TUTTI_OK) err = tutti_test(request, &done);
  }
  return err;
}

/* Starts two calls and waits for, or tests, the second one first. */
static bool test_two(struct player *p, tutti_comm *comm, const struct tu_algorithm *a, bool tests, bool progresses) {
  static const size_t counts[] = {TESTED_ITEMS, 8191, 60001};
  double *in = calloc(TESTED_ITEMS, sizeof *in), *out = calloc(TESTED_ITEMS, sizeof *out), small = 1, sum = 0;
  if (!in || !out) abort();
  size_t count = counts[strlen(a->name) % 3];
  for (size_t i = 0; i < count; i++) in[i] = (double)(p->rank + i);
  const tutti_call calls[2] = {
      {.collective = TUTTI_ALLREDUCE, .send = in, .recv = out, .count = count, .type = TUTTI_F64, .algorithm = a->name},
      {.collective = TUTTI_ALLREDUCE, .send = &small, .recv = &sum, .count = 1, .type = TUTTI_F64}};
  tutti_request *requests[2];
  bool whole = true;
  for (int i = 0; i < 2 && whole; i++) whole = fine(p, comm, tutti_start(comm, &calls[i], &requests[i]), "start");
  for (int i = 2; i-- > 0 && whole;) {
    tutti_err err = tests ? test_until_done(comm, &requests[i], progresses) : tutti_wait(&requests[i]);
    whole = fine(p, comm, err, a->name);
  }
  for (size_t i = 0; i < count && whole; i++)
    if (out[i] != p->ranks * (p->ranks - 1) / 2.0 + (double)(p->ranks * i)) whole = false;
  if (!whole) wrong(p, "rank %u: %s of %zu: wrong sums", p->rank, a->name, count);
  free(in);
  free(out);
  return whole;
}

/* Ranks that only test never sleep in the library, but the others wait for them. In each round, one rank waits and all
 * others test, or the reverse. Rings are shorter on a communicator that is not the world. */
static void only_test(struct player *p) {
  tutti_comm *dup;
  if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
  (void)!tutti_comm_set_timeout(dup, TESTED_TIMEOUT_MS);
  for (size_t k = 0, round = 0; k < 2 * tu_algorithm_count && p->stage->failures == 0; k++) {
    const struct tu_algorithm *a = tu_algorithms[k % tu_algorithm_count];
    if (a->collective != TUTTI_ALLREDUCE || !tu_algorithm_fits(a, p->ranks)) continue;
    round++;
    bool special = round / 2 % p->ranks == p->rank;
    if (!test_two(p, dup, a, round % 2 ? special : !special, round % 3 == 0)) break;
  }
  tutti_err err = tutti_comm_free(dup);
  if (p->stage->failures == 0) fine(p, NULL, err, "free");
}

static void test_tests(void) { play_everywhere(only_test, THREADS | PROCESSES, 0); }

/* ---- messages ---- */

enum { MESSAGES = 24, TAGS = 3, MESSAGE_MAX = (5 << 20) + 3 };

struct message {
  uint32_t from, to, tag, lanes;
  size_t bytes;
  uint32_t salt;
  unsigned char *data; /* on the sender and the receiver only */
  bool started;
  tutti_request *request;
};

static unsigned char message_byte(const struct message *m, size_t i) {
  return (unsigned char)(m->salt + i * 7 + (i >> 8) * 13);
}

static void draw_message(uint64_t *state, uint32_t ranks, struct message *m) {
  static const size_t sizes[] = {0, 1, 31, 32, 33, 64, 4096, 65537, 300001};
  *m = (struct message){.from = draw(state, ranks), .tag = draw(state, TAGS), .salt = draw(state, 1u << 30)};
  m->to = (m->from + 1 + draw(state, ranks - 1)) % ranks;
  m->bytes = draw(state, 16) == 0 ? MESSAGE_MAX : sizes[draw(state, sizeof sizes / sizeof sizes[0])];
  m->lanes = draw(state, 4) ? 0 : draw(state, 5);
}

/* Prepares this rank's buffer: data to send, or blank memory to receive into. */
static void begin_message(struct message *m, uint32_t rank) {
  if (!(m->data = malloc(m->bytes + 1))) abort();
  for (size_t i = 0; i < m->bytes; i++) m->data[i] = m->from == rank ? message_byte(m, i) : 0xa5;
  m->data[m->bytes] = 0x5a;
}

static void end_message(struct player *p, struct message *m) {
  size_t at = 0;
  while (at < m->bytes && m->data[at] == message_byte(m, at)) at++;
  if (at < m->bytes || m->data[m->bytes] != 0x5a)
    wrong(p, "rank %u: byte %zu is wrong in the message of %zu bytes from rank %u to rank %u, tag %u, %u lanes",
          p->rank, at, m->bytes, m->from, m->to, m->tag, m->lanes);
  free(m->data);
}

static bool start_message(struct player *p, struct message *m) {
  tutti_call call = {.count = m->bytes, .type = TUTTI_U8, .tag = m->tag, .lanes = m->lanes};
  call.collective = m->from == p->rank ? TUTTI_SEND : TUTTI_RECV;
  call.peer = m->from == p->rank ? m->to : m->from;
  call.send = call.recv = m->data;
  m->started = true;
  return good(p, tutti_start(p->comm, &call, &m->request), "start of a message");
}

/* Returns the first message not yet started with the same sender, receiver and tag as m. Such messages match in the
 * order of their starts. */
static struct message *next_alike(struct message messages[], const struct message *m) {
  for (uint32_t i = 0;; i++) {
    struct message *other = &messages[i];
    if (!other->started && other->data && other->from == m->from && other->to == m->to && other->tag == m->tag)
      return other;
  }
}

/* Starts all messages; each rank starts and waits in its own random order. */
static bool one_round_of_messages(struct player *p, uint64_t *state, uint64_t *own) {
  struct message messages[MESSAGES];
  uint32_t order[MESSAGES];
  bool whole = true;
  for (uint32_t i = 0; i < MESSAGES; i++) {
    draw_message(state, p->ranks, &messages[i]);
    if (messages[i].from == p->rank || messages[i].to == p->rank) begin_message(&messages[i], p->rank);
  }
  for (int pass = 0; pass < 2 && whole; pass++) {
    shuffle(order, MESSAGES, own);
    for (uint32_t k = 0; k < MESSAGES && whole; k++) {
      struct message *m = &messages[order[k]];
      if (!m->data) continue;
      whole = pass == 0 ? start_message(p, next_alike(messages, m))
                        : good(p, tutti_wait(&m->request), "wait for a message");
    }
  }
  for (uint32_t i = 0; i < MESSAGES && whole; i++)
    if (messages[i].data) end_message(p, &messages[i]);
  return whole;
}

/* Sends messages with blocking calls, in the same order on all ranks. */
static bool one_row_of_messages(struct player *p, uint64_t *state) {
  for (uint32_t i = 0; i < MESSAGES; i++) {
    struct message m;
    draw_message(state, p->ranks, &m);
    if (m.from != p->rank && m.to != p->rank) continue;
    begin_message(&m, p->rank);
    if (m.from == p->rank && !good(p, tutti_send(p->comm, m.data, m.bytes, TUTTI_U8, m.to, m.tag), "send"))
      return false;
    if (m.to == p->rank && !good(p, tutti_recv(p->comm, m.data, m.bytes, TUTTI_U8, m.from, m.tag), "recv"))
      return false;
    end_message(p, &m);
  }
  return true;
}

static void messages(struct player *p) {
  uint64_t state = p->seed, own = p->seed * 31 + p->rank;
  for (int i = 0; i < rounds_of(6) && p->stage->failures == 0; i++)
    if (!one_round_of_messages(p, &state, &own) || !one_row_of_messages(p, &state)) return;
}

static void test_messages(void) { play_everywhere(messages, THREADS | PROCESSES, test_seed()); }

/* ---- communicators ---- */

/* How ranks of a parent are grouped into children. */
enum rule { BY_HOST, IN_PAIRS, ALONE, ALL, AT_RANDOM, RULES };

/* A communicator and its expected members; count 0: this rank is in none. */
struct part {
  tutti_comm *comm;
  uint32_t count;
  uint32_t members[TROUPE_MAX]; /* ranks of the world, in rank order of the communicator */
};

static int color_of(enum rule rule, uint32_t rank, uint64_t salt) {
  switch (rule) {
    case BY_HOST: return (int)host_of(rank);
    case IN_PAIRS: return (int)rank / 2;
    case ALONE: return (int)rank;
    case ALL: return 0;
    default: return (int)(ref_hash(salt, rank, 1, 1) % 4) - 1;
  }
}

static int key_of(uint32_t rank, uint64_t salt) { return (int)(ref_hash(salt, rank, 2, 2) % 5) - 2; }

static bool precedes(const struct part *parent, uint32_t a, uint32_t b, uint64_t salt) {
  int x = key_of(parent->members[a], salt), y = key_of(parent->members[b], salt);
  return x != y ? x < y : a < b;
}

/* Computes the members of this rank's child, in rank order. */
static void expect_members(const struct part *parent, uint32_t rank, enum rule rule, uint64_t salt,
                           struct part *child) {
  uint32_t chosen[TROUPE_MAX], count = 0;
  int mine = color_of(rule, rank, salt);
  for (uint32_t i = 0; i < parent->count && mine != TUTTI_NO_COLOR; i++) {
    if (color_of(rule, parent->members[i], salt) != mine) continue;
    uint32_t at = count++;
    for (; at > 0 && precedes(parent, i, chosen[at - 1], salt); at--) chosen[at] = chosen[at - 1];
    chosen[at] = i;
  }
  child->count = count;
  for (uint32_t i = 0; i < count; i++) child->members[i] = parent->members[chosen[i]];
}

static bool split_part(struct player *p, const struct part *parent, enum rule rule, uint64_t salt, struct part *child) {
  *child = (struct part){0};
  if (parent->count == 0) return true;
  expect_members(parent, p->rank, rule, salt, child);
  tutti_err err = tutti_comm_split(parent->comm, color_of(rule, p->rank, salt), key_of(p->rank, salt), &child->comm);
  if (!fine(p, parent->comm, err, "split")) return false;
  uint32_t count = child->comm ? tutti_ranks(child->comm) : 0;
  if (count == child->count && (count == 0 || child->members[tutti_rank(child->comm)] == p->rank)) return true;
  wrong(p, "rank %u: rule %d: %u members, expected %u; or wrong order", p->rank, (int)rule, count, child->count);
  return false;
}

static bool dup_part(struct player *p, const struct part *parent, struct part *child) {
  *child = *parent;
  if (parent->count == 0) return true;
  if (!fine(p, parent->comm, tutti_comm_dup(parent->comm, &child->comm), "dup")) return false;
  if (tutti_rank(child->comm) == tutti_rank(parent->comm) && tutti_ranks(child->comm) == parent->count) return true;
  wrong(p, "rank %u: is rank %u of %u in a dup", p->rank, tutti_rank(child->comm), tutti_ranks(child->comm));
  return false;
}

enum { PARTS = 6, PART_ITEMS = 3000 };

/* Calls that are open on all communicators at the same time. */
struct open_calls {
  int32_t mine[PART_ITEMS], sums[PARTS][PART_ITEMS];
  uint32_t ranks[PARTS][TROUPE_MAX];
  tutti_request *requests[PARTS][2];
};

static bool start_on_parts(struct player *p, const struct part parts[], struct open_calls *open) {
  for (uint32_t i = 0; i < PARTS; i++) {
    if (parts[i].count == 0) continue;
    const tutti_call calls[] = {
        {.collective = TUTTI_ALLREDUCE,
         .send = open->mine,
         .recv = open->sums[i],
         .count = i % 2 ? PART_ITEMS : 3,
         .type = TUTTI_I32},
        {.collective = TUTTI_ALLGATHER, .send = &p->rank, .recv = open->ranks[i], .count = 1, .type = TUTTI_U32}};
    for (int k = 0; k < 2; k++)
      if (!fine(p, parts[i].comm, tutti_start(parts[i].comm, &calls[k], &open->requests[i][k]), "start on a part"))
        return false;
  }
  return true;
}

static bool check_part(struct player *p, const struct part *part, const struct open_calls *open, uint32_t i) {
  int32_t sum = 0;
  for (uint32_t k = 0; k < part->count; k++) sum += (int32_t)part->members[k];
  uint32_t items = i % 2 ? PART_ITEMS : 3, bad = 0;
  for (uint32_t k = 0; k < items; k++) bad += open->sums[i][k] != sum + (int32_t)(part->count * k);
  bool same = memcmp(open->ranks[i], part->members, part->count * sizeof part->members[0]) == 0;
  if (bad || !same) wrong(p, "rank %u: part %u: %u sums wrong, members %s", p->rank, i, bad, same ? "right" : "wrong");
  return !bad && same;
}

static bool calls_on_parts(struct player *p, const struct part parts[], uint64_t *own) {
  struct open_calls *open = calloc(1, sizeof *open);
  uint32_t order[2 * PARTS];
  if (!open) abort();
  for (uint32_t k = 0; k < PART_ITEMS; k++) open->mine[k] = (int32_t)(p->rank + k);
  bool whole = start_on_parts(p, parts, open);
  shuffle(order, 2 * PARTS, own);
  for (uint32_t k = 0; k < 2 * PARTS && whole; k++) {
    uint32_t i = order[k] / 2;
    if (parts[i].count > 0)
      whole = fine(p, parts[i].comm, tutti_wait(&open->requests[i][order[k] % 2]), "wait on a part");
  }
  for (uint32_t i = 0; i < PARTS && whole; i++)
    if (parts[i].count > 0) whole = check_part(p, &parts[i], open, i);
  free(open);
  return whole;
}

/* Splits the world, splits the children, and their children again. All are freed in an order that is the same on all
 * ranks. */
static bool one_family(struct player *p, uint64_t *state, uint64_t *own) {
  struct part whole = {.comm = p->comm, .count = p->ranks}, parts[PARTS];
  uint32_t order[PARTS];
  for (uint32_t r = 0; r < p->ranks; r++) whole.members[r] = r;
  enum rule rules[4];
  uint64_t salts[4];
  for (int i = 0; i < 4; i++) rules[i] = (enum rule)draw(state, RULES), salts[i] = ranks_random(state);
  if (!dup_part(p, &whole, &parts[0])) return false;
  if (!split_part(p, &whole, rules[0], salts[0], &parts[1])) return false;
  if (!split_part(p, &parts[1], rules[1], salts[1], &parts[2])) return false;
  if (!dup_part(p, &parts[2], &parts[3])) return false;
  if (!split_part(p, &parts[0], rules[2], salts[2], &parts[4])) return false;
  if (!split_part(p, &parts[4], rules[3], salts[3], &parts[5])) return false;
  for (int i = 0; i < 2; i++)
    if (!calls_on_parts(p, parts, own)) return false;
  shuffle(order, PARTS, state);
  for (uint32_t i = 0; i < PARTS; i++) {
    struct part *part = &parts[order[i]];
    if (part->count > 0 && !fine(p, NULL, tutti_comm_free(part->comm), "free of a part")) return false;
  }
  return true;
}

static void families(struct player *p) {
  uint64_t state = p->seed, own = p->seed * 31 + p->rank;
  for (int i = 0; i < rounds_of(20) && p->stage->failures == 0; i++)
    if (!one_family(p, &state, &own)) return;
  works(p, p->comm, "the world, after all others were freed");
}

static void test_communicators(void) { play_everywhere(families, THREADS | PROCESSES, test_seed()); }

/* ---- resources come back ---- */

enum { COMINGS = 200, FIRST_COMINGS = 8, KEPT_BYTES_MAX = 256 << 10 };

/* The lock admits one thread at a time, as opendir opens a descriptor itself. */
static uint32_t count_descriptors(void) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  uint32_t count = 0;
  pthread_mutex_lock(&lock);
  DIR *folder = opendir("/proc/self/fd");
  if (!folder) abort();
  while (readdir(folder)) count++;
  closedir(folder);
  pthread_mutex_unlock(&lock);
  return count;
}

struct holdings {
  size_t free_bytes; /* free bytes of the host's shared memory */
  uint32_t descriptors;
  size_t allocated;
};

/* Measures this rank's resources while no rank is in a call. */
static struct holdings take_stock(struct player *p) {
  struct holdings h = {0};
  troupe_meet(p);
  h.free_bytes = tu_transport_free_bytes(p->transport);
  h.descriptors = count_descriptors();
#if defined __GLIBC__ && !defined __SANITIZE_ADDRESS__
  struct mallinfo2 info = mallinfo2();
  h.allocated = p->is_thread ? 0 : info.uordblks + info.hblkhd;
#endif
  troupe_meet(p);
  return h;
}

static bool come_and_go(struct player *p, uint32_t round) {
  tutti_comm *comm;
  if (!good(p, tutti_comm_dup(p->comm, &comm), "dup, repeated")) return false;
  bool fit = works(p, comm, "allreduce of a dup");
  if (round % 8 == 0) fit = fit && fine(p, comm, tutti_barrier(comm), "barrier of a dup");
  return fine(p, NULL, tutti_comm_free(comm), "free, repeated") && fit;
}

static void comings(struct player *p) {
  const uint32_t rounds = (uint32_t)rounds_of(COMINGS);
  for (uint32_t i = 0; i < FIRST_COMINGS; i++)
    if (!come_and_go(p, i)) return;
  good(p, tutti_barrier(p->comm), "barrier");
  struct holdings before = take_stock(p);
  for (uint32_t i = 0; i < rounds; i++)
    if (!come_and_go(p, i)) return;
  good(p, tutti_barrier(p->comm), "barrier");
  struct holdings after = take_stock(p);
  if (after.descriptors != before.descriptors)
    wrong(p, "rank %u: %u descriptors are open, %u were open before", p->rank, after.descriptors, before.descriptors);
  if (after.free_bytes != before.free_bytes)
    wrong(p, "rank %u: %zu bytes are free, %zu were free before", p->rank, after.free_bytes, before.free_bytes);
  if (after.allocated > before.allocated + KEPT_BYTES_MAX)
    wrong(p, "rank %u: %zu bytes are allocated, %zu were allocated before", p->rank, after.allocated, before.allocated);
}

static void test_leaves_nothing(void) {
  uint32_t descriptors = count_descriptors();
  play_everywhere(comings, THREADS | PROCESSES, 0);
  CHECK(count_descriptors() == descriptors, "%u descriptors are open, %u were open before", count_descriptors(),
        descriptors);
}

/* ---- ranks that make different calls ---- */

enum { DISAGREE_ITEMS = 200000 };

static tutti_err start_by_name(tutti_comm *comm, const char *name, tutti_request **request) {
  static int32_t in[DISAGREE_ITEMS], out[TROUPE_MAX][DISAGREE_ITEMS]; /* contents do not matter */
  const size_t share = DISAGREE_ITEMS / tutti_ranks(comm);
  const struct {
    const char *name;
    tutti_collective collective;
    size_t count;
  } calls[] = {{"barrier", TUTTI_BARRIER, 0},
               {"allreduce", TUTTI_ALLREDUCE, 1},
               {"allreduce of 200000", TUTTI_ALLREDUCE, DISAGREE_ITEMS},
               {"allgather", TUTTI_ALLGATHER, share},
               {"alltoall", TUTTI_ALLTOALL, 10},
               {"reduce_scatter", TUTTI_REDUCE_SCATTER, share}};
  size_t i = 0;
  while (strcmp(calls[i].name, name) != 0) i++;
  tutti_call call = {.collective = calls[i].collective, .count = calls[i].count, .type = TUTTI_I32};
  if (call.count > 0) call.send = in, call.recv = out[tutti_rank(comm)];
  return tutti_start(comm, &call, request);
}

static tutti_err call_by_name(tutti_comm *comm, const char *name) {
  tutti_request *request = NULL;
  tutti_err err = start_by_name(comm, name, &request);
  return err == TUTTI_OK ? tutti_wait(&request) : err;
}

static const struct quarrel {
  const char *one, *other; /* names for start_by_name */
  bool alone;              /* only rank 1 makes the other call; else all ranks except those of the first host */
  bool one_late, other_late;
} quarrels[] = {
    {"allreduce", "barrier", true, false, false},
    {"allgather", "reduce_scatter", false, false, false},
    {"barrier", "allreduce of 200000", true, false, true},
    {"allreduce of 200000", "alltoall", false, true, false},
    {"barrier", "alltoall", false, true, true},
};

static void print_start(char *to, size_t bytes, const char *name) {
  snprintf(to, bytes, "%.*s", (int)strcspn(name, " "), name);
}

static void disagree(struct player *p) {
  tutti_comm *dup;
  for (row = 0; row < sizeof quarrels / sizeof quarrels[0]; row++) {
    const struct quarrel *q = &quarrels[row];
    char one[32], other[32];
    if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
    bool others = q->alone ? p->rank == 1 : host_of(p->rank) != 0;
    if (others ? q->other_late : q->one_late) ranks_sleep_us(LATE_MS * 1000);
    tutti_err err = call_by_name(dup, others ? q->other : q->one);
    print_start(one, sizeof one, q->one);
    print_start(other, sizeof other, q->other);
    expect(p, dup, err, TUTTI_ERR_MISMATCH, one, other);
    err = tutti_barrier(dup);
    expect(p, dup, err, TUTTI_ERR_MISMATCH, one, other);
    tutti_comm_free(dup);
    works(p, p->comm, "allreduce on the other communicator");
  }
}

static void test_disagreement(void) { play_everywhere(disagree, THREADS | PROCESSES, 0); }

static void keep_left(void *result, const void *left, const void *right, size_t count, tutti_datatype type,
                      void *context) {
  (void)right, (void)context;
  memmove(result, left, count * tutti_datatype_size(type));
}

/* Ranks disagree on whether an operation is commutative. The plan depends on it, because the ranks of a host are not
 * consecutive in some of the worlds. */
static void disagree_on_order(struct player *p) {
  int32_t in[TROUPE_MAX] = {0}, out;
  tutti_op op;
  tutti_comm *dup;
  if (!good(p, tutti_op_create(keep_left, NULL, p->rank == 1, "mine", &op), "operation")) return;
  if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
  tutti_err err = tutti_reduce_scatter(dup, in, &out, 1, TUTTI_I32, op);
  expect(p, dup, err, TUTTI_ERR_MISMATCH, "i32, algorithm by_host, mine)",
         "i32, algorithm by_host, mine, not commutative)");
  tutti_comm_free(dup);
}

static void test_disagreement_on_order(void) { play_everywhere(disagree_on_order, PROCESSES, 0); }

/* ---- abort ---- */

/* Each rank in turn aborts while the others wait in a barrier or for a message. */
static void each_aborts(struct player *p) {
  for (row = 0; row < p->ranks; row++) {
    tutti_comm *dup;
    char by[32];
    unsigned char byte;
    if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
    if (p->rank == row) {
      ranks_sleep_us(30000);
      tutti_abort(dup, "no space left on the disk");
    }
    bool receives = row % 2 && p->rank != row;
    tutti_err err = receives ? tutti_recv(dup, &byte, 1, TUTTI_U8, row, 0) : tutti_barrier(dup);
    snprintf(by, sizeof by, "rank %u", row);
    expect(p, dup, err, TUTTI_ERR_ABORTED, "no space left on the disk", by);
    tutti_comm_free(dup);
  }
  works(p, p->comm, "allreduce on the other communicator");
}

static void test_abort(void) { play_everywhere(each_aborts, THREADS | PROCESSES, 0); }

/* ---- death ---- */

enum { STREAM_ITEMS = 100000, DIES_WITHIN_MS = 40 };

static const struct death {
  bool last,
      streams; /* last: the last rank dies, else rank 1. streams: the others are in allreduces, else in a barrier */
} deaths[] = {{false, false}, {true, false}, {false, true}, {true, true}};

static uint32_t death_row; /* current row of `deaths` */

/* A process is killed at a random time. A thread stops between two calls, and touches nothing until all others know. */
static void begin_to_die(struct player *p, uint32_t ms) {
  if (p->is_thread) return;
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
  const struct itimerspec when = {.it_value.tv_nsec = 1000000L * (ms + 1)};
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &when, NULL) != 0) abort();
}

static void die(struct player *p) {
  while (!p->is_thread) pause();
  tu_loop_kill(p->transport);
  await(p, &side->ended, p->ranks - 1);
}

/* Runs allreduces until one fails, or for `rounds` rounds. */
static tutti_err stream(struct player *p, uint32_t rounds) {
  int32_t *in = calloc(STREAM_ITEMS, 4), *out = calloc(STREAM_ITEMS, 4);
  tutti_err err = TUTTI_OK;
  if (!in || !out) abort();
  for (uint32_t i = 0; i < rounds && err == TUTTI_OK; i++)
    err = tutti_allreduce(p->comm, in, out, i % 4 ? STREAM_ITEMS : 5, TUTTI_I32, TUTTI_SUM);
  free(in);
  free(out);
  return err;
}

static void see_a_death(struct player *p) {
  const struct death *d = &deaths[row = death_row];
  uint64_t state = p->seed + row;
  uint32_t ms = draw(&state, DIES_WITHIN_MS), victim = hosts_victim;
  char name[32];
  if (!good(p, tutti_barrier(p->comm), "barrier")) return;
  troupe_meet(p);
  if (p->rank == victim) {
    begin_to_die(p, ms);
    if (d->streams) (void)stream(p, p->is_thread ? 1 + ms % 20 : UINT32_MAX);
    die(p);
    return;
  }
  tutti_err err = d->streams ? stream(p, UINT32_MAX) : tutti_barrier(p->comm);
  snprintf(name, sizeof name, "rank %u ", victim);
  expect(p, p->comm, err, TUTTI_ERR_PEER, name, "died");
  side->ended++;
}

#ifndef __SANITIZE_THREAD__
/* A rank dies, but a child of it lives until the other rank, which is alone on its host, has noticed that. */
static void die_before_a_child(struct player *p) {
  if (!good(p, tutti_comm_set_timeout(p->comm, PATIENCE_MS), "set_timeout") ||
      !good(p, tutti_barrier(p->comm), "barrier"))
    return;
  if (p->rank == hosts_victim) {
    const uint64_t end = ranks_now_ms() + 2 * PATIENCE_MS;
    if (fork() == 0) {
      while (side->ended == 0 && ranks_now_ms() < end) ranks_sleep_us(1000);
      _exit(0);
    }
    kill(getpid(), SIGKILL);
  }
  expect(p, p->comm, tutti_barrier(p->comm), TUTTI_ERR_PEER, "rank 1 ", "died");
  side->ended++;
}

static void test_death_before_a_child(void) {
  static const struct hosts_world two = {
      "two hosts, 2 processes", troupe_over_processes_of_two_hosts, hosts_woven, PROCESSES, 2, 0};
  int ends[2];
  char byte;
  hosts_victim = 1;
  if (pipe(ends) != 0) abort();
  play_in(&two, (struct troupe){.run = die_before_a_child, .rank_1_dies = true, .fails = true});
  /* Wait until the child has ended, too: it reads `side`, which the next test clears. */
  close(ends[1]);
  CHECK(read(ends[0], &byte, 1) == 0, "the pipe has no writer");
  close(ends[0]);
}
#endif

static void test_death(void) {
  uint64_t seed = test_seed();
  for (uint32_t i = 0; i < WORLDS; i++)
    for (death_row = 0; death_row < sizeof deaths / sizeof deaths[0]; death_row++) {
      hosts_victim = deaths[death_row].last ? worlds[i].ranks - 1 : 1;
      play_in(&worlds[i], (struct troupe){.run = see_a_death, .rank_1_dies = true, .fails = true, .seed = seed});
    }
}

/* ---- time-outs ---- */

enum { TIMEOUT_MS = 600, BEFORE = 5, THREAD_LATENESSES = 2 };

static const struct lateness {
  bool last;        /* the last rank is late; else rank 1 */
  bool stopped;     /* the late rank is stopped by a signal, if it is a process; else it waits */
  const char *call; /* call of the other ranks */
} latenesses[] = {{true, false, "barrier"},
                  {false, true, "allreduce of 200000"},
                  {false, false, "allgather"},
                  {true, true, "allreduce"}};

static void stop(struct player *p) {
  side->pids[p->rank] = (int)getpid();
  raise(SIGSTOP);
  side->awake++;
}

/* Sends SIGCONT again and again until the rank has continued, as it may not have stopped yet. */
static void make_it_go_on(struct player *p, uint32_t rank, uint32_t goal) {
  const uint64_t end = ranks_now_ms() + PATIENCE_MS;
  while (side->awake < goal && ranks_now_ms() < end) {
    if (side->pids[rank] > 0) kill(side->pids[rank], SIGCONT);
    ranks_sleep_us(10000);
  }
  if (side->awake < goal) wrong(p, "rank %u: rank %u did not continue", p->rank, rank);
}

static void wait_in_vain(struct player *p) {
  uint32_t stopped = 0, ended = 0;
  for (row = 0; row < (p->is_thread ? THREAD_LATENESSES : sizeof latenesses / sizeof latenesses[0]); row++) {
    const struct lateness *l = &latenesses[row];
    uint32_t late = l->last ? p->ranks - 1 : 1;
    bool stops = l->stopped && !p->is_thread;
    char name[32];
    tutti_comm *dup;
    if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
    for (int i = 0; i < BEFORE; i++) works(p, dup, "allreduce before the one that fails");
    tutti_request *request = NULL;
    tutti_err err = TUTTI_OK;
    (void)!tutti_comm_set_timeout(dup, TIMEOUT_MS);
    if (p->rank != late) err = start_by_name(dup, l->call, &request);
    troupe_meet(p); /* the time counts from the wait: then no rank is in an earlier call, and the others have started */
    ended += p->ranks - 1;
    stopped += stops;
    if (p->rank == late && stops) stop(p);
    if (p->rank == late) await(p, &side->ended, ended);
    if (p->rank == late) err = start_by_name(dup, l->call, &request);
    if (err == TUTTI_OK) err = tutti_wait(&request);
    snprintf(name, sizeof name, "rank %u ", late);
    expect(p, dup, err, TUTTI_ERR_TIMEOUT, name, "has waited");
    if (p->rank != late) side->ended++;
    if (p->rank == 0) await(p, &side->ended, ended);
    if (p->rank == 0 && stops) make_it_go_on(p, late, stopped);
    tutti_comm_free(dup);
    works(p, p->comm, "allreduce on the other communicator");
  }
}

static void test_time_outs(void) { play_everywhere(wait_in_vain, THREADS | PROCESSES, 0); }

/* A rank gets its time-out also if frames arrive at every poll of its wait, such as questions of other ranks. */
static void wait_among_frames(struct player *p) {
  tutti_comm *dup;
  if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
  if (p->rank == 0) {
    const uint64_t end = ranks_now_ms() + PATIENCE_MS / 2;
    const uint32_t silent = p->ranks - 1;
    unsigned char byte;
    char name[32];
    tutti_request *request = NULL;
    struct tu_stall stall = {0};
    struct tu_visit visit;
    const tutti_call call = {
        .collective = TUTTI_RECV, .recv = &byte, .count = 1, .type = TUTTI_U8, .peer = silent, .timeout_ms = 100};
    if (!good(p, tutti_start(dup, &call, &request), "recv") || !tu_hold(dup, &visit)) return;
    for (; !tu_comm_failed(dup) && ranks_now_ms() < end; ranks_sleep_us(1000)) tu_stall_goes_on(dup, &stall);
    if (!tu_comm_failed(dup)) wrong(p, "the time-out of 100 ms has not come");
    tu_leave(&visit);
    snprintf(name, sizeof name, "rank %u ", silent);
    expect(p, dup, tutti_wait(&request), TUTTI_ERR_TIMEOUT, name, "100 ms");
  }
  troupe_meet(p);
  (void)!tutti_comm_free(dup);
  works(p, p->comm, "allreduce on the other communicator");
}

static void test_among_frames(void) { play_everywhere(wait_among_frames, THREADS | PROCESSES, 0); }

/* ---- a rank that frees a communicator late ---- */

/* The late rank receives messages only when the other ranks are in tutti_comm_free. */
static void free_late(struct player *p) {
  for (uint32_t round = 0; round < 2; round++) {
    uint32_t late = round == 0 ? 0 : p->ranks - 1;
    unsigned char bytes[4000] = {0}, got[4000];
    tutti_comm *dup;
    if (!good(p, tutti_comm_dup(p->comm, &dup), "dup") || !works(p, dup, "allreduce")) return;
    memset(bytes, (int)p->rank + 1, sizeof bytes);
    if (p->rank == late) ranks_sleep_us(LATE_MS * 1000);
    for (uint32_t from = 0; from < p->ranks; from++) {
      if (from == late) continue;
      if (p->rank == from)
        fine(p, dup, tutti_send(dup, bytes, sizeof bytes, TUTTI_U8, late, 7), "send to the late rank");
      if (p->rank != late) continue;
      fine(p, dup, tutti_recv(dup, got, sizeof got, TUTTI_U8, from, 7), "recv of the late rank");
      if (got[0] != from + 1 || memcmp(got, got + 1, sizeof got - 1) != 0)
        wrong(p, "rank %u: received %u from rank %u", late, got[0], from);
    }
    fine(p, NULL, tutti_comm_free(dup), "free");
  }
}

static void test_late_free(void) { play_everywhere(free_late, THREADS | PROCESSES, 0); }

/* ---- rank 0's selection table ---- */

#ifndef __SANITIZE_THREAD__
enum { TABLE_COMMENTS = 2500 };

static const char *algorithm_of(tutti_comm *comm, tutti_request **request) {
  static int32_t in[2], out[2];
  const tutti_call call = {
      .collective = TUTTI_ALLREDUCE, .send = in, .recv = out, .count = 2, .type = TUTTI_I32, .op = TUTTI_SUM};
  if (tutti_prepare(comm, &call, request) != TUTTI_OK) return tutti_error_message(comm);
  return (*request)->facts.plan ? "a plan" : tu_algorithms[(*request)->facts.algorithm]->name;
}

/* Writes a selection table that is too long for one frame of a socket. */
static void make_table(char *path, size_t bytes) {
  int fd = memfd_create("hosts_test", MFD_CLOEXEC);
  FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
  if (!file) abort();
  for (int i = 0; i < TABLE_COMMENTS; i++) fprintf(file, "# comment %d: a table may be long\n", i);
  fprintf(file, "allreduce recursive_doubling\n");
  if (fflush(file) != 0) abort();
  snprintf(path, bytes, "/proc/self/fd/%d", fd);
}

static const struct selection {
  const char *forced; /* TUTTI_ALGORITHM of rank 0; NULL: its table selects recursive_doubling */
  const char *others; /* TUTTI_ALGORITHM of all other ranks; NULL: not set */
  const char *taken;
} selections[] = {{"allreduce=ring", NULL, "ring"},
                  {"allreduce=ring", "allreduce=direct", "ring"},
                  {NULL, "nonsense", "recursive_doubling"}};

static uint32_t selection_row;

static void agree(struct player *p) {
  const struct selection *s = &selections[row = selection_row];
  const char *mine = p->rank == 0 ? s->forced : s->others;
  char path[64] = "none";
  if (p->rank == 0 && !s->forced) make_table(path, sizeof path);
  setenv("TUTTI_TUNING", path, 1);
  if (mine) setenv("TUTTI_ALGORITHM", mine, 1);
  if (p->rank == 0) ranks_sleep_us(30000);
  if (!fine(p, p->comm, tu_tuning_agree(p->comm, PATIENCE_MS), "tu_tuning_agree")) return;
  tutti_comm *comms[2] = {p->comm};
  if (!good(p, tutti_comm_split(p->comm, 0, -(int)p->rank, &comms[1]), "split")) return;
  for (int i = 0; i < 2; i++) {
    tutti_request *request = NULL;
    const char *taken = algorithm_of(comms[i], &request);
    if (strcmp(taken, s->taken) != 0) wrong(p, "row %u: rank %u: '%s', expected '%s'", row, p->rank, taken, s->taken);
    if (!request || !fine(p, comms[i], tutti_restart(request), "restart")) return;
    fine(p, comms[i], tutti_wait(&request), "wait");
    tutti_request_free(request);
  }
  fine(p, NULL, tutti_comm_free(comms[1]), "free");
}

static void test_tuning(void) {
  for (selection_row = 0; selection_row < sizeof selections / sizeof selections[0]; selection_row++)
    play_everywhere(agree, PROCESSES, 0);
}
#endif

/* ---- one-sided calls ---- */

static void make_row(tutti_tensor *t, void *data, size_t count) {
  const size_t shape[] = {1, count};
  if (tutti_tensor_strided(t, (tutti_tensor_of){data, TUTTI_U32, 2, shape}, NULL) != TUTTI_OK) abort();
}

/* Each rank writes to the part of every other one, reads it back, and adds to a signal there. */
static void use_window(struct player *p, tutti_comm *comm) {
  enum { COUNT = 5000, TIMES = 3 };
  const uint32_t rank = tutti_rank(comm), ranks = tutti_ranks(comm);
  const size_t bytes = sizeof(uint32_t) * (COUNT * (size_t)ranks + 1);
  tutti_window *window;
  tutti_tensor to, from, again;
  uint32_t *mine = malloc(COUNT * sizeof *mine), *back = malloc(COUNT * sizeof *back);
  if (!fine(p, NULL, tutti_window_create(comm, NULL, bytes, &window), "a window")) return;
  for (int t = 0; t < TIMES; t++) {
    for (uint32_t step = 1; step <= ranks; step++) {
      const uint32_t peer = (rank + step) % ranks;
      for (uint32_t i = 0; i < COUNT; i++) mine[i] = i + 1000 * (peer + 100 * rank) + (uint32_t)t;
      uint32_t *part = tutti_window_address(window, peer);
      make_row(&to, part + COUNT * (size_t)rank, COUNT);
      make_row(&from, mine, COUNT);
      make_row(&again, back, COUNT);
      fine(p, NULL, tutti_put(&from, &to, NULL, NULL), "put");
      fine(p, NULL, tutti_get(&to, &again, NULL, NULL), "get");
      if (memcmp(mine, back, COUNT * sizeof *mine) != 0) wrong(p, "rank %u: other data comes back from %u", rank, peer);
      fine(p, NULL, tutti_signal_add((int32_t *)part + COUNT * (size_t)ranks, 1, NULL), "signal");
    }
    uint32_t *own = tutti_window_address(window, rank);
    tutti_tensor signal;
    const size_t one[] = {1};
    if (tutti_tensor_strided(&signal, (tutti_tensor_of){own + COUNT * (size_t)ranks, TUTTI_I32, 1, one}, NULL) !=
        TUTTI_OK)
      abort();
    fine(p, NULL, tutti_signal_wait(&signal, TUTTI_GE, (int32_t)ranks * (t + 1), 0, NULL), "wait for all signals");
    for (uint32_t writer = 0; writer < ranks; writer++)
      for (uint32_t i = 0; i < COUNT; i++)
        if (own[COUNT * (size_t)writer + i] != i + 1000 * (rank + 100 * writer) + (uint32_t)t)
          wrong(p, "rank %u: element %u of rank %u is wrong", rank, i, writer);
    fine(p, comm, tutti_barrier(comm), "barrier");
  }
  fine(p, NULL, tutti_window_free(window), "free of a window");
  free(mine), free(back);
}

static void use_windows(struct player *p) {
  tutti_comm *there;
  use_window(p, p->comm);
  works(p, p->comm, "after a window of several hosts");
  if (!good(p, tutti_comm_split(p->comm, (int)host_of(p->rank), 0, &there), "split")) return;
  use_window(p, there);
  fine(p, NULL, tutti_comm_free(there), "free");
  works(p, p->comm, "after a window of one host");
}

/* ---- streams ---- */

/* Messages go round all ranks, so some of them cross hosts. */
static void pass_messages_round(struct player *p) {
  enum { TURNS = 3, SENT = 50, SLOT = 3000 };
  const uint32_t next = (p->rank + 1) % p->ranks, before = (p->rank + p->ranks - 1) % p->ranks;
  const tutti_channel_options options = {.slots = 4, .slot_bytes = SLOT};
  for (uint32_t turn = 0; turn < TURNS; turn++) {
    tutti_channel_builder *builder;
    tutti_channel *channels[2];
    uint32_t out = 0, in = 0;
    if (!fine(p, NULL, tutti_channel_builder_create(p->comm, &options, &builder), "a builder")) return;
    /* Two ranks have one link, on which both must add the channels in the same order. */
    if (p->rank % 2 == 0) fine(p, NULL, tutti_channel_add_sender(builder, next, 0, &out), "a sender");
    fine(p, NULL, tutti_channel_add_receiver(builder, before, 0, &in), "a receiver");
    if (p->rank % 2 == 1) fine(p, NULL, tutti_channel_add_sender(builder, next, 0, &out), "a sender");
    if (!fine(p, NULL, tutti_channel_build(builder, channels), "build")) return;
    tutti_channel_builder_free(builder);
    for (uint32_t k = 0; k < SENT; k++) {
      void *slot;
      tutti_channel_message m;
      const size_t bytes = k % 5 == 0 ? 0 : k * (SLOT / SENT);
      if (!fine(p, NULL, tutti_channel_acquire(channels[out], PATIENCE_MS, &slot), "acquire")) return;
      memset(slot, (int)(k + p->rank + turn), bytes);
      fine(p, NULL, tutti_channel_commit(channels[out], bytes, k + 1 == SENT), "commit");
      if (!fine(p, NULL, tutti_channel_peek(channels[in], 0, PATIENCE_MS, &m), "peek")) return;
      for (size_t i = 0; i < m.bytes; i++)
        if (((const unsigned char *)m.data)[i] != (unsigned char)(k + before + turn))
          wrong(p, "rank %u: byte %zu of message %u is wrong", p->rank, i, k);
      if (m.bytes != bytes || m.number != k) wrong(p, "rank %u: message %u is another one", p->rank, k);
      fine(p, NULL, tutti_channel_release(channels[in]), "release");
    }
    fine(p, NULL, tutti_channel_close(channels[out], PATIENCE_MS), "close");
    fine(p, NULL, tutti_channel_close(channels[in], PATIENCE_MS), "close");
  }
}

/* Returns another rank of the same host, so that all ranks of the host form pairs; the rank itself if none is left. */
static uint32_t mate_of(uint32_t rank, uint32_t ranks) {
  uint32_t mates[TROUPE_MAX], count = 0, mine = 0;
  for (uint32_t r = 0; r < ranks; r++) {
    if (host_of(r) != host_of(rank)) continue;
    if (r == rank) mine = count;
    mates[count++] = r;
  }
  return (mine ^ 1) < count ? mates[mine ^ 1] : rank;
}

/* Channels work between ranks of one host, on the same communicator. */
static void channels_of_one_host(struct player *p) {
  enum { SENT = 50 };
  uint32_t mate = mate_of(p->rank, p->ranks);
  bool sends = p->rank < mate;
  const tutti_channel_options options = {.ending = TUTTI_CHANNEL_COUNTED, .messages = SENT, .timeout_ms = PATIENCE_MS};
  tutti_channel *channel;
  if (mate == p->rank) return;
  tutti_err err =
      tutti_channel_open(p->comm, mate, sends ? TUTTI_CHANNEL_SENDS : TUTTI_CHANNEL_RECEIVES, &options, &channel);
  if (!fine(p, NULL, err, "a channel of one host")) return;
  for (uint32_t i = 0; i < SENT; i++) {
    void *slot;
    tutti_channel_message message;
    if (sends) {
      if (!fine(p, NULL, tutti_channel_acquire(channel, PATIENCE_MS, &slot), "acquire")) return;
      memcpy(slot, &i, sizeof i);
      if (!fine(p, NULL, tutti_channel_commit(channel, sizeof i, false), "commit")) return;
    } else {
      if (!fine(p, NULL, tutti_channel_peek(channel, 0, PATIENCE_MS, &message), "peek")) return;
      if (message.bytes != sizeof i || memcmp(message.data, &i, sizeof i) != 0)
        wrong(p, "rank %u: message %u is wrong", p->rank, i);
      if (!fine(p, NULL, tutti_channel_release(channel), "release")) return;
    }
  }
  fine(p, NULL, tutti_channel_close(channel, PATIENCE_MS), "close");
}

static void use_channels(struct player *p) {
  pass_messages_round(p);
  works(p, p->comm, "after channels between hosts");
  channels_of_one_host(p);
  works(p, p->comm, "after channels of one host");
}

static void test_windows(void) { play_everywhere(use_windows, THREADS | PROCESSES, 0); }
static void test_channels(void) { play_everywhere(use_channels, THREADS | PROCESSES, 0); }

/* ---- several threads of a rank ---- */

enum { RANK_THREADS = 3 };

struct helper {
  struct player player;
  tutti_comm *comm;
  uint32_t number;
};

/* Runs allreduces on the thread's own communicator, which threads of the same number use on all ranks. Sleeps at random
 * times, so that the other ranks have to wait. */
static void *help(void *argument) {
  struct helper *h = argument;
  struct player *p = &h->player;
  uint64_t own = p->seed + p->rank * 100 + h->number;
  for (int i = 0; i < rounds_of(60); i++) {
    if (!works(p, h->comm, "allreduce of a thread")) break;
    if (draw(&own, 10) == 0) ranks_sleep_us(draw(&own, 2000));
  }
  return NULL;
}

static void several_threads(struct player *p) {
  pthread_t threads[RANK_THREADS];
  struct helper helpers[RANK_THREADS];
  for (uint32_t i = 0; i < RANK_THREADS; i++) {
    helpers[i] = (struct helper){.player = *p, .number = i};
    if (!good(p, tutti_comm_dup(p->comm, &helpers[i].comm), "dup")) return;
  }
  for (uint32_t i = 0; i < RANK_THREADS; i++)
    if (pthread_create(&threads[i], NULL, help, &helpers[i]) != 0) abort();
  for (uint32_t i = 0; i < RANK_THREADS; i++) pthread_join(threads[i], NULL);
  for (uint32_t i = 0; i < RANK_THREADS; i++) fine(p, NULL, tutti_comm_free(helpers[i].comm), "free");
}

static void test_threads(void) { play_everywhere(several_threads, THREADS | PROCESSES, test_seed()); }

int main(int argc, char **argv) {
  ranks_clear_environment();
  if (ref_register() != TUTTI_OK) abort();
  ref_memory = (struct ref_memory){buffers_acquire, buffers_release};
  side = mmap(NULL, sizeof *side, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (side == MAP_FAILED) abort();
  static const struct test tests[] = {
      {"sweep", test_sweep},
      {"tests", test_tests},
      {"messages", test_messages},
      {"communicators", test_communicators},
      {"leaves_nothing", test_leaves_nothing},
      {"disagreement", test_disagreement},
      {"disagreement_on_order", test_disagreement_on_order},
      {"abort", test_abort},
      {"death", test_death},
      {"time_outs", test_time_outs},
      {"among_frames", test_among_frames},
      {"late_free", test_late_free},
#ifndef __SANITIZE_THREAD__
      {"tuning", test_tuning},
      {"death_before_a_child", test_death_before_a_child},
#endif
      {"windows", test_windows},
      {"channels", test_channels},
      {"threads", test_threads},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
