/* describe.h: the description of a job that the launcher sends to an agent. */
#ifndef CLI_RUN_DESCRIBE_H
#define CLI_RUN_DESCRIBE_H

#include "cli/cli.h"
#include "cli/run/host.h"
#include "cli/run/meeting.h"

/* What the user asks for. */
struct run_request {
  struct tu_host_list hosts;
  uint32_t count; /* ranks, at most hosts.slots */
  bool by_host, bind, prefix;
  uint32_t timeout_ms;
  char **program;
  struct cli_list variables; /* NAME or NAME=VALUE */
};

/* Sends the description: the ranks of the host, working directory, program, arguments, environment and secret. */
void describe_job(struct run_sink *sink, const struct run_request *request, const struct run_meeting *meeting,
                  const struct run_host *host, bool alone);

#endif
