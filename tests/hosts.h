/* hosts.h: ranks of a test on several simulated hosts: threads of one process, or processes. Each host has a segment of
 * shared memory, and each pair of ranks on different hosts has a pair of sockets, counterparts two. */
#ifndef HOSTS_H
#define HOSTS_H

#include <sys/socket.h>
#include <unistd.h>

#include "locality/cpus.h"
#include "mover/remote.h"
#include "ready_dialer.h"
#include "troupe.h"

enum { HOSTS_MAX = 4, HOSTS_LIMIT_MS = 100000 };

static int hosts_socket_bytes;    /* size of a socket's send buffer (SO_SNDBUF); 0: default of the system */
static uint32_t hosts_victim = 1; /* rank whose process dies in tests that let one rank die */

struct hosts {
  uint32_t ranks;
  /* per rank: its host, the lowest rank of that host, and its rank within the host's segment */
  uint32_t host[TROUPE_MAX], leader[TROUPE_MAX], local[TROUPE_MAX];
  uint32_t sizes[HOSTS_MAX];
  int sockets[2][TROUPE_MAX][TROUPE_MAX]; /* [control][rank][peer] */
};

static inline void hosts_add_rank(struct hosts *h, uint32_t rank, uint32_t host) {
  h->host[rank] = host;
  h->local[rank] = h->sizes[host]++;
}

static inline void hosts_narrow(const int pair[2]) {
  for (int i = 0; i < 2 && pair[0] >= 0 && hosts_socket_bytes > 0; i++)
    if (setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &hosts_socket_bytes, sizeof hosts_socket_bytes) != 0) abort();
}

static inline void hosts_connect(struct hosts *h) {
  bool counterparts[TROUPE_MAX];
  for (uint32_t a = 0; a < h->ranks; a++) {
    h->leader[a] = a;
    for (uint32_t b = a; b-- > 0;)
      if (h->host[b] == h->host[a]) h->leader[a] = b;
  }
  for (uint32_t a = 0; a < h->ranks; a++) {
    tu_dialer_counterparts(h->leader, h->ranks, a, counterparts);
    for (int control = 0; control < 2; control++) {
      h->sockets[control][a][a] = -1;
      for (uint32_t b = 0; b < a; b++) {
        const bool wanted = control ? counterparts[b] : h->host[a] != h->host[b];
        int pair[2] = {-1, -1};
        if (wanted && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) abort();
        h->sockets[control][a][b] = pair[0];
        h->sockets[control][b][a] = pair[1];
        hosts_narrow(pair);
      }
    }
  }
}

/* Joins the job: makes `t` the endpoint of rank `rank`. */
static inline void hosts_join(const struct hosts *h, struct tu_transport *t, uint32_t rank) {
  uint32_t locals[TROUPE_MAX];
  struct tu_wire *wire;
  struct tu_error error;
  for (uint32_t r = 0; r < h->ranks; r++) locals[r] = h->host[r] == h->host[rank] ? h->local[r] : TU_REMOTE;
  t->share = tu_cpus_share_alike(h->ranks); /* number of ranks per CPU, the same on all ranks */
  struct tu_dialer *dialer = ready_dialer(h->ranks, h->sockets[false][rank], h->sockets[true][rank], h->leader);
  if (tu_wire_sockets(h->ranks, dialer, &wire, &error) != TUTTI_OK ||
      tu_remote_create(t, rank, h->ranks, locals, wire, &error) != TUTTI_OK)
    abort();
}

static inline void hosts_make(struct hosts *h, struct tu_transport *endpoints[]) {
  struct tu_error error;
  hosts_connect(h);
  for (uint32_t host = 0; host < HOSTS_MAX; host++) {
    struct tu_transport *there[TROUPE_MAX];
    if (h->sizes[host] == 0) continue;
    if (tu_loop_create(h->sizes[host], TROUPE_SLICE, there, &error) != TUTTI_OK) abort();
    for (uint32_t r = 0; r < h->ranks; r++)
      if (h->host[r] == host) hosts_join(h, endpoints[r] = there[h->local[r]], r);
  }
}

static inline void troupe_over_hosts(struct troupe *t, uint32_t (*host_of)(uint32_t rank, uint32_t ranks)) {
  struct hosts h = {.ranks = t->ranks};
  for (uint32_t r = 0; r < t->ranks; r++) hosts_add_rank(&h, r, host_of(r, t->ranks));
  hosts_make(&h, t->endpoints);
  t->host = h.host;
  troupe_over_endpoints(t);
}

/* ---- processes ---- */

#ifndef __SANITIZE_THREAD__
/* Closes the sockets of all ranks but `rank` (TROUPE_MAX: of all ranks). So a rank's sockets are open in its own
 * process only, and its death closes them. */
static inline void hosts_close_others(const struct hosts *h, uint32_t rank) {
  for (uint32_t a = 0; a < h->ranks; a++)
    for (uint32_t b = 0; b < h->ranks; b++)
      for (int control = 0; control < 2 && a != rank; control++)
        if (h->sockets[control][a][b] >= 0) close(h->sockets[control][a][b]);
}

/* Creates one shared segment for each host. */
static inline void hosts_make_memory(const struct hosts *h, size_t slice, int memory[]) {
  for (uint32_t host = 0; host < HOSTS_MAX; host++) {
    memory[host] = memfd_create("hosts", MFD_CLOEXEC);
    if (memory[host] < 0 || ftruncate(memory[host], (off_t)(slice * h->sizes[host])) != 0) abort();
  }
}

static inline void hosts_run_process(struct troupe *t, const struct hosts *h, const int memory[], size_t slice,
                                     uint32_t rank) {
  struct tu_error error = {0};
  struct tu_transport *endpoint = NULL;
  struct player p = {.rank = rank, .stage = t->stage};
  const uint32_t host = h->host[rank];
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  hosts_close_others(h, rank);
  for (uint32_t other = 0; other < HOSTS_MAX; other++)
    if (other != host) close(memory[other]);
  tutti_err err = tu_shm_create(h->local[rank], h->sizes[host], memory[host], slice, &endpoint, &error);
  if (err == TUTTI_OK) hosts_join(h, endpoint, rank);
  if (err == TUTTI_OK) troupe_play(t, endpoint, rank);
  else wrong(&p, "rank %u: tu_shm_create: %s", rank, error.text);
}

/* Waits until all processes have ended. Kills those that have not after HOSTS_LIMIT_MS, and records a failure. */
static inline void hosts_reap(const struct troupe *t, const pid_t pids[]) {
  const uint64_t end = ranks_now_ms() + HOSTS_LIMIT_MS;
  bool late = false;
  for (uint32_t r = 0; r < t->ranks; r++) {
    int status = 0;
    while (waitpid(pids[r], &status, late ? 0 : WNOHANG) == 0) {
      ranks_sleep_us(500);
      if (ranks_now_ms() < end) continue;
      FAIL("rank %u of %u still runs after %d s", r, t->ranks, HOSTS_LIMIT_MS / 1000);
      late = true;
      for (uint32_t k = r; k < t->ranks; k++) kill(pids[k], SIGKILL);
    }
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    bool good = t->rank_1_dies && r == hosts_victim ? killed : status == 0;
    CHECK(late || good, "%u ranks: rank %u: status %x", t->ranks, r, (unsigned)status);
  }
}

static inline void troupe_over_host_processes(struct troupe *t, uint32_t (*host_of)(uint32_t rank, uint32_t ranks)) {
  struct hosts h = {.ranks = t->ranks};
  pid_t pids[TROUPE_MAX];
  int memory[HOSTS_MAX];
  const size_t slice = t->slice_bytes ? tu_round_up(t->slice_bytes, TROUPE_SLICE) : TROUPE_SLICE;
  t->threads = false;
  t->host = h.host;
  for (uint32_t r = 0; r < t->ranks; r++) hosts_add_rank(&h, r, host_of(r, t->ranks));
  hosts_connect(&h);
  hosts_make_memory(&h, slice, memory);
  fflush(stdout);
  for (uint32_t r = 0; r < t->ranks; r++) {
    if ((pids[r] = fork()) < 0) abort();
    if (pids[r] > 0) continue;
    hosts_run_process(t, &h, memory, slice, r);
    fflush(stdout);
    _exit(0);
  }
  hosts_close_others(&h, TROUPE_MAX);
  for (uint32_t host = 0; host < HOSTS_MAX; host++) close(memory[host]);
  hosts_reap(t, pids);
}
#endif

/* ---- distribution of ranks over hosts ---- */

static inline uint32_t hosts_woven(uint32_t rank, uint32_t ranks) { return ranks > 0 ? rank % 2 : 0; }
static inline uint32_t hosts_growing(uint32_t rank, uint32_t ranks) {
  return rank == 0 ? 0 : rank < (ranks + 1) / 2 ? 1 : 2;
}

/* Ranks on several hosts, as a row of a test's table. */
struct hosts_world {
  const char *name;
  void (*over)(struct troupe *t);
  uint32_t (*host_of)(uint32_t rank, uint32_t ranks);
  int kind; /* a number that the test chooses */
  uint32_t ranks;
  int socket_bytes; /* size of the sockets' send buffers; 0: default of the system */
};

static inline void hosts_perform(const struct hosts_world *w, struct troupe t) {
  const int before = test_failures;
  hosts_socket_bytes = w->socket_bytes;
  t.ranks = w->ranks;
  troupe_perform(t, w->over);
  if (test_failures > before) printf("  ... in %s\n", w->name);
}

/* Runs even ranks on one host, odd ranks on another. */
static inline void troupe_over_two_hosts(struct troupe *t) { troupe_over_hosts(t, hosts_woven); }
/* Runs 6 ranks on hosts of 1, 2 and 3 ranks. */
static inline void troupe_over_three_hosts(struct troupe *t) { troupe_over_hosts(t, hosts_growing); }

#ifndef __SANITIZE_THREAD__
static inline void troupe_over_processes_of_two_hosts(struct troupe *t) { troupe_over_host_processes(t, hosts_woven); }
static inline void troupe_over_processes_of_three_hosts(struct troupe *t) {
  troupe_over_host_processes(t, hosts_growing);
}
#endif

#endif
