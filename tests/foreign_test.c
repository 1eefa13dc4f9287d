/* test: fast waits timeout=180 */
/* foreign_test.c: tutti_options.foreign: a rank that waits in a function of tutti advances another library, also while
 * it sleeps. Here rank 1 comes only after rank 0 has advanced that library CALLS times, which takes rank 0 past
 * polling and yielding. */
#include "ranks.h"
#include "test.h"

enum { HANG_MS = 30000, CALLS = 900 };
enum { ADVANCED, MOVED }; /* indices of shared->numbers */

struct row {
  const char *name;
  tutti_err (*call)(tutti_comm *world);
};

static int mine = 1, sum, pair[2];

static tutti_err allreduce(tutti_comm *world) { return tutti_allreduce(world, &mine, &sum, 1, TUTTI_I32, TUTTI_SUM); }
static tutti_err barrier(tutti_comm *world) { return tutti_barrier(world); }
static tutti_err wait_one(tutti_comm *world) {
  tutti_request *request = NULL;
  tutti_err err = tutti_iallgather(world, &mine, pair, 1, TUTTI_I32, &request);
  return err == TUTTI_OK ? tutti_wait(&request) : err;
}
static tutti_err wait_any(tutti_comm *world) {
  tutti_request *request = NULL;
  size_t index;
  tutti_err err = tutti_iallgather(world, &mine, pair, 1, TUTTI_I32, &request);
  return err == TUTTI_OK ? tutti_wait_any(&request, 1, &index) : err;
}
static tutti_err receive(tutti_comm *world) {
  const bool first = tutti_rank(world) == 0;
  return first ? tutti_recv(world, &sum, 1, TUTTI_I32, 1, 0) : tutti_send(world, &mine, 1, TUTTI_I32, 0, 0);
}
static tutti_err probe(tutti_comm *world) {
  bool found = true;
  tutti_message message;
  tutti_err err = tutti_rank(world) == 0 ? tutti_probe(world, 1, 0, TUTTI_NO_TIMEOUT, &found, &message) : TUTTI_OK;
  return err == TUTTI_OK && found ? receive(world) : err;
}
static tutti_err split(tutti_comm *world) {
  tutti_comm *half = NULL;
  tutti_err err = tutti_comm_split(world, 0, 0, &half);
  return err == TUTTI_OK ? tutti_comm_close(half) : err;
}
static tutti_err create(tutti_comm *world) {
  const uint32_t ranks[] = {0, 1};
  tutti_comm *both = NULL;
  tutti_err err = tutti_comm_create(world, ranks, 2, 0, &both);
  return err == TUTTI_OK ? tutti_comm_close(both) : err;
}

/* A communicator of this rank alone has no peer, but advances the other library. */
static tutti_err self(tutti_comm *world) {
  tutti_comm *alone = NULL;
  tutti_err err = tutti_comm_self(world, &alone);
  if (err == TUTTI_OK && tutti_rank(world) == 0) err = tutti_progress(alone, TUTTI_NO_TIMEOUT);
  return err == TUTTI_OK ? tutti_comm_close(alone) : err;
}

static const struct row rows[] = {
    {"self", self},    {"allreduce", allreduce}, {"barrier", barrier}, {"wait", wait_one}, {"wait_any", wait_any},
    {"recv", receive}, {"probe", probe},         {"split", split},     {"create", create},
};

static bool advance(void *context) {
  _Atomic uint64_t *numbers = context;
  return ++numbers[ADVANCED] == CALLS;
}

static int take_part(struct ranks_world *w, uint32_t rank) {
  const struct row *row = w->context;
  _Atomic uint64_t *n = w->shared->numbers;
  const tutti_options options = {.foreign = {.progress = rank == 0 ? advance : NULL, .context = n}};
  tutti_comm *world;
  if (tutti_init(&options, &world) != TUTTI_OK) return 1;
  if (rank == 0) n[ADVANCED] = 0;
  if (tutti_barrier(world) != TUTTI_OK) return 2;
  while (rank == 1 && n[ADVANCED] < CALLS) ranks_sleep_us(1000);
  if (row->call(world) != TUTTI_OK) return 3;
  return tutti_comm_free(world) != TUTTI_OK;
}

static void waits_advance_it(void) {
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct ranks_world w = {.context = &rows[i]};
    ranks_start(&w, 2, take_part);
    CHECK(ranks_end(&w, HANG_MS), "%s: rank 0 has advanced the library %llu times only", rows[i].name,
          (unsigned long long)w.shared->numbers[ADVANCED]);
    for (uint32_t r = 0; r < 2; r++)
      CHECK(WIFEXITED(w.status[r]) && WEXITSTATUS(w.status[r]) == 0, "%s: rank %u: %d", rows[i].name, r, w.status[r]);
    ranks_fini(&w);
  }
}

/* tutti_progress returns when the other library has moved, although no request has. */
static int come_back(struct ranks_world *w, uint32_t rank) {
  (void)rank;
  tutti_comm *world;
  const tutti_options options = {.foreign = {.progress = advance, .context = w->shared->numbers}};
  if (tutti_init(&options, &world) != TUTTI_OK) return 1;
  if (tutti_progress(world, TUTTI_NO_TIMEOUT) != TUTTI_OK) return 2;
  w->shared->numbers[MOVED] = w->shared->numbers[ADVANCED];
  return tutti_comm_free(world) != TUTTI_OK;
}

static void progress_returns(void) {
  struct ranks_world w = {0};
  ranks_start(&w, 1, come_back);
  CHECK(ranks_end(&w, HANG_MS), "tutti_progress has not returned");
  CHECK(WIFEXITED(w.status[0]) && WEXITSTATUS(w.status[0]) == 0, "%d", w.status[0]);
  CHECK(w.shared->numbers[MOVED] == CALLS, "after %llu calls", (unsigned long long)w.shared->numbers[MOVED]);
  ranks_fini(&w);
}

int main(int argc, char **argv) {
  const struct test tests[] = {{"waits_advance_it", waits_advance_it}, {"progress_returns", progress_returns}};
  ranks_clear_environment();
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
