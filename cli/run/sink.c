/* sink.c: data that waits to be written. */
#include "cli/run/sink.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WAITING_BYTES_MAX = 1 << 20 };

void run_bytes_append(struct run_bytes *bytes, const void *data, size_t count) {
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

void run_bytes_fini(struct run_bytes *bytes) {
  free(bytes->data);
  *bytes = (struct run_bytes){0};
}

void run_sink_put(struct run_sink *sink, const void *data, size_t bytes) {
  if (!sink->broken) run_bytes_append(&sink->waiting, data, bytes);
}

void run_sink_flush(struct run_sink *sink) {
  struct run_bytes *waiting = &sink->waiting;
  /* Write at most PIPE_BUF bytes, for which POLLOUT guarantees space, if the descriptor must stay in blocking mode
   * because other processes share it. */
  size_t count = tu_min(waiting->end - waiting->begin, sink->own ? SIZE_MAX : PIPE_BUF);
  ssize_t n = write(sink->fd, waiting->data + waiting->begin, count);
  if (n >= 0) waiting->begin += (size_t)n;
  else if (errno != EINTR && errno != EAGAIN) run_sink_drop(sink);
}

void run_sink_drop(struct run_sink *sink) {
  sink->broken = true;
  sink->sent = 0;
  sink->waiting.begin = sink->waiting.end = 0;
}

bool run_sink_empty(const struct run_sink *sink) { return sink->waiting.begin == sink->waiting.end; }

bool run_sink_full(const struct run_sink *sink) {
  return sink->waiting.end - sink->waiting.begin + sink->sent > WAITING_BYTES_MAX;
}

void run_sink_fini(struct run_sink *sink) { run_bytes_fini(&sink->waiting); }
