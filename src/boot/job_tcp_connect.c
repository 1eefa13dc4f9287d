/* job_tcp_connect.c: addresses and connections of a job over TCP, for rank 0 and for the other ranks. */
#include <arpa/inet.h>
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

/* Maximum number of characters of an address in messages. A list may be longer. */
enum { NAME_CHARS = 200 };

void tu_boot_address_name(const struct tu_boot_identity *identity, char *name, size_t bytes) {
  const bool is_long = strlen(identity->address) > NAME_CHARS;
  snprintf(name, bytes, "%.*s%s:%u", is_long ? NAME_CHARS - 3 : NAME_CHARS, identity->address, is_long ? "..." : "",
           identity->port);
}

/* Adds the addresses of one entry of the list. Returns the error of getaddrinfo(). */
static int add_places(const char *entry, const char *port, struct tu_boot_places *places) {
  struct addrinfo *found;
  const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
  const int failed = getaddrinfo(entry, port, &hints, &found);
  if (failed != 0) return failed;
  for (const struct addrinfo *at = found; at && places->count < TU_BOOT_PLACES_MAX; at = at->ai_next) {
    struct tu_boot_place *place = &places->at[places->count++];
    memset(place, 0, sizeof *place);
    memcpy(&place->address, at->ai_addr, at->ai_addrlen);
    place->bytes = at->ai_addrlen;
  }
  freeaddrinfo(found);
  return 0;
}

tutti_err tu_boot_resolve(const struct tu_boot_identity *identity, struct tu_boot_places *places,
                          struct tu_error *error) {
  char port[8], entry[sizeof identity->address];
  uint8_t number[16];
  int failed = EAI_NONAME;
  snprintf(port, sizeof port, "%u", identity->port);
  *places = (struct tu_boot_places){.is_list = strchr(identity->address, ',') != NULL};
  for (const char *at = identity->address; *at; at += strspn(at, ",")) {
    const size_t length = strcspn(at, ",");
    const bool bracketed = length > 2 && at[0] == '[' && at[length - 1] == ']';
    snprintf(entry, sizeof entry, "%.*s", (int)(length - 2 * bracketed), at + bracketed);
    if (at == identity->address) places->is_name = inet_pton(AF_INET, entry, number) != 1 && !strchr(entry, ':');
    const int refused = *entry ? add_places(entry, port, places) : EAI_NONAME;
    if (refused != 0) failed = refused;
    at += length;
  }
  if (places->count > 0) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "cannot resolve address '%.255s' (%s): %s", identity->address,
                 "TUTTI_MASTER_ADDR, MASTER_ADDR or tutti_options.address", gai_strerror(failed));
}

void tu_boot_place_name(const struct tu_boot_place *at, char name[64]) {
  if (getnameinfo((const struct sockaddr *)&at->address, at->bytes, name, 64, NULL, 0, NI_NUMERICHOST) != 0)
    snprintf(name, 64, "?");
}

tutti_err tu_boot_fail_as_told(const struct tu_boot_note *note, const char *who, struct tu_error *error) {
  bool known = note->code > TUTTI_OK && note->code <= TUTTI_ERR_UNSUPPORTED;
  return tu_fail(error, known ? (tutti_err)note->code : TUTTI_ERR_PEER, "%s%.490s", who, note->text);
}

void tu_boot_send_at_once(int fd) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

void tu_boot_local_address(int fd, struct sockaddr_storage *address) {
  struct sockaddr_in6 six;
  struct sockaddr_in four = {.sin_family = AF_INET};
  socklen_t bytes = sizeof *address;
  memset(address, 0, sizeof *address);
  if (getsockname(fd, (struct sockaddr *)address, &bytes) != 0) address->ss_family = AF_UNSPEC;
  memcpy(&six, address, sizeof six);
  if (address->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) return;
  memcpy(&four.sin_addr, six.sin6_addr.s6_addr + 12, sizeof four.sin_addr);
  memset(address, 0, sizeof *address);
  memcpy(address, &four, sizeof four);
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

int tu_boot_connect(const struct tu_boot_place *at, uint64_t deadline_ns) {
  int fd = socket(at->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  int why = connect(fd, (const struct sockaddr *)&at->address, at->bytes) == 0 ? 0 : errno;
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
