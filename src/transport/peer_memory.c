/* peer_memory.c: process_vm_readv, and where it works. */
#include "transport/peer_memory.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* The word that other ranks try to read. Its value tells this process from any other, also from one that has the same number
 * in another PID namespace. */
static _Atomic uint64_t mark;

void tu_peer_memory_offer(struct tu_slice_head *head) {
  uint64_t none = 0, state = tu_clock_ns() ^ (uint64_t)getpid() << 40 ^ (uintptr_t)&none;
  atomic_compare_exchange_strong(&mark, &none, tu_random(&state) | 1);
  head->mark = atomic_load(&mark);
  head->mark_at = (uintptr_t)&mark;
}

static bool read_from(uint32_t pid, uint64_t from, void *to, size_t bytes) {
  /* the address is one of the other process */
  struct iovec here = {.iov_base = to, .iov_len = bytes}, there = {.iov_len = bytes};
  const uintptr_t address = (uintptr_t)from;
  memcpy(&there.iov_base, &address, sizeof address);
  while (there.iov_len > 0) {
    const ssize_t n = process_vm_readv((pid_t)pid, &here, 1, &there, 1, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EFAULT;
    if (n <= 0) return false;
    here.iov_base = (unsigned char *)here.iov_base + n;
    there.iov_base = (unsigned char *)there.iov_base + n;
    here.iov_len -= (size_t)n;
    there.iov_len -= (size_t)n;
  }
  return true;
}

bool tu_peer_memory_read(const struct tu_transport *t, uint32_t rank, uint64_t from, void *to, size_t bytes) {
  return read_from(tu_transport_head(t, rank)->life.pid, from, to, bytes);
}

void tu_peer_memory_try(struct tu_transport *t) {
  bool all = true;
  for (uint32_t i = 1; i < t->ranks && all; i++) {
    const uint32_t rank = (t->rank + i) % t->ranks;
    const struct tu_slice_head *head = tu_transport_head(t, rank);
    uint64_t word = 0;
    all = head->mark != 0 && tu_peer_memory_read(t, rank, head->mark_at, &word, sizeof word) && word == head->mark;
  }
  atomic_store(&tu_transport_head(t, t->rank)->reads_peers, all && t->ranks > 1);
}

void tu_peer_memory_ask(struct tu_transport *t) {
  if (!atomic_exchange(&t->asked_peers, true)) tu_peer_memory_try(t);
}

/* Returns true if the kernel finds the pages of both addresses. Asks it to wake none of the threads that wait for a futex at the
 * one, and to let none of them wait at the other: the pages of futexes are looked up as those of process_vm_readv are, but
 * without the lock of the memory map. A peer that has just read this process has the lock's line in its cache. False for some
 * read-only memory. */
static bool has_pages(const unsigned char *a, const unsigned char *b) {
  const size_t into_a = (uintptr_t)a % sizeof(uint32_t), into_b = (uintptr_t)b % sizeof(uint32_t);
  return syscall(SYS_futex, a - into_a, FUTEX_REQUEUE, 0, NULL, b - into_b, 0) == 0;
}

bool tu_peer_memory_is_readable(const void *memory, size_t bytes) {
  unsigned char *first, both[2];
  memcpy(&first, &memory, sizeof first);
  const struct iovec here = {.iov_base = both, .iov_len = sizeof both};
  const struct iovec there[] = {{.iov_base = first, .iov_len = 1}, {.iov_base = first + bytes - 1, .iov_len = 1}};
  if (prctl(PR_GET_DUMPABLE) != 1) return false;
  return has_pages(first, first + bytes - 1) || process_vm_readv(getpid(), &here, 1, there, 2, 0) == sizeof both;
}
