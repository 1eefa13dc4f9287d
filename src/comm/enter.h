/* enter.h: mutual exclusion: one thread at a time is in a communicator; other threads wait. */
#ifndef TU_ENTER_H
#define TU_ENTER_H

#include "base/process.h"
#include "comm/comm.h"

/* State of a thread. Its address identifies the thread. The struct is small, so that it fits into the space that
 * programs reserve for thread-local variables of libraries that are loaded later. */
struct tu_thread {
  bool telling; /* true: the thread is inside a caller's on_ready function, where no request may be advanced */
};
extern _Thread_local struct tu_thread tu_thread __attribute__((tls_model("initial-exec")));

/* Set by tu_hold and tu_try_hold, which may nest: records whether the matching tu_leave has to release the
 * communicator. */
struct tu_visit {
  /* communicator that tu_leave releases; NULL: none, for example because an outer tu_hold of this thread holds it */
  struct tutti_comm *comm;
};

/* Waits until no other thread holds the communicator, and then holds it. */
void tu_hold_contended(struct tutti_comm *comm);
/* Lets waiting threads enter the communicator, one after the other, and then holds it again. The caller holds the
 * communicator, and has no half-finished work in it. */
void tu_let_in_contended(struct tutti_comm *comm);
static inline void tu_let_in(struct tutti_comm *comm) {
  if (atomic_load_explicit(&comm->wanted, memory_order_relaxed) > 0) tu_let_in_contended(comm);
}

/* Holds the communicator if no thread holds it and no other thread waits for it with priority (`starving`). Returns
 * true on success. */
static inline bool tu_take_idle(struct tutti_comm *comm) {
  const void *free_mark = NULL;
  return !atomic_load_explicit(&comm->starving, memory_order_relaxed) &&
         atomic_compare_exchange_strong_explicit(&comm->inside, &free_mark, &tu_thread, memory_order_acquire,
                                                 memory_order_relaxed);
}

/* Holds the communicator if no other thread holds it. Returns true if this thread holds it now. Calls may nest. Must
 * not be called in a child of fork(). */
static inline bool tu_try_hold(struct tutti_comm *comm, struct tu_visit *visit) {
  const void *inside = atomic_load_explicit(&comm->inside, memory_order_relaxed);
  visit->comm = NULL;
  if (inside == &tu_thread) return true;
  if (inside || !tu_take_idle(comm)) return false;
  visit->comm = comm;
  return true;
}

/* Holds the communicator; first waits while other threads hold it. Calls may nest. Returns false in a child of fork(),
 * which must not touch the communicator. The caller then calls tu_refuse_visit, which sets the error. */
static inline bool tu_hold(struct tutti_comm *comm, struct tu_visit *visit) {
  visit->comm = NULL;
  if (!tu_process_is(comm->process)) return false;
  if (tu_try_hold(comm, visit)) return true;
  tu_hold_contended(comm);
  visit->comm = comm;
  return true;
}

/* Leaves the communicator completely, even if calls of tu_hold are nested. A thread that does so before a sleep enters
 * the communicator again with tu_regain. */
static inline void tu_leave_idle(struct tutti_comm *comm) {
  atomic_store_explicit(&comm->inside, NULL, memory_order_release);
}

static inline void tu_leave(const struct tu_visit *visit) {
  if (visit->comm) tu_leave_idle(visit->comm);
}

static inline void tu_regain(struct tutti_comm *comm) {
  if (!tu_take_idle(comm)) tu_hold_contended(comm);
}

/* Fast form of tu_hold for the usual case that no thread holds the communicator. Returns false in all other cases; then
 * call tu_hold. */
static inline bool tu_enter_idle(struct tutti_comm *comm) { return tu_process_is(comm->process) && tu_take_idle(comm); }

#endif
