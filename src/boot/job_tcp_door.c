/* job_tcp_door.c: rank 0 accepts connections and admits ranks. A guest is a connection that has not yet proved that it
 * knows the job's secret. A silent, noisy or hostile guest can occupy one entry of the table of guests, and nothing
 * else. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "boot/job_address.h"
#include "boot/job_tcp_star.h"

/* Maximum number of connections that rank 0 accepts before it serves its other connections again. */
enum { ACCEPTS_MAX = 256 };
/* Time in ms for which rank 0 retries to bind a port that `tutti run` reserved. Such a port is in use only while an
 * earlier join (start of a job) on that port ends. */
enum { BIND_MS = 2000 };

/* ---- listening ---- */

/* Binds a new socket to the address and returns it. On failure returns -1 and sets errno.
 *
 * `reserved`: the launcher keeps this port bound until the job ends. Then only SO_REUSEPORT is set, because with it the
 * kernel lets only the launcher's user bind the port. If both sockets had SO_REUSEADDR instead, any user could listen
 * on the port before rank 0. On any other port SO_REUSEADDR is set, because connections of an earlier job may remain
 * there. */
static int bind_to(const struct tu_boot_place *at, bool reserved) {
  int fd = socket(at->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1, none = 0;
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, reserved ? SO_REUSEPORT : SO_REUSEADDR, &one, sizeof one);
  /* If `at` stands for all addresses, IPv4 addresses are among them. */
  if (at->address.ss_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &none, sizeof none);
  if (bind(fd, (const struct sockaddr *)&at->address, at->bytes) == 0) return fd;
  int why = errno;
  close(fd);
  errno = why;
  return -1;
}

/* Returns true if another process already listens at the address. Without this check SO_REUSEPORT would let a second
 * rank 0 of the same user listen at the same address, and the kernel would distribute the ranks over the two
 * processes. */
static bool is_taken(const struct tu_boot_place *at, uint64_t deadline_ns) {
  int fd = tu_boot_connect(at, deadline_ns);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

static int listen_at(const struct tu_boot_place *at, bool reserved) {
  uint64_t deadline_ns = tu_clock_ns() + BIND_MS * UINT64_C(1000000);
  int fd = bind_to(at, reserved);
  while (fd < 0 && reserved && errno == EADDRINUSE && tu_clock_left_ms(deadline_ns) > 0) {
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

/* Finds the port on which rank 0 listens, stores it in star->identity and star->name, and reports it to on_listen. */
static tutti_err note_port(struct tu_star *star, struct tu_error *error) {
  struct sockaddr_storage address;
  socklen_t bytes = sizeof address;
  char port[8];
  if (getsockname(star->listener, (struct sockaddr *)&address, &bytes) != 0 ||
      getnameinfo((struct sockaddr *)&address, bytes, NULL, 0, port, sizeof port, NI_NUMERICSERV) != 0)
    return tu_fail_errno(error, "rank 0 cannot determine the port on which it listens");
  star->identity.port = (uint16_t)atoi(port);
  tu_boot_address_name(&star->identity, star->name, sizeof star->name);
  if (star->identity.on_listen) star->identity.on_listen(star->identity.on_listen_context, star->identity.port);
  return TUTTI_OK;
}

/* Listens at all addresses of this host: of IPv6 and IPv4, or of IPv4 where the kernel has no IPv6. */
static int listen_everywhere(uint16_t port, bool reserved) {
  struct tu_boot_place any6 = {.bytes = sizeof(struct sockaddr_in6)}, any4 = {.bytes = sizeof(struct sockaddr_in)};
  any6.address.ss_family = AF_INET6;
  ((struct sockaddr_in6 *)&any6.address)->sin6_port = htons(port);
  any4.address.ss_family = AF_INET;
  ((struct sockaddr_in *)&any4.address)->sin_port = htons(port);
  const int fd = listen_at(&any6, reserved);
  return fd >= 0 || errno == EADDRINUSE || errno == EACCES ? fd : listen_at(&any4, reserved);
}

/* Opens the listening socket at one of the addresses. If that is not sufficient, opens it at all addresses of this host,
 * and sets *everywhere to the reason; NULL: there is none, or the job's address is a list. */
static void open_listener(struct tu_star *star, const struct tu_boot_places *places, const char **everywhere) {
  const struct tu_boot_identity *identity = &star->identity;
  bool elsewhere = false;
  *everywhere = NULL;
  /* Debian gives a host's own name the address 127.0.1.1, at which no other host reaches it. */
  const bool is_own_name = !places->is_list && places->is_name && tu_boot_is_loopback(&places->at[0].address) &&
                           !strstr(identity->address, "localhost");
  if (places->is_list || is_own_name) star->listener = listen_everywhere(identity->port, identity->reserved);
  if (star->listener >= 0 && is_own_name) *everywhere = "is the loopback here";
  for (uint32_t i = 0; i < places->count && star->listener < 0; i++) {
    star->listener = listen_at(&places->at[i], identity->reserved);
    elsewhere |= star->listener < 0 && errno == EADDRNOTAVAIL;
  }
  if (star->listener >= 0 || !elsewhere || places->is_list) return;
  /* The address may be that of a gateway or a service that leads to this host. */
  *everywhere = "is not an address of this host";
  star->listener = listen_everywhere(identity->port, identity->reserved);
}

tutti_err tu_star_listen(struct tu_star *star, struct tu_error *error) {
  struct tu_boot_places places;
  const char *everywhere;
  tutti_err err = tu_boot_resolve(&star->identity, &places, error);
  if (err != TUTTI_OK) return err;
  open_listener(star, &places, &everywhere);
  int why = errno;
  if (star->listener >= 0 && everywhere)
    fprintf(stderr, "tutti: '%.200s' (MASTER_ADDR) %s: rank 0 listens at all addresses, port %u\n",
            star->identity.address, everywhere, star->identity.port);
  if (star->listener >= 0) return note_port(star, error);
  const char *advice = "";
  if (why == EADDRINUSE) advice = ": another program uses this port; set TUTTI_MASTER_PORT to a free one on all ranks";
  if (why == EADDRINUSE && star->identity.reserved) advice = ": another process of this job listens there as rank 0";
  errno = why;
  return tu_fail_errno(error, "rank 0 cannot listen at %s%s", star->name, advice);
}

/* Sets star->guests_max to the number of guests (connections not yet admitted) for which file descriptors remain.
 * Returns an error if fewer than GUESTS_MIN remain. */
tutti_err tu_star_limit_guests(struct tu_star *star, struct tu_error *error) {
  /* OWN: descriptors for the listener, a sock_diag socket, one accepted connection beyond the maximum number of guests,
   * and later the shared memory and its socket. SPARE: descriptors for other threads. GUESTS_MIN: with fewer guests
   * (connections not yet admitted), ranks might be unable to join. */
  enum { OWN = 5, SPARE = 3, GUESTS_MIN = 4 };
  uint32_t ranks = star->identity.ranks;
  uint64_t max = tu_files_max(), open = tu_files_open(), needed = open + ranks - 1 + OWN + SPARE;
  uint64_t least = needed + GUESTS_MIN;
  if (least > max) {
    return tu_fail(
        error, TUTTI_ERR_SYSTEM,
        "rank 0 of %u needs %llu file descriptors to let the others join, one for each rank (%llu are open now); "
        "the hard limit is %llu: raise it (ulimit -n), or start fewer ranks",
        ranks, (unsigned long long)least, (unsigned long long)open, (unsigned long long)max);
  }
  star->guests_max = (uint32_t)tu_min(TU_STAR_GUESTS, max - needed);
  return TUTTI_OK;
}

/* Counts a refused guest (a connection that was not admitted) and keeps the reason, for the message of a time-out. */
static void star_note_refusal(struct tu_star *star, const char *reason) {
  star->refusals++;
  snprintf(star->refused, sizeof star->refused, "%s", reason);
}

/* Refuses a guest (a connection that is not yet admitted), because it belongs to another user, or because its user is
 * unknown. Reads nothing from the guest, and sends it no proof of the secret. */
static void star_refuse(struct tu_star *star, struct tu_star_guest *guest, enum tu_boot_reply reply, uid_t uid) {
  struct tu_boot_answer answer = {.magic = TU_BOOT_MAGIC,
                                  .version = TU_BOOT_VERSION,
                                  .reply = reply,
                                  .uid = uid,
                                  .has_secret = star->secret.bytes > 0};
  char reason[96] = "the kernel does not report its user, and the job has no TUTTI_SECRET";
  if (reply == TU_BOOT_OTHER_USER) {
    snprintf(reason, sizeof reason, "it belongs to another user (uid %u; rank 0 has uid %u)", (unsigned)uid,
             (unsigned)geteuid());
  }
  star_note_refusal(star, reason);
  (void)tu_boot_send(guest->fd, &answer, sizeof answer);
  guest->refused = true;
}

/* Notes that a guest of another round was refused. The guest has proved nothing, so the reason has no text of it. */
static void star_note_round(struct tu_star *star, const struct tu_boot_round *theirs) {
  const struct tu_boot_round *ours = &star->identity.round;
  char reason[TU_BOOT_ROUND_CHARS + 64], name[TU_BOOT_ROUND_CHARS];
  tu_boot_round_name(ours, name);
  if (strncmp(theirs->run, ours->run, sizeof ours->run) != 0)
    snprintf(reason, sizeof reason, "it belongs to another run than this, which is %s", name);
  else snprintf(reason, sizeof reason, "it belongs to restart %u, but this is %s", theirs->restart, name);
  star_note_refusal(star, reason);
}

/* Answers a guest's call (the first message of a join) with the proof that this process is rank 0 of the job. */
static void star_answer(struct tu_star *star, struct tu_star_guest *guest) {
  struct tu_boot_answer *answer = &guest->answer;
  *answer = (struct tu_boot_answer){.magic = TU_BOOT_MAGIC,
                                    .version = TU_BOOT_VERSION,
                                    .reply = TU_BOOT_PROVES,
                                    .has_secret = star->secret.bytes > 0,
                                    .round = star->identity.round};
  tu_boot_nonce(answer->nonce);
  tu_boot_prove(&star->secret, TU_BOOT_ROLE_HOST, &guest->call, answer, answer->proof);
  (void)tu_boot_send(guest->fd, answer, sizeof *answer);
  guest->answered = true;
  guest->got = 0;
  if (guest->call.version != TU_BOOT_VERSION || tu_boot_same_round(&guest->call.round, &answer->round)) return;
  star_note_round(star, &guest->call.round);
  guest->refused = true;
}

/* Closes the connection of a guest that got rank 0's answer, and then hung up or sent a wrong proof of the secret.
 * Notes the likely reason. */
static void star_dismiss(struct tu_star *star, struct tu_star_guest *guest) {
  if (guest->call.version != TU_BOOT_VERSION) {
    char reason[96];
    snprintf(reason, sizeof reason, "it uses protocol version %u, but this job uses version %u", guest->call.version,
             (unsigned)TU_BOOT_VERSION);
    star_note_refusal(star, reason);
  } else if (star->secret.bytes > 0) {
    star_note_refusal(star, guest->call.has_secret ? "its TUTTI_SECRET is not the job's" : "it has no TUTTI_SECRET");
  }
  tu_boot_close(&guest->fd);
}

/* Checks a guest (a connection) that has proved that it knows the job's secret. Its rank must be a free rank of the
 * job, and its number of ranks must be that of the job. Otherwise returns an error, with which the whole job fails. */
static tutti_err star_misfit(const struct tu_star *star, const struct tu_star_guest *guest, struct tu_error *error) {
  const struct tu_boot_hello *hello = &guest->hello;
  uint32_t ranks = star->identity.ranks, rank = guest->call.rank;
  if (guest->call.ranks != ranks) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                   "rank %u (pid %u) has WORLD_SIZE %u, but rank 0 (pid %u) has %u: all "
                   "ranks of a job need the same value",
                   rank, hello->pid, guest->call.ranks, star->own.pid, ranks);
  }
  if (rank >= ranks) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                   "pid %u joined as rank %u of %u: expected a rank below the number of ranks", hello->pid, rank,
                   ranks);
  }
  if (rank == 0 || star->peers[rank].line.fd >= 0) {
    const struct tu_boot_hello *other = rank ? &star->peers[rank].hello : &star->own;
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                   "two processes say they are rank %u: pid %u on '%.63s' and pid %u on "
                   "'%.63s'",
                   rank, other->pid, other->hostname, hello->pid, hello->hostname);
  }
  return TUTTI_OK;
}

/* Handles a guest's complete hello (the second message of a join): admits the guest as a rank, or closes the
 * connection. */
static tutti_err star_admit(struct tu_star *star, struct tu_star_guest *guest, struct tu_error *error) {
  struct tu_boot_hello *hello = &guest->hello;
  hello->hostname[sizeof hello->hostname - 1] = '\0';
  if (!tu_boot_proven(&star->secret, TU_BOOT_ROLE_JOINER, &guest->call, &guest->answer, hello->proof)) {
    star_dismiss(star, guest);
    return TUTTI_OK;
  }
  /* In a job without a secret, refuse a guest that claims to run on this host but connects from an address of another
   * host. In a job with a secret, a proof that the guest knows it suffices. */
  if (guest->elsewhere && hello->host == star->own.host && star->secret.bytes == 0) {
    star_note_refusal(
        star,
        "it claims to run on rank 0's host, but connects from another (set TUTTI_SECRET on all ranks to admit it)");
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
  struct tu_star_peer *peer = &star->peers[guest->call.rank];
  peer->hello = *hello;
  peer->line.fd = guest->fd;
  guest->fd = -1;
  star->joined++;
  uint64_t deadline = tu_clock_ns() + (uint64_t)hello->left_ms * 1000000;
  if (hello->timeout_ms != TUTTI_NO_TIMEOUT && deadline < star->job.deadline_ns) {
    star->job.deadline_ns = deadline;
    star->job.timeout_ms = hello->timeout_ms;
  }
  return TUTTI_OK;
}

/* Discards up to 256 bytes that a refused guest still sends. Closes the connection once the guest has closed its
 * end. */
static void star_drain(struct tu_star_guest *guest) {
  char piece[256];
  ssize_t n = recv(guest->fd, piece, sizeof piece, MSG_DONTWAIT);
  if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) tu_boot_close(&guest->fd);
}

tutti_err tu_star_hear_guest(struct tu_star *star, struct tu_star_guest *guest, struct tu_error *error) {
  if (guest->refused) {
    star_drain(guest);
    return TUTTI_OK;
  }
  if (!guest->answered) {
    enum tu_boot_taken taken = tu_boot_receive(guest->fd, &guest->call, sizeof guest->call, &guest->got);
    if (taken == TU_BOOT_GONE) tu_boot_close(&guest->fd);
    if (taken == TU_BOOT_TAKEN) star_answer(star, guest);
    if (taken != TU_BOOT_TAKEN || guest->refused) return TUTTI_OK;
  }
  enum tu_boot_taken taken = tu_boot_receive(guest->fd, &guest->hello, sizeof guest->hello, &guest->got);
  if (taken == TU_BOOT_GONE) star_dismiss(star, guest);
  return taken == TU_BOOT_TAKEN ? star_admit(star, guest, error) : TUTTI_OK;
}

static struct tu_star_guest *star_worst_guest(struct tu_star *star) {
  struct tu_star_guest *worst = NULL;
  for (uint32_t i = 0; i < star->guests_max; i++) {
    struct tu_star_guest *guest = &star->guests[i];
    if (guest->fd < 0) continue;
    bool older = !worst || guest->came_ns < worst->came_ns;
    if (!worst || guest->refused > worst->refused || (guest->refused == worst->refused && older)) worst = guest;
  }
  return worst;
}

static struct tu_star_guest *star_free_guest(struct tu_star *star) {
  for (uint32_t i = 0; i < star->guests_max; i++) {
    if (star->guests[i].fd < 0) return &star->guests[i];
  }
  struct tu_star_guest *worst = star_worst_guest(star);
  tu_boot_close(&worst->fd);
  return worst;
}

/* Asks the kernel for the user at the other end. Refuses a guest of another user. In a job without a secret, also
 * refuses a guest whose user is unknown. */
static void star_look_at(struct tu_star *star, struct tu_star_guest *guest) {
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

/* Accepts the next waiting connection. Returns -1 if there is none, or on failure (then *err is set). If file
 * descriptors run out, closes guests to free some. */
static int star_take(struct tu_star *star, tutti_err *err, struct tu_error *error) {
  for (int turn = 0; turn < ACCEPTS_MAX; turn++) {
    int fd = accept4(star->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) return fd;
    if (errno == EINTR || errno == ECONNABORTED) continue;
    bool scarce = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    if (!scarce) return -1; /* no connection waits, or the one that waited has broken; descriptors did not run out */
    struct tu_star_guest *worst = star_worst_guest(star);
    if (!worst) {
      *err = tu_fail_errno(error, "rank 0 cannot accept the connection of another rank (%u of %u ranks have joined)",
                           star->joined + 1, star->identity.ranks);
      return -1;
    }
    tu_boot_close(&worst->fd);
  }
  return -1;
}

/* Accepts the waiting connections, and reads from each at once, since a rank's first message (its call) usually arrives
 * with its connection. */
tutti_err tu_star_accept(struct tu_star *star, struct tu_error *error) {
  tutti_err err = TUTTI_OK;
  for (int n = 0; n < ACCEPTS_MAX && err == TUTTI_OK; n++) {
    int fd = star_take(star, &err, error);
    if (fd < 0) return err;
    struct tu_star_guest *guest = star_free_guest(star);
    *guest = (struct tu_star_guest){.fd = fd, .came_ns = tu_clock_ns()};
    tu_boot_send_at_once(fd);
    star_look_at(star, guest);
    struct pollfd heard = {.fd = fd, .events = POLLIN};
    if (poll(&heard, 1, 0) > 0) err = tu_star_hear_guest(star, guest, error);
  }
  return err;
}

void tu_star_expire(struct tu_star *star) {
  uint64_t now = tu_clock_ns();
  for (uint32_t i = 0; i < star->guests_max; i++) {
    struct tu_star_guest *guest = &star->guests[i];
    if (guest->fd >= 0 && now - guest->came_ns > TU_STAR_GUEST_MS * UINT64_C(1000000)) tu_boot_close(&guest->fd);
  }
}
