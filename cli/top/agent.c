/* agent.c: the part of `tutti top --hosts` that runs on each of the other hosts. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/run/look.h"
#include "cli/top/hosts.h"

enum { IDLE_MS = 60000 }; /* an agent that is not asked for so long has lost its connection */

static void say(struct run_sink *sink, const char *text) { run_frame_put(sink, RUN_SAID, 0, text, strlen(text)); }

/* Pauses, unless the connection ends. */
static void pause_for(struct run_pipe *pipe, uint32_t ms) {
  const uint64_t until_ns = tu_clock_ns() + ms * UINT64_C(1000000);
  while (pipe->in >= 0 && tu_clock_left_ms(until_ns) > 0) {
    struct pollfd polled = {.fd = pipe->in, .events = POLLIN};
    if (poll(&polled, 1, tu_clock_left_ms(until_ns)) > 0) run_pipe_read(pipe);
  }
}

/* Looks at all jobs of this host, and tells what it sees. */
static void tell(struct run_pipe *pipe, uint32_t pause_ms) {
  struct run_sink *sink = &pipe->out;
  struct tu_segments segments;
  struct tu_error error;
  char text[160];
  tutti_err err = tu_segments_find(0, &segments, &error);
  struct tu_job_look *looks = tu_allocate(segments.count, sizeof *looks);
  if (err == TUTTI_OK) err = tu_job_looks_begin(segments.list, segments.count, looks, &error);
  pause_for(pipe, pause_ms);
  if (err == TUTTI_OK) err = tu_job_looks_end(segments.list, segments.count, looks, &error);
  if (err != TUTTI_OK) say(sink, error.text);
  for (uint32_t i = 0; i < segments.count; i++) {
    if (err == TUTTI_OK && !run_look_put(sink, &looks[i])) {
      snprintf(text, sizeof text,
               "the state of job %d there has more than the %d MiB that can be sent; use tutti top on that host",
               (int)tu_job_pid(&looks[i]), RUN_FRAME_BYTES_MAX >> 20);
      say(sink, text);
    }
    tu_job_look_fini(&looks[i]);
  }
  run_frame_put(sink, RUN_LOOKED, segments.foreign, "", 0);
  free(looks);
  tu_segments_fini(&segments);
}

static int fail_frame(const struct run_frame *frame) {
  return cli_fail(
      "top", CLI_FAILED,
      "--agent: expected frames of tutti top on standard input, found a frame of kind %u with %u bytes; only "
      "tutti top starts agents",
      frame->kind, frame->bytes);
}

int top_agent(void) {
  struct run_pipe pipe;
  struct run_frame frame;
  int code = CLI_GOOD;
  uint64_t idle_ns = tu_clock_ns() + IDLE_MS * UINT64_C(1000000);
  signal(SIGPIPE, SIG_IGN);
  if (!run_pipe_open_agent(&pipe)) return cli_fail("top", CLI_FAILED, "--agent: %s", strerror(errno));
  while (pipe.in >= 0 && !pipe.out.broken && code == CLI_GOOD && tu_clock_left_ms(idle_ns) > 0) {
    struct pollfd polled[] = {{.fd = pipe.in, .events = POLLIN},
                              {.fd = run_sink_empty(&pipe.out) ? -1 : pipe.out.fd, .events = POLLOUT}};
    (void)poll(polled, 2, tu_clock_left_ms(idle_ns));
    if (polled[1].revents) run_sink_flush(&pipe.out);
    if (polled[0].revents) run_pipe_read(&pipe);
    while (code == CLI_GOOD && run_pipe_next(&pipe, &frame)) {
      if (frame.kind != RUN_LOOK || frame.bytes != 0) code = fail_frame(&frame);
      else tell(&pipe, frame.number);
      idle_ns = tu_clock_ns() + IDLE_MS * UINT64_C(1000000);
    }
  }
  run_pipe_close(&pipe);
  return code;
}
