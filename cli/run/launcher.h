/* launcher.h: `tutti run --hosts`: a job on several hosts, with an agent on each. */
#ifndef CLI_RUN_LAUNCHER_H
#define CLI_RUN_LAUNCHER_H

#include "cli/run/describe.h"

/* Runs the job. Returns the exit status. */
int run_on_hosts(const struct run_request *request);

#endif
