/* viewer.h: shows a job on several hosts: asks the agents what their ranks do, for `tutti top`, which connects to the
 * launcher, and for SIGUSR2. */
#ifndef CLI_RUN_VIEWER_H
#define CLI_RUN_VIEWER_H

#include <poll.h>

#include "cli/run/console.h"
#include "sight/moment.h"

enum {
  RUN_VIEWER_CLIENTS = 4,
  RUN_VIEWER_POLLED = 1 + 2 * RUN_VIEWER_CLIENTS,
};

struct run_viewer {
  int listener;                                /* -1: none */
  struct run_pipe clients[RUN_VIEWER_CLIENTS]; /* in and out.fd -1: unused */
  bool asks[RUN_VIEWER_CLIENTS];               /* the client waits for an answer */
  bool prints;                                 /* a report is to be printed */
  bool looking;
  uint64_t deadline_ns;
  uint32_t missing; /* agents that have not answered yet */
  bool has_look;
  struct tu_job_look look; /* what the agents have told so far */
};

/* Opens the socket that `tutti top PID` finds. If that fails, nothing can be asked. */
void run_viewer_open(struct run_viewer *viewer);
void run_viewer_close(struct run_viewer *viewer);
/* Fills in RUN_VIEWER_POLLED entries; handles what poll has reported. Returns true if the agents are to be asked now
 * (RUN_LOOK); the caller then calls run_viewer_begin. */
void run_viewer_poll_set(const struct run_viewer *viewer, struct pollfd *polled);
bool run_viewer_serve(struct run_viewer *viewer, const struct pollfd *polled, struct run_console *console);
/* The agents of `agents` hosts have been asked. */
void run_viewer_begin(struct run_viewer *viewer, uint32_t agents);
/* An agent has told a state, or all that it has. */
void run_viewer_take(struct run_viewer *viewer, const void *data, size_t bytes);
void run_viewer_heard(struct run_viewer *viewer);

/* For `tutti top`: asks the launcher with that pid. Returns false if there is none, or it does not answer. The caller calls
 * tu_job_look_fini in any case. */
bool run_viewer_ask(pid_t launcher, struct tu_job_look *look);

#endif
