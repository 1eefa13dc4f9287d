/* bench_sweep.c: measures every item at every size, and prints the results as a table or as JSON. */
#include <stdio.h>
#include <stdlib.h>

#include "base/types.h"
#include "bench/core/core.h"

static const char *op_name(const struct bench_case *c) {
  return tu_reduces(c->collective) ? tutti_op_name(c->op) : "none";
}

static const char *type_name(const struct bench_case *c) {
  return c->collective == TUTTI_BARRIER ? "none" : tutti_datatype_name(c->type);
}

static const char *item_name(const struct bench_side *side, const struct bench_item *item) {
  if (item->plan) return item->plan->algorithm;
  return item->algorithm ? item->algorithm->name : side->automatic;
}

static void print_head(const struct bench_side *side, const struct bench_options *options,
                       const struct bench_item *item) {
  printf("# %s, algorithm %s, %u rank%s, mode %s\n", tu_collectives[item->collective].name, item_name(side, item),
         side->ranks, side->ranks == 1 ? "" : "s", options->barrier ? "barrier" : "loop");
  printf("#%11s %12s %8s %11s %6s %12s %12s %12s %9s %9s %8s\n", "size", "count", "type", "redop", "root", "time",
         "p99", "last", "algbw", "busbw", "#wrong");
  printf("#%11s %12s %8s %11s %6s %12s %12s %12s %9s %9s %8s\n", "(B)", "(elements)", "", "", "", "(us)", "(us)",
         "(us)", "(GB/s)", "(GB/s)", "");
}

static void print_late_head(const struct bench_side *side, const struct bench_options *options,
                            const struct bench_item *item) {
  printf("# %s, algorithm %s, %u ranks, the last rank is %u ms late\n", tu_collectives[item->collective].name,
         item_name(side, item), side->ranks, options->late_ms);
  printf("#%11s %12s %12s\n#%11s %12s %12s\n", "size", "time", "cpu", "(B)", "(us)", "(us)");
}

static void print_late(const struct bench_side *side, const struct bench_options *options, const struct bench_case *c,
                       const struct bench_late *r) {
  if (!options->json) {
    printf("%12zu %12.1f %12.1f\n", c->bytes, r->time_us, r->cpu_us);
    return;
  }
  printf(
      "{\"collective\": \"%s\", \"algorithm\": \"%s\", \"ranks\": %u, \"bytes\": %zu, \"late_ms\": %u, "
      "\"time_us\": %.1f, \"cpu_us\": %.1f}\n",
      tu_collectives[c->collective].name, c->algorithm ? c->algorithm : side->automatic, c->ranks, c->bytes,
      options->late_ms, r->time_us, r->cpu_us);
}

static void print_row(const struct bench_case *c, const struct bench_result *r, bool each) {
  int root = tu_collectives[c->collective].rooted ? (int)c->root : -1;
  size_t count = tu_collectives[c->collective].vector ? c->bytes / tutti_datatype_size(c->type) : c->count;
  printf("%12zu %12zu %8s %11s %6d %12.3f %12.3f %12.3f %9.3f %9.3f %8llu\n", c->bytes, count, type_name(c), op_name(c),
         root, r->time_us, r->p99_us, r->last_us, r->algbw_gbs, r->busbw_gbs, (unsigned long long)r->wrong);
  if (!each) return;
  printf("# own (us):");
  for (uint32_t rank = 0; rank < c->ranks; rank++) printf(" %.3f", r->own_us[rank]);
  printf("\n");
}

static void print_json(const struct bench_side *side, const struct bench_case *c, const struct bench_result *r) {
  printf(
      "{\"collective\": \"%s\", \"algorithm\": \"%s\", \"ranks\": %u, \"bytes\": %zu, \"dtype\": \"%s\", \"op\": "
      "\"%s\", "
      "\"time_us\": %.4f, \"time_us_p99\": %.4f, \"time_us_last\": %.4f, \"cpu_us\": %.1f, "
      "\"algbw_gbs\": %.6g, \"busbw_gbs\": %.6g, "
      "\"wrong\": %llu, \"time_us_own\": [",
      tu_collectives[c->collective].name, c->algorithm ? c->algorithm : side->automatic, c->ranks, c->bytes,
      type_name(c), op_name(c), r->time_us, r->p99_us, r->last_us, r->cpu_us, r->algbw_gbs, r->busbw_gbs,
      (unsigned long long)r->wrong);
  for (uint32_t rank = 0; rank < c->ranks; rank++) printf("%s%.4f", rank ? ", " : "", r->own_us[rank]);
  printf("]}\n");
}

static bool measure_speed(struct bench_side *side, const struct bench_options *options, const struct bench_case *c,
                          uint64_t *wrong) {
  struct bench_result result;
  if (!bench_measure(side, c, options, &result)) return false;
  *wrong += result.wrong;
  if (side->rank == 0 && options->json) print_json(side, c, &result);
  else if (side->rank == 0) print_row(c, &result, options->each);
  free(result.own_us);
  return true;
}

static bool measure_late(struct bench_side *side, const struct bench_options *options, const struct bench_case *c) {
  struct bench_late result;
  if (!bench_measure_late(side, c, options, &result)) return false;
  if (side->rank == 0) print_late(side, options, c, &result);
  return true;
}

/* Measures one item at one size. Returns false if the library under test failed; then nothing more can be measured. */
static bool measure_one(struct bench_side *side, const struct bench_options *options, const struct bench_item *item,
                        size_t bytes, uint64_t *wrong) {
  struct bench_case c;
  if (!bench_case_create(&c, options, item, side->rank, side->ranks, bytes)) return false;
  bool good = side->select(side, &c);
  if (good && options->late_ms) good = measure_late(side, options, &c);
  else if (good) good = measure_speed(side, options, &c, wrong);
  fflush(stdout);
  bench_case_destroy(&c);
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
  for (uint32_t i = 0; i < item_count; i++) {
    if (side->rank == 0 && !options->json) {
      if (options->late_ms) print_late_head(side, options, &items[i]);
      else print_head(side, options, &items[i]);
    }
    for (uint32_t k = 0; k < options->size_count; k++) {
      if (!bench_size_counts(options, &items[i], side->ranks, k)) continue;
      if (!measure_one(side, options, &items[i], options->sizes[k], &wrong)) return CLI_FAILED;
    }
  }
  /* All ranks know the number of wrong elements; only rank 0 reports the failure. */
  return wrong && side->rank == 0 ? CLI_FAILED : CLI_GOOD;
}
