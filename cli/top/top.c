/* top.c: `tutti top`: what the ranks of running jobs do, read from their shared memory. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/run/viewer.h"
#include "cli/top/top.h"

enum { PAUSE_MS = 200 }; /* between the two looks, if the command looks once */

struct wish {
  pid_t only; /* 0: all jobs */
  bool why, stacks, once, json;
  double interval_s;
};

static int fail_none(pid_t only, const struct tu_segments *segments) {
  char foreign[128] = "";
  if (segments->foreign > 0)
    snprintf(foreign, sizeof foreign, "; %u job%s of another build of tutti: use that build's tutti top",
             segments->foreign, segments->foreign == 1 ? " is" : "s are");
  if (only == 0)
    return cli_fail("top", CLI_FAILED, "no job of this user (uid %u) runs on this host%s%s", (unsigned)geteuid(),
                    segments->unready ? ", but one is starting" : "", foreign);
  if (kill(only, 0) != 0 && errno == EPERM)
    return cli_fail("top", CLI_FAILED, "process %d belongs to another user; a job can be looked at by its own user",
                    (int)only);
  if (kill(only, 0) != 0) return cli_fail("top", CLI_FAILED, "there is no process %d on this host", (int)only);
  return cli_fail("top", CLI_FAILED,
                  "process %d is no rank, and no launcher of ranks, of a job of this user (uid %u) that has started%s; "
                  "tutti top without arguments lists the jobs",
                  (int)only, (unsigned)geteuid(), foreign);
}

/* Returns the ancestor of a process that is the launcher of a job on several hosts, and what it tells; 0: there is none. */
static pid_t ask_ancestors(pid_t pid, struct tu_job_look *look) {
  struct tu_life_line line;
  for (int i = 0; i < 64 && pid > 1; i++) {
    if (run_viewer_ask(pid, look)) return pid;
    tu_job_look_fini(look);
    if (!tu_life_read((uint32_t)pid, &line)) return 0;
    pid = (pid_t)line.parent;
  }
  return 0;
}

/* Of a job of which only a part is seen here, asks its launcher, if that runs here. */
static void ask_for_more(struct tu_job_look *job) {
  struct tu_job_look all;
  if (job->now.here == job->now.ranks || !job->launcher || ask_ancestors(job->launcher, &all) == 0) return;
  tu_job_look_fini(job);
  *job = all;
}

/* Reads all jobs. Several segments of one job, of hosts that TUTTI_HOST only names, become one. */
static tutti_err look_at_all(const struct wish *wish, uint32_t pause_ms, const struct tu_segments *segments,
                             struct tu_job_look *jobs, uint32_t *count, struct tu_error *error) {
  tutti_err err = TUTTI_OK;
  for (uint32_t i = 0; i < segments->count && err == TUTTI_OK; i++) {
    uint32_t known = 0;
    struct tu_job_look *job = &jobs[*count];
    err = tu_job_look_at(&segments->list[i], pause_ms, job, error);
    while (known < *count && !(job->id && jobs[known].id == job->id)) known++;
    if (err != TUTTI_OK || known == *count) {
      (*count)++;
      continue;
    }
    err = tu_job_look_add(&jobs[known], job, error);
    tu_job_look_fini(job);
  }
  for (uint32_t i = 0; i < *count && err == TUTTI_OK && wish->only; i++) ask_for_more(&jobs[i]);
  return err;
}

/* Looks at the jobs, and prints what they do. */
static int show(const struct wish *wish, uint32_t pause_ms) {
  struct tu_segments segments;
  struct tu_error error;
  tutti_err err = tu_segments_find(wish->only, &segments, &error);
  struct tu_job_look *jobs = tu_allocate(segments.count + 2, sizeof *jobs);
  uint32_t looked = 0;
  int code = CLI_GOOD;
  if (wish->only && run_viewer_ask(wish->only, &jobs[0])) looked = 1;
  else if (err == TUTTI_OK) err = look_at_all(wish, pause_ms, &segments, jobs, &looked, &error);
  if (err != TUTTI_OK) code = cli_fail("top", CLI_FAILED, "%s", error.text);
  else if (looked == 0) code = fail_none(wish->only, &segments);
  else if (wish->json) top_print_json(jobs, looked);
  else if (wish->why)
    for (uint32_t i = 0; i < looked; i++) {
      tu_report_print(stdout, &jobs[i]);
      if (wish->stacks) top_print_stacks(stdout, &jobs[i]);
    }
  else if (wish->only == 0) top_print_jobs(stdout, jobs, looked);
  else
    for (uint32_t i = 0; i < looked; i++) top_print_ranks(stdout, &jobs[i]);
  for (uint32_t i = 0; i < looked; i++) tu_job_look_fini(&jobs[i]);
  free(jobs);
  tu_segments_fini(&segments);
  return code;
}

/* Shows the jobs again and again on a terminal, until they have ended or the user interrupts. */
static int watch(const struct wish *wish) {
  const uint32_t pause_ms = (uint32_t)(1000 * wish->interval_s);
  int code = CLI_GOOD;
  for (bool first = true; code == CLI_GOOD; first = false) {
    printf("%s", first ? "" : "\033[H\033[2J"); /* to the first line, and erase all */
    code = show(wish, first ? PAUSE_MS : pause_ms);
    fflush(stdout);
  }
  return code;
}

static int run(int argc, char **argv) {
  struct wish wish = {.interval_s = 1};
  bool done, no_stacks = false;
  uint64_t pid = 0;
  const struct cli_option options[] = {
      {"--why", CLI_FLAG, &wish.why, NULL, "explain who makes the others wait, and where each rank stands"},
      {"--no-stacks", CLI_FLAG, &no_stacks, NULL, "--why: without the C stacks, for which gdb stops the rank briefly"},
      JSON_OPTION(&wish.json),
      {"--once", CLI_FLAG, &wish.once, NULL, "show it once, also on a terminal"},
      {"--interval", CLI_NUMBER, &wish.interval_s, "S", "seconds between two looks on a terminal (1)"},
  };
  int code = cli_parse(&cli_top, options, sizeof options / sizeof options[0], &argc, argv, &done);
  if (code != CLI_GOOD || done) return code;
  if (argc > 2)
    return cli_fail("top", CLI_USAGE, "expected one JOB, the pid of its launcher or of a rank; got '%s' too", argv[2]);
  if (argc == 2 && (!tu_parse_uint(argv[1], INT32_MAX, &pid) || pid == 0))
    return cli_fail("top", CLI_USAGE, "JOB is '%s'; expected the pid of tutti run, of another launcher, or of a rank",
                    argv[1]);
  if (!(wish.interval_s >= 0.1 && wish.interval_s <= 3600))
    return cli_fail("top", CLI_USAGE, "--interval is %g; expected 0.1 to 3600 seconds", wish.interval_s);
  wish.only = (pid_t)pid;
  wish.stacks = !no_stacks;
  if (wish.why || wish.once || wish.json || !isatty(STDOUT_FILENO)) return show(&wish, PAUSE_MS);
  return watch(&wish);
}

const struct cli_verb cli_top = {.name = "top",
                                 .summary = "show what the ranks of running jobs do",
                                 .synopsis = "top [--why] [--json] [JOB]",
                                 .run = run,
                                 .arguments = "JOB"};
