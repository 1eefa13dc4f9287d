/* verdict.h: which rank of a job failed first, and the exit status of the job. */
#ifndef CLI_RUN_VERDICT_H
#define CLI_RUN_VERDICT_H

#include <sys/types.h>

#include "cli/run/console.h"

/* The end of a rank, or of a host. */
struct run_end {
  uint32_t rank;
  pid_t pid;
  int status;         /* wait status */
  uint64_t when_ns;   /* by this process's clock */
  const char *host;   /* NULL: the ranks run on this host only */
  const char *reason; /* why the launcher has lost the host with all its ranks; NULL: the rank has ended */
};

struct run_verdict {
  /* What failed first, as far as is known. It is printed once it is certain that nothing else failed earlier. */
  struct run_end first;
  bool found;        /* `first` is set */
  uint32_t failures; /* of ranks */
  int interrupt;     /* signal that asked the launcher to end the job; 0: none */
  int status;        /* exit status of the job: that of the rank that failed first; 0: no failure has been printed */
};

/* Records a failure. */
void run_verdict_take(struct run_verdict *verdict, const struct run_end *end);
/* Returns true if the rank that failed first was killed by a signal: then no later failure replaces it. */
bool run_verdict_killed(const struct run_verdict *verdict);
/* Prints the first failure, if there is one, and sets the exit status of the job. Does nothing if the status is set. */
void run_verdict_tell(struct run_verdict *verdict, struct run_console *console);
/* Prints how many other ranks failed. */
void run_verdict_tell_others(const struct run_verdict *verdict, struct run_console *console);

#endif
