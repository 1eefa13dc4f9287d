/* ends.c: ends the ranks of a job on this host, and finds out in which order they end. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/run/job.h"

enum {
  AGAIN_MS = 100, /* time in ms between two rounds of SIGKILL */
};

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

static bool is_foreign(const struct run_job *job, pid_t pid) {
  for (size_t i = 0; i < job->foreign_count; i++) {
    if (job->foreign[i] == pid) return true;
  }
  return false;
}

void run_note_foreign(struct run_job *job) { (void)list_children(&job->foreign, &job->foreign_count); }

void run_signal_ranks(struct run_job *job, int number) {
  for (uint32_t r = 0; r < job->started; r++) {
    const struct run_rank *rank = &job->ranks[r];
    /* Signal the rank alone if its group does not exist: the rank may have moved to another group, as shells with job
     * control do. */
    if (rank->group && kill(-rank->pid, number) != 0 && rank->alive) kill(rank->pid, number);
  }
}

/* The ids of leftovers still belong to them, because the kernel reuses no id before the launcher reaps the process. */
size_t run_signal_leftovers(struct run_job *job, int number) {
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

void run_enter_phase(struct run_job *job, enum run_phase phase) {
  job->phase = phase;
  job->phase_ends_ns = tu_clock_ns() + (phase == RUN_KILLING ? AGAIN_MS : job->patience_ms) * UINT64_C(1000000);
  if (phase != RUN_TERMINATING && phase != RUN_KILLING) return;
  int number = phase == RUN_KILLING ? SIGKILL : SIGTERM;
  run_signal_ranks(job, number);
  run_signal_leftovers(job, number);
  if (phase == RUN_TERMINATING)
    run_signal_ranks(job, SIGCONT); /* a stopped process handles SIGTERM only after SIGCONT */
}

/* Reports the first failure. An agent leaves that to the launcher, which knows all hosts. */
static void tell(struct run_job *job) {
  if (!job->console.launcher) run_verdict_tell(&job->verdict, &job->console);
  else if (job->verdict.found && job->verdict.status == 0) job->verdict.status = CLI_FAILED;
}

void run_advance(struct run_job *job) {
  if (job->childless) return;
  if (job->phase == RUN_RUNNING) {
    if (job->alive == 0) run_enter_phase(job, RUN_GRACE);
    return;
  }
  if (tu_clock_ns() < job->phase_ends_ns) return;
  tell(job);
  if (job->phase == RUN_GRACE && job->alive == 0) {
    run_say(&job->console, "ending processes that the ranks left running");
  } else if (job->phase == RUN_GRACE) {
    run_say(&job->console, "ending the %u rank%s still running", job->alive, job->alive == 1 ? "" : "s");
  }
  run_enter_phase(job, job->phase == RUN_GRACE ? RUN_TERMINATING : RUN_KILLING);
}

static struct run_rank *find_rank(struct run_job *job, pid_t pid) {
  for (uint32_t r = 0; r < job->started; r++) {
    if (job->ranks[r].alive && job->ranks[r].pid == pid) return &job->ranks[r];
  }
  return NULL;
}

/* Returns true if only processes that existed before the job are left as children of the launcher. */
static bool only_foreign_left(struct run_job *job) {
  return job->alive == 0 && job->foreign_count > 0 && run_signal_leftovers(job, 0) == 0;
}

/* ---- which rank failed first ---- When a rank fails, the library tells the other ranks, and they exit, perhaps before
 * the first rank has completely ended. The launcher must find the rank that failed first. waitpid does not report the
 * order of ends; an epoll of pidfds does. The launcher waits for ranks that are about to end. */

static void unqueue_end(struct run_rank *rank) {
  if (rank->end_fd > 0) close(rank->end_fd); /* closing the pidfd also removes it from the epoll */
  rank->end_fd = 0;
}

/* Returns true if the rank has been killed or has begun to exit, but may not have ended yet. The other ranks may
 * already know of its failure, and may end before it. */
static bool is_ending(const struct run_rank *rank) {
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
static void take_end(struct run_job *job, struct run_rank *rank, int status) {
  const struct run_end end = {.rank = rank->number, .pid = rank->pid, .status = status, .when_ns = tu_clock_ns()};
  rank->alive = false;
  job->alive--;
  /* Ignore a rank that succeeded, and ranks that the launcher itself has ended after a failure. */
  const bool counts = status != 0 && (job->verdict.status == 0 || job->phase < RUN_TERMINATING);
  if (job->console.launcher) {
    const struct run_ended ended = {
        .clock_ns = end.when_ns, .pid = (int32_t)end.pid, .status = (int32_t)status, .counts = counts};
    run_frame_put(job->console.launcher, RUN_ENDED, end.rank, &ended, sizeof ended);
  }
  if (!counts) return;
  run_verdict_take(&job->verdict, &end);
}

static void take_queued_ends(struct run_job *job) {
  struct epoll_event event;
  int status;
  while (job->ends_fd >= 0 && epoll_wait(job->ends_fd, &event, 1, 0) == 1) {
    struct run_rank *rank = &job->ranks[event.data.u32];
    unqueue_end(rank);
    if (waitpid(rank->pid, &status, WNOHANG) == rank->pid) take_end(job, rank, status);
  }
}

void run_reap(struct run_job *job) {
  siginfo_t info;
  int status, got;
  for (;;) {
    take_queued_ends(job);
    info.si_pid = 0;
    got = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
    if (got != 0 || info.si_pid == 0) break;
    struct run_rank *rank = find_rank(job, info.si_pid);
    if (rank && rank->end_fd > 0)
      continue; /* the epoll will report the end of this rank later, perhaps after those of other ranks */
    if (waitpid(info.si_pid, &status, WNOHANG) == info.si_pid && rank) take_end(job, rank, status);
  }
  job->childless = (got != 0 && errno == ECHILD) || only_foreign_left(job);
  for (uint32_t r = 0; r < job->started; r++) {
    struct run_rank *rank = &job->ranks[r];
    if (!rank->alive && rank->group && kill(-rank->pid, 0) != 0 && errno == ESRCH) rank->group = false;
  }
  if (!job->verdict.found || job->verdict.status != 0) return;
  if (job->phase == RUN_RUNNING) run_enter_phase(job, RUN_GRACE);
  if (run_settled(job)) tell(job);
}

bool run_settled(const struct run_job *job) {
  for (uint32_t r = 0; r < job->started && !run_verdict_killed(&job->verdict); r++)
    if (job->ranks[r].alive && is_ending(&job->ranks[r])) return false;
  return true;
}

void run_wind_up(struct run_job *job, uint32_t patience_ms) {
  const uint64_t ends_ns = tu_clock_ns() + patience_ms * UINT64_C(1000000);
  job->patience_ms = patience_ms;
  if (job->verdict.status == 0) job->verdict.status = CLI_FAILED;
  if (job->phase == RUN_RUNNING) run_enter_phase(job, RUN_GRACE);
  else if (ends_ns < job->phase_ends_ns) job->phase_ends_ns = ends_ns;
}
