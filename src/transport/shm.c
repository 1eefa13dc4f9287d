/* shm.c: processes of one machine over one memfd.
 *
 * Who lives: every rank holds a lock on byte `rank` of the memfd, by an open file description of its own, which nothing but one
 * mapped page keeps open: a page that children do not get. So the kernel drops the lock when the process's memory goes, by
 * exit, death or exec, and for no other reason: what the process does with descriptors does not matter, a number that is used
 * again does not, and any rank can ask. To ask takes a descriptor of the memory; if the program has closed
 * that, or has put another file in its place, it is got again from a rank that has one, and failing that processes are asked
 * for (life.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"

#include "transport/transport.h"

/* Younger than some C libraries. A kernel that does not know them refuses. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define LOST_NS UINT64_C(1000000000) /* between two attempts to get a descriptor again */

struct shm {
  struct tu_transport transport;
  void *mapped; /* base, and what precedes it so that base is where a large page may begin */
  size_t mapped_bytes;
  void *
      held; /* the page that keeps the lock; NULL: the lock is the process's, and goes with any descriptor of the memory */
  size_t held_bytes;
  dev_t device;
  ino_t inode;
  pthread_mutex_t lock; /* of what follows */
  int fd;               /* to ask by, as long as it is of our memory: the program may have closed it; -1: none */
  uint64_t lost_at;     /* when it could not be got again */
};

/* ---- the descriptor ---- */

static bool is_ours(const struct shm *shm, int fd) {
  struct stat status;
  return fd >= 0 && fstat(fd, &status) == 0 && status.st_dev == shm->device && status.st_ino == shm->inode;
}

/* Another rank's descriptor, opened here. It is looked at first: to open what is no file of ours may have consequences. */
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

/* A descriptor of the memory, or -1. Under the lock. */
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

/* ---- who lives ---- */

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
  /* Another thread may have closed it meanwhile: then it is not known of what it was asked. */
  bool free = fd >= 0 && !locked && is_ours(shm, fd);
  pthread_mutex_unlock(&shm->lock);
  /* A lock that closing drops says little, if there is a better witness. */
  if (locked || (free && (!head->closes || head->life.started == 0))) return locked;
  return tu_life_goes_on(&head->life);
}

/* Locks this rank's byte by a description of its own. False: the system cannot (no /proc, or an old kernel). */
static bool hold(struct shm *shm, int memory_fd, uint32_t rank) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", memory_fd);
  shm->held_bytes = (size_t)sysconf(_SC_PAGESIZE);
  tu_process_hold_forks(); /* a child would keep the description open */
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
  if (fstat(memory_fd, &status) != 0) return tu_fail_errno(error, "rank %u cannot look at the shared memory", rank);
  shm->device = status.st_dev;
  shm->inode = status.st_ino;
  shm->fd = memory_fd;
  head->closes = !hold(shm, memory_fd, rank);
  if (head->closes && fcntl(memory_fd, F_SETLK, &lock) != 0)
    return tu_fail_errno(error, "rank %u cannot lock its byte of the shared memory", rank);
  tu_life_mine(&head->life);
  atomic_store(&head->memory_fd, memory_fd);
  pthread_mutex_init(&shm->lock, NULL);
  return TUTTI_OK;
}

/* ---- memory ---- */

/* Without a descriptor whole pages can be given back; else they stay. */
static void shm_discard(struct tu_transport *t, uint64_t place, size_t bytes) {
  struct shm *shm = (struct shm *)t;
  pthread_mutex_lock(&shm->lock);
  int fd = descriptor(shm);
  if (fd >= 0) (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)place, (off_t)bytes);
  pthread_mutex_unlock(&shm->lock);
  if (fd < 0 && (place | bytes) % (size_t)sysconf(_SC_PAGESIZE) == 0)
    (void)madvise(t->base + place, bytes, MADV_REMOVE);
}

/* Pages of this memory are large only if asked for, and only after they are there (Linux 6.1); else they stay small. */
static void shm_populate(struct tu_transport *t, uint64_t place, size_t bytes, bool fresh) {
  if (madvise(t->base + place, bytes, fresh ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) != 0) return;
  if (fresh && bytes >= TU_LARGE_PAGE)
    (void)madvise(t->base + place, bytes / TU_LARGE_PAGE * TU_LARGE_PAGE, MADV_COLLAPSE);
}

/* To move no bytes of a shared mapping somewhere else maps what lies there a second time: no descriptor is needed. */
static bool shm_map_over(struct tu_transport *t, void *memory, uint64_t place, size_t bytes) {
  if (place) return mremap(t->base + place, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, memory) != MAP_FAILED;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  return mmap(memory, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED;
}

/* ---- begin and end ---- */

static void shm_close(struct tu_transport *t) {
  struct shm *shm = (struct shm *)t;
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
  (void)madvise(base, bytes, MADV_HUGEPAGE); /* large pages that a peer has made are mapped as such */
  struct shm *shm = tu_try_allocate(1, sizeof *shm);
  tutti_err err = shm ? TUTTI_OK : tu_fail_memory(error, sizeof *shm, "rank %u's end of the shared memory", rank);
  if (err == TUTTI_OK) err = begin_life(shm, memory_fd, base, rank, slice_bytes, error);
  bool begun = err == TUTTI_OK;
  if (begun && !tu_transport_init(&shm->transport, &shm_ops, rank, ranks, base, slice_bytes))
    err = tu_fail_memory(error, sizeof *shm, "rank %u's end of the shared memory", rank);
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
