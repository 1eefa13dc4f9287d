/* bench_team.c: threads among which a rank shares out its long copies and reductions (tutti_options.parallel), as a program
 * does with those of OpenMP.
 *
 * The thread that calls run() takes parts, too. A ticket holds the number of the run, how many parts it has, and the next part
 * that no thread has taken: the thread that raises it by one has taken it. So a late thread never takes a part of another run,
 * and while a thread carries one out, that run does not end. A thread that finds no part polls for SPIN_NS, then sleeps. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/base.h"
#include "cli/bench/bench.h"

enum { SPIN_NS = 200000, POLLS = 64 /* between two looks at the clock */ };

struct bench_team {
  _Atomic uint64_t ticket;
  _Atomic size_t finished; /* parts of the current run */
  void (*part)(void *argument, size_t i);
  void *argument;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  _Atomic uint32_t sleeping;
  atomic_bool ends;
  uint32_t count;
  pthread_t threads[];
};

static size_t next_of(uint64_t ticket) { return ticket & 0xffff; }
static size_t parts_of(uint64_t ticket) { return ticket >> 16 & 0xffff; }
static bool has_parts(uint64_t ticket) { return next_of(ticket) < parts_of(ticket); }

/* Carries out one part of the current run; returns false if there is none left. */
static bool take_part(struct bench_team *t) {
  uint64_t ticket = atomic_load(&t->ticket);
  do {
    if (!has_parts(ticket)) return false;
  } while (!atomic_compare_exchange_weak(&t->ticket, &ticket, ticket + 1));
  t->part(t->argument, next_of(ticket));
  atomic_fetch_add(&t->finished, 1);
  return true;
}

static bool goes_on(struct bench_team *t) { return has_parts(atomic_load(&t->ticket)) || atomic_load(&t->ends); }

static void sleep_until_called(struct bench_team *t) {
  pthread_mutex_lock(&t->mutex);
  atomic_fetch_add(&t->sleeping, 1);
  while (!goes_on(t)) pthread_cond_wait(&t->changed, &t->mutex);
  atomic_fetch_sub(&t->sleeping, 1);
  pthread_mutex_unlock(&t->mutex);
}

static void wake(struct bench_team *t) {
  pthread_mutex_lock(&t->mutex);
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->mutex);
}

static void *help(void *argument) {
  struct bench_team *t = argument;
  uint64_t since = tu_clock_ns();
  while (!atomic_load(&t->ends)) {
    if (take_part(t)) {
      since = tu_clock_ns();
      continue;
    }
    for (int i = 0; i < POLLS && !goes_on(t); i++) tu_pause();
    if (goes_on(t) || tu_clock_ns() - since < SPIN_NS) continue;
    sleep_until_called(t);
    since = tu_clock_ns();
  }
  return NULL;
}

static void run(void *context, size_t parts, void (*part)(void *argument, size_t i), void *argument) {
  struct bench_team *t = context;
  t->part = part;
  t->argument = argument;
  atomic_store(&t->finished, 0);
  atomic_store(&t->ticket, ((atomic_load(&t->ticket) >> 32) + 1) << 32 | parts << 16);
  if (atomic_load(&t->sleeping) > 0) wake(t);
  while (take_part(t)) {}
  for (uint32_t polls = 1; atomic_load(&t->finished) < parts; polls++) {
    if (polls % POLLS == 0) sched_yield();
    tu_pause();
  }
}

struct bench_team *bench_team_create(uint32_t threads, tutti_parallel *parallel) {
  struct bench_team *t = tu_allocate(1, sizeof *t + threads * sizeof t->threads[0]);
  pthread_mutex_init(&t->mutex, NULL);
  pthread_cond_init(&t->changed, NULL);
  int failed = 0;
  while (t->count + 1 < threads && !failed) {
    failed = pthread_create(&t->threads[t->count], NULL, help, t);
    if (!failed) t->count++;
  }
  *parallel = (tutti_parallel){.run = run, .context = t, .threads = threads};
  if (!failed) return t;
  bench_team_destroy(t);
  errno = failed;
  return NULL;
}

void bench_team_destroy(struct bench_team *t) {
  if (!t) return;
  atomic_store(&t->ends, true);
  wake(t);
  for (uint32_t i = 0; i < t->count; i++) pthread_join(t->threads[i], NULL);
  pthread_cond_destroy(&t->changed);
  pthread_mutex_destroy(&t->mutex);
  free(t);
}
