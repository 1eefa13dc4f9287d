/* run.c: `tutti run` starts the ranks of a job, monitors them, and ends every process that they started. */
#include <string.h>

#include "cli/budget.h"
#include "cli/cli.h"
#include "cli/run/job.h"

/* Starts the ranks on this host. */
static int start(struct run_job *job) {
  struct tu_error error;
  if (run_meeting_open(&job->meeting, true, &error) != TUTTI_OK ||
      run_meeting_secret(&job->meeting, &error) != TUTTI_OK)
    return cli_fail("run", CLI_FAILED, "%s", error.text);
  while (job->started < job->count && run_start_next(job)) {}
  const bool complete = job->started == job->count && job->phase != RUN_KILLING;
  run_watch(job);
  if (complete) run_verdict_tell_others(&job->verdict, &job->console);
  run_watch(job); /* writes the message */
  return job->verdict.status;
}

static int run_here(struct run_job *job) {
  int status = run_job_init(job);
  if (status == CLI_GOOD) status = start(job);
  run_job_fini(job);
  return status;
}

static int run(int argc, char **argv) {
  struct run_job job = {0};
  const char *bind = "none";
  const struct cli_option options[] = {
      {"-n", CLI_UINT, &job.count, "N", "number of ranks to start"},
      {"--bind", CLI_STRING, &bind, "core|none", "bind each rank to one CPU, round-robin (none)"},
      {"--prefix", CLI_FLAG, &job.prefix, NULL, "print \"[rank] \" before every line of output"},
      {"--timeout-ms", CLI_UINT, &job.timeout_ms, "T",
       "time-out of every collective call, in ms (sets TUTTI_TIMEOUT_MS)"},
  };
  bool done = false;
  int status = cli_parse(&cli_run, options, sizeof options / sizeof options[0], &argc, argv, &done);
  if (status != CLI_GOOD || done) return status;
  if (job.count == 0 || job.count > RUN_RANKS_MAX) {
    return cli_fail("run", CLI_USAGE, "-n: expected the number of ranks, from 1 to %d", RUN_RANKS_MAX);
  }
  job.bind = strcmp(bind, "core") == 0;
  if (!job.bind && strcmp(bind, "none") != 0) {
    return cli_fail("run", CLI_USAGE, "--bind: expected 'core' or 'none', found '%s'", bind);
  }
  if (argc < 2) return cli_fail("run", CLI_USAGE, "program is missing; example: tutti run -n %u -- program", job.count);
  job.world = job.count;
  job.piped = job.prefix;
  job.patience_ms = RUN_GRACE_MS;
  job.program = argv + 1;
  job.path = argv[1];
  if ((status = budget_allow_processes("run", job.count)) != CLI_GOOD) return status;
  return run_here(&job);
}

const struct cli_verb cli_run = {
    .name = "run",
    .summary = "start and monitor the ranks of a job on this host",
    .synopsis = "run -n N [options] -- program [arguments]",
    .run = run,
};
