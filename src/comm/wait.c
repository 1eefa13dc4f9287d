/* wait.c: waits for a condition. For threads that hold no communicator, and therefore advance no requests. */
#include "comm/wait.h"

enum tu_due tu_wait_due(struct tu_wait *w, uint64_t now) {
  if (w->since == 0) w->since = w->looked_at = now;
  if (w->timeout_ms > 0 && now - w->since >= (uint64_t)w->timeout_ms * TU_NS_PER_MS) return TU_TOO_LATE;
  if (now - w->looked_at < TU_LOOK_NS) return TU_GO_ON;
  w->looked_at = now;
  return TU_LOOK_ROUND;
}

/* Calls left_ms, which checks the condition once more, and returns the maximum time to sleep, in ms. Then sleeps until
 * the bell rings or this time has passed. If left_ms returns 0, does not sleep. */
void tu_wait_sleep(struct tu_transport *t, int (*left_ms)(void *context), void *context) {
  uint32_t token = tu_bell_arm(t);
  int ms = left_ms(context);
  if (ms > 0) tu_patience_sleep(t, token, ms);
  tu_bell_disarm(t);
}

struct outsider {
  const struct tutti_comm *comm;
  const struct tu_wait *wait;
  uint64_t now;
  bool (*there)(void *context);
  void *context;
};

static int look_outside(void *context) {
  const struct outsider *o = context;
  const struct tu_wait *w = o->wait;
  if (o->there(o->context)) return 0;
  const size_t ms = (size_t)tu_patience_sleep_ms(o->comm, &w->stall);
  return (int)(w->timeout_ms > 0 ? tu_min(ms, (size_t)w->timeout_ms - (o->now - w->since) / TU_NS_PER_MS) : ms);
}

enum tu_due tu_wait_outside(const struct tutti_comm *comm, struct tu_wait *w, bool (*there)(void *context),
                            void *context) {
  if (!tu_patience_ends(comm, &w->stall)) return TU_GO_ON;
  const uint64_t now = tu_clock_ns();
  const enum tu_due due = tu_wait_due(w, now);
  struct outsider outsider = {.comm = comm, .wait = w, .now = now, .there = there, .context = context};
  /* What has arrived from other hosts would wake this rank again and again. */
  if (due == TU_GO_ON && comm->transport->hosts) (void)tu_remote_flush(comm->transport, NULL);
  if (due == TU_GO_ON) tu_wait_sleep(comm->transport, look_outside, &outsider);
  return due;
}
