/* viewer.c: collects what the agents of a job tell about their ranks, and passes it on. */
#include "cli/run/viewer.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/socket.h"
#include "cli/run/look.h"
#include "sight/pack.h"

enum { ANSWER_MS = 3000 /* for all agents */, ASK_MS = 5000 };

static socklen_t address_of(pid_t launcher, struct sockaddr_un *address) {
  char name[32];
  snprintf(name, sizeof name, "tutti-run-%d", (int)launcher);
  return tu_socket_address(address, name, sizeof name);
}

/* ---- the launcher ---- */

void run_viewer_open(struct run_viewer *v) {
  struct sockaddr_un address;
  *v = (struct run_viewer){.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  for (int i = 0; i < RUN_VIEWER_CLIENTS; i++) v->clients[i].in = v->clients[i].out.fd = -1;
  const socklen_t bytes = address_of(getpid(), &address);
  if (v->listener < 0 ||
      (bind(v->listener, (struct sockaddr *)&address, bytes) == 0 && listen(v->listener, RUN_VIEWER_CLIENTS) == 0))
    return;
  close(v->listener);
  v->listener = -1;
}

static void drop_client(struct run_viewer *v, int i) {
  run_pipe_close(&v->clients[i]);
  v->asks[i] = false;
}

void run_viewer_close(struct run_viewer *v) {
  if (v->listener < 0) return;
  for (int i = 0; i < RUN_VIEWER_CLIENTS; i++) drop_client(v, i);
  close(v->listener);
  if (v->has_look) tu_job_look_fini(&v->look);
  v->listener = -1;
  v->has_look = false;
}

void run_viewer_poll_set(const struct run_viewer *v, struct pollfd *polled) {
  *polled++ = (struct pollfd){.fd = v->listener, .events = POLLIN};
  for (int i = 0; i < RUN_VIEWER_CLIENTS; i++) {
    const struct run_pipe *p = &v->clients[i];
    *polled++ = (struct pollfd){.fd = p->in, .events = POLLIN};
    *polled++ = (struct pollfd){.fd = run_sink_empty(&p->out) ? -1 : p->out.fd, .events = POLLOUT};
  }
}

static void accept_client(struct run_viewer *v) {
  int i = 0;
  const int fd = accept4(v->listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0) return;
  while (i < RUN_VIEWER_CLIENTS && v->clients[i].in >= 0) i++;
  const int out = i < RUN_VIEWER_CLIENTS && tu_socket_is_own(fd) ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
  if (out >= 0) run_pipe_open(&v->clients[i], fd, out);
  else close(fd);
}

/* Passes on what the agents have told. */
static void answer(struct run_viewer *v, struct run_console *console) {
  for (int i = 0; i < RUN_VIEWER_CLIENTS; i++) {
    if (!v->asks[i]) continue;
    v->asks[i] = false;
    if (v->has_look) (void)run_look_put(&v->clients[i].out, &v->look);
    run_frame_put(&v->clients[i].out, RUN_LOOKED, 0, "", 0);
  }
  if (v->prints && v->has_look) run_look_say(console, &v->look);
  else if (v->prints) run_say(console, "no rank has joined a job");
  if (v->has_look) tu_job_look_fini(&v->look);
  v->prints = v->looking = v->has_look = false;
}

bool run_viewer_serve(struct run_viewer *v, const struct pollfd *polled, struct run_console *console) {
  struct run_frame frame;
  bool wanted = v->prints;
  if (polled[0].revents) accept_client(v);
  for (int i = 0; i < RUN_VIEWER_CLIENTS; i++) {
    struct run_pipe *p = &v->clients[i];
    if (p->in < 0) continue;
    if (polled[2 + 2 * i].revents) run_sink_flush(&p->out);
    if (polled[1 + 2 * i].revents && !run_pipe_read(p)) {
      drop_client(v, i);
      continue;
    }
    while (run_pipe_next(p, &frame)) v->asks[i] |= frame.kind == RUN_LOOK;
    wanted |= v->asks[i];
  }
  if (v->looking && (v->missing == 0 || tu_clock_ns() > v->deadline_ns)) answer(v, console);
  return wanted && !v->looking;
}

void run_viewer_begin(struct run_viewer *v, uint32_t agents) {
  v->looking = true;
  v->missing = agents;
  v->deadline_ns = tu_clock_ns() + ANSWER_MS * UINT64_C(1000000);
}

void run_viewer_take(struct run_viewer *v, const void *data, size_t bytes) {
  struct tu_job_look told;
  struct tu_error error;
  const bool good = v->looking && tu_job_look_unpack(data, bytes, &told);
  if (!v->looking) return;
  if (good && !v->has_look) {
    v->look = told;
    tu_job_look_launched(&v->look, getpid());
    v->has_look = true;
    return;
  }
  /* Several worlds of one launcher: that of the first state counts. */
  if (good && tu_job_look_misses(&v->look, &told)) (void)tu_job_look_add(&v->look, &told, &error);
  tu_job_look_fini(&told);
}

void run_viewer_heard(struct run_viewer *v) {
  if (v->looking && v->missing > 0) v->missing--;
}

/* ---- tutti top ---- */

bool run_viewer_ask(pid_t launcher, struct tu_job_look *look) {
  struct sockaddr_un address;
  struct run_frame frame = {0};
  struct run_pipe pipe;
  bool told = false;
  const socklen_t bytes = address_of(launcher, &address);
  const uint64_t deadline_ns = tu_clock_ns() + ASK_MS * UINT64_C(1000000);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  *look = (struct tu_job_look){0};
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, bytes) != 0 || !tu_socket_is_own(fd)) {
    if (fd >= 0) close(fd);
    return false;
  }
  run_pipe_open(&pipe, fd, fcntl(fd, F_DUPFD_CLOEXEC, 3));
  run_frame_put(&pipe.out, RUN_LOOK, 0, "", 0);
  run_sink_flush(&pipe.out);
  while (pipe.in >= 0 && frame.kind != RUN_LOOKED && tu_clock_left_ms(deadline_ns) > 0) {
    struct pollfd polled = {.fd = pipe.in, .events = POLLIN};
    (void)poll(&polled, 1, tu_clock_left_ms(deadline_ns));
    (void)run_pipe_read(&pipe);
    while (frame.kind != RUN_LOOKED && run_pipe_next(&pipe, &frame)) {
      if (frame.kind != RUN_STATE || !frame.data || told) continue;
      told = tu_job_look_unpack(frame.data, frame.bytes, look);
    }
  }
  run_pipe_close(&pipe);
  tu_job_look_launched(look, launcher);
  return told;
}
