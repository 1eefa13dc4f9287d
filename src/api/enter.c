/* enter.c: why a communicator was not entered: the one place that says so. What it says is the caller's alone; nothing of the
 * communicator is touched, as another thread, or process, may be using it. */
#include <sched.h>

#include "api/comm.h"

/* The communicator that this thread's last error kept it out of. */
static _Thread_local const struct tutti_comm *kept_out_of;

/* Whose requests are open is not kept out: another thread is only at the door then, to be turned away. */
bool tu_hold_contended(struct tutti_comm *comm, struct tu_visit *visit) {
  const void *me = &tu_queue;
  visit->refusal = TU_OCCUPIED;
  while (atomic_load_explicit(&comm->opener, memory_order_relaxed) == me) {
    const void *found = NULL;
    sched_yield();
    if (!atomic_compare_exchange_strong_explicit(&comm->inside, &found, me, memory_order_acquire, memory_order_relaxed))
      continue;
    visit->comm = comm;
    return true;
  }
  return false;
}

/* ---- sentences ---- */

static tutti_err say_forked(const char *call, struct tu_error *error) {
  return tu_fail(
      error, TUTTI_ERR_ARGUMENT,
      "%s: this process is a child of fork(), and what it uses belongs to the process that it was forked from; "
      "nothing was done. A child may exec, or join or make a world of its own with tutti_init",
      call);
}

static tutti_err say_occupied(const struct tutti_comm *comm, const char *call, struct tu_error *error) {
  return tu_fail(error, TUTTI_ERR_ARGUMENT,
                 "%s: another thread of rank %u is in a call on this communicator, which serves one thread at a time; "
                 "nothing was done. Take turns, or give each thread a communicator of its own (tutti_comm_dup)",
                 call, comm->rank);
}

static tutti_err say_has_open(const struct tutti_comm *comm, const char *call, struct tu_error *error) {
  return tu_fail(
      error, TUTTI_ERR_ARGUMENT,
      "%s: another thread of rank %u has requests open on this communicator, which serves one thread at a "
      "time; nothing was done. That thread has to wait for them first; or give each thread a communicator of "
      "its own (tutti_comm_dup)",
      call, comm->rank);
}

tutti_err tu_explain_visit(const struct tutti_comm *comm, const struct tu_visit *visit, const char *call,
                           struct tu_error *error) {
  if (visit->refusal == TU_FORKED) return say_forked(call, error);
  return visit->refusal == TU_OCCUPIED ? say_occupied(comm, call, error) : say_has_open(comm, call, error);
}

tutti_err tu_refuse_visit(const struct tutti_comm *comm, const struct tu_visit *visit, const char *call) {
  struct tu_error error;
  (void)tu_explain_visit(comm, visit, call, &error);
  (void)tu_thread_error(&error);
  kept_out_of = comm;
  return error.code;
}

tutti_err tu_refuse_child(uint64_t process, const char *call, struct tu_error *error) {
  return tu_process_is(process) ? TUTTI_OK : say_forked(call, error);
}

/* ---- what was said ---- */

static _Thread_local struct tu_error thread_error;

tutti_err tu_thread_error(const struct tu_error *error) {
  thread_error = *error;
  kept_out_of = NULL;
  return error->code;
}

/* Who was kept out asks about that, and may not look inside. */
const char *tutti_error_message(const tutti_comm *comm) {
  return comm && comm != kept_out_of ? comm->error.text : thread_error.text;
}
