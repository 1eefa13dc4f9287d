/* tune_measure.c: measures all algorithms of a collective at all sizes.
 *
 * The noise of a machine comes in bursts, which should not hit one candidate (algorithm) only. Therefore there are
 * several rounds, and in each round every candidate is measured in turn, with a few samples. The result is the median
 * of the rounds. If a candidate is slower than the fastest one in the first round by more than a factor of DROP, it is
 * not measured again. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/tune.h"

static const double DROP = 3;
enum { SAMPLES_MIN = 3 }; /* minimum number of samples in a round */

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
}

/* ---- measuring all candidates at one size ---- */

/* One candidate (algorithm) at one size: its measurements so far. */
struct turn {
  const char *algorithm;
  /* batch: number of operations that are timed together as one sample; samples: number of samples in a round */
  uint32_t batch, samples;
  double rounds_us[TUNE_ROUNDS];
  bool dropped;
};

static bool warm(struct bench_meter *m, struct bench_case *c, const struct bench_options *options, struct turn *turn) {
  uint32_t samples;
  m->batch = 1;
  c->algorithm = turn->algorithm;
  if (!m->side->select(m->side, c) || !bench_meter_warm(m, options, &samples)) return false;
  turn->batch = m->batch;
  turn->samples = (uint32_t)tu_max(samples / TUNE_ROUNDS, SAMPLES_MIN);
  return true;
}

static bool take(struct bench_meter *m, struct bench_case *c, struct turn *turn, uint32_t round) {
  double *times = tu_allocate(turn->samples, sizeof *times);
  m->batch = turn->batch;
  c->algorithm = turn->algorithm;
  /* The first sample is not counted, because the previous candidate has left its data in the caches. */
  bool good = m->side->select(m->side, c) && bench_meter_sample(m, times);
  for (uint32_t i = 0; good && i < turn->samples; i++) good = bench_meter_sample(m, &times[i]);
  good = good && m->side->combine(m->side, times, (int)turn->samples, TUTTI_MAX);
  if (good) turn->rounds_us[round] = bench_median(times, turn->samples) / turn->batch / 1000;
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

static bool take_turns(struct bench_meter *m, struct bench_case *c, const struct bench_options *options,
                       struct turn *turns, uint32_t count) {
  for (uint32_t k = 0; k < count; k++)
    if (!warm(m, c, options, &turns[k]) || !check_results(m, &turns[k])) return false;
  for (uint32_t round = 0; round < TUNE_ROUNDS; round++) {
    for (uint32_t k = 0; k < count; k++)
      if (!turns[k].dropped && (!take(m, c, &turns[k], round) || !check_results(m, &turns[k]))) return false;
    if (round == 0) drop_slow(turns, count);
  }
  return true;
}

static bool measure_size(struct bench_side *side, const struct bench_options *options, struct tune_table *t,
                         uint32_t size) {
  struct bench_case c;
  const struct bench_item item = {.collective = t->collective};
  if (!bench_case_create(&c, options, &item, side->rank, side->ranks, t->sizes[size])) return false;
  struct turn *turns = tu_allocate(t->candidate_count, sizeof *turns);
  for (uint32_t k = 0; k < t->candidate_count; k++) turns[k].algorithm = t->candidates[k].algorithm->name;
  struct bench_meter m = {.side = side, .c = &c};
  bool good = take_turns(&m, &c, options, turns, t->candidate_count);
  for (uint32_t k = 0; good && k < t->candidate_count; k++) {
    double *rounds = turns[k].rounds_us;
    struct tune_candidate *candidate = &t->candidates[k];
    candidate->time_us[size] = turns[k].dropped ? rounds[0] : bench_median(rounds, TUNE_ROUNDS);
    /* bench_median has sorted rounds[], so the quartiles can be read from it. */
    candidate->noise_us[size] = turns[k].dropped ? 0 : (rounds[TUNE_ROUNDS * 3 / 4] - rounds[TUNE_ROUNDS / 4]) / 2;
  }
  free(turns);
  bench_case_destroy(&c);
  return good;
}

/* Returns true if some rank waits for no other rank in this collective. If several such operations were timed together,
 * this rank would run ahead, and the result would be only the time to issue them. Therefore a barrier precedes each
 * operation. */
static bool is_one_way(tutti_collective c) {
  return tu_collectives[c].rooted || tu_collectives[c].promise == TU_SUM_TO ||
         tu_collectives[c].promise == TU_SUM_BEFORE;
}

bool tune_measure(struct bench_side *side, const struct bench_options *options, struct tune_table *t) {
  struct bench_options mine = *options;
  mine.barrier = is_one_way(t->collective);
  for (uint32_t size = 0; size < t->size_count; size++)
    if (!measure_size(side, &mine, t, size)) return false;
  return true;
}
