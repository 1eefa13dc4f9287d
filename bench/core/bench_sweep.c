/* bench_sweep.c: measures every item at every size. */
#include <stdlib.h>

#include "base/types.h"
#include "bench/core/core.h"

static const char *item_name(const struct bench_side *side, const struct bench_item *item) {
  if (item->plan) return item->plan->algorithm;
  return item->algorithm ? item->algorithm->name : side->automatic;
}

/* Returns the name of what ran, which the library is asked for if it had the choice. */
static const char *name_of_run(struct bench_side *side, const struct bench_item *item) {
  const char *chosen = item->plan || item->algorithm || !side->chosen ? NULL : side->chosen(side);
  return chosen ? chosen : item_name(side, item);
}

static struct bench_row describe(struct bench_side *side, const struct bench_item *item, const struct bench_case *c) {
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

/* Warns that the times of a row vary so much that its median depends on chance. */
static void warn_unsteady(const struct bench_options *options, const struct bench_row *row,
                          const struct bench_result *r) {
  if (!bench_is_unsteady(r)) return;
  cli_fail(
      options->verb, CLI_GOOD,
      "warning: %s, %zu bytes: the quartiles of the times, %.3f and %.3f us, are more than 3x apart; is the machine "
      "busy?",
      tu_collectives[row->collective].name, row->bytes, r->q1_us, r->q3_us);
}

/* Measures one item at one size. Returns false if the library under test failed; then nothing more can be measured. */
static bool measure_one(struct bench_side *side, const struct bench_options *options, const struct bench_item *item,
                        size_t bytes, uint64_t *wrong) {
  struct bench_case c;
  if (!bench_case_create(&c, options, item, side->rank, side->ranks, bytes)) return false;
  struct bench_row row = describe(side, item, &c);
  bool good = side->select(side, &c);
  if (good && options->late_ms) good = bench_measure_late(side, &c, options, &row.late);
  else if (good) good = bench_measure(side, &c, options, &row.result);
  if (good) row.ran = name_of_run(side, item);
  bench_case_destroy(&c);
  if (good && side->rank == 0) bench_print_row(options, &row);
  if (good && side->rank == 0 && !options->late_ms) warn_unsteady(options, &row, &row.result);
  *wrong += row.result.wrong;
  free(row.result.own_us);
  return good;
}

bool bench_size_counts(const struct bench_options *options, const struct bench_item *item, uint32_t ranks,
                       uint32_t index) {
  if (index == 0) return true;
  return item->collective != TUTTI_BARRIER && bench_case_bytes(options, item, ranks, options->sizes[index - 1]) !=
                                                  bench_case_bytes(options, item, ranks, options->sizes[index]);
}

int bench_sweep(struct bench_side *side, const struct bench_options *options, const struct bench_item *items,
                uint32_t item_count) {
  uint64_t wrong = 0;
  if (side->rank == 0) bench_print_begin(options);
  for (uint32_t i = 0; i < item_count; i++) {
    if (side->rank == 0) bench_print_item(side, options, &items[i], item_name(side, &items[i]));
    for (uint32_t k = 0; k < options->size_count; k++) {
      if (!bench_size_counts(options, &items[i], side->ranks, k)) continue;
      if (!measure_one(side, options, &items[i], options->sizes[k], &wrong)) return CLI_FAILED;
    }
  }
  /* All ranks know the number of wrong elements; only rank 0 reports the failure. */
  return wrong && side->rank == 0 ? CLI_FAILED : CLI_GOOD;
}
