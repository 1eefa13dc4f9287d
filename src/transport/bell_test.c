/* bell_test.c: tests bells on one host and in a job of several hosts: no ring is lost, also while a stranger floods the
 * sockets, or if a rank is gone. If a ring were lost, the sleeper would sleep on, and the time limit would end
 * the test. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"
#include "transport/transport.h"

enum { RANKS = 3, ROUNDS = 200, QUEUE_MAX = 100000, FOREVER_MS = INT_MAX };

struct ranks {
  struct tu_transport *t[RANKS];
  struct tu_hosts hosts[RANKS]; /* state of the endpoints in a job of several hosts */
};

/* Makes the endpoints of RANKS ranks of one host. sockets: as in a job of several hosts. */
static void begin(struct ranks *ranks, bool sockets) {
  struct tu_error error;
  tu_assert(tu_loop_create(RANKS, 1 << 20, ranks->t, &error) == TUTTI_OK);
  for (uint32_t r = 0; sockets && r < RANKS; r++) {
    ranks->hosts[r] = (struct tu_hosts){.bell_fd = tu_bell_open(ranks->t[r], &error), .wire_fd = -1};
    CHECK(ranks->hosts[r].bell_fd >= 0, "rank %u: %s", r, error.text);
    ranks->t[r]->hosts = &ranks->hosts[r];
  }
}

static void end(struct ranks *ranks) {
  for (uint32_t r = 0; r < RANKS; r++) {
    CHECK(atomic_load(&tu_transport_head(ranks->t[r], r)->bell.sleepers) == 0, "rank %u still sleeps", r);
    if (ranks->t[r]->hosts) close(ranks->hosts[r].bell_fd);
    ranks->t[r]->hosts = NULL;
    ranks->t[r]->ops->close(ranks->t[r]);
  }
}

static struct tu_bell *bell_of(const struct ranks *ranks, uint32_t rank) {
  return &tu_transport_head(ranks->t[rank], rank)->bell;
}

static _Atomic int published;

static void *sleep_until_published(void *endpoint) {
  struct tu_transport *t = endpoint;
  while (!atomic_load(&published)) {
    uint32_t token = tu_bell_arm(t);
    if (!atomic_load(&published)) tu_bell_sleep(t, token, FOREVER_MS);
    tu_bell_disarm(t);
  }
  return NULL;
}

/* A thread of rank `from` wakes `count` threads of rank 1 that sleep, or are about to. */
static void wake_threads(struct ranks *ranks, uint32_t from, uint32_t count, unsigned delay_us) {
  pthread_t sleepers[2];
  atomic_store(&published, 0);
  for (uint32_t i = 0; i < count; i++)
    tu_assert(pthread_create(&sleepers[i], NULL, sleep_until_published, ranks->t[1]) == 0);
  if (delay_us > 0) usleep(delay_us);
  atomic_store_explicit(&published, 1, memory_order_release);
  tu_bell_ring(ranks->t[from], 1);
  for (uint32_t i = 0; i < count; i++) pthread_join(sleepers[i], NULL);
}

static void wake_often(struct ranks *ranks) {
  for (int fences = 0; fences < 2; fences++) {
    for (uint32_t r = 0; r < RANKS; r++)
      if (!fences) tu_transport_settle(ranks->t[r]);
      else atomic_store(&ranks->t[r]->fence, true);
    for (unsigned i = 0; i < ROUNDS; i++) wake_threads(ranks, i % RANKS, 1 + i / 2 % 2, i % 2 ? i % 50 : 0);
  }
}

static void a_bell_wakes(void) {
  for (int sockets = 0; sockets < 2; sockets++) {
    struct ranks ranks;
    begin(&ranks, sockets);
    wake_often(&ranks);
    end(&ranks);
  }
}

/* A ring after the last check for data, and before the sleep, ends the sleep. */
static void a_ring_may_come_before_the_sleep(void) {
  for (int sockets = 0; sockets < 2; sockets++) {
    struct ranks ranks;
    begin(&ranks, sockets);
    for (uint32_t from = 0; from < RANKS; from++) {
      uint32_t token = tu_bell_arm(ranks.t[1]);
      tu_bell_ring(ranks.t[from], 1);
      tu_bell_sleep(ranks.t[1], token, FOREVER_MS);
      tu_bell_disarm(ranks.t[1]);
    }
    end(&ranks);
  }
}

/* ---- strangers ---- */

static int stranger = -1;
static _Atomic bool floods;

/* Sends a datagram of 100 bytes to the bell of rank 1. Returns false if its queue is full. */
static bool annoy(const struct ranks *ranks) {
  const unsigned char noise[100] = {0};
  return sendto(stranger, noise, sizeof noise, MSG_DONTWAIT, (const void *)bell_of(ranks, 1)->address,
                sizeof bell_of(ranks, 1)->address) > 0;
}

static void *flood(void *context) {
  while (atomic_load(&floods)) (void)annoy(context);
  return NULL;
}

/* Rings are not lost while the queue is full. Afterwards the bell becomes silent: each sleep takes a datagram. */
static void a_flooded_bell_wakes(void) {
  struct ranks ranks;
  pthread_t thread;
  int sent = 0, sleeps = 0;
  begin(&ranks, true);
  stranger = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  while (sent < QUEUE_MAX && annoy(&ranks)) sent++;
  CHECK(sent > 0 && sent < QUEUE_MAX && errno == EAGAIN, "the queue takes %d datagrams", sent);
  wake_threads(&ranks, 0, 1, 0);
  atomic_store(&floods, true);
  tu_assert(pthread_create(&thread, NULL, flood, &ranks) == 0);
  wake_often(&ranks);
  atomic_store(&floods, false);
  pthread_join(thread, NULL);
  while (annoy(&ranks)) sent++;
  const int most = sent + 1; /* the kernel lets a socket send one to itself also if its queue is full */
  for (char byte; sleeps <= most && recv(ranks.hosts[1].bell_fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) >= 0; sleeps++) {
    uint32_t token = tu_bell_arm(ranks.t[1]);
    tu_bell_sleep(ranks.t[1], token, FOREVER_MS);
    tu_bell_disarm(ranks.t[1]);
  }
  CHECK(sleeps > 0 && sleeps <= most, "%d sleeps have not emptied a queue of %d", sleeps, most);
  wake_threads(&ranks, 0, 1, 0);
  close(stranger);
  end(&ranks);
}

/* ---- ranks that do not answer ---- */

/* The datagrams that wait for rank 1. */
static int count_waiting(const struct ranks *ranks) {
  int count = 0;
  while (recv(ranks->hosts[1].bell_fd, NULL, 0, MSG_DONTWAIT) >= 0) count++;
  return count;
}

/* A stopped rank does not take datagrams. However often its bell is rung, one is sent, so the sender's buffer does not
 * fill up. A bell of a rank that is gone, asleep or not, disturbs no other bell. */
static void a_bell_may_have_no_rank(void) {
  struct ranks ranks;
  begin(&ranks, true);
  struct tu_bell *bell = bell_of(&ranks, 1);
  for (int i = 0; i < 1000; i++) tu_bell_wake(ranks.t[0], 1);
  CHECK(count_waiting(&ranks) == 0, "a rank that does not sleep got a datagram");
  atomic_store(&bell->watch, TU_WATCH_WAITS);
  for (int i = 0; i < 1000; i++) tu_bell_wake(ranks.t[i % 2 ? 0 : 2], 1);
  const int waiting = count_waiting(&ranks);
  CHECK(waiting == 1, "%d datagrams for one sleep", waiting);
  close(ranks.hosts[2].bell_fd); /* rank 2 is killed while it sleeps */
  ranks.hosts[2].bell_fd = -1;
  for (int i = 0; i < 1000; i++) {
    atomic_store(&bell_of(&ranks, 2)->watch, TU_WATCH_WAITS);
    tu_bell_wake(ranks.t[0], 2);
  }
  atomic_store(&bell->watch, TU_WATCH_NONE);
  wake_threads(&ranks, 0, 1, 0);
  end(&ranks);
}

static const struct test tests[] = {
    {"a_bell_wakes", a_bell_wakes},
    {"a_ring_may_come_before_the_sleep", a_ring_may_come_before_the_sleep},
    {"a_flooded_bell_wakes", a_flooded_bell_wakes},
    {"a_bell_may_have_no_rank", a_bell_may_have_no_rank},
};

int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
