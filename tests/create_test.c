/* create_test.c: tutti_comm_create, which only the members of a group call, and tutti_comm_close, which is local.
 * Creates many groups at a time, on several threads, and closes them in any order. Late ranks, dead ranks, cycles of
 * waits and invalid calls must end with an error. */
#include <stdatomic.h>
#include <string.h>

#include "api/comm_end.h"
#include "comm/comm.h"
#include "hosts.h"
#include "test.h"

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { GROUPS = 100 }; /* sanitizers are slow */
#else
enum { GROUPS = 1000 };
#endif
enum { RANKS = 6, THREADS = 3, TAGS = 4 };

/* ---- many groups ---- */

/* Group i, the same on all ranks: 1 to RANKS ranks in random order. A list may occur again, with the same tag only on
 * the same thread. */
struct group {
  uint32_t ranks[RANKS], count;
  uint64_t tag;
};

static struct group draw(uint64_t seed, uint32_t i) {
  uint64_t state = tu_hash(&i, sizeof i, seed);
  uint32_t all[RANKS];
  struct group g = {.count = 1 + (uint32_t)(ranks_random(&state) % RANKS)};
  g.tag = ranks_random(&state) % TAGS * THREADS + i % THREADS;
  for (uint32_t r = 0; r < RANKS; r++) all[r] = r;
  for (uint32_t k = 0; k < g.count; k++) {
    uint32_t other = k + (uint32_t)(ranks_random(&state) % (RANKS - k)), rank = all[other];
    all[other] = all[k];
    g.ranks[k] = all[k] = rank;
  }
  return g;
}

/* A thread of a rank. Each group is created by the thread of the same number on all its ranks; else two threads might
 * create two groups in different orders. */
struct worker {
  struct player *p;
  uint32_t number, threads;
  tutti_comm *made[GROUPS];
  uint32_t count;
};

static void check_group(struct worker *w, tutti_comm *comm, const struct group *g, uint32_t rank, uint32_t i) {
  uint64_t mine = (uint64_t)w->p->rank << (8 * rank), all = 0, wanted = 0;
  for (uint32_t k = 0; k < g->count; k++) wanted += (uint64_t)g->ranks[k] << (8 * k);
  if (tutti_rank(comm) != rank || tutti_ranks(comm) != g->count)
    wrong(w->p, "group %u: rank %u of %u, expected %u of %u", i, tutti_rank(comm), tutti_ranks(comm), rank, g->count);
  tutti_err err = tutti_allreduce(comm, &mine, &all, 1, TUTTI_U64, TUTTI_SUM);
  if (err != TUTTI_OK) wrong(w->p, "group %u: %s: %s", i, tutti_err_name(err), tutti_error_message(comm));
  else if (all != wanted)
    wrong(w->p, "group %u: sum %llx, expected %llx", i, (unsigned long long)all, (unsigned long long)wanted);
}

static void *work(void *argument) {
  struct worker *w = argument;
  for (uint32_t i = w->number; i < GROUPS && w->p->stage->failures == 0; i += w->threads) {
    const struct group g = draw(w->p->seed, i);
    uint32_t rank = 0;
    while (rank < g.count && g.ranks[rank] != w->p->rank) rank++;
    if (rank == g.count) continue;
    tutti_comm *comm;
    tutti_err err = tutti_comm_create(w->p->comm, g.ranks, g.count, g.tag, &comm);
    if (err != TUTTI_OK) {
      wrong(w->p, "group %u: %s: %s", i, tutti_err_name(err), tutti_error_message(NULL));
      break;
    }
    check_group(w, comm, &g, rank, i);
    w->made[w->count++] = comm;
    w->p->stage->counted++;
  }
  uint64_t state = w->p->seed + w->p->rank * 100 + w->number;
  while (w->count > 0) { /* in random order, different on each rank */
    uint32_t k = (uint32_t)(ranks_random(&state) % w->count);
    if (tutti_comm_close(w->made[k]) != TUTTI_OK) wrong(w->p, "close: %s", tutti_error_message(NULL));
    w->made[k] = w->made[--w->count];
  }
  return NULL;
}

/* Checks that all memory comes back after all ranks have closed their groups. Memory kept for other ranks is freed by
 * tu_comm_sweep. */
static void look_for_memory(struct player *p, size_t before) {
  if (!good(p, tutti_barrier(p->comm), "barrier")) return;
  size_t now = 0;
  for (int i = 0; i < 2000 && now != before; i++) {
    ranks_sleep_us(1000);
    tu_comm_sweep(p->transport);
    now = tu_transport_free_bytes(p->transport);
  }
  if (now != before) wrong(p, "rank %u: %zu bytes were free before, and %zu are free now", p->rank, before, now);
}

static void many_groups(struct player *p) {
  static const uint32_t counts[] = {1, THREADS};
  struct worker *workers = calloc(THREADS, sizeof *workers);
  pthread_t threads[THREADS];
  for (int warm = 0; warm < 3; warm++) (void)good(p, tutti_barrier(p->comm), "barrier");
  size_t before = tu_transport_free_bytes(p->transport);
  for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
    for (uint32_t i = 0; i < counts[k]; i++) {
      workers[i] = (struct worker){.p = p, .number = i, .threads = counts[k]};
      if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0) abort();
    }
    for (uint32_t i = 0; i < counts[k]; i++) pthread_join(threads[i], NULL);
    if (p->stage->failures == 0) look_for_memory(p, before);
  }
  free(workers);
}

/* ---- errors ---- */

static bool says(struct player *p, tutti_err err, tutti_err wanted, const char *part) {
  if (err == wanted && test_contains(tutti_error_message(NULL), part)) return true;
  wrong(p, "rank %u: %s: '%s', expected %s with the facts '%s'", p->rank, tutti_err_name(err),
        tutti_error_message(NULL), tutti_err_name(wanted), part);
  return false;
}

static void mistakes(struct player *p) {
  tutti_comm *comm = p->comm;
  const uint32_t outside[] = {p->rank, p->ranks}, twice[] = {p->rank, p->rank}, other[] = {(p->rank + 1) % p->ranks},
                 mine[] = {p->rank};
  const struct {
    const uint32_t *ranks;
    size_t count;
    const char *part;
  } rows[] = {{outside, 2, "ranks[1] is "},
              {twice, 2, "ranks[1]|once"},
              {other, 1, "only members"},
              {NULL, 1, "1 ranks at"},
              {mine, 0, "0 ranks at"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    says(p, tutti_comm_create(p->comm, rows[i].ranks, rows[i].count, 0, &comm), TUTTI_ERR_ARGUMENT, rows[i].part);
    if (comm) wrong(p, "row %zu: a communicator was returned with an error", i);
    comm = p->comm;
  }
  says(p, tutti_comm_create(NULL, mine, 1, 0, &comm), TUTTI_ERR_ARGUMENT, "tutti_comm_create|NULL");
  says(p, tutti_comm_create(p->comm, mine, 1, 0, NULL), TUTTI_ERR_ARGUMENT, "tutti_comm_create|NULL");
  if (tutti_comm_close(NULL) != TUTTI_OK) wrong(p, "tutti_comm_close(NULL) failed");
  (void)good(p, tutti_barrier(p->comm), "barrier on the parent");
}

/* Ranks 0 and 1 create two groups of both in different orders. Each waits for the other in its first one, so both get a
 * time-out. */
static void circle(struct player *p) {
  const uint32_t both[] = {0, 1};
  tutti_comm *comm;
  (void)!tutti_comm_set_timeout(p->comm, 600);
  troupe_meet(p);
  if (p->rank < 2)
    says(p, tutti_comm_create(p->comm, both, 2, p->rank, &comm), TUTTI_ERR_TIMEOUT,
         p->rank == 0 ? "600 ms|rank 1" : "600 ms|rank 0");
  (void)!tutti_comm_set_timeout(p->comm, TROUPE_CALL_MS);
  (void)good(p, tutti_barrier(p->comm), "barrier on the parent");
}

/* One rank of the list comes too late. It gets an error then, and the next group with the same list and tag is a new
 * one. */
static void late(struct player *p) {
  uint32_t all[TROUPE_MAX];
  tutti_comm *comm;
  for (uint32_t r = 0; r < p->ranks; r++) all[r] = r;
  for (uint32_t absent = 0; absent < p->ranks; absent += p->ranks - 1) {
    char part[64];
    snprintf(part, sizeof part, "rank %u (has not", absent);
    (void)!tutti_comm_set_timeout(p->comm, 600);
    troupe_meet(p);
    if (p->rank == absent) troupe_meet(p); /* comes when the others have given up */
    tutti_err err = tutti_comm_create(p->comm, all, p->ranks, 7, &comm);
    if (p->rank != absent) troupe_meet(p);
    if (p->rank != absent && err != TUTTI_ERR_TIMEOUT && err != TUTTI_ERR_PEER)
      wrong(p, "rank %u: %s: %s", p->rank, tutti_err_name(err), tutti_error_message(NULL));
    bool other_said = strstr(tutti_error_message(NULL), "could not create its part") != NULL;
    if (err == TUTTI_ERR_TIMEOUT && !other_said && !strstr(tutti_error_message(NULL), part))
      wrong(p, "rank %u: '%s' does not contain '%s'", p->rank, tutti_error_message(NULL), part);
    if (err == TUTTI_OK) wrong(p, "rank %u: the communicator was created without rank %u", p->rank, absent);
    (void)!tutti_comm_set_timeout(p->comm, TROUPE_CALL_MS);
    if (!good(p, tutti_barrier(p->comm), "barrier")) return;
    if (!good(p, tutti_comm_create(p->comm, all, p->ranks, 7, &comm), "create the next group")) return;
    (void)good(p, tutti_barrier(comm), "barrier on the next group");
    (void)good(p, tutti_comm_free(comm), "free");
  }
}

/* Messages that a rank sends before it closes its end arrive at ranks that receive them later. */
static void messages_stay(struct player *p) {
  enum { COUNT = 5000 };
  static _Thread_local int32_t data[COUNT];
  tutti_comm *comm;
  const uint32_t pair[] = {0, 1};
  if (p->rank > 1) return;
  if (!good(p, tutti_comm_create(p->comm, pair, 2, 1, &comm), "create")) return;
  if (p->rank == 0) {
    for (int i = 0; i < COUNT; i++) data[i] = i;
    (void)good(p, tutti_send(comm, data, 100, TUTTI_I32, 1, 0), "send");
    (void)good(p, tutti_send(comm, data, 1, TUTTI_I32, 1, 0), "send");
  } else {
    ranks_sleep_us(200000);
    for (int i = 0; i < 2; i++) {
      memset(data, 0xff, sizeof data);
      if (!good(p, tutti_recv(comm, data, i ? 1 : 100, TUTTI_I32, 0, 0), "recv")) return;
      if (data[i ? 0 : 99] != (i ? 0 : 99)) wrong(p, "message %d holds %d", i, data[i ? 0 : 99]);
    }
  }
  if (tutti_comm_close(comm) != TUTTI_OK) wrong(p, "close: %s", tutti_error_message(NULL));
}

/* Closes a communicator with an open request, or after a failure. */
static void bad_ends(struct player *p) {
  tutti_comm *comm;
  int32_t word;
  if (!good(p, tutti_comm_dup(p->comm, &comm), "dup")) return;
  if (p->rank == 0) {
    const tutti_call call = {
        .collective = TUTTI_RECV, .recv = &word, .count = 1, .type = TUTTI_I32, .peer = (p->rank + 1) % p->ranks};
    if (!good(p, tutti_start(comm, &call, NULL), "start")) return;
    says(p, tutti_comm_close(comm), TUTTI_ERR_ARGUMENT, "1 requests|open");
  } else {
    tutti_err err;
    do err = tutti_barrier(comm);
    while (err == TUTTI_OK);
    if (!test_contains(tutti_error_message(comm), "requests|open")) wrong(p, "'%s'", tutti_error_message(comm));
    (void)!tutti_comm_close(comm);
  }
  (void)good(p, tutti_barrier(p->comm), "barrier on the parent");
}

/* ---- all tests, over every kind of world ---- */

static void play(void (*run)(struct player *p), uint32_t ranks) {
  static void (*const over[])(struct troupe * t) = {
#ifndef __SANITIZE_THREAD__
      troupe_over_shm,
#endif
      troupe_over_loop, troupe_over_two_hosts, troupe_over_three_hosts};
  uint64_t seed = test_seed();
  for (size_t i = 0; i < sizeof over / sizeof over[0]; i++)
    troupe_perform((struct troupe){.run = run, .ranks = ranks, .seed = seed}, over[i]);
}

static void test_many_groups(void) { play(many_groups, RANKS); }
static void test_mistakes(void) { play(mistakes, 3); }
static void test_circle(void) { play(circle, 3); }
static void test_late(void) { play(late, 3); }
static void test_messages(void) { play(messages_stay, 3); }
static void test_bad_ends(void) { play(bad_ends, 3); }

int main(int argc, char **argv) {
  const struct test tests[] = {{"many_groups", test_many_groups}, {"mistakes", test_mistakes},
                               {"circle", test_circle},           {"late", test_late},
                               {"messages_stay", test_messages},  {"bad_ends", test_bad_ends}};
  ranks_clear_environment();
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
