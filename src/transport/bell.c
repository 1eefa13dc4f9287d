/* bell.c: the bell of a rank: its threads sleep on the bell, and peers ring it to wake them. A bell is a futex in the
 * slice of the rank. In a job of several hosts, a message may also come over the wire. There, one sleeping thread of
 * the rank waits for the wire and for a datagram from a peer, and the other sleeping threads wait on the futex.
 *
 * Each rank has one datagram socket, to receive and to send. The address lies in its slice, so it is not exchanged, and
 * no rank holds a descriptor of another one. Any process of the network namespace may send to the socket; all that it
 * achieves is that the rank wakes and looks for data. */
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sys/socket.h>
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

int tu_bell_open(struct tu_transport *t, struct tu_error *error) {
  struct tu_bell *bell = bell_of(t, t->rank);
  struct sockaddr *address = (void *)bell->address;
  socklen_t bytes = sizeof bell->address;
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  address->sa_family = AF_UNIX;
  /* The address has no name yet, so the kernel chooses one (autobind): abstract, and always of 6 bytes. It vanishes with
   * the socket. */
  if (fd >= 0 && bind(fd, address, sizeof address->sa_family) == 0 && getsockname(fd, address, &bytes) == 0) return fd;
  tu_fail_errno(error, "cannot make the UNIX socket that wakes this rank");
  if (fd >= 0) close(fd);
  return -1;
}

/* Sleeps in a job of several hosts. One thread waits for the wire and for datagrams on behalf of all sleeping threads of
 * the rank. */
static void watch(struct tu_transport *t, uint32_t token, int timeout_ms) {
  struct tu_bell *bell = bell_of(t, t->rank);
  struct pollfd watched[] = {{.fd = t->hosts->bell_fd, .events = POLLIN}, {.fd = t->hosts->wire_fd, .events = POLLIN}};
  /* If the bell has been rung since tu_bell_arm returned the token, do not sleep: the ringing thread may not have seen
   * that this one watches, and then it has sent nothing. */
  if (atomic_load(&bell->rings) == token) (void)poll(watched, 2, timeout_ms);
  /* Each sleep is sent one datagram at most, and takes one. If more come, or it comes late, the next sleeps end at once. */
  if (watched[0].revents || atomic_load(&bell->watch) == TU_WATCH_CALLED)
    (void)recv(t->hosts->bell_fd, NULL, 0, MSG_DONTWAIT);
  atomic_store(&bell->watch, TU_WATCH_NONE); /* from now on another thread may watch, and needs its datagram */
}

void tu_bell_sleep(struct tu_transport *t, uint32_t token, int timeout_ms) {
  struct timespec timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
  struct tu_bell *bell = bell_of(t, t->rank);
  uint32_t none = TU_WATCH_NONE;
  if (t->hosts && atomic_compare_exchange_strong(&bell->watch, &none, TU_WATCH_WAITS)) watch(t, token, timeout_ms);
  else futex(&bell->rings, FUTEX_WAIT, token, &timeout);
}

/* Ends a sleep. If other threads of the rank sleep and none of them watches the wire, wakes one thread to watch it. */
void tu_bell_disarm(struct tu_transport *t) {
  struct tu_bell *bell = bell_of(t, t->rank);
  if (atomic_fetch_sub(&bell->sleepers, 1) == 1 || !t->hosts || atomic_load(&bell->watch) != TU_WATCH_NONE) return;
  atomic_fetch_add(&bell->rings, 1);
  futex(&bell->rings, FUTEX_WAKE, 1, NULL);
}

void tu_bell_wake(struct tu_transport *t, uint32_t rank) {
  struct tu_bell *bell = bell_of(t, rank);
  uint32_t waits = TU_WATCH_WAITS;
  atomic_fetch_add(&bell->rings, 1);
  futex(&bell->rings, FUTEX_WAKE, INT_MAX, NULL);
  /* The first rank that finds a thread waiting sends a datagram, so a rank gets one for each sleep. Errors are ignored:
   * if the queue is full, the rank is awake already; if the rank is gone, nothing is to be done. */
  if (t->hosts && atomic_compare_exchange_strong(&bell->watch, &waits, TU_WATCH_CALLED))
    (void)sendto(t->hosts->bell_fd, NULL, 0, MSG_DONTWAIT | MSG_NOSIGNAL, (void *)bell->address, sizeof bell->address);
}
