/* wait.c: the one place where anybody waits. Polls what the thread has open; when nothing moves: spin; then, if there are more
 * ranks than cores, yield, for it may be a rank that needs this one (another program would keep it for a time slice); then
 * sleep on the bell, at most 100 ms at a time. Who stalls looks round: is there a verdict, does somebody do another call
 * under the same number, has somebody died, is the time over? */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "api/comm.h"

#define YIELDS 100u
/* So many waits without a yield after one that has cost a time slice: twice as many each time that the next one does, too. */
#define FOREIGN_WAITS_MIN 16u
#define FOREIGN_WAITS_MAX 1024u
#define FOREIGN_NS 500000u /* who gets its core back later than this yields to other programs: it had better sleep */
#define SLEEP_MS 100
#define LOOK_NS 40000000u /* between two looks whether the peers live: a system call for each */
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
  r->open = false;
  r->done = true;
  if (--r->comm->open_requests == 0) atomic_store_explicit(&r->comm->opener, NULL, memory_order_relaxed);
  r->error.code = TUTTI_OK;
  if (error) r->error = *error;
  if (error && (r->detached || collects) && collected.code == TUTTI_OK) collected = *error;
  if (r->detached) tu_request_release(r);
}

/* ---- sentences ---- */

static void print_call(const struct tutti_request *r, char *text, size_t bytes) {
  char call[200];
  tu_facts_print(&r->facts, call, sizeof call);
  if (r->number) snprintf(text, bytes, "collective %llu, %s", (unsigned long long)r->number, call);
  else snprintf(text, bytes, "%s, peer %u, tag %u", call, r->signature.root, r->tag);
}

/* What a peer's board says that it is in. */
static void print_state(const struct tutti_comm *comm, uint32_t peer, char *text, size_t bytes) {
  struct tu_board *board = &comm->mover->boards[peer];
  uint64_t latest = atomic_load(&board->latest), words[TU_BOARD_WORDS];
  struct tu_call_facts facts;
  char call[200];
  if (atomic_load(&board->departed)) {
    snprintf(text, bytes, "rank %u (has freed the communicator)", peer);
  } else if (latest == 0) {
    snprintf(text, bytes, "rank %u (has started no collective yet)", peer);
  } else if (tu_board_read(board, latest, words)) {
    memcpy(&facts, words, sizeof facts);
    tu_facts_print(&facts, call, sizeof call);
    snprintf(text, bytes, "rank %u (its last is collective %llu, %s)", peer, (unsigned long long)latest, call);
  } else {
    snprintf(text, bytes, "rank %u (on its way past collective %llu)", peer, (unsigned long long)latest);
  }
}

/* One more rank to a list. */
static size_t print_one_more(const struct tutti_comm *comm, uint32_t peer, const char *before, char *text, size_t at,
                             size_t bytes) {
  char state[300];
  if (at >= bytes) return at;
  print_state(comm, peer, state, sizeof state);
  return at + (size_t)snprintf(text + at, bytes - at, "%s%s", before, state);
}

/* Who is missing: those that have not come to this collective come first, for whoever this rank waits for may wait for
 * them as well. */
static void print_waited_for(const struct tutti_request *r, char *text, size_t bytes) {
  struct tutti_comm *comm = r->comm;
  memset(comm->waits_for, 0, comm->ranks * sizeof *comm->waits_for);
  tu_execution_blockers(&r->execution, comm->waits_for);
  size_t at = 0;
  text[0] = '\0';
  for (uint32_t p = 0; p < comm->ranks; p++) {
    if (atomic_load(&comm->mover->boards[p].latest) >= r->number) continue;
    at = print_one_more(comm, p, at ? ", " : "ranks that have not come to it: ", text, at, bytes);
  }
  bool listed = at > 0;
  for (uint32_t p = 0; p < comm->ranks; p++) {
    if (!comm->waits_for[p] || atomic_load(&comm->mover->boards[p].latest) < r->number) continue;
    at = print_one_more(comm, p, listed ? "; itself for " : at ? ", " : "", text, at, bytes);
    listed = false;
  }
  size_t element;
  if (at < bytes && tu_request_lacks_input(r, &element))
    at += (size_t)snprintf(text + at, bytes - at, "%sits caller to fill in element %zu of the input", at ? "; " : "",
                           element);
  if (at == 0) snprintf(text, bytes, "its own earlier calls");
}

/* ---- looking round ---- */

static bool read_facts(const struct tutti_comm *comm, uint32_t rank, uint64_t number, struct tu_call_facts *facts) {
  uint64_t words[TU_BOARD_WORDS];
  if (!tu_board_read(&comm->mover->boards[rank], number, words)) return false;
  memcpy(facts, words, sizeof *facts);
  return true;
}

/* Do any two ranks mean different calls by this number, as far as their boards still, or already, show it? */
static bool disagree_about(struct tutti_comm *comm, uint64_t number) {
  struct tu_call_facts first, other;
  uint32_t a = 0;
  while (a < comm->ranks && !read_facts(comm, a, number, &first)) a++;
  for (uint32_t b = a + 1; b < comm->ranks; b++) {
    if (!read_facts(comm, b, number, &other) || other.hash == first.hash) continue;
    char first_call[200], other_call[200];
    struct tu_error error;
    tu_facts_print(&first, first_call, sizeof first_call);
    tu_facts_print(&other, other_call, sizeof other_call);
    tu_fail(
        &error, TUTTI_ERR_MISMATCH,
        "as collective %llu of the communicator rank %u called %s, but rank %u called %s; all ranks must make the same "
        "calls in the same order",
        (unsigned long long)number, a, first_call, b, other_call);
    tu_comm_fail(comm, &error);
    return true;
  }
  return false;
}

/* A message came that does not fit the request. */
static void fail_mismatch(struct tutti_request *r) {
  const struct tu_execution *e = &r->execution;
  uint64_t theirs = r->number ? e->mismatch_tag >> 32 : 0;
  if (r->number && (disagree_about(r->comm, r->number) || disagree_about(r->comm, theirs))) return;
  char call[280], state[300];
  struct tu_error error;
  print_call(r, call, sizeof call);
  print_state(r->comm, e->mismatch_peer, state, sizeof state);
  if (e->mismatch_tag == e->tag)
    tu_fail(&error, TUTTI_ERR_MISMATCH,
            "rank %u sends %llu bytes where rank %u expects %llu, in %s; the counts must match", e->mismatch_peer,
            (unsigned long long)e->mismatch_bytes, r->comm->rank, (unsigned long long)e->expected_bytes, call);
  else if (r->program->point_to_point)
    tu_fail(&error, TUTTI_ERR_MISMATCH,
            "rank %u sends over %u lanes where rank %u expects %u, in %s; both must state the same", e->mismatch_peer,
            tu_p2p_lanes(e->mismatch_tag), r->comm->rank, tu_p2p_lanes(e->tag), call);
  else
    tu_fail(
        &error, TUTTI_ERR_MISMATCH,
        "rank %u in %s got a message of another call (collective %llu) from %s; all ranks must make the same calls in "
        "the same order",
        r->comm->rank, call, (unsigned long long)theirs, state);
  tu_comm_fail(r->comm, &error);
}

void tu_note_departed(struct tutti_comm *comm) {
  for (uint32_t p = 0; p < comm->ranks; p++) comm->departed[p] = atomic_load(&comm->mover->boards[p].departed) != 0;
}

bool tu_peer_died(const struct tutti_comm *comm, uint32_t p, const char *doing, struct tu_error *error) {
  char state[300];
  if (tu_comm_missed(comm, p)) {
    tu_fail(error, TUTTI_ERR_PEER,
            "rank %u could not make its side of the communicator when it was split off, or duplicated; rank %u found "
            "that out while in %s",
            p, comm->rank, doing);
    return true;
  }
  if (tu_transport_alive(comm->transport, comm->mover->members[p])) return false;
  if (atomic_load(&comm->mover->boards[p].departed)) return false; /* it left in order just now */
  print_state(comm, p, state, sizeof state);
  tu_fail(error, TUTTI_ERR_PEER, "%s has died or exited; rank %u found it gone while in %s", state, comm->rank, doing);
  return true;
}

bool tu_peer_left(const struct tutti_comm *comm, uint32_t p, const char *doing, struct tu_error *error) {
  tu_fail(error, TUTTI_ERR_PEER, "rank %u has freed the communicator while rank %u still waits for it in %s", p,
          comm->rank, doing);
  return true;
}

bool tu_peer_lost(const struct tutti_comm *comm, const char *doing, struct tu_error *error) {
  for (uint32_t p = 0; p < comm->ranks; p++) {
    if (comm->departed[p] && comm->waits_for[p]) return tu_peer_left(comm, p, doing, error);
    if (!comm->departed[p] && tu_peer_died(comm, p, doing, error)) return true;
  }
  return false;
}

static bool peers_lost(struct tutti_request *r) {
  char call[280];
  struct tu_error error;
  struct tutti_comm *comm = r->comm;
  tu_note_departed(comm);
  tu_execution_poll(&r->execution);
  if (r->execution.unfinished == 0 || r->execution.mismatch) return false; /* the next poll of the queue ends it */
  memset(comm->waits_for, 0, comm->ranks * sizeof *comm->waits_for);
  tu_execution_blockers(&r->execution, comm->waits_for);
  print_call(r, call, sizeof call);
  if (!tu_peer_lost(comm, call, &error)) return false;
  tu_comm_fail(comm, &error);
  return true;
}

static bool too_late(struct tutti_request *r, uint64_t now) {
  if (r->timeout_ms <= 0 || now - r->stalled_since < (uint64_t)r->timeout_ms * NS_PER_MS) return false;
  if (peers_lost(r)) return true;
  char call[280], waited_for[600];
  struct tu_error error;
  print_call(r, call, sizeof call);
  print_waited_for(r, waited_for, sizeof waited_for);
  tu_fail(&error, TUTTI_ERR_TIMEOUT, "rank %u has waited %d ms in %s for %s", r->comm->rank, r->timeout_ms, call,
          waited_for);
  tu_comm_fail(r->comm, &error);
  return true;
}

static void look_round_for(struct tutti_request *r, uint64_t now) {
  if (r->comm->failed || tu_comm_failed(r->comm)) return;
  if ((r->number && disagree_about(r->comm, r->number)) || now == 0) return;
  if (r->stalled_since == 0) r->stalled_since = now;
  if (too_late(r, now) || now - r->looked_at < LOOK_NS) return;
  r->looked_at = now;
  (void)peers_lost(r);
}

/* now = 0: only what needs no system call. Communicators that fail here end their requests at the next poll. */
static void look_round(uint64_t now) {
  for (struct tutti_request *r = tu_queue.first; r; r = r->next) {
    struct tu_visit visit;
    if (!tu_hold(r->comm, &visit)) continue;
    look_round_for(r, now);
    tu_leave(&visit);
  }
}

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

/* ---- moving and stalling ---- */

static bool poll_one(struct tutti_request *r) {
  if (r->comm->failed) {
    complete(r, &r->comm->error);
    return true;
  }
  if (r->comm->wire) tu_wire_look(r->comm->wire);
  bool moved = tu_execution_poll(&r->execution);
  if (r->execution.parts) tu_request_tell(r);
  if (r->execution.unfinished > 0 && !r->execution.mismatch) return moved;
  if (r->execution.mismatch) fail_mismatch(r);
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

/* Is the core to be yielded, to another rank? Where other programs want it, a yield costs a time slice, and who sleeps is woken
 * at once. */
static inline bool may_yield(struct tutti_comm *comm) {
  if (comm->share == 1) return false;
  if (comm->foreign_waits == 0) return true;
  comm->foreign_waits--;
  return false;
}

/* Lets others have the core; false: they were not of this job, or had much to do. */
static bool yield_core(struct tutti_comm *comm) {
  uint64_t start = tu_clock_ns();
  sched_yield();
  bool ours = tu_clock_ns() - start < FOREIGN_NS;
  if (ours) comm->foreign_span = 0;
  else comm->foreign_span = (uint32_t)tu_min(tu_max(2 * comm->foreign_span, FOREIGN_WAITS_MIN), FOREIGN_WAITS_MAX);
  if (!ours) comm->foreign_waits = comm->foreign_span;
  return ours;
}

bool tu_wait_straight(struct tutti_comm *comm, struct tu_execution *e) {
  if (tu_execution_poll_straight(e, comm->spin)) return true;
  bool ours = may_yield(comm);
  for (uint32_t i = 0; ours && i < YIELDS; i++) {
    ours = yield_core(comm);
    if (tu_execution_poll_straight(e, comm->spin)) return true;
  }
  return false;
}

void tu_stall(struct tutti_comm *comm, struct tu_stall *s) {
  s->polls++;
  if (s->polls < comm->spin) {
    tu_pause();
    return;
  }
  if (s->polls == comm->spin && comm->share == 1) look_round(0);
  if (s->polls == comm->spin && !may_yield(comm)) s->polls = comm->spin + YIELDS;
  if (s->polls < comm->spin + YIELDS) {
    if (!yield_core(comm)) s->polls = comm->spin + YIELDS;
    return;
  }
  /* No bell rings when it arrives. */
  if (comm->wire && tu_wire_look(comm->wire)) {
    if (s->polls % 256 == 0) look_round(tu_clock_ns());
    sched_yield();
    return;
  }
  uint32_t token = tu_bell_arm(comm->transport);
  if (tu_queue.telling || !tu_queue_poll()) {
    uint64_t now = tu_clock_ns();
    look_round(now);
    int ms = sleep_ms(now);
    if (s->sleep_ms > 0 && ms > s->sleep_ms) ms = s->sleep_ms;
    if (ms > 0) tu_bell_sleep(comm->transport, token, ms);
  }
  tu_bell_disarm(comm->transport);
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
  if (!is_done(r)) tu_queue_poll();
  if (!is_done(r) && tu_comm_failed(r->comm)) tu_queue_poll();
  if (!is_done(r) && ++r->tests % 128 == 0) {
    look_round(tu_clock_ns());
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
    if (tu_queue_poll()) stall.polls = 0;
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
  if (tu_queue_poll()) stall->polls = 0;
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
