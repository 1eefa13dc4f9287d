/* budget.h: what plan, check and sim may cost: what would take too long, or more memory than there is, is refused at once. */
#ifndef CLI_BUDGET_H
#define CLI_BUDGET_H

#include "algo/algo.h"
#include "cli.h"

struct budget {
  double max_seconds; /* of a core, about */
};
#define BUDGET_DEFAULT ((struct budget){.max_seconds = 60})

/* The option that sets it, for a verb's table. */
#define BUDGET_OPTION(b) \
  { "--max-seconds", CLI_NUMBER, &(b)->max_seconds, "S", "refuse what would take longer, by estimate (60)" }

/* What is done with a plan once it is built. */
enum budget_use { BUDGET_TEXT, BUDGET_DRAW, BUDGET_CHECK, BUDGET_SIM, BUDGET_USES };

struct budget_question {
  const char *verb;
  enum budget_use use;
  uint32_t times; /* so many plans, one after the other; 0 is 1 */
  struct tu_build what;
  const char *one_rank; /* what to ask for to have one rank's steps built, not all ranks'; NULL: that cannot be */
};

/* CLI_GOOD if it is within the budget and the memory that is free. Otherwise says how much it would take, up to how many ranks it
 * is possible, and which algorithm of the collective can do it: CLI_FAILED. */
int budget_allow(const struct budget *budget, const struct budget_question *question);

/* May so many processes be started, of 4 MiB each at least? If not, says how many may: CLI_FAILED. */
int budget_allow_processes(const char *verb, uint32_t count);

/* From now on the verb says on standard error, if that is a terminal, that it is still at work: after 10 s, 20 s, 40 s, ... */
void budget_tell_time(const char *verb);

#endif
