/* test: fast */
/* guard_test.c: the hot path. Between start and wait nothing is allocated, and no system call is made when nothing has to
 * sleep: this program counts allocations itself, and a seccomp filter turns every system call into its end. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "ranks.h"
#include "test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

int main(void) {
  printf("skipped: a sanitizer allocates and makes system calls of its own\n0 passed, 0 failed\n");
  return 77;
}

#else

/* ---- allocations: ours stand before the C library's ---- */

static _Atomic uint64_t allocations;
static _Atomic bool counting;

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *memory);

static void count(void) {
  if (counting) allocations++;
}
void *malloc(size_t bytes) { return count(), __libc_malloc(bytes); }
void *calloc(size_t n, size_t bytes) { return count(), __libc_calloc(n, bytes); }
void *realloc(void *memory, size_t bytes) { return count(), __libc_realloc(memory, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { return count(), __libc_memalign(alignment, bytes); }
int posix_memalign(void **memory, size_t alignment, size_t bytes) {
  count();
  return (*memory = __libc_memalign(alignment, bytes)) ? 0 : ENOMEM;
}
void free(void *memory) {
  if (memory) count();
  __libc_free(memory);
}

/* ---- system calls ---- */

static struct ranks_world *here;
static uint32_t here_rank;

/* What the ranks tell. */
enum { ALLOCATED = 0, CALLED = 2, ROUNDS_DONE = 4, WRONG = 6 };

static void on_system_call(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)context;
  here->shared->numbers[CALLED + here_rank] = (uint64_t)info->si_syscall + 1;
  _exit(3);
}

/* From here on this process may only end. */
static bool forbid_system_calls(void) {
  struct sigaction action = {.sa_sigaction = on_system_call, .sa_flags = SA_SIGINFO};
  if (sigaction(SIGSYS, &action, NULL) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

/* ---- the ranks ---- */

struct subject {
  const char *name;
  tutti_collective collective;
  size_t bytes;
  bool persistent;
};

enum { WARM_UP = 200, ROUNDS = 1000 };

static bool one_round(tutti_comm *world, const tutti_call *call, tutti_request *request) {
  tutti_request *own = NULL;
  if (request) return tutti_restart(request) == TUTTI_OK && tutti_wait(&request) == TUTTI_OK;
  return tutti_start(world, call, &own) == TUTTI_OK && tutti_wait(&own) == TUTTI_OK;
}

static int hot(struct ranks_world *w, uint32_t rank) {
  const struct subject *s = w->context;
  here = w;
  here_rank = rank;
  setenv("TUTTI_SPIN", "1000000000", 1); /* on a busy machine too, nothing has to sleep */
  tutti_comm *world;
  if (tutti_init(NULL, &world) != TUTTI_OK) {
    printf("  init: %s\n", tutti_error_message(NULL));
    return 1;
  }
  size_t items = s->bytes / 8;
  double *in = calloc(items + 1, 8), *out = calloc(items + 1, 8);
  if (!in || !out) return 1;
  tutti_call call = {.collective = s->collective, .send = in, .recv = out, .count = items, .type = TUTTI_F64};
  tutti_request *request = NULL;
  if (s->persistent && tutti_prepare(world, &call, &request) != TUTTI_OK) return 1;
  for (int k = 0; k < WARM_UP; k++)
    if (!one_round(world, &call, request)) return 1;
  if (!forbid_system_calls()) return 77;
  allocations = 0;
  counting = true;
  for (int k = 0; k < ROUNDS; k++) {
    if (items) in[items - 1] = k + 1;
    if (!one_round(world, &call, request)) _exit(1);
    if (s->collective == TUTTI_ALLREDUCE && items && out[items - 1] < 2 * (k + 1) - 0.5)
      w->shared->numbers[WRONG + rank]++;
    w->shared->numbers[ROUNDS_DONE + rank]++;
  }
  counting = false;
  w->shared->numbers[ALLOCATED + rank] = allocations;
  _exit(0);
}

static void run_subject(const struct subject *s) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
    printf("  skipped: needs two CPUs, or somebody has to sleep\n");
    return;
  }
  struct ranks_world w = {.context = s};
  ranks_start(&w, 2, hot);
  bool in_time = ranks_end(&w, 25000);
  _Atomic uint64_t *n = w.shared->numbers;
  for (uint32_t r = 0; r < 2 && in_time; r++) {
    if (WIFEXITED(w.status[r]) && WEXITSTATUS(w.status[r]) == 77) {
      printf("  skipped: this system has no seccomp filters\n");
      break;
    }
    CHECK(n[CALLED + r] == 0, "%s: rank %u made system call %llu after %llu rounds", s->name, r,
          (unsigned long long)n[CALLED + r] - 1, (unsigned long long)n[ROUNDS_DONE + r]);
    CHECK(n[CALLED] || n[CALLED + 1] || n[ROUNDS_DONE + r] == ROUNDS,
          "%s: rank %u ended with status %d after %llu rounds", s->name, r, w.status[r],
          (unsigned long long)n[ROUNDS_DONE + r]);
    CHECK(n[ALLOCATED + r] == 0, "%s: rank %u allocated or freed %llu times in %d rounds", s->name, r,
          (unsigned long long)n[ALLOCATED + r], ROUNDS);
    CHECK(n[WRONG + r] == 0, "%s: rank %u has %llu wrong results", s->name, r, (unsigned long long)n[WRONG + r]);
  }
  /* The other one waits for ever when one has been stopped at a system call. */
  CHECK(in_time || n[CALLED] || n[CALLED + 1], "%s: hangs after %llu and %llu rounds", s->name,
        (unsigned long long)n[ROUNDS_DONE], (unsigned long long)n[ROUNDS_DONE + 1]);
  for (uint32_t r = 0; r < 2 && !in_time; r++)
    CHECK(n[CALLED + r] == 0, "%s: rank %u made system call %llu after %llu rounds", s->name, r,
          (unsigned long long)n[CALLED + r] - 1, (unsigned long long)n[ROUNDS_DONE + r]);
  ranks_fini(&w);
}

static void persistent_calls(void) {
  const struct subject subjects[] = {{"allreduce of 8 B", TUTTI_ALLREDUCE, 8, true},
                                     {"allreduce of 64 KiB", TUTTI_ALLREDUCE, 65536, true},
                                     {"barrier", TUTTI_BARRIER, 0, true},
                                     {"broadcast of 64 KiB", TUTTI_BROADCAST, 65536, true}};
  for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++) run_subject(&subjects[i]);
}

/* An ordinary call that repeats an earlier one: nothing either. */
static void repeated_calls(void) {
  const struct subject subjects[] = {{"allreduce of 8 B", TUTTI_ALLREDUCE, 8, false},
                                     {"scan of 4 KiB", TUTTI_SCAN, 4096, false}};
  for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++) run_subject(&subjects[i]);
}

/* Do the two counters count at all? */
static void counters_count(void) {
  counting = true;
  void *volatile memory = malloc(10);
  free(memory);
  counting = false;
  CHECK(allocations == 2, "%llu allocations counted, not 2", (unsigned long long)allocations);
  struct ranks_world w = {.ranks = 1, .port_fd = -1};
  w.shared = mmap(NULL, sizeof *w.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (w.shared == MAP_FAILED) abort();
  fflush(stdout);
  if ((w.pids[0] = fork()) == 0) {
    here = &w;
    if (!forbid_system_calls()) _exit(77);
    syscall(SYS_sched_yield);
    _exit(0);
  }
  waitpid(w.pids[0], &w.status[0], 0);
  bool able = WEXITSTATUS(w.status[0]) != 77;
  CHECK(!able || w.shared->numbers[CALLED] == SYS_sched_yield + 1, "a system call was not seen");
  ranks_fini(&w);
}

int main(int argc, char **argv) {
  const struct test tests[] = {
      {"counters_count", counters_count}, {"persistent_calls", persistent_calls}, {"repeated_calls", repeated_calls}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
#endif
