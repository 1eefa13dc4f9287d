/* calibrate.c: measures the current speed of the machine. A host may move the CPUs of a virtual machine, and times of
 * one placement cannot be compared with times of another. So bench-peers runs this program before and after each run.
 *
 * `calibrate line`: prints the one-way latency of a cache line between the first two CPUs of this process, in ns. Two
 * processes bounce a counter; the result is the median of short runs.
 *
 * `calibrate exchange BYTES`: two processes exchange BYTES bytes (1 to 64 KiB) through shared memory, again and again: each
 * writes them for the other, and copies what the other has written to a buffer of its own. Nothing is checked, and no call
 * is told from another, so no library can be faster. Prints the time of one exchange in ns: the fastest of the ways `ways`
 * below, each the median of short runs.
 *
 * `calibrate copy PROCESSES [MIB]`: PROCESSES processes, each bound to a CPU, copy MIB MiB (64) at the same time,
 * within shared memory. Prints on one line the ms with non-temporal stores and the ms with the C library's copy. No
 * collective that moves as many bytes can be faster. A run's time is that of its slowest process; the fastest run is
 * printed, as a limit. */
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

/* Binds the process to the CPU number `index` among the allowed CPUs, modulo their number. */
static void bind_to(uint32_t index) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  index %= (uint32_t)CPU_COUNT(&allowed);
  for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &allowed) || index-- > 0) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) perror("calibrate: cannot bind to a CPU");
    return;
  }
}

/* Forks a child that is killed when this process exits. Returns 0 in the child; -1: failed, and an error was
 * printed. */
static pid_t start_helper(void) {
  pid_t child = fork();
  if (child < 0) perror("calibrate: cannot fork");
  if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  return child;
}

static void *share(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) return memory;
  perror("calibrate: cannot create shared memory");
  exit(1);
}

/* ---- calibrate line ---- */

enum { LINE_RUNS = 41, BOUNCES = 500 };

struct court {
  /* number of turns taken so far; the next turn is the parent's if even, the child's if odd */
  _Alignas(64) _Atomic uint32_t ball;
};

/* Waits until turn number `turn` is due, then increments the counter. Yields now and then, because the other process
 * may need this CPU. */
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

/* ---- calibrate exchange ---- */

enum { EXCHANGE_RUNS = 15, EXCHANGES = 2000, LINES = 8, IN_LINE = 32, RING = 2 << 20, GAP = 1024, LONGEST = 64 << 10 };

/* What one process writes for the other: the number of each message, with up to IN_LINE bytes, and longer ones in a ring. */
struct half {
  struct {
    _Alignas(64) _Atomic uint32_t number;
    unsigned char payload[IN_LINE];
  } lines[LINES];
  _Alignas(4096) unsigned char ring[RING];
};

static void nothing(unsigned char *written, unsigned char *next, size_t bytes) {
  (void)written, (void)next, (void)bytes;
}

/* Moves what was written to the cache that all cores share, so that the reader gets it from there. */
static void push(unsigned char *written, unsigned char *next, size_t bytes) {
  (void)next;
#ifdef __x86_64__
  for (size_t i = 0; i < bytes; i += 64) __asm__ volatile("cldemote %0" ::"m"(written[i]));
#else
  (void)written, (void)bytes;
#endif
}

/* Takes the lines of the next message from the cache of their reader, while there is nothing to do but wait. */
static void claim(unsigned char *written, unsigned char *next, size_t bytes) {
  (void)written;
#ifdef __x86_64__
  for (size_t i = 0; i < bytes; i += 64) __asm__ volatile("prefetchw %0" ::"m"(next[i]));
#else
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(next + i, 1);
#endif
}

/* What a process does after it has written a message in the ring: before the other one may read it, or afterwards. */
static const struct way {
  void (*before)(unsigned char *written, unsigned char *next, size_t bytes);
  void (*after)(unsigned char *written, unsigned char *next, size_t bytes);
} ways[] = {{nothing, nothing}, {push, nothing}, {nothing, claim}, {push, claim}};

static void await_number(const _Atomic uint32_t *number, uint32_t wanted) {
  for (uint32_t polls = 1; atomic_load_explicit(number, memory_order_acquire) != wanted; polls++) {
    if (polls % 10000 == 0) sched_yield();
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
  }
}

/* Returns the median of the runs, in ns for each exchange. *number: of the last message. */
static double exchange(struct half *own, const struct half *other, const struct way *way, size_t bytes,
                       uint32_t *number) {
  static unsigned char in[LONGEST], out[LONGEST];
  double times[EXCHANGE_RUNS];
  size_t at = 0;
  for (uint32_t run = 0; run < EXCHANGE_RUNS; run++) {
    const double start = clock_ns();
    for (uint32_t i = 0; i < EXCHANGES; i++) {
      const uint32_t n = ++*number;
      const size_t step = (bytes + GAP + 63) / 64 * 64, next = at + 2 * step > RING ? 0 : at + step;
      unsigned char *to = bytes <= IN_LINE ? own->lines[n % LINES].payload : own->ring + at;
      memcpy(to, in, bytes);
      if (bytes > IN_LINE) way->before(to, own->ring + next, bytes);
      atomic_store_explicit(&own->lines[n % LINES].number, n, memory_order_release);
      if (bytes > IN_LINE) way->after(to, own->ring + next, bytes);
      await_number(&other->lines[n % LINES].number, n);
      memcpy(out, bytes <= IN_LINE ? other->lines[n % LINES].payload : other->ring + at, bytes);
      __asm__ volatile("" ::"r"(out) : "memory"); /* the copy must be made */
      at = next;
    }
    times[run] = (clock_ns() - start) / EXCHANGES;
  }
  qsort(times, EXCHANGE_RUNS, sizeof times[0], compare);
  return times[EXCHANGE_RUNS / 2];
}

static int print_exchange(size_t bytes) {
  struct half *halves = share(2 * sizeof *halves);
  const pid_t other = start_helper();
  if (other < 0) return 1;
  const int side = other == 0;
  bind_to((uint32_t)side);
  memset(halves[side].ring, 1, RING);
  double best = 0;
  uint32_t number = 0;
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    const double ns = exchange(&halves[side], &halves[1 - side], &ways[i], bytes, &number);
    if (i == 0 || ns < best) best = ns;
  }
  if (other == 0) _exit(0);
  waitpid(other, NULL, 0);
  printf("%.1f\n", best);
  return 0;
}

/* ---- calibrate copy ---- */

enum { COPY_RUNS = 7, PROCESSES_MAX = 256, HUGE_PAGE = 2 << 20, MADVISE_COLLAPSE = 25 };

struct table {
  _Alignas(64) _Atomic uint32_t met; /* total number of barrier arrivals */
  double ms[PROCESSES_MAX];          /* time of each process in the current run, in ms */
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

/* Returns the time of the slowest process in the fastest run, in ms. */
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

/* Runs one process of the copy test. It first writes to its own memory, in huge pages if available, as a shared heap
 * would have. */
static int work(struct job *j, unsigned char *heap) {
  bind_to(j->rank);
  j->from = heap + 2 * j->rank * j->bytes;
  j->to = j->from + j->bytes;
  madvise(j->from, 2 * j->bytes, MADV_HUGEPAGE);
  memset(j->from, (int)j->rank + 1, 2 * j->bytes);
  madvise(j->from, 2 * j->bytes, MADVISE_COLLAPSE); /* fails before Linux 6.1; the pages then stay small */
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
    perror("calibrate: cannot create shared memory");
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
  if (status != 0) fprintf(stderr, "calibrate: a copy differs from its original\n");
  return status;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "line") == 0) return print_line();
  if (argc == 3 && strcmp(argv[1], "exchange") == 0) {
    const long bytes = strtol(argv[2], NULL, 10);
    if (bytes > 0 && bytes <= LONGEST) return print_exchange((size_t)bytes);
  }
  long processes = argc > 2 ? strtol(argv[2], NULL, 10) : 0, mib = argc > 3 ? strtol(argv[3], NULL, 10) : 64;
  if (argc > 2 && argc < 5 && strcmp(argv[1], "copy") == 0 && processes > 0 && processes <= PROCESSES_MAX && mib > 0 &&
      mib <= 1024)
    return print_copy((uint32_t)processes, (size_t)mib << 20);
  fprintf(stderr,
          "calibrate: expected 'line', 'exchange BYTES' with 1 to %d bytes, or 'copy PROCESSES [MIB]' with at most %d "
          "processes and 1024 MiB\n",
          LONGEST, PROCESSES_MAX);
  return 2;
}
