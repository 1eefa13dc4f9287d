/* shm.c: the shm transport: the processes of one host share one memfd.
 *
 * How a rank knows that a peer lives: each rank holds a file lock on byte `rank` of the memfd, and any rank can query
 * the lock. A file lock belongs to an open file description, and is dropped when that description is closed. Here only
 * one mapped page keeps the description open. So the kernel drops the lock when the memory of the process goes: on
 * exit, death or exec. It does not drop the lock when the process closes or reuses descriptors. A child of fork() does
 * not inherit the page, so it cannot keep the lock of a dead parent.
 *
 * A query needs a descriptor of the memfd. The program may have closed this rank's descriptor, or replaced it by
 * another file. Then the rank opens the descriptor of another rank. If that fails for all ranks, it looks for the
 * process itself in /proc (life.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"

#include "transport/peer_memory.h"

/* These constants are newer than some C libraries. If the kernel is too old for one of them, madvise returns an
 * error. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* If more threads than this want to run, for each CPU of the machine, no large pages are asked for. */
#define CROWD 4u
#define LOST_NS UINT64_C(1000000000) /* minimum time between two attempts to reopen a descriptor, in ns */

struct shm {
  struct tu_transport transport;
  void *mapped; /* start of the mapping; the segment begins at the first boundary of a large page in the mapping */
  size_t mapped_bytes;
  /* Mapped page that keeps open the file description to which this rank's file lock belongs. NULL: the lock belongs to
   * the process instead. The lock is then dropped when the process closes any descriptor of the shared memory. */
  void *held;
  size_t held_bytes;
  dev_t device;
  ino_t inode;
  pthread_mutex_t lock; /* protects the fields below */
  /* Descriptor for lock queries, or -1. The program may close it, so it is used only while it refers to the shared
   * memory. */
  int fd;
  uint64_t lost_at; /* time of the last failed attempt to reopen a descriptor, in ns */
};

/* ---- the descriptor ---- */

static bool is_ours(const struct shm *shm, int fd) {
  struct stat status;
  return fd >= 0 && fstat(fd, &status) == 0 && status.st_dev == shm->device && status.st_ino == shm->inode;
}

/* Opens the shared memory through another rank's descriptor in /proc. Returns -1 on failure. Checks the file with
 * stat() first, because opening an unrelated file may have side effects. */
static int open_of(const struct shm *shm, uint32_t rank) {
  char path[64];
  struct stat status;
  const struct tu_slice_head *head = tu_transport_head(&shm->transport, rank);
  int there = atomic_load(&head->memory_fd);
  if (!atomic_load(&head->present) || there < 0) return -1;
  snprintf(path, sizeof path, "/proc/%u/fd/%d", head->life.pid, there);
  if (stat(path, &status) != 0 || status.st_dev != shm->device || status.st_ino != shm->inode) return -1;
  int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0 || is_ours(shm, fd)) return fd;
  close(fd);
  return -1;
}

/* Returns a descriptor of the shared memory, or -1. The caller holds shm->lock. */
static int descriptor(struct shm *shm) {
  struct tu_transport *t = &shm->transport;
  if (is_ours(shm, shm->fd)) return shm->fd;
  uint64_t now = tu_clock_ns();
  if (shm->fd < 0 && now - shm->lost_at < LOST_NS) return -1;
  shm->fd = -1;
  for (uint32_t rank = 0; rank < t->ranks && shm->fd < 0; rank++)
    if (rank != t->rank) shm->fd = open_of(shm, rank);
  if (shm->fd < 0) shm->lost_at = now;
  atomic_store(&tu_transport_head(t, t->rank)->memory_fd, shm->fd);
  return shm->fd;
}

/* ---- liveness ---- */

static struct flock lock_of(uint32_t rank) {
  return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)rank, .l_len = 1};
}

static bool is_locked(int fd, uint32_t rank) {
  struct flock lock = lock_of(rank);
  int failed = fcntl(fd, F_OFD_GETLK, &lock);
  if (failed && errno == EINVAL) failed = fcntl(fd, F_GETLK, &lock);
  return failed || lock.l_type != F_UNLCK;
}

static bool shm_alive(struct tu_transport *t, uint32_t rank) {
  struct shm *shm = (struct shm *)t;
  const struct tu_slice_head *head = tu_transport_head(t, rank);
  pthread_mutex_lock(&shm->lock);
  int fd = descriptor(shm);
  bool locked = fd >= 0 && is_locked(fd, rank);
  /* If another thread has closed the descriptor meanwhile, the query may have read the locks of another file, so check
   * the descriptor again. */
  bool free = fd >= 0 && !locked && is_ours(shm, fd);
  pthread_mutex_unlock(&shm->lock);
  /* A lock that is held proves that the rank lives. A missing lock proves its death only if the rank cannot lose the
   * lock while it lives (head->closes is false). Otherwise ask /proc, if it is available (life.started is not 0). */
  if (locked || (free && (!head->closes || head->life.started == 0))) return locked;
  return tu_life_goes_on(&head->life);
}

/* Locks this rank's byte of the memfd. The lock belongs to a file description that only one mapped page keeps open.
 * Returns false if the system cannot do that (no /proc, or an old kernel). */
static bool hold(struct shm *shm, int memory_fd, uint32_t rank) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", memory_fd);
  shm->held_bytes = (size_t)sysconf(_SC_PAGESIZE);
  tu_process_hold_forks(); /* a child process forked now would keep the file description open */
  int fd = open(path, O_RDWR | O_CLOEXEC);
  void *page = is_ours(shm, fd) ? mmap(NULL, shm->held_bytes, PROT_NONE, MAP_SHARED, fd, 0) : MAP_FAILED;
  struct flock lock = lock_of(rank);
  bool held =
      page != MAP_FAILED && madvise(page, shm->held_bytes, MADV_DONTFORK) == 0 && fcntl(fd, F_OFD_SETLK, &lock) == 0;
  if (held) shm->held = page;
  else if (page != MAP_FAILED) munmap(page, shm->held_bytes);
  if (fd >= 0) close(fd);
  tu_process_allow_forks();
  return held;
}

static tutti_err begin_life(struct shm *shm, int memory_fd, unsigned char *base, uint32_t rank, size_t slice_bytes,
                            struct tu_error *error) {
  struct stat status;
  struct flock lock = lock_of(rank);
  struct tu_slice_head *head = (struct tu_slice_head *)(void *)(base + rank * slice_bytes);
  if (fstat(memory_fd, &status) != 0) return tu_fail_errno(error, "rank %u: fstat of the shared memory failed", rank);
  shm->device = status.st_dev;
  shm->inode = status.st_ino;
  shm->fd = memory_fd;
  head->closes = !hold(shm, memory_fd, rank);
  if (head->closes && fcntl(memory_fd, F_SETLK, &lock) != 0)
    return tu_fail_errno(error, "rank %u: fcntl(F_SETLK) of this rank's byte in the shared memory failed", rank);
  tu_life_mine(&head->life);
  tu_peer_memory_offer(head);
  atomic_store(&head->memory_fd, memory_fd);
  pthread_mutex_init(&shm->lock, NULL);
  return TUTTI_OK;
}

/* ---- memory ---- */

/* Gives the pages of a range back to the system. If this rank has no descriptor of the memfd, that is possible only for
 * a range of whole pages; any other range keeps its pages. */
static void shm_discard(struct tu_transport *t, uint64_t offset, size_t bytes) {
  struct shm *shm = (struct shm *)t;
  pthread_mutex_lock(&shm->lock);
  int fd = descriptor(shm);
  if (fd >= 0) (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
  pthread_mutex_unlock(&shm->lock);
  if (fd < 0 && (offset | bytes) % (size_t)sysconf(_SC_PAGESIZE) == 0)
    (void)madvise(t->base + offset, bytes, MADV_REMOVE);
}

/* Returns true if the machine has much more work than CPUs. The kernel makes large pages only after a thread of its own
 * has run on every CPU, and a process that waits for that can neither be killed nor look at its peers. It takes 1 ms on
 * a quiet machine; 20 ms if ten busy processes share two CPUs, and up to 2 s if several jobs start beside them. */
static bool is_crowded(void) {
  unsigned running = 0;
  FILE *file = fopen("/proc/loadavg", "re");
  if (file && fscanf(file, "%*s %*s %*s %u/", &running) != 1) running = 0;
  if (file) fclose(file);
  return running > CROWD * (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
}

/* Populates a range. fresh true: creates its pages, and then asks for large pages; shared memory gets large pages only
 * on request, and only for pages that exist (Linux 6.1). fresh false: maps the existing pages in this process. */
static void shm_populate(struct tu_transport *t, uint64_t offset, size_t bytes, bool fresh) {
  if (madvise(t->base + offset, bytes, fresh ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) != 0) return;
  if (fresh && bytes >= TU_LARGE_PAGE && !is_crowded())
    (void)madvise(t->base + offset, bytes / TU_LARGE_PAGE * TU_LARGE_PAGE, MADV_COLLAPSE);
}

/* Replaces the mapping at `memory` by shared memory, or by private memory. mremap() with an old size of 0 maps shared
 * pages a second time, so no descriptor is needed. */
static bool shm_map_over(struct tu_transport *t, void *memory, uint64_t offset, size_t bytes) {
  if (offset) return mremap(t->base + offset, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, memory) != MAP_FAILED;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  return mmap(memory, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED;
}

/* ---- create and close ---- */

static void shm_close(struct tu_transport *t) {
  struct shm *shm = (struct shm *)t;
  atomic_store(&tu_transport_head(t, t->rank)->gone, 1);
  tu_transport_fini(t);
  if (shm->held) munmap(shm->held, shm->held_bytes);
  munmap(shm->mapped, shm->mapped_bytes);
  if (is_ours(shm, shm->fd)) close(shm->fd);
  pthread_mutex_destroy(&shm->lock);
  free(shm);
}

static const struct tu_transport_ops shm_ops = {
    .name = "shm",
    .alive = shm_alive,
    .discard = shm_discard,
    .populate = shm_populate,
    .map_over = shm_map_over,
    .close = shm_close,
};

tutti_err tu_shm_create(uint32_t rank, uint32_t ranks, int memory_fd, size_t slice_bytes, struct tu_transport **t,
                        struct tu_error *error) {
  size_t bytes = slice_bytes * ranks, mapped_bytes = bytes + TU_LARGE_PAGE;
  unsigned char *mapped = mmap(NULL, mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  unsigned char *base = mapped;
  if (mapped != MAP_FAILED) {
    base += tu_round_up((uintptr_t)mapped, TU_LARGE_PAGE) - (uintptr_t)mapped;
    base = mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, memory_fd, 0);
  }
  if (mapped == MAP_FAILED || base == MAP_FAILED) {
    tutti_err err = tu_fail_errno(error,
                                  "rank %u cannot map %zu bytes of shared memory (%u ranks, %zu each); lower "
                                  "TUTTI_SHM_BYTES or raise the limit on virtual memory (ulimit -v)",
                                  rank, bytes, ranks, slice_bytes);
    return err;
  }
  (void)madvise(base, bytes, MADV_HUGEPAGE); /* lets this process, too, map large pages that a peer has created */
  struct shm *shm = tu_try_allocate(1, sizeof *shm);
  tutti_err err = shm ? TUTTI_OK : tu_fail_memory(error, sizeof *shm, "rank %u's access to the shared memory", rank);
  if (err == TUTTI_OK) err = begin_life(shm, memory_fd, base, rank, slice_bytes, error);
  bool begun = err == TUTTI_OK;
  if (begun && !tu_transport_init(&shm->transport, &shm_ops, rank, ranks, base, slice_bytes))
    err = tu_fail_memory(error, sizeof *shm, "rank %u's access to the shared memory", rank);
  if (err != TUTTI_OK) {
    if (begun && shm->held) munmap(shm->held, shm->held_bytes);
    if (begun) pthread_mutex_destroy(&shm->lock);
    munmap(mapped, mapped_bytes);
    free(shm);
    return err;
  }
  shm->mapped = mapped;
  shm->mapped_bytes = mapped_bytes;
  *t = &shm->transport;
  return TUTTI_OK;
}
