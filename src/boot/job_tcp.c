/* job_tcp.c: the star: who makes which end of it, and what both need to reach each other. */
#include "boot/job_tcp.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/job_tcp_wire.h"

void tu_boot_place_name(const struct tu_boot_place *place, char *name, size_t bytes) {
  snprintf(name, bytes, "%.255s:%u", place->address, place->port);
}

tutti_err tu_boot_resolve(const struct tu_boot_place *place, bool passive, struct addrinfo **found,
                          struct tu_error *error) {
  char port[8];
  snprintf(port, sizeof port, "%u", place->port);
  struct addrinfo hints = {
      .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0)};
  int failed = getaddrinfo(place->address, port, &hints, found);
  if (failed == 0) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                 "the address '%s' (MASTER_ADDR, or tutti_options.address) is none that this host can find: %s",
                 place->address, gai_strerror(failed));
}

tutti_err tu_boot_fail_as_told(const struct tu_boot_note *note, const char *who, struct tu_error *error) {
  bool known = note->code > TUTTI_OK && note->code <= TUTTI_ERR_UNSUPPORTED;
  return tu_fail(error, known ? (tutti_err)note->code : TUTTI_ERR_PEER, "%s%.490s", who, note->text);
}

void tu_boot_send_at_once(int fd) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* The kernel may pick the very port that we connect to as our own and connect the socket to itself. */
static bool connected_to_itself(int fd) {
  struct sockaddr_storage here, there;
  socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
  memset(&here, 0, sizeof here);
  memset(&there, 0, sizeof there);
  return getsockname(fd, (struct sockaddr *)&here, &here_bytes) == 0 &&
         getpeername(fd, (struct sockaddr *)&there, &there_bytes) == 0 && here_bytes == there_bytes &&
         memcmp(&here, &there, here_bytes) == 0;
}

int tu_boot_connect(const struct addrinfo *at, uint64_t deadline_ns) {
  int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  int why = connect(fd, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
  while (why == EINPROGRESS || why == EINTR) {
    struct pollfd polled = {.fd = fd, .events = POLLOUT};
    int ready = poll(&polled, 1, tu_clock_left_ms(deadline_ns));
    if (ready < 0 && errno == EINTR) continue;
    socklen_t bytes = sizeof why;
    if (ready <= 0) why = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &bytes) != 0) why = errno;
  }
  if (why == 0 && connected_to_itself(fd)) why = ECONNREFUSED;
  if (why == 0) {
    tu_boot_send_at_once(fd);
    return fd;
  }
  close(fd);
  errno = why;
  return -1;
}

tutti_err tu_job_tcp_create(const struct tu_boot_place *place, int timeout_ms, struct tu_job **job,
                            struct tu_error *error) {
  tu_assert(place->ranks > 1 && place->rank < place->ranks);
  if (timeout_ms <= 0) timeout_ms = TU_BOOT_JOIN_MS;
  *job = NULL;
  return place->rank == 0 ? tu_job_tcp_create_root(place, timeout_ms, job, error)
                          : tu_job_tcp_create_joiner(place, timeout_ms, job, error);
}
