/* mismatch.c: reports ranks whose calls differ although they have the same sequence number, and messages that do not
 * match the call that receives them. */
#include "call/mismatch.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "comm/failure.h"
#include "comm/patience.h"
#include "comm/peers.h"

static void print_number(uint32_t number, uint32_t any, char *text, size_t bytes) {
  if (number == any) snprintf(text, bytes, "any");
  else snprintf(text, bytes, "%u", number);
}

void tu_print_peer_and_tag(const char *call, uint32_t peer, uint32_t tag, char *text, size_t bytes) {
  char peer_text[16], tag_text[16];
  print_number(peer, TUTTI_ANY_RANK, peer_text, sizeof peer_text);
  print_number(tag, TUTTI_ANY_TAG, tag_text, sizeof tag_text);
  snprintf(text, bytes, "%s, peer %s, tag %s", call, peer_text, tag_text);
}

void tu_print_call(const struct tutti_request *r, char *text, size_t bytes) {
  char call[200];
  tu_facts_print(r->comm, &r->facts, call, sizeof call);
  if (r->number) snprintf(text, bytes, "collective %llu, %s", (unsigned long long)r->number, call);
  else tu_print_peer_and_tag(call, r->signature.root, r->tag, text, bytes);
}

static bool read_facts(const struct tutti_comm *comm, uint32_t rank, uint64_t number, struct tu_call_facts *facts) {
  uint64_t words[TU_BOARD_WORDS];
  if (!tu_control_call(&comm->mover->control, rank, number, words)) return false;
  memcpy(facts, words, sizeof *facts);
  return true;
}

/* Compares the calls with this sequence number that the ranks have published on their boards. A rank is skipped if its
 * board does not show this call yet, or no longer shows it. One call of this function compares at most TU_LOOKED_RANKS
 * ranks. */
bool tu_find_disagreement(struct tutti_comm *comm, uint64_t number) {
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
    tu_facts_print(comm, &first, first_call, sizeof first_call);
    tu_facts_print(comm, &other, other_call, sizeof other_call);
    tu_fail(
        &error, TUTTI_ERR_MISMATCH,
        "collective %llu of the communicator: rank %u called %s, but rank %u called %s; all ranks must make the same "
        "calls in the same order",
        (unsigned long long)number, a, first_call, b, other_call);
    tu_comm_fail(comm, &error);
    return true;
  }
  return false;
}

/* Asks a rank of another host for its call with that sequence number, and waits for the answer. The other rank answers
 * only while it waits in tutti, so the wait for the answer is limited to TU_ANSWER_NS. */
static void learn_call(struct tutti_comm *comm, uint32_t peer, uint64_t number) {
  struct tu_call_facts facts;
  struct tu_poll_time waited = {0};
  if (!comm->mover->control.remote || number == 0) return;
  memset(comm->waits_for, 0, comm->ranks * sizeof *comm->waits_for);
  comm->waits_for[peer] = true;
  tu_control_ask(&comm->mover->control, comm->waits_for, number, true);
  while (!read_facts(comm, peer, number, &facts) && !tu_comm_failed_by_now(comm) &&
         tu_poll_time_at(&waited, tu_clock_ns()) < TU_ANSWER_NS)
    sched_yield();
}

void tu_fail_mismatch(struct tutti_request *r) {
  const struct tu_execution *e = &r->execution;
  uint64_t theirs = r->number ? e->mismatch_tag >> 32 : 0;
  learn_call(r->comm, e->mismatch_peer, r->number);
  if (r->number && (tu_find_disagreement(r->comm, r->number) || tu_find_disagreement(r->comm, theirs))) return;
  char call[280], state[300];
  struct tu_error error;
  tu_print_call(r, call, sizeof call);
  tu_print_peer(r->comm, e->mismatch_peer, state, sizeof state);
  if (e->no_memory)
    tu_fail(
        &error, TUTTI_ERR_MEMORY,
        "rank %u in %s: out of memory for a copy of a message of %llu bytes from rank %u, tag %u, which arrived before "
        "its receive was started; receive in the order of the sends, or free memory",
        r->comm->rank, call, (unsigned long long)e->mismatch_bytes, e->mismatch_peer, (uint32_t)e->mismatch_tag);
  else if (e->unread)
    tu_fail(
        &error, TUTTI_ERR_SYSTEM,
        "rank %u in %s: cannot read %llu bytes of the memory of rank %u: %s; it could when the ranks joined, so the "
        "program of rank %u must not forbid it later (prctl, PR_SET_DUMPABLE), nor unmap a buffer that is being sent",
        r->comm->rank, call, (unsigned long long)e->mismatch_bytes, e->mismatch_peer, strerror(e->unread),
        e->mismatch_peer);
  else if (e->mismatch_tag == e->tag)
    tu_fail(&error, TUTTI_ERR_MISMATCH,
            "rank %u sends %llu bytes where rank %u expects %llu, in %s; the counts must match", e->mismatch_peer,
            (unsigned long long)e->mismatch_bytes, r->comm->rank, (unsigned long long)e->expected_bytes, call);
  else if (r->program->point_to_point)
    tu_fail(&error, TUTTI_ERR_MISMATCH,
            "rank %u sends over %u lanes where rank %u expects %u, in %s; both must use the same number of lanes",
            e->mismatch_peer, tu_p2p_lanes(e->mismatch_tag), r->comm->rank, tu_p2p_lanes(e->tag), call);
  else
    tu_fail(&error, TUTTI_ERR_MISMATCH,
            "rank %u in %s received a message of another call (collective %llu) from %s; all ranks must make the same "
            "calls in "
            "the same order",
            r->comm->rank, call, (unsigned long long)theirs, state);
  tu_comm_fail(r->comm, &error);
}
