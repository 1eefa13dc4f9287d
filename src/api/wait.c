/* wait.c: the one place where anybody waits. Polls what is open on the communicator, and on others that no thread moves; when
 * nothing moves: spin; then, if there are more ranks than cores, yield, for it may be a rank that needs this one (another program
 * would keep it for a time slice); then sleep on the bell, at most 100 ms at a time. Other threads are let in after each vain
 * look, and while it sleeps: what they start rings the bell. A rank that stalls looks round (diagnosis.c). */
#include <sched.h>

#include "api/comm.h"

#define POLLS_AT_ONCE 6u /* of a call that goes straight */
#define VAIN_TESTS 16u   /* a program that tests in vain gives back all credits so often */

bool tu_wait_straight(struct tutti_comm *comm, struct tu_execution *e) {
  uint32_t looks = tu_patience_polls(comm);
  struct tu_stall s = {.polls = looks};
  if (tu_execution_poll_straight(e, looks)) return true;
  while (!atomic_load_explicit(&comm->wanted, memory_order_relaxed) && !tu_patience_ends(comm, &s))
    if (tu_execution_poll_straight(e, POLLS_AT_ONCE)) return true;
  return false;
}

static bool poll_all(struct tutti_comm *comm) {
  bool moved = tu_queue_poll(comm);
  return tu_queue_poll_others(comm) || moved;
}

static uint32_t finished(void) { return atomic_load(&tu_queue_finished); }

/* Sleeps on the bell for as long as left_ms says, which looks once more; 0: there is no reason to. */
static void sleep_for(struct tu_transport *t, int (*left_ms)(void *context), void *context) {
  uint32_t token = tu_bell_arm(t);
  int ms = left_ms(context);
  if (ms > 0) tu_patience_sleep(t, token, ms);
  tu_bell_disarm(t);
}

/* ---- one who holds the communicator ---- */

struct holder {
  struct tutti_comm *comm;
  const struct tu_stall *stall;
  uint32_t finished;
  bool released;
};

/* A thread within on_ready is in the midst of moving what is open. */
static int look_and_release(void *context) {
  struct holder *h = context;
  if ((!tu_thread.telling && poll_all(h->comm)) || finished() != h->finished) return 0;
  int ms = tu_look_round(h->comm, tu_clock_ns(), h->stall->sleep_ms > 0 ? h->stall->sleep_ms : TU_SLEEP_MS);
  h->released = ms > 0 && !tu_thread.telling;
  if (h->released) tu_leave_idle(h->comm);
  return ms;
}

bool tu_stall(struct tutti_comm *comm, struct tu_stall *s) {
  struct holder holder = {.comm = comm, .stall = s, .finished = s->finished ? s->finished : finished()};
  if (!tu_thread.telling) tu_let_in(comm);
  if (!tu_patience_ends(comm, s)) return false;
  /* No bell rings when it arrives. */
  if (comm->pace && tu_pace_look(comm->pace)) {
    if (++s->polls % 256 == 0) (void)tu_look_round(comm, tu_clock_ns(), TU_SLEEP_MS);
    sched_yield();
    return true;
  }
  tu_mover_flush(comm->mover);
  sleep_for(comm->transport, look_and_release, &holder);
  if (holder.released) tu_regain(comm);
  return true;
}

/* ---- waits for something else than requests ---- */

static enum tu_due find_due(struct tu_wait *w, uint64_t now) {
  if (w->since == 0) w->since = w->looked_at = now;
  if (w->timeout_ms > 0 && now - w->since >= (uint64_t)w->timeout_ms * TU_NS_PER_MS) return TU_TOO_LATE;
  if (now - w->looked_at < TU_LOOK_NS) return TU_GO_ON;
  w->looked_at = now;
  return TU_LOOK_ROUND;
}

enum tu_due tu_wait_inside(struct tutti_comm *comm, struct tu_wait *w) {
  return tu_stall(comm, &w->stall) ? find_due(w, tu_clock_ns()) : TU_GO_ON;
}

struct outsider {
  const struct tu_wait *wait;
  uint64_t now;
  bool (*there)(void *context);
  void *context;
};

static int look_outside(void *context) {
  const struct outsider *o = context;
  const struct tu_wait *w = o->wait;
  if (o->there(o->context)) return 0;
  size_t ms = w->stall.sleep_ms > 0 ? (size_t)w->stall.sleep_ms : TU_SLEEP_MS;
  return (int)(w->timeout_ms > 0 ? tu_min(ms, (size_t)w->timeout_ms - (o->now - w->since) / TU_NS_PER_MS) : ms);
}

enum tu_due tu_wait_outside(const struct tutti_comm *comm, struct tu_wait *w, bool (*there)(void *context),
                            void *context) {
  if (!tu_patience_ends(comm, &w->stall)) return TU_GO_ON;
  const uint64_t now = tu_clock_ns();
  const enum tu_due due = find_due(w, now);
  struct outsider outsider = {.wait = w, .now = now, .there = there, .context = context};
  if (due == TU_GO_ON) sleep_for(comm->transport, look_outside, &outsider);
  return due;
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
  tu_chain_go_on(r->comm->transport); /* another thread may have moved it to its end */
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
 * a communicator go first: so theirs is missed as well. Where another thread has started a call, that one may fill it in. */
static tutti_err refuse_to_hang(const struct tutti_request *r) {
  struct tu_error error;
  const struct tutti_request *last = r->child_count > 0 ? r->comm->last : r;
  if (!last || (last == r && !r->previous && !r->execution.parts)) return TUTTI_OK; /* the most usual one */
  if (is_done(r) || tu_comm_failed(r->comm) || !tu_input_is_missing(r->comm, last, &error)) return TUTTI_OK;
  return tu_thread_error(&error);
}

static bool never_started(const struct tutti_request *r) { return r->child_count == 0 && !r->open && !r->done; }

/* Why it cannot be waited for now; NULL if it can. */
static const char *misuse(const struct tutti_request *r) {
  if (never_started(r)) return "this persistent request has not been started; tutti_restart comes first";
  return tu_thread.telling ? within_on_ready : NULL;
}

static tutti_err test(tutti_request **request, bool *done) {
  struct tutti_request *r = *request;
  const char *why = misuse(r);
  if (why) return refuse(why);
  bool moved = !is_done(r) && poll_all(r->comm);
  if (!is_done(r) && tu_comm_failed(r->comm)) tu_queue_poll(r->comm);
  if (!is_done(r) && !moved && r->tests.polls % VAIN_TESTS == 1) tu_mover_flush(r->comm->mover);
  if (!is_done(r) && tu_patience_test(r->comm, &r->tests, moved)) {
    (void)tu_look_round(r->comm, tu_clock_ns(), TU_SLEEP_MS);
    tu_queue_poll(r->comm);
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
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_test");
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
  struct tutti_comm *comm = (*request)->comm;
  while (!is_done(*request)) {
    if (poll_all(comm)) tu_stall_moved(&stall);
    else tu_stall(comm, &stall);
  }
  return conclude(request);
}

tutti_err tutti_wait(tutti_request **request) {
  struct tu_visit visit;
  if (!request) return refuse("tutti_wait needs a request");
  if (!*request) return TUTTI_OK;
  struct tutti_comm *comm = (*request)->comm;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_wait");
  tutti_err err = wait_for(request);
  tu_leave(&visit);
  return err;
}

/* A list may have persistent requests that are not started, which are passed over. */
static bool is_passed_over(const struct tutti_request *r) {
  struct tu_visit visit;
  if (!r || !tu_hold(r->comm, &visit)) return !r;
  bool never = never_started(r);
  tu_leave(&visit);
  return never;
}

/* Of one request of a list: complete, or *hangs says whether it can be waited for. In any case *err is how that went. */
static bool look_at_one(tutti_request **request, tutti_err *err) {
  struct tu_visit visit;
  struct tutti_comm *comm = (*request)->comm;
  if (!tu_hold(comm, &visit)) {
    *err = tu_refuse_visit("tutti_wait_any");
    return false;
  }
  bool done = is_done(*request);
  *err = done ? conclude(request) : refuse_to_hang(*request);
  tu_leave(&visit);
  return done;
}

/* One more look at what is open. */
static tutti_err poll_and_stall(struct tutti_comm *comm, struct tu_stall *stall, const char *call) {
  struct tu_visit visit;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit(call);
  if (poll_all(comm)) tu_stall_moved(stall);
  else tu_stall(comm, stall);
  tu_leave(&visit);
  return TUTTI_OK;
}

tutti_err tutti_wait_any(tutti_request **requests, size_t count, size_t *index) {
  if ((!requests && count > 0) || !index) return refuse("tutti_wait_any needs a list and a place for the index");
  if (tu_thread.telling) return refuse(within_on_ready);
  struct tu_stall stall = {0};
  for (;;) {
    stall.finished = finished();
    struct tutti_request *open = NULL;
    tutti_err err = TUTTI_OK; /* why none of those that are open can be waited for */
    for (size_t i = 0; i < count; i++) {
      tutti_err of_one;
      if (is_passed_over(requests[i])) continue;
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

/* What this thread has started there is waited for in its order; others of the communicator may be complete sooner, or later. */
static tutti_err wait_for_own(struct tutti_comm *comm) {
  struct tu_stall stall = {0};
  for (const struct tutti_request *r = comm->first; r;) {
    stall.finished = finished();
    if (r->starter != &tu_thread) {
      r = r->next;
      continue;
    }
    tutti_err err = refuse_to_hang(r);
    if (err != TUTTI_OK) return err;
    if (poll_all(comm)) tu_stall_moved(&stall);
    else tu_stall(comm, &stall);
    r = comm->first;
  }
  return TUTTI_OK;
}

static tutti_err wait_for_everything(void) {
  if (tu_thread.telling) return refuse(within_on_ready);
  if (tu_queue_is_foreign()) return tu_refuse_visit("tutti_wait_all");
  struct tu_visit visit;
  struct tu_error error = {0};
  for (struct tutti_comm *comm; (comm = tu_queue_find_own(&visit, &error)) != NULL;) {
    tutti_err err = wait_for_own(comm);
    if (err == TUTTI_OK && comm->failed && error.code == TUTTI_OK) error = comm->error;
    tu_leave(&visit);
    if (err != TUTTI_OK) return err;
  }
  return error.code == TUTTI_OK ? TUTTI_OK : tu_thread_error(&error);
}

tutti_err tutti_wait_all(tutti_request **requests, size_t count) {
  if (!requests) return wait_for_everything();
  tutti_err first = TUTTI_OK;
  for (size_t i = 0; i < count; i++) {
    if (is_passed_over(requests[i])) continue;
    tutti_err err = tutti_wait(&requests[i]);
    if (first == TUTTI_OK) first = err;
  }
  return first;
}

tutti_err tutti_progress(tutti_comm *comm, int timeout_ms) {
  struct tu_visit visit;
  if (!comm) return refuse("tutti_progress: the communicator is NULL");
  if (tu_thread.telling) return refuse(within_on_ready);
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_progress");
  struct tu_stall stall = {0};
  uint64_t now = tu_clock_ns(), end = timeout_ms > 0 ? now + (uint64_t)timeout_ms * TU_NS_PER_MS : UINT64_MAX;
  for (; !tu_comm_failed(comm) && !poll_all(comm) && timeout_ms != 0 && now < end; now = tu_clock_ns()) {
    stall.sleep_ms = (int)tu_min((end - now) / TU_NS_PER_MS + 1, TU_SLEEP_MS);
    tu_stall(comm, &stall);
  }
  if (timeout_ms == 0) tu_mover_flush(comm->mover);
  tutti_err err = comm->failed ? tu_thread_error(&comm->error) : TUTTI_OK;
  tu_leave(&visit);
  return err;
}
