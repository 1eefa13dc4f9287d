/* test: fast waits timeout=120 */
/* stats_test.c: tutti_stats: a rank that comes late to each call is the one for which the others wait; counts of calls,
 * messages and bytes, also of ranks on another host; wrong arguments. No check depends on exact times. */
#include "must.h"

enum { RANKS_MOST = 4, ROUNDS = 10, LATE_US = 20000, COUNT = 8, MESSAGES = 3, MESSAGE_BYTES = 100 };

static const tutti_options options = {.timeout_ms = HANG_MS, .join_timeout_ms = HANG_MS};

/* A barrier without the library, of `ranks` ranks: waits until each has called it as often as this rank. `place` is the
 * number in the shared memory that counts the calls. */
static void meet(struct ranks_world *w, uint32_t place, uint32_t ranks) {
  _Atomic uint64_t *here = &w->shared->numbers[place];
  const uint64_t all = ((*here)++ / ranks + 1) * ranks;
  while (*here < all) ranks_sleep_us(100);
}

/* Gets what this rank knows of each rank, when all ranks have made all their calls and none makes another. */
static tutti_err stats_of_all(struct ranks_world *w, tutti_comm *comm, tutti_rank_stats stats[]) {
  tutti_err err = TUTTI_OK;
  meet(w, 0, w->ranks);
  /* A rank publishes what it has waited for the others, by its own call. */
  for (uint32_t r = 0; r < w->ranks && err == TUTTI_OK; r++) err = tutti_stats(comm, r, &stats[r]);
  meet(w, 0, w->ranks);
  for (uint32_t r = 0; r < w->ranks && err == TUTTI_OK; r++) err = tutti_stats(comm, r, &stats[r]);
  meet(w, 0, w->ranks);
  return err;
}

/* ---- a straggler ---- */

/* Checks what a rank knows after all ranks have made ROUNDS calls and a barrier, and rank `late` came late to each call.
 * A busy machine adds to all waits, but the late rank's are of ROUNDS * LATE_US for each of the others. */
static int check_straggler(const tutti_rank_stats stats[], uint32_t rank, uint32_t ranks, uint32_t late) {
  uint64_t others = 0, others_here = 0;
  for (uint32_t r = 0; r < ranks; r++) {
    EXPECT(stats[r].calls == ROUNDS + 1);
    EXPECT(stats[r].messages == 0 && stats[r].message_bytes == 0);
    for (int i = 0; i < 4; i++) EXPECT(stats[r].reserved[i] == 0);
    if (r == late) continue;
    others += stats[r].awaited_ns;
    others_here += stats[r].awaited_here_ns;
    EXPECT(stats[r].waited_ns > stats[late].waited_ns);
  }
  EXPECT(stats[late].awaited_ns > others);
  EXPECT(stats[rank].awaited_here_ns == 0);
  EXPECT(rank == late ? stats[late].awaited_here_ns == 0 : stats[late].awaited_here_ns > others_here);
  EXPECT(stats[late].awaited_ns >= stats[late].awaited_here_ns);
  return 0;
}

/* Two ranks: the last rank sleeps before each blocking call. */
static int play_two(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  tutti_rank_stats stats[RANKS_MOST];
  float sum[COUNT] = {1};
  MUST(tutti_init(&options, &world));
  MUST(tutti_barrier(world));
  for (int i = 0; i < ROUNDS; i++) {
    if (rank == 1) ranks_sleep_us(LATE_US);
    MUST(tutti_allreduce(world, sum, sum, COUNT, TUTTI_F32, TUTTI_SUM));
  }
  MUST(stats_of_all(w, world, stats));
  if (check_straggler(stats, rank, 2, 1) != 0) return 1;
  MUST(tutti_comm_free(world));
  return 0;
}

/* Several ranks: rank 2 sleeps before each call. The others wait only after all of them have sent what they have, because a
 * wait for several ranks counts for the first of them. */
static int play_several(struct ranks_world *w, uint32_t rank) {
  enum { LATE = 2 };
  tutti_comm *world;
  tutti_rank_stats stats[RANKS_MOST];
  float sum[COUNT] = {1};
  const tutti_call call = {.collective = TUTTI_ALLREDUCE,
                           .send = sum,
                           .recv = sum,
                           .count = COUNT,
                           .type = TUTTI_F32,
                           .op = TUTTI_SUM,
                           .algorithm = "direct"};
  MUST(tutti_init(&options, &world));
  MUST(tutti_barrier(world));
  for (int i = 0; i < ROUNDS; i++) {
    tutti_request *request;
    bool done = false;
    if (rank == LATE) ranks_sleep_us(LATE_US);
    MUST(tutti_start(world, &call, &request));
    if (rank != LATE) MUST(tutti_test(&request, &done));
    if (rank != LATE) meet(w, 1, w->ranks - 1);
    MUST(tutti_wait(&request));
  }
  MUST(stats_of_all(w, world, stats));
  if (check_straggler(stats, rank, w->ranks, LATE) != 0) return 1;
  MUST(tutti_comm_free(world));
  return 0;
}

static void test_straggler_of_two(void) { run_world("two", 2, NULL, play_two, 0); }
static void test_straggler_of_four(void) { run_world("four", 4, NULL, play_several, 0); }

/* ---- counts ---- */

/* Each rank sends MESSAGES messages to the next one, of a length that depends on the sender. */
static tutti_err pass_on(tutti_comm *comm) {
  const uint32_t rank = tutti_rank(comm), ranks = tutti_ranks(comm);
  const uint32_t next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  static unsigned char out[MESSAGE_BYTES * RANKS_MOST], in[MESSAGE_BYTES * RANKS_MOST];
  tutti_err err = TUTTI_OK;
  for (int i = 0; i < MESSAGES && err == TUTTI_OK; i++) {
    const tutti_call calls[] = {
        {.collective = TUTTI_SEND, .send = out, .count = MESSAGE_BYTES * (rank + 1), .type = TUTTI_U8, .peer = next},
        {.collective = TUTTI_RECV,
         .recv = in,
         .count = MESSAGE_BYTES * (before + 1),
         .type = TUTTI_U8,
         .peer = before}};
    tutti_request *request;
    err = tutti_start_all(comm, calls, 2, &request);
    if (err == TUTTI_OK) err = tutti_wait(&request);
  }
  return err;
}

static bool has_counts(const tutti_rank_stats *s, uint64_t calls, uint64_t messages, uint64_t bytes) {
  if (s->calls == calls && s->messages == messages && s->message_bytes == bytes) return true;
  printf("  calls %llu, messages %llu, bytes %llu; expected %llu, %llu, %llu\n", (unsigned long long)s->calls,
         (unsigned long long)s->messages, (unsigned long long)s->message_bytes, (unsigned long long)calls,
         (unsigned long long)messages, (unsigned long long)bytes);
  return false;
}

/* Counts are those of one communicator: a copy begins with none. */
static int play_counts(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world, *copy;
  tutti_rank_stats stats[RANKS_MOST];
  int32_t x = 1;
  MUST(tutti_init(&options, &world));
  MUST(stats_of_all(w, world, stats));
  for (uint32_t r = 0; r < w->ranks; r++) EXPECT(has_counts(&stats[r], 0, 0, 0));
  MUST(tutti_comm_dup(world, &copy));
  MUST(stats_of_all(w, world, stats));
  const uint64_t made = stats[rank].calls; /* the copy may have taken calls of the world */
  MUST(pass_on(copy));
  for (int i = 0; i < ROUNDS; i++) MUST(tutti_allreduce(copy, &x, &x, 1, TUTTI_I32, TUTTI_MAX));
  MUST(tutti_barrier(copy));
  MUST(tutti_broadcast(world, &x, 1, TUTTI_I32, 0));
  MUST(stats_of_all(w, copy, stats));
  for (uint32_t r = 0; r < w->ranks; r++) {
    const uint32_t before = (r + w->ranks - 1) % w->ranks;
    EXPECT(has_counts(&stats[r], ROUNDS + 1, 2 * MESSAGES, MESSAGES * MESSAGE_BYTES * (r + before + 2)));
  }
  MUST(stats_of_all(w, world, stats));
  for (uint32_t r = 0; r < w->ranks; r++) EXPECT(has_counts(&stats[r], made + 1, 0, 0));
  MUST(tutti_comm_free(copy));
  MUST(tutti_comm_free(world));
  return 0;
}

static void test_counts(void) { run_world("counts", 3, NULL, play_counts, 0); }

/* Each rank is on a host of its own, and rank 1 is late. */
static int play_hosts(struct ranks_world *w, uint32_t rank) {
  enum { LATE = 1 };
  tutti_comm *world;
  tutti_rank_stats stats[RANKS_MOST];
  int32_t x = 1;
  setenv("TUTTI_HOST", rank == 0 ? "a" : "b", 1);
  MUST(tutti_init(&options, &world));
  MUST(pass_on(world));
  for (int i = 0; i < ROUNDS; i++) {
    if (rank == LATE) ranks_sleep_us(LATE_US);
    MUST(tutti_allreduce(world, &x, &x, 1, TUTTI_I32, TUTTI_MAX));
  }
  MUST(stats_of_all(w, world, stats));
  const tutti_rank_stats *here = &stats[rank], *far = &stats[1 - rank];
  EXPECT(has_counts(here, ROUNDS, 2 * MESSAGES, MESSAGES * MESSAGE_BYTES * 3));
  EXPECT(far->calls <= ROUNDS && far->messages == 0 && far->message_bytes == 0 && far->waited_ns == 0);
  EXPECT(here->awaited_ns == 0 && here->awaited_here_ns == 0 && far->awaited_ns == far->awaited_here_ns);
  EXPECT(rank == LATE || far->awaited_ns > (uint64_t)LATE_US * 1000); /* one of ROUNDS waits */
  MUST(tutti_comm_free(world));
  return 0;
}

static void test_hosts(void) {
  if (placement_count() > 0) SKIP("TEST_HOSTS places the ranks");
  else run_world("hosts", 2, NULL, play_hosts, 0);
}

/* ---- wrong arguments ---- */

static int play_refusals(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world;
  tutti_rank_stats stats = {.calls = 7};
  const uint32_t wrong[] = {w->ranks, w->ranks + 1, UINT32_MAX};
  MUST(tutti_init(&options, &world));
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    EXPECT(tutti_stats(world, wrong[i], &stats) == TUTTI_ERR_ARGUMENT);
    EXPECT(test_contains(tutti_error_message(NULL), "tutti_stats|rank|0 to 1"));
  }
  EXPECT(tutti_stats(NULL, 0, &stats) == TUTTI_ERR_ARGUMENT);
  EXPECT(test_contains(tutti_error_message(NULL), "tutti_stats|comm|NULL"));
  EXPECT(tutti_stats(world, 0, NULL) == TUTTI_ERR_ARGUMENT);
  EXPECT(test_contains(tutti_error_message(NULL), "tutti_stats|stats|NULL"));
  EXPECT(stats.calls == 7);
  /* The communicator has not failed. */
  MUST(tutti_barrier(world));
  MUST(tutti_stats(world, rank, &stats));
  EXPECT(stats.calls == 1);
  MUST(tutti_comm_free(world));
  return 0;
}

static void test_refusals(void) { run_world("refusals", 2, NULL, play_refusals, 0); }

int main(int argc, char **argv) {
  const struct test tests[] = {
      {"straggler of two ranks", test_straggler_of_two},
      {"straggler of four ranks", test_straggler_of_four},
      {"counts", test_counts},
      {"ranks of another host", test_hosts},
      {"wrong arguments", test_refusals},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
