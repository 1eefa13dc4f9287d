/* network.c: descriptors of the simulated system: sockets of bells, epolls, timers, wait descriptors of a fabric, and
 * connected stream sockets between ranks of different hosts. Bytes arrive later than they are sent, in order, in pieces of
 * any size. A connection ends like one of TCP: in order, or by a reset.
 *
 * A connection is named by one rank and a number: that of the peer, for data; that of the peer plus WORLD_RANKS_MAX, for
 * control. */
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "boot/dialer.h"
#include "tests/world/inside.h"

enum { DESCRIPTORS = 64, FIRST = 1 << 20, WATCHED_MAX = 16, PIECES = 64, BUFFER_BYTES = 1 << 16, QUEUE = 3, NAMED = 8 };
#define NEVER UINT64_MAX
/* The kernel of a host asks about an idle connection for control once per second. A silence may have begun so long after the
 * last answer. */
#define QUESTION_NS UINT64_C(1000000000)
#define NOTICED_NS UINT64_C(3000000000) /* a host that is gone has been noticed after that time */

enum { LINKS = 2 * WORLD_RANKS_MAX };

enum kind { UNUSED, BELL, EPOLL, SOCKET, DIALER, TIMER, WAIT };

struct descriptor {
  enum kind kind;
  uint32_t target;   /* BELL: its rank; SOCKET: the connection; WAIT: 1 if it is readable */
  uint64_t goes_off; /* TIMER: it is readable from then on; NEVER: it is not set */
  struct {
    int fd;
    struct epoll_event event;
  } watched[WATCHED_MAX];
  uint32_t count;
};

/* One direction of a connection. Numbers of bytes count from its beginning. */
struct stream {
  uint64_t sent, taken;
  struct {
    uint64_t end, at; /* the bytes up to number `end` arrive at this time */
  } pieces[PIECES];
  uint32_t first, last; /* numbers of the first piece that is kept, and of the next one */
  uint64_t arrived;     /* bytes of pieces that have arrived and are no longer kept */
  uint64_t ends_at;     /* the receiver sees the end of the stream; NEVER: it is open */
  bool shut;            /* the sender sends no more */
  bool vanishes;        /* what is sent from now on never arrives */
  unsigned char *bytes; /* ring of BUFFER_BYTES */
};

/* One end of a connection. */
struct end {
  uint64_t breaks_at; /* this end sees an error; NEVER: none */
  int error;
  bool closed; /* this end's descriptor is closed */
};

/* A connection that one rank has asked for. */
static struct making {
  bool called, accepted, taken; /* taken: the caller has its descriptor, or has given up */
  bool starts;                  /* made before the ranks begin */
  uint32_t caller;
  uint64_t arrives_at; /* of the call, at the other rank */
  uint64_t answer_at;  /* of the answer, at the caller; NEVER: none yet */
  bool refused;
} makings[LINKS][WORLD_RANKS_MAX]; /* [connection of the higher rank][higher rank] */

static bool ended[WORLD_RANKS_MAX]; /* the rank accepts no connections any more */

static struct descriptor descriptors[WORLD_RANKS_MAX][DESCRIPTORS];
static struct stream streams[WORLD_RANKS_MAX][LINKS]; /* [sender][connection] */
static struct end ends[WORLD_RANKS_MAX][LINKS];       /* [rank][connection] */
static uint32_t bells[WORLD_RANKS_MAX];               /* datagrams in the queue of each rank */
static struct silence {
  uint64_t
      from; /* the last answer came then; it may be before the start of the world, so it is compared as a difference */
  uint64_t until;
} silences[WORLD_HOSTS_MAX][WORLD_HOSTS_MAX];
static uint64_t latency;     /* of most bytes, in ns */
static uint64_t window;      /* bytes that a connection holds */
static uint64_t piece_bytes; /* most that one call sends or receives */

static uint32_t peer_of(uint32_t link) { return link % WORLD_RANKS_MAX; }
static bool is_control(uint32_t link) { return link >= WORLD_RANKS_MAX; }
/* Returns the peer's number of the connection that is `link` for this rank. */
static uint32_t back(uint32_t rank, uint32_t link) { return rank + (is_control(link) ? WORLD_RANKS_MAX : 0); }
static struct stream *stream_to(uint32_t rank, uint32_t link) { return &streams[peer_of(link)][back(rank, link)]; }
static struct end *other_end(uint32_t rank, uint32_t link) { return &ends[peer_of(link)][back(rank, link)]; }

static uint64_t at_most(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t at_least(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* ---- descriptors ---- */

static struct descriptor *find(int fd) {
  const uint32_t index = (uint32_t)fd - FIRST - world.current * DESCRIPTORS;
  struct descriptor *d = &descriptors[world.current][index % DESCRIPTORS];
  if (fd < FIRST || index >= DESCRIPTORS || d->kind == UNUSED) {
    world_fail("rank %u uses descriptor %d, which it does not have", world.current, fd);
    return NULL;
  }
  return d;
}

static int add(enum kind kind, uint32_t target) {
  for (uint32_t i = 0; i < DESCRIPTORS; i++) {
    struct descriptor *d = &descriptors[world.current][i];
    if (d->kind != UNUSED) continue;
    *d = (struct descriptor){.kind = kind, .target = target};
    return (int)(FIRST + world.current * DESCRIPTORS + i);
  }
  return errno = EMFILE, -1;
}

static bool has_bell(uint32_t rank) {
  uint32_t i = 0;
  while (i < DESCRIPTORS && descriptors[rank][i].kind != BELL) i++;
  return i < DESCRIPTORS;
}

uint32_t world_descriptors(uint32_t rank) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < DESCRIPTORS; i++) count += descriptors[rank][i].kind != UNUSED;
  return count;
}

/* ---- what can be read and written ---- */

static uint64_t arrived(struct stream *s) {
  for (; s->first < s->last && s->pieces[s->first % PIECES].at <= world.now; s->first++)
    s->arrived = s->pieces[s->first % PIECES].end;
  return s->arrived;
}

static bool is_broken(uint32_t rank, uint32_t link) { return ends[rank][link].breaks_at <= world.now; }

static bool may_receive(uint32_t rank, uint32_t link) {
  struct stream *s = stream_to(rank, link);
  return arrived(s) > s->taken || s->ends_at <= world.now || is_broken(rank, link);
}

static bool may_send(uint32_t rank, uint32_t link) {
  const struct stream *s = &streams[rank][link];
  return is_broken(rank, link) || (s->sent - s->taken < window && s->last - s->first < PIECES);
}

static uint64_t next_call(uint32_t rank, uint64_t from);

static uint32_t ready(uint32_t rank, int fd, uint32_t wanted) {
  const struct descriptor *d = find(fd);
  if (!d) return EPOLLERR;
  switch (d->kind) {
    case BELL: return bells[d->target] > 0 ? wanted & EPOLLIN : 0;
    case EPOLL:
      for (uint32_t i = 0; i < d->count; i++)
        if (ready(rank, d->watched[i].fd, d->watched[i].event.events)) return wanted & EPOLLIN;
      return 0;
    case DIALER: return next_call(rank, 0) <= world.now ? wanted & EPOLLIN : 0;
    case TIMER: return d->goes_off <= world.now ? wanted & EPOLLIN : 0;
    case WAIT: return d->target ? wanted & EPOLLIN : 0;
    default:
      return (may_receive(rank, d->target) ? wanted & EPOLLIN : 0) |
             (may_send(rank, d->target) ? wanted & EPOLLOUT : 0) | (is_broken(rank, d->target) ? EPOLLERR : 0);
  }
}

/* Returns when the network changes what a rank can read or write, by itself; NEVER: not until another rank acts. */
static uint64_t next_event(uint32_t rank) {
  uint64_t next = next_call(rank, world.now + 1);
  for (uint32_t i = 0; i < DESCRIPTORS; i++) {
    const struct descriptor *d = &descriptors[rank][i];
    if (d->kind == TIMER && d->goes_off > world.now) next = at_most(next, d->goes_off);
  }
  for (uint32_t link = 0; link < LINKS; link++) {
    const struct stream *s = stream_to(rank, link);
    const uint64_t times[] = {s->first < s->last ? s->pieces[s->first % PIECES].at : NEVER, s->ends_at,
                              ends[rank][link].breaks_at};
    for (int i = 0; i < 3; i++)
      if (times[i] > world.now) next = at_most(next, times[i]);
  }
  return next;
}

/* ---- connections ---- */

/* Returns when bytes that are sent now arrive: after those sent before, and not while nothing passes. */
static uint64_t arrival(uint32_t rank, uint32_t link) {
  const struct stream *s = &streams[rank][link];
  const uint64_t silent = silences[world.program->host[rank]][world.program->host[peer_of(link)]].until;
  uint64_t at = world.now + latency + (world_draw(20) ? world_draw(latency) : world_draw(50 * latency));
  if (silent == NEVER) return NEVER;
  if (silent > world.now) at = silent + world_draw(1 + (silent - world.now) / 2);
  if (s->last > s->first) at = at_least(at, s->pieces[(s->last - 1) % PIECES].at);
  return at;
}

static void break_end(uint32_t rank, uint32_t link, uint64_t at, int error) {
  struct end *e = &ends[rank][link];
  if (e->breaks_at <= at) return;
  *e = (struct end){.breaks_at = at, .error = error, .closed = e->closed};
  world_wake(rank, at);
}

/* Drops the last of the bytes that have not arrived: by chance all of them, or fewer. */
static void lose(struct stream *s) {
  (void)arrived(s);
  while (s->last > s->first && world_draw(3) > 0) s->last--;
  s->sent = s->last > s->first ? s->pieces[(s->last - 1) % PIECES].end : s->arrived;
}

/* An end is closed, by its rank or because the process has ended. Unread bytes make it a reset. */
static void close_end(uint32_t rank, uint32_t link) {
  struct stream *out = &streams[rank][link];
  const struct stream *in = stream_to(rank, link);
  struct end *e = &ends[rank][link];
  if (e->closed) return;
  e->closed = true;
  const bool resets = in->sent > in->taken;
  if (resets) lose(out);
  if (resets) break_end(peer_of(link), back(rank, link), arrival(rank, link), ECONNRESET);
  else if (!out->shut) world_wake(peer_of(link), out->ends_at = arrival(rank, link));
  out->shut = true;
}

/* ---- making connections ---- */

static void remove_descriptor(uint32_t rank, int fd) {
  descriptors[rank][((uint32_t)fd - FIRST) % DESCRIPTORS].kind = UNUSED;
  for (uint32_t i = 0; i < DESCRIPTORS; i++) {
    struct descriptor *epoll = &descriptors[rank][i];
    for (uint32_t k = epoll->kind == EPOLL ? epoll->count : 0; k-- > 0;)
      if (epoll->watched[k].fd == fd) epoll->watched[k] = epoll->watched[--epoll->count];
  }
}

static int close_descriptor(int fd) {
  const struct descriptor *d = find(fd);
  world_system_call();
  if (!d) return errno = EBADF, -1;
  if (d->kind == SOCKET) close_end(world.current, d->target);
  remove_descriptor(world.current, fd);
  return 0;
}

struct world_dialer {
  struct tu_dialer dialer; /* must be the first member */
  uint32_t rank;
};
static struct world_dialer dialers[WORLD_RANKS_MAX];
static uint32_t lowest_on_host[WORLD_RANKS_MAX];

static struct making *making_of(uint32_t rank, uint32_t link) {
  const bool higher = rank > peer_of(link);
  return higher ? &makings[link][rank] : &makings[back(rank, link)][peer_of(link)];
}

/* Returns the first time from `from` on when a call or an answer is there for this rank; NEVER: none is known. */
static uint64_t next_call(uint32_t rank, uint64_t from) {
  uint64_t next = NEVER;
  for (uint32_t link = 0; link < LINKS && !ended[rank]; link++) {
    const struct making *m = making_of(rank, link);
    const uint64_t at = m->caller == rank ? (m->taken ? NEVER : m->answer_at) : m->accepted ? NEVER : m->arrives_at;
    if (m->called && peer_of(link) != rank && at >= from) next = at_most(next, at);
  }
  return next;
}

static void answer(uint32_t rank, uint32_t link, struct making *m, bool refuses) {
  m->refused = refuses;
  m->answer_at = at_least(m->arrives_at, arrival(rank, link));
  world_wake(peer_of(link), m->answer_at);
}

static void dialer_want(struct tu_dialer *dialer, uint32_t peer, bool control) {
  const uint32_t rank = ((struct world_dialer *)(void *)dialer)->rank;
  const uint32_t link = peer + (control ? WORLD_RANKS_MAX : 0);
  struct making *m = making_of(rank, link);
  world_system_call();
  if (m->called) return;
  *m = (struct making){.called = true, .caller = rank, .arrives_at = arrival(rank, link), .answer_at = NEVER};
  if (ended[peer]) answer(peer, back(rank, link), m, true);
  else world_wake(peer, m->arrives_at);
}

static void dialer_look(struct tu_dialer *dialer, tu_dialer_made *made, void *context) {
  const uint32_t rank = ((struct world_dialer *)(void *)dialer)->rank;
  world_system_call();
  for (uint32_t link = 0; link < LINKS; link++) {
    struct making *m = making_of(rank, link);
    if (!m->called || peer_of(link) == rank) continue;
    if (m->caller == rank && !m->taken && m->answer_at <= world.now) {
      m->taken = true;
      made(context, peer_of(link), is_control(link), m->refused ? -1 : add(SOCKET, link));
    } else if (m->caller != rank && !m->accepted && m->arrives_at <= world.now) {
      m->accepted = true;
      if (!m->starts) answer(rank, link, m, false);
      made(context, peer_of(link), is_control(link), add(SOCKET, link));
    }
  }
}

/* The rank makes and accepts no more connections. */
static void stop_dialing(uint32_t rank) {
  ended[rank] = true;
  for (uint32_t link = 0; link < LINKS; link++) {
    struct making *m = making_of(rank, link);
    if (!m->called || peer_of(link) == rank) continue;
    if (m->caller == rank && !m->accepted && !m->starts) m->caller = peer_of(link); /* which may want it, too */
    if (m->caller != rank && !m->accepted && !m->starts) answer(rank, link, m, true);
    if (m->caller == rank && !m->taken && m->accepted && !m->refused) close_end(rank, link);
    if (m->starts) close_end(rank, link);
    if (m->caller == rank) m->taken = true;
    if (m->caller != rank || !m->starts) m->accepted = true;
  }
}

static void dialer_close(struct tu_dialer *dialer) {
  const struct world_dialer *d = (struct world_dialer *)(void *)dialer;
  stop_dialing(d->rank);
  (void)close_descriptor(dialer->descriptor);
}

struct tu_dialer *world_dialer(uint32_t rank) {
  static const struct tu_dialer_ops ops = {dialer_want, dialer_look, dialer_close};
  dialers[rank] = (struct world_dialer){
      .dialer = {.ops = &ops, .host = lowest_on_host, .descriptor = add(DIALER, rank)}, .rank = rank};
  return &dialers[rank].dialer;
}

/* Makes the connections that exist from the start. */
static void connect_counterparts(const struct world_program *p) {
  bool counterparts[WORLD_RANKS_MAX];
  for (uint32_t r = p->ranks; r-- > 0;)
    for (uint32_t low = r + 1; low-- > 0;)
      if (p->host[low] == p->host[r]) lowest_on_host[r] = low;
  for (uint32_t rank = 0; rank < p->ranks; rank++) {
    tu_dialer_counterparts(lowest_on_host, p->ranks, rank, counterparts);
    for (uint32_t r = 0; r < rank; r++)
      if (counterparts[r])
        *making_of(rank, r + WORLD_RANKS_MAX) = (struct making){.called = true, .starts = true, .caller = rank};
  }
}

/* ---- the beginning, and faults ---- */

void world_network_reset(void) {
  static const uint64_t windows[] = {1000, 4096, 16384, BUFFER_BYTES};
  memset(descriptors, 0, sizeof descriptors);
  memset(bells, 0, sizeof bells);
  memset(silences, 0, sizeof silences);
  memset(makings, 0, sizeof makings);
  memset(ended, 0, sizeof ended);
  latency = 1000u << world_draw(5);
  window = windows[world_draw(4)];
  piece_bytes = world_draw(2) ? UINT64_MAX : 200 + world_draw(2000);
  for (uint32_t a = 0; a < WORLD_RANKS_MAX; a++)
    for (uint32_t b = 0; b < LINKS; b++) {
      unsigned char *bytes = streams[a][b].bytes;
      streams[a][b] = (struct stream){.ends_at = NEVER, .bytes = bytes ? bytes : malloc(BUFFER_BYTES)};
      ends[a][b] = (struct end){.breaks_at = NEVER};
      if (!streams[a][b].bytes) abort();
    }
  connect_counterparts(world.program);
}

void world_network_end(uint32_t rank) {
  for (uint32_t i = 0; i < DESCRIPTORS; i++)
    if (descriptors[rank][i].kind == SOCKET) close_end(rank, descriptors[rank][i].target);
  memset(descriptors[rank], 0, sizeof descriptors[rank]);
  stop_dialing(rank);
}

static void cut(uint32_t rank, uint32_t link) {
  lose(&streams[rank][link]);
  lose(stream_to(rank, link));
  streams[rank][link].vanishes = stream_to(rank, link)->vanishes = true;
  break_end(rank, link, arrival(peer_of(link), back(rank, link)), ECONNRESET);
  break_end(peer_of(link), back(rank, link), arrival(rank, link), ECONNRESET);
}

void world_network_cut(uint32_t rank, uint32_t peer) {
  const uint64_t which = world_draw(3);
  for (uint32_t link = peer; link < LINKS; link += WORLD_RANKS_MAX)
    if (making_of(rank, link)->called && which != (is_control(link) ? 1 : 2)) cut(rank, link);
}

/* The bytes that are under way wait as well. */
static void delay(struct stream *s, uint64_t until) {
  (void)arrived(s);
  for (uint32_t i = s->first; i < s->last; i++) s->pieces[i % PIECES].at = at_least(s->pieces[i % PIECES].at, until);
  if (s->ends_at != NEVER && s->ends_at > world.now) s->ends_at = at_least(s->ends_at, until);
}

/* Nothing passes over a connection until then; NEVER: what is under way never arrives. */
static void fall_silent(uint32_t rank, uint32_t link, uint64_t until) {
  struct making *m = making_of(rank, link);
  if (m->called && !m->accepted && !m->starts) m->arrives_at = at_least(m->arrives_at, until);
  if (m->called && !m->taken && !m->starts && m->answer_at != NEVER) m->answer_at = at_least(m->answer_at, until);
  delay(&streams[rank][link], until);
  if (until == NEVER) streams[rank][link].vanishes = true;
}

uint64_t world_network_silence(uint32_t host, uint32_t other, uint64_t ns) {
  const struct world_program *p = world.program;
  const uint64_t until = ns == NEVER ? NEVER : world.now + ns;
  struct silence *silence = &silences[host][other], *back = &silences[other][host];
  if (silence->until <= world.now) silence->from = back->from = world.now - world_draw(QUESTION_NS);
  silence->until = back->until = at_least(silence->until, until);
  for (uint32_t a = 0; a < p->ranks; a++)
    for (uint32_t link = 0; link < LINKS; link++) {
      const uint32_t b = peer_of(link);
      if (b >= p->ranks) continue;
      if ((p->host[a] == host && p->host[b] == other) || (p->host[a] == other && p->host[b] == host))
        fall_silent(a, link, until);
    }
  return ns == NEVER ? world.now + NOTICED_NS : until + ns / 2;
}

/* ---- the system calls of the copies (linked with --wrap) ---- */

int __wrap_epoll_create1(int flags);
int __wrap_epoll_create1(int flags) {
  (void)flags;
  world_system_call();
  return add(EPOLL, 0);
}

int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) {
  struct descriptor *d = find(epoll);
  world_system_call();
  if (!d || !find(fd)) return errno = EBADF, -1;
  uint32_t i = 0;
  while (i < d->count && d->watched[i].fd != fd) i++;
  if ((operation == EPOLL_CTL_ADD) != (i == d->count)) return errno = i == d->count ? ENOENT : EEXIST, -1;
  if (operation == EPOLL_CTL_DEL) {
    d->watched[i] = d->watched[--d->count];
    return 0;
  }
  if (i == WATCHED_MAX) return errno = ENOSPC, -1;
  d->watched[i].fd = fd;
  d->watched[i].event = *event;
  d->count += i == d->count;
  return 0;
}

static uint64_t end_of(int timeout_ms) { return timeout_ms < 0 ? NEVER : world.now + (uint64_t)timeout_ms * 1000000; }

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int room, int timeout_ms);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int room, int timeout_ms) {
  const uint64_t until = end_of(timeout_ms);
  world_system_call();
  for (;;) {
    const struct descriptor *d = find(epoll);
    int count = 0;
    if (!d) return errno = EBADF, -1;
    for (uint32_t i = 0; i < d->count && count < room; i++) {
      const uint32_t now = ready(world.current, d->watched[i].fd, d->watched[i].event.events);
      if (now == 0) continue;
      events[count] = d->watched[i].event;
      events[count++].events = now;
    }
    if (count > 0 || world.now >= until) return count;
    world_sleep_for(until, next_event(world.current));
  }
}

int __wrap_poll(struct pollfd *watched, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *watched, nfds_t count, int timeout_ms) {
  const uint64_t until = end_of(timeout_ms);
  world_system_call();
  for (;;) {
    int found = 0;
    for (nfds_t i = 0; i < count; i++) {
      const uint32_t wanted = (watched[i].events & POLLIN ? EPOLLIN : 0) | (watched[i].events & POLLOUT ? EPOLLOUT : 0);
      const uint32_t now = ready(world.current, watched[i].fd, wanted);
      watched[i].revents =
          (short)((now & EPOLLIN ? POLLIN : 0) | (now & EPOLLOUT ? POLLOUT : 0) | (now & EPOLLERR ? POLLERR : 0));
      found += watched[i].revents != 0;
    }
    if (found > 0 || world.now >= until) return found;
    world_sleep_for(until, next_event(world.current));
  }
}

int __wrap_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags) {
  (void)clock, (void)flags;
  world_system_call();
  const int fd = add(TIMER, 0);
  if (fd >= 0) find(fd)->goes_off = NEVER;
  return fd;
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *old) {
  struct descriptor *d = find(fd);
  const uint64_t ns = (uint64_t)at->it_value.tv_sec * 1000000000 + (uint64_t)at->it_value.tv_nsec;
  world_system_call();
  if (!d || d->kind != TIMER || flags != 0 || old || at->it_interval.tv_sec || at->it_interval.tv_nsec)
    return errno = EINVAL, -1;
  d->goes_off = ns ? world.now + ns : NEVER;
  return 0;
}

/* Keys of registered memory. A seed has the same ones in each run. */
ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned flags) {
  (void)flags;
  world_system_call();
  for (size_t i = 0; i < bytes; i++) ((unsigned char *)to)[i] = (unsigned char)world_draw(256);
  return (ssize_t)bytes;
}

/* Wait descriptors are made and closed by calls of the fabric, which have taken their time. */
int world_wait_open(void) {
  const int fd = add(WAIT, 0);
  return fd < 0 ? -errno : fd;
}

void world_wait_set(int fd, bool readable) {
  const uint32_t at = (uint32_t)fd - FIRST;
  descriptors[at / DESCRIPTORS][at % DESCRIPTORS].target = readable;
  if (readable) world_wake(at / DESCRIPTORS, world.now);
}

void world_wait_close(int fd) { remove_descriptor(((uint32_t)fd - FIRST) / DESCRIPTORS, fd); }

/* The socket of a rank's bell. Its name is the rank's number. */
int __wrap_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol) {
  (void)protocol;
  world_system_call();
  if (domain != AF_UNIX || type != (SOCK_DGRAM | SOCK_CLOEXEC)) return errno = EINVAL, -1;
  return add(BELL, world.current);
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes) {
  const struct descriptor *d = find(fd);
  if (!d || d->kind != BELL || address->sa_family != AF_UNIX || bytes != sizeof address->sa_family)
    return errno = EINVAL, -1;
  return 0;
}

int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *bytes);
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *bytes) {
  const struct descriptor *d = find(fd);
  if (!d || d->kind != BELL || *bytes < NAMED) return errno = EINVAL, -1;
  address->sa_family = AF_UNIX;
  memcpy(address->sa_data, (const char[NAMED - 2]){'\0', (char)d->target}, NAMED - 2);
  *bytes = NAMED;
  return 0;
}

ssize_t __wrap_sendto(int fd, const void *from, size_t bytes, int flags, const struct sockaddr *to, socklen_t to_bytes);
ssize_t __wrap_sendto(int fd, const void *from, size_t bytes, int flags, const struct sockaddr *to,
                      socklen_t to_bytes) {
  const struct descriptor *d = find(fd);
  (void)from, (void)flags;
  world_system_call();
  if (!d || d->kind != BELL || bytes > 0 || to_bytes != NAMED) return errno = EINVAL, -1;
  const uint32_t rank = (uint32_t)to->sa_data[1];
  if (!has_bell(rank)) return errno = ECONNREFUSED, -1;
  if (bells[rank] == QUEUE) return errno = EAGAIN, -1;
  bells[rank]++;
  world_wake(rank, world.now);
  return 0;
}

int __wrap_close(int fd);
int __wrap_close(int fd) { return fd < FIRST ? close(fd) : close_descriptor(fd); }

int __wrap_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how) {
  const struct descriptor *d = find(fd);
  world_system_call();
  if (!d || how != SHUT_WR) return errno = EINVAL, -1;
  if (is_broken(world.current, d->target)) return errno = ENOTCONN, -1;
  struct stream *s = &streams[world.current][d->target];
  if (!s->shut) world_wake(peer_of(d->target), s->ends_at = arrival(world.current, d->target));
  s->shut = true;
  return 0;
}

/* Copies bytes to or from the ring of a stream, from number `at` on. */
static void copy(const struct stream *s, uint64_t at, void *bytes, uint64_t count, bool in) {
  const uint64_t first = at_most(count, BUFFER_BYTES - at % BUFFER_BYTES);
  unsigned char *here[] = {s->bytes + at % BUFFER_BYTES, s->bytes}, *there[] = {bytes, (unsigned char *)bytes + first};
  const uint64_t counts[] = {first, count - first};
  for (int i = 0; i < 2; i++) memcpy(in ? here[i] : there[i], in ? there[i] : here[i], counts[i]);
}

/* Sends the beginning of the message. A peer that has closed its end answers with a reset. */
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags) {
  const struct descriptor *d = find(fd);
  (void)flags;
  world_system_call();
  if (!d) return errno = EBADF, -1;
  const uint32_t rank = world.current, link = d->target;
  struct stream *s = &streams[rank][link];
  if (s->shut || is_broken(rank, link)) return errno = EPIPE, -1;
  if (!may_send(rank, link)) return errno = EAGAIN, -1;
  const uint64_t room = at_most(window - (s->sent - s->taken), 1 + world_draw(piece_bytes));
  uint64_t count = 0;
  for (size_t part = 0; part < message->msg_iovlen; part++) {
    const uint64_t bytes = at_most(message->msg_iov[part].iov_len, room - count);
    copy(s, s->sent + count, message->msg_iov[part].iov_base, bytes, true);
    count += bytes;
  }
  const uint64_t at = arrival(rank, link);
  if (s->vanishes) return (ssize_t)count;
  s->sent += count;
  s->pieces[s->last % PIECES].end = s->sent;
  s->pieces[s->last++ % PIECES].at = at;
  if (other_end(rank, link)->closed) break_end(rank, link, at, ECONNRESET);
  else if (ends[rank][link].breaks_at == NEVER) world_wake(peer_of(link), at);
  return (ssize_t)count;
}

/* Number of bytes that the peer's host has not received. */
int __wrap_ioctl(int fd, unsigned long request, int *value);
int __wrap_ioctl(int fd, unsigned long request, int *value) {
  const struct descriptor *d = find(fd);
  world_system_call();
  if (!d || d->kind != SOCKET || request != SIOCOUTQ) return errno = EINVAL, -1;
  struct stream *s = &streams[world.current][d->target];
  *value = (int)(s->sent - arrived(s));
  return 0;
}

/* Tells the family of a socket, and how long ago the other host has acknowledged something. */
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes) {
  const struct descriptor *d = find(fd);
  world_system_call();
  if (d && level == IPPROTO_TCP && option == TCP_INFO && *bytes >= sizeof(struct tcp_info)) {
    const struct silence *silence =
        &silences[world.program->host[world.current]][world.program->host[peer_of(d->target)]];
    struct tcp_info *info = value;
    *info = (struct tcp_info){0};
    if (silence->until > world.now) info->tcpi_last_ack_recv = (uint32_t)((world.now - silence->from) / 1000000);
    return 0;
  }
  if (!d || level != SOL_SOCKET || option != SO_DOMAIN) return errno = EINVAL, -1;
  *(int *)value = AF_INET;
  return 0;
}

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes) {
  (void)value, (void)bytes;
  if (!find(fd) || level != IPPROTO_TCP || option != TCP_KEEPIDLE) return errno = EINVAL, -1;
  return 0;
}

ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags) {
  const struct descriptor *d = find(fd);
  (void)flags;
  world_system_call();
  if (!d) return errno = EBADF, -1;
  if (d->kind == BELL) return bells[d->target] > 0 ? bells[d->target]--, 0 : (errno = EAGAIN, -1);
  const uint32_t rank = world.current, link = d->target;
  struct stream *s = stream_to(rank, link);
  const uint64_t count = at_most(at_most(arrived(s) - s->taken, bytes), 1 + world_draw(piece_bytes));
  if (count == 0 && is_broken(rank, link)) return errno = ends[rank][link].error, -1;
  if (count == 0 && s->ends_at > world.now) return errno = EAGAIN, -1;
  copy(s, s->taken, to, count, false);
  s->taken += count;
  if (count > 0) world_wake(peer_of(link), world.now);
  return (ssize_t)count;
}
