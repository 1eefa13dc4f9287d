/* run.c: `tutti run` starts the ranks of a job, monitors them, and ends every process that they started. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/budget.h"
#include "cli/cli.h"
#include "cli/run/agent.h"
#include "cli/run/job.h"
#include "cli/run/launcher.h"
#include "cli/run/tracer.h"

/* Starts the ranks on this host. */
static int start(struct run_job *job) {
  struct tu_error error;
  if (run_job_init(job, &error) != TUTTI_OK || run_meeting_open(&job->meeting, true, &error) != TUTTI_OK ||
      run_meeting_secret(&job->meeting, &error) != TUTTI_OK)
    return cli_fail("run", CLI_FAILED, "%s", error.text);
  while (job->started < job->count && run_start_next(job)) {}
  const bool complete = job->started == job->count && job->phase != RUN_KILLING;
  run_watch(job);
  if (complete) run_verdict_tell_others(&job->verdict, &job->console);
  run_watch(job); /* writes the message */
  return job->verdict.status;
}

static int run_here(const struct run_request *request) {
  struct run_job job = {.count = request->count,
                        .world = request->count,
                        .prefix = request->prefix,
                        .piped = request->prefix,
                        .bind = request->bind,
                        .timeout_ms = request->timeout_ms,
                        .patience_ms = RUN_GRACE_MS,
                        .path = request->program[0],
                        .program = request->program};
  struct run_tracer tracer = {0};
  struct tu_error error;
  if (budget_allow_processes(job.count, &error) != TUTTI_OK) return cli_fail("run", CLI_FAILED, "-n: %s", error.text);
  for (uint32_t i = 0; i < request->variables.count; i++)
    if (strchr(request->variables.items[i], '=')) (void)putenv((char *)(uintptr_t)request->variables.items[i]);
  if (request->trace && run_tracer_open(&tracer, request->trace, &error) != TUTTI_OK)
    return cli_fail("run", CLI_FAILED, "%s", error.text);
  int status = start(&job);
  if (tracer.directory && job.started > 0 && run_tracer_write(&tracer, request->trace) != CLI_GOOD && status == 0)
    status = CLI_FAILED;
  run_tracer_close(&tracer);
  run_job_fini(&job);
  return status;
}

/* Reads the hosts, and the number of ranks if it is not given. */
static int read_hosts(const char *text, const char *file, struct run_request *request) {
  struct tu_error error = {0};
  char *data = NULL;
  size_t bytes;
  tutti_err err = TUTTI_OK;
  if (text && file) return cli_fail("run", CLI_USAGE, "expected --hosts or --hostfile, found both");
  if (text) err = tu_host_list_read(text, strlen(text), "--hosts", &request->hosts, &error);
  else if ((err = tu_read_file_of(file, TU_TABLE_BYTES, &data, &bytes, &error)) == TUTTI_OK)
    err = tu_host_list_read_file(data, bytes, file, &request->hosts, &error);
  free(data);
  if (err != TUTTI_OK) return cli_fail("run", CLI_USAGE, "%s", error.text);
  const uint32_t slots = request->hosts.slots;
  if (request->count == 0) request->count = slots;
  if (request->count <= slots) return CLI_GOOD;
  return cli_fail(
      "run", CLI_USAGE,
      "-n: expected at most %u ranks, as many as %s has slots, found %u; HOST:SLOTS gives a host more slots", slots,
      text ? "--hosts" : file, request->count);
}

static int check_variables(const struct cli_list *variables) {
  for (uint32_t i = 0; i < variables->count; i++) {
    const char *item = variables->items[i], *equals = strchr(item, '=');
    if (equals == item || *item == '\0')
      return cli_fail("run", CLI_USAGE, "--env: expected NAME or NAME=VALUE, found '%s'", item);
    if (!equals && !getenv(item))
      return cli_fail("run", CLI_USAGE, "--env: variable '%s' is not set; set it, or give NAME=VALUE", item);
  }
  return CLI_GOOD;
}

static int run_job(struct run_request *request, const char *list, const char *file) {
  int status = check_variables(&request->variables);
  if (status == CLI_GOOD && (list || file)) status = read_hosts(list, file, request);
  if (status != CLI_GOOD) return status;
  if (request->count == 0 || request->count > RUN_RANKS_MAX)
    return cli_fail("run", CLI_USAGE, "-n: expected the number of ranks, from 1 to %d", RUN_RANKS_MAX);
  if (!request->program[0])
    return cli_fail("run", CLI_USAGE, "program is missing; example: tutti run -n %u -- program", request->count);
  return list || file ? run_on_hosts(request) : run_here(request);
}

static int run(int argc, char **argv) {
  struct run_request request = {0};
  const char *bind = "none", *list = NULL, *file = NULL;
  if (argc == 2 && strcmp(argv[1], "--agent") == 0) return run_agent();
  const struct cli_option options[] = {
      {"-n", CLI_UINT, &request.count, "N", "number of ranks to start (with hosts: one per slot)"},
      {"--hosts", CLI_STRING, &list, "HOST[:SLOTS],...", "start the ranks on these hosts, over ssh"},
      {"--hostfile", CLI_STRING, &file, "FILE", "the same hosts in a file: a line HOST slots=N for each"},
      {"--by-host", CLI_FLAG, &request.by_host, NULL, "deal the ranks to the hosts in turns; otherwise fill each host"},
      {"--env", CLI_LIST, &request.variables, "NAME[=VALUE]", "set a variable for the ranks, on all hosts"},
      {"--bind", CLI_STRING, &bind, "core|none", "bind each rank to one CPU of its host, round-robin (none)"},
      {"--prefix", CLI_FLAG, &request.prefix, NULL, "print \"[rank] \" before every line of output"},
      {"--timeout-ms", CLI_UINT, &request.timeout_ms, "T",
       "time-out of every collective call, in ms (sets TUTTI_TIMEOUT_MS)"},
      {"--trace", CLI_STRING, &request.trace, "FILE",
       "record what the ranks do: as a page, if FILE ends with .html, or as Chrome-trace JSON"},
  };
  bool done = false;
  int status = cli_parse(&cli_run, options, sizeof options / sizeof options[0], &argc, argv, &done);
  if (status != CLI_GOOD || done) return status;
  request.bind = strcmp(bind, "core") == 0;
  if (!request.bind && strcmp(bind, "none") != 0)
    return cli_fail("run", CLI_USAGE, "--bind: expected 'core' or 'none', found '%s'", bind);
  request.program = argv + 1;
  status = run_job(&request, list, file);
  tu_host_list_fini(&request.hosts);
  return status;
}

const struct cli_verb cli_run = {
    .name = "run",
    .summary = "start and monitor the ranks of a job, on this host or on several",
    .synopsis = "run -n N [options] -- program [arguments]",
    .run = run,
    .no_data = "it runs a program, and prints what that prints",
    .arguments = "PROGRAM",
};
