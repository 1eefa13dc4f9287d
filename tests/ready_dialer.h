/* ready_dialer.h: a dialer whose connections have been made already. */
#ifndef READY_DIALER_H
#define READY_DIALER_H

#include <stdlib.h>
#include <string.h>

#include "boot/dialer.h"

enum { READY_RANKS_MAX = 64 };

struct ready_dialer {
  struct tu_dialer dialer; /* must be the first member */
  uint32_t ranks;
  int sockets[2][READY_RANKS_MAX]; /* [control][rank]; -1: none */
  uint32_t host[READY_RANKS_MAX];
};

static inline void ready_want(struct tu_dialer *dialer, uint32_t rank, bool control) {
  (void)dialer, (void)rank, (void)control;
}

/* Reports all connections once. */
static inline void ready_look(struct tu_dialer *dialer, tu_dialer_made *made, void *context) {
  struct ready_dialer *d = (struct ready_dialer *)(void *)dialer;
  const bool any = dialer->restless;
  dialer->restless = false;
  for (int control = 0; control < 2 && any; control++)
    for (uint32_t r = 0; r < d->ranks; r++) {
      if (d->sockets[control][r] >= 0) made(context, r, control, d->sockets[control][r]);
      d->sockets[control][r] = -1;
    }
}

static inline void ready_close(struct tu_dialer *dialer) { free(dialer); }

/* sockets[r]: the connection for data with rank r; control[r]: that for control; -1: none. host: as in struct tu_dialer.
 * control and host may be NULL: there are none, and each rank runs on a host of its own. */
static inline struct tu_dialer *ready_dialer(uint32_t ranks, const int sockets[], const int control[],
                                             const uint32_t host[]) {
  static const struct tu_dialer_ops ops = {ready_want, ready_look, ready_close};
  struct ready_dialer *d = calloc(1, sizeof *d);
  if (!d || ranks > READY_RANKS_MAX) abort();
  *d = (struct ready_dialer){.dialer = {.ops = &ops, .host = d->host, .descriptor = -1, .restless = true},
                             .ranks = ranks};
  for (uint32_t r = 0; r < ranks; r++) {
    d->sockets[false][r] = sockets[r];
    d->sockets[true][r] = control ? control[r] : -1;
    d->host[r] = host ? host[r] : r;
  }
  return &d->dialer;
}

#endif
