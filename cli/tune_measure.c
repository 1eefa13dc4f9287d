/* tune_measure.c: measures all algorithms of a collective at all sizes.
 *
 * The noise of a machine comes in bursts, which should not hit one candidate (algorithm) only. Therefore there are
 * several rounds, and in each round every candidate is measured in turn, with a few samples. The result is the median
 * of the rounds. If a candidate is slower than the fastest one in the first round by more than a factor of DROP, it is
 * not measured again.
 *
 * The measurements keep a budget of time. The number of samples of a turn follows from the time that is left for the
 * size. If it does not suffice for the fewest samples, there are fewer rounds, but at least one. All ranks take the same
 * decisions, by the rank that has the most time left. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/progress.h"
#include "cli/tune.h"

static const double DROP = 3;
enum {
  SAMPLES_MIN = 3,    /* minimum number of samples in a round */
  SAMPLES_MAX = 4096, /* maximum */
  /* samples of a candidate at one size, if the time of --time-ms is shorter: the first ones, and SAMPLES_MIN in each
   * round, with the one that is not counted */
  SAMPLES_PLANNED = 4 + TUNE_ROUNDS * (SAMPLES_MIN + 1)
};

/* Adds an algorithm to the candidates, if it supports the ranks and is not a candidate yet. */
static void add_candidate(struct tune_table *t, const struct tu_algorithm *a) {
  if (a->collective != t->collective || !tu_algorithm_fits_on(a, t->ranks, t->placement)) return;
  if (t->canonical && !tu_algorithm_is_canonical(a, t->ranks, t->placement)) return;
  for (uint32_t k = 0; k < t->candidate_count; k++)
    if (t->candidates[k].algorithm == a) return;
  t->candidates[t->candidate_count++] = (struct tune_candidate){
      .algorithm = a,
      .time_us = tu_allocate(t->size_count, sizeof(double)),
      .noise_us = tu_allocate(t->size_count, sizeof(double)),
  };
}

void tune_table_init(struct tune_table *t, const struct bench_options *options, tutti_collective collective,
                     uint32_t ranks) {
  const struct bench_item item = {.collective = collective};
  uint32_t capacity = 0;
  *t = (struct tune_table){
      .collective = collective, .ranks = ranks, .placement = options->placement, .canonical = options->canonical};
  for (uint32_t k = 0; k < options->size_count; k++) {
    if (!bench_size_counts(options, &item, ranks, k)) continue;
    t->sizes = tu_grow(t->sizes, t->size_count, &capacity, sizeof *t->sizes);
    t->sizes[t->size_count++] = bench_case_bytes(options, &item, ranks, options->sizes[k]);
  }
  t->planned_s = tu_allocate(t->size_count, sizeof *t->planned_s);
  const struct tu_tuning *builtin = tu_tuning_builtin();
  t->candidates = tu_allocate(tu_algorithm_count + builtin->rule_count, sizeof *t->candidates);
  for (size_t i = 0; i < tu_algorithm_count; i++)
    if (t->placement || !(tu_algorithms[i]->flags & TU_BY_HOSTS)) add_candidate(t, tu_algorithms[i]);
  /* The table of algorithms has no composites. Those of several hosts are in rules. */
  for (uint32_t i = 0; t->placement && i < builtin->rule_count; i++)
    if (builtin->rules[i].algorithm->flags & TU_BY_HOSTS) add_candidate(t, builtin->rules[i].algorithm);
}

void tune_table_fini(struct tune_table *t) {
  for (uint32_t k = 0; k < t->candidate_count; k++) {
    free(t->candidates[k].time_us);
    free(t->candidates[k].noise_us);
  }
  free(t->candidates);
  free(t->sizes);
  free(t->planned_s);
}

/* ---- the budget of time ---- */

/* Returns true if some rank waits for no other rank in this collective. If several such operations were timed together,
 * this rank would run ahead, and the result would be only the time to issue them. Therefore a barrier precedes each
 * operation. */
static bool is_one_way(tutti_collective c) {
  return tu_collectives[c].rooted || tu_collectives[c].promise == TU_SUM_TO ||
         tu_collectives[c].promise == TU_SUM_BEFORE;
}

/* Measures how long a sample takes at one size, with the algorithm that the library chooses. */
static bool try_size(struct bench_side *side, const struct bench_options *options, const struct tune_table *t,
                     size_t bytes, double *sample_s) {
  struct bench_case c;
  uint32_t samples;
  struct bench_options quick = *options;
  quick.time_ms = 0;
  quick.barrier = is_one_way(t->collective);
  const struct bench_item item = {.collective = t->collective};
  if (!bench_case_create(&c, &quick, &item, side->rank, side->ranks, bytes)) return false;
  struct bench_meter m = {.side = side, .c = &c, .batch = 1};
  const bool good = side->select(side, &c) && bench_meter_warm(&m, &quick, &samples);
  *sample_s = m.sample_ns * 1e-9;
  bench_case_destroy(&c);
  return good;
}

bool tune_plan(struct bench_side *side, const struct bench_options *options, struct tune_table *t) {
  double small_s, large_s;
  const size_t low = t->sizes[0], high = t->sizes[t->size_count - 1];
  if (!try_size(side, options, t, low, &small_s) || !try_size(side, options, t, high, &large_s)) return false;
  for (uint32_t size = 0; size < t->size_count; size++) {
    const double part = high > low ? (double)(t->sizes[size] - low) / (double)(high - low) : 0;
    const double sample_s = small_s + part * fmax(large_s - small_s, 0);
    t->planned_s[size] = t->candidate_count * fmax(options->time_ms * 1e-3, SAMPLES_PLANNED * sample_s);
  }
  return true;
}

static double now_s(void) { return (double)tu_clock_ns() * 1e-9; }

/* Sets *left to the time until `end`, a time of this rank's clock, in s; to the longest of all ranks. */
static bool time_left(struct bench_side *side, double end, double *left) {
  *left = end - now_s();
  return side->combine(side, left, 1, TUTTI_MAX);
}

/* ---- measuring all candidates at one size ---- */

/* One candidate (algorithm) at one size: its measurements so far. */
struct turn {
  const char *algorithm;
  uint32_t batch;  /* number of operations that are timed together as one sample */
  double sample_s; /* time of a whole sample, in s */
  double rounds_us[TUNE_ROUNDS];
  bool dropped;
};

static bool warm(struct bench_meter *m, struct bench_case *c, const struct bench_options *options, struct turn *turn) {
  uint32_t samples;
  m->batch = 1;
  c->algorithm = turn->algorithm;
  if (!m->side->select(m->side, c) || !bench_meter_warm(m, options, &samples)) return false;
  turn->batch = m->batch;
  turn->sample_s = m->sample_ns * 1e-9;
  return true;
}

/* Measures a candidate in one round, which should take `seconds`. */
static bool take(struct bench_meter *m, struct bench_case *c, struct turn *turn, uint32_t round, double seconds) {
  const double fit = seconds / turn->sample_s - 1;
  const uint32_t samples = fit < SAMPLES_MIN ? SAMPLES_MIN : fit > SAMPLES_MAX ? SAMPLES_MAX : (uint32_t)fit;
  double *times = tu_allocate(samples, sizeof *times);
  m->batch = turn->batch;
  c->algorithm = turn->algorithm;
  /* The first sample is not counted, because the previous candidate has left its data in the caches. */
  bool good = m->side->select(m->side, c) && bench_meter_sample(m, times);
  for (uint32_t i = 0; good && i < samples; i++) good = bench_meter_sample(m, &times[i]);
  good = good && m->side->combine(m->side, times, (int)samples, TUTTI_MAX);
  if (good) turn->rounds_us[round] = bench_median(times, samples) / turn->batch / 1000;
  free(times);
  return good;
}

static void drop_slow(struct turn *turns, uint32_t count) {
  double best = turns[0].rounds_us[0];
  for (uint32_t k = 1; k < count; k++)
    if (turns[k].rounds_us[0] < best) best = turns[k].rounds_us[0];
  for (uint32_t k = 0; k < count; k++) turns[k].dropped = turns[k].rounds_us[0] > DROP * best;
}

/* Returns true if all results are correct. Otherwise, if a rank found wrong results, prints an error and returns
 * false. */
static bool check_results(struct bench_meter *m, const struct turn *turn) {
  double wrong = (double)m->wrong;
  if (!m->side->combine(m->side, &wrong, 1, TUTTI_SUM)) return false;
  if (wrong > 0 && m->side->rank == 0)
    cli_fail("tune", CLI_FAILED, "%s.%s on %u ranks gave %.0f wrong elements at a size of %zu bytes",
             tu_collectives[m->c->collective].name, turn->algorithm, m->c->ranks, wrong, m->c->bytes);
  return wrong == 0;
}

static uint32_t count_active(const struct turn *turns, uint32_t count) {
  uint32_t active = 0;
  for (uint32_t k = 0; k < count; k++) active += !turns[k].dropped;
  return active;
}

/* Measures the candidates in rounds until the time `end`, and sets *rounds to their number. */
static bool take_turns(struct bench_meter *m, struct bench_case *c, const struct bench_options *options,
                       struct turn *turns, uint32_t count, double end, uint32_t *rounds) {
  double left;
  *rounds = 0;
  for (uint32_t k = 0; k < count; k++)
    if (!warm(m, c, options, &turns[k]) || !check_results(m, &turns[k])) return false;
  while (*rounds < TUNE_ROUNDS) {
    if (!time_left(m->side, end, &left)) return false;
    if (*rounds > 0 && left <= 0) break;
    const double seconds = left / (TUNE_ROUNDS - *rounds) / count_active(turns, count);
    for (uint32_t k = 0; k < count; k++)
      if (!turns[k].dropped && (!take(m, c, &turns[k], *rounds, seconds) || !check_results(m, &turns[k]))) return false;
    if (*rounds == 0) drop_slow(turns, count);
    ++*rounds;
  }
  return true;
}

/* Half of the interquartile range of the sorted times. */
static double half_range(const double *sorted, uint32_t count) {
  return (sorted[count * 3 / 4] - sorted[count / 4]) / 2;
}

static bool measure_size(struct bench_side *side, const struct bench_options *options, struct tune_table *t,
                         uint32_t size, double end) {
  struct bench_case c;
  uint32_t rounds;
  const struct bench_item item = {.collective = t->collective};
  if (!bench_case_create(&c, options, &item, side->rank, side->ranks, t->sizes[size])) return false;
  struct turn *turns = tu_allocate(t->candidate_count, sizeof *turns);
  for (uint32_t k = 0; k < t->candidate_count; k++) turns[k].algorithm = t->candidates[k].algorithm->name;
  struct bench_meter m = {.side = side, .c = &c};
  bool good = take_turns(&m, &c, options, turns, t->candidate_count, end, &rounds);
  for (uint32_t k = 0; good && k < t->candidate_count; k++) {
    struct tune_candidate *candidate = &t->candidates[k];
    const uint32_t taken = turns[k].dropped ? 1 : rounds;
    candidate->time_us[size] = bench_median(turns[k].rounds_us, taken); /* sorts them */
    candidate->noise_us[size] = half_range(turns[k].rounds_us, taken);
  }
  free(turns);
  bench_case_destroy(&c);
  return good;
}

bool tune_measure(struct bench_side *side, const struct bench_options *options, struct tune_table *t,
                  struct tune_budget *budget) {
  struct bench_options mine = *options;
  mine.barrier = is_one_way(t->collective);
  for (uint32_t size = 0; size < t->size_count; size++) {
    /* What is left is divided among the sizes that are left, so that what one size takes too long is saved at others. */
    const double now = now_s(), left = budget->begun + budget->seconds - now;
    const double end = now + left * t->planned_s[size] / (budget->planned - budget->spent);
    if (!measure_size(side, &mine, t, size, end)) return false;
    budget->spent += t->planned_s[size];
    progress_step(++budget->sizes_done, budget->spent);
  }
  return true;
}
