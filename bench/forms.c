/* forms.c: compares the forms of a call: the named function, tutti_run_call, a vector variant, and start and wait; and many
 * calls that are open at once with the same calls one after the other. tools/bench-forms runs it as every rank of a job:
 *
 *   forms [ROUNDS]
 *
 * The forms are timed in turns. Rank 0 prints for each form the median time of a call, and the median difference to
 * the form that it is compared with, in ns. Then for each number of allreduces, each with a result of its own, the median time
 * of a call if they are started and waited for one after the other, if all are started before the first wait, and the median
 * ratio; a twentieth of ROUNDS. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tutti/tutti.h>

enum { ROUNDS = 400, CALLS = 1000, COUNT = 2, RANKS_MAX = 64 };

static const struct {
  const char *name;
  int base; /* the form that this one is compared with; -1: none */
} forms[] = {{"tutti_allreduce", -1}, {"tutti_run_call, allreduce", 0}, {"tutti_start and tutti_wait, allreduce", 0},
             {"tutti_allgather", -1}, {"tutti_run_call, allgather", 3}, {"tutti_allgatherv", 3}};
enum { FORMS = sizeof forms / sizeof forms[0] };

static float in[COUNT], out[COUNT * RANKS_MAX];
static size_t counts[RANKS_MAX];

static tutti_err call_in_form(tutti_comm *world, int form) {
  static const tutti_call sum = {
      .collective = TUTTI_ALLREDUCE, .send = in, .recv = out, .count = COUNT, .type = TUTTI_F32};
  static const tutti_call gather = {
      .collective = TUTTI_ALLGATHER, .send = in, .recv = out, .count = COUNT, .type = TUTTI_F32};
  tutti_request *request;
  switch (form) {
    case 0: return tutti_allreduce(world, in, out, COUNT, TUTTI_F32, TUTTI_SUM);
    case 1: return tutti_run_call(world, &sum);
    case 2: return tutti_start(world, &sum, &request) == TUTTI_OK ? tutti_wait(&request) : TUTTI_ERR_ARGUMENT;
    case 3: return tutti_allgather(world, in, out, COUNT, TUTTI_F32);
    case 4: return tutti_run_call(world, &gather);
    default: return tutti_allgatherv(world, in, out, counts, NULL, TUTTI_F32);
  }
}

/* ---- many open calls ---- */

static const struct { size_t bytes, calls; } batches[] = {{8, 100}, {8, 1000}, {64 << 10, 100}, {64 << 10, 1000}};
enum { BATCHES = sizeof batches / sizeof batches[0], CALLS_MAX = 1000, BYTES_MAX = 64 << 10, OPEN_EVERY = 20 };
enum order { IN_TURN, AT_ONCE, ORDERS };

static tutti_err run_batch(tutti_comm *world, int b, const float *send, char *recv, enum order order) {
  static tutti_request *requests[CALLS_MAX];
  const size_t bytes = batches[b].bytes, calls = batches[b].calls;
  for (size_t i = 0; i < calls; i++) {
    const tutti_call call = {.collective = TUTTI_ALLREDUCE,
                             .send = send,
                             .recv = recv + i * bytes,
                             .count = bytes / sizeof *send,
                             .type = TUTTI_F32};
    if (tutti_start(world, &call, &requests[i]) != TUTTI_OK) return TUTTI_ERR_ARGUMENT;
    if (order == IN_TURN && tutti_wait(&requests[i]) != TUTTI_OK) return TUTTI_ERR_ARGUMENT;
  }
  return order == IN_TURN ? TUTTI_OK : tutti_wait_all(requests, calls);
}

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, size_t count) {
  qsort(values, count, sizeof *values, ascending);
  return values[count / 2];
}

static bool measure(tutti_comm *world, size_t rounds, double (*times)[FORMS]) {
  for (size_t round = 0; round < rounds; round++)
    for (int form = 0; form < FORMS; form++) {
      if (tutti_barrier(world) != TUTTI_OK) return false;
      double start = now_ns();
      for (int i = 0; i < CALLS; i++)
        if (call_in_form(world, form) != TUTTI_OK) return false;
      times[round][form] = (now_ns() - start) / CALLS;
    }
  return true;
}

static void print(size_t rounds, double (*times)[FORMS], double *column) {
  printf("%-40s %8s %8s\n", "form", "ns", "more");
  for (int form = 0; form < FORMS; form++) {
    for (size_t i = 0; i < rounds; i++) column[i] = times[i][form];
    printf("%-40s %8.1f", forms[form].name, median(column, rounds));
    for (size_t i = 0; i < rounds && forms[form].base >= 0; i++)
      column[i] = times[i][form] - times[i][forms[form].base];
    if (forms[form].base >= 0) printf(" %8.1f", median(column, rounds));
    printf("\n");
  }
}

static bool measure_batch(tutti_comm *world, int b, size_t rounds, const float *send, char *recv,
                          double (*times)[BATCHES][ORDERS]) {
  for (size_t round = 0; round <= rounds; round++) /* the first is not counted: it makes the requests */
    for (enum order order = IN_TURN; order < ORDERS; order++) {
      if (tutti_barrier(world) != TUTTI_OK) return false;
      const double start = now_ns();
      if (run_batch(world, b, send, recv, order) != TUTTI_OK) return false;
      if (round > 0) times[round - 1][b][order] = (now_ns() - start) / (double)batches[b].calls;
    }
  return true;
}

/* One batch after the other, because a communicator keeps about as many requests as one of them has. */
static bool measure_batches(tutti_comm *world, size_t rounds, const float *send, char *recv,
                            double (*times)[BATCHES][ORDERS]) {
  for (int b = 0; b < BATCHES; b++)
    if (!measure_batch(world, b, rounds, send, recv, times)) return false;
  return true;
}

static void print_batches(size_t rounds, double (*times)[BATCHES][ORDERS], double *column) {
  printf("\n%-10s %8s %12s %12s %8s\n", "bytes", "calls", "in turn, ns", "at once, ns", "ratio");
  for (int b = 0; b < BATCHES; b++) {
    printf("%-10zu %8zu", batches[b].bytes, batches[b].calls);
    for (enum order order = IN_TURN; order < ORDERS; order++) {
      for (size_t i = 0; i < rounds; i++) column[i] = times[i][b][order];
      printf(" %12.1f", median(column, rounds));
    }
    for (size_t i = 0; i < rounds; i++) column[i] = times[i][b][AT_ONCE] / times[i][b][IN_TURN];
    printf(" %8.2f\n", median(column, rounds));
  }
}

static bool compare_batches(tutti_comm *world, size_t rounds, double *column) {
  double(*times)[BATCHES][ORDERS] = calloc(rounds, sizeof *times);
  float *send = calloc(1, BYTES_MAX);
  char *recv = calloc(CALLS_MAX, BYTES_MAX);
  const bool good = times && send && recv && measure_batches(world, rounds, send, recv, times);
  if (good && tutti_rank(world) == 0) print_batches(rounds, times, column);
  free(times);
  free(send);
  free(recv);
  return good;
}

int main(int argc, char **argv) {
  tutti_comm *world;
  size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : ROUNDS;
  if (tutti_init(NULL, &world) != TUTTI_OK || tutti_ranks(world) > RANKS_MAX || rounds == 0) {
    fprintf(stderr, "forms: expected 1 to %d ranks and 1 round or more; %s\n", RANKS_MAX, tutti_error_message(NULL));
    return 1;
  }
  for (uint32_t r = 0; r < tutti_ranks(world); r++) counts[r] = COUNT;
  double(*times)[FORMS] = calloc(rounds, sizeof *times), *column = calloc(rounds, sizeof *column);
  if (!times || !column || !measure(world, rounds, times)) {
    fprintf(stderr, "forms: %s\n", tutti_error_message(world));
    return 1;
  }
  if (tutti_rank(world) == 0) print(rounds, times, column);
  if (!compare_batches(world, rounds < OPEN_EVERY ? 1 : rounds / OPEN_EVERY, column)) {
    fprintf(stderr, "forms: many open calls: %s\n", tutti_error_message(world));
    return 1;
  }
  free(times);
  free(column);
  return tutti_comm_free(world) != TUTTI_OK;
}
