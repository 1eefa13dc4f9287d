/* queue.h: the open requests of communicators, and the process's list of communicators with open requests. */
#ifndef TU_QUEUE_H
#define TU_QUEUE_H

#include "call/request.h"
#include "comm/enter.h"

/* Adds a request to the open requests of its communicator. For this function and the following ones, the caller holds
 * the communicator. */
void tu_queue_add(struct tutti_request *request);
/* Ends an open request that is complete. */
void tu_queue_end(struct tutti_request *request);
/* Takes the open request that is on the fast path off it; does nothing if none is. */
void tu_queue_leave_straight(struct tutti_comm *comm);
/* Removes a communicator, which is about to be destroyed, from the process's list of communicators with open requests.
 * The communicator has no open request. */
void tu_queue_forget(struct tutti_comm *comm);
/* Returns true if this process is a child of fork() and has inherited the list of communicators with open requests.
 * tu_queue_reset empties the list. */
bool tu_queue_is_foreign(void);
void tu_queue_reset(void);
/* Advances open requests of the communicator: the oldest and, in turns, some of the others. Repeated calls advance all that
 * can be. Returns true if there was any progress. */
bool tu_queue_poll(struct tutti_comm *comm);
/* Advances every open request: for a thread that may sleep afterwards. */
bool tu_queue_poll_whole(struct tutti_comm *comm);
/* Advances the open requests of the communicators of the process that no other thread holds, except `comm`, which this
 * thread holds; NULL: it holds none. Returns true if there was any progress. */
bool tu_queue_poll_others(const struct tutti_comm *comm);
/* Like tu_queue_poll_others, for a thread that may sleep afterwards, and holds no communicator: passes all of them.
 * *missed: another thread holds one of them, and may leave it any moment. */
bool tu_queue_poll_every(bool *missed);
/* Calls `visit` for the communicator (NULL: this thread holds none), and for other communicators with open requests that
 * no other thread holds. */
void tu_queue_visit(struct tutti_comm *comm, void (*visit)(struct tutti_comm *comm, void *context), void *context);
/* Counter of completed requests; never 0. A thread that sees a changed value does not sleep, because one of its own
 * requests may be complete. */
extern _Atomic uint32_t tu_queue_finished;
static inline uint32_t tu_queue_finished_now(void) { return atomic_load(&tu_queue_finished); }
/* number of communicators in the process's list of communicators with open requests */
extern _Atomic uint32_t tu_queue_busy;
/* Returns true if communicators of the process other than `comm` may have open requests; comm may be NULL. The result
 * may be true although the last of these requests has just completed. */
static inline bool tu_queue_others(const struct tutti_comm *comm) {
  return atomic_load_explicit(&tu_queue_busy, memory_order_relaxed) > (comm && comm->listed ? 1 : 0);
}
/* The same, but removes communicators without open requests from the list first, so that the result is true only while
 * there are some, or while another thread holds one. `comm` is held by this thread. */
bool tu_queue_find_others(const struct tutti_comm *comm);
/* Returns a communicator on which the calling thread has open requests, and holds it; NULL: there is none. The caller
 * leaves the communicator with tu_leave(visit). The function also frees failed requests of this thread for which the
 * program has no handle; if *error is TUTTI_OK, it becomes the error of the first of them. */
struct tutti_comm *tu_queue_find_own(struct tu_visit *visit, struct tu_error *error);

#endif
