/* failure.h: the last error of a thread, and the verdict of a communicator. The verdict is the communicator's first
 * failure, which all its ranks adopt. */
#ifndef TU_FAILURE_H
#define TU_FAILURE_H

#include "comm/comm.h"

/* Stores an error as the last error of this thread, for tutti_error_message. Returns its code. */
tutti_err tu_thread_error(const struct tu_error *error);
/* Refuses a call because an argument is NULL. Sets this thread's error, and returns TUTTI_ERR_ARGUMENT. */
tutti_err tu_refuse_null(const char *function, const char *argument);
/* Makes `error` the communicator's verdict (its first failure) and sends it to all ranks, unless there already is a
 * verdict. Afterwards comm->error is the verdict. Returns the code of the verdict. */
tutti_err tu_comm_fail(struct tutti_comm *comm, const struct tu_error *error);
/* Copies the communicator's verdict (its first failure) to *error and returns its code; TUTTI_OK: there is no verdict.
 * Any thread may call this function, because it reads no state of this rank's calls. */
tutti_err tu_comm_verdict(const struct tutti_comm *comm, struct tu_error *error);
/* Checks for a verdict (the communicator's first failure). Returns true if the communicator has failed; comm->error is
 * then the verdict. */
bool tu_comm_find_verdict(struct tutti_comm *comm);
static inline bool tu_comm_failed(struct tutti_comm *comm) {
  if (!comm->failed && !tu_control_failed(&comm->mover->control)) return false;
  return tu_comm_find_verdict(comm);
}
/* Like tu_comm_failed, but first receives messages that ranks of other hosts have sent about failures. */
static inline bool tu_comm_failed_by_now(struct tutti_comm *comm) {
  (void)tu_mover_look(comm->mover);
  return tu_comm_failed(comm);
}

/* ---- children of fork() ---- */
/* Refuses a call in a child of fork(), which must not use objects of its parent. Sets this thread's error. */
tutti_err tu_refuse_visit(const char *call);
/* Like tu_refuse_visit, but sets *error instead of this thread's error. */
tutti_err tu_explain_visit(const char *call, struct tu_error *error);
/* Returns TUTTI_ERR_ARGUMENT if the object was created by another process, whose number is `process`. For calls that
 * any thread may make. */
tutti_err tu_refuse_child(uint64_t process, const char *call, struct tu_error *error);

#endif
