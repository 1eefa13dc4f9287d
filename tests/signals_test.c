/* test: fast waits timeout=180 */
/* signals_test.c: signals in windows, and the events of sessions: values, order, errors, time-outs, and ranks that die
 * or abort while others wait. On threads and on real processes. */
#include "onesided.h"

enum { PART = 4096 };

static tutti_window *open_window(struct player *p) {
  tutti_window *window = NULL;
  fine(p, tutti_window_create(p->comm, NULL, PART, &window), "create");
  return window;
}

static void close_window(struct player *p, tutti_window *window) {
  meet(p);
  fine(p, tutti_window_free(window), "free");
}

static int32_t *signals_of(const tutti_window *window, uint32_t rank) { return tutti_window_address(window, rank); }

/* ---- values ---- */

static bool holds(int32_t a, int compare, int32_t b) {
  const bool answers[] = {a == b, a != b, a > b, a >= b, a < b, a <= b};
  return answers[compare];
}

static void comparisons(struct player *p) {
  static const int32_t values[] = {INT32_MIN, -1, 0, 1, 41, 42, 43, INT32_MAX};
  enum { VALUES = sizeof values / sizeof values[0] };
  tutti_window *window = open_window(p);
  int32_t *mine = signals_of(window, p->rank);
  tutti_tensor one = rows_of(mine, TUTTI_I32, 1, 1);
  for (int i = 0; i < VALUES; i++) {
    fine(p, tutti_signal_set(mine, values[i], NULL), "set");
    for (int k = 0; k < VALUES; k++)
      for (int c = 0; c <= TUTTI_LE; c++) {
        bool all = !holds(values[i], c, values[k]), wanted = !all;
        fine(p, tutti_signal_test(&one, (tutti_compare)c, values[k], &all), "test");
        if (all != wanted) wrong(p, "%d, comparison %d with %d: %d", values[i], c, values[k], all);
        tutti_err err = tutti_signal_wait(&one, (tutti_compare)c, values[k], wanted ? 0 : 1, NULL);
        if (err != (wanted ? TUTTI_OK : TUTTI_ERR_TIMEOUT)) wrong(p, "a wait: %s", tutti_err_name(err));
      }
  }
  fine(p, tutti_signal_set(mine, INT32_MAX, NULL), "set");
  fine(p, tutti_signal_add(mine, 2, NULL), "add");
  if (*mine != INT32_MIN + 1) wrong(p, "an overflowing sum is %d", *mine);
  close_window(p, window);
}

/* All ranks add to a signal of rank 0, and each sets its own signal there. */
static void many_signallers(struct player *p) {
  enum { TIMES = 50 };
  tutti_window *window = open_window(p);
  int32_t *root = signals_of(window, 0);
  for (int i = 0; i < TIMES; i++) fine(p, tutti_signal_add(root, 1, NULL), "add");
  fine(p, tutti_signal_set(root + 1 + p->rank, 1000, NULL), "set");
  if (p->rank == 0) {
    tutti_tensor counter = rows_of(root, TUTTI_I32, 1, 1), board = rows_of(root + 1, TUTTI_I32, 1, p->ranks);
    fine(p, tutti_signal_wait(&counter, TUTTI_EQ, (int32_t)p->ranks * TIMES, 0, NULL), "wait for the counter");
    fine(p, tutti_signal_wait(&board, TUTTI_EQ, 1000, 0, NULL), "wait for the board");
    for (uint32_t r = 0; r < p->ranks; r++)
      if (root[1 + r] != 1000) wrong(p, "rank %u has set %d", r, root[1 + r]);
  }
  close_window(p, window);
}

/* Signals in every layout. Other ranks set them one after the other; signals between them do not count. */
static void signals_in_every_layout(struct player *p) {
  const size_t shape[] = {1, 2, 1, 3, 10};
  tutti_window *window = NULL;
  enum { BYTES = 16 << 10 };
  fine(p, tutti_window_create(p->comm, NULL, BYTES, &window), "create");
  for (int k = 0; k < TENSORS_KINDS; k++) {
    tutti_tensor t;
    size_t i[TUTTI_DIMS] = {0};
    uint32_t next = (p->rank + 1) % p->ranks, number = 0;
    bool all = true;
    if (tensors_make(&t, &tensors_kinds[k], TUTTI_I32, shape, (tutti_tiles){.rows = 4, .cols = 8}) != TUTTI_OK) abort();
    if (tutti_tensor_bytes(&t) > BYTES) abort();
    memset(signals_of(window, p->rank), 0xa5, BYTES);
    t.data = signals_of(window, p->rank);
    fill(&t, t.data, value_of_rank, &number);
    meet(p);
    fine(p, tutti_signal_test(&t, TUTTI_EQ, 7000, &all), "test");
    if (all) wrong(p, "%s: test is true before any signal is set", tensors_kinds[k].name);
    meet(p);
    do fine(p, tutti_signal_set(signals_of(window, next) + tensors_where(&t, i), 7000, NULL), "set");
    while (tensors_next(shape, i));
    fine(p, tutti_signal_wait(&t, TUTTI_EQ, 7000, 0, NULL), tensors_kinds[k].name);
    fine(p, tutti_signal_test(&t, TUTTI_EQ, 7000, &all), "test");
    if (!all) wrong(p, "%s: test is false, but all signals are set", tensors_kinds[k].name);
    signals_of(window, p->rank)[tensors_where(&t, (size_t[]){0, 1, 0, 2, 9})]++;
    fine(p, tutti_signal_test(&t, TUTTI_EQ, 7000, &all), "test");
    if (all) wrong(p, "%s: test is true, but the last signal has another value", tensors_kinds[k].name);
    meet(p);
  }
  fine(p, tutti_window_free(window), "free");
}

/* Data written before a signal has arrived when the signal is seen. Data goes round a ring again and again; a signal in
 * the other direction says that the buffer is free. */
static void data_comes_with_its_signal(struct player *p) {
  enum { COUNT = 300, TIMES = 200, DATA = 64, ARRIVED = 0, FREED = 16 };
  tutti_window *window = open_window(p);
  uint32_t next = (p->rank + 1) % p->ranks, before = (p->rank + p->ranks - 1) % p->ranks;
  int32_t *mine = signals_of(window, p->rank), local[COUNT];
  tutti_tensor to = rows_of(signals_of(window, next) + DATA, TUTTI_I32, 1, COUNT);
  tutti_tensor from = rows_of(local, TUTTI_I32, 1, COUNT), arrived = rows_of(mine + ARRIVED, TUTTI_I32, 1, 1);
  tutti_tensor freed = rows_of(mine + FREED, TUTTI_I32, 1, 1);
  for (int32_t t = 1; t <= TIMES && p->stage->failures == 0; t++) {
    for (int32_t i = 0; i < COUNT; i++) local[i] = t * 1000 + i + (int32_t)p->rank;
    fine(p, tutti_signal_wait(&freed, TUTTI_GE, t - 1, 0, NULL), "wait until it is free");
    fine(p, tutti_put(&from, &to, NULL, NULL), "put");
    fine(p, tutti_signal_set(signals_of(window, next) + ARRIVED, t, NULL), "set");
    fine(p, tutti_signal_wait(&arrived, TUTTI_GE, t, 0, NULL), "wait for data");
    for (int32_t i = 0; i < COUNT; i++)
      if (mine[DATA + i] != t * 1000 + i + (int32_t)before)
        wrong(p, "rank %u: after signal %d element %d is %d", p->rank, t, i, mine[DATA + i]);
    fine(p, tutti_signal_add(signals_of(window, before) + FREED, 1, NULL), "add");
  }
  close_window(p, window);
}

/* ---- errors ---- */

static void bad_signals(struct player *p) {
  tutti_window *window = open_window(p);
  int32_t *mine = signals_of(window, p->rank), local = 0;
  bool all = false;
  refused(p, tutti_signal_set(NULL, 1, NULL), TUTTI_ERR_ARGUMENT, "tutti_signal_set: |no window", "NULL");
  refused(p, tutti_signal_add(&local, 1, NULL), TUTTI_ERR_ARGUMENT, "no window", "the stack");
  refused(p, tutti_signal_set(mine + PART / 4, 1, NULL), TUTTI_ERR_ARGUMENT, "no window", "beyond the end");
  int32_t *crooked = (int32_t *)(void *)((char *)mine + 2);
  refused(p, tutti_signal_add(crooked, 1, NULL), TUTTI_ERR_ARGUMENT, "aligned to 4", "not aligned");
  const tutti_events none = {.after_count = 1};
  refused(p, tutti_signal_set(mine, 1, &none), TUTTI_ERR_ARGUMENT, "`after` is NULL", "events that are NULL");
  tutti_tensor t = rows_of(mine, TUTTI_I32, 2, 2), other = rows_of(mine, TUTTI_F32, 2, 2), nothing;
  refused(p, tutti_signal_wait(NULL, TUTTI_EQ, 1, 1, NULL), TUTTI_ERR_ARGUMENT, "NULL", "no tensor");
  refused(p, tutti_signal_test(&other, TUTTI_EQ, 1, &all), TUTTI_ERR_ARGUMENT, "f32", "floats");
  refused(p, tutti_signal_test(&t, TUTTI_EQ, 1, NULL), TUTTI_ERR_ARGUMENT, "tutti_signal_test", "no answer");
  refused(p, tutti_signal_wait(&t, TUTTI_EQ, 0, -2, NULL), TUTTI_ERR_ARGUMENT, "TUTTI_NO_TIMEOUT (-1)", "limit");
  fine(p, tutti_signal_wait(&t, TUTTI_EQ, 0, TUTTI_NO_TIMEOUT, NULL), "no limit");
  refused(p, tutti_signal_wait(&t, (tutti_compare)6, 1, 1, NULL), TUTTI_ERR_ARGUMENT, "comparison 6", "comparison");
  other = rows_of(&local, TUTTI_I32, 1, 1);
  refused(p, tutti_signal_wait(&other, TUTTI_EQ, 1, 1, NULL), TUTTI_ERR_ARGUMENT, "no window", "the stack");
  other = rows_of(crooked, TUTTI_I32, 1, 1);
  refused(p, tutti_signal_wait(&other, TUTTI_EQ, 1, 1, NULL), TUTTI_ERR_ARGUMENT, "aligned to 4", "not aligned");
  if (p->ranks > 1) {
    other = rows_of(signals_of(window, (p->rank + 1) % p->ranks), TUTTI_I32, 1, 1);
    refused(p, tutti_signal_test(&other, TUTTI_EQ, 1, &all), TUTTI_ERR_ARGUMENT, "own part", "another's");
  }
  nothing = rows_of(NULL, TUTTI_I32, 0, 5);
  fine(p, tutti_signal_wait(&nothing, TUTTI_EQ, 1, 0, NULL), "no signals");
  fine(p, tutti_signal_test(&nothing, TUTTI_EQ, 1, &all), "no signals");
  if (!all) wrong(p, "test of no signals is false");
  close_window(p, window);
}

/* ---- time-outs ---- */

static void late_signals(struct player *p) {
  tutti_window *window = open_window(p);
  tutti_tensor t = rows_of(signals_of(window, p->rank), TUTTI_I32, 4, 3);
  meet(p);
  uint32_t next = (p->rank + 1) % p->ranks;
  for (int i = 0; i < 12; i++)
    fine(p, tutti_signal_set(signals_of(window, next) + i, i == 7 ? -3 : i == 10 ? 0 : 9, NULL), "set");
  meet(p);
  tutti_err err = tutti_signal_wait(&t, TUTTI_GE, 5, 30, NULL);
  char words[64];
  snprintf(words, sizeof words, "rank %u has waited 30 ms|[0, 0, 0, 2, 1]|>= 5", p->rank);
  refused(p, err, TUTTI_ERR_TIMEOUT, words, "a late signal");
  refused(p, err, TUTTI_ERR_TIMEOUT, "it is -3", "a late signal");
  meet(p); /* the communicator still works */
  fine(p, tutti_signal_set(signals_of(window, next) + 7, 5, NULL), "set");
  fine(p, tutti_signal_set(signals_of(window, next) + 10, 5, NULL), "set");
  fine(p, tutti_signal_wait(&t, TUTTI_GE, 5, TROUPE_CALL_MS, NULL), "wait after a time-out");
  close_window(p, window);
}

/* A signal set by a plain store wakes no rank, but a waiting rank must see it. */
static void plain_stores_are_seen(struct player *p) {
  tutti_window *window = open_window(p);
  tutti_tensor t = rows_of(signals_of(window, p->rank), TUTTI_I32, 1, 1);
  if (p->rank == 0) ranks_sleep_us(20000); /* the other ranks may be asleep by then, or not; both must work */
  for (uint32_t r = 0; r < p->ranks && p->rank == 0; r++) {
    if (is_mapped(p, window, r)) __atomic_store_n(signals_of(window, r), 1, __ATOMIC_RELEASE);
    else fine(p, tutti_signal_set(signals_of(window, r), 1, NULL), "set on another host");
  }
  fine(p, tutti_signal_wait(&t, TUTTI_EQ, 1, 0, NULL), "wait for a plain store");
  close_window(p, window);
}

/* ---- ranks that die or abort ---- */

static void one_dies(struct player *p) {
  tutti_window *window = open_window(p);
  tutti_tensor t = rows_of(signals_of(window, p->rank), TUTTI_I32, 1, 1);
  meet(p);
  if (p->rank == 1) {
    if (!p->is_thread) _exit(3);
    tu_loop_kill(p->transport);
    (void)tutti_window_free(window);
    return;
  }
  tutti_err err = tutti_signal_wait(&t, TUTTI_EQ, 1, 0, NULL);
  if (p->ranks == 1) return;
  refused(p, err, TUTTI_ERR_PEER, "rank 1", "wait for the dead rank");
  refused(p, tutti_window_free(window), TUTTI_ERR_PEER, "rank 1", "free after a death");
}

static void one_gives_up(struct player *p) {
  tutti_comm *copy;
  tutti_window *window;
  fine(p, tutti_comm_dup(p->comm, &copy), "dup");
  fine(p, tutti_window_create(copy, NULL, PART, &window), "create");
  tutti_tensor t = rows_of(signals_of(window, p->rank), TUTTI_I32, 1, 1);
  meet(p); /* the abort must not reach a rank that still creates the window */
  if (p->rank == p->ranks - 1) tutti_abort(copy, "abort of the last rank");
  else refused(p, tutti_signal_wait(&t, TUTTI_EQ, 1, 0, NULL), TUTTI_ERR_ABORTED, "abort of the last rank", "wait");
  refused(p, tutti_window_free(window), TUTTI_ERR_ABORTED, "abort of the last rank", "free");
  refused(p, tutti_comm_free(copy), TUTTI_ERR_ABORTED, "abort of the last rank", "free of the communicator");
}

/* ---- events and sessions ---- */

enum { WORDS = 100, POSTS = 300 };

static void sessions_keep_their_order(struct player *p) {
  tutti_window *window = open_window(p);
  tutti_session *session, *another;
  tutti_event event, events[POSTS], first;
  int32_t local[POSTS][4], back[4] = {0};
  uint32_t next = (p->rank + 1) % p->ranks, before = (p->rank + p->ranks - 1) % p->ranks;
  int32_t *mine = signals_of(window, p->rank), *remote = signals_of(window, next);
  fine(p, tutti_session_create(&session), "a session");
  fine(p, tutti_session_create(&another), "another");
  for (int32_t i = 0; i < POSTS; i++) {
    for (int32_t k = 0; k < 4; k++) local[i][k] = (int32_t)p->rank * 10000 + i * 10 + k;
    /* Each put overwrites half of the one before. */
    tutti_tensor to = rows_of(remote + 2 * (i % WORDS), TUTTI_I32, 1, 4), from = rows_of(local[i], TUTTI_I32, 1, 4);
    fine(p, tutti_put_start(session, &from, &to, &events[i]), "put_start");
    if (events[i].number == 0) wrong(p, "an event number is 0");
  }
  fine(p, tutti_event_wait(events[POSTS - 1]), "wait for the last");
  fine(p, tutti_event_wait(events[0]), "wait for the first, afterwards");
  meet(p);
  for (int32_t w = 0; w < WORDS; w++) { /* the last round over the positions: posts POSTS - WORDS + w */
    int32_t wanted = (int32_t)before * 10000 + (POSTS - WORDS + w) * 10;
    if (mine[2 * w] != wanted || mine[2 * w + 1] != wanted + 1)
      wrong(p, "rank %u: position %d has %d and %d, expected %d", p->rank, w, mine[2 * w], mine[2 * w + 1], wanted);
  }
  /* A get after a put in the same session returns the put's data. A call that waits for the get's event starts after
   * the get. */
  int32_t *slot = remote + 512;
  tutti_tensor to = rows_of(slot, TUTTI_I32, 1, 4), from = rows_of(local[5], TUTTI_I32, 1, 4);
  tutti_tensor into = rows_of(back, TUTTI_I32, 1, 4);
  fine(p, tutti_put_start(another, &from, &to, &first), "put_start");
  fine(p, tutti_get_start(another, &to, &into, &event), "get_start");
  const tutti_event after[] = {first, event};
  tutti_event own = {7, 7};
  fine(p, tutti_signal_set(remote + 600, 1, &(tutti_events){after, 2, &own}), "set, after both");
  if (memcmp(back, local[5], sizeof back) != 0) wrong(p, "rank %u: got %d back", p->rank, back[0]);
  if (own.session != 0 || own.number != 0) wrong(p, "a completed call returned an open event");
  tutti_tensor sign = rows_of(mine + 600, TUTTI_I32, 1, 1);
  fine(p, tutti_signal_wait(&sign, TUTTI_EQ, 1, 0, NULL), "wait");
  for (int32_t k = 0; k < 4; k++)
    if (mine[512 + k] != (int32_t)before * 10000 + 50 + k)
      wrong(p, "rank %u: data before the signal is %d", p->rank, mine[512 + k]);
  tutti_tensor elsewhere = rows_of(remote + 700, TUTTI_I32, 1, 4);
  fine(p, tutti_put_start(session, &from, &elsewhere, NULL), "put_start without an event");
  fine(p, tutti_session_free(session), "free of a session");
  int32_t *theirs = copy_of_part(p, window, next, PART);
  if (memcmp(theirs + 700, local[5], sizeof back) != 0)
    wrong(p, "rank %u: a put is not complete after tutti_session_free", p->rank);
  free(theirs);
  fine(p, tutti_event_wait(events[3]), "event of a freed session");
  fine(p, tutti_session_free(another), "free of the other");
  fine(p, tutti_session_free(NULL), "free of NULL");
  fine(p, tutti_event_wait((tutti_event){0}), "wait for event 0");
  close_window(p, window);
}

static void bad_events(struct player *p) {
  tutti_window *window = open_window(p);
  tutti_session *session;
  tutti_event event = {1, 1};
  int32_t local[4] = {0};
  const size_t shape[] = {2, 2}, strides[] = {1, 2};
  tutti_tensor to = rows_of(signals_of(window, p->rank), TUTTI_I32, 2, 2), from = rows_of(local, TUTTI_I32, 2, 2), odd;
  fine(p, tutti_tensor_strided(&odd, (tutti_tensor_of){local, TUTTI_I32, 2, shape}, strides), "transposed");
  refused(p, tutti_session_create(NULL), TUTTI_ERR_ARGUMENT, "tutti_session_create", "session is NULL");
  fine(p, tutti_session_create(&session), "a session");
  refused(p, tutti_put_start(NULL, &from, &to, &event), TUTTI_ERR_ARGUMENT, "session|NULL", "no session");
  refused(p, tutti_put_start(session, &odd, &to, &event), TUTTI_ERR_ARGUMENT, "from|run", "odd");
  refused(p, tutti_get_start(session, &to, &odd, &event), TUTTI_ERR_ARGUMENT, "to|run", "odd");
  refused(p, tutti_put_start(session, &to, &from, &event), TUTTI_ERR_ARGUMENT, "tutti_put_start: to |no window",
          "no window");
  refused(p, tutti_get_start(session, &from, &to, &event), TUTTI_ERR_ARGUMENT, "tutti_get_start: from |no window",
          "no window");
  from = rows_of(local, TUTTI_I32, 1, 4);
  refused(p, tutti_put_start(session, &from, &to, &event), TUTTI_ERR_ARGUMENT, "shape", "another shape");
  if (event.number != 0) wrong(p, "a failed call returned an event");
  tutti_tensor none = rows_of(NULL, TUTTI_I32, 0, 2);
  fine(p, tutti_put_start(session, &none, &none, &event), "nothing");
  fine(p, tutti_event_wait(event), "nothing");
  from = rows_of(local, TUTTI_I32, 2, 2);
  fine(p, tutti_get_start(session, &to, &from, &event), "get_start");
  tutti_event later = event, unknown = {UINT64_MAX, 1};
  later.number++;
  refused(p, tutti_event_wait(later), TUTTI_ERR_ARGUMENT, "event|session", "event number too large");
  refused(p, tutti_event_wait(unknown), TUTTI_ERR_ARGUMENT, "event|session", "unknown session");
  const tutti_events events = {&unknown, 1, &event};
  refused(p, tutti_put(&from, &to, NULL, &events), TUTTI_ERR_ARGUMENT, "tutti_put: |event|session", "a put");
  fine(p, tutti_session_free(session), "free");
  close_window(p, window);
}

/* ---- all tests ---- */

static const struct troupe_case cases[] = {
    {TROUPE_CASE(comparisons)},
    {TROUPE_CASE(many_signallers)},
    {TROUPE_CASE(signals_in_every_layout)},
    {TROUPE_CASE(data_comes_with_its_signal)},
    {TROUPE_CASE(bad_signals)},
    {TROUPE_CASE(late_signals)},
    {TROUPE_CASE(plain_stores_are_seen)},
    {TROUPE_CASE(one_gives_up)},
    {TROUPE_CASE(sessions_keep_their_order)},
    {TROUPE_CASE(bad_events)},
    {TROUPE_CASE(one_dies), .rank_1_dies = true},
};

int main(int argc, char **argv) {
  return troupe_main(cases, sizeof cases / sizeof cases[0], TROUPE_TRANSPORTS(1, 2, 3, 4), argc, argv);
}
