/* test: slow timeout=240 */
/* waits_test.c: waits that give up, tests of lists, queries without progress, checks of calls that are not started, and
 * the pointer that a communicator keeps; with threads, dead ranks, failed communicators and wrong arguments. Also runs
 * under TSan. */
#include "hosts.h"

enum { LONG_MS = TROUPE_CALL_MS, LISTED = 24, THREADS = 3, ROUNDS = 40 };

static pthread_t begin(void *(*body)(void *), void *argument) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, body, argument) != 0) abort();
  return thread;
}

static void expect_error(struct player *p, const tutti_comm *comm, tutti_err err, tutti_err want, const char *facts) {
  const char *said = tutti_error_message(comm);
  if (err != want || !test_contains(said, facts))
    wrong(p, "rank %u: %s, \"%s\"; expected %s with %s", p->rank, tutti_err_name(err), said, tutti_err_name(want),
          facts);
}

static void expect(struct player *p, bool condition, const char *what) {
  if (!condition) wrong(p, "rank %u: not true: %s", p->rank, what);
}

static tutti_call receive_of(uint32_t *value, uint32_t peer, uint32_t tag) {
  return (tutti_call){.collective = TUTTI_RECV, .recv = value, .count = 1, .type = TUTTI_U32, .peer = peer, .tag = tag};
}

/* Starts a receive of a message that no rank sends, on a communicator of this rank alone. */
static tutti_request *start_in_vain(struct player *p, tutti_comm *self, uint32_t *value, int timeout_ms) {
  tutti_call call = receive_of(value, 0, 9);
  tutti_request *request = NULL;
  call.timeout_ms = timeout_ms;
  good(p, tutti_start(self, &call, &request), "start a receive");
  return request;
}

static tutti_comm *make_self(struct player *p) {
  tutti_comm *self = NULL;
  good(p, tutti_comm_self(p->comm, &self), "tutti_comm_self");
  return self;
}

static void is_usable(struct player *p) {
  uint32_t one = 1, sum = 0;
  good(p, tutti_allreduce(p->comm, &one, &sum, 1, TUTTI_U32, TUTTI_SUM), "allreduce");
  expect(p, sum == p->ranks, "the communicator is usable");
}

/* ---- tutti_wait_for ---- */

/* Rank 0 sends when all other ranks have given up several waits. */
static void a_wait_is_given_up(struct player *p) {
  static const int limits[] = {0, 1, 20};
  uint32_t value = 0, sent = 42;
  const tutti_call call = receive_of(&value, 0, 3);
  tutti_request *request = NULL;
  bool done = true;
  if (p->rank > 0 && !good(p, tutti_start(p->comm, &call, &request), "start")) return;
  for (size_t i = 0; p->rank > 0 && i < sizeof limits / sizeof limits[0]; i++) {
    good(p, tutti_wait_for(&request, limits[i], &done), "a wait that gives up");
    expect(p, !done && request && !tutti_request_done(request), "the request stays open");
  }
  troupe_meet(p);
  for (uint32_t r = 1; p->rank == 0 && r < p->ranks; r++)
    good(p, tutti_send(p->comm, &sent, 1, TUTTI_U32, r, 3), "send");
  const int last = p->rank % 2 ? LONG_MS : TUTTI_NO_TIMEOUT;
  good(p, tutti_wait_for(&request, last, &done), "the last wait");
  expect(p, done && !request && (p->rank == 0 || value == 42), "the message is there");
  is_usable(p);
}

static void collectives(struct player *p) {
  for (int round = 0; round < ROUNDS; round++) {
    uint32_t one = 1, sum = 0;
    tutti_request *request;
    bool done = false;
    if (!good(p, tutti_iallreduce(p->comm, &one, &sum, 1, TUTTI_U32, TUTTI_SUM, &request), "start")) return;
    while (!done)
      if (!good(p, tutti_wait_for(&request, round % 3, &done), "wait")) return;
    expect(p, !request && sum == p->ranks, "the sum is right");
  }
}

/* The time limit of the call runs during waits that are too short to sleep. */
static void a_call_is_too_late(struct player *p) {
  for (int limit = 0; limit < 2; limit++) {
    uint32_t value;
    tutti_comm *self = make_self(p);
    tutti_request *request = start_in_vain(p, self, &value, 30);
    tutti_err err = TUTTI_OK;
    bool done = false;
    if (!request) return;
    while (err == TUTTI_OK && !done) err = tutti_wait_for(&request, limit, &done);
    expect_error(p, self, err, TUTTI_ERR_TIMEOUT, "30 ms|recv");
    expect(p, done && !request, "the request has failed");
    (void)tutti_comm_free(self);
  }
}

static void a_communicator_fails(struct player *p) {
  uint32_t value;
  tutti_comm *self = make_self(p);
  tutti_request *request = start_in_vain(p, self, &value, 0);
  bool done = false;
  expect(p, !tutti_request_done(request), "open");
  tutti_abort(self, "for the test");
  expect(p, tutti_request_done(request), "a wait returns at once");
  expect_error(p, self, tutti_wait_for(&request, LONG_MS, &done), TUTTI_ERR_ABORTED, "for the test");
  expect(p, done && !request, "the request has failed");
  (void)tutti_comm_free(self);
}

struct partitioned {
  struct player *p;
  tutti_request *request;
};

/* Calls that are not allowed within on_ready. */
static void try_within(void *context, size_t first, size_t count) {
  struct partitioned *in = context;
  struct player *p = in->p;
  uint32_t value;
  const tutti_call call = receive_of(&value, 0, 1);
  tutti_request *list[2] = {NULL, in->request};
  size_t indices[2], found = 7;
  bool done = true;
  (void)first, (void)count;
  for (int limit = -1; limit < 2; limit++) {
    expect_error(p, NULL, tutti_wait_for(&list[1], limit, &done), TUTTI_ERR_ARGUMENT, "on_ready");
    expect(p, !done, "nothing is found");
  }
  expect_error(p, NULL, tutti_test_some(list, 2, indices, &found), TUTTI_ERR_ARGUMENT, "on_ready");
  expect_error(p, NULL, tutti_check_call(p->comm, &call), TUTTI_ERR_ARGUMENT, "on_ready");
  expect(p, found == 0 && !tutti_request_done(list[1]), "nothing is found");
}

/* Input of a partitioned call is missing. A wait without a limit would never end. */
static void input_is_missing(struct player *p) {
  struct partitioned parts = {.p = p};
  uint32_t in[2] = {1, 2}, out[2] = {0};
  const tutti_call call = {.collective = TUTTI_ALLREDUCE,
                           .send = in,
                           .recv = out,
                           .count = 2,
                           .type = TUTTI_U32,
                           .in_parts = true,
                           .on_ready = try_within,
                           .on_ready_context = &parts};
  bool done = true;
  good(p, tutti_check_call(p->comm, &call), "check a call in parts");
  if (!good(p, tutti_start(p->comm, &call, &parts.request), "start")) return;
  good(p, tutti_wait_for(&parts.request, 2, &done), "a wait with a limit");
  expect(p, !done, "open");
  expect_error(p, NULL, tutti_wait_for(&parts.request, TUTTI_NO_TIMEOUT, &done), TUTTI_ERR_ARGUMENT,
               "filled|allreduce");
  expect(p, !done && parts.request, "open after a refused wait");
  good(p, tutti_request_fill(parts.request, 0, 2), "fill");
  good(p, tutti_wait_for(&parts.request, TUTTI_NO_TIMEOUT, &done), "wait");
  expect(p, done && out[1] == 2 * p->ranks, "the sum is right");
}

static void wrong_waits(struct player *p) {
  uint32_t value;
  tutti_comm *self = make_self(p);
  tutti_request *none = NULL, *request = start_in_vain(p, self, &value, 0), *unstarted;
  const tutti_call call = receive_of(&value, 0, 9);
  bool done = true;
  expect_error(p, NULL, tutti_wait_for(NULL, 0, &done), TUTTI_ERR_ARGUMENT, "tutti_wait_for|request|NULL");
  expect_error(p, NULL, tutti_wait_for(&request, 0, NULL), TUTTI_ERR_ARGUMENT, "tutti_wait_for|done|NULL");
  expect_error(p, NULL, tutti_wait_for(&request, -2, &done), TUTTI_ERR_ARGUMENT, "tutti_wait_for|timeout_ms|-2");
  expect(p, !done && request, "nothing was done");
  good(p, tutti_wait_for(&none, LONG_MS, &done), "wait for no request");
  expect(p, done, "no request is complete");
  if (!good(p, tutti_prepare(self, &call, &unstarted), "prepare")) return;
  for (int limit = -1; limit < 2; limit++) {
    expect_error(p, NULL, tutti_wait_for(&unstarted, limit, &done), TUTTI_ERR_ARGUMENT, "tutti_restart");
    expect(p, !done, "a request that was not started");
  }
  good(p, tutti_send(self, &value, 1, TUTTI_U32, 0, 9), "send");
  good(p, tutti_wait_for(&request, LONG_MS, &done), "wait");
  expect(p, done && !request, "complete");
  tutti_request_free(unstarted);
  good(p, tutti_comm_free(self), "free");
}

/* Rank 1 dies. Its peers learn of it, however short their waits are. */
static void a_rank_dies(struct player *p) {
  uint32_t value;
  const tutti_call call = receive_of(&value, 1, 3);
  tutti_request *request;
  bool done = false;
  good(p, tutti_barrier(p->comm), "barrier");
  if (p->is_thread) return;
  if (p->rank == 1) raise(SIGKILL);
  tutti_err err = tutti_start(p->comm, &call, &request);
  while (err == TUTTI_OK && !done) err = tutti_wait_for(&request, p->rank % 2, &done);
  expect_error(p, p->comm, err, TUTTI_ERR_PEER, "rank 1");
}

/* ---- tutti_test_some ---- */

/* A list of receives on two communicators, between entries that are skipped. The message of position i has tag i. */
struct list {
  tutti_request *requests[LISTED];
  uint32_t values[LISTED];
  bool found[LISTED];
  size_t indices[LISTED], open;
};

static bool start_list(struct player *p, tutti_comm *const comms[2], struct list *l) {
  const uint32_t before = (p->rank + p->ranks - 1) % p->ranks;
  *l = (struct list){0};
  for (uint32_t i = 0; i < LISTED; i++) {
    const tutti_call call = receive_of(&l->values[i], before, i);
    if (i % 6 == 3) {
      if (!good(p, tutti_prepare(comms[0], &call, &l->requests[i]), "prepare")) return false;
    } else if (i % 6 != 5) {
      if (!good(p, tutti_start(comms[i % 2], &call, &l->requests[i]), "start")) return false;
      l->open++;
    }
  }
  return true;
}

static bool note_found(struct player *p, struct list *l, size_t count) {
  for (size_t k = 0; k < count; k++) {
    const size_t i = l->indices[k];
    if (i >= LISTED || l->found[i] || l->requests[i] || l->values[i] != 100 + i || (k > 0 && i <= l->indices[k - 1])) {
      wrong(p, "rank %u: position %zu is found as number %zu: value %u", p->rank, i, k, i < LISTED ? l->values[i] : 0);
      return false;
    }
    l->found[i] = true;
    l->open--;
  }
  return true;
}

static void a_list(struct player *p) {
  tutti_comm *comms[2] = {p->comm, NULL};
  struct list l;
  size_t count = 9;
  const uint32_t next = (p->rank + 1) % p->ranks, first = (uint32_t)p->seed % LISTED;
  if (!good(p, tutti_comm_dup(p->comm, &comms[1]), "dup") || !start_list(p, comms, &l)) return;
  good(p, tutti_test_some(l.requests, LISTED, l.indices, &count), "test_some");
  expect(p, count == 0, "nothing is complete");
  troupe_meet(p);
  for (uint32_t k = 0; k < LISTED; k++) { /* 7 and LISTED have no common factor */
    const uint32_t i = (first + 7 * k) % LISTED, value = 100 + i;
    if (i % 6 != 3 && i % 6 != 5) good(p, tutti_send(comms[i % 2], &value, 1, TUTTI_U32, next, i), "send");
    good(p, tutti_test_some(l.requests, LISTED, l.indices, &count), "test_some");
    if (!note_found(p, &l, count)) return;
  }
  while (l.open > 0)
    if (!good(p, tutti_test_some(l.requests, LISTED, l.indices, &count), "test_some") || !note_found(p, &l, count))
      return;
  good(p, tutti_test_some(l.requests, LISTED, l.indices, &count), "test_some of nothing");
  expect(p, count == 0, "all are skipped");
  for (uint32_t i = 3; i < LISTED; i += 6) tutti_request_free(l.requests[i]);
  good(p, tutti_comm_free(comms[1]), "free");
}

/* Only the requests of one communicator fail. Each call that finds one stops there. */
static void failures_in_a_list(struct player *p) {
  uint32_t values[3];
  tutti_comm *fails = make_self(p), *stays = make_self(p);
  tutti_request *list[6] = {NULL};
  size_t indices[6], count = 0;
  if (!fails || !stays) return;
  for (size_t i = 0; i < 3; i++) list[2 * i] = start_in_vain(p, fails, &values[i], 0);
  for (size_t i = 1; i < 6; i += 2) good(p, tutti_ibarrier(stays, &list[i]), "start"); /* complete at once */
  tutti_abort(fails, "for the test");
  for (size_t round = 0; round < 3; round++) {
    const size_t last = 2 * round, want = round == 0 ? 1 : 2;
    expect_error(p, fails, tutti_test_some(list, 6, indices, &count), TUTTI_ERR_ABORTED, "for the test");
    if (count != want || indices[count - 1] != last || (count == 2 && indices[0] != last - 1) || list[last])
      wrong(p, "rank %u, round %zu: %zu found, the last is %zu", p->rank, round, count, indices[count - 1]);
  }
  good(p, tutti_test_some(list, 6, indices, &count), "the rest");
  expect(p, count == 1 && indices[0] == 5 && !list[5], "the last request is found");
  (void)tutti_comm_free(fails);
  good(p, tutti_comm_free(stays), "free");
}

/* The calls of a request that is never complete are looked after, although another one always is. */
static void a_late_call_in_a_list(struct player *p) {
  uint32_t value;
  tutti_comm *late = make_self(p), *busy = make_self(p);
  tutti_request *list[2] = {NULL, start_in_vain(p, late, &value, 30)};
  size_t indices[2], count;
  tutti_err err = TUTTI_OK;
  while (err == TUTTI_OK && good(p, tutti_ibarrier(busy, &list[0]), "start"))
    err = tutti_test_some(list, 2, indices, &count);
  expect_error(p, late, err, TUTTI_ERR_TIMEOUT, "30 ms|recv");
  (void)tutti_comm_free(late);
  good(p, tutti_comm_free(busy), "free");
}

static void persistent_requests(struct player *p) {
  uint32_t in = 1, out = 0;
  tutti_request *request;
  size_t index, count = 0;
  const tutti_call call = {.collective = TUTTI_ALLREDUCE, .send = &in, .recv = &out, .count = 1, .type = TUTTI_U32};
  if (!good(p, tutti_prepare(p->comm, &call, &request), "prepare")) return;
  expect(p, tutti_request_done(request), "not started: done");
  for (uint32_t round = 1; round < 4; round++) {
    bool done = false;
    in = round;
    if (!good(p, tutti_restart(request), "restart")) return;
    for (count = 0; count == 0;)
      if (!good(p, tutti_test_some(&request, 1, &index, &count), "test_some")) return;
    expect(p, request && index == 0 && out == round * p->ranks, "complete, and not freed");
    good(p, tutti_test_some(&request, 1, &index, &count), "test_some");
    good(p, tutti_wait_for(&request, 0, &done), "wait_for");
    expect(p, count == 1 && done && request && tutti_request_done(request), "found again");
  }
  tutti_request_free(request);
}

static void wrong_lists(struct player *p) {
  tutti_request *none[3] = {NULL};
  size_t indices[3] = {7, 7, 7}, count = 5;
  expect_error(p, NULL, tutti_test_some(NULL, 1, indices, &count), TUTTI_ERR_ARGUMENT, "tutti_test_some|requests|NULL");
  expect_error(p, NULL, tutti_test_some(none, 1, NULL, &count), TUTTI_ERR_ARGUMENT, "tutti_test_some|indices|NULL");
  expect_error(p, NULL, tutti_test_some(none, 1, indices, NULL), TUTTI_ERR_ARGUMENT, "tutti_test_some|done|NULL");
  count = 5;
  good(p, tutti_test_some(NULL, 0, NULL, &count), "an empty list");
  expect(p, count == 0, "nothing in an empty list");
  count = 5;
  good(p, tutti_test_some(none, 3, indices, &count), "a list of NULL");
  expect(p, count == 0 && indices[0] == 7, "nothing in a list of NULL");
}

/* ---- tutti_request_done ---- */

/* Ranks that are processes: no other thread advances the request. */
static void not_advanced(struct player *p) {
  uint32_t value = 0, sent = 5;
  const tutti_call call = receive_of(&value, 0, 3);
  tutti_request *request = NULL;
  expect(p, tutti_request_done(NULL), "NULL is done");
  if (p->rank > 0 && !good(p, tutti_start(p->comm, &call, &request), "start")) return;
  troupe_meet(p);
  for (uint32_t r = 1; p->rank == 0 && r < p->ranks; r++)
    good(p, tutti_send(p->comm, &sent, 1, TUTTI_U32, r, 3), "send");
  troupe_meet(p);
  if (p->rank > 0 && !p->is_thread) expect(p, !tutti_request_done(request), "open until it is advanced");
  while (!tutti_request_done(request))
    if (!good(p, tutti_progress(p->comm, 1), "progress")) return;
  expect(p, p->rank == 0 || value == 5, "the message is there");
  good(p, tutti_wait(&request), "wait");
}

static void a_group(struct player *p) {
  uint32_t values[2] = {0}, sent = 6;
  const tutti_call calls[2] = {receive_of(&values[0], 0, 0), receive_of(&values[1], 0, 1)};
  tutti_comm *self = make_self(p);
  tutti_request *request;
  if (!self || !good(p, tutti_start_all(self, calls, 2, &request), "start")) return;
  good(p, tutti_send(self, &sent, 1, TUTTI_U32, 0, 1), "send");
  bool done = true;
  good(p, tutti_wait_for(&request, 1, &done), "wait");
  expect(p, !done && !tutti_request_done(request), "one call of the group is open");
  good(p, tutti_send(self, &sent, 1, TUTTI_U32, 0, 0), "send");
  good(p, tutti_wait_for(&request, LONG_MS, &done), "wait");
  expect(p, done && !request && values[0] == 6, "complete");
  good(p, tutti_comm_free(self), "free");
}

/* ---- threads ---- */

struct watcher {
  tutti_request *request; /* persistent, so a wait does not free it */
  const uint32_t *out;
  uint32_t seen;
  _Atomic bool has_seen;
};

static void *watch(void *argument) {
  struct watcher *w = argument;
  while (!tutti_request_done(w->request)) sched_yield();
  w->seen = *w->out;
  atomic_store(&w->has_seen, true);
  return NULL;
}

/* A thread asks again and again, while another one waits or advances. What it reads without a lock is the result. */
static void watched(struct player *p) {
  uint32_t in, out = 0;
  tutti_request *request;
  const tutti_call call = {.collective = TUTTI_ALLREDUCE, .send = &in, .recv = &out, .count = 1, .type = TUTTI_U32};
  if (!good(p, tutti_prepare(p->comm, &call, &request), "prepare")) return;
  for (uint32_t round = 0; round < ROUNDS; round++) {
    in = round + 1;
    if (!good(p, tutti_restart(request), "restart")) return;
    struct watcher w = {.request = request, .out = &out};
    pthread_t thread = begin(watch, &w);
    if (round % 2) good(p, tutti_wait(&request), "wait");
    while (!atomic_load(&w.has_seen) && good(p, tutti_progress(p->comm, 1), "progress")) continue;
    pthread_join(thread, NULL);
    expect(p, w.seen == (round + 1) * p->ranks, "a thread that finds the request done sees its result");
    good(p, tutti_wait(&request), "wait");
  }
  tutti_request_free(request);
}

struct crowd {
  struct player *p;
  _Atomic uint32_t numbers, left;
};

/* Exchanges messages with the neighbours, with tags of this thread only. */
static void *exchange(void *argument) {
  struct crowd *c = argument;
  struct player *p = c->p;
  const uint32_t tag = atomic_fetch_add(&c->numbers, 1), next = (p->rank + 1) % p->ranks;
  const uint32_t before = (p->rank + p->ranks - 1) % p->ranks;
  for (uint32_t round = 0; round < ROUNDS; round++) {
    uint32_t out[2] = {round, round + 1}, in[2] = {0};
    tutti_request *list[4] = {NULL};
    size_t indices[4], found = 0, count;
    for (uint32_t i = 0; i < 2; i++) {
      good(p, tutti_irecv(p->comm, &in[i], 1, TUTTI_U32, before, tag, &list[i]), "irecv");
      good(p, tutti_isend(p->comm, &out[i], 1, TUTTI_U32, next, tag, &list[2 + i]), "isend");
    }
    for (; found < 4; found += count)
      if (!good(p, tutti_test_some(list, 4, indices, &count), "test_some")) break;
    expect(p, in[0] == round && in[1] == round + 1 && !list[0] && !list[3], "the messages are there");
  }
  atomic_fetch_sub(&c->left, 1);
  return NULL;
}

static void *set_and_get(void *argument) {
  struct crowd *c = argument;
  do {
    tutti_comm_set_user(c->p->comm, c);
    if (tutti_comm_user(c->p->comm) != c) wrong(c->p, "another pointer");
  } while (atomic_load(&c->left) > 0);
  return NULL;
}

static void lists_of_threads(struct player *p) {
  struct crowd c = {.p = p, .left = THREADS};
  pthread_t threads[THREADS], other = begin(set_and_get, &c);
  for (int i = 0; i < THREADS; i++) threads[i] = begin(exchange, &c);
  while (atomic_load(&c.left) > 0) good(p, tutti_progress(p->comm, 1), "progress");
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  pthread_join(other, NULL);
  expect(p, tutti_comm_user(p->comm) == &c, "the pointer");
  is_usable(p);
}

/* ---- tutti_check_call ---- */

static void would_be_refused(struct player *p) {
  static uint32_t memory[64];
  uint32_t value = 0;
  tutti_message m;
  const tutti_call bad[] = {
      {.collective = (tutti_collective)99},
      {.collective = TUTTI_ALLREDUCE, .send = &value, .recv = &value, .count = 1, .type = (tutti_datatype)99},
      {.collective = TUTTI_ALLREDUCE, .send = memory, .recv = memory + 1, .count = 4, .type = TUTTI_U32},
      {.collective = TUTTI_ALLREDUCE, .recv = memory, .count = 4, .type = TUTTI_U32},
      {.collective = TUTTI_BROADCAST, .recv = memory, .count = 4, .type = TUTTI_U32, .root = p->ranks},
      {.collective = TUTTI_SEND, .send = &value, .count = 1, .type = TUTTI_U32, .tag = TUTTI_ANY_TAG},
      {.collective = TUTTI_SEND, .send = &value, .count = 1, .type = TUTTI_U32, .flags = TUTTI_ANY_SHAPE},
      {.collective = TUTTI_SEND, .send = &value, .count = 1, .type = TUTTI_U32, .flags = 1u << 30},
      {.collective = TUTTI_RECV, .recv = &value, .count = 1, .type = TUTTI_U32, .peer = p->ranks},
      {.collective = TUTTI_BARRIER, .algorithm = "none"},
      {.collective = TUTTI_BARRIER, .timeout_ms = -2},
      {.collective = TUTTI_BARRIER, .message = &m},
      {.collective = TUTTI_ALLREDUCE, .send = memory, .recv = memory + 8, .count = 4, .lanes = 9},
      {.collective = TUTTI_ALLGATHERV, .send = memory, .recv = memory + 8, .type = TUTTI_U32},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    char said[600];
    tutti_comm *dup;
    tutti_request *request;
    if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
    const tutti_err checked = tutti_check_call(dup, &bad[i]);
    snprintf(said, sizeof said, "%s", tutti_error_message(NULL));
    good(p, tutti_barrier(dup), "the communicator is usable after the checks of all ranks");
    troupe_meet(p);
    if (checked == TUTTI_OK) wrong(p, "call %zu is accepted", i);
    if (p->rank == 0) {
      const tutti_err started = tutti_start(dup, &bad[i], &request);
      if (started != checked || strcmp(said, tutti_error_message(dup)) != 0)
        wrong(p, "call %zu: checked: %s: %s; started: %s: %s", i, tutti_err_name(checked), said,
              tutti_err_name(started), tutti_error_message(dup));
    }
    troupe_meet(p);
    (void)tutti_comm_free(dup);
  }
}

/* Checked calls are not started: the counts of collectives of the ranks differ in nothing, and no message is lost. */
static void would_be_accepted(struct player *p) {
  uint32_t in = 1, out = 0;
  const uint32_t next = (p->rank + 1) % p->ranks, before = (p->rank + p->ranks - 1) % p->ranks;
  const tutti_call sum = {.collective = TUTTI_ALLREDUCE, .send = &in, .recv = &out, .count = 1, .type = TUTTI_U32};
  const tutti_call gets = receive_of(&out, before, 1);
  tutti_request *request;
  for (uint32_t i = 0; i < 5; i++) {
    for (uint32_t k = 0; k <= p->rank; k++) { /* a different number of times on each rank */
      good(p, tutti_check_call(p->comm, &sum), "check");
      good(p, tutti_check_call(p->comm, &gets), "check");
    }
    good(p, tutti_run_call(p->comm, &sum), "allreduce");
    expect(p, out == p->ranks, "the sum is right");
    good(p, tutti_start(p->comm, &gets, &request), "start");
    good(p, tutti_check_call(p->comm, &gets), "check while a call is open");
    good(p, tutti_send(p->comm, &i, 1, TUTTI_U32, next, 1), "send");
    good(p, tutti_wait(&request), "wait");
    expect(p, out == i, "the message is right");
  }
}

static void wrong_checks(struct player *p) {
  struct {
    tutti_call call;
    uint64_t later; /* a field that this version does not have */
  } longer = {.call = {.collective = TUTTI_BARRIER}};
  const tutti_call barrier = {.collective = TUTTI_BARRIER};
  tutti_comm *dup;
  expect_error(p, NULL, tutti_check_call(NULL, &barrier), TUTTI_ERR_ARGUMENT, "tutti_check_call|comm|NULL");
  expect_error(p, NULL, tutti_check_call(p->comm, NULL), TUTTI_ERR_ARGUMENT, "tutti_check_call|call|NULL");
  good(p, tutti_check_call_sized(p->comm, &longer.call, sizeof longer), "a longer struct");
  longer.later = 1;
  expect_error(p, NULL, tutti_check_call_sized(p->comm, &longer.call, sizeof longer), TUTTI_ERR_ARGUMENT,
               "tutti_check_call|bytes");
  if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
  if (p->rank == 0) tutti_abort(dup, "for the test");
  tutti_err err = TUTTI_OK;
  while (err == TUTTI_OK) err = tutti_check_call(dup, &barrier);
  expect_error(p, NULL, err, TUTTI_ERR_ABORTED, "rank 0|for the test");
  (void)tutti_comm_free(dup);
  is_usable(p);
}

/* ---- the pointer of a communicator ---- */

static void a_pointer(struct player *p) {
  int here, there;
  tutti_comm *dup, *half, *self = make_self(p);
  expect(p, !tutti_comm_user(p->comm), "NULL at first");
  tutti_comm_set_user(p->comm, &here);
  if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
  if (!good(p, tutti_comm_split(p->comm, (int)(p->rank % 2), 0, &half), "split")) return;
  expect(p, !tutti_comm_user(dup) && !tutti_comm_user(half) && !tutti_comm_user(self), "not inherited");
  tutti_comm_set_user(dup, &there);
  expect(p, tutti_comm_user(p->comm) == &here && tutti_comm_user(dup) == &there, "one of each communicator");
  tutti_comm_set_user(p->comm, NULL);
  expect(p, !tutti_comm_user(p->comm), "NULL again");
  tutti_abort(dup, NULL);
  expect(p, tutti_comm_user(dup) == &there, "after a failure");
  good(p, tutti_comm_free(self), "free");
  good(p, tutti_comm_free(half), "free");
  troupe_meet(p);
  (void)tutti_comm_free(dup);
}

static const struct troupe_case cases[] = {
    {TROUPE_CASE(a_wait_is_given_up)},
    {TROUPE_CASE(collectives)},
    {TROUPE_CASE(a_call_is_too_late)},
    {TROUPE_CASE(a_communicator_fails)},
    {TROUPE_CASE(input_is_missing)},
    {TROUPE_CASE(wrong_waits)},
    {TROUPE_CASE(a_list)},
    {TROUPE_CASE(failures_in_a_list)},
    {TROUPE_CASE(a_late_call_in_a_list)},
    {TROUPE_CASE(persistent_requests)},
    {TROUPE_CASE(wrong_lists)},
    {TROUPE_CASE(not_advanced)},
    {TROUPE_CASE(a_group)},
    {TROUPE_CASE(watched)},
    {TROUPE_CASE(lists_of_threads)},
    {TROUPE_CASE(would_be_refused)},
    {TROUPE_CASE(would_be_accepted)},
    {TROUPE_CASE(wrong_checks)},
    {TROUPE_CASE(a_pointer)},
    {TROUPE_CASE(a_rank_dies), .rank_1_dies = true, .fails = true},
};

int main(int argc, char **argv) {
  const struct troupe_transport transports[] = {
#ifndef __SANITIZE_THREAD__
      {"shm", troupe_over_shm, {1, 2, 3}},
      {"hosts", troupe_over_processes_of_two_hosts, {2, 3}},
#endif
      {"loop", troupe_over_loop, {1, 2, 3}},
      {"two_hosts", troupe_over_two_hosts, {2, 3}},
      {0}};
  return troupe_main(cases, sizeof cases / sizeof cases[0], transports, argc, argv);
}
