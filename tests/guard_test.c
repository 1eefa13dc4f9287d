/* test: fast */
/* guard_test.c: the hot path, guarded by what can be counted. Between start and wait nothing is allocated, and no system call
 * is made when nothing has to sleep: this program counts allocations itself, and a seccomp filter turns every system call
 * into its end. And one call more has just so many instructions, moves so many bytes, and writes so many cache lines of shared
 * memory: those in which what a rank owns differs afterwards. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>

#include <tutti/tensor.h>

#include "api/comm.h"
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

enum how { PERSISTENT, STARTED, BLOCKING, IN_PARTS /* persistent */, FRESH /* in a communicator for it alone */ };
enum layout { VECTOR, ROWS, TILES };
struct subject {
  const char *name;
  tutti_collective collective;
  size_t bytes;
  enum how how;
  bool heap;
  enum layout layout;
};

enum { ROUNDS_MAX = 1000, LONG_ROUNDS = 100, LONG_BYTES = 64 << 10 };
static int rounds_of(const struct subject *s) { return s->bytes >= LONG_BYTES ? LONG_ROUNDS : ROUNDS_MAX; }

static tutti_err call_named(tutti_comm *world, const tutti_call *call) {
  switch (call->collective) {
    case TUTTI_ALLREDUCE: return tutti_allreduce(world, call->send, call->recv, call->count, call->type, call->op);
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
  if (how == IN_PARTS)
    return tutti_restart(request) == TUTTI_OK && tutti_request_fill(request, 9, call->count - 9) == TUTTI_OK &&
           tutti_request_fill(request, 0, 9) == TUTTI_OK && tutti_wait(&request) == TUTTI_OK;
  if (how == PERSISTENT) return tutti_restart(request) == TUTTI_OK && tutti_wait(&request) == TUTTI_OK;
  return tutti_start(world, call, &own) == TUTTI_OK && tutti_wait(&own) == TUTTI_OK;
}

/* The same items as a tensor. */
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

static double *make_buffer(tutti_comm *world, size_t items, bool heap) {
  void *memory = heap ? NULL : malloc(items * 8 + 8);
  if (heap && tutti_alloc(world, items * 8 + 8, &memory) != TUTTI_OK) printf("  %s\n", tutti_error_message(NULL));
  if (!memory) _exit(1);
  return memset(memory, 0, items * 8 + 8);
}

static int hot(struct ranks_world *w, uint32_t rank) {
  const struct subject *s = w->context;
  here = w;
  here_rank = rank;
  setenv("TUTTI_SPIN_US", "1000000000", 1); /* on a busy machine too, nothing has to sleep */
  tutti_comm *world;
  if (tutti_init(NULL, &world) != TUTTI_OK) {
    printf("  init: %s\n", tutti_error_message(NULL));
    return 1;
  }
  size_t items = s->bytes / 8;
  double *in = make_buffer(world, items, s->heap), *out = make_buffer(world, items, s->heap);
  tutti_tensor tensors[2];
  tutti_call call = describe(s->collective, s->layout, in, out, items, tensors);
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
    w->shared->numbers[ROUNDS_DONE + rank]++;
  }
  counting = false;
  int rounds = rounds_of(s) / 5 + rounds_of(s);
  if (s->how == IN_PARTS && told != items * (size_t)rounds) w->shared->numbers[WRONG + rank]++;
  w->shared->numbers[ALLOCATED + rank] = allocations;
  _exit(0);
}

static void run_subject(const struct subject *s) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
    SKIP("needs two CPUs, or somebody has to sleep");
    return;
  }
  struct ranks_world w = {.context = s};
  ranks_start(&w, 2, hot);
  bool in_time = ranks_end(&w, 25000);
  _Atomic uint64_t *n = w.shared->numbers;
  for (uint32_t r = 0; r < 2 && in_time; r++) {
    if (WIFEXITED(w.status[r]) && WEXITSTATUS(w.status[r]) == 77) {
      SKIP("this system has no seccomp filters");
      break;
    }
    CHECK(n[CALLED + r] == 0, "%s: rank %u made system call %llu after %llu rounds", s->name, r,
          (unsigned long long)n[CALLED + r] - 1, (unsigned long long)n[ROUNDS_DONE + r]);
    CHECK(n[CALLED] || n[CALLED + 1] || n[ROUNDS_DONE + r] == (uint64_t)rounds_of(s),
          "%s: rank %u ended with status %d after %llu rounds", s->name, r, w.status[r],
          (unsigned long long)n[ROUNDS_DONE + r]);
    CHECK(n[ALLOCATED + r] == 0 || s->how == FRESH, "%s: rank %u allocated or freed %llu times in %d rounds", s->name,
          r, (unsigned long long)n[ALLOCATED + r], rounds_of(s));
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
  const struct subject subjects[] = {
      {"allreduce of 8 B", TUTTI_ALLREDUCE, 8, PERSISTENT, false, VECTOR},
      {"allreduce of 64 KiB", TUTTI_ALLREDUCE, 65536, PERSISTENT, false, VECTOR},
      {"allreduce of 64 KiB in parts", TUTTI_ALLREDUCE, 65536, IN_PARTS, false, VECTOR},
      {"barrier", TUTTI_BARRIER, 0, PERSISTENT, false, VECTOR},
      {"broadcast of 64 KiB", TUTTI_BROADCAST, 65536, PERSISTENT, false, VECTOR},
      {"allreduce of 1 MiB in the heap", TUTTI_ALLREDUCE, 1 << 20, PERSISTENT, true, VECTOR},
      {"allreduce of 64 KiB, rows", TUTTI_ALLREDUCE, 65536, PERSISTENT, false, ROWS},
      {"allreduce of 64 KiB, tiles", TUTTI_ALLREDUCE, 65536, PERSISTENT, false, TILES},
      {"allreduce of 1 MiB, tiles", TUTTI_ALLREDUCE, 1 << 20, PERSISTENT, false, TILES}};
  for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++) run_subject(&subjects[i]);
}

/* An ordinary call that repeats an earlier one: nothing either. */
static void repeated_calls(void) {
  const struct subject subjects[] = {
      {"allreduce of 8 B", TUTTI_ALLREDUCE, 8, STARTED, false, VECTOR},
      {"scan of 4 KiB", TUTTI_SCAN, 4096, STARTED, false, VECTOR},
      {"allreduce of 8 KiB, rows", TUTTI_ALLREDUCE, 8192, STARTED, false, ROWS},
      {"allreduce of 8 KiB, tiles", TUTTI_ALLREDUCE, 8192, STARTED, false, TILES},
      {"allreduce of 64 KiB in the heap", TUTTI_ALLREDUCE, 65536, STARTED, true, VECTOR}};
  for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++) run_subject(&subjects[i]);
}

/* ... and one that waits at once, which may go straight. */
static void blocking_calls(void) {
  const struct subject subjects[] = {
      {"allreduce of 8 B", TUTTI_ALLREDUCE, 8, BLOCKING, false, VECTOR},
      {"allreduce of 512 B", TUTTI_ALLREDUCE, 512, BLOCKING, false, VECTOR},
      {"allreduce of 512 B in the heap", TUTTI_ALLREDUCE, 512, BLOCKING, true, VECTOR},
      {"allreduce of 64 KiB", TUTTI_ALLREDUCE, 65536, BLOCKING, false, VECTOR},
      {"barrier", TUTTI_BARRIER, 0, BLOCKING, false, VECTOR},
      {"broadcast of 64 KiB in the heap", TUTTI_BROADCAST, 65536, BLOCKING, true, VECTOR},
      {"allreduce of 1 MiB in the heap", TUTTI_ALLREDUCE, 1 << 20, BLOCKING, true, VECTOR}};
  for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++) run_subject(&subjects[i]);
}

/* A communicator is made, used once and freed, over and over: what it needs of the shared memory has been there since the
 * first ones. */
static void fresh_communicators(void) {
  const struct subject subjects[] = {
      {"dup, allreduce of 8 B and free", TUTTI_ALLREDUCE, 8, FRESH, false, VECTOR},
      {"dup, barrier and free", TUTTI_BARRIER, 0, FRESH, false, VECTOR},
      {"dup, allreduce of 64 KiB and free", TUTTI_ALLREDUCE, 65536, FRESH, false, VECTOR}};
  for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++) run_subject(&subjects[i]);
}

/* ---- what one call touches ---- */

/* Lines of a rank's slice in which one call has changed something; of its user's buffers only those beside the result. */
struct touched {
  uint64_t lines;   /* of its channels: one a slice that it sends */
  uint64_t credits; /* ... which its peers write */
  uint64_t posts;   /* ... where they want to have messages stored */
  uint64_t staged;  /* of its rings */
  uint64_t boards;  /* of the leader: everybody's calls */
  uint64_t others;
};

struct counted {
  const char *name;
  tutti_collective collective;
  const char *algorithm;
  size_t bytes;
  bool heap;
  uint32_t instructions[2];
  size_t moved_bytes[2];
  struct touched touched[2];
  enum layout layout;
};

struct snapshot {
  const struct tu_transport *t;
  unsigned char *copy; /* of the slice's first bytes, up to the end of what is in use; what is free is not looked at */
  size_t bytes;
};

static void take_snapshot(struct snapshot *s, const struct tu_transport *t) {
  uint64_t begin = t->rank * (uint64_t)t->slice_bytes;
  s->t = t;
  for (const struct tu_range *r = t->ranges; r; r = r->next)
    if (r->used) s->bytes = (size_t)(r->place + r->bytes - begin);
  if (!s->copy) s->copy = malloc(s->bytes);
  if (!s->copy) abort();
  memcpy(s->copy, t->base + begin, TU_HEAD_BYTES);
  for (const struct tu_range *r = t->ranges; r; r = r->next)
    if (r->used) memcpy(s->copy + (r->place - begin), t->base + r->place, r->bytes);
}

static uint64_t count_changed(const struct snapshot *s, uint64_t place, size_t bytes) {
  uint64_t begin = s->t->rank * (uint64_t)s->t->slice_bytes, changed = 0;
  for (uint64_t at = place; at < place + bytes; at += TU_LINE_BYTES)
    changed += memcmp(s->copy + (at - begin), s->t->base + at, TU_LINE_BYTES) != 0;
  return changed;
}

static void count_channel(const struct snapshot *s, const struct tu_range *range, struct touched *touched) {
  size_t credit_at = sizeof(struct tu_announced), posts_at = credit_at + offsetof(struct tu_credit_line, posts);
  size_t lines_at = credit_at + sizeof(struct tu_credit_line);
  touched->credits += count_changed(s, range->place, posts_at);
  touched->posts += count_changed(s, range->place + posts_at, lines_at - posts_at);
  touched->lines += count_changed(s, range->place + lines_at, range->bytes - lines_at);
}

static struct touched compare(const struct snapshot *s, const tutti_comm *world, const double *in, const double *out) {
  const struct tu_mover *m = world->mover;
  const struct tu_transport *t = world->transport;
  struct touched touched = {.others = count_changed(s, t->rank * (uint64_t)t->slice_bytes, TU_HEAD_BYTES)};
  for (const struct tu_range *r = t->ranges; r; r = r->next) {
    const void *memory = tu_transport_at(t, r->place);
    bool is_channel = false, is_ring = m->cast && m->cast->staging.place == r->place;
    if (!r->used || memory == in || memory == out) continue;
    for (uint32_t i = 0; i < tu_mover_channels(m); i++) {
      const struct tu_sender *sender = tu_mover_nth_sender(m, i);
      is_channel |= sender && sender->place == r->place;
      is_ring |= sender && sender->staging.place == r->place;
    }
    uint64_t changed = count_changed(s, r->place, r->bytes);
    if (is_channel) count_channel(s, r, &touched);
    else if (is_ring) touched.staged += changed;
    else if (m->control.place == r->place) touched.boards += changed;
    else touched.others += changed;
  }
  return touched;
}

/* Not by the library. */
static void meet(struct ranks_world *w) {
  uint64_t before = atomic_fetch_add(&w->shared->numbers[0], 1), all = (before / w->ranks + 1) * w->ranks;
  while (atomic_load(&w->shared->numbers[0]) < all) ranks_sleep_us(50);
}

static void check_touched(const struct counted *c, uint32_t rank, int round, const struct touched *is) {
  const struct touched *wanted = &c->touched[rank];
  CHECK(
      memcmp(is, wanted, sizeof *is) == 0,
      "%s, rank %u, call %d: lines, credits, posts, staged, boards, others: %llu %llu %llu %llu %llu %llu, wanted %llu "
      "%llu %llu %llu %llu %llu",
      c->name, rank, round, (unsigned long long)is->lines, (unsigned long long)is->credits,
      (unsigned long long)is->posts, (unsigned long long)is->staged, (unsigned long long)is->boards,
      (unsigned long long)is->others, (unsigned long long)wanted->lines, (unsigned long long)wanted->credits,
      (unsigned long long)wanted->posts, (unsigned long long)wanted->staged, (unsigned long long)wanted->boards,
      (unsigned long long)wanted->others);
}

static void check_program(const struct counted *c, uint32_t rank, const tutti_comm *world) {
  const tutti_request *again = world->again[c->collective], *r = again ? again : world->idle;
  CHECK(r->program->instruction_count == c->instructions[rank], "%s, rank %u: %u instructions, not %u", c->name, rank,
        r->program->instruction_count, c->instructions[rank]);
  CHECK(r->program->moved_bytes == c->moved_bytes[rank], "%s, rank %u: %zu bytes are moved, not %zu", c->name, rank,
        r->program->moved_bytes, c->moved_bytes[rank]);
  CHECK(r->program->folded == (c->layout == TILES), "%s, rank %u: %s", c->name, rank,
        r->program->folded ? "is packed on the way" : "is not packed");
  /* There is no place for a second copy of a tensor: a few KiB for each operand that are packed at a time. */
  CHECK(c->layout == VECTOR || (r->program->tmp_bytes == 0 && r->execution.fold_bytes <= 4096), "%s: scratch", c->name);
}

static int touch(struct ranks_world *w, uint32_t rank) {
  const struct counted *c = w->context;
  enum { CALLS = 12, WARM_UP = 24 /* the boards have been round */ };
  struct snapshot snapshot = {0};
  tutti_comm *world;
  test_failures = 0;                        /* those of earlier subjects are not this rank's */
  setenv("TUTTI_SPIN_US", "1000000000", 1); /* nobody sleeps: no bell is touched */
  setenv("TUTTI_ALGORITHM", c->algorithm, 1);
  if (tutti_init(NULL, &world) != TUTTI_OK) {
    printf("  init: %s\n", tutti_error_message(NULL));
    return 1;
  }
  size_t items = c->bytes / 8;
  double *in = make_buffer(world, items, c->heap), *out = make_buffer(world, items, c->heap);
  tutti_tensor tensors[2];
  const tutti_call call = describe(c->collective, c->layout, in, out, items, tensors);
  for (int round = -WARM_UP; round < CALLS; round++) {
    /* No line holds what it held before. */
    for (size_t i = 0; i < items; i++)
      (c->collective == TUTTI_BROADCAST ? out : in)[i] = (round + 1000) * 1e7 + (double)i;
    if (round >= 0) meet(w), take_snapshot(&snapshot, world->transport), meet(w);
    if (!one_round(world, &call, c->layout == VECTOR ? BLOCKING : STARTED, NULL)) return 1;
    if (round < 0) continue;
    meet(w);
    struct touched touched = compare(&snapshot, world, in, out);
    if (!test_failures) check_touched(c, rank, round, &touched); /* goes on: the other one waits for this rank */
    meet(w);
  }
  check_program(c, rank, world);
  return test_failures ? 1 : 0;
}

static void counted_calls(void) {
  /* A message a slice: its line at the sender, the credit's beside it; 64 KiB are 1,024 lines. 1 MiB by ring are two halves, 8
   * slices of 128 KiB that use all 8 lines, or one slice each where they need no staging. Each rank notes the call, and its
   * number, on the board at rank 0. */
  static const struct counted subjects[] = {
      {"barrier",
       TUTTI_BARRIER,
       "barrier=direct",
       0,
       false,
       {2, 2},
       {0, 0},
       {{1, 1, 0, 0, 4, 0}, {1, 1, 0, 0, 0, 0}},
       VECTOR},
      {"allreduce of 8 B",
       TUTTI_ALLREDUCE,
       "allreduce=direct",
       8,
       false,
       {2, 2},
       {16, 16},
       {{1, 1, 0, 0, 4, 0}, {1, 1, 0, 0, 0, 0}},
       VECTOR},
      {"allreduce of 8 B in the heap",
       TUTTI_ALLREDUCE,
       "allreduce=direct",
       8,
       true,
       {2, 2},
       {16, 16},
       {{1, 1, 0, 0, 4, 0}, {1, 1, 0, 0, 0, 0}},
       VECTOR},
      {"allreduce of 512 B",
       TUTTI_ALLREDUCE,
       "allreduce=direct",
       512,
       false,
       {2, 2},
       {1024, 1024},
       {{1, 1, 0, 8, 4, 0}, {1, 1, 0, 8, 0, 0}},
       VECTOR},
      {"allreduce of 64 KiB",
       TUTTI_ALLREDUCE,
       "allreduce=direct",
       64 << 10,
       false,
       {2, 2},
       {128 << 10, 128 << 10},
       {{1, 1, 0, 1024, 4, 0}, {1, 1, 0, 1024, 0, 0}},
       VECTOR},
      {"allreduce of 64 KiB in the heap",
       TUTTI_ALLREDUCE,
       "allreduce=direct",
       64 << 10,
       true,
       {2, 2},
       {128 << 10, 128 << 10},
       {{1, 1, 0, 0, 4, 0}, {1, 1, 0, 0, 0, 0}},
       VECTOR},
      {"allreduce of 64 KiB, a tensor without gaps",
       TUTTI_ALLREDUCE,
       "allreduce=direct",
       64 << 10,
       false,
       {2, 2},
       {128 << 10, 128 << 10},
       {{1, 1, 0, 1024, 4, 0}, {1, 1, 0, 1024, 0, 0}},
       ROWS},
      {"allreduce of 64 KiB, a tensor without gaps in the heap",
       TUTTI_ALLREDUCE,
       "allreduce=direct",
       64 << 10,
       true,
       {2, 2},
       {128 << 10, 128 << 10},
       {{1, 1, 0, 0, 4, 0}, {1, 1, 0, 0, 0, 0}},
       ROWS},
      {"allreduce of 64 KiB in tiles",
       TUTTI_ALLREDUCE,
       "allreduce=direct",
       64 << 10,
       false,
       {2, 2},
       {128 << 10, 128 << 10},
       {{1, 1, 0, 1024, 4, 0}, {1, 1, 0, 1024, 0, 0}},
       TILES},
      {"allreduce of 1 MiB in tiles, in the heap",
       TUTTI_ALLREDUCE,
       "allreduce=ring",
       1 << 20,
       true,
       {4, 4},
       {2 << 20, 2 << 20},
       {{8, 1, 0, 16384, 4, 0}, {8, 1, 0, 16384, 0, 0}},
       TILES},
      {"allreduce of 1 MiB",
       TUTTI_ALLREDUCE,
       "allreduce=ring",
       1 << 20,
       false,
       {4, 4},
       {2 << 20, 2 << 20},
       {{8, 1, 0, 16384, 4, 0}, {8, 1, 0, 16384, 0, 0}},
       VECTOR},
      {"allreduce of 1 MiB in the heap",
       TUTTI_ALLREDUCE,
       "allreduce=ring",
       1 << 20,
       true,
       {4, 4},
       {2 << 20, 2 << 20},
       {{2, 1, 1, 0, 4, 0}, {2, 1, 1, 0, 0, 0}},
       VECTOR},
      {"broadcast of 64 KiB in the heap",
       TUTTI_BROADCAST,
       "broadcast=direct",
       64 << 10,
       true,
       {1, 1},
       {64 << 10, 64 << 10},
       {{1, 1, 1, 0, 4, 0}, {0, 0, 0, 0, 0, 0}},
       VECTOR},
      {"broadcast of 4 MiB in the heap",
       TUTTI_BROADCAST,
       "broadcast=direct",
       4 << 20,
       true,
       {1, 1},
       {4 << 20, 4 << 20},
       {{1, 1, 1, 0, 4, 0}, {0, 0, 0, 0, 0, 0}},
       VECTOR},
  };
  for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++) {
    struct ranks_world w = {.context = &subjects[i]};
    ranks_start(&w, 2, touch);
    CHECK(ranks_end(&w, 25000), "%s: hangs", subjects[i].name);
    for (uint32_t r = 0; r < 2; r++)
      CHECK(w.status[r] == 0, "%s: rank %u ended with status %x", subjects[i].name, r, (unsigned)w.status[r]);
    ranks_fini(&w);
  }
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
  const struct test tests[] = {{"counters_count", counters_count},           {"persistent_calls", persistent_calls},
                               {"repeated_calls", repeated_calls},           {"blocking_calls", blocking_calls},
                               {"fresh_communicators", fresh_communicators}, {"counted_calls", counted_calls}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
#endif
