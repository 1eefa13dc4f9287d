/* bell.c: where a rank sleeps, and how it is woken: a futex in its slice; or, where ranks of other hosts can wake it as well, an
 * epoll of an eventfd and of the wire to them. */
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

uint32_t tu_bell_arm(struct tu_transport *t) {
  struct tu_bell *bell = bell_of(t, t->rank);
  uint32_t token = atomic_load(&bell->rings);
  atomic_fetch_add(&bell->sleepers, 1);
  /* Also while this rank still fences itself: its peers may have stopped doing so. */
  bool barrier = !atomic_load_explicit(&tu_transport_head(t, t->rank)->no_barrier, memory_order_relaxed);
  long failed = barrier ? syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) : 0;
  tu_assert(failed == 0);
  return token;
}

/* One thread watches for all of the rank that sleep. */
static void watch(struct tu_transport *t, uint32_t token, int timeout_ms) {
  struct tu_hosts *hosts = t->hosts;
  struct epoll_event events[2];
  uint64_t rings;
  /* Another thread of this rank may have rung when nobody watched. */
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

/* If others sleep, and none of them watches, one is to. */
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
  /* Of this rank it is another thread that watches, or none. */
  if (t->hosts && (rank != t->rank || atomic_load(&t->hosts->watched)))
    (void)!write(t->hosts->bells[rank], &once, sizeof once);
}
