/* bench_late.c: measures the cost of waiting. The last rank sleeps before each operation, and the other ranks wait in
 * the operation. The CPU time that waiting processes use is lost to other work when ranks are unequally fast. */
#include <time.h>

#include "bench/core/core.h"

enum { SAMPLES = 10 };

static bool sample(struct bench_side *side, uint32_t late_ms, double *time_us, double *burned_us) {
  if (!side->barrier(side)) return false;
  bool is_late = side->rank == side->ranks - 1;
  const struct timespec nap = {late_ms / 1000, (long)(late_ms % 1000) * 1000000};
  if (is_late) nanosleep(&nap, NULL);
  uint64_t start = tu_clock_ns();
  double before = bench_cpu_us();
  if (!side->operate(side)) return false;
  *burned_us = is_late ? 0 : bench_cpu_us() - before;
  *time_us = is_late ? 0 : (double)(tu_clock_ns() - start) / 1e3;
  return true;
}

bool bench_measure_late(struct bench_side *side, const struct bench_case *c, const struct bench_options *options,
                        struct bench_late *result) {
  double times[SAMPLES], burned[SAMPLES];
  bench_case_produce(c, 0);
  /* The first operation is not measured, because it opens channels. */
  bool good = side->operate(side);
  for (uint32_t i = 0; good && i < SAMPLES; i++) good = sample(side, options->late_ms, &times[i], &burned[i]);
  if (!good || !side->combine(side, times, SAMPLES, TUTTI_MAX) || !side->combine(side, burned, SAMPLES, TUTTI_MAX))
    return false;
  *result = (struct bench_late){bench_median(times, SAMPLES), bench_median(burned, SAMPLES)};
  return true;
}
