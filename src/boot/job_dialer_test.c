/* job_dialer_test.c: tests of the connections between ranks of different hosts, with real processes that claim to run on
 * other hosts: ranks connect, strangers are refused, and a rank that ends is noticed. */
#include <sys/epoll.h>

#include "boot/job_address.h"
#include "boot/job_tcp_wire.h"
#include "job_ranks.h"

enum { HOSTS = 3, PORTS = 6 };

static void fill(struct part parts[], uint32_t ranks, uint32_t hosts) {
  for (uint32_t r = 0; r < ranks; r++)
    parts[r] = (struct part){.rank = r, .ranks = ranks, .secret = SECRET, .timeout_ms = 15000, .host = 100 + r % hosts};
}

static void expect_all(const struct part parts[], uint32_t ranks, uint16_t port) {
  struct outcome outcomes[JOB_RANKS_MAX];
  run_parts(parts, ranks, outcomes, port);
  for (uint32_t r = 0; r < ranks; r++) expect(&parts[r], &outcomes[r], TUTTI_OK, "");
}

static void test_connect(void) {
  static const uint32_t sizes[] = {2, 3, 9, 24};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    struct part parts[JOB_RANKS_MAX];
    fill(parts, sizes[i], HOSTS);
    expect_all(parts, sizes[i], hold_port());
  }
}

static void test_without_secret(void) {
  struct part parts[4];
  fill(parts, 4, 2);
  for (int r = 0; r < 4; r++) parts[r].secret = "";
  expect_all(parts, 4, hold_port());
}

/* A process that connects to all ports of the range, again and again: it says nothing, sends noise, or calls as rank 3
 * without the key. Some of its connections stay open. */
static _Noreturn void intrude(unsigned first_port) {
  enum { OPEN = 100 };
  int fds[OPEN];
  for (int i = 0; i < OPEN; i++) fds[i] = -1;
  for (uint32_t i = 0;; i++) {
    const struct tu_boot_call call = {
        .magic = TU_BOOT_MAGIC, .version = TU_BOOT_VERSION, .rank = 3, .ranks = 4, .to = i % 3};
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)(first_port + i % PORTS)),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    unsigned char answer[sizeof(struct tu_boot_answer)] = {0};
    int *fd = &fds[i % OPEN];
    tu_boot_close(fd);
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(*fd, (const struct sockaddr *)&address, sizeof address) != 0) continue;
    if (i % 3 == 1) (void)!send(*fd, answer, sizeof answer, MSG_NOSIGNAL);
    if (i % 3 != 2) continue;
    (void)!send(*fd, &call, sizeof call, MSG_NOSIGNAL);
    (void)!recv(*fd, answer, sizeof answer, MSG_DONTWAIT);
    (void)!send(*fd, answer, sizeof answer, MSG_NOSIGNAL); /* no proof */
  }
}

static void test_strangers(void) {
  char range[32];
  const unsigned first = hold_port() < 40000 ? 50000 : 30000;
  snprintf(range, sizeof range, "%u-%u", first, first + PORTS - 1);
  setenv("TUTTI_PORTS", range, 1);
  pid_t stranger = fork();
  if (stranger == 0) intrude(first);
  for (int turn = 0; turn < 10; turn++) {
    struct part parts[4];
    fill(parts, 4, 4);
    expect_all(parts, 4, hold_port());
  }
  kill(stranger, SIGKILL);
  waitpid(stranger, NULL, 0);
  unsetenv("TUTTI_PORTS");
}

/* A rank ends before it has connected: the others end with an error. */
static void test_a_rank_quits(void) {
  for (uint32_t quitter = 0; quitter < 4; quitter++) {
    struct part parts[4];
    struct outcome outcomes[4];
    fill(parts, 4, 2);
    for (uint32_t r = 0; r < 4; r++) parts[r].timeout_ms = 3000;
    parts[quitter].quits = true;
    run_parts(parts, 4, outcomes, hold_port());
    for (uint32_t r = 0; r < 4; r++)
      CHECK(r == quitter || (outcomes[r].came && outcomes[r].error.code != TUTTI_OK), "rank %u, without rank %u: %s", r,
            quitter, outcomes[r].came ? "no error" : "died");
  }
}

/* epoll_wait, for the whole program: in a rank that is_mortal, it exits instead. The start of a job waits in epoll_wait
 * only for connections between hosts. */
static bool is_mortal;
int epoll_wait(int descriptor, struct epoll_event *events, int events_max, int timeout_ms) {
  if (is_mortal) _exit(0);
  return epoll_pwait(descriptor, events, events_max, timeout_ms, NULL);
}

static void become_mortal(const struct tu_boot_identity *identity) {
  (void)identity;
  is_mortal = true;
}

/* A rank dies while others wait for its connection: they learn of it at once, and not when the start times out. */
static void test_a_rank_dies_connecting(void) {
  for (uint32_t victim = 0; victim < 4; victim++) {
    struct part parts[4];
    struct outcome outcomes[4];
    fill(parts, 4, 2);
    for (uint32_t r = 0; r < 4; r++) parts[r].host = 100 + (r == victim); /* all others have to connect with it */
    parts[victim].act = become_mortal;
    run_parts(parts, 4, outcomes, hold_port());
    for (uint32_t r = 0; r < 4; r++) {
      char facts[32];
      snprintf(facts, sizeof facts, "rank %u|died", victim);
      if (r == victim) continue;
      expect(&parts[r], &outcomes[r], TUTTI_ERR_PEER, facts);
      CHECK(outcomes[r].seconds < 5, "rank %u knew after %.1f s", r, outcomes[r].seconds);
    }
  }
}

static void test_interface(void) {
  struct part parts[2];
  struct outcome outcomes[2];
  fill(parts, 2, 2);
  setenv("TUTTI_INTERFACE", "nosuch0", 1);
  run_parts(parts, 2, outcomes, hold_port());
  for (int r = 0; r < 2; r++) expect(&parts[r], &outcomes[r], TUTTI_ERR_ENVIRONMENT, "TUTTI_INTERFACE|nosuch0");
  unsetenv("TUTTI_INTERFACE");
}

static void test_own_addresses(void) {
  char list[256];
  struct tu_error error = {0};
  CHECK(tu_boot_addresses(list, sizeof list, &error) == TUTTI_OK, "%s", error.text);
  printf("  %s\n", list);
  const char *last = strrchr(list, ',');
  CHECK(strncmp(list, "127.", 4) != 0 || !strstr(list, ",1"), "'%s' begins with the loopback", list);
  CHECK(!last || strcmp(last, ",127.0.0.1") == 0 || strcmp(last, ",[::1]") == 0, "'%s' ends without the loopback",
        list);
  CHECK(tu_boot_addresses(list, 12, &error) == TUTTI_OK && strlen(list) < 12, "'%s' is too long", list);
  setenv("TUTTI_INTERFACE", "127.0.0.0/8", 1);
  CHECK(tu_boot_addresses(list, sizeof list, &error) == TUTTI_OK && strcmp(list, "127.0.0.1") == 0, "'%s'", list);
  setenv("TUTTI_INTERFACE", "nosuch0", 1);
  CHECK(tu_boot_addresses(list, sizeof list, &error) == TUTTI_ERR_ENVIRONMENT &&
            test_contains(error.text, "TUTTI_INTERFACE|nosuch0"),
        "%s", error.text);
  unsetenv("TUTTI_INTERFACE");
}

int main(int argc, char **argv) {
  const struct test tests[] = {{"connect", test_connect},
                               {"without_secret", test_without_secret},
                               {"strangers", test_strangers},
                               {"a_rank_quits", test_a_rank_quits},
                               {"a_rank_dies_connecting", test_a_rank_dies_connecting},
                               {"interface", test_interface},
                               {"own_addresses", test_own_addresses}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
