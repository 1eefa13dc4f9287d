/* log.c: writes the log. Each line is one write(2) to a file that is opened for appending, so the lines of several ranks do
 * not mix. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"

enum tu_log_level tu_log_level;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  int fd;
  uint32_t rank;
  char host[64];
} sink = {.fd = STDERR_FILENO};

static const char *const names[] = {"off", "warn", "info", "debug"};

static tutti_err read_level(const char *variable, const char *value, size_t length, enum tu_log_level *level,
                            struct tu_error *error) {
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strlen(names[i]) == length && strncasecmp(value, names[i], length) == 0) {
      *level = (enum tu_log_level)i;
      return TUTTI_OK;
    }
  if (length == 5 && strncasecmp(value, "trace", 5) == 0) { /* a level of NCCL_DEBUG */
    *level = TU_LOG_DEBUG;
    return TUTTI_OK;
  }
  return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                 "environment: %s is '%.64s'; expected off, warn, info or debug, and perhaps :FILE", variable, value);
}

/* Opens the file; "%r" in its name stands for the rank. */
static tutti_err open_file(const char *variable, const char *name, struct tu_error *error) {
  char path[4096];
  const char *mark = strstr(name, "%r");
  const int before = mark ? (int)(mark - name) : (int)strlen(name);
  if (mark) snprintf(path, sizeof path, "%.*s%u%s", before, name, sink.rank, mark + 2);
  else snprintf(path, sizeof path, "%s", name);
  const int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0)
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "environment: %s names the file '%.200s', which cannot be opened: %s",
                   variable, path, strerror(errno));
  if (sink.fd > STDERR_FILENO) close(sink.fd);
  sink.fd = fd;
  return TUTTI_OK;
}

tutti_err tu_log_begin(uint32_t rank, struct tu_error *error) {
  const char *variable = tu_env("TUTTI_LOG") ? "TUTTI_LOG" : "TUTTI_DEBUG", *value = tu_env(variable);
  const char *host = tu_env("TUTTI_HOST");
  enum tu_log_level level = TU_LOG_OFF;
  tutti_err err = TUTTI_OK;
  if (!value) return TUTTI_OK;
  const size_t length = strcspn(value, ":");
  pthread_mutex_lock(&lock);
  sink.rank = rank;
  if (host) snprintf(sink.host, sizeof sink.host, "%s", host);
  else (void)gethostname(sink.host, sizeof sink.host - 1);
  err = read_level(variable, value, length, &level, error);
  if (err == TUTTI_OK && value[length] == ':' && level > TU_LOG_OFF)
    err = open_file(variable, value + length + 1, error);
  if (err == TUTTI_OK) tu_log_level = level;
  pthread_mutex_unlock(&lock);
  return err;
}

void tu_log(enum tu_log_level level, const char *what, const char *format, ...) {
  char line[2048], when[40];
  struct timespec now;
  struct tm utc;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &utc);
  int at = snprintf(line, sizeof line, "%s.%06ldZ %s rank %u %s %s: ", when, now.tv_nsec / 1000, sink.host, sink.rank,
                    names[level], what);
  va_list arguments;
  va_start(arguments, format);
  at += vsnprintf(line + at, sizeof line - (size_t)at - 1, format, arguments);
  va_end(arguments);
  if (at > (int)sizeof line - 2) at = (int)sizeof line - 2;
  line[at++] = '\n';
  for (ssize_t n = -1; n < 0;) {
    n = write(sink.fd, line, (size_t)at);
    if (n < 0 && errno != EINTR) return; /* a full disk must not end the program */
  }
}
