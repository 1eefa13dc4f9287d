/* describe.h: the description of a job that the launcher sends to an agent. */
#ifndef CLI_RUN_DESCRIBE_H
#define CLI_RUN_DESCRIBE_H

#include <limits.h>

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
  const char *trace;         /* file for what the ranks record; NULL: they do not */
};

/* Writes the working directory as the user's shell names it, if that is correct: a name with symbolic links may be valid
 * on other hosts, too, where they lead elsewhere. Errors: TUTTI_ERR_SYSTEM. */
tutti_err describe_directory(char directory[PATH_MAX], struct tu_error *error);

/* Sends the description: the ranks of the host, working directory, program, arguments, environment and secret. */
void describe_job(struct run_sink *sink, const struct run_request *request, const struct run_meeting *meeting,
                  const char *directory, const struct run_host *host, bool alone);

#endif
