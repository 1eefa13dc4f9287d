/* job_lines.c: makes a TCP connection between two ranks of different hosts. Either rank of the pair may call the other.
 * Both then prove to each other that they know the key of the job, by the first three messages of job_tcp_wire.h; the
 * last message is a welcome.
 *
 * Two ranks may call each other at the same time. A rank that has been proved to gives up its own call, with one
 * exception: the higher rank of the two, once it has sent its own proof, refuses that of the lower one, which then accepts
 * the call of the higher one. So both ends keep the same connection. */
#include "boot/job_lines.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/process.h"

enum {
  GUESTS = 256, /* maximum number of accepted connections that have not proved that they belong to the job */
  /* Keepalive: time without traffic until the kernel asks the other one, in s, for control and for data; number of
   * questions without an answer after which it ends the connection. */
  CONTROL_IDLE_S = 1,
  DATA_IDLE_S = 60,
  QUESTIONS = 127, /* the maximum of Linux; the wire may ask several times per second */
};
#define AGAIN_NS UINT64_C(10000000) /* time until a call is repeated */

/* Flags in tu_boot_call.to, besides the rank. Both ends thus prove the kind of the connection. */
#define CONTROL (UINT32_C(1) << 31)
#define PROBE (UINT32_C(1) << 30)

/* ---- lines ---- */

static bool is_guest(const struct tu_job_line *line) {
  return line->step == TU_LINE_GUEST || line->step == TU_LINE_ANSWERED;
}

static void count(struct tu_tcp_dialer *d, const struct tu_job_line *line, bool in) {
  uint32_t *number = is_guest(line)                  ? &d->guests
                     : line->step == TU_LINE_RESTING ? &d->resting
                     : line->step == TU_LINE_MADE    ? &d->made
                                                     : NULL;
  if (number) *number = in ? *number + 1 : *number - 1;
  d->dialer.restless = d->resting > 0 || d->made > 0;
}

static struct tu_job_line *add_line(struct tu_tcp_dialer *d, enum tu_job_step step) {
  struct tu_job_line *line = tu_try_allocate(1, sizeof *line);
  if (!line) return NULL;
  *line = (struct tu_job_line){.next = d->lines, .step = step, .fd = -1};
  d->lines = line;
  count(d, line, true);
  return line;
}

static void enter(struct tu_tcp_dialer *d, struct tu_job_line *line, enum tu_job_step step) {
  count(d, line, false);
  line->step = step;
  line->got = 0;
  count(d, line, true);
}

/* Closes the socket of a line; the kernel then removes it from the epoll. */
static void hang_up(struct tu_job_line *line) {
  if (line->fd >= 0) tu_process_give_up(line->fd);
  tu_boot_close(&line->fd);
}

void tu_lines_drop(struct tu_tcp_dialer *d, struct tu_job_line *line) {
  struct tu_job_line **link = &d->lines;
  while (*link != line) link = &(*link)->next;
  *link = line->next;
  hang_up(line);
  count(d, line, false);
  free(line);
}

struct tu_job_line *tu_lines_find_call(const struct tu_tcp_dialer *d, uint32_t peer, bool control) {
  struct tu_job_line *line = d->lines;
  while (line && !(line->calls && line->peer == peer && line->control == control)) line = line->next;
  return line;
}

static bool watch(const struct tu_tcp_dialer *d, struct tu_job_line *line, uint32_t events, bool first) {
  struct epoll_event event = {.events = events, .data.ptr = line};
  return epoll_ctl(d->dialer.descriptor, first ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, line->fd, &event) == 0;
}

tutti_err tu_lines_fail_to_reach(const struct tu_tcp_dialer *d, uint32_t peer, const char *why,
                                 struct tu_error *error) {
  char here[TU_JOB_ADDRESS_CHARS], there[TU_JOB_ADDRESS_CHARS];
  tu_job_address_print(&d->peers[d->rank].at, here);
  tu_job_address_print(&d->peers[peer].at, there);
  return tu_fail(error, TUTTI_ERR_PEER,
                 "rank %u (on '%.63s', at %s) cannot reach rank %u (on '%.63s') at %s: %s; TUTTI_INTERFACE chooses the "
                 "network, TUTTI_PORTS the ports",
                 d->rank, d->peers[d->rank].hostname, here, peer, d->peers[peer].hostname, there, why);
}

/* While the job starts, a rank that cannot be reached is an error. */
static void note_failure(struct tu_tcp_dialer *d, const struct tu_job_line *line, const char *why) {
  if (d->starts && d->error.code == TUTTI_OK) tu_lines_fail_to_reach(d, line->peer, why, &d->error);
}

/* Reports that the peer accepts no connections of this job: its port is closed, or another process has it. */
static void refuse(struct tu_tcp_dialer *d, struct tu_job_line *line, const char *why) {
  note_failure(d, line, why);
  d->peers[line->peer].settled[line->control] = true;
  hang_up(line);
  enter(d, line, TU_LINE_MADE);
}

/* The call cannot go on now. At the start, `why` ends the job; NULL: it does not. */
static void call_again(struct tu_tcp_dialer *d, struct tu_job_line *line, const char *why) {
  if (why) note_failure(d, line, why);
  hang_up(line);
  line->at_ns = tu_clock_ns() + AGAIN_NS;
  enter(d, line, TU_LINE_RESTING);
}

/* ---- a connection is made ---- */

static void set(int fd, int level, int option, int value) { (void)setsockopt(fd, level, option, &value, sizeof value); }

/* The kernel asks about an idle control connection once per second; the wire reads from the time of the last answer
 * whether the other host is gone. Connections for data have keepalive so that no firewall forgets them. */
static void set_keepalive(const struct tu_job_line *line) {
  set(line->fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(line->fd, IPPROTO_TCP, TCP_KEEPIDLE, line->control ? CONTROL_IDLE_S : DATA_IDLE_S);
  set(line->fd, IPPROTO_TCP, TCP_KEEPINTVL, CONTROL_IDLE_S);
  set(line->fd, IPPROTO_TCP, TCP_KEEPCNT, QUESTIONS);
}

static void finish(struct tu_tcp_dialer *d, struct tu_job_line *line) {
  struct tu_job_line *own = tu_lines_find_call(d, line->peer, line->control);
  (void)epoll_ctl(d->dialer.descriptor, EPOLL_CTL_DEL, line->fd, NULL);
  tu_process_give_up(line->fd);
  set_keepalive(line);
  enter(d, line, TU_LINE_MADE);
  if (d->starts && line->control) d->missing--;
  if (own && own != line) tu_lines_drop(d, own);
}

/* Both ends have proved themselves. */
static void settle(struct tu_tcp_dialer *d, struct tu_job_line *line) {
  d->peers[line->peer].settled[line->control] = true;
  if (!(line->call.to & PROBE)) {
    finish(d, line);
    return;
  }
  enter(d, line, TU_LINE_PROBING);
  if (!watch(d, line, EPOLLIN | EPOLLOUT, false)) call_again(d, line, strerror(errno));
}

static void probe(struct tu_tcp_dialer *d, struct tu_job_line *line) {
  static const unsigned char zeros[4096];
  unsigned char waste[4096];
  ssize_t n = 1;
  while (line->sent < TU_PROBE_BYTES && n > 0) {
    n = send(line->fd, zeros, tu_min(sizeof zeros, TU_PROBE_BYTES - line->sent), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) line->sent += (size_t)n;
  }
  if (line->sent == TU_PROBE_BYTES) (void)watch(d, line, EPOLLIN, false);
  for (n = 1; line->got < TU_PROBE_BYTES && n > 0;) {
    n = recv(line->fd, waste, tu_min(sizeof waste, TU_PROBE_BYTES - line->got), MSG_DONTWAIT);
    if (n > 0) line->got += (size_t)n;
  }
  if (line->got == TU_PROBE_BYTES && line->sent == TU_PROBE_BYTES) finish(d, line);
  else if (n == 0) refuse(d, line, "it has closed the connection");
  else if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) refuse(d, line, strerror(errno));
}

/* ---- the caller ---- */

void tu_lines_call(struct tu_tcp_dialer *d, struct tu_job_line *line) {
  struct sockaddr_storage address;
  const socklen_t bytes = tu_job_address_of(&d->own, &d->peers[line->peer].at, &address);
  line->fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  enter(d, line, TU_LINE_CONNECTING);
  if (line->fd < 0 || !tu_process_keep_own(line->fd)) {
    call_again(d, line, "cannot create a socket");
    return;
  }
  if (connect(line->fd, (struct sockaddr *)&address, bytes) != 0 && errno != EINPROGRESS) {
    if (errno == ECONNREFUSED) refuse(d, line, strerror(errno));
    else call_again(d, line, strerror(errno));
  } else if (!watch(d, line, EPOLLOUT, true)) {
    call_again(d, line, strerror(errno));
  }
}

void tu_lines_begin(struct tu_tcp_dialer *d, uint32_t peer, bool control) {
  struct tu_job_line *line = add_line(d, TU_LINE_CONNECTING);
  if (!line) return; /* the rank calls when the connection is wanted again */
  line->calls = true;
  line->peer = peer;
  line->control = control;
  tu_lines_call(d, line);
}

static void hear_connected(struct tu_tcp_dialer *d, struct tu_job_line *line) {
  int why = 0;
  socklen_t bytes = sizeof why;
  if (getsockopt(line->fd, SOL_SOCKET, SO_ERROR, &why, &bytes) != 0) why = errno;
  if (why == ECONNREFUSED) {
    refuse(d, line, strerror(why));
    return;
  }
  tu_boot_send_at_once(line->fd);
  line->call = (struct tu_boot_call){
      .magic = TU_BOOT_MAGIC,
      .version = TU_BOOT_VERSION,
      .rank = d->rank,
      .ranks = d->ranks,
      .has_secret = 1,
      .to = line->peer | (line->control ? CONTROL : 0) | (line->control && d->starts ? PROBE : 0)};
  tu_boot_nonce(line->call.nonce);
  enter(d, line, TU_LINE_CALLED);
  if (why != 0) call_again(d, line, strerror(why));
  else if (!watch(d, line, EPOLLIN, false) || !tu_boot_send(line->fd, &line->call, sizeof line->call))
    call_again(d, line, NULL);
}

/* If the peer closes the connection, it has too many guests, or calls this rank, or ends. */
static void hear_answer(struct tu_tcp_dialer *d, struct tu_job_line *line) {
  enum tu_boot_taken taken = tu_boot_receive(line->fd, &line->answer, sizeof line->answer, &line->got);
  if (taken == TU_BOOT_NOT_YET) return;
  if (taken == TU_BOOT_GONE) {
    call_again(d, line, NULL);
    return;
  }
  if (line->answer.version != TU_BOOT_VERSION || line->answer.reply != TU_BOOT_PROVES ||
      !tu_boot_proven(&d->key, TU_BOOT_ROLE_HOST, &line->call, &line->answer, line->answer.proof)) {
    refuse(d, line, "the process that answers there does not belong to this job");
    return;
  }
  memcpy(line->hello.magic, TU_BOOT_MAGIC, sizeof line->hello.magic);
  tu_boot_prove(&d->key, TU_BOOT_ROLE_JOINER, &line->call, &line->answer, line->hello.proof);
  enter(d, line, TU_LINE_PROVED);
  if (!tu_boot_send(line->fd, &line->hello, sizeof line->hello)) call_again(d, line, NULL);
}

static void hear_welcome(struct tu_tcp_dialer *d, struct tu_job_line *line) {
  enum tu_boot_taken taken = tu_boot_receive(line->fd, line->answer.magic, sizeof line->answer.magic, &line->got);
  if (taken == TU_BOOT_GONE) call_again(d, line, NULL);
  if (taken == TU_BOOT_TAKEN) settle(d, line);
}

/* ---- the rank that is called ---- */

static bool is_welcome(const struct tu_tcp_dialer *d, const struct tu_boot_call *c) {
  return c->version == TU_BOOT_VERSION && c->ranks == d->ranks && (c->to & ~(CONTROL | PROBE)) == d->rank &&
         c->rank < d->ranks && d->host[c->rank] != d->host[d->rank] &&
         !d->peers[c->rank].settled[(c->to & CONTROL) != 0];
}

/* Answers a guest's call. Guests that do not belong to the job are dropped, and are no error. */
static void hear_call(struct tu_tcp_dialer *d, struct tu_job_line *line) {
  const struct tu_boot_call *c = &line->call;
  enum tu_boot_taken taken = tu_boot_receive(line->fd, &line->call, sizeof line->call, &line->got);
  if (taken == TU_BOOT_NOT_YET) return;
  if (taken == TU_BOOT_GONE || !is_welcome(d, c)) {
    tu_lines_drop(d, line);
    return;
  }
  line->answer = (struct tu_boot_answer){
      .magic = TU_BOOT_MAGIC, .version = TU_BOOT_VERSION, .reply = TU_BOOT_PROVES, .has_secret = 1};
  tu_boot_nonce(line->answer.nonce);
  tu_boot_prove(&d->key, TU_BOOT_ROLE_HOST, c, &line->answer, line->answer.proof);
  line->peer = c->rank;
  line->control = (c->to & CONTROL) != 0;
  enter(d, line, TU_LINE_ANSWERED);
  if (!tu_boot_send(line->fd, &line->answer, sizeof line->answer)) tu_lines_drop(d, line);
}

/* Returns true if this rank's own call counts, and not that of the peer. */
static bool outranks(const struct tu_tcp_dialer *d, const struct tu_job_line *line) {
  const struct tu_job_line *own = tu_lines_find_call(d, line->peer, line->control);
  return d->rank > line->peer && own && own->step == TU_LINE_PROVED;
}

static void hear_hello(struct tu_tcp_dialer *d, struct tu_job_line *line) {
  enum tu_boot_taken taken = tu_boot_receive(line->fd, &line->hello, sizeof line->hello, &line->got);
  if (taken == TU_BOOT_NOT_YET) return;
  const bool good = taken == TU_BOOT_TAKEN && !d->peers[line->peer].settled[line->control] && !outranks(d, line) &&
                    tu_boot_proven(&d->key, TU_BOOT_ROLE_JOINER, &line->call, &line->answer, line->hello.proof) &&
                    tu_boot_send(line->fd, line->answer.magic, sizeof line->answer.magic);
  if (good) settle(d, line);
  else tu_lines_drop(d, line);
}

/* Accepts a connection. If all places of guests are taken, it takes that of the guest that came first. */
void tu_lines_accept(struct tu_tcp_dialer *d) {
  int fd = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  struct tu_job_line *oldest = NULL;
  for (struct tu_job_line *line = d->lines; line; line = line->next)
    if (is_guest(line) && (!oldest || line->at_ns < oldest->at_ns)) oldest = line;
  if (d->guests >= GUESTS) tu_lines_drop(d, oldest);
  struct tu_job_line *line = add_line(d, TU_LINE_GUEST);
  if (!line) {
    close(fd);
    return;
  }
  line->fd = fd;
  line->at_ns = tu_clock_ns();
  tu_boot_send_at_once(fd);
  if (!tu_process_keep_own(fd) || !watch(d, line, EPOLLIN, true)) tu_lines_drop(d, line);
}

void tu_lines_go_on(struct tu_tcp_dialer *d, struct tu_job_line *line) {
  switch (line->step) {
    case TU_LINE_RESTING:
    case TU_LINE_MADE: return; /* not watched */
    case TU_LINE_CONNECTING: hear_connected(d, line); return;
    case TU_LINE_CALLED: hear_answer(d, line); return;
    case TU_LINE_PROVED: hear_welcome(d, line); return;
    case TU_LINE_GUEST: hear_call(d, line); return;
    case TU_LINE_ANSWERED: hear_hello(d, line); return;
    case TU_LINE_PROBING: probe(d, line); return;
  }
}
