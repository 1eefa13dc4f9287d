/* look.c: the checks of a stalled rank. The rank looks for a verdict (the communicator's first failure), for dead
 * peers, and for time-outs that have passed. It also compares the calls of the ranks: calls with the same sequence
 * number must be equal. The first rank that finds a failure makes it the communicator's verdict, with a message. */
#include "call/look.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "call/mismatch.h"
#include "call/partition.h"
#include "call/trace.h"
#include "comm/chain.h"
#include "comm/failure.h"
#include "comm/peers.h"

#define SLOW_NS UINT64_C(1000000000) /* a call without progress for so long is logged */

/* ---- messages ---- */

static void note_blockers(const struct tutti_request *r) {
  memset(r->comm->waits_for, 0, r->comm->ranks * sizeof *r->comm->waits_for);
  tu_execution_blockers(&r->execution, r->comm->waits_for);
}

/* Marks in comm->waits_for the ranks that the request waits for. If the request waits only for earlier calls of this
 * rank, because their messages go first, marks the ranks that those calls wait for. */
static void mark_blockers(const struct tutti_request *r) {
  struct tutti_comm *comm = r->comm;
  bool any = false;
  note_blockers(r);
  for (const struct tutti_request *q = r; q && !any; q = q->previous) {
    if (q->comm == comm) tu_execution_blockers(&q->execution, comm->waits_for);
    for (uint32_t p = 0; p < comm->ranks; p++) any |= comm->waits_for[p];
  }
}

/* Prints the ranks that the request waits for. Ranks that block others are printed first. */
static void print_waited_for(const struct tutti_request *r, char *text, size_t bytes) {
  struct tutti_comm *comm = r->comm;
  if (tu_execution_waits_for_any(&r->execution)) {
    snprintf(text, bytes, "a message from any rank");
    return;
  }
  mark_blockers(r);
  const struct tu_chain_wait wait = {.members = comm->waits_for, .number = r->number, .since = r->stalled_since};
  bool others = tu_chain_print(comm, &wait, text, bytes);
  size_t at = others ? strlen(text) : 0, element;
  if (at < bytes && tu_request_lacks_input(r, &element))
    at += (size_t)snprintf(text + at, bytes - at, "%sits own program to fill in element %zu of the input",
                           at ? "; " : "", element);
  if (at == 0) snprintf(text, bytes, "its own earlier calls");
}

/* ---- checks ---- */

/* Polls the request once more, after the earlier ones of the communicator, whose messages may have arrived before its own.
 * Returns true if one of them advances, or if the request has nothing more to wait for. */
static bool goes_on(struct tutti_request *r) {
  for (struct tutti_request *q = r->previous; q; q = q->previous)
    if (q->execution.unfinished > 0 && tu_poll_execution(&q->execution)) return true;
  return tu_poll_execution(&r->execution) || r->execution.unfinished == 0 || r->execution.mismatch;
}

/* Returns true and sets *error if a rank for which the request waits is lost. */
static bool find_lost(struct tutti_request *r, const char *call, struct tu_error *error) {
  const bool any = tu_execution_waits_for_any(&r->execution);
  note_blockers(r);
  if (any) tu_watch_others(r->comm, true);
  return tu_peer_lost(r->comm, call, error) || (any && tu_others_left(r->comm, call, error));
}

static bool peers_lost(struct tutti_request *r) {
  char call[280];
  struct tu_error error;
  struct tutti_comm *comm = r->comm;
  note_blockers(r);
  tu_note_departed(comm);
  if (tu_execution_waits_for_any(&r->execution)) tu_watch_others(comm, false);
  tu_control_ask(&comm->mover->control, comm->waits_for, r->number, false);
  if (!tu_execution_waits_for_any(&r->execution) && !tu_peer_may_be_lost(comm)) return false;
  /* Report no rank as lost while messages still arrive, because a lost rank may have sent them before it left. If this
   * poll has completed the request, or has found a mismatch, the next poll of the queue ends the request. */
  if (goes_on(r)) return false;
  tu_print_call(r, call, sizeof call);
  /* The rank may have sent its last message between that poll and its end. */
  if (!find_lost(r, call, &error) || goes_on(r)) return false;
  tu_comm_fail(comm, &error);
  return true;
}

void (*tu_when_late)(struct tu_transport *t);

static bool too_late(struct tutti_request *r, uint64_t now) {
  if (r->timeout_ms <= 0 || tu_elapsed_ns(r->stalled_since, now) < (uint64_t)r->timeout_ms * TU_NS_PER_MS) return false;
  if (peers_lost(r)) return true;
  (void)goes_on(r);
  /* Not too late: the missing data (or a message that does not match) has just arrived. The next poll ends the
   * request. */
  if (r->execution.unfinished == 0 || r->execution.mismatch) return false;
  char call[280], waited_for[600];
  struct tu_error error;
  if (tu_when_late) tu_when_late(r->comm->transport);
  tu_print_call(r, call, sizeof call);
  print_waited_for(r, waited_for, sizeof waited_for);
  tu_fail(&error, TUTTI_ERR_TIMEOUT, "rank %u has waited %d ms in %s for %s", r->comm->rank, r->timeout_ms, call,
          waited_for);
  tu_comm_fail(r->comm, &error);
  return true;
}

struct round {
  uint64_t now;
  const struct tu_transport *waits; /* endpoint of the rank that waits; NULL: none does */
  bool limits;                      /* true: time limits run in the communicator that is checked */
  int ms;                           /* time until the next check is due, in ms */
};

/* Logs a call that has made no progress for SLOW_NS. */
static void log_slow(struct tutti_request *r, uint64_t now) {
  char call[280], waited_for[600];
  if (r->slow || r->stalled_since == 0 || tu_elapsed_ns(r->stalled_since, now) < SLOW_NS) return;
  r->slow = true;
  tu_print_call(r, call, sizeof call);
  print_waited_for(r, waited_for, sizeof waited_for);
  tu_log(TU_LOG_WARN, "slow", "has waited %.1f s in %s for %s", (double)tu_elapsed_ns(r->stalled_since, now) * 1e-9,
         call, waited_for);
}

static void look_round_for(struct tutti_request *r, const struct round *round) {
  const uint64_t now = round->now;
  if (r->comm->failed || tu_comm_failed(r->comm)) return;
  if (r->number && tu_find_disagreement(r->comm, r->number)) return;
  if (round->limits && r->stalled_since == 0) r->stalled_since = now;
  const uint32_t losses = tu_transport_losses(r->comm->transport);
  if ((round->limits && too_late(r, now)) || (tu_elapsed_ns(r->looked_at, now) < TU_LOOK_NS && losses == r->losses))
    return;
  r->looked_at = now;
  r->losses = losses;
  if (tu_logs(TU_LOG_WARN) && round->limits) log_slow(r, now);
  (void)peers_lost(r);
}

static void look_round_at(struct tutti_comm *comm, void *context) {
  struct round *round = context;
  /* The time limits of another rank in this process run while that rank itself waits. If its time-out passed here, this
   * thread would ask other hosts for their waits, for up to 200 ms, and would not answer for its own rank meanwhile. */
  round->limits = comm->transport == round->waits;
  /* A message on the simulated wire rings no bell. A thread of the program that waits knows that, and does not sleep. */
  if (!round->waits && comm->pace && round->ms > 1) round->ms = 1;
  for (struct tutti_request *r = comm->first; r; r = r->next) {
    look_round_for(r, round);
    if (comm->failed) round->ms = 0;
    if (!round->limits || r->timeout_ms <= 0 || r->stalled_since == 0) continue;
    int64_t left = r->timeout_ms - (int64_t)(tu_elapsed_ns(r->stalled_since, round->now) / TU_NS_PER_MS);
    if (left < round->ms) round->ms = left > 0 ? (int)left : 1;
  }
}

/* ---- publishing waits ---- */

static void add_request(struct tu_waits *waits, struct tutti_request *r) {
  struct tutti_comm *comm = r->comm;
  size_t element;
  note_blockers(r);
  /* There may be more ranks than the list can hold. So first add the ranks that have not started the call (come is 0),
   * then the others (come is 1). */
  for (uint32_t come = 0; come < 2; come++)
    for (uint32_t p = 0; p < comm->ranks; p++)
      if (comm->waits_for[p] && tu_chain_has_come(comm, r->number, p) == (come == 1))
        tu_chain_add(waits, comm, r->number, p, 0);
  if (tu_request_lacks_input(r, &element)) tu_chain_add(waits, comm, r->number, comm->rank, TU_WAIT_INPUT);
  if (tu_execution_waits_for_any(&r->execution)) tu_chain_add(waits, comm, r->number, comm->rank, TU_WAIT_ANY);
}

/* The waits of all requests that this thread advances, while they are collected for publication. */
struct telling {
  struct tu_transport *t;
  struct tu_waits waits;
  uint64_t now;
  bool is_long; /* true: one of the requests has waited long enough for its wait to be published */
};

static void add_open(struct tutti_comm *comm, void *context) {
  struct telling *telling = context;
  /* Skip a communicator of another endpoint. Skip also a communicator that has just failed: its waits were published
   * before and stay published, because other ranks may be about to read them. */
  if (comm->transport != telling->t || comm->failed) return;
  for (struct tutti_request *r = comm->first; r && telling->waits.count < TU_WAITS_ENTRIES; r = r->next) {
    telling->is_long |= r->stalled_since != 0 && tu_chain_is_long(r->stalled_since, telling->now);
    if (r->stalled_since && r->stalled_since < telling->waits.since) telling->waits.since = r->stalled_since;
    add_request(&telling->waits, r);
  }
}

/* Publishes which ranks this thread waits for in all requests that it advances. Does nothing if no request has waited
 * for at least 10 ms. */
static void tell(struct tutti_comm *comm, uint64_t now) {
  struct telling telling = {.t = comm->transport, .waits = {.since = now, .looked = now}, .now = now};
  if (!tu_chain_is_due(now)) return;
  tu_queue_visit(comm, add_open, &telling);
  if (telling.is_long) tu_chain_tell(comm->transport, &telling.waits, now);
}

int tu_look_round(struct tutti_comm *comm, uint64_t now, int ms_max) {
  struct round round = {.now = now, .waits = comm ? comm->transport : NULL, .ms = ms_max};
  tu_queue_visit(comm, look_round_at, &round);
  if (comm) tell(comm, now);
  return round.ms;
}
