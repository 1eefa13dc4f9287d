/* test: fast waits timeout=180 */
/* life_test.c: processes that close descriptors, die while other ranks create communicators, or fork. The ranks are
 * real processes of a usual job. */
#include <sched.h>
#include <sys/syscall.h>
#include <tutti/channel.h>
#include <tutti/mesh.h>
#include <tutti/window.h>

#include "api/comm_create.h"
#include "must.h"

enum { PAGE = 65536 };

static tutti_comm *join(void) {
  tutti_comm *world = NULL;
  if (tutti_init(&(tutti_options){.timeout_ms = 10000}, &world) == TUTTI_OK) return world;
  printf("  init: %s\n", tutti_error_message(NULL));
  fflush(stdout);
  _exit(9);
}

/* ---- descriptors ---- */

/* Returns the descriptor of the job's shared memory in this process; -1: none. */
static int find_memory(void) {
  char path[64], text[64];
  for (int fd = 3; fd < 64; fd++) {
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(path, text, sizeof text - 1);
    if (n > 0 && (text[n] = '\0', strncmp(text, "/memfd:tutti", 12) == 0)) return fd;
  }
  return -1;
}

static void open_and_close(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", find_memory());
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd >= 0) close(fd);
}

static void close_all(void) { syscall(SYS_close_range, 3, ~0U, 0); }

static void open_others(void) {
  int memory = find_memory(), null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (memory >= 0 && null >= 0) dup2(null, memory);
}

struct closing {
  const char *name;
  void (*does)(void);
  uint32_t ranks; /* mask of the ranks that do it */
};

/* Rank 1 is late, so that the others check whether it lives. Then all ranks use functions that need the shared memory.
 * Then rank 1 is killed, and the others get an error. */
static int close_and_go_on(struct ranks_world *w, uint32_t rank) {
  const struct closing *c = w->context;
  tutti_comm *world = join(), *dup;
  tutti_window *window;
  int32_t x = 1, y = 0;
  if (c->ranks >> rank & 1) c->does();
  if (rank == 1) ranks_sleep_us(300000);
  MUST(tutti_barrier(world));
  void *own = aligned_alloc(PAGE, PAGE), *given;
  EXPECT(own != NULL);
  memset(own, (int)rank + 1, PAGE);
  MUST(tutti_register(world, own, PAGE));
  MUST(tutti_alloc(world, 1 << 20, &given));
  MUST(tutti_window_create(world, own, PAGE, &window));
  const unsigned char *seen = tutti_window_address(window, (rank + 1) % 3);
  EXPECT(seen[PAGE - 1] == (rank + 1) % 3 + 1);
  MUST(tutti_comm_dup(world, &dup));
  MUST(tutti_allreduce(dup, &x, &y, 1, TUTTI_I32, TUTTI_SUM));
  EXPECT(y == 3);
  MUST(tutti_window_free(window));
  MUST(tutti_comm_free(dup));
  MUST(tutti_free(world, given));
  MUST(tutti_deregister(world, own));
  EXPECT(((unsigned char *)own)[PAGE - 1] == rank + 1);
  free(own);
  MUST(tutti_barrier(world));
  if (rank == 1) raise(SIGKILL);
  tutti_err err = tutti_barrier(world);
  EXPECT(err == TUTTI_ERR_PEER);
  EXPECT(strstr(tutti_error_message(world), "rank 1 (") && strstr(tutti_error_message(world), "died"));
  return tutti_comm_free(world) == TUTTI_ERR_PEER ? 0 : 1;
}

static void descriptors_are_the_programs(void) {
  static const struct closing closings[] = {{"rank 1 opens and closes its memory", open_and_close, 2},
                                            {"rank 1 closes all", close_all, 2},
                                            {"rank 0 closes all", close_all, 1},
                                            {"all close all", close_all, 7},
                                            {"all open another file", open_others, 7}};
  for (size_t i = 0; i < sizeof closings / sizeof closings[0]; i++)
    run_world(closings[i].name, 3, &closings[i], close_and_go_on, 2);
}

/* ---- survivors ---- */

/* Creates, uses and frees every kind of object that needs a communicator. */
static int make_all(tutti_comm *comm, uint32_t rank) {
  tutti_comm *dup, *part, *self;
  tutti_window *window;
  tutti_mesh *mesh;
  tutti_channel *channel;
  uint32_t ranks = tutti_ranks(comm), me = tutti_rank(comm);
  int32_t x = 1, y = 0;
  MUST(tutti_comm_dup(comm, &dup));
  MUST(tutti_comm_split(dup, (int)(me % 2), -(int)me, &part));
  MUST(tutti_comm_self(part, &self));
  MUST(tutti_window_create(dup, NULL, 4096, &window));
  MUST(tutti_mesh_create(dup, 1, &ranks, &mesh));
  if (me < 2) {
    MUST(tutti_channel_open(dup, 1 - me, me ? TUTTI_CHANNEL_RECEIVES : TUTTI_CHANNEL_SENDS,
                            &(tutti_channel_options){.timeout_ms = 10000}, &channel));
    void *slot;
    tutti_channel_message message;
    if (me == 0) {
      MUST(tutti_channel_acquire(channel, 10000, &slot));
      MUST(tutti_channel_commit(channel, 0, true));
    } else {
      MUST(tutti_channel_peek(channel, 0, 10000, &message));
      MUST(tutti_channel_release(channel));
    }
    MUST(tutti_channel_close(channel, 10000));
  }
  MUST(tutti_allreduce(dup, &x, &y, 1, TUTTI_I32, TUTTI_SUM));
  EXPECT(y == (int32_t)ranks);
  MUST(tutti_mesh_free(mesh));
  MUST(tutti_window_free(window));
  MUST(tutti_comm_free(self));
  MUST(tutti_comm_free(part));
  MUST(tutti_comm_free(dup));
  return 0;
}

/* Ranks 0 and 4 of five die. The other three have their own communicator, which must keep working. Rank 1 has seen the
 * world fail. */
static int go_on_without(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world = join(), *living;
  bool dies = rank == 0 || rank == 4;
  MUST(tutti_comm_split(world, dies ? 1 : 0, 0, &living));
  MUST(tutti_barrier(world));
  if (dies) raise(SIGKILL);
  while (rank == 1 && tutti_barrier(world) != TUTTI_ERR_PEER) continue;
  atomic_fetch_add(&w->shared->numbers[0], 1);
  while (w->shared->numbers[0] < 3) ranks_sleep_us(1000);
  for (int i = 0; i < 3; i++) {
    if (rank == 1 + (uint32_t)i) ranks_sleep_us(100000); /* the other ranks wait, and check which ranks live */
    if (make_all(living, rank) != 0) return 1;
  }
  MUST(tutti_comm_free(living));
  return tutti_comm_free(world) == TUTTI_ERR_PEER ? 0 : 1;
}

static void the_living_go_on(void) { run_world("two of five are dead", 5, NULL, go_on_without, 1 | 1 << 4); }

/* Rank 1 cannot make its side of a communicator; the other ranks must not wait for it forever. */
static int miss_one(struct ranks_world *w, uint32_t rank) {
  (void)w;
  tutti_comm *world = join(), *dup = NULL;
  (void)!tutti_comm_set_timeout(world, TUTTI_NO_TIMEOUT);
  MUST(tutti_barrier(world));
  if (rank == 1) setenv("TUTTI_SLOT_BYTES", "1", 1);
  tutti_err err = tutti_comm_dup(world, &dup);
  if (rank == 1) EXPECT(err == TUTTI_ERR_ENVIRONMENT && !dup);
  else {
    EXPECT(err == TUTTI_OK && tutti_barrier(dup) == TUTTI_ERR_PEER);
    EXPECT(test_contains(tutti_error_message(dup), "rank 1|its part"));
    EXPECT(tutti_comm_free(dup) == TUTTI_ERR_PEER);
  }
  unsetenv("TUTTI_SLOT_BYTES");
  MUST(tutti_comm_dup(world, &dup)); /* the parent still works */
  MUST(tutti_barrier(dup));
  MUST(tutti_comm_free(dup));
  MUST(tutti_comm_free(world));
  return 0;
}

static void who_has_none_is_not_waited_for(void) { run_world("rank 1 misses a dup", 3, NULL, miss_one, 0); }

/* A thread that creates a communicator of ranks 0 and 1 of three. Rank 0 comes late, and rank 2 is dead. */
struct maker {
  struct tu_transport *t;
  uint32_t rank, late_us;
  tutti_err err;
  struct tu_error error;
  tutti_comm *comm;
};

static void *make(void *argument) {
  static const uint32_t members[] = {0, 1};
  struct maker *m = argument;
  ranks_sleep_us(m->late_us);
  m->err = tu_comm_create(m->t, members, 2, m->rank, TU_WORLD_ID, 10000, &m->comm, &m->error);
  return NULL;
}

static void a_stranger_s_death_does_not_matter(void) {
  struct tu_transport *t[3];
  struct tu_error error = {0};
  pthread_t thread;
  if (tu_loop_create(3, 16 << 20, t, &error) != TUTTI_OK) abort();
  tu_loop_kill(t[2]);
  struct maker makers[] = {{.t = t[0], .rank = 0, .late_us = 150000}, {.t = t[1], .rank = 1}};
  if (pthread_create(&thread, NULL, make, &makers[1]) != 0) abort();
  make(&makers[0]);
  pthread_join(thread, NULL);
  for (int i = 0; i < 2; i++) {
    CHECK(makers[i].err == TUTTI_OK, "rank %d: %s", i, makers[i].error.text);
    if (makers[i].err == TUTTI_OK) tutti_abort(makers[i].comm, "the end"), (void)tutti_comm_free(makers[i].comm);
    else t[i]->ops->close(t[i]);
  }
  t[2]->ops->close(t[2]);
}

/* A rank that waits for a dead member gets an error. */
static void a_member_s_death_matters(void) {
  struct tu_transport *t[3];
  struct tu_error error = {0};
  if (tu_loop_create(3, 16 << 20, t, &error) != TUTTI_OK) abort();
  tu_loop_kill(t[0]);
  struct maker maker = {.t = t[1], .rank = 1};
  make(&maker);
  CHECK(maker.err == TUTTI_ERR_PEER && test_contains(maker.error.text, "rank 0|died"), "%s: %s",
        tutti_err_name(maker.err), maker.error.text);
  if (maker.err == TUTTI_OK) (void)tutti_comm_free(maker.comm);
  t[0]->ops->close(t[0]);
  t[2]->ops->close(t[2]);
}

/* ---- forked children ---- */

struct belongings {
  tutti_comm *world;
  tutti_request *open, *persistent;
  tutti_window *window;
  tutti_mesh *mesh;
  tutti_channel *channel;
  tutti_channel_builder *builder;
  tutti_session *session;
  tutti_event event;
  void *memory;
  int32_t stored, received; /* of the put that is started, and of the receive that is open */
};

static bool is_refused(tutti_err err, const char *call, const tutti_comm *comm) {
  const char *text = tutti_error_message(NULL);
  bool good = err == TUTTI_ERR_ARGUMENT && test_contains(text, "child|fork()");
  if (good && comm) good = strcmp(tutti_error_message(comm), text) == 0;
  if (!good) printf("  a child's %s: %s: '%s'\n", call, tutti_err_name(err), text);
  return good;
}
#define REFUSED(call) wrong += !is_refused(call, #call, NULL)

static int refused_calls(struct belongings *b) {
  int wrong = 0;
  bool flag;
  size_t index, done;
  int32_t x = 1, y[4] = {0};
  tutti_comm *comm = b->world;
  tutti_request *request;
  const tutti_call call = {.collective = TUTTI_BARRIER};
  wrong += !is_refused(tutti_barrier(comm), "tutti_barrier", comm);
  wrong += !is_refused(tutti_allreduce(comm, &x, y, 1, TUTTI_I32, TUTTI_SUM), "tutti_allreduce", comm);
  REFUSED(tutti_send(comm, &x, 1, TUTTI_I32, 1, 0));
  REFUSED(tutti_start(comm, &call, &request));
  REFUSED(tutti_start(comm, &call, NULL));
  REFUSED(tutti_start_all(comm, &call, 1, &request));
  REFUSED(tutti_prepare(comm, &call, &request));
  REFUSED(tutti_restart(b->persistent));
  REFUSED(tutti_test(&b->open, &flag));
  REFUSED(tutti_wait(&b->open));
  REFUSED(tutti_wait_for(&b->open, 100, &flag));
  REFUSED(tutti_wait_for(&b->open, 0, &flag));
  REFUSED(tutti_test_some(&b->open, 1, &index, &done));
  REFUSED(tutti_test_some(&b->persistent, 1, &index, &done));
  REFUSED(tutti_check_call(comm, &call));
  REFUSED(tutti_wait_any(&b->open, 1, &index));
  REFUSED(tutti_wait_all(&b->open, 1));
  REFUSED(tutti_wait_all(NULL, 0));
  REFUSED(tutti_request_fill(b->open, 0, 1));
  if (flag || done > 0 || !tutti_request_done(b->open)) wrong++;
  tutti_comm_set_user(comm, y);
  if (tutti_comm_user(comm) != b) wrong++;
  return wrong;
}

static int refused_objects(struct belongings *b) {
  int wrong = 0;
  tutti_comm *comm = b->world, *other;
  tutti_window *window;
  tutti_mesh *mesh;
  void *memory;
  REFUSED(tutti_comm_dup(comm, &other));
  REFUSED(tutti_comm_split(comm, 0, 0, &other));
  REFUSED(tutti_comm_self(comm, &other));
  REFUSED(tutti_alloc(comm, 4096, &memory));
  REFUSED(tutti_free(comm, b->memory));
  REFUSED(tutti_register(comm, b->memory, PAGE));
  REFUSED(tutti_deregister(comm, b->memory));
  REFUSED(tutti_window_create(comm, NULL, 64, &window));
  REFUSED(tutti_window_free(b->window));
  REFUSED(tutti_mesh_create(comm, 1, (const uint32_t[]){2}, &mesh));
  REFUSED(tutti_mesh_free(b->mesh));
  return wrong;
}

/* A tensor of one dimension. */
static tutti_err make_row(tutti_tensor *row, int32_t *data, size_t elements) {
  const tutti_tensor_of of = {.data = data, .type = TUTTI_I32, .dims = 1, .shape = &elements};
  return tutti_tensor_strided(row, of, NULL);
}

static int refused_onesided(struct belongings *b) {
  int wrong = 0;
  bool flag;
  int32_t y[4] = {0}, *remote = tutti_window_address(b->window, 1);
  tutti_tensor put, row;
  if (make_row(&put, remote, 4) != TUTTI_OK || make_row(&row, y, 4) != TUTTI_OK) wrong++;
  REFUSED(tutti_put(&row, &put, NULL, NULL));
  REFUSED(tutti_get(&put, &row, NULL, NULL));
  REFUSED(tutti_put_add(&row, &put, NULL, NULL));
  REFUSED(tutti_put_start(b->session, &row, &put, NULL));
  REFUSED(tutti_event_wait(b->event));
  REFUSED(tutti_session_free(b->session));
  REFUSED(tutti_signal_set(remote, 9, NULL));
  REFUSED(tutti_signal_add(remote, 9, NULL));
  REFUSED(tutti_signal_test(&put, TUTTI_EQ, 0, &flag));
  REFUSED(tutti_signal_wait(&put, TUTTI_EQ, 77, 100, NULL));
  return wrong;
}

static int refused_channels(struct belongings *b) {
  int wrong = 0;
  bool flag;
  tutti_channel *channel;
  tutti_channel_message message;
  void *memory;
  REFUSED(tutti_channel_try_ready(b->channel, &flag));
  REFUSED(tutti_channel_acquire(b->channel, 100, &memory));
  REFUSED(tutti_channel_commit(b->channel, 0, true));
  REFUSED(tutti_channel_peek(b->channel, 0, 100, &message));
  REFUSED(tutti_channel_close(b->channel, 100));
  REFUSED(tutti_channel_build(b->builder, &channel));
  REFUSED(tutti_channel_open(b->world, 1, TUTTI_CHANNEL_SENDS, NULL, &channel));
  return wrong;
}

/* Returns the number of calls that a child may make although it must not. */
static int use_as_child(struct belongings *b) {
  int wrong = refused_calls(b) + refused_objects(b) + refused_onesided(b) + refused_channels(b);
  /* Calls without a result have no effect. */
  tutti_request_free(b->persistent);
  wrong += !is_refused(tutti_comm_set_timeout(b->world, 1), "tutti_comm_set_timeout", b->world);
  tutti_abort(b->world, "abort of a child");
  wrong += !is_refused(tutti_comm_free(b->world), "tutti_comm_free", b->world);
  return wrong;
}

/* Creates a world of its own in a child, which must not depend on the parent's open objects. */
static int make_own_world(void) {
  uint32_t rank = 99;
  tutti_comm *own, *dup;
  int32_t x = 5, y = 0;
  ranks_clear_environment();
  MUST(tutti_init(NULL, &own));
  EXPECT(tutti_ranks(own) == 1);
  MUST(tutti_allreduce(own, &x, &y, 1, TUTTI_I32, TUTTI_SUM));
  EXPECT(y == 5);
  MUST(tutti_start(own, &(tutti_call){.collective = TUTTI_BARRIER}, NULL));
  MUST(tutti_wait_all(NULL, 0));
  MUST(tutti_comm_dup(own, &dup));
  MUST(tutti_comm_free(dup));
  MUST(tutti_comm_free(own));
  return 0;
}

/* How a child is created. */
enum { BY_FORK, BY_CLONE, WAYS };

static int have_child(struct belongings *b, int way) {
  int status;
  fflush(stdout);
  pid_t child = way == BY_FORK ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
  if (child == 0) {
    alarm(15);
    int wrong = use_as_child(b);
    if (way == BY_FORK) wrong += make_own_world();
    if (wrong == 0) wrong += !is_refused(tutti_barrier(b->world), "tutti_barrier", NULL);
    fflush(stdout);
    if (way == BY_FORK) exit(wrong); /* exit handlers of the child must not disturb the job */
    _exit(wrong);
  }
  return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

/* Makes one object of each kind, and starts a put to the other rank and a receive. */
static int make_belongings(struct belongings *b, uint32_t rank) {
  const tutti_call barrier = {.collective = TUTTI_BARRIER};
  const tutti_call receive = {
      .collective = TUTTI_RECV, .recv = &b->received, .count = 1, .type = TUTTI_I32, .peer = 1 - rank};
  const tutti_channel_options counted = {.ending = TUTTI_CHANNEL_COUNTED, .messages = 1, .timeout_ms = 10000};
  const tutti_channel_direction direction = rank ? TUTTI_CHANNEL_RECEIVES : TUTTI_CHANNEL_SENDS;
  tutti_tensor to, from;
  b->world = join();
  MUST(tutti_window_create(b->world, NULL, PAGE, &b->window));
  MUST(tutti_mesh_create(b->world, 1, (const uint32_t[]){2}, &b->mesh));
  MUST(tutti_alloc(b->world, PAGE, &b->memory));
  MUST(tutti_prepare(b->world, &barrier, &b->persistent));
  MUST(tutti_channel_open(b->world, 1 - rank, direction, &counted, &b->channel));
  MUST(tutti_channel_builder_create(b->world, &(tutti_channel_options){.link = 3}, &b->builder));
  MUST(tutti_channel_add_sender(b->builder, 1 - rank, 0, NULL));
  MUST(tutti_session_create(&b->session));
  MUST(make_row(&to, (int32_t *)tutti_window_address(b->window, 1 - rank) + 8, 1));
  MUST(make_row(&from, &b->stored, 1));
  MUST(tutti_put_start(b->session, &from, &to, &b->event));
  MUST(tutti_start(b->world, &receive, &b->open));
  tutti_comm_set_user(b->world, b);
  return 0;
}

/* Uses each object. The children have changed none of them. */
static int use_belongings(struct belongings *b, uint32_t rank) {
  int32_t x = 1, y = 0, in = 7;
  MUST(tutti_send(b->world, &in, 1, TUTTI_I32, 1 - rank, 0));
  MUST(tutti_wait(&b->open));
  EXPECT(b->received == 7 && tutti_comm_user(b->world) == b);
  MUST(tutti_allreduce(b->world, &x, &y, 1, TUTTI_I32, TUTTI_SUM));
  EXPECT(y == 2);
  MUST(tutti_restart(b->persistent));
  MUST(tutti_wait(&b->persistent));
  MUST(tutti_event_wait(b->event));
  MUST(tutti_barrier(b->world));
  int32_t *mine = tutti_window_address(b->window, rank);
  EXPECT(mine[0] == 0 && mine[8] == 1234);
  void *slot;
  tutti_channel_message message;
  if (rank == 0) {
    MUST(tutti_channel_acquire(b->channel, 10000, &slot));
    MUST(tutti_channel_commit(b->channel, 0, false));
  } else {
    MUST(tutti_channel_peek(b->channel, 0, 10000, &message));
    MUST(tutti_channel_release(b->channel));
  }
  return 0;
}

static int free_belongings(struct belongings *b, uint32_t rank) {
  tutti_request_free(b->persistent);
  MUST(tutti_session_free(b->session));
  MUST(tutti_channel_close(b->channel, 10000));
  tutti_channel_builder_free(b->builder);
  MUST(tutti_free(b->world, b->memory));
  MUST(tutti_mesh_free(b->mesh));
  MUST(tutti_window_free(b->window));
  MUST(tutti_comm_free(b->world));
  return 0;
}

static int have_children(struct ranks_world *w, uint32_t rank) {
  struct belongings b = {.stored = 1234};
  (void)w;
  EXPECT(make_belongings(&b, rank) == 0);
  if (rank == 0)
    for (int way = 0; way < WAYS; way++) EXPECT(have_child(&b, way) == 0);
  EXPECT(use_belongings(&b, rank) == 0);
  return free_belongings(&b, rank);
}

static void children_are_refused(void) { run_world("children", 2, NULL, have_children, 0); }

int main(int argc, char **argv) {
  const struct test tests[] = {{"descriptors_are_the_programs", descriptors_are_the_programs},
                               {"the_living_go_on", the_living_go_on},
                               {"who_has_none_is_not_waited_for", who_has_none_is_not_waited_for},
                               {"a_stranger_s_death_does_not_matter", a_stranger_s_death_does_not_matter},
                               {"a_member_s_death_matters", a_member_s_death_matters},
                               {"children_are_refused", children_are_refused}};
  ranks_clear_environment();
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
