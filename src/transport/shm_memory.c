/* shm_memory.c: creates the memory that the ranks of a host share, and hands it to them. The memory is a sealed
 * memfd. It is sent over a UNIX socket in the abstract namespace, to processes of the same user that show the token
 * of the job. The memfd and the socket have no name in the file system, so none is left behind. */
#include "transport/shm_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "base/socket.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* Default and minimum of TUTTI_SHM_BYTES, in bytes of address space: a page uses memory only once it is written. */
static const uint64_t slice_bytes_default = UINT64_C(1) << 30;
static const uint64_t slice_bytes_min = UINT64_C(1) << 20;
/* Seals of the memfd. If a peer could shrink the file, it could kill all other ranks with SIGBUS. */
enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/* Returns an error if the memory would exceed RLIMIT_FSIZE. Beyond this limit the kernel sends SIGXFSZ, also for a
 * memfd. */
static tutti_err check_file_limit(size_t bytes, uint32_t ranks, struct tu_error *error) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur)
    return TUTTI_OK;
  char fits[64] = "";
  unsigned long long fitting = limit.rlim_cur / ranks / (1 << 20);
  if (fitting > 0) snprintf(fits, sizeof fits, ", or set TUTTI_SHM_BYTES=%lluM", fitting);
  return tu_fail(
      error, TUTTI_ERR_SYSTEM,
      "the shared memory of %u ranks x %zu bytes exceeds the limit on the size of a file, %llu bytes: raise it "
      "(ulimit -f)%s",
      ranks, bytes / ranks, (unsigned long long)limit.rlim_cur, fits);
}

#define MAGIC "tuttimm"

/* What a rank sends to the socket to get the shared memory. */
struct claim {
  char magic[8];
  uint8_t token[16];
};

tutti_err tu_shm_slice_bytes(size_t *bytes, struct tu_error *error) {
  uint64_t wanted = slice_bytes_default;
  tutti_err err = tu_env_bytes("TUTTI_SHM_BYTES", &wanted, error);
  if (err != TUTTI_OK) return err;
  if (wanted < slice_bytes_min) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "TUTTI_SHM_BYTES is %llu bytes per rank; expected at least %llu",
                   (unsigned long long)wanted, (unsigned long long)slice_bytes_min);
  }
  /* Each slice starts on a page boundary, whatever the page size of the machine. */
  *bytes = tu_round_up((size_t)wanted, (size_t)sysconf(_SC_PAGESIZE));
  return TUTTI_OK;
}

tutti_err tu_shm_memory_make(uint32_t ranks, struct tu_shm_memory *memory, struct tu_error *error) {
  memory->fd = -1;
  tutti_err err = tu_shm_slice_bytes(&memory->slice_bytes, error);
  if (err != TUTTI_OK) return err;
  size_t bytes;
  if (!tu_multiply(memory->slice_bytes, ranks, &bytes) || bytes > (size_t)INT64_MAX) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                   "TUTTI_SHM_BYTES is %zu bytes per rank, which is too much for %u ranks; set it lower",
                   memory->slice_bytes, ranks);
  }
  if ((err = check_file_limit(bytes, ranks, error)) != TUTTI_OK) return err;
  /* Kernels before 6.3 do not support MFD_NOEXEC_SEAL; some later kernels require it. */
  int fd = memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (fd < 0 && errno == EINVAL) fd = memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return tu_fail_errno(error, "memfd_create of the shared memory failed");
  if (ftruncate(fd, (off_t)bytes) != 0) {
    err = tu_fail_errno(error,
                        "ftruncate of the shared memory to %u x %zu bytes failed; TUTTI_SHM_BYTES sets the bytes "
                        "per rank",
                        ranks, memory->slice_bytes);
  } else if (fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
    err = tu_fail_errno(error, "fcntl(F_ADD_SEALS) of the shared memory failed");
  }
  if (err != TUTTI_OK) close(fd);
  else memory->fd = fd;
  return err;
}

static tutti_err listen_for(size_t slice_bytes, struct tu_shm_offer *offer, int *listener, struct tu_error *error) {
  memset(offer, 0, sizeof *offer);
  offer->slice_bytes = slice_bytes;
  uint64_t name[2];
  if (getrandom(name, sizeof name, 0) != (ssize_t)sizeof name ||
      getrandom(offer->token, sizeof offer->token, 0) != (ssize_t)sizeof offer->token) {
    return tu_fail_errno(error, "getrandom for the token of the shared memory failed");
  }
  snprintf(offer->socket, sizeof offer->socket, "tutti-%016llx%08llx", (unsigned long long)name[0],
           (unsigned long long)(name[1] & 0xffffffff));

  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return tu_fail_errno(error, "cannot create a UNIX socket for the shared memory");
  struct sockaddr_un address;
  socklen_t length = tu_socket_address(&address, offer->socket, sizeof offer->socket);
  if (bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, SOMAXCONN) != 0) {
    tutti_err err = tu_fail_errno(error, "cannot listen on the UNIX socket '@%s' for the shared memory", offer->socket);
    close(fd);
    return err;
  }
  *listener = fd;
  return TUTTI_OK;
}

/* Sends a descriptor; to: address, if the socket has no peer. */
static bool send_descriptor(int fd, int sent_fd, struct sockaddr_un *to, socklen_t to_bytes) {
  unsigned char one = 1; /* descriptors travel with at least one byte */
  struct iovec data = {&one, sizeof one};
  union {
    struct cmsghdr header; /* this member aligns the union, and so `space`, as a cmsghdr must be */
    char space[CMSG_SPACE(sizeof(int))];
  } control;
  memset(&control, 0, sizeof control);
  struct msghdr message = {.msg_name = to,
                           .msg_namelen = to_bytes,
                           .msg_iov = &data,
                           .msg_iovlen = 1,
                           .msg_control = control.space,
                           .msg_controllen = sizeof control.space};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &sent_fd, sizeof sent_fd);
  ssize_t n;
  do n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (n < 0 && errno == EINTR);
  return n > 0;
}

/* ---- the rank that created the memory ---- */

/* Answers one readable connection: sends the memfd if the token is right. */
static void give(int fd, const struct tu_shm_offer *offer, int memory_fd) {
  struct claim claim;
  ssize_t n = recv(fd, &claim, sizeof claim, MSG_DONTWAIT);
  if (n != (ssize_t)sizeof claim || memcmp(claim.magic, MAGIC, sizeof claim.magic) != 0) return;
  if (sodium_memcmp(claim.token, offer->token, sizeof claim.token) != 0) return;

  (void)send_descriptor(fd, memory_fd, NULL, 0);
}

/* Maximum number of connections whose claim (message with the token) has not arrived. When this number is reached,
 * connections older than GUEST_NS ns are closed. Usually a claim arrives at once. */
#define GUESTS 16u
#define GUEST_NS 1000000000u

enum { END, LISTENER, FIRST_GUEST };

struct tu_shm_handing {
  struct tu_shm_offer offer;
  int memory_fd;
  struct pollfd polled[FIRST_GUEST + GUESTS];
  uint64_t came_ns[GUESTS];
  uint32_t guests;
  int ends[2]; /* the ends of a pipe; a byte in the pipe ends the thread */
  pthread_t thread;
};

static void close_handing(struct tu_shm_handing *h) {
  for (uint32_t i = LISTENER; i < FIRST_GUEST + h->guests; i++)
    if (h->polled[i].fd >= 0) close(h->polled[i].fd);
  for (int i = 0; i < 2; i++)
    if (h->ends[i] >= 0) close(h->ends[i]);
  free(h);
}

static void drop_guest(struct tu_shm_handing *h, uint32_t guest) {
  close(h->polled[FIRST_GUEST + guest].fd);
  h->guests--;
  h->polled[FIRST_GUEST + guest] = h->polled[FIRST_GUEST + h->guests];
  h->came_ns[guest] = h->came_ns[h->guests];
}

static void drop_old_guests(struct tu_shm_handing *h) {
  for (uint32_t i = h->guests; i-- > 0;)
    if (tu_clock_ns() - h->came_ns[i] > GUEST_NS) drop_guest(h, i);
}

static void accept_guest(struct tu_shm_handing *h) {
  int fd = accept4(h->polled[LISTENER].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  /* accept4 has failed, for example because no file descriptor is free: wait 10 ms before the next attempt. */
  if (fd < 0 && errno != EINTR && errno != EAGAIN) (void)poll(NULL, 0, 10);
  if (fd < 0) return;
  if (!tu_socket_is_own(fd)) {
    close(fd);
    return;
  }
  h->polled[FIRST_GUEST + h->guests] = (struct pollfd){.fd = fd, .events = POLLIN};
  h->came_ns[h->guests++] = tu_clock_ns();
}

static void *serve(void *context) {
  struct tu_shm_handing *h = context;
  const int listener = h->polled[LISTENER].fd;
  while (!h->polled[END].revents) {
    bool full = h->guests == GUESTS;
    /* Do not accept while there are GUESTS connections: poll ignores fd -1, and new connections wait in the listen
     * queue. */
    h->polled[LISTENER].fd = full ? -1 : listener;
    int ready = poll(h->polled, FIRST_GUEST + h->guests, full ? 100 : -1);
    h->polled[LISTENER].fd = listener;
    if (ready < 0 && errno != EINTR) return NULL;
    for (uint32_t i = ready > 0 ? h->guests : 0; i-- > 0;) {
      if (!h->polled[FIRST_GUEST + i].revents) continue;
      give(h->polled[FIRST_GUEST + i].fd, &h->offer, h->memory_fd);
      drop_guest(h, i);
    }
    if (full) drop_old_guests(h);
    else if (ready > 0 && h->polled[LISTENER].revents) accept_guest(h);
  }
  return NULL;
}

tutti_err tu_shm_memory_hand_out(const struct tu_shm_memory *memory, struct tu_shm_handing **handing,
                                 struct tu_shm_offer *offer, struct tu_error *error) {
  struct tu_shm_handing *h = tu_try_allocate(1, sizeof *h);
  if (!h) return tu_fail_memory(error, sizeof *h, "the thread that hands out the shared memory");
  h->memory_fd = memory->fd;
  h->ends[0] = h->ends[1] = -1;
  h->polled[LISTENER].fd = -1;
  tutti_err err = listen_for(memory->slice_bytes, &h->offer, &h->polled[LISTENER].fd, error);
  if (err == TUTTI_OK && pipe2(h->ends, O_CLOEXEC) != 0)
    err = tu_fail_errno(error, "pipe2 failed for the thread that hands out the shared memory");
  if (err == TUTTI_OK) {
    h->polled[END].fd = h->ends[0];
    h->polled[END].events = h->polled[LISTENER].events = POLLIN;
    sigset_t all, before;
    sigfillset(&all);
    /* Block all signals in the new thread: signals belong to the program's own threads. */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&h->thread, NULL, serve, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
      errno = failed;
      err = tu_fail_errno(error, "pthread_create failed for the thread that hands out the shared memory");
    }
  }
  if (err != TUTTI_OK) {
    close_handing(h);
    return err;
  }
  *offer = h->offer;
  *handing = h;
  return TUTTI_OK;
}

void tu_shm_memory_end(struct tu_shm_handing *h) {
  if (!h) return;
  /* Write to the pipe instead of closing it, because a child of fork() may hold this end of the pipe open. */
  while (write(h->ends[1], "", 1) < 0 && errno == EINTR) continue;
  pthread_join(h->thread, NULL);
  close_handing(h);
}

/* ---- the other ranks ---- */

#define TRIES 5

/* Receives the file descriptor of the memory. *memory_fd is -1 if the message contains none. Returns false if nothing
 * has arrived yet. */
static bool receive_fd(int fd, int *memory_fd) {
  unsigned char one;
  struct iovec data = {&one, sizeof one};
  union {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))]; /* room for one file descriptor; the kernel closes any further ones */
  } control;
  struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
  *memory_fd = -1;
  ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (n < 0) return errno != EAGAIN && errno != EINTR;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len >= CMSG_LEN(sizeof(int))) {
    memcpy(memory_fd, CMSG_DATA(header), sizeof *memory_fd);
  }
  return true;
}

/* Checks that the memory has the promised size, and is sealed so that no process can shrink it. */
static tutti_err verify(int fd, uint32_t ranks, uint64_t slice_bytes, struct tu_error *error) {
  struct stat status;
  size_t bytes;
  if (fstat(fd, &status) != 0) return tu_fail_errno(error, "fstat of the shared memory of this host failed");
  if (slice_bytes < slice_bytes_min || !tu_multiply(slice_bytes, ranks, &bytes) || !S_ISREG(status.st_mode) ||
      status.st_size < 0 || (uint64_t)status.st_size != bytes) {
    return tu_fail(error, TUTTI_ERR_PEER, "the shared memory of this host has %lld bytes, expected %u x %llu",
                   (long long)status.st_size, ranks, (unsigned long long)slice_bytes);
  }
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & SEALS) != SEALS) {
    return tu_fail(error, TUTTI_ERR_PEER,
                   "the shared memory of this host is not sealed: its size could change (seals %#x, "
                   "expected %#x)",
                   (unsigned)seals, (unsigned)SEALS);
  }
  return TUTTI_OK;
}

/* Sets *error to state that rank `from`, which created the socket, is gone. If it were alive, it would keep the socket
 * open until all ranks of the host have mapped the memory. */
static tutti_err fail_gone(const struct tu_job *job, uint32_t from, struct tu_error *error) {
  return tu_fail(error, TUTTI_ERR_PEER,
                 "rank %u did not receive the shared memory of its host: rank %u has exited or left the job", job->rank,
                 from);
}

/* Connects to the socket and sends the token. The socket existed before its name was sent to any rank, so a connection
 * can only fail because the socket's queue is full. */
static tutti_err claim_memory(struct tu_job *job, uint32_t from, const struct tu_shm_offer *offer, int fd,
                              struct tu_error *error) {
  struct sockaddr_un address;
  socklen_t length = tu_socket_address(&address, offer->socket, sizeof offer->socket);
  while (connect(fd, (struct sockaddr *)&address, length) != 0) {
    if (errno == ECONNREFUSED) return fail_gone(job, from, error);
    if (errno != EAGAIN && errno != EINTR)
      return tu_fail_errno(error, "rank %u cannot connect to the UNIX socket '@%.32s' for the shared memory", job->rank,
                           offer->socket);
    if (tu_clock_left_ms(job->deadline_ns) == 0)
      return tu_fail(error, TUTTI_ERR_TIMEOUT,
                     "rank %u waited %d ms to connect for the shared memory: the socket's queue is full", job->rank,
                     job->timeout_ms);
    (void)poll(NULL, 0, 2);
  }
  if (!tu_socket_is_own(fd))
    return tu_fail(
        error, TUTTI_ERR_PEER,
        "the process that offers the shared memory does not run as user %u; expected all ranks to run as one user",
        (unsigned)geteuid());
  struct claim claim = {.magic = MAGIC};
  memcpy(claim.token, offer->token, sizeof claim.token);
  return send(fd, &claim, sizeof claim, MSG_NOSIGNAL) == (ssize_t)sizeof claim ? TUTTI_OK : fail_gone(job, from, error);
}

/* Waits for the memfd from the rank that created it. *memory_fd becomes -1 if that rank closed the connection. */
static tutti_err await_memory(struct tu_job *job, int fd, int *memory_fd, struct tu_error *error) {
  for (;;) {
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    int left_ms = tu_clock_left_ms(job->deadline_ns);
    int ready = poll(&polled, 1, left_ms);
    if (ready > 0 && receive_fd(fd, memory_fd)) return TUTTI_OK;
    if (left_ms == 0)
      return tu_fail(error, TUTTI_ERR_TIMEOUT, "rank %u waited %d ms for the shared memory of its host", job->rank,
                     job->timeout_ms);
  }
}

/* Makes one attempt to get the memfd from rank `from`. *memory_fd becomes -1 if that rank closed the connection. */
static tutti_err fetch(struct tu_job *job, uint32_t from, const struct tu_shm_offer *offer, int *memory_fd,
                       struct tu_error *error) {
  *memory_fd = -1;
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return tu_fail_errno(error, "rank %u cannot create a UNIX socket for the shared memory", job->rank);
  tutti_err err = claim_memory(job, from, offer, fd, error);
  if (err == TUTTI_OK) err = await_memory(job, fd, memory_fd, error);
  close(fd);
  return err;
}

tutti_err tu_shm_memory_take(struct tu_job *job, uint32_t from, const struct tu_shm_offer *offer, uint32_t ranks,
                             struct tu_shm_memory *memory, struct tu_error *error) {
  int memory_fd = -1;
  tutti_err err = TUTTI_OK;
  *memory = (struct tu_shm_memory){.fd = -1};
  for (int tries = 0; tries < TRIES && err == TUTTI_OK && memory_fd < 0; tries++) {
    if (tries > 0) (void)poll(NULL, 0, 10); /* rank `from` has closed the connection without sending; try again */
    err = fetch(job, from, offer, &memory_fd, error);
  }
  if (err != TUTTI_OK) return err;
  if (memory_fd < 0) return fail_gone(job, from, error);
  if ((err = verify(memory_fd, ranks, offer->slice_bytes, error)) != TUTTI_OK) {
    close(memory_fd);
    return err;
  }
  *memory = (struct tu_shm_memory){.fd = memory_fd, .slice_bytes = (size_t)offer->slice_bytes};
  return TUTTI_OK;
}

/* ---- the process that keeps the memory open ---- */

void tu_shm_memory_keep(const struct tu_shm_memory *memory) {
  const char *name = tu_env("TUTTI_KEEPER");
  struct sockaddr_un address;
  const int fd = name ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
  if (fd < 0) return;
  const socklen_t length = tu_socket_address(&address, name, strlen(name));
  /* If that fails, the memory can be looked at as long as a rank has it open. */
  (void)send_descriptor(fd, memory->fd, &address, length);
  close(fd);
}

int tu_shm_memory_await(char *name, size_t bytes) {
  uint64_t random[2];
  struct sockaddr_un address;
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  if (getrandom(random, sizeof random, 0) == (ssize_t)sizeof random) {
    snprintf(name, bytes, "tutti-%016llx%016llx", (unsigned long long)random[0], (unsigned long long)random[1]);
    const socklen_t length = tu_socket_address(&address, name, bytes);
    if (bind(fd, (struct sockaddr *)&address, length) == 0) return fd;
  }
  close(fd);
  return -1;
}

bool tu_shm_memory_arrives(int socket, int *fd) {
  struct pollfd polled = {.fd = socket, .events = POLLIN};
  struct stat status;
  if (poll(&polled, 1, 0) != 1 || !receive_fd(socket, fd)) return false;
  if (*fd < 0) return true;
  const int seals = fcntl(*fd, F_GET_SEALS);
  if (fstat(*fd, &status) == 0 && status.st_uid == geteuid() && seals >= 0 && (seals & SEALS) == SEALS) return true;
  close(*fd);
  *fd = -1;
  return true;
}

bool tu_shm_memory_is_used(int fd) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET}; /* all bytes */
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}
