/* shm.c: processes of one machine over one memfd.
 *
 * Who lives: every rank holds a POSIX record lock on byte `rank` of the memfd. The kernel drops it when the process ends,
 * however it ends, and anybody can ask who holds it: no descriptors between pairs, no pid that could be reused, and
 * pid namespaces do not matter. A child of fork() does not inherit it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

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

struct shm {
  struct tu_transport transport;
  void *mapped; /* base, and what precedes it so that base is where a large page may begin */
  size_t mapped_bytes;
  int fd; /* the only descriptor of the memory in this process: closing another one would drop the lock */
};

static bool shm_alive(struct tu_transport *t, uint32_t rank) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)rank, .l_len = 1};
  if (fcntl(((struct shm *)t)->fd, F_GETLK, &lock) != 0) return true;
  return lock.l_type != F_UNLCK;
}

static void shm_discard(struct tu_transport *t, uint64_t place, size_t bytes) {
  (void)fallocate(((struct shm *)t)->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)place, (off_t)bytes);
}

/* Pages of this memory are large only if asked for, and only after they are there (Linux 6.1); else they stay small. */
static void shm_populate(struct tu_transport *t, uint64_t place, size_t bytes, bool fresh) {
  if (madvise(t->base + place, bytes, fresh ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) != 0) return;
  if (fresh && bytes >= TU_LARGE_PAGE)
    (void)madvise(t->base + place, bytes / TU_LARGE_PAGE * TU_LARGE_PAGE, MADV_COLLAPSE);
}

static bool shm_map_over(struct tu_transport *t, void *memory, uint64_t place, size_t bytes) {
  int flags = place ? MAP_SHARED | MAP_FIXED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  int fd = place ? ((struct shm *)t)->fd : -1;
  return mmap(memory, bytes, PROT_READ | PROT_WRITE, flags, fd, (off_t)place) != MAP_FAILED;
}

static void shm_close(struct tu_transport *t) {
  struct shm *shm = (struct shm *)t;
  tu_transport_fini(t);
  munmap(shm->mapped, shm->mapped_bytes);
  close(shm->fd);
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
    close(memory_fd);
    return err;
  }
  (void)madvise(base, bytes, MADV_HUGEPAGE); /* large pages that a peer has made are mapped as such */
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)rank, .l_len = 1};
  if (fcntl(memory_fd, F_SETLK, &lock) != 0) {
    tutti_err err = tu_fail_errno(error, "rank %u cannot lock its byte of the shared memory", rank);
    munmap(mapped, mapped_bytes);
    close(memory_fd);
    return err;
  }
  struct shm *shm = tu_try_allocate(1, sizeof *shm);
  if (!shm || !tu_transport_init(&shm->transport, &shm_ops, rank, ranks, base, slice_bytes)) {
    free(shm);
    munmap(mapped, mapped_bytes);
    close(memory_fd);
    return tu_fail_memory(error, sizeof *shm, "rank %u's end of the shared memory", rank);
  }
  shm->fd = memory_fd;
  shm->mapped = mapped;
  shm->mapped_bytes = mapped_bytes;
  *t = &shm->transport;
  return TUTTI_OK;
}
