/* test: fast timeout=300 */
/* progress_test.c: the thread of tutti_options.progress_thread. A rank that computes here makes no call until another
 * rank says, in memory beside the library, that it has its result. Without the thread it would compute forever. */
#include <dirent.h>
#include <pthread.h>
#include <stddef.h>

#include "must.h"

/* LONG: elements of a long vector, of which the ring of a channel holds a part */
#ifdef __SANITIZE_THREAD__
enum { LONG = 1 << 19, THREADS = 4, ROUNDS = 10, LEAVES = 2 };
#else
enum { LONG = 1 << 20, THREADS = 4, ROUNDS = 60, LEAVES = 10 };
#endif

/* ---- worlds ---- */

/* Where the ranks run: NULL: on one host; otherwise each on a host of its own. */
static const char each_alone[] = "each rank on a host of its own";

static void place(const struct ranks_world *w, uint32_t rank) {
  char host[16];
  snprintf(host, sizeof host, "%u", rank);
  if (w->context == each_alone) setenv("TUTTI_HOST", host, 1);
}

static tutti_err join(const struct ranks_world *w, uint32_t rank, uint64_t thread, tutti_comm **world) {
  place(w, rank);
  return tutti_init(&(tutti_options){.progress_thread = thread}, world);
}

static void run_both(const char *name, uint32_t ranks, int (*body)(struct ranks_world *w, uint32_t rank),
                     uint32_t victims) {
  run_world(name, ranks, NULL, body, victims);
  run_world(name, ranks, each_alone, body, victims);
}

/* ---- ranks that compute ---- */

static volatile uint64_t computed;

/* Computes until the other rank is done. Makes no call of the library, and none of the kernel. */
static void compute_until(const struct ranks_world *w, uint32_t number, uint64_t goal) {
  while (w->shared->numbers[number] < goal) computed += 1;
}

/* Sums of `count` elements, all of which have the same value on a rank, and calls with them. */
struct sum {
  int32_t *in, *out;
  size_t count;
};

static struct sum make_sum(size_t count, int32_t value) {
  struct sum s = {malloc(count * sizeof *s.in), calloc(count, sizeof *s.out), count};
  if (!s.in || !s.out) abort();
  for (size_t i = 0; i < count; i++) s.in[i] = value;
  return s;
}

static bool end_sum(struct sum *s, int32_t expected) {
  bool good = true;
  for (size_t i = 0; i < s->count; i++) good &= s->out[i] == expected;
  free(s->in);
  free(s->out);
  return good;
}

/* The root of this algorithm must move twice: it receives, then sends. */
static tutti_call call_of(const struct sum *s) {
  return (tutti_call){.collective = TUTTI_ALLREDUCE,
                      .send = s->in,
                      .recv = s->out,
                      .count = s->count,
                      .type = TUTTI_I32,
                      .algorithm = "reduce_broadcast"};
}

/* Rank 0 starts, and computes until rank 1 has its result. */
static int sum_while_computing(struct ranks_world *w, uint32_t rank, tutti_comm *comm, size_t count) {
  struct sum s = make_sum(count, (int32_t)rank + 1);
  const tutti_call call = call_of(&s);
  const uint64_t before = w->shared->numbers[0];
  tutti_request *request;
  MUST(tutti_barrier(comm));
  MUST(tutti_start(comm, &call, &request));
  if (rank == 0) compute_until(w, 0, before + 1);
  MUST(tutti_wait(&request));
  EXPECT(end_sum(&s, 3));
  if (rank == 1) w->shared->numbers[0]++;
  return 0;
}

static int compute_with_sums(struct ranks_world *w, uint32_t rank, tutti_comm *world) {
  static const size_t counts[] = {1, 100, 10000, LONG};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
    if (sum_while_computing(w, rank, world, counts[i]) != 0) return 1;
  MUST(tutti_comm_free(world));
  return 0;
}

static int play_option(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  MUST(join(w, rank, 1, &world));
  return compute_with_sums(w, rank, world);
}

static void test_a_rank_that_computes_makes_progress(void) { run_both("option", 2, play_option, 0); }

/* A program of version 0.1 does not know the option. */
static int play_variable(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  const tutti_options old = {.progress_thread = 7};
  place(w, rank);
  setenv("TUTTI_PROGRESS_THREAD", "1", 1);
  MUST(tutti_init_sized(&old, offsetof(tutti_options, progress_thread), &world));
  return compute_with_sums(w, rank, world);
}

static void test_variable_and_program_of_version_0_1(void) { run_both("variable", 2, play_variable, 0); }

static int play_refused(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  EXPECT(join(w, rank, 2, &world) == TUTTI_ERR_ARGUMENT && !world);
  EXPECT(test_contains(tutti_error_message(NULL), "tutti_options.progress_thread is 2|expected 1"));
  setenv("TUTTI_PROGRESS_THREAD", "2", 1);
  EXPECT(join(w, rank, 0, &world) == TUTTI_ERR_ENVIRONMENT && !world);
  EXPECT(test_contains(tutti_error_message(NULL), "TUTTI_PROGRESS_THREAD|'2'|0 to 1"));
  return 0;
}

static void test_other_values_are_refused(void) { run_world("refused", 1, NULL, play_refused, 0); }

/* ---- data that is still to be sent when all calls are over ---- */

enum { PIECE = 4 << 20 };

/* Rank 0 starts sends until one of them does not end at once. Then it computes until rank 1 has received all. The ring
 * holds more than sockets take while rank 1 makes no call, so that much is unsent when the last send is over. */
static int play_rest(struct ranks_world *w, uint32_t rank) {
  static unsigned char data[PIECE];
  _Atomic uint64_t *sent = &w->shared->numbers[1];
  tutti_comm *world;
  tutti_request *request = NULL;
  bool done = true;
  setenv("TUTTI_RING_BYTES", "64M", 1);
  setenv("TUTTI_SLOT_BYTES", "4M", 1);
  MUST(join(w, rank, 1, &world));
  while (rank == 0 && done) {
    MUST(tutti_isend(world, data, PIECE, TUTTI_U8, 1, 0, &request));
    MUST(tutti_test(&request, &done));
    (*sent)++;
  }
  if (rank == 0) {
    w->shared->go = 1;
    compute_until(w, 0, 1);
  }
  while (rank == 1 && !w->shared->go) ranks_sleep_us(500);
  for (uint64_t i = 0; rank == 1 && i < *sent; i++) {
    MUST(tutti_recv(world, data, PIECE, TUTTI_U8, 0, 0));
    ranks_sleep_us(2000);
  }
  if (rank == 1) w->shared->numbers[0] = 1;
  MUST(tutti_wait(&request));
  MUST(tutti_comm_free(world));
  return 0;
}

static void test_what_is_left_is_sent(void) { run_both("rest", 2, play_rest, 0); }

/* What a rank has sent arrives without further calls of it, also if it has not asked for the thread. Rank 1 makes no call
 * before rank 0 computes. So then the connection is still to be made, and the sockets take only a part of the sends. */
static int play_sent(struct ranks_world *w, uint32_t rank) {
  enum { SENDS = 8 };
  static unsigned char data[PIECE];
  tutti_comm *world;
  setenv("TUTTI_RING_BYTES", "64M", 1);
  setenv("TUTTI_SLOT_BYTES", "4M", 1);
  MUST(join(w, rank, 0, &world));
  while (rank == 1 && !w->shared->go) ranks_sleep_us(500);
  for (int i = 0; i < SENDS; i++) {
    const size_t bytes = i == 0 ? 8 : PIECE;
    tutti_request *request = NULL;
    bool done = true;
    if (rank == 1) MUST(tutti_recv(world, data, bytes, TUTTI_U8, 0, 0));
    else MUST(tutti_isend(world, data, bytes, TUTTI_U8, 1, 0, &request));
    MUST(tutti_test(&request, &done));
    EXPECT(done);
  }
  if (rank == 0) w->shared->go = 1;
  if (rank == 0) compute_until(w, 0, 1);
  else w->shared->numbers[0] = 1;
  MUST(tutti_comm_free(world));
  return 0;
}

static void test_what_was_sent_arrives(void) { run_both("sent", 2, play_sent, 0); }

/* The ranks leave a call one after the other, and a rank that has left it computes until all have. */
static int play_leave(struct ranks_world *w, uint32_t rank, tutti_comm *world, int what) {
  _Atomic uint64_t *left = &w->shared->numbers[what];
  tutti_comm *part = NULL;
  const uint32_t all[] = {0, 1, 2, 3};
  ranks_sleep_us(rank * 3000);
  if (what == 0) MUST(tutti_barrier(world));
  if (what == 1) MUST(tutti_comm_split(world, 0, (int)(3 - rank), &part));
  if (what >= 2) MUST(tutti_comm_create(world, all, 4, 0, &part));
  if (what == 3) MUST(tutti_barrier(part));
  (*left)++;
  compute_until(w, (uint32_t)what, 4);
  MUST(tutti_comm_free(part));
  return 0;
}

static int play_leaves(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  MUST(join(w, rank, 0, &world));
  for (int what = 0; what < 4; what++)
    if (play_leave(w, rank, world, what) != 0) return 1;
  MUST(tutti_comm_free(world));
  return 0;
}

static void test_ranks_leave_calls(void) {
  for (int i = 0; i < LEAVES; i++) run_both("leaves", 4, play_leaves, 0);
}

/* ---- several worlds and communicators ---- */

/* Returns the number of threads of the library in this process; *switches: how often they have gone to sleep. */
static uint32_t count_threads(uint64_t *switches) {
  uint32_t count = 0;
  char path[64], line[256];
  DIR *folder = opendir("/proc/self/task");
  *switches = 0;
  for (const struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
    bool ours = false;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", entry->d_name);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
      unsigned long long number;
      ours |= strcmp(line, "Name:\ttutti\n") == 0;
      if (ours && sscanf(line, "voluntary_ctxt_switches: %llu", &number) == 1) *switches += number;
    }
    if (file) fclose(file);
    count += ours;
  }
  if (folder) closedir(folder);
  return count;
}

/* Waits until the process has `count` threads of the library; a thread gets its name only once it runs. */
static bool has_threads(uint32_t count) {
  const uint64_t end = ranks_now_ms() + HANG_MS / 2;
  uint64_t switches;
  while (count_threads(&switches) != count && ranks_now_ms() < end) ranks_sleep_us(1000);
  return count_threads(&switches) == count;
}

static void tell_port(void *context, uint16_t port) { ((struct ranks_world *)context)->shared->numbers[2] = port; }

/* Joins a second world of the same processes. */
static tutti_err join_second(struct ranks_world *w, uint32_t rank, tutti_comm **world) {
  while (rank > 0 && w->shared->numbers[2] == 0) ranks_sleep_us(500);
  return tutti_init(&(tutti_options){.rank = rank,
                                     .ranks = w->ranks,
                                     .address = "127.0.0.1",
                                     .port = rank > 0 ? (uint16_t)w->shared->numbers[2] : 0,
                                     .on_listen = tell_port,
                                     .on_listen_context = w,
                                     .progress_thread = 1},
                    world);
}

/* Rank 0 has a call in each communicator, and computes until rank 1 has all results. */
static int play_worlds(struct ranks_world *w, uint32_t rank) {
  enum { COMMS = 3 };
  tutti_comm *comms[COMMS];
  tutti_request *requests[COMMS];
  struct sum sums[COMMS];
  MUST(join(w, rank, 1, &comms[0]));
  MUST(tutti_comm_dup(comms[0], &comms[1]));
  MUST(join_second(w, rank, &comms[2]));
  EXPECT(has_threads(1));
  for (uint64_t round = 1; round <= 10; round++) {
    for (int i = 0; i < COMMS; i++) {
      sums[i] = make_sum(i == 1 ? LONG / 4 : 10, (int32_t)rank + 1);
      const tutti_call call = call_of(&sums[i]);
      MUST(tutti_start(comms[i], &call, &requests[i]));
    }
    if (rank == 0) compute_until(w, 0, round);
    for (int i = 0; i < COMMS; i++) MUST(tutti_wait(&requests[i]));
    for (int i = 0; i < COMMS; i++) EXPECT(end_sum(&sums[i], 3));
    if (rank == 1) w->shared->numbers[0] = round;
    MUST(tutti_barrier(comms[0]));
  }
  MUST(tutti_comm_close(comms[0]));
  MUST(tutti_comm_close(comms[1]));
  EXPECT(has_threads(1));
  if (sum_while_computing(w, rank, comms[2], LONG / 4) != 0) return 1;
  MUST(tutti_comm_free(comms[2]));
  EXPECT(has_threads(0));
  return 0;
}

static void test_several_worlds_have_one_thread(void) { run_both("worlds", 2, play_worlds, 0); }

static int play_none(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  MUST(join(w, rank, 0, &world));
  MUST(tutti_barrier(world));
  EXPECT(has_threads(0));
  MUST(tutti_comm_free(world));
  return 0;
}

static void test_default_is_no_thread(void) { run_both("none", 2, play_none, 0); }

/* The thread of a rank without open calls does not even wake up. A thread that looked from time to time would not stay
 * asleep for as long as this waits for it. */
static int play_idle(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  uint64_t before = 0, after;
  MUST(join(w, rank, 1, &world));
  if (sum_while_computing(w, rank, world, LONG) != 0) return 1;
  const uint64_t end = ranks_now_ms() + HANG_MS / 2;
  do {
    EXPECT(count_threads(&before) == 1);
    ranks_sleep_us(250000);
    EXPECT(count_threads(&after) == 1);
  } while (before != after && ranks_now_ms() < end);
  EXPECT(before == after);
  MUST(tutti_comm_free(world));
  return 0;
}

static void test_idle_thread_sleeps(void) { run_both("idle", 2, play_idle, 0); }

/* ---- threads of the program ---- */

struct worker {
  tutti_comm *comm;
  uint32_t rank, number;
  int status;
};

struct ready {
  _Atomic size_t count; /* number of elements that on_ready has reported */
};

static void count_ready(void *context, size_t first, size_t count) {
  (void)first;
  ((struct ready *)context)->count += count;
}

static int work(const struct worker *me) {
  const uint32_t rank = me->rank;
  uint64_t state = me->number + 1; /* the same on all ranks, which make the same calls */
  for (uint32_t round = 0; round < ROUNDS; round++) {
    const uint64_t choice = ranks_random(&state);
    struct sum s = make_sum(choice % 5 == 0 ? LONG / 8 : 1 + choice % 100, (int32_t)(rank + round));
    struct ready ready = {0};
    tutti_request *request = NULL;
    tutti_call call = call_of(&s);
    call.on_ready = choice % 3 == 0 ? count_ready : NULL;
    call.on_ready_context = &ready;
    bool done = false;
    if (choice % 4 == 0) MUST(tutti_allreduce(me->comm, s.in, s.out, s.count, TUTTI_I32, TUTTI_SUM));
    else MUST(tutti_start(me->comm, &call, &request));
    while (choice % 4 == 1 && !done) MUST(tutti_test(&request, &done));
    if (choice % 4 == 2) MUST(tutti_progress(me->comm, 1));
    MUST(tutti_wait(&request));
    EXPECT(ready.count == (call.on_ready && choice % 4 > 0 ? s.count : 0));
    EXPECT(end_sum(&s, (int32_t)(1 + 2 * round)));
  }
  return 0;
}

static void *run_worker(void *argument) {
  struct worker *me = argument;
  me->status = work(me);
  return NULL;
}

static int play_threads(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  struct worker workers[THREADS];
  pthread_t threads[THREADS];
  int status = 0;
  MUST(join(w, rank, 1, &world));
  for (uint32_t i = 0; i < THREADS; i++) {
    workers[i] = (struct worker){.rank = rank, .number = i};
    MUST(tutti_comm_dup(world, &workers[i].comm));
  }
  for (uint32_t i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, run_worker, &workers[i]) != 0) abort();
  for (uint32_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (uint32_t i = 0; i < THREADS; i++) status |= workers[i].status;
  for (uint32_t i = 0; i < THREADS && status == 0; i++) MUST(tutti_comm_free(workers[i].comm));
  if (status == 0) MUST(tutti_comm_free(world));
  return status;
}

static void test_threads_call_meanwhile(void) { run_both("threads", 2, play_threads, 0); }

/* on_ready is called while the rank computes. */
static int play_ready(struct ranks_world *w, uint32_t rank) {
  struct sum s = make_sum(LONG, (int32_t)rank + 1);
  struct ready ready = {0};
  tutti_call call = call_of(&s);
  tutti_comm *world;
  tutti_request *request;
  MUST(join(w, rank, 1, &world));
  call.on_ready = count_ready;
  call.on_ready_context = &ready;
  MUST(tutti_start(world, &call, &request));
  while (ready.count < s.count) computed += 1;
  MUST(tutti_wait(&request));
  EXPECT(end_sum(&s, 3));
  MUST(tutti_comm_free(world));
  return 0;
}

static void test_on_ready(void) { run_both("on_ready", 2, play_ready, 0); }

/* ---- fork ---- */

/* A child has no thread of its parent, may not use its objects, and may have a world and a thread of its own. */
static int live_as_child(uint32_t rank, tutti_request **request) {
  tutti_comm *alone;
  EXPECT(has_threads(0));
  EXPECT(tutti_wait(request) == TUTTI_ERR_ARGUMENT);
  EXPECT(test_contains(tutti_error_message(NULL), "fork"));
#ifndef __SANITIZE_THREAD__ /* it does not support threads in such children */
  MUST(tutti_init(&(tutti_options){.ranks = 1, .progress_thread = 1}, &alone));
  EXPECT(has_threads(1));
#else
  MUST(tutti_init(&(tutti_options){.ranks = 1}, &alone));
#endif
  MUST(tutti_barrier(alone));
  MUST(tutti_comm_free(alone));
  EXPECT(has_threads(0));
  return 0;
}

static int play_fork(struct ranks_world *w, uint32_t rank) {
  struct sum s = make_sum(LONG, (int32_t)rank + 1);
  const tutti_call call = call_of(&s);
  tutti_comm *world;
  tutti_request *request;
  int status = 0;
  MUST(join(w, rank, 1, &world));
  if (rank == 0) MUST(tutti_start(world, &call, &request));
  if (rank == 0) {
    fflush(stdout);
#ifdef __SANITIZE_ADDRESS__ /* a child hangs in malloc if the thread holds a lock of the sanitizer at this moment */
    ranks_sleep_us(100000);
#endif
    const pid_t pid = fork();
    if (pid == 0) {
      status = live_as_child(rank, &request);
      fflush(stdout);
      _exit(status);
    }
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    w->shared->go = 1;
    compute_until(w, 0, 1);
  } else {
    while (!w->shared->go) ranks_sleep_us(500);
    MUST(tutti_start(world, &call, &request));
  }
  MUST(tutti_wait(&request));
  if (rank == 1) w->shared->numbers[0] = 1;
  EXPECT(end_sum(&s, 3));
  MUST(tutti_comm_free(world));
  return 0;
}

static void test_children_of_fork(void) { run_both("fork", 2, play_fork, 0); }

/* ---- errors ---- */

/* Rank 1 dies. Rank 0 makes no call that advances requests: only the thread can find that. The next call returns it. */
static int play_death(struct ranks_world *w, uint32_t rank) {
  struct sum s = make_sum(LONG, 1);
  const tutti_call call = call_of(&s);
  tutti_comm *world;
  tutti_request *request;
  bool done = false;
  MUST(join(w, rank, 1, &world));
  MUST(tutti_barrier(world));
  if (rank == 1) raise(SIGKILL);
  tutti_err err = tutti_start(world, &call, &request);
  while (err == TUTTI_OK && !strstr(tutti_error_message(world), "rank 1")) computed += 1;
  if (err == TUTTI_OK) err = tutti_test(&request, &done);
  EXPECT(err == TUTTI_ERR_PEER);
  EXPECT(test_contains(tutti_error_message(world), "rank 1|died"));
  EXPECT(tutti_barrier(world) == TUTTI_ERR_PEER);
  EXPECT(tutti_comm_free(world) == TUTTI_ERR_PEER || !tutti_error_message(NULL)[0]);
  EXPECT(has_threads(0));
  return 0;
}

static void test_death_of_a_peer(void) { run_both("death", 2, play_death, 1u << 1); }

/* Time limits do not run while the program computes: the call takes longer than its limit, and succeeds. */
static int play_limit(struct ranks_world *w, uint32_t rank) {
  enum { LIMIT_MS = 1, LATE_US = 100000 };
  struct sum s = make_sum(LONG, (int32_t)rank + 1);
  tutti_call call = call_of(&s);
  tutti_comm *world;
  tutti_request *request;
  MUST(join(w, rank, 1, &world));
  MUST(tutti_barrier(world));
  if (rank == 1) ranks_sleep_us(LATE_US);
  if (rank == 0) call.timeout_ms = LIMIT_MS;
  MUST(tutti_start(world, &call, &request));
  if (rank == 0) compute_until(w, 0, 1);
  MUST(tutti_wait(&request));
  if (rank == 1) w->shared->numbers[0] = 1;
  EXPECT(end_sum(&s, 3));
  MUST(tutti_comm_free(world));
  return 0;
}

static void test_time_limits_do_not_run(void) { run_both("limit", 2, play_limit, 0); }

int main(int argc, char **argv) {
  const struct test tests[] = {
      {"a rank that computes makes progress", test_a_rank_that_computes_makes_progress},
      {"variable, and a program of version 0.1", test_variable_and_program_of_version_0_1},
      {"other values are refused", test_other_values_are_refused},
      {"what is left is sent", test_what_is_left_is_sent},
      {"what was sent arrives", test_what_was_sent_arrives},
      {"ranks leave calls", test_ranks_leave_calls},
      {"several worlds have one thread", test_several_worlds_have_one_thread},
      {"default is no thread", test_default_is_no_thread},
      {"idle thread sleeps", test_idle_thread_sleeps},
      {"threads call meanwhile", test_threads_call_meanwhile},
      {"on_ready", test_on_ready},
      {"children of fork", test_children_of_fork},
      {"death of a peer", test_death_of_a_peer},
      {"time limits do not run", test_time_limits_do_not_run},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
