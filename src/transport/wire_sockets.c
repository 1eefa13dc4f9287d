/* wire_sockets.c: a wire over stream sockets. A frame is a head and a body. A long body is received directly into its
 * final buffer.
 *
 * There are up to two connections with a rank (dialer.h): one for data, which is made when it is first used, and one for
 * control. This rank always has a control connection to each other host, if it can: it shows whether the host lives, and
 * carries urgent frames to the rank at its end. */
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/process.h"
#include "transport/frames.h"

enum {
  EVENTS = 16,
  READS = 16,
  BUFFER_BYTES = 17 << 10, /* a frame of at most so many bytes is received by one system call */
  /* Short frames, whose bodies have at most SHORT_BYTES, are sent together, at most GATHERED_BYTES by one system call. */
  SHORT_BYTES = 2 << 10,
  GATHERED_BYTES = 16 << 10,
  /* Time between two calls of look that ask epoll, which sees all connections, in ns. The calls between them try only the
   * connection that received something last. */
  WIDE_NS = 10000,
  /* A host is suspected if it has acknowledged nothing for SUSPECT_MS ms: the kernel asks an idle one once per second.
   * Then this rank lets the kernel ask more often. The host is gone if it has acknowledged nothing for SILENT_MS ms,
   * and has been suspected for SUSPECTED_MS ms. So an interruption of 1.2 s is noticed to be over in time, and a process
   * that was stopped itself does not blame others. */
  SUSPECT_MS = 1300,
  ASK_MS = 200, /* time between two questions to a suspected host, in ms */
  SUSPECTED_MS = 1000,
  SILENT_MS = 2850,
};
#define RECEIPT_MS 1 /* time between two questions whether the peers' hosts have received everything, in ms */
#define NS_PER_MS 1000000u

struct connection {
  int fd;       /* socket to the rank; -1: no connection, or closed */
  bool wanted;  /* true: the connection is being made */
  bool watched; /* true: frames wait. If there is a socket, epoll also reports when it can send again */
  bool mute;    /* true: sending to the peer has failed, but frames that the peer has sent may still be unread */
  bool gone;    /* true: the peer is gone, and all its frames have been read */
  /* Time since when the other host is suspected to be gone (0: it is not), and time of the last question, in ns. */
  uint64_t suspected_ns, asked_ns;
  bool local; /* true: what is sent is at once with the peer: the socket is no TCP socket */
  struct tu_frames_out out;
  struct tu_frames_in in;
  /* Received bytes that are not taken yet: the beginning of a frame, or several short ones. */
  uint32_t taken, filled;
  unsigned char *buffer; /* [BUFFER_BYTES]; NULL: no connection */
};

struct sockets {
  struct tu_wire wire;
  struct tu_dialer *dialer;
  struct connection *recent; /* the connection that received something last; NULL: none */
  uint64_t wide_ns;          /* time of the last call of look that asked epoll */
  uint32_t ranks;
  /* Frames that wait while the user of the wire sends several (gather): for one connection at a time. */
  bool gathers;
  struct connection *gathered_for; /* NULL: none wait */
  size_t gathered_bytes;
  unsigned char gathered[GATHERED_BYTES];
  struct connection connections[]; /* [2 * ranks]: for data with each rank, then for control with each rank */
};

static struct sockets *sockets_of(struct tu_wire *w) { return (struct sockets *)(void *)w; }
static const struct sockets *const_sockets_of(const struct tu_wire *w) {
  return (const struct sockets *)(const void *)w;
}
static struct connection *control_of(struct sockets *s, uint32_t rank) { return &s->connections[s->ranks + rank]; }
static uint32_t index_of(const struct sockets *s, const struct connection *c) { return (uint32_t)(c - s->connections); }
static uint32_t rank_of(const struct sockets *s, const struct connection *c) { return index_of(s, c) % s->ranks; }
static bool is_control(const struct sockets *s, const struct connection *c) { return index_of(s, c) >= s->ranks; }

static void want(struct sockets *s, struct connection *c) {
  if (c->wanted || c->fd >= 0 || c->gone) return;
  c->wanted = true;
  s->dialer->ops->want(s->dialer, rank_of(s, c), is_control(s, c));
}

/* Notes whether frames wait for this connection. */
static void watch(struct sockets *s, struct connection *c, bool room) {
  if (c->watched == room) return;
  struct epoll_event event = {.events = EPOLLIN | (room ? EPOLLOUT : 0), .data.u32 = index_of(s, c)};
  c->watched = room;
  s->wire.unsent = room ? s->wire.unsent + 1 : s->wire.unsent - 1;
  if (c->fd >= 0) (void)epoll_ctl(s->wire.descriptor, EPOLL_CTL_MOD, c->fd, &event);
}

/* Drops all frames to the peer that have not been sent, and sends nothing more to it. */
static void silence(struct connection *c) {
  c->mute = true;
  tu_frames_drop(&c->out);
}

static void lose(struct sockets *s, struct connection *c) {
  tu_frames_lose(&c->in, s->wire.reader, rank_of(s, c));
  c->taken = c->filled = 0;
  if (c->watched) watch(s, c, false);
  if (s->recent == c) s->recent = NULL;
  /* A child of fork() may hold the socket open, too. Then close() alone would leave the socket in the epoll. */
  if (c->fd >= 0) {
    (void)epoll_ctl(s->wire.descriptor, EPOLL_CTL_DEL, c->fd, NULL);
    tu_process_give_up(c->fd);
    close(c->fd);
  }
  s->wire.losses += c->fd >= 0;
  c->fd = -1;
  free(c->buffer);
  c->buffer = NULL;
  c->gone = true;
  c->wanted = false;
  silence(c);
}

/* The host of that rank does not answer: all its ranks count as gone. */
static void lose_host(struct sockets *s, uint32_t rank) {
  for (uint32_t r = 0; r < s->ranks; r++) {
    if (s->dialer->host[r] != s->dialer->host[rank]) continue;
    lose(s, &s->connections[r]);
    lose(s, control_of(s, r));
  }
}

/* This rank has lost a control connection. Makes one with another rank of that host, unless there is one. */
static void replace_control(struct sockets *s, uint32_t lost) {
  uint32_t next = s->ranks;
  for (uint32_t r = 0; r < s->ranks; r++) {
    const struct connection *c = control_of(s, r);
    if (s->dialer->host[r] != s->dialer->host[lost]) continue;
    if (c->fd >= 0 || c->wanted) return;
    if (next == s->ranks && !c->gone && !s->connections[r].gone) next = r;
  }
  if (next < s->ranks) want(s, control_of(s, next));
}

/* The other end has closed the connection, or has ended. What it has sent on the other connection may not have been read
 * yet, so that is lost by its own end. */
static void end(struct sockets *s, struct connection *c) {
  const uint32_t rank = rank_of(s, c);
  const struct connection *data = &s->connections[rank];
  lose(s, c);
  if (!is_control(s, c)) return;
  if (data->fd < 0 && !data->wanted) lose(s, &s->connections[rank]);
  replace_control(s, rank);
}

static bool is_temporary(void) {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS || errno == ENOMEM;
}

/* ---- sending ---- */

/* Sends the frames that wait for this connection, as far as the socket takes them. Returns true if no frame is left. */
static bool drain(struct sockets *s, struct connection *c) {
  struct iovec parts[2];
  for (int count; (count = tu_frames_parts(&c->out, parts)) > 0;) {
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    const ssize_t n = sendmsg(c->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && is_temporary()) {
      watch(s, c, true);
      return false;
    }
    if (n < 0) silence(c);
    else tu_frames_sent(&c->out, (size_t)n);
  }
  watch(s, c, false);
  return true;
}

/* Sends the gathered frames. */
static void send_gathered(struct sockets *s) {
  struct connection *c = s->gathered_for;
  if (!c) return;
  struct iovec part = {s->gathered, s->gathered_bytes};
  const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  const ssize_t n = sendmsg(c->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  s->gathered_for = NULL;
  if (n < 0 && !is_temporary()) {
    silence(c);
    return;
  }
  const size_t sent = n < 0 ? 0 : (size_t)n;
  if (sent == s->gathered_bytes) return;
  if (tu_frames_keep(&c->out, s->gathered + sent, s->gathered_bytes - sent)) watch(s, c, true);
  else lose(s, c);
}

/* Adds a frame to those that are sent together, if the wire gathers frames and none waits for the socket. Otherwise
 * returns false, and no frame is gathered for this connection. */
static bool gather_frame(struct sockets *s, struct connection *c, const void *head, const void *body, size_t bytes) {
  const size_t room = sizeof s->gathered - (s->gathered_for ? s->gathered_bytes : 0);
  const bool is_short = s->gathers && bytes <= SHORT_BYTES;
  if (s->gathered_for && (s->gathered_for != c || !is_short || tu_frames_bytes(bytes) > room)) send_gathered(s);
  if (!is_short || c->mute || c->fd < 0 || !tu_frames_is_empty(&c->out)) return false;
  if (!s->gathered_for) s->gathered_bytes = 0;
  s->gathered_for = c;
  tu_frames_write(s->gathered + s->gathered_bytes, head, body, bytes);
  s->gathered_bytes += tu_frames_bytes(bytes);
  return true;
}

static void sockets_gather(struct tu_wire *w, bool begins) {
  struct sockets *s = sockets_of(w);
  s->gathers = begins;
  send_gathered(s);
}

static bool sockets_send(struct tu_wire *w, uint32_t rank, const void *head, const void *body, size_t body_bytes) {
  struct sockets *s = sockets_of(w);
  struct connection *c = &s->connections[rank];
  if (c->mute) return true;
  want(s, c);
  if (gather_frame(s, c, head, body, body_bytes)) return true;
  if (c->fd < 0 || !drain(s, c)) return false;
  if (c->mute) return true;
  tu_frames_begin(&c->out, head, body, body_bytes);
  (void)drain(s, c);
  return true;
}

static bool sockets_reads(const struct tu_wire *w, uint32_t rank) {
  return tu_frames_reads(&const_sockets_of(w)->connections[rank].out);
}

static void sockets_detach(struct tu_wire *w, uint32_t rank) {
  struct sockets *s = sockets_of(w);
  struct connection *c = &s->connections[rank];
  if (tu_frames_reads(&c->out) && !tu_frames_detach(&c->out)) lose(s, c);
}

static void sockets_skip(struct tu_wire *w, uint32_t rank) { sockets_of(w)->connections[rank].in.body = NULL; }

static bool is_open(const struct connection *c) { return c->fd >= 0 || c->wanted; }

/* Returns the connection for a posted frame; NULL: the frame is dropped. */
static struct connection *choose(struct sockets *s, uint32_t rank, unsigned how) {
  struct connection *data = &s->connections[rank], *control = control_of(s, rank);
  if (how & TU_URGENT && control->fd >= 0) return control;
  if (!(how & TU_IF_MET) || is_open(data)) return data->mute ? NULL : data;
  return control->fd >= 0 ? control : NULL;
}

static bool sockets_post(struct tu_wire *w, uint32_t rank, unsigned how, const void *head, const void *body,
                         size_t body_bytes) {
  struct sockets *s = sockets_of(w);
  struct connection *c = choose(s, rank, how);
  if (!c || c->mute || gather_frame(s, c, head, body, body_bytes)) return true;
  if (c->mute) return true;
  if (!tu_frames_post(&c->out, head, body, body_bytes)) return false;
  want(s, c);
  if (c->fd >= 0) (void)drain(s, c);
  else watch(s, c, true);
  return true;
}

/* ---- receiving ---- */

/* Returns the number of bytes of the current body that are missing, if it is long enough to be received into its own
 * buffer; otherwise 0. */
static size_t missing_of_body(const struct connection *c) {
  if (!tu_frames_in_body(&c->in) || !c->in.body) return 0;
  const size_t missing = tu_frames_missing(&c->in);
  return missing >= BUFFER_BYTES ? missing : 0;
}

/* Reads from the connection once. Returns true if something was received. *more: more may be available. */
static bool receive(struct sockets *s, struct connection *c, bool *more) {
  const size_t missing = missing_of_body(c), room = missing ? missing : BUFFER_BYTES;
  void *to = missing ? c->in.body + tu_frames_at(&c->in) : c->buffer;
  ssize_t n = recv(c->fd, to, room, MSG_DONTWAIT);
  /* If the connection was reset, data that arrived before the reset can still be read, so read once more. */
  if (n < 0 && errno == ECONNRESET) n = recv(c->fd, to, room, MSG_DONTWAIT);
  *more = n == (ssize_t)room;
  if (n < 0 && is_temporary()) return false;
  if (n <= 0) {
    if (n == 0 || errno == ECONNRESET || errno == EPIPE) end(s, c);
    else lose_host(s, rank_of(s, c));
    return false;
  }
  s->recent = c;
  c->taken = 0;
  c->filled = missing ? 0 : (uint32_t)n;
  if (missing) tu_frames_received(&c->in, s->wire.reader, rank_of(s, c), (size_t)n);
  while (c->taken < c->filled)
    c->taken +=
        (uint32_t)tu_frames_take(&c->in, s->wire.reader, rank_of(s, c), c->buffer + c->taken, c->filled - c->taken);
  return true;
}

static bool receive_all(struct sockets *s, struct connection *c) {
  bool any = false, more = true;
  for (int reads = 0; reads < READS && more && c->fd >= 0; reads++) any |= receive(s, c, &more);
  return any;
}

/* The dialer has made a connection; fd -1: the rank is gone. */
static void attach(void *context, uint32_t rank, bool control, int fd) {
  struct sockets *s = context;
  struct connection *c = control ? control_of(s, rank) : &s->connections[rank];
  struct epoll_event event = {.events = EPOLLIN | (c->watched ? EPOLLOUT : 0), .data.u32 = index_of(s, c)};
  int domain = AF_UNSPEC;
  socklen_t bytes = sizeof domain;
  c->wanted = false;
  if (fd >= 0 && (c->gone || c->fd >= 0 || !tu_process_keep_own(fd))) close(fd), fd = -1;
  if (c->gone || c->fd >= 0) return;
  c->fd = fd;
  c->buffer = fd >= 0 ? malloc(BUFFER_BYTES) : NULL;
  if (c->buffer && epoll_ctl(s->wire.descriptor, EPOLL_CTL_ADD, fd, &event) == 0) {
    (void)getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes);
    c->local = domain == AF_UNIX;
    (void)drain(s, c);
  } else {
    end(s, c);
  }
}

static bool sockets_look(struct tu_wire *w) {
  struct sockets *s = sockets_of(w);
  struct epoll_event events[EVENTS];
  bool dials = s->dialer->restless;
  const uint64_t now = tu_clock_ns();
  if (s->recent && now - s->wide_ns < WIDE_NS && s->wire.unsent == 0 && !dials) return receive_all(s, s->recent);
  s->wide_ns = now;
  int count = epoll_wait(w->descriptor, events, EVENTS, 0);
  for (int i = 0; i < count; i++) {
    const uint32_t index = events[i].data.u32;
    struct connection *c = &s->connections[index];
    if (index == 2 * s->ranks) dials = true;
    if (index == 2 * s->ranks) continue;
    if (c->fd >= 0 && events[i].events & EPOLLOUT) (void)drain(s, c);
    (void)receive_all(s, c);
  }
  if (dials) s->dialer->ops->look(s->dialer, attach, s);
  return count > 0;
}

/* ---- creating and closing ---- */

/* Returns true if the host at the other end of a control connection is gone. */
static bool is_silent(struct connection *c) {
  const int idle_s = 1;
  struct tcp_info info = {0};
  socklen_t bytes = sizeof info;
  if (c->local || getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return false;
  if (info.tcpi_last_ack_recv < SUSPECT_MS) {
    c->suspected_ns = 0;
    return false;
  }
  const uint64_t now = tu_clock_ns();
  if (c->suspected_ns == 0) c->suspected_ns = now;
  if (info.tcpi_last_ack_recv >= SILENT_MS && now - c->suspected_ns >= (uint64_t)SUSPECTED_MS * NS_PER_MS) return true;
  if (now - c->asked_ns < (uint64_t)ASK_MS * NS_PER_MS) return false;
  /* If the connection has been idle for longer than this time already, the kernel asks at once. */
  (void)setsockopt(c->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  c->asked_ns = now;
  return false;
}

static bool sockets_alive(struct tu_wire *w, uint32_t rank) {
  struct sockets *s = sockets_of(w);
  const uint32_t *host = s->dialer->host;
  uint32_t r = host[rank];
  while (r < s->ranks && (host[r] != host[rank] || control_of(s, r)->fd < 0)) r++;
  if (r < s->ranks && is_silent(control_of(s, r))) lose_host(s, rank);
  return !s->connections[rank].gone;
}

static bool sockets_met(const struct tu_wire *w, uint32_t rank) {
  const struct sockets *s = const_sockets_of(w);
  return is_open(&s->connections[rank]) || is_open(&s->connections[s->ranks + rank]);
}

/* Sends the remaining frames. Reads and discards what arrives, because two ends that only send would wait for each
 * other. Returns true if the peer's host has received everything, or if the peer has closed. Before that, the socket
 * must not be closed: if something arrives for a closed socket, the kernel drops what it has not sent yet. */
static bool take_leave(struct sockets *s, struct connection *c, struct pollfd *watched) {
  unsigned char waste[4096];
  int left = 0;
  ssize_t n = 1;
  if (c->fd < 0 && c->wanted && c->out.first) *watched = (struct pollfd){.fd = s->dialer->descriptor, .events = POLLIN};
  if (c->fd < 0) return !c->wanted || !c->out.first;
  const bool sent = drain(s, c);
  while (n > 0) n = recv(c->fd, waste, sizeof waste, MSG_DONTWAIT);
  if (n == 0 || !is_temporary()) return true; /* the peer has closed */
  *watched = (struct pollfd){.fd = c->fd, .events = (short)(POLLIN | (sent ? 0 : POLLOUT))};
  return sent && (c->local || ioctl(c->fd, SIOCOUTQ, &left) != 0 || left == 0);
}

static void sockets_close(struct tu_wire *w, int timeout_ms) {
  struct sockets *s = sockets_of(w);
  struct pollfd *watched = tu_try_allocate(2 * s->ranks + 1, sizeof *watched);
  const uint64_t deadline = tu_clock_ns() + (uint64_t)timeout_ms * NS_PER_MS;
  for (bool all = false; watched && !all;) {
    uint64_t now = tu_clock_ns();
    nfds_t count = 0;
    all = true;
    s->dialer->ops->look(s->dialer, attach, s);
    /* What a silent host does not have is dropped. */
    for (uint32_t r = 0; r < s->ranks; r++)
      if (s->dialer->host[r] == r) (void)sockets_alive(w, r);
    for (uint32_t i = 0; i < 2 * s->ranks; i++)
      if (!take_leave(s, &s->connections[i], &watched[count])) all = false, count++;
    if (!all && now >= deadline) break;
    if (!all) (void)poll(watched, count, RECEIPT_MS);
  }
  for (uint32_t i = 0; i < 2 * s->ranks; i++) lose(s, &s->connections[i]);
  s->dialer->ops->close(s->dialer);
  if (w->descriptor >= 0) close(w->descriptor);
  free(watched);
  free(s);
}

static void sockets_cut(struct tu_wire *w) {
  struct sockets *s = sockets_of(w);
  for (uint32_t i = 0; i < 2 * s->ranks; i++)
    if (s->connections[i].fd >= 0) (void)shutdown(s->connections[i].fd, SHUT_RDWR);
}

static const struct tu_wire_ops sockets_ops = {
    .name = "sockets",
    .send = sockets_send,
    .reads = sockets_reads,
    .detach = sockets_detach,
    .skip = sockets_skip,
    .post = sockets_post,
    .gather = sockets_gather,
    .look = sockets_look,
    .alive = sockets_alive,
    .met = sockets_met,
    .cut = sockets_cut,
    .close = sockets_close,
};

tutti_err tu_wire_sockets(uint32_t ranks, struct tu_dialer *dialer, struct tu_wire **wire, struct tu_error *error) {
  struct sockets *s = calloc(1, sizeof *s + 2 * ranks * sizeof s->connections[0]);
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = 2 * ranks};
  if (!s) {
    dialer->ops->close(dialer);
    return tu_fail_memory(error, 2 * ranks * sizeof s->connections[0], "the connections to the other hosts of %u ranks",
                          ranks);
  }
  *s = (struct sockets){.wire = {.ops = &sockets_ops, .host = dialer->host}, .dialer = dialer, .ranks = ranks};
  for (uint32_t i = 0; i < 2 * ranks; i++) s->connections[i].fd = -1;
  s->wire.descriptor = epoll_create1(EPOLL_CLOEXEC);
  if (s->wire.descriptor >= 0 &&
      (dialer->descriptor < 0 || epoll_ctl(s->wire.descriptor, EPOLL_CTL_ADD, dialer->descriptor, &event) == 0)) {
    dialer->ops->look(dialer, attach, s);
    *wire = &s->wire;
    return TUTTI_OK;
  }
  tu_fail_errno(error, "epoll failed for the connections to the other hosts of %u ranks", ranks);
  sockets_close(&s->wire, 0);
  return error->code;
}
