/* dialer.h: makes connections between ranks of different hosts, when they are first used. There are two kinds of
 * connections between two ranks: for data, and for control. Control connections carry few and short messages, which are read
 * at every call, so they show whether the other host still acknowledges them.
 *
 * Each rank has a control connection to one rank of each other host, its counterpart, from the start of the job. If the
 * counterpart ends, the rank connects to another rank of that host. All other connections are made when one of the two
 * ranks wants them. */
#ifndef TU_DIALER_H
#define TU_DIALER_H

#include "base/base.h"

struct tu_dialer;

/* Called for each connection that is made, whichever end wanted it: the socket becomes the caller's. fd -1: the rank
 * does not accept connections any more, because its process has ended or is about to. */
typedef void tu_dialer_made(void *context, uint32_t rank, bool control, int fd);

/* One thread at a time may call these functions. None of them waits. */
struct tu_dialer_ops {
  /* Begins to connect with a rank of another host. Does nothing if the connection is being made already. The result comes
   * by `look`. */
  void (*want)(struct tu_dialer *d, uint32_t rank, bool control);
  /* Goes on with the connections that are being made, and reports those that are. */
  void (*look)(struct tu_dialer *d, tu_dialer_made *made, void *context);
  /* Accepts and makes no more connections, and frees the dialer. */
  void (*close)(struct tu_dialer *d);
};

struct tu_dialer {
  const struct tu_dialer_ops *ops;
  const uint32_t *host; /* [ranks]: the lowest rank on the host of each rank */
  int descriptor;       /* readable when `look` has something to do; -1: none */
  bool restless;        /* true: `look` may have something to do, although the descriptor is not readable */
};

struct tu_job;

/* Collective: makes the dialer of this rank, and the control connections of the start. tu_job_meet must have succeeded.
 * The dialer remains usable when the job has been closed. Errors: TUTTI_ERR_ENVIRONMENT (TUTTI_INTERFACE, TUTTI_PORTS),
 * TUTTI_ERR_PEER (names a rank that cannot be reached, with both addresses), TUTTI_ERR_TIMEOUT, TUTTI_ERR_SYSTEM,
 * TUTTI_ERR_MEMORY. */
tutti_err tu_job_dialer(struct tu_job *job, struct tu_dialer **dialer, struct tu_error *error);

/* Finds the counterparts of a rank: for each other host, the ranks with the same number on their host, modulo the number
 * of ranks of the smaller host. counterparts[r] becomes true for each of them. host: as in struct tu_dialer. */
void tu_dialer_counterparts(const uint32_t host[], uint32_t ranks, uint32_t rank, bool counterparts[]);

#endif
