/* test: slow timeout=300 */
/* many_ranks_test.c: 1,024 ranks in one process, or 4,096 if TEST_LONG is set, with one thread each. Creates a world,
 * splits it, and runs barriers on both and a sum, in less than 4 GiB of memory. It prints the time, which should be
 * less than 2 minutes. TEST_RANKS sets another number of ranks. */
#include <pthread.h>
#include <sys/resource.h>

#include "api/comm_create.h"
#include "test.h"
#include "transport/transport.h"

enum { RANKS_MAX = 4096, HALVES = 2, JOIN_MS = 110000, STACK = 256 << 10 };
static uint32_t ranks;

static struct tu_transport *endpoints[RANKS_MAX];
static uint32_t members[RANKS_MAX];
static _Atomic uint32_t good, met;
static char trouble[600];

static void fail(uint32_t rank, const char *doing, const char *text) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  if (!trouble[0]) snprintf(trouble, sizeof trouble, "rank %u: %s: %.500s", rank, doing, text);
  pthread_mutex_unlock(&lock);
}

static bool play(uint32_t rank) {
  struct tu_error error;
  tutti_comm *world, *half;
  if (tu_comm_create(endpoints[rank], members, ranks, rank, TU_WORLD_ID, JOIN_MS, &world, &error) != TUTTI_OK)
    return fail(rank, "tu_comm_create", error.text), false;
  if (tutti_comm_split(world, (int)(rank % HALVES), 0, &half) != TUTTI_OK)
    return fail(rank, "tutti_comm_split", tutti_error_message(NULL)), false;
  int64_t sum = rank;
  bool all = tutti_barrier(half) == TUTTI_OK && tutti_barrier(world) == TUTTI_OK &&
             tutti_allreduce(half, TUTTI_IN_PLACE, &sum, 1, TUTTI_I64, TUTTI_SUM) == TUTTI_OK;
  int64_t expected = 0;
  for (int64_t r = rank % HALVES; r < ranks; r += HALVES) expected += r;
  if (!all || sum != expected) fail(rank, "barrier or sum", tutti_error_message(NULL));
  atomic_fetch_add(&met, world->mover->pair_count);
  if (tutti_comm_free(half) != TUTTI_OK || tutti_comm_free(world) != TUTTI_OK)
    fail(rank, "tutti_comm_free", tutti_error_message(NULL));
  return all && sum == expected;
}

static void *act(void *argument) {
  if (play((uint32_t)(uintptr_t)argument)) good++;
  return NULL;
}

static void many_ranks(void) {
  static pthread_t threads[RANKS_MAX];
  const char *said = getenv("TEST_RANKS");
  ranks = said ? (uint32_t)tu_min((size_t)atoi(said), RANKS_MAX) : test_long() ? RANKS_MAX : 1024;
  struct tu_error error = {0};
  pthread_attr_t attributes;
  uint64_t start = tu_clock_ns();
  if (tu_loop_create(ranks, (size_t)256 << 20, endpoints, &error) != TUTTI_OK) {
    FAIL("%s", error.text);
    return;
  }
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK);
  for (uint32_t r = 0; r < ranks; r++) members[r] = r;
  for (uint32_t r = 0; r < ranks; r++)
    if (pthread_create(&threads[r], &attributes, act, (void *)(uintptr_t)r) != 0) {
      printf("  cannot create more than %u threads; see ulimit -u\n", r);
      abort();
    }
  for (uint32_t r = 0; r < ranks; r++) pthread_join(threads[r], NULL);
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  double seconds = (double)(tu_clock_ns() - start) * 1e-9;
  printf("  %u ranks: %.1f s, %ld MiB, %.1f peers per rank\n", ranks, seconds, usage.ru_maxrss >> 10,
         (double)met / ranks);
  CHECK(good == ranks, "%u of %u ranks passed: %s", good, ranks, trouble);
  CHECK(usage.ru_maxrss < 4 << 20, "used %ld KiB, expected less than 4 GiB", usage.ru_maxrss);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"many_ranks", many_ranks}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
