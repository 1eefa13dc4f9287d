/* launcher.c: starts an agent on each host of a job, passes signals, input and output on, and decides how the job ends.
 * One thread runs one poll loop. */
#include "cli/run/launcher.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/run/host.h"
#include "cli/run/job.h"
#include "cli/run/tracer.h"
#include "cli/run/viewer.h"

enum {
  TICK_MS = 200,
  ANSWER_MS = 30000,
  INPUT_BYTES_MAX = 1 << 16, /* standard input that rank 0 has not taken yet */
  /* Time in ms for the ranks of other hosts to end by themselves, and again after SIGTERM, if a host is lost: because
   * its agent was killed, or because it was silent, which took 4 s already. */
  LOST_MS = 500,
  SILENT_MS = 250,
  HANG_UP_MS = 1000, /* for ssh to end */
};

struct launcher {
  const struct run_request *request;
  struct run_console console;
  struct run_verdict verdict;
  struct run_meeting meeting;
  struct run_viewer viewer;
  struct run_tracer tracer;
  char command[8192], directory[PATH_MAX];
  struct run_host *hosts; /* those that have ranks */
  uint32_t count, world;
  uint32_t *host_of, *ranks; /* ranks: their numbers, host by host */
  struct run_lines *out, *err;
  struct pollfd *polled;
  bool started, ending;
  bool input_ended, out_closed, err_closed;
  size_t input_sent; /* bytes that rank 0 has not taken yet */
};

/* ---- ending ---- */

static bool has_agent(const struct run_host *host) { return host->state >= RUN_ANSWERED && host->state <= RUN_STARTED; }

/* Sends a frame to all agents. */
static void tell_all(struct launcher *l, enum run_frame_kind kind, uint32_t number) {
  for (uint32_t h = 0; h < l->count; h++)
    if (has_agent(&l->hosts[h])) run_frame_put(&l->hosts[h].pipe.out, kind, number, "", 0);
}

static void wind_up(struct launcher *l, uint32_t patience_ms) {
  l->ending = true;
  tell_all(l, RUN_WIND_UP, patience_ms);
}

/* Ends a job whose ranks have not started. */
static void give_up(struct launcher *l, int status) {
  l->ending = true;
  if (l->verdict.status == 0) l->verdict.status = status;
  for (uint32_t h = 0; h < l->count; h++) {
    struct run_host *host = &l->hosts[h];
    host->mute = true;
    if (host->state != RUN_OVER) run_host_hang_up(host, host->state == RUN_CALLED ? 0 : HANG_UP_MS);
  }
}

/* Ends the connection to a host. */
static void leave(struct launcher *l, struct run_host *host, uint32_t ms) {
  for (uint32_t r = 0; r < host->count; r++) {
    run_lines_end(&l->out[host->ranks[r]]);
    run_lines_end(&l->err[host->ranks[r]]);
  }
  run_host_hang_up(host, ms);
}

/* Gives up a host that ends without being asked; host->reason says why. */
static void lose(struct launcher *l, struct run_host *host, uint32_t patience_ms) {
  const struct run_end end = {
      .when_ns = host->ended_ns ? host->ended_ns : host->pipe.heard_ns, .host = host->name, .reason = host->reason};
  run_host_listen(host, &l->console);
  leave(l, host, 0);
  if (!l->started) {
    if (!l->ending) run_say(&l->console, "host %s: %s", host->name, host->reason);
    give_up(l, CLI_FAILED);
    return;
  }
  if (l->verdict.status != 0) run_say(&l->console, "host %s: %s", host->name, host->reason);
  else run_verdict_take(&l->verdict, &end);
  wind_up(l, patience_ms);
}

/* Prints the first failure once all agents have reported the ends that may have come earlier. */
static void judge(struct launcher *l) {
  for (uint32_t h = 0; h < l->count; h++)
    if (l->hosts[h].state == RUN_STARTED && !l->hosts[h].settled) return;
  run_verdict_tell(&l->verdict, &l->console);
}

/* ---- what agents report ---- */

static void start_all(struct launcher *l) {
  for (uint32_t h = 0; h < l->count; h++)
    if (l->hosts[h].state != RUN_PREPARED) return;
  l->started = true;
  for (uint32_t h = 0; h < l->count; h++) {
    struct run_host *host = &l->hosts[h];
    host->state = RUN_STARTED;
    host->alive = host->count;
    run_frame_put(&host->pipe.out, RUN_START, l->meeting.port, l->meeting.addresses, strlen(l->meeting.addresses));
  }
}

static bool take_ready(struct launcher *l, struct run_host *host, const struct run_frame *frame) {
  if (host->state != RUN_ANSWERED || frame->bytes >= sizeof l->meeting.addresses) return false;
  host->state = RUN_PREPARED;
  if (host == &l->hosts[l->host_of[0]]) {
    memcpy(l->meeting.addresses, frame->data, frame->bytes);
    l->meeting.addresses[frame->bytes] = '\0';
    l->meeting.port = (uint16_t)frame->number;
  }
  start_all(l);
  return true;
}

/* Clocks of hosts differ. The smallest difference seen between sending and receiving is close to the true one, so ends
 * on different hosts can be put in order. */
static void set_clock(struct run_host *host, uint64_t sent_ns) {
  const int64_t difference = (int64_t)(tu_clock_ns() - sent_ns);
  if (!host->clock_known || difference < host->clock_ns) host->clock_ns = difference;
  host->clock_known = true;
}

static bool take_end(struct launcher *l, struct run_host *host, const struct run_frame *frame) {
  struct run_ended ended;
  if (frame->bytes != sizeof ended || host->alive == 0) return false;
  memcpy(&ended, frame->data, sizeof ended);
  set_clock(host, ended.clock_ns);
  host->alive--;
  if (!ended.counts) return true;
  const struct run_end end = {.rank = frame->number,
                              .pid = ended.pid,
                              .status = ended.status,
                              .when_ns = ended.clock_ns + (uint64_t)host->clock_ns,
                              .host = host->name};
  run_verdict_take(&l->verdict, &end);
  if (!l->ending) wind_up(l, RUN_GRACE_MS);
  return true;
}

static bool take_output(struct launcher *l, struct run_host *host, const struct run_frame *frame) {
  run_lines_put(frame->kind == RUN_OUT ? &l->out[frame->number] : &l->err[frame->number], frame->data, frame->bytes);
  host->owed += frame->bytes;
  return true;
}

static void take_refusal(struct launcher *l, struct run_host *host, const struct run_frame *frame) {
  const int status = (int)frame->number;
  if (!l->ending && frame->bytes > 0) run_say(&l->console, "host %s: %.*s", host->name, (int)frame->bytes, frame->data);
  if (!l->started) {
    give_up(l, status);
    return;
  }
  if (l->verdict.status == 0) l->verdict.status = status;
  wind_up(l, 0);
}

/* Returns false if the frame is none that the agent may send now. */
static bool take_frame(struct launcher *l, struct run_host *host, const struct run_frame *frame) {
  uint64_t sent_ns;
  const bool of_rank = frame->kind == RUN_OUT || frame->kind == RUN_ERR || frame->kind == RUN_ENDED;
  if (!frame->data || (of_rank && (frame->number >= l->world || &l->hosts[l->host_of[frame->number]] != host)))
    return false;
  switch (frame->kind) {
    case RUN_ALIVE:
      if (frame->bytes != sizeof sent_ns) return false;
      memcpy(&sent_ns, frame->data, sizeof sent_ns);
      set_clock(host, sent_ns);
      return true;
    case RUN_READY: return take_ready(l, host, frame);
    case RUN_REFUSED: take_refusal(l, host, frame); return true;
    case RUN_TAKEN: l->input_sent -= tu_min(l->input_sent, frame->number); return true;
    case RUN_OUT:
    case RUN_ERR: return take_output(l, host, frame);
    case RUN_SAID: run_say(&l->console, "host %s: %.*s", host->name, (int)frame->bytes, frame->data); return true;
    case RUN_ENDED: return take_end(l, host, frame);
    case RUN_SETTLED: host->settled = true; return true;
    case RUN_STATE: run_viewer_take(&l->viewer, frame->data, frame->bytes); return true;
    case RUN_TRACE_FILE:
    case RUN_TRACE_PART: return run_tracer_take(&l->tracer, frame, &host->trace_fd);
    case RUN_LOOKED: run_viewer_heard(&l->viewer); return true;
    case RUN_DONE: leave(l, host, HANG_UP_MS); return true;
    default: return false;
  }
}

static void take_frames(struct launcher *l, struct run_host *host) {
  struct run_frame frame;
  if (host->state == RUN_CALLED) {
    if (!run_host_answer(host)) {
      lose(l, host, 0);
      return;
    }
    if (host->state != RUN_ANSWERED) return;
    describe_job(&host->pipe.out, l->request, &l->meeting, l->directory, host, l->count == 1);
  }
  while (host->state != RUN_OVER && run_pipe_next(&host->pipe, &frame)) {
    if (take_frame(l, host, &frame)) continue;
    run_host_distrust(host, &frame);
    lose(l, host, LOST_MS);
  }
}

/* Writes "2, 3 and 4 more ran there". */
static const char *name_ranks(const struct run_host *host, char text[80]) {
  enum { NAMED = 4 };
  int length = 0;
  for (uint32_t r = 0; r < host->count && r < NAMED; r++)
    length += snprintf(text + length, 80 - (size_t)length, "%s%u", r ? ", " : "", host->ranks[r]);
  if (host->count > NAMED) length += snprintf(text + length, 80 - (size_t)length, " and %u more", host->count - NAMED);
  snprintf(text + length, 80 - (size_t)length, " ran there");
  return text;
}

/* Gives up a host that did not answer, has hung up, or is silent. */
static void check_host(struct launcher *l, struct run_host *host) {
  const bool ended = host->pipe.in < 0 || host->pipe.out.broken, noticed = host->ended_ns != 0;
  char ranks[80], how[64];
  if (host->state == RUN_CALLED) {
    if (run_host_refuses(host, &l->console)) lose(l, host, 0);
    return;
  }
  const bool over = run_host_has_ended(host);
  if (ended && !noticed && l->started) wind_up(l, LOST_MS);
  if (over) {
    snprintf(host->reason, sizeof host->reason, "its agent has ended%s; rank%s %s", run_host_how_ended(host, how),
             host->count == 1 ? "" : "s", name_ranks(host, ranks));
    lose(l, host, LOST_MS);
  } else if (!ended && run_pipe_silent(&host->pipe)) {
    snprintf(host->reason, sizeof host->reason, "no sign of life for %d s; rank%s %s", RUN_SILENCE_MS / 1000,
             host->count == 1 ? "" : "s", name_ranks(host, ranks));
    lose(l, host, SILENT_MS);
  }
}

/* ---- signals ---- */

static uint32_t count_alive(const struct launcher *l) {
  uint32_t alive = 0;
  for (uint32_t h = 0; h < l->count; h++) alive += l->hosts[h].alive;
  return alive;
}

/* Stops the ranks and then this process. */
static void stop(struct launcher *l) {
  const uint64_t deadline_ns = tu_clock_ns() + TICK_MS * UINT64_C(1000000);
  tell_all(l, RUN_SIGNAL, SIGTSTP);
  for (uint32_t h = 0; h < l->count; h++)
    while (has_agent(&l->hosts[h]) && !run_sink_empty(&l->hosts[h].pipe.out) && tu_clock_left_ms(deadline_ns) > 0)
      run_sink_flush(&l->hosts[h].pipe.out);
  raise(SIGSTOP);
}

static void take_signal(struct launcher *l, int number) {
  const bool ends = number != SIGUSR1 && number != SIGCONT;
  if (number == SIGCHLD) {
    for (uint32_t h = 0; h < l->count; h++) run_host_reap(&l->hosts[h]);
  } else if (number == SIGTSTP) {
    stop(l);
  } else if (number == SIGUSR2) {
    l->viewer.prints = true;
  } else if (ends && !l->started) {
    if (!l->ending) run_say(&l->console, "interrupted by signal %d (%s)", number, strsignal(number));
    give_up(l, 128 + number);
  } else if (!ends || count_alive(l) > 0) {
    if (ends) l->verdict.interrupt = number;
    tell_all(l, RUN_SIGNAL, (uint32_t)number);
  } else {
    /* All ranks have ended. What is left is ended, and output that its reader does not take is dropped. */
    tell_all(l, RUN_SIGNAL, (uint32_t)number);
    run_sink_drop(&l->console.out);
    run_sink_drop(&l->console.err);
  }
}

/* ---- input and output ---- */

static bool wants_input(const struct launcher *l) {
  const bool taken = l->started && l->hosts[l->host_of[0]].state == RUN_STARTED;
  if (!taken || l->input_ended || l->input_sent >= INPUT_BYTES_MAX) return false;
  return !isatty(STDIN_FILENO) || run_reads_terminal();
}

static void read_input(struct launcher *l) {
  struct run_host *first = &l->hosts[l->host_of[0]];
  char data[16384];
  const ssize_t n = read(STDIN_FILENO, data, sizeof data);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  l->input_ended = n <= 0;
  run_frame_put(&first->pipe.out, RUN_INPUT, 0, data, n > 0 ? (size_t)n : 0);
  l->input_sent += n > 0 ? (size_t)n : 0;
}

/* Lets the agents send more output, or tells them that its reader is gone. */
static void acknowledge(struct launcher *l) {
  if (!l->started) return;
  if (l->console.out.broken && !l->out_closed) tell_all(l, RUN_CLOSE, RUN_OUT);
  if (l->console.err.broken && !l->err_closed) tell_all(l, RUN_CLOSE, RUN_ERR);
  l->out_closed = l->console.out.broken;
  l->err_closed = l->console.err.broken;
  if (run_sink_full(&l->console.out) || run_sink_full(&l->console.err)) return;
  for (uint32_t h = 0; h < l->count; h++) {
    struct run_host *host = &l->hosts[h];
    if (host->state == RUN_STARTED && host->owed > 0)
      run_frame_put(&host->pipe.out, RUN_TAKEN, (uint32_t)host->owed, "", 0);
    host->owed = 0;
  }
}

enum { STREAMS_POLLED = 4, OWN_POLLED = STREAMS_POLLED + RUN_VIEWER_POLLED, HOST_POLLED = RUN_HOST_FILES };

static nfds_t fill_poll_set(struct launcher *l) {
  const struct run_sink *out = &l->console.out, *err = &l->console.err;
  struct pollfd *polled = l->polled;
  nfds_t n = 0;
  polled[n++] = (struct pollfd){.fd = l->console.signal_fd, .events = POLLIN};
  polled[n++] = (struct pollfd){.fd = wants_input(l) ? STDIN_FILENO : -1, .events = POLLIN};
  polled[n++] = (struct pollfd){.fd = run_sink_empty(out) ? -1 : out->fd, .events = POLLOUT};
  polled[n++] = (struct pollfd){.fd = run_sink_empty(err) ? -1 : err->fd, .events = POLLOUT};
  run_viewer_poll_set(&l->viewer, polled + n);
  n += RUN_VIEWER_POLLED;
  for (uint32_t h = 0; h < l->count; h++) {
    const struct run_host *host = &l->hosts[h];
    const bool open = host->state != RUN_IDLE && host->state != RUN_OVER;
    const bool writes = open && !run_sink_empty(&host->pipe.out);
    polled[n++] = (struct pollfd){.fd = open ? host->pipe.in : -1, .events = POLLIN};
    polled[n++] = (struct pollfd){.fd = writes ? host->pipe.out.fd : -1, .events = POLLOUT};
    polled[n++] = (struct pollfd){.fd = host->err_fd, .events = POLLIN};
  }
  return n;
}

/* ---- the poll loop ---- */

static void serve_host(struct launcher *l, struct run_host *host, const struct pollfd *polled) {
  if (polled[2].revents || (host->err_fd >= 0 && host->pid <= 0)) run_host_listen(host, &l->console);
  if (host->state == RUN_IDLE) return;
  if (host->state == RUN_OVER) {
    run_host_end(host);
    return;
  }
  if (polled[0].revents && host->pipe.in >= 0) run_pipe_read(&host->pipe);
  take_frames(l, host);
  if (host->state == RUN_OVER) return;
  if (polled[1].revents) run_sink_flush(&host->pipe.out);
  check_host(l, host);
  if (has_agent(host)) run_pipe_tick(&host->pipe);
}

/* Calls hosts that have not been called, some at a time. */
static void call_hosts(struct launcher *l) {
  struct tu_error error;
  uint32_t calls = 0;
  for (uint32_t h = 0; h < l->count; h++) calls += l->hosts[h].state == RUN_CALLED;
  for (uint32_t h = 0; h < l->count && calls < RUN_CALLS_MAX && !l->ending; h++) {
    if (l->hosts[h].state != RUN_IDLE) continue;
    calls++;
    if (run_host_call(&l->hosts[h], l->command, &l->console, &error) == TUTTI_OK) continue;
    run_say(&l->console, "%s", error.text);
    give_up(l, CLI_FAILED);
  }
}

static bool is_over(const struct launcher *l) {
  for (uint32_t h = 0; h < l->count; h++)
    if (!run_host_gone(&l->hosts[h]) || (l->hosts[h].state == RUN_IDLE && !l->ending)) return false;
  return run_sink_empty(&l->console.out) && run_sink_empty(&l->console.err);
}

/* Asks the agents what their ranks do, if it is wanted. */
static void look(struct launcher *l) {
  uint32_t asked = 0;
  if (!run_viewer_serve(&l->viewer, l->polled + STREAMS_POLLED, &l->console)) return;
  for (uint32_t h = 0; h < l->count; h++) {
    if (l->hosts[h].state != RUN_STARTED) continue;
    run_frame_put(&l->hosts[h].pipe.out, RUN_LOOK, 0, "", 0);
    asked++;
  }
  run_viewer_begin(&l->viewer, asked);
}

static void serve(struct launcher *l) {
  while (!is_over(l)) {
    call_hosts(l);
    if (poll(l->polled, fill_poll_set(l), TICK_MS) < 0) continue;
    for (int number; (number = run_console_signal(&l->console)) != 0;) take_signal(l, number);
    if (l->polled[1].revents) read_input(l);
    if (l->polled[2].revents) run_sink_flush(&l->console.out);
    if (l->polled[3].revents) run_sink_flush(&l->console.err);
    for (uint32_t h = 0; h < l->count; h++)
      serve_host(l, &l->hosts[h], l->polled + OWN_POLLED + (size_t)h * HOST_POLLED);
    look(l);
    acknowledge(l);
    judge(l);
  }
}

/* ---- the job ---- */

/* Makes a list of the hosts that have ranks, each with its ranks. */
static void place_ranks(struct launcher *l) {
  const struct tu_host_list *list = &l->request->hosts;
  uint32_t placed = 0;
  l->host_of = tu_allocate(l->world, sizeof *l->host_of);
  l->ranks = tu_allocate(l->world, sizeof *l->ranks);
  l->hosts = tu_allocate(list->count, sizeof *l->hosts);
  tu_host_list_place(list, l->world, l->request->by_host, l->host_of);
  for (uint32_t i = 0; i < list->count; i++) {
    struct run_host *host = &l->hosts[l->count];
    *host = (struct run_host){.name = list->hosts[i].name,
                              .answer_ms = ANSWER_MS,
                              .ranks = l->ranks + placed,
                              .err_fd = -1,
                              .trace_fd = -1,
                              .pipe = {.in = -1, .out.fd = -1}};
    for (uint32_t rank = 0; rank < l->world; rank++)
      if (l->host_of[rank] == i) l->ranks[placed++] = rank, host->count++;
    if (host->count > 0) l->count++;
  }
  for (uint32_t h = 0; h < l->count; h++)
    for (uint32_t r = 0; r < l->hosts[h].count; r++) l->host_of[l->hosts[h].ranks[r]] = h;
}

static int init(struct launcher *l) {
  struct tu_error error;
  l->world = l->request->count;
  l->console.signal_fd = l->meeting.fd = -1;
  l->viewer.listener = -1;
  place_ranks(l);
  l->out = tu_allocate(l->world, sizeof *l->out);
  l->err = tu_allocate(l->world, sizeof *l->err);
  l->polled = tu_allocate(OWN_POLLED + (size_t)l->count * HOST_POLLED, sizeof *l->polled);
  for (uint32_t r = 0; r < l->world; r++) {
    l->out[r] = (struct run_lines){.rank = r, .prefix = l->request->prefix, .sink = &l->console.out};
    l->err[r] = (struct run_lines){.rank = r, .prefix = l->request->prefix, .sink = &l->console.err};
  }
  if (run_console_open(&l->console, &error) != TUTTI_OK || run_meeting_secret(&l->meeting, &error) != TUTTI_OK ||
      describe_directory(l->directory, &error) != TUTTI_OK ||
      run_agent_command("run", l->command, sizeof l->command, &error) != TUTTI_OK)
    return cli_fail("run", CLI_FAILED, "%s", error.text);
  if (l->request->trace && run_tracer_open(&l->tracer, l->request->trace, &error) != TUTTI_OK)
    return cli_fail("run", CLI_FAILED, "%s", error.text);
  run_viewer_open(&l->viewer);
  return run_hosts_allow(l->count, &error) == TUTTI_OK ? CLI_GOOD : cli_fail("run", CLI_FAILED, "%s", error.text);
}

static void fini(struct launcher *l) {
  for (uint32_t h = 0; h < l->count; h++) {
    if (l->hosts[h].trace_fd >= 0) close(l->hosts[h].trace_fd);
    run_host_fini(&l->hosts[h]);
  }
  for (uint32_t r = 0; r < l->world; r++) {
    run_lines_end(&l->out[r]);
    run_lines_end(&l->err[r]);
  }
  run_viewer_close(&l->viewer);
  run_tracer_close(&l->tracer);
  run_console_close(&l->console);
  free(l->hosts);
  free(l->host_of);
  free(l->ranks);
  free(l->out);
  free(l->err);
  free(l->polled);
}

int run_on_hosts(const struct run_request *request) {
  struct launcher l = {.request = request};
  int status = init(&l);
  if (status == CLI_GOOD) {
    serve(&l);
    run_verdict_tell(&l.verdict, &l.console);
    run_verdict_tell_others(&l.verdict, &l.console);
    serve(&l); /* writes the messages */
    status = l.verdict.status;
    if (l.tracer.directory && l.started && run_tracer_write(&l.tracer, request->trace) != CLI_GOOD && status == 0)
      status = CLI_FAILED;
  }
  fini(&l);
  return status;
}
