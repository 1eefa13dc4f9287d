/* diagnosis.c: what a rank that stalls finds out: is there a verdict, do two ranks make different calls under one number, has a
 * peer died, is the time over? The first to find one posts it as the communicator's verdict, with a sentence. */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "api/comm.h"

#define ANSWER_NS 200000000u /* a peer that waits in tutti answers sooner */

/* ---- sentences ---- */

static void print_call(const struct tutti_request *r, char *text, size_t bytes) {
  char call[200];
  tu_facts_print(&r->facts, call, sizeof call);
  if (r->number) snprintf(text, bytes, "collective %llu, %s", (unsigned long long)r->number, call);
  else snprintf(text, bytes, "%s, peer %u, tag %u", call, r->signature.root, r->tag);
}

void tu_print_last_call(const struct tutti_comm *comm, uint32_t peer, char *text, size_t bytes) {
  const struct tu_control *control = &comm->mover->control;
  uint64_t latest = tu_control_latest(control, peer), words[TU_BOARD_WORDS];
  struct tu_call_facts facts;
  char call[200];
  if (latest == 0) {
    snprintf(text, bytes, "has started no collective yet");
  } else if (tu_control_call(control, peer, latest, words)) {
    memcpy(&facts, words, sizeof facts);
    tu_facts_print(&facts, call, sizeof call);
    snprintf(text, bytes, "its last is collective %llu, %s", (unsigned long long)latest, call);
  } else {
    snprintf(text, bytes, "on its way past collective %llu", (unsigned long long)latest);
  }
}

/* What a peer's board says that it is in. */
static void print_state(const struct tutti_comm *comm, uint32_t peer, char *text, size_t bytes) {
  char last[280] = "has freed the communicator";
  if (!tu_control_departed(&comm->mover->control, peer)) tu_print_last_call(comm, peer, last, sizeof last);
  snprintf(text, bytes, "rank %u (%s)", peer, last);
}

static void note_blockers(const struct tutti_request *r) {
  memset(r->comm->waits_for, 0, r->comm->ranks * sizeof *r->comm->waits_for);
  tu_execution_blockers(&r->execution, r->comm->waits_for);
}

/* Whom it waits for; if it waits for earlier calls of this rank, as messages of these go first, then whom they wait for. */
static void mark_blockers(const struct tutti_request *r) {
  struct tutti_comm *comm = r->comm;
  bool any = false;
  note_blockers(r);
  for (const struct tutti_request *q = r; q && !any; q = q->previous) {
    if (q->comm == comm) tu_execution_blockers(&q->execution, comm->waits_for);
    for (uint32_t p = 0; p < comm->ranks; p++) any |= comm->waits_for[p];
  }
}

/* Who is missing: those that do not move come first. */
static void print_waited_for(const struct tutti_request *r, char *text, size_t bytes) {
  struct tutti_comm *comm = r->comm;
  mark_blockers(r);
  const struct tu_chain_wait wait = {.members = comm->waits_for, .number = r->number, .since = r->stalled_since};
  bool others = tu_chain_print(comm, &wait, text, bytes);
  size_t at = others ? strlen(text) : 0, element;
  if (at < bytes && tu_request_lacks_input(r, &element))
    at += (size_t)snprintf(text + at, bytes - at, "%sits caller to fill in element %zu of the input", at ? "; " : "",
                           element);
  if (at == 0) snprintf(text, bytes, "its own earlier calls");
}

/* ---- looking round ---- */

static bool read_facts(const struct tutti_comm *comm, uint32_t rank, uint64_t number, struct tu_call_facts *facts) {
  uint64_t words[TU_BOARD_WORDS];
  if (!tu_control_call(&comm->mover->control, rank, number, words)) return false;
  memcpy(facts, words, sizeof *facts);
  return true;
}

/* Do any two ranks mean different calls by this number, as far as their boards still, or already, show it? Of many ranks those
 * are compared that are looked at in turn. */
static bool disagree_about(struct tutti_comm *comm, uint64_t number) {
  struct tu_call_facts first, other;
  uint32_t ranks = (uint32_t)tu_min(comm->ranks, TU_LOOKED_RANKS), begin = ranks < comm->ranks ? comm->looked : 0;
  uint32_t a = 0;
  while (a < ranks && !read_facts(comm, (begin + a) % comm->ranks, number, &first)) a++;
  if (a == ranks) return false;
  a = (begin + a) % comm->ranks;
  for (uint32_t i = 0; i < ranks; i++) {
    uint32_t b = (begin + i) % comm->ranks;
    if (b == a || !read_facts(comm, b, number, &other) || other.hash == first.hash) continue;
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

/* What a rank of another host is in is asked for, and it answers when it waits: so not for long. */
static void learn_call(struct tutti_comm *comm, uint32_t peer, uint64_t number) {
  struct tu_call_facts facts;
  const uint64_t end = tu_clock_ns() + ANSWER_NS;
  if (!comm->mover->control.remote || number == 0) return;
  memset(comm->waits_for, 0, comm->ranks * sizeof *comm->waits_for);
  comm->waits_for[peer] = true;
  tu_control_ask(&comm->mover->control, comm->waits_for, number);
  while (!read_facts(comm, peer, number, &facts) && !tu_comm_failed_by_now(comm) && tu_clock_ns() < end) sched_yield();
}

void tu_fail_mismatch(struct tutti_request *r) {
  const struct tu_execution *e = &r->execution;
  uint64_t theirs = r->number ? e->mismatch_tag >> 32 : 0;
  learn_call(r->comm, e->mismatch_peer, r->number);
  if (r->number && (disagree_about(r->comm, r->number) || disagree_about(r->comm, theirs))) return;
  char call[280], state[300];
  struct tu_error error;
  print_call(r, call, sizeof call);
  print_state(r->comm, e->mismatch_peer, state, sizeof state);
  if (e->no_memory)
    tu_fail(
        &error, TUTTI_ERR_MEMORY,
        "rank %u, in %s, has no memory for a message of %llu bytes from rank %u, tag %u, that it must set aside: it "
        "came before its receive; receive in the order of the sends, or free memory",
        r->comm->rank, call, (unsigned long long)e->mismatch_bytes, e->mismatch_peer, (uint32_t)e->mismatch_tag);
  else if (e->mismatch_tag == e->tag)
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

static void look_whether_departed(const struct tutti_comm *comm, uint32_t p) {
  comm->departed[p] = tu_control_departed(&comm->mover->control, p) ? TU_HAS_DEPARTED : TU_IS_HERE;
}

void tu_note_departed(struct tutti_comm *comm) {
  memset(comm->departed, TU_NOT_LOOKED_AT, comm->ranks * sizeof *comm->departed);
  comm->looked = (comm->looked + TU_LOOKED_RANKS) % comm->ranks;
  for (uint32_t i = 0; i < tu_min(comm->ranks, TU_LOOKED_RANKS); i++)
    look_whether_departed(comm, (comm->looked + i) % comm->ranks);
  for (uint32_t p = 0; p < comm->ranks; p++)
    if (comm->waits_for[p]) look_whether_departed(comm, p);
}

bool tu_peer_died(const struct tutti_comm *comm, uint32_t p, const char *doing, struct tu_error *error) {
  char state[300];
  if (tu_control_missed(&comm->mover->control, p)) {
    tu_fail(error, TUTTI_ERR_PEER,
            "rank %u could not make its side of the communicator when it was split off, or duplicated; rank %u found "
            "that out while in %s",
            p, comm->rank, doing);
    return true;
  }
  if (tu_control_alive(&comm->mover->control, p)) return false;
  if (tu_control_departed(&comm->mover->control, p)) return false; /* it left in order just now */
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
    if (comm->departed[p] == TU_HAS_DEPARTED && comm->waits_for[p]) return tu_peer_left(comm, p, doing, error);
    if (comm->departed[p] == TU_IS_HERE && tu_peer_died(comm, p, doing, error)) return true;
  }
  return false;
}

static bool peers_lost(struct tutti_request *r) {
  char call[280];
  struct tu_error error;
  struct tutti_comm *comm = r->comm;
  note_blockers(r);
  tu_note_departed(comm);
  tu_control_ask(&comm->mover->control, comm->waits_for, r->number);
  tu_execution_poll(&r->execution);
  if (r->execution.unfinished == 0 || r->execution.mismatch) return false; /* the next poll of the queue ends it */
  note_blockers(r);
  print_call(r, call, sizeof call);
  if (!tu_peer_lost(comm, call, &error)) return false;
  tu_comm_fail(comm, &error);
  return true;
}

static bool too_late(struct tutti_request *r, uint64_t now) {
  if (r->timeout_ms <= 0 || tu_elapsed_ns(r->stalled_since, now) < (uint64_t)r->timeout_ms * TU_NS_PER_MS) return false;
  if (peers_lost(r)) return true;
  if (r->execution.unfinished == 0 || r->execution.mismatch) return false; /* it has just come: the next poll ends it */
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
  if (r->number && disagree_about(r->comm, r->number)) return;
  if (r->stalled_since == 0) r->stalled_since = now;
  if (too_late(r, now) || tu_elapsed_ns(r->looked_at, now) < TU_LOOK_NS) return;
  r->looked_at = now;
  (void)peers_lost(r);
}

struct round {
  uint64_t now;
  int ms; /* until something is to be looked at again */
};

static void look_round_at(struct tutti_comm *comm, void *context) {
  struct round *round = context;
  for (struct tutti_request *r = comm->first; r; r = r->next) {
    look_round_for(r, round->now);
    if (comm->failed) round->ms = 0;
    if (r->timeout_ms <= 0 || r->stalled_since == 0) continue;
    int64_t left = r->timeout_ms - (int64_t)(tu_elapsed_ns(r->stalled_since, round->now) / TU_NS_PER_MS);
    if (left < round->ms) round->ms = left > 0 ? (int)left : 1;
  }
}

int tu_look_round(struct tutti_comm *comm, uint64_t now, int ms_max) {
  struct round round = {.now = now, .ms = ms_max};
  tu_queue_visit(comm, look_round_at, &round);
  tu_chain_tell(comm, now);
  return round.ms;
}
