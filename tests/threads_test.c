/* test: fast */
/* threads_test.c: two threads in one communicator: the second one is refused with a sentence before it touches anything, and
 * the first one's call goes on. Under TSan this shows that nothing is touched. */
#include <tutti/mesh.h>
#include <tutti/window.h>

#include "troupe.h"

enum { COUNT = 1000, CALLS = 400, THREADS = 2 };

/* ---- every call of a second thread, while the first one waits ---- */

/* What a rank's threads share. */
struct visit {
  struct player *p;
  tutti_request *request, *persistent;
  tutti_window *window;
  tutti_mesh *mesh;
  int32_t signal_value;
  uint32_t refused;
};

static void refused(struct visit *v, tutti_err err, const char *call) {
  const char *text = tutti_error_message(NULL), *same = tutti_error_message(v->p->comm);
  if (err != TUTTI_ERR_ARGUMENT || !strstr(text, "another thread") || strcmp(text, same) != 0)
    wrong(v->p, "rank %u: %s by a second thread: %s: '%s', '%s'", v->p->rank, call, tutti_err_name(err), text, same);
  v->refused++;
}

static void refused_calls(struct visit *v) {
  tutti_comm *comm = v->p->comm, *other = (tutti_comm *)(void *)v;
  int32_t in[COUNT], out[COUNT];
  tutti_request *request = (tutti_request *)(void *)v, *own = v->request;
  tutti_window *window = NULL;
  tutti_mesh *mesh = NULL;
  size_t index;
  bool done;
  const tutti_call call = {.collective = TUTTI_ALLREDUCE, .send = in, .recv = out, .count = 1, .type = TUTTI_I32};
  memset(in, 1, sizeof in);
  memset(out, 7, sizeof out);
  refused(v, tutti_allreduce(comm, in, out, COUNT, TUTTI_I32, TUTTI_SUM), "tutti_allreduce");
  refused(v, tutti_barrier(comm), "tutti_barrier");
  refused(v, tutti_broadcast(comm, out, COUNT, TUTTI_I32, 0), "tutti_broadcast");
  refused(v, tutti_send(comm, in, 1, TUTTI_I32, 0, 0), "tutti_send");
  refused(v, tutti_recv(comm, out, 1, TUTTI_I32, 0, 0), "tutti_recv");
  refused(v, tutti_start(comm, &call, &request), "tutti_start");
  if (request) wrong(v->p, "tutti_start has left a request");
  refused(v, tutti_start_group(comm, &call, 1, &request), "tutti_start_group");
  refused(v, tutti_prepare(comm, &call, &request), "tutti_prepare");
  refused(v, tutti_restart(v->persistent), "tutti_restart");
  refused(v, tutti_request_fill(own, 0, 1), "tutti_request_fill");
  refused(v, tutti_test(&own, &done), "tutti_test");
  refused(v, tutti_wait(&own), "tutti_wait");
  refused(v, tutti_wait_any(&own, 1, &index), "tutti_wait_any");
  refused(v, tutti_wait_all(&own, 1), "tutti_wait_all");
  if (own != v->request) wrong(v->p, "the request is gone");
  refused(v, tutti_comm_dup(comm, &other), "tutti_comm_dup");
  refused(v, tutti_comm_split(comm, 0, 0, &other), "tutti_comm_split");
  refused(v, tutti_comm_self(comm, &other), "tutti_comm_self");
  refused(v, tutti_comm_set_wire(comm, 1e9), "tutti_comm_set_wire");
  refused(v, tutti_window_create(comm, NULL, 64, &window), "tutti_window_create");
  if (v->window) refused(v, tutti_window_free(v->window), "tutti_window_free");
  refused(v, tutti_mesh_create(comm, 1, &v->p->ranks, &mesh), "tutti_mesh_create");
  refused(v, tutti_comm_free(comm), "tutti_comm_free");
  tutti_request_free(v->persistent);
  for (int i = 0; i < COUNT; i++)
    if (out[i] != 0x07070707) wrong(v->p, "element %d was touched: %x", i, (unsigned)out[i]);
}

static void *come_second(void *argument) {
  struct visit *v = argument;
  usleep(20000);
  while (!atomic_load(&v->p->comm->inside)) usleep(1000);
  refused_calls(v);
  v->p->stage->here++;
  return NULL;
}

/* Within the call's own thread: it tells of the output's parts, and may fill. */
static void told(void *context, size_t first, size_t count) {
  (void)first;
  *(size_t *)context += count;
}

/* Rank 0 comes late to what the others wait for, on a timeout that none must see; all ranks' second threads come. */
static void play_second(struct player *p) {
  int32_t in[COUNT], sum[COUNT], x = 1, y = 0, z = 0;
  size_t heard = 0;
  pthread_t second;
  struct visit v = {.p = p};
  const tutti_call kept = {.collective = TUTTI_ALLREDUCE, .send = &x, .recv = &z, .count = 1, .type = TUTTI_I32};
  for (int i = 0; i < COUNT; i++) in[i] = (int32_t)p->rank + i;
  if (!good(p, tutti_prepare(p->comm, &kept, &v.persistent), "tutti_prepare")) return;
  if (!good(p, tutti_window_create(p->comm, NULL, 64, &v.window), "tutti_window_create")) return;
  const tutti_call call = {.collective = TUTTI_ALLREDUCE,
                           .send = in,
                           .recv = sum,
                           .count = COUNT,
                           .type = TUTTI_I32,
                           .on_ready = told,
                           .on_ready_context = &heard};
  if (p->rank == 0)
    while (p->stage->here < p->ranks - 1) usleep(1000);
  if (!good(p, tutti_start(p->comm, &call, &v.request), "tutti_start")) return;
  if (p->rank > 0 && pthread_create(&second, NULL, come_second, &v) != 0) abort();
  good(p, tutti_wait(&v.request), "tutti_wait");
  if (p->rank > 0) pthread_join(second, NULL);
  for (int i = 0; i < COUNT; i++)
    if (sum[i] != (int32_t)(p->ranks * (p->ranks - 1) / 2 + p->ranks * (uint32_t)i)) wrong(p, "element %d", i);
  if (heard != COUNT) wrong(p, "rank %u: told of %zu elements", p->rank, heard);
  if (p->rank > 0 && v.refused < 20) wrong(p, "rank %u: %u calls were refused", p->rank, v.refused);
  /* The communicator is as it was. */
  good(p, tutti_allreduce(p->comm, &x, &y, 1, TUTTI_I32, TUTTI_SUM), "afterwards");
  good(p, tutti_restart(v.persistent), "tutti_restart");
  good(p, tutti_wait(&v.persistent), "tutti_wait");
  if (y != (int32_t)p->ranks || z != y) wrong(p, "rank %u: %d and %d, not %u", p->rank, y, z, p->ranks);
  tutti_request_free(v.persistent);
  good(p, tutti_window_free(v.window), "tutti_window_free");
}

/* ---- threads that come in turn as they please: what is refused is tried again, and every result is right ---- */

struct worker {
  struct player *p;
  _Atomic uint32_t *tickets;
};

static tutti_err one_call(const struct worker *w, uint32_t ticket, int32_t *data) {
  tutti_request *request = NULL;
  const tutti_call call = {.collective = TUTTI_ALLREDUCE, .send = data, .recv = data, .count = 200, .type = TUTTI_I32};
  for (int i = 0; i < 200; i++) data[i] = (int32_t)w->p->rank + i;
  if (ticket % 3 != 0) return tutti_allreduce(w->p->comm, data, data, 200, TUTTI_I32, TUTTI_SUM);
  tutti_err err = tutti_start(w->p->comm, &call, &request), waited = TUTTI_ERR_ARGUMENT;
  /* While it is open, nobody else starts anything here; but the other one may be at the door. */
  while (err == TUTTI_OK && waited == TUTTI_ERR_ARGUMENT) waited = tutti_wait(&request);
  return err != TUTTI_OK ? err : waited;
}

static void *work(void *argument) {
  const struct worker *w = argument;
  int32_t data[200];
  uint32_t n = w->p->ranks;
  for (uint32_t ticket; (ticket = atomic_fetch_add(w->tickets, 1)) < CALLS && w->p->stage->failures == 0;) {
    tutti_err err;
    while ((err = one_call(w, ticket, data)) == TUTTI_ERR_ARGUMENT &&
           strstr(tutti_error_message(NULL), "another thread"))
      usleep(1 + ticket % 50);
    if (err != TUTTI_OK) wrong(w->p, "rank %u: %s: %s", w->p->rank, tutti_err_name(err), tutti_error_message(NULL));
    for (int32_t i = 0; i < 200 && err == TUTTI_OK; i++)
      if (data[i] != (int32_t)(n * (n - 1) / 2) + (int32_t)n * i)
        wrong(w->p, "rank %u, call %u: element %d is %d", w->p->rank, ticket, i, data[i]);
  }
  return NULL;
}

static void play_together(struct player *p) {
  pthread_t threads[THREADS];
  _Atomic uint32_t tickets = 0;
  struct worker w = {p, &tickets};
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, work, &w) != 0) abort();
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

/* ---- while a thread has requests open, no other starts anything: it could not move what is in front of it ---- */

struct stranger {
  struct player *p;
  tutti_err start, free;
  char text[400];
};

static void *come_between(void *argument) {
  struct stranger *s = argument;
  s->start = tutti_barrier(s->p->comm);
  snprintf(s->text, sizeof s->text, "%s", tutti_error_message(NULL));
  s->free = tutti_comm_free(s->p->comm);
  return NULL;
}

/* Nothing is sent before all ranks' strangers have been there, so every rank's request is open. */
static void play_between(struct player *p) {
  int32_t x = (int32_t)p->rank, y = 0;
  uint32_t next = (p->rank + 1) % p->ranks, before = (p->rank + p->ranks - 1) % p->ranks;
  tutti_request *request = NULL;
  pthread_t thread;
  struct stranger s = {.p = p};
  const tutti_call call = {.collective = TUTTI_RECV, .recv = &y, .count = 1, .type = TUTTI_I32, .peer = before};
  if (!good(p, tutti_start(p->comm, &call, &request), "tutti_start")) return;
  if (pthread_create(&thread, NULL, come_between, &s) != 0) abort();
  pthread_join(thread, NULL);
  if (s.start != TUTTI_ERR_ARGUMENT || !strstr(s.text, "another thread") || s.free != TUTTI_ERR_ARGUMENT)
    wrong(p, "rank %u: %s, then %s: '%s'", p->rank, tutti_err_name(s.start), tutti_err_name(s.free), s.text);
  atomic_fetch_add(&p->stage->here, 1);
  while (p->stage->here < p->ranks) usleep(1000);
  good(p, tutti_send(p->comm, &x, 1, TUTTI_I32, next, 0), "tutti_send");
  good(p, tutti_wait(&request), "tutti_wait");
  if (y != (int32_t)before) wrong(p, "rank %u: %d came, not %u", p->rank, y, before);
}

/* ---- a mesh: a second thread takes all of its communicators, or nothing, and the mesh goes on ---- */

struct second {
  struct player *p;
  tutti_mesh *mesh;
  tutti_mesh_tensor *from, *to;
};

static void *use_mesh(void *argument) {
  struct second *s = argument;
  while (!atomic_load(&tutti_mesh_line(s->mesh, 0)->inside)) usleep(1000);
  tutti_err err = tutti_mesh_allreduce(s->from, s->to, 0);
  if (err != TUTTI_ERR_ARGUMENT || !strstr(tutti_error_message(NULL), "tutti_mesh_allreduce: another thread"))
    wrong(s->p, "rank %u: tutti_mesh_allreduce: %s: %s", s->p->rank, tutti_err_name(err), tutti_error_message(NULL));
  err = tutti_mesh_free(s->mesh);
  if (err != TUTTI_ERR_ARGUMENT || !strstr(tutti_error_message(NULL), "tutti_mesh_free: another thread"))
    wrong(s->p, "rank %u: tutti_mesh_free: %s: %s", s->p->rank, tutti_err_name(err), tutti_error_message(NULL));
  s->p->stage->here++;
  return NULL;
}

static void play_mesh(struct player *p) {
  float in[4] = {1, 2, 3, 4}, out[4];
  const size_t shape[] = {4};
  pthread_t second;
  tutti_mesh *mesh;
  tutti_mesh_tensor from, to;
  if (!good(p, tutti_mesh_create(p->comm, 1, &p->ranks, &mesh), "tutti_mesh_create")) return;
  const tutti_tensor_of of_in = {.data = in, .type = TUTTI_F32, .dims = 1, .shape = shape};
  const tutti_tensor_of of_out = {.data = out, .type = TUTTI_F32, .dims = 1, .shape = shape};
  good(p, tutti_mesh_tensor_strided(&from, mesh, of_in, &(tutti_spread){.kind = TUTTI_PARTIAL, .op = TUTTI_SUM}), "in");
  good(p, tutti_mesh_tensor_strided(&to, mesh, of_out, &(tutti_spread){.kind = TUTTI_REPLICATED}), "out");
  struct second s = {p, mesh, &from, &to};
  if (p->rank == 0)
    while (p->stage->here < p->ranks - 1) usleep(1000);
  if (p->rank > 0 && pthread_create(&second, NULL, use_mesh, &s) != 0) abort();
  good(p, tutti_barrier(tutti_mesh_line(mesh, 0)), "tutti_barrier");
  if (p->rank > 0) pthread_join(second, NULL);
  good(p, tutti_mesh_allreduce(&from, &to, 0), "tutti_mesh_allreduce");
  if (out[3] != 4 * (float)p->ranks) wrong(p, "rank %u: %g", p->rank, (double)out[3]);
  good(p, tutti_mesh_free(mesh), "tutti_mesh_free");
}

/* ---- but any thread may end a wait ---- */

static void *end_it(void *argument) {
  struct player *p = argument;
  while (!atomic_load(&p->comm->inside)) usleep(1000);
  tutti_abort(p->comm, "another thread says so");
  return NULL;
}

static void play_abort(struct player *p) {
  int32_t x = 0;
  pthread_t second;
  if (p->rank == 0 && pthread_create(&second, NULL, end_it, p) != 0) abort();
  tutti_err err = tutti_recv(p->comm, &x, 1, TUTTI_I32, (p->rank + 1) % p->ranks, 0); /* nobody sends */
  if (p->rank == 0) pthread_join(second, NULL);
  if (err != TUTTI_ERR_ABORTED || !strstr(tutti_error_message(p->comm), "another thread says so"))
    wrong(p, "rank %u: %s: %s", p->rank, tutti_err_name(err), tutti_error_message(p->comm));
}

/* ---- over both transports ---- */

static void perform(void (*run)(struct player *p), bool fails) {
  for (uint32_t ranks = 2; ranks <= 3; ranks++) {
    troupe_perform((struct troupe){.run = run, .ranks = ranks, .fails = fails}, troupe_over_loop);
#ifndef __SANITIZE_THREAD__
    troupe_perform((struct troupe){.run = run, .ranks = ranks, .fails = fails}, troupe_over_shm);
#endif
  }
}

static void a_second_thread_is_refused(void) { perform(play_second, false); }
static void open_requests_keep_others_out(void) { perform(play_between, false); }
static void threads_take_turns(void) { perform(play_together, false); }
static void a_mesh_is_taken_as_a_whole(void) { perform(play_mesh, false); }
static void any_thread_aborts(void) { perform(play_abort, true); }

int main(int argc, char **argv) {
  const struct test tests[] = {{"a_second_thread_is_refused", a_second_thread_is_refused},
                               {"open_requests_keep_others_out", open_requests_keep_others_out},
                               {"threads_take_turns", threads_take_turns},
                               {"a_mesh_is_taken_as_a_whole", a_mesh_is_taken_as_a_whole},
                               {"any_thread_aborts", any_thread_aborts}};
  ranks_clear_environment();
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
