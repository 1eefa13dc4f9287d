/* job_connect.c: connects the ranks of different hosts, one TCP connection for each pair. The higher rank of a pair
 * connects to the lower one. Both then prove to each other that they know the key of the job, by the first three
 * messages of job_tcp_wire.h; the last message is a welcome. The key consists of the hash of the job's secret and of
 * random bytes of rank 0, so a process of another job, or of an older run, is refused even if the job has no secret. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/job_address.h"
#include "boot/job_tcp_wire.h"

enum { GUESTS = 64 };

enum step {
  UNUSED,
  CONNECTING, /* connect() is in progress */
  CALLED,     /* this rank has sent its call, and waits for the answer */
  PROVED,     /* this rank has sent its hello, and waits for the welcome */
  GUEST,      /* accepted; its call has not arrived yet */
  ANSWERED,   /* this rank has answered the call, and waits for the hello */
};

/* A connection that is being made. */
struct line {
  enum step step;
  int fd;
  uint32_t peer;    /* rank at the other end; known from step CALLED or ANSWERED on */
  uint64_t came_ns; /* of a guest */
  size_t got;       /* bytes received of the current message */
  struct tu_boot_call call;
  struct tu_boot_answer answer;
  struct tu_boot_hello hello;
};

struct meeting {
  struct tu_job *job;
  struct tu_boot_secret key;
  struct tu_job_address *addresses; /* [ranks] */
  struct line *lines;               /* [count]: one for each lower rank, and GUESTS */
  struct pollfd *polled;            /* [count + 1] */
  uint32_t count;
  int listener;
  int *sockets;
  uint32_t missing; /* number of ranks of other hosts that are not connected yet */
};

/* ---- the key ---- */

/* Collective: all ranks get the random bytes of rank 0. */
static tutti_err make_key(struct meeting *m, struct tu_error *error) {
  struct tu_job *job = m->job;
  uint8_t mine[TU_BOOT_NONCE_BYTES] = {0};
  _Static_assert(sizeof mine <= TU_JOB_RECORD_BYTES, "the random bytes are a record");
  if (job->rank == 0) tu_boot_nonce(mine);
  tutti_err err = tu_job_allgather(job, mine, job->records, sizeof mine, error);
  m->key.bytes = sizeof job->secret + sizeof mine;
  memcpy(m->key.value, job->secret, sizeof job->secret);
  memcpy(m->key.value + sizeof job->secret, job->records, sizeof mine);
  return err;
}

/* ---- errors ---- */

static tutti_err fail_to_reach(const struct meeting *m, uint32_t peer, const char *why, struct tu_error *error) {
  char here[TU_JOB_ADDRESS_CHARS], there[TU_JOB_ADDRESS_CHARS];
  tu_job_address_print(&m->addresses[m->job->rank], here);
  tu_job_address_print(&m->addresses[peer], there);
  return tu_fail(error, TUTTI_ERR_PEER,
                 "rank %u (on '%.63s', at %s) cannot reach rank %u (on '%.63s') at %s: %s; TUTTI_INTERFACE chooses the "
                 "network, TUTTI_PORTS the ports",
                 m->job->rank, m->job->processes[m->job->rank].hostname, here, peer, m->job->processes[peer].hostname,
                 there, why);
}

static tutti_err fail_late(const struct meeting *m, struct tu_error *error) {
  uint32_t first = 0;
  while (first < m->job->ranks && (tu_job_is_near(m->job, first, m->job->rank) || m->sockets[first] >= 0)) first++;
  char there[TU_JOB_ADDRESS_CHARS];
  tu_job_address_print(&m->addresses[first], there);
  return tu_fail(
      error, TUTTI_ERR_TIMEOUT,
      "rank %u waited %d ms for %u connection%s with ranks of other hosts, first with rank %u (on '%.63s', at "
      "%s); TUTTI_INTERFACE chooses the network",
      m->job->rank, m->job->timeout_ms, m->missing, m->missing == 1 ? "" : "s", first,
      m->job->processes[first].hostname, there);
}

/* ---- lines ---- */

static void drop(struct line *line) {
  tu_boot_close(&line->fd);
  line->step = UNUSED;
}

/* Keeps the connection: the peer has proved that it belongs to the job. Keepalive ends an idle connection whose path or
 * host is gone. TCP_USER_TIMEOUT is not set: it also ends a connection whose peer computes for long and does not
 * read. */
static void keep(struct meeting *m, struct line *line) {
  const int one = 1, seconds = 1, probes = 2;
  (void)setsockopt(line->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  (void)setsockopt(line->fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  (void)setsockopt(line->fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
  (void)setsockopt(line->fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  m->sockets[line->peer] = line->fd;
  m->missing--;
  line->fd = -1;
  line->step = UNUSED;
}

static tutti_err begin_to_connect(struct meeting *m, struct line *line, uint32_t peer, struct tu_error *error) {
  struct sockaddr_storage address;
  const socklen_t bytes = tu_job_address_of(m->job, &m->addresses[peer], &address);
  line->peer = peer;
  line->step = CONNECTING;
  line->fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (line->fd < 0)
    return tu_fail_errno(error, "rank %u cannot create a socket for its connection to rank %u", m->job->rank, peer);
  if (connect(line->fd, (struct sockaddr *)&address, bytes) == 0 || errno == EINPROGRESS) return TUTTI_OK;
  return fail_to_reach(m, peer, strerror(errno), error);
}

/* The peer has closed the connection: it had too many guests. If it has ended, it cannot be reached again. */
static tutti_err connect_again(struct meeting *m, struct line *line, struct tu_error *error) {
  drop(line);
  return begin_to_connect(m, line, line->peer, error);
}

static tutti_err call(struct meeting *m, struct line *line, struct tu_error *error) {
  int why = 0;
  socklen_t bytes = sizeof why;
  if (getsockopt(line->fd, SOL_SOCKET, SO_ERROR, &why, &bytes) != 0) why = errno;
  if (why != 0) return fail_to_reach(m, line->peer, strerror(why), error);
  tu_boot_send_at_once(line->fd);
  line->call = (struct tu_boot_call){.magic = TU_BOOT_MAGIC,
                                     .version = TU_BOOT_VERSION,
                                     .rank = m->job->rank,
                                     .ranks = m->job->ranks,
                                     .has_secret = 1,
                                     .to = line->peer};
  tu_boot_nonce(line->call.nonce);
  line->step = CALLED;
  line->got = 0;
  return tu_boot_send(line->fd, &line->call, sizeof line->call) ? TUTTI_OK : connect_again(m, line, error);
}

static tutti_err hear_answer(struct meeting *m, struct line *line, struct tu_error *error) {
  enum tu_boot_taken taken = tu_boot_receive(line->fd, &line->answer, sizeof line->answer, &line->got);
  if (taken == TU_BOOT_NOT_YET) return TUTTI_OK;
  if (taken == TU_BOOT_GONE) return connect_again(m, line, error);
  if (line->answer.version != TU_BOOT_VERSION || line->answer.reply != TU_BOOT_PROVES ||
      !tu_boot_proven(&m->key, TU_BOOT_ROLE_HOST, &line->call, line->answer.nonce, line->answer.proof))
    return fail_to_reach(m, line->peer, "the process that answers there does not belong to this job", error);
  memcpy(line->hello.magic, TU_BOOT_MAGIC, sizeof line->hello.magic);
  tu_boot_prove(&m->key, TU_BOOT_ROLE_JOINER, &line->call, line->answer.nonce, line->hello.proof);
  if (!tu_boot_send(line->fd, &line->hello, sizeof line->hello)) return connect_again(m, line, error);
  line->step = PROVED;
  line->got = 0;
  return TUTTI_OK;
}

static tutti_err hear_welcome(struct meeting *m, struct line *line, struct tu_error *error) {
  enum tu_boot_taken taken = tu_boot_receive(line->fd, line->answer.magic, sizeof line->answer.magic, &line->got);
  if (taken == TU_BOOT_GONE) return connect_again(m, line, error);
  if (taken == TU_BOOT_TAKEN) keep(m, line);
  return TUTTI_OK;
}

/* Answers a guest's call. Guests that do not belong to the job are dropped, and are no error. */
static void hear_call(struct meeting *m, struct line *line) {
  const struct tu_job *job = m->job;
  const struct tu_boot_call *c = &line->call;
  enum tu_boot_taken taken = tu_boot_receive(line->fd, &line->call, sizeof line->call, &line->got);
  if (taken == TU_BOOT_NOT_YET) return;
  if (taken == TU_BOOT_GONE || c->version != TU_BOOT_VERSION || c->ranks != job->ranks || c->to != job->rank ||
      c->rank >= job->ranks || c->rank < job->rank || tu_job_is_near(job, c->rank, job->rank) ||
      m->sockets[c->rank] >= 0) {
    drop(line);
    return;
  }
  line->answer = (struct tu_boot_answer){
      .magic = TU_BOOT_MAGIC, .version = TU_BOOT_VERSION, .reply = TU_BOOT_PROVES, .has_secret = 1};
  tu_boot_nonce(line->answer.nonce);
  tu_boot_prove(&m->key, TU_BOOT_ROLE_HOST, c, line->answer.nonce, line->answer.proof);
  line->peer = c->rank;
  line->step = ANSWERED;
  line->got = 0;
  if (!tu_boot_send(line->fd, &line->answer, sizeof line->answer)) drop(line);
}

static void hear_hello(struct meeting *m, struct line *line) {
  enum tu_boot_taken taken = tu_boot_receive(line->fd, &line->hello, sizeof line->hello, &line->got);
  if (taken == TU_BOOT_NOT_YET) return;
  const bool good = taken == TU_BOOT_TAKEN && m->sockets[line->peer] < 0 &&
                    tu_boot_proven(&m->key, TU_BOOT_ROLE_JOINER, &line->call, line->answer.nonce, line->hello.proof) &&
                    tu_boot_send(line->fd, line->answer.magic, sizeof line->answer.magic);
  if (good) keep(m, line);
  else drop(line);
}

static tutti_err go_on(struct meeting *m, struct line *line, struct tu_error *error) {
  switch (line->step) {
    case CONNECTING: return call(m, line, error);
    case CALLED: return hear_answer(m, line, error);
    case PROVED: return hear_welcome(m, line, error);
    case GUEST: hear_call(m, line); return TUTTI_OK;
    default: hear_hello(m, line); return TUTTI_OK;
  }
}

/* Accepts a connection. If all places of guests are taken, it takes that of the guest that came first. */
static void accept_guest(struct meeting *m) {
  int fd = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  struct line *place = NULL;
  for (uint32_t i = 0; i < m->count; i++) {
    struct line *line = &m->lines[i];
    if (line->step != UNUSED && line->step != GUEST && line->step != ANSWERED) continue;
    if (!place || line->step == UNUSED || (place->step != UNUSED && line->came_ns < place->came_ns)) place = line;
    if (place->step == UNUSED) break;
  }
  drop(place);
  tu_boot_send_at_once(fd);
  *place = (struct line){.step = GUEST, .fd = fd, .came_ns = tu_clock_ns()};
}

/* ---- the meeting ---- */

static tutti_err step(struct meeting *m, struct tu_error *error) {
  m->polled[m->count] = (struct pollfd){.fd = m->listener, .events = POLLIN};
  for (uint32_t i = 0; i < m->count; i++) {
    const struct line *line = &m->lines[i];
    m->polled[i] = (struct pollfd){.fd = line->step == UNUSED ? -1 : line->fd,
                                   .events = line->step == CONNECTING ? POLLOUT : POLLIN};
  }
  const int left_ms = tu_clock_left_ms(m->job->deadline_ns);
  if (left_ms == 0) return fail_late(m, error);
  if (poll(m->polled, m->count + 1, left_ms) < 0 && errno != EINTR)
    return tu_fail_errno(error, "rank %u cannot wait for ranks of other hosts: poll failed", m->job->rank);
  tutti_err err = TUTTI_OK;
  for (uint32_t i = 0; i < m->count && err == TUTTI_OK; i++)
    if (m->polled[i].fd >= 0 && m->polled[i].revents) err = go_on(m, &m->lines[i], error);
  if (err == TUTTI_OK && m->polled[m->count].revents) accept_guest(m);
  return err;
}

static tutti_err connect_all(struct meeting *m, struct tu_error *error) {
  tutti_err err = TUTTI_OK;
  uint32_t next = GUESTS;
  for (uint32_t r = 0; r < m->job->ranks; r++) {
    if (tu_job_is_near(m->job, r, m->job->rank)) continue;
    m->missing++;
    if (r < m->job->rank && err == TUTTI_OK) err = begin_to_connect(m, &m->lines[next++], r, error);
  }
  while (m->missing > 0 && err == TUTTI_OK) err = step(m, error);
  return err;
}

static tutti_err allocate(struct meeting *m, struct tu_error *error) {
  const uint32_t ranks = m->job->ranks;
  m->count = GUESTS + m->job->rank;
  m->addresses = tu_try_allocate(ranks, sizeof *m->addresses);
  m->lines = tu_try_allocate(m->count, sizeof *m->lines);
  m->polled = tu_try_allocate(m->count + 1, sizeof *m->polled);
  for (uint32_t i = 0; m->lines && i < m->count; i++) m->lines[i].fd = -1;
  if (m->addresses && m->lines && m->polled) return TUTTI_OK;
  return tu_fail_memory(error, ranks * sizeof *m->lines, "the connections of rank %u to other hosts", m->job->rank);
}

tutti_err tu_job_connect(struct tu_job *job, int sockets[], struct tu_error *error) {
  struct meeting m = {.job = job, .listener = -1, .sockets = sockets};
  struct tu_job_address mine = {0};
  for (uint32_t r = 0; r < job->ranks; r++) sockets[r] = -1;
  tutti_err err = allocate(&m, error);
  if (err == TUTTI_OK) err = tu_job_listen(job, &m.listener, &mine, error);
  job->step = "to listen for connections from other hosts";
  err = tu_job_agree(job, err, error);
  if (err == TUTTI_OK) err = tu_job_allgather(job, &mine, m.addresses, sizeof mine, error);
  if (err == TUTTI_OK) err = make_key(&m, error);
  if (err == TUTTI_OK) {
    err = connect_all(&m, error);
    job->step = "to connect with the ranks of other hosts";
    err = tu_job_agree(job, err, error);
  }
  for (uint32_t i = 0; m.lines && i < m.count; i++) drop(&m.lines[i]);
  for (uint32_t r = 0; r < job->ranks && err != TUTTI_OK; r++) tu_boot_close(&sockets[r]);
  tu_boot_close(&m.listener);
  tu_boot_secret_wipe(&m.key);
  free(m.addresses);
  free(m.lines);
  free(m.polled);
  return err;
}
