/* boot_memory.c: the memory that the ranks share: a sealed memfd, handed over a UNIX socket in the abstract namespace to
 * processes of the same user that show the job's token. Nothing of it has a name that could be left behind. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/env.h"
#include "boot/boot_wire.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* Address space, not memory: pages exist once they are written. */
static const uint64_t slice_bytes_default = UINT64_C(1) << 30;
static const uint64_t slice_bytes_min = UINT64_C(1) << 20;
/* A peer that could cut the file short would kill all others with SIGBUS. */
enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/* Beyond RLIMIT_FSIZE the kernel sends SIGXFSZ, of a file without a name, too. */
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

/* What a rank shows at the socket. */
struct claim {
  char magic[8];
  uint32_t rank;
  uint32_t reserved;
  uint8_t token[16];
};

tutti_err tu_boot_slice_bytes(size_t *bytes, struct tu_error *error) {
  uint64_t wanted = slice_bytes_default;
  tutti_err err = tu_env_bytes("TUTTI_SHM_BYTES", &wanted, error);
  if (err != TUTTI_OK) return err;
  if (wanted < slice_bytes_min) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "TUTTI_SHM_BYTES is %llu bytes a rank; at least %llu are needed",
                   (unsigned long long)wanted, (unsigned long long)slice_bytes_min);
  }
  /* Every slice starts on a page, of whatever size the machine's are. */
  *bytes = tu_round_up((size_t)wanted, (size_t)sysconf(_SC_PAGESIZE));
  return TUTTI_OK;
}

tutti_err tu_boot_memory_make(uint32_t ranks, struct tu_boot_share *share, struct tu_error *error) {
  share->memory_fd = -1;
  tutti_err err = tu_boot_slice_bytes(&share->slice_bytes, error);
  if (err != TUTTI_OK) return err;
  size_t bytes;
  if (!tu_multiply(share->slice_bytes, ranks, &bytes) || bytes > (size_t)INT64_MAX) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "TUTTI_SHM_BYTES is %zu bytes a rank: %u times that is too much",
                   share->slice_bytes, ranks);
  }
  if ((err = check_file_limit(bytes, ranks, error)) != TUTTI_OK) return err;
  /* Kernels before 6.3 do not know the flag; some later ones insist on it. */
  int fd = memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (fd < 0 && errno == EINVAL) fd = memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return tu_fail_errno(error, "cannot make the shared memory (memfd_create)");
  if (ftruncate(fd, (off_t)bytes) != 0) {
    err = tu_fail_errno(error,
                        "cannot give the shared memory its size of %u x %zu bytes; TUTTI_SHM_BYTES sets the part "
                        "of one rank",
                        ranks, share->slice_bytes);
  } else if (fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
    err = tu_fail_errno(error, "cannot seal the shared memory");
  }
  if (err != TUTTI_OK) close(fd);
  else share->memory_fd = fd;
  return err;
}

static socklen_t abstract_address(struct sockaddr_un *address, const struct tu_boot_offer *offer) {
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  /* A zero byte first: the name lives in the kernel only and goes with its last socket. */
  size_t length = strnlen(offer->socket, sizeof offer->socket);
  memcpy(address->sun_path + 1, offer->socket, length);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

tutti_err tu_boot_memory_listen(size_t slice_bytes, struct tu_boot_offer *offer, int *listener,
                                struct tu_error *error) {
  memset(offer, 0, sizeof *offer);
  offer->slice_bytes = slice_bytes;
  uint64_t name[2];
  if (getrandom(name, sizeof name, 0) != (ssize_t)sizeof name ||
      getrandom(offer->token, sizeof offer->token, 0) != (ssize_t)sizeof offer->token) {
    return tu_fail_errno(error, "cannot get random numbers for the job's token");
  }
  snprintf(offer->socket, sizeof offer->socket, "tutti-%016llx%08llx", (unsigned long long)name[0],
           (unsigned long long)(name[1] & 0xffffffff));

  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return tu_fail_errno(error, "cannot make a UNIX socket");
  struct sockaddr_un address;
  socklen_t length = abstract_address(&address, offer);
  if (bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, SOMAXCONN) != 0) {
    tutti_err err = tu_fail_errno(error, "cannot listen at UNIX socket '@%s'", offer->socket);
    close(fd);
    return err;
  }
  *listener = fd;
  return TUTTI_OK;
}

bool tu_boot_memory_same_user(int fd) {
  struct ucred credentials;
  socklen_t bytes = sizeof credentials;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) == 0 && credentials.uid == geteuid();
}

bool tu_boot_memory_give(int fd, const struct tu_boot_offer *offer, int memory_fd, uint32_t *rank) {
  struct claim claim;
  ssize_t n = recv(fd, &claim, sizeof claim, MSG_DONTWAIT);
  if (n != (ssize_t)sizeof claim || memcmp(claim.magic, TU_BOOT_MAGIC, sizeof claim.magic) != 0) return false;
  if (sodium_memcmp(claim.token, offer->token, sizeof claim.token) != 0) return false;

  uint64_t slice_bytes = offer->slice_bytes;
  struct iovec data = {&slice_bytes, sizeof slice_bytes};
  union {
    struct cmsghdr header; /* aligns the space */
    char space[CMSG_SPACE(sizeof(int))];
  } control;
  memset(&control, 0, sizeof control);
  struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &memory_fd, sizeof memory_fd);
  do n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (n < 0 && errno == EINTR);
  *rank = claim.rank;
  return n == (ssize_t)sizeof slice_bytes;
}

/* Receives the one descriptor that we asked for: *memory_fd, or -1. False if there is nothing yet. */
static bool receive_fd(int fd, int *memory_fd) {
  uint64_t slice_bytes;
  struct iovec data = {&slice_bytes, sizeof slice_bytes};
  union {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))]; /* one: the kernel closes any more that might come */
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

/* The memory is what was promised, and nobody can take any of it away. */
static tutti_err verify(int fd, uint32_t ranks, uint64_t slice_bytes, struct tu_error *error) {
  struct stat status;
  size_t bytes;
  if (fstat(fd, &status) != 0) return tu_fail_errno(error, "cannot look at the shared memory that rank 0 sent");
  if (slice_bytes < slice_bytes_min || !tu_multiply(slice_bytes, ranks, &bytes) || !S_ISREG(status.st_mode) ||
      status.st_size < 0 || (uint64_t)status.st_size != bytes) {
    return tu_fail(error, TUTTI_ERR_PEER, "the shared memory that rank 0 sent has %lld bytes, expected %u x %llu",
                   (long long)status.st_size, ranks, (unsigned long long)slice_bytes);
  }
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & SEALS) != SEALS) {
    return tu_fail(error, TUTTI_ERR_PEER,
                   "the shared memory that rank 0 sent is not sealed against a change of its "
                   "size (seals %#x, expected %#x)",
                   (unsigned)seals, (unsigned)SEALS);
  }
  return TUTTI_OK;
}

/* Connects and shows the token. The socket is there before anybody is told its name; only its queue may be full. */
static tutti_err claim_memory(const struct tu_boot_place *place, const struct tu_boot_offer *offer, int fd, int line_fd,
                              uint64_t deadline_ns, struct tu_error *error) {
  struct sockaddr_un address;
  socklen_t length = abstract_address(&address, offer);
  while (connect(fd, (struct sockaddr *)&address, length) != 0) {
    if (errno != EAGAIN && errno != EINTR) {
      return tu_fail_errno(error, "cannot reach rank 0's UNIX socket '@%.32s'", offer->socket);
    }
    struct pollfd verdict = {.fd = line_fd, .events = POLLIN};
    if (poll(&verdict, 1, 2) > 0 || tu_boot_left_ms(deadline_ns) == 0) {
      return tu_fail(error, TUTTI_ERR_PEER, "rank 0 did not take the connection for the shared memory");
    }
  }
  if (!tu_boot_memory_same_user(fd)) {
    return tu_fail(error, TUTTI_ERR_PEER,
                   "the process that offers the shared memory is not of user %u: all ranks must "
                   "run as one user",
                   (unsigned)geteuid());
  }
  struct claim claim = {.magic = TU_BOOT_MAGIC, .rank = place->rank};
  memcpy(claim.token, offer->token, sizeof claim.token);
  if (!tu_boot_send(fd, &claim, sizeof claim)) {
    return tu_fail_errno(error, "rank 0 closed the connection for the shared memory");
  }
  return TUTTI_OK;
}

tutti_err tu_boot_memory_take(const struct tu_boot_place *place, const struct tu_boot_offer *offer, int line_fd,
                              uint64_t deadline_ns, struct tu_boot_share *share, struct tu_error *error) {
  int memory_fd = -1;
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return tu_fail_errno(error, "cannot make a UNIX socket");
  tutti_err err = claim_memory(place, offer, fd, line_fd, deadline_ns, error);
  if (err != TUTTI_OK) goto done;
  for (;;) {
    struct pollfd polled[2] = {{.fd = fd, .events = POLLIN}, {.fd = line_fd, .events = POLLIN}};
    int ready = poll(polled, 2, tu_boot_left_ms(deadline_ns));
    if (ready < 0 && errno == EINTR) continue;
    if (polled[0].revents && receive_fd(fd, &memory_fd)) break;
    if (ready <= 0 || polled[1].revents) break;
  }
  if (memory_fd < 0) err = tu_fail(error, TUTTI_ERR_PEER, "rank 0 did not hand over the shared memory");
  else err = verify(memory_fd, place->ranks, offer->slice_bytes, error);
  if (err == TUTTI_OK) {
    *share = (struct tu_boot_share){.memory_fd = memory_fd, .slice_bytes = (size_t)offer->slice_bytes};
    memory_fd = -1;
  }
done:
  tu_boot_close(&memory_fd);
  close(fd);
  return err;
}
