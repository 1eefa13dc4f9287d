/* console.c: the standard streams and the signals of the process that starts a job. */
#include "cli/run/console.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
enum { PASSED_ON = sizeof passed_on / sizeof passed_on[0] };

/* Opens descriptors 0 to 2 if they are closed, so that no pipe of the launcher gets one of these numbers. */
static void fill_standard_streams(void) {
  int fd;
  do fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

void run_console_borrow(struct run_console *console, const char *verb) {
  fill_standard_streams();
  *console = (struct run_console){.verb = verb, .out.fd = STDOUT_FILENO, .err.fd = STDERR_FILENO, .signal_fd = -1};
  sigprocmask(SIG_SETMASK, NULL, &console->old_mask);
  /* Some parent processes leave SIGCHLD ignored. Exit statuses would then be lost. */
  signal(SIGCHLD, SIG_DFL);
  console->old_pipe_handler = signal(SIGPIPE, SIG_IGN);
}

tutti_err run_console_open(struct run_console *console, struct tu_error *error) {
  sigset_t mask;
  fill_standard_streams();
  console->out.fd = STDOUT_FILENO;
  console->err.fd = STDERR_FILENO;
  sigemptyset(&mask);
  for (size_t i = 0; i < PASSED_ON; i++) sigaddset(&mask, passed_on[i]);
  sigaddset(&mask, SIGCHLD);
  sigaddset(&mask, SIGTSTP);
  sigaddset(&mask, SIGCONT);
  sigprocmask(SIG_BLOCK, &mask, &console->old_mask);
  /* Some parent processes leave SIGCHLD ignored. Exit statuses would then be lost. */
  signal(SIGCHLD, SIG_DFL);
  console->old_pipe_handler = signal(SIGPIPE, SIG_IGN);
  console->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  return console->signal_fd >= 0 ? TUTTI_OK : tu_fail_errno(error, "signalfd failed");
}

void run_console_close(struct run_console *console) {
  if (console->signal_fd >= 0) close(console->signal_fd);
  run_sink_fini(&console->out);
  run_sink_fini(&console->err);
}

void run_console_restore(const struct run_console *console) {
  signal(SIGPIPE, console->old_pipe_handler);
  sigprocmask(SIG_SETMASK, &console->old_mask, NULL);
}

int run_console_signal(const struct run_console *console) {
  struct signalfd_siginfo info;
  return read(console->signal_fd, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

const char *run_console_verb(const struct run_console *console) { return console->verb ? console->verb : "run"; }

void run_say(struct run_console *console, const char *format, ...) {
  char text[4096], line[4200];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (console->launcher) {
    run_frame_put(console->launcher, RUN_SAID, 0, text, strlen(text));
    return;
  }
  int length = snprintf(line, sizeof line, "tutti %s: %s\n", run_console_verb(console), text);
  run_sink_put(&console->err, line, (size_t)length);
}
