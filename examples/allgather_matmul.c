/* allgather_matmul.c: overlaps matrix products with the transfer of their input or output:
 *
 *   y = gather(x) W      The rows of x are distributed over the processes. Each process multiplies arrived rows by its
 *                        own W.
 *   z = scatter(sum A B) Each process contributes its product A B to the sum and receives a part of the sum's rows. It
 *                        announces each part of its product as soon as the part is computed.
 *
 * Each is measured in two ways: in turn (gather, then multiply; or multiply, then reduce), and overlapped, part by
 * part. Both are measured over shared memory and over a simulated wire. The wire is as slow as the computation, which
 * is where overlap gains most. All values are small integers, so that sums do not depend on the order, and the results
 * must equal those of three plain loops.
 *
 *   tutti run -n 2 -- allgather_matmul [--rows R] [--inner K] [--columns M] [--block B] [--rounds N]
 *
 * The gathered x is R x K, and W is K x M. For z, A is R x K and B is K x M. One product takes --block rows at a
 * time. */
#include <cblas.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/tutti.h>

/* The BLAS library uses one thread, because the other cores belong to other processes. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));
extern void bli_thread_set_num_threads(long threads) __attribute__((weak));

enum { ROUNDS_MAX = 101 };

struct sizes {
  size_t rows, inner, columns, block, rounds;
};

struct work {
  struct sizes of;
  tutti_comm *world; /* for barriers and for the maximum of times */
  tutti_comm *comm;  /* for the measured collectives; may have a simulated wire */
  uint32_t rank, ranks;
  /* rows of each process; number of blocks of rows, each within the rows of one process */
  size_t own_rows, block_count;
  float *x, *w, *y;           /* gathered rows, the matrix W, their product */
  float *a, *b, *product, *z; /* matrices A, B and A B; z: this process's rows of the sum */
  size_t *arrived;            /* [block_count]: number of elements of x that have arrived in each block */
  size_t *ready;              /* [block_count]: indices of the complete blocks, in order of arrival */
  size_t ready_count;
};

static _Noreturn void fail(const char *what, const char *why) {
  fprintf(stderr, "allgather_matmul: %s: %s\n", what, why);
  exit(1);
}

static void must(tutti_err err, const char *what) {
  if (err != TUTTI_OK) fail(what, tutti_error_message(NULL));
}

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- rows ---- */

static size_t blocks_per_rank(const struct work *w) { return (w->own_rows + w->of.block - 1) / w->of.block; }

static size_t first_row(const struct work *w, size_t block) {
  return block / blocks_per_rank(w) * w->own_rows + block % blocks_per_rank(w) * w->of.block;
}

static size_t rows_of(const struct work *w, size_t block) {
  size_t left = w->own_rows - block % blocks_per_rank(w) * w->of.block;
  return left < w->of.block ? left : w->of.block;
}

static size_t block_of_row(const struct work *w, size_t row) {
  return row / w->own_rows * blocks_per_rank(w) + row % w->own_rows / w->of.block;
}

/* Computes rows of `to` = the same rows of `left` times `right`. */
static void multiply(const struct work *w, float *to, const float *left, const float *right, size_t row, size_t rows) {
  int m = (int)rows, n = (int)w->of.columns, k = (int)w->of.inner;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0f, left + row * w->of.inner, k, right, n, 0.0f,
              to + row * w->of.columns, n);
}

/* ---- y = gather(x) W ---- */

static tutti_call gather_call(struct work *w) {
  return (tutti_call){.collective = TUTTI_ALLGATHER,
                      .send = TUTTI_IN_PLACE,
                      .recv = w->x,
                      .count = w->own_rows * w->of.inner,
                      .type = TUTTI_F32};
}

static void gather(struct work *w) {
  tutti_request *request;
  const tutti_call call = gather_call(w);
  must(tutti_start(w->comm, &call, &request), "allgather");
  must(tutti_wait(&request), "allgather");
}

static void multiply_gathered(struct work *w) { multiply(w, w->y, w->x, w->w, 0, w->of.rows); }

static void gather_then_multiply(struct work *w) {
  gather(w);
  multiply_gathered(w);
}

/* Records completed blocks. The caller multiplies them later, because the transfer does not progress in this
 * callback. */
static void note_arrival(void *context, size_t first, size_t count) {
  struct work *w = context;
  while (count > 0) {
    size_t block = block_of_row(w, first / w->of.inner);
    size_t end = (first_row(w, block) + rows_of(w, block)) * w->of.inner;
    size_t part = end - first < count ? end - first : count;
    w->arrived[block] += part;
    if (w->arrived[block] == rows_of(w, block) * w->of.inner) w->ready[w->ready_count++] = block;
    first += part, count -= part;
  }
}

static void gather_and_multiply(struct work *w) {
  tutti_request *request;
  tutti_call call = gather_call(w);
  call.on_ready = note_arrival;
  call.on_ready_context = w;
  memset(w->arrived, 0, w->block_count * sizeof *w->arrived);
  w->ready_count = 0;
  must(tutti_start(w->comm, &call, &request), "allgather");
  bool done = false;
  for (size_t next = 0; next < w->block_count || !done;) {
    /* During a product, the transfer progresses only as far as it can without this process. */
    if (!done) must(tutti_test(&request, &done), "allgather");
    if (next < w->ready_count) {
      multiply(w, w->y, w->x, w->w, first_row(w, w->ready[next]), rows_of(w, w->ready[next]));
      next++;
    } else if (!done) {
      sched_yield();
    }
  }
}

/* ---- z = scatter(sum A B) ---- */

static tutti_call scatter_call(struct work *w) {
  return (tutti_call){.collective = TUTTI_REDUCE_SCATTER,
                      .send = w->product,
                      .recv = w->z,
                      .count = w->own_rows * w->of.columns,
                      .type = TUTTI_F32,
                      .op = TUTTI_SUM};
}

static void scatter(struct work *w) {
  tutti_request *request;
  const tutti_call call = scatter_call(w);
  must(tutti_start(w->comm, &call, &request), "reduce_scatter");
  must(tutti_wait(&request), "reduce_scatter");
}

static void multiply_own(struct work *w) { multiply(w, w->product, w->a, w->b, 0, w->of.rows); }

static void multiply_then_scatter(struct work *w) {
  multiply_own(w);
  scatter(w);
}

static void multiply_and_scatter(struct work *w) {
  tutti_request *request;
  tutti_call call = scatter_call(w);
  call.in_parts = true;
  must(tutti_start(w->comm, &call, &request), "reduce_scatter");
  bool done = false;
  /* Rows for other ranks come first, because those ranks wait for them; the own rows come last. */
  size_t begin = (w->rank + 1) % w->ranks * blocks_per_rank(w);
  for (size_t i = 0; i < w->block_count; i++) {
    size_t block = (begin + i) % w->block_count, row = first_row(w, block), rows = rows_of(w, block);
    multiply(w, w->product, w->a, w->b, row, rows);
    must(tutti_request_fill(request, row * w->of.columns, rows * w->of.columns), "fill");
    must(tutti_test(&request, &done), "reduce_scatter");
  }
  if (!done) must(tutti_wait(&request), "reduce_scatter");
}

/* ---- check of the results ---- */

/* Returns an integer from -4 to 4: the value of an element of a matrix of a process. */
static float value_of(uint32_t rank, uint32_t matrix, size_t row, size_t column) {
  uint64_t h =
      (rank * 4u + matrix + 1) * 0x9e3779b97f4a7c15u + row * 0xc2b2ae3d27d4eb4fu + column * 0x165667b19e3779f9u;
  h = (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9u;
  return (float)((h >> 40) % 9) - 4.0f;
}

enum matrix { X, W, A, B };

static void fill_matrix(float *to, uint32_t rank, enum matrix matrix, size_t rows, size_t columns) {
  for (size_t i = 0; i < rows; i++)
    for (size_t k = 0; k < columns; k++) to[i * columns + k] = value_of(rank, matrix, i, k);
}

/* Adds one row times a matrix to `sum`, with plain loops. */
static void add_row_naively(const struct work *w, float *sum, uint32_t rank, enum matrix left, size_t row,
                            const float *right) {
  for (size_t k = 0; k < w->of.inner; k++) {
    float factor = value_of(rank, left, row, k);
    for (size_t n = 0; n < w->of.columns; n++) sum[n] += factor * right[k * w->of.columns + n];
  }
}

static void check_product(const struct work *w) {
  float *want = malloc(w->of.columns * sizeof *want);
  if (!want) fail("check", "out of memory");
  for (size_t row = 0; row < w->of.rows; row++) {
    memset(want, 0, w->of.columns * sizeof *want);
    add_row_naively(w, want, (uint32_t)(row / w->own_rows), X, row % w->own_rows, w->w);
    if (memcmp(want, w->y + row * w->of.columns, w->of.columns * sizeof *want) != 0)
      fail("y", "differs from the naive product");
  }
  free(want);
}

static void check_sum(const struct work *w) {
  size_t bytes = w->own_rows * w->of.columns * sizeof(float);
  float *want = calloc(1, bytes), *right = malloc(w->of.inner * w->of.columns * sizeof *right);
  if (!want || !right) fail("check", "out of memory");
  for (uint32_t r = 0; r < w->ranks; r++) {
    fill_matrix(right, r, B, w->of.inner, w->of.columns);
    for (size_t row = 0; row < w->own_rows; row++)
      add_row_naively(w, want + row * w->of.columns, r, A, w->rank * w->own_rows + row, right);
  }
  if (memcmp(want, w->z, bytes) != 0) fail("z", "differs from the naive sum of products");
  free(want);
  free(right);
}

/* ---- times ---- */

static int compare_times(const void *a, const void *b) {
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static double median(double *times, size_t count) {
  qsort(times, count, sizeof *times, compare_times);
  return times[count / 2];
}

/* Runs `what` on all processes and returns the time until the last process is done, in s. */
static double time_once(struct work *w, void (*what)(struct work *)) {
  must(tutti_barrier(w->world), "barrier");
  double start = now_s();
  what(w);
  double own = now_s() - start, all;
  must(tutti_allreduce(w->world, &own, &all, 1, TUTTI_F64, TUTTI_MAX), "allreduce");
  return all;
}

static double time_of(struct work *w, void (*what)(struct work *)) {
  double times[ROUNDS_MAX];
  time_once(w, what);
  for (size_t i = 0; i < w->of.rounds; i++) times[i] = time_once(w, what);
  return median(times, w->of.rounds);
}

struct subject {
  const char *name;
  void (*transfer)(struct work *), (*compute)(struct work *), (*in_turn)(struct work *), (*overlapped)(struct work *);
  void (*check)(const struct work *);
  float *result;
  size_t result_count;
  size_t arriving_bytes; /* bytes that arrive at each process */
};

static void forget(const struct subject *s) { memset(s->result, 0xff, s->result_count * sizeof *s->result); }

/* Measures the versions without and with overlap alternately, so that both run under the same conditions. */
static void measure(struct work *w, const struct subject *s, const char *wire) {
  double in_turn[ROUNDS_MAX], overlapped[ROUNDS_MAX];
  double transfer = time_of(w, s->transfer), compute = time_of(w, s->compute);
  for (size_t i = 0; i < w->of.rounds; i++) {
    forget(s);
    in_turn[i] = time_once(w, s->in_turn);
    if (i == 0) s->check(w);
    forget(s);
    overlapped[i] = time_once(w, s->overlapped);
    if (i == 0) s->check(w);
  }
  double a = median(in_turn, w->of.rounds), b = median(overlapped, w->of.rounds);
  if (w->rank == 0)
    printf("%-23s %-18s %9.2f %9.2f %9.2f %11.2f %6.2f\n", s->name, wire, 1e3 * transfer, 1e3 * compute, 1e3 * a,
           1e3 * b, a / b);
}

/* Recreates the communicator with a simulated wire of this speed; 0: without a wire. */
static void set_wire(struct work *w, double bytes_per_s) {
  char text[32];
  snprintf(text, sizeof text, "%.0f", bytes_per_s);
  setenv("TUTTI_WIRE_BYTES_PER_S", text, 1);
  must(tutti_comm_free(w->comm), "free");
  must(tutti_comm_dup(w->world, &w->comm), "dup");
}

/* Sets a simulated wire over which the transfer alone takes as long as the computation alone. The first estimate of the
 * speed follows from the number of bytes; two measurements correct it. */
static void lay_wire(struct work *w, const struct subject *s, char *text, size_t text_bytes) {
  double compute = time_of(w, s->compute), pace = (double)s->arriving_bytes / compute;
  for (int i = 0; i < 2; i++) {
    set_wire(w, pace);
    pace *= time_of(w, s->transfer) / compute;
  }
  set_wire(w, pace);
  snprintf(text, text_bytes, "wire, %.0f MB/s", pace / 1e6);
}

static void compare(struct work *w, const struct subject *s) {
  char wire[40];
  measure(w, s, "shared memory");
  if (w->ranks == 1) return; /* one process: no transfer */
  lay_wire(w, s, wire, sizeof wire);
  measure(w, s, wire);
  set_wire(w, 0);
}

/* ---- main program ---- */

static size_t read_number(const char *option, const char *text) {
  char *end;
  unsigned long long number = text ? strtoull(text, &end, 10) : 0;
  if (!text || *end || number < 1 || number > 1u << 20) fail(option, "expected a number from 1 to 1048576");
  return (size_t)number;
}

static struct sizes read_sizes(int argc, char **argv) {
  struct sizes of = {.rows = 2048, .inner = 1024, .columns = 512, .block = 128, .rounds = 9};
  const struct {
    const char *name;
    size_t *number;
  } options[] = {{"--rows", &of.rows},
                 {"--inner", &of.inner},
                 {"--columns", &of.columns},
                 {"--block", &of.block},
                 {"--rounds", &of.rounds}};
  for (int i = 1; i < argc; i += 2) {
    size_t k = 0;
    while (k < sizeof options / sizeof options[0] && strcmp(argv[i], options[k].name) != 0) k++;
    if (k == sizeof options / sizeof options[0])
      fail(argv[i], "unknown option; expected --rows, --inner, --columns, --block or --rounds");
    *options[k].number = read_number(argv[i], argv[i + 1]);
  }
  if (of.rounds > ROUNDS_MAX) of.rounds = ROUNDS_MAX;
  return of;
}

static float *matrix(size_t rows, size_t columns) {
  float *m = calloc(rows * columns, sizeof *m);
  if (!m) fail("matrix", "out of memory");
  return m;
}

static struct work begin(struct sizes of) {
  struct work w = {.of = of};
  must(tutti_init(NULL, &w.world), "init");
  must(tutti_comm_dup(w.world, &w.comm), "dup");
  w.rank = tutti_rank(w.world);
  w.ranks = tutti_ranks(w.world);
  if (of.rows % w.ranks != 0) fail("--rows", "expected a multiple of the number of processes");
  w.own_rows = of.rows / w.ranks;
  w.block_count = blocks_per_rank(&w) * w.ranks;
  w.x = matrix(of.rows, of.inner), w.w = matrix(of.inner, of.columns), w.y = matrix(of.rows, of.columns);
  w.a = matrix(of.rows, of.inner), w.b = matrix(of.inner, of.columns), w.product = matrix(of.rows, of.columns);
  w.z = matrix(w.own_rows, of.columns);
  w.arrived = calloc(w.block_count, sizeof *w.arrived), w.ready = calloc(w.block_count, sizeof *w.ready);
  if (!w.arrived || !w.ready) fail("begin", "out of memory");
  fill_matrix(w.x + w.rank * w.own_rows * of.inner, w.rank, X, w.own_rows, of.inner);
  fill_matrix(w.w, w.rank, W, of.inner, of.columns);
  fill_matrix(w.a, w.rank, A, of.rows, of.inner);
  fill_matrix(w.b, w.rank, B, of.inner, of.columns);
  return w;
}

static void end(struct work *w) {
  must(tutti_comm_free(w->comm), "free");
  must(tutti_comm_free(w->world), "free");
  float *matrices[] = {w->x, w->w, w->y, w->a, w->b, w->product, w->z};
  for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++) free(matrices[i]);
  free(w->arrived);
  free(w->ready);
}

int main(int argc, char **argv) {
  if (openblas_set_num_threads) openblas_set_num_threads(1);
  if (bli_thread_set_num_threads) bli_thread_set_num_threads(1);
  struct work w = begin(read_sizes(argc, argv));
  size_t others = w.of.rows - w.own_rows;
  const struct subject subjects[] = {
      {"allgather, then matmul", gather, multiply_gathered, gather_then_multiply, gather_and_multiply, check_product,
       w.y, w.of.rows * w.of.columns, others * w.of.inner * sizeof(float)},
      {"matmul, reduce_scatter", scatter, multiply_own, multiply_then_scatter, multiply_and_scatter, check_sum, w.z,
       w.own_rows * w.of.columns, others * w.of.columns * sizeof(float)}};
  if (w.rank == 0)
    printf(
        "%u processes, %zu x %zu times %zu x %zu, blocks of %zu rows; ms, medians of %zu\n%-42s %9s %9s %9s %11s %6s\n",
        w.ranks, w.of.rows, w.of.inner, w.of.inner, w.of.columns, w.of.block, w.of.rounds, "", "transfer", "compute",
        "in turn", "overlapped", "ratio");
  for (int i = 0; i < 2; i++) compare(&w, &subjects[i]);
  if (w.rank == 0) printf("all results equal the naive results\n");
  end(&w);
  return 0;
}
