/* spawn.c: starts a child process, and learns whether it could execute its program. */
#include "cli/run/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Runs in the child process. Does not return. Waits until the parent has closed its end of the pipe `hold`. On failure,
 * writes errno to the pipe `report`. */
static _Noreturn void become(const struct run_child *child, const struct run_console *console, pid_t parent,
                             const int hold[2], const int report[2]) {
  enum { NOT_STARTED = 127 };
  char none;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, child->death_signal);
  close(hold[1]);
  while (read(hold[0], &none, 1) < 0 && errno == EINTR) {}
  /* The parent may have died before PR_SET_PDEATHSIG took effect. In this case the parent is another process. */
  if (getppid() != parent) _exit(NOT_STARTED);
  run_console_restore(console);
  if (child->in >= 0) dup2(child->in, STDIN_FILENO);
  if (child->out >= 0) dup2(child->out, STDOUT_FILENO);
  if (child->err >= 0) dup2(child->err, STDERR_FILENO);
  errno = 0;
  if (!child->prepare || child->prepare(child->context)) execvp(child->path, child->argv);
  int why = errno;
  (void)!write(report[1], &why, sizeof why);
  _exit(NOT_STARTED);
}

static void close_pipe_end(int fd) {
  if (fd >= 0) close(fd);
}

int run_spawn(const struct run_child *child, const struct run_console *console, pid_t *pid) {
  int hold[2] = {-1, -1}, report[2] = {-1, -1}, why = 0;
  const pid_t parent = getpid();
  *pid = -1;
  if (pipe2(hold, O_CLOEXEC) != 0 || pipe2(report, O_CLOEXEC) != 0 || (*pid = fork()) < 0) why = errno;
  if (*pid == 0) become(child, console, parent, hold, report);
  if (*pid > 0) {
    setpgid(*pid, *pid); /* the child does this too; here because signals must reach the group from now on */
    if (child->born) child->born(child->context, *pid);
  }
  close_pipe_end(hold[0]);
  close_pipe_end(hold[1]);
  close_pipe_end(report[1]);
  while (*pid > 0 && read(report[0], &why, sizeof why) < 0 && errno == EINTR) {}
  close_pipe_end(report[0]);
  return why;
}

bool run_open_pipe(int *ours, int *theirs, bool we_read) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return false;
  *ours = fds[we_read ? 0 : 1];
  *theirs = fds[we_read ? 1 : 0];
  fcntl(*ours, F_SETFL, O_NONBLOCK);
  return true;
}
