/* queue.c: the open requests of communicators. Each communicator has its own list of open requests, accessed only by
 * the thread that holds the communicator. The process has a list of the communicators with open requests, so that a
 * waiting thread can advance all of these requests. This second list is locked for short times only. A thread that goes
 * through this list holds the communicator that it has reached, so that no other thread removes it from the list. */
#include "call/queue.h"

#include <pthread.h>
#include <sched.h>

#include "call/again.h"
#include "call/mismatch.h"
#include "call/partition.h"
#include "call/trace.h"
#include "comm/chain.h"

_Atomic uint32_t tu_queue_busy, tu_queue_finished = 1;

/* Maximum number of communicators that one pass through the list tries. The number is small, so that a waiting thread
 * soon comes back to its own requests. POLLED: for a pass that polls. LOOKED_AT: for a pass of tu_queue_visit. The next
 * pass begins where the last one ended. */
enum { POLLED = 8, LOOKED_AT = 64 };
#define ALL UINT32_MAX
/* How many requests in a row a pass through the requests of a communicator polls in vain: of the oldest, and of the others. */
enum { OLDEST = 8, OTHERS = 8 };

static struct {
  pthread_mutex_t lock;
  struct tutti_comm *first;
  struct tutti_comm *turn;  /* communicator at which the next pass through the list begins; NULL: at `first` */
  _Atomic uint64_t process; /* number of the process that owns the list */
} busy = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the list of communicators ---- */

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

/* Removes a communicator from the list. The caller holds the lock of the list. */
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

/* One pass of a thread through the list of communicators. */
struct walk {
  const struct tutti_comm *own; /* communicator that this thread holds already, and that the pass skips */
  uint32_t left;                /* maximum number of communicators that are still to be tried */
  bool missed;                  /* true: another thread holds a communicator of the list */
  struct tu_visit held;         /* result of tu_try_hold for the current communicator; tu_leave needs it (enter.h) */
};

/* Returns the first communicator, from `comm` on, that no other thread holds, and holds it. Removes communicators
 * without open requests from the list. The caller holds the lock of the list. */
static struct tutti_comm *next_from(struct walk *w, struct tutti_comm *comm) {
  while (comm && w->left > 0) {
    struct tutti_comm *after = comm->busy_after;
    w->left--;
    busy.turn = after;
    const bool held = comm != w->own && tu_try_hold(comm, &w->held);
    w->missed |= comm != w->own && !held;
    if (held) {
      if (comm->first || comm->lost) return comm;
      /* The communicator has no open request, so remove it from the list. Exception: held.comm is NULL if an outer call
       * of this thread already holds the communicator. That outer call may be about to continue its own pass from the
       * communicator's place in the list. */
      if (w->held.comm) strike(comm);
      tu_leave(&w->held);
    }
    comm = after;
  }
  return NULL;
}

/* Begins a pass where the last one has stopped, or with the first communicator if it is to try all. */
static struct tutti_comm *begin_walk(struct walk *w) {
  pthread_mutex_lock(&busy.lock);
  struct tutti_comm *comm = next_from(w, busy.turn && w->left < ALL ? busy.turn : busy.first);
  pthread_mutex_unlock(&busy.lock);
  return comm;
}

/* Leaves the communicator `comm` of a pass through the list, and returns the next one, which this thread then holds.
 * NULL: the pass is over. */
static struct tutti_comm *go_on_from(struct walk *w, struct tutti_comm *comm) {
  const struct tu_visit left = w->held;
  pthread_mutex_lock(&busy.lock);
  struct tutti_comm *next = comm->listed ? next_from(w, comm->busy_after) : NULL;
  pthread_mutex_unlock(&busy.lock);
  tu_leave(&left);
  return next;
}

bool tu_queue_find_others(const struct tutti_comm *comm) {
  struct walk w = {.own = comm, .left = POLLED};
  if (!tu_queue_others(comm)) return false;
  for (struct tutti_comm *c = begin_walk(&w); c; c = go_on_from(&w, c)) {}
  return tu_queue_others(comm);
}

void tu_queue_visit(struct tutti_comm *comm, void (*visit)(struct tutti_comm *comm, void *context), void *context) {
  struct walk w = {.own = comm, .left = LOOKED_AT};
  struct tutti_comm *c = comm;
  if (!c && tu_queue_others(NULL)) c = begin_walk(&w);
  while (c) {
    tu_queue_leave_straight(c);
    visit(c, context);
    if (c != comm) c = go_on_from(&w, c);
    else c = tu_queue_others(comm) ? begin_walk(&w) : NULL;
  }
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

/* Releases a completed request for which the program has no handle. A failed request is kept instead, so that the
 * thread that started it can get the error. */
static void drop_detached(struct tutti_request *r) {
  if (r->error.code == TUTTI_OK) {
    tu_request_release(r);
    return;
  }
  r->next = r->comm->lost;
  r->comm->lost = r;
}

/* Tells the program which message a receive has got. */
static void tell_message(const struct tutti_request *r) {
  const struct tu_execution *e = &r->execution;
  *r->message =
      (tutti_message){.rank = e->expected->receiver->peer, .tag = (uint32_t)e->tag, .bytes = e->program->moved_bytes};
}

static void complete(struct tutti_request *r, const struct tu_error *error) {
  struct tutti_comm *comm = r->comm;
  if (r->previous) r->previous->next = r->next;
  else comm->first = r->next;
  if (r->next) r->next->previous = r->previous;
  else comm->last = r->previous;
  if (comm->turn == r) comm->turn = r->next;
  if (r->stalled_since) tu_chain_go_on(comm->transport);
  comm->open_requests--;
  r->straight = false;
  r->error.code = TUTTI_OK;
  if (error) r->error = *error, tu_call_failed(r);
  else if (r->message) tell_message(r);
  tu_request_set_state(r, TU_REQUEST_COMPLETE);
  if (r->detached) drop_detached(r);
  if (atomic_fetch_add_explicit(&tu_queue_finished, 1, memory_order_relaxed) == UINT32_MAX)
    atomic_fetch_add_explicit(&tu_queue_finished, 1, memory_order_relaxed);
  /* wakes threads that sleep until a request is complete: this request may be one that they wait for */
  tu_bell_ring(comm->transport, comm->transport->rank);
}

void tu_queue_end(struct tutti_request *r) { complete(r, NULL); }

void tu_queue_leave_straight(struct tutti_comm *comm) {
  struct tutti_request *r = comm->first;
  if (!r || !r->straight) return;
  r->straight = false;
  tu_execution_leave_straight(&r->execution);
}

static bool poll_one(struct tutti_request *r) {
  if (r->comm->failed) {
    complete(r, &r->comm->error);
    return true;
  }
  if (r->straight) tu_queue_leave_straight(r->comm);
  if (r->comm->pace) tu_pace_look(r->comm->pace);
  bool moved = tu_poll_execution(&r->execution);
  if (r->execution.partition) tu_request_tell(r);
  if (r->execution.unfinished > 0 && !r->execution.mismatch) return moved;
  if (r->execution.mismatch) tu_fail_mismatch(r);
  complete(r, r->execution.mismatch ? &r->comm->error : NULL);
  return true; /* true even without progress of a message, because the list of open requests has changed */
}

/* Polls requests from *r on, until `most` of them in a row have not moved. *r: the request that it has come to; NULL: it
 * has come to the end. Returns true if any has moved. */
static bool poll_some(struct tutti_request **r, uint32_t most) {
  bool moved = false;
  for (uint32_t idle = 0; *r && idle < most;) {
    struct tutti_request *polled = *r;
    *r = polled->next;
    if (!poll_one(polled)) idle++;
    else idle = 0, moved = true;
  }
  return moved;
}

/* Most often the oldest requests move first, because later ones use the same channels. So a pass polls these, and some of
 * the others, in turns. With many open requests, a pass then does not take longer the more there are. */
bool tu_queue_poll(struct tutti_comm *comm) {
  bool moved = tu_mover_look(comm->mover);
  struct tutti_request *r = comm->first;
  moved |= poll_some(&r, OLDEST);
  if (r) {
    /* complete() moves comm->turn on if it is that request */
    struct tutti_request *turn = comm->turn ? comm->turn : r;
    comm->turn = NULL;
    moved |= poll_some(&turn, OTHERS);
    comm->turn = turn;
  }
  if (moved) (void)tu_mover_send(comm->mover);
  return moved;
}

bool tu_queue_poll_whole(struct tutti_comm *comm) {
  bool moved = tu_mover_look(comm->mover);
  struct tutti_request *r = comm->first;
  moved |= poll_some(&r, UINT32_MAX);
  if (moved) (void)tu_mover_send(comm->mover);
  return moved;
}

static bool poll_along(struct walk *w) {
  bool moved = false;
  if (!tu_queue_others(w->own)) return false;
  for (struct tutti_comm *c = begin_walk(w); c; c = go_on_from(w, c)) moved |= tu_queue_poll_whole(c);
  return moved;
}

bool tu_queue_poll_others(const struct tutti_comm *comm) {
  return poll_along(&(struct walk){.own = comm, .left = POLLED});
}

bool tu_queue_poll_every(bool *missed) {
  struct walk w = {.left = ALL};
  const bool moved = poll_along(&w);
  *missed = w.missed;
  return moved;
}

/* ---- the requests of one thread ---- */

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

/* Searches the list for a communicator on which this thread has open requests. This thread may also have open requests
 * on a communicator that another thread holds. So if another thread holds a communicator, the search is repeated until
 * that thread has left it. */
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
