/* failure.c: errors of a thread's calls, and verdicts (first failures) of communicators. */
#include "comm/failure.h"

#include "base/log.h"
#include "base/process.h"

/* ---- errors of this thread ---- */

/* true if this thread's last call was refused because this process is a child of fork() */
static _Thread_local bool kept_out;

static _Thread_local struct {
  /* last: last error of this thread's calls. verdict: the last verdict (a communicator's first failure) that
   * tutti_error_message returned to this thread */
  struct tu_error last, verdict;
} said;

tutti_err tu_thread_error(const struct tu_error *error) {
  said.last = *error;
  kept_out = false;
  return error->code;
}

tutti_err tu_refuse_null(const char *function, const char *argument) {
  struct tu_error error;
  tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s: %s is NULL", function, argument);
  return tu_thread_error(&error);
}

/* Returns an error message. If `comm` has failed: its verdict (first failure), which never changes. Otherwise: this
 * thread's last error. The text lies in memory of this thread, so other threads do not change it. */
const char *tutti_error_message(const tutti_comm *comm) {
  if (!comm || kept_out || !tu_process_is(comm->process)) return said.last.text;
  return tu_comm_verdict(comm, &said.verdict) != TUTTI_OK ? said.verdict.text : said.last.text;
}

/* ---- verdicts ---- */

static void log_failure(const struct tutti_comm *comm) {
  if (tu_logs(TU_LOG_WARN))
    tu_log(TU_LOG_WARN, "failed", "communicator %llx: %s: %s", (unsigned long long)comm->mover->control.comm_id,
           tutti_err_name(comm->error.code), comm->error.text);
}

bool tu_comm_find_verdict(struct tutti_comm *comm) {
  if (comm->failed) return true;
  if (!tu_control_verdict(&comm->mover->control, &comm->error)) return false;
  tu_control_spread(&comm->mover->control);
  tu_mover_withdraw(comm->mover);
  log_failure(comm);
  return comm->failed = true;
}

tutti_err tu_comm_verdict(const tutti_comm *comm, struct tu_error *error) {
  struct tu_error found;
  if (!tu_control_verdict(&comm->mover->control, &found)) return TUTTI_OK;
  *error = found;
  return found.code;
}

tutti_err tu_comm_fail(struct tutti_comm *comm, const struct tu_error *error) {
  if (!comm->failed) {
    tu_control_fail(&comm->mover->control, error);
    tu_mover_withdraw(comm->mover);
    comm->failed = true;
    /* If another rank has reported a failure before, that first failure is the verdict, not *error. */
    if (!tu_control_verdict(&comm->mover->control, &comm->error)) comm->error = *error;
    log_failure(comm);
  }
  return tu_thread_error(&comm->error);
}

/* ---- children of fork() ---- */

static tutti_err say_forked(const char *call, struct tu_error *error) {
  return tu_fail(error, TUTTI_ERR_ARGUMENT,
                 "%s: this process is a child of fork(), and the object belongs to the parent process; "
                 "nothing was done. A child may call exec, or create or join its own world with tutti_init",
                 call);
}

tutti_err tu_explain_visit(const char *call, struct tu_error *error) { return say_forked(call, error); }

tutti_err tu_refuse_visit(const char *call) {
  struct tu_error error;
  (void)say_forked(call, &error);
  (void)tu_thread_error(&error);
  kept_out = true;
  return error.code;
}

tutti_err tu_refuse_child(uint64_t process, const char *call, struct tu_error *error) {
  return tu_process_is(process) ? TUTTI_OK : say_forked(call, error);
}
