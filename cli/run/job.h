/* job.h: the ranks of a job on this host. ranks.c starts them, watch.c monitors them, ends.c ends them, with every
 * process that they started. One thread runs one poll loop.
 *
 * Each rank leads its own process group, so a signal to the group also reaches the rank's child processes. A process
 * that leaves the group becomes a child of the launcher when its parent ends, because the launcher is a subreaper. Such
 * processes are killed at the end of the job. */
#ifndef CLI_RUN_JOB_H
#define CLI_RUN_JOB_H

#include <poll.h>

#include "cli/run/keeper.h"
#include "cli/run/meeting.h"
#include "cli/run/verdict.h"

enum {
  RUN_RANKS_MAX = 65536,
  /* time in ms that the other ranks have to exit by themselves after a rank has failed; the library reports a dead rank
   * much sooner */
  RUN_GRACE_MS = 2000,
  RUN_NOT_RUNNABLE = 126, /* exit status if the program cannot be executed, as in shells */
  RUN_NOT_FOUND = 127,    /* exit status if the program is not found, as in shells */
};

/* Phases of a job. RUNNING lasts until a rank fails or all ranks have ended. Then the launcher waits (GRACE), sends
 * SIGTERM (TERMINATING) and sends SIGKILL repeatedly (KILLING), until no process of the job is left. */
enum run_phase { RUN_RUNNING, RUN_GRACE, RUN_TERMINATING, RUN_KILLING };

struct run_rank {
  uint32_t number; /* in the job */
  pid_t pid;
  bool alive;
  int end_fd; /* pidfd of the rank, which becomes readable when the rank ends; 0: none */
  bool group; /* the rank's process group may have members; if false, never signal the group, because its id may be
               * reused */
  struct run_source out, err;
};

struct run_job {
  uint32_t count, world; /* ranks on this host; ranks of the job */
  bool prefix, bind;
  bool piped; /* the ranks write to pipes: because of `prefix`, or for a launcher on another host */
  uint32_t timeout_ms, patience_ms; /* patience: how long ranks get to end by themselves, and again after SIGTERM */
  const char *path;                 /* of the program; looked up in PATH if it has no slash */
  char **program;                   /* its arguments, from argv[0] on */

  struct run_rank *ranks;
  uint32_t started, alive;
  int ends_fd;    /* epoll of the ranks' pidfds: reports ranks in the order in which they end; -1: none */
  pid_t *foreign; /* children that the process had before the job started; the launcher does not end them */
  size_t foreign_count;
  bool childless; /* true: no process of the job is left */
  enum run_phase phase;
  uint64_t phase_ends_ns;
  struct run_verdict verdict;

  uint64_t files; /* original soft limit of file descriptors, restored in the ranks; 0: unchanged */
  struct run_meeting meeting;
  struct run_keeper keeper;
  struct run_console console;
  struct run_feed feed;
  struct pollfd *polled;
};

/* ---- ranks.c ---- */

/* Prepares the start of the ranks. Their numbers are those from 0 on, until the caller sets others. Errors:
 * TUTTI_ERR_SYSTEM. In both cases the caller calls run_job_fini. */
tutti_err run_job_init(struct run_job *job, struct tu_error *error);
void run_job_fini(struct run_job *job);
/* Gives a rank of this host its number in the job. */
void run_number_rank(struct run_job *job, uint32_t index, uint32_t number);
/* Starts the next rank. If that fails, prints the reason, sets the exit status of the job, ends the ranks that run, and
 * returns false. */
bool run_start_next(struct run_job *job);

/* ---- ends.c ---- */

/* Notes the children that the process has already. They do not belong to the job. */
void run_note_foreign(struct run_job *job);
void run_signal_ranks(struct run_job *job, int number);
/* Sends a signal to the processes that ranks left behind, and returns their number. These are the launcher's children
 * that are not ranks. Signal number 0 only counts them. */
size_t run_signal_leftovers(struct run_job *job, int number);
void run_enter_phase(struct run_job *job, enum run_phase phase);
/* Enters the next phase if the time of the current one has passed. */
void run_advance(struct run_job *job);
/* Records the ends of all ranks that have ended. Reports the first failure once it is certain which rank failed
 * first. */
void run_reap(struct run_job *job);
/* Returns true if no rank is about to end that may have failed earlier than those known. */
bool run_settled(const struct run_job *job);
/* Ends the ranks because the job has failed on another host. They get `patience_ms` to end by themselves. */
void run_wind_up(struct run_job *job, uint32_t patience_ms);

/* ---- watch.c ---- */

/* Monitors the ranks until no process of the job is left and all output is written. */
void run_watch(struct run_job *job);

/* The parts of run_watch, for a caller that polls other descriptors, too: fills job->polled and returns the number of its
 * entries; returns how long poll may wait in ms; handles what poll has reported. */
nfds_t run_poll_set(struct run_job *job);
int run_wait_ms(const struct run_job *job);
void run_serve(struct run_job *job);
/* Returns true if no process of the job is left and all output is written. */
bool run_is_done(const struct run_job *job);
/* Handles a signal for the job: passes it on to the ranks. */
void run_take_signal(struct run_job *job, int number);

enum {
  RUN_POLLED = 5,      /* entries of job->polled before those of the ranks' streams */
  RUN_MORE_POLLED = 2, /* entries after those of run_poll_set */
};

#endif
