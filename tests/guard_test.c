/* test: fast */
/* guard_test.c: the cost of calls, counted. Between start and wait nothing is allocated, and no system call is made if
 * no rank has to sleep: this program counts allocations itself, and a seccomp filter ends the process at the first
 * system call. The numbers of instructions, moved bytes and written cache lines of shared memory of one call are
 * checked, too. A line counts as written if its content has changed. One table, subjects, has all expected counts. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>

#include <tutti/tensor.h>

#include "call/request.h"
#include "comm/comm.h"
#include "ranks.h"
#include "test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

int main(void) {
  printf("skipped: a sanitizer allocates and makes system calls of its own\n0 passed, 0 failed\n");
  return 77;
}

#else

/* ---- allocations: these functions replace the C library's ---- */

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

/* ---- the table of expected counts ---- */

enum how {
  PERSISTENT,
  IN_PARTS, /* persistent, too */
  STARTED,
  BLOCKING,
  RUN_CALL, /* blocking, by tutti_run_call */
  FRESH,    /* each call in a new communicator */
  COUNTED,  /* blocking, or started if the data are tensors; instructions, bytes and cache lines are counted */
  COUNTERS  /* no call: malloc, free and the system call sched_yield */
};
static const char *const hows[] = {
    [PERSISTENT] = "persistent", [IN_PARTS] = "persistent, in parts",         [STARTED] = "started again",
    [BLOCKING] = "blocking",     [RUN_CALL] = "blocking, by tutti_run_call",  [FRESH] = "in a new communicator",
    [COUNTED] = "counted",       [COUNTERS] = "malloc, free and sched_yield",
};
enum memory { USER, HEAP };
static const char *const memories[] = {"", ", in the heap"};
enum layout { VECTOR, ROWS, TILES };
static const char *const layouts[] = {"", ", rows", ", tiles"};

/* What is counted. Of user buffers, only lines beside the result count as changed cache lines. */
enum what {
  INSTRUCTIONS,
  MOVED_BYTES,
  PACKED,
  LINES,
  CREDITS,
  POSTS,
  STAGED,
  BOARDS,
  OTHERS,
  WHOLE_TENSOR,
  ROUNDS,
  ALLOCATIONS,
  SYSTEM_CALL,
  WRONG_RESULTS,
  EXIT_STATUS,
  WHATS
};
static const char *const whats[WHATS] = {
    [INSTRUCTIONS] = "instructions of the program",
    [MOVED_BYTES] = "bytes moved",
    [PACKED] = "packed piece by piece (1: yes)",
    [LINES] = "changed lines of channels, one per slice sent",
    [CREDITS] = "changed lines of channels where peers write credits",
    [POSTS] = "changed lines of channels where peers announce buffers for stores",
    [STAGED] = "changed lines of rings",
    [BOARDS] = "changed lines of the leader's boards, where all ranks note their calls",
    [OTHERS] = "other changed lines",
    [WHOLE_TENSOR] = "bytes of scratch memory for a whole tensor",
    [ROUNDS] = "completed calls",
    [ALLOCATIONS] = "allocations and frees",
    [SYSTEM_CALL] = "number of the system call made (-1: none)",
    [WRONG_RESULTS] = "wrong results",
    [EXIT_STATUS] = "status from waitpid",
};

/* As an expected or a found count: no check. */
#define UNCHECKED INT64_MIN

struct subject {
  tutti_collective collective;
  const char *algorithm; /* NULL: the library's choice */
  size_t bytes;
  enum how how;
  enum memory memory;
  enum layout layout;
  int64_t expected[2][WHATS]; /* by rank; what is not given is 0 */
};

#define QUIET_RANK(rounds, allocations) \
  { [SYSTEM_CALL] = -1, [ROUNDS] = (rounds), [ALLOCATIONS] = (allocations) }
/* Expected counts of `rounds` calls without a system call, nor a wrong result. */
#define QUIET(rounds, allocations) \
  { QUIET_RANK(rounds, allocations), QUIET_RANK(rounds, allocations) }

/* clang-format off */
static const struct subject subjects[] = {
    {TUTTI_ALLREDUCE, NULL, 8,        PERSISTENT, USER, VECTOR, QUIET(1000, 0)},
    {TUTTI_ALLREDUCE, NULL, 64 << 10, PERSISTENT, USER, VECTOR, QUIET(100, 0)},
    {TUTTI_ALLREDUCE, NULL, 64 << 10, IN_PARTS,   USER, VECTOR, QUIET(100, 0)},
    {TUTTI_BARRIER,   NULL, 0,        PERSISTENT, USER, VECTOR, QUIET(1000, 0)},
    {TUTTI_BROADCAST, NULL, 64 << 10, PERSISTENT, USER, VECTOR, QUIET(100, 0)},
    {TUTTI_ALLREDUCE, NULL, 1 << 20,  PERSISTENT, HEAP, VECTOR, QUIET(100, 0)},
    {TUTTI_ALLREDUCE, NULL, 64 << 10, PERSISTENT, USER, ROWS,   QUIET(100, 0)},
    {TUTTI_ALLREDUCE, NULL, 64 << 10, PERSISTENT, USER, TILES,  QUIET(100, 0)},
    {TUTTI_ALLREDUCE, NULL, 1 << 20,  PERSISTENT, USER, TILES,  QUIET(100, 0)},

    /* Ordinary calls that repeat an earlier one. */
    {TUTTI_ALLREDUCE, NULL, 8,        STARTED,    USER, VECTOR, QUIET(1000, 0)},
    {TUTTI_SCAN,      NULL, 4 << 10,  STARTED,    USER, VECTOR, QUIET(1000, 0)},
    {TUTTI_ALLREDUCE, NULL, 8 << 10,  STARTED,    USER, ROWS,   QUIET(1000, 0)},
    {TUTTI_ALLREDUCE, NULL, 8 << 10,  STARTED,    USER, TILES,  QUIET(1000, 0)},
    {TUTTI_ALLREDUCE, NULL, 64 << 10, STARTED,    HEAP, VECTOR, QUIET(100, 0)},

    /* Blocking calls that repeat an earlier one, which may take the fast path. */
    {TUTTI_ALLREDUCE, NULL, 8,        BLOCKING,   USER, VECTOR, QUIET(1000, 0)},
    {TUTTI_ALLREDUCE, NULL, 512,      BLOCKING,   USER, VECTOR, QUIET(1000, 0)},
    {TUTTI_ALLREDUCE, NULL, 512,      BLOCKING,   HEAP, VECTOR, QUIET(1000, 0)},
    {TUTTI_ALLREDUCE, NULL, 64 << 10, BLOCKING,   USER, VECTOR, QUIET(100, 0)},
    {TUTTI_BARRIER,   NULL, 0,        BLOCKING,   USER, VECTOR, QUIET(1000, 0)},
    {TUTTI_BROADCAST, NULL, 64 << 10, BLOCKING,   HEAP, VECTOR, QUIET(100, 0)},
    {TUTTI_BROADCAST, NULL, 64 << 10, BLOCKING,   USER, VECTOR, QUIET(100, 0)}, /* in slices, if each rank has a CPU */
    {TUTTI_REDUCE,    NULL, 64 << 10, BLOCKING,   USER, VECTOR, QUIET(100, 0)},
    {TUTTI_SCAN,      NULL, 16 << 10, BLOCKING,   USER, VECTOR, QUIET(100, 0)},
    {TUTTI_ALLREDUCE, NULL, 1 << 20,  BLOCKING,   HEAP, VECTOR, QUIET(100, 0)},
    {TUTTI_ALLGATHERV, NULL, 512,     BLOCKING,   USER, VECTOR, QUIET(1000, 0)},
    {TUTTI_ALLGATHERV, NULL, 64 << 10, BLOCKING,  USER, VECTOR, QUIET(100, 0)},
    {TUTTI_ALLREDUCE, NULL, 8,        RUN_CALL,   USER, VECTOR, QUIET(1000, 0)},
    {TUTTI_ALLREDUCE, NULL, 64 << 10, RUN_CALL,   HEAP, VECTOR, QUIET(100, 0)},
    {TUTTI_ALLREDUCE, NULL, 8 << 10,  RUN_CALL,   USER, ROWS,   QUIET(1000, 0)},
    {TUTTI_ALLGATHERV, NULL, 512,     RUN_CALL,   USER, VECTOR, QUIET(1000, 0)},

    /* Communicators that are created, used once and freed again and again: they allocate, but all the shared memory
     * they need is there after the first ones. */
    {TUTTI_ALLREDUCE, NULL, 8,        FRESH,      USER, VECTOR, QUIET(1000, UNCHECKED)},
    {TUTTI_BARRIER,   NULL, 0,        FRESH,      USER, VECTOR, QUIET(1000, UNCHECKED)},
    {TUTTI_ALLREDUCE, NULL, 64 << 10, FRESH,      USER, VECTOR, QUIET(100, UNCHECKED)},

    /* One message per slice: one line at the sender, and one credit line. 64 KiB are 1,024 lines. A ring allreduce of 1
     * MiB sends two halves, each in 8 slices of 128 KiB, which use all 8 lines, or in one slice if it is not staged.
     * Each rank notes the call and its number on the board at rank 0. A tensor is packed piece by piece, a few KiB per
     * operand, so no scratch memory for a copy of the tensor is needed.
     * Rank 0, then rank 1: {instructions, bytes moved, packed, lines, credits, posts, staged, boards}. */
    {TUTTI_BARRIER,   "direct", 0,        COUNTED, USER, VECTOR,
     {{2, 0,         0, 1, 1, 0, 0,     4}, {2, 0,         0, 1, 1, 0, 0,     0}}},
    {TUTTI_ALLREDUCE, "direct", 8,        COUNTED, USER, VECTOR,
     {{2, 16,        0, 1, 1, 0, 0,     4}, {2, 16,        0, 1, 1, 0, 0,     0}}},
    {TUTTI_ALLREDUCE, "direct", 8,        COUNTED, HEAP, VECTOR,
     {{2, 16,        0, 1, 1, 0, 0,     4}, {2, 16,        0, 1, 1, 0, 0,     0}}},
    {TUTTI_ALLREDUCE, "direct", 512,      COUNTED, USER, VECTOR,
     {{2, 1024,      0, 1, 1, 0, 8,     4}, {2, 1024,      0, 1, 1, 0, 8,     0}}},
    {TUTTI_ALLREDUCE, "direct", 64 << 10, COUNTED, USER, VECTOR,
     {{2, 128 << 10, 0, 1, 1, 0, 1024,  4}, {2, 128 << 10, 0, 1, 1, 0, 1024,  0}}},
    {TUTTI_ALLREDUCE, "direct", 64 << 10, COUNTED, HEAP, VECTOR,
     {{2, 128 << 10, 0, 1, 1, 0, 0,     4}, {2, 128 << 10, 0, 1, 1, 0, 0,     0}}},
    {TUTTI_ALLREDUCE, "direct", 64 << 10, COUNTED, USER, ROWS,
     {{2, 128 << 10, 0, 1, 1, 0, 1024,  4}, {2, 128 << 10, 0, 1, 1, 0, 1024,  0}}},
    {TUTTI_ALLREDUCE, "direct", 64 << 10, COUNTED, HEAP, ROWS,
     {{2, 128 << 10, 0, 1, 1, 0, 0,     4}, {2, 128 << 10, 0, 1, 1, 0, 0,     0}}},
    {TUTTI_ALLREDUCE, "direct", 64 << 10, COUNTED, USER, TILES,
     {{2, 128 << 10, 1, 1, 1, 0, 1024,  4}, {2, 128 << 10, 1, 1, 1, 0, 1024,  0}}},
    {TUTTI_ALLREDUCE, "ring",   1 << 20,  COUNTED, HEAP, TILES,
     {{4, 2 << 20,   1, 8, 1, 0, 16384, 4}, {4, 2 << 20,   1, 8, 1, 0, 16384, 0}}},
    {TUTTI_ALLREDUCE, "ring",   1 << 20,  COUNTED, USER, VECTOR,
     {{4, 2 << 20,   0, 8, 1, 0, 16384, 4}, {4, 2 << 20,   0, 8, 1, 0, 16384, 0}}},
    {TUTTI_ALLREDUCE, "ring",   1 << 20,  COUNTED, HEAP, VECTOR,
     {{4, 2 << 20,   0, 2, 1, 1, 0,     4}, {4, 2 << 20,   0, 2, 1, 1, 0,     0}}},
    {TUTTI_BROADCAST, "direct", 64 << 10, COUNTED, HEAP, VECTOR,
     {{1, 64 << 10,  0, 1, 1, 1, 0,     4}, {1, 64 << 10,  0, 0, 0, 0, 0,     0}}},
    {TUTTI_BROADCAST, "direct", 4 << 20,  COUNTED, HEAP, VECTOR,
     {{1, 4 << 20,   0, 1, 1, 1, 0,     4}, {1, 4 << 20,   0, 0, 0, 0, 0,     0}}},

    {.how = COUNTERS, .expected = {{[ALLOCATIONS] = 2, [SYSTEM_CALL] = SYS_sched_yield}}},
};
/* clang-format on */

/* Returns the name of a row, in memory that the next call overwrites. */
static const char *name_of(const struct subject *s) {
  static char name[128];
  if (s->how == COUNTERS) return hows[COUNTERS];
  snprintf(name, sizeof name, "%s of %zu B%s%s (%s)", tutti_collective_name(s->collective), s->bytes,
           layouts[s->layout], memories[s->memory], hows[s->how]);
  return name;
}

/* Marks all counts as not measured. */
static void clear(int64_t found[WHATS]) {
  for (int w = 0; w < WHATS; w++) found[w] = UNCHECKED;
}

/* Compares the counts of one rank with its row. `call` is the number of the call for the message. */
static void check_counts(const struct subject *s, uint32_t rank, long long call, const int64_t found[WHATS]) {
  for (int w = 0; w < WHATS; w++) {
    int64_t expected = s->expected[rank][w];
    CHECK(found[w] == expected || found[w] == UNCHECKED || expected == UNCHECKED,
          "%s: rank %u, call %lld: %s: expected %lld, found %lld", name_of(s), rank, call, whats[w],
          (long long)expected, (long long)found[w]);
  }
}

/* Runs the rows that are measured this way. */
static void run_rows(enum how how, void (*run)(const struct subject *s)) {
  for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++)
    if (subjects[i].how == how) run(&subjects[i]);
}

/* ---- system calls ---- */

static struct ranks_world *here;
static uint32_t here_rank;

/* Indices of shared->numbers, where the ranks report. */
enum { ALLOCATED = 0, CALLED = 2, ROUNDS_DONE = 4, WRONG = 6 };

static void on_system_call(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)context;
  here->shared->numbers[CALLED + here_rank] = (uint64_t)info->si_syscall + 1;
  _exit(3);
}

/* After this, the process may make no system call except exit_group. */
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

/* ---- one rank ---- */

/* Returns the number of calls to make; a run of fewer calls fails. */
static int rounds_of(const struct subject *s) { return (int)s->expected[0][ROUNDS]; }

static tutti_err call_named(tutti_comm *world, const tutti_call *call) {
  switch (call->collective) {
    case TUTTI_ALLREDUCE: return tutti_allreduce(world, call->send, call->recv, call->count, call->type, call->op);
    case TUTTI_ALLGATHERV: return tutti_allgatherv(world, call->send, call->recv, call->counts, NULL, call->type);
    case TUTTI_BROADCAST: return tutti_broadcast(world, call->recv, call->count, call->type, call->root);
    default: return tutti_barrier(world);
  }
}

static void note_part(void *context, size_t first, size_t count) {
  (void)first;
  *(size_t *)context += count;
}

static bool fresh_round(tutti_comm *world, const tutti_call *call) {
  tutti_comm *comm;
  return tutti_comm_dup(world, &comm) == TUTTI_OK && call_named(comm, call) == TUTTI_OK &&
         tutti_comm_free(comm) == TUTTI_OK;
}

static bool one_round(tutti_comm *world, const tutti_call *call, enum how how, tutti_request *request) {
  tutti_request *own = NULL;
  if (how == FRESH) return fresh_round(world, call);
  if (how == BLOCKING) return call_named(world, call) == TUTTI_OK;
  if (how == RUN_CALL) return tutti_run_call(world, call) == TUTTI_OK;
  if (how == IN_PARTS)
    return tutti_restart(request) == TUTTI_OK && tutti_request_fill(request, 9, call->count - 9) == TUTTI_OK &&
           tutti_request_fill(request, 0, 9) == TUTTI_OK && tutti_wait(&request) == TUTTI_OK;
  if (how == PERSISTENT) return tutti_restart(request) == TUTTI_OK && tutti_wait(&request) == TUTTI_OK;
  return tutti_start(world, call, &own) == TUTTI_OK && tutti_wait(&own) == TUTTI_OK;
}

/* Makes a tensor of the same items. */
static void make_tensor(tutti_tensor *t, enum layout layout, double *data, size_t items) {
  const size_t shape[] = {items / 32, 32};
  const tutti_tensor_of of = {.data = data, .type = TUTTI_F64, .dims = 2, .shape = shape};
  tutti_err err = layout == ROWS ? tutti_tensor_strided(t, of, NULL)
                                 : tutti_tensor_interleaved(t, of, &(tutti_tiles){32, 32, 16, 16}, 1);
  if (err != TUTTI_OK) _exit(1);
}

static tutti_call describe(tutti_collective collective, enum layout layout, double *in, double *out, size_t items,
                           tutti_tensor tensors[2]) {
  if (layout == VECTOR)
    return (tutti_call){.collective = collective, .send = in, .recv = out, .count = items, .type = TUTTI_F64};
  make_tensor(&tensors[0], layout, in, items);
  make_tensor(&tensors[1], layout, out, items);
  return (tutti_call){.collective = collective, .in = &tensors[0], .out = &tensors[1]};
}

static double *make_buffer(tutti_comm *world, size_t items, enum memory kind) {
  bool heap = kind == HEAP;
  void *memory = heap ? NULL : malloc(items * 8 + 8);
  if (heap && tutti_alloc(world, items * 8 + 8, &memory) != TUTTI_OK) printf("  %s\n", tutti_error_message(NULL));
  if (!memory) _exit(1);
  return memset(memory, 0, items * 8 + 8);
}

static int hot(struct ranks_world *w, uint32_t rank) {
  const struct subject *s = w->context;
  here = w;
  here_rank = rank;
  setenv("TUTTI_SPIN_US", "1000000000", 1); /* so that no rank sleeps, even on a busy machine */
  tutti_comm *world;
  if (tutti_init(NULL, &world) != TUTTI_OK) {
    printf("  init: %s\n", tutti_error_message(NULL));
    return 1;
  }
  size_t items = s->bytes / 8;
  double *in = make_buffer(world, items, s->memory), *out = make_buffer(world, items, s->memory);
  tutti_tensor tensors[2];
  tutti_call call = describe(s->collective, s->layout, in, out, items, tensors);
  const size_t counts[2] = {1, items};
  if (s->collective == TUTTI_ALLGATHERV) call.counts = counts;
  size_t told = 0;
  if (s->how == IN_PARTS) call.in_parts = true, call.on_ready = note_part, call.on_ready_context = &told;
  tutti_request *request = NULL;
  if ((s->how == PERSISTENT || s->how == IN_PARTS) && tutti_prepare(world, &call, &request) != TUTTI_OK) return 1;
  for (int k = 0; k < rounds_of(s) / 5; k++)
    if (!one_round(world, &call, s->how, request)) return 1;
  if (!forbid_system_calls()) return 77;
  allocations = 0;
  counting = true;
  for (int k = 0; k < rounds_of(s); k++) {
    if (items) in[items - 1] = k + 1;
    if (!one_round(world, &call, s->how, request)) _exit(1);
    if (s->collective == TUTTI_ALLREDUCE && items && out[items - 1] < 2 * (k + 1) - 0.5)
      w->shared->numbers[WRONG + rank]++;
    if (s->collective == TUTTI_ALLGATHERV && out[items] < k + 0.5) w->shared->numbers[WRONG + rank]++;
    w->shared->numbers[ROUNDS_DONE + rank]++;
  }
  counting = false;
  int rounds = rounds_of(s) / 5 + rounds_of(s);
  if (s->how == IN_PARTS && told != items * (size_t)rounds) w->shared->numbers[WRONG + rank]++;
  w->shared->numbers[ALLOCATED + rank] = allocations;
  _exit(0);
}

static void run_hot(const struct subject *s) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
    SKIP("needs two CPUs, as ranks sleep otherwise");
    return;
  }
  struct ranks_world w = {.context = s};
  ranks_start(&w, 2, hot);
  bool in_time = ranks_end(&w, 25000);
  _Atomic uint64_t *n = w.shared->numbers;
  /* If one rank was ended at a system call, the other waits forever. */
  bool called = n[CALLED] || n[CALLED + 1];
  CHECK(in_time || called, "%s: hangs after %llu and %llu calls", name_of(s), (unsigned long long)n[ROUNDS_DONE],
        (unsigned long long)n[ROUNDS_DONE + 1]);
  for (uint32_t r = 0; r < 2; r++) {
    if (in_time && WIFEXITED(w.status[r]) && WEXITSTATUS(w.status[r]) == 77) {
      SKIP("this system has no seccomp filters");
      break;
    }
    int64_t found[WHATS];
    clear(found);
    found[SYSTEM_CALL] = (int64_t)n[CALLED + r] - 1;
    found[ALLOCATIONS] = (int64_t)n[ALLOCATED + r];
    found[WRONG_RESULTS] = (int64_t)n[WRONG + r];
    if (!called) found[ROUNDS] = (int64_t)n[ROUNDS_DONE + r], found[EXIT_STATUS] = w.status[r];
    check_counts(s, r, (long long)n[ROUNDS_DONE + r], found);
  }
  ranks_fini(&w);
}

static void persistent_calls(void) {
  run_rows(PERSISTENT, run_hot);
  run_rows(IN_PARTS, run_hot);
}
static void repeated_calls(void) { run_rows(STARTED, run_hot); }
static void blocking_calls(void) {
  run_rows(BLOCKING, run_hot);
  run_rows(RUN_CALL, run_hot);
}
static void fresh_communicators(void) { run_rows(FRESH, run_hot); }

/* ---- cache lines that one call changes ---- */

struct snapshot {
  const struct tu_transport *t;
  unsigned char *copy; /* copy of the slice from its begin to the end of used memory; free memory is not copied */
  size_t bytes;
};

static void take_snapshot(struct snapshot *s, const struct tu_transport *t) {
  uint64_t begin = t->rank * (uint64_t)t->slice_bytes;
  s->t = t;
  for (const struct tu_range *r = t->ranges; r; r = r->next)
    if (r->used) s->bytes = (size_t)(r->offset + r->bytes - begin);
  if (!s->copy) s->copy = malloc(s->bytes);
  if (!s->copy) abort();
  memcpy(s->copy, t->base + begin, TU_HEAD_BYTES);
  for (const struct tu_range *r = t->ranges; r; r = r->next)
    if (r->used) memcpy(s->copy + (r->offset - begin), t->base + r->offset, r->bytes);
}

static int64_t count_changed(const struct snapshot *s, uint64_t offset, size_t bytes) {
  uint64_t begin = s->t->rank * (uint64_t)s->t->slice_bytes;
  int64_t changed = 0;
  for (uint64_t at = offset; at < offset + bytes; at += TU_LINE_BYTES)
    changed += memcmp(s->copy + (at - begin), s->t->base + at, TU_LINE_BYTES) != 0;
  return changed;
}

static void count_channel(const struct snapshot *s, const struct tu_range *range, int64_t found[WHATS]) {
  size_t credit_at = sizeof(struct tu_announced), posts_at = credit_at + offsetof(struct tu_credit_line, posts);
  size_t lines_at = credit_at + sizeof(struct tu_credit_line),
         far_at = credit_at + offsetof(struct tu_credit_line, far);
  /* Not the line of `far`: it depends on time. */
  found[CREDITS] += count_changed(s, range->offset, far_at);
  found[POSTS] += count_changed(s, range->offset + posts_at, lines_at - posts_at);
  found[LINES] += count_changed(s, range->offset + lines_at, range->bytes - lines_at);
}

/* A rank adds to how long it has waited for others after a ms of waiting: on a busy machine, that may be in any call. */
static int64_t count_told_waits(const struct snapshot *s, const struct tu_range *block, uint32_t ranks) {
  return count_changed(s, block->offset + tu_block_awaited_at(ranks), ranks * sizeof(uint64_t));
}

/* The first rank's head says how the host overwrites lines. That is measured, so it may change in any call. */
static int64_t count_told_fills(const struct snapshot *s) {
  const size_t at = offsetof(struct tu_slice_head, fills_fast) / TU_LINE_BYTES * TU_LINE_BYTES;
  return count_changed(s, s->t->rank * (uint64_t)s->t->slice_bytes + at, TU_LINE_BYTES);
}

/* Counts the cache lines of this rank's slice that have changed since the snapshot. */
static void compare(const struct snapshot *s, const tutti_comm *world, const double *in, const double *out,
                    int64_t found[WHATS]) {
  const struct tu_mover *m = world->mover;
  const struct tu_transport *t = world->transport;
  for (int w = LINES; w <= OTHERS; w++) found[w] = 0;
  found[OTHERS] = count_changed(s, t->rank * (uint64_t)t->slice_bytes, TU_HEAD_BYTES) - count_told_fills(s);
  for (const struct tu_range *r = t->ranges; r; r = r->next) {
    const void *memory = tu_transport_at(t, r->offset);
    bool is_channel = false, is_ring = m->cast && m->cast->staging.offset == r->offset;
    if (!r->used || memory == in || memory == out) continue;
    for (uint32_t i = 0; i < tu_mover_channels(m); i++) {
      const struct tu_sender *sender = tu_mover_nth_sender(m, i);
      is_channel |= sender && sender->offset == r->offset;
      is_ring |= sender && sender->staging.offset == r->offset;
    }
    int64_t changed = count_changed(s, r->offset, r->bytes);
    if (is_channel) count_channel(s, r, found);
    else if (is_ring) found[STAGED] += changed;
    else if (m->control.offset == r->offset) found[BOARDS] += changed - count_told_waits(s, r, world->ranks);
    else found[OTHERS] += changed;
  }
}

/* Waits for all ranks without the library. */
static void meet(struct ranks_world *w) {
  uint64_t before = atomic_fetch_add(&w->shared->numbers[0], 1), all = (before / w->ranks + 1) * w->ranks;
  while (atomic_load(&w->shared->numbers[0]) < all) ranks_sleep_us(50);
}

/* Counts what the program of the call does. */
static void count_program(const struct subject *s, const tutti_comm *world, int64_t found[WHATS]) {
  const tutti_request *r = world->idle;
  for (size_t i = 0; i < TU_AGAIN_PLACES; i++)
    if (world->again[i]) r = world->again[i];
  found[INSTRUCTIONS] = r->program->instruction_count;
  found[MOVED_BYTES] = (int64_t)r->program->moved_bytes;
  found[PACKED] = r->program->folded;
  if (s->layout == VECTOR) return;
  found[WHOLE_TENSOR] = (int64_t)r->program->tmp_bytes;
  if (r->execution.fold_bytes > 4096) found[WHOLE_TENSOR] += (int64_t)r->execution.fold_bytes;
}

static int touch(struct ranks_world *w, uint32_t rank) {
  const struct subject *s = w->context;
  enum { CALLS = 12, WARM_UP = 40 /* all entries of the boards have been used, and rings of 2 MiB have wrapped */ };
  struct snapshot snapshot = {0};
  tutti_comm *world;
  test_failures = 0;                        /* failures of earlier subjects do not count for this rank */
  setenv("TUTTI_SPIN_US", "1000000000", 1); /* so that no rank sleeps, and no bell is written */
  char algorithm[64];
  snprintf(algorithm, sizeof algorithm, "%s=%s", tutti_collective_name(s->collective), s->algorithm);
  setenv("TUTTI_ALGORITHM", algorithm, 1);
  if (tutti_init(NULL, &world) != TUTTI_OK) {
    printf("  init: %s\n", tutti_error_message(NULL));
    return 1;
  }
  size_t items = s->bytes / 8;
  double *in = make_buffer(world, items, s->memory), *out = make_buffer(world, items, s->memory);
  tutti_tensor tensors[2];
  const tutti_call call = describe(s->collective, s->layout, in, out, items, tensors);
  for (int round = -WARM_UP; round < CALLS; round++) {
    /* Every line gets content different from its last. */
    for (size_t i = 0; i < items; i++)
      (s->collective == TUTTI_BROADCAST ? out : in)[i] = (round + 1000) * 1e7 + (double)i;
    if (round >= 0) meet(w), take_snapshot(&snapshot, world->transport), meet(w);
    if (!one_round(world, &call, s->layout == VECTOR ? BLOCKING : STARTED, NULL)) return 1;
    if (round < 0) continue;
    meet(w);
    int64_t found[WHATS];
    clear(found);
    compare(&snapshot, world, in, out, found);
    count_program(s, world, found);
    if (!test_failures)
      check_counts(s, rank, round, found); /* continues after a failure, as the other rank waits for this one */
    meet(w);
  }
  return test_failures ? 1 : 0;
}

static void run_counted(const struct subject *s) {
  struct ranks_world w = {.context = s};
  ranks_start(&w, 2, touch);
  CHECK(ranks_end(&w, 25000), "%s: hangs", name_of(s));
  for (uint32_t r = 0; r < 2; r++)
    CHECK(w.status[r] == 0, "%s: rank %u ended with status %x", name_of(s), r, (unsigned)w.status[r]);
  ranks_fini(&w);
}

static void counted_calls(void) { run_rows(COUNTED, run_counted); }

/* Checks that allocations and system calls are counted at all. */
static void run_counters(const struct subject *s) {
  int64_t found[WHATS];
  clear(found);
  counting = true;
  void *volatile memory = malloc(10);
  free(memory);
  counting = false;
  found[ALLOCATIONS] = (int64_t)allocations;
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
  if (WEXITSTATUS(w.status[0]) != 77) found[SYSTEM_CALL] = (int64_t)w.shared->numbers[CALLED] - 1;
  check_counts(s, 0, 0, found);
  ranks_fini(&w);
}

static void counters_count(void) { run_rows(COUNTERS, run_counters); }

int main(int argc, char **argv) {
  const struct test tests[] = {{"counters_count", counters_count},           {"persistent_calls", persistent_calls},
                               {"repeated_calls", repeated_calls},           {"blocking_calls", blocking_calls},
                               {"fresh_communicators", fresh_communicators}, {"counted_calls", counted_calls}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
#endif
