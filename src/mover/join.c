/* join.c: makes the endpoint of a rank of a job. If the job has several hosts, connects the rank with the ranks of the
 * others. */
#include "mover/join.h"

#include <stdlib.h>

#include "base/log.h"
#include "fabric/wire_ofi.h"
#include "mover/remote.h"

/* Logs for each other host how its ranks are reached, and why. */
static void log_wires(const struct tu_job *job, const struct tu_fabric *fabric, const bool speaks[]) {
  struct tu_fabric_wish wish;
  struct tu_error error;
  const char *why = "it has another fabric, or none";
  if (!fabric) {
    const bool read = tu_fabric_read_wish(&wish, &error) == TUTTI_OK;
    why = read && wish.how == TU_FABRIC_NONE ? "TUTTI_FABRIC is none"
                                             : "no fabric with RMA was found here, or no other rank has the same";
  }
  for (uint32_t r = 0; r < job->ranks; r++) {
    if (tu_job_host_leader(job, r) != r || tu_job_is_near(job, r, job->rank)) continue;
    if (fabric && speaks[r])
      tu_log(TU_LOG_INFO, "wire", "host %s (rank %u and following): fabric %s, and sockets for the rest",
             job->processes[r].hostname, r, fabric->info->fabric_attr->prov_name);
    else
      tu_log(TU_LOG_INFO, "wire", "host %s (rank %u and following): sockets, because %s", job->processes[r].hostname, r,
             why);
  }
}

/* Makes the wire: over the sockets of the dialer, and over a fabric, if this rank and others have the same one. */
static tutti_err make_wire(struct tu_job *job, struct tu_dialer *dialer, struct tu_wire **wire,
                           struct tu_error *error) {
  struct tu_fabric *fabric;
  bool *speaks = tu_try_allocate(job->ranks, sizeof *speaks);
  tutti_err err = tu_fabric_meet(job, &fabric, speaks, error);
  if (err != TUTTI_OK) dialer->ops->close(dialer);
  else err = tu_wire_sockets(job->ranks, dialer, wire, error);
  if (err != TUTTI_OK) tu_fabric_close(fabric);
  else if (fabric) err = tu_wire_ofi(job->rank, job->ranks, speaks, fabric, *wire, wire, error);
  if (err == TUTTI_OK && tu_logs(TU_LOG_INFO)) log_wires(job, fabric, speaks);
  free(speaks);
  return err;
}

/* Adds the connections to other hosts. */
static tutti_err connect_hosts(struct tu_job *job, struct tu_transport *t, struct tu_error *error) {
  struct tu_dialer *dialer;
  struct tu_wire *wire;
  tutti_err err = tu_job_dialer(job, &dialer, error);
  if (err == TUTTI_OK) err = make_wire(job, dialer, &wire, error);
  if (err != TUTTI_OK) return err;
  uint32_t *locals = tu_try_allocate(job->ranks, sizeof *locals);
  for (uint32_t r = 0, next = 0; locals && r < job->ranks; r++)
    locals[r] = tu_job_is_near(job, r, job->rank) ? next++ : TU_REMOTE;
  if (!locals) {
    wire->ops->close(wire, 0);
    return tu_fail_memory(error, job->ranks * sizeof *locals, "the hosts of %u ranks", job->ranks);
  }
  err = tu_remote_create(t, job->rank, job->ranks, locals, wire, error);
  free(locals);
  return err;
}

tutti_err tu_join(struct tu_job *job, struct tu_transport **t, struct tu_error *error) {
  tutti_err err = tu_shm_join(job, t, error);
  if (err != TUTTI_OK || tu_job_locals(job, job->rank) == job->ranks) return err;
  err = connect_hosts(job, *t, error);
  err = tu_job_agree(job, err, error);
  if (err == TUTTI_OK) return err;
  (*t)->ops->close(*t);
  *t = NULL;
  return err;
}
