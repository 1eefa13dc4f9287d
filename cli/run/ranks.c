/* ranks.c: starts the ranks of a job on this host: their streams, environment and CPUs. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/cli.h"
#include "cli/run/job.h"

enum {
  CPUS_MAX = 65536,
  SPARE_FDS = 16, /* number of descriptors that must stay free when pidfds of ranks are opened */
};

/* Reserves a port for the job. The socket is bound to the port until the job ends, but does not listen. Thus the kernel
 * does not assign the port to another process.
 *
 * Rank 0 also binds the port, and listens. SO_REUSEPORT permits this, but only to processes of the launcher's user.
 * SO_REUSEADDR must stay unset, because it would let any user listen on the port before rank 0. */
static bool reserve_port(struct run_job *job) {
  int one = 1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof address;
  job->port_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (job->port_fd < 0 || setsockopt(job->port_fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) != 0 ||
      bind(job->port_fd, (struct sockaddr *)&address, bytes) != 0 ||
      getsockname(job->port_fd, (struct sockaddr *)&address, &bytes) != 0) {
    return false;
  }
  job->port = ntohs(address.sin_port);
  return true;
}

static bool make_secret(struct run_job *job) {
  unsigned char random[16];
  if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) return false;
  for (size_t i = 0; i < sizeof random; i++) snprintf(job->secret + 2 * i, 3, "%02x", random[i]);
  return true;
}

/* Raises the soft limit of file descriptors for --prefix, which needs two pipes per rank. Starting a rank needs some
 * additional descriptors for a short time. */
static int raise_limit(struct run_job *job) {
  enum { OWN = 2, STARTING = 6 };
  if (!job->prefix) return CLI_GOOD;
  job->files = tu_files_raise();
  uint64_t needed = tu_files_open() + OWN + STARTING + 2 * (uint64_t)job->count, max = tu_files_max();
  if (needed <= max) return CLI_GOOD;
  return cli_fail("run", CLI_FAILED,
                  "--prefix: %u ranks need %llu file descriptors, two per rank, but the hard limit is %llu; raise it "
                  "(ulimit -n) or omit --prefix",
                  job->count, (unsigned long long)needed, (unsigned long long)max);
}

int run_job_init(struct run_job *job) {
  job->launcher = getpid();
  job->console.signal_fd = job->port_fd = job->feed.fd = job->ends_fd = -1;
  job->ranks = tu_allocate(job->count, sizeof *job->ranks);
  job->polled = tu_allocate(2 * (size_t)job->count + 4, sizeof *job->polled);
  for (uint32_t r = 0; r < job->count; r++) {
    job->ranks[r].out = (struct run_source){.fd = -1, .rank = r, .sink = &job->console.out};
    job->ranks[r].err = (struct run_source){.fd = -1, .rank = r, .sink = &job->console.err};
  }
  run_note_foreign(job);
  int status = run_console_open(&job->console);
  if (status == CLI_GOOD) status = raise_limit(job);
  if (status != CLI_GOOD) return status;
  if (!reserve_port(job)) return cli_fail("run", CLI_FAILED, "cannot reserve a port at 127.0.0.1: %s", strerror(errno));
  if (!make_secret(job))
    return cli_fail("run", CLI_FAILED, "getrandom failed for the job's secret: %s", strerror(errno));
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  job->ends_fd = epoll_create1(EPOLL_CLOEXEC);
  return CLI_GOOD;
}

void run_job_fini(struct run_job *job) {
  for (uint32_t r = 0; r < job->count; r++) {
    run_source_close(&job->ranks[r].out);
    run_source_close(&job->ranks[r].err);
  }
  int *fds[] = {&job->port_fd, &job->feed.fd, &job->ends_fd};
  for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
    if (*fds[i] >= 0) close(*fds[i]);
  }
  run_console_close(&job->console);
  free(job->ranks);
  free(job->polled);
  free(job->foreign);
}

/* ---- starting a rank ---- */

/* The rank's ends of the pipes for its standard streams; -1: the stream is inherited from the launcher. */
struct ends {
  int in, out, err;
};

static void set_variable(const char *name, uint64_t number) {
  char text[24];
  snprintf(text, sizeof text, "%llu", (unsigned long long)number);
  setenv(name, text, 1);
}

static void set_environment(const struct run_job *job, uint32_t rank) {
  /* Remove the variables that another launcher has set, because they describe another job. This job has its own
   * secret. */
  static const char *const leftovers[] = {"RANK",        "WORLD_SIZE",        "MASTER_ADDR",
                                          "MASTER_PORT", "LOCAL_RANK",        "LOCAL_WORLD_SIZE",
                                          "GROUP_RANK",  "TUTTI_SECRET_FILE", "TUTTI_LAUNCHER"};
  for (size_t i = 0; i < sizeof leftovers / sizeof leftovers[0]; i++) unsetenv(leftovers[i]);
  set_variable("TUTTI_RANK", rank);
  set_variable("TUTTI_LOCAL_RANK", rank);
  set_variable("TUTTI_WORLD_SIZE", job->count);
  setenv("TUTTI_MASTER_ADDR", "127.0.0.1", 1);
  set_variable("TUTTI_MASTER_PORT", job->port);
  set_variable("TUTTI_RESERVED_PORT", job->port);
  setenv("TUTTI_SECRET", job->secret, 1);
  if (job->timeout_ms) set_variable("TUTTI_TIMEOUT_MS", job->timeout_ms);
}

/* Binds the process to one of the CPUs that the launcher may use: to CPU number (rank modulo the number of these
 * CPUs). */
static bool bind_rank(uint32_t rank) {
  size_t bytes = CPU_ALLOC_SIZE(CPUS_MAX);
  cpu_set_t *allowed = CPU_ALLOC(CPUS_MAX), *one = CPU_ALLOC(CPUS_MAX);
  if (!allowed || !one || sched_getaffinity(0, bytes, allowed) != 0) return false;
  uint32_t turn = rank % (uint32_t)CPU_COUNT_S(bytes, allowed);
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

/* Runs in the child process: sets up the rank and executes the program. Does not return. On failure, writes errno to
 * the descriptor `report`. */
static _Noreturn void become_rank(const struct run_job *job, uint32_t rank, const struct ends *ends, int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  /* The launcher may have died before PR_SET_PDEATHSIG took effect. In this case the parent is another process. */
  if (getppid() != job->launcher) _exit(RUN_NOT_FOUND);
  run_console_restore(&job->console);
  if (ends->in >= 0) dup2(ends->in, STDIN_FILENO);
  if (ends->out >= 0) dup2(ends->out, STDOUT_FILENO);
  if (ends->err >= 0) dup2(ends->err, STDERR_FILENO);
  set_environment(job, rank);
  tu_files_restore(job->files);
  errno = 0;
  if (!job->bind || bind_rank(rank)) execvp(job->program[0], job->program);
  int why = errno;
  (void)!write(report, &why, sizeof why);
  _exit(RUN_NOT_FOUND);
}

/* Opens a pipe between launcher and rank. The launcher's end is non-blocking; both descriptors are closed on exec. */
static bool open_pipe(int *ours, int *theirs, bool we_read) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return false;
  *ours = fds[we_read ? 0 : 1];
  *theirs = fds[we_read ? 1 : 0];
  fcntl(*ours, F_SETFL, O_NONBLOCK);
  return true;
}

static bool open_streams(struct run_job *job, uint32_t rank, struct ends *ends) {
  struct run_rank *r = &job->ranks[rank];
  *ends = (struct ends){-1, -1, -1};
  if (rank > 0) ends->in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  else if (isatty(STDIN_FILENO)) (void)open_pipe(&job->feed.fd, &ends->in, false);
  if (ends->in < 0 && (rank > 0 || isatty(STDIN_FILENO))) return false;
  return !job->prefix || (open_pipe(&r->out.fd, &ends->out, true) && open_pipe(&r->err.fd, &ends->err, true));
}

static void close_ends(const struct ends *ends) {
  if (ends->in >= 0) close(ends->in);
  if (ends->out >= 0) close(ends->out);
  if (ends->err >= 0) close(ends->err);
}

/* Adds a pidfd of a rank that has just started to an epoll, which reports the ranks in the order in which they end. If
 * the kernel has no pidfds, or if file descriptors would run short, the rank is not added; waitpid reports its end. */
static void queue_end(struct run_job *job, uint32_t rank) {
  struct rlimit limit;
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = rank};
  const rlim_t needed = SPARE_FDS + (job->prefix ? 2 * (job->count - rank) : 0); /* the pipes of the next ranks */
  if (job->ends_fd < 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  int fd = (int)syscall(SYS_pidfd_open, job->ranks[rank].pid, 0);
  if (fd >= 0 && (rlim_t)fd + needed < limit.rlim_cur && epoll_ctl(job->ends_fd, EPOLL_CTL_ADD, fd, &event) == 0)
    job->ranks[rank].end_fd = fd;
  else if (fd >= 0) close(fd);
}

/* Starts a rank. Returns CLI_GOOD once the rank executes the program; otherwise prints the reason and returns the
 * launcher's exit status. */
static int start_rank(struct run_job *job, uint32_t rank) {
  struct ends ends;
  int report[2] = {-1, -1};
  pid_t pid = -1;
  if (open_streams(job, rank, &ends) && pipe2(report, O_CLOEXEC) == 0) pid = fork();
  if (pid == 0) become_rank(job, rank, &ends, report[1]);
  int why = errno;
  close_ends(&ends);
  if (report[1] >= 0) close(report[1]);
  if (pid < 0) {
    if (report[0] >= 0) close(report[0]);
    const char *advice = why == EAGAIN ? " (limit on processes: ulimit -u, or that of the container)" : "";
    run_say(&job->console, "cannot start rank %u of %u: %s%s", rank, job->count, strerror(why), advice);
    return CLI_FAILED;
  }
  setpgid(pid, pid); /* the child also calls setpgid; call it here too, because signals must reach the group from now
                      * on */
  job->ranks[rank].pid = pid;
  job->ranks[rank].alive = job->ranks[rank].group = true;
  job->started++;
  job->alive++;
  job->childless = false;
  queue_end(job, rank);
  ssize_t n;
  do n = read(report[0], &why, sizeof why);
  while (n < 0 && errno == EINTR);
  close(report[0]);
  if (n != (ssize_t)sizeof why) return CLI_GOOD;
  run_say(&job->console, "cannot start '%s': %s", job->program[0], strerror(why));
  return why == ENOENT || why == ENOTDIR ? RUN_NOT_FOUND : RUN_NOT_RUNNABLE;
}

bool run_job_start(struct run_job *job) {
  int status = CLI_GOOD;
  job->childless = true;
  for (uint32_t r = 0; r < job->count && status == CLI_GOOD; r++) status = start_rank(job, r);
  if (status == CLI_GOOD) return true;
  /* The exit status is that of the rank that could not be started. A failure of another rank does not replace it. */
  job->verdict.status = status;
  run_enter_phase(job, RUN_KILLING);
  return false;
}
