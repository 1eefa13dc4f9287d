/* queue.c: the open requests of communicators. Each has a list of its own, which only a thread that holds it touches. The process
 * has a list of those that have open requests, so that who waits moves them all: it is locked for moments, and a thread that
 * has a communicator from it holds that one, and so can go on to the next from there. */
#include <pthread.h>
#include <sched.h>

#include "api/comm.h"

_Thread_local struct tu_thread tu_thread;
_Atomic uint32_t tu_queue_busy, tu_queue_finished = 1;

/* Of many communicators so many are come by at a time, in turn: a wait has something to do for its own as well. */
enum { POLLED = 8, LOOKED_AT = 64 };

static struct {
  pthread_mutex_t lock;
  struct tutti_comm *first;
  struct tutti_comm *turn;  /* where the next walk begins; NULL: at the first */
  _Atomic uint64_t process; /* whose they are */
} busy = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- which communicators ---- */

static void enlist(struct tutti_comm *comm) {
  pthread_mutex_lock(&busy.lock);
  comm->busy_before = NULL;
  comm->busy_after = busy.first;
  if (busy.first) busy.first->busy_before = comm;
  busy.first = comm;
  busy.process = comm->process;
  comm->listed = true;
  atomic_fetch_add_explicit(&tu_queue_busy, 1, memory_order_relaxed);
  pthread_mutex_unlock(&busy.lock);
}

/* Under the lock. */
static void strike(struct tutti_comm *comm) {
  if (comm->busy_before) comm->busy_before->busy_after = comm->busy_after;
  else busy.first = comm->busy_after;
  if (comm->busy_after) comm->busy_after->busy_before = comm->busy_before;
  if (busy.turn == comm) busy.turn = comm->busy_after;
  comm->listed = false;
  atomic_fetch_sub_explicit(&tu_queue_busy, 1, memory_order_relaxed);
}

void tu_queue_forget(struct tutti_comm *comm) {
  pthread_mutex_lock(&busy.lock);
  if (comm->listed) strike(comm);
  pthread_mutex_unlock(&busy.lock);
}

void tu_queue_reset(void) {
  tu_thread = (struct tu_thread){0};
  pthread_mutex_init(&busy.lock, NULL);
  busy.first = busy.turn = NULL;
  atomic_store(&tu_queue_busy, 0);
}

/* Communicators that a thread comes by. */
struct walk {
  const struct tutti_comm *own; /* passed over */
  uint32_t left;                /* so many more at most */
  struct tu_visit held;         /* the one that it is at */
};

/* From that one on, the first that no other thread is in: held. Those that have nothing any more are struck off. Under the
 * lock. */
static struct tutti_comm *next_from(struct walk *w, struct tutti_comm *comm) {
  while (comm && w->left > 0) {
    struct tutti_comm *after = comm->busy_after;
    w->left--;
    busy.turn = after;
    if (comm != w->own && tu_try_hold(comm, &w->held)) {
      if (comm->first || comm->lost) return comm;
      if (w->held.comm) strike(comm); /* else a call further out may be about to use it */
      tu_leave(&w->held);
    }
    comm = after;
  }
  return NULL;
}

static struct tutti_comm *begin_walk(struct walk *w) {
  pthread_mutex_lock(&busy.lock);
  struct tutti_comm *comm = next_from(w, busy.turn ? busy.turn : busy.first);
  pthread_mutex_unlock(&busy.lock);
  return comm;
}

/* Leaves that one. */
static struct tutti_comm *go_on_from(struct walk *w, struct tutti_comm *comm) {
  const struct tu_visit left = w->held;
  pthread_mutex_lock(&busy.lock);
  struct tutti_comm *next = comm->listed ? next_from(w, comm->busy_after) : NULL;
  pthread_mutex_unlock(&busy.lock);
  tu_leave(&left);
  return next;
}

void tu_queue_visit(struct tutti_comm *comm, void (*visit)(struct tutti_comm *comm, void *context), void *context) {
  struct walk w = {.own = comm, .left = LOOKED_AT};
  visit(comm, context);
  if (!tu_queue_others(comm)) return;
  for (struct tutti_comm *c = begin_walk(&w); c; c = go_on_from(&w, c)) visit(c, context);
}

/* ---- requests ---- */

void tu_queue_add(struct tutti_request *r) {
  struct tutti_comm *comm = r->comm;
  r->starter = &tu_thread;
  r->previous = comm->last;
  r->next = NULL;
  if (comm->last) comm->last->next = r;
  else comm->first = r;
  comm->last = r;
  if (!comm->listed) enlist(comm);
}

/* What failed without a handle is kept for the thread that started it. */
static void drop_detached(struct tutti_request *r) {
  if (r->error.code == TUTTI_OK) {
    tu_request_release(r);
    return;
  }
  r->next = r->comm->lost;
  r->comm->lost = r;
}

static void complete(struct tutti_request *r, const struct tu_error *error) {
  struct tutti_comm *comm = r->comm;
  if (r->previous) r->previous->next = r->next;
  else comm->first = r->next;
  if (r->next) r->next->previous = r->previous;
  else comm->last = r->previous;
  if (r->stalled_since) tu_chain_go_on(comm->transport);
  r->open = false;
  r->done = true;
  comm->open_requests--;
  r->error.code = TUTTI_OK;
  if (error) r->error = *error;
  if (r->detached) drop_detached(r);
  if (atomic_fetch_add_explicit(&tu_queue_finished, 1, memory_order_relaxed) == UINT32_MAX)
    atomic_fetch_add_explicit(&tu_queue_finished, 1, memory_order_relaxed);
  tu_bell_ring(comm->transport, comm->transport->rank); /* a thread that sleeps for it has not moved it itself */
}

static bool poll_one(struct tutti_request *r) {
  if (r->comm->failed) {
    complete(r, &r->comm->error);
    return true;
  }
  if (r->comm->pace) tu_pace_look(r->comm->pace);
  bool moved = tu_execution_poll(&r->execution);
  if (r->execution.parts) tu_request_tell(r);
  if (r->execution.unfinished > 0 && !r->execution.mismatch) return moved;
  if (r->execution.mismatch) tu_fail_mismatch(r);
  complete(r, r->execution.mismatch ? &r->comm->error : NULL);
  return true; /* also if nothing was left to do: the queue is another one now */
}

bool tu_queue_poll(struct tutti_comm *comm) {
  bool moved = tu_mover_look(comm->mover);
  for (struct tutti_request *r = comm->first, *next; r; r = next) {
    next = r->next;
    moved |= poll_one(r);
  }
  if (moved) (void)tu_mover_send(comm->mover);
  return moved;
}

bool tu_queue_poll_others(const struct tutti_comm *comm) {
  struct walk w = {.own = comm, .left = POLLED};
  bool moved = false;
  if (!tu_queue_others(comm)) return false;
  for (struct tutti_comm *c = begin_walk(&w); c; c = go_on_from(&w, c)) moved |= tu_queue_poll(c);
  return moved;
}

/* ---- what a thread has started ---- */

bool tu_queue_is_foreign(void) {
  return atomic_load_explicit(&tu_queue_busy, memory_order_relaxed) > 0 && !tu_process_is(busy.process);
}

static bool has_own(const struct tutti_comm *comm) {
  for (const struct tutti_request *r = comm->first; r; r = r->next)
    if (r->starter == &tu_thread) return true;
  return false;
}

static void collect_lost(struct tutti_comm *comm, struct tu_error *error) {
  for (struct tutti_request **link = &comm->lost; *link;) {
    struct tutti_request *r = *link;
    if (r->starter != &tu_thread) {
      link = &r->next;
      continue;
    }
    *link = r->next;
    if (error->code == TUTTI_OK) *error = r->error;
    tu_request_destroy(r);
  }
}

/* One that another thread is in is waited for: what this thread has started there is moved by that one, or is complete. */
struct tutti_comm *tu_queue_find_own(struct tu_visit *visit, struct tu_error *error) {
  for (;;) {
    bool missed = false;
    pthread_mutex_lock(&busy.lock);
    struct tutti_comm *comm = busy.first;
    while (comm) {
      if (!tu_try_hold(comm, visit)) {
        missed = true;
      } else {
        collect_lost(comm, error);
        if (has_own(comm)) break;
        tu_leave(visit);
      }
      comm = comm->busy_after;
    }
    pthread_mutex_unlock(&busy.lock);
    if (comm || !missed) return comm;
    sched_yield();
  }
}
