/* bench_measure.c: measures the time of an operation.
 *
 * A sample is: write the input; barrier; read the clock; run one operation or a batch; read the clock; check the
 * output. Two times are kept. `time` is the maximum over the ranks, each by its own clock readings. `last` is from the
 * start of the last rank to the end of the last rank, so it excludes the time of waiting for a late rank. The results
 * are the medians of both; and of `time` the 99th percentile, the minimum, the quartiles, the mean and the standard deviation.
 *
 * From SINGLE_BYTES up, a sample is a single operation. A program that calls a collective has just produced the input
 * and will use the output, and with long vectors the time depends on whose cache holds them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/core/core.h"

enum {
  SINGLE_BYTES = 64 << 10,
  BATCH_NS = 40000, /* minimum time of a batch; the clock is accurate to 30 ns, a barrier to about 100 ns */
  BATCH_CROWDED_NS =
      400000, /* minimum time of a batch if ranks and pools outnumber CPUs: ranks leave a barrier some us apart */
  WARM_SAMPLES_MIN = 2,
  WARM_SAMPLES = 5, /* number of warm-up samples, if they fit into the time budget */
  SAMPLES_MIN = 5,
  SAMPLES_MAX = 4096,
};

/* getrusage() returns the same time, but on some kernels only in ticks. */
double bench_cpu_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* In place, the output overwrites the input. (The root of a broadcast keeps its input.) */
static bool overwrites(const struct bench_case *c) { return c->in_place && c->collective != TUTTI_BROADCAST; }

bool bench_meter_sample(struct bench_meter *m, double *ns) {
  m->round++;
  bench_case_produce(m->c, m->round);
  if (!m->side->barrier(m->side)) return false;
  bool long_enough = m->c->bytes >= SINGLE_BYTES; /* for reading the CPU time, a system call */
  double cpu_us = long_enough ? bench_cpu_us() : 0;
  uint64_t start = tu_clock_ns();
  for (uint32_t i = 0; i < m->batch; i++)
    if (!m->side->operate(m->side)) return false;
  m->start = start;
  m->end = tu_clock_ns();
  m->cpu_us = long_enough ? bench_cpu_us() - cpu_us : 0;
  *ns = (double)(m->end - start);
  /* All operations of a batch but the first have the result of the one before as their input. Check one more. */
  if (m->batch > 1 && overwrites(m->c)) {
    bench_case_produce(m->c, m->round);
    if (!m->side->operate(m->side)) return false;
  }
  m->wrong += bench_case_wrong(m->c, m->round);
  return true;
}

/* Returns true if another warm-up sample is needed, after n of them that took spent_ns. */
static bool is_cold(const struct bench_options *options, uint32_t n, double spent_ns) {
  double budget_ns = options->time_ms * 1e6;
  if (options->fixed_warmup) return n < options->warmup;
  return n < WARM_SAMPLES_MIN || (n < WARM_SAMPLES && spent_ns < budget_ns) ||
         (n < SAMPLES_MAX && spent_ns < budget_ns / 10);
}

/* Runs warm-up samples, and doubles the batch until it takes batch_ns. All ranks decide by the maximum of their times,
 * so that they take the same decisions. */
bool bench_meter_warm(struct bench_meter *m, const struct bench_options *options, uint32_t *samples) {
  bool single = options->barrier || m->c->bytes >= SINGLE_BYTES;
  bool crowded = m->side->ranks * (1 + options->pool) > (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
  double spent_ns = 0, batch_ns = crowded ? BATCH_CROWDED_NS : BATCH_NS;
  double times[2]; /* in ns: [0] of the operations, [1] of the whole sample */
  double fit = 0;
  bool grown = false;
  /* One sample at least shows how many operations a batch has, or how many samples fit. */
  uint32_t least = single && options->iterations ? 0 : 1;
  for (uint32_t n = 0; n < least || grown || is_cold(options, n, spent_ns); n++) {
    uint64_t start = tu_clock_ns();
    if (!bench_meter_sample(m, &times[0])) return false;
    times[1] = (double)(tu_clock_ns() - start);
    if (!m->side->combine(m->side, times, 2, TUTTI_MAX)) return false;
    spent_ns += times[1];
    m->sample_ns = times[1];
    fit = options->time_ms * 1e6 / times[1];
    grown = !single && times[0] < batch_ns;
    if (grown) m->batch *= 2;
  }
  *samples = fit < SAMPLES_MIN ? SAMPLES_MIN : fit > SAMPLES_MAX ? SAMPLES_MAX : (uint32_t)fit;
  if (options->iterations) *samples = options->iterations;
  return true;
}

static int compare(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

double bench_median(double *values, uint32_t count) {
  qsort(values, count, sizeof *values, compare);
  return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* Returns the value below which `part` of the sorted values are. */
static double quantile(const double *sorted, uint32_t count, double part) {
  double at = part * (count - 1);
  uint32_t low = (uint32_t)at, high = low + 1 < count ? low + 1 : low;
  return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
}

static double mean(const double *values, uint32_t count) {
  double sum = 0;
  for (uint32_t i = 0; i < count; i++) sum += values[i];
  return sum / count;
}

static double deviation(const double *values, uint32_t count) {
  double middle = mean(values, count), squares = 0;
  for (uint32_t i = 0; i < count; i++) squares += (values[i] - middle) * (values[i] - middle);
  return count > 1 ? sqrt(squares / (count - 1)) : 0;
}

/* Returns the ratio of bus bandwidth to algorithm bandwidth, as defined by nccl-tests: the bytes over a rank's link,
 * which the hardware limits, per byte of the operation. */
static double bus_factor(tutti_collective collective, uint32_t ranks) {
  double n = ranks;
  switch (tu_collectives[collective].family) {
    case TUTTI_ALLREDUCE: return 2 * (n - 1) / n;
    case TUTTI_ALLGATHER:
    case TUTTI_REDUCE_SCATTER:
    case TUTTI_ALLTOALL:
    case TUTTI_GATHER:
    case TUTTI_SCATTER: return (n - 1) / n;
    default: return 1;
  }
}

/* Times of the recorded samples, in ns. */
struct samples {
  double *times, *starts, *ends; /* [count]: of this rank; after combine_samples: the maxima over all ranks */
  double *cpu;                   /* [count]: CPU time, in us; after combine_samples: the sum over all ranks */
  double *own;                   /* [ranks]: median of each rank's own times */
  uint32_t count;
};

static void summarize(const struct bench_meter *m, struct samples *s, struct bench_result *result) {
  for (uint32_t i = 0; i < s->count; i++) s->ends[i] -= s->starts[i];
  double middle = bench_median(s->times, s->count);
  double late = s->times[(s->count * 99 + 99) / 100 - 1];
  result->time_us = middle / m->batch / 1000;
  result->p99_us = late / m->batch / 1000;
  result->min_us = s->times[0] / m->batch / 1000;
  result->q1_us = quantile(s->times, s->count, 0.25) / m->batch / 1000;
  result->q3_us = quantile(s->times, s->count, 0.75) / m->batch / 1000;
  result->mean_us = mean(s->times, s->count) / m->batch / 1000;
  result->dev_us = deviation(s->times, s->count) / m->batch / 1000;
  result->last_us = bench_median(s->ends, s->count) / m->batch / 1000;
  for (uint32_t r = 0; r < m->c->ranks; r++) result->own_us[r] = s->own[r] / m->batch / 1000;
  result->cpu_us = bench_median(s->cpu, s->count) / m->batch;
  result->algbw_gbs = (double)m->c->bytes / 1000 / result->time_us;
  result->busbw_gbs = result->algbw_gbs * bus_factor(m->c->collective, m->c->ranks);
}

static bool take_samples(struct bench_meter *m, struct samples *s) {
  for (uint32_t i = 0; i < s->count; i++) {
    if (!bench_meter_sample(m, &s->times[i])) return false;
    s->starts[i] = (double)m->start;
    s->ends[i] = (double)m->end;
    s->cpu[i] = m->cpu_us;
  }
  memcpy(s->own, s->times, s->count * sizeof *s->times);
  double own = bench_median(s->own, s->count);
  for (uint32_t r = 0; r < m->c->ranks; r++) s->own[r] = r == m->c->rank ? own : 0;
  return true;
}

static bool combine_samples(struct bench_side *side, struct samples *s, uint32_t ranks, double *wrong) {
  double *const latest[] = {s->times, s->starts, s->ends};
  for (int i = 0; i < 3; i++)
    if (!side->combine(side, latest[i], (int)s->count, TUTTI_MAX)) return false;
  return side->combine(side, s->cpu, (int)s->count, TUTTI_SUM) && side->combine(side, s->own, (int)ranks, TUTTI_SUM) &&
         side->combine(side, wrong, 1, TUTTI_SUM);
}

bool bench_measure(struct bench_side *side, const struct bench_case *c, const struct bench_options *options,
                   struct bench_result *result) {
  struct bench_meter m = {.side = side, .c = c, .batch = 1};
  struct samples s = {0};
  bench_pool_work(side->pool, true);
  bool good = bench_meter_warm(&m, options, &s.count);
  s.times = tu_allocate(s.count, sizeof *s.times);
  s.starts = tu_allocate(s.count, sizeof *s.starts);
  s.ends = tu_allocate(s.count, sizeof *s.ends);
  s.cpu = tu_allocate(s.count, sizeof *s.cpu);
  s.own = tu_allocate(tu_max(s.count, c->ranks), sizeof *s.own);
  good = good && take_samples(&m, &s);
  bench_pool_work(side->pool, false);
  double wrong = (double)m.wrong;
  good = good && combine_samples(side, &s, c->ranks, &wrong);
  if (good) {
    result->own_us = tu_allocate(c->ranks, sizeof *result->own_us);
    summarize(&m, &s, result);
    result->wrong = (uint64_t)wrong;
  }
  free(s.times);
  free(s.starts);
  free(s.ends);
  free(s.cpu);
  free(s.own);
  return good;
}
