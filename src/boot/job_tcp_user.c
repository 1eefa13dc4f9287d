/* job_tcp_user.c: finds the user of the process at the other end of a TCP connection. UNIX sockets have SO_PEERCRED for
 * this; TCP sockets have nothing like it. But if both ends are on this host, the kernel knows both sockets. sock_diag
 * then finds the other socket by the addresses of the connection. This costs three system calls per connection. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/job_tcp_wire.h"

/* One end of a connection. An IPv4 address lies in the first word of `address`. An IPv4-mapped IPv6 address
 * (::ffff:a.b.c.d) counts as IPv4, because the other end may be an IPv4 socket. */
struct end {
  uint32_t address[4];
  uint16_t port; /* TCP port, in network byte order */
  uint32_t scope;
};
struct ends {
  bool ip6;
  struct end mine, other;
};

enum found { FOUND, NOT_FOUND, CANNOT_ASK };
/* Interface index of the loopback device in every network namespace. Packets to an address of this host arrive on
 * loopback, so a query with this index also finds sockets that are bound to the loopback device. */
enum { LOOPBACK_INDEX = 1 };

static bool read_end(const struct sockaddr_storage *from, bool *ip6, struct end *end) {
  *end = (struct end){0};
  if (from->ss_family == AF_INET) {
    const struct sockaddr_in *in = (const struct sockaddr_in *)from;
    *ip6 = false;
    end->address[0] = in->sin_addr.s_addr;
    end->port = in->sin_port;
    return true;
  }
  if (from->ss_family != AF_INET6) return false;
  const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)from;
  *ip6 = !IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);
  end->port = in6->sin6_port;
  end->scope = in6->sin6_scope_id;
  if (*ip6) memcpy(end->address, &in6->sin6_addr, sizeof end->address);
  else memcpy(end->address, in6->sin6_addr.s6_addr + 12, 4);
  return true;
}

static bool read_ends(int fd, struct ends *ends) {
  struct sockaddr_storage mine = {0}, other = {0};
  socklen_t mine_bytes = sizeof mine, other_bytes = sizeof other;
  bool other_ip6 = false;
  *ends = (struct ends){0};
  return getsockname(fd, (struct sockaddr *)&mine, &mine_bytes) == 0 &&
         getpeername(fd, (struct sockaddr *)&other, &other_bytes) == 0 && read_end(&mine, &ends->ip6, &ends->mine) &&
         read_end(&other, &other_ip6, &ends->other) && ends->ip6 == other_ip6;
}

/* ---- sock_diag ---- */

struct question {
  struct nlmsghdr header;
  struct inet_diag_req_v2 request;
};

/* Asks the kernel who owns the socket at `from` that is connected to `to`. NOT_FOUND: there is no such socket, or the
 * kernel has no TCP tables for sock_diag. */
static enum found ask_diag(int netlink, const struct ends *ends, const struct end *from, const struct end *to,
                           uid_t *uid) {
  struct question question = {
      .header = {.nlmsg_len = sizeof question, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
      .request = {.sdiag_family = ends->ip6 ? AF_INET6 : AF_INET, .sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0U}};
  struct inet_diag_sockid *id = &question.request.id;
  memcpy(id->idiag_src, from->address, sizeof from->address);
  memcpy(id->idiag_dst, to->address, sizeof to->address);
  id->idiag_sport = from->port;
  id->idiag_dport = to->port;
  id->idiag_if = from->scope ? from->scope : LOOPBACK_INDEX;
  id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  union {
    struct nlmsghdr header;
    char space[4096];
  } reply;
  ssize_t n;
  do n = send(netlink, &question, sizeof question, 0);
  while (n < 0 && errno == EINTR);
  if (n != (ssize_t)sizeof question) return CANNOT_ASK;
  /* The kernel queues its answer before send() returns, so recv need not wait. */
  do n = recv(netlink, &reply, sizeof reply, MSG_DONTWAIT);
  while (n < 0 && errno == EINTR);
  if (n < (ssize_t)sizeof reply.header) return CANNOT_ASK;
  if (reply.header.nlmsg_type == NLMSG_ERROR && (size_t)n >= NLMSG_LENGTH(sizeof(struct nlmsgerr))) {
    const struct nlmsgerr *refusal = NLMSG_DATA(&reply.header);
    return refusal->error == -ENOENT ? NOT_FOUND : CANNOT_ASK;
  }
  if (reply.header.nlmsg_type != SOCK_DIAG_BY_FAMILY || (size_t)n < NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
    return CANNOT_ASK;
  const struct inet_diag_msg *found = NLMSG_DATA(&reply.header);
  /* Only a connected socket with an inode counts as found. If no connected socket matches, the kernel returns a socket
   * that listens at `from`. A socket without an inode is closed and has no owner, although the kernel reports root as
   * its owner. A socket that is shut down in only one direction still has an inode and its owner. */
  if (found->idiag_state == TCP_LISTEN || found->id.idiag_sport != from->port || found->id.idiag_dport != to->port ||
      found->idiag_inode == 0)
    return NOT_FOUND;
  *uid = found->idiag_uid;
  return FOUND;
}

static enum found look_diag(const struct ends *ends, uid_t *uid) {
  int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (netlink < 0) return CANNOT_ASK;
  uid_t own;
  enum found found = ask_diag(netlink, ends, &ends->other, &ends->mine, uid);
  /* If the kernel does not find this process's own end of the connection either, it has no TCP tables for sock_diag. */
  if (found == NOT_FOUND && ask_diag(netlink, ends, &ends->mine, &ends->other, &own) != FOUND) found = CANNOT_ASK;
  close(netlink);
  return found;
}

/* ---- /proc/net/tcp ---- */

/* Writes one end of a connection as /proc/net/tcp does: the 32-bit words of the address in memory order, and the port
 * as a number. */
static void write_end(const struct end *end, bool ip6, bool table6, char text[48]) {
  uint32_t words[4] = {0, 0, htonl(0xffff), end->address[0]};
  if (ip6) memcpy(words, end->address, sizeof words);
  size_t length = 0;
  for (int i = table6 ? 0 : 3; i < 4; i++)
    length += (size_t)snprintf(text + length, 48 - length, "%08" PRIX32, words[i]);
  snprintf(text + length, 48 - length, ":%04X", ntohs(end->port));
}

static enum found look_table(const struct ends *ends, bool table6, uid_t *uid) {
  /* Use thread-self, since the process's first thread may be in another network namespace. */
  FILE *file = fopen(table6 ? "/proc/thread-self/net/tcp6" : "/proc/thread-self/net/tcp", "re");
  if (!file) return CANNOT_ASK;
  char other[48], mine[48], line[512];
  write_end(&ends->other, ends->ip6, table6, other);
  write_end(&ends->mine, ends->ip6, table6, mine);
  enum found found = NOT_FOUND;
  while (found == NOT_FOUND && fgets(line, sizeof line, file)) {
    char local[48], remote[48];
    unsigned state, owner;
    unsigned long inode;
    if (sscanf(line, " %*u: %47s %47s %x %*s %*s %*s %u %*u %lu", local, remote, &state, &owner, &inode) != 5) continue;
    if (strcmp(local, other) != 0 || strcmp(remote, mine) != 0 || state == TCP_LISTEN || inode == 0) continue;
    *uid = owner;
    found = FOUND;
  }
  fclose(file);
  return found;
}

/* Searches the other end in the IPv4 table and the IPv6 table of /proc, because an IPv4 connection may end in an IPv6
 * socket. */
static enum found look_tables(const struct ends *ends, uid_t *uid) {
  enum found found = ends->ip6 ? CANNOT_ASK : look_table(ends, false, uid);
  enum found found6 = found == FOUND ? FOUND : look_table(ends, true, uid);
  return found6 == CANNOT_ASK ? found : found6;
}

/* ---- sock_diag first, then /proc ---- */

/* Returns true if the other end's address is an address of this host. The test tries to bind the address, which works
 * only for addresses of this host. */
static bool is_here(const struct ends *ends) {
  struct sockaddr_storage address = {.ss_family = ends->ip6 ? AF_INET6 : AF_INET};
  socklen_t bytes = sizeof(struct sockaddr_in);
  if (ends->ip6) {
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address;
    memcpy(&in6->sin6_addr, ends->other.address, sizeof in6->sin6_addr);
    in6->sin6_scope_id = ends->other.scope;
    bytes = sizeof *in6;
  } else {
    ((struct sockaddr_in *)&address)->sin_addr.s_addr = ends->other.address[0];
  }
  int fd = socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return true;
  bool here = bind(fd, (struct sockaddr *)&address, bytes) == 0 || errno != EADDRNOTAVAIL;
  close(fd);
  return here;
}

static enum tu_boot_user conclude(enum found found, const struct ends *ends) {
  if (found == FOUND) return TU_BOOT_USER_KNOWN;
  return is_here(ends) ? TU_BOOT_USER_UNKNOWN : TU_BOOT_USER_ELSEWHERE;
}

enum tu_boot_user tu_boot_peer_user(int fd, uid_t *uid) {
  struct ends ends;
  if (!read_ends(fd, &ends)) return TU_BOOT_USER_UNKNOWN; /* the connection is closed already */
  enum found found = look_diag(&ends, uid);
  if (found == CANNOT_ASK) found = look_tables(&ends, uid);
  return conclude(found, &ends);
}

enum tu_boot_user tu_boot_peer_user_proc(int fd, uid_t *uid) {
  struct ends ends;
  if (!read_ends(fd, &ends)) return TU_BOOT_USER_UNKNOWN;
  return conclude(look_tables(&ends, uid), &ends);
}
