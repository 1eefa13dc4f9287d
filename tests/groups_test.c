/* groups_test.c: ranks bound to caches or NUMA nodes of a simulated machine (hwloc) form locality groups. All of them
 * choose the same two-level plan, with correct results. Ranks that form no groups choose the same algorithms as without
 * this machine. */
#include "algo/algo.h"
#include "call/request.h"
#include "locality/locality.h"

#include <sched.h>

#include "ranks.h"
#include "test.h"

enum { RANKS = 4, COUNT = 1 << 18 };
#define FREE (-1)
#define TWO_LEVELS "rs:direct/2+ar:"
#define FLAT "rs:direct+ag:di" /* built-in choice for ranks without groups, with the name cut as on a board */

struct scene {
  const char *name;
  const char *synthetic; /* description of the machine for hwloc, with %zu for the numbers of the two CPUs */
  int cpu_of[RANKS];     /* per rank: which of the two CPUs it is bound to */
  const char *asked;     /* algorithm that the first call asks for; NULL: none */
  const char *answered;  /* algorithm of that call, with the name cut as on a board */
  const char *refusal;   /* parts of the error message if the first call must be refused; NULL: it succeeds */
  const char *unasked;   /* algorithm of an allreduce of 1 MiB that asks for none */
  size_t cpus[2];
};

/* Runs an allreduce of 1 MiB and writes its algorithm into `name`, or "wrong at ..." if the result is wrong. */
static tutti_err allreduce(tutti_comm *comm, const char *asked, char name[RANKS_TEXT]) {
  static float buffer[COUNT];
  tutti_request *request;
  uint32_t ranks = tutti_ranks(comm);
  const tutti_call call = {.collective = TUTTI_ALLREDUCE,
                           .send = TUTTI_IN_PLACE,
                           .recv = buffer,
                           .count = COUNT,
                           .type = TUTTI_F32,
                           .algorithm = asked};
  for (uint32_t i = 0; i < COUNT; i++) buffer[i] = (float)(i % 1000 * (tutti_rank(comm) + 1));
  tutti_err err = tutti_prepare(comm, &call, &request);
  if (err != TUTTI_OK) return err;
  const struct tu_call_facts *f = &request->facts;
  snprintf(name, RANKS_TEXT, "%s", f->plan ? f->plan_name : tu_algorithms[f->algorithm]->name);
  err = tutti_restart(request);
  if (err == TUTTI_OK) err = tutti_wait(&request);
  tutti_request_free(request);
  for (uint32_t i = 0; i < COUNT && err == TUTTI_OK; i++)
    if (buffer[i] != (float)(i % 1000 * (ranks * (ranks + 1) / 2))) {
      snprintf(name, RANKS_TEXT, "wrong at %u", i);
      return TUTTI_OK;
    }
  return err;
}

/* Returns true if reduce and broadcast of 1 MiB from root 3 give correct results. */
static bool rooted_are_right(tutti_comm *comm) {
  static float in[COUNT], out[COUNT];
  uint32_t rank = tutti_rank(comm), root = 3;
  for (uint32_t i = 0; i < COUNT; i++) in[i] = (float)(i % 1000 + rank);
  if (tutti_reduce(comm, in, out, COUNT, TUTTI_F32, TUTTI_SUM, root) != TUTTI_OK) return false;
  for (uint32_t i = 0; i < COUNT && rank == root; i++)
    if (out[i] != (float)(i % 1000 * RANKS + 6)) return false;
  if (tutti_broadcast(comm, in, COUNT, TUTTI_F32, root) != TUTTI_OK) return false;
  for (uint32_t i = 0; i < COUNT; i++)
    if (in[i] != (float)(i % 1000 + root)) return false;
  return true;
}

static void settle(const struct scene *s, uint32_t rank) {
  char synthetic[128];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  snprintf(synthetic, sizeof synthetic, s->synthetic, s->cpus[0], s->cpus[1]);
#pragma GCC diagnostic pop
  setenv("HWLOC_SYNTHETIC", synthetic, 1);
  setenv("HWLOC_THISSYSTEM", "1", 1); /* so that hwloc asks the system where this rank is bound */
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (int i = 0; i < 2; i++)
    if (s->cpu_of[rank] == FREE || s->cpu_of[rank] == i) CPU_SET(s->cpus[i], &cpus);
  if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) abort();
}

static int body(struct ranks_world *w, uint32_t rank) {
  const struct scene *s = w->context;
  tutti_comm *world, *three = NULL, *back = NULL;
  char name[RANKS_TEXT] = "";
  settle(s, rank);
  tutti_err err = tutti_init(&(tutti_options){.timeout_ms = 20000, .join_timeout_ms = 20000}, &world);
  if (err == TUTTI_OK) err = allreduce(world, s->asked, name);
  ranks_note(w, rank, err, err == TUTTI_OK ? name : tutti_error_message(NULL));
  if (err != TUTTI_OK) {
    tutti_comm_free(world);
    return 0;
  }
  if (!rooted_are_right(world)) return 1;
  if (tutti_comm_split(world, 0, -(int)rank, &back) != TUTTI_OK) return 2; /* reversed rank order: the same groups */
  ranks_note(w, rank, allreduce(back, NULL, name), name);
  tutti_comm_free(back);
  if (tutti_comm_split(world, rank < 3 ? 0 : TUTTI_NO_COLOR, 0, &three) != TUTTI_OK) return 3;
  if (three) ranks_note(w, rank, allreduce(three, NULL, name), name);
  tutti_comm_free(three);
  return tutti_comm_free(world) == TUTTI_OK ? 0 : 4;
}

/* Finds two CPUs to bind ranks to; returns false if there is only one. */
static bool find_cpus(size_t cpus[2]) {
  cpu_set_t all;
  int found = 0;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return false;
  for (size_t cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
    if (CPU_ISSET(cpu, &all)) cpus[found++] = cpu;
  if (found < 2) printf("  only one CPU: cannot bind ranks to two\n");
  return found == 2;
}

static void play(const struct scene *scene) {
  struct scene s = *scene;
  if (!find_cpus(s.cpus)) return;
  struct ranks_world w = {.context = &s};
  ranks_start(&w, RANKS, body);
  CHECK(ranks_end(&w, 60000), "%s: hangs", s.name);
  for (uint32_t r = 0; r < RANKS; r++) {
    const struct ranks_note *notes = w.shared->rank[r].notes;
    CHECK(w.status[r] == 0, "%s: rank %u ended with status %d", s.name, r, w.status[r]);
    if (s.refusal) {
      CHECK(notes[0].err == TUTTI_ERR_ARGUMENT && test_contains(notes[0].text, s.refusal), "%s: rank %u: '%s'", s.name,
            r, notes[0].text);
      continue;
    }
    CHECK(w.shared->rank[r].noted == (r < 3 ? 3 : 2), "%s: rank %u: %u notes", s.name, r, w.shared->rank[r].noted);
    for (uint32_t i = 0; i < w.shared->rank[r].noted; i++) {
      const char *expected = i == 0 && s.asked ? s.answered
                             : i == 2          ? FLAT
                                               : s.unasked; /* three ranks form no groups */
      CHECK(notes[i].err == TUTTI_OK && strcmp(notes[i].text, expected) == 0,
            "%s: rank %u, communicator %u: '%s', expected '%s'", s.name, r, i, notes[i].text, expected);
    }
  }
  ranks_fini(&w);
}

#define NODES "numa:2 pu:1(indexes=%zu,%zu)"
#define CACHES "numa:1 l3:2 pu:1(indexes=%zu,%zu)"

static void test_bound(void) {
  static const struct scene scenes[] = {
      {"by node", NODES, {0, 0, 1, 1}, .unasked = TWO_LEVELS},
      {"by cache", CACHES, {1, 1, 0, 0}, .unasked = TWO_LEVELS},
  };
  for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) play(&scenes[i]);
}

static void test_not_grouped(void) {
  static const struct scene scenes[] = {
      {"in turn", NODES, {0, 1, 0, 1}, .unasked = FLAT},
      {"one is free", NODES, {0, 0, 1, FREE}, .unasked = FLAT},
      {"all are free", NODES, {FREE, FREE, FREE, FREE}, .unasked = FLAT},
      {"one cache", "numa:1 l3:1 pu:2(indexes=%zu,%zu)", {0, 0, 1, 1}, .unasked = FLAT},
  };
  for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) play(&scenes[i]);
}

static void test_asked(void) {
  static const char *const open = "re:direct/g+ar:direct+bc:direct/g";
  const struct scene scenes[] = {
      {"open groups", NODES, {0, 0, 1, 1}, .asked = open, .answered = "re:direct/2+ar:", .unasked = TWO_LEVELS},
      {"open groups, but there are none",
       NODES,
       {0, 1, 0, 1},
       .asked = open,
       .refusal = "allreduce on 4 ranks|/g|caches"},
  };
  for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) play(&scenes[i]);
}

/* ---- ranks that share a CPU ---- */

struct crowd {
  const char *name;
  uint32_t ranks;
  int cpu_of[RANKS]; /* per rank: which of the two CPUs it is bound to */
  bool crowded;
  size_t cpus[2];
};

static int crowd_body(struct ranks_world *w, uint32_t rank) {
  const struct crowd *c = w->context;
  tutti_comm *world, *pair;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (int i = 0; i < 2; i++)
    if (c->cpu_of[rank] == FREE || c->cpu_of[rank] == i) CPU_SET(c->cpus[i], &cpus);
  if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) return 1;
  if (tutti_init(&(tutti_options){.timeout_ms = 20000, .join_timeout_ms = 20000}, &world) != TUTTI_OK) return 2;
  if (tutti_comm_split(world, (int)rank / 2, 0, &pair) != TUTTI_OK) return 3;
  if (tutti_barrier(pair) != TUTTI_OK || tutti_barrier(world) != TUTTI_OK) return 4;
  if ((world->share > 1) != c->crowded || pair->share != world->share) return 5;
  if (world->mover->shape.credits != pair->mover->shape.credits) return 6;
  return tutti_comm_free(pair) == TUTTI_OK && tutti_comm_free(world) == TUTTI_OK ? 0 : 7;
}

static void test_crowded(void) {
  static const struct crowd crowds[] = {
      {"a CPU each", 2, {0, 1}, .crowded = false},          {"free", 2, {FREE, FREE}, .crowded = false},
      {"one is free", 2, {1, FREE}, .crowded = false},      {"on one CPU", 2, {0, 0}, .crowded = true},
      {"bound in pairs", 4, {0, 0, 1, 1}, .crowded = true},
  };
  for (size_t i = 0; i < sizeof crowds / sizeof crowds[0]; i++) {
    struct crowd c = crowds[i];
    if (!find_cpus(c.cpus)) return;
    struct ranks_world w = {.context = &c};
    ranks_start(&w, c.ranks, crowd_body);
    CHECK(ranks_end(&w, 60000), "%s: hangs", c.name);
    for (uint32_t r = 0; r < c.ranks; r++)
      CHECK(w.status[r] == 0, "%s: rank %u ended with status %d", c.name, r, w.status[r]);
    ranks_fini(&w);
  }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"bound", test_bound}, {"not_grouped", test_not_grouped}, {"asked", test_asked}, {"crowded", test_crowded}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
