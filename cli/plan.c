/* plan.c: tutti plan: the text form of a plan. */
#include "plan/plan.h"

#include <stdio.h>

#include "base/text.h"
#include "names.h"

#define ALL UINT32_MAX

static int run(int argc, char **argv) {
  uint32_t ranks = 0, root = 0, rank = ALL;
  bool in_place = false, done;
  const struct cli_option options[] = {
      {"-n", CLI_UINT, &ranks, "N", "number of ranks"},
      {"--root", CLI_UINT, &root, "R", "the root, of collectives that have one (0)"},
      {"--rank", CLI_UINT, &rank, "R", "the steps of this rank only"},
      {"--in-place", CLI_FLAG, &in_place, NULL, "input and output lie on the same memory"},
  };
  int code = cli_parse(&cli_plan, options, sizeof options / sizeof options[0], &argc, argv, &done);
  if (code != CLI_GOOD || done) return code;
  struct cli_name name;
  if (argc != 2)
    return cli_fail("plan", CLI_USAGE, "expected one COLLECTIVE.NAME, found %d; tutti list shows them", argc - 1);
  if (!cli_find_name(argv[1], &name)) return cli_fail_name("plan", CLI_USAGE, argv[1]);
  struct tu_build what = {
      .ranks = ranks, .root = root, .in_place = in_place, .rank = rank == ALL ? TU_ALL_RANKS : rank};
  if ((code = cli_check_build("plan", argv[1], &name, &what)) != CLI_GOOD) return code;
  if (rank != ALL && rank >= ranks)
    return cli_fail("plan", CLI_USAGE, "--rank: expected a rank below %u, found %u", ranks, rank);
  struct tu_plan *plan = tu_plan_build(&what);
  struct tu_text text = {0};
  tu_plan_write(plan, &text);
  fputs(text.chars, stdout);
  tu_text_fini(&text);
  tu_plan_destroy(plan);
  return CLI_GOOD;
}

const struct cli_verb cli_plan = {"plan", "a plan in its text form",
                                  "plan COLLECTIVE.NAME -n N [--root R] [--rank R] [--in-place]", run};
