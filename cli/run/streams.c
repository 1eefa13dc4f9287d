/* streams.c: the ranks' input and output in `tutti run`. A line is written once it is complete, or until
 * LINE_BYTES_MAX bytes of it have arrived. */
#include "cli/run/streams.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
  READ_BYTES = 1 << 16,
  LINE_BYTES_MAX = 16 << 20, /* a longer line is written in pieces of this size */
};

static void put_line(struct run_lines *lines, const char *rest, size_t bytes) {
  char name[16];
  int length = snprintf(name, sizeof name, "[%u] ", lines->rank);
  struct run_bytes *line = &lines->line;
  run_sink_put(lines->sink, name, (size_t)length);
  run_sink_put(lines->sink, line->data ? line->data + line->begin : "", line->end - line->begin);
  run_sink_put(lines->sink, rest, bytes);
  run_sink_put(lines->sink, "\n", 1);
  line->begin = line->end = 0;
}

void run_lines_put(struct run_lines *lines, const char *data, size_t bytes) {
  const char *at = data, *end = data + bytes;
  if (!lines->prefix) {
    run_sink_put(lines->sink, data, bytes);
    return;
  }
  for (const char *newline; (newline = memchr(at, '\n', (size_t)(end - at))) != NULL; at = newline + 1) {
    put_line(lines, at, (size_t)(newline - at));
  }
  run_bytes_append(&lines->line, at, (size_t)(end - at));
  if (lines->line.end - lines->line.begin >= LINE_BYTES_MAX) put_line(lines, "", 0);
}

void run_lines_end(struct run_lines *lines) {
  if (lines->line.begin < lines->line.end) put_line(lines, "", 0);
  run_bytes_fini(&lines->line);
}

void run_source_close(struct run_source *source) {
  if (source->fd < 0) return;
  run_lines_end(&source->lines);
  close(source->fd);
  source->fd = -1;
}

bool run_source_read(struct run_source *source) {
  static char data[READ_BYTES];
  struct run_sink *sink = source->lines.sink;
  ssize_t n = read(source->fd, data, sizeof data);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  /* Close the rank's pipe at its end, or if the process that reads the launcher's output has ended. In the second case
   * the rank gets SIGPIPE when it writes, as in any pipeline. */
  if (n <= 0 || sink->broken) {
    run_source_close(source);
    return false;
  }
  if (source->frame) {
    run_frame_put(sink, source->frame, source->lines.rank, data, (size_t)n);
    sink->sent += (size_t)n;
  } else {
    run_lines_put(&source->lines, data, (size_t)n);
  }
  return true;
}

/* Closes the pipe once rank 0 has all input. */
static void end_feed(struct run_feed *feed) {
  if (feed->fd >= 0 && feed->ended && feed->waiting.begin == feed->waiting.end) run_feed_close(feed);
}

void run_feed_put(struct run_feed *feed, const void *data, size_t bytes) {
  if (bytes == 0) feed->ended = true;
  else if (feed->closed) feed->taken += bytes;
  else run_bytes_append(&feed->waiting, data, bytes);
  end_feed(feed);
}

void run_feed_close(struct run_feed *feed) {
  if (feed->fd >= 0) close(feed->fd);
  feed->fd = -1;
  feed->closed = true;
  feed->taken += feed->waiting.end - feed->waiting.begin;
  run_bytes_fini(&feed->waiting);
}

bool run_reads_terminal(void) { return tcgetpgrp(STDIN_FILENO) == getpgrp(); }

int run_feed_wants(struct run_feed *feed, short *events) {
  end_feed(feed); /* the input may have ended before rank 0 was started */
  *events = POLLOUT;
  if (feed->fd < 0 || feed->waiting.begin < feed->waiting.end) return feed->fd;
  *events = POLLIN;
  return feed->terminal && run_reads_terminal() ? STDIN_FILENO : -1;
}

void run_feed_move(struct run_feed *feed) {
  struct run_bytes *waiting = &feed->waiting;
  ssize_t n;
  if (waiting->begin < waiting->end) {
    n = write(feed->fd, waiting->data + waiting->begin, waiting->end - waiting->begin);
    if (n > 0) {
      waiting->begin += (size_t)n;
      feed->taken += (size_t)n;
    }
  } else {
    char data[4096];
    n = read(STDIN_FILENO, data, sizeof data);
    if (n > 0) run_bytes_append(waiting, data, (size_t)n);
  }
  if (n <= 0 && !(n < 0 && (errno == EAGAIN || errno == EINTR))) run_feed_close(feed);
  end_feed(feed);
}
