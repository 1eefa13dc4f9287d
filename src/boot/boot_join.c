/* boot_join.c: the star. Rank 0 listens, the others come. Rank 0 is one poll loop, so that nobody waits for the
 * slowest and a stranger at the port (silent, noisy or hostile) costs a place among the guests and nothing else.
 * A failure anywhere becomes rank 0's verdict, which every rank that has joined is told. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "boot/boot_wire.h"

/* A rank's call follows its connection at once, and its hello our answer, so places among the guests are short-lived; when all
 * are taken and a new one comes, one that was refused is put out, or the oldest. */
enum { GUESTS_MAX = 128, GUEST_MS = 5000, ACCEPTS_MAX = 256 };
/* How long rank 0 tries to bind a port that `tutti run` reserved: what is on it then is the end of an earlier join. */
enum { BIND_MS = 2000 };
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

/* Two notes in a row must not wait for an acknowledgement of the first, which the kernel may delay by 40 ms. */
static void send_at_once(int fd) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

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
  if (why == 0) {
    send_at_once(fd);
    return fd;
  }
  close(fd);
  errno = why;
  return -1;
}

/* ---- rank 0 ---- */

struct guest {
  int fd;         /* -1: a free place */
  bool local;     /* came for the memory, over the UNIX socket */
  bool elsewhere; /* its address is none of this host */
  bool refused;   /* has its answer; stays until it hangs up, so that it can see whose socket refused it */
  bool answered;  /* has called, and got our proof */
  uint64_t came_ns;
  size_t got;
  struct tu_boot_call call;
  uint8_t nonce[TU_BOOT_NONCE_BYTES]; /* ours, for this guest alone */
  struct tu_boot_hello hello;
};

struct peer {
  struct tu_boot_line line; /* fd -1: has not come */
  struct tu_boot_hello hello;
  bool has_memory;
};

struct star {
  const struct tu_boot_place *place;
  struct tu_boot_secret secret;
  char name[264]; /* address:port */
  struct tu_boot_hello own;
  int listener, local_listener;
  struct peer *peers; /* one a rank; rank 0's is unused */
  uint32_t joined, supplied;
  struct guest guests[GUESTS_MAX];
  uint32_t places; /* among the guests: as many as descriptors allow */
  struct pollfd *polled;
  uint64_t deadline_ns;
  uint32_t timeout_ms; /* of the rank whose patience ends first */
  struct tu_boot_offer offer;
  struct tu_boot_share share;
  uint32_t refusals;
  char refused[160]; /* why the last one was */
};

/* Of a port that the launcher keeps bound for us: SO_REUSEPORT alone, which the kernel grants to the launcher's user only. With
 * SO_REUSEADDR on both sockets any user could listen there before we do. Any other port is nobody's before we bind it; an earlier
 * job's connections may linger on it, so SO_REUSEADDR. */
static int bind_to(const struct addrinfo *at, bool reserved) {
  int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, reserved ? SO_REUSEPORT : SO_REUSEADDR, &one, sizeof one);
  if (bind(fd, at->ai_addr, at->ai_addrlen) == 0) return fd;
  int why = errno;
  close(fd);
  errno = why;
  return -1;
}

/* With SO_REUSEPORT the kernel would let a second rank 0 of our user listen beside the first and share out the ranks. */
static bool is_taken(const struct addrinfo *at, uint64_t deadline_ns) {
  int fd = connect_to(at, deadline_ns);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

static int listen_at(const struct addrinfo *at, bool reserved) {
  uint64_t deadline_ns = tu_clock_ns() + BIND_MS * UINT64_C(1000000);
  int fd = bind_to(at, reserved);
  while (fd < 0 && reserved && errno == EADDRINUSE && tu_boot_left_ms(deadline_ns) > 0) {
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    fd = bind_to(at, reserved);
  }
  if (fd < 0) return -1;
  int why = reserved && is_taken(at, deadline_ns) ? EADDRINUSE : 0;
  if (why == 0 && listen(fd, SOMAXCONN) != 0) why = errno;
  if (why == 0) return fd;
  close(fd);
  errno = why;
  return -1;
}

static tutti_err star_listen(struct star *star, struct tu_error *error) {
  struct addrinfo *found;
  tutti_err err = resolve(star->place, true, &found, error);
  if (err != TUTTI_OK) return err;
  errno = 0;
  for (const struct addrinfo *at = found; at && star->listener < 0; at = at->ai_next)
    star->listener = listen_at(at, star->place->reserved);
  int why = errno;
  freeaddrinfo(found);
  if (star->listener >= 0) return TUTTI_OK;
  const char *advice = "";
  if (why == EADDRINUSE) advice = " (another program has that port: choose another)";
  if (why == EADDRINUSE && star->place->reserved) advice = " (another process of this job listens there as rank 0)";
  if (why == EADDRNOTAVAIL) advice = " (rank 0 must run on the host that MASTER_ADDR names)";
  errno = why;
  return tu_fail_errno(error, "rank 0 cannot listen at %s%s", star->name, advice);
}

/* As many guests at once as descriptors are left for; a few at least. */
static tutti_err star_count_places(struct star *star, struct tu_error *error) {
  /* Two listeners, the memory, a question to the kernel, a connection that is refused; and some for other threads. */
  enum { OWN = 5, SPARE = 3, PLACES_MIN = 4 };
  uint32_t ranks = star->place->ranks;
  uint64_t max = tu_files_max(), open = tu_files_open(), needed = open + ranks - 1 + OWN + SPARE;
  uint64_t least = needed + PLACES_MIN;
  if (least > max) {
    return tu_fail(
        error, TUTTI_ERR_SYSTEM,
        "rank 0 of %u needs %llu file descriptors to let the others join, one for each of them, and %llu are "
        "open; the hard limit is %llu: raise it (ulimit -n), or start fewer ranks",
        ranks, (unsigned long long)least, (unsigned long long)open, (unsigned long long)max);
  }
  star->places = (uint32_t)tu_min(GUESTS_MAX, max - needed);
  return TUTTI_OK;
}

/* Blank, but for its tables. */
static tutti_err star_init(struct star *star, const struct tu_boot_place *place, int timeout_ms,
                           struct tu_error *error) {
  star->place = place;
  place_name(place, star->name, sizeof star->name);
  star->listener = star->local_listener = star->share.memory_fd = -1;
  star->timeout_ms = (uint32_t)timeout_ms;
  star->deadline_ns = tu_clock_ns() + (uint64_t)timeout_ms * 1000000;
  tu_boot_hello_init(&star->own, timeout_ms);
  for (int i = 0; i < GUESTS_MAX; i++) star->guests[i].fd = -1;
  for (uint32_t r = 0; r < place->ranks; r++) star->peers[r].line.fd = -1;
  tutti_err err = tu_boot_secret_read(&star->secret, error);
  if (err == TUTTI_OK) err = star_count_places(star, error);
  if (err == TUTTI_OK) err = star_listen(star, error);
  if (err == TUTTI_OK && star->secret.bytes == 0) {
    fprintf(stderr,
            "tutti: the job at %s has no secret: any process that reaches the port can join; TUTTI_SECRET or "
            "TUTTI_SECRET_FILE, the same on all ranks, closes it\n",
            star->name);
  }
  return err;
}

static void star_fini(struct star *star) {
  for (int i = 0; i < GUESTS_MAX; i++) tu_boot_close(&star->guests[i].fd);
  for (uint32_t r = 0; r < star->place->ranks; r++) tu_boot_close(&star->peers[r].line.fd);
  tu_boot_close(&star->listener);
  tu_boot_close(&star->local_listener);
  tu_boot_close(&star->share.memory_fd);
  tu_boot_secret_wipe(&star->secret);
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

/* For the sentence of a timeout: why ranks may be missing. */
static void star_note_refusal(struct star *star, const char *reason) {
  star->refusals++;
  snprintf(star->refused, sizeof star->refused, "%s", reason);
}

/* Refuses a guest whose user is not ours, or not known. Its bytes are not looked at, nor is anything proved to it. */
static void star_refuse(struct star *star, struct guest *guest, enum tu_boot_reply reply, uid_t uid) {
  struct tu_boot_answer answer = {.magic = TU_BOOT_MAGIC,
                                  .version = TU_BOOT_VERSION,
                                  .reply = reply,
                                  .uid = uid,
                                  .has_secret = star->secret.bytes > 0};
  char reason[96] = "its user is not known (the job has no TUTTI_SECRET)";
  if (reply == TU_BOOT_OTHER_USER) {
    snprintf(reason, sizeof reason, "it is of another user (uid %u, rank 0 is of uid %u)", (unsigned)uid,
             (unsigned)geteuid());
  }
  star_note_refusal(star, reason);
  (void)tu_boot_send(guest->fd, &answer, sizeof answer);
  guest->refused = true;
}

/* The guest has called: proves to it that we are rank 0. */
static void star_answer(struct star *star, struct guest *guest) {
  struct tu_boot_answer answer = {.magic = TU_BOOT_MAGIC,
                                  .version = TU_BOOT_VERSION,
                                  .reply = TU_BOOT_PROVES,
                                  .has_secret = star->secret.bytes > 0};
  tu_boot_nonce(guest->nonce);
  memcpy(answer.nonce, guest->nonce, sizeof answer.nonce);
  tu_boot_prove(&star->secret, TU_BOOT_ROLE_HOST, &guest->call, guest->nonce, answer.proof);
  (void)tu_boot_send(guest->fd, &answer, sizeof answer);
  guest->answered = true;
  guest->got = 0;
}

/* A guest that was answered has hung up, or says something wrong. */
static void star_dismiss(struct star *star, struct guest *guest) {
  if (guest->call.version != TU_BOOT_VERSION) {
    char reason[96];
    snprintf(reason, sizeof reason, "it speaks version %u of the protocol, this job version %u", guest->call.version,
             (unsigned)TU_BOOT_VERSION);
    star_note_refusal(star, reason);
  } else if (star->secret.bytes > 0) {
    star_note_refusal(star, guest->call.has_secret ? "its TUTTI_SECRET is not the job's" : "it has no TUTTI_SECRET");
  }
  tu_boot_close(&guest->fd);
}

/* A guest that has the secret belongs to the job: if it does not fit in, the job is set up wrongly and fails. */
static tutti_err star_misfit(const struct star *star, const struct guest *guest, struct tu_error *error) {
  const struct tu_boot_hello *hello = &guest->hello;
  uint32_t ranks = star->place->ranks, rank = guest->call.rank;
  if (guest->call.ranks != ranks) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                   "rank %u (pid %u) was told WORLD_SIZE %u, rank 0 (pid %u) %u: all "
                   "ranks of a job need the same",
                   rank, hello->pid, guest->call.ranks, star->own.pid, ranks);
  }
  if (rank >= ranks) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "pid %u says it is rank %u of %u", hello->pid, rank, ranks);
  }
  if (rank == 0 || star->peers[rank].line.fd >= 0) {
    const struct tu_boot_hello *other = rank ? &star->peers[rank].hello : &star->own;
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                   "two processes say they are rank %u: pid %u on '%.63s' and pid %u on "
                   "'%.63s'",
                   rank, other->pid, other->hostname, hello->pid, hello->hostname);
  }
  if (hello->host != star->own.host) {
    return tu_fail(error, TUTTI_ERR_UNSUPPORTED,
                   "rank %u (pid %u on '%.63s') is not on the host, or in the container, "
                   "of rank 0 (pid %u on '%.63s'): ranks of one host only can share memory",
                   rank, hello->pid, hello->hostname, star->own.pid, star->own.hostname);
  }
  return TUTTI_OK;
}

/* A whole hello has come: the guest becomes a rank, or goes. */
static tutti_err star_admit(struct star *star, struct guest *guest, struct tu_error *error) {
  struct tu_boot_hello *hello = &guest->hello;
  hello->hostname[sizeof hello->hostname - 1] = '\0';
  if (!tu_boot_proven(&star->secret, TU_BOOT_ROLE_JOINER, &guest->call, guest->nonce, hello->proof)) {
    star_dismiss(star, guest);
    return TUTTI_OK;
  }
  /* From another host, and says that it is on this one: the kernel knows better. A secret is worth more than an address. */
  if (guest->elsewhere && hello->host == star->own.host && star->secret.bytes == 0) {
    star_note_refusal(
        star, "it claims this host, but comes from an address of another (TUTTI_SECRET on all ranks would let it in)");
    tu_boot_close(&guest->fd);
    return TUTTI_OK;
  }
  tutti_err err = star_misfit(star, guest, error);
  struct tu_boot_note note;
  tu_boot_note_init(&note, err == TUTTI_OK ? TU_BOOT_WELCOME : TU_BOOT_FAILED, err == TUTTI_OK ? NULL : error);
  (void)tu_boot_send(guest->fd, &note, sizeof note);
  if (err != TUTTI_OK) {
    tu_boot_close(&guest->fd);
    return err;
  }
  struct peer *peer = &star->peers[guest->call.rank];
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

/* What a refused guest still sends is thrown away, a piece a look. */
static void star_drain(struct guest *guest) {
  char piece[256];
  ssize_t n = recv(guest->fd, piece, sizeof piece, MSG_DONTWAIT);
  if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) tu_boot_close(&guest->fd);
}

static tutti_err star_hear_guest(struct star *star, struct guest *guest, struct tu_error *error) {
  if (guest->local) star_supply(star, guest);
  else if (guest->refused) star_drain(guest);
  if (guest->local || guest->refused) return TUTTI_OK;
  if (!guest->answered) {
    enum tu_boot_taken taken = tu_boot_receive(guest->fd, &guest->call, sizeof guest->call, &guest->got);
    if (taken == TU_BOOT_GONE) tu_boot_close(&guest->fd);
    if (taken == TU_BOOT_TAKEN) star_answer(star, guest);
    if (taken != TU_BOOT_TAKEN) return TUTTI_OK;
  }
  enum tu_boot_taken taken = tu_boot_receive(guest->fd, &guest->hello, sizeof guest->hello, &guest->got);
  if (taken == TU_BOOT_GONE) star_dismiss(star, guest);
  return taken == TU_BOOT_TAKEN ? star_admit(star, guest, error) : TUTTI_OK;
}

static struct guest *star_worst_guest(struct star *star) {
  struct guest *worst = NULL;
  for (uint32_t i = 0; i < star->places; i++) {
    struct guest *guest = &star->guests[i];
    if (guest->fd < 0) continue;
    bool older = !worst || guest->came_ns < worst->came_ns;
    if (!worst || guest->refused > worst->refused || (guest->refused == worst->refused && older)) worst = guest;
  }
  return worst;
}

static struct guest *star_free_place(struct star *star) {
  for (uint32_t i = 0; i < star->places; i++) {
    if (star->guests[i].fd < 0) return &star->guests[i];
  }
  struct guest *worst = star_worst_guest(star);
  tu_boot_close(&worst->fd);
  return worst;
}

/* Whose is this connection? Another user's goes no further, nor, without a secret, one whose user the kernel does not tell. */
static void star_look_at(struct star *star, struct guest *guest) {
  uid_t uid;
  switch (tu_boot_peer_user(guest->fd, &uid)) {
    case TU_BOOT_USER_KNOWN:
      if (uid != geteuid()) star_refuse(star, guest, TU_BOOT_OTHER_USER, uid);
      return;
    case TU_BOOT_USER_ELSEWHERE: guest->elsewhere = true; return;
    case TU_BOOT_USER_UNKNOWN: break;
  }
  if (star->secret.bytes == 0) star_refuse(star, guest, TU_BOOT_USER_NOT_TOLD, 0);
}

/* The next connection that waits; -1: none, or *err says why not. When descriptors run out, guests make room. */
static int star_take(struct star *star, int listener, tutti_err *err, struct tu_error *error) {
  for (int turn = 0; turn < ACCEPTS_MAX; turn++) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) return fd;
    if (errno == EINTR || errno == ECONNABORTED) continue;
    bool scarce = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    if (!scarce) return -1; /* nobody waits, or the connection broke before it was taken */
    struct guest *worst = star_worst_guest(star);
    if (!worst) {
      *err = tu_fail_errno(error, "rank 0 cannot take the connection of another rank (%u of %u are here)",
                           star->joined + 1, star->place->ranks);
      return -1;
    }
    tu_boot_close(&worst->fd);
  }
  return -1;
}

/* Takes the connections that wait, but not for ever. Each is heard at once: a rank's call is there as a rule. */
static tutti_err star_accept(struct star *star, int listener, bool local, struct tu_error *error) {
  tutti_err err = TUTTI_OK;
  for (int n = 0; n < ACCEPTS_MAX && err == TUTTI_OK; n++) {
    int fd = star_take(star, listener, &err, error);
    if (fd < 0) return err;
    if (local && !tu_boot_memory_same_user(fd)) {
      close(fd);
      continue;
    }
    struct guest *guest = star_free_place(star);
    *guest = (struct guest){.fd = fd, .local = local, .came_ns = tu_clock_ns()};
    if (!local) {
      send_at_once(fd);
      star_look_at(star, guest);
    }
    struct pollfd heard = {.fd = fd, .events = POLLIN};
    if (poll(&heard, 1, 0) > 0) err = star_hear_guest(star, guest, error);
  }
  return err;
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
  for (uint32_t i = 0; i < star->places; i++) {
    star->polled[n++] = (struct pollfd){.fd = star->guests[i].fd, .events = POLLIN};
  }
  for (uint32_t r = 1; r < star->place->ranks; r++) {
    star->polled[n++] = (struct pollfd){.fd = star->peers[r].line.fd, .events = POLLIN};
  }
  return n;
}

static void star_expire(struct star *star) {
  uint64_t now = tu_clock_ns();
  for (uint32_t i = 0; i < star->places; i++) {
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
  for (uint32_t i = 0; i < star->places && err == TUTTI_OK; i++) {
    if (polled[i].revents && star->guests[i].fd >= 0) err = star_hear_guest(star, &star->guests[i], error);
  }
  polled += star->places - 1; /* rank r is at polled[r] */
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
  struct tu_boot_secret secret;
  char name[264];
  struct tu_boot_line line;
  bool met;      /* has what listens proved that it is rank 0? */
  char why[320]; /* the last attempt to be let in failed, if it may be tried again */
  int timeout_ms;
  uint64_t deadline_ns;
};

/* What the kernel adds to a sentence about who listens: empty if it is of our user, or not known. */
static void describe_other_user(int fd, char *text, size_t bytes) {
  uid_t uid;
  text[0] = '\0';
  if (tu_boot_peer_user(fd, &uid) != TU_BOOT_USER_KNOWN || uid == geteuid()) return;
  snprintf(text, bytes, "; it is of another user (uid %u, this rank is of uid %u)", (unsigned)uid, (unsigned)geteuid());
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

/* An answer has come. Is it from rank 0? Until it has proved that, nothing that it says is repeated, so that it can
 * accuse no rank. TUTTI_OK without having met it: this may have been a passing thing, joiner->why says what. */
static tutti_err judge(struct joiner *joiner, const struct tu_boot_call *call, const struct tu_boot_answer *answer,
                       struct tu_error *error) {
  uid_t uid, own = geteuid();
  enum tu_boot_user user = tu_boot_peer_user(joiner->line.fd, &uid);
  bool has_secret = joiner->secret.bytes > 0;
  if (user == TU_BOOT_USER_KNOWN && uid != own) {
    return tu_fail(error, TUTTI_ERR_PEER,
                   "the process that listens at %s is of another user (uid %u, this rank is of uid %u): it has another "
                   "job's port, or rank 0 runs as another user than rank %u",
                   joiner->name, (unsigned)uid, (unsigned)own, call->rank);
  }
  if (user == TU_BOOT_USER_UNKNOWN && !has_secret) {
    snprintf(joiner->why, sizeof joiner->why,
             "the kernel does not say whose process answered; TUTTI_SECRET on all ranks does without");
    return TUTTI_OK;
  }
  if (answer->version != TU_BOOT_VERSION) {
    return tu_fail(error, TUTTI_ERR_PEER, "the job at %s speaks version %u of the protocol, rank %u version %u: %s",
                   joiner->name, answer->version, call->rank, (unsigned)TU_BOOT_VERSION,
                   "all ranks need the same build of the library");
  }
  if (answer->reply != TU_BOOT_PROVES) {
    bool told = answer->reply == TU_BOOT_OTHER_USER;
    return tu_fail(
        error, TUTTI_ERR_PEER,
        "the job at %s refused rank %u: its host's kernel %s (uid %u there, rank %u is of uid %u); all ranks "
        "must run as one user",
        joiner->name, call->rank, told ? "says it is of another user" : "does not say of which user it is", answer->uid,
        call->rank, (unsigned)own);
  }
  if (has_secret != (answer->has_secret != 0)) {
    return tu_fail(error, TUTTI_ERR_PEER, "the job at %s %s TUTTI_SECRET, rank %u %s: all ranks need the same",
                   joiner->name, answer->has_secret ? "has a" : "has no", call->rank,
                   has_secret ? "has one" : "has none");
  }
  if (!tu_boot_proven(&joiner->secret, TU_BOOT_ROLE_HOST, call, answer->nonce, answer->proof)) {
    return tu_fail(error, TUTTI_ERR_PEER,
                   "the process that listens at %s does not know the TUTTI_SECRET of rank %u: it is of another job, or "
                   "the secrets differ",
                   joiner->name, call->rank);
  }
  joiner->met = true;
  return TUTTI_OK;
}

/* Calls, and hears the answer; as judge(). */
static tutti_err call_host(struct joiner *joiner, struct tu_boot_call *call, struct tu_boot_answer *answer,
                           struct tu_error *error) {
  *call = (struct tu_boot_call){.magic = TU_BOOT_MAGIC,
                                .version = TU_BOOT_VERSION,
                                .rank = joiner->place->rank,
                                .ranks = joiner->place->ranks,
                                .has_secret = joiner->secret.bytes > 0};
  tu_boot_nonce(call->nonce);
  size_t got = 0;
  enum tu_boot_taken taken = tu_boot_send(joiner->line.fd, call, sizeof *call) ? TU_BOOT_NOT_YET : TU_BOOT_GONE;
  uint64_t until_ns = tu_clock_ns() + GUEST_MS * UINT64_C(1000000);
  if (until_ns > joiner->deadline_ns) until_ns = joiner->deadline_ns;
  while (taken == TU_BOOT_NOT_YET &&
         (taken = tu_boot_receive(joiner->line.fd, answer, sizeof *answer, &got)) == TU_BOOT_NOT_YET) {
    struct pollfd polled = {.fd = joiner->line.fd, .events = POLLIN};
    if (poll(&polled, 1, tu_boot_left_ms(until_ns)) == 0) break;
  }
  if (taken == TU_BOOT_TAKEN) return judge(joiner, call, answer, error);
  /* Perhaps another program has the port, or rank 0 had too many strangers at once. */
  char whose[96];
  bool closed = taken == TU_BOOT_GONE;
  describe_other_user(joiner->line.fd, whose, sizeof whose);
  snprintf(joiner->why, sizeof joiner->why, "%s%s",
           closed ? "the connection was closed without an answer" : "it took the connection and said nothing", whose);
  return TUTTI_OK;
}

/* One attempt to be let in. *in is false if it should be tried again, and joiner->why says what happened. */
static tutti_err try_to_enter(struct joiner *joiner, const struct addrinfo *at, bool *in, struct tu_error *error) {
  *in = joiner->met = false;
  joiner->line = (struct tu_boot_line){.fd = connect_to(at, joiner->deadline_ns)};
  if (joiner->line.fd < 0) {
    snprintf(joiner->why, sizeof joiner->why, "%s", strerror(errno));
    return TUTTI_OK;
  }
  struct tu_boot_call call;
  struct tu_boot_answer answer;
  bool got = false;
  tutti_err err = call_host(joiner, &call, &answer, error);
  if (err == TUTTI_OK && joiner->met) {
    struct tu_boot_hello hello;
    tu_boot_hello_init(&hello, joiner->timeout_ms);
    hello.left_ms = (uint32_t)tu_boot_left_ms(joiner->deadline_ns);
    tu_boot_prove(&joiner->secret, TU_BOOT_ROLE_JOINER, &call, answer.nonce, hello.proof);
    snprintf(joiner->why, sizeof joiner->why, "it closed the connection");
    if (tu_boot_send(joiner->line.fd, &hello, sizeof hello)) err = await_note(joiner, joiner->deadline_ns, &got, error);
    if (err == TUTTI_OK && got && joiner->line.note.kind == TU_BOOT_FAILED)
      err = fail_as_told(&joiner->line.note, "", error);
    *in = err == TUTTI_OK && got && joiner->line.note.kind == TU_BOOT_WELCOME;
  }
  if (!*in) tu_boot_close(&joiner->line.fd);
  return err;
}

/* Tries until rank 0 lets us in: it may start later than we do. Who listens there and is not rank 0 ends it, as rank 0 cannot
 * come to that port any more; but of several addresses of a name rank 0 may still come to another one. */
static tutti_err enter(struct joiner *joiner, struct tu_error *error) {
  struct addrinfo *found;
  tutti_err err = resolve(joiner->place, false, &found, error);
  if (err != TUTTI_OK) return err;
  long pause_ms = 2;
  for (bool in = false; !in;) {
    for (const struct addrinfo *at = found; at && !in && err == TUTTI_OK; at = at->ai_next) {
      err = try_to_enter(joiner, at, &in, error);
      if (err != TUTTI_ERR_PEER || joiner->met || !found->ai_next) continue;
      snprintf(joiner->why, sizeof joiner->why, "%.310s", error->text);
      err = TUTTI_OK;
    }
    if (in || err != TUTTI_OK) break;
    if (tu_boot_left_ms(joiner->deadline_ns) == 0) {
      err = tu_fail(error, TUTTI_ERR_TIMEOUT, "waited %d ms for rank 0 at %s, which did not let rank %u of %u in: %s",
                    joiner->timeout_ms, joiner->name, joiner->place->rank, joiner->place->ranks, joiner->why);
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
  tutti_err err = tu_boot_secret_read(&joiner.secret, error);
  if (err == TUTTI_OK) err = enter(&joiner, error);
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
  tu_boot_secret_wipe(&joiner.secret);
  return err;
}

tutti_err tu_boot_join(const struct tu_boot_place *place, int timeout_ms, struct tu_boot_share *share,
                       struct tu_error *error) {
  tu_assert(place->ranks > 1 && place->rank < place->ranks);
  *share = (struct tu_boot_share){.memory_fd = -1};
  struct tu_error own; /* the sentence is sent to the other ranks even if nobody here wants it */
  if (!error) error = &own;
  if (timeout_ms <= 0) timeout_ms = TU_BOOT_JOIN_MS;
  uint64_t files = tu_files_raise();
  tutti_err err =
      place->rank == 0 ? join_as_host(place, timeout_ms, share, error) : join_as_guest(place, timeout_ms, share, error);
  tu_files_restore(files);
  return err;
}
