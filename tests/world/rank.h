/* rank.h: what the files of a rank's copy of the library share. */
#ifndef WORLD_RANK_H
#define WORLD_RANK_H

#include "tests/reference.h"
#include "tests/world/world.h"

/* A call with its data. */
struct work {
  struct ref_run run;
  tutti_request *request;
  bool open;
};

struct actor {
  const struct world_program *program;
  uint32_t rank; /* in the world */
  struct tu_transport *transport;
  tutti_comm *comm[WORLD_COMMS_MAX];
  struct work work[WORLD_REQUESTS_MAX];
  uint32_t act;
  bool impatient; /* the program has polled for long, and ends without an error of the library */
};

/* Registers the user operations of the calls, and takes some of their buffers from tutti_alloc. */
tutti_err rank_prepare(tutti_comm *world);
/* Frees the buffers of calls that the rank has started and not finished. */
void rank_drop(struct actor *a);
static inline tutti_err rank_loses_patience(struct actor *a) {
  a->impatient = true;
  return TUTTI_ERR_TIMEOUT;
}
/* Aborts the act's communicator if that is the rank's fault. Windows and streams do so after they are made. */
static inline bool rank_aborts_inside(const struct world_act *act) {
  return act->kind == WORLD_WINDOW || act->kind == WORLD_STREAM;
}
static inline void rank_abort(const struct actor *a, const struct world_act *act) {
  if (world_is_hit(a->act, WORLD_ABORT)) tutti_abort(a->comm[act->comm], "enough");
}
/* Each carries out one act, checks its results (world_fail), and returns the first error. */
tutti_err rank_call(struct actor *a, const struct world_act *act);
tutti_err rank_finish(struct actor *a, const struct world_act *act);
tutti_err rank_exchange(struct actor *a, const struct world_act *act);
tutti_err rank_burst(struct actor *a, const struct world_act *act);
tutti_err rank_leave(struct actor *a, const struct world_act *act);
tutti_err rank_tensor(struct actor *a, const struct world_act *act);
tutti_err rank_window(struct actor *a, const struct world_act *act);
tutti_err rank_stream(struct actor *a, const struct world_act *act);

#endif
