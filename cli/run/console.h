/* console.h: what the process that starts a job has for itself: standard output and error, and the signals that it
 * passes on. */
#ifndef CLI_RUN_CONSOLE_H
#define CLI_RUN_CONSOLE_H

#include <signal.h>

#include "cli/run/streams.h"

struct run_console {
  const char *verb; /* whose messages it prints; NULL: "run" */
  struct run_sink out, err;
  /* Of an agent: the sink of frames for the launcher, which prints the messages. NULL: this process is the launcher. */
  struct run_sink *launcher;
  int signal_fd; /* signalfd of the signals that are passed on, and of SIGCHLD, SIGTSTP and SIGCONT */
  sigset_t old_mask;
  void (*old_pipe_handler)(int);
};

/* Takes the signals. Opens descriptors 0 to 2 if they are closed. Errors: TUTTI_ERR_SYSTEM. In both cases the caller calls
 * run_console_close. */
tutti_err run_console_open(struct run_console *console, struct tu_error *error);
void run_console_close(struct run_console *console);
/* For a process that starts children, but leaves signals as they are, except that SIGPIPE is ignored and SIGCHLD is not. */
void run_console_borrow(struct run_console *console, const char *verb);
/* Gives a child process the signal handling that this process had before run_console_open. */
void run_console_restore(const struct run_console *console);
/* Reads the next signal that has arrived; returns its number, or 0 if there is none. */
int run_console_signal(const struct run_console *console);

const char *run_console_verb(const struct run_console *console);
/* Prints "tutti VERB: MESSAGE" to standard error, between whole lines of the ranks. An agent sends the message to the
 * launcher. */
void run_say(struct run_console *console, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
