/* bench_sweep.c: measures every item at every size. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/types.h"
#include "bench/core/core.h"
#include "cli/progress.h"

enum { APART_MAX = 3 }; /* upper quartile / lower quartile of the times of a row */

static const char *item_name(const struct bench_side *side, const struct bench_item *item) {
  if (item->plan) return item->plan->algorithm;
  return item->algorithm ? item->algorithm->name : side->automatic;
}

/* Returns the name of what ran, which the library is asked for if it had the choice. */
static const char *name_of_run(struct bench_side *side, const struct bench_item *item) {
  const char *chosen = item->plan || item->algorithm || !side->chosen ? NULL : side->chosen(side);
  return chosen ? chosen : item_name(side, item);
}

static struct bench_row describe(const struct bench_side *side, const struct bench_item *item,
                                 const struct bench_case *c) {
  bool vector = tu_collectives[c->collective].vector;
  return (struct bench_row){
      .collective = c->collective,
      .algorithm = item_name(side, item),
      .type = c->type,
      .op = c->op,
      .ranks = c->ranks,
      .root = c->root,
      .bytes = c->bytes,
      .count = vector ? c->bytes / tutti_datatype_size(c->type) : c->count,
  };
}

/* Warns if the times of a row vary so much that their median depends on chance. A pool makes them vary. `form`: "" or
 * " in place" */
static void warn_unsteady(const struct bench_options *options, const struct bench_row *row, const char *form,
                          const struct bench_result *r) {
  if (options->pool || r->q3_us <= APART_MAX * r->q1_us) return;
  cli_fail(options->verb, CLI_GOOD,
           "warning: %s%s, %zu bytes: the quartiles of the times, %.3f and %.3f us, are more than %dx apart; is the "
           "machine busy?",
           tu_collectives[row->collective].name, form, row->bytes, r->q1_us, r->q3_us, APART_MAX);
}

/* Measures the form of the item, in place or not, and adds it to the row. */
static bool measure_form(struct bench_side *side, const struct bench_options *options, const struct bench_item *item,
                         size_t bytes, struct bench_row *row) {
  struct bench_case c;
  if (!bench_case_create(&c, options, item, side->rank, side->ranks, bytes)) return false;
  if (!item->in_place) *row = describe(side, item, &c);
  bool good = side->select(side, &c);
  if (good && options->late_ms) good = bench_measure_late(side, &c, options, &row->late);
  else if (good) good = bench_measure(side, &c, options, item->in_place ? &row->result_in_place : &row->result);
  if (good) row->ran = name_of_run(side, item); /* in place, the choice is the same */
  bench_case_destroy(&c);
  return good;
}

static void report(const struct bench_options *options, const struct bench_row *row) {
  bench_print_row(options, row);
  if (options->late_ms) return;
  warn_unsteady(options, row, "", &row->result);
  if (row->in_place) warn_unsteady(options, row, " in place", &row->result_in_place);
}

/* Measures one item at one size, and in place after that, so that both never have their buffers at the same time. Returns
 * false if the library under test failed; then nothing more can be measured. */
static bool measure_one(struct bench_side *side, const struct bench_options *options, const struct bench_item *item,
                        size_t bytes, uint64_t *wrong) {
  struct bench_row row = {0};
  struct bench_item in_place = *item;
  in_place.in_place = side->in_place && !options->out_of_place && !options->late_ms && bench_has_in_place(item);
  bool good = measure_form(side, options, item, bytes, &row);
  row.in_place = in_place.in_place;
  if (good && row.in_place) good = measure_form(side, options, &in_place, bytes, &row);
  progress_clear();
  if (good && side->rank == 0) report(options, &row);
  *wrong += row.result.wrong + row.result_in_place.wrong;
  free(row.result.own_us);
  free(row.result_in_place.own_us);
  return good;
}

bool bench_size_counts(const struct bench_options *options, const struct bench_item *item, uint32_t ranks,
                       uint32_t index) {
  if (index == 0) return true;
  return item->collective != TUTTI_BARRIER && bench_case_bytes(options, item, ranks, options->sizes[index - 1]) !=
                                                  bench_case_bytes(options, item, ranks, options->sizes[index]);
}

/* Starts to tell the progress, on rank 0. */
static void start_progress(const struct bench_side *side, const struct bench_options *options,
                           const struct bench_item *items, uint32_t item_count) {
  uint32_t total = 0;
  for (uint32_t i = 0; i < item_count; i++)
    for (uint32_t k = 0; k < options->size_count; k++) total += bench_size_counts(options, &items[i], side->ranks, k);
  progress_start(&(struct progress_task){
      .verb = "bench", .things = "sizes", .total = total, .work = total, .quiet = options->quiet || side->rank != 0});
}

static int measure_all(struct bench_side *side, const struct bench_options *options, const struct bench_item *items,
                       uint32_t item_count) {
  uint64_t wrong = 0;
  uint32_t done = 0;
  if (side->rank == 0) bench_print_begin(options);
  start_progress(side, options, items, item_count);
  for (uint32_t i = 0; i < item_count; i++) {
    progress_clear();
    if (side->rank == 0) bench_print_item(side, options, &items[i], item_name(side, &items[i]));
    for (uint32_t k = 0; k < options->size_count; k++) {
      if (!bench_size_counts(options, &items[i], side->ranks, k)) continue;
      if (!measure_one(side, options, &items[i], options->sizes[k], &wrong)) return CLI_FAILED;
      done++;
      progress_step(done, done);
    }
  }
  progress_stop();
  /* All ranks know the number of wrong elements; only rank 0 reports the failure. */
  return wrong && side->rank == 0 ? CLI_FAILED : CLI_GOOD;
}

int bench_sweep(struct bench_side *side, const struct bench_options *options, const struct bench_item *items,
                uint32_t item_count) {
  if (options->threads > 1 && !side->shares)
    return side->rank > 0
               ? CLI_USAGE
               : cli_fail(options->verb, CLI_USAGE, "--threads: only tutti shares out its copies among threads");
  side->pool = options->pool ? bench_pool_create(options->pool) : NULL;
  if (options->pool && !side->pool)
    return cli_fail(options->verb, CLI_FAILED, "--pool: cannot start %u threads on rank %u: %s", options->pool,
                    side->rank, strerror(errno));
  int code = measure_all(side, options, items, item_count);
  bench_pool_destroy(side->pool);
  side->pool = NULL;
  return code;
}
