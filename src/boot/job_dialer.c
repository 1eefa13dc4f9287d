/* job_dialer.c: makes TCP connections between ranks of different hosts (dialer.h, job_lines.h). Their key consists of the
 * hash of the job's secret and of random bytes of rank 0, so a process of another job, or of an older run, is refused even
 * if the job has no secret. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/process.h"
#include "boot/job_lines.h"

enum {
  EVENTS = 64, /* maximum number of events that one call of look handles */
  LOOK_MS = 20 /* while a rank waits for connections, it asks the job so often whether the others are still there */
};

static struct tu_tcp_dialer *tcp_of(struct tu_dialer *d) { return (struct tu_tcp_dialer *)(void *)d; }

static void call_due(struct tu_tcp_dialer *d) {
  const uint64_t now = tu_clock_ns();
  for (struct tu_job_line *line = d->lines, *next; line; line = next) {
    next = line->next;
    if (line->step == TU_LINE_RESTING && line->at_ns <= now) tu_lines_call(d, line);
  }
}

/* Handles one event at a time, because it may end the lines of others. */
static void handle(struct tu_tcp_dialer *d) {
  struct epoll_event event;
  for (int i = 0; i < EVENTS && epoll_wait(d->dialer.descriptor, &event, 1, 0) == 1; i++) {
    if (event.data.ptr) tu_lines_go_on(d, event.data.ptr);
    else tu_lines_accept(d);
  }
  if (d->resting > 0) call_due(d);
}

static void dialer_want(struct tu_dialer *dialer, uint32_t rank, bool control) {
  struct tu_tcp_dialer *d = tcp_of(dialer);
  if (!d->peers[rank].settled[control] && !tu_lines_find_call(d, rank, control)) tu_lines_begin(d, rank, control);
}

static void dialer_look(struct tu_dialer *dialer, tu_dialer_made *made, void *context) {
  struct tu_tcp_dialer *d = tcp_of(dialer);
  handle(d);
  for (struct tu_job_line *line = d->lines, *next; d->made > 0 && line; line = next) {
    next = line->next;
    if (line->step != TU_LINE_MADE) continue;
    const int fd = line->fd;
    line->fd = -1;
    made(context, line->peer, line->control, fd);
    tu_lines_drop(d, line);
  }
}

static void dialer_close(struct tu_dialer *dialer) {
  struct tu_tcp_dialer *d = tcp_of(dialer);
  while (d->lines) tu_lines_drop(d, d->lines);
  if (d->listener >= 0) tu_process_give_up(d->listener);
  tu_boot_close(&d->listener);
  tu_boot_close(&d->dialer.descriptor);
  tu_boot_secret_wipe(&d->key);
  free(d->peers);
  free(d->host);
  free(d);
}

static const struct tu_dialer_ops tcp_ops = {dialer_want, dialer_look, dialer_close};

/* ---- the start ---- */

/* Collective: all ranks get the random bytes of rank 0. */
static tutti_err make_key(struct tu_tcp_dialer *d, struct tu_job *job, struct tu_error *error) {
  uint8_t mine[TU_BOOT_NONCE_BYTES] = {0};
  _Static_assert(sizeof mine <= TU_JOB_RECORD_BYTES, "the random bytes are a record");
  if (job->rank == 0) tu_boot_nonce(mine);
  tutti_err err = tu_job_allgather(job, mine, job->records, sizeof mine, error);
  d->key.bytes = sizeof job->secret + sizeof mine;
  memcpy(d->key.value, job->secret, sizeof job->secret);
  memcpy(d->key.value + sizeof job->secret, job->records, sizeof mine);
  return err;
}

static tutti_err fail_late(const struct tu_tcp_dialer *d, int timeout_ms, struct tu_error *error) {
  char why[200];
  uint32_t peer = 0;
  const struct tu_job_line *line = d->lines;
  while (line && (line->step != TU_LINE_PROBING || line->got == TU_PROBE_BYTES)) line = line->next;
  while (peer < d->ranks && (!d->peers[peer].awaited || d->peers[peer].settled[true])) peer++;
  snprintf(why, sizeof why, "no connection after %d ms", timeout_ms);
  if (line)
    snprintf(why, sizeof why,
             "%zu of %zu bytes arrived in %d ms; if small packets pass and large ones do not, set the MTU of the "
             "interfaces to that of the path",
             line->got, TU_PROBE_BYTES, timeout_ms);
  (void)tu_lines_fail_to_reach(d, line ? line->peer : peer, why, error);
  return error->code = TUTTI_ERR_TIMEOUT;
}

/* Makes the control connections with the counterparts; the higher rank of a pair calls. A counterpart may die before it
 * calls: only the job knows that. */
static tutti_err connect_counterparts(struct tu_tcp_dialer *d, struct tu_job *job, struct tu_error *error) {
  struct epoll_event event;
  for (uint32_t r = 0; r < d->ranks; r++) {
    if (!d->peers[r].awaited) continue;
    d->missing++;
    if (r < d->rank) tu_lines_begin(d, r, true);
  }
  while (d->missing > 0 && d->error.code == TUTTI_OK) {
    const int left_ms = tu_clock_left_ms(job->deadline_ns);
    if (left_ms == 0) return fail_late(d, job->timeout_ms, error);
    if (job->ops->look && job->ops->look(job, error) != TUTTI_OK) return error->code;
    (void)epoll_wait(d->dialer.descriptor, &event, 1, d->resting > 0 ? 1 : (int)tu_min((size_t)left_ms, LOOK_MS));
    handle(d);
  }
  if (d->error.code != TUTTI_OK) *error = d->error;
  return d->error.code;
}

static tutti_err make(const struct tu_job *job, struct tu_tcp_dialer **made, struct tu_job_address *at,
                      struct tu_error *error) {
  const uint32_t ranks = job->ranks;
  struct tu_tcp_dialer *d = tu_try_allocate(1, sizeof *d);
  *made = d;
  if (!d) return tu_fail_memory(error, sizeof *d, "the connections of rank %u to other hosts", job->rank);
  *d = (struct tu_tcp_dialer){.rank = job->rank, .ranks = ranks, .own = job->address, .listener = -1, .starts = true};
  d->dialer.ops = &tcp_ops;
  d->dialer.descriptor = epoll_create1(EPOLL_CLOEXEC);
  d->peers = tu_try_allocate(ranks, sizeof *d->peers);
  d->dialer.host = d->host = tu_try_allocate(ranks, sizeof *d->host);
  if (!d->peers || !d->host) return tu_fail_memory(error, ranks * sizeof *d->peers, "the addresses of %u ranks", ranks);
  for (uint32_t r = 0; r < ranks; r++) {
    memcpy(d->peers[r].hostname, job->processes[r].hostname, sizeof d->peers[r].hostname);
    d->host[r] = tu_job_host_leader(job, r);
  }
  struct epoll_event event = {.events = EPOLLIN};
  tutti_err err = tu_job_listen(job, &d->listener, at, error);
  if (err == TUTTI_OK && (d->dialer.descriptor < 0 || !tu_process_keep_own(d->listener) ||
                          epoll_ctl(d->dialer.descriptor, EPOLL_CTL_ADD, d->listener, &event) != 0))
    err = tu_fail_errno(error, "rank %u cannot wait for connections from other hosts: epoll failed", job->rank);
  return err;
}

/* Finds the counterparts of this rank, and stores the addresses of all ranks. */
static tutti_err learn(struct tu_tcp_dialer *d, struct tu_job *job, const struct tu_job_address *mine,
                       struct tu_error *error) {
  bool *counterparts = tu_try_allocate(d->ranks, sizeof *counterparts);
  struct tu_job_address *addresses = tu_try_allocate(d->ranks, sizeof *addresses);
  tutti_err err = TUTTI_OK;
  if (!addresses || !counterparts) err = tu_fail_memory(error, d->ranks, "the addresses of %u ranks", d->ranks);
  err = tu_job_agree(job, err, error);
  if (err == TUTTI_OK) err = tu_job_allgather(job, mine, addresses, sizeof *mine, error);
  if (err == TUTTI_OK) tu_dialer_counterparts(d->host, d->ranks, d->rank, counterparts);
  for (uint32_t r = 0; r < d->ranks && err == TUTTI_OK; r++) {
    d->peers[r].at = addresses[r];
    d->peers[r].awaited = counterparts[r];
  }
  free(addresses);
  free(counterparts);
  return err == TUTTI_OK ? make_key(d, job, error) : err;
}

/* Collective. A rank that has reached rank 0 over the loopback is reached at the address of rank 0, if ranks of other
 * machines have reached that. */
static tutti_err share_address(struct tu_job *job, struct tu_error *error) {
  _Static_assert(sizeof job->address <= TU_JOB_RECORD_BYTES, "an address is a record");
  tutti_err err = tu_job_allgather(job, &job->address, job->records, sizeof job->address, error);
  struct sockaddr_storage of_root;
  memcpy(&of_root, job->records, sizeof of_root);
  if (err == TUTTI_OK && tu_boot_is_loopback(&job->address) && of_root.ss_family != AF_UNSPEC) job->address = of_root;
  return err;
}

tutti_err tu_job_dialer(struct tu_job *job, struct tu_dialer **dialer, struct tu_error *error) {
  struct tu_tcp_dialer *d;
  struct tu_job_address mine = {0};
  *dialer = NULL;
  job->step = "to listen for connections from other hosts";
  tutti_err err = share_address(job, error);
  if (err != TUTTI_OK) return err;
  err = make(job, &d, &mine, error);
  err = tu_job_agree(job, err, error);
  if (err == TUTTI_OK) err = learn(d, job, &mine, error);
  if (err == TUTTI_OK) {
    err = connect_counterparts(d, job, error);
    job->step = "to connect with the ranks of other hosts";
    err = tu_job_agree(job, err, error);
  }
  if (err != TUTTI_OK) {
    if (d) dialer_close(&d->dialer);
    return err;
  }
  d->starts = false;
  *dialer = &d->dialer;
  return TUTTI_OK;
}
