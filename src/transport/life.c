/* life.c: reads /proc/PID/stat to tell whether a process lives. */
#include "transport/life.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Numbers of the fields of /proc/PID/stat, from 1, as in proc_pid_stat(5). Field 2 is a name in parentheses, which
 * may contain any character. */
enum { STATE = 3, PARENT, USER = 14, SYSTEM, THREADS = 20, STARTED = 22, STACK = 28 };

bool tu_life_read(uint32_t pid, struct tu_life_line *line) {
  char text[1024], path[32] = "/proc/self/stat";
  if (pid) snprintf(path, sizeof path, "/proc/%u/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  if (n <= 0) return false;
  text[n] = '\0';
  const char *at = strrchr(text, ')');
  if (!at) return false;
  *line = (struct tu_life_line){.pid = strtoull(text, NULL, 10)};
  for (int field = STATE; field <= STACK; field++) {
    if (!(at = strchr(at, ' '))) return false;
    at++;
    uint64_t value = strtoull(at, NULL, 10);
    if (field == STATE) line->state = *at;
    if (field == PARENT) line->parent = value;
    if (field == USER || field == SYSTEM) line->ticks += value;
    if (field == THREADS) line->threads = value;
    if (field == STARTED) line->started = value;
    if (field == STACK) line->stack = value;
  }
  return true;
}

/* Fills *life for this process. If /proc is not available, or shows another PID for this process (because /proc belongs
 * to another PID namespace), only the PID is set. */
void tu_life_mine(struct tu_life *life) {
  struct tu_life_line line;
  *life = (struct tu_life){.pid = (uint32_t)getpid()};
  if (!tu_life_read(0, &line) || line.pid != life->pid) return;
  life->started = line.started;
  life->stack = line.stack;
}

bool tu_life_goes_on(const struct tu_life *life) {
  struct tu_life_line line;
  if (life->started == 0 || !tu_life_read(life->pid, &line)) return kill((pid_t)life->pid, 0) == 0 || errno != ESRCH;
  /* The main thread may exit before the other threads; then the process still lives. */
  bool ended = strchr("ZXx", line.state) && line.threads <= 1;
  bool moved = life->stack != 0 && line.stack != 0 && line.stack != life->stack;
  return !ended && !moved && line.started == life->started;
}
