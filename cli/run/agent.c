/* agent.c: starts and ends the ranks of one host, for a launcher on another. Two processes: the agent, and a guardian,
 * its parent, which ends what the agent has started if the agent is killed. */
#include "cli/run/agent.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/budget.h"
#include "cli/cli.h"
#include "cli/run/job.h"
#include "cli/run/tracer.h"

enum { TICK_MS = 200, STOPPED_MS = 3 * RUN_SILENCE_MS };

struct agent {
  struct run_job job;
  struct run_pipe pipe;
  pid_t guardian;
  struct run_order order;
  uint32_t *places; /* numbers of the ranks */
  char *directory, *program;
  char **arguments; /* from argv[0] to the NULL at the end */
  uint32_t argument_count, argument_capacity;
  struct run_tracer tracer;
  bool prepared, started;
  bool lost;   /* the launcher is gone: end everything */
  bool paused; /* the launcher is stopped (SIGTSTP), and may be silent */
  bool asked;  /* RUN_WIND_UP waits for its answer */
  bool done;   /* RUN_DONE is sent */
};

static char *copy_text(const struct run_frame *frame) {
  char *text = tu_allocate(frame->bytes + 1, 1);
  memcpy(text, frame->data, frame->bytes);
  return text;
}

static void refuse(struct agent *agent, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void refuse(struct agent *agent, int status, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  run_frame_put(&agent->pipe.out, RUN_REFUSED, (uint32_t)status, text, strlen(text));
}

/* Checks that the ranks can be started here. On failure tells the launcher why. */
static bool check(struct agent *agent) {
  struct tu_error error;
  if (chdir(agent->directory) != 0) {
    refuse(agent, CLI_FAILED, "cannot change to the working directory '%s': %s; it must exist on all hosts",
           agent->directory, strerror(errno));
  } else if (strchr(agent->program, '/') && access(agent->program, X_OK) != 0) {
    refuse(agent, errno == ENOENT || errno == ENOTDIR ? RUN_NOT_FOUND : RUN_NOT_RUNNABLE,
           "cannot start '%s': %s; it must exist on all hosts", agent->program, strerror(errno));
  } else if (budget_allow_processes(agent->order.count, &error) != TUTTI_OK) {
    refuse(agent, CLI_FAILED, "%s", error.text);
  } else {
    return true;
  }
  return false;
}

static void prepare(struct agent *agent) {
  struct run_job *job = &agent->job;
  struct tu_error error;
  const uint32_t count = agent->order.count;
  if (!check(agent)) return;
  job->count = count;
  job->world = agent->order.world;
  job->bind = agent->order.bind;
  job->timeout_ms = agent->order.timeout_ms;
  job->patience_ms = RUN_GRACE_MS;
  job->piped = true;
  job->path = agent->program;
  job->program = agent->arguments;
  job->console.launcher = &agent->pipe.out;
  agent->prepared = true;
  if (agent->order.traced && run_tracer_open(&agent->tracer, NULL, &error) != TUTTI_OK) {
    refuse(agent, CLI_FAILED, "%s", error.text);
    return;
  }
  if (run_job_init(job, &error) != TUTTI_OK) {
    refuse(agent, CLI_FAILED, "%s", error.text);
    return;
  }
  for (uint32_t r = 0; r < count; r++) run_number_rank(job, r, agent->places[r]);
  /* The ranks of a host are numbered in ascending order. */
  if (agent->places[0] == 0 && run_meeting_open(&job->meeting, agent->order.alone, &error) != TUTTI_OK) {
    refuse(agent, CLI_FAILED, "%s", error.text);
    return;
  }
  run_frame_put(&agent->pipe.out, RUN_READY, job->meeting.port, job->meeting.addresses, strlen(job->meeting.addresses));
}

static void add_argument(struct agent *agent, char *text) {
  agent->arguments =
      tu_grow(agent->arguments, agent->argument_count, &agent->argument_capacity, sizeof *agent->arguments);
  agent->arguments[agent->argument_count++] = text;
}

static bool take_text(struct agent *agent, const struct run_frame *frame) {
  char *text = copy_text(frame);
  switch (frame->number) {
    case RUN_DIRECTORY: agent->directory = text; return true;
    case RUN_PROGRAM: agent->program = text; return true;
    case RUN_SECRET:
      snprintf(agent->job.meeting.secret, sizeof agent->job.meeting.secret, "%s", text);
      free(text);
      return true;
    case RUN_VARIABLE: return putenv(text) == 0;
    case RUN_ARGUMENT: add_argument(agent, text); return true;
    default: free(text); return false;
  }
}

/* Takes a frame that describes the job. Returns false if it is no such frame. */
static bool take_order(struct agent *agent, const struct run_frame *frame) {
  struct run_meeting *meeting = &agent->job.meeting;
  switch (frame->kind) {
    case RUN_ORDER:
      if (frame->bytes != sizeof agent->order) return false;
      memcpy(&agent->order, frame->data, sizeof agent->order);
      return agent->order.count > 0 && agent->order.count <= RUN_RANKS_MAX && !agent->places;
    case RUN_PLACES:
      if (agent->places || frame->bytes != agent->order.count * sizeof *agent->places) return false;
      agent->places = tu_allocate(agent->order.count, sizeof *agent->places);
      memcpy(agent->places, frame->data, frame->bytes);
      return true;
    case RUN_TEXT: return take_text(agent, frame);
    case RUN_PREPARE:
      if (agent->prepared || !agent->places || !agent->directory || !agent->program || !agent->arguments) return false;
      add_argument(agent, NULL);
      prepare(agent);
      return true;
    case RUN_START:
      if (!agent->prepared || frame->bytes >= sizeof meeting->addresses) return false;
      memcpy(meeting->addresses, frame->data, frame->bytes);
      meeting->addresses[frame->bytes] = '\0';
      meeting->port = (uint16_t)frame->number;
      agent->started = true;
      return true;
    default: return false;
  }
}

static bool take_frame(struct agent *agent, const struct run_frame *frame) {
  struct run_job *job = &agent->job;
  agent->paused = false;
  if (!frame->data) return false;
  if (frame->kind == RUN_ALIVE) return true;
  if (!agent->started && frame->kind != RUN_SIGNAL) return take_order(agent, frame);
  switch (frame->kind) {
    case RUN_SIGNAL:
      agent->paused = frame->number == SIGTSTP;
      if (agent->started) run_take_signal(job, (int)frame->number);
      return true;
    case RUN_INPUT: run_feed_put(&job->feed, frame->data, frame->bytes); return true;
    case RUN_TAKEN: agent->pipe.out.sent -= tu_min(agent->pipe.out.sent, frame->number); return true;
    case RUN_CLOSE:
      for (uint32_t r = 0; r < job->started; r++)
        run_source_close(frame->number == RUN_OUT ? &job->ranks[r].out : &job->ranks[r].err);
      return true;
    case RUN_LOOK: run_keeper_tell(&job->keeper, &agent->pipe.out); return true;
    case RUN_WIND_UP:
      run_wind_up(job, frame->number);
      agent->asked = true;
      return true;
    default: return false;
  }
}

static void lose(struct agent *agent) {
  struct run_job *job = &agent->job;
  agent->lost = true;
  run_sink_drop(&agent->pipe.out);
  if (agent->prepared && !job->childless) run_enter_phase(job, RUN_KILLING);
}

static void take_frames(struct agent *agent) {
  struct run_frame frame;
  while (!agent->lost && run_pipe_next(&agent->pipe, &frame)) {
    if (take_frame(agent, &frame)) continue;
    (void)cli_fail(
        "run", CLI_FAILED,
        "--agent: expected frames of tutti run on standard input, found a frame of kind %u with %u bytes; only "
        "tutti run starts agents",
        frame.kind, frame.bytes);
    lose(agent);
  }
}

static bool may_start(const struct agent *agent) {
  const struct run_job *job = &agent->job;
  return agent->started && !agent->lost && job->phase == RUN_RUNNING && job->started < job->count;
}

/* Starts a rank, and answers what the launcher waits for. */
static void proceed(struct agent *agent) {
  struct run_job *job = &agent->job;
  struct run_sink *out = &agent->pipe.out;
  if (may_start(agent) && !run_start_next(job)) run_frame_put(out, RUN_REFUSED, (uint32_t)job->verdict.status, "", 0);
  if (job->feed.taken > 0) run_frame_put(out, RUN_TAKEN, (uint32_t)job->feed.taken, "", 0);
  job->feed.taken = 0;
  if (agent->asked && (run_settled(job) || job->phase > RUN_GRACE)) {
    run_frame_put(out, RUN_SETTLED, 0, "", 0);
    agent->asked = false;
  }
  const bool all = job->started == job->count || job->phase != RUN_RUNNING;
  if (agent->started && all && !agent->done && run_is_done(job) && run_tracer_send(&agent->tracer, out)) {
    run_frame_put(out, RUN_DONE, 0, "", 0);
    agent->done = true;
  }
}

static bool is_over(const struct agent *agent) {
  if (agent->lost) return !agent->prepared || run_is_done(&agent->job);
  return agent->done && !agent->asked && run_sink_empty(&agent->pipe.out);
}

static int wait_ms(const struct agent *agent) {
  if (may_start(agent)) return 0;
  const int ms = agent->prepared ? run_wait_ms(&agent->job) : -1;
  return ms < 0 ? TICK_MS : (int)tu_min((size_t)ms, TICK_MS);
}

static void serve(struct agent *agent) {
  struct run_job *job = &agent->job;
  struct run_pipe *pipe = &agent->pipe;
  struct pollfd few[RUN_MORE_POLLED];
  while (!is_over(agent)) {
    const bool prepared = agent->prepared;
    const nfds_t n = prepared ? run_poll_set(job) : 0;
    struct pollfd *polled = prepared ? job->polled : few, *more = polled + n;
    more[0] = (struct pollfd){.fd = pipe->in, .events = POLLIN};
    more[1] = (struct pollfd){.fd = run_sink_empty(&pipe->out) ? -1 : pipe->out.fd, .events = POLLOUT};
    poll(polled, n + RUN_MORE_POLLED, wait_ms(agent));
    if (more[0].revents) run_pipe_read(pipe);
    if (more[1].revents) run_sink_flush(&pipe->out);
    if (prepared) run_serve(job);
    take_frames(agent);
    if (agent->prepared) proceed(agent);
    const bool silent = run_pipe_silent(pipe) && !agent->paused;
    if (!agent->lost && (pipe->in < 0 || pipe->out.broken || silent || getppid() != agent->guardian)) lose(agent);
    run_pipe_tick(pipe);
  }
}

static int work(pid_t guardian) {
  struct agent agent = {.guardian = guardian};
  if (!run_pipe_open_agent(&agent.pipe)) return cli_fail("run", CLI_FAILED, "--agent: %s", strerror(errno));
  agent.job.meeting.fd = -1;
  serve(&agent);
  if (agent.prepared) run_job_fini(&agent.job);
  run_tracer_close(&agent.tracer);
  run_pipe_close(&agent.pipe);
  for (uint32_t i = 0; i < agent.argument_count; i++) free(agent.arguments[i]);
  free(agent.arguments);
  free(agent.places);
  free(agent.directory);
  free(agent.program);
  return agent.lost ? CLI_FAILED : CLI_GOOD;
}

/* Returns true if the agent has ended. Kills it if it was stopped for so long that its launcher, even one that runs late, has
 * given it up. */
static bool has_ended(pid_t agent, int *status, uint64_t *stopped_ns) {
  while (waitpid(agent, status, WNOHANG | WUNTRACED | WCONTINUED) == agent) {
    if (!WIFSTOPPED(*status) && !WIFCONTINUED(*status)) return true;
    *stopped_ns = WIFSTOPPED(*status) ? tu_clock_ns() : 0;
  }
  if (*stopped_ns && tu_clock_ns() - *stopped_ns > STOPPED_MS * UINT64_C(1000000)) kill(agent, SIGKILL);
  return false;
}

/* Waits until the agent has ended, and kills what it has left behind. A signal to the guardian ends the agent. */
static int guard(pid_t agent, struct run_job *nothing, const sigset_t *signals) {
  const struct timespec tick = {.tv_nsec = TICK_MS * 1000000};
  int status = 0, number;
  uint64_t stopped_ns = 0;
  close(STDIN_FILENO);
  close(STDOUT_FILENO); /* the launcher must see the end of the agent's output */
  while (!has_ended(agent, &status, &stopped_ns)) {
    number = sigtimedwait(signals, NULL, &tick);
    if (number > 0 && number != SIGCHLD) kill(agent, SIGKILL);
  }
  while (run_signal_leftovers(nothing, SIGKILL) > 0) {
    while (waitpid(-1, NULL, WNOHANG) > 0) {}
    poll(NULL, 0, 10);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : CLI_FAILED;
}

int run_agent(void) {
  struct run_job nothing = {0};
  sigset_t signals, old;
  sigemptyset(&signals);
  const int ending[] = {SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
  for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) sigaddset(&signals, ending[i]);
  run_note_foreign(&nothing);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  signal(SIGCHLD, SIG_DFL);
  sigprocmask(SIG_BLOCK, &signals, &old);
  const pid_t guardian = getpid(), agent = fork();
  if (agent < 0) return cli_fail("run", CLI_FAILED, "--agent: fork failed: %s", strerror(errno));
  if (agent == 0) {
    setpgid(0, 0); /* a signal to the group of the guardian leaves the agent alive, which then ends its ranks */
    sigprocmask(SIG_SETMASK, &old, NULL);
  }
  const int status = agent == 0 ? work(guardian) : guard(agent, &nothing, &signals);
  free(nothing.foreign);
  return status;
}
