/* calibrate.c: what the machine can do at this moment. A virtual machine's CPUs are moved about by its host, and what is
 * measured in one placement says nothing about another: bench-peers looks before and after.
 *
 * `calibrate line`: one-way latency of a cache line between the first two CPUs that this process may use, in ns. Two
 * processes bounce a counter; the median of short runs is printed.
 *
 * `calibrate copy PROCESSES [MIB]`: that many processes, bound to a CPU each, copy 64 MiB at once, from one stretch of
 * shared memory to another; in one line, how many ms that takes with non-temporal stores and with the C library's copy. No
 * collective that has to move as much can be faster. A time is that of the slowest process; the best of several is printed,
 * for a limit is what can be reached. */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

static double clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* The CPU of that place among those allowed; with one CPU both players get it. */
static void bind_to(uint32_t place) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  place %= (uint32_t)CPU_COUNT(&allowed);
  for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &allowed) || place-- > 0) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) perror("calibrate: cannot bind to a CPU");
    return;
  }
}

/* A process that ends with this one. -1: failed, and it has said why; 0: in it. */
static pid_t start_helper(void) {
  pid_t child = fork();
  if (child < 0) perror("calibrate: cannot fork");
  if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  return child;
}

static void *share(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) return memory;
  perror("calibrate: no shared memory");
  exit(1);
}

/* ---- line ---- */

enum { LINE_RUNS = 41, BOUNCES = 500 };

struct court {
  _Alignas(64) _Atomic uint32_t ball; /* whose turn it is: even numbers are the parent's */
};

/* Waits for the turn and passes the ball on. Yields now and then: the other may be waiting for this very CPU. */
static void take_turn(struct court *t, uint32_t turn) {
  for (uint32_t polls = 1; atomic_load_explicit(&t->ball, memory_order_acquire) != turn; polls++)
    if (polls % 10000 == 0) sched_yield();
  atomic_store_explicit(&t->ball, turn + 1, memory_order_release);
}

static int compare(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

static void play_timed(struct court *t, double times[LINE_RUNS]) {
  for (uint32_t run = 0; run < LINE_RUNS; run++) {
    double start = clock_ns();
    for (uint32_t i = 0; i < BOUNCES; i++) take_turn(t, 2 * (run * BOUNCES + i));
    times[run] = (clock_ns() - start) / (2 * BOUNCES);
  }
}

static int print_line(void) {
  struct court *t = share(sizeof *t);
  pid_t other = start_helper();
  if (other < 0) return 1;
  bind_to(other == 0);
  if (other == 0) {
    for (uint32_t turn = 1; turn < 2u * LINE_RUNS * BOUNCES; turn += 2) take_turn(t, turn);
    _exit(0);
  }
  double times[LINE_RUNS];
  play_timed(t, times);
  waitpid(other, NULL, 0);
  qsort(times, LINE_RUNS, sizeof times[0], compare);
  printf("%.1f\n", times[LINE_RUNS / 2]);
  return 0;
}

/* ---- copy ---- */

enum { COPY_RUNS = 7, PROCESSES_MAX = 256, HUGE_PAGE = 2 << 20, MADVISE_COLLAPSE = 25 };

struct table {
  _Alignas(64) _Atomic uint32_t met; /* barrier arrivals, ever more */
  double ms[PROCESSES_MAX];          /* of the current run, one a process */
};

struct job {
  struct table *table;
  uint32_t processes, rank, barriers;
  size_t bytes;
  unsigned char *from, *to;
};

static void meet(struct job *j) {
  uint32_t all = ++j->barriers * j->processes;
  atomic_fetch_add(&j->table->met, 1);
  for (uint32_t polls = 1; atomic_load(&j->table->met) < all; polls++)
    if (polls % 10000 == 0) sched_yield();
}

static void copy_past_caches(unsigned char *to, const unsigned char *from, size_t bytes) {
#ifdef __SSE2__
  for (size_t i = 0; i < bytes; i += 64) {
    const __m128i *source = (const __m128i *)(const void *)(from + i);
    __m128i *target = (__m128i *)(void *)(to + i);
    __m128i a = _mm_load_si128(source), b = _mm_load_si128(source + 1);
    __m128i c = _mm_load_si128(source + 2), d = _mm_load_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();
#else
  memcpy(to, from, bytes);
#endif
}

static void copy_as_usual(unsigned char *to, const unsigned char *from, size_t bytes) { memcpy(to, from, bytes); }

/* The slowest process's time, the best of the runs. */
static double measure(struct job *j, void (*copy)(unsigned char *, const unsigned char *, size_t)) {
  double best = 0;
  for (uint32_t run = 0; run < COPY_RUNS; run++) {
    meet(j);
    double start = clock_ns(), slowest = 0;
    copy(j->to, j->from, j->bytes);
    j->table->ms[j->rank] = (clock_ns() - start) / 1e6;
    meet(j);
    for (uint32_t r = 0; r < j->processes; r++)
      if (j->table->ms[r] > slowest) slowest = j->table->ms[r];
    if (run == 0 || slowest < best) best = slowest;
  }
  return best;
}

/* Each process touches its own memory, with huge pages where they can be had, as a shared heap would. */
static int work(struct job *j, unsigned char *heap) {
  bind_to(j->rank);
  j->from = heap + 2 * j->rank * j->bytes;
  j->to = j->from + j->bytes;
  madvise(j->from, 2 * j->bytes, MADV_HUGEPAGE);
  memset(j->from, (int)j->rank + 1, 2 * j->bytes);
  madvise(j->from, 2 * j->bytes, MADVISE_COLLAPSE); /* fails before Linux 6.1: small pages then */
  double past = measure(j, copy_past_caches), usual = measure(j, copy_as_usual);
  if (j->rank == 0) printf("%.3f %.3f\n", past, usual);
  return memcmp(j->from, j->to, j->bytes) != 0;
}

static unsigned char *make_heap(size_t bytes) {
  int fd = memfd_create("calibrate", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)(bytes + HUGE_PAGE)) != 0) return NULL;
  unsigned char *heap = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (heap == MAP_FAILED) return NULL;
  return heap + (HUGE_PAGE - (uintptr_t)heap % HUGE_PAGE) % HUGE_PAGE;
}

static int print_copy(uint32_t processes, size_t bytes) {
  unsigned char *heap = make_heap(2 * processes * bytes);
  if (!heap) {
    perror("calibrate: no shared memory");
    return 1;
  }
  struct job job = {.table = share(sizeof *job.table), .processes = processes, .bytes = bytes};
  for (uint32_t rank = 1; rank < processes; rank++) {
    pid_t child = start_helper();
    if (child < 0) return 1;
    if (child > 0) continue;
    job.rank = rank;
    _exit(work(&job, heap));
  }
  int status = work(&job, heap), child_status;
  while (wait(&child_status) > 0) status |= child_status != 0;
  if (status != 0) fprintf(stderr, "calibrate: a copy is not like its original\n");
  return status;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "line") == 0) return print_line();
  long processes = argc > 2 ? strtol(argv[2], NULL, 10) : 0, mib = argc > 3 ? strtol(argv[3], NULL, 10) : 64;
  if (argc > 2 && argc < 5 && strcmp(argv[1], "copy") == 0 && processes > 0 && processes <= PROCESSES_MAX && mib > 0 &&
      mib <= 1024)
    return print_copy((uint32_t)processes, (size_t)mib << 20);
  fprintf(stderr, "calibrate: expected 'line', or 'copy PROCESSES [MIB]' with up to %d and 1024\n", PROCESSES_MAX);
  return 2;
}
