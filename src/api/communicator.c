/* communicator.c: small public functions of a communicator. */
#include "comm/enter.h"
#include "comm/failure.h"

int tutti_version(void) { return TUTTI_VERSION_MAJOR * 10000 + TUTTI_VERSION_MINOR * 100 + TUTTI_VERSION_PATCH; }

uint32_t tutti_rank(const tutti_comm *comm) { return comm->rank; }
uint32_t tutti_ranks(const tutti_comm *comm) { return comm->ranks; }

tutti_err tutti_comm_set_timeout(tutti_comm *comm, int timeout_ms) {
  struct tu_error error;
  struct tu_visit visit;
  tutti_err err = tu_check_timeout("tutti_comm_set_timeout", "timeout_ms", timeout_ms, &error);
  if (!comm) err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_comm_set_timeout: comm is NULL");
  if (err != TUTTI_OK) return tu_thread_error(&error);
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_comm_set_timeout");
  comm->timeout_ms = timeout_ms;
  tu_leave(&visit);
  return TUTTI_OK;
}

void tutti_comm_set_user(tutti_comm *comm, void *user) {
  if (tu_process_is(comm->process)) atomic_store_explicit(&comm->user, user, memory_order_release);
  else (void)tu_refuse_visit("tutti_comm_set_user");
}

void *tutti_comm_user(const tutti_comm *comm) { return atomic_load_explicit(&comm->user, memory_order_acquire); }

void tutti_abort(tutti_comm *comm, const char *reason) {
  struct tu_error error;
  struct tu_visit visit;
  tu_fail(&error, TUTTI_ERR_ABORTED, "rank %u aborted: %s", comm->rank, reason ? reason : "no reason was given");
  if (!tu_process_is(comm->process)) {
    (void)tu_refuse_visit("tutti_abort");
  } else if (tu_try_hold(comm, &visit)) {
    (void)tu_comm_fail(comm, &error);
    tu_leave(&visit);
  } else {
    /* Another thread holds the communicator, so set only the verdict in shared memory, which that thread will find. */
    tu_control_fail(&comm->mover->control, &error);
    (void)tu_thread_error(&error);
  }
}
