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

struct shm {
  struct tu_transport transport;
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

static void shm_close(struct tu_transport *t) {
  struct shm *shm = (struct shm *)t;
  tu_transport_fini(t);
  munmap(t->base, t->slice_bytes * t->ranks);
  close(shm->fd);
  free(shm);
}

static const struct tu_transport_ops shm_ops = {
    .name = "shm",
    .alive = shm_alive,
    .discard = shm_discard,
    .close = shm_close,
};

tutti_err tu_shm_create(uint32_t rank, uint32_t ranks, int memory_fd, size_t slice_bytes, struct tu_transport **t,
                        struct tu_error *error) {
  size_t bytes = slice_bytes * ranks;
  void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory_fd, 0);
  if (base == MAP_FAILED) {
    tutti_err err = tu_fail_errno(error,
                                  "rank %u cannot map %zu bytes of shared memory (%u ranks, %zu each); lower "
                                  "TUTTI_SHM_BYTES or raise the limit on virtual memory (ulimit -v)",
                                  rank, bytes, ranks, slice_bytes);
    close(memory_fd);
    return err;
  }
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)rank, .l_len = 1};
  if (fcntl(memory_fd, F_SETLK, &lock) != 0) {
    tutti_err err = tu_fail_errno(error, "rank %u cannot lock its byte of the shared memory", rank);
    munmap(base, bytes);
    close(memory_fd);
    return err;
  }
  struct shm *shm = tu_allocate(1, sizeof *shm);
  shm->fd = memory_fd;
  tu_transport_init(&shm->transport, &shm_ops, rank, ranks, base, slice_bytes);
  *t = &shm->transport;
  return TUTTI_OK;
}
