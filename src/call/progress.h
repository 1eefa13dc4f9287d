/* progress.h: the thread of the library. A process has at most one. It has three tasks:
 * - It sends what calls have left unsent for other hosts when they were over, because a connection is still being made,
 *   or is full. Without it, other ranks would wait for a rank that has left the call and computes. For this task the
 *   thread is created when it is first needed. It serves all worlds of several hosts.
 * - It carries out requests of other hosts to memory of this rank, as long as there are windows (onesided/served.c).
 * - It advances open requests while the program computes. It serves the worlds that asked for it
 *   (tutti_options.progress_thread). */
#ifndef TU_PROGRESS_H
#define TU_PROGRESS_H

#include "comm/comm.h"

/* Lets the thread serve an endpoint. advances: it also advances open requests, and is created now if there is none.
 * Error: TUTTI_ERR_SYSTEM. */
tutti_err tu_progress_begin(struct tu_transport *t, bool advances, struct tu_error *error);
/* Called before an endpoint closes: the thread serves it no more, and ends if it serves no other. Does nothing if the
 * thread does not serve the endpoint. The caller holds no communicator that other threads use. */
void tu_progress_end(struct tu_transport *t);
/* Between these calls, which may nest, the thread also receives what other hosts send while no thread of the program does.
 * Errors: TUTTI_ERR_SYSTEM (there is no thread, and none can be created). */
tutti_err tu_progress_serve(struct tu_transport *t, struct tu_error *error);
void tu_progress_serve_no_more(struct tu_transport *t);
/* Called in a child of fork(), which has no such thread, before it joins a world. */
void tu_progress_reset(void);
/* Wakes or creates the thread if data for other hosts is unsent, or if the thread advances requests of this endpoint, and
 * requests are open. comm: a communicator of the endpoint, which the caller holds; NULL: it holds none. */
void tu_progress_note_work(struct tu_transport *t, const struct tutti_comm *comm);

static inline void tu_progress_note_at(struct tu_transport *t, const struct tutti_comm *comm) {
  if (atomic_load_explicit(&t->served, memory_order_relaxed)) tu_progress_note_work(t, comm);
}

/* Called before a function of the library returns to the program: wakes or creates the thread if it has something to do:
 * data for other hosts is unsent, or requests are open that it is to advance. The caller holds the communicator, or no
 * other thread can use it. */
static inline void tu_progress_note(const struct tutti_comm *comm) { tu_progress_note_at(comm->transport, comm); }

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
