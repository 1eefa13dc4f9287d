/* hosts.h: a troupe whose ranks run on several hosts, as far as tutti can tell: threads of one process, over a segment of memory
 * for each host, and a pair of sockets between each two ranks of different ones. */
#ifndef HOSTS_H
#define HOSTS_H

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "locality/cpus.h"
#include "mover/remote.h"
#include "troupe.h"

enum { HOSTS_MAX = 3 };

struct hosts {
  uint32_t ranks;
  uint32_t host[TROUPE_MAX],
      local[TROUPE_MAX]; /* of each rank: where it runs, and as which rank of the segment there */
  uint32_t sizes[HOSTS_MAX];
  int sockets[TROUPE_MAX][TROUPE_MAX];
  int bells[TROUPE_MAX];
};

static inline void hosts_place(struct hosts *h, uint32_t rank, uint32_t host) {
  h->host[rank] = host;
  h->local[rank] = h->sizes[host]++;
}

static inline void hosts_connect(struct hosts *h) {
  for (uint32_t a = 0; a < h->ranks; a++) {
    h->sockets[a][a] = -1;
    h->bells[a] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (uint32_t b = 0; b < a; b++) {
      int pair[2] = {-1, -1};
      if (h->host[a] != h->host[b] && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) abort();
      h->sockets[a][b] = pair[0];
      h->sockets[b][a] = pair[1];
    }
  }
}

/* The endpoint becomes that rank of the job. */
static inline void hosts_join(const struct hosts *h, struct tu_transport *t, uint32_t rank) {
  uint32_t locals[TROUPE_MAX];
  int bells[TROUPE_MAX];
  struct tu_wire *wire;
  struct tu_error error;
  for (uint32_t r = 0; r < h->ranks; r++) {
    locals[r] = h->host[r] == h->host[rank] ? h->local[r] : TU_REMOTE;
    if (locals[r] != TU_REMOTE) bells[locals[r]] = dup(h->bells[r]);
  }
  t->share = tu_cpus_share_alike(h->ranks); /* the same on all */
  if (tu_wire_sockets(h->ranks, h->sockets[rank], &wire, &error) != TUTTI_OK ||
      tu_remote_create(t, rank, h->ranks, locals, bells, wire, &error) != TUTTI_OK)
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
  for (uint32_t r = 0; r < h->ranks; r++) close(h->bells[r]);
}

static inline void troupe_over_hosts(struct troupe *t, uint32_t (*host_of)(uint32_t rank, uint32_t ranks)) {
  struct hosts h = {.ranks = t->ranks};
  for (uint32_t r = 0; r < t->ranks; r++) hosts_place(&h, r, host_of(r, t->ranks));
  hosts_make(&h, t->endpoints);
  troupe_over_endpoints(t);
}

static inline uint32_t hosts_woven(uint32_t rank, uint32_t ranks) { return ranks > 0 ? rank % 2 : 0; }
static inline uint32_t hosts_growing(uint32_t rank, uint32_t ranks) {
  return rank == 0 ? 0 : rank < (ranks + 1) / 2 ? 1 : 2;
}

/* Even ranks on one host, odd ones on another. */
static inline void troupe_over_two_hosts(struct troupe *t) { troupe_over_hosts(t, hosts_woven); }
/* Of 6 ranks 1, 2 and 3. */
static inline void troupe_over_three_hosts(struct troupe *t) { troupe_over_hosts(t, hosts_growing); }

#endif
