/* job.h: the ranks of a job on this host. ranks.c starts them, watch.c monitors them, ends.c ends them, with every
 * process that they started. One thread runs one poll loop.
 *
 * Each rank leads its own process group, so a signal to the group also reaches the rank's child processes. A process
 * that leaves the group becomes a child of the launcher when its parent ends, because the launcher is a subreaper. Such
 * processes are killed at the end of the job. */
#ifndef CLI_RUN_JOB_H
#define CLI_RUN_JOB_H

#include <poll.h>

#include "cli/run/verdict.h"

enum {
  RUN_RANKS_MAX = 65536,
  RUN_NOT_RUNNABLE = 126, /* exit status if the program cannot be executed, as in shells */
  RUN_NOT_FOUND = 127,    /* exit status if the program is not found, as in shells */
};

/* Phases of a job. RUNNING lasts until a rank fails or all ranks have ended. Then the launcher waits (GRACE), sends
 * SIGTERM (TERMINATING) and sends SIGKILL repeatedly (KILLING), until no process of the job is left. */
enum run_phase { RUN_RUNNING, RUN_GRACE, RUN_TERMINATING, RUN_KILLING };

struct run_rank {
  pid_t pid;
  bool alive;
  int end_fd; /* pidfd of the rank, which becomes readable when the rank ends; 0: none */
  bool group; /* the rank's process group may have members; if false, never signal the group, because its id may be
               * reused */
  struct run_source out, err;
};

struct run_job {
  uint32_t count;
  bool prefix, bind;
  uint32_t timeout_ms;
  char **program;

  struct run_rank *ranks;
  uint32_t started, alive;
  int ends_fd;    /* epoll of the ranks' pidfds: reports ranks in the order in which they end; -1: none */
  pid_t *foreign; /* children that the process had before the job started; the launcher does not end them */
  size_t foreign_count;
  bool childless; /* true: no process of the job is left */
  enum run_phase phase;
  uint64_t phase_ends_ns;
  struct run_verdict verdict;

  pid_t launcher;
  uint64_t files; /* original soft limit of file descriptors, restored in the ranks; 0: unchanged */
  int port_fd;
  uint16_t port;
  char secret[33];
  struct run_console console;
  struct run_feed feed;
  struct pollfd *polled;
};

/* ---- ranks.c ---- */

/* Prepares the start of the ranks. Prints the reason and returns CLI_FAILED if that fails. The caller calls
 * run_job_fini in both cases. */
int run_job_init(struct run_job *job);
void run_job_fini(struct run_job *job);
/* Starts all ranks. If one cannot be started, prints the reason, ends the others, sets the exit status of the job, and
 * returns false. */
bool run_job_start(struct run_job *job);

/* ---- ends.c ---- */

/* Notes the children that the process has already. They do not belong to the job. */
void run_note_foreign(struct run_job *job);
void run_signal_ranks(struct run_job *job, int number);
void run_enter_phase(struct run_job *job, enum run_phase phase);
/* Enters the next phase if the time of the current one has passed. */
void run_advance(struct run_job *job);
/* Records the ends of all ranks that have ended. Reports the first failure once it is certain which rank failed
 * first. */
void run_reap(struct run_job *job);

/* ---- watch.c ---- */

/* Monitors the ranks until no process of the job is left and all output is written. */
void run_watch(struct run_job *job);

#endif
