/* places.c: moves waiting ranks to CPUs with fewer ranks. */
#include "comm/places.h"

#include <string.h>
#include <unistd.h>

#define CPUS ((uint32_t)CPU_SETSIZE)

/* Returns the CPU of this thread; CPUS if its number is not known, or too high for a cpu_set_t. */
static uint32_t find_cpu(void) {
  const int cpu = sched_getcpu();
  return cpu < 0 ? CPUS : (uint32_t)tu_min((size_t)cpu, CPUS);
}

void tu_places_note_busy(const struct tu_transport *t, uint64_t until) {
  struct tu_slice_head *own = tu_transport_head(t, t->rank);
  const uint32_t cpu = find_cpu();
  atomic_store_explicit(&own->busy_cpu, cpu < CPUS ? cpu + 1 : 0, memory_order_relaxed);
  atomic_store_explicit(&own->busy_until, until, memory_order_relaxed);
}

void tu_places_costs(const struct tu_transport *t, uint64_t now, bool avoids_busy, uint32_t cost[CPU_SETSIZE]) {
  for (uint32_t i = 0; i < tu_min(t->ranks, TU_SEEN_RANKS); i++) {
    const struct tu_slice_head *head = tu_transport_head(t, (t->rank + i) % t->ranks);
    const uint32_t cpu = atomic_load_explicit(&head->cpu, memory_order_relaxed);
    const uint32_t busy_cpu = atomic_load_explicit(&head->busy_cpu, memory_order_relaxed);
    if (i > 0 && cpu > 0 && cpu <= CPUS &&
        atomic_load_explicit(&head->cpu_at, memory_order_relaxed) + TU_FRESH_NS > now)
      cost[cpu - 1]++;
    if (avoids_busy && busy_cpu > 0 && busy_cpu <= CPUS &&
        atomic_load_explicit(&head->busy_until, memory_order_relaxed) > now)
      cost[busy_cpu - 1] |= TU_BUSY_COST;
  }
}

static uint32_t distance(uint32_t a, uint32_t b) { return a > b ? a - b : b - a; }

uint32_t tu_places_best(const cpu_set_t *allowed, const uint32_t cost[CPU_SETSIZE], uint32_t own) {
  uint32_t best = own;
  for (uint32_t c = 0; c < CPUS; c++)
    if (CPU_ISSET(c, allowed) &&
        (cost[c] < cost[best] || (cost[c] == cost[best] && best != own && distance(c, own) < distance(best, own))))
      best = c;
  return best;
}

/* Moves this thread from its CPU to `cpu`. `allowed` is its affinity, which it keeps. */
static bool move_to(uint32_t cpu, const cpu_set_t *allowed) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(cpu, &mask);
  if (sched_setaffinity(0, sizeof mask, &mask) != 0) return false;
  /* Linux reports only the CPUs that are there now. A thread that may use all of them may use new ones, too. */
  const bool all = CPU_COUNT(allowed) == sysconf(_SC_NPROCESSORS_ONLN);
  memset(&mask, 0xff, sizeof mask);
  if (all || sched_setaffinity(0, sizeof *allowed, allowed) != 0) (void)sched_setaffinity(0, sizeof mask, &mask);
  return true;
}

void tu_places_look(const struct tu_transport *t, uint64_t now, bool may_move, bool avoids_busy) {
  struct tu_slice_head *own = tu_transport_head(t, t->rank);
  const uint32_t cpu = find_cpu();
  if (cpu == CPUS) return;
  atomic_store_explicit(&own->cpu, cpu + 1, memory_order_relaxed);
  atomic_store_explicit(&own->cpu_at, now, memory_order_relaxed);
  if (!may_move) return;
  uint32_t cost[CPU_SETSIZE] = {0};
  cpu_set_t allowed;
  tu_places_costs(t, now, avoids_busy, cost);
  if (cost[cpu] == 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  const uint32_t best = tu_places_best(&allowed, cost, cpu);
  if (best == cpu) return;
  /* Before it moves, so that no other rank takes the same place meanwhile. */
  atomic_store_explicit(&own->cpu, best + 1, memory_order_relaxed);
  if (!move_to(best, &allowed)) atomic_store_explicit(&own->cpu, cpu + 1, memory_order_relaxed);
}
