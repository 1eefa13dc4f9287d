/* job_address.c: chooses the address and port at which a rank listens for connections from other hosts. */
#include "boot/job_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"

static const struct sockaddr_in *ipv4(const struct sockaddr *a) { return (const struct sockaddr_in *)(const void *)a; }
static const struct sockaddr_in6 *ipv6(const struct sockaddr *a) {
  return (const struct sockaddr_in6 *)(const void *)a;
}

/* Returns the bytes of an IP address, and their number; 0: it is no IP address. */
static size_t bytes_of(const struct sockaddr *a, const uint8_t **bytes) {
  if (a && a->sa_family == AF_INET) {
    *bytes = (const uint8_t *)&ipv4(a)->sin_addr;
    return 4;
  }
  if (!a || a->sa_family != AF_INET6) return 0;
  *bytes = (const uint8_t *)&ipv6(a)->sin6_addr;
  return 16;
}

/* ---- TUTTI_INTERFACE: a name, or an address with the number of bits that count ---- */

struct range {
  char name[IF_NAMESIZE]; /* "": a range of addresses */
  size_t bytes, bits;
  uint8_t address[16];
};

static tutti_err read_range(const char *text, struct range *range, struct tu_error *error) {
  const char *slash = strchr(text, '/');
  char address[INET6_ADDRSTRLEN] = "", *end = NULL;
  *range = (struct range){.bytes = 0};
  if (!slash && strlen(text) < sizeof range->name) {
    memcpy(range->name, text, strlen(text) + 1);
    return TUTTI_OK;
  }
  if (slash && (size_t)(slash - text) < sizeof address) memcpy(address, text, (size_t)(slash - text));
  if (inet_pton(AF_INET, address, range->address) == 1) range->bytes = 4;
  else if (inet_pton(AF_INET6, address, range->address) == 1) range->bytes = 16;
  errno = 0;
  unsigned long bits = slash ? strtoul(slash + 1, &end, 10) : 0;
  range->bits = bits;
  if (range->bytes > 0 && errno == 0 && end != slash + 1 && *end == '\0' && bits <= 8 * range->bytes) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                 "TUTTI_INTERFACE is '%.100s'; expected the name of a network interface, such as eth0, or a range of "
                 "addresses, such as 10.1.0.0/16 or fd00::/8",
                 text);
}

static bool is_in(const struct range *range, const struct ifaddrs *i) {
  const uint8_t *bytes = NULL;
  if (range->bytes == 0) return strcmp(range->name, i->ifa_name) == 0;
  if (bytes_of(i->ifa_addr, &bytes) != range->bytes) return false;
  for (size_t bit = 0; bit < range->bits; bit++)
    if ((bytes[bit / 8] ^ range->address[bit / 8]) & (0x80u >> bit % 8)) return false;
  return true;
}

enum { OF_LINK = 3, BEST = 5 };

/* Returns how well an interface suits without a choice of the user: 0 not at all; IPv4 is better than IPv6, and both
 * are better than addresses of a link and the loopback. */
static int suits(const struct ifaddrs *i) {
  const uint8_t *bytes;
  const size_t count = bytes_of(i->ifa_addr, &bytes);
  if (count == 0 || !(i->ifa_flags & IFF_UP)) return 0;
  if (i->ifa_flags & IFF_LOOPBACK) return count == 4 ? 2 : 1;
  if (count == 16 && IN6_IS_ADDR_LINKLOCAL(&ipv6(i->ifa_addr)->sin6_addr)) return OF_LINK;
  return count == 4 ? BEST : 4;
}

static socklen_t size_of(const struct sockaddr *a) {
  return a->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* Finds an address of an interface. range NULL: of any. */
static bool find_interface(const struct range *range, struct sockaddr_storage *found) {
  struct ifaddrs *all;
  int best = 0;
  if (getifaddrs(&all) != 0) return false;
  for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
    const int how = suits(i);
    if (how <= best || (range && !is_in(range, i))) continue;
    best = how;
    memcpy(found, i->ifa_addr, size_of(i->ifa_addr));
  }
  freeifaddrs(all);
  return best > 0;
}

static tutti_err fail_no_interface(const char *text, struct tu_error *error) {
  return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                 "no network interface that is up has the name or address of TUTTI_INTERFACE, '%.100s'; `ip address` "
                 "lists them",
                 text);
}

tutti_err tu_job_own_address(const struct tu_job *job, struct sockaddr_storage *found, struct tu_error *error) {
  const char *text = tu_env("TUTTI_INTERFACE");
  struct range range;
  memset(found, 0, sizeof *found);
  if (text && read_range(text, &range, error) != TUTTI_OK) return error->code;
  if (text && !find_interface(&range, found)) return fail_no_interface(text, error);
  if (!text && job->address.ss_family != AF_UNSPEC) *found = job->address;
  else if (!text && !find_interface(NULL, found))
    return tu_fail(error, TUTTI_ERR_SYSTEM, "rank %u: this host has no network interface that is up", job->rank);
  return TUTTI_OK;
}

bool tu_boot_is_loopback(const struct sockaddr_storage *address) {
  const struct sockaddr *a = (const struct sockaddr *)address;
  if (a->sa_family == AF_INET) return ntohl(ipv4(a)->sin_addr.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
  return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&ipv6(a)->sin6_addr);
}

/* Adds an address to the list if there is room. */
static void add_to_list(const struct sockaddr *a, char *list, size_t bytes) {
  char name[INET6_ADDRSTRLEN] = "";
  const uint8_t *address = NULL;
  const bool is_four = bytes_of(a, &address) == 4;
  const size_t length = strlen(list);
  if (!address || !inet_ntop(a->sa_family, address, name, sizeof name) || length + strlen(name) + 4 > bytes) return;
  snprintf(list + length, bytes - length, is_four ? "%s%s" : "%s[%s]", length ? "," : "", name);
}

tutti_err tu_boot_addresses(char *list, size_t bytes, struct tu_error *error) {
  const char *text = tu_env("TUTTI_INTERFACE");
  struct range range;
  struct ifaddrs *all;
  list[0] = '\0';
  if (text && read_range(text, &range, error) != TUTTI_OK) return error->code;
  if (getifaddrs(&all) != 0) return tu_fail_errno(error, "cannot list the network interfaces of this host");
  for (int how = BEST; how > 0; how--)
    for (const struct ifaddrs *i = all; i; i = i->ifa_next)
      if (how != OF_LINK && suits(i) == how && (!text || is_in(&range, i))) add_to_list(i->ifa_addr, list, bytes);
  freeifaddrs(all);
  if (*list) return TUTTI_OK;
  if (text) return fail_no_interface(text, error);
  return tu_fail(error, TUTTI_ERR_SYSTEM, "this host has no network interface that is up");
}

/* ---- listening ---- */

tutti_err tu_boot_ports(unsigned *low, unsigned *high, struct tu_error *error) {
  const char *text = tu_env("TUTTI_PORTS");
  int end = 0;
  *low = *high = 0;
  if (!text) return TUTTI_OK;
  if (sscanf(text, "%u-%u%n", low, high, &end) == 2 && text[end] == '\0' && *low > 0 && *low <= *high &&
      *high <= UINT16_MAX)
    return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                 "TUTTI_PORTS is '%.100s'; expected a range of ports, such as 30000-30999", text);
}

static void set_port(struct sockaddr_storage *address, unsigned port) {
  if (address->ss_family == AF_INET) ((struct sockaddr_in *)(void *)address)->sin_port = htons((uint16_t)port);
  else ((struct sockaddr_in6 *)(void *)address)->sin6_port = htons((uint16_t)port);
}

static void store(const struct sockaddr_storage *from, struct tu_job_address *at) {
  const struct sockaddr *a = (const struct sockaddr *)from;
  const uint8_t *bytes = NULL;
  const size_t count = bytes_of(a, &bytes);
  *at = (struct tu_job_address){.family = count == 4 ? 4 : 6};
  at->port = ntohs(count == 4 ? ipv4(a)->sin_port : ipv6(a)->sin6_port);
  if (bytes) memcpy(at->bytes, bytes, count);
}

/* Listens at a port; 0: any. Returns -1 and sets errno if that fails. Connections of an earlier job that have ended, but
 * are still known to the kernel, are no obstacle (SO_REUSEADDR). */
static int listen_at(struct sockaddr_storage *address, unsigned port) {
  const int one = 1;
  int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  set_port(address, port);
  socklen_t bytes = size_of((struct sockaddr *)address);
  if (bind(fd, (struct sockaddr *)address, bytes) == 0 && listen(fd, SOMAXCONN) == 0 &&
      getsockname(fd, (struct sockaddr *)address, &bytes) == 0)
    return fd;
  const int why = errno;
  close(fd);
  errno = why;
  return -1;
}

tutti_err tu_job_listen(const struct tu_job *job, int *listener, struct tu_job_address *at, struct tu_error *error) {
  struct sockaddr_storage address;
  char shown[TU_JOB_ADDRESS_CHARS];
  unsigned low, high;
  *listener = -1;
  tutti_err err = tu_boot_ports(&low, &high, error);
  if (err == TUTTI_OK) err = tu_job_own_address(job, &address, error);
  if (err != TUTTI_OK) return err;
  /* Ranks of one host begin at different ports of the range, so that they do not all try the same ones. */
  const unsigned count = high - low + 1, first = job->rank % count;
  errno = EADDRINUSE;
  for (unsigned i = 0; i < count && *listener < 0 && errno == EADDRINUSE; i++)
    *listener = listen_at(&address, low == 0 ? 0 : low + (first + i) % count);
  store(&address, at);
  tu_job_address_print(at, shown);
  if (*listener >= 0) return TUTTI_OK;
  return tu_fail_errno(error, "rank %u cannot listen at %s for connections from other hosts%s", job->rank, shown,
                       low ? ", nor at another port of TUTTI_PORTS" : "");
}

/* ---- reserving ---- */

static int reserve_at(struct sockaddr_storage *address, uint16_t *reserved) {
  const int one = 1, off = 0;
  socklen_t bytes = size_of((struct sockaddr *)address);
  int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  /* A socket at the IPv6 wildcard takes the port of the IPv4 addresses, too. */
  if (address->ss_family == AF_INET6) (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) == 0 &&
      bind(fd, (struct sockaddr *)address, bytes) == 0 && getsockname(fd, (struct sockaddr *)address, &bytes) == 0) {
    struct tu_job_address at;
    store(address, &at);
    *reserved = at.port;
    return fd;
  }
  const int why = errno;
  close(fd);
  errno = why;
  return -1;
}

int tu_boot_reserve(bool loopback, unsigned port, uint16_t *reserved) {
  struct sockaddr_storage address = {.ss_family = AF_INET6};
  if (!loopback) {
    set_port(&address, port);
    const int fd = reserve_at(&address, reserved);
    /* A kernel without IPv6 has no such address. */
    if (fd >= 0 || (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL)) return fd;
  }
  address = (struct sockaddr_storage){.ss_family = AF_INET};
  ((struct sockaddr_in *)(void *)&address)->sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY);
  set_port(&address, port);
  return reserve_at(&address, reserved);
}

/* ---- addresses of ranks ---- */

socklen_t tu_job_address_of(const struct sockaddr_storage *own, const struct tu_job_address *at,
                            struct sockaddr_storage *address) {
  memset(address, 0, sizeof *address);
  address->ss_family = at->family == 4 ? AF_INET : AF_INET6;
  set_port(address, at->port);
  if (at->family == 4) {
    memcpy(&((struct sockaddr_in *)(void *)address)->sin_addr, at->bytes, 4);
    return sizeof(struct sockaddr_in);
  }
  struct sockaddr_in6 *to = (struct sockaddr_in6 *)(void *)address;
  memcpy(&to->sin6_addr, at->bytes, 16);
  if (IN6_IS_ADDR_LINKLOCAL(&to->sin6_addr) && own->ss_family == AF_INET6)
    to->sin6_scope_id = ipv6((const struct sockaddr *)own)->sin6_scope_id;
  return sizeof *to;
}

void tu_job_address_print(const struct tu_job_address *at, char text[TU_JOB_ADDRESS_CHARS]) {
  char address[INET6_ADDRSTRLEN] = "?";
  (void)inet_ntop(at->family == 4 ? AF_INET : AF_INET6, at->bytes, address, sizeof address);
  snprintf(text, TU_JOB_ADDRESS_CHARS, at->family == 4 ? "%s:%u" : "[%s]:%u", address, at->port);
}
