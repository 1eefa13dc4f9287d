/* test: slow waits timeout=900 */
/* faults_test.c: failures. Ranks make different calls, die, come late, or make invalid calls. Every rank must get an
 * error that says what happened, in time, and no rank may hang. The test forks the ranks itself, as `tutti run` would
 * end them all. */
#include <limits.h>
#include <sched.h>

#include "ranks.h"
#include "test.h"

/* An error comes within IN_TIME_MS also on a machine with many other processes; on an idle one, within 100 ms. */
enum { IN_TIME_MS = 10000, HANG_MS = 60000 };

/* ---- what ranks do ---- */

static tutti_comm *join(struct ranks_world *w, uint32_t rank, const tutti_options *options) {
  tutti_comm *world = NULL;
  tutti_err err = tutti_init(options, &world);
  if (err != TUTTI_OK) {
    printf("  rank %u cannot join: %s\n", rank, tutti_error_message(NULL));
    fflush(stdout);
    _exit(9);
  }
  w->shared->rank[rank].stage = 1;
  return world;
}

static tutti_err call_and_wait(tutti_comm *comm, const tutti_call *call) {
  tutti_request *request = NULL;
  tutti_err err = tutti_start(comm, call, &request);
  return err != TUTTI_OK ? err : tutti_wait(&request);
}

static bool all_joined(const struct ranks_world *w) {
  uint64_t end = ranks_now_ms() + HANG_MS / 2;
  for (uint32_t r = 0; r < w->ranks; r++)
    while (w->shared->rank[r].stage == 0) {
      if (ranks_now_ms() > end) return false;
      ranks_sleep_us(200);
    }
  return true;
}

static void await_stage(struct ranks_world *w, uint32_t rank, uint32_t stage) {
  const uint64_t end = ranks_now_ms() + HANG_MS / 2;
  while (w->shared->rank[rank].stage < stage && ranks_now_ms() < end) ranks_sleep_us(1000);
}

static void await_note(struct ranks_world *w, uint32_t rank) {
  const uint64_t end = ranks_now_ms() + HANG_MS / 2;
  while (w->shared->rank[rank].noted == 0 && ranks_now_ms() < end) ranks_sleep_us(1000);
}

/* ---- what messages must say ---- */

static bool says(const char *text, const char *words) { return strstr(text, words) != NULL; }
static bool names_rank(const char *text, uint32_t rank) {
  char words[32];
  int length = snprintf(words, sizeof words, "rank %u", rank);
  for (const char *at = text; (at = strstr(at, words)); at += length)
    if (at[length] < '0' || at[length] > '9') return true;
  return false;
}

/* ---- (a) the ways to disagree ---- */

struct disagreement {
  const char *name;
  tutti_call odd, others;
  const char *odd_says, *others_say; /* parts of the message that describe the two calls */
};

#define FOUR .count = 4, .type = TUTTI_I32
static const struct disagreement disagreements[] = {
    {"collective",
     {.collective = TUTTI_ALLREDUCE, FOUR},
     {.collective = TUTTI_BROADCAST, FOUR},
     "allreduce",
     "broadcast"},
    {"count",
     {.collective = TUTTI_ALLREDUCE, .count = 5, .type = TUTTI_I32},
     {.collective = TUTTI_ALLREDUCE, FOUR},
     "5",
     "4"},
    {"type",
     {.collective = TUTTI_ALLREDUCE, .count = 4, .type = TUTTI_F32},
     {.collective = TUTTI_ALLREDUCE, FOUR},
     "f32",
     "i32"},
    {"op", {.collective = TUTTI_ALLREDUCE, FOUR, .op = TUTTI_MAX}, {.collective = TUTTI_ALLREDUCE, FOUR}, "max", "sum"},
    {"root",
     {.collective = TUTTI_BROADCAST, FOUR, .root = 1},
     {.collective = TUTTI_BROADCAST, FOUR},
     "root 1",
     "root 0"},
    {"root of a reduce",
     {.collective = TUTTI_REDUCE, FOUR, .root = 1},
     {.collective = TUTTI_REDUCE, FOUR},
     "root 1",
     "root 0"},
    {"count of a broadcast",
     {.collective = TUTTI_BROADCAST, .count = 100000, .type = TUTTI_I32},
     {.collective = TUTTI_BROADCAST, FOUR},
     "100000",
     "4"},
    {"barrier", {.collective = TUTTI_BARRIER}, {.collective = TUTTI_ALLGATHER, FOUR}, "barrier", "allgather"},
    {"type of one size",
     {.collective = TUTTI_ALLGATHER, .count = 4, .type = TUTTI_U32},
     {.collective = TUTTI_ALLGATHER, FOUR},
     "u32",
     "i32"},
    {"algorithm",
     {.collective = TUTTI_ALLREDUCE, FOUR, .algorithm = "ring"},
     {.collective = TUTTI_ALLREDUCE, FOUR, .algorithm = "direct"},
     "ring",
     "direct"},
    {"scan", {.collective = TUTTI_SCAN, FOUR}, {.collective = TUTTI_EXSCAN, FOUR}, "scan", "exscan"},
};
enum { DISAGREEMENTS = sizeof disagreements / sizeof disagreements[0] };

struct disagreeing {
  const struct disagreement *what;
  uint32_t odd; /* rank whose call differs */
};

static int disagree(struct ranks_world *w, uint32_t rank) {
  const struct disagreeing *d = w->context;
  tutti_comm *world = join(w, rank, NULL);
  int32_t *in = calloc(800000, 4), *out = calloc(800000, 4);
  if (!in || !out) return 9;
  tutti_call call = rank == d->odd ? d->what->odd : d->what->others;
  call.send = in;
  call.recv = out;
  if (call.collective == TUTTI_BROADCAST) call.send = rank == call.root ? out : NULL;
  tutti_err first = call_and_wait(world, &call);
  ranks_note(w, rank, first, tutti_error_message(world));
  /* A rank that got all its data goes on. No rank passes a second barrier before all have passed the first, so one of
   * them must fail. */
  const tutti_call barrier = {.collective = TUTTI_BARRIER};
  tutti_err next = call_and_wait(world, &barrier);
  if (next == TUTTI_OK) next = call_and_wait(world, &barrier);
  ranks_note(w, rank, next, tutti_error_message(world));
  uint64_t before = ranks_now_ms();
  tutti_err err = tutti_comm_free(world);
  return err == TUTTI_OK ? 2 : ranks_now_ms() - before > IN_TIME_MS ? 3 : 0;
}

static void check_disagreement(const struct disagreement *what, uint32_t ranks, uint32_t odd) {
  struct disagreeing context = {what, odd};
  struct ranks_world w = {.context = &context};
  uint64_t begin = ranks_now_ms();
  ranks_start(&w, ranks, disagree);
  CHECK(ranks_end(&w, HANG_MS), "%s, %u ranks, rank %u differs: hangs", what->name, ranks, odd);
  for (uint32_t r = 0; r < ranks; r++) {
    const struct ranks_note *notes = w.shared->rank[r].notes;
    CHECK(w.shared->rank[r].noted == 2, "%s, %u ranks, rank %u differs: rank %u made %u notes, status %x", what->name,
          ranks, odd, r, w.shared->rank[r].noted, (unsigned)w.status[r]);
    if (w.shared->rank[r].noted < 2) continue;
    CHECK(notes[0].err == TUTTI_OK || notes[0].err == TUTTI_ERR_MISMATCH, "%s: rank %u: first call: %s: %s", what->name,
          r, tutti_err_name(notes[0].err), notes[0].text);
    CHECK(notes[1].err == TUTTI_ERR_MISMATCH, "%s, %u ranks, rank %u differs: rank %u: next call: %s: %s", what->name,
          ranks, odd, r, tutti_err_name(notes[1].err), notes[1].text);
    CHECK(WIFEXITED(w.status[r]) && WEXITSTATUS(w.status[r]) == 0, "%s: rank %u: free: status %x", what->name, r,
          (unsigned)w.status[r]);
    const char *text = notes[1].text;
    bool other = false;
    for (uint32_t k = 0; k < ranks; k++) other |= k != odd && names_rank(text, k);
    CHECK(names_rank(text, odd) && other,
          "%s, %u ranks: rank %u's message does not name both ranks (rank %u differs): %s", what->name, ranks, r, odd,
          text);
    CHECK(says(text, what->odd_says) && says(text, what->others_say),
          "%s, %u ranks: message does not name both calls: %s", what->name, ranks, text);
    CHECK(notes[1].at_ms - begin < IN_TIME_MS, "%s: rank %u got the error after %llu ms", what->name, r,
          (unsigned long long)(notes[1].at_ms - begin));
  }
  ranks_fini(&w);
}

static void ranks_that_disagree(void) {
  for (uint32_t ranks = 2; ranks <= 4; ranks++)
    for (int k = 0; k < DISAGREEMENTS; k++) {
      uint32_t last = ranks - 1;
      for (uint32_t odd = 0; odd<ranks; odd += last> 1 ? last : 1) check_disagreement(&disagreements[k], ranks, odd);
      if (ranks == 3) check_disagreement(&disagreements[k], ranks, 1);
    }
}

static int unequal_messages(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world = join(w, rank, NULL);
  int32_t data[64] = {0};
  tutti_err err =
      rank == 0 ? tutti_send(world, data, 10, TUTTI_I32, 1, 3) : tutti_recv(world, data, 64, TUTTI_I32, 0, 3);
  ranks_note(w, rank, err, tutti_error_message(world));
  err = tutti_barrier(world);
  ranks_note(w, rank, err, tutti_error_message(world));
  tutti_comm_free(world);
  return 0;
}

static void messages_of_unequal_length(void) {
  struct ranks_world w = {0};
  ranks_start(&w, 2, unequal_messages);
  CHECK(ranks_end(&w, HANG_MS), "hangs");
  for (uint32_t r = 0; r < 2; r++) {
    const struct ranks_note *note = &w.shared->rank[r].notes[1];
    CHECK(note->err == TUTTI_ERR_MISMATCH, "rank %u: %s: %s", r, tutti_err_name(note->err), note->text);
    CHECK(names_rank(note->text, 0) && names_rank(note->text, 1), "does not name both ranks: %s", note->text);
    CHECK((says(note->text, "10") && says(note->text, "64")) || (says(note->text, "40") && says(note->text, "256")),
          "does not name both lengths: %s", note->text);
  }
  ranks_fini(&w);
}

/* ---- (b) death ---- */

enum { DIE_KILLED, DIE_EXIT_0, DIE_EXIT_7, DIE_FREES, DEATHS };

struct death {
  int how;
  uint32_t victim;
  uint64_t when_us;
};

/* Makes a random call, a collective or messages, with the same kind and size on all ranks. */
static tutti_err one_random_call(tutti_comm *world, uint64_t *state, unsigned char *in, unsigned char *out) {
  uint32_t n = tutti_ranks(world), me = tutti_rank(world);
  static const size_t counts[] = {0, 1, 5, 100, 3000, 40000, 250000};
  uint64_t kind = ranks_random(state) % 12, size = ranks_random(state) % 7, root = ranks_random(state) % n;
  size_t count = counts[size];
  switch (kind) {
    case 0: return tutti_barrier(world);
    case 1: return tutti_broadcast(world, in, count, TUTTI_I32, (uint32_t)root);
    case 2: return tutti_reduce(world, in, out, count, TUTTI_I32, TUTTI_SUM, (uint32_t)root);
    case 3: return tutti_gather(world, in, out, count / n, TUTTI_I32, (uint32_t)root);
    case 4: return tutti_scatter(world, in, out, count / n, TUTTI_I32, (uint32_t)root);
    case 5: return tutti_allgather(world, in, out, count / n, TUTTI_I32);
    case 6: return tutti_alltoall(world, in, out, count / n, TUTTI_I32);
    case 7: return tutti_reduce_scatter(world, in, out, count / n, TUTTI_I32, TUTTI_MAX);
    case 8: return tutti_scan(world, in, out, count, TUTTI_I32, TUTTI_SUM);
    case 9: {
      tutti_request *request = NULL;
      const tutti_call calls[] = {
          {.collective = TUTTI_SEND, .send = in, .count = count, .type = TUTTI_I32, .peer = (me + 1) % n},
          {.collective = TUTTI_RECV, .recv = out, .count = count, .type = TUTTI_I32, .peer = (me + n - 1) % n}};
      tutti_err err = tutti_start_all(world, calls, 2, &request);
      return err != TUTTI_OK ? err : tutti_wait(&request);
    }
    case 10: {
      tutti_comm *comm;
      /* Perhaps only one part has seen the death. Ranks of both parts go on, and all see it in the world's next call. */
      tutti_err err = tutti_comm_split(world, (int)(me % 2), 0, &comm);
      if (err != TUTTI_OK) return err == TUTTI_ERR_PEER ? TUTTI_OK : err;
      err = tutti_barrier(comm);
      tutti_err freed = tutti_comm_free(comm);
      if (err == TUTTI_ERR_PEER || freed == TUTTI_ERR_PEER) return TUTTI_OK;
      return err != TUTTI_OK ? err : freed;
    }
    default: return tutti_allreduce(world, in, out, count, TUTTI_I32, TUTTI_SUM);
  }
}

static int mix(struct ranks_world *w, uint32_t rank) {
  const struct death *death = w->context;
  unsigned char *in = calloc(250000, 4), *out = calloc(250000, 4);
  if (!in || !out) return 9;
  tutti_comm *world = join(w, rank, NULL);
  uint64_t state = w->seed;
  tutti_err err = TUTTI_OK;
  while (err == TUTTI_OK) {
    if (rank == death->victim && w->shared->go && death->how != DIE_KILLED) {
      if (death->how == DIE_EXIT_0) _exit(0);
      if (death->how == DIE_EXIT_7) exit(7);
      tutti_comm_free(world);
      _exit(0);
    }
    err = one_random_call(world, &state, in, out);
  }
  ranks_note(w, rank, err, tutti_error_message(world));
  err = tutti_barrier(world);
  ranks_note(w, rank, err, tutti_error_message(world));
  tutti_comm_free(world);
  return 0;
}

static void one_death(uint64_t seed, int how) {
  uint64_t state = seed;
  uint32_t ranks = 2 + (uint32_t)(ranks_random(&state) % 4);
  struct death death = {
      .how = how, .victim = (uint32_t)(ranks_random(&state) % ranks), .when_us = ranks_random(&state) % 30000};
  struct ranks_world w = {.context = &death, .seed = seed};
  ranks_start(&w, ranks, mix);
  bool joined = all_joined(&w);
  CHECK(joined, "seed %llu: the ranks did not join", (unsigned long long)seed);
  ranks_sleep_us(death.when_us);
  uint64_t died = ranks_now_ms();
  w.shared->go = 1;
  if (how == DIE_KILLED) {
    kill(w.pids[death.victim], SIGKILL);
  } else {
    /* the victim exits at its next round */
    while (joined && waitid(P_PID, (id_t)w.pids[death.victim], &(siginfo_t){0}, WEXITED | WNOWAIT | WNOHANG) == 0 &&
           ranks_now_ms() - died < HANG_MS / 2) {
      siginfo_t info = {0};
      waitid(P_PID, (id_t)w.pids[death.victim], &info, WEXITED | WNOWAIT | WNOHANG);
      if (info.si_pid) break;
      ranks_sleep_us(300);
    }
    died = ranks_now_ms();
  }
  bool in_time = ranks_end(&w, HANG_MS);
  CHECK(in_time, "seed %llu, %u ranks, death %d of %u: a rank hangs", (unsigned long long)seed, ranks, how,
        death.victim);
  for (uint32_t r = 0; r < ranks; r++) {
    if (r == death.victim) continue;
    const struct ranks_note *note = w.shared->rank[r].notes;
    if (w.shared->rank[r].noted < 2) {
      FAIL("seed %llu, %u ranks, death %d of %u: rank %u made %u notes, status %x", (unsigned long long)seed, ranks,
           how, death.victim, r, w.shared->rank[r].noted, (unsigned)w.status[r]);
      continue;
    }
    CHECK(note[0].err == TUTTI_ERR_PEER && note[1].err == TUTTI_ERR_PEER,
          "seed %llu, death %d: rank %u: %s: %s; then %s", (unsigned long long)seed, how, r,
          tutti_err_name(note[0].err), note[0].text, tutti_err_name(note[1].err));
    CHECK(names_rank(note[0].text, death.victim), "seed %llu, death %d of %u: rank %u: %s", (unsigned long long)seed,
          how, death.victim, r, note[0].text);
    CHECK(note[0].at_ms <= died + IN_TIME_MS, "seed %llu, death %d of %u: rank %u got the error after %llu ms: %s",
          (unsigned long long)seed, how, death.victim, r, (unsigned long long)(note[0].at_ms - died), note[0].text);
  }
  ranks_fini(&w);
}

static void killed_at_any_moment(void) {
  uint64_t seed = test_seed();
  int times = test_long() ? 200 : 15;
  for (int k = 0; k < times; k++) one_death(seed + (uint64_t)k * 7919, DIE_KILLED);
}
static void exits_without_freeing(void) {
  uint64_t seed = test_seed();
  int times = test_long() ? 30 : 3;
  for (int k = 0; k < times; k++) {
    one_death(seed + (uint64_t)k * 7919, DIE_EXIT_0);
    one_death(seed + (uint64_t)k * 7919, DIE_EXIT_7);
  }
}
static void frees_while_others_go_on(void) {
  uint64_t seed = test_seed();
  int times = test_long() ? 30 : 3;
  for (int k = 0; k < times; k++) one_death(seed + (uint64_t)k * 7919, DIE_FREES);
}

/* Rank 0 is killed while all others sleep in the kernel. No rank polls, so the sleeping ranks must check their
 * peers. */
static int asleep(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world = join(w, rank, NULL);
  if (rank == 0) ranks_sleep_us(60000000);
  int32_t data = 0;
  tutti_err err = rank == 1 ? tutti_recv(world, &data, 1, TUTTI_I32, 0, 0) : tutti_barrier(world);
  ranks_note(w, rank, err, tutti_error_message(world));
  tutti_comm_free(world);
  return 0;
}

static void killed_while_others_sleep(void) {
  struct ranks_world w = {0};
  ranks_start(&w, 4, asleep);
  CHECK(all_joined(&w), "the ranks did not join");
  ranks_sleep_us(400000);
  uint64_t died = ranks_now_ms();
  kill(w.pids[0], SIGKILL);
  CHECK(ranks_end(&w, HANG_MS), "hangs");
  for (uint32_t r = 1; r < 4; r++) {
    const struct ranks_note *note = w.shared->rank[r].notes;
    CHECK(note->err == TUTTI_ERR_PEER && names_rank(note->text, 0), "rank %u: %s: %s", r, tutti_err_name(note->err),
          note->text);
    CHECK(note->at_ms <= died + IN_TIME_MS, "rank %u got the error after %llu ms", r,
          (unsigned long long)(note->at_ms - died));
  }
  ranks_fini(&w);
}

/* ---- (c) time-outs ---- */

enum { BY_CALL, BY_COMMUNICATOR, BY_OPTION, BY_VARIABLE, BY_CALL_IN_RECV, TIMERS };

static int late(struct ranks_world *w, uint32_t rank) {
  int how = *(const int *)w->context;
  if (how == BY_VARIABLE) setenv("TUTTI_TIMEOUT_MS", "300", 1);
  tutti_comm *world = join(w, rank, how == BY_OPTION ? &(tutti_options){.timeout_ms = 300} : NULL);
  if (how == BY_COMMUNICATOR) (void)!tutti_comm_set_timeout(world, 300);
  int32_t in = 1, out = 0;
  tutti_call call = {.collective = TUTTI_ALLREDUCE, .send = &in, .recv = &out, .count = 1, .type = TUTTI_I32};
  if (how == BY_CALL_IN_RECV)
    call = (tutti_call){.collective = TUTTI_RECV, .recv = &out, .count = 1, .type = TUTTI_I32, .peer = 1};
  if (how == BY_CALL || how == BY_CALL_IN_RECV) call.timeout_ms = 300;
  if (rank == 1) {
    await_note(w, 0);
    await_note(w, 2);
    call = (tutti_call){.collective = TUTTI_BARRIER, .timeout_ms = TUTTI_NO_TIMEOUT};
  }
  tutti_request *request = NULL;
  tutti_err err = tutti_start(world, &call, &request);
  uint64_t begin = ranks_now_ms();
  w->shared->rank[rank].stage = 2;
  if (rank != 1) await_stage(w, 2 - rank, 2); /* the time counts from the wait, when ranks 0 and 2 have both started */
  if (err == TUTTI_OK) err = tutti_wait(&request);
  w->shared->numbers[rank] = ranks_now_ms() - begin;
  ranks_note(w, rank, err, tutti_error_message(world));
  tutti_comm_free(world);
  return 0;
}

static void late_ranks_are_named(void) {
  for (int how = 0; how < TIMERS; how++) {
    struct ranks_world w = {.context = &how};
    ranks_start(&w, 3, late);
    CHECK(ranks_end(&w, HANG_MS), "timer %d: hangs", how);
    for (uint32_t r = 0; r < 3; r++) {
      const struct ranks_note *note = w.shared->rank[r].notes;
      uint64_t took = w.shared->numbers[r];
      CHECK(note->err == TUTTI_ERR_TIMEOUT, "timer %d: rank %u: %s: %s", how, r, tutti_err_name(note->err), note->text);
      CHECK(names_rank(note->text, 1), "timer %d: rank %u: does not name the late rank: %s", how, r, note->text);
      CHECK(says(note->text, how == BY_CALL_IN_RECV ? "recv" : "allreduce"), "timer %d: does not name the call: %s",
            how, note->text);
      CHECK(says(note->text, "300"), "timer %d: does not name the limit: %s", how, note->text);
      if (r != 1)
        CHECK(took >= 290 && took < 300 + IN_TIME_MS, "timer %d: rank %u: after %llu ms", how, r,
              (unsigned long long)took);
    }
    ranks_fini(&w);
  }
}

/* TUTTI_NO_TIMEOUT in a call overrides the communicator's limit, and in the options it overrides the variable's limit,
 * so that a late rank is no error. */
static int patient(struct ranks_world *w, uint32_t rank) {
  int how = *(const int *)w->context;
  tutti_options options = {.timeout_ms = how == BY_CALL ? 200 : how == BY_OPTION ? TUTTI_NO_TIMEOUT : 0};
  if (how != BY_CALL) setenv("TUTTI_TIMEOUT_MS", how == BY_VARIABLE ? "-1" : "200", 1);
  options.join_timeout_ms = TUTTI_NO_TIMEOUT;
  if (rank == 0) ranks_sleep_us(50000);
  tutti_comm *world = join(w, rank, &options);
  if (how == BY_COMMUNICATOR) (void)!tutti_comm_set_timeout(world, TUTTI_NO_TIMEOUT);
  if (rank == 1) ranks_sleep_us(700000);
  const tutti_call barrier = {.collective = TUTTI_BARRIER, .timeout_ms = how == BY_CALL ? TUTTI_NO_TIMEOUT : 0};
  tutti_err err = call_and_wait(world, &barrier);
  ranks_note(w, rank, err, tutti_error_message(world));
  if (rank == 0) ranks_sleep_us(700000);
  (void)!tutti_comm_set_timeout(world, 0);
  err = tutti_barrier(world);
  ranks_note(w, rank, err, tutti_error_message(world));
  return tutti_comm_free(world) == TUTTI_OK ? 0 : 1;
}

static void no_limit_is_no_limit(void) {
  for (int how = BY_CALL; how <= BY_VARIABLE; how++) {
    struct ranks_world w = {.context = &how};
    ranks_start(&w, 2, patient);
    CHECK(ranks_end(&w, HANG_MS), "timer %d: hangs", how);
    for (uint32_t r = 0; r < 2; r++)
      for (int k = 0; k < 2; k++)
        CHECK(w.shared->rank[r].notes[k].err == TUTTI_OK && w.status[r] == 0, "timer %d: rank %u, call %d: %s", how, r,
              k, w.shared->rank[r].notes[k].text);
    ranks_fini(&w);
  }
}

/* tutti_init refuses time limits that are negative and not TUTTI_NO_TIMEOUT. */
static int negative(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world = NULL;
  tutti_err err = tutti_init(&(tutti_options){.timeout_ms = -2}, &world);
  ranks_note(w, rank, err, tutti_error_message(NULL));
  err = tutti_init(&(tutti_options){.join_timeout_ms = INT_MIN}, &world);
  ranks_note(w, rank, err, tutti_error_message(NULL));
  setenv("TUTTI_TIMEOUT_MS", "-2", 1);
  err = tutti_init(&(tutti_options){0}, &world);
  ranks_note(w, rank, err, tutti_error_message(NULL));
  return world ? 1 : 0;
}

static void negative_limits_are_refused(void) {
  static const struct {
    tutti_err err;
    const char *words;
  } expected[] = {{TUTTI_ERR_ARGUMENT, "tutti_options.timeout_ms is -2"},
                  {TUTTI_ERR_ARGUMENT, "tutti_options.join_timeout_ms is -2147483648"},
                  {TUTTI_ERR_ENVIRONMENT, "TUTTI_TIMEOUT_MS is '-2'"}};
  struct ranks_world w = {0};
  ranks_start(&w, 1, negative);
  CHECK(ranks_end(&w, HANG_MS) && w.status[0] == 0, "status %d", w.status[0]);
  for (int k = 0; k < 3; k++) {
    const struct ranks_note *note = &w.shared->rank[0].notes[k];
    CHECK(note->err == expected[k].err && says(note->text, expected[k].words), "limit %d: %s: %s", k,
          tutti_err_name(note->err), note->text);
  }
  ranks_fini(&w);
}

/* The message of a time-out says what call each of the other ranks is in. */
static int scattered(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world = join(w, rank, NULL);
  int32_t x = 1, y = 0;
  tutti_request *request = NULL;
  /* Rank 2 has started the same call, but not waited for it: it sleeps. Rank 1 has not started it. */
  if (tutti_barrier(world) != TUTTI_OK) return 1;
  tutti_call call = {
      .collective = TUTTI_ALLREDUCE, .send = &x, .recv = &y, .count = 1, .type = TUTTI_I32, .timeout_ms = 400};
  if (rank == 0) await_stage(w, 2, 2);
  if (rank == 1) await_note(w, 0);
  tutti_err err = tutti_start(world, &call, &request);
  w->shared->rank[rank].stage = 2;
  if (rank == 2) await_note(w, 0);
  if (err == TUTTI_OK) err = tutti_wait(&request);
  ranks_note(w, rank, err, tutti_error_message(world));
  tutti_comm_free(world);
  return 0;
}

static void timeouts_say_where_all_are(void) {
  struct ranks_world w = {0};
  ranks_start(&w, 3, scattered);
  CHECK(ranks_end(&w, HANG_MS), "hangs");
  const struct ranks_note *note = w.shared->rank[0].notes;
  CHECK(note->err == TUTTI_ERR_TIMEOUT, "%s: %s", tutti_err_name(note->err), note->text);
  CHECK(names_rank(note->text, 1) && says(note->text, "barrier") && says(note->text, "allreduce"),
        "expected rank 1, its last call barrier, and allreduce in: %s", note->text);
  ranks_fini(&w);
}

/* ---- abort ---- */

static int abortive(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world = join(w, rank, NULL), *other;
  if (tutti_comm_dup(world, &other) != TUTTI_OK) return 1;
  if (rank == 1) {
    ranks_sleep_us(100000);
    tutti_abort(other, "the disk is full");
  }
  int32_t x = 1, y = 0;
  tutti_err err = tutti_allreduce(other, &x, &y, 1, TUTTI_I32, TUTTI_SUM);
  ranks_note(w, rank, err, tutti_error_message(other));
  tutti_comm_free(other);
  err = tutti_allreduce(world, &x, &y, 1, TUTTI_I32, TUTTI_SUM);
  ranks_note(w, rank, err, tutti_error_message(world));
  return tutti_comm_free(world) == TUTTI_OK && y == 3 ? 0 : 1;
}

static void abort_is_everybodys(void) {
  struct ranks_world w = {0};
  ranks_start(&w, 3, abortive);
  CHECK(ranks_end(&w, HANG_MS), "hangs");
  for (uint32_t r = 0; r < 3; r++) {
    const struct ranks_note *notes = w.shared->rank[r].notes;
    CHECK(notes[0].err == TUTTI_ERR_ABORTED && says(notes[0].text, "the disk is full") && names_rank(notes[0].text, 1),
          "rank %u: %s: %s", r, tutti_err_name(notes[0].err), notes[0].text);
    CHECK(notes[1].err == TUTTI_OK && w.status[r] == 0, "rank %u: the other communicator: %s", r, notes[1].text);
  }
  ranks_fini(&w);
}

/* ---- (d) invalid calls, which fail before anything is sent ---- */

static int32_t room[256];
static const size_t some_counts[8] = {4, 4, 4, 4, 4, 4, 4, 4}, huge_counts[8] = {SIZE_MAX / 2, SIZE_MAX / 2, 2, 2},
                    close_offsets[8] = {0, 3, 8, 12}, far_offsets[8] = {SIZE_MAX - 1, 0, 8, 12},
                    other_counts[8] = {3, 5, 4, 4}, single_counts[8] = {1, 1, 1, 1, 1, 1, 1, 1},
                    wide_offsets[8] = {0, 2, 4, 6, 8, 10, 12, 14};

struct refusal {
  const char *name;
  tutti_call call;
  const char *says; /* word that the message must contain */
};

#define I32 .type = TUTTI_I32
#define APART .send = room, .recv = room + 128
static const struct refusal refusals[] = {
    {"collective", {.collective = (tutti_collective)99, APART, .count = 4, I32}, "99"},
    {"type", {.collective = TUTTI_ALLREDUCE, APART, .count = 4, .type = (tutti_datatype)77}, "77"},
    {"op", {.collective = TUTTI_ALLREDUCE, APART, .count = 4, I32, .op = TUTTI_PREMUL_SUM + 1}, "12"},
    {"op that does not exist", {.collective = TUTTI_SCAN, APART, .count = 4, I32, .op = 123456}, "123456"},
    {"root", {.collective = TUTTI_BROADCAST, .recv = room, .count = 4, I32, .root = 2}, "root"},
    {"root far off", {.collective = TUTTI_GATHER, APART, .count = 4, I32, .root = UINT32_MAX}, "root"},
    {"peer", {.collective = TUTTI_SEND, .send = room, .count = 4, I32, .peer = 2}, "peer"},
    {"peer far off", {.collective = TUTTI_RECV, .recv = room, .count = 4, I32, .peer = UINT32_MAX - 1}, "peer"},
    {"no send", {.collective = TUTTI_ALLREDUCE, .recv = room, .count = 4, I32}, "send"},
    {"no recv", {.collective = TUTTI_ALLGATHER, .send = room, .count = 4, I32}, "recv"},
    {"no recv at the root", {.collective = TUTTI_REDUCE, .send = room, .count = 4, I32}, "recv"},
    {"no send at the root", {.collective = TUTTI_SCATTER, .recv = room, .count = 4, I32}, "send"},
    {"broadcast without a buffer", {.collective = TUTTI_BROADCAST, .count = 4, I32}, "NULL"},
    {"send without a buffer", {.collective = TUTTI_SEND, .count = 4, I32, .peer = 1}, "NULL"},
    {"receive without a buffer", {.collective = TUTTI_RECV, .count = 4, I32, .peer = 1}, "NULL"},
    {"overlap", {.collective = TUTTI_ALLREDUCE, .send = room, .recv = room + 1, .count = 4, I32}, "overlap"},
    {"overlap from behind", {.collective = TUTTI_SCAN, .send = room + 3, .recv = room, .count = 4, I32}, "overlap"},
    {"overlap of alltoall", {.collective = TUTTI_ALLTOALL, .send = room, .recv = room + 4, .count = 4, I32}, "overlap"},
    {"another rank's block",
     {.collective = TUTTI_ALLGATHER, .send = room + 4, .recv = room, .count = 4, I32},
     "overlap"},
    {"MPI's form", {.collective = TUTTI_REDUCE_SCATTER, .send = room, .recv = room + 4, .count = 4, I32}, "overlap"},
    {"bytes overflow", {.collective = TUTTI_ALLREDUCE, APART, .count = SIZE_MAX / 4, .type = TUTTI_F64}, "count"},
    {"ranks overflow", {.collective = TUTTI_ALLGATHER, APART, .count = SIZE_MAX / 2 + 1, .type = TUTTI_U8}, "count"},
    {"end of memory", {.collective = TUTTI_ALLREDUCE, APART, .count = SIZE_MAX / 4, I32}, "count"},
    {"sum of counts overflows", {.collective = TUTTI_ALLGATHERV, APART, I32, .counts = huge_counts}, "count"},
    {"offsets overflow",
     {.collective = TUTTI_ALLGATHERV, APART, I32, .counts = some_counts, .offsets = far_offsets},
     "recv"},
    {"no counts", {.collective = TUTTI_ALLGATHERV, APART, I32, .count = 4}, "counts"},
    {"no counts at the root", {.collective = TUTTI_GATHERV, APART, I32, .count = 4}, "counts"},
    {"no recv_counts", {.collective = TUTTI_ALLTOALLV, APART, I32, .counts = some_counts}, "recv_counts"},
    {"blocks overlap",
     {.collective = TUTTI_ALLGATHERV, APART, I32, .counts = some_counts, .offsets = close_offsets},
     "overlap"},
    {"blocks overlap in recv",
     {.collective = TUTTI_ALLTOALLV,
      APART,
      I32,
      .counts = some_counts,
      .recv_counts = some_counts,
      .recv_offsets = close_offsets},
     "overlap"},
    {"in place with unequal counts",
     {.collective = TUTTI_ALLTOALLV,
      .send = TUTTI_IN_PLACE,
      .recv = room,
      I32,
      .counts = some_counts,
      .recv_counts = other_counts},
     "in place"},
    {"in place on the wrong side",
     {.collective = TUTTI_ALLREDUCE, .send = room, .recv = TUTTI_IN_PLACE, .count = 4, I32},
     "IN_PLACE"},
    {"both in place",
     {.collective = TUTTI_ALLREDUCE, .send = TUTTI_IN_PLACE, .recv = TUTTI_IN_PLACE, .count = 4, I32},
     "IN_PLACE"},
    {"in place as the send buffer",
     {.collective = TUTTI_SEND, .send = TUTTI_IN_PLACE, .count = 4, I32, .peer = 1},
     "IN_PLACE"},
    {"avg in scan", {.collective = TUTTI_SCAN, APART, .count = 4, I32, .op = TUTTI_AVG}, "avg"},
    {"avg in exscan", {.collective = TUTTI_EXSCAN, APART, .count = 4, .type = TUTTI_F32, .op = TUTTI_AVG}, "avg"},
    {"bitwise operation on floats",
     {.collective = TUTTI_ALLREDUCE, APART, .count = 4, .type = TUTTI_F32, .op = TUTTI_BAND},
     "f32"},
    {"logical operation on floats",
     {.collective = TUTTI_REDUCE, APART, .count = 4, .type = TUTTI_F8E4M3, .op = TUTTI_LXOR},
     "f8e4m3"},
    {"scale of an integer is no integer",
     {.collective = TUTTI_ALLREDUCE, APART, .count = 4, I32, .op = TUTTI_PREMUL_SUM, .scale = 0.5},
     "0.5"},
    {"scale exceeds the type",
     {.collective = TUTTI_ALLREDUCE, APART, .count = 4, .type = TUTTI_U8, .op = TUTTI_PREMUL_SUM, .scale = 256},
     "256"},
    {"negative scale of an unsigned type",
     {.collective = TUTTI_ALLREDUCE, APART, .count = 4, .type = TUTTI_U32, .op = TUTTI_PREMUL_SUM, .scale = -1},
     "-1"},
    {"block floats without a tensor", {.collective = TUTTI_ALLREDUCE, APART, .count = 4, .type = TUTTI_BFP8}, "bfp8"},
    {"block floats to a peer", {.collective = TUTTI_SEND, .send = room, .count = 4, .type = TUTTI_BFP4}, "tensor"},
    {"algorithm", {.collective = TUTTI_ALLREDUCE, APART, .count = 4, I32, .algorithm = "rign"}, "ring"},
    {"algorithm of another collective",
     {.collective = TUTTI_BROADCAST, .recv = room, .count = 4, I32, .algorithm = "pairwise"},
     "pairwise"},
    {"equal blocks only",
     {.collective = TUTTI_GATHERV, APART, I32, .count = 4, .counts = some_counts, .algorithm = "binomial"},
     "binomial"},
    {"blocks overlap by one byte",
     {.collective = TUTTI_ALLTOALLV,
      .send = room,
      .recv = (char *)room + 7,
      I32,
      .counts = single_counts,
      .offsets = wide_offsets,
      .recv_counts = single_counts,
      .recv_offsets = wide_offsets},
     "overlap"},
    {"result overlaps another rank's block",
     {.collective = TUTTI_REDUCE_SCATTERV,
      .send = room,
      .recv = TUTTI_IN_PLACE,
      I32,
      .counts = some_counts,
      .offsets = close_offsets},
     "in place"},
};
enum { REFUSALS = sizeof refusals / sizeof refusals[0] };

/* Rank 0 makes an invalid call, the others a barrier; all must fail. numbers[0] is set if the error comes from wait
 * instead of start. */
static int refused(struct ranks_world *w, uint32_t rank) {
  const struct refusal *what = w->context;
  tutti_comm *world = join(w, rank, NULL), *comm;
  if (tutti_comm_dup(world, &comm) != TUTTI_OK) return 1;
  tutti_request *request = NULL;
  tutti_err err;
  if (rank == 0) err = tutti_start(comm, &what->call, &request);
  else err = tutti_barrier(comm);
  if (rank == 0 && err == TUTTI_OK) err = tutti_wait(&request), w->shared->numbers[0] = 1;
  ranks_note(w, rank, err, tutti_error_message(comm));
  err = tutti_barrier(comm);
  ranks_note(w, rank, err, tutti_error_message(comm));
  tutti_comm_free(comm);
  int32_t x = 1, y = 0;
  err = tutti_allreduce(world, &x, &y, 1, TUTTI_I32, TUTTI_SUM);
  ranks_note(w, rank, err, tutti_error_message(world));
  return tutti_comm_free(world) == TUTTI_OK && y == 2 ? 0 : 1;
}

static void check_refusal(const struct refusal *what) {
  struct ranks_world w = {.context = what};
  ranks_start(&w, 2, refused);
  uint64_t begin = ranks_now_ms();
  bool in_time = ranks_end(&w, HANG_MS);
  CHECK(in_time, "%s: hangs", what->name);
  for (uint32_t r = 0; r < 2; r++) {
    const struct ranks_note *notes = w.shared->rank[r].notes;
    CHECK(w.shared->rank[r].noted == 3 && w.status[r] == 0, "%s: rank %u made %u notes, status %x", what->name, r,
          w.shared->rank[r].noted, (unsigned)w.status[r]);
    if (w.shared->rank[r].noted < 3) continue;
    CHECK(notes[0].err == TUTTI_ERR_ARGUMENT, "%s: rank %u: %s: %s", what->name, r, tutti_err_name(notes[0].err),
          notes[0].text);
    CHECK(notes[1].err == TUTTI_ERR_ARGUMENT, "%s: rank %u, next call: %s: %s", what->name, r,
          tutti_err_name(notes[1].err), notes[1].text);
    CHECK(notes[2].err == TUTTI_OK, "%s: rank %u, another communicator: %s", what->name, r, notes[2].text);
    CHECK(says(notes[0].text, what->says), "%s: rank %u: '%s' is not in: %s", what->name, r, what->says, notes[0].text);
    CHECK(r == 0 || names_rank(notes[0].text, 0), "%s: rank %u: does not name rank 0: %s", what->name, r,
          notes[0].text);
    CHECK(notes[0].at_ms - begin < IN_TIME_MS, "%s: rank %u got the error after %llu ms", what->name, r,
          (unsigned long long)(notes[0].at_ms - begin));
  }
  CHECK(w.shared->numbers[0] == 0, "%s: the error came from wait, expected it from start", what->name);
  ranks_fini(&w);
}

static void refused_before_anything_is_sent(void) {
  for (int k = 0; k < REFUSALS; k++) check_refusal(&refusals[k]);
}

/* Invalid calls that need no peers. */
static void refused_without_communicator(void) {
  tutti_request *request = NULL;
  tutti_comm *comm = NULL;
  tutti_op op;
  bool done = false;
  tutti_call call = {.collective = TUTTI_BARRIER};
  CHECK(tutti_start(NULL, &call, &request) == TUTTI_ERR_ARGUMENT && tutti_error_message(NULL)[0],
        "start without a communicator");
  CHECK(tutti_barrier(NULL) == TUTTI_ERR_ARGUMENT, "barrier without a communicator");
  CHECK(tutti_comm_dup(NULL, &comm) == TUTTI_ERR_ARGUMENT, "dup of NULL");
  CHECK(tutti_op_create(NULL, NULL, true, "none", &op) == TUTTI_ERR_ARGUMENT, "an operation without a function");
  CHECK(tutti_test(&request, &done) == TUTTI_OK && done, "test of no request");
  CHECK(tutti_wait(&request) == TUTTI_OK, "wait for no request");
  CHECK(tutti_comm_free(NULL) == TUTTI_OK, "free of NULL");
}

/* Colours below -1 are errors, and so are restarts of an open request or of none. */
static int misused(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world = join(w, rank, NULL), *dup, *part = NULL;
  int32_t x = 0;
  if (tutti_comm_dup(world, &dup) != TUTTI_OK) return 1;
  tutti_err err = tutti_comm_split(dup, rank == 0 ? -5 : 0, 0, &part);
  ranks_note(w, rank, err, tutti_error_message(dup));
  tutti_comm_free(dup);
  if (tutti_comm_dup(world, &dup) != TUTTI_OK) return 2;
  tutti_request *request = NULL;
  err = tutti_prepare(dup, &(tutti_call){.collective = TUTTI_RECV, .recv = &x, .count = 1, I32, .peer = 1 - rank},
                      &request);
  if (err == TUTTI_OK) err = tutti_restart(request); /* the other rank's error may have arrived already */
  if (err == TUTTI_OK) err = tutti_restart(request);
  ranks_note(w, rank, err, tutti_error_message(dup));
  tutti_comm_free(dup);
  return 0;
}

static void misuse_is_refused(void) {
  struct ranks_world w = {0};
  ranks_start(&w, 2, misused);
  CHECK(ranks_end(&w, HANG_MS), "hangs");
  for (uint32_t r = 0; r < 2; r++) {
    CHECK(w.shared->rank[r].noted == 2, "rank %u made %u notes, status %x", r, w.shared->rank[r].noted,
          (unsigned)w.status[r]);
    for (uint32_t k = 0; k < w.shared->rank[r].noted; k++)
      CHECK(w.shared->rank[r].notes[k].err == TUTTI_ERR_ARGUMENT, "rank %u, %s: %s: %s", r, k ? "restart" : "colour",
            tutti_err_name(w.shared->rank[r].notes[k].err), w.shared->rank[r].notes[k].text);
  }
  ranks_fini(&w);
}

/* ---- the environment ---- */

struct setting {
  const char *variables[5]; /* "NAME=value" */
  const char *says[3];
};
static const struct setting settings[] = {
    {{"TUTTI_RANK=0"}, {"WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}},
    {{"RANK=0"}, {"WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}},
    {{"WORLD_SIZE=4", "RANK=0", "MASTER_ADDR=127.0.0.1"}, {"MASTER_PORT"}},
    {{"WORLD_SIZE=4"}, {"RANK"}},
    {{"RANK=4", "WORLD_SIZE=4", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=1234"}, {"RANK", "4"}},
    {{"RANK=two", "WORLD_SIZE=4", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=1234"}, {"RANK", "two"}},
    {{"RANK=0", "WORLD_SIZE=0", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=1234"}, {"WORLD_SIZE"}},
    {{"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=65536"}, {"MASTER_PORT", "65536"}},
    {{"RANK=-1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=1234"}, {"RANK", "-1"}},
    {{"TUTTI_RNAK=0"}, {"TUTTI_RNAK", "TUTTI_RANK"}},
    {{"TUTTI_TIMEOUT=5"}, {"TUTTI_TIMEOUT", "TUTTI_TIMEOUT_MS"}},
    {{"TUTTI_TIMEOUT_MS=soon"}, {"TUTTI_TIMEOUT_MS", "soon"}},
    {{"TUTTI_ZZZZZZZZZZZZZZ="}, {"TUTTI_ZZZZZZZZZZZZZZ"}},
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

static int set_and_join(struct ranks_world *w, uint32_t rank) {
  const struct setting *s = w->context;
  ranks_clear_environment();
  for (int k = 0; k < 5 && s->variables[k]; k++) {
    char *copy = strdup(s->variables[k]);
    if (copy) putenv(copy);
  }
  tutti_comm *world = NULL;
  tutti_err err = tutti_init(&(tutti_options){.join_timeout_ms = 2000}, &world);
  ranks_note(w, rank, err, tutti_error_message(NULL));
  return 0;
}

static void half_set_environments(void) {
  for (int k = 0; k < SETTINGS; k++) {
    struct ranks_world w = {.context = &settings[k]};
    ranks_start(&w, 1, set_and_join);
    CHECK(ranks_end(&w, HANG_MS), "%s: hangs", settings[k].variables[0]);
    const struct ranks_note *note = w.shared->rank[0].notes;
    CHECK(w.shared->rank[0].noted == 1 && note->err == TUTTI_ERR_ENVIRONMENT, "%s...: %s: %s", settings[k].variables[0],
          tutti_err_name(note->err), note->text);
    for (int i = 0; i < 3 && settings[k].says[i]; i++)
      CHECK(says(note->text, settings[k].says[i]), "%s...: '%s' is not in: %s", settings[k].variables[0],
            settings[k].says[i], note->text);
    ranks_fini(&w);
  }
}

/* No child process is left after all tests. */
static void no_process_is_left(void) {
  siginfo_t info = {0};
  int got = waitid(P_ALL, 0, &info, WEXITED | WNOHANG);
  CHECK(got != 0 && errno == ECHILD, "a child process is left: %d", (int)info.si_pid);
}

int main(int argc, char **argv) {
  const struct test tests[] = {{"ranks_that_disagree", ranks_that_disagree},
                               {"messages_of_unequal_length", messages_of_unequal_length},
                               {"killed_at_any_moment", killed_at_any_moment},
                               {"exits_without_freeing", exits_without_freeing},
                               {"frees_while_others_go_on", frees_while_others_go_on},
                               {"killed_while_others_sleep", killed_while_others_sleep},
                               {"late_ranks_are_named", late_ranks_are_named},
                               {"no_limit_is_no_limit", no_limit_is_no_limit},
                               {"negative_limits_are_refused", negative_limits_are_refused},
                               {"timeouts_say_where_all_are", timeouts_say_where_all_are},
                               {"abort_is_everybodys", abort_is_everybodys},
                               {"refused_before_anything_is_sent", refused_before_anything_is_sent},
                               {"refused_without_communicator", refused_without_communicator},
                               {"misuse_is_refused", misuse_is_refused},
                               {"half_set_environments", half_set_environments},
                               {"no_process_is_left", no_process_is_left}};
  ranks_clear_environment();
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
