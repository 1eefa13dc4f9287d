/* boot_join.c: the star. Rank 0 listens, the others come. Rank 0 is one poll loop, so that nobody waits for the
 * slowest and a stranger at the port (silent, noisy or hostile) costs a place among the guests and nothing else.
 * A failure anywhere becomes rank 0's verdict, which every rank that has joined is told. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "boot/boot_wire.h"

/* A rank's hello follows its connection at once, so places among the guests are short-lived; the oldest is
 * put out when a new one comes and all are taken. */
enum { GUESTS_MAX = 128, GUEST_MS = 5000, ACCEPTS_MAX = 256 };
/* Rank 0's verdict about a timeout may be under way when a rank's own time is over. */
enum { VERDICT_MS = 1000 };

/* ---- both sides ---- */

static void place_name(const struct tu_boot_place *place, char *name, size_t bytes) {
  snprintf(name, bytes, "%.255s:%u", place->address, place->port);
}

static tutti_err resolve(const struct tu_boot_place *place, bool passive, struct addrinfo **found,
                         struct tu_error *error) {
  char port[8];
  snprintf(port, sizeof port, "%u", place->port);
  struct addrinfo hints = {
      .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0)};
  int failed = getaddrinfo(place->address, port, &hints, found);
  if (failed == 0) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "MASTER_ADDR '%s' is no address that this host can find: %s",
                 place->address, gai_strerror(failed));
}

/* The failure that a note from the other end reports. */
static tutti_err fail_as_told(const struct tu_boot_note *note, const char *who, struct tu_error *error) {
  bool known = note->code > TUTTI_OK && note->code <= TUTTI_ERR_UNSUPPORTED;
  return tu_fail(error, known ? (tutti_err)note->code : TUTTI_ERR_PEER, "%s%.490s", who, note->text);
}

/* ---- rank 0 ---- */

struct guest {
  int fd;     /* -1: a free place */
  bool local; /* came for the memory, over the UNIX socket */
  uint64_t came_ns;
  size_t got;
  struct tu_boot_hello hello;
};

struct peer {
  struct tu_boot_line line; /* fd -1: has not come */
  struct tu_boot_hello hello;
  bool has_memory;
};

struct star {
  const struct tu_boot_place *place;
  char name[264]; /* address:port */
  struct tu_boot_hello own;
  int listener, local_listener;
  struct peer *peers; /* one a rank; rank 0's is unused */
  uint32_t joined, supplied;
  struct guest guests[GUESTS_MAX];
  struct pollfd *polled;
  uint64_t deadline_ns;
  uint32_t timeout_ms; /* of the rank whose patience ends first */
  struct tu_boot_offer offer;
  struct tu_boot_share share;
  uint32_t refusals;
  char refused[160]; /* why the last one was */
};

static int listen_at(const struct addrinfo *at) {
  int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  int one = 1;
  /* The launcher keeps the port bound for us, and an earlier job's connections may linger on it. */
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
  int why = errno;
  close(fd);
  errno = why;
  return -1;
}

static tutti_err star_listen(struct star *star, struct tu_error *error) {
  struct addrinfo *found;
  tutti_err err = resolve(star->place, true, &found, error);
  if (err != TUTTI_OK) return err;
  errno = 0;
  for (const struct addrinfo *at = found; at && star->listener < 0; at = at->ai_next) star->listener = listen_at(at);
  int why = errno;
  freeaddrinfo(found);
  if (star->listener >= 0) return TUTTI_OK;
  const char *advice = "";
  if (why == EADDRINUSE) advice = " (another program has that port: choose another)";
  if (why == EADDRNOTAVAIL) advice = " (rank 0 must run on the host that MASTER_ADDR names)";
  errno = why;
  return tu_fail_errno(error, "rank 0 cannot listen at %s%s", star->name, advice);
}

/* Blank, but for its tables. */
static tutti_err star_init(struct star *star, const struct tu_boot_place *place, int timeout_ms,
                           struct tu_error *error) {
  star->place = place;
  place_name(place, star->name, sizeof star->name);
  star->listener = star->local_listener = star->share.memory_fd = -1;
  star->timeout_ms = (uint32_t)timeout_ms;
  star->deadline_ns = tu_clock_ns() + (uint64_t)timeout_ms * 1000000;
  tu_boot_hello_init(&star->own, place, timeout_ms);
  for (int i = 0; i < GUESTS_MAX; i++) star->guests[i].fd = -1;
  for (uint32_t r = 0; r < place->ranks; r++) star->peers[r].line.fd = -1;
  return star_listen(star, error);
}

static void star_fini(struct star *star) {
  for (int i = 0; i < GUESTS_MAX; i++) tu_boot_close(&star->guests[i].fd);
  for (uint32_t r = 0; r < star->place->ranks; r++) tu_boot_close(&star->peers[r].line.fd);
  tu_boot_close(&star->listener);
  tu_boot_close(&star->local_listener);
  tu_boot_close(&star->share.memory_fd);
  free(star->peers);
  free(star->polled);
}

static void star_tell_all(struct star *star, enum tu_boot_kind kind, const struct tu_error *error) {
  struct tu_boot_note note;
  tu_boot_note_init(&note, kind, error);
  note.offer = star->offer;
  /* Who cannot be told is dead, and the next look at its connection says so. */
  for (uint32_t r = 1; r < star->place->ranks; r++) {
    if (star->peers[r].line.fd >= 0) (void)tu_boot_send(star->peers[r].line.fd, &note, sizeof note);
  }
}

/* Appends "1, 2, 5-9": the ranks for which the star still waits. */
static void list_missing(const struct star *star, bool memory, char *list, size_t bytes) {
  uint32_t ranks = star->place->ranks;
  size_t length = 0;
  list[0] = '\0';
  for (uint32_t r = 1; r < ranks;) {
    uint32_t end = r;
    while (end < ranks && (memory ? !star->peers[end].has_memory : star->peers[end].line.fd < 0)) end++;
    if (end == r) {
      r++;
      continue;
    }
    if (length + 40 > bytes) {
      snprintf(list + length, bytes - length, ", ...");
      return;
    }
    const char *comma = length ? ", " : "";
    if (end - r == 1) length += (size_t)snprintf(list + length, bytes - length, "%s%u", comma, r);
    else if (end - r == 2) length += (size_t)snprintf(list + length, bytes - length, "%s%u, %u", comma, r, r + 1);
    else length += (size_t)snprintf(list + length, bytes - length, "%s%u-%u", comma, r, end - 1);
    r = end;
  }
}

static tutti_err star_timeout(const struct star *star, bool memory, struct tu_error *error) {
  char list[160], refused[224] = "";
  list_missing(star, memory, list, sizeof list);
  uint32_t ranks = star->place->ranks, missing = ranks - 1 - (memory ? star->supplied : star->joined);
  if (star->refusals && !memory) {
    snprintf(refused, sizeof refused, "; %u join%s refused, the last because %s", star->refusals,
             star->refusals == 1 ? " was" : "s were", star->refused);
  }
  return tu_fail(error, TUTTI_ERR_TIMEOUT, "waited %u ms at %s for rank%s %s of %u%s%s", star->timeout_ms, star->name,
                 missing == 1 ? "" : "s", list, ranks, memory ? " to take the shared memory" : "", refused);
}

/* Tells a guest why it cannot stay. The job goes on. */
static void star_refuse(struct star *star, struct guest *guest, const char *reason) {
  star->refusals++;
  snprintf(star->refused, sizeof star->refused, "%s", reason);
  struct tu_error refusal;
  tu_fail(&refusal, TUTTI_ERR_PEER, "the job at %s refused rank %u: %s", star->name, guest->hello.rank, reason);
  struct tu_boot_note note;
  tu_boot_note_init(&note, TU_BOOT_FAILED, &refusal);
  (void)tu_boot_send(guest->fd, &note, sizeof note);
  tu_boot_close(&guest->fd);
}

/* A guest that has the secret belongs to the job: if it does not fit in, the job is set up wrongly and fails. */
static tutti_err star_misfit(const struct star *star, const struct tu_boot_hello *hello, struct tu_error *error) {
  uint32_t ranks = star->place->ranks;
  if (hello->ranks != ranks) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                   "rank %u (pid %u) was told WORLD_SIZE %u, rank 0 (pid %u) %u: all "
                   "ranks of a job need the same",
                   hello->rank, hello->pid, hello->ranks, star->own.pid, ranks);
  }
  if (hello->rank >= ranks) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "pid %u says it is rank %u of %u", hello->pid, hello->rank, ranks);
  }
  if (hello->rank == 0 || star->peers[hello->rank].line.fd >= 0) {
    const struct tu_boot_hello *other = hello->rank ? &star->peers[hello->rank].hello : &star->own;
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                   "two processes say they are rank %u: pid %u on '%.63s' and pid %u on "
                   "'%.63s'",
                   hello->rank, other->pid, other->hostname, hello->pid, hello->hostname);
  }
  if (hello->host != star->own.host) {
    return tu_fail(error, TUTTI_ERR_UNSUPPORTED,
                   "rank %u (pid %u on '%.63s') is not on the host, or in the container, "
                   "of rank 0 (pid %u on '%.63s'): ranks of one host only can share memory",
                   hello->rank, hello->pid, hello->hostname, star->own.pid, star->own.hostname);
  }
  if (hello->uid != star->own.uid) {
    return tu_fail(error, TUTTI_ERR_PEER,
                   "rank %u (pid %u) runs as user %u, rank 0 (pid %u) as user %u: all ranks "
                   "must run as one user",
                   hello->rank, hello->pid, hello->uid, star->own.pid, star->own.uid);
  }
  return TUTTI_OK;
}

/* A whole hello has come: the guest becomes a rank, or goes. */
static tutti_err star_admit(struct star *star, struct guest *guest, struct tu_error *error) {
  struct tu_boot_hello *hello = &guest->hello;
  hello->hostname[sizeof hello->hostname - 1] = '\0';
  if (hello->version != TU_BOOT_VERSION) {
    char reason[96];
    snprintf(reason, sizeof reason, "it speaks version %u of the protocol, this job version %u", hello->version,
             (unsigned)TU_BOOT_VERSION);
    star_refuse(star, guest, reason);
    return TUTTI_OK;
  }
  if (!tu_boot_equal(hello->secret, star->own.secret, sizeof hello->secret)) {
    star_refuse(star, guest, hello->secret[0] ? "its TUTTI_SECRET is not the job's" : "it has no TUTTI_SECRET");
    return TUTTI_OK;
  }
  tutti_err err = star_misfit(star, hello, error);
  struct tu_boot_note note;
  tu_boot_note_init(&note, err == TUTTI_OK ? TU_BOOT_WELCOME : TU_BOOT_FAILED, err == TUTTI_OK ? NULL : error);
  (void)tu_boot_send(guest->fd, &note, sizeof note);
  if (err != TUTTI_OK) {
    tu_boot_close(&guest->fd);
    return err;
  }
  struct peer *peer = &star->peers[hello->rank];
  peer->hello = *hello;
  peer->line.fd = guest->fd;
  guest->fd = -1;
  star->joined++;
  uint64_t deadline = tu_clock_ns() + (uint64_t)hello->left_ms * 1000000;
  if (deadline < star->deadline_ns) {
    star->deadline_ns = deadline;
    star->timeout_ms = hello->timeout_ms;
  }
  return TUTTI_OK;
}

/* A guest has come for the memory. A rank that asks without having a right to gets its connection closed. */
static void star_supply(struct star *star, struct guest *guest) {
  uint32_t rank;
  (void)tu_boot_memory_give(guest->fd, &star->offer, star->share.memory_fd, &rank);
  tu_boot_close(&guest->fd);
}

static tutti_err star_hear_guest(struct star *star, struct guest *guest, struct tu_error *error) {
  if (guest->local) {
    star_supply(star, guest);
    return TUTTI_OK;
  }
  size_t magic_bytes = sizeof guest->hello.magic;
  while (guest->got < sizeof guest->hello) {
    ssize_t n = recv(guest->fd, (char *)&guest->hello + guest->got, sizeof guest->hello - guest->got, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n > 0) guest->got += (size_t)n;
    size_t known = tu_min(guest->got, magic_bytes);
    if (n <= 0 || memcmp(guest->hello.magic, TU_BOOT_MAGIC, known) != 0) {
      tu_boot_close(&guest->fd);
      return TUTTI_OK;
    }
  }
  return guest->got == sizeof guest->hello ? star_admit(star, guest, error) : TUTTI_OK;
}

static struct guest *star_free_place(struct star *star) {
  struct guest *oldest = &star->guests[0];
  for (int i = 0; i < GUESTS_MAX; i++) {
    struct guest *guest = &star->guests[i];
    if (guest->fd < 0) return guest;
    if (guest->came_ns < oldest->came_ns) oldest = guest;
  }
  tu_boot_close(&oldest->fd);
  return oldest;
}

/* Takes the connections that wait, but not for ever. Each is heard at once: a rank's hello is there as a rule, and it
 * needs no place. */
static tutti_err star_accept(struct star *star, int listener, bool local, struct tu_error *error) {
  for (int n = 0; n < ACCEPTS_MAX; n++) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        return tu_fail_errno(error, "rank 0 cannot take the connection of another rank (%u of %u are here)",
                             star->joined + 1, star->place->ranks);
      }
      return TUTTI_OK; /* nobody waits, or the connection broke before it was taken */
    }
    if (local && !tu_boot_memory_same_user(fd)) {
      close(fd);
      continue;
    }
    struct guest *guest = star_free_place(star);
    *guest = (struct guest){.fd = fd, .local = local, .came_ns = tu_clock_ns()};
    struct pollfd heard = {.fd = fd, .events = POLLIN};
    if (poll(&heard, 1, 0) <= 0) continue;
    tutti_err err = star_hear_guest(star, guest, error);
    if (err != TUTTI_OK) return err;
  }
  return TUTTI_OK;
}

static tutti_err star_hear_peer(struct star *star, uint32_t rank, struct tu_error *error) {
  struct peer *peer = &star->peers[rank];
  switch (tu_boot_take(&peer->line)) {
    case TU_BOOT_NOT_YET: return TUTTI_OK;
    case TU_BOOT_GONE: break;
    case TU_BOOT_TAKEN:
      if (peer->line.note.kind == TU_BOOT_HAVE && !peer->has_memory) {
        peer->has_memory = true;
        star->supplied++;
        return TUTTI_OK;
      }
      if (peer->line.note.kind != TU_BOOT_FAILED) break;
      char who[24];
      snprintf(who, sizeof who, "rank %u: ", rank);
      return fail_as_told(&peer->line.note, who, error);
  }
  tu_boot_close(&peer->line.fd);
  return tu_fail(error, TUTTI_ERR_PEER, "rank %u (pid %u) died or left while the job was joining at %s", rank,
                 peer->hello.pid, star->name);
}

static nfds_t star_poll_set(struct star *star) {
  nfds_t n = 0;
  star->polled[n++] = (struct pollfd){.fd = star->listener, .events = POLLIN};
  star->polled[n++] = (struct pollfd){.fd = star->local_listener, .events = POLLIN};
  /* Negative descriptors are skipped by poll, so that places and indices agree. */
  for (int i = 0; i < GUESTS_MAX; i++) {
    star->polled[n++] = (struct pollfd){.fd = star->guests[i].fd, .events = POLLIN};
  }
  for (uint32_t r = 1; r < star->place->ranks; r++) {
    star->polled[n++] = (struct pollfd){.fd = star->peers[r].line.fd, .events = POLLIN};
  }
  return n;
}

static void star_expire(struct star *star) {
  uint64_t now = tu_clock_ns();
  for (int i = 0; i < GUESTS_MAX; i++) {
    struct guest *guest = &star->guests[i];
    if (guest->fd >= 0 && now - guest->came_ns > GUEST_MS * UINT64_C(1000000)) tu_boot_close(&guest->fd);
  }
}

/* Waits for something to come and deals with all of it. */
static tutti_err star_step(struct star *star, struct tu_error *error) {
  nfds_t count = star_poll_set(star);
  int wait_ms = tu_boot_left_ms(star->deadline_ns);
  int ready = poll(star->polled, count, wait_ms < GUEST_MS ? wait_ms : GUEST_MS);
  if (ready < 0 && errno != EINTR) return tu_fail_errno(error, "rank 0 cannot wait for the other ranks (poll)");
  star_expire(star);
  if (ready <= 0) return TUTTI_OK;

  tutti_err err = TUTTI_OK;
  const struct pollfd *polled = star->polled + 2;
  for (int i = 0; i < GUESTS_MAX && err == TUTTI_OK; i++) {
    if (polled[i].revents && star->guests[i].fd >= 0) err = star_hear_guest(star, &star->guests[i], error);
  }
  polled += GUESTS_MAX - 1; /* rank r is at polled[r] */
  for (uint32_t r = 1; r < star->place->ranks && err == TUTTI_OK; r++) {
    if (polled[r].revents) err = star_hear_peer(star, r, error);
  }
  if (err == TUTTI_OK && star->polled[0].revents) err = star_accept(star, star->listener, false, error);
  if (err == TUTTI_OK && star->polled[1].revents) err = star_accept(star, star->local_listener, true, error);
  return err;
}

/* Runs the loop until every rank has joined, or (memory) has got the memory. */
static tutti_err star_run(struct star *star, bool memory, struct tu_error *error) {
  uint32_t others = star->place->ranks - 1;
  while ((memory ? star->supplied : star->joined) < others) {
    if (tu_boot_left_ms(star->deadline_ns) == 0) return star_timeout(star, memory, error);
    tutti_err err = star_step(star, error);
    if (err != TUTTI_OK) return err;
  }
  return TUTTI_OK;
}

static tutti_err star_share(struct star *star, struct tu_error *error) {
  tutti_err err = tu_boot_memory_make(star->place->ranks, &star->share, error);
  if (err != TUTTI_OK) return err;
  err = tu_boot_memory_listen(star->share.slice_bytes, &star->offer, &star->local_listener, error);
  if (err != TUTTI_OK) return err;
  star_tell_all(star, TU_BOOT_START, NULL);
  return star_run(star, true, error);
}

static tutti_err join_as_host(const struct tu_boot_place *place, int timeout_ms, struct tu_boot_share *share,
                              struct tu_error *error) {
  struct star *star = tu_try_allocate(1, sizeof *star);
  if (star) star->peers = tu_try_allocate(place->ranks, sizeof *star->peers);
  if (star) star->polled = tu_try_allocate(place->ranks + GUESTS_MAX + 2, sizeof *star->polled);
  if (!star || !star->peers || !star->polled) {
    if (star) free(star->peers);
    if (star) free(star->polled);
    free(star);
    return tu_fail_memory(error, place->ranks * sizeof *star->peers, "a world of %u ranks", place->ranks);
  }
  tutti_err err = star_init(star, place, timeout_ms, error);
  if (err == TUTTI_OK) err = star_run(star, false, error);
  if (err == TUTTI_OK) err = star_share(star, error);
  star_tell_all(star, err == TUTTI_OK ? TU_BOOT_GO : TU_BOOT_FAILED, err == TUTTI_OK ? NULL : error);
  if (err == TUTTI_OK) {
    *share = star->share;
    star->share.memory_fd = -1;
  }
  star_fini(star);
  free(star);
  return err;
}

/* ---- the other ranks ---- */

struct joiner {
  const struct tu_boot_place *place;
  char name[264];
  struct tu_boot_line line;
  int timeout_ms;
  uint64_t deadline_ns;
};

/* The kernel may pick the very port that we connect to as our own and connect the socket to itself. */
static bool connected_to_itself(int fd) {
  struct sockaddr_storage here, there;
  socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
  memset(&here, 0, sizeof here);
  memset(&there, 0, sizeof there);
  return getsockname(fd, (struct sockaddr *)&here, &here_bytes) == 0 &&
         getpeername(fd, (struct sockaddr *)&there, &there_bytes) == 0 && here_bytes == there_bytes &&
         memcmp(&here, &there, here_bytes) == 0;
}

/* A connected socket, or -1 and errno. */
static int connect_to(const struct addrinfo *at, uint64_t deadline_ns) {
  int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  int why = connect(fd, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
  while (why == EINPROGRESS || why == EINTR) {
    struct pollfd polled = {.fd = fd, .events = POLLOUT};
    int ready = poll(&polled, 1, tu_boot_left_ms(deadline_ns));
    if (ready < 0 && errno == EINTR) continue;
    socklen_t bytes = sizeof why;
    if (ready <= 0) why = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &bytes) != 0) why = errno;
  }
  if (why == 0 && connected_to_itself(fd)) why = ECONNREFUSED;
  if (why == 0) return fd;
  close(fd);
  errno = why;
  return -1;
}

/* Waits for the next note; *got is false if rank 0 closed the connection. TIMEOUT at the deadline. */
static tutti_err await_note(struct joiner *joiner, uint64_t deadline_ns, bool *got, struct tu_error *error) {
  for (;;) {
    enum tu_boot_taken taken = tu_boot_take(&joiner->line);
    *got = taken == TU_BOOT_TAKEN;
    if (taken != TU_BOOT_NOT_YET) return TUTTI_OK;
    struct pollfd polled = {.fd = joiner->line.fd, .events = POLLIN};
    int ready = poll(&polled, 1, tu_boot_left_ms(deadline_ns));
    if (ready < 0 && errno != EINTR) return tu_fail_errno(error, "cannot wait for rank 0 (poll)");
    if (ready == 0 && tu_boot_left_ms(deadline_ns) == 0) {
      return tu_fail(error, TUTTI_ERR_TIMEOUT,
                     "waited %d ms for rank 0 at %s: it took the connection and then said "
                     "nothing",
                     joiner->timeout_ms, joiner->name);
    }
  }
}

/* Expects a note of this kind, or a verdict. */
static tutti_err expect_note(struct joiner *joiner, enum tu_boot_kind kind, struct tu_error *error) {
  bool got;
  tutti_err err = await_note(joiner, joiner->deadline_ns + VERDICT_MS * UINT64_C(1000000), &got, error);
  if (err != TUTTI_OK) return err;
  if (!got) return tu_fail(error, TUTTI_ERR_PEER, "rank 0 at %s died or left while the job was joining", joiner->name);
  const struct tu_boot_note *note = &joiner->line.note;
  if (note->kind == kind) return TUTTI_OK;
  if (note->kind == TU_BOOT_FAILED) return fail_as_told(note, "", error);
  return tu_fail(error, TUTTI_ERR_PEER, "rank 0 at %s sent note %u where %u was due: different builds of the library?",
                 joiner->name, note->kind, (unsigned)kind);
}

/* One attempt to be let in. *in is false if it should be tried again, and `why` says what happened. */
static tutti_err try_to_enter(struct joiner *joiner, const struct addrinfo *at, bool *in, char *why, size_t why_bytes,
                              struct tu_error *error) {
  *in = false;
  joiner->line = (struct tu_boot_line){.fd = connect_to(at, joiner->deadline_ns)};
  if (joiner->line.fd < 0) {
    snprintf(why, why_bytes, "%s", strerror(errno));
    return TUTTI_OK;
  }
  struct tu_boot_hello hello;
  tu_boot_hello_init(&hello, joiner->place, joiner->timeout_ms);
  hello.left_ms = (uint32_t)tu_boot_left_ms(joiner->deadline_ns);
  bool got = false;
  tutti_err err = TUTTI_OK;
  if (tu_boot_send(joiner->line.fd, &hello, sizeof hello)) err = await_note(joiner, joiner->deadline_ns, &got, error);
  if (err == TUTTI_OK && got && joiner->line.note.kind == TU_BOOT_FAILED) {
    err = fail_as_told(&joiner->line.note, "", error);
  }
  *in = err == TUTTI_OK && got && joiner->line.note.kind == TU_BOOT_WELCOME;
  if (!*in) {
    /* Not yet one of the job: perhaps another program had the port, or rank 0 had too many strangers at once. */
    snprintf(why, why_bytes, "the connection was closed without an answer");
    tu_boot_close(&joiner->line.fd);
  }
  return err;
}

/* Tries until rank 0 lets us in: it may start later than we do. */
static tutti_err enter(struct joiner *joiner, struct tu_error *error) {
  struct addrinfo *found;
  tutti_err err = resolve(joiner->place, false, &found, error);
  if (err != TUTTI_OK) return err;
  char why[96] = "";
  long pause_ms = 2;
  for (bool in = false; !in;) {
    for (const struct addrinfo *at = found; at && !in && err == TUTTI_OK; at = at->ai_next) {
      err = try_to_enter(joiner, at, &in, why, sizeof why, error);
    }
    if (in || err != TUTTI_OK) break;
    if (tu_boot_left_ms(joiner->deadline_ns) == 0) {
      err = tu_fail(error, TUTTI_ERR_TIMEOUT, "waited %d ms for rank 0 at %s, which did not let rank %u of %u in: %s",
                    joiner->timeout_ms, joiner->name, joiner->place->rank, joiner->place->ranks, why);
      break;
    }
    nanosleep(&(struct timespec){.tv_nsec = pause_ms * 1000000}, NULL);
    if (pause_ms < 50) pause_ms += pause_ms / 2;
  }
  freeaddrinfo(found);
  return err;
}

/* Fetches the memory and tells rank 0 how it went. */
static tutti_err fetch_memory(struct joiner *joiner, struct tu_boot_share *share, struct tu_error *error) {
  struct tu_boot_offer offer = joiner->line.note.offer;
  tutti_err err = tu_boot_memory_take(joiner->place, &offer, joiner->line.fd, joiner->deadline_ns, share, error);
  struct tu_boot_note note;
  tu_boot_note_init(&note, err == TUTTI_OK ? TU_BOOT_HAVE : TU_BOOT_FAILED, err == TUTTI_OK ? NULL : error);
  (void)tu_boot_send(joiner->line.fd, &note, sizeof note);
  return err;
}

static tutti_err join_as_guest(const struct tu_boot_place *place, int timeout_ms, struct tu_boot_share *share,
                               struct tu_error *error) {
  struct joiner joiner = {.place = place, .line.fd = -1, .timeout_ms = timeout_ms};
  joiner.deadline_ns = tu_clock_ns() + (uint64_t)timeout_ms * 1000000;
  place_name(place, joiner.name, sizeof joiner.name);
  tutti_err err = enter(&joiner, error);
  if (err == TUTTI_OK) err = expect_note(&joiner, TU_BOOT_START, error);
  if (err == TUTTI_OK) {
    err = fetch_memory(&joiner, share, error);
    /* If the memory did not come, rank 0's verdict names the rank at fault, or rank 0 is gone; our own error stands if
     * neither is heard. */
    struct tu_error verdict;
    tutti_err last = expect_note(&joiner, TU_BOOT_GO, err == TUTTI_OK ? error : &verdict);
    if (err == TUTTI_OK) err = last;
    else if (last == TUTTI_ERR_PEER || joiner.line.note.kind == TU_BOOT_FAILED)
      err = tu_fail(error, last, "%s", verdict.text);
  }
  if (err != TUTTI_OK) tu_boot_close(&share->memory_fd);
  tu_boot_close(&joiner.line.fd);
  return err;
}

tutti_err tu_boot_join(const struct tu_boot_place *place, int timeout_ms, struct tu_boot_share *share,
                       struct tu_error *error) {
  tu_assert(place->ranks > 1 && place->rank < place->ranks);
  *share = (struct tu_boot_share){.memory_fd = -1};
  struct tu_error own; /* the sentence is sent to the other ranks even if nobody here wants it */
  if (!error) error = &own;
  if (timeout_ms <= 0) timeout_ms = TU_BOOT_JOIN_MS;
  return place->rank == 0 ? join_as_host(place, timeout_ms, share, error)
                          : join_as_guest(place, timeout_ms, share, error);
}
