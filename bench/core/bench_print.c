/* bench_print.c: prints the results as a table, as JSON or as CSV. The objects of JSON and the lines of CSV have the same
 * fields. */
#include <stdio.h>

#include "base/types.h"
#include "bench/core/core.h"
#include "cli/json.h"

static const char *op_name(const struct bench_row *row) {
  return tu_reduces(row->collective) ? tutti_op_name(row->op) : "none";
}

static const char *type_name(const struct bench_row *row) {
  return row->collective == TUTTI_BARRIER ? "none" : tutti_datatype_name(row->type);
}

/* ---- JSON and CSV ---- */

enum { FIELDS_MAX = 32 };

/* A name and its value. Words need no escapes: names of algorithms and plans have letters, digits and some of _.-:+/ */
struct field {
  char name[32];
  const char *word; /* NULL: the value is a number */
  char number[40];  /* empty: there is no value */
};

struct fields {
  struct field all[FIELDS_MAX];
  uint32_t count;
};

static struct field *add(struct fields *f, const char *prefix, const char *name) {
  tu_assert(f->count < FIELDS_MAX);
  struct field *field = &f->all[f->count++];
  *field = (struct field){.word = NULL};
  snprintf(field->name, sizeof field->name, "%s%s", prefix, name);
  return field;
}

static void add_word(struct fields *f, const char *name, const char *word) { add(f, "", name)->word = word; }

static void add_count(struct fields *f, const char *prefix, const char *name, uint64_t count) {
  struct field *field = add(f, prefix, name);
  snprintf(field->number, sizeof field->number, "%llu", (unsigned long long)count);
}

static void add_us(struct fields *f, const char *prefix, const char *name, double us) {
  struct field *field = add(f, prefix, name);
  snprintf(field->number, sizeof field->number, "%.4f", us);
}

static void add_gbs(struct fields *f, const char *prefix, const char *name, double gbs) {
  struct field *field = add(f, prefix, name);
  snprintf(field->number, sizeof field->number, "%.6g", gbs);
}

static void add_late(struct fields *f, const struct bench_options *options, const struct bench_late *late) {
  add_count(f, "", "late_ms", options->late_ms);
  add_us(f, "", "time_us", late->time_us);
  add_us(f, "", "cpu_us", late->cpu_us);
}

static void add_result(struct fields *f, const char *prefix, const struct bench_result *r) {
  add_us(f, prefix, "time_us", r->time_us);
  add_us(f, prefix, "time_us_p99", r->p99_us);
  add_us(f, prefix, "time_us_last", r->last_us);
  add_us(f, prefix, "time_us_min", r->min_us);
  add_us(f, prefix, "time_us_q1", r->q1_us);
  add_us(f, prefix, "time_us_q3", r->q3_us);
  add_us(f, prefix, "time_us_mean", r->mean_us);
  add_us(f, prefix, "time_us_dev", r->dev_us);
  add_us(f, prefix, "cpu_us", r->cpu_us);
  add_gbs(f, prefix, "algbw_gbs", r->algbw_gbs);
  add_gbs(f, prefix, "busbw_gbs", r->busbw_gbs);
  add_count(f, prefix, "wrong", r->wrong);
}

static void add_results(struct fields *f, const struct bench_row *row) {
  add_word(f, "dtype", type_name(row));
  add_word(f, "op", op_name(row));
  add_result(f, "", &row->result);
  uint32_t first = f->count;
  add_result(f, "in_place_", &row->result_in_place);
  for (uint32_t i = first; !row->in_place && i < f->count; i++) f->all[i].number[0] = '\0';
}

/* Lists the fields, except for the list of the ranks' own times, which is last. */
static struct fields list_fields(const struct bench_options *options, const struct bench_row *row) {
  struct fields f = {.count = 0};
  add_word(&f, "collective", tu_collectives[row->collective].name);
  add_word(&f, "algorithm", row->algorithm);
  add_word(&f, "ran", row->ran);
  add_count(&f, "", "ranks", row->ranks);
  add_count(&f, "", "bytes", row->bytes);
  if (options->late_ms) add_late(&f, options, &row->late);
  else add_results(&f, row);
  return f;
}

/* Prints the ranks' own times, with the separator between them. */
static void print_own(const struct bench_row *row, const char *separator) {
  for (uint32_t rank = 0; rank < row->ranks; rank++) printf("%s%.4f", rank ? separator : "", row->result.own_us[rank]);
}

static void print_json(const struct bench_options *options, const struct bench_row *row) {
  struct fields f = list_fields(options, row);
  json_print_head("bench");
  for (uint32_t i = 0; i < f.count; i++) {
    const struct field *field = &f.all[i];
    printf(", \"%s\": ", field->name);
    if (field->word) printf("\"%s\"", field->word);
    else printf("%s", field->number[0] ? field->number : "null");
  }
  if (!options->late_ms) {
    printf(", \"time_us_own\": [");
    print_own(row, ", ");
    putchar(']');
  }
  puts("}");
}

static void print_csv(const struct bench_options *options, const struct bench_row *row) {
  struct fields f = list_fields(options, row);
  for (uint32_t i = 0; i < f.count; i++) printf("%s%s", i ? "," : "", f.all[i].word ? f.all[i].word : f.all[i].number);
  if (!options->late_ms) putchar(',');
  if (!options->late_ms) print_own(row, " ");
  putchar('\n');
}

void bench_print_begin(const struct bench_options *options) {
  if (!options->csv) return;
  struct fields f = list_fields(options, &(struct bench_row){.algorithm = "", .ran = ""});
  for (uint32_t i = 0; i < f.count; i++) printf("%s%s", i ? "," : "", f.all[i].name);
  puts(options->late_ms ? "" : ",time_us_own");
}

/* ---- the table ---- */

static void print_head(const struct bench_side *side, const struct bench_options *options,
                       const struct bench_item *item, const char *algorithm) {
  const char *form = item->plan && item->plan->in_place       ? "in place, by the plan"
                     : item->plan || bench_has_in_place(item) ? "out of place"
                                                              : ""; /* one buffer, or none */
  printf("# %s, algorithm %s, %u rank%s, mode %s", tu_collectives[item->collective].name, algorithm, side->ranks,
         side->ranks == 1 ? "" : "s", options->barrier ? "barrier" : "loop");
  if (options->threads > 1) printf(", copies shared out among %u threads", options->threads);
  if (options->pool) printf(", a pool of %u thread%s for each rank", options->pool, options->pool == 1 ? "" : "s");
  printf("\n");
  printf("# %48s %-77s  in place\n", "", form);
  printf("#%11s %12s %6s %10s %4s %10s %10s %10s %8s %8s %6s %10s %10s  %10s %8s %8s %6s  %s\n", "size", "count",
         "type", "redop", "root", "time", "p99", "last", "algbw", "busbw", "#wrong", "min", "dev", "time", "algbw",
         "busbw", "#wrong", "algorithm");
  printf("#%11s %12s %6s %10s %4s %10s %10s %10s %8s %8s %6s %10s %10s  %10s %8s %8s\n", "(B)", "(elements)", "", "",
         "", "(us)", "(us)", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)", "(us)", "(GB/s)", "(GB/s)");
}

void bench_print_item(const struct bench_side *side, const struct bench_options *options, const struct bench_item *item,
                      const char *algorithm) {
  if (options->json || options->csv) return;
  if (!options->late_ms) {
    print_head(side, options, item, algorithm);
    return;
  }
  printf("# %s, algorithm %s, %u ranks, the last rank is %u ms late\n", tu_collectives[item->collective].name,
         algorithm, side->ranks, options->late_ms);
  printf("#%11s %12s %12s  %s\n#%11s %12s %12s\n", "size", "time", "cpu", "algorithm", "(B)", "(us)", "(us)");
}

static void print_line(const struct bench_options *options, const struct bench_row *row) {
  const struct bench_result *r = &row->result, *in_place = &row->result_in_place;
  int root = tu_collectives[row->collective].rooted ? (int)row->root : -1;
  printf("%12zu %12zu %6s %10s %4d %10.3f %10.3f %10.3f %8.3f %8.3f %6llu %10.3f %10.3f", row->bytes, row->count,
         type_name(row), op_name(row), root, r->time_us, r->p99_us, r->last_us, r->algbw_gbs, r->busbw_gbs,
         (unsigned long long)r->wrong, r->min_us, r->dev_us);
  if (row->in_place)
    printf("  %10.3f %8.3f %8.3f %6llu", in_place->time_us, in_place->algbw_gbs, in_place->busbw_gbs,
           (unsigned long long)in_place->wrong);
  else printf("  %10s %8s %8s %6s", "N/A", "N/A", "N/A", "N/A");
  printf("  %s\n", row->ran);
  if (!options->each) return;
  printf("# own (us):");
  for (uint32_t rank = 0; rank < row->ranks; rank++) printf(" %.3f", r->own_us[rank]);
  printf("\n");
}

void bench_print_row(const struct bench_options *options, const struct bench_row *row) {
  if (options->json) print_json(options, row);
  else if (options->csv) print_csv(options, row);
  else if (options->late_ms)
    printf("%12zu %12.1f %12.1f  %s\n", row->bytes, row->late.time_us, row->late.cpu_us, row->ran);
  else print_line(options, row);
  fflush(stdout);
}
