/* stall.c: waits of a thread that holds a communicator. The thread polls all open requests, and lets other threads
 * enter after each unsuccessful poll. Without progress, patience.h decides what the thread does. First it spins.
 * Then, if ranks share cores, it yields, because another rank may need the core. Then it sleeps on the bell (the
 * wake-up signal between ranks), at most 100 ms at a time. A call that another thread starts rings the bell. A stalled
 * rank checks its peers (look.c). */
#include "call/stall.h"

#include <sched.h>
#include <string.h>

#include "call/look.h"
#include "comm/chain.h"
#include "comm/stats.h"

/* maximum number of polls of a fast-path call between two decisions whether to go on polling */
#define POLLS_AT_ONCE 6u
/* Where ranks share CPUs: number of polls before the rank looks for whom it waits; number if it waits for ranks of other CPUs
 * only, and all ranks of its own have done their part: then a yield is of no use, and costs two switches. */
#define POLLS_FIRST 1u
#define POLLS_AFAR 32u

/* Notes for which rank a wait waits now; if that has changed, the time so far counts for the rank before. */
static void note_awaited(struct tutti_comm *comm, const struct tu_execution *e, struct tu_stall *s) {
  const uint32_t awaits = tu_execution_awaits_straight(e) + 1;
  if (awaits == s->awaits) return;
  tu_stats_count(comm, s);
  s->awaits = awaits;
  s->run = e->teller ? e->teller->run : 0;
}

/* Polls for the call, `looks` times if it is not known that more or fewer polls are better. Returns true once the call is
 * finished. */
static bool poll_straight(const struct tutti_comm *comm, struct tu_execution *e, uint32_t looks) {
  if (!tu_patience_knows_neighbours(comm)) return tu_execution_poll_straight(e, looks);
  if (tu_execution_poll_straight(e, POLLS_FIRST)) return true;
  if (e->unfit) return false;
  switch (tu_execution_awaits_where(e, tu_core_watch.here)) {
    case TU_AWAITS_HERE: return false;
    case TU_AWAITS_AFAR: return tu_execution_poll_straight(e, POLLS_AFAR);
    case TU_AWAITS_ROOT: return tu_execution_poll_straight(e, (uint32_t)tu_max(looks, tu_patience_turn_polls()));
    default: return tu_execution_poll_straight(e, looks);
  }
}

bool tu_wait_straight(struct tutti_comm *comm, struct tu_execution *e) {
  const uint32_t looks = tu_patience_polls(comm), at_once = looks < POLLS_AT_ONCE ? looks : POLLS_AT_ONCE;
  struct tu_stall s = {.polls = looks};
  if (poll_straight(comm, e, looks)) return true;
  while (!e->unfit && !atomic_load_explicit(&comm->wanted, memory_order_relaxed) && !tu_patience_ends(comm, &s)) {
    if (s.since) note_awaited(comm, e, &s);
    if (!poll_straight(comm, e, at_once)) continue;
    tu_stats_count(comm, &s);
    return true;
  }
  tu_stats_count(comm, &s);
  return false;
}

bool tu_poll_all(struct tutti_comm *comm) {
  bool moved = tu_queue_poll(comm);
  return tu_queue_poll_others(comm) || moved;
}

static bool poll_whole(struct tutti_comm *comm) {
  bool moved = tu_queue_poll_whole(comm);
  return tu_queue_poll_others(comm) || moved;
}

/* ---- waits for requests ---- */

struct holder {
  struct tutti_comm *comm;
  const struct tu_stall *stall;
  uint32_t finished;
  bool released;
};

/* Polls once more before a sleep, and releases the communicator. Returns the time to sleep in ms; 0: do not sleep. A
 * thread inside an on_ready callback neither polls nor releases the communicator, because the function that called
 * on_ready is in the middle of advancing requests. */
static int look_and_release(void *context) {
  struct holder *h = context;
  if ((!tu_thread.telling && poll_whole(h->comm)) || tu_queue_finished_now() != h->finished) return 0;
  int ms = tu_look_round(h->comm, tu_clock_ns(), tu_patience_sleep_ms(h->comm, h->stall));
  h->released = ms > 0 && !tu_thread.telling;
  if (h->released) tu_leave_idle(h->comm);
  return ms;
}

/* Notes the rank for which the oldest open request waits, if there is one. Of several, one that has not started the call:
 * others may only wait for that one themselves. */
static void find_awaited(struct tutti_comm *comm, struct tu_stall *s) {
  const struct tutti_request *oldest = comm->first;
  if (!oldest) return;
  memset(comm->waits_for, 0, comm->ranks * sizeof *comm->waits_for);
  tu_execution_blockers(&oldest->execution, comm->waits_for);
  uint32_t awaited = TU_NONE;
  for (uint32_t r = 0; r < comm->ranks; r++) {
    if (!comm->waits_for[r] || r == comm->rank) continue;
    if (awaited == TU_NONE) awaited = r;
    if (oldest->number == 0 || tu_chain_has_come(comm, oldest->number, r)) continue;
    awaited = r;
    break;
  }
  if (awaited == TU_NONE) return;
  s->awaits = awaited + 1;
  s->run = oldest->execution.teller ? oldest->execution.teller->run : 0;
}

bool tu_stall(struct tutti_comm *comm, struct tu_stall *s) {
  struct holder holder = {.comm = comm, .stall = s, .finished = s->finished ? s->finished : tu_queue_finished_now()};
  if (!tu_thread.telling) tu_let_in(comm);
  if (s->since && !s->awaits && !comm->failed) find_awaited(comm, s);
  if (!tu_patience_ends(comm, s)) return false;
  /* A message on the simulated slow wire does not ring the bell when it arrives, so the thread does not sleep. */
  if (comm->pace && tu_pace_look(comm->pace)) {
    if (++s->polls % 256 == 0) (void)tu_look_round(comm, tu_clock_ns(), TU_SLEEP_MS);
    sched_yield();
    return true;
  }
  tu_mover_flush(comm->mover);
  tu_wait_sleep(comm->transport, look_and_release, &holder);
  if (holder.released) tu_regain(comm);
  return true;
}

void tu_stall_goes_on(struct tutti_comm *comm, struct tu_stall *s) {
  if (s->awaits) tu_stats_count(comm, s);
  tu_stall_moved(s);
  if (comm->mover->wired && tu_patience_looks(&s->looked_at)) (void)tu_look_round(comm, tu_clock_ns(), TU_SLEEP_MS);
}

/* ---- waits for conditions other than requests ---- */

enum tu_due tu_wait_inside(struct tutti_comm *comm, struct tu_wait *w) {
  return tu_stall(comm, &w->stall) ? tu_wait_due(w, tu_clock_ns()) : TU_GO_ON;
}
