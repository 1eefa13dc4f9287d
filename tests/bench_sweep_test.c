/* bench_sweep_test.c: which forms the benchmark measures, what it warns of, and its exit status. The times and the counts of
 * wrong elements are given. */
#include "../bench/core/bench_sweep.c"

#include "../bench/core/bench_case.c"
#include "../bench/core/bench_pool.c"
#include "test.h"

/* ---- what the sweep calls ---- */

static char warnings[1024];
static struct bench_result found[2]; /* out of place, and in place */
static uint32_t measured[2], rows, rows_in_place;
static const char *ran;

void (*cli_before_message)(void);
int cli_fail(const char *verb, int exit_code, const char *format, ...) {
  size_t length = strlen(warnings);
  va_list arguments;
  va_start(arguments, format);
  length += (size_t)snprintf(warnings + length, sizeof warnings - length, "%s: ", verb);
  vsnprintf(warnings + length, sizeof warnings - length, format, arguments);
  va_end(arguments);
  return exit_code;
}

bool bench_measure(struct bench_side *side, const struct bench_case *c, const struct bench_options *options,
                   struct bench_result *result) {
  (void)side, (void)options;
  measured[c->in_place]++;
  *result = found[c->in_place];
  return true;
}

bool bench_measure_late(struct bench_side *side, const struct bench_case *c, const struct bench_options *options,
                        struct bench_late *result) {
  struct bench_result ignored;
  *result = (struct bench_late){0};
  return bench_measure(side, c, options, &ignored);
}

void bench_print_begin(const struct bench_options *options) { (void)options; }

void bench_print_item(const struct bench_side *side, const struct bench_options *options, const struct bench_item *item,
                      const char *algorithm) {
  (void)side, (void)options, (void)item, (void)algorithm;
}

void bench_print_row(const struct bench_options *options, const struct bench_row *row) {
  (void)options;
  rows++;
  rows_in_place += row->in_place;
  ran = row->ran;
}

static bool select_case(struct bench_side *side, const struct bench_case *c) {
  (void)side, (void)c;
  return true;
}

static const char *chosen(struct bench_side *side) {
  (void)side;
  return "chain";
}

/* ---- the tests ---- */

static const struct bench_side one_rank = {
    .automatic = "auto", .ranks = 1, .in_place = true, .select = select_case, .chosen = chosen};

/* Runs the sweep with results that were set in found[]; returns its status. */
static int sweep(const struct bench_side *side, const struct bench_options *more, tutti_collective collective) {
  struct bench_side mine = *side;
  struct bench_options options = *more;
  options.verb = "bench";
  options.sizes[0] = 64;
  options.size_count = 1;
  warnings[0] = '\0';
  measured[0] = measured[1] = rows = rows_in_place = 0;
  return bench_sweep(&mine, &options, &(struct bench_item){.collective = collective}, 1);
}

static void test_forms(void) {
  struct bench_side side = one_rank;
  const struct bench_options both = {.type = TUTTI_F32}, one = {.out_of_place = true}, late = {.late_ms = 1};
  sweep(&side, &both, TUTTI_SCAN);
  CHECK(measured[0] == 1 && measured[1] == 1 && rows == 1 && rows_in_place == 1, "scan: %u, and %u in place",
        measured[0], measured[1]);
  sweep(&side, &one, TUTTI_SCAN);
  CHECK(measured[0] == 1 && measured[1] == 0 && rows_in_place == 0, "--out-of-place: %u in place", measured[1]);
  sweep(&side, &late, TUTTI_SCAN);
  CHECK(measured[0] == 1 && measured[1] == 0 && rows_in_place == 0, "--late-ms: %u in place", measured[1]);
  sweep(&side, &both, TUTTI_BARRIER);
  CHECK(measured[0] == 1 && measured[1] == 0 && rows_in_place == 0, "barrier: %u in place", measured[1]);
  sweep(&side, &both, TUTTI_BROADCAST); /* its root always has one buffer */
  CHECK(measured[0] + measured[1] == 1 && rows_in_place == 0, "broadcast: %u times", measured[0] + measured[1]);
  side.in_place = false;
  sweep(&side, &both, TUTTI_SCAN);
  CHECK(measured[0] == 1 && measured[1] == 0 && rows_in_place == 0, "another library: %u in place", measured[1]);
}

static void test_warnings(void) {
  const struct bench_options options = {.type = TUTTI_F32};
  found[0] = (struct bench_result){.q1_us = 2, .q3_us = 6};
  found[1] = found[0];
  sweep(&one_rank, &options, TUTTI_SCAN);
  CHECK(!warnings[0], "quartiles exactly 3x apart: '%s'", warnings);
  found[1].q3_us = 6.5;
  sweep(&one_rank, &options, TUTTI_SCAN);
  CHECK(strstr(warnings, "bench: warning: scan in place, 64 bytes: ") && strstr(warnings, "2.000 and 6.500 us"),
        "in place, more than 3x: '%s'", warnings);
  found[0].q3_us = 7;
  sweep(&one_rank, &options, TUTTI_SCAN);
  CHECK(strstr(warnings, "scan, 64 bytes: ") && strstr(warnings, "scan in place, 64 bytes: "), "both: '%s'", warnings);
  struct bench_side other = one_rank;
  other.rank = 1;
  other.ranks = 2;
  sweep(&other, &options, TUTTI_SCAN);
  CHECK(!warnings[0] && rows == 0, "rank 1 warns: '%s'", warnings);
  found[0] = found[1] = (struct bench_result){0};
}

static void test_status(void) {
  const struct bench_options options = {.type = TUTTI_F32};
  CHECK(sweep(&one_rank, &options, TUTTI_SCAN) == CLI_GOOD, "nothing wrong");
  found[1].wrong = 1;
  CHECK(sweep(&one_rank, &options, TUTTI_SCAN) == CLI_FAILED, "a wrong element in place");
  found[1].wrong = 0;
  found[0].wrong = 1;
  CHECK(sweep(&one_rank, &options, TUTTI_SCAN) == CLI_FAILED, "a wrong element");
  found[0].wrong = 0;
}

static void test_names(void) {
  const struct bench_options options = {.type = TUTTI_F32};
  struct bench_side side = one_rank;
  sweep(&side, &options, TUTTI_SCAN);
  CHECK(strcmp(ran, "chain") == 0, "the library chose chain; the row says '%s'", ran);
  side.chosen = NULL;
  sweep(&side, &options, TUTTI_SCAN);
  CHECK(strcmp(ran, "auto") == 0, "the library does not say; the row says '%s'", ran);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"forms", test_forms},
      {"warnings", test_warnings},
      {"status", test_status},
      {"names", test_names},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
