/* top.c: `tutti top`: what the ranks of running jobs do, read from their shared memory. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/run/viewer.h"
#include "cli/top/hosts.h"
#include "cli/top/top.h"

enum { PAUSE_MS = 200 }; /* between the two looks, if the command looks once */

struct wish {
  pid_t only; /* 0: all jobs */
  bool why, stacks, once, json;
  double interval_s;
  struct top_hosts *hosts; /* NULL: this host only */
};

static int fail_none(pid_t only, const struct top_jobs *jobs, const struct top_hosts *hosts) {
  char foreign[128] = "";
  const char *others = hosts ? " or on those of --hosts" : "";
  if (jobs->foreign > 0)
    snprintf(foreign, sizeof foreign, "; %u job%s of another build of tutti: use that build's tutti top", jobs->foreign,
             jobs->foreign == 1 ? " is" : "s are");
  if (only == 0)
    return cli_fail("top", CLI_FAILED, "no job of this user (uid %u) runs on this host%s%s%s", (unsigned)geteuid(),
                    others, jobs->unready ? ", but one is starting" : "", foreign);
  if (kill(only, 0) != 0 && errno == EPERM)
    return cli_fail("top", CLI_FAILED, "process %d belongs to another user; a job can be looked at by its own user%s",
                    (int)only, hosts ? "; no rank on the hosts of --hosts has that process ID" : "");
  if (kill(only, 0) != 0)
    return cli_fail("top", CLI_FAILED, "there is no process %d on this host%s%s", (int)only,
                    hosts ? ", and no rank with that process ID on those of --hosts" : "", foreign);
  return cli_fail("top", CLI_FAILED,
                  "process %d is no rank, and no launcher of ranks, of a job of this user (uid %u) that has started%s; "
                  "tutti top without JOB lists the jobs%s",
                  (int)only, (unsigned)geteuid(), foreign,
                  hosts ? "" : ", and with --hosts HOST,... those of other hosts");
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

/* Returns true if ranks of the jobs run on other hosts. */
static bool are_parts(const struct tu_segments *segments) {
  for (uint32_t i = 0; i < segments->count; i++) {
    uint32_t here = 0;
    for (uint32_t k = 0; k < segments->count; k++)
      if (segments->list[k].id == segments->list[i].id) here += segments->list[k].here;
    if (here < segments->list[i].ranks) return true;
  }
  return false;
}

/* Looks at the jobs of this host, and meanwhile lets the other hosts look, if they may have more. */
static tutti_err look(const struct wish *wish, uint32_t pause_ms, struct top_jobs *jobs, struct tu_error *error) {
  struct tu_segments segments;
  struct tu_job_look told;
  tutti_err err = tu_segments_find(wish->only, &segments, error);
  const bool launched = wish->only && run_viewer_ask(wish->only, &told);
  const bool part = launched ? told.now.here < told.now.ranks : segments.count == 0 || are_parts(&segments);
  if (launched) err = top_jobs_add(jobs, &told, error);
  else if (wish->only) tu_job_look_fini(&told);
  const bool asks = err == TUTTI_OK && wish->hosts && (!wish->only || part);
  if (asks) top_hosts_ask(wish->hosts, pause_ms);
  if (err == TUTTI_OK && !launched) err = top_jobs_look(jobs, &segments, pause_ms, error);
  for (uint32_t i = 0; i < jobs->count && err == TUTTI_OK && wish->only; i++) ask_for_more(&jobs->list[i]);
  const bool any = wish->only && jobs->count == 0; /* JOB is none of this host */
  jobs->closed = wish->only && !any;
  if (asks && err == TUTTI_OK) err = top_hosts_hear(wish->hosts, jobs, error);
  if (any) top_jobs_keep(jobs, wish->only);
  tu_segments_fini(&segments);
  return err;
}

static void print(const struct wish *wish, const struct top_jobs *jobs) {
  if (wish->json) {
    top_print_json(jobs, wish->hosts);
  } else if (wish->only == 0 && !wish->why) {
    top_print_jobs(stdout, jobs);
  } else {
    for (uint32_t i = 0; i < jobs->count; i++) {
      if (wish->why) tu_report_print(stdout, &jobs->list[i]);
      else top_print_ranks(stdout, &jobs->list[i]);
      if (wish->why && wish->stacks) top_print_stacks(stdout, &jobs->list[i]);
    }
  }
  fflush(stdout);
}

/* Looks at the jobs, and prints what they do. */
static int show(const struct wish *wish, uint32_t pause_ms) {
  struct top_jobs jobs = {0};
  struct tu_error error;
  int code = CLI_GOOD;
  const tutti_err err = look(wish, pause_ms, &jobs, &error);
  if (jobs.count > 0 && err == TUTTI_OK) print(wish, &jobs);
  if (wish->hosts) top_hosts_report(wish->hosts);
  if (err != TUTTI_OK) code = cli_fail("top", CLI_FAILED, "%s", error.text);
  else if (jobs.count == 0) code = fail_none(wish->only, &jobs, wish->hosts);
  top_jobs_fini(&jobs);
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
  struct top_hosts hosts;
  const char *list = NULL;
  bool done, no_stacks = false;
  uint64_t pid = 0;
  if (argc == 2 && strcmp(argv[1], "--agent") == 0) return top_agent();
  const struct cli_option options[] = {
      {"--hosts", CLI_STRING, &list, "HOST,...", "show the ranks on these hosts, too, over ssh"},
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
  if (list) {
    code = top_hosts_open(&hosts, list);
    wish.hosts = &hosts;
  }
  const bool once = wish.why || wish.once || wish.json || !isatty(STDOUT_FILENO);
  if (code == CLI_GOOD) code = once ? show(&wish, PAUSE_MS) : watch(&wish);
  if (list) top_hosts_close(&hosts);
  return code;
}

const struct cli_verb cli_top = {.name = "top",
                                 .summary = "show what the ranks of running jobs do",
                                 .synopsis = "top [--hosts HOST,...] [--why] [--json] [JOB]",
                                 .run = run,
                                 .arguments = "JOB"};
