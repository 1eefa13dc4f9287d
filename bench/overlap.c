/* overlap.c: measures how much of an allreduce of f32 is hidden behind work. tools/bench-overlap runs it as every rank
 * of a job:
 *
 *   overlap BYTES ROUNDS compute|idle tests|none
 *
 * Three times, each the median of ROUNDS, on the slowest rank: of the call alone (call_us), of the work alone (work_us),
 * and of both: start, work, wait (both_us). The work takes about as long as the call. `compute`: arithmetic; `idle`: the
 * rank sleeps, as if another device computed. `tests`: the work is cut into pieces of 100 us, with a tutti_test after
 * each. Hidden is the part of the call that costs no time: the median of 1 - (both - work) / call of each round, whose
 * times are taken one after the other. Rank 0 prints `call_us work_us both_us hidden`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/tutti.h>

enum { ROUNDS_MAX = 1000, PIECE_US = 100, VALUES = 1024, TRIES = 5, TRY_LOOPS = 2000 };

struct overlap {
  tutti_comm *world;
  tutti_call call;
  bool computes, tests;
  double loops_per_us; /* speed of the arithmetic */
};

static volatile float sink;

static void must(const struct overlap *o, tutti_err err, const char *what) {
  if (err == TUTTI_OK) return;
  fprintf(stderr, "overlap: %s: %s\n", what, tutti_error_message(o->world));
  exit(1);
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* ---- work ---- */

/* Arithmetic within the first cache; one loop at least. */
static void compute(double loops) {
  static float values[VALUES];
  for (size_t n = loops < 1 ? 1 : (size_t)loops; n > 0; n--)
    for (size_t i = 0; i < VALUES; i++) values[i] = values[i] * 0.5f + 1.0f;
  sink = values[0];
}

static void work_for(const struct overlap *o, double us) {
  if (o->computes) compute(us * o->loops_per_us);
  else nanosleep(&(struct timespec){.tv_sec = (time_t)(us / 1e6), .tv_nsec = (long)(us * 1e3) % 1000000000}, NULL);
}

/* The work, in pieces if the program tests. request NULL: the work alone. */
static void work(const struct overlap *o, double us, tutti_request **request) {
  bool done;
  for (double left = us; left > 0; left -= PIECE_US) {
    work_for(o, o->tests && left > PIECE_US ? PIECE_US : left);
    if (!o->tests) return;
    if (request) must(o, tutti_test(request, &done), "tutti_test");
  }
}

/* ---- measuring ---- */

enum part { CALL, WORK, BOTH, PARTS };

static double measure(const struct overlap *o, enum part part, double us) {
  tutti_request *request = NULL;
  must(o, tutti_barrier(o->world), "tutti_barrier");
  const double start = now_us();
  if (part != WORK) must(o, tutti_start(o->world, &o->call, &request), "tutti_start");
  if (part != CALL) work(o, us, part == BOTH ? &request : NULL);
  if (part != WORK) must(o, tutti_wait(&request), "tutti_wait");
  double time = now_us() - start, slowest;
  must(o, tutti_allreduce(o->world, &time, &slowest, 1, TUTTI_F64, TUTTI_MAX), "tutti_allreduce");
  return slowest;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, compare);
  return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void run(struct overlap *o, int rounds) {
  static double times[PARTS][ROUNDS_MAX], hidden[ROUNDS_MAX];
  /* The fastest of some: the rank may be interrupted meanwhile. */
  for (int i = 0; i < TRIES; i++) {
    const double begin = now_us();
    compute(TRY_LOOPS);
    o->loops_per_us = fmax(o->loops_per_us, TRY_LOOPS / (now_us() - begin));
  }
  for (int i = 0; i < rounds; i++) times[CALL][i] = measure(o, CALL, 0);
  const double us = median(times[CALL], rounds);
  for (int i = 0; i < rounds; i++) {
    for (enum part p = CALL; p < PARTS; p++) times[p][i] = measure(o, p, us);
    hidden[i] = 1 - (times[BOTH][i] - times[WORK][i]) / times[CALL][i];
  }
  if (tutti_rank(o->world) > 0) return;
  for (enum part p = CALL; p < PARTS; p++) printf("%.2f ", median(times[p], rounds));
  printf("%.2f\n", median(hidden, rounds));
}

int main(int argc, char **argv) {
  struct overlap o = {0};
  const size_t bytes = argc == 5 ? strtoull(argv[1], NULL, 10) : 0;
  const int rounds = argc == 5 ? atoi(argv[2]) : 0;
  if (bytes == 0 || rounds <= 0 || rounds > ROUNDS_MAX) {
    fprintf(stderr, "usage: overlap BYTES ROUNDS compute|idle tests|none; up to %d rounds\n", ROUNDS_MAX);
    return 2;
  }
  o.computes = strcmp(argv[3], "compute") == 0;
  o.tests = strcmp(argv[4], "tests") == 0;
  must(&o, tutti_init(NULL, &o.world), "tutti_init");
  float *in = calloc(bytes, 1), *out = calloc(bytes, 1);
  if (!in || !out) return 1;
  o.call = (tutti_call){
      .collective = TUTTI_ALLREDUCE, .send = in, .recv = out, .count = bytes / sizeof *in, .type = TUTTI_F32};
  run(&o, rounds);
  must(&o, tutti_comm_free(o.world), "tutti_comm_free");
  free(in);
  free(out);
  return 0;
}
