/* bench_pair.c: one TCP connection between two ranks, for programs that measure without a library. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench/core/core.h"

enum { CONNECT_TRIES = 500, BETWEEN_TRIES_NS = 10000000 };

static bool is_temporary(void) { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

bool bench_pair_exchange(int fd, const void *out, size_t out_bytes, void *in, size_t in_bytes) {
  const unsigned char *from = out;
  unsigned char *to = in;
  while (out_bytes > 0 || in_bytes > 0) {
    ssize_t n = out_bytes > 0 ? send(fd, from, out_bytes, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
    if (n < 0 && !is_temporary()) return false;
    if (n > 0) from += n, out_bytes -= (size_t)n;
    if (in_bytes == 0) continue;
    n = recv(fd, to, in_bytes, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && !is_temporary())) return false;
    if (n > 0) to += n, in_bytes -= (size_t)n;
  }
  return true;
}

/* ---- connecting ---- */

static int accept_one(const struct sockaddr_in *address) {
  const int one = 1, door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  (void)setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  int fd = -1;
  if (bind(door, (const struct sockaddr *)address, sizeof *address) == 0 && listen(door, 1) == 0)
    fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
  close(door);
  return fd;
}

static int connect_to(const struct sockaddr_in *address) {
  for (int i = 0; i < CONNECT_TRIES; i++) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0) return fd;
    close(fd);
    nanosleep(&(struct timespec){.tv_nsec = BETWEEN_TRIES_NS}, NULL);
  }
  return -1;
}

/* Reads an IPv4 address and a port. */
static bool read_address(const char *text, struct sockaddr_in *address) {
  char host[INET_ADDRSTRLEN];
  unsigned short port;
  *address = (struct sockaddr_in){.sin_family = AF_INET};
  if (!text || sscanf(text, "%15[0-9.]:%hu", host, &port) != 2) return false;
  address->sin_port = htons(port);
  return inet_pton(AF_INET, host, &address->sin_addr) == 1;
}

int bench_pair_connect(const char *program, const char *variable, uint32_t rank, uint32_t ranks, int *fd) {
  struct sockaddr_in address;
  const char *text = getenv(variable);
  const int one = 1;
  if (ranks != 2 || !read_address(text, &address))
    return cli_fail(program, CLI_USAGE,
                    "start it with tutti run and two ranks, and set %s to the IPv4 address and port of rank 0",
                    variable);
  *fd = rank == 0 ? accept_one(&address) : connect_to(&address);
  if (*fd < 0) return cli_fail(program, CLI_FAILED, "cannot connect over %s: %s", text, strerror(errno));
  (void)setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return CLI_GOOD;
}
