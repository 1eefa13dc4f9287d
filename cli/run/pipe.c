/* pipe.c: frames between `tutti run`, or `tutti top`, and its agents. */
#include "cli/run/pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct head {
  uint32_t kind, number, bytes;
};

enum { READ_BYTES = 1 << 16, ALIVE_MS = 1000 };

void run_pipe_open(struct run_pipe *pipe, int in, int out) {
  const uint64_t now = tu_clock_ns();
  *pipe = (struct run_pipe){.in = in, .out = {.fd = out, .own = true}, .heard_ns = now, .checked_ns = now};
  (void)fcntl(in, F_SETFL, O_NONBLOCK);
  (void)fcntl(out, F_SETFL, O_NONBLOCK);
}

/* Moves standard input and output to descriptors that no rank inherits. */
static bool take_streams(int *in, int *out) {
  enum { FIRST = 10 };
  *in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, FIRST);
  *out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, FIRST);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  return *in >= 0 && *out >= 0 && nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 &&
         dup2(STDERR_FILENO, STDOUT_FILENO) >= 0 && close(nothing) == 0;
}

bool run_pipe_open_agent(struct run_pipe *pipe) {
  char text[64];
  int in, out;
  if (!take_streams(&in, &out)) return false;
  run_pipe_open(pipe, in, out);
  snprintf(text, sizeof text, RUN_GREETING "%d %d.%d.%d\n", RUN_PROTOCOL, TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
           TUTTI_VERSION_PATCH);
  run_sink_put(&pipe->out, text, strlen(text));
  return true;
}

void run_pipe_close(struct run_pipe *pipe) {
  if (pipe->in >= 0) close(pipe->in);
  if (pipe->out.fd >= 0) close(pipe->out.fd);
  pipe->in = pipe->out.fd = -1;
  run_sink_drop(&pipe->out);
  run_sink_fini(&pipe->out);
  run_bytes_fini(&pipe->received);
}

void run_frame_put(struct run_sink *sink, enum run_frame_kind kind, uint32_t number, const void *data, size_t bytes) {
  tu_assert(bytes <= RUN_FRAME_BYTES_MAX);
  const struct head head = {.kind = kind, .number = number, .bytes = (uint32_t)bytes};
  run_sink_put(sink, &head, sizeof head);
  run_sink_put(sink, data, bytes);
}

bool run_pipe_read(struct run_pipe *pipe) {
  static char data[READ_BYTES];
  ssize_t n = read(pipe->in, data, sizeof data);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (n <= 0) {
    close(pipe->in);
    pipe->in = -1;
    return false;
  }
  pipe->heard_ns = tu_clock_ns();
  pipe->silent_ns = 0;
  run_bytes_append(&pipe->received, data, (size_t)n);
  return true;
}

bool run_pipe_next(struct run_pipe *pipe, struct run_frame *frame) {
  struct run_bytes *got = &pipe->received;
  struct head head;
  const size_t have = got->end - got->begin;
  if (have < sizeof head) return false;
  memcpy(&head, got->data + got->begin, sizeof head);
  *frame = (struct run_frame){.kind = head.kind, .number = head.number, .bytes = head.bytes};
  if (head.bytes > RUN_FRAME_BYTES_MAX) return true;
  if (have - sizeof head < head.bytes) return false;
  frame->data = got->data + got->begin + sizeof head;
  got->begin += sizeof head + head.bytes;
  return true;
}

void run_pipe_tick(struct run_pipe *pipe) {
  const uint64_t now = tu_clock_ns();
  if (now - pipe->wrote_ns < ALIVE_MS * UINT64_C(1000000)) return;
  pipe->wrote_ns = now;
  run_frame_put(&pipe->out, RUN_ALIVE, 0, &now, sizeof now);
}

bool run_pipe_silent(struct run_pipe *pipe) {
  const uint64_t now = tu_clock_ns();
  pipe->silent_ns += tu_min(now - pipe->checked_ns, RUN_CHECK_MS * UINT64_C(1000000));
  pipe->checked_ns = now;
  return pipe->silent_ns > RUN_SILENCE_MS * UINT64_C(1000000);
}
