/* bench_pool.c: threads of a rank that compute while it measures, as those of OpenMP or of a data loader do.
 *
 * Each thread uses a CPU for BURST_NS and then sleeps for PAUSE_NS. So a pool with a thread for each CPU wants half of
 * the machine, in pieces much shorter than a time slice (some ms), and much longer than a wake-up (some us). A burst is
 * a time on the CPU, not on the clock: each burst is the same work, and the next begins later if the thread had to wait
 * for a CPU. The work is in registers, so the pool takes CPU time, but neither caches nor memory bandwidth. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "bench/core/core.h"

enum { BURST_NS = 50000, PAUSE_NS = 50000, STEPS = 2048 /* some us */ };

struct bench_pool {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  atomic_bool works; /* changes under the mutex, as `ends` does */
  bool ends;
  _Atomic uint64_t bursts;
  uint32_t count;
  pthread_t threads[];
};

static uint64_t cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void burst(void) {
  volatile double result = 1;
  for (uint64_t begin = cpu_ns(); cpu_ns() - begin < BURST_NS;) {
    double x = result;
    for (int i = 0; i < STEPS; i++) x = x * 0.999 + 0.001;
    result = x;
  }
}

/* Sleeps until the pool works. Returns false if it ends. */
static bool wait_for_work(struct bench_pool *pool) {
  pthread_mutex_lock(&pool->mutex);
  while (!pool->works && !pool->ends) pthread_cond_wait(&pool->changed, &pool->mutex);
  const bool more = !pool->ends;
  pthread_mutex_unlock(&pool->mutex);
  return more;
}

static void *compute(void *argument) {
  struct bench_pool *pool = argument;
  (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* without, a pause takes twice as long */
  while (wait_for_work(pool))
    while (atomic_load_explicit(&pool->works, memory_order_relaxed)) {
      burst();
      atomic_fetch_add_explicit(&pool->bursts, 1, memory_order_relaxed);
      nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
  return NULL;
}

/* Sets the state of the pool, and wakes its threads. */
static void set(struct bench_pool *pool, bool works, bool ends) {
  pthread_mutex_lock(&pool->mutex);
  pool->works = works;
  pool->ends = ends;
  pthread_cond_broadcast(&pool->changed);
  pthread_mutex_unlock(&pool->mutex);
}

struct bench_pool *bench_pool_create(uint32_t threads) {
  struct bench_pool *pool = tu_allocate(1, sizeof *pool + threads * sizeof *pool->threads);
  pthread_mutex_init(&pool->mutex, NULL);
  pthread_cond_init(&pool->changed, NULL);
  sigset_t all, before; /* signals are for the thread that measures */
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = 0;
  while (pool->count < threads && !failed) {
    failed = pthread_create(&pool->threads[pool->count], NULL, compute, pool);
    if (!failed) pool->count++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!failed) return pool;
  bench_pool_destroy(pool);
  errno = failed;
  return NULL;
}

void bench_pool_destroy(struct bench_pool *pool) {
  if (!pool) return;
  set(pool, false, true);
  for (uint32_t i = 0; i < pool->count; i++) pthread_join(pool->threads[i], NULL);
  pthread_cond_destroy(&pool->changed);
  pthread_mutex_destroy(&pool->mutex);
  free(pool);
}

void bench_pool_work(struct bench_pool *pool, bool works) {
  if (pool) set(pool, works, false);
}

uint64_t bench_pool_bursts(struct bench_pool *pool) {
  return pool ? atomic_load_explicit(&pool->bursts, memory_order_relaxed) : 0;
}
