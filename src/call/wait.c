/* wait.c: tutti_wait, tutti_test and related functions. A wait advances all open requests of the communicator, and of
 * other communicators that no other thread holds (stall.c). */
#include <sched.h>

#include "call/again.h"
#include "call/look.h"
#include "call/partition.h"
#include "call/progress.h"
#include "call/queue.h"
#include "call/request.h"
#include "call/stall.h"
#include "comm/chain.h"
#include "comm/comm.h"
#include "comm/enter.h"
#include "comm/failure.h"
#include "comm/patience.h"

/* This rank may hold back credits (free slots) that it owes to ranks of other hosts. It returns them once in VAIN_TESTS
 * unsuccessful calls of tutti_test on a request. */
#define VAIN_TESTS 16u

static bool is_done(const struct tutti_request *r) {
  for (size_t i = 0; i < r->child_count; i++)
    if (tu_request_state(r->children[i]) != TU_REQUEST_COMPLETE) return false;
  return r->child_count > 0 || tu_request_state(r) == TU_REQUEST_COMPLETE;
}

/* Returns the outcome of a complete request. Releases an ordinary request, but keeps a persistent one. */
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
  /* end this thread's published wait; if another thread has completed the request, the wait is still published */
  tu_chain_go_on(r->comm->transport);
  if (r->persistent) {
    if (r->place && !r->ready) (void)tu_again_prepare(r);
    return err;
  }
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
    "tests and waits are not allowed within the callback on_ready, which may only call tutti_request_fill";

/* Returns an error if a wait could never end, because input is missing that only this thread could fill in. Missing
 * input of earlier requests of the communicator counts, too, because their messages go first. Calls that other threads
 * have started do not count, because those threads may fill in the input. */
static tutti_err refuse_to_hang(const struct tutti_request *r) {
  struct tu_error error;
  const struct tutti_request *last = r->child_count > 0 ? r->comm->last : r;
  /* The usual case: no request is open, or `r` is the oldest open request and is not partitioned, so no input is
   * missing. */
  if (!last || (last == r && !r->previous && !r->execution.partition)) return TUTTI_OK;
  if (is_done(r) || tu_comm_failed(r->comm) || !tu_input_is_missing(r->comm, last, &error)) return TUTTI_OK;
  return tu_thread_error(&error);
}

static bool never_started(const struct tutti_request *r) {
  return r->child_count == 0 && tu_request_state(r) == TU_REQUEST_UNSTARTED;
}

bool tutti_request_done(const tutti_request *r) {
  /* A child of fork() maps no shared memory, and a wait for the request of its parent returns an error at once. */
  if (!r || !tu_process_is(r->comm->process)) return true;
  return is_done(r) || never_started(r) || tu_control_failed(&r->comm->mover->control);
}

/* Returns the reason why the request cannot be waited for now; NULL: the request can be waited for. */
static const char *misuse(const struct tutti_request *r) {
  if (never_started(r)) return "this persistent request has not been started; call tutti_restart first";
  return tu_thread.telling ? within_on_ready : NULL;
}

/* ---- one pass of progress, for a thread that tests and does not wait ---- */

/* Polls all open requests once. Returns true if there was any progress. */
static bool poll_once(struct tutti_comm *comm) {
  const bool moved = tu_poll_all(comm);
  if (tu_comm_failed(comm)) tu_queue_poll(comm);
  return moved;
}

/* Does the rest of a pass: yields, returns credits, and checks peers and time limits, if it is time for that. tests: state
 * of the wait that repeated tests form. moved: the result of poll_once. */
static void look_once(struct tutti_comm *comm, struct tu_stall *tests, bool moved) {
  if (!moved && tests->polls % VAIN_TESTS == 1) tu_mover_flush(comm->mover);
  if (!tu_patience_test(comm, tests, moved)) return;
  (void)tu_look_round(comm, tu_clock_ns(), TU_SLEEP_MS);
  tu_queue_poll(comm);
}

/* ---- tests ---- */

static tutti_err test(tutti_request **request, bool *done) {
  struct tutti_request *r = *request;
  const char *why = misuse(r);
  if (why) return refuse(why);
  const bool moved = !is_done(r) && poll_once(r->comm);
  if (!is_done(r)) look_once(r->comm, &r->tests, moved);
  *done = is_done(r);
  if (*done) tu_progress_note(r->comm);
  return *done ? conclude(request) : TUTTI_OK;
}

tutti_err tutti_test(tutti_request **request, bool *done) {
  if (!request || !done) return tu_refuse_null("tutti_test", request ? "done" : "request");
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

/* Returns true if an entry of a list of requests is skipped: NULL, or a persistent request that has not been
 * started. */
static bool is_passed_over(const struct tutti_request *r) {
  return !r || (tu_process_is(r->comm->process) && never_started(r));
}

/* Advances all open requests once, on behalf of the first request of a list that is open. */
static tutti_err advance_list(tutti_request **requests, size_t count) {
  struct tu_visit visit;
  size_t i = 0;
  while (i < count && (is_passed_over(requests[i]) || is_done(requests[i]))) i++;
  if (i == count) return TUTTI_OK;
  struct tutti_comm *comm = requests[i]->comm;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_test_some");
  look_once(comm, &comm->tests, poll_once(comm));
  tu_leave(&visit);
  return TUTTI_OK;
}

tutti_err tutti_test_some(tutti_request **requests, size_t count, size_t *indices, size_t *done) {
  struct tu_visit visit;
  if (!done) return tu_refuse_null("tutti_test_some", "done");
  *done = 0;
  if (count > 0 && (!requests || !indices)) return tu_refuse_null("tutti_test_some", requests ? "indices" : "requests");
  if (tu_thread.telling) return refuse(within_on_ready);
  tutti_err err = advance_list(requests, count);
  for (size_t i = 0; i < count && err == TUTTI_OK; i++) {
    if (is_passed_over(requests[i]) || !is_done(requests[i])) continue;
    if (!tu_hold(requests[i]->comm, &visit)) return tu_refuse_visit("tutti_test_some");
    tu_progress_note(requests[i]->comm);
    err = conclude(&requests[i]);
    tu_leave(&visit);
    indices[(*done)++] = i;
  }
  return err;
}

/* ---- waits ---- */

static uint64_t end_of(int timeout_ms) {
  return timeout_ms < 0 ? UINT64_MAX : tu_clock_ns() + (uint64_t)timeout_ms * TU_NS_PER_MS;
}

/* Returns true if the time `end` has come; UINT64_MAX: it never comes. Otherwise limits the next sleep to the time that
 * is left. */
static bool is_over(uint64_t end, struct tu_stall *stall) {
  const uint64_t now = end < UINT64_MAX ? tu_clock_ns() : 0;
  if (now >= end) return true;
  if (now > 0) stall->sleep_ms = (int)tu_min((end - now) / TU_NS_PER_MS + 1, TU_SLEEP_MS);
  return false;
}

/* Waits until the request is complete, or the time `end` has come. */
static void wait_until(struct tutti_request *r, uint64_t end) {
  struct tu_stall stall = {0};
  struct tutti_comm *comm = r->comm;
  tu_progress_pause(comm);
  if (r->straight && end == UINT64_MAX && !tu_queue_find_others(comm) && tu_wait_straight(comm, &r->execution)) {
    r->ready = true;
    tu_queue_end(r);
  }
  while (!is_done(r) && !is_over(end, &stall)) {
    if (tu_poll_all(comm)) tu_stall_goes_on(comm, &stall);
    else tu_stall(comm, &stall);
  }
  tu_progress_resume(comm);
}

/* Waits until the request is complete, or the time limit of this wait has passed. */
static tutti_err wait_for(tutti_request **request, int timeout_ms, bool *done) {
  struct tu_transport *t = (*request)->comm->transport;
  const char *why = misuse(*request);
  if (why) return refuse(why);
  tutti_err err = timeout_ms < 0 ? refuse_to_hang(*request) : TUTTI_OK;
  if (err != TUTTI_OK) return err;
  wait_until(*request, end_of(timeout_ms));
  *done = is_done(*request);
  if (*done) return conclude(request);
  /* A rank looks for dead peers and time limits of calls before it sleeps. Short waits may end before they sleep. So the
   * last pass of a wait that is given up is one of tutti_test, which looks often enough. */
  err = test(request, done);
  /* end this thread's published wait */
  if (!*done) tu_chain_go_on(t);
  return err;
}

tutti_err tutti_wait_for(tutti_request **request, int timeout_ms, bool *done) {
  struct tu_visit visit;
  struct tu_error error;
  if (!request || !done) return tu_refuse_null("tutti_wait_for", request ? "done" : "request");
  *done = false;
  if (tu_check_timeout("tutti_wait_for", "timeout_ms", timeout_ms, &error) != TUTTI_OK) return tu_thread_error(&error);
  *done = !*request;
  if (*done) return TUTTI_OK;
  if (!tu_hold((*request)->comm, &visit)) return tu_refuse_visit("tutti_wait_for");
  tutti_err err = timeout_ms == 0 ? test(request, done) : wait_for(request, timeout_ms, done);
  tu_leave(&visit);
  return err;
}

tutti_err tutti_wait(tutti_request **request) {
  struct tu_visit visit;
  if (!request) return tu_refuse_null("tutti_wait", "request");
  if (!*request) return TUTTI_OK;
  struct tutti_comm *comm = (*request)->comm;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_wait");
  bool done;
  tutti_err err = wait_for(request, TUTTI_NO_TIMEOUT, &done);
  tu_leave(&visit);
  return err;
}

/* Checks one request of a list. Returns true if the request is complete; *err is then its outcome. Returns false if the
 * request is open; *err is then TUTTI_OK, or the reason why the request cannot be waited for. */
static bool look_at_one(tutti_request **request, tutti_err *err) {
  struct tu_visit visit;
  struct tutti_comm *comm = (*request)->comm;
  if (!tu_hold(comm, &visit)) {
    *err = tu_refuse_visit("tutti_wait_any");
    return false;
  }
  bool done = is_done(*request);
  if (done) tu_progress_note(comm);
  *err = done ? conclude(request) : refuse_to_hang(*request);
  tu_leave(&visit);
  return done;
}

/* Polls all open requests once. If there is no progress, waits a moment. */
static tutti_err poll_and_stall(struct tutti_comm *comm, struct tu_stall *stall, const char *call) {
  struct tu_visit visit;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit(call);
  if (tu_poll_all(comm)) tu_stall_goes_on(comm, stall);
  else tu_stall(comm, stall);
  tu_leave(&visit);
  return TUTTI_OK;
}

tutti_err tutti_wait_any(tutti_request **requests, size_t count, size_t *index) {
  if ((!requests && count > 0) || !index) return tu_refuse_null("tutti_wait_any", index ? "requests" : "index");
  if (tu_thread.telling) return refuse(within_on_ready);
  struct tu_stall stall = {0};
  for (;;) {
    stall.finished = tu_queue_finished_now();
    struct tutti_request *open = NULL;
    tutti_err err = TUTTI_OK; /* TUTTI_OK: an open request can be waited for; otherwise the reason why none can */
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

/* Waits for this thread's requests on the communicator, in the order in which they were started. Requests of other
 * threads need not be complete afterwards. */
static tutti_err wait_for_own(struct tutti_comm *comm) {
  struct tu_stall stall = {0};
  for (const struct tutti_request *r = comm->first; r;) {
    stall.finished = tu_queue_finished_now();
    if (r->starter != &tu_thread) {
      r = r->next;
      continue;
    }
    tutti_err err = refuse_to_hang(r);
    if (err != TUTTI_OK) return err;
    if (tu_poll_all(comm)) tu_stall_goes_on(comm, &stall);
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
    tu_progress_pause(comm);
    tutti_err err = wait_for_own(comm);
    tu_progress_resume(comm);
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
  if (!comm) return tu_refuse_null("tutti_progress", "comm");
  if (tu_thread.telling) return refuse(within_on_ready);
  struct tu_error error;
  if (tu_check_timeout("tutti_progress", "timeout_ms", timeout_ms, &error) != TUTTI_OK) return tu_thread_error(&error);
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_progress");
  struct tu_stall stall = {0};
  const uint64_t end = end_of(timeout_ms);
  tu_progress_pause(comm);
  while (!tu_comm_failed(comm) && !tu_poll_all(comm) && !is_over(end, &stall) && !stall.foreign_moved)
    tu_stall(comm, &stall);
  if (timeout_ms == 0) tu_mover_flush(comm->mover);
  tu_progress_resume(comm);
  tutti_err err = comm->failed ? tu_thread_error(&comm->error) : TUTTI_OK;
  tu_leave(&visit);
  return err;
}
