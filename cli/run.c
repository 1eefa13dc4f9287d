/* run.c: `tutti run` starts the ranks of a job on this host, monitors them, and ends every process that they started.
 * One thread runs one poll loop. Signals arrive through a signalfd.
 *
 * Each rank leads its own process group, so a signal to the group also reaches the rank's child processes. A process
 * that leaves the group becomes a child of the launcher when its parent ends, because the launcher is a subreaper. Such
 * processes are killed at the end of the job. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/budget.h"
#include "cli/cli.h"
#include "cli/run_streams.h"

enum {
  RANKS_MAX = 65536,
  /* time in ms that the other ranks have to exit by themselves after a rank has failed; the library reports a dead rank
   * much sooner */
  GRACE_MS = 2000,
  AGAIN_MS = 100, /* time in ms between two rounds of SIGKILL */
  CPUS_MAX = 65536,
  SPARE_FDS = 16,     /* number of descriptors that must stay free when pidfds of ranks are opened */
  NOT_RUNNABLE = 126, /* exit status if the program cannot be executed, as in shells */
  NOT_FOUND = 127,    /* exit status if the program is not found, as in shells */
};

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
enum { PASSED_ON = sizeof passed_on / sizeof passed_on[0] };

/* Phases of a job. RUNNING lasts until a rank fails or all ranks have ended. Then the launcher waits (GRACE), sends
 * SIGTERM (TERMINATING) and sends SIGKILL repeatedly (KILLING), until no process of the job is left. */
enum phase { RUNNING, GRACE, TERMINATING, KILLING };

struct rank {
  pid_t pid;
  bool alive;
  int end_fd; /* pidfd of the rank, which becomes readable when the rank ends; 0: none */
  bool group; /* the rank's process group may have members; if false, never signal the group, because its id may be
               * reused */
  struct run_source out, err;
};

struct job {
  uint32_t count;
  bool prefix, bind;
  uint32_t timeout_ms;
  char **program;

  struct rank *ranks;
  uint32_t started, alive, failures;
  int ends_fd; /* epoll of the ranks' pidfds: reports ranks in the order in which they end; -1: none */
  /* The rank that failed first, as far as the launcher knows; NULL: none. Its failure is printed once it is certain
   * that no other rank failed earlier. */
  const struct rank *first;
  int first_status; /* wait status of `first` */
  int interrupt;    /* signal that asked the launcher to end the job; 0: none */
  pid_t *foreign;   /* children that the process had before the job started; the launcher does not end them */
  size_t foreign_count;
  bool childless; /* true: no process of the job is left */
  enum phase phase;
  uint64_t phase_ends_ns;
  int status; /* exit status of the job: that of the rank that failed first */

  pid_t launcher;
  uint64_t files; /* original soft limit of file descriptors, restored in the ranks; 0: unchanged */
  int signal_fd, port_fd;
  uint16_t port;
  char secret[33];
  sigset_t old_mask;
  void (*old_pipe_handler)(int);
  struct run_sink out, err;
  struct run_feed feed;
  struct pollfd *polled;
};

static void say(struct job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct job *job, const char *format, ...) {
  char text[512], line[576];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  int length = snprintf(line, sizeof line, "tutti run: %s\n", text);
  run_sink_put(&job->err, line, (size_t)length);
}

/* ---- setting up ---- */

/* Reserves a port for the job. The socket is bound to the port until the job ends, but does not listen. Thus the kernel
 * does not assign the port to another process.
 *
 * Rank 0 also binds the port, and listens. SO_REUSEPORT permits this, but only to processes of the launcher's user.
 * SO_REUSEADDR must stay unset, because it would let any user listen on the port before rank 0. */
static bool reserve_port(struct job *job) {
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

static bool make_secret(struct job *job) {
  unsigned char random[16];
  if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) return false;
  for (size_t i = 0; i < sizeof random; i++) snprintf(job->secret + 2 * i, 3, "%02x", random[i]);
  return true;
}

/* Lists the launcher's child processes, including zombies. Returns false if the kernel does not provide the list. */
static bool list_children(pid_t **list, size_t *count) {
  char path[64];
  *list = NULL;
  *count = 0;
  snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
  FILE *file = fopen(path, "re");
  if (!file) return false;
  uint32_t capacity = 0;
  for (int pid; fscanf(file, "%d", &pid) == 1;) {
    *list = tu_grow(*list, (uint32_t)*count, &capacity, sizeof **list);
    (*list)[(*count)++] = (pid_t)pid;
  }
  fclose(file);
  return true;
}

static bool is_foreign(const struct job *job, pid_t pid) {
  for (size_t i = 0; i < job->foreign_count; i++) {
    if (job->foreign[i] == pid) return true;
  }
  return false;
}

static void take_signals(struct job *job) {
  sigset_t mask;
  sigemptyset(&mask);
  for (size_t i = 0; i < PASSED_ON; i++) sigaddset(&mask, passed_on[i]);
  sigaddset(&mask, SIGCHLD);
  sigaddset(&mask, SIGTSTP);
  sigaddset(&mask, SIGCONT);
  sigprocmask(SIG_BLOCK, &mask, &job->old_mask);
  /* Some parent processes leave SIGCHLD ignored. Exit statuses would then be lost. */
  signal(SIGCHLD, SIG_DFL);
  job->old_pipe_handler = signal(SIGPIPE, SIG_IGN);
  job->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Opens descriptors 0 to 2 if they are closed, so that no pipe of the launcher gets one of these numbers. */
static void fill_standard_streams(void) {
  int fd;
  do fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

/* Raises the soft limit of file descriptors for --prefix, which needs two pipes per rank. Starting a rank needs some
 * additional descriptors for a short time. */
static int raise_limit(struct job *job) {
  enum { OWN = 3, STARTING = 6 };
  if (!job->prefix) return CLI_GOOD;
  job->files = tu_files_raise();
  uint64_t needed = tu_files_open() + OWN + STARTING + 2 * (uint64_t)job->count, max = tu_files_max();
  if (needed <= max) return CLI_GOOD;
  return cli_fail("run", CLI_FAILED,
                  "--prefix: %u ranks need %llu file descriptors, two per rank, but the hard limit is %llu; raise it "
                  "(ulimit -n) or omit --prefix",
                  job->count, (unsigned long long)needed, (unsigned long long)max);
}

static int job_init(struct job *job) {
  fill_standard_streams();
  job->launcher = getpid();
  job->signal_fd = job->port_fd = job->feed.fd = job->ends_fd = -1;
  job->out.fd = STDOUT_FILENO;
  job->err.fd = STDERR_FILENO;
  job->ranks = tu_allocate(job->count, sizeof *job->ranks);
  job->polled = tu_allocate(2 * (size_t)job->count + 4, sizeof *job->polled);
  for (uint32_t r = 0; r < job->count; r++) {
    job->ranks[r].out = (struct run_source){.fd = -1, .rank = r, .sink = &job->out};
    job->ranks[r].err = (struct run_source){.fd = -1, .rank = r, .sink = &job->err};
  }
  (void)list_children(&job->foreign, &job->foreign_count);
  int status = raise_limit(job);
  if (status != CLI_GOOD) return status;
  if (!reserve_port(job)) return cli_fail("run", CLI_FAILED, "cannot reserve a port at 127.0.0.1: %s", strerror(errno));
  if (!make_secret(job))
    return cli_fail("run", CLI_FAILED, "getrandom failed for the job's secret: %s", strerror(errno));
  take_signals(job);
  if (job->signal_fd < 0) return cli_fail("run", CLI_FAILED, "signalfd failed: %s", strerror(errno));
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  job->ends_fd = epoll_create1(EPOLL_CLOEXEC);
  return CLI_GOOD;
}

static void job_fini(struct job *job) {
  for (uint32_t r = 0; r < job->count; r++) {
    run_source_close(&job->ranks[r].out);
    run_source_close(&job->ranks[r].err);
  }
  int *fds[] = {&job->signal_fd, &job->port_fd, &job->feed.fd, &job->ends_fd};
  for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
    if (*fds[i] >= 0) close(*fds[i]);
  }
  run_sink_fini(&job->out);
  run_sink_fini(&job->err);
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

static void set_environment(const struct job *job, uint32_t rank) {
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
static _Noreturn void become_rank(const struct job *job, uint32_t rank, const struct ends *ends, int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  /* The launcher may have died before PR_SET_PDEATHSIG took effect. In this case the parent is another process. */
  if (getppid() != job->launcher) _exit(NOT_FOUND);
  signal(SIGPIPE, job->old_pipe_handler);
  sigprocmask(SIG_SETMASK, &job->old_mask, NULL);
  if (ends->in >= 0) dup2(ends->in, STDIN_FILENO);
  if (ends->out >= 0) dup2(ends->out, STDOUT_FILENO);
  if (ends->err >= 0) dup2(ends->err, STDERR_FILENO);
  set_environment(job, rank);
  tu_files_restore(job->files);
  errno = 0;
  if (!job->bind || bind_rank(rank)) execvp(job->program[0], job->program);
  int why = errno;
  (void)!write(report, &why, sizeof why);
  _exit(NOT_FOUND);
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

static bool open_streams(struct job *job, uint32_t rank, struct ends *ends) {
  struct rank *r = &job->ranks[rank];
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
static void queue_end(struct job *job, uint32_t rank) {
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
static int start_rank(struct job *job, uint32_t rank) {
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
    say(job, "cannot start rank %u of %u: %s%s", rank, job->count, strerror(why), advice);
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
  say(job, "cannot start '%s': %s", job->program[0], strerror(why));
  return why == ENOENT || why == ENOTDIR ? NOT_FOUND : NOT_RUNNABLE;
}

/* ---- ending the ranks ---- */

static void signal_ranks(struct job *job, int number) {
  for (uint32_t r = 0; r < job->started; r++) {
    const struct rank *rank = &job->ranks[r];
    /* Signal the rank alone if its group does not exist: the rank may have moved to another group, as shells with job
     * control do. */
    if (rank->group && kill(-rank->pid, number) != 0 && rank->alive) kill(rank->pid, number);
  }
}

/* Sends a signal to the processes that ranks left behind, and returns their number. These are the launcher's children
 * that are not ranks. Signal number 0 only counts them. Their ids still belong to them, because the kernel reuses no id
 * before the launcher reaps the process. */
static size_t signal_leftovers(struct job *job, int number) {
  pid_t *children;
  size_t count, left = 0;
  (void)list_children(&children, &count);
  for (size_t i = 0; i < count; i++) {
    bool ours = !is_foreign(job, children[i]);
    for (uint32_t r = 0; r < job->started && ours; r++) ours = !job->ranks[r].alive || job->ranks[r].pid != children[i];
    if (ours) left++;
    if (ours && number) kill(children[i], number);
  }
  free(children);
  return left;
}

static void enter_phase(struct job *job, enum phase phase) {
  job->phase = phase;
  job->phase_ends_ns = tu_clock_ns() + (phase == KILLING ? AGAIN_MS : GRACE_MS) * UINT64_C(1000000);
  if (phase != TERMINATING && phase != KILLING) return;
  int number = phase == KILLING ? SIGKILL : SIGTERM;
  signal_ranks(job, number);
  signal_leftovers(job, number);
  if (phase == TERMINATING) signal_ranks(job, SIGCONT); /* a stopped process handles SIGTERM only after SIGCONT */
}

static void describe(char *text, size_t bytes, int status) {
  if (WIFSIGNALED(status)) {
    snprintf(text, bytes, "was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
  } else {
    snprintf(text, bytes, "exited with status %d", WEXITSTATUS(status));
  }
}

/* Returns true if the rank ended because of the signal that the launcher had received and passed on: the signal killed
 * the rank, or the rank caught the signal and exited with 128 + signal, as shells do. */
static bool was_interrupted(const struct job *job, int status) {
  if (!job->interrupt) return false;
  return WIFSIGNALED(status) ? WTERMSIG(status) == job->interrupt : WEXITSTATUS(status) == 128 + job->interrupt;
}

static void note_failure(struct job *job) {
  if (!job->first || job->status != 0) return;
  int status = job->first_status;
  job->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (was_interrupted(job, status)) {
    say(job, "interrupted by signal %d (%s)", job->interrupt, strsignal(job->interrupt));
    return;
  }
  char how[96], after[96] = "";
  describe(how, sizeof how, status);
  if (job->interrupt)
    snprintf(after, sizeof after, ", after the launcher got signal %d (%s)", job->interrupt, strsignal(job->interrupt));
  say(job, "rank %u (pid %d) %s%s", (unsigned)(job->first - job->ranks), (int)job->first->pid, how, after);
}

static void advance(struct job *job) {
  if (job->childless) return;
  if (job->phase == RUNNING) {
    if (job->alive == 0) enter_phase(job, GRACE);
    return;
  }
  if (tu_clock_ns() < job->phase_ends_ns) return;
  note_failure(job);
  if (job->phase == GRACE && job->alive == 0) {
    say(job, "ending processes that the ranks left running");
  } else if (job->phase == GRACE) {
    say(job, "ending the %u rank%s still running", job->alive, job->alive == 1 ? "" : "s");
  }
  enter_phase(job, job->phase == GRACE ? TERMINATING : KILLING);
}

static struct rank *find_rank(struct job *job, pid_t pid) {
  for (uint32_t r = 0; r < job->started; r++) {
    if (job->ranks[r].alive && job->ranks[r].pid == pid) return &job->ranks[r];
  }
  return NULL;
}

/* Returns true if only processes that existed before the job are left as children of the launcher. */
static bool only_foreign_left(struct job *job) {
  return job->alive == 0 && job->foreign_count > 0 && signal_leftovers(job, 0) == 0;
}

/* ---- which rank failed first ---- When a rank fails, the library tells the other ranks, and they exit, perhaps before
 * the first rank has completely ended. The launcher must find the rank that failed first. waitpid does not report the
 * order of ends; an epoll of pidfds does. The launcher waits for ranks that are about to end. */

static void unqueue_end(struct rank *rank) {
  if (rank->end_fd > 0) close(rank->end_fd); /* closing the pidfd also removes it from the epoll */
  rank->end_fd = 0;
}

/* Returns true if the rank has been killed or has begun to exit, but may not have ended yet. The other ranks may
 * already know of its failure, and may end before it. */
static bool is_ending(const struct rank *rank) {
  enum { PF_EXITING = 4, FLAGS = 9, PENDING = 31 }; /* a flag and field numbers of /proc/PID/stat, see proc(5) */
  char path[32], text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)rank->pid);
  FILE *file = fopen(path, "re");
  if (!file) return false;
  size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[length] = '\0';
  char *name_ends = strrchr(text, ')');
  unsigned long long values[PENDING + 1] = {0};
  char *rest = name_ends, *field = name_ends ? strtok_r(name_ends, " ", &rest) : NULL;
  for (int i = 3; i <= PENDING && field && (field = strtok_r(NULL, " ", &rest)); i++)
    values[i] = strtoull(field, NULL, 10);
  return (values[FLAGS] & PF_EXITING) || (values[PENDING] & 1u << (SIGKILL - 1));
}

/* Records the end of a rank. The ends must be recorded in the order in which they happened. */
static void take_end(struct job *job, struct rank *rank, int status) {
  rank->alive = false;
  job->alive--;
  /* Ignore a rank that succeeded, and ranks that the launcher itself has ended after a failure. */
  if (status == 0 || (job->status != 0 && job->phase >= TERMINATING)) return;
  job->failures++;
  /* Keep the rank in `first`, except in one case: that rank exited by itself, and this rank was killed. Then the death
   * of this rank may be the reason why that rank exited. */
  if (job->first && (WIFSIGNALED(job->first_status) || !WIFSIGNALED(status))) return;
  job->first = rank;
  job->first_status = status;
}

static void take_queued_ends(struct job *job) {
  struct epoll_event event;
  int status;
  while (job->ends_fd >= 0 && epoll_wait(job->ends_fd, &event, 1, 0) == 1) {
    struct rank *rank = &job->ranks[event.data.u32];
    unqueue_end(rank);
    if (waitpid(rank->pid, &status, WNOHANG) == rank->pid) take_end(job, rank, status);
  }
}

/* Records the ends of all ranks that have ended. Reports the first failure once it is certain which rank failed
 * first. */
static void reap(struct job *job) {
  siginfo_t info;
  int status, got;
  for (;;) {
    take_queued_ends(job);
    info.si_pid = 0;
    got = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
    if (got != 0 || info.si_pid == 0) break;
    struct rank *rank = find_rank(job, info.si_pid);
    if (rank && rank->end_fd > 0)
      continue; /* the epoll will report the end of this rank later, perhaps after those of other ranks */
    if (waitpid(info.si_pid, &status, WNOHANG) == info.si_pid && rank) take_end(job, rank, status);
  }
  job->childless = (got != 0 && errno == ECHILD) || only_foreign_left(job);
  for (uint32_t r = 0; r < job->started; r++) {
    struct rank *rank = &job->ranks[r];
    if (!rank->alive && rank->group && kill(-rank->pid, 0) != 0 && errno == ESRCH) rank->group = false;
  }
  if (!job->first || job->status != 0) return;
  if (job->phase == RUNNING) enter_phase(job, GRACE);
  bool others = false;
  for (uint32_t r = 0; r < job->started && !WIFSIGNALED(job->first_status); r++)
    others |= job->ranks[r].alive && is_ending(&job->ranks[r]);
  if (!others) note_failure(job);
}

/* ---- the poll loop ---- */

static void take_signal(struct job *job, int number) {
  switch (number) {
    case SIGCHLD: reap(job); return;
    case SIGTSTP:
      signal_ranks(job, SIGTSTP);
      raise(SIGSTOP);
      return;
    case SIGUSR1:
    case SIGUSR2:
    case SIGCONT: signal_ranks(job, number); return;
    default: break;
  }
  if (job->alive > 0) {
    job->interrupt = number;
    signal_ranks(job, number);
  } else if (!job->childless) {
    enter_phase(job, KILLING);
  } else {
    /* All processes of the job have ended, and the launcher only waits to write their output, which the reader does not
     * take. Drop the output, so that the signal ends the launcher. */
    job->out.broken = job->err.broken = true;
    job->out.waiting.begin = job->out.waiting.end = job->err.waiting.begin = job->err.waiting.end = 0;
  }
}

static void take_waiting_signals(struct job *job) {
  struct signalfd_siginfo info;
  while (read(job->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) take_signal(job, (int)info.ssi_signo);
}

static bool is_done(const struct job *job) {
  if (!job->childless || !run_sink_empty(&job->out) || !run_sink_empty(&job->err)) return false;
  for (uint32_t r = 0; r < job->started; r++) {
    if (job->ranks[r].out.fd >= 0 || job->ranks[r].err.fd >= 0) return false;
  }
  return true;
}

static int source_fd(const struct run_source *source) { return run_sink_full(source->sink) ? -1 : source->fd; }

static nfds_t fill_poll_set(struct job *job) {
  struct pollfd *polled = job->polled;
  nfds_t n = 0;
  short events = 0;
  int fd = run_feed_wants(&job->feed, &events);
  polled[n++] = (struct pollfd){.fd = job->signal_fd, .events = POLLIN};
  polled[n++] = (struct pollfd){.fd = fd, .events = events};
  polled[n++] = (struct pollfd){.fd = run_sink_empty(&job->out) ? -1 : job->out.fd, .events = POLLOUT};
  polled[n++] = (struct pollfd){.fd = run_sink_empty(&job->err) ? -1 : job->err.fd, .events = POLLOUT};
  if (!job->prefix) return n;
  for (uint32_t r = 0; r < job->started; r++) {
    polled[n++] = (struct pollfd){.fd = source_fd(&job->ranks[r].out), .events = POLLIN};
    polled[n++] = (struct pollfd){.fd = source_fd(&job->ranks[r].err), .events = POLLIN};
  }
  return n;
}

/* Reads the rest of a pipe after all processes of the job have ended, and closes it once it is empty. A process outside
 * the job may still hold the pipe open. */
static void drain(struct run_source *source) {
  if (source_fd(source) < 0) return;
  if (!run_source_read(source)) run_source_close(source);
}

static void move_streams(struct job *job) {
  const struct pollfd *polled = job->polled;
  if (polled[1].revents) run_feed_move(&job->feed);
  if (polled[2].revents) run_sink_flush(&job->out);
  if (polled[3].revents) run_sink_flush(&job->err);
  for (uint32_t r = 0; job->prefix && r < job->started; r++) {
    if (polled[4 + 2 * r].revents) run_source_read(&job->ranks[r].out);
    if (polled[5 + 2 * r].revents) run_source_read(&job->ranks[r].err);
    if (!job->childless) continue;
    drain(&job->ranks[r].out);
    drain(&job->ranks[r].err);
  }
}

static int wait_ms(const struct job *job) {
  if (job->childless && job->prefix) return 10;
  if (job->phase == RUNNING || job->childless) return -1;
  uint64_t now = tu_clock_ns();
  return now >= job->phase_ends_ns ? 0 : (int)((job->phase_ends_ns - now) / 1000000 + 1);
}

static void watch(struct job *job) {
  while (!is_done(job)) {
    if (poll(job->polled, fill_poll_set(job), wait_ms(job)) < 0) continue;
    move_streams(job);
    if (job->polled[0].revents) take_waiting_signals(job);
    advance(job);
  }
}

/* ---- the verb `tutti run` ---- */

static int run_job(struct job *job) {
  int status = job_init(job);
  if (status != CLI_GOOD) {
    job_fini(job);
    return status;
  }
  job->childless = true;
  for (uint32_t r = 0; r < job->count && status == CLI_GOOD; r++) status = start_rank(job, r);
  if (status != CLI_GOOD) {
    /* The exit status is that of the rank that could not be started. A failure of another rank does not replace it. */
    job->status = status;
    enter_phase(job, KILLING);
  }
  watch(job);
  if (job->failures > 1 && status == CLI_GOOD && !was_interrupted(job, job->first_status)) {
    say(job, "%u other rank%s failed later", job->failures - 1, job->failures == 2 ? "" : "s");
    watch(job);
  }
  status = job->status;
  job_fini(job);
  return status;
}

static int run(int argc, char **argv) {
  struct job job = {0};
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
  if (job.count == 0 || job.count > RANKS_MAX) {
    return cli_fail("run", CLI_USAGE, "-n: expected the number of ranks, from 1 to %d", RANKS_MAX);
  }
  job.bind = strcmp(bind, "core") == 0;
  if (!job.bind && strcmp(bind, "none") != 0) {
    return cli_fail("run", CLI_USAGE, "--bind: expected 'core' or 'none', found '%s'", bind);
  }
  if (argc < 2) return cli_fail("run", CLI_USAGE, "program is missing; example: tutti run -n %u -- program", job.count);
  job.program = argv + 1;
  if ((status = budget_allow_processes("run", job.count)) != CLI_GOOD) return status;
  return run_job(&job);
}

const struct cli_verb cli_run = {
    .name = "run",
    .summary = "start and monitor the ranks of a job on this host",
    .synopsis = "run -n N [options] -- program [arguments]",
    .run = run,
};
