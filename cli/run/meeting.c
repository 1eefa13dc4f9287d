/* meeting.c: reserves rank 0's port, and makes the job's secret.
 *
 * The socket is bound to the port until the job ends, but does not listen. Thus the kernel does not assign the port to
 * another process. Rank 0 also binds the port, and listens. SO_REUSEPORT permits this, but only to processes of the
 * launcher's user. SO_REUSEADDR must stay unset, because it would let any user listen on the port before rank 0. */
#include "cli/run/meeting.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/env.h"
#include "base/text.h"
#include "boot/job_address.h"

static bool bind_to(struct run_meeting *meeting, const struct sockaddr *address, socklen_t bytes) {
  const int one = 1, off = 0;
  meeting->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (meeting->fd < 0) return false;
  struct sockaddr_storage bound;
  socklen_t bound_bytes = sizeof bound;
  /* A socket at the IPv6 wildcard takes the port of the IPv4 addresses, too. */
  if (address->sa_family == AF_INET6) (void)setsockopt(meeting->fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (setsockopt(meeting->fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) == 0 &&
      bind(meeting->fd, address, bytes) == 0 &&
      getsockname(meeting->fd, (struct sockaddr *)&bound, &bound_bytes) == 0) {
    meeting->port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)(void *)&bound)->sin6_port
                                                      : ((struct sockaddr_in *)(void *)&bound)->sin_port);
    return true;
  }
  const int why = errno;
  run_meeting_close(meeting);
  errno = why;
  return false;
}

static bool reserve(struct run_meeting *meeting, bool alone, unsigned port) {
  const struct sockaddr_in6 all = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
  const struct sockaddr_in ipv4 = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(alone ? INADDR_LOOPBACK : INADDR_ANY)};
  if (!alone && bind_to(meeting, (const struct sockaddr *)&all, sizeof all)) return true;
  /* A kernel without IPv6 has no such address. */
  if (!alone && errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL) return false;
  return bind_to(meeting, (const struct sockaddr *)&ipv4, sizeof ipv4);
}

/* Lists the addresses of this host. That at which ssh reached it comes first, if the user has not chosen an interface. */
static tutti_err list_addresses(struct run_meeting *meeting, struct tu_error *error) {
  const char *ssh = getenv("SSH_CONNECTION"); /* "CLIENT PORT SERVER PORT" */
  char all[sizeof meeting->addresses], reached[48] = "", entry[64], *rest = NULL;
  tutti_err err = tu_boot_addresses(all, sizeof all, error);
  if (err != TUTTI_OK) return err;
  if (ssh && !tu_env("TUTTI_INTERFACE")) (void)sscanf(ssh, "%*s %*s %47s", reached);
  if (strncmp(reached, "127.", 4) == 0 || strcmp(reached, "::1") == 0) reached[0] = '\0';
  (void)snprintf(entry, sizeof entry, strchr(reached, ':') ? "[%s]" : "%s", reached);
  struct tu_text first = {0}, others = {0};
  for (char *at = strtok_r(all, ",", &rest); at; at = strtok_r(NULL, ",", &rest)) {
    struct tu_text *list = strcmp(at, entry) == 0 ? &first : &others;
    tu_text_print(list, "%s%s", list->length ? "," : "", at);
  }
  (void)snprintf(meeting->addresses, sizeof meeting->addresses, "%s%s%s", first.length ? first.chars : "",
                 first.length && others.length ? "," : "", others.length ? others.chars : "");
  tu_text_fini(&first);
  tu_text_fini(&others);
  return TUTTI_OK;
}

tutti_err run_meeting_open(struct run_meeting *meeting, bool alone, struct tu_error *error) {
  unsigned low = 0, high = 0;
  tutti_err err = TUTTI_OK;
  if (alone) (void)snprintf(meeting->addresses, sizeof meeting->addresses, "127.0.0.1");
  else if ((err = tu_boot_ports(&low, &high, error)) == TUTTI_OK) err = list_addresses(meeting, error);
  if (err != TUTTI_OK) return err;
  errno = EADDRINUSE;
  for (unsigned port = low; port <= high && meeting->fd < 0 && errno == EADDRINUSE; port++)
    reserve(meeting, alone, port);
  if (meeting->fd >= 0) return TUTTI_OK;
  return tu_fail_errno(error, "cannot reserve a port at %s%s", alone ? "127.0.0.1" : "all addresses of this host",
                       low ? ", of those in TUTTI_PORTS" : "");
}

void run_meeting_close(struct run_meeting *meeting) {
  if (meeting->fd >= 0) close(meeting->fd);
  meeting->fd = -1;
}

tutti_err run_meeting_secret(struct run_meeting *meeting, struct tu_error *error) {
  unsigned char random[16];
  if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
    return tu_fail_errno(error, "getrandom failed for the job's secret");
  for (size_t i = 0; i < sizeof random; i++) snprintf(meeting->secret + 2 * i, 3, "%02x", random[i]);
  return TUTTI_OK;
}
