/* bench_hosts.h: `tutti bench links --hosts`: what crosses from one host to another, by the calls of a program. */
#ifndef CLI_BENCH_HOSTS_H
#define CLI_BENCH_HOSTS_H

#include <tutti/window.h>

#include "cli/bench/bench.h"

enum {
  HOSTS_BUFFERS = 4,         /* number of buffers from which data goes, and to which it goes */
  HOSTS_OUTSTANDING_MAX = 64 /* as many copies as a session holds */
};

enum hosts_test { HOSTS_PING, HOSTS_PUT, HOSTS_GET, HOSTS_SEND, HOSTS_BOTH, HOSTS_TESTS };

/* Rank 0, which leads, or the rank of another host with which it exchanges data. */
struct hosts_end {
  tutti_comm *world;
  tutti_session *session;
  bool leads;
  uint32_t peer;        /* the other rank */
  uint32_t outstanding; /* number of puts or gets that are started before a wait */
  uint32_t time_ms;
  /* In the window: HOSTS_BUFFERS buffers from which data goes, then as many to which it goes; of this rank, and of the
   * peer. */
  unsigned char *own, *others;
  size_t stride;  /* distance between buffers */
  uint64_t round; /* number of the batch; the contents depend on it */
};

struct hosts_row {
  double us, us_min;      /* median and minimum of the batches, of one operation */
  double cpu_us, peer_us; /* CPU time of one operation, on rank 0 and on the peer: medians */
  double wrong;           /* number of wrong words of 8 bytes, on both ranks */
};

/* Measures a test at a size. Both ranks call it, and both get the row. Errors: those of the calls. */
tutti_err hosts_measure(struct hosts_end *e, enum hosts_test test, size_t bytes, struct hosts_row *row);

#endif
