/* trace.c: `tutti trace`: what a job did, from the files that its ranks have recorded (TUTTI_TRACE). */
#include "cli/trace/trace.h"

#include <float.h>
#include <string.h>

#include "cli/cli.h"

static int run(int argc, char **argv) {
  const char *id = NULL, *trace = NULL, *page = NULL;
  bool done, json = false;
  double from_s = 0, until_s = DBL_MAX;
  struct tu_sim_cost cost = {-1, -1, -1};
  struct trace_job job;
  const struct cli_option options[] = {
      {"--trace", CLI_STRING, &trace, "FILE", "write the timeline as Chrome-trace JSON"},
      {"--page", CLI_STRING, &page, "FILE", "write the timeline as a page"},
      {"--from", CLI_NUMBER, &from_s, "S", "the timeline begins so many seconds after the first call (0)"},
      {"--until", CLI_NUMBER, &until_s, "S", "and ends so many seconds after the first call (the end)"},
      {"--job", CLI_STRING, &id, "JOB", "the job with this number; otherwise the one that began last"},
      {"--alpha", CLI_NUMBER, &cost.alpha, "S", "predict with this time per message, in s (measured)"},
      {"--beta", CLI_NUMBER, &cost.beta, "S", "predict with this time per byte sent, in s (measured)"},
      {"--gamma", CLI_NUMBER, &cost.gamma, "S", "predict with this time per byte reduced, in s (measured)"},
      JSON_OPTION(&json),
  };
  int code = cli_parse(&cli_trace, options, sizeof options / sizeof options[0], &argc, argv, &done);
  if (code != CLI_GOOD || done) return code;
  if (argc < 2)
    return cli_fail("trace", CLI_USAGE, "expected the directory of TUTTI_TRACE, or files from it; found none");
  if (from_s >= until_s)
    return cli_fail("trace", CLI_USAGE, "--from is %g and --until %g; expected a time of some length", from_s, until_s);
  code = trace_read("trace", (const char *const *)argv + 1, (uint32_t)argc - 1, id, &job);
  if (code == CLI_GOOD) {
    trace_predict(&job, &cost);
    const bool silent = (trace && strcmp(trace, "-") == 0) || (page && strcmp(page, "-") == 0);
    if (json) trace_print_json(&job, &cost);
    else if (!silent) trace_print(&job, &cost);
    code = trace_write("trace", &job, from_s, until_s, trace, page);
  }
  trace_close(&job);
  return code;
}

const struct cli_verb cli_trace = {
    .name = "trace",
    .summary = "show what a job did, from the traces of its ranks",
    .synopsis = "trace [--trace FILE] [--page FILE] [--from S] [--until S] [--json] DIRECTORY|FILE ...",
    .run = run,
    .arguments = "FILE",
};
