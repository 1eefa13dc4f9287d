/* bench_measure_test.c: how many samples the benchmark takes, and what it makes of their times. The library under test is
 * one rank that copies its input, and no time is compared with another. */
#include "../bench/core/bench_measure.c"

#include "../bench/core/bench_case.c"
#include "../bench/core/bench_pool.c"
#include "test.h"

struct copies {
  struct bench_side side;
  const struct bench_case *c;
  uint32_t operations, barriers;
};

static bool operate(struct bench_side *side) {
  struct copies *s = (struct copies *)(void *)side;
  s->operations++;
  if (s->c->in_data != s->c->out_data) memcpy(s->c->out_data, s->c->in_data, s->c->bytes);
  return true;
}

static bool barrier(struct bench_side *side) {
  ((struct copies *)(void *)side)->barriers++;
  return true;
}

static bool combine(struct bench_side *side, double *values, int count, tutti_op op) {
  (void)side, (void)values, (void)count, (void)op;
  return true;
}

/* Measures one collective of one rank; returns the counts of operations and barriers. */
static struct copies measure_item(const struct bench_options *options, const struct bench_item *item, size_t bytes,
                                  struct bench_result *result) {
  struct bench_case c;
  struct copies s = {.side = {.ranks = 1, .operate = operate, .barrier = barrier, .combine = combine}, .c = &c};
  if (!bench_case_create(&c, options, item, 0, 1, bytes)) FAIL("cannot create the case");
  CHECK(bench_measure(&s.side, &c, options, result), "the measurement fails");
  CHECK(result->wrong == 0, "%llu wrong elements", (unsigned long long)result->wrong);
  free(result->own_us);
  bench_case_destroy(&c);
  return s;
}

static struct copies measure(const struct bench_options *options, size_t bytes, struct bench_result *result) {
  return measure_item(options, &(struct bench_item){.collective = TUTTI_ALLREDUCE}, bytes, result);
}

/* With --iterations, the numbers of samples are those that were asked for. */
static void test_counts(void) {
  struct bench_result result;
  struct bench_options options = {.type = TUTTI_F32, .fixed_warmup = true, .iterations = 7};
  struct copies s = measure(&options, SINGLE_BYTES, &result);
  CHECK(s.operations == 7 && s.barriers == 7, "no warm-up: %u operations, %u barriers", s.operations, s.barriers);
  options.warmup = 20;
  s = measure(&options, SINGLE_BYTES, &result);
  CHECK(s.operations == 27 && s.barriers == 27, "warm-up of 20: %u operations, %u barriers", s.operations, s.barriers);
  options.barrier = true;
  s = measure(&options, 64, &result);
  CHECK(s.operations == 27, "a barrier before each operation: %u operations", s.operations);
  options.barrier = false;
  s = measure(&options, 64, &result);
  CHECK(s.barriers >= 27 && s.operations > s.barriers, "batches: %u operations in %u samples", s.operations,
        s.barriers);
}

/* In place, a batch overwrites its input, so one more operation is checked. It is not in a batch of its own, and a sample
 * of one operation needs none. */
static void test_in_place(void) {
  const struct bench_item in_place = {.collective = TUTTI_ALLREDUCE, .in_place = true};
  struct bench_result result;
  struct bench_options options = {.type = TUTTI_F32, .fixed_warmup = true, .iterations = 7};
  struct copies s = measure_item(&options, &in_place, SINGLE_BYTES, &result);
  CHECK(s.operations == 7, "single operations: %u", s.operations);
  struct bench_case c;
  if (!bench_case_create(&c, &options, &in_place, 0, 1, 64)) FAIL("cannot create the case");
  s.operations = s.barriers = 0;
  s.c = &c;
  struct bench_meter m = {.side = &s.side, .c = &c, .batch = 4};
  double ns;
  CHECK(bench_meter_sample(&m, &ns) && s.operations == 5 && s.barriers == 1, "a batch of 4: %u operations",
        s.operations);
  c.in_place = false;
  CHECK(bench_meter_sample(&m, &ns) && s.operations == 9, "out of place: %u operations", s.operations - 5);
  c.in_place = true;
  bench_case_destroy(&c);
}

/* Without, one sample at least shows how many fit, and there are at least five. */
static void test_counts_by_time(void) {
  struct bench_result result;
  struct bench_options options = {.type = TUTTI_F32, .fixed_warmup = true};
  struct copies s = measure(&options, SINGLE_BYTES, &result);
  CHECK(s.barriers == 1 + SAMPLES_MIN, "no time and no warm-up: %u samples", s.barriers);
  options.fixed_warmup = false;
  s = measure(&options, SINGLE_BYTES, &result);
  CHECK(s.barriers == WARM_SAMPLES_MIN + SAMPLES_MIN, "no time: %u samples", s.barriers);
}

static void test_statistics(void) {
  const double times[] = {1, 2, 4, 8, 16};
  CHECK(quantile(times, 5, 0.25) == 2 && quantile(times, 5, 0.75) == 8, "quartiles of five");
  CHECK(quantile(times, 4, 0.25) == 1.75 && quantile(times, 4, 0.75) == 5, "quartiles of four lie between two values");
  CHECK(quantile(times, 1, 0.25) == 1 && quantile(times, 1, 0.75) == 1, "quartiles of one");
  CHECK(deviation(times, 1) == 0, "one value does not deviate");
  CHECK(fabs(deviation(times, 2) - sqrt(0.5)) < 1e-12, "deviation of two values: %g", deviation(times, 2));
}

/* Waits until the pool has computed more bursts than `bursts`; returns false after ten seconds. */
static bool computes(struct bench_pool *pool, uint64_t bursts) {
  for (uint64_t end = tu_clock_ns() + 10000000000; tu_clock_ns() < end;) {
    if (bench_pool_bursts(pool) > bursts) return true;
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  }
  return false;
}

/* A pool computes while a case is measured, and then no more. */
static void test_pool(void) {
  struct bench_pool *pool = bench_pool_create(3);
  if (!pool) FAIL("cannot start threads");
  CHECK(bench_pool_bursts(pool) == 0, "works before it is told to");
  bench_pool_work(pool, true);
  CHECK(computes(pool, 30), "does not work");
  bench_pool_work(pool, false);
  /* Each thread may end the burst that it has begun. */
  uint64_t most = bench_pool_bursts(pool) + 3;
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  CHECK(bench_pool_bursts(pool) <= most, "works on");
  bench_pool_destroy(pool);

  struct copies s = {.side = {.ranks = 1, .operate = operate, .barrier = barrier, .combine = combine}};
  const struct bench_options options = {.type = TUTTI_F32, .pool = 2, .time_ms = 50};
  struct bench_case c;
  struct bench_result result;
  if (!bench_case_create(&c, &options, &(struct bench_item){.collective = TUTTI_ALLREDUCE}, 0, 1, SINGLE_BYTES))
    FAIL("cannot create the case");
  s.c = &c;
  s.side.pool = bench_pool_create(2);
  CHECK(bench_measure(&s.side, &c, &options, &result), "the measurement fails");
  CHECK(bench_pool_bursts(s.side.pool) > 0, "does not work while a case is measured");
  most = bench_pool_bursts(s.side.pool) + 2;
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  CHECK(bench_pool_bursts(s.side.pool) <= most, "works on after the measurement");
  bench_pool_destroy(s.side.pool);
  bench_pool_destroy(NULL);
  bench_pool_work(NULL, true);
  free(result.own_us);
  bench_case_destroy(&c);
}

/* All figures of a row are those of one operation, in us. */
static void test_summary(void) {
  double times[] = {80000, 20000, 60000, 40000}, starts[] = {0, 0, 0, 0}, ends[] = {9000, 9000, 9000, 9000};
  double cpu[] = {0, 0, 0, 0}, own[] = {20000}, own_us[1];
  const struct bench_case c = {.collective = TUTTI_ALLREDUCE, .ranks = 1, .bytes = 50};
  const struct bench_meter m = {.c = &c, .batch = 10};
  struct bench_result r = {.own_us = own_us};
  summarize(&m, &(struct samples){times, starts, ends, cpu, own, 4}, &r);
  CHECK(fabs(r.min_us - 2) < 1e-9 && fabs(r.time_us - 5) < 1e-9 && fabs(r.p99_us - 8) < 1e-9, "%g, %g and %g us",
        r.min_us, r.time_us, r.p99_us);
  CHECK(fabs(r.q1_us - 3.5) < 1e-9 && fabs(r.q3_us - 6.5) < 1e-9, "quartiles %g and %g us", r.q1_us, r.q3_us);
  CHECK(fabs(r.mean_us - 5) < 1e-9, "mean %g us", r.mean_us);
  CHECK(fabs(r.dev_us - sqrt(20. / 3)) < 1e-9, "deviation %g us", r.dev_us);
  CHECK(fabs(r.last_us - 0.9) < 1e-9 && fabs(r.algbw_gbs - 0.01) < 1e-9, "%g us, %g GB/s", r.last_us, r.algbw_gbs);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"counts", test_counts},         {"in place", test_in_place}, {"counts by time", test_counts_by_time},
      {"statistics", test_statistics}, {"summary", test_summary},   {"pool", test_pool},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
