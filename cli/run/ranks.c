/* ranks.c: starts the ranks of a job on this host: their streams, environment and CPUs. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/cli.h"
#include "cli/run/job.h"
#include "cli/run/spawn.h"

enum {
  CPUS_MAX = 65536,
  SPARE_FDS = 16, /* number of descriptors that must stay free when pidfds of ranks are opened */
};

/* Raises the soft limit of file descriptors if the ranks write to pipes, two per rank. Starting a rank needs some
 * additional descriptors for a short time. */
static tutti_err raise_limit(struct run_job *job, struct tu_error *error) {
  enum { OWN = 2, STARTING = 8 };
  if (!job->piped) return TUTTI_OK;
  job->files = tu_files_raise();
  uint64_t needed = tu_files_open() + OWN + STARTING + 2 * (uint64_t)job->count, max = tu_files_max();
  if (needed <= max) return TUTTI_OK;
  return tu_fail(
      error, TUTTI_ERR_SYSTEM,
      "%s%u ranks need %llu file descriptors, two per rank, but the hard limit is %llu; raise it (ulimit -n)%s",
      job->prefix ? "--prefix: " : "", job->count, (unsigned long long)needed, (unsigned long long)max,
      job->prefix ? " or omit --prefix" : "");
}

/* Agents send what their ranks write, and the launcher makes lines of it. */
static struct run_source source_of(struct run_job *job, uint32_t rank, struct run_sink *sink,
                                   enum run_frame_kind frame) {
  struct run_sink *launcher = job->console.launcher;
  return (struct run_source){.fd = -1,
                             .frame = launcher ? frame : 0,
                             .lines = {.rank = rank, .prefix = job->prefix, .sink = launcher ? launcher : sink}};
}

tutti_err run_job_init(struct run_job *job, struct tu_error *error) {
  job->console.signal_fd = job->meeting.fd = job->feed.fd = job->ends_fd = -1;
  job->keeper.fd = -1;
  job->feed.terminal = !job->console.launcher;
  job->ranks = tu_allocate(job->count, sizeof *job->ranks);
  job->polled = tu_allocate(2 * (size_t)job->count + RUN_POLLED + RUN_MORE_POLLED, sizeof *job->polled);
  for (uint32_t r = 0; r < job->count; r++) run_number_rank(job, r, r);
  run_note_foreign(job);
  tutti_err err = run_console_open(&job->console, error);
  run_keeper_open(&job->keeper); /* after the console, which opens descriptors 0 to 2 */
  if (err == TUTTI_OK) err = raise_limit(job, error);
  if (err != TUTTI_OK) return err;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  job->ends_fd = epoll_create1(EPOLL_CLOEXEC);
  job->childless = true;
  return TUTTI_OK;
}

void run_number_rank(struct run_job *job, uint32_t index, uint32_t number) {
  struct run_rank *rank = &job->ranks[index];
  rank->number = number;
  rank->out = source_of(job, number, &job->console.out, RUN_OUT);
  rank->err = source_of(job, number, &job->console.err, RUN_ERR);
}

void run_job_fini(struct run_job *job) {
  for (uint32_t r = 0; r < job->count; r++) {
    run_source_close(&job->ranks[r].out);
    run_source_close(&job->ranks[r].err);
  }
  if (job->ends_fd >= 0) close(job->ends_fd);
  run_meeting_close(&job->meeting);
  run_keeper_close(&job->keeper);
  run_feed_close(&job->feed);
  run_console_close(&job->console);
  free(job->ranks);
  free(job->polled);
  free(job->foreign);
}

/* ---- starting a rank ---- */

static void set_variable(const char *name, uint64_t number) {
  char text[24];
  snprintf(text, sizeof text, "%llu", (unsigned long long)number);
  setenv(name, text, 1);
}

static void set_environment(const struct run_job *job, uint32_t index) {
  /* Remove the variables that another launcher has set, because they describe another job. This job has its own
   * secret. */
  static const char *const leftovers[] = {"RANK",           "WORLD_SIZE",       "MASTER_ADDR", "MASTER_PORT",
                                          "LOCAL_RANK",     "LOCAL_WORLD_SIZE", "GROUP_RANK",  "TUTTI_SECRET_FILE",
                                          "TUTTI_LAUNCHER", "TUTTI_KEEPER"};
  for (size_t i = 0; i < sizeof leftovers / sizeof leftovers[0]; i++) unsetenv(leftovers[i]);
  set_variable("TUTTI_RANK", job->ranks[index].number);
  set_variable("TUTTI_LOCAL_RANK", index);
  set_variable("TUTTI_WORLD_SIZE", job->world);
  setenv("TUTTI_MASTER_ADDR", job->meeting.addresses, 1);
  set_variable("TUTTI_MASTER_PORT", job->meeting.port);
  set_variable("TUTTI_RESERVED_PORT", job->meeting.port);
  setenv("TUTTI_SECRET", job->meeting.secret, 1);
  if (job->keeper.fd >= 0) setenv("TUTTI_KEEPER", job->keeper.name, 1);
  if (job->timeout_ms) set_variable("TUTTI_TIMEOUT_MS", job->timeout_ms);
}

/* Binds the process to one of the CPUs that the launcher may use: to CPU number (local rank modulo the number of
 * these CPUs). */
static bool bind_rank(uint32_t index) {
  size_t bytes = CPU_ALLOC_SIZE(CPUS_MAX);
  cpu_set_t *allowed = CPU_ALLOC(CPUS_MAX), *one = CPU_ALLOC(CPUS_MAX);
  if (!allowed || !one || sched_getaffinity(0, bytes, allowed) != 0) return false;
  uint32_t turn = index % (uint32_t)CPU_COUNT_S(bytes, allowed);
  CPU_ZERO_S(bytes, one);
  for (size_t cpu = 0; cpu < CPUS_MAX; cpu++) {
    if (!CPU_ISSET_S(cpu, bytes, allowed) || turn-- > 0) continue;
    CPU_SET_S(cpu, bytes, one);
    break;
  }
  bool bound = sched_setaffinity(0, bytes, one) == 0;
  CPU_FREE(allowed);
  CPU_FREE(one);
  return bound;
}

struct rank_setup {
  struct run_job *job;
  uint32_t index;
};

/* Runs in the process of the rank. */
static bool prepare_rank(void *context) {
  const struct rank_setup *setup = context;
  set_environment(setup->job, setup->index);
  tu_files_restore(setup->job->files);
  return !setup->job->bind || bind_rank(setup->index);
}

/* Opens the rank's standard streams; those that stay -1 are inherited. */
static bool open_streams(struct run_job *job, uint32_t rank, struct run_child *child) {
  struct run_rank *r = &job->ranks[rank];
  const bool first = r->number == 0, fed = first && (job->console.launcher || isatty(STDIN_FILENO));
  if (!first) child->in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  else if (fed) (void)run_open_pipe(&job->feed.fd, &child->in, false);
  if (child->in < 0 && (!first || fed)) return false;
  return !job->piped || (run_open_pipe(&r->out.fd, &child->out, true) && run_open_pipe(&r->err.fd, &child->err, true));
}

static void close_streams(const struct run_child *child) {
  if (child->in >= 0) close(child->in);
  if (child->out >= 0) close(child->out);
  if (child->err >= 0) close(child->err);
}

/* Adds a pidfd of a new rank to an epoll, which reports the ranks in the order in which they end. That order is right
 * only if each rank is added before it can end, so this is called before the rank executes its program. If the kernel
 * has no pidfds, or if file descriptors would run short, the rank is not added; waitpid reports its end. */
static void queue_end(void *context, pid_t pid) {
  const struct rank_setup *setup = context;
  struct run_job *job = setup->job;
  struct rlimit limit;
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = setup->index};
  const rlim_t needed =
      SPARE_FDS + (job->piped ? 2 * (job->count - setup->index) : 0); /* the pipes of the next ranks */
  if (job->ends_fd < 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  int fd = (int)syscall(SYS_pidfd_open, pid, 0);
  if (fd >= 0 && (rlim_t)fd + needed < limit.rlim_cur && epoll_ctl(job->ends_fd, EPOLL_CTL_ADD, fd, &event) == 0)
    job->ranks[setup->index].end_fd = fd;
  else if (fd >= 0) close(fd);
}

static int describe_failure(struct run_job *job, uint32_t rank, bool exists, int why) {
  if (exists) {
    run_say(&job->console, "cannot start '%s': %s", job->path, strerror(why));
    return why == ENOENT || why == ENOTDIR ? RUN_NOT_FOUND : RUN_NOT_RUNNABLE;
  }
  const char *advice = why == EAGAIN ? " (limit on processes: ulimit -u, or that of the container)" : "";
  run_say(&job->console, "cannot start rank %u of %u: %s%s", job->ranks[rank].number, job->world, strerror(why),
          advice);
  return CLI_FAILED;
}

bool run_start_next(struct run_job *job) {
  const uint32_t rank = job->started;
  struct rank_setup setup = {.job = job, .index = rank};
  struct run_child child = {.path = job->path,
                            .death_signal = SIGKILL,
                            .argv = job->program,
                            .in = -1,
                            .out = -1,
                            .err = -1,
                            .prepare = prepare_rank,
                            .born = queue_end,
                            .context = &setup};
  pid_t pid = -1;
  int why = open_streams(job, rank, &child) ? run_spawn(&child, &job->console, &pid) : errno;
  close_streams(&child);
  if (pid > 0) {
    job->ranks[rank].pid = pid;
    job->ranks[rank].alive = job->ranks[rank].group = true;
    job->started++;
    job->alive++;
    job->childless = false;
  }
  if (why == 0) return true;
  /* The exit status is that of the rank that could not be started. A failure of another rank does not replace it. */
  job->verdict.status = describe_failure(job, rank, pid > 0, why);
  run_enter_phase(job, RUN_KILLING);
  return false;
}
