/* hosts.c: asks other hosts what the ranks there do. One thread runs one poll loop. */
#include "cli/top/hosts.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "sight/pack.h"
#include "sight/plate.h"

enum {
  TICK_MS = 50,
  ANSWER_MS = 10000,
  HANG_UP_MS = 1000, /* for ssh to end */
};

/* While the poll loop runs: where the states go. */
struct hearing {
  struct top_jobs *jobs; /* NULL: no state is expected */
  tutti_err err;
  struct tu_error *error;
};

int top_hosts_open(struct top_hosts *hosts, const char *list) {
  struct tu_error error;
  char own[64];
  *hosts = (struct top_hosts){0};
  if (tu_host_list_read(list, strlen(list), "--hosts", &hosts->names, &error) != TUTTI_OK)
    return cli_fail("top", CLI_USAGE, "%s", error.text);
  run_console_borrow(&hosts->console, "top");
  hosts->list = tu_allocate(hosts->names.count, sizeof *hosts->list);
  hosts->polled = tu_allocate((size_t)hosts->names.count * RUN_HOST_FILES, sizeof *hosts->polled);
  tu_plate_host(own);
  for (uint32_t i = 0; i < hosts->names.count; i++) {
    const char *name = hosts->names.hosts[i].name;
    hosts->list[i].host =
        (struct run_host){.name = name, .answer_ms = ANSWER_MS, .err_fd = -1, .pipe = {.in = -1, .out.fd = -1}};
    if (strcmp(name, own) == 0) hosts->list[i].host.state = RUN_OVER; /* this host is looked at anyway */
  }
  if (run_agent_command("top", hosts->command, sizeof hosts->command, &error) != TUTTI_OK ||
      run_hosts_allow(hosts->names.count, &error) != TUTTI_OK)
    return cli_fail("top", CLI_FAILED, "%s", error.text);
  return CLI_GOOD;
}

/* host->host.reason says why. */
static void lose(struct top_hosts *hosts, struct top_host *host) {
  run_host_listen(&host->host, &hosts->console);
  host->host.mute = true;
  host->asked = false;
  run_host_hang_up(&host->host, 0);
}

static bool take_frame(struct top_host *host, const struct run_frame *frame, struct run_console *console,
                       struct hearing *hearing) {
  struct tu_job_look look;
  if (!frame->data || !host->asked) return false;
  switch (frame->kind) {
    case RUN_STATE:
      if (!tu_job_look_unpack(frame->data, frame->bytes, &look)) {
        tu_job_look_fini(&look);
        snprintf(
            host->host.reason, sizeof host->host.reason,
            "expected a state that this build of tutti writes, got one of another build; install the same build on "
            "all hosts");
      } else if (hearing->err == TUTTI_OK) {
        hearing->err = top_jobs_add(hearing->jobs, &look, hearing->error);
      } else {
        tu_job_look_fini(&look);
      }
      return host->host.reason[0] == '\0';
    case RUN_SAID: run_say(console, "host %s: %.*s", host->host.name, (int)frame->bytes, frame->data); return true;
    case RUN_LOOKED:
      hearing->jobs->foreign += frame->number;
      host->asked = false;
      return true;
    default: return false;
  }
}

static void take_frames(struct top_hosts *hosts, struct top_host *host, struct hearing *hearing) {
  struct run_frame frame;
  if (host->host.state == RUN_CALLED && !run_host_answer(&host->host)) lose(hosts, host);
  while (hearing->jobs && host->host.state == RUN_ANSWERED && run_pipe_next(&host->host.pipe, &frame)) {
    if (take_frame(host, &frame, &hosts->console, hearing)) continue;
    if (!host->host.reason[0]) run_host_distrust(&host->host, &frame);
    lose(hosts, host);
  }
}

/* Gives up a host that does not answer, or has hung up. */
static void check(struct top_hosts *hosts, struct top_host *host) {
  struct run_host *h = &host->host;
  char how[64];
  bool lost = run_host_refuses(h, &hosts->console);
  if (h->state == RUN_ANSWERED && run_host_has_ended(h)) {
    snprintf(h->reason, sizeof h->reason, "its agent has ended%s; start tutti top again", run_host_how_ended(h, how));
    lost = true;
  } else if (host->asked && tu_clock_left_ms(hosts->deadline_ns) == 0) {
    snprintf(h->reason, sizeof h->reason,
             "its agent was asked for the state of its ranks, and gave no answer within %d s; is the host overloaded?",
             ANSWER_MS / 1000);
    lost = true;
  }
  if (lost) lose(hosts, host);
}

static void serve_host(struct top_hosts *hosts, struct top_host *host, const struct pollfd *polled,
                       struct hearing *hearing) {
  struct run_host *h = &host->host;
  run_host_reap(h);
  if (polled[2].revents || (h->err_fd >= 0 && h->pid <= 0)) run_host_listen(h, &hosts->console);
  if (h->state == RUN_IDLE) return;
  if (h->state == RUN_OVER) {
    run_host_end(h);
    return;
  }
  if (polled[0].revents && h->pipe.in >= 0) run_pipe_read(&h->pipe);
  take_frames(hosts, host, hearing);
  if (h->state == RUN_OVER) return;
  if (polled[1].revents) run_sink_flush(&h->pipe.out);
  check(hosts, host);
}

/* One turn of the poll loop. */
static void serve(struct top_hosts *hosts, struct hearing *hearing) {
  struct pollfd *polled = hosts->polled;
  for (uint32_t i = 0; i < hosts->names.count; i++, polled += RUN_HOST_FILES) {
    const struct run_host *h = &hosts->list[i].host;
    const bool open = h->state == RUN_CALLED || h->state == RUN_ANSWERED;
    polled[0] = (struct pollfd){.fd = open ? h->pipe.in : -1, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = open && !run_sink_empty(&h->pipe.out) ? h->pipe.out.fd : -1, .events = POLLOUT};
    polled[2] = (struct pollfd){.fd = h->err_fd, .events = POLLIN};
  }
  (void)poll(hosts->polled, (nfds_t)hosts->names.count * RUN_HOST_FILES, TICK_MS);
  polled = hosts->polled;
  for (uint32_t i = 0; i < hosts->names.count; i++, polled += RUN_HOST_FILES)
    serve_host(hosts, &hosts->list[i], polled, hearing);
  for (struct run_sink *err = &hosts->console.err; !run_sink_empty(err); run_sink_flush(err))
    (void)poll(&(struct pollfd){.fd = err->fd, .events = POLLOUT}, 1, TICK_MS);
}

/* Calls hosts that have not been called, some at a time. Returns false once all have answered, or are lost. */
static bool call_some(struct top_hosts *hosts) {
  struct tu_error error;
  uint32_t calls = 0;
  for (uint32_t i = 0; i < hosts->names.count; i++) calls += hosts->list[i].host.state == RUN_CALLED;
  for (uint32_t i = 0; i < hosts->names.count && calls < RUN_CALLS_MAX; i++) {
    struct top_host *host = &hosts->list[i];
    if (host->host.state != RUN_IDLE) continue;
    calls++;
    if (run_host_call(&host->host, hosts->command, &hosts->console, &error) == TUTTI_OK) continue;
    snprintf(host->host.reason, sizeof host->host.reason, "%s", error.text);
    lose(hosts, host);
  }
  return calls > 0;
}

void top_hosts_ask(struct top_hosts *hosts, uint32_t pause_ms) {
  struct hearing nothing = {0};
  while (call_some(hosts)) serve(hosts, &nothing);
  for (uint32_t i = 0; i < hosts->names.count; i++) {
    struct top_host *host = &hosts->list[i];
    if (host->host.state != RUN_ANSWERED) continue;
    run_frame_put(&host->host.pipe.out, RUN_LOOK, pause_ms, "", 0);
    run_sink_flush(&host->host.pipe.out);
    host->asked = true;
  }
  hosts->deadline_ns = tu_clock_ns() + (ANSWER_MS + (uint64_t)pause_ms) * UINT64_C(1000000);
}

static bool awaits(const struct top_hosts *hosts) {
  for (uint32_t i = 0; i < hosts->names.count; i++)
    if (hosts->list[i].asked) return true;
  return false;
}

tutti_err top_hosts_hear(struct top_hosts *hosts, struct top_jobs *jobs, struct tu_error *error) {
  struct hearing hearing = {.jobs = jobs, .error = error};
  while (awaits(hosts)) serve(hosts, &hearing);
  return hearing.err;
}

void top_hosts_report(struct top_hosts *hosts) {
  for (uint32_t i = 0; i < hosts->names.count; i++) {
    const struct run_host *h = &hosts->list[i].host;
    if (h->reason[0]) (void)cli_fail("top", CLI_FAILED, "host %s: %s", h->name, h->reason);
  }
}

static bool are_gone(const struct top_hosts *hosts) {
  for (uint32_t i = 0; i < hosts->names.count; i++)
    if (!run_host_gone(&hosts->list[i].host)) return false;
  return true;
}

void top_hosts_close(struct top_hosts *hosts) {
  struct hearing nothing = {0};
  for (uint32_t i = 0; hosts->list && i < hosts->names.count; i++) {
    struct run_host *h = &hosts->list[i].host;
    if (h->state == RUN_CALLED || h->state == RUN_ANSWERED) run_host_hang_up(h, HANG_UP_MS);
  }
  while (hosts->list && !are_gone(hosts)) serve(hosts, &nothing);
  for (uint32_t i = 0; hosts->list && i < hosts->names.count; i++) run_host_fini(&hosts->list[i].host);
  free(hosts->list);
  free(hosts->polled);
  tu_host_list_fini(&hosts->names);
  run_sink_fini(&hosts->console.err);
}
