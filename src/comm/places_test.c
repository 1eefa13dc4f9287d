/* places_test.c: tests which CPUs count as used, which CPU is best, who gets which place, and that a rank that moves keeps
 * its affinity. */
#include "comm/places.h"

#include "test.h"

enum { RANKS = 4, ROW_CPUS = 6 };
static const uint64_t NOW = 1000 * (uint64_t)TU_FRESH_NS;

static void open_loop(struct tu_transport *t[RANKS]) {
  struct tu_error error;
  tu_assert(tu_loop_create(RANKS, 1 << 20, t, &error) == TUTTI_OK);
}

static void close_loop(struct tu_transport *t[RANKS]) {
  for (uint32_t r = 0; r < RANKS; r++) t[r]->ops->close(t[r]);
}

/* Publishes that the rank waits on that CPU. */
static void put(struct tu_transport *t, uint32_t cpu, uint64_t at) {
  struct tu_slice_head *head = tu_transport_head(t, t->rank);
  atomic_store(&head->cpu, cpu + 1);
  atomic_store(&head->cpu_at, at);
}

static void put_busy(struct tu_transport *t, uint32_t cpu, uint64_t until) {
  struct tu_slice_head *head = tu_transport_head(t, t->rank);
  atomic_store(&head->busy_cpu, cpu + 1);
  atomic_store(&head->busy_until, until);
}

static void which_cpu_is_best(void) {
  static const uint32_t busy = TU_BUSY_COST;
  const struct {
    const char *name, *allowed; /* one letter per CPU; '.': not allowed */
    uint32_t cost[ROW_CPUS], own, best;
  } rows[] = {
      {"alone", "xxxx", {0, 0, 0, 0}, 2, 2},
      {"others elsewhere", "xxxx", {1, 3, 0, 1}, 2, 2},
      {"one rank here, none there", "xx", {1, 0}, 0, 1},
      {"as many there", "xx", {1, 1}, 0, 0},
      {"more there", "xx", {1, 2}, 0, 0},
      {"the closest of equal ones", "xxxxxx", {0, 1, 1, 1, 0, 0}, 3, 4},
      {"the closest one, below", "xxxxxx", {0, 0, 0, 1, 1, 0}, 3, 2},
      {"fewer before closer", "xxxxxx", {0, 2, 2, 3, 2, 2}, 3, 0},
      {"only allowed ones", ".x.x..", {0, 1, 0, 2, 0, 0}, 3, 1},
      {"bound", "..x", {0, 0, 5}, 2, 2},
      {"other programs here", "xx", {busy, 3}, 0, 1},
      {"other programs there", "xx", {3, busy}, 0, 0},
      {"other programs everywhere", "xx", {busy | 1, busy}, 0, 1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    uint32_t cost[CPU_SETSIZE] = {0};
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    for (uint32_t c = 0; c < ROW_CPUS && rows[i].allowed[c]; c++) {
      cost[c] = rows[i].cost[c];
      if (rows[i].allowed[c] == 'x') CPU_SET(c, &allowed);
    }
    const uint32_t best = tu_places_best(&allowed, cost, rows[i].own);
    CHECK(best == rows[i].best, "%s: CPU %u", rows[i].name, best);
  }
}

static void which_cpu_is_whose(void) {
  const struct {
    const char *allowed;
    uint32_t cpus[4]; /* of ranks 0 to 3 */
  } rows[] = {{"x", {0, 0, 0, 0}}, {"xx", {0, 1, 0, 1}}, {".x..xx", {1, 4, 5, 1}}, {"..xxxx", {2, 3, 4, 5}}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    for (uint32_t c = 0; rows[i].allowed[c]; c++)
      if (rows[i].allowed[c] == 'x') CPU_SET(c, &allowed);
    for (uint32_t r = 0; r < 4; r++) {
      const uint32_t cpu = tu_places_own(&allowed, r);
      CHECK(cpu == rows[i].cpus[r], "%s: rank %u has CPU %u", rows[i].allowed, r, cpu);
    }
  }
}

static void which_rank_gets_which_place(void) {
  const struct {
    const char *what;
    uint32_t ranks, cpus;
    uint64_t passed, work[8];
    uint32_t so_far[8], place[8];
  } rows[] = {
      {"equal work", 4, 2, 100, {9, 9, 9, 9}, {0, 1, 0, 1}, {0, 1, 0, 1}},
      {"no work", 5, 3, 100, {0}, {2, 2, 2, 2, 2}, {0, 1, 2, 0, 1}},
      {"odd ranks have more", 4, 2, 160, {10, 30, 11, 31}, {0, 1, 0, 1}, {0, 1, 1, 0}},
      {"not much more", 4, 2, 160, {10, 12, 10, 13}, {0, 1, 0, 1}, {0, 1, 0, 1}},
      {"the same, in less time", 4, 2, 60, {10, 12, 10, 13}, {0, 1, 0, 1}, {0, 1, 0, 1}},
      {"ranks that do the same",
       8,
       2,
       100,
       {20, 22, 20, 19, 21, 21, 21, 20},
       {0, 1, 0, 1, 0, 1, 0, 1},
       {0, 1, 0, 1, 0, 1, 0, 1}},
      {"a tenth more: in turn", 4, 2, 100, {40, 50, 40, 50}, {0, 1, 0, 1}, {0, 1, 0, 1}},
      {"a tenth more: by work", 4, 2, 100, {40, 50, 40, 50}, {0, 0, 1, 1}, {0, 0, 1, 1}},
      {"much more, but little in that time", 4, 2, 400, {5, 15, 5, 15}, {0, 1, 0, 1}, {0, 1, 0, 1}},
      {"good places are kept", 4, 2, 160, {30, 11, 31, 10}, {0, 0, 1, 1}, {0, 0, 1, 1}},
      {"also if others are a little better", 4, 2, 160, {30, 11, 33, 10}, {0, 0, 1, 1}, {0, 0, 1, 1}},
      {"in turn again", 4, 2, 160, {20, 22, 20, 20}, {0, 1, 1, 0}, {0, 1, 0, 1}},
      {"one has most", 4, 2, 100, {10, 60, 20, 30}, {0, 1, 0, 1}, {1, 0, 1, 1}},
      {"three CPUs", 5, 3, 100, {50, 10, 20, 60, 30}, {0, 1, 2, 0, 1}, {1, 1, 2, 0, 2}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    uint32_t place[8];
    memcpy(place, rows[i].so_far, sizeof place);
    tu_places_deal(rows[i].work, rows[i].passed, rows[i].ranks, rows[i].cpus, place);
    for (uint32_t r = 0; r < rows[i].ranks; r++)
      CHECK(place[r] == rows[i].place[r], "%s: rank %u has place %u", rows[i].what, r, place[r]);
  }
}

/* What other programs use for a moment costs no more, but every rank learns of it. */
static void what_lasts_costs(void) {
  struct tu_transport *t[RANKS];
  open_loop(t);
  for (int lasting = 0; lasting < 2; lasting++) {
    uint32_t cost[CPU_SETSIZE] = {0}, busy = 0;
    tu_places_note_busy(t[1], NOW + 1, lasting);
    tu_places_costs(t[0], NOW, true, cost);
    for (uint32_t c = 0; c < CPU_SETSIZE; c++) busy += cost[c] == TU_BUSY_COST;
    CHECK(busy == (uint32_t)lasting, "lasting %d: %u CPUs are busy", lasting, busy);
    CHECK(atomic_load(&tu_transport_head(t[1], 1)->busy_until) == NOW + 1, "lasting %d: not published", lasting);
  }
  close_loop(t);
}

static void what_costs(void) {
  struct tu_transport *t[RANKS];
  uint32_t cost[CPU_SETSIZE] = {0};
  open_loop(t);
  put(t[0], 5, NOW); /* the rank itself does not count */
  put(t[1], 5, NOW - TU_FRESH_NS / 2);
  put(t[2], 5, NOW - TU_FRESH_NS); /* long ago */
  put(t[3], CPU_SETSIZE - 1, NOW);
  put_busy(t[0], 7, NOW + 1); /* but what it has noticed does */
  put_busy(t[1], 5, NOW + 1);
  put_busy(t[2], 8, NOW); /* no longer */
  for (int crowded = 0; crowded < 2; crowded++) {
    const uint32_t busy = crowded ? TU_BUSY_COST : 0;
    memset(cost, 0, sizeof cost);
    tu_places_costs(t[0], NOW, crowded, cost);
    for (uint32_t c = 0; c < CPU_SETSIZE; c++) {
      const uint32_t expected = c == 5 ? busy | 1 : c == 7 ? busy : c == CPU_SETSIZE - 1;
      CHECK(cost[c] == expected, "crowded %d: CPU %u costs %x", crowded, c, cost[c]);
    }
  }
  close_loop(t);
}

/* Binds this thread to the first CPU of `all`, and then allows the second one, too. Returns false if there is no second
 * one. */
static bool begin_on_first(const cpu_set_t *all, uint32_t cpus[2], cpu_set_t *both) {
  uint32_t count = 0;
  for (uint32_t c = 0; c < CPU_SETSIZE && count < 2; c++)
    if (CPU_ISSET(c, all)) cpus[count++] = c;
  if (count < 2) return false;
  cpu_set_t first;
  CPU_ZERO(&first);
  CPU_SET(cpus[0], &first);
  *both = first;
  CPU_SET(cpus[1], both);
  tu_assert(sched_setaffinity(0, sizeof first, &first) == 0 && sched_setaffinity(0, sizeof *both, both) == 0);
  return true;
}

static uint32_t published(const struct tu_transport *t) { return atomic_load(&tu_transport_head(t, t->rank)->cpu) - 1; }

static void moves_and_keeps_its_affinity(void) {
  struct tu_transport *t[RANKS];
  cpu_set_t all, both, after;
  uint32_t cpus[2];
  tu_assert(sched_getaffinity(0, sizeof all, &all) == 0);
  open_loop(t);
  if (begin_on_first(&all, cpus, &both)) {
    put(t[1], cpus[0], NOW);
    tu_places_look(t[0], NOW, true, false);
    /* also if the kernel has moved the thread there before */
    CHECK(published(t[0]) == cpus[1], "it waits on CPU %u", published(t[0]));
    CHECK(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&after, &both), "its affinity has changed");
    /* The other CPU is no better for the other rank now. */
    tu_places_look(t[0], NOW, true, false);
    CHECK(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&after, &both), "its affinity has changed");
    put_busy(t[1], cpus[1], NOW + 1);
    put(t[1], cpus[1], NOW - 2 * TU_FRESH_NS);
    tu_places_look(t[0], NOW, true, true);
    CHECK(published(t[0]) == cpus[0], "it waits on CPU %u, beside other programs", published(t[0]));
  } else SKIP("one CPU only");
  tu_assert(sched_setaffinity(0, sizeof all, &all) == 0);
  close_loop(t);
}

/* Rank 1 waits on the first of two CPUs, with rank 0. Does it go to its own place, the second one? */
static void ranks_that_share_cpus_take_their_places(void) {
  enum { FIRST, SECOND };
  static const struct {
    const char *what;
    bool crowded, may_move;
    uint32_t cpu[RANKS];
    uint32_t late;   /* this rank does not wait now; 1: all do */
    uint32_t bound;  /* this rank may use other CPUs; 1: none */
    uint32_t beside; /* other programs use this CPU; 2: none */
    uint32_t goes;
  } rows[] = {
      {"all wait", true, true, {FIRST, FIRST, SECOND, SECOND}, 1, 1, 2, SECOND},
      {"at its place", true, true, {FIRST, SECOND, FIRST, SECOND}, 1, 1, 2, SECOND},
      {"more of them there", true, true, {SECOND, FIRST, SECOND, FIRST}, 1, 1, 2, SECOND},
      {"each has a CPU", false, true, {FIRST, FIRST, SECOND, SECOND}, 1, 1, 2, FIRST},
      {"one computes", true, true, {FIRST, FIRST, SECOND, SECOND}, 0, 1, 2, FIRST},
      {"one computes, no rank waits there", true, true, {SECOND, FIRST, FIRST, FIRST}, 0, 1, 2, FIRST},
      {"one is bound", true, true, {FIRST, FIRST, SECOND, SECOND}, 1, 3, 2, FIRST},
      {"other programs there", true, true, {FIRST, FIRST, SECOND, SECOND}, 1, 1, SECOND, FIRST},
      {"other programs here", true, true, {FIRST, FIRST, FIRST, SECOND}, 1, 1, FIRST, SECOND},
      {"may not move", true, false, {FIRST, FIRST, SECOND, SECOND}, 1, 1, 2, FIRST},
  };
  cpu_set_t all, both, after;
  uint32_t cpus[2];
  tu_assert(sched_getaffinity(0, sizeof all, &all) == 0);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct tu_transport *t[RANKS];
    if (!begin_on_first(&all, cpus, &both)) {
      SKIP("one CPU only");
      break;
    }
    open_loop(t);
    for (uint32_t r = 0; r < RANKS; r++) {
      if (r != 1) put(t[r], cpus[rows[i].cpu[r]], r == rows[i].late ? NOW - 2 * TU_FRESH_NS : NOW);
      const uint64_t allowed = tu_hash(&both, sizeof both, TU_ALLOWED_SEED);
      atomic_store(&tu_transport_head(t[r], r)->allowed, r == rows[i].bound ? ~allowed : allowed);
    }
    if (rows[i].beside < 2) put_busy(t[3], cpus[rows[i].beside], NOW + 1);
    /* the kernel may move the thread at any time: then the row says nothing */
    cpu_set_t start;
    CPU_ZERO(&start);
    CPU_SET(cpus[rows[i].cpu[1]], &start);
    tu_assert(sched_setaffinity(0, sizeof start, &start) == 0 && sched_setaffinity(0, sizeof both, &both) == 0);
    const uint32_t before = (uint32_t)sched_getcpu();
    const uint64_t here = tu_places_look(t[1], NOW, rows[i].may_move, rows[i].crowded);
    const uint32_t cpu = published(t[1]);
    if (before != cpus[rows[i].cpu[1]]) {
      printf("  %s: moved by the kernel\n", rows[i].what);
    } else CHECK(cpu == cpus[rows[i].goes], "%s: it waits on CPU %u", rows[i].what, cpu);
    CHECK(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&after, &both), "its affinity has changed");
    for (uint32_t after_it = 1; after_it < RANKS; after_it++) {
      const uint32_t r = (1 + after_it) % RANKS;
      const bool shares = r != rows[i].late && cpus[rows[i].cpu[r]] == cpu;
      CHECK((here >> after_it & 1) == shares, "%s: rank %u is%s here", rows[i].what, r, shares ? "" : " not");
    }
    close_loop(t);
  }
  tu_assert(sched_setaffinity(0, sizeof all, &all) == 0);
}

/* Rank 0 deals the places, and rank 1 goes to its own. */
static void the_first_rank_deals(void) {
  static const struct {
    const char *what;
    uint64_t at_ms, worked_ms[RANKS]; /* worked_ms: in total so far */
    uint32_t place[RANKS];            /* after rank 0 has looked at that time; plus 1 */
  } rows[] = {
      {"it is not known in which time", 0, {50, 900, 50, 900}, {0, 0, 0, 0}},
      {"soon after", 4, {51, 914, 51, 914}, {0, 0, 0, 0}},
      {"odd ranks have more", 25, {55, 920, 55, 920}, {1, 1, 2, 2}},
      {"soon after that", 29, {59, 920, 59, 920}, {1, 1, 2, 2}},
      {"what they did before counts, too", 50, {60, 925, 60, 925}, {1, 1, 2, 2}},
      {"equal work, not yet for long", 80, {90, 955, 90, 955}, {1, 1, 2, 2}},
      {"equal work", 650, {660, 1525, 660, 1525}, {1, 2, 1, 2}},
      {"even ranks have more", 875, {860, 1530, 890, 1527}, {2, 2, 1, 1}},
  };
  struct tu_transport *t[RANKS];
  cpu_set_t all, both;
  uint32_t cpus[2];
  tu_assert(sched_getaffinity(0, sizeof all, &all) == 0);
  const bool two = begin_on_first(&all, cpus, &both);
  open_loop(t);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0] && two; i++) {
    const uint64_t now = NOW + rows[i].at_ms * 1000000;
    for (uint32_t r = 0; r < RANKS; r++) {
      put(t[r], cpus[r % 2], now);
      atomic_store(&tu_transport_head(t[r], r)->allowed, tu_hash(&both, sizeof both, TU_ALLOWED_SEED));
      atomic_store(&tu_transport_head(t[r], r)->worked_ns, rows[i].worked_ms[r] * 1000000);
    }
    for (uint32_t r = 0; r < 2; r++) tu_places_look(t[r], now, true, true);
    for (uint32_t r = 0; r < RANKS; r++) {
      const uint32_t place = atomic_load(&tu_transport_head(t[0], r)->place);
      CHECK(place == rows[i].place[r], "%s: rank %u has place %u", rows[i].what, r, place);
      if (r < 2 && place > 0)
        CHECK(published(t[r]) == cpus[place - 1], "%s: rank %u waits on CPU %u", rows[i].what, r, published(t[r]));
    }
  }
  if (!two) SKIP("one CPU only");
  tu_assert(sched_setaffinity(0, sizeof all, &all) == 0);
  close_loop(t);
}

static void a_bound_rank_stays(void) {
  struct tu_transport *t[RANKS];
  cpu_set_t all, one, after;
  tu_assert(sched_getaffinity(0, sizeof all, &all) == 0);
  open_loop(t);
  uint32_t last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &all)) last--;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  tu_assert(sched_setaffinity(0, sizeof one, &one) == 0);
  for (uint32_t r = 1; r < RANKS; r++) put(t[r], last, NOW);
  put_busy(t[0], last, NOW + 1);
  for (int may_move = 0; may_move < 2; may_move++) {
    tu_places_look(t[0], NOW, may_move, true);
    CHECK(published(t[0]) == last, "bound to CPU %u, it waits on CPU %u", last, published(t[0]));
    CHECK(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&after, &one), "its affinity has changed");
  }
  tu_assert(sched_setaffinity(0, sizeof all, &all) == 0);
  close_loop(t);
}

static void who_may_not_move_stays(void) {
  struct tu_transport *t[RANKS];
  open_loop(t);
  uint32_t before = 0, after = 1;
  /* the kernel may move the thread at any time, but not each time */
  for (int i = 0; i < 100 && before != after; i++) {
    before = (uint32_t)sched_getcpu();
    for (uint32_t r = 1; r < RANKS; r++) put(t[r], before, NOW);
    tu_places_look(t[0], NOW, false, true);
    after = (uint32_t)sched_getcpu();
  }
  CHECK(before == after && published(t[0]) == after, "it moved from CPU %u to CPU %u", before, after);
  close_loop(t);
}

int main(int argc, char **argv) {
  const struct test tests[] = {{"which_cpu_is_best", which_cpu_is_best},
                               {"which_cpu_is_whose", which_cpu_is_whose},
                               {"ranks_that_share_cpus_take_their_places", ranks_that_share_cpus_take_their_places},
                               {"which_rank_gets_which_place", which_rank_gets_which_place},
                               {"the_first_rank_deals", the_first_rank_deals},
                               {"what_costs", what_costs},
                               {"what_lasts_costs", what_lasts_costs},
                               {"moves_and_keeps_its_affinity", moves_and_keeps_its_affinity},
                               {"a_bound_rank_stays", a_bound_rank_stays},
                               {"who_may_not_move_stays", who_may_not_move_stays}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
