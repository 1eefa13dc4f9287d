/* bell.c: the bell of a rank: its threads sleep on the bell, and peers ring it to wake them. A bell is a futex in the
 * slice of the rank. In a job of several hosts, a message may also come over the wire. There, one sleeping thread of
 * the rank waits in an epoll that contains the wire and an eventfd, and the other sleeping threads wait on the
 * futex. */
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "transport/transport.h"

static struct tu_bell *bell_of(const struct tu_transport *t, uint32_t rank) {
  return &tu_transport_head(t, rank)->bell;
}

static void futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout) {
  (void)syscall(SYS_futex, (uintptr_t)word, operation, value, timeout, NULL, 0);
}

bool tu_bell_register(void) { return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0; }

uint32_t tu_bell_arm(struct tu_transport *t) {
  struct tu_bell *bell = bell_of(t, t->rank);
  uint32_t token = atomic_load(&bell->rings);
  atomic_fetch_add(&bell->sleepers, 1);
  /* This rank is about to sleep. Its membarrier acts as a fence on the ranks that ring its bell, because they may ring
   * without a fence. If it cannot use membarrier (no_barrier), all ranks ring with a fence. */
  bool barrier = !atomic_load_explicit(&tu_transport_head(t, t->rank)->no_barrier, memory_order_relaxed);
  long failed = barrier ? syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) : 0;
  tu_assert(failed == 0);
  return token;
}

/* Sleeps in the epoll of a job of several hosts. One thread waits in the epoll on behalf of all sleeping threads of the
 * rank. */
static void watch(struct tu_transport *t, uint32_t token, int timeout_ms) {
  struct tu_hosts *hosts = t->hosts;
  struct epoll_event events[2];
  uint64_t rings;
  /* If another thread of this rank has rung the bell since tu_bell_arm returned the token, do not sleep. That thread
   * may have rung before this one began to watch the epoll, and then it has not written to the eventfd. */
  int count = atomic_load(&bell_of(t, t->rank)->rings) == token ? epoll_wait(hosts->sleep, events, 2, timeout_ms) : 0;
  for (int i = 0; i < count; i++)
    if (events[i].data.fd == hosts->bells[t->rank]) (void)!read(hosts->bells[t->rank], &rings, sizeof rings);
  atomic_store(&hosts->watched, false);
}

void tu_bell_sleep(struct tu_transport *t, uint32_t token, int timeout_ms) {
  struct timespec timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
  if (t->hosts && !atomic_exchange(&t->hosts->watched, true)) watch(t, token, timeout_ms);
  else futex(&bell_of(t, t->rank)->rings, FUTEX_WAIT, token, &timeout);
}

/* Ends a sleep. If other threads of the rank sleep and none of them watches the epoll, wakes one thread to watch it. */
void tu_bell_disarm(struct tu_transport *t) {
  struct tu_bell *bell = bell_of(t, t->rank);
  if (atomic_fetch_sub(&bell->sleepers, 1) == 1 || !t->hosts || atomic_load(&t->hosts->watched)) return;
  atomic_fetch_add(&bell->rings, 1);
  futex(&bell->rings, FUTEX_WAKE, 1, NULL);
}

void tu_bell_wake(struct tu_transport *t, uint32_t rank) {
  const uint64_t once = 1;
  struct tu_bell *bell = bell_of(t, rank);
  atomic_fetch_add(&bell->rings, 1);
  futex(&bell->rings, FUTEX_WAKE, INT_MAX, NULL);
  /* The eventfd wakes the thread that sleeps in the epoll. A rank writes to its own eventfd only if one of its threads
   * sleeps there. */
  if (t->hosts && (rank != t->rank || atomic_load(&t->hosts->watched)))
    (void)!write(t->hosts->bells[rank], &once, sizeof once);
}
