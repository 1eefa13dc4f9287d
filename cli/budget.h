/* budget.h: limits of time and memory of `tutti plan`, `check` and `sim`. Work that would exceed them is refused at
 * once. */
#ifndef CLI_BUDGET_H
#define CLI_BUDGET_H

#include "algo/algo.h"
#include "cli/cli.h"

struct budget {
  double max_seconds; /* limit of the estimated time on one core, in s */
};
#define BUDGET_DEFAULT ((struct budget){.max_seconds = 60})

/* The option --max-seconds, for a verb's table of options. */
#define BUDGET_OPTION(b) \
  { "--max-seconds", CLI_NUMBER, &(b)->max_seconds, "S", "refuse if the estimated time is longer (60)" }

/* What a plan is used for after it is built. Its cost in time and memory depends on this use. */
enum budget_use { BUDGET_TEXT, BUDGET_DRAW, BUDGET_CHECK, BUDGET_SIM, BUDGET_USES };

struct budget_question {
  const char *verb;
  enum budget_use use;
  uint32_t times; /* number of plans to build, one after another; 0 means 1 */
  struct tu_build what;
  /* Text that a refusal prints as advice: it names the option with which only one rank's steps are built. NULL: there
   * is no such option. */
  const char *one_rank;
};

/* Returns CLI_GOOD if the work is within the time limit and the free memory, and tells the progress (progress.h) its
 * estimated time. Otherwise prints the estimated cost, the largest possible number of ranks, and another algorithm that
 * is within the limits, and returns CLI_FAILED. */
int budget_allow(const struct budget *budget, const struct budget_question *question);

/* Returns TUTTI_OK if the free memory suffices for `count` processes of at least 4 MiB each. Otherwise the error states
 * how many processes are possible. */
tutti_err budget_allow_processes(uint32_t count, struct tu_error *error);

#endif
