/* line_ping.c: one-way latency of a cache line between the first two CPUs that this process may use, in ns, on standard
 * output. A virtual machine's CPUs are moved about by its host, and what is measured in one placement says nothing about
 * another: bench-peers looks before and after. Two processes bounce a counter; the median of short runs is printed. */
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUNS = 41, BOUNCES = 500 };

struct table {
  _Alignas(64) _Atomic uint32_t ball; /* whose turn it is: even numbers are the parent's */
};

static double clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* The CPU of that place among those allowed; with one CPU both players get it. */
static void bind_to(int place) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  place %= CPU_COUNT(&allowed);
  for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &allowed) || place-- > 0) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) perror("line_ping: cannot bind to a CPU");
    return;
  }
}

/* Waits for the turn and passes the ball on. Yields now and then: the other may be waiting for this very CPU. */
static void take_turn(struct table *t, uint32_t turn) {
  for (uint32_t polls = 1; atomic_load_explicit(&t->ball, memory_order_acquire) != turn; polls++)
    if (polls % 10000 == 0) sched_yield();
  atomic_store_explicit(&t->ball, turn + 1, memory_order_release);
}

static int compare(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

static void play_timed(struct table *t, double times[RUNS]) {
  for (uint32_t run = 0; run < RUNS; run++) {
    double start = clock_ns();
    for (uint32_t i = 0; i < BOUNCES; i++) take_turn(t, 2 * (run * BOUNCES + i));
    times[run] = (clock_ns() - start) / (2 * BOUNCES);
  }
}

int main(void) {
  struct table *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (t == MAP_FAILED) {
    perror("line_ping: no shared memory");
    return 1;
  }
  pid_t other = fork();
  if (other < 0) {
    perror("line_ping: cannot fork");
    return 1;
  }
  bind_to(other == 0);
  if (other == 0) {
    for (uint32_t turn = 1; turn < 2u * RUNS * BOUNCES; turn += 2) take_turn(t, turn);
    _exit(0);
  }
  double times[RUNS];
  play_timed(t, times);
  waitpid(other, NULL, 0);
  qsort(times, RUNS, sizeof times[0], compare);
  printf("%.1f\n", times[RUNS / 2]);
  return 0;
}
