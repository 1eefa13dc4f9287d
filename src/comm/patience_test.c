/* patience_test.c: tests how long a rank polls and yields with given settings, and what it does after each unsuccessful
 * poll. */
#include <stdio.h>
#include <stdlib.h>

#include "comm/comm.h"
#include "comm/patience.h"
#include "test.h"

struct row {
  const char *name;
  const char *variable; /* value of TUTTI_SPIN_US, or NULL */
  int spin_us;
  uint32_t share;
  bool hosts;
  struct tu_patience expected;
};

static void what_it_is_told(void) {
  static const struct row rows[] = {
      {"a core each", NULL, 0, 1, false, {.adapts = true, .polls = 256, .spin_ns = 300000}},
      {"shared cores", NULL, 0, 2, false, {.adapts = true, .polls = 6, .yields = 100}},
      {"4 ranks to a core", NULL, 0, 4, false, {.adapts = true, .polls = 3, .yields = 100}},
      {"64 ranks to a core", NULL, 0, 64, false, {.adapts = true, .polls = 1, .yields = 100}},
      {"50 us", NULL, 50, 1, false, {.polls = 256, .spin_ns = 50000}},
      {"1 us", NULL, 1, 1, false, {.polls = 16, .spin_ns = 1000}},
      {"50 us, shared", NULL, 50, 2, false, {.polls = 256, .spin_ns = 50000, .yields = 100}},
      {"never", NULL, -1, 1, false, {.polls = 1}},
      {"never, shared", NULL, -1, 3, false, {.polls = 1}},
      {"by variable", "20", 0, 1, false, {.polls = 256, .spin_ns = 20000}},
      {"never, by variable", "-1", 0, 1, false, {.polls = 1}},
      {"adapts, by variable", "0", 0, 1, false, {.adapts = true, .polls = 256, .spin_ns = 300000}},
      {"hosts", NULL, 0, 1, true, {.polls = 1, .spin_ns = 200000, .lends_core = true}},
      {"hosts, shared cores", NULL, 0, 2, true, {.adapts = true, .polls = 6, .yields = 100, .lends_core = true}},
      {"hosts, 20 us", NULL, 20, 1, true, {.polls = 1, .spin_ns = 20000, .lends_core = true}},
      {"the program's word counts", "20", 30, 1, false, {.polls = 256, .spin_ns = 30000}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct row *row = &rows[i];
    const struct tu_patience *e = &row->expected;
    struct tu_patience got;
    struct tu_error error = {0};
    if (row->variable) setenv("TUTTI_SPIN_US", row->variable, 1);
    CHECK(tu_patience_init(&got, row->spin_us, row->share, row->hosts, &error) == TUTTI_OK, "%s: %s", row->name,
          error.text);
    unsetenv("TUTTI_SPIN_US");
    CHECK(got.adapts == e->adapts && got.polls == e->polls && got.spin_ns == e->spin_ns && got.yields == e->yields &&
              got.lends_core == e->lends_core,
          "%s: adapts %d, %u polls, %llu ns, %u yields", row->name, got.adapts, got.polls,
          (unsigned long long)got.spin_ns, got.yields);
  }
}

static void what_is_no_time_is_refused(void) {
  static const char *const wrong[] = {"-2", "x", "1.5", "9999999999", "-", "1us"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    struct tu_patience got;
    struct tu_error error = {0};
    setenv("TUTTI_SPIN_US", wrong[i], 1);
    CHECK(tu_patience_init(&got, 0, 1, false, &error) == TUTTI_ERR_ENVIRONMENT, "'%s' is taken", wrong[i]);
    CHECK(strstr(error.text, "TUTTI_SPIN_US") && strstr(error.text, "from -1 to 2147483647"), "'%s': %s", wrong[i],
          error.text);
    CHECK(tu_patience_init(&got, 5, 1, false, &error) == TUTTI_OK, "'%s' counts though the program says 5", wrong[i]);
  }
  unsetenv("TUTTI_SPIN_US");
}

/* Polls without success until it is time to sleep. Returns the number of polls; *ns: how long they took. */
static uint32_t polls_until_sleep(struct tutti_comm *comm, uint64_t *ns) {
  struct tu_stall stall = {0};
  uint32_t polls = 1;
  uint64_t start = tu_clock_ns();
  while (!tu_patience_ends(comm, &stall)) polls++;
  *ns = tu_clock_ns() - start;
  return polls;
}

/* Checks times against lower bounds only: these hold on a busy machine, too. */
static void polls_then_yields_then_sleeps(void) {
  struct tu_transport *t;
  struct tu_error error;
  struct tutti_comm comm = {.ranks = 2};
  uint64_t ns;
  if (tu_loop_create(1, 0, &t, &error) != TUTTI_OK) abort();
  comm.transport = t;
  comm.share = 1;
  comm.patience = (struct tu_patience){.polls = 1};
  uint32_t polls = polls_until_sleep(&comm, &ns);
  CHECK(polls == 1, "told not to spin, it polls %u times", polls);
  comm.patience = (struct tu_patience){.polls = 256, .spin_ns = 2000000};
  polls = polls_until_sleep(&comm, &ns);
  CHECK(polls > 256 && ns >= 2000000, "told to poll for 2 ms: %u polls, %llu ns", polls, (unsigned long long)ns);
  comm.share = 2;
  comm.patience = (struct tu_patience){.polls = 6, .yields = 100};
  polls = polls_until_sleep(&comm, &ns);
  CHECK(polls == 6 + 100 || ns >= TU_LOOK_NS, "6 polls and 100 yields are %u", polls);
  /* Other programs may use the core during each yield, so their number does not bound the time. */
  comm.patience.yields = 10000000;
  polls = polls_until_sleep(&comm, &ns);
  CHECK(polls < comm.patience.yields && ns >= TU_LOOK_NS, "%u polls and yields took %llu ns", polls,
        (unsigned long long)ns);
  t->ops->close(t);
}

static bool count_call(void *context) {
  ++*(uint32_t *)context;
  return false;
}

/* A rank asks the foreign library before each sleep, however many yields the wait has had by then: between two sleeps no
 * other thread of the rank advances it. */
static void asks_before_each_sleep(void) {
  struct tu_transport *t;
  struct tu_error error;
  uint32_t calls = 0;
  if (tu_loop_create(1, 0, &t, &error) != TUTTI_OK) abort();
  t->foreign = (tutti_foreign){.progress = count_call, .context = &calls};
  struct tutti_comm comm = {.ranks = 2, .transport = t, .share = 2, .patience = {.polls = 6, .yields = 100}};
  for (uint32_t yields = 0; yields <= comm.patience.yields; yields++) {
    /* the wait began long ago: the rank sleeps */
    struct tu_stall stall = {.polls = 7, .yields = yields, .since = 1};
    calls = 0;
    for (uint32_t i = 1; i <= 3; i++) {
      CHECK(tu_patience_ends(&comm, &stall), "after %u yields: no sleep", yields);
      CHECK(calls == i, "after %u yields: %u calls before sleep %u", yields, calls, i);
    }
  }
  t->ops->close(t);
}

/* A rank that yields measures turns. They count if two other ranks share its CPU. */
static void polls_for_a_turn(void) {
  enum { YIELDS = 200, MOST = 500 };
  static const uint64_t here[] = {0, 1 << 1, 1 << 1 | 1 << 5, UINT64_MAX - 1};
  struct tu_transport *t;
  struct tu_error error;
  if (tu_loop_create(1, 0, &t, &error) != TUTTI_OK) abort();
  const struct tutti_comm comm = {.ranks = 2, .transport = t, .share = 2, .patience = {.yields = UINT32_MAX}};
  for (size_t i = 0; i < sizeof here / sizeof here[0]; i++) {
    struct tu_stall stall = {0};
    tu_core_watch.here = here[i];
    while (stall.yields < YIELDS) {
      stall.since = 0;
      (void)tu_patience_ends(&comm, &stall);
    }
    const uint32_t polls = tu_patience_turn_polls();
    CHECK(i < 2 ? polls == 0 : polls <= MOST, "beside the ranks %llx: %u polls", (unsigned long long)here[i], polls);
    CHECK(i != 2 || polls > 0, "a turn takes no time");
  }
  tu_core_watch.here = 0;
  t->ops->close(t);
}

/* The first unsuccessful test does not look for dead peers, the second one does, and later ones do once per interval of
 * the clock. */
static void who_tests_looks_by_the_clock(void) {
  const struct tutti_comm comm = {.patience = {.polls = 256, .spin_ns = 300000}};
  struct tu_stall stall = {0};
  CHECK(!tu_patience_test(&comm, &stall, false), "the first vain test looks already");
  CHECK(tu_patience_test(&comm, &stall, false), "the second one does not");
  stall.since = tu_clock_ns() - 10000000000; /* 10 s ago */
  CHECK(tu_patience_test(&comm, &stall, true), "a look is long over due");
  uint32_t looks = 0, tests = 0;
  for (uint64_t end = tu_clock_ns() + 100000000; tu_clock_ns() < end; tests++)
    looks += tu_patience_test(&comm, &stall, false);
  CHECK(looks >= 1 && looks <= 6, "%u looks of %u tests in 100 ms", looks, tests);
}

/* Of a pause between two polls, in which others had the core, 1 ms counts, or a third. */
static void time_of_others_counts_less(void) {
  const uint64_t ms = TU_NS_PER_MS;
  struct tu_poll_time time = {0};
  uint64_t now = 70000 * ms;
  CHECK(tu_poll_time_at(&time, now) == 0, "the first poll counts");
  for (int i = 0; i < 10; i++) (void)tu_poll_time_at(&time, now += ms / 10);
  CHECK(time.counted == ms, "10 polls in 1 ms: %llu ns", (unsigned long long)time.counted);
  for (int i = 0; i < 3; i++) (void)tu_poll_time_at(&time, now += 2 * ms);
  CHECK(time.counted == 4 * ms, "3 pauses of 2 ms after 1 ms: %llu ns", (unsigned long long)time.counted);
  (void)tu_poll_time_at(&time, now += 300 * ms);
  CHECK(time.counted == 104 * ms, "a pause of 300 ms after 4 ms: %llu ns", (unsigned long long)time.counted);
}

int main(int argc, char **argv) {
  const struct test tests[] = {{"what_it_is_told", what_it_is_told},
                               {"what_is_no_time_is_refused", what_is_no_time_is_refused},
                               {"polls_then_yields_then_sleeps", polls_then_yields_then_sleeps},
                               {"asks_before_each_sleep", asks_before_each_sleep},
                               {"polls_for_a_turn", polls_for_a_turn},
                               {"who_tests_looks_by_the_clock", who_tests_looks_by_the_clock},
                               {"time_of_others_counts_less", time_of_others_counts_less}};
  unsetenv("TUTTI_SPIN_US");
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
