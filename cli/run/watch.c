/* watch.c: the poll loop of `tutti run`: signals, and the input and output of the ranks. */
#include <signal.h>

#include "cli/run/job.h"

void run_take_signal(struct run_job *job, int number) {
  switch (number) {
    case SIGCHLD: run_reap(job); return;
    case SIGTSTP:
      run_signal_ranks(job, SIGTSTP);
      if (!job->console.launcher) raise(SIGSTOP);
      return;
    case SIGUSR2: run_keeper_report(&job->keeper, &job->console); return;
    case SIGUSR1:
    case SIGCONT: run_signal_ranks(job, number); return;
    default: break;
  }
  if (job->alive > 0) {
    job->verdict.interrupt = number;
    run_signal_ranks(job, number);
  } else if (!job->childless) {
    run_enter_phase(job, RUN_KILLING);
  } else {
    /* All processes of the job have ended, and the launcher only waits to write their output, which the reader does not
     * take. Drop the output, so that the signal ends the launcher. */
    run_sink_drop(&job->console.out);
    run_sink_drop(&job->console.err);
  }
}

bool run_is_done(const struct run_job *job) {
  if (!job->childless || !run_sink_empty(&job->console.out) || !run_sink_empty(&job->console.err)) return false;
  for (uint32_t r = 0; r < job->started; r++) {
    if (job->ranks[r].out.fd >= 0 || job->ranks[r].err.fd >= 0) return false;
  }
  return true;
}

static int source_fd(const struct run_source *source) { return run_sink_full(source->lines.sink) ? -1 : source->fd; }

nfds_t run_poll_set(struct run_job *job) {
  struct pollfd *polled = job->polled;
  nfds_t n = 0;
  short events = 0;
  int fd = run_feed_wants(&job->feed, &events);
  polled[n++] = (struct pollfd){.fd = job->console.signal_fd, .events = POLLIN};
  polled[n++] = (struct pollfd){.fd = fd, .events = events};
  polled[n++] = (struct pollfd){.fd = run_sink_empty(&job->console.out) ? -1 : job->console.out.fd, .events = POLLOUT};
  polled[n++] = (struct pollfd){.fd = run_sink_empty(&job->console.err) ? -1 : job->console.err.fd, .events = POLLOUT};
  polled[n++] = (struct pollfd){.fd = job->keeper.fd, .events = POLLIN};
  if (!job->piped) return n;
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

static void move_streams(struct run_job *job) {
  const struct pollfd *polled = job->polled;
  if (polled[1].revents) run_feed_move(&job->feed);
  if (polled[2].revents) run_sink_flush(&job->console.out);
  if (polled[3].revents) run_sink_flush(&job->console.err);
  for (uint32_t r = 0; job->piped && r < job->started; r++) {
    if (polled[RUN_POLLED + 2 * r].revents) run_source_read(&job->ranks[r].out);
    if (polled[RUN_POLLED + 1 + 2 * r].revents) run_source_read(&job->ranks[r].err);
    if (!job->childless) continue;
    drain(&job->ranks[r].out);
    drain(&job->ranks[r].err);
  }
}

int run_wait_ms(const struct run_job *job) {
  if (job->childless && job->piped) return 10;
  if (job->phase == RUN_RUNNING || job->childless) return run_keeper_wait_ms(&job->keeper);
  uint64_t now = tu_clock_ns();
  return now >= job->phase_ends_ns ? 0 : (int)((job->phase_ends_ns - now) / 1000000 + 1);
}

void run_serve(struct run_job *job) {
  move_streams(job);
  run_keeper_serve(&job->keeper);
  for (int number; (number = run_console_signal(&job->console)) != 0;) run_take_signal(job, number);
  run_advance(job);
}

void run_watch(struct run_job *job) {
  while (!run_is_done(job)) {
    if (poll(job->polled, run_poll_set(job), run_wait_ms(job)) >= 0) run_serve(job);
  }
}
