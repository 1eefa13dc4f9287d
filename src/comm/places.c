/* places.c: moves waiting ranks to CPUs with fewer ranks, or with less work. */
#include "comm/places.h"

#include <string.h>
#include <unistd.h>

#define CPUS ((uint32_t)CPU_SETSIZE)
#define DEAL_NS 5000000u /* minimum time between two deals, in ns */
/* With each deal, this part of the work that was known before is forgotten. What ranks do in 5 ms alone is often chance, and in
 * long calls each root in turn has most for tens of ms. */
#define FORGOTTEN_PART 32u
/* Ranks change places if the CPU with the most work has less of it then: by at least this part of what it has, and by at least
 * that part of the time that has passed. Ranks that do the same differ by 5 percent, and a call during a change takes half as
 * long again. */
#define WORK_PART 8u
#define TIME_PART 32u

/* Returns the CPU of this thread; CPUS if its number is not known, or too high for a cpu_set_t. */
static uint32_t find_cpu(void) {
  const int cpu = sched_getcpu();
  return cpu < 0 ? CPUS : (uint32_t)tu_min((size_t)cpu, CPUS);
}

void tu_places_note_busy(const struct tu_transport *t, uint64_t until, bool lasting) {
  struct tu_slice_head *own = tu_transport_head(t, t->rank);
  const uint32_t cpu = lasting ? find_cpu() : CPUS;
  atomic_store_explicit(&own->busy_cpu, cpu < CPUS ? cpu + 1 : 0, memory_order_relaxed);
  atomic_store_explicit(&own->busy_until, until, memory_order_relaxed);
}

/* Returns the number of the CPU on which that rank waits now, plus 1; 0: it does not wait, or the number is not known. */
static uint32_t waits_on(const struct tu_slice_head *head, uint64_t now) {
  const uint32_t cpu = atomic_load_explicit(&head->cpu, memory_order_relaxed);
  return cpu <= CPUS && atomic_load_explicit(&head->cpu_at, memory_order_relaxed) + TU_FRESH_NS > now ? cpu : 0;
}

/* Returns the head of the rank that comes i ranks after this one. */
static const struct tu_slice_head *head_after(const struct tu_transport *t, uint32_t i) {
  return tu_transport_head(t, (t->rank + i) % t->ranks);
}

static uint32_t count_seen(const struct tu_transport *t) { return (uint32_t)tu_min(t->ranks, TU_SEEN_RANKS); }

void tu_places_costs(const struct tu_transport *t, uint64_t now, bool crowded, uint32_t cost[CPU_SETSIZE]) {
  for (uint32_t i = 0; i < count_seen(t); i++) {
    const struct tu_slice_head *head = head_after(t, i);
    const uint32_t cpu = waits_on(head, now);
    const uint32_t busy_cpu = atomic_load_explicit(&head->busy_cpu, memory_order_relaxed);
    if (i > 0 && cpu > 0) cost[cpu - 1]++;
    if (crowded && busy_cpu > 0 && busy_cpu <= CPUS &&
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

/* Returns the work of the CPU that has the most, if rank r is on CPU place[r]. */
static uint64_t find_most(const uint64_t work[], const uint32_t place[], uint32_t ranks, uint32_t cpus) {
  uint64_t most = 0;
  for (uint32_t c = 0; c < cpus; c++) {
    uint64_t sum = 0;
    for (uint32_t r = 0; r < ranks; r++) sum += place[r] == c ? work[r] : 0;
    most = tu_max(most, sum);
  }
  return most;
}

/* Deals the ranks to the CPUs, those with the most work first, each to the CPU with the least. */
static void deal_by_work(const uint64_t work[], uint32_t ranks, uint32_t cpus, uint32_t place[]) {
  uint64_t sums[TU_SEEN_RANKS] = {0};
  bool dealt[TU_SEEN_RANKS] = {false};
  for (uint32_t i = 0; i < ranks; i++) {
    uint32_t next = ranks, to = 0;
    for (uint32_t r = 0; r < ranks; r++)
      if (!dealt[r] && (next == ranks || work[r] > work[next])) next = r;
    for (uint32_t c = 1; c < cpus; c++)
      if (sums[c] < sums[to]) to = c;
    dealt[next] = true;
    place[next] = to;
    sums[to] += work[next];
  }
}

void tu_places_deal(const uint64_t work[], uint64_t passed, uint32_t ranks, uint32_t cpus, uint32_t place[]) {
  uint32_t in_turn[TU_SEEN_RANKS], by_work[TU_SEEN_RANKS];
  for (uint32_t r = 0; r < ranks; r++) in_turn[r] = r % cpus;
  deal_by_work(work, ranks, cpus, by_work);
  const uint64_t best = find_most(work, by_work, ranks, cpus), much = tu_max(best / WORK_PART, passed / TIME_PART);
  /* in turn again only if that loses little: or ranks at the limit would change places with each deal */
  if (find_most(work, in_turn, ranks, cpus) <= best + much / 2) memcpy(place, in_turn, ranks * sizeof *place);
  else if (find_most(work, place, ranks, cpus) > best + much) memcpy(place, by_work, ranks * sizeof *place);
}

uint32_t tu_places_own(const cpu_set_t *allowed, uint32_t place) {
  uint32_t cpu = 0;
  for (uint32_t left = place % (uint32_t)CPU_COUNT(allowed); !CPU_ISSET(cpu, allowed) || left > 0; cpu++)
    left -= CPU_ISSET(cpu, allowed) != 0;
  return cpu;
}

/* Returns the place of a rank: the number of a CPU in the set of those that the ranks may use. */
static uint32_t place_of(const struct tu_transport *t, uint32_t rank) {
  const uint32_t place = atomic_load_explicit(&tu_transport_head(t, rank)->place, memory_order_relaxed);
  return place > 0 ? place - 1 : rank;
}

/* Adds to a sum in which older parts count less with each deal. Returns the sum. */
static uint64_t add_lately(_Atomic uint64_t *sum, uint64_t part) {
  const uint64_t older = atomic_load_explicit(sum, memory_order_relaxed), now = older - older / FORGOTTEN_PART + part;
  atomic_store_explicit(sum, now, memory_order_relaxed);
  return now;
}

/* On the first rank: decides which place each rank has, by what they have worked lately. */
static void deal_places(const struct tu_transport *t, uint64_t now, uint32_t cpus) {
  struct tu_slice_head *first = tu_transport_head(t, 0);
  uint64_t at = atomic_load_explicit(&first->dealt_at, memory_order_relaxed), work[TU_SEEN_RANKS];
  uint32_t place[TU_SEEN_RANKS];
  if (now < at + DEAL_NS || !atomic_compare_exchange_strong(&first->dealt_at, &at, now)) return;
  for (uint32_t r = 0; r < t->ranks; r++) {
    struct tu_slice_head *head = tu_transport_head(t, r);
    const uint64_t worked = atomic_load_explicit(&head->worked_ns, memory_order_relaxed);
    const uint64_t seen = atomic_exchange_explicit(&head->seen_ns, worked, memory_order_relaxed);
    /* before the first deal, it is not known in which time they have worked that */
    work[r] = at > 0 ? add_lately(&head->recent_ns, worked - seen) : 0;
    place[r] = place_of(t, r) % cpus;
  }
  if (at == 0) return;
  tu_places_deal(work, add_lately(&first->lately_ns, now - at), t->ranks, cpus, place);
  for (uint32_t r = 0; r < t->ranks; r++)
    atomic_store_explicit(&tu_transport_head(t, r)->place, place[r] + 1, memory_order_relaxed);
}

/* Returns true if ranks share CPUs, all may use the same ones as this rank, and no other program uses one of them. */
static bool have_places(const struct tu_transport *t, const cpu_set_t *allowed, const uint32_t cost[CPU_SETSIZE]) {
  const uint64_t own = atomic_load_explicit(&tu_transport_head(t, t->rank)->allowed, memory_order_relaxed);
  if (t->ranks > TU_SEEN_RANKS || t->ranks <= (uint32_t)CPU_COUNT(allowed)) return false;
  for (uint32_t c = 0; c < CPUS; c++)
    if (cost[c] >= TU_BUSY_COST) return false;
  for (uint32_t i = 1; i < t->ranks; i++)
    if (atomic_load_explicit(&head_after(t, i)->allowed, memory_order_relaxed) != own) return false;
  return true;
}

static bool do_others_wait(const struct tu_transport *t, uint64_t now) {
  for (uint32_t i = 1; i < t->ranks; i++)
    if (!waits_on(head_after(t, i), now)) return false;
  return true;
}

/* Returns the CPU where this rank should wait. It is on `cpu` now. */
static uint32_t choose_cpu(const struct tu_transport *t, uint64_t now, uint32_t cpu, bool crowded,
                           const cpu_set_t *allowed, const uint32_t cost[CPU_SETSIZE]) {
  if (!crowded || !have_places(t, allowed, cost)) return tu_places_best(allowed, cost, cpu);
  if (!do_others_wait(t, now)) return cpu; /* those that compute count, too, and it is not known where they are */
  if (t->rank == 0) deal_places(t, now, (uint32_t)CPU_COUNT(allowed));
  return tu_places_own(allowed, place_of(t, t->rank));
}

/* Moves this thread to `cpu`. `allowed` is its affinity, which it keeps. */
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

/* Moves this thread from its CPU to a better one, if there is one. Returns its CPU. */
static uint32_t move_from(const struct tu_transport *t, uint64_t now, uint32_t cpu, bool crowded) {
  struct tu_slice_head *own = tu_transport_head(t, t->rank);
  uint32_t cost[CPU_SETSIZE] = {0};
  cpu_set_t allowed;
  tu_places_costs(t, now, crowded, cost);
  if ((cost[cpu] == 0 && !crowded) || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cpu;
  atomic_store_explicit(&own->allowed, tu_hash(&allowed, sizeof allowed, TU_ALLOWED_SEED), memory_order_relaxed);
  const uint32_t best = choose_cpu(t, now, cpu, crowded, &allowed, cost);
  if (best == cpu) return cpu;
  /* Before it moves, so that no other rank takes the same place meanwhile. */
  atomic_store_explicit(&own->cpu, best + 1, memory_order_relaxed);
  if (move_to(best, &allowed)) return best;
  atomic_store_explicit(&own->cpu, cpu + 1, memory_order_relaxed);
  return cpu;
}

uint64_t tu_places_look(const struct tu_transport *t, uint64_t now, bool may_move, bool crowded) {
  struct tu_slice_head *own = tu_transport_head(t, t->rank);
  uint32_t cpu = find_cpu();
  uint64_t here = 0;
  if (cpu == CPUS) return 0;
  atomic_store_explicit(&own->cpu, cpu + 1, memory_order_relaxed);
  atomic_store_explicit(&own->cpu_at, now, memory_order_relaxed);
  if (may_move) cpu = move_from(t, now, cpu, crowded);
  for (uint32_t i = 1; i < count_seen(t); i++)
    if (waits_on(head_after(t, i), now) == cpu + 1) here |= UINT64_C(1) << i;
  return here;
}
