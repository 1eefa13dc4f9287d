/* progress.h: the thread of the library that advances open requests while the program computes
 * (tutti_options.progress_thread). A process has at most one. It serves the endpoints of all worlds that asked for it. */
#ifndef TU_PROGRESS_H
#define TU_PROGRESS_H

#include "comm/comm.h"

/* Lets the thread serve an endpoint, and starts the thread if there is none. Error: TUTTI_ERR_SYSTEM. */
tutti_err tu_progress_begin(struct tu_transport *t, struct tu_error *error);
/* Called before an endpoint closes: the thread serves it no more, and ends if it serves no other. Does nothing if the
 * thread does not serve the endpoint. The caller holds no communicator that other threads use. */
void tu_progress_end(struct tu_transport *t);
/* Called in a child of fork(), which has no such thread, before it joins a world. */
void tu_progress_reset(void);

/* true: the thread exists */
extern _Atomic bool tu_progress_runs;
void tu_progress_note_open(const struct tutti_comm *comm);

/* Called before a function of the library returns to the program: wakes the thread if it sleeps, and requests are still
 * open, or data for other hosts is unsent. The caller holds the communicator. */
static inline void tu_progress_note(const struct tutti_comm *comm) {
  if (atomic_load_explicit(&tu_progress_runs, memory_order_relaxed)) tu_progress_note_open(comm);
}

/* Called before and after a thread of the program waits for requests. That thread advances all requests. So the
 * progress thread does not compete with it for the communicator and the core. The caller holds the communicator. */
static inline void tu_progress_pause(const struct tutti_comm *comm) {
  struct tu_transport *t = comm->transport;
  if (atomic_load_explicit(&t->served, memory_order_relaxed))
    atomic_fetch_add_explicit(&t->waiting, 1, memory_order_relaxed);
}
static inline void tu_progress_resume(const struct tutti_comm *comm) {
  struct tu_transport *t = comm->transport;
  if (atomic_load_explicit(&t->served, memory_order_relaxed))
    atomic_fetch_sub_explicit(&t->waiting, 1, memory_order_relaxed);
  tu_progress_note(comm);
}

#endif
