/* polling_test.c: programs that poll with tutti_test, tutti_channel_try_peek and tutti_signal_test. Like programs that
 * wait, they get an error after a death or a time-out, at any polling interval, and they leave their core to other
 * ranks. The tests count polls, not time, so that a busy machine changes nothing. */
#include <sched.h>
#include <tutti/channel.h>
#include <tutti/window.h>

#include "ranks.h"
#include "test.h"

enum { HANG_MS = 30000, LOOKS_MAX = 200 };
enum { KILLED, LOOKED, LOOKED_AFTER, VAIN, ROUNDS_DONE }; /* indices of shared->numbers */

/* ---- polling while a peer dies or a time limit passes ---- */

struct looker {
  const char *name;
  int interval_ms, timeout_ms;
  tutti_err expected;
  /* limits of the number of polls until the error, counted from when this process knew of the death; for a time-out:
   * from the start */
  uint32_t looks_min, looks_max;
  /* Polls once; sets *there if what it polls for has come. */
  tutti_err (*look)(bool *there);
  bool (*open)(tutti_comm *world);
};

static tutti_request *request;
static tutti_channel *channel;
static tutti_window *window;
static tutti_tensor signal_of_mine;

static bool open_request(tutti_comm *world) {
  static float in[4], out[4];
  const tutti_call call = {.collective = TUTTI_ALLREDUCE, .send = in, .recv = out, .count = 4, .type = TUTTI_F32};
  return tutti_rank(world) != 0 || tutti_start(world, &call, &request) == TUTTI_OK;
}
static tutti_err look_at_request(bool *there) { return tutti_test(&request, there); }

static bool open_channel(tutti_comm *world) {
  uint32_t rank = tutti_rank(world);
  const tutti_channel_options options = {.slots = 2};
  return tutti_channel_open(world, 1 - rank, rank ? TUTTI_CHANNEL_SENDS : TUTTI_CHANNEL_RECEIVES, &options, &channel) ==
         TUTTI_OK;
}
static tutti_err look_at_channel(bool *there) {
  tutti_channel_message m;
  tutti_err err = tutti_channel_try_peek(channel, 0, &m);
  *there = err == TUTTI_OK && m.data;
  return err;
}

static bool open_signal(tutti_comm *world) {
  const size_t shape[] = {1};
  if (tutti_window_create(world, NULL, 64, &window) != TUTTI_OK) return false;
  void *mine = tutti_window_address(window, tutti_rank(world));
  return tutti_tensor_strided(&signal_of_mine, (tutti_tensor_of){mine, TUTTI_I32, 1, shape}, NULL) == TUTTI_OK;
}
static tutti_err look_at_signal(bool *there) { return tutti_signal_test(&signal_of_mine, TUTTI_EQ, 1, there); }

static int look_until_told(struct ranks_world *w, uint32_t rank) {
  const struct looker *l = w->context;
  tutti_comm *world;
  _Atomic uint64_t *n = w->shared->numbers;
  if (tutti_init(&(tutti_options){.timeout_ms = l->timeout_ms}, &world) != TUTTI_OK || !l->open(world)) return 9;
  w->shared->rank[rank].stage = 1;
  while (rank == 1) ranks_sleep_us(100000);
  for (int looks = 0; looks < LOOKS_MAX; looks++) {
    bool killed = n[KILLED] != 0, there = false;
    tutti_err err = l->look(&there);
    n[LOOKED]++;
    if (killed) n[LOOKED_AFTER]++;
    if (err != TUTTI_OK || there) {
      ranks_note(w, rank, err, tutti_error_message(NULL));
      break;
    }
    ranks_sleep_us((uint32_t)l->interval_ms * 1000);
  }
  return 0;
}

static void looks(const struct looker *l) {
  struct ranks_world w = {.context = l};
  ranks_start(&w, 2, look_until_told);
  bool dies = l->expected == TUTTI_ERR_PEER;
  uint64_t end = ranks_now_ms() + HANG_MS;
  while ((w.shared->rank[1].stage == 0 || w.shared->numbers[LOOKED] < 3) && ranks_now_ms() < end) ranks_sleep_us(1000);
  if (dies) {
    kill(w.pids[1], SIGKILL);
    siginfo_t info;
    waitid(P_PID, (id_t)w.pids[1], &info, WEXITED | WNOWAIT);
    w.shared->numbers[KILLED] = 1;
  }
  while (w.shared->rank[0].noted == 0 && ranks_now_ms() < end) ranks_sleep_us(1000);
  kill(w.pids[1], SIGKILL);
  CHECK(ranks_end(&w, HANG_MS), "%s: hangs", l->name);
  const struct ranks_note *note = &w.shared->rank[0].notes[0];
  uint64_t count = w.shared->numbers[dies ? LOOKED_AFTER : LOOKED];
  CHECK(w.shared->rank[0].noted == 1, "%s: no error after %d polls", l->name, LOOKS_MAX);
  CHECK(note->err == l->expected && strstr(note->text, "rank 1"), "%s: %s: %s", l->name, tutti_err_name(note->err),
        note->text);
  CHECK(count >= l->looks_min && count <= l->looks_max, "%s: error at poll %llu, expected %u to %u", l->name,
        (unsigned long long)count, l->looks_min, l->looks_max);
  ranks_fini(&w);
}

/* A death is reported within 100 ms at any interval up to 50 ms: two polls at 50 ms, ten at 10 ms. */
static void who_looks_learns_of_a_death(void) {
  const struct looker lookers[] = {
      {"test, every 50 ms", 50, 0, TUTTI_ERR_PEER, 0, 2, look_at_request, open_request},
      {"test, every 10 ms", 10, 0, TUTTI_ERR_PEER, 0, 10, look_at_request, open_request},
      {"try_peek, every 50 ms", 50, 0, TUTTI_ERR_PEER, 0, 2, look_at_channel, open_channel},
      {"try_peek, every 10 ms", 10, 0, TUTTI_ERR_PEER, 0, 10, look_at_channel, open_channel},
      {"signal_test, every 50 ms", 50, 0, TUTTI_ERR_PEER, 0, 2, look_at_signal, open_signal},
  };
  for (size_t i = 0; i < sizeof lookers / sizeof lookers[0]; i++) looks(&lookers[i]);
}

/* 600 ms are 12 intervals of 50 ms; the clock of the limit starts at the first two polls. On a machine that sleeps
 * longer, there are fewer polls. */
static void who_looks_learns_of_a_deadline(void) {
  const struct looker l = {
      "test, every 50 ms, 600 ms", 50, 600, TUTTI_ERR_TIMEOUT, 2, 15, look_at_request, open_request};
  looks(&l);
}

/* ---- sharing a core ---- */

enum { SHARERS = 7, ITEMS = 1 << 16, ROUNDS = 20, VAIN_MAX = 2000 };

/* All ranks are bound to one CPU, so each unsuccessful poll must let the others run. Without a yield, a time slice is
 * about 50,000 unsuccessful polls. */
static int share_a_core(struct ranks_world *w, uint32_t rank) {
  cpu_set_t all, one;
  tutti_comm *world;
  size_t cpu = 0;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof all, &all) != 0) return 9;
  while (!CPU_ISSET(cpu, &all)) cpu++;
  CPU_SET(cpu, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) return 9;
  setenv("TUTTI_RING_BYTES", "4096", 1);
  if (tutti_init(NULL, &world) != TUTTI_OK) return 9;
  float *in = calloc(ITEMS, sizeof *in), *out = calloc(ITEMS, sizeof *out);
  if (!in || !out) return 9;
  const tutti_call call = {.collective = TUTTI_ALLREDUCE, .send = in, .recv = out, .count = ITEMS, .type = TUTTI_F32};
  for (int round = 0; round < ROUNDS; round++) {
    bool done = false;
    in[0] = 1;
    if (tutti_start(world, &call, &request) != TUTTI_OK) return 1;
    while (!done) {
      if (tutti_test(&request, &done) != TUTTI_OK) return 1;
      w->shared->numbers[VAIN] += !done && rank == 0;
    }
    if (out[0] < SHARERS - 0.5F || out[0] > SHARERS + 0.5F) return 2;
  }
  free(in);
  free(out);
  return tutti_comm_free(world) != TUTTI_OK;
}

static void who_looks_leaves_its_core_to_others(void) {
  struct ranks_world w = {0};
  ranks_start(&w, SHARERS, share_a_core);
  CHECK(ranks_end(&w, 2 * HANG_MS), "ranks that poll on one core hang");
  for (uint32_t r = 0; r < SHARERS; r++)
    CHECK(WIFEXITED(w.status[r]) && WEXITSTATUS(w.status[r]) == 0, "rank %u: %d", r, w.status[r]);
  uint64_t vain = w.shared->numbers[VAIN] / ROUNDS;
  CHECK(vain <= VAIN_MAX, "%llu unsuccessful polls per operation", (unsigned long long)vain);
  ranks_fini(&w);
}

/* ---- many open requests ---- */

enum { MANY = 100 };

/* The message of the last receive comes first, and the others come only when it has been received. A pass polls some of the
 * open requests only, so the last one must have its turn, although none before it moves. */
static int look_at_the_last(struct ranks_world *w, uint32_t rank) {
  static tutti_request *requests[MANY];
  static int got[MANY];
  tutti_comm *world;
  int number = MANY - 1;
  bool done = false;
  (void)w;
  if (tutti_init(&(tutti_options){.timeout_ms = HANG_MS / 2}, &world) != TUTTI_OK) return 9;
  if (rank == 1) {
    if (tutti_send(world, &number, 1, TUTTI_I32, 0, MANY - 1) != TUTTI_OK ||
        tutti_recv(world, &number, 1, TUTTI_I32, 0, 0) != TUTTI_OK)
      return 1;
    for (int i = 0; i < MANY - 1; i++)
      if (tutti_send(world, &i, 1, TUTTI_I32, 0, (uint32_t)i) != TUTTI_OK) return 2;
    return tutti_comm_free(world) != TUTTI_OK;
  }
  for (uint32_t i = 0; i < MANY; i++)
    if (tutti_irecv(world, &got[i], 1, TUTTI_I32, 1, i, &requests[i]) != TUTTI_OK) return 3;
  while (!done)
    if (tutti_test(&requests[MANY - 1], &done) != TUTTI_OK) return 4;
  if (tutti_send(world, &number, 1, TUTTI_I32, 1, 0) != TUTTI_OK || tutti_wait_all(requests, MANY - 1) != TUTTI_OK)
    return 5;
  for (int i = 0; i < MANY; i++)
    if (got[i] != i) return 6;
  return tutti_comm_free(world) != TUTTI_OK;
}

static void the_last_of_many_has_its_turn(void) {
  struct ranks_world w = {0};
  ranks_start(&w, 2, look_at_the_last);
  CHECK(ranks_end(&w, HANG_MS), "a rank hangs");
  for (uint32_t r = 0; r < 2; r++)
    CHECK(WIFEXITED(w.status[r]) && WEXITSTATUS(w.status[r]) == 0, "rank %u: %d", r, w.status[r]);
  ranks_fini(&w);
}

int main(int argc, char **argv) {
  const struct test tests[] = {{"who_looks_learns_of_a_death", who_looks_learns_of_a_death},
                               {"who_looks_learns_of_a_deadline", who_looks_learns_of_a_deadline},
                               {"who_looks_leaves_its_core_to_others", who_looks_leaves_its_core_to_others},
                               {"the_last_of_many_has_its_turn", the_last_of_many_has_its_turn}};
  ranks_clear_environment();
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
