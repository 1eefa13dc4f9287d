/* spawn.h: starts a child process that ends with this one. */
#ifndef CLI_RUN_SPAWN_H
#define CLI_RUN_SPAWN_H

#include <sys/types.h>

#include "cli/run/console.h"

struct run_child {
  const char *path; /* program; looked up in PATH if it has no slash */
  char **argv;
  int death_signal; /* what the child gets if this process dies */
  int in, out, err; /* the child's standard streams; -1: inherited */
  /* Called in the child before it executes the program. Returns false and sets errno if that fails. NULL: nothing. */
  bool (*prepare)(void *context);
  /* Called in this process when the child exists, before the child executes the program. NULL: nothing. */
  void (*born)(void *context, pid_t pid);
  void *context;
};

/* Starts a child process in a process group of its own. Returns 0 once it executes
 * the program. Otherwise returns errno; then *pid is -1 if there is no process, or that of a process that ends by
 * itself. */
int run_spawn(const struct run_child *child, const struct run_console *console, pid_t *pid);

/* Opens a pipe. Our end is non-blocking; both descriptors are closed on exec. */
bool run_open_pipe(int *ours, int *theirs, bool we_read);

#endif
