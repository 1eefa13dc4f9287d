/* call.c: decides for each call whether tutti or the MPI carries it out, and runs blocking calls. The decision depends
 * only on what is equal on all ranks, except for arguments that the MPI refuses without the other ranks. */
#include "door.h"

static int error_class(tutti_err err) {
  switch (err) {
    case TUTTI_OK: return MPI_SUCCESS;
    case TUTTI_ERR_ARGUMENT: return MPI_ERR_ARG;
    case TUTTI_ERR_MISMATCH:
    case TUTTI_ERR_ABORTED: return MPI_ERR_TRUNCATE;
    case TUTTI_ERR_MEMORY: return MPI_ERR_NO_MEM;
    default: return MPI_ERR_OTHER;
  }
}

int tm_fail(const struct tm_comm *k, tutti_err err, const char *function) {
  const int code = error_class(err);
  tm_say("MPI_%s: %s", function, tutti_error_message(k->tutti));
  PMPI_Comm_call_errhandler(k->handle, code);
  return code;
}

static int leave(const struct tm_call *c, enum tm_reason reason) {
  if (tm_door.mode >= TM_REPORT) tm_count_call(c->kind, TM_BLOCKING, reason);
  return tm_native_run(c);
}

/* Runs a call whose translation has failed for want of memory: all ranks get an error. */
int tm_fail_memory(const struct tm_comm *k, const struct tm_call *c) {
  tutti_abort(k->tutti, "out of memory");
  return tm_fail(k, TUTTI_ERR_MEMORY, tm_kind_names[c->kind]);
}

tutti_err tm_job_run(struct tm_job *job) {
  tutti_err err;
  if (tm_run_short(job->from, job->comm, &err)) return err;
  if (job->in.packed) tm_job_pack(job);
  err = tutti_run_call(job->comm->tutti, &job->call);
  if (job->memory && err == TUTTI_OK) tm_job_unpack(job);
  return err;
}

/* Runs a call that needs memory of the door, or is counted or compared. */
static int translate(const struct tm_call *c, struct tm_comm *k) {
  struct tm_job job;
  const enum tm_reason reason = tm_job_begin(&job, c, k);
  if (reason == TM_NO_MEMORY) return tm_fail_memory(k, c);
  if (reason != TM_ROUTED) return leave(c, reason);
  if (tm_door.mode >= TM_REPORT) tm_count_call(c->kind, TM_BLOCKING, TM_ROUTED);
  if (tm_door.mode == TM_VERIFY) return tm_verify_run(&job);
  const tutti_err err = tm_job_run(&job);
  tm_job_end(&job);
  return err == TUTTI_OK ? MPI_SUCCESS : tm_fail(k, err, tm_kind_names[c->kind]);
}

int tm_run(const struct tm_call *c) {
  struct tm_comm *k = tm_comm_find(c->comm);
  if (__builtin_expect(!k || k->reason != TM_ROUTED, 0)) {
    if (!tm_door.open) return tm_native_run(c);
    k = tm_comm_enter(c->comm);
    if (!k || k->reason != TM_ROUTED) return leave(c, k ? k->reason : TM_ARGUMENTS);
  }
  tutti_err err;
  if (tm_door.mode != TM_QUIET || !tm_run_short(c, k, &err)) return translate(c, k);
  return err == TUTTI_OK ? MPI_SUCCESS : tm_fail(k, err, tm_kind_names[c->kind]);
}
