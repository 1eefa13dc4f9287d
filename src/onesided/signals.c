/* signals.c: signals: integers in windows (shared memory) that ranks set, add to, test and wait for. */
#include <stdio.h>

#include "call/stall.h"
#include "comm/chain.h"
#include "comm/comm.h"
#include "comm/enter.h"
#include "comm/failure.h"
#include "comm/patience.h"
#include "comm/peers.h"
#include "comm/wait.h"
#include "onesided/events.h"
#include "onesided/located.h"
#include "onesided/window.h"
#include "onesided/windows.h"

enum { SLEEP_MS = 1 };

/* ---- setting ---- */

static tutti_err find(const char *call, const int32_t *signal, struct tutti_window **window, uint32_t *rank,
                      struct tu_error *error) {
  *window = signal ? tu_window_find(signal, rank) : NULL;
  if (!*window)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: signal is at %p, which is in no window of this process; expected memory of a window "
                   "(tutti_window_create, tutti_window_address)",
                   call, (const void *)signal);
  size_t offset = (size_t)((uintptr_t)signal - (uintptr_t)(*window)->parts[*rank].memory);
  if ((uintptr_t)signal % sizeof *signal != 0 || (*window)->parts[*rank].bytes - offset < sizeof *signal)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: signal is at byte %zu of rank %u's part of a window; expected 4 bytes, aligned to 4, within "
                   "the part's %zu bytes",
                   call, offset, *rank, (*window)->parts[*rank].bytes);
  return tu_window_check(*window, call, error);
}

static tutti_err change(const char *call, int32_t *signal, int32_t value, bool adds, const tutti_events *events) {
  struct tu_error error;
  struct tutti_window *window;
  uint32_t rank;
  tutti_err err = find(call, signal, &window, &rank, &error);
  if (err == TUTTI_OK) err = tu_events_begin(call, events, &error);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  if (tu_window_is_far(window, rank)) {
    const unsigned char *part = window->parts[rank].memory;
    const struct tu_far_memory at = {window, rank, (size_t)((uintptr_t)signal - (uintptr_t)part)};
    uint32_t bits = (uint32_t)value;
    err = tu_far_ask(call, at, adds ? TU_FAR_INCREASE : TU_FAR_SET, &bits, NULL, 0, &error);
    return err == TUTTI_OK ? err : tu_thread_error(&error);
  }
  tu_window_signal(signal, value, adds);
  tu_mover_ring(window->comm->mover, tu_control_bell(&window->comm->mover->control, rank));
  return TUTTI_OK;
}

tutti_err tutti_signal_set(int32_t *signal, int32_t value, const tutti_events *events) {
  return change("tutti_signal_set", signal, value, false, events);
}

tutti_err tutti_signal_add(int32_t *signal, int32_t value, const tutti_events *events) {
  return change("tutti_signal_add", signal, value, true, events);
}

/* ---- comparing ---- */

static const char *const comparisons[] = {"==", "!=", ">", ">=", "<", "<="};

static bool holds(int32_t signal, tutti_compare compare, int32_t value) {
  switch (compare) {
    case TUTTI_EQ: return signal == value;
    case TUTTI_NE: return signal != value;
    case TUTTI_GT: return signal > value;
    case TUTTI_GE: return signal >= value;
    case TUTTI_LT: return signal < value;
    case TUTTI_LE: return signal <= value;
  }
  return false;
}

/* The comparison that all signals of a call must satisfy, and the first signal that does not satisfy it. */
struct look {
  struct tu_located located;
  tutti_compare compare;
  int32_t value;
  size_t index[TUTTI_DIMS];
  int32_t found;
};

static bool all_hold(struct look *look) {
  const size_t *shape = look->located.tensor.shape;
  const unsigned char *data = look->located.tensor.data;
  if (tu_located_is_empty(&look->located)) return true;
  for (int d = 0; d < TUTTI_DIMS; d++) look->index[d] = 0;
  while (look->index[0] < shape[0]) {
    const int32_t *signal = (const int32_t *)(const void *)(data + tu_map_offset(look->located.map, look->index));
    look->found = __atomic_load_n(signal, __ATOMIC_ACQUIRE);
    if (!holds(look->found, look->compare, look->value)) return false;
    int d = TUTTI_DIMS - 1;
    for (look->index[d]++; d > 0 && look->index[d] == shape[d]; look->index[d]++) look->index[d--] = 0;
  }
  return true;
}

static tutti_err open_look(struct look *look, const char *call, const tutti_tensor *signals, struct tu_error *error) {
  struct tu_located *s = &look->located;
  tutti_err err = tu_located_open(s, call, "signals", signals, error);
  if (err != TUTTI_OK) return err;
  if (s->tensor.type != TUTTI_I32)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: signals has type %s; expected i32", call,
                   tutti_datatype_name(s->tensor.type));
  if ((unsigned)look->compare > TUTTI_LE)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: unknown comparison %d; expected a value of tutti_compare", call,
                   (int)look->compare);
  if (tu_located_is_empty(s)) return TUTTI_OK;
  if ((err = tu_located_need_window(s, error)) != TUTTI_OK) return err;
  if (s->rank != s->window->comm->rank)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: signals is in rank %u's part of the window, but the caller is rank %u; a rank can test and "
                   "wait for signals of its own part only",
                   call, s->rank, s->window->comm->rank);
  if ((uintptr_t)s->tensor.data % sizeof(int32_t) != 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: signals is at %p, which is not aligned to 4 bytes", call,
                   s->tensor.data);
  return TUTTI_OK;
}

/* ---- testing ---- */

/* Checks whether other ranks have died or left, because any of them may be the rank that should still set a signal.
 * Sets *there to true if all signals satisfy the comparison by now. In that case dead ranks are no error. */
static tutti_err look_for_peers(struct tutti_comm *comm, struct look *look, bool *there, struct tu_error *error) {
  for (uint32_t r = 0; r < comm->ranks; r++) comm->waits_for[r] = r != comm->rank;
  tu_note_departed(comm);
  if ((*there = all_hold(look))) return TUTTI_OK;
  if (!tu_peer_lost(comm, "tutti_signal_wait", error)) return TUTTI_OK;
  /* The rank may have set its last signal between that look and its end. */
  if ((*there = all_hold(look))) return TUTTI_OK;
  (void)tu_comm_fail(comm, error);
  *error = comm->error;
  return error->code;
}

/* Called if tutti_signal_test has found a signal that does not satisfy the comparison. Checks whether the communicator
 * has failed, and from time to time whether ranks are dead. So a loop of tests notices a death, as a wait does. If
 * another thread is in a call on the communicator, the check for dead ranks is left to that thread. */
static tutti_err look_after_vain_test(struct look *look, bool *all, struct tu_error *error) {
  struct tutti_window *window = look->located.window;
  struct tu_visit visit;
  tutti_err err = tu_comm_verdict(window->comm, error);
  if (err != TUTTI_OK || !tu_process_is(window->comm->process) || !tu_try_hold(window->comm, &visit)) return err;
  if (tu_patience_test(window->comm, &window->tests, false)) err = look_for_peers(window->comm, look, all, error);
  tu_leave(&visit);
  return err;
}

tutti_err tutti_signal_test(const tutti_tensor *signals, tutti_compare compare, int32_t value, bool *all) {
  struct tu_error error;
  struct look look = {.compare = compare, .value = value};
  tutti_err err = open_look(&look, "tutti_signal_test", signals, &error);
  if (err == TUTTI_OK && !all) err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_signal_test: all is NULL");
  if (err == TUTTI_OK && !(*all = all_hold(&look))) err = look_after_vain_test(&look, all, &error);
  tu_located_close(&look.located);
  return err == TUTTI_OK ? err : tu_thread_error(&error);
}

/* ---- waiting ---- */

static tutti_err fail_late(const struct look *look, int timeout_ms, struct tu_error *error) {
  const size_t *i = look->index;
  return tu_fail(
      error, TUTTI_ERR_TIMEOUT,
      "tutti_signal_wait: rank %u has waited %d ms for signal [%zu, %zu, %zu, %zu, %zu] to be %s %d, but it is %d",
      look->located.window->comm->rank, timeout_ms, i[0], i[1], i[2], i[3], i[4], comparisons[look->compare],
      look->value, look->found);
}

/* Waits as all waits of the library do: polls, then yields the CPU, then sleeps. A sleep lasts 1 ms at most, because
 * a signal may also be set by a plain store, which wakes no sleeping rank. */
static tutti_err wait_for(struct look *look, int timeout_ms, struct tu_error *error) {
  struct tutti_comm *comm = look->located.window->comm;
  struct tu_wait wait = {.stall.sleep_ms = SLEEP_MS, .timeout_ms = timeout_ms};
  while (!all_hold(look)) {
    bool there = false;
    tutti_err err = tu_comm_verdict(comm, error);
    if (err != TUTTI_OK) return err;
    enum tu_due due = tu_wait_inside(comm, &wait);
    if (wait.since) tu_chain_tell_one(comm, comm->rank, wait.since, tu_clock_ns());
    if (due != TU_GO_ON) err = look_for_peers(comm, look, &there, error);
    if (err != TUTTI_OK || there) return err;
    if (due == TU_TOO_LATE) return fail_late(look, timeout_ms, error);
  }
  return TUTTI_OK;
}

static tutti_err wait_and_go_on(struct look *look, int timeout_ms, struct tu_error *error) {
  struct tu_transport *t = look->located.window->comm->transport;
  tutti_err err = wait_for(look, timeout_ms, error);
  tu_chain_go_on(t);
  return err;
}

tutti_err tutti_signal_wait(const tutti_tensor *signals, tutti_compare compare, int32_t value, int timeout_ms,
                            const tutti_events *events) {
  struct tu_error error;
  struct look look = {.compare = compare, .value = value};
  tutti_err err = open_look(&look, "tutti_signal_wait", signals, &error);
  if (err == TUTTI_OK) err = tu_check_timeout("tutti_signal_wait", "timeout_ms", timeout_ms, &error);
  if (err == TUTTI_OK) err = tu_events_begin("tutti_signal_wait", events, &error);
  if (err == TUTTI_OK && !tu_located_is_empty(&look.located)) {
    struct tu_visit visit;
    struct tutti_comm *comm = look.located.window->comm;
    if (tu_hold(comm, &visit)) err = wait_and_go_on(&look, timeout_ms, &error);
    else err = tu_explain_visit("tutti_signal_wait", &error);
    tu_leave(&visit);
  }
  tu_located_close(&look.located);
  return err == TUTTI_OK ? err : tu_thread_error(&error);
}
