/* job_attack_test.c: attacks of another user of the host on the start of a job. The attacker is a process of uid 65534,
 * the job belongs to root. The attacker listens instead of rank 0, connects instead of a rank, or replays messages. It
 * must not get the secret, the connection of a rank, or the shared memory, and no error message may accuse a rank.
 * Skipped unless run by root. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "boot/job_tcp_wire.h"
#include "mover/join.h"
#include "test.h"
#include "transport/transport.h"

#define SECRET "0123456789abcdef0123456789abcdef"
enum { ORDINARY_USER = 65534, TRIES = 100, TRIES_A_JOB = 20 };

/* Results of an attacker, in memory that it shares with the test. */
struct loot {
  _Atomic uint32_t tries;
  _Atomic uint32_t hits; /* number of things that the attacker should not have got */
  _Atomic uint32_t bytes_max;
};
static struct loot *loot;

static void new_loot(void) { loot->tries = loot->hits = loot->bytes_max = 0; }

static void became(bool condition) {
  if (!condition) _exit(1);
}

static void become_nobody(void) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  became(setresgid(ORDINARY_USER, ORDINARY_USER, ORDINARY_USER) == 0 &&
         setresuid(ORDINARY_USER, ORDINARY_USER, ORDINARY_USER) == 0);
}

static struct sockaddr_in loopback(uint16_t port) {
  return (struct sockaddr_in){
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* Returns a free port without reserving it, as launchers other than `tutti run` do. */
static uint16_t free_port(void) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in address = loopback(0);
  socklen_t bytes = sizeof address;
  if (bind(fd, (struct sockaddr *)&address, bytes) != 0) FAIL("bind");
  getsockname(fd, (struct sockaddr *)&address, &bytes);
  close(fd);
  return ntohs(address.sin_port);
}

static const char *rendezvous = "127.0.0.1";

static struct tu_boot_identity identity_of(uint32_t rank, uint32_t ranks, uint16_t port) {
  struct tu_boot_identity identity = {.rank = rank, .ranks = ranks, .port = port};
  snprintf(identity.address, sizeof identity.address, "%s", rendezvous);
  return identity;
}

/* Receives until no data has come for `wait_ms`, or until the other end hangs up; returns the number of bytes. */
static size_t hear(int fd, void *space, size_t bytes, int wait_ms) {
  size_t got = 0;
  struct pollfd polled = {.fd = fd, .events = POLLIN};
  while (got < bytes && poll(&polled, 1, wait_ms) > 0) {
    ssize_t n = recv(fd, (char *)space + got, bytes - got, 0);
    if (n <= 0) break;
    got += (size_t)n;
  }
  if (got > loot->bytes_max) loot->bytes_max = (uint32_t)got;
  return got;
}

/* Starts a process that joins the job as a rank; its exit status tells how it ended. */
static pid_t start_rank(uint32_t rank, uint16_t port) {
  pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  struct tu_boot_identity identity = identity_of(rank, 2, port);
  struct tu_job *job;
  struct tu_transport *t;
  struct tu_error error = {0};
  fclose(stderr); /* discards the warning about a job without a secret */
  if (tu_job_tcp_create(&identity, 15000, &job, &error) == TUTTI_OK && tu_job_meet(job, NULL, &error) == TUTTI_OK &&
      tu_join(job, &t, &error) == TUTTI_OK)
    _exit(0);
  printf("  rank %u: %s\n", rank, error.text);
  fflush(stdout);
  _exit(1);
}

/* ---- user of the other end ---- */

/* Creates a connection and returns the accepted end. A child of uid `client` connects the other end, and lives until
 * *leash is closed. */
static int connect_as(uid_t client, const char *listen_at, const char *connect_at, bool to_device, int *leash,
                      pid_t *child) {
  bool ip6 = strchr(listen_at, ':') != NULL, client6 = strchr(connect_at, ':') != NULL;
  struct sockaddr_in6 at6 = {.sin6_family = AF_INET6};
  struct sockaddr_in at = {.sin_family = AF_INET};
  inet_pton(AF_INET6, listen_at, &at6.sin6_addr);
  inet_pton(AF_INET, listen_at, &at.sin_addr);
  int listener = socket(ip6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), off = 0, ends[2];
  if (ip6) setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  socklen_t bytes = ip6 ? sizeof at6 : sizeof at;
  struct sockaddr *there = ip6 ? (struct sockaddr *)&at6 : (struct sockaddr *)&at;
  if (bind(listener, there, bytes) != 0 || listen(listener, 5) != 0 || pipe2(ends, O_CLOEXEC) != 0) return -1;
  getsockname(listener, there, &bytes);
  at6.sin6_port = at.sin_port = ip6 ? at6.sin6_port : at.sin_port;
  *child = fork();
  if (*child == 0) {
    close(ends[1]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    became(setresuid(client, client, client) == 0);
    inet_pton(AF_INET6, connect_at, &at6.sin6_addr);
    inet_pton(AF_INET, connect_at, &at.sin_addr);
    at6.sin6_family = AF_INET6;
    at.sin_family = AF_INET;
    int fd = socket(client6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
    if (to_device) became(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3) == 0);
    there = client6 ? (struct sockaddr *)&at6 : (struct sockaddr *)&at;
    became(connect(fd, there, client6 ? sizeof at6 : sizeof at) == 0);
    char end;
    (void)!read(ends[0], &end, 1);
    _exit(0);
  }
  close(ends[0]);
  *leash = ends[1];
  struct pollfd polled = {.fd = listener, .events = POLLIN};
  int fd = poll(&polled, 1, 5000) > 0 ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
  close(listener);
  return fd;
}

static void test_peer_user(void) {
  static const struct {
    const char *listen_at, *connect_at;
    bool to_device;
  } ways[] = {{"127.0.0.1", "127.0.0.1", false},
              {"0.0.0.0", "127.1.2.3", false},
              {"::1", "::1", false},
              {"::", "127.0.0.1", false},
              {"::", "::1", false},
              {"127.0.0.1", "127.0.0.1", true}};
  static const uid_t users[] = {0, ORDINARY_USER, 12345};
  for (size_t i = 0; i < 3 * sizeof ways / sizeof ways[0]; i++) {
    uid_t uid = 1, by_proc = 1, want = users[i % 3];
    int leash = -1;
    pid_t child = -1;
    int fd = connect_as(want, ways[i / 3].listen_at, ways[i / 3].connect_at, ways[i / 3].to_device, &leash, &child);
    if (fd < 0) {
      FAIL("no connection from %s to %s", ways[i / 3].connect_at, ways[i / 3].listen_at);
      continue;
    }
    enum tu_boot_user user = tu_boot_peer_user(fd, &uid), proc = tu_boot_peer_user_proc(fd, &by_proc);
    CHECK(user == TU_BOOT_USER_KNOWN && uid == want, "%s, uid %u: %d, uid %u", ways[i / 3].listen_at, want, user, uid);
    CHECK(proc == TU_BOOT_USER_KNOWN && by_proc == want, "%s, uid %u: /proc says %d, uid %u", ways[i / 3].listen_at,
          want, proc, by_proc);
    close(leash);
    waitpid(child, NULL, 0);
    /* The other end is closed now, and the kernel reports root as the owner of what remains of its socket. */
    user = tu_boot_peer_user(fd, &uid);
    proc = tu_boot_peer_user_proc(fd, &by_proc);
    CHECK(user == TU_BOOT_USER_UNKNOWN && proc == TU_BOOT_USER_UNKNOWN, "a closed end is %d, %d", user, proc);
    close(fd);
  }
}

/* ---- the launcher's port ---- */

/* Tries to listen on the port in every way; exits with the number of ways that worked. */
static _Noreturn void seize(uint16_t port) {
  int worked = 0, one = 1;
  become_nobody();
  for (int way = 0; way < 12; way++) {
    bool ip6 = way / 4 == 2;
    int fd = socket(ip6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
    if (way & 1) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (way & 2) setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    struct sockaddr_in at = loopback(port);
    if (way / 4 == 1) at.sin_addr.s_addr = htonl(INADDR_ANY);
    struct sockaddr_in6 at6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr *there = ip6 ? (struct sockaddr *)&at6 : (struct sockaddr *)&at;
    if (bind(fd, there, ip6 ? sizeof at6 : sizeof at) == 0 && listen(fd, 5) == 0) worked++;
    close(fd);
  }
  _exit(worked);
}

/* `tutti run` keeps its port bound from before the first rank starts until the last one ends. */
static void test_reserved_port(void) {
  char path[] = "/tmp/job_attack_test.XXXXXX", command[512];
  int goes_on = mkstemp(path);
  snprintf(command, sizeof command,
           "exec %s/tutti run -n 1 -- sh -c 'echo $TUTTI_MASTER_PORT $TUTTI_RESERVED_PORT; while [ -e %s ]; do sleep "
           "0.05; done'",
           BUILD_DIR, path);
  FILE *job = popen(command, "re");
  unsigned port = 0, reserved = 0;
  char line[64] = "";
  CHECK(job && fgets(line, sizeof line, job) && sscanf(line, "%u %u", &port, &reserved) == 2 && reserved == port,
        "tutti run says port %u, reserved %u", port, reserved);
  if (!job) return;
  int status = -1;
  pid_t child = fork();
  if (child == 0) seize((uint16_t)port);
  CHECK(waitpid(child, &status, 0) == child && status == 0, "%d of 12 ways to listen on the port worked",
        WEXITSTATUS(status));
  unlink(path);
  close(goes_on);
  CHECK(pclose(job) == 0, "the job failed");
}

/* ---- a listener instead of rank 0 ---- */

enum { LISTENER_WAYS = 7 };

/* Answers one call (the first message of a rank that joins) in one of several misleading ways. */
static void mislead(int fd, uint32_t turn, const struct tu_boot_call *call) {
  struct tu_boot_answer answer = {
      .magic = TU_BOOT_MAGIC, .version = TU_BOOT_VERSION, .reply = TU_BOOT_PROVES, .has_secret = call->has_secret};
  struct tu_boot_secret secret = {.bytes = call->has_secret ? strlen(SECRET) : 0};
  struct tu_boot_note note = {.magic = TU_BOOT_MAGIC, .kind = TU_BOOT_FAILED, .code = TUTTI_ERR_PEER};
  memcpy(secret.value, SECRET, secret.bytes);
  snprintf(note.text, sizeof note.text, "rank 2 (pid 1) died");
  switch (turn % LISTENER_WAYS) {
    case 0: break; /* hangs up without an answer */
    case 1: memset(answer.proof, 0x5a, sizeof answer.proof); break;
    case 2: /* replays an answer to another call */
      tu_boot_prove(&secret, TU_BOOT_ROLE_HOST, &(struct tu_boot_call){.rank = call->rank, .ranks = call->ranks},
                    &answer, answer.proof);
      break;
    case 3: /* sends a correct answer, as if it forwarded the answer of the true rank 0 */
    case 4: tu_boot_prove(&secret, TU_BOOT_ROLE_HOST, call, &answer, answer.proof); break;
    case 5: (void)tu_boot_send(fd, &note, sizeof note); break; /* accuses rank 2 */
    default: answer.reply = TU_BOOT_OTHER_USER; break;
  }
  if (turn % LISTENER_WAYS != 0 && turn % LISTENER_WAYS != 5) (void)tu_boot_send(fd, &answer, sizeof answer);
  if (turn % LISTENER_WAYS == 4) shutdown(fd, SHUT_WR);
}

static _Noreturn void listen_instead(int listener) {
  for (uint32_t turn = 0;; turn++) {
    int fd = accept(listener, NULL, NULL);
    struct tu_boot_call call;
    char more[1024];
    if (fd < 0 || hear(fd, &call, sizeof call, 2000) != sizeof call) {
      close(fd);
      continue;
    }
    mislead(fd, turn, &call);
    /* A rank must send nothing after a misleading answer. */
    if (turn % LISTENER_WAYS != 0 && hear(fd, more, sizeof more, 2000) > 0) loot->hits++;
    if (memmem(&call, sizeof call, SECRET, strlen(SECRET))) loot->hits++;
    loot->tries++;
    close(fd);
  }
}

/* Starts a listener of uid 65534 at 127.0.0.1 that gives misleading answers (answers true), or none; returns its port.
 * The socket belongs to uid 65534, because the listener creates it after it has changed its user. */
static uint16_t start_listener(pid_t *attacker, bool answers) {
  uint16_t port = 0;
  int told[2];
  if (pipe2(told, O_CLOEXEC) != 0) FAIL("pipe");
  *attacker = fork();
  if (*attacker == 0) {
    struct sockaddr_in at = loopback(0);
    socklen_t bytes = sizeof at;
    become_nobody();
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    became(bind(listener, (struct sockaddr *)&at, bytes) == 0 && listen(listener, 64) == 0 &&
           getsockname(listener, (struct sockaddr *)&at, &bytes) == 0);
    port = ntohs(at.sin_port);
    became(write(told[1], &port, sizeof port) == (ssize_t)sizeof port);
    if (answers) listen_instead(listener);
    for (;;) accept(listener, NULL, NULL);
  }
  close(told[1]);
  if (read(told[0], &port, sizeof port) != (ssize_t)sizeof port) FAIL("no attacker");
  close(told[0]);
  return port;
}

static void stop(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
}

static void test_hostile_listener(void) {
  new_loot();
  pid_t attacker;
  uint16_t port = start_listener(&attacker, true);
  uint32_t named = 0, joins = 0;
  for (; loot->tries < TRIES && joins < 3 * TRIES; joins++) {
    setenv("TUTTI_SECRET", joins % 2 ? SECRET : "", 1);
    struct tu_boot_identity identity = identity_of(1, 4, port);
    struct tu_job *job;
    struct tu_error error = {0};
    tutti_err err = tu_job_tcp_create(&identity, 10000, &job, &error);
    CHECK(err == TUTTI_ERR_PEER && test_contains(error.text, "uid 65534|uid 0"), "join %u: %s %s", joins,
          tutti_err_name(err), error.text);
    CHECK(!strstr(error.text, "died") && !strstr(error.text, "rank 2"), "join %u accuses: %s", joins, error.text);
    named += err == TUTTI_ERR_PEER;
  }
  printf("  %u connections taken by uid 65534: %u of %u joins named it, it got at most %u bytes, %u things of value\n",
         loot->tries, named, joins, loot->bytes_max, loot->hits);
  CHECK(loot->hits == 0, "%u calls gave something away", loot->hits);
  CHECK(loot->bytes_max <= sizeof(struct tu_boot_call), "a rank sent %u bytes", loot->bytes_max);
  stop(attacker);
}

/* A rank waits for a silent listener until its time-out, and the message names the listener's user. */
static void test_silent_listener(void) {
  new_loot();
  pid_t attacker;
  uint16_t port = start_listener(&attacker, false);
  struct tu_boot_identity identity = identity_of(1, 4, port);
  struct tu_job *job;
  struct tu_error error = {0};
  setenv("TUTTI_SECRET", SECRET, 1);
  tutti_err err = tu_job_tcp_create(&identity, 200, &job, &error);
  CHECK(err == TUTTI_ERR_TIMEOUT && test_contains(error.text, "nothing|uid 65534"), "%s %s", tutti_err_name(err),
        error.text);
  stop(attacker);
}

static void overlay_hosts(void) {
  char path[] = "/tmp/job_attack_test.XXXXXX";
  static const char hosts[] = "::1 rendezvous\n127.0.0.1 rendezvous\n";
  int fd = mkstemp(path);
  bool mine = fd >= 0 && write(fd, hosts, strlen(hosts)) == (ssize_t)strlen(hosts) && unshare(CLONE_NEWNS) == 0 &&
              mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
              mount(path, "/etc/hosts", NULL, MS_BIND, NULL) == 0;
  unlink(path);
  if (!mine) _exit(77);
}

/* The host name has two addresses, or the list has two entries: the attacker listens at one, and rank 0 listens at the
 * other, later. */
static void join_past_listener(bool by_name) {
  if (by_name) overlay_hosts();
  int status[2] = {-1, -1};
  pid_t attacker;
  uint16_t port = start_listener(&attacker, true);
  setenv("TUTTI_SECRET", SECRET, 1);
  rendezvous = by_name ? "rendezvous" : "127.0.0.1,[::1]";
  pid_t joiner = start_rank(1, port);
  while (loot->tries < 3) usleep(1000);
  pid_t host = start_rank(0, port);
  waitpid(joiner, &status[1], 0);
  waitpid(host, &status[0], 0);
  stop(attacker);
  _exit(status[0] == 0 && status[1] == 0 && loot->hits == 0 ? 0 : 1);
}

static void test_other_address(bool by_name) {
  int status = -1;
  new_loot();
  pid_t child = fork();
  if (child == 0) join_past_listener(by_name);
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) printf("  skipped: no file can be laid over /etc/hosts here\n");
  else CHECK(status == 0, "a listener at one address of two stopped the job: %#x", (unsigned)status);
}

static void test_other_address_of_a_name(void) { test_other_address(true); }
static void test_other_address_of_a_list(void) { test_other_address(false); }

/* ---- a process instead of a rank ---- */

static int connect_port(uint16_t port, bool to_device) {
  struct sockaddr_in address = loopback(port);
  for (int turn = 0; turn < 5000; turn++) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (to_device) became(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3) == 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
    close(fd);
    usleep(2000);
  }
  _exit(1);
}

struct overheard {
  struct tu_boot_call call;
  struct tu_boot_answer answer;
  struct tu_boot_hello hello;
};

enum { JOINER_WAYS = 7 };

/* Tries once to join as rank 1. `known` is the secret that the attacker has, or "". */
static void try_seat(uint16_t port, uint32_t turn, const char *known, const struct overheard *overheard) {
  uint32_t way = turn % JOINER_WAYS;
  int fd = connect_port(port, way == 1);
  struct tu_boot_secret secret = {.bytes = strlen(known)};
  memcpy(secret.value, known, secret.bytes);
  struct tu_boot_call call = {
      .magic = TU_BOOT_MAGIC, .version = TU_BOOT_VERSION, .rank = 1, .ranks = 2, .has_secret = secret.bytes > 0};
  struct tu_boot_answer answer = {0};
  struct tu_boot_hello hello;
  tu_boot_hello_init(&hello, 10000);
  if (way == 2) call = overheard->call;
  if (way == 3) call.version = 1; /* the protocol of older builds, whose second message contained a uid; 0 here */
  (void)tu_boot_send(fd, &call, sizeof call);
  if (way == 4) shutdown(fd, SHUT_WR);
  if (way == 5) (void)tu_boot_send(fd, &hello, sizeof hello); /* sends the hello before the answer comes */
  size_t got = way == 6 ? 0 : hear(fd, &answer, sizeof answer, 2000);
  /* A proof is valuable to an attacker, who could guess a weak secret from it. */
  const struct tu_boot_answer nothing = {0};
  if (memcmp(answer.proof, nothing.proof, sizeof answer.proof) != 0) loot->hits++;
  if (got > 0 && (got != sizeof answer || answer.reply == TU_BOOT_PROVES)) loot->hits++;
  tu_boot_prove(&secret, TU_BOOT_ROLE_JOINER, &call, &answer, hello.proof);
  if (way == 2) hello = overheard->hello;
  (void)tu_boot_send(fd, &hello, sizeof hello);
  char more[2048];
  if (way != 6 && hear(fd, more, sizeof more, 10) > 0) loot->hits++; /* rank 0 must not send WELCOME or anything else */
  loot->tries++;
  close(fd);
}

/* Makes the messages that a man in the middle could have recorded of a true join. */
static void overhear(struct overheard *heard, const char *known) {
  struct tu_boot_secret secret = {.bytes = strlen(known)};
  memcpy(secret.value, known, secret.bytes);
  *heard = (struct overheard){
      .call = {.magic = TU_BOOT_MAGIC, .version = TU_BOOT_VERSION, .rank = 1, .ranks = 2, .has_secret = 1}};
  tu_boot_nonce(heard->call.nonce);
  tu_boot_nonce(heard->answer.nonce);
  tu_boot_hello_init(&heard->hello, 10000);
  tu_boot_prove(&secret, TU_BOOT_ROLE_JOINER, &heard->call, &heard->answer, heard->hello.proof);
}

/* Attacks a job of two ranks until the true rank 1 joins, which completes the job. */
static void besiege(const char *secret, void (*attack)(uint16_t port, const struct overheard *overheard)) {
  struct overheard overheard;
  uint16_t port = free_port();
  int status[3] = {-1, -1, -1};
  setenv("TUTTI_SECRET", secret, 1);
  overhear(&overheard, secret);
  pid_t pids[3] = {start_rank(0, port), fork(), -1};
  if (pids[1] == 0) {
    attack(port, &overheard);
    _exit(0);
  }
  waitpid(pids[1], &status[1], 0);
  pids[2] = start_rank(1, port);
  waitpid(pids[0], &status[0], 0);
  waitpid(pids[2], &status[2], 0);
  CHECK(status[1] == 0, "the attacker stumbled: %#x", (unsigned)status[1]);
  CHECK(status[0] == 0 && status[2] == 0, "the job failed: rank 0 %#x, rank 1 %#x", (unsigned)status[0],
        (unsigned)status[2]);
}

static void come_as_nobody(uint16_t port, const struct overheard *overheard) {
  become_nobody();
  /* Two tries without the secret, then one with it, which must fail because of the user. */
  for (uint32_t turn = 0; turn < TRIES_A_JOB; turn++)
    try_seat(port, turn, turn % 3 < 2 ? "" : getenv("TUTTI_SECRET"), overheard);
}

static void test_hostile_joiner(void) {
  new_loot();
  for (int job = 0; job < TRIES / TRIES_A_JOB; job++) besiege(job % 2 ? SECRET : "", come_as_nobody);
  printf("  %u joins by uid 65534: %u things of value\n", loot->tries, loot->hits);
  CHECK(loot->tries == TRIES, "%u tries", loot->tries);
  CHECK(loot->hits == 0, "%u joins got something", loot->hits);
}

/* Attacks as the job's own user, without the secret: gets rank 0's proof, and must not be admitted. */
static void play_back(uint16_t port, const struct overheard *overheard) {
  for (uint32_t turn = 0; turn < TRIES_A_JOB; turn++) {
    int fd = connect_port(port, false);
    struct tu_boot_answer answer;
    struct tu_boot_hello hello = overheard->hello;
    struct tu_boot_call call = overheard->call;
    if (turn % 2) tu_boot_nonce(call.nonce);
    (void)tu_boot_send(fd, &call, sizeof call);
    if (hear(fd, &answer, sizeof answer, 2000) != sizeof answer) _exit(1);
    if (turn % 4 == 3) memcpy(hello.proof, answer.proof, sizeof hello.proof); /* rank 0's proof, sent back */
    (void)tu_boot_send(fd, &hello, sizeof hello);
    char more[2048];
    if (hear(fd, more, sizeof more, 2000) > 0) loot->hits++;
    loot->tries++;
    close(fd);
  }
}

static void test_replay(void) {
  new_loot();
  besiege(SECRET, play_back);
  printf("  %u replays by the same user: %u let in\n", loot->tries, loot->hits);
  CHECK(loot->tries == TRIES_A_JOB && loot->hits == 0, "%u of %u replays were let in", loot->hits, loot->tries);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"peer_user", test_peer_user},
      {"reserved_port", test_reserved_port},
      {"hostile_listener", test_hostile_listener},
      {"silent_listener", test_silent_listener},
      {"other_address_of_a_name", test_other_address_of_a_name},
      {"other_address_of_a_list", test_other_address_of_a_list},
      {"hostile_joiner", test_hostile_joiner},
      {"replay", test_replay},
  };
  if (geteuid() != 0) {
    printf("skipped: only root can play another user\n");
    return 77;
  }
  struct tu_boot_secret none;
  signal(SIGPIPE, SIG_IGN);
  unsetenv("TUTTI_SECRET_FILE");
  unsetenv("TUTTI_SECRET");
  loot = mmap(NULL, sizeof *loot, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  /* tu_boot_secret_read initialises libsodium, which makes the nonces. */
  if (loot == MAP_FAILED || tu_boot_secret_read(NULL, &none, NULL) != TUTTI_OK) return 1;
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
