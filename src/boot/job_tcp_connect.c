/* job_tcp_connect.c: addresses and connections of a job over TCP, for rank 0 and for the other ranks. */
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

void tu_boot_address_name(const struct tu_boot_identity *identity, char *name, size_t bytes) {
  snprintf(name, bytes, "%.255s:%u", identity->address, identity->port);
}

tutti_err tu_boot_resolve(const struct tu_boot_identity *identity, bool passive, struct addrinfo **found,
                          struct tu_error *error) {
  char port[8];
  snprintf(port, sizeof port, "%u", identity->port);
  struct addrinfo hints = {
      .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0)};
  int failed = getaddrinfo(identity->address, port, &hints, found);
  if (failed == 0) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "cannot resolve address '%s' (MASTER_ADDR or tutti_options.address): %s",
                 identity->address, gai_strerror(failed));
}

tutti_err tu_boot_fail_as_told(const struct tu_boot_note *note, const char *who, struct tu_error *error) {
  bool known = note->code > TUTTI_OK && note->code <= TUTTI_ERR_UNSUPPORTED;
  return tu_fail(error, known ? (tutti_err)note->code : TUTTI_ERR_PEER, "%s%.490s", who, note->text);
}

void tu_boot_send_at_once(int fd) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* Returns true if the socket is connected to itself, which happens if the kernel chooses the destination's port as the
 * source port. */
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
