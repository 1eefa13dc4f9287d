/* join.c: makes the endpoint of a rank of a job. If the job has several hosts, connects the rank with the ranks of the
 * others. */
#include "mover/join.h"

#include <stdlib.h>
#include <unistd.h>

#include "mover/remote.h"

/* Adds the connections to other hosts. *owned becomes true if the endpoint has become the owner of the bells. */
static tutti_err connect_hosts(const struct tu_job *job, struct tu_transport *t, const int bells[], const int sockets[],
                               bool *owned, struct tu_error *error) {
  struct tu_wire *wire;
  uint32_t *locals = tu_try_allocate(job->ranks, sizeof *locals);
  for (uint32_t r = 0, next = 0; locals && r < job->ranks; r++)
    locals[r] = tu_job_is_near(job, r, job->rank) ? next++ : TU_REMOTE;
  tutti_err err = tu_wire_sockets(job->ranks, sockets, &wire, error);
  if (err == TUTTI_OK && !locals) {
    wire->ops->close(wire, 0);
    err = tu_fail_memory(error, job->ranks * sizeof *locals, "the hosts of %u ranks", job->ranks);
  }
  *owned = err == TUTTI_OK;
  if (err == TUTTI_OK) err = tu_remote_create(t, job->rank, job->ranks, locals, bells, wire, error);
  free(locals);
  return err;
}

tutti_err tu_join(struct tu_job *job, struct tu_transport **t, struct tu_error *error) {
  const uint32_t here = tu_job_locals(job, job->rank);
  int *bells, *sockets;
  bool owned = false;
  tutti_err err = tu_shm_join(job, t, &bells, error);
  if (err != TUTTI_OK || here == job->ranks) return err;
  sockets = tu_try_allocate(job->ranks, sizeof *sockets);
  if (!sockets) tu_fail_memory(error, job->ranks * sizeof *sockets, "the connections to %u ranks", job->ranks);
  err = tu_job_agree(job, sockets ? TUTTI_OK : error->code, error);
  if (err == TUTTI_OK) err = tu_job_connect(job, sockets, error);
  if (err == TUTTI_OK) err = connect_hosts(job, *t, bells, sockets, &owned, error);
  err = tu_job_agree(job, err, error);
  for (uint32_t i = 0; i < here && !owned; i++) close(bells[i]);
  free(bells);
  free(sockets);
  if (err == TUTTI_OK) return err;
  (*t)->ops->close(*t);
  *t = NULL;
  return err;
}
