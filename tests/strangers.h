/* strangers.h: processes that do not belong to a job, and connect to every port on which a rank of it listens. They hang
 * up at once, say nothing, send random bytes, or connect as often as they can. */
#ifndef STRANGERS_H
#define STRANGERS_H

#include <dirent.h>
#include <netinet/tcp.h>

#include "ranks.h"

enum { STRANGERS_PORTS = 8, STRANGERS_STORM = 100, STRANGERS_PATIENCE_MS = 20 };

enum strangers_kind { STRANGERS_NONE, STRANGERS_RUDE, STRANGERS_STORMS, STRANGERS_KINDS };

/* Returns true if the process holds the socket with this inode. */
static inline bool strangers_holds(pid_t pid, unsigned long inode) {
  char path[64], wanted[64], link[64];
  bool found = false;
  snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
  snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
  DIR *folder = opendir(path);
  for (struct dirent *entry; folder && !found && (entry = readdir(folder)) != NULL;) {
    const ssize_t length = readlinkat(dirfd(folder), entry->d_name, link, sizeof link - 1);
    if (length > 0) link[length] = '\0';
    found = length > 0 && strcmp(link, wanted) == 0;
  }
  if (folder) closedir(folder);
  return found;
}

/* Finds the IPv4 addresses at which a process listens. Returns their number. */
static inline uint32_t strangers_find(pid_t pid, struct sockaddr_in found[STRANGERS_PORTS]) {
  char path[64], line[256];
  uint32_t count = 0;
  snprintf(path, sizeof path, "/proc/%d/net/tcp", (int)pid);
  FILE *file = fopen(path, "r");
  while (file && count < STRANGERS_PORTS && fgets(line, sizeof line, file)) {
    unsigned address, port, state;
    unsigned long inode;
    if (sscanf(line, " %*u: %x:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu", &address, &port, &state, &inode) != 4)
      continue;
    if (state != TCP_LISTEN || !strangers_holds(pid, inode)) continue;
    found[count++] = (struct sockaddr_in){.sin_family = AF_INET,
                                          .sin_port = htons((uint16_t)port),
                                          .sin_addr.s_addr = address ? address : htonl(INADDR_LOOPBACK)};
  }
  if (file) fclose(file);
  return count;
}

static inline int strangers_connect(const struct sockaddr_in *to, int flags) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
  if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof *to) == 0 || errno == EINPROGRESS) return fd;
  close(fd);
  return -1;
}

/* Sends random bytes, or none; then waits for a short time, or hangs up. Returns the number of connections. */
static inline uint32_t strangers_be_rude(const struct sockaddr_in *to, uint64_t *state) {
  const int fd = strangers_connect(to, 0);
  uint64_t words[32];
  if (fd < 0) return 0;
  for (int i = 0; i < 32; i++) words[i] = ranks_random(state);
  if (ranks_random(state) % 2) (void)!send(fd, words, 1 + ranks_random(state) % sizeof words, MSG_NOSIGNAL);
  struct pollfd polled = {.fd = fd, .events = POLLIN};
  if (ranks_random(state) % 2) poll(&polled, 1, STRANGERS_PATIENCE_MS);
  close(fd);
  return 1;
}

static inline uint32_t strangers_storm(const struct sockaddr_in *to) {
  int fds[STRANGERS_STORM];
  uint32_t count = 0;
  for (int i = 0; i < STRANGERS_STORM; i++) count += (fds[i] = strangers_connect(to, SOCK_NONBLOCK)) >= 0;
  for (int i = 0; i < STRANGERS_STORM; i++)
    if (fds[i] >= 0) close(fds[i]);
  return count;
}

/* Forks a process on the host of rank `rank` that molests it until it is killed. *pid is the rank's process id, once it
 * is known; *count counts the connections. */
static inline pid_t strangers_start(enum strangers_kind kind, uint32_t rank, uint64_t seed, const _Atomic uint64_t *pid,
                                    _Atomic uint64_t *count) {
  struct sockaddr_in found[STRANGERS_PORTS];
  fflush(stdout);
  const pid_t stranger = fork();
  if (stranger != 0) return stranger;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  placement_enter(rank);
  for (uint64_t state = seed + rank;; ranks_sleep_us(500)) {
    const uint32_t ports = *pid > 0 ? strangers_find((pid_t)*pid, found) : 0;
    for (uint32_t i = 0; i < ports; i++)
      *count += kind == STRANGERS_STORMS ? strangers_storm(&found[i]) : strangers_be_rude(&found[i], &state);
  }
}

#endif
