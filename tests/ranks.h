/* ranks.h: runs ranks for tests: either this program again, as every rank of a job under `tutti run` ("--as ROLE"), or
 * children forked here with the environment set by hand, for tests that observe which rank dies, and when. */
#ifndef RANKS_H
#define RANKS_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "placement.h"

enum { RANKS_MAX = 64, RANKS_NOTES = 4, RANKS_TEXT = 640 };

static inline uint64_t ranks_now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}
static inline uint64_t ranks_now_ms(void) { return ranks_now_us() / 1000; }
static inline void ranks_sleep_us(uint64_t us) {
  struct timespec t = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
  while (nanosleep(&t, &t) != 0 && errno == EINTR) continue;
}
static inline uint64_t ranks_random(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* Clears the variables of the environment, so that a world depends on the test alone, not on the shell. */
static inline void ranks_clear_environment(void) {
  static const char *const names[] = {"RANK",
                                      "WORLD_SIZE",
                                      "MASTER_ADDR",
                                      "MASTER_PORT",
                                      "LOCAL_RANK",
                                      "TUTTI_RANK",
                                      "TUTTI_WORLD_SIZE",
                                      "TUTTI_MASTER_ADDR",
                                      "TUTTI_SECRET",
                                      "TUTTI_SPIN_US",
                                      "TUTTI_MASTER_PORT",
                                      "TUTTI_LOCAL_RANK",
                                      "TUTTI_TIMEOUT_MS",
                                      "TUTTI_LAUNCHER",
                                      "TUTTI_PROGRESS_THREAD",
                                      "TUTTI_ALGORITHM"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) unsetenv(names[i]);
  setenv("TUTTI_TUNING", "none", 1);
}

/* ---- under tutti run ---- */

struct ranks_output {
  char *chars; /* standard output and error, NUL-terminated; the caller frees it */
  size_t length;
};

/* Runs this program as every rank of a job of `ranks` ranks. Returns the exit status of `tutti run`; -1 if it had to be
 * ended after timeout_s. */
static inline int ranks_launch(uint32_t ranks, const char *role, const char *argument, int timeout_s,
                               struct ranks_output *output) {
  char number[16], self[4096];
  snprintf(number, sizeof number, "%u", ranks);
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  int ends[2];
  if (length < 0 || pipe(ends) != 0) abort();
  self[length] = '\0';
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    ranks_clear_environment();
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    if (placement_count() > 0)
      execl(BUILD_DIR "/tutti", "tutti", "run", "-n", number, "--", BUILD_DIR "/tests/place", self, "--as", role,
            argument, (char *)NULL);
    else execl(BUILD_DIR "/tutti", "tutti", "run", "-n", number, "--", self, "--as", role, argument, (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  size_t capacity = 4096;
  *output = (struct ranks_output){.chars = malloc(capacity)};
  uint64_t end = ranks_now_ms() + (uint64_t)timeout_s * 1000;
  bool late = false;
  for (;;) {
    struct pollfd reading = {.fd = ends[0], .events = POLLIN};
    uint64_t now = ranks_now_ms();
    if (now >= end) {
      if (late) break;
      late = true;
      kill(pid, SIGTERM);
      end = now + 10000;
    }
    if (poll(&reading, 1, 100) <= 0) continue;
    if (capacity - output->length < 2048) output->chars = realloc(output->chars, capacity *= 2);
    if (!output->chars) abort();
    ssize_t got = read(ends[0], output->chars + output->length, capacity - output->length - 1);
    if (got <= 0) break;
    output->length += (size_t)got;
  }
  output->chars[output->length] = '\0';
  close(ends[0]);
  if (late) kill(pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  return late ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- ranks that the test program forks ---- */

/* Result of one call of a rank, recorded for the test; notes[] has them in order of the calls. */
struct ranks_note {
  tutti_err err;
  uint64_t at_ms;
  char text[RANKS_TEXT];
};
struct ranks_shared {
  struct {
    _Atomic uint32_t noted;
    _Atomic uint32_t stage;
    struct ranks_note notes[RANKS_NOTES];
  } rank[RANKS_MAX];
  _Atomic uint32_t go;
  _Atomic uint64_t numbers[16];
};

struct ranks_world {
  uint32_t ranks;
  int port_fd;
  uint64_t seed;
  const void *context;
  pid_t pids[RANKS_MAX];
  int status[RANKS_MAX];
  struct ranks_shared *shared;
};

static inline void ranks_note(struct ranks_world *w, uint32_t rank, tutti_err err, const char *text) {
  uint32_t n = w->shared->rank[rank].noted;
  if (n == RANKS_NOTES) return;
  struct ranks_note *note = &w->shared->rank[rank].notes[n];
  note->err = err;
  note->at_ms = ranks_now_ms();
  snprintf(note->text, sizeof note->text, "%s", text);
  w->shared->rank[rank].noted = n + 1;
}

/* Binds a port for the job, so that no other process takes it. It does not listen, so that rank 0 can. */
static inline int ranks_bind(uint16_t *port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
      bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
      getsockname(fd, (struct sockaddr *)&address, &length) != 0)
    abort();
  *port = ntohs(address.sin_port);
  return fd;
}

/* Forks `ranks` children. Each runs body and exits with its result. The caller sets all of *w to zero except context
 * and seed, and except shared if it has mapped that memory itself. */
static inline void ranks_start(struct ranks_world *w, uint32_t ranks,
                               int (*body)(struct ranks_world *w, uint32_t rank)) {
  uint16_t port;
  w->ranks = ranks;
  w->port_fd = ranks_bind(&port);
  if (!w->shared) w->shared = mmap(NULL, sizeof *w->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (w->shared == MAP_FAILED) abort();
  fflush(stdout);
  for (uint32_t rank = 0; rank < ranks; rank++) {
    if ((w->pids[rank] = fork()) != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ranks_clear_environment();
    char number[4][16];
    const char *names[] = {"TUTTI_RANK", "TUTTI_WORLD_SIZE", "TUTTI_MASTER_PORT"};
    const uint32_t values[] = {rank, ranks, port};
    for (int i = 0; i < 3; i++) {
      snprintf(number[i], sizeof number[i], "%u", values[i]);
      setenv(names[i], number[i], 1);
    }
    setenv("TUTTI_MASTER_ADDR", "127.0.0.1", 1);
    setenv("TUTTI_SECRET", "secret of a test", 1);
    placement_enter(rank);
    int status = body(w, rank);
    fflush(stdout);
    _exit(status);
  }
}

/* Waits until all children have ended. If some still run after timeout_ms, kills them and returns false. */
static inline bool ranks_end(struct ranks_world *w, int timeout_ms) {
  uint64_t end = ranks_now_ms() + (uint64_t)timeout_ms;
  bool in_time = true;
  for (uint32_t rank = 0; rank < w->ranks; rank++) {
    pid_t got;
    while ((got = waitpid(w->pids[rank], &w->status[rank], in_time ? WNOHANG : 0)) == 0) {
      if (ranks_now_ms() > end) {
        in_time = false;
        for (uint32_t k = rank; k < w->ranks; k++) kill(w->pids[k], SIGKILL);
      } else {
        ranks_sleep_us(500);
      }
    }
  }
  close(w->port_fd);
  return in_time;
}
static inline void ranks_fini(struct ranks_world *w) { munmap(w->shared, sizeof *w->shared); }

#endif
