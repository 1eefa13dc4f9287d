/* test: slow timeout=300 */
/* far_test.c: one-sided calls to ranks of other (simulated) hosts: targets that make no call, many threads, long and
 * strided transfers, ranks that die, stop or abort in the middle, and random calls against a model. */
#include <pthread.h>
#include <tutti/window.h>

#include "comm/comm.h"
#include "must.h"
#include "onesided/far.h"
#include "onesided/served.h"
#include "tensors.h"

enum { TIMEOUT_MS = 30000, RANKS = 4 };
#define MIB ((size_t)1 << 20)

/* ---- worlds: word r of the list is the host of rank r ---- */

struct place {
  const char *name, *hosts;
};
static const struct place places[] = {{"2x1", "ab"}, {"2x2", "aabb"}, {"3+1", "aaab"}, {"1+1+1", "abc"}};
enum { PLACES = sizeof places / sizeof places[0] };

static tutti_err join_with(const struct ranks_world *w, uint32_t rank, const tutti_options *options,
                           tutti_comm **world) {
  const struct place *p = w->context;
  const char host[] = {p->hosts[rank], '\0'};
  if (placement_count() == 0) setenv("TUTTI_HOST", host, 1);
  return tutti_init(options, world);
}

static tutti_err join(const struct ranks_world *w, uint32_t rank, tutti_comm **world) {
  return join_with(w, rank, &(tutti_options){.timeout_ms = TIMEOUT_MS}, world);
}

static void run_in(const struct place *p, uint64_t seed, int (*body)(struct ranks_world *w, uint32_t rank),
                   uint32_t victims) {
  struct ranks_world w = {.context = p, .seed = seed};
  ranks_start(&w, (uint32_t)strlen(p->hosts), body);
  CHECK(ranks_end(&w, HANG_MS), "%s: hangs", p->name);
  for (uint32_t r = 0; r < w.ranks; r++) {
    bool killed = WIFSIGNALED(w.status[r]) && WTERMSIG(w.status[r]) == SIGKILL;
    if (victims >> r & 1) CHECK(killed, "%s: rank %u was not killed: status %x", p->name, r, (unsigned)w.status[r]);
    else CHECK(w.status[r] == 0, "%s: rank %u: status %x", p->name, r, (unsigned)w.status[r]);
  }
  ranks_fini(&w);
}

static void run_everywhere(int (*body)(struct ranks_world *w, uint32_t rank)) {
  for (int i = 0; i < PLACES; i++) run_in(&places[i], 1, body, 0);
}

static tutti_tensor flat(void *data, tutti_datatype type, size_t count) {
  tutti_tensor t;
  if (tutti_tensor_strided(&t, (tutti_tensor_of){data, type, 1, &count}, NULL) != TUTTI_OK) abort();
  return t;
}

static unsigned char *part_of(const tutti_window *window, uint32_t rank) { return tutti_window_address(window, rank); }
static int32_t *signal_at(const tutti_window *window, uint32_t rank, size_t byte) {
  return (int32_t *)(void *)(part_of(window, rank) + byte);
}

static unsigned char byte_at(uint64_t salt, size_t i) {
  return (unsigned char)(salt * 31 + i * 7 + (i >> 8) * 13 + (i >> 16) * 5);
}
static void fill_bytes(unsigned char *to, size_t bytes, uint64_t salt) {
  for (size_t i = 0; i < bytes; i++) to[i] = byte_at(salt, i);
}
static bool has_bytes(const unsigned char *at, size_t bytes, uint64_t salt) {
  for (size_t i = 0; i < bytes; i++)
    if (at[i] != byte_at(salt, i)) return false;
  return true;
}

/* Checks that a call has failed in this way. The message must name these facts. */
static bool has_failed(uint32_t rank, tutti_err err, tutti_err wanted, const char *facts, const char *what) {
  if (err == wanted && test_contains(tutti_error_message(NULL), facts)) return true;
  printf("  rank %u: %s: %s, expected '%s' in: %s\n", rank, what, tutti_err_name(err), facts,
         err == TUTTI_OK ? "" : tutti_error_message(NULL));
  return false;
}

/* ---- targets that make no call of the library ---- */

enum { AT_SLOT = 1024, SLOT = 4096, PASSIVE_ROUNDS = 20, AT_SUM = 64, AT_SET = 128 };

static volatile uint64_t computed;

/* Uses the parts of all other ranks. */
static int use_others(const tutti_window *window, uint32_t rank, uint32_t ranks) {
  unsigned char mine[SLOT], back[SLOT];
  int32_t one = 1;
  for (uint32_t to = 0; to < ranks; to++) {
    if (to == rank) continue;
    unsigned char *slot = part_of(window, to) + AT_SLOT + rank * SLOT;
    for (uint64_t i = 0; i < PASSIVE_ROUNDS; i++) {
      const tutti_tensor here = flat(mine, TUTTI_U8, SLOT), there = flat(slot, TUTTI_U8, SLOT);
      const tutti_tensor into = flat(back, TUTTI_U8, SLOT), ones = flat(&one, TUTTI_I32, 1);
      const tutti_tensor sum = flat(signal_at(window, to, AT_SUM), TUTTI_I32, 1);
      fill_bytes(mine, SLOT, i + rank);
      MUST(tutti_put(&here, &there, NULL, NULL));
      MUST(tutti_get(&there, &into, NULL, NULL));
      EXPECT(memcmp(mine, back, SLOT) == 0);
      MUST(tutti_put_add(&ones, &sum, NULL, NULL));
      MUST(tutti_signal_add(signal_at(window, to, 0), 1, NULL));
    }
    MUST(tutti_signal_set(signal_at(window, to, AT_SET + 4 * rank), 7, NULL));
  }
  return 0;
}

/* One rank is the target, and does not call the library until all others have done everything. */
static int be_passive(struct ranks_world *w, uint32_t rank, void (*rest)(const struct ranks_world *w, uint64_t goal)) {
  tutti_comm *world;
  tutti_window *window;
  MUST(join(w, rank, &world));
  MUST(tutti_window_create(world, NULL, AT_SLOT + w->ranks * SLOT, &window));
  MUST(tutti_barrier(world));
  for (uint32_t target = 0; target < w->ranks; target++) {
    const uint64_t goal = (target + 1) * (w->ranks - 1);
    if (rank == target) rest(w, goal);
    else if (use_others(window, rank, w->ranks) != 0) return 1;
    else w->shared->numbers[0]++;
    MUST(tutti_barrier(world));
  }
  const int32_t expected = (int32_t)((w->ranks - 1) * (w->ranks - 1) * PASSIVE_ROUNDS);
  EXPECT(*signal_at(window, rank, 0) == expected && *signal_at(window, rank, AT_SUM) == expected);
  for (uint32_t r = 0; r < w->ranks; r++)
    EXPECT(r == rank || (*signal_at(window, rank, AT_SET + 4 * r) == 7 &&
                         has_bytes(part_of(window, rank) + AT_SLOT + r * SLOT, SLOT, PASSIVE_ROUNDS - 1 + r)));
  MUST(tutti_window_free(window));
  MUST(tutti_comm_free(world));
  return 0;
}

static void compute(const struct ranks_world *w, uint64_t goal) {
  while (w->shared->numbers[0] < goal) computed += 1;
}
static void doze(const struct ranks_world *w, uint64_t goal) {
  while (w->shared->numbers[0] < goal) ranks_sleep_us(20000);
}
static int compute_as_target(struct ranks_world *w, uint32_t rank) { return be_passive(w, rank, compute); }
static int sleep_as_target(struct ranks_world *w, uint32_t rank) { return be_passive(w, rank, doze); }
static void test_computing_target(void) { run_everywhere(compute_as_target); }
static void test_sleeping_target(void) { run_everywhere(sleep_as_target); }

/* ---- targets that are busy in calls among the ranks of their host ---- */

enum { BUSY_BYTES = 1 << 20 };

/* The ranks of host a call each other, until rank 2, on host b, has done everything. */
static int call_locally(struct ranks_world *w, uint32_t rank, bool waits) {
  tutti_comm *world, *local;
  tutti_window *window;
  static float in[BUSY_BYTES / 4], out[BUSY_BYTES / 4];
  MUST(join(w, rank, &world));
  MUST(tutti_window_create(world, NULL, AT_SLOT + w->ranks * SLOT, &window));
  MUST(tutti_comm_split(world, rank < 2 ? 0 : 1, 0, &local));
  MUST(tutti_barrier(world));
  if (rank >= 2) {
    if (use_others(window, rank, w->ranks) != 0) return 1;
    w->shared->numbers[0]++;
  } else if (waits) {
    if (rank == 0) doze(w, w->ranks - 2);
    MUST(tutti_barrier(local));
  } else {
    for (int32_t done = 0, all = 0; !all;) {
      MUST(tutti_allreduce(local, in, out, BUSY_BYTES / 4, TUTTI_F32, TUTTI_SUM));
      for (int i = 0; i < 20; i++) MUST(tutti_barrier(local));
      done = w->shared->numbers[0] == w->ranks - 2;
      MUST(tutti_allreduce(local, &done, &all, 1, TUTTI_I32, TUTTI_MIN));
    }
  }
  MUST(tutti_barrier(world));
  MUST(tutti_window_free(window));
  MUST(tutti_comm_free(local));
  MUST(tutti_comm_free(world));
  return 0;
}
static int call_as_target(struct ranks_world *w, uint32_t rank) { return call_locally(w, rank, false); }
static int wait_as_target(struct ranks_world *w, uint32_t rank) { return call_locally(w, rank, true); }

static void test_target_in_local_calls(void) {
  run_in(&places[1], 0, call_as_target, 0);
  run_in(&places[1], 0, wait_as_target, 0);
}

/* ---- one-sided calls within on_ready ---- */

enum { PARTS_ITEMS = 1 << 18 };

struct forwarding {
  const tutti_window *window;
  const int32_t *out;
  uint32_t rank, to;
  tutti_err err;
};

/* Puts the part to another rank, and tells it how many elements there are. */
static void forward(void *context, size_t first, size_t count) {
  struct forwarding *f = context;
  const tutti_tensor here = flat((void *)(uintptr_t)(f->out + first), TUTTI_I32, count);
  const tutti_tensor there = flat(signal_at(f->window, f->to, 64 + 4 * first), TUTTI_I32, count);
  if (f->err == TUTTI_OK) f->err = tutti_put(&here, &there, NULL, NULL);
  if (f->err == TUTTI_OK) f->err = tutti_signal_add(signal_at(f->window, f->to, 0), (int32_t)count, NULL);
}

/* All ranks put within on_ready, by a thread of the program or of the library. */
static int put_when_ready(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  tutti_window *window;
  int32_t *in = calloc(PARTS_ITEMS, sizeof *in), *out = calloc(PARTS_ITEMS, sizeof *out), sum = 0;
  MUST(join_with(w, rank, &(tutti_options){.timeout_ms = TIMEOUT_MS, .progress_thread = w->seed >> rank & 1}, &world));
  MUST(tutti_window_create(world, NULL, 64 + PARTS_ITEMS * sizeof *in, &window));
  EXPECT(in && out);
  for (uint32_t r = 0; r < w->ranks; r++) sum += (int32_t)r;
  for (int32_t round = 0; round < 5; round++) {
    struct forwarding f = {window, out, rank, (rank + 1) % w->ranks, TUTTI_OK};
    const tutti_call call = {.collective = TUTTI_ALLREDUCE,
                             .send = in,
                             .recv = out,
                             .count = PARTS_ITEMS,
                             .type = TUTTI_I32,
                             .on_ready = forward,
                             .on_ready_context = &f};
    const int32_t *mine = signal_at(window, rank, 64);
    const tutti_tensor signal = flat(signal_at(window, rank, 0), TUTTI_I32, 1);
    tutti_request *request;
    for (int32_t i = 0; i < PARTS_ITEMS; i++) in[i] = (int32_t)rank + i + round;
    MUST(tutti_start(world, &call, &request));
    MUST(tutti_wait(&request));
    EXPECT(f.err == TUTTI_OK);
    MUST(tutti_signal_wait(&signal, TUTTI_EQ, PARTS_ITEMS * (round + 1), TIMEOUT_MS, NULL));
    for (int32_t i = 0; i < PARTS_ITEMS; i++) EXPECT(mine[i] == sum + (int32_t)w->ranks * (i + round));
    MUST(tutti_barrier(world));
  }
  free(in);
  free(out);
  MUST(tutti_window_free(window));
  MUST(tutti_comm_free(world));
  return 0;
}

static void test_within_on_ready(void) {
  for (int i = 0; i < PLACES; i++)
    for (uint64_t threads = 0; threads < 3; threads++) run_in(&places[i], threads * 5, put_when_ready, 0);
}

/* ---- an idle rank with a window uses no CPU time ---- */

enum { IDLE_US = 500000, IDLE_CPU_US = 50000 };

static uint64_t cpu_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static int idle(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  tutti_window *window;
  MUST(join(w, rank, &world));
  MUST(tutti_window_create(world, NULL, 4096, &window));
  MUST(tutti_barrier(world));
  if (rank == 0) MUST(tutti_signal_set(signal_at(window, w->ranks - 1, 0), 1, NULL));
  ranks_sleep_us(20000);
  const uint64_t before = cpu_us();
  ranks_sleep_us(IDLE_US);
  const uint64_t used = cpu_us() - before;
  if (used > IDLE_CPU_US) printf("  rank %u: used %llu us of CPU time\n", rank, (unsigned long long)used);
  EXPECT(used <= IDLE_CPU_US);
  MUST(tutti_window_free(window));
  MUST(tutti_comm_free(world));
  return 0;
}
static void test_idle(void) { run_in(&places[1], 0, idle, 0); }

/* ---- long and strided transfers ---- */

enum { ROWS = 4099, COLS = 2741, PITCH = 2749 };

/* Puts and gets a matrix to and from the last rank, where its rows, and here its columns, have gaps. */
static int move_matrix(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  tutti_window *window;
  const size_t shape[] = {ROWS, COLS}, there_strides[] = {PITCH, 1}, here_strides[] = {2, 2 * ROWS + 1};
  const size_t there_bytes = (size_t)ROWS * PITCH * 4, here_bytes = (size_t)COLS * (2 * ROWS + 1) * 4;
  const uint32_t last = w->ranks - 1;
  tutti_tensor here, there;
  MUST(join(w, rank, &world));
  MUST(tutti_window_create(world, NULL, rank == last ? there_bytes : 0, &window));
  if (rank == last) memset(part_of(window, rank), 0xa5, there_bytes);
  MUST(tutti_barrier(world));
  uint32_t *mine = rank == 0 ? malloc(here_bytes) : NULL;
  if (rank == 0) {
    EXPECT(mine);
    memset(mine, 0x5a, here_bytes);
    for (uint32_t r = 0; r < ROWS; r++)
      for (uint32_t c = 0; c < COLS; c++) mine[2 * r + (size_t)c * (2 * ROWS + 1)] = r * COLS + c;
    MUST(tutti_tensor_strided(&here, (tutti_tensor_of){mine, TUTTI_U32, 2, shape}, here_strides));
    MUST(tutti_tensor_strided(&there, (tutti_tensor_of){part_of(window, last), TUTTI_U32, 2, shape}, there_strides));
    MUST(tutti_put(&here, &there, NULL, NULL));
    memset(mine, 0x5a, here_bytes);
    MUST(tutti_get(&there, &here, NULL, NULL));
    for (uint32_t c = 0; c < COLS; c++)
      for (uint32_t r = 0; r < ROWS; r++) {
        const uint32_t *at = &mine[2 * r + (size_t)c * (2 * ROWS + 1)];
        EXPECT(at[0] == r * COLS + c);
        EXPECT((r == ROWS - 1 && c == COLS - 1) || at[1] == 0x5a5a5a5a);
      }
  }
  MUST(tutti_barrier(world));
  const uint32_t *part = signal_at(window, rank, 0) ? (const void *)part_of(window, rank) : NULL;
  for (uint32_t r = 0; r < ROWS && rank == last; r++)
    for (uint32_t c = 0; c < PITCH; c++) EXPECT(part[(size_t)r * PITCH + c] == (c < COLS ? r * COLS + c : 0xa5a5a5a5));
  free(mine);
  MUST(tutti_window_free(window));
  MUST(tutti_comm_free(world));
  return 0;
}

static const size_t odd_sizes[] = {1,           3,       17 * 1024 - 1, 17 * 1024 + 1,
                                   4 * MIB - 1, 4 * MIB, 4 * MIB + 1,   64 * MIB + 13};
enum { ODD_SIZES = sizeof odd_sizes / sizeof odd_sizes[0] };

/* Puts and gets runs of odd sizes at odd offsets; through a session, too. */
static int move_runs(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  tutti_window *window;
  const size_t bytes = 64 * MIB + 64;
  MUST(join(w, rank, &world));
  MUST(tutti_window_create(world, NULL, rank == 1 ? bytes : 4096, &window));
  unsigned char *mine = rank == 0 ? malloc(bytes) : NULL;
  EXPECT(rank != 0 || mine);
  for (int i = 0; i < ODD_SIZES; i++) {
    const size_t size = odd_sizes[i], at = (size_t)i * 3;
    tutti_session *session;
    tutti_event event;
    MUST(tutti_barrier(world));
    if (rank == 1) memset(part_of(window, 1), 0x5a, bytes);
    MUST(tutti_barrier(world));
    if (rank == 0) {
      const tutti_tensor here = flat(mine + 1, TUTTI_U8, size), there = flat(part_of(window, 1) + at, TUTTI_U8, size);
      fill_bytes(mine + 1, size, (uint64_t)i);
      MUST(tutti_put(&here, &there, NULL, NULL));
      memset(mine, 0xa5, bytes);
      MUST(tutti_session_create(&session));
      MUST(tutti_get_start(session, &there, &here, &event));
      MUST(tutti_event_wait(event));
      EXPECT(has_bytes(mine + 1, size, (uint64_t)i) && mine[0] == 0xa5 && mine[1 + size] == 0xa5);
      MUST(tutti_session_free(session));
    }
    MUST(tutti_barrier(world));
    const unsigned char *part = part_of(window, 1);
    if (rank == 1)
      EXPECT(has_bytes(part + at, size, (uint64_t)i) && part[at + size] == 0x5a && (at == 0 || part[at - 1] == 0x5a));
  }
  free(mine);
  MUST(tutti_window_free(window));
  MUST(tutti_comm_free(world));
  return 0;
}

static void test_long_transfers(void) {
  run_in(&places[0], 0, move_matrix, 0);
  run_in(&places[0], 0, move_runs, 0);
}

/* ---- many threads ---- */

enum { THREADS = 4, THREAD_ROUNDS = 40, AREA = 96 << 10, MANY_SIZES = 5 };

struct worker {
  struct ranks_world *w;
  const tutti_window *window;
  uint32_t rank, thread;
};

/* A thread puts to and gets from its own area of each part. */
static int work_in_thread(const struct worker *k) {
  static const size_t sizes[MANY_SIZES] = {1, 1000, 17001, 65536, AREA};
  const uint32_t rank = k->rank, id = rank * THREADS + k->thread;
  unsigned char *mine = malloc(AREA), *back = malloc(AREA);
  int32_t one = 1;
  EXPECT(mine && back);
  for (uint64_t i = 0; i < THREAD_ROUNDS; i++) {
    const uint32_t to = (uint32_t)((id + i) % k->w->ranks);
    const size_t size = sizes[(i * 3 + id) % MANY_SIZES];
    unsigned char *area = part_of(k->window, to) + 64 + (size_t)id * AREA;
    const tutti_tensor here = flat(mine, TUTTI_U8, size), there = flat(area, TUTTI_U8, size);
    const tutti_tensor into = flat(back, TUTTI_U8, size), ones = flat(&one, TUTTI_I32, 1);
    const tutti_tensor sum = flat(signal_at(k->window, to, 4), TUTTI_I32, 1);
    fill_bytes(mine, size, i * 100 + id);
    MUST(tutti_put(&here, &there, NULL, NULL));
    MUST(tutti_get(&there, &into, NULL, NULL));
    EXPECT(memcmp(mine, back, size) == 0);
    MUST(tutti_signal_add(signal_at(k->window, to, 0), 1, NULL));
    MUST(tutti_put_add(&ones, &sum, NULL, NULL));
  }
  free(mine);
  free(back);
  return 0;
}
static void *work(void *worker) { return work_in_thread(worker) == 0 ? NULL : worker; }

static int work_in_threads(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  tutti_window *window;
  pthread_t threads[THREADS];
  struct worker workers[THREADS];
  int32_t sums[2], all[2];
  MUST(join(w, rank, &world));
  MUST(tutti_window_create(world, NULL, 64 + (size_t)w->ranks * THREADS * AREA, &window));
  MUST(tutti_barrier(world));
  for (uint32_t t = 0; t < THREADS; t++) {
    workers[t] = (struct worker){w, window, rank, t};
    EXPECT(pthread_create(&threads[t], NULL, work, &workers[t]) == 0);
  }
  /* Meanwhile, the ranks also call each other. */
  for (int i = 0; i < 200; i++) MUST(tutti_barrier(world));
  for (uint32_t t = 0; t < THREADS; t++) {
    void *bad;
    pthread_join(threads[t], &bad);
    EXPECT(!bad);
  }
  MUST(tutti_barrier(world));
  sums[0] = *signal_at(window, rank, 0);
  sums[1] = *signal_at(window, rank, 4);
  MUST(tutti_allreduce(world, sums, all, 2, TUTTI_I32, TUTTI_SUM));
  EXPECT(all[0] == (int32_t)(w->ranks * THREADS * THREAD_ROUNDS) && all[1] == all[0]);
  MUST(tutti_window_free(window));
  MUST(tutti_comm_free(world));
  return 0;
}
static void test_threads(void) { run_everywhere(work_in_threads); }

/* ---- ranks that die, stop or abort ---- */

enum { STREAM_BYTES = 6 << 20, STREAM_MS = 15000 };

/* Puts to and gets from the parts of the others in turns until a call fails. */
static tutti_err stream(const tutti_window *window, uint32_t rank, uint32_t ranks, uint32_t first, size_t at) {
  unsigned char *mine = malloc(STREAM_BYTES);
  tutti_err err = mine ? TUTTI_OK : TUTTI_ERR_MEMORY;
  const uint64_t end = ranks_now_ms() + STREAM_MS;
  if (mine) memset(mine, (int)rank, STREAM_BYTES);
  for (uint32_t i = first; err == TUTTI_OK && ranks_now_ms() < end; i++) {
    const uint32_t to = i % ranks;
    const size_t shape[] = {1000, 1000}, strides[] = {1010, 1};
    tutti_tensor here = flat(mine, TUTTI_U8, STREAM_BYTES),
                 there = flat(part_of(window, to) + at, TUTTI_U8, STREAM_BYTES);
    if (i % 3 == 1 && tutti_tensor_strided(&there, (tutti_tensor_of){part_of(window, to) + at, TUTTI_U8, 2, shape},
                                           strides) != TUTTI_OK)
      abort();
    if (i % 3 == 1 && tutti_tensor_strided(&here, (tutti_tensor_of){mine, TUTTI_U8, 2, shape}, NULL) != TUTTI_OK)
      abort();
    if (to != rank) err = i % 2 ? tutti_put(&here, &there, NULL, NULL) : tutti_get(&there, &here, NULL, NULL);
  }
  free(mine);
  return err;
}

struct streamer {
  const tutti_window *window;
  uint32_t rank, ranks;
  tutti_err err;
  char text[RANKS_TEXT];
};
static void *stream_in_thread(void *argument) {
  struct streamer *s = argument;
  s->err = stream(s->window, s->rank, s->ranks, s->rank + 1, 0);
  snprintf(s->text, sizeof s->text, "%s", tutti_error_message(NULL));
  return NULL;
}

/* All ranks stream by two threads, and rank 1 is killed. */
static int stream_until_a_death(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  tutti_window *window;
  pthread_t thread;
  MUST(join(w, rank, &world));
  MUST(tutti_window_create(world, NULL, 2 * STREAM_BYTES, &window));
  MUST(tutti_barrier(world));
  struct streamer s = {.window = window, .rank = rank, .ranks = w->ranks};
  EXPECT(pthread_create(&thread, NULL, stream_in_thread, &s) == 0);
  if (rank == 1) {
    ranks_sleep_us(w->seed % 60000);
    kill(getpid(), SIGKILL);
  }
  EXPECT(has_failed(rank, stream(window, rank, w->ranks, rank, STREAM_BYTES), TUTTI_ERR_PEER, "rank 1",
                    "a stream to a dead rank"));
  pthread_join(thread, NULL);
  if (s.err != TUTTI_ERR_PEER) printf("  rank %u: the thread's stream: %s: %s\n", rank, tutti_err_name(s.err), s.text);
  EXPECT(s.err == TUTTI_ERR_PEER && test_contains(s.text, "rank 1"));
  EXPECT(has_failed(rank, tutti_barrier(world), TUTTI_ERR_PEER, "rank 1", "barrier"));
  EXPECT(has_failed(rank, tutti_window_free(window), TUTTI_ERR_PEER, "rank 1", "free of the window"));
  (void)!tutti_comm_free(world);
  return 0;
}

/* The last rank is killed before the others have any connection with it, except for one of them. */
static int put_to_a_dead_rank(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  tutti_window *window;
  const uint32_t last = w->ranks - 1;
  MUST(join(w, rank, &world));
  MUST(tutti_window_create(world, NULL, STREAM_BYTES, &window));
  MUST(tutti_barrier(world));
  w->shared->numbers[0]++;
  while (w->shared->numbers[0] < w->ranks) ranks_sleep_us(1000);
  if (rank == last) kill(getpid(), SIGKILL);
  ranks_sleep_us(20000 * rank);
  EXPECT(has_failed(rank, stream(window, rank, w->ranks, last, 0), TUTTI_ERR_PEER, "rank 3", "a put to a dead rank"));
  EXPECT(has_failed(rank, tutti_window_free(window), TUTTI_ERR_PEER, "rank 3", "free of the window"));
  (void)!tutti_comm_free(world);
  return 0;
}

static void test_death(void) {
  uint64_t state = test_seed();
  run_in(&places[1], 0, put_to_a_dead_rank, 1u << 3);
  run_in(&places[2], 0, put_to_a_dead_rank, 1u << 3);
  for (int i = 0; i < (test_long() ? 200 : 8); i++)
    run_in(&places[i % PLACES], ranks_random(&state), stream_until_a_death, 1u << 1);
}

enum { ABORTS = 100 };

/* Rank 1 aborts while all others, and it itself, are in long transfers. Their buffers and windows are free at once. */
static int stream_until_an_abort(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world, *copy;
  tutti_window *window;
  pthread_t thread;
  void *memory;
  MUST(join(w, rank, &world));
  for (int round = 0; round < 4; round++) {
    MUST(tutti_comm_dup(world, &copy));
    MUST(tutti_alloc(world, STREAM_BYTES, &memory));
    MUST(tutti_window_create(copy, memory, STREAM_BYTES, &window));
    MUST(tutti_barrier(world));
    struct streamer s = {.window = window, .rank = rank, .ranks = w->ranks};
    EXPECT(pthread_create(&thread, NULL, stream_in_thread, &s) == 0);
    ranks_sleep_us((w->seed >> 4 * round) % 20000);
    if (rank == 1) tutti_abort(copy, "rank 1 has enough");
    pthread_join(thread, NULL);
    if (s.err != TUTTI_ERR_ABORTED) printf("  rank %u: stream: %s: %s\n", rank, tutti_err_name(s.err), s.text);
    EXPECT(s.err == TUTTI_ERR_ABORTED && test_contains(s.text, "rank 1 has enough"));
    EXPECT(has_failed(rank, tutti_window_free(window), TUTTI_ERR_ABORTED, "has enough", "free of the window"));
    /* Now no peer writes to the memory any more. */
    memset(memory, 0x77, STREAM_BYTES);
    for (int i = 0; i < 5; i++) {
      ranks_sleep_us(1000);
      for (size_t b = 0; b < STREAM_BYTES; b += 509) EXPECT(((unsigned char *)memory)[b] == 0x77 || w->ranks > 2);
    }
    EXPECT(has_failed(rank, tutti_comm_free(copy), TUTTI_ERR_ABORTED, "has enough", "free of the communicator"));
    MUST(tutti_barrier(world));
    tutti_free(world, memory);
  }
  MUST(tutti_comm_free(world));
  return 0;
}

static void test_abort(void) {
  uint64_t state = test_seed();
  for (int i = 0; i < PLACES; i++) run_in(&places[i], ranks_random(&state), stream_until_an_abort, 0);
}

/* Rank 1 aborts, and frees the window at once. A request that it then refuses must not fail before the reason is known. */
static int signal_until_an_abort(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world, *copy;
  tutti_window *window;
  MUST(join(w, rank, &world));
  for (int round = 0; round < ABORTS; round++) {
    tutti_err err = TUTTI_OK;
    MUST(tutti_comm_dup(world, &copy));
    MUST(tutti_window_create(copy, NULL, 64, &window));
    MUST(tutti_barrier(world));
    if (rank == 1) tutti_abort(copy, "rank 1 has enough");
    while (rank != 1 && err == TUTTI_OK) err = tutti_signal_add(signal_at(window, 1, 0), 1, NULL);
    EXPECT(rank == 1 || has_failed(rank, err, TUTTI_ERR_ABORTED, "rank 1 has enough", "a signal"));
    EXPECT(has_failed(rank, tutti_window_free(window), TUTTI_ERR_ABORTED, "has enough", "free of the window"));
    EXPECT(has_failed(rank, tutti_comm_free(copy), TUTTI_ERR_ABORTED, "has enough", "free of the communicator"));
    MUST(tutti_barrier(world));
  }
  MUST(tutti_comm_free(world));
  return 0;
}
static void test_refusal_after_an_abort(void) { run_everywhere(signal_until_an_abort); }

/* The last rank is stopped. Rank 0, on another host, puts to it until its time-out. */
static int put_to_a_stopped_rank(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  tutti_window *window;
  const uint32_t last = w->ranks - 1;
  char facts[96];
  MUST(join_with(w, rank, &(tutti_options){.timeout_ms = 700}, &world));
  MUST(tutti_window_create(world, NULL, STREAM_BYTES, &window));
  w->shared->numbers[1 + rank] = (uint64_t)getpid();
  MUST(tutti_barrier(world));
  if (rank == last) {
    w->shared->numbers[0] = 1;
    raise(SIGSTOP);
    EXPECT(has_failed(rank, tutti_window_free(window), TUTTI_ERR_TIMEOUT, "rank 0", "free after a stop"));
  } else if (rank == 0) {
    while (w->shared->numbers[0] == 0) ranks_sleep_us(1000);
    ranks_sleep_us(20000);
    const uint64_t before = ranks_now_ms();
    snprintf(facts, sizeof facts, "tutti_|rank 0|700 ms|rank %u", last);
    tutti_err err = stream(window, 0, w->ranks, last, 0);
    const uint64_t took = ranks_now_ms() - before;
    kill((pid_t)w->shared->numbers[1 + last], SIGCONT);
    EXPECT(has_failed(rank, err, TUTTI_ERR_TIMEOUT, facts, "a put to a stopped rank"));
    EXPECT(took >= 600 && took < 5000);
    EXPECT(has_failed(rank, tutti_window_free(window), TUTTI_ERR_TIMEOUT, facts, "free of the window"));
  } else {
    ranks_sleep_us(900000);
    EXPECT(has_failed(rank, tutti_window_free(window), TUTTI_ERR_TIMEOUT, "rank 0", "free of the window"));
  }
  (void)!tutti_comm_free(world);
  return 0;
}
static void test_stopped(void) {
  run_in(&places[0], 0, put_to_a_stopped_rank, 0);
  run_in(&places[1], 0, put_to_a_stopped_rank, 0);
}

/* ---- windows that come and go ---- */

static int create_and_free(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world, *copy;
  tutti_window *window, *passing;
  pthread_t threads[THREADS];
  struct worker workers[THREADS];
  MUST(join(w, rank, &world));
  MUST(tutti_comm_dup(world, &copy));
  MUST(tutti_window_create(world, NULL, 64 + (size_t)w->ranks * THREADS * AREA, &window));
  MUST(tutti_barrier(world));
  for (uint32_t t = 0; t < THREADS; t++) {
    workers[t] = (struct worker){w, window, rank, t};
    EXPECT(pthread_create(&threads[t], NULL, work, &workers[t]) == 0);
  }
  for (int32_t i = 0; i < 50; i++) {
    MUST(tutti_window_create(copy, NULL, 100 + (size_t)i * 1000, &passing));
    for (uint32_t r = 0; r < w->ranks; r++) MUST(tutti_signal_add(signal_at(passing, r, 8), i, NULL));
    MUST(tutti_barrier(copy));
    EXPECT(*signal_at(passing, rank, 8) == i * (int32_t)w->ranks);
    MUST(tutti_window_free(passing));
  }
  for (uint32_t t = 0; t < THREADS; t++) {
    void *bad;
    pthread_join(threads[t], &bad);
    EXPECT(!bad);
  }
  MUST(tutti_window_free(window));
  MUST(tutti_comm_free(copy));
  MUST(tutti_comm_free(world));
  return 0;
}
static void test_windows_come_and_go(void) { run_everywhere(create_and_free); }

/* ---- children of fork() ---- */

enum { CHILDREN = 10, CHILD_S = 5, SEARCHED = 100 };

/* Joins a world of its own, and makes a window there. */
static int child_with_a_window(uint32_t rank) {
  tutti_comm *world;
  tutti_window *window;
  static const char *const names[] = {"TUTTI_RANK", "TUTTI_WORLD_SIZE", "TUTTI_MASTER_ADDR", "TUTTI_MASTER_PORT"};
  for (int i = 0; i < 4; i++) unsetenv(names[i]);
  MUST(tutti_init(NULL, &world));
  MUST(tutti_window_create(world, NULL, 64, &window));
  MUST(tutti_window_free(window));
  MUST(tutti_comm_free(world));
  return 0;
}

static _Atomic bool forked;

/* Searches for windows nearly all the time, as the thread of the library does when it serves. */
static void *signal_until_forked(void *signal) {
  while (!forked && tutti_signal_add(signal, 1, NULL) == TUTTI_OK) continue;
  return NULL;
}

static int fork_while_searching(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  tutti_window *windows[SEARCHED];
  pthread_t thread;
  MUST(join(w, rank, &world));
  for (int i = 0; i < SEARCHED; i++) MUST(tutti_window_create(world, NULL, 8, &windows[i]));
  if (rank == 1) EXPECT(pthread_create(&thread, NULL, signal_until_forked, signal_at(windows[0], 1, 0)) == 0);
  for (int i = 0; i < CHILDREN && rank == 1; i++) {
    const pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
      alarm(CHILD_S);
      _exit(child_with_a_window(rank));
    }
    int status = 0;
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(status == 0);
  }
  forked = true;
  if (rank == 1) pthread_join(thread, NULL);
  for (int i = 0; i < SEARCHED; i++) MUST(tutti_window_free(windows[i]));
  MUST(tutti_comm_free(world));
  return 0;
}
static void test_fork(void) { run_in(&places[0], 0, fork_while_searching, 0); }

/* ---- sessions with a copy that fails ---- */

enum { COPIES = 20, FAILS = 5 };

/* A copy to a window that rank 1 has freed, because its communicator has failed, ends one wait. The copies after it are
 * still made. */
static int fail_in_a_session(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world, *copy;
  tutti_window *window, *lost;
  tutti_session *session;
  tutti_event last = {0};
  int32_t values[COPIES];
  MUST(join(w, rank, &world));
  MUST(tutti_comm_dup(world, &copy));
  MUST(tutti_window_create(world, NULL, 4096, &window));
  MUST(tutti_window_create(copy, NULL, 4096, &lost));
  MUST(tutti_barrier(world));
  MUST(tutti_session_create(&session));
  for (int32_t i = 0; i < COPIES && rank == 0; i++) {
    const tutti_tensor here = flat(&values[i], TUTTI_I32, 1);
    const tutti_tensor there = flat(signal_at(i == FAILS ? lost : window, 1, 4 * (size_t)i), TUTTI_I32, 1);
    values[i] = i + 1;
    MUST(tutti_put_start(session, &here, &there, &last));
  }
  if (rank == 0) tutti_abort(copy, "for a test");
  MUST(tutti_barrier(world));
  if (rank == 1) EXPECT(has_failed(rank, tutti_window_free(lost), TUTTI_ERR_ABORTED, "for a test", "free"));
  MUST(tutti_barrier(world));
  EXPECT(rank == 1 || tutti_event_wait(last) != TUTTI_OK);
  MUST(tutti_event_wait(last));
  MUST(tutti_session_free(session));
  MUST(tutti_barrier(world));
  for (int32_t i = 0; i < COPIES && rank == 1; i++)
    EXPECT(*signal_at(window, 1, 4 * (size_t)i) == (i == FAILS ? 0 : i + 1));
  if (rank == 0) EXPECT(has_failed(rank, tutti_window_free(lost), TUTTI_ERR_ABORTED, "for a test", "free"));
  MUST(tutti_window_free(window));
  (void)!tutti_comm_free(copy);
  MUST(tutti_comm_free(world));
  return 0;
}
static void test_session_after_an_error(void) { run_in(&places[0], 0, fail_in_a_session, 0); }

/* ---- random calls, against a model ---- */

enum { MIX_AREA = 40000, MIX_ROUNDS = 6, MIX_CALLS = 40, GROUP_ROWS = 5, GROUP_COLS = 300 };
enum { GROUP_ITEMS = GROUP_ROWS * GROUP_COLS };

struct mix {
  struct ranks_world *w;
  const tutti_window *window;
  uint32_t rank, ranks;
  uint64_t state;
  unsigned char *model; /* [ranks][MIX_AREA]: what this rank has written to its area of each part */
  unsigned char *own, *tiles;
  tutti_session *session;
  int32_t added; /* to the counters of all parts */
};

static size_t draw(struct mix *m, size_t below) { return (size_t)(ranks_random(&m->state) % below); }
static unsigned char *area_of(const struct mix *m, uint32_t to) {
  return part_of(m->window, to) + 64 + (size_t)m->rank * MIX_AREA;
}
static int32_t *group_of(const struct mix *m, uint32_t to) {
  return signal_at(m->window, to, 64 + (size_t)m->ranks * MIX_AREA);
}

/* Draws strides for a matrix of that shape: with gaps or without, perhaps transposed. Returns its extent in elements. */
static size_t draw_strides(struct mix *m, const size_t shape[2], size_t strides[2]) {
  const size_t step = draw(m, 3) ? 1 : 2, inner = draw(m, 4) ? 1 : 0;
  strides[inner] = step;
  strides[!inner] = step * shape[inner] + (draw(m, 2) ? draw(m, 9) : 0);
  return (shape[0] - 1) * strides[0] + (shape[1] - 1) * strides[1] + 1;
}

static const tutti_staging *draw_tiles(struct mix *m, tutti_staging *s, size_t item) {
  *s = (tutti_staging){.rows = 1 + draw(m, 20), .cols = 1 + draw(m, 60)};
  const size_t count = draw(m, 3), bytes = s->rows * s->cols * item;
  for (size_t i = 0; i < count; i++) s->tiles[i] = m->tiles + i * ((bytes + 63) & ~(size_t)63);
  return count ? s : NULL;
}

/* Puts, adds or gets a matrix. */
static int move_one(struct mix *m, uint32_t to) {
  const uint32_t rank = m->rank;
  static const tutti_datatype types[] = {TUTTI_U8, TUTTI_I32, TUTTI_U64};
  const int what = (int)draw(m, 3); /* 0: put; 1: get; 2: add */
  const tutti_datatype type = what == 2 ? TUTTI_I32 : types[draw(m, 3)];
  const size_t item = tutti_datatype_size(type), most = MIX_AREA / item / 3;
  size_t shape[2] = {1 + draw(m, 60), 0}, here_strides[2], there_strides[2];
  shape[1] = 1 + draw(m, draw(m, 3) ? 10 : most / shape[0] / 2);
  const size_t extent = draw_strides(m, shape, there_strides);
  (void)draw_strides(m, shape, here_strides);
  if (extent * item > MIX_AREA) return 0;
  const size_t at = draw(m, (MIX_AREA - extent * item) / item + 1) * item;
  unsigned char *model = m->model + (size_t)to * MIX_AREA + at;
  tutti_tensor here, there;
  tutti_staging staging;
  MUST(tutti_tensor_strided(&here, (tutti_tensor_of){m->own, type, 2, shape}, here_strides));
  MUST(tutti_tensor_strided(&there, (tutti_tensor_of){area_of(m, to) + at, type, 2, shape}, there_strides));
  const tutti_staging *tiles = draw_tiles(m, &staging, item);
  for (size_t i = 0; i < 3 * MIX_AREA; i += 8) memcpy(m->own + i, &(uint64_t){ranks_random(&m->state)}, 8);
  if (what == 0) MUST(tutti_put(&here, &there, tiles, NULL));
  if (what == 1) MUST(tutti_get(&there, &here, tiles, NULL));
  if (what == 2) MUST(tutti_put_add(&here, &there, tiles, NULL));
  for (size_t r = 0; r < shape[0]; r++)
    for (size_t c = 0; c < shape[1]; c++) {
      const unsigned char *x = m->own + (r * here_strides[0] + c * here_strides[1]) * item;
      unsigned char *y = model + (r * there_strides[0] + c * there_strides[1]) * item;
      uint32_t a, b;
      memcpy(&a, x, what == 2 ? sizeof a : 0);
      memcpy(&b, y, what == 2 ? sizeof b : 0);
      if (what == 2) a += b, memcpy(y, &a, sizeof a);
      else if (what == 0) memcpy(y, x, item);
      else EXPECT(memcmp(x, y, item) == 0);
    }
  return 0;
}

/* Starts copies of a session that overwrite each other, and reads the result. */
static int run_session(struct mix *m, uint32_t to) {
  const uint32_t rank = m->rank;
  enum { COUNT = 90, BYTES = 5000 };
  tutti_event event = {0};
  unsigned char *back = m->own + BYTES + COUNT, *model = m->model + (size_t)to * MIX_AREA;
  for (size_t i = 0; i < BYTES + COUNT; i++) m->own[i] = (unsigned char)ranks_random(&m->state);
  const size_t count = 1 + draw(m, COUNT);
  for (size_t i = 0; i < count; i++) {
    const size_t at = draw(m, 1000), bytes = 1 + draw(m, BYTES);
    const tutti_tensor here = flat(m->own + i, TUTTI_U8, bytes), there = flat(area_of(m, to) + at, TUTTI_U8, bytes);
    MUST(tutti_put_start(m->session, &here, &there, &event));
    memcpy(model + at, m->own + i, bytes);
  }
  const tutti_tensor into = flat(back, TUTTI_U8, BYTES), there = flat(area_of(m, to), TUTTI_U8, BYTES);
  MUST(tutti_get_start(m->session, &there, &into, &event));
  MUST(tutti_event_wait(event));
  EXPECT(memcmp(back, model, BYTES) == 0);
  return 0;
}

static int change_signals(struct mix *m, uint32_t to) {
  const uint32_t rank = m->rank;
  const size_t at = draw(m, MIX_AREA / 4) * 4;
  const int32_t value = (int32_t)draw(m, 1u << 31);
  MUST(tutti_signal_set((int32_t *)(void *)(area_of(m, to) + at), value, NULL));
  memcpy(m->model + (size_t)to * MIX_AREA + at, &value, sizeof value);
  MUST(tutti_signal_add(signal_at(m->window, to, 0), value % 100, NULL));
  m->added += value % 100;
  return 0;
}

static int32_t group_value(uint32_t rank, uint32_t round, size_t i) { return (int32_t)(rank * 1000 + round * 77 + i); }

/* The root's calls with the tensors of all ranks. */
static int lead_group(struct mix *m, uint32_t round) {
  tutti_tensor tensors[8];
  const uint32_t rank = m->rank, ranks = m->ranks;
  int32_t *all = calloc((size_t)ranks * GROUP_ITEMS, sizeof *all);
  const size_t shape[] = {GROUP_ROWS, GROUP_COLS}, whole[] = {GROUP_ROWS * ranks, GROUP_COLS};
  const tutti_onesided_group group = {tensors, ranks, rank};
  tutti_tensor one, many;
  tutti_staging staging;
  EXPECT(all);
  MUST(tutti_tensor_strided(&one, (tutti_tensor_of){all, TUTTI_I32, 2, shape}, NULL));
  MUST(tutti_tensor_strided(&many, (tutti_tensor_of){all, TUTTI_I32, 2, whole}, NULL));
  for (uint32_t r = 0; r < ranks; r++)
    MUST(tutti_tensor_strided(&tensors[r], (tutti_tensor_of){group_of(m, r), TUTTI_I32, 2, shape}, NULL));
  MUST(tutti_onesided_gather(&group, &many, draw_tiles(m, &staging, 4), NULL));
  for (size_t i = 0; i < (size_t)ranks * GROUP_ITEMS; i++)
    EXPECT(all[i] == group_value((uint32_t)(i / GROUP_ITEMS), round, i % GROUP_ITEMS));
  MUST(tutti_onesided_reduce(&group, &one, TUTTI_SUM, NULL, draw_tiles(m, &staging, 4), NULL));
  for (size_t i = 0; i < GROUP_ITEMS; i++)
    EXPECT(all[i] == (int32_t)(ranks * (ranks - 1) / 2 * 1000 + ranks * (round * 77 + i)));
  MUST(tutti_onesided_broadcast(&group, &one, draw_tiles(m, &staging, 4), NULL));
  MUST(tutti_onesided_reduce(&group, &one, TUTTI_MIN, NULL, draw_tiles(m, &staging, 4), NULL));
  for (uint32_t r = 0; r < ranks; r++) memcpy(all + (size_t)r * GROUP_ITEMS, all, GROUP_ITEMS * sizeof *all);
  for (size_t i = 0; i < (size_t)ranks * GROUP_ITEMS; i++) all[i] += (int32_t)(i / GROUP_ITEMS);
  MUST(tutti_onesided_scatter(&group, &many, draw_tiles(m, &staging, 4), NULL));
  free(all);
  return 0;
}

static int one_round(struct mix *m, tutti_comm *world, uint32_t round) {
  const uint32_t rank = m->rank, ranks = m->ranks;
  unsigned char *sent = malloc((size_t)ranks * MIX_AREA);
  int32_t added[2] = {m->added, 0}, all[2];
  EXPECT(sent);
  for (size_t i = 0; i < GROUP_ITEMS; i++) group_of(m, rank)[i] = group_value(rank, round, i);
  MUST(tutti_barrier(world));
  if (round % ranks == rank && lead_group(m, round) != 0) return 1;
  for (int i = 0; i < MIX_CALLS; i++) {
    const uint32_t to = (uint32_t)draw(m, ranks);
    const size_t kind = draw(m, 8);
    if ((kind == 0 ? run_session(m, to) : kind == 1 ? change_signals(m, to) : move_one(m, to)) != 0) return 1;
  }
  MUST(tutti_alltoall(world, m->model, sent, MIX_AREA, TUTTI_U8));
  EXPECT(memcmp(sent, part_of(m->window, rank) + 64, (size_t)ranks * MIX_AREA) == 0);
  for (size_t i = 0; i < GROUP_ITEMS; i++)
    EXPECT(group_of(m, rank)[i] == (int32_t)(ranks * (ranks - 1) / 2 * 1000 + ranks * (round * 77 + i) + rank));
  added[0] = m->added;
  added[1] = *signal_at(m->window, rank, 0);
  MUST(tutti_allreduce(world, added, all, 2, TUTTI_I32, TUTTI_SUM));
  EXPECT(all[0] == all[1]);
  free(sent);
  return 0;
}

static int mix(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world, *comm;
  tutti_window *window;
  MUST(join_with(w, rank, &(tutti_options){.timeout_ms = TIMEOUT_MS, .progress_thread = w->seed >> rank & 1}, &world));
  /* In some worlds, the ranks of the communicator are in reverse order. */
  MUST(tutti_comm_split(world, 0, w->seed & 16 ? -(int)rank : (int)rank, &comm));
  rank = tutti_rank(comm);
  MUST(tutti_window_create(comm, NULL, 64 + (size_t)w->ranks * MIX_AREA + sizeof(int32_t[GROUP_ITEMS]), &window));
  struct mix m = {.w = w, .window = window, .rank = rank, .ranks = w->ranks, .state = w->seed * 64 + rank};
  m.model = calloc(w->ranks, MIX_AREA);
  m.own = malloc((size_t)8 * MIX_AREA);
  m.tiles = aligned_alloc(64, 1 << 20);
  EXPECT(m.model && m.own && m.tiles);
  MUST(tutti_session_create(&m.session));
  for (uint32_t round = 0; round < (test_long() ? 200 : MIX_ROUNDS); round++)
    if (one_round(&m, comm, round) != 0) return 1;
  MUST(tutti_session_free(m.session));
  free(m.model);
  free(m.own);
  free(m.tiles);
  MUST(tutti_window_free(window));
  MUST(tutti_comm_free(comm));
  MUST(tutti_comm_free(world));
  return 0;
}

static void test_mix(void) {
  uint64_t seed = test_seed();
  for (int i = 0; i < 2 * PLACES && test_failures == 0; i++) run_in(&places[i / 2], seed + 16 * (uint64_t)i, mix, 0);
}

/* ---- damaged requests ---- */

enum { DAMAGED = 30000, GUARDED = 1 << 16, BODY_MAX = 4096 };

static uint64_t odd_number(uint64_t *state, uint64_t near) {
  static const uint64_t numbers[] = {
      0, 1, 2, 3, 4, 16, 31, 4096, UINT32_MAX, (uint64_t)1 << 32, (uint64_t)1 << 62, (uint64_t)1 << 63, UINT64_MAX};
  const uint64_t kind = ranks_random(state) % 8;
  if (kind < 3) return ranks_random(state) % (near | 7);
  if (kind == 3) return near;
  if (kind == 4) return near + ranks_random(state) % 64 - 32;
  if (kind == 5) return UINT64_MAX - ranks_random(state) % 4096;
  return numbers[ranks_random(state) % (sizeof numbers / sizeof numbers[0])];
}

/* Describes a region of a random tensor, and then changes some of its numbers. */
static struct tu_far_rows draw_rows(uint64_t *state) {
  static const tutti_datatype types[] = {TUTTI_I32, TUTTI_F64, TUTTI_BF16, TUTTI_U8, TUTTI_BFP8};
  const size_t shape[TUTTI_DIMS] = {1, 1 + ranks_random(state) % 3, 1, 1 + ranks_random(state) % 20,
                                    1 + ranks_random(state) % 70};
  struct tu_far_rows rows = {0};
  const struct tensors_kind *kind = &tensors_kinds[ranks_random(state) % TENSORS_KINDS];
  if (tensors_make(&rows.tensor, kind, types[ranks_random(state) % 5], shape, (tutti_tiles){.rows = 4, .cols = 32}) !=
      TUTTI_OK)
    (void)!tensors_make(&rows.tensor, &tensors_kinds[0], TUTTI_I32, shape, (tutti_tiles){.rows = 4, .cols = 8});
  size_t count = 1;
  for (int d = 0; d < TUTTI_DIMS; d++) {
    const size_t whole = d == 4 && rows.tensor.type == TUTTI_BFP8 ? (shape[d] + 15) / 16 : shape[d];
    rows.origin[d] = ranks_random(state) % whole;
    rows.extent[d] = 1 + ranks_random(state) % (whole - rows.origin[d]);
    count *= d < 4 ? rows.extent[d] : 1;
  }
  rows.row_count = count;
  rows.row_bytes = rows.extent[4] * tutti_datatype_size(rows.tensor.type);
  if (ranks_random(state) % 4 == 0) rows.pitch = rows.row_bytes + ranks_random(state) % 50;
  for (uint64_t changes = ranks_random(state) % 4; changes > 0; changes--) {
    uint64_t *numbers = (uint64_t *)(void *)&rows;
    const size_t at = ranks_random(state) % (sizeof rows / sizeof *numbers);
    if (ranks_random(state) % 2) numbers[at] = odd_number(state, numbers[at]);
    else ((uint32_t *)numbers)[2 * at + ranks_random(state) % 2] = (uint32_t)odd_number(state, 40);
  }
  return rows;
}

static bool is_untouched(const unsigned char *memory) {
  for (size_t i = 0; i < GUARDED; i++)
    if (memory[i] != 0x3c || memory[2 * GUARDED + i] != 0x3c) return false;
  return true;
}

static int serve_damaged(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  tutti_window *window;
  void *memory;
  uint64_t state = w->seed, carried = 0;
  MUST(join(w, rank, &world));
  MUST(tutti_alloc(world, 3 * GUARDED, &memory));
  memset(memory, 0x3c, 3 * GUARDED);
  unsigned char *part = (unsigned char *)memory + GUARDED;
  MUST(tutti_window_create(world, part, GUARDED, &window));
  for (int i = 0; i < (test_long() ? 100 * DAMAGED : DAMAGED) && rank == 0; i++) {
    struct tu_memory_frame f = {.comm_id = world->mover->control.comm_id,
                                .what = (uint8_t)(ranks_random(&state) % 11),
                                .window = window->number,
                                .number = 1,
                                .offset = odd_number(&state, GUARDED),
                                .value = (uint32_t)odd_number(&state, GUARDED)};
    if (ranks_random(&state) % 2) f.offset = ranks_random(&state) % 1024 * 8;
    if (ranks_random(&state) % 100 == 0) f.window = (uint32_t)odd_number(&state, f.window);
    if (ranks_random(&state) % 100 == 0) f.comm_id++;
    const struct tu_far_rows rows = draw_rows(&state);
    const bool has_rows = f.what >= TU_FAR_READ_ROWS && f.what <= TU_FAR_ADD_ROWS;
    size_t bytes = ranks_random(&state) % 64;
    if (has_rows) bytes = sizeof rows + (f.what == TU_FAR_READ_ROWS ? 0 : rows.row_count * rows.row_bytes);
    if (ranks_random(&state) % 50 == 0) bytes = ranks_random(&state) % BODY_MAX;
    bytes = bytes > 1 << 20 ? 1 << 20 : bytes;
    unsigned char *buffer = malloc(bytes), *body = bytes ? buffer : NULL;
    EXPECT(!bytes || buffer);
    for (size_t b = 0; b < bytes; b++) body[b] = (unsigned char)(b % 4 ? 0 : ranks_random(&state) % 3);
    if (bytes > 0) memcpy(body, &rows, bytes < sizeof rows ? bytes : sizeof rows);
    if (bytes > 0 && !has_rows) memset(body, 0, bytes);
    unsigned char *placed = bytes ? tu_windows_server.place(world->transport, &f, bytes) : NULL;
    EXPECT(!placed || (placed >= part && placed + bytes <= part + GUARDED));
    struct tu_memory_answer answer = {0};
    tu_windows_server.carry_out(world->transport, 1, &f, placed ? placed : body, bytes, &answer);
    carried += answer.code == TUTTI_OK;
    volatile unsigned char read = 0;
    for (size_t b = 0; b < answer.bytes; b++) read = (unsigned char)(read + ((const unsigned char *)answer.body)[b]);
    EXPECT(answer.owned || answer.bytes == 0 ||
           ((const unsigned char *)answer.body >= part &&
            (const unsigned char *)answer.body + answer.bytes <= part + GUARDED));
    free(answer.owned);
    free(buffer);
    EXPECT(i % 100 != 0 || is_untouched(memory));
  }
  EXPECT(is_untouched(memory));
  if (rank == 0) printf("  %llu requests were carried out\n", (unsigned long long)carried);
  MUST(tutti_window_free(window));
  tutti_free(world, memory);
  MUST(tutti_comm_free(world));
  return 0;
}
static void test_damaged_requests(void) { run_in(&places[0], test_seed(), serve_damaged, 0); }

static const struct test tests[] = {
    {"computing_target", test_computing_target},
    {"sleeping_target", test_sleeping_target},
    {"target_in_local_calls", test_target_in_local_calls},
    {"within_on_ready", test_within_on_ready},
    {"idle", test_idle},
    {"long_transfers", test_long_transfers},
    {"threads", test_threads},
    {"windows_come_and_go", test_windows_come_and_go},
    {"abort", test_abort},
    {"refusal_after_an_abort", test_refusal_after_an_abort},
    {"death", test_death},
    {"stopped", test_stopped},
    {"fork", test_fork},
    {"session_after_an_error", test_session_after_an_error},
    {"mix", test_mix},
    {"damaged_requests", test_damaged_requests},
};

int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
