/* bench_paced.c: a loader of tiles whose loads take a given time on a separate thread. It shows what two tiles gain if
 * loads run asynchronously, as with the DMA engine of a device or of a network adapter. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "cli/bench/bench.h"
#include "onesided/staged.h"

struct paced {
  /* must be the first member, because paced_of() casts a pointer to it to the struct that contains it */
  struct tu_loader loader;
  uint64_t load_ns, store_ns;
  uint64_t store_began;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t news;
  struct tu_load loads[2];
  uint64_t due[2];        /* [tile]: time at which the tile's load ends, in ns */
  uint64_t last_due;      /* time at which the last load ends, in ns; one load starts after the other */
  size_t begun, finished; /* numbers of loads that have begun and that have finished, counted over all gathers */
  size_t base;            /* value of `begun` when the current gather began */
  bool ends;
};

static struct paced *paced_of(struct tu_loader *loader) { return (struct paced *)(void *)loader; }

static void sleep_until(uint64_t ns) {
  const struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) continue;
}

static void *load_all(void *argument) {
  struct paced *p = argument;
  pthread_mutex_lock(&p->lock);
  for (;;) {
    while (p->finished == p->begun && !p->ends) pthread_cond_wait(&p->news, &p->lock);
    if (p->finished == p->begun) break;
    const struct tu_load load = p->loads[p->finished % 2];
    uint64_t due = p->due[p->finished % 2];
    pthread_mutex_unlock(&p->lock);
    tu_region_load(&load.region, load.data, load.tile, load.pitch);
    sleep_until(due);
    pthread_mutex_lock(&p->lock);
    p->finished++;
    pthread_cond_broadcast(&p->news);
  }
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

static void begin(struct tu_loader *loader, size_t index, const struct tu_load *load) {
  struct paced *p = paced_of(loader);
  pthread_mutex_lock(&p->lock);
  if (index == 0) p->base = p->begun;
  uint64_t now = tu_clock_ns();
  p->last_due = (p->last_due > now ? p->last_due : now) + p->load_ns;
  p->loads[p->begun % 2] = *load;
  p->due[p->begun++ % 2] = p->last_due;
  pthread_cond_broadcast(&p->news);
  pthread_mutex_unlock(&p->lock);
}

static void wait_for(struct tu_loader *loader, size_t index) {
  struct paced *p = paced_of(loader);
  pthread_mutex_lock(&p->lock);
  while (p->finished <= p->base + index) pthread_cond_wait(&p->news, &p->lock);
  pthread_mutex_unlock(&p->lock);
}

/* Called at certain moments of a gather. At the end of each store, waits until the store has taken store_ns, so that a
 * load can overlap with it. */
static void note(struct tu_loader *loader, enum tu_moment moment, size_t index) {
  struct paced *p = paced_of(loader);
  (void)index;
  if (moment == TU_STORE_BEGINS) p->store_began = tu_clock_ns();
  if (moment == TU_STORE_ENDS) sleep_until(p->store_began + p->store_ns);
}

struct tu_loader *bench_paced_open(uint64_t load_ns, uint64_t store_ns) {
  struct paced *p = tu_allocate(1, sizeof *p);
  *p = (struct paced){
      .loader = {.begin = begin, .wait = wait_for, .moment = note}, .load_ns = load_ns, .store_ns = store_ns};
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->news, NULL);
  if (pthread_create(&p->thread, NULL, load_all, p) == 0) return &p->loader;
  pthread_cond_destroy(&p->news);
  pthread_mutex_destroy(&p->lock);
  free(p);
  return NULL;
}

void bench_paced_close(struct tu_loader *loader) {
  struct paced *p = paced_of(loader);
  pthread_mutex_lock(&p->lock);
  p->ends = true;
  pthread_cond_broadcast(&p->news);
  pthread_mutex_unlock(&p->lock);
  pthread_join(p->thread, NULL);
  pthread_cond_destroy(&p->news);
  pthread_mutex_destroy(&p->lock);
  free(p);
}
