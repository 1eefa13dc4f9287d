/* mpi_door_bench.c: measures the collectives of an MPI, as programs call them. tools/bench-mpi runs it with and without
 * the door of tutti. It does not know tutti.
 *
 *   mpirun -n 2 mpi_door_bench COLLECTIVE FORM BYTES TIME_MS
 *     measures one cell for about TIME_MS ms, and prints a line
 *   mpirun -n 2 mpi_door_bench --orders FOLDER MOST_BYTES
 *     measures the cells that come as lines "COLLECTIVE FORM BYTES TIME_MS check|trust" through the pipe
 *     FOLDER/order.RANK, to every rank the same; answers through FOLDER/answer. A rank that waits for an order takes no
 *     CPU time. Before the first answer it has the memory for cells of MOST_BYTES.
 *
 * Line: "COLLECTIVE FORM BYTES US right|wrong|unchecked".
 * - FORM: blocking; nonblocking: start, and wait at once; or after_barrier: a barrier and a blocking call, both timed, with
 *   rank 0 as the root.
 * - COLLECTIVE: also split: MPI_Comm_split, SPLIT_CALLS broadcasts of BYTES on the new communicator, and MPI_Comm_free.
 * - BYTES: of the buffer of a rank in allreduce, reduce, broadcast, scan and split; of the blocks of all ranks otherwise.
 * - US: time of a call in us, median of 3 loops, each with at least one call of each root. Roots rotate, and every
 *   second scan is over the ranks in reverse order. Otherwise the first ranks run ahead, and the loop measures how fast they
 *   send.
 * Below SINGLE_BYTES, US is the time of a loop on the slowest rank. From there on, calls are timed one by one, from when the
 * first rank starts a call until the last rank has ended it. Before each, the rank writes its input and reads its output, as
 * programs do. Otherwise the input of an earlier call is still in the reader's cache, and nothing has to cross if the MPI
 * copies from process to process, as Open MPI does above 4 KiB. All ranks meet in a barrier before and after each call. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES_MAX = 64 << 20, SINGLE_BYTES = 16 << 10, LOOPS = 3, SPLIT_CALLS = 5, ITEM = sizeof(float) };

struct bench {
  int rank, ranks;
  const struct collective *collective;
  bool nonblocking, after_barrier;
  size_t bytes;
  int count;            /* elements of the buffer, or of a block */
  int *counts, *displs; /* [ranks]: blocks of a v-form, in elements; the same for both sides */
  size_t in_count, out_count;
  float *in, *out;
  size_t allocated;  /* bytes of each of them */
  MPI_Comm reversed; /* MPI_COMM_WORLD, in reverse order of ranks */
  bool backwards;    /* the next scan is over `reversed` */
  int turn;          /* the next root */
};

/* ---- the collectives ---- */

#define F32 MPI_FLOAT
#define WORLD MPI_COMM_WORLD

#define DEFINE(Name, name, ...)                                               \
  static void run_##name(struct bench *b, int root) {                         \
    (void)root;                                                               \
    MPI_##Name(__VA_ARGS__);                                                  \
  }                                                                           \
  static void start_##name(struct bench *b, int root, MPI_Request *request) { \
    (void)root;                                                               \
    MPI_I##name(__VA_ARGS__, request);                                        \
  }

DEFINE(Allreduce, allreduce, b->in, b->out, b->count, F32, MPI_SUM, WORLD)
DEFINE(Reduce, reduce, b->in, b->out, b->count, F32, MPI_SUM, root, WORLD)
DEFINE(Bcast, bcast, b->out, b->count, F32, root, WORLD)
DEFINE(Gather, gather, b->in, b->count, F32, b->out, b->count, F32, root, WORLD)
DEFINE(Scatter, scatter, b->in, b->count, F32, b->out, b->count, F32, root, WORLD)
DEFINE(Allgather, allgather, b->in, b->count, F32, b->out, b->count, F32, WORLD)
DEFINE(Allgatherv, allgatherv, b->in, b->counts[b->rank], F32, b->out, b->counts, b->displs, F32, WORLD)
DEFINE(Alltoall, alltoall, b->in, b->count, F32, b->out, b->count, F32, WORLD)
DEFINE(Alltoallv, alltoallv, b->in, b->counts, b->displs, F32, b->out, b->counts, b->displs, F32, WORLD)
DEFINE(Reduce_scatter_block, reduce_scatter_block, b->in, b->out, b->count, F32, MPI_SUM, WORLD)
DEFINE(Scan, scan, b->in, b->out, b->count, F32, MPI_SUM, b->backwards ? b->reversed : WORLD)

static void run_barrier(struct bench *b, int root) {
  (void)b, (void)root;
  MPI_Barrier(WORLD);
}
static void start_barrier(struct bench *b, int root, MPI_Request *request) {
  (void)b, (void)root;
  MPI_Ibarrier(WORLD, request);
}

/* A communicator of all ranks, a few short calls on it, and its end: what programs do that make many communicators. */
static void run_split(struct bench *b, int root) {
  MPI_Comm made;
  MPI_Comm_split(WORLD, 0, b->rank, &made);
  for (int i = 0; i < SPLIT_CALLS; i++) MPI_Bcast(b->out, b->count, F32, root, made);
  MPI_Comm_free(&made);
}

enum kind {
  ALLREDUCE,
  REDUCE,
  BCAST,
  GATHER,
  SCATTER,
  ALLGATHER,
  ALLGATHERV,
  ALLTOALL,
  ALLTOALLV,
  REDUCE_SCATTER,
  SCAN,
  BARRIER,
  SPLIT
};
struct collective {
  const char *name;
  void (*run)(struct bench *b, int root);
  void (*start)(struct bench *b, int root, MPI_Request *request); /* NULL: there is no such form */
  bool in_blocks, out_blocks; /* the buffer holds a block per rank; BYTES counts the blocks of all ranks */
};
static const struct collective collectives[] = {
    [ALLREDUCE] = {"allreduce", run_allreduce, start_allreduce, false, false},
    [REDUCE] = {"reduce", run_reduce, start_reduce, false, false},
    [BCAST] = {"broadcast", run_bcast, start_bcast, false, false},
    [GATHER] = {"gather", run_gather, start_gather, false, true},
    [SCATTER] = {"scatter", run_scatter, start_scatter, true, false},
    [ALLGATHER] = {"allgather", run_allgather, start_allgather, false, true},
    [ALLGATHERV] = {"allgatherv", run_allgatherv, start_allgatherv, false, true},
    [ALLTOALL] = {"alltoall", run_alltoall, start_alltoall, true, true},
    [ALLTOALLV] = {"alltoallv", run_alltoallv, start_alltoallv, true, true},
    [REDUCE_SCATTER] = {"reduce_scatter", run_reduce_scatter_block, start_reduce_scatter_block, true, false},
    [SCAN] = {"scan", run_scan, start_scan, false, false},
    [BARRIER] = {"barrier", run_barrier, start_barrier, false, false},
    [SPLIT] = {"split", run_split, NULL, false, false},
};
enum { KINDS = sizeof collectives / sizeof collectives[0] };

static enum kind kind_of(const struct bench *b) { return (enum kind)(b->collective - collectives); }

/* Returns true if `out` is also the input of the root. */
static bool sends_output(const struct bench *b) { return kind_of(b) == BCAST || kind_of(b) == SPLIT; }

static void operate(struct bench *b, int root) {
  if (!b->nonblocking) {
    b->collective->run(b, root);
    return;
  }
  MPI_Request request;
  b->collective->start(b, root, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void operate_next(struct bench *b) {
  if (b->after_barrier) MPI_Barrier(WORLD);
  operate(b, b->turn);
  if (!b->after_barrier) b->turn = (b->turn + 1) % b->ranks;
  b->backwards = !b->backwards;
}

/* ---- buffers ---- */

/* Elements that rank i sends to rank j in alltoallv, and j to i. In allgatherv, rank j sends count_between(0, j). */
static int count_between(int block, int i, int j) { return (i + j) % 2 == 0 ? block - block / 2 : block + block / 2; }

static int displ_between(int block, int i, int j) {
  int displ = 0;
  for (int k = 0; k < j; k++) displ += count_between(block, i, k);
  return displ;
}

static bool is_v(enum kind kind) { return kind == ALLGATHERV || kind == ALLTOALLV; }

static void abort_without_memory(void) {
  fprintf(stderr, "mpi_door_bench: out of memory\n");
  MPI_Abort(WORLD, 1);
}

/* Makes buffers of at least `most` bytes, those of malloc, as in most programs. */
static void allocate(struct bench *b, size_t most) {
  if (most <= b->allocated) return;
  free(b->in);
  free(b->out);
  b->in = malloc(most);
  b->out = malloc(most);
  b->allocated = most;
  if (!b->in || !b->out) abort_without_memory();
  memset(b->in, 1, most);
  memset(b->out, 1, most); /* or the first call of each root would make the pages of its result, which takes longer */
}

/* Sets the counts of a cell, and makes its buffers. */
static void prepare(struct bench *b) {
  const bool blocks = b->collective->in_blocks || b->collective->out_blocks;
  const enum kind kind = kind_of(b);
  const size_t unit = ITEM * (blocks ? (size_t)b->ranks : 1), count = b->bytes / unit;
  b->count = kind == BARRIER ? 0 : count > 0 ? (int)count : 1;
  const size_t one = (size_t)b->count, all = one * (size_t)b->ranks;
  const int row = kind == ALLTOALLV ? b->rank : 0;
  for (int i = 0; i < b->ranks; i++) {
    b->counts[i] = count_between(b->count, row, i);
    b->displs[i] = displ_between(b->count, row, i);
  }
  const size_t total = (size_t)(b->displs[b->ranks - 1] + b->counts[b->ranks - 1]);
  b->in_count = kind == ALLGATHERV         ? (size_t)b->counts[b->rank]
                : is_v(kind)               ? total
                : b->collective->in_blocks ? all
                                           : one;
  b->out_count = is_v(kind) ? total : b->collective->out_blocks ? all : one;
  allocate(b, ITEM * (b->in_count > b->out_count ? b->in_count : b->out_count));
}

/* ---- checks ---- */

/* Element i of the input of a rank: small integers, so that sums are exact in any order. */
static float value_of(int rank, size_t i) { return (float)(8 * rank + (int)(i % 7)); }

/* Sum of element i of ranks 0 to last. */
static float sum_to(int last, size_t i) {
  float sum = 0;
  for (int r = 0; r <= last; r++) sum += value_of(r, i);
  return sum;
}

static size_t offset_from(const struct bench *b, int rank) {
  if (kind_of(b) == ALLTOALLV) return (size_t)displ_between(b->count, rank, b->rank);
  return kind_of(b) == ALLTOALL ? (size_t)b->rank * (size_t)b->count : 0;
}

static size_t check_sums(const struct bench *b, int last, size_t first) {
  size_t wrong = 0;
  float expected[7];
  for (size_t i = 0; i < 7; i++) expected[i] = sum_to(last, first + i);
  for (size_t i = 0; i < b->out_count; i++) wrong += b->out[i] != expected[i % 7];
  return wrong;
}

/* Checks that the elements from out[at] on are those of a rank's input from `first` on. */
static size_t check_block(const struct bench *b, size_t at, size_t count, int rank, size_t first) {
  size_t wrong = 0;
  for (size_t i = 0; i < count; i++) wrong += b->out[at + i] != value_of(rank, first + i);
  return wrong;
}

static size_t check_blocks(const struct bench *b) {
  const bool v = is_v(kind_of(b));
  size_t wrong = 0;
  for (int r = 0; r < b->ranks; r++) {
    const size_t at = v ? (size_t)b->displs[r] : (size_t)r * (size_t)b->count;
    wrong += check_block(b, at, (size_t)(v ? b->counts[r] : b->count), r, offset_from(b, r));
  }
  return wrong;
}

/* Returns the number of wrong elements of this rank. */
static size_t check_output(const struct bench *b, int root) {
  const size_t own = (size_t)b->rank * (size_t)b->count;
  switch (kind_of(b)) {
    case ALLREDUCE: return check_sums(b, b->ranks - 1, 0);
    case REDUCE: return b->rank == root ? check_sums(b, b->ranks - 1, 0) : 0;
    case SCAN: return check_sums(b, b->rank, 0);
    case REDUCE_SCATTER: return check_sums(b, b->ranks - 1, own);
    case BCAST:
    case SPLIT: return check_block(b, 0, b->out_count, root, 0);
    case SCATTER: return check_block(b, 0, b->out_count, root, own);
    case GATHER: return b->rank == root ? check_blocks(b) : 0;
    case BARRIER: return 0;
    default: return check_blocks(b);
  }
}

static double max_of(double mine) {
  double all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, WORLD);
  return all;
}

/* Returns whether the results of all ranks are right. */
static bool verify(struct bench *b) {
  const int root = b->ranks - 1;
  for (size_t i = 0; i < b->in_count; i++) b->in[i] = value_of(b->rank, i);
  for (size_t i = 0; i < b->out_count; i++) b->out[i] = -1;
  if (sends_output(b) && b->rank == root) memcpy(b->out, b->in, b->out_count * ITEM);
  operate(b, root);
  return max_of((double)check_output(b, root)) == 0;
}

/* ---- times ---- */

/* Seconds on a clock that all ranks share, which MPI_Wtime need not be. */
static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Returns the time of some calls on the slowest rank, in s. */
static double time_many(struct bench *b, int calls) {
  MPI_Barrier(WORLD);
  const double start = now_s();
  for (int i = 0; i < calls; i++) operate_next(b);
  return max_of(now_s() - start);
}

static volatile float sink;

static void write_input_and_read_output(struct bench *b) {
  float sum = 0;
  float *in = sends_output(b) ? b->out : b->in;
  for (size_t i = 0; i < b->out_count; i += 16) sum += b->out[i];
  for (size_t i = 0; i < (sends_output(b) ? b->out_count : b->in_count); i++) in[i] = 1;
  sink = sum;
}

/* Returns the sum over calls of the time from when the first rank starts a call until the last rank has ended it, in s.
 * Where ranks share CPUs, a rank that leaves the barrier waits for its turn: before its call if the barrier ends late on it,
 * else in its call, so that the same work would seem longer after a fast barrier. */
static double time_singly(struct bench *b, int calls) {
  double *before_s = malloc(2 * (size_t)calls * sizeof *before_s), *ends_s = before_s + calls, sum_s = 0;
  if (!before_s) abort_without_memory();
  for (int i = 0; i < calls; i++) {
    write_input_and_read_output(b);
    MPI_Barrier(WORLD);
    before_s[i] = -now_s(); /* so that the largest is that of the first rank */
    operate_next(b);
    ends_s[i] = now_s();
    /* or ranks that share a CPU with this one would write their next input before its call is over */
    MPI_Barrier(WORLD);
  }
  MPI_Allreduce(MPI_IN_PLACE, before_s, 2 * calls, MPI_DOUBLE, MPI_MAX, WORLD);
  for (int i = 0; i < calls; i++) sum_s += ends_s[i] + before_s[i];
  free(before_s);
  return sum_s;
}

static double time_calls(struct bench *b, int calls) {
  const bool singly = b->bytes >= SINGLE_BYTES && b->count > 0 && !b->after_barrier;
  return singly ? time_singly(b, calls) : time_many(b, calls);
}

/* Returns how many calls take a time. Warms up. */
static int calibrate(struct bench *b, double time_s) {
  (void)time_calls(b, 1);
  for (int calls = 1;;) {
    const double took_s = time_calls(b, calls);
    const double fit = calls * time_s / (took_s > 1e-9 ? took_s : 1e-9);
    if (took_s >= time_s / 10 || calls > 1 << 24) return fit < 1 ? 1 : (int)fit;
    calls = fit / 5 < 16.0 * calls ? (int)(fit / 5) + 1 : 16 * calls;
  }
}

/* Returns the time of a call in us. Each loop has at least one call of each root, so long calls take longer than time_s. */
static double measure_us(struct bench *b, double time_s) {
  const int fit = calibrate(b, time_s) / LOOPS, calls = fit < b->ranks ? b->ranks : fit;
  double times[LOOPS];
  for (int i = 0; i < LOOPS; i++) {
    const double time_us = time_calls(b, calls) * 1e6 / calls;
    int at = i;
    for (; at > 0 && times[at - 1] > time_us; at--) times[at] = times[at - 1];
    times[at] = time_us;
  }
  return times[(LOOPS - 1) / 2];
}

/* ---- orders ---- */

static bool read_cell(struct bench *b, const char *collective, const char *form, const char *bytes) {
  b->collective = NULL;
  for (size_t i = 0; i < KINDS; i++)
    if (strcmp(collectives[i].name, collective) == 0) b->collective = &collectives[i];
  b->nonblocking = strcmp(form, "nonblocking") == 0;
  b->after_barrier = strcmp(form, "after_barrier") == 0;
  b->bytes = strtoull(bytes, NULL, 10);
  b->turn = 0;
  b->backwards = false;
  return b->collective && b->bytes <= BYTES_MAX && (b->collective->start || !b->nonblocking) &&
         (b->nonblocking || b->after_barrier || strcmp(form, "blocking") == 0);
}

/* Measures a cell, and prints its line on rank 0. Returns false if there is no such cell. */
static bool measure_cell(struct bench *b, char *const words[5], FILE *to) {
  if (!read_cell(b, words[0], words[1], words[2])) return false;
  prepare(b);
  const char *outcome = strcmp(words[4], "check") != 0 ? "unchecked" : verify(b) ? "right" : "wrong";
  const double time_us = measure_us(b, strtod(words[3], NULL) / 1000);
  if (b->rank == 0) fprintf(to, "%s %s %zu %.4f %s\n", words[0], words[1], b->bytes, time_us, outcome);
  return fflush(to) == 0;
}

static FILE *open_pipe(const char *folder, const char *name, int number, const char *mode) {
  char path[4096];
  snprintf(path, sizeof path, number < 0 ? "%s/%s" : "%s/%s.%d", folder, name, number);
  FILE *found = fopen(path, mode);
  if (!found) perror(path);
  return found;
}

static int obey(struct bench *b, const char *folder, size_t most) {
  FILE *orders = open_pipe(folder, "order", b->rank, "r"), *answers = open_pipe(folder, "answer", -1, "w");
  if (!orders || !answers) return 1;
  allocate(b, most + most / 2); /* with the blocks of an odd number of ranks, a v-form has up to so much */
  MPI_Barrier(WORLD);
  if (b->rank == 0)
    fprintf(answers, "ready %d %s\n", b->ranks, dlsym(RTLD_DEFAULT, "tutti_init_sized") ? "door" : "bare");
  fflush(answers);
  char line[256], *words[5];
  while (fgets(line, sizeof line, orders)) {
    char *rest = line;
    for (int i = 0; i < 5; i++) {
      words[i] = strtok_r(i == 0 ? line : NULL, " \n", &rest);
      if (!words[i]) return 1;
    }
    if (!measure_cell(b, words, answers)) return 1;
  }
  return 0;
}

static int run(struct bench *b, int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "--orders") == 0) return obey(b, argv[2], strtoull(argv[3], NULL, 10));
  char *const words[] = {argc > 4 ? argv[1] : "", argc > 4 ? argv[2] : "", argc > 4 ? argv[3] : "",
                         argc > 4 ? argv[4] : "", "check"};
  if (argc == 5 && measure_cell(b, words, stdout)) return 0;
  if (b->rank == 0)
    fprintf(stderr, "mpi_door_bench: expected --orders FOLDER MOST_BYTES, or COLLECTIVE FORM BYTES TIME_MS\n");
  return 2;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  struct bench b = {0};
  MPI_Comm_rank(WORLD, &b.rank);
  MPI_Comm_size(WORLD, &b.ranks);
  MPI_Comm_split(WORLD, 0, -b.rank, &b.reversed);
  b.counts = calloc(2 * (size_t)b.ranks, sizeof *b.counts);
  b.displs = b.counts + b.ranks;
  const int status = b.counts ? run(&b, argc, argv) : 1;
  free(b.in);
  free(b.out);
  free(b.counts);
  MPI_Comm_free(&b.reversed);
  MPI_Finalize();
  return status;
}
