/* wait.c: the one place where anybody waits. Polls what the thread has open; when nothing moves: spin; then, if there are more
 * ranks than cores, yield, for it may be a rank that needs this one (another program would keep it for a time slice); then
 * sleep on the bell, at most 100 ms at a time. A rank that stalls looks round (diagnosis.c). */
#include <sched.h>

#include "api/comm.h"

#define POLLS_AT_ONCE 6u /* of a call that goes straight */
#define SLEEP_MS 100
#define NS_PER_MS 1000000u

_Thread_local struct tu_queue tu_queue;

/* Somebody waits for everything: the first error is kept for it. */
static _Thread_local bool collects;
static _Thread_local struct tu_error collected;

void tu_queue_add(struct tutti_request *r) {
  r->queue = &tu_queue;
  r->previous = tu_queue.last;
  r->next = NULL;
  if (tu_queue.last) tu_queue.last->next = r;
  else tu_queue.first = r;
  tu_queue.last = r;
}

static void complete(struct tutti_request *r, const struct tu_error *error) {
  if (r->previous) r->previous->next = r->next;
  else tu_queue.first = r->next;
  if (r->next) r->next->previous = r->previous;
  else tu_queue.last = r->previous;
  if (r->stalled_since) tu_chain_go_on(r->comm->transport);
  r->open = false;
  r->done = true;
  if (--r->comm->open_requests == 0) atomic_store_explicit(&r->comm->opener, NULL, memory_order_relaxed);
  r->error.code = TUTTI_OK;
  if (error) r->error = *error;
  if (error && (r->detached || collects) && collected.code == TUTTI_OK) collected = *error;
  if (r->detached) tu_request_release(r);
}

/* ---- moving and stalling ---- */

/* Until the next deadline, or long enough. */
static int sleep_ms(uint64_t now) {
  int ms = SLEEP_MS;
  for (const struct tutti_request *r = tu_queue.first; r; r = r->next) {
    if (r->comm->failed) return 0;
    if (r->timeout_ms <= 0 || r->stalled_since == 0) continue;
    int64_t left = r->timeout_ms - (int64_t)((now - r->stalled_since) / NS_PER_MS);
    if (left < ms) ms = left > 0 ? (int)left : 1;
  }
  return ms;
}

static bool poll_one(struct tutti_request *r) {
  if (r->comm->failed) {
    complete(r, &r->comm->error);
    return true;
  }
  if (r->comm->wire) tu_wire_look(r->comm->wire);
  bool moved = tu_execution_poll(&r->execution);
  if (r->execution.parts) tu_request_tell(r);
  if (r->execution.unfinished > 0 && !r->execution.mismatch) return moved;
  if (r->execution.mismatch) tu_fail_mismatch(r);
  complete(r, r->execution.mismatch ? &r->comm->error : NULL);
  return true; /* also if nothing was left to do: the queue is another one now */
}

bool tu_queue_poll(void) {
  bool moved = false;
  for (struct tutti_request *r = tu_queue.first, *next; r; r = next) {
    struct tu_visit visit;
    next = r->next;
    if (!tu_hold(r->comm, &visit)) continue;
    moved |= poll_one(r);
    tu_leave(&visit);
  }
  return moved;
}

bool tu_wait_straight(struct tutti_comm *comm, struct tu_execution *e) {
  uint32_t looks = tu_patience_polls(comm);
  struct tu_stall s = {.polls = looks};
  if (tu_execution_poll_straight(e, looks)) return true;
  while (!tu_patience_ends(comm, &s))
    if (tu_execution_poll_straight(e, POLLS_AT_ONCE)) return true;
  return false;
}

bool tu_stall(struct tutti_comm *comm, struct tu_stall *s) {
  if (!tu_patience_ends(comm, s)) return false;
  /* No bell rings when it arrives. */
  if (comm->wire && tu_wire_look(comm->wire)) {
    if (++s->polls % 256 == 0) tu_look_round(tu_clock_ns());
    sched_yield();
    return true;
  }
  uint32_t token = tu_bell_arm(comm->transport);
  if (tu_queue.telling || !tu_queue_poll()) {
    uint64_t now = tu_clock_ns();
    tu_look_round(now);
    int ms = sleep_ms(now);
    if (s->sleep_ms > 0 && ms > s->sleep_ms) ms = s->sleep_ms;
    if (ms > 0) tu_patience_sleep(comm->transport, token, ms);
  }
  tu_bell_disarm(comm->transport);
  return true;
}

/* ---- requests ---- */

static bool is_done(const struct tutti_request *r) {
  for (size_t i = 0; i < r->child_count; i++)
    if (!r->children[i]->done) return false;
  return r->child_count > 0 || r->done;
}

/* A complete request's outcome; ordinary ones go, persistent ones stay. */
static tutti_err conclude(struct tutti_request **request) {
  struct tutti_request *r = *request;
  tutti_err err = r->error.code;
  const struct tu_error *error = &r->error;
  for (size_t i = 0; i < r->child_count && err == TUTTI_OK; i++) {
    err = r->children[i]->error.code;
    error = &r->children[i]->error;
  }
  if (err != TUTTI_OK) {
    r->comm->error = *error;
    (void)tu_thread_error(error);
  }
  if (r->persistent) return err;
  *request = NULL;
  tu_request_release(r);
  return err;
}

static tutti_err refuse(const char *sentence) {
  struct tu_error error;
  tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s", sentence);
  return tu_thread_error(&error);
}

static const char within_on_ready[] =
    "tutti_test and tutti_wait were called within on_ready, where only tutti_request_fill is possible";

/* Who would wait for ever, as only this thread could fill in what is missing, is told so at once. Messages of earlier requests of
 * a communicator go first: so theirs is missed as well. */
static tutti_err refuse_to_hang(const struct tutti_request *r) {
  struct tu_error error;
  const struct tutti_request *last = r->child_count > 0 ? tu_queue.last : r;
  if (!last || (last == r && !r->previous && !r->execution.parts)) return TUTTI_OK; /* the most usual one */
  if (is_done(r) || tu_comm_failed(r->comm) || !tu_input_is_missing(r->comm, last, &error)) return TUTTI_OK;
  return tu_thread_error(&error);
}

static bool never_started(const struct tutti_request *r) { return r->child_count == 0 && !r->open && !r->done; }

/* Why this thread cannot wait for the request; NULL if it can. */
static const char *misuse(const struct tutti_request *r) {
  if (never_started(r)) return "this persistent request has not been started; tutti_restart comes first";
  if (tu_queue.telling) return within_on_ready;
  const struct tutti_request *one = r->child_count > 0 ? r->children[0] : r;
  if (one->queue != &tu_queue)
    return "this request is another thread's: only the thread that started it may test and wait";
  return NULL;
}

static tutti_err test(tutti_request **request, bool *done) {
  struct tutti_request *r = *request;
  const char *why = misuse(r);
  if (why) return refuse(why);
  bool moved = !is_done(r) && tu_queue_poll();
  if (!is_done(r) && tu_comm_failed(r->comm)) tu_queue_poll();
  if (!is_done(r) && tu_patience_test(r->comm, &r->tests, moved)) {
    tu_look_round(tu_clock_ns());
    tu_queue_poll();
  }
  *done = is_done(r);
  return *done ? conclude(request) : TUTTI_OK;
}

tutti_err tutti_test(tutti_request **request, bool *done) {
  if (!request || !done) return refuse("tutti_test needs a request and a place for its answer");
  *done = true;
  if (!*request) return TUTTI_OK;
  struct tu_visit visit;
  struct tutti_comm *comm = (*request)->comm;
  *done = false;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit(comm, &visit, "tutti_test");
  tutti_err err = test(request, done);
  tu_leave(&visit);
  return err;
}

static tutti_err wait_for(tutti_request **request) {
  const char *why = misuse(*request);
  if (why) return refuse(why);
  tutti_err err = refuse_to_hang(*request);
  if (err != TUTTI_OK) return err;
  struct tu_stall stall = {0};
  while (!is_done(*request)) {
    if (tu_queue_poll()) tu_stall_moved(&stall);
    else tu_stall((*request)->comm, &stall);
  }
  return conclude(request);
}

tutti_err tutti_wait(tutti_request **request) {
  struct tu_visit visit;
  if (!request) return refuse("tutti_wait needs a request");
  if (!*request) return TUTTI_OK;
  struct tutti_comm *comm = (*request)->comm;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit(comm, &visit, "tutti_wait");
  tutti_err err = wait_for(request);
  tu_leave(&visit);
  return err;
}

/* Of one request of a list: complete, or *hangs says whether it can be waited for. In any case *err is how that went. */
static bool look_at_one(tutti_request **request, tutti_err *err) {
  struct tu_visit visit;
  struct tutti_comm *comm = (*request)->comm;
  if (!tu_hold(comm, &visit)) {
    *err = tu_refuse_visit(comm, &visit, "tutti_wait_any");
    return false;
  }
  bool done = is_done(*request);
  *err = done ? conclude(request) : refuse_to_hang(*request);
  tu_leave(&visit);
  return done;
}

/* One more look at what this thread has open. */
static tutti_err poll_and_stall(struct tutti_comm *comm, struct tu_stall *stall, const char *call) {
  struct tu_visit visit;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit(comm, &visit, call);
  if (tu_queue_poll()) tu_stall_moved(stall);
  else tu_stall(comm, stall);
  tu_leave(&visit);
  return TUTTI_OK;
}

tutti_err tutti_wait_any(tutti_request **requests, size_t count, size_t *index) {
  if ((!requests && count > 0) || !index) return refuse("tutti_wait_any needs a list and a place for the index");
  if (tu_queue.telling) return refuse(within_on_ready);
  struct tu_stall stall = {0};
  for (;;) {
    struct tutti_request *open = NULL;
    tutti_err err = TUTTI_OK; /* why none of those that are open can be waited for */
    for (size_t i = 0; i < count; i++) {
      tutti_err of_one;
      if (!requests[i] || never_started(requests[i])) continue;
      *index = i;
      if (look_at_one(&requests[i], &of_one)) return of_one;
      if (!open || of_one == TUTTI_OK) err = of_one;
      if (!open || of_one == TUTTI_OK) open = requests[i];
    }
    *index = count;
    if (open && err == TUTTI_OK) err = poll_and_stall(open->comm, &stall, "tutti_wait_any");
    if (!open || err != TUTTI_OK) return err;
  }
}

static tutti_err wait_for_everything(void) {
  struct tu_stall stall = {0};
  if (tu_queue.telling) return refuse(within_on_ready);
  tutti_err err = TUTTI_OK;
  for (const struct tutti_request *r = tu_queue.first; r && err == TUTTI_OK; r = r->next) {
    struct tu_visit visit;
    if (!tu_hold(r->comm, &visit)) return tu_refuse_visit(r->comm, &visit, "tutti_wait_all");
    err = refuse_to_hang(r);
    tu_leave(&visit);
  }
  if (err != TUTTI_OK) return err;
  collects = true;
  while (tu_queue.first && err == TUTTI_OK) err = poll_and_stall(tu_queue.first->comm, &stall, "tutti_wait_all");
  collects = false;
  if (err != TUTTI_OK) return err;
  err = collected.code;
  if (err != TUTTI_OK) (void)tu_thread_error(&collected);
  collected.code = TUTTI_OK;
  return err;
}

tutti_err tutti_wait_all(tutti_request **requests, size_t count) {
  if (!requests) return wait_for_everything();
  tutti_err first = TUTTI_OK;
  for (size_t i = 0; i < count; i++) {
    if (!requests[i] || never_started(requests[i])) continue;
    tutti_err err = tutti_wait(&requests[i]);
    if (first == TUTTI_OK) first = err;
  }
  return first;
}
