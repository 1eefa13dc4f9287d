/* streams.c: the ranks' input and output in `tutti run`. A line is written once it is complete, or until
 * LINE_BYTES_MAX bytes of it have arrived. */
#include "cli/run/streams.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  READ_BYTES = 1 << 16,
  LINE_BYTES_MAX = 16 << 20, /* a longer line is written in pieces of this size */
  WAITING_BYTES_MAX = 1 << 20,
};

static void append(struct run_bytes *bytes, const void *data, size_t count) {
  if (bytes->begin == bytes->end) bytes->begin = bytes->end = 0;
  if (bytes->end + count > bytes->capacity && bytes->begin > 0) {
    memmove(bytes->data, bytes->data + bytes->begin, bytes->end - bytes->begin);
    bytes->end -= bytes->begin;
    bytes->begin = 0;
  }
  if (bytes->end + count > bytes->capacity) {
    size_t capacity = tu_max(bytes->end + count, 2 * bytes->capacity);
    char *grown = tu_allocate(1, capacity);
    if (bytes->end > 0) memcpy(grown, bytes->data, bytes->end);
    free(bytes->data);
    bytes->data = grown;
    bytes->capacity = capacity;
  }
  if (count > 0) memcpy(bytes->data + bytes->end, data, count);
  bytes->end += count;
}

void run_sink_put(struct run_sink *sink, const void *data, size_t bytes) {
  if (!sink->broken) append(&sink->waiting, data, bytes);
}

void run_sink_flush(struct run_sink *sink) {
  struct run_bytes *waiting = &sink->waiting;
  /* Write at most PIPE_BUF bytes, for which POLLOUT guarantees space. The descriptor must stay in blocking mode,
   * because other processes share it. */
  size_t count = tu_min(waiting->end - waiting->begin, PIPE_BUF);
  ssize_t n = write(sink->fd, waiting->data + waiting->begin, count);
  if (n >= 0) waiting->begin += (size_t)n;
  else if (errno != EINTR && errno != EAGAIN) run_sink_drop(sink);
}

void run_sink_drop(struct run_sink *sink) {
  sink->broken = true;
  sink->waiting.begin = sink->waiting.end = 0;
}

bool run_sink_empty(const struct run_sink *sink) { return sink->waiting.begin == sink->waiting.end; }

bool run_sink_full(const struct run_sink *sink) { return sink->waiting.end - sink->waiting.begin > WAITING_BYTES_MAX; }

void run_sink_fini(struct run_sink *sink) {
  free(sink->waiting.data);
  sink->waiting = (struct run_bytes){0};
}

static void put_line(struct run_source *source, const char *rest, size_t bytes) {
  char name[16];
  int length = snprintf(name, sizeof name, "[%u] ", source->rank);
  struct run_bytes *line = &source->line;
  run_sink_put(source->sink, name, (size_t)length);
  run_sink_put(source->sink, line->data ? line->data + line->begin : "", line->end - line->begin);
  run_sink_put(source->sink, rest, bytes);
  run_sink_put(source->sink, "\n", 1);
  line->begin = line->end = 0;
}

void run_source_close(struct run_source *source) {
  if (source->fd < 0) return;
  if (source->line.begin < source->line.end) put_line(source, "", 0);
  close(source->fd);
  source->fd = -1;
  free(source->line.data);
  source->line = (struct run_bytes){0};
}

bool run_source_read(struct run_source *source) {
  static char data[READ_BYTES];
  ssize_t n = read(source->fd, data, sizeof data);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  /* Close the rank's pipe at its end, or if the process that reads the launcher's output has ended. In the second case
   * the rank gets SIGPIPE when it writes, as in any pipeline. */
  if (n <= 0 || source->sink->broken) {
    run_source_close(source);
    return false;
  }
  const char *at = data, *end = data + n;
  for (const char *newline; (newline = memchr(at, '\n', (size_t)(end - at))) != NULL; at = newline + 1) {
    put_line(source, at, (size_t)(newline - at));
  }
  append(&source->line, at, (size_t)(end - at));
  if (source->line.end - source->line.begin >= LINE_BYTES_MAX) put_line(source, "", 0);
  return true;
}

int run_feed_wants(const struct run_feed *feed, short *events) {
  *events = POLLOUT;
  if (feed->fd < 0 || feed->begin < feed->end) return feed->fd;
  *events = POLLIN;
  /* Poll the terminal only in its foreground process group. In any other group, reading it would stop the launcher. */
  return tcgetpgrp(STDIN_FILENO) == getpgrp() ? STDIN_FILENO : -1;
}

void run_feed_move(struct run_feed *feed) {
  ssize_t n;
  if (feed->begin < feed->end) {
    n = write(feed->fd, feed->data + feed->begin, feed->end - feed->begin);
    if (n > 0) feed->begin += (size_t)n;
  } else {
    n = read(STDIN_FILENO, feed->data, sizeof feed->data);
    feed->begin = 0;
    feed->end = n > 0 ? (size_t)n : 0;
  }
  if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) return;
  close(feed->fd);
  feed->fd = -1;
}
