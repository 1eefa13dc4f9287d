/* test: slow timeout=240 */
/* threads_test.c: several threads in one communicator. Overlapping calls take turns; all succeed with correct results.
 * While one thread waits, others start, test and wait. A request that one thread started may be completed by another.
 * Also runs under TSan. */
#include <tutti/mesh.h>
#include <tutti/window.h>

#include "troupe.h"

enum { THREADS = 4, ITEMS = 200 };
#ifdef __SANITIZE_THREAD__
enum { UNDER_TSAN = true };
#else
enum { UNDER_TSAN = false };
#endif

static pthread_t begin(void *(*body)(void *), void *argument) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, body, argument) != 0) abort();
  return thread;
}

/* ---- one thread waits for a collective while another sends what the peer receives first ---- */

static void *wait_for_it(void *argument) {
  tutti_request **request = argument;
  return tutti_wait(request) == TUTTI_OK ? argument : NULL;
}

static void a_send_behind_a_wait(struct player *p) {
  static const size_t counts[] = {1, 100, 100000};
  uint32_t next = (p->rank + 1) % p->ranks, before = (p->rank + p->ranks - 1) % p->ranks;
  for (size_t c = 0; c < 3; c++) {
    int32_t *in = calloc(counts[c], sizeof *in), *out = calloc(counts[c], sizeof *out), token = (int32_t)p->rank,
            got = -1;
    in[0] = 1;
    const tutti_call call = {
        .collective = TUTTI_ALLREDUCE, .send = in, .recv = out, .count = counts[c], .type = TUTTI_I32};
    tutti_request *request = NULL;
    if (p->rank == 0) { /* rank 0 starts the collective only when it has the message */
      good(p, tutti_recv(p->comm, &got, 1, TUTTI_I32, before, 7), "tutti_recv");
      good(p, tutti_start(p->comm, &call, &request), "tutti_start");
      good(p, tutti_send(p->comm, &token, 1, TUTTI_I32, next, 7), "tutti_send");
      good(p, tutti_wait(&request), "tutti_wait");
    } else {
      void *waited;
      good(p, tutti_start(p->comm, &call, &request), "tutti_start");
      pthread_t waiter = begin(wait_for_it, &request);
      usleep(c == 1 ? 30000 : 0); /* the waiter polls, or sleeps by now */
      good(p, tutti_send(p->comm, &token, 1, TUTTI_I32, next, 7), "tutti_send");
      good(p, tutti_recv(p->comm, &got, 1, TUTTI_I32, before, 7), "tutti_recv");
      pthread_join(waiter, &waited);
      if (!waited) wrong(p, "rank %u: the waiting thread failed: %s", p->rank, tutti_error_message(p->comm));
    }
    if (got != (int32_t)before || out[0] != (int32_t)p->ranks) wrong(p, "rank %u: %d, %d", p->rank, got, out[0]);
    free(in);
    free(out);
  }
}

/* ---- a second thread makes every kind of call while the first one waits ---- */

struct second {
  struct player *p;
  tutti_request *persistent;
  int32_t sum;
};

static void told(void *context, size_t first, size_t count) {
  (void)first;
  atomic_fetch_add((_Atomic size_t *)context, count);
}

static void *come_second(void *argument) {
  struct second *s = argument;
  struct player *p = s->p;
  tutti_comm *comm = p->comm, *copy = NULL, *half = NULL, *self = NULL;
  tutti_window *window = NULL;
  tutti_mesh *mesh = NULL;
  int32_t x = 1, y = 0;
  float f[3] = {1, 2, 3}, g[3];
  bool done = false;
  size_t index = 9;
  tutti_request *request = NULL, *two[2] = {NULL, NULL};
  const tutti_call call = {.collective = TUTTI_ALLREDUCE, .send = f, .recv = g, .count = 3, .type = TUTTI_F32};
  good(p, tutti_barrier(comm), "tutti_barrier");
  good(p, tutti_allreduce(comm, &x, &y, 1, TUTTI_I32, TUTTI_SUM), "tutti_allreduce");
  good(p, tutti_start(comm, &call, &request), "tutti_start");
  while (!done && tutti_test(&request, &done) == TUTTI_OK) continue;
  good(p, tutti_start(comm, &call, &two[0]), "tutti_start");
  good(p, tutti_start(comm, &call, &two[1]), "tutti_start");
  good(p, tutti_wait_any(two, 2, &index), "tutti_wait_any");
  good(p, tutti_wait_all(two, 2), "tutti_wait_all");
  good(p, tutti_start(comm, &call, NULL), "tutti_start");
  good(p, tutti_wait_all(NULL, 0), "tutti_wait_all of this thread's requests");
  good(p, tutti_restart(s->persistent), "tutti_restart");
  good(p, tutti_progress(comm, 0), "tutti_progress");
  good(p, tutti_wait(&s->persistent), "tutti_wait");
  good(p, tutti_comm_dup(comm, &copy), "tutti_comm_dup");
  good(p, tutti_comm_split(comm, (int)(p->rank % 2), 0, &half), "tutti_comm_split");
  good(p, tutti_comm_self(comm, &self), "tutti_comm_self");
  good(p, tutti_window_create(comm, NULL, 64, &window), "tutti_window_create");
  good(p, tutti_mesh_create(comm, 1, &p->ranks, &mesh), "tutti_mesh_create");
  if (index > 1 || y != (int32_t)p->ranks || g[2] != 3 * (float)p->ranks)
    wrong(p, "rank %u: %zu, %d, %g", p->rank, index, y, (double)g[2]);
  good(p, tutti_mesh_free(mesh), "tutti_mesh_free");
  good(p, tutti_window_free(window), "tutti_window_free");
  good(p, tutti_comm_free(self), "tutti_comm_free");
  good(p, tutti_comm_free(half), "tutti_comm_free");
  good(p, tutti_comm_free(copy), "tutti_comm_free");
  s->sum = y;
  return NULL;
}

/* The first thread waits for a message that is sent when the second threads of all ranks are done. */
static void a_second_thread_does_all(struct player *p) {
  int32_t late[ITEMS], x = 3, z = 0, in[ITEMS], out[ITEMS];
  _Atomic size_t heard = 0;
  uint32_t next = (p->rank + 1) % p->ranks, before = (p->rank + p->ranks - 1) % p->ranks;
  struct second s = {.p = p};
  const tutti_call kept = {.collective = TUTTI_ALLREDUCE, .send = &x, .recv = &z, .count = 1, .type = TUTTI_I32};
  const tutti_call receives = {
      .collective = TUTTI_RECV, .recv = late, .count = ITEMS, .type = TUTTI_I32, .peer = before, .tag = 5};
  const tutti_call sums = {.collective = TUTTI_ALLREDUCE,
                           .send = in,
                           .recv = out,
                           .count = ITEMS,
                           .type = TUTTI_I32,
                           .on_ready = told,
                           .on_ready_context = &heard};
  tutti_request *request = NULL, *sum = NULL;
  for (int i = 0; i < ITEMS; i++) in[i] = i;
  if (!good(p, tutti_prepare(p->comm, &kept, &s.persistent), "tutti_prepare")) return;
  if (!good(p, tutti_start(p->comm, &sums, &sum), "tutti_start")) return;
  if (!good(p, tutti_start(p->comm, &receives, &request), "tutti_start")) return;
  pthread_t waiter = begin(wait_for_it, &request), second = begin(come_second, &s);
  pthread_join(second, NULL);
  troupe_meet(p);
  good(p, tutti_wait(&sum), "tutti_wait");
  good(p, tutti_send(p->comm, in, ITEMS, TUTTI_I32, next, 5), "tutti_send");
  void *waited;
  pthread_join(waiter, &waited);
  if (!waited || request) wrong(p, "rank %u: the first thread: %s", p->rank, tutti_error_message(p->comm));
  if (late[7] != 7 || out[5] != 5 * (int32_t)p->ranks || heard != ITEMS || z != 3 * (int32_t)p->ranks)
    wrong(p, "rank %u: %d, %d, on_ready for %zu elements, %d", p->rank, late[7], out[5], heard, z);
  tutti_request_free(s.persistent);
}

/* ---- one thread fills the input of a request that another waits for ---- */

static void *fill_slowly(void *argument) {
  tutti_request *request = argument;
  for (size_t i = 0; i < ITEMS; i += 50) {
    usleep(1000);
    if (tutti_request_fill(request, i, 50) != TUTTI_OK) return NULL;
  }
  return argument;
}

struct filled {
  struct player *p;
  const tutti_call *call;
  tutti_request *request;
};

static void *start_parts(void *argument) {
  struct filled *f = argument;
  good(f->p, tutti_start(f->p->comm, f->call, &f->request), "tutti_start");
  return NULL;
}

static void another_thread_fills(struct player *p) {
  int32_t in[ITEMS], out[ITEMS];
  for (int i = 0; i < ITEMS; i++) in[i] = i;
  const tutti_call call = {
      .collective = TUTTI_ALLREDUCE, .send = in, .recv = out, .count = ITEMS, .type = TUTTI_I32, .in_parts = true};
  struct filled f = {.p = p, .call = &call};
  pthread_join(begin(start_parts, &f), NULL);
  if (!f.request) return;
  pthread_t filler = begin(fill_slowly, f.request);
  good(p, tutti_wait(&f.request), "tutti_wait while another thread fills");
  void *filled;
  pthread_join(filler, &filled);
  if (!filled || out[9] != 9 * (int32_t)p->ranks) wrong(p, "rank %u: %d", p->rank, out[9]);
}

/* ---- 4 threads in one communicator with random starts, tests and waits; a fifth thread may abort ---- */

/* Threads of one rank. All ranks run the same steps: collectives in the order of a counter, messages with a tag per
 * thread. */
struct crowd {
  struct player *p;
  uint32_t steps;
  pthread_mutex_t order; /* held while a collective is numbered and started */
  uint32_t collectives;
  _Atomic uint32_t done;
  _Atomic bool ended; /* aborted, so that errors are expected */
};
struct worker {
  struct crowd *c;
  uint32_t number;
};

static int32_t item(uint32_t rank, uint32_t call, uint32_t i) { return (int32_t)(rank * 7 + call * 3 + i); }

static bool ends(struct crowd *c, tutti_err err, const char *doing) {
  if (err == TUTTI_OK) return false;
  if (!c->ended || err != TUTTI_ERR_ABORTED)
    wrong(c->p, "rank %u, %s: %s %s", c->p->rank, doing, tutti_err_name(err), tutti_error_message(c->p->comm));
  return true;
}

static tutti_err end_one(tutti_request **request, uint64_t choice) {
  bool done = false;
  tutti_err err = TUTTI_OK;
  if (choice % 3 == 0) return tutti_wait(request);
  if (choice % 3 == 1) {
    size_t index;
    return tutti_wait_any(request, 1, &index);
  }
  while (err == TUTTI_OK && !done) err = tutti_test(request, &done);
  return err;
}

static bool one_collective(struct crowd *c, uint64_t choice) {
  int32_t in[ITEMS], out[ITEMS];
  tutti_request *request = NULL;
  uint32_t n = c->p->ranks;
  pthread_mutex_lock(&c->order);
  uint32_t call = c->collectives++, count = call % 4 == 0 ? ITEMS : 1 + call % 8;
  for (uint32_t i = 0; i < count; i++) in[i] = item(c->p->rank, call, i);
  const tutti_call describes = {
      .collective = TUTTI_ALLREDUCE, .send = in, .recv = out, .count = count, .type = TUTTI_I32};
  bool blocks = call % 5 == 0;
  tutti_err err = blocks ? tutti_allreduce(c->p->comm, in, out, count, TUTTI_I32, TUTTI_SUM)
                         : tutti_start(c->p->comm, &describes, &request);
  pthread_mutex_unlock(&c->order);
  if (ends(c, err, "start")) return false;
  if (!blocks && ends(c, end_one(&request, choice), "wait")) return false;
  for (uint32_t i = 0; i < count; i++)
    if (out[i] != (int32_t)(7 * n * (n - 1) / 2) + (int32_t)n * item(0, call, i)) {
      wrong(c->p, "rank %u, collective %u: element %u is %d", c->p->rank, call, i, out[i]);
      return false;
    }
  return true;
}

static bool one_exchange(struct crowd *c, const struct worker *w, uint32_t step, uint64_t choice) {
  uint32_t next = (c->p->rank + 1) % c->p->ranks, before = (c->p->rank + c->p->ranks - 1) % c->p->ranks;
  int32_t in[ITEMS], out[ITEMS];
  uint32_t count = step % 6 == 0 ? ITEMS : 2, tag = w->number * 1000000 + step;
  for (uint32_t i = 0; i < count; i++) in[i] = item(c->p->rank, step, i);
  const tutti_call calls[2] = {
      {.collective = TUTTI_RECV, .recv = out, .count = count, .type = TUTTI_I32, .peer = before, .tag = tag},
      {.collective = TUTTI_SEND, .send = in, .count = count, .type = TUTTI_I32, .peer = next, .tag = tag}};
  tutti_request *request = NULL;
  if (ends(c, tutti_start_all(c->p->comm, calls, 2, &request), "group")) return false;
  if (ends(c, end_one(&request, choice), "wait for the group")) return false;
  for (uint32_t i = 0; i < count; i++)
    if (out[i] != item(before, step, i)) {
      wrong(c->p, "rank %u, message %u of thread %u: element %u is %d", c->p->rank, step, w->number, i, out[i]);
      return false;
    }
  return true;
}

/* All ranks choose the same kind for a step; how to wait for it is random on each rank. */
static void *work(void *argument) {
  struct worker *w = argument;
  struct crowd *c = w->c;
  uint64_t seed = c->p->seed + 100 * c->p->rank + w->number;
  for (uint32_t step = 0; step < c->steps && c->p->stage->failures == 0; step++) {
    uint64_t choice = tu_random(&seed);
    bool collective = (step * 2654435761u >> 7) % 3 != w->number % 3;
    if (!(collective ? one_collective(c, choice) : one_exchange(c, w, step, choice))) break;
    atomic_fetch_add(&c->done, 1);
    if (choice % 64 == 0) usleep(100);
  }
  return NULL;
}

static void crowd(struct player *p, uint32_t steps, bool aborts) {
  struct crowd c = {.p = p, .steps = steps, .order = PTHREAD_MUTEX_INITIALIZER};
  struct worker workers[THREADS];
  pthread_t threads[THREADS];
  if (aborts) c.ended = true;
  for (uint32_t i = 0; i < THREADS; i++) {
    workers[i] = (struct worker){&c, i};
    threads[i] = begin(work, &workers[i]);
  }
  if (aborts && p->rank == 0) {
    while (c.done < steps) usleep(100); /* half way, counting the steps of all threads */
    tutti_abort(p->comm, "abort of a fifth thread");
    if (tutti_rank(p->comm) != 0 || !strstr(tutti_error_message(p->comm), "abort of a fifth thread"))
      wrong(p, "the fifth thread: '%s'", tutti_error_message(p->comm));
  }
  for (uint32_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

/* In the long test with two ranks: 10,000 steps of a rank's threads together. With more ranks than cores: fewer
 * steps. */
static void crowds(struct player *p) {
  bool main_case = p->ranks == 2 && (!p->is_thread || UNDER_TSAN);
  crowd(p, !main_case ? 150 : test_long() ? 2500 : 400, false);
}
static void crowds_that_are_aborted(struct player *p) { crowd(p, 400, true); }

/* ---- several communicators, and a thread that progresses all of them ---- */

struct pump {
  tutti_comm *comm;
  _Atomic bool stops;
};

static void *move_on(void *argument) {
  struct pump *pump = argument;
  while (!pump->stops)
    if (tutti_progress(pump->comm, 20) != TUTTI_OK) break;
  return NULL;
}

/* Requests complete without a thread that waits for them, as another thread calls tutti_progress. */
static void a_thread_that_moves_all(struct player *p) {
  struct pump pump = {.comm = p->comm};
  tutti_comm *copy;
  if (!good(p, tutti_comm_dup(p->comm, &copy), "tutti_comm_dup")) return;
  pthread_t mover = begin(move_on, &pump);
  for (int turn = 0; turn < 20; turn++) {
    int32_t in[2] = {1, 2}, out[2] = {0, 0};
    _Atomic size_t heard[2] = {0, 0};
    tutti_request *requests[2];
    tutti_comm *comms[2] = {p->comm, copy};
    for (int i = 0; i < 2; i++) {
      const tutti_call call = {.collective = TUTTI_ALLREDUCE,
                               .send = &in[i],
                               .recv = &out[i],
                               .count = 1,
                               .type = TUTTI_I32,
                               .on_ready = told,
                               .on_ready_context = &heard[i]};
      good(p, tutti_start(comms[i], &call, &requests[i]), "tutti_start");
    }
    uint64_t end = ranks_now_ms() + TROUPE_CALL_MS;
    while ((!heard[0] || !heard[1]) && ranks_now_ms() < end) usleep(200);
    if (!heard[0] || !heard[1]) wrong(p, "rank %u: tutti_progress did not complete the request", p->rank);
    good(p, tutti_wait_all(requests, 2), "tutti_wait_all");
    if (out[1] != 2 * (int32_t)p->ranks) wrong(p, "rank %u: %d", p->rank, out[1]);
  }
  pump.stops = true;
  pthread_join(mover, NULL);
  good(p, tutti_comm_free(copy), "tutti_comm_free");
}

/* A wait on one communicator also progresses requests of another. */
static void waits_move_other_communicators(struct player *p) {
  tutti_comm *copy;
  int32_t x = (int32_t)p->rank, y = -1, sum = 0;
  uint32_t next = (p->rank + 1) % p->ranks, before = (p->rank + p->ranks - 1) % p->ranks;
  if (!good(p, tutti_comm_dup(p->comm, &copy), "tutti_comm_dup")) return;
  /* Each rank starts a ring allreduce on the first communicator, and then waits on the copy only. The messages on the
   * copy go on while the ring allreduce is open. */
  for (int turn = 0; turn < 50; turn++) {
    int32_t big[5000] = {turn}, all[5000];
    tutti_request *request = NULL;
    const tutti_call call = {
        .collective = TUTTI_ALLREDUCE, .send = big, .recv = all, .count = 5000, .type = TUTTI_I32, .algorithm = "ring"};
    good(p, tutti_start(p->comm, &call, &request), "tutti_start");
    good(p, tutti_allreduce(copy, &x, &sum, 1, TUTTI_I32, TUTTI_SUM), "tutti_allreduce on the copy");
    if (p->rank % 2) good(p, tutti_send(copy, &x, 1, TUTTI_I32, next, 1), "tutti_send");
    good(p, tutti_recv(copy, &y, 1, TUTTI_I32, before, 1), "tutti_recv");
    if (p->rank % 2 == 0) good(p, tutti_send(copy, &x, 1, TUTTI_I32, next, 1), "tutti_send");
    good(p, tutti_wait(&request), "tutti_wait");
    if (all[0] != turn * (int32_t)p->ranks || y != (int32_t)before) wrong(p, "rank %u: %d, %d", p->rank, all[0], y);
  }
  good(p, tutti_comm_free(copy), "tutti_comm_free");
}

/* ---- error messages belong to a thread ---- */

static void *fail_here(void *argument) {
  struct player *p = argument;
  tutti_comm *nothing;
  tutti_err err = tutti_comm_dup(NULL, &nothing);
  if (err != TUTTI_ERR_ARGUMENT || !strstr(tutti_error_message(NULL), "tutti_comm_dup"))
    wrong(p, "rank %u: '%s'", p->rank, tutti_error_message(NULL));
  return NULL;
}

static void errors_are_each_threads_own(struct player *p) {
  tutti_window *window;
  int64_t x = 0;
  tutti_err err = tutti_window_create(NULL, NULL, 0, &window);
  char before[400], after[400];
  snprintf(before, sizeof before, "%s", tutti_error_message(NULL));
  pthread_join(begin(fail_here, p), NULL);
  snprintf(after, sizeof after, "%s", tutti_error_message(NULL));
  if (err == TUTTI_OK || strcmp(before, after) != 0) wrong(p, "rank %u: '%s', then '%s'", p->rank, before, after);
  good(p, tutti_allreduce(p->comm, TUTTI_IN_PLACE, &x, 1, TUTTI_I64, TUTTI_SUM), "tutti_allreduce");
}

/* ---- any thread may end a wait by tutti_abort ---- */

static void *end_it(void *argument) {
  struct player *p = argument;
  usleep(20000);
  tutti_abort(p->comm, "abort of another thread");
  return NULL;
}

static void any_thread_aborts(struct player *p) {
  int32_t x = 0;
  pthread_t second = {0};
  if (p->rank == 0) second = begin(end_it, p);
  tutti_err err = tutti_recv(p->comm, &x, 1, TUTTI_I32, (p->rank + 1) % p->ranks, 0); /* no rank sends */
  if (p->rank == 0) pthread_join(second, NULL);
  if (err != TUTTI_ERR_ABORTED || !strstr(tutti_error_message(p->comm), "abort of another thread"))
    wrong(p, "rank %u: %s: %s", p->rank, tutti_err_name(err), tutti_error_message(p->comm));
}

/* ---- all tests ---- */

static const struct troupe_case cases[] = {
    {TROUPE_CASE(a_send_behind_a_wait)},
    {TROUPE_CASE(a_second_thread_does_all)},
    {TROUPE_CASE(another_thread_fills)},
    {TROUPE_CASE(crowds)},
    {TROUPE_CASE(crowds_that_are_aborted), .fails = true},
    {TROUPE_CASE(a_thread_that_moves_all)},
    {TROUPE_CASE(waits_move_other_communicators)},
    {TROUPE_CASE(errors_are_each_threads_own)},
    {TROUPE_CASE(any_thread_aborts), .fails = true},
};

int main(int argc, char **argv) {
  return troupe_main(cases, sizeof cases / sizeof cases[0], TROUPE_TRANSPORTS(2, 3), argc, argv);
}
