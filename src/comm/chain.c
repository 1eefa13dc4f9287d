/* chain.c: finds the rank that blocks the others. A waiting rank publishes which ranks it waits for
 * (transport/waits.h). A rank whose time-out has passed follows the published waits from rank to rank, to the ends of
 * the chains. At the end of a chain is a rank that has not started the call, or that has started the call and does not
 * wait for any rank. That rank blocks all others of the chain. */
#include "comm/chain.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/enter.h"
#include "comm/patience.h"
#include "comm/peers.h"

/* minimum duration of a wait that is published, and minimum time between two publications of a thread, in ns */
#define TELL_NS (10 * TU_NS_PER_MS)
/* A rank that has not checked its published wait for this time, in ns, is reported. A sleeping rank checks every 100
 * ms, and a polling rank should check more often. */
#define SILENT_NS (250 * TU_NS_PER_MS)
/* maximum number of hops (rank a waits for rank b) in a printed chain, not counting the last hop */
#define CHAIN_SAID 6u

/* ---- publishing ---- */

static _Thread_local struct {
  uint64_t at;   /* time when this thread last published a wait, in ns; 0: it has published none, or its wait is over */
  uint32_t open; /* number of endpoints on which this thread's last published wait is not over */
} told __attribute__((tls_model("initial-exec")));

bool tu_chain_is_due(uint64_t now) { return now - told.at >= TELL_NS; }
bool tu_chain_is_long(uint64_t since, uint64_t now) { return tu_elapsed_ns(since, now) >= TELL_NS; }

static bool has_come(const struct tutti_comm *comm, uint64_t number, bool creates, uint32_t member) {
  if (creates) return tu_control_is_here(&comm->mover->control, member);
  return number == 0 || tu_control_latest(&comm->mover->control, member) >= number;
}

bool tu_chain_has_come(const struct tutti_comm *comm, uint64_t number, uint32_t member) {
  return has_come(comm, number, false, member);
}

void tu_chain_add(struct tu_waits *waits, const struct tutti_comm *comm, uint64_t number, uint32_t member,
                  uint16_t flags) {
  if (waits->count == TU_WAITS_ENTRIES) return;
  waits->entries[waits->count++] = (struct tu_wait_entry){
      .comm = comm->mover->control.comm_id,
      .number = (uint32_t)number,
      .rank = (uint16_t)comm->mover->control.members[member],
      .flags = (uint16_t)(flags | (has_come(comm, number, flags & TU_WAIT_CREATE, member) ? 0 : TU_WAIT_NOT_COME)),
  };
}

void tu_chain_tell(struct tu_transport *t, const struct tu_waits *waits, uint64_t now) {
  told.at = now;
  if (waits->count > 0 && tu_waits_tell(t, &tu_thread, waits)) told.open++;
}

void tu_chain_tell_members(const struct tutti_comm *comm, const bool waits_for[], bool creates, uint64_t since,
                           uint64_t now) {
  struct tu_waits waits = {.since = since, .looked = now};
  if (!tu_chain_is_long(since, now) || !tu_chain_is_due(now)) return;
  for (uint32_t p = 0; p < comm->ranks; p++)
    if (waits_for[p] && p != comm->rank) tu_chain_add(&waits, comm, 0, p, creates ? TU_WAIT_CREATE : 0);
  if (waits.count > 0) tu_chain_tell(comm->transport, &waits, now);
}

static void tell_one(const struct tutti_comm *comm, uint32_t member, uint16_t flags, uint64_t since, uint64_t now) {
  struct tu_waits waits = {.since = since, .looked = now};
  if (!tu_chain_is_long(since, now) || !tu_chain_is_due(now)) return;
  tu_chain_add(&waits, comm, 0, member, flags);
  tu_chain_tell(comm->transport, &waits, now);
}

void tu_chain_tell_one(const struct tutti_comm *comm, uint32_t member, uint64_t since, uint64_t now) {
  tell_one(comm, member, member == comm->rank ? TU_WAIT_SIGNAL : 0, since, now);
}

void tu_chain_tell_sender(const struct tutti_comm *comm, uint32_t member, uint64_t since, uint64_t now) {
  const bool any = member == TUTTI_ANY_RANK;
  tell_one(comm, any ? comm->rank : member, any ? TU_WAIT_ANY : 0, since, now);
}

void tu_chain_go_on(struct tu_transport *t) {
  if (told.open == 0 || !tu_waits_end(t, &tu_thread, tu_clock_ns())) return;
  told.open--;
  told.at = 0;
}

/* ---- following waits ---- */

/* What a waiting rank has found out about another rank. The message about an expired time-out names the ranks that
 * block the others in the order of this enum: the most certain findings first. */
enum found {
  WAITS,    /* the rank waits for other ranks */
  DEAD,     /* the rank has died or exited */
  LEFT,     /* the rank has freed the communicator */
  NOT_COME, /* the rank has not started the call */
  OUTSIDE,  /* the rank has started the call, but does not wait in the library */
  MUTE,     /* the rank runs on another host and has not answered: it does not wait in the library, or is stopped */
  INPUT,    /* the rank waits for its own program to fill in the input of a partitioned call */
  SIGNAL,   /* the rank waits for a signal */
  ANY,      /* the rank waits for a message from any rank */
  /* the rank has died or exited, but waited for other ranks until then: if one of them blocks the others, the rank may
   * have ended because of that */
  ENDED,
  SILENT, /* the rank has published a wait, but has not checked it for SILENT_NS */
  FOUNDS
};

/* What is known about one rank of the job, while this rank follows the published waits. */
struct finding {
  bool seen;
  enum found found;
  /* from: a rank that waits for the rank of this entry. next: a rank that the rank of this entry waits for. TU_NONE: no
   * such rank */
  uint32_t from, next;
  struct tu_wait_entry call; /* call in which `from` waits for the rank of this entry */
  uint64_t looked;
  /* when the rank, on another host, was asked for its waits: by the clock, and by the walk's `waited`; both in ns */
  uint64_t asked, asked_waited;
};

/* State of this rank's search along the published waits, from rank to rank. */
struct walk {
  const struct tutti_comm *comm;
  struct tu_transport *t;
  uint32_t own;        /* this rank, numbered in the job */
  uint64_t since, now; /* start of this rank's wait, and the current time, in ns */
  struct tu_poll_time waited;
  struct finding *findings;
  uint32_t *order, seen, asked; /* the first `asked` of the `seen` ranks in `order` have been asked for their waits */
  uint32_t *list;               /* temporary list: the ranks of a chain */
  bool *passed;                 /* [ranks of the job], temporary: true for each rank that the chain contains */
};

static void see(struct walk *w, uint32_t from, const struct tu_wait_entry *call) {
  struct finding *finding = &w->findings[call->rank];
  if (from != TU_NONE && w->findings[from].next == TU_NONE) w->findings[from].next = call->rank;
  if (finding->seen) return;
  *finding = (struct finding){.seen = true, .from = from, .next = TU_NONE, .call = *call};
  w->order[w->seen++] = call->rank;
}

/* Returns true if a published wait of another rank is long enough to explain why this rank waits. A wait that still
 * lasts always is. A wait that has ended is if it overlapped this rank's wait for at least half of that wait. For a
 * dead rank the end of its wait is unknown, so its last check of the wait counts as the end. */
static bool holds(const struct walk *w, const struct tu_waits *waits, bool alive) {
  if (alive && waits->until == 0) return waits->count > 0;
  uint64_t since = tu_max(waits->since, w->since), until = waits->until ? waits->until : waits->looked;
  return waits->count > 0 && until > since && until - since >= (w->now - w->since) / 2;
}

static bool is_about(const struct tu_wait_entry *e, const struct tu_wait_entry *call) {
  return call->number != 0 && e->comm == call->comm && e->number == call->number;
}

/* Returns what rank `rank` of the job does, if it has published no wait. `call`: the call in which another rank waits
 * for it. */
static enum found what_it_does(const struct walk *w, uint32_t rank, const struct tu_wait_entry *call) {
  uint32_t p =
      call->comm == w->comm->mover->control.comm_id ? tu_control_member_of(&w->comm->mover->control, rank) : TU_NONE;
  if (p == TU_NONE) return call->flags & TU_WAIT_NOT_COME ? NOT_COME : OUTSIDE;
  const struct tu_control *control = &w->comm->mover->control;
  if (tu_control_departed(control, p)) return LEFT;
  if (call->flags & TU_WAIT_CREATE) return tu_control_is_here(control, p) ? OUTSIDE : NOT_COME;
  if (call->number && (uint32_t)tu_control_latest(control, p) < call->number) return NOT_COME;
  return OUTSIDE;
}

/* Asks all ranks that have been seen for their waits, so that they answer at the same time. */
static void ask(struct walk *w) {
  for (; w->asked < w->seen; w->asked++) {
    struct finding *finding = &w->findings[w->order[w->asked]];
    finding->asked = tu_clock_ns();
    finding->asked_waited = w->waited.counted;
    tu_control_ask_waits(&w->comm->mover->control, w->order[w->asked]);
  }
}

/* Gets the waits of rank `rank`. Returns false if it runs on another host and does not answer. */
static bool get_waits(struct walk *w, uint32_t rank, struct tu_waits notes[TU_WAITS_THREADS]) {
  const struct tu_control *control = &w->comm->mover->control;
  const struct finding *finding = &w->findings[rank];
  while (!tu_control_read_waits(control, rank, finding->asked, notes)) {
    const bool failed = control->block && tu_control_failed(control); /* there is no block before all have come */
    const uint64_t now = tu_clock_ns();
    tu_waits_check(w->t, &tu_thread, now); /* this rank still waits */
    const uint64_t waited = tu_poll_time_at(&w->waited, now) - finding->asked_waited;
    if (failed || waited > TU_ANSWER_NS || !tu_control_alive_in_job(w->t, rank)) {
      memset(notes, 0, TU_WAITS_THREADS * sizeof *notes);
      return false;
    }
    sched_yield();
  }
  return true;
}

/* Finds out what rank `rank` does. Adds the ranks for which it waits to the search. finding->call is the call in which
 * another rank waits for rank `rank`. If rank `rank` waits in that call, too, only its waits in that call are followed;
 * otherwise all its waits are followed. */
static void look_at(struct walk *w, uint32_t rank) {
  struct tu_waits notes[TU_WAITS_THREADS];
  struct finding *finding = &w->findings[rank];
  const bool answers = get_waits(w, rank, notes), alive = tu_control_alive_in_job(w->t, rank);
  w->now = tu_clock_ns();
  bool waits = false, about = false;
  for (uint32_t i = 0; i < TU_WAITS_THREADS; i++) {
    if (!holds(w, &notes[i], alive)) notes[i].count = 0;
    if (notes[i].count == 0) continue;
    waits = true;
    finding->looked = tu_max(finding->looked, notes[i].until ? w->now : notes[i].looked);
    for (size_t k = 0; k < notes[i].count; k++) about |= is_about(&notes[i].entries[k], &finding->call);
  }
  if (!alive) finding->found = waits ? ENDED : DEAD;
  else if (waits) finding->found = w->now - finding->looked > SILENT_NS ? SILENT : WAITS;
  else finding->found = what_it_does(w, rank, &finding->call);
  if (finding->found == OUTSIDE && !answers) finding->found = MUTE;
  for (uint32_t i = 0; i < TU_WAITS_THREADS; i++)
    for (size_t k = 0; k < notes[i].count; k++) {
      const struct tu_wait_entry *e = &notes[i].entries[k];
      if (about && !is_about(e, &finding->call)) continue;
      if (alive && e->flags & TU_WAIT_INPUT) finding->found = INPUT;
      else if (alive && e->flags & TU_WAIT_SIGNAL) finding->found = SIGNAL;
      else if (alive && e->flags & TU_WAIT_ANY) finding->found = ANY;
      else see(w, rank, e);
    }
}

/* ---- printing ---- */

struct text {
  char *chars;
  size_t at, bytes;
};

static void print(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void print(struct text *text, const char *format, ...) {
  if (text->at >= text->bytes) return;
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text->chars + text->at, text->bytes - text->at, format, arguments);
  va_end(arguments);
  if (length > 0) text->at += (size_t)length;
}

static void print_rank(const struct walk *w, uint32_t rank, struct text *text) {
  uint32_t p = tu_control_member_of(&w->comm->mover->control, rank);
  if (p == TU_NONE) print(text, "rank %u of the world", rank);
  else print(text, "rank %u", p);
}

static void print_finding(const struct walk *w, uint32_t rank, struct text *text) {
  const struct finding *finding = &w->findings[rank];
  uint32_t p = tu_control_member_of(&w->comm->mover->control, rank);
  bool ours = p != TU_NONE && finding->call.comm == w->comm->mover->control.comm_id;
  char last[280] = "";
  if (p != TU_NONE) tu_print_last_call(w->comm, p, last, sizeof last);
  print_rank(w, rank, text);
  switch (finding->found) {
    case DEAD: print(text, " (has died or exited)"); return;
    case LEFT: print(text, " (has freed the communicator)"); return;
    case ENDED: print(text, " (has died or exited; it waited in tutti until then)"); return;
    case NOT_COME:
      if (ours) print(text, " (has not started this call; %s)", last);
      else print(text, " (has not started a call of another communicator)");
      return;
    case OUTSIDE:
      if (ours && finding->call.number) print(text, " (has started this call, but does not wait in tutti)");
      else print(text, " (does not wait in tutti%s%s)", last[0] ? "; " : "", last);
      return;
    case MUTE: print(text, " (runs on another host, and does not answer; %s)", last); return;
    case INPUT: print(text, " (waits for its own program to fill in the input)"); return;
    case SIGNAL: print(text, " (waits for a signal)"); return;
    case ANY: print(text, " (waits for a message from any rank)"); return;
    case SILENT:
      print(text, " (waits in tutti, but its last check was %u ms ago)",
            (unsigned)((w->now - finding->looked) / TU_NS_PER_MS));
      return;
    default: print(text, " (%s)", last[0] ? last : "waits"); return;
  }
}

/* Prints a chain of waits, for example "rank 3 waits for rank 2, rank 2 for rank 1". */
static void print_chain(const struct walk *w, const uint32_t *ranks, uint32_t count, struct text *text) {
  for (uint32_t i = 0; i + 1 < count; i++) {
    if (i == CHAIN_SAID && count > CHAIN_SAID + 2) {
      print(text, ", and so on");
      i = count - 2;
    }
    print(text, i == 0 ? "; " : ", ");
    print_rank(w, ranks[i], text);
    print(text, i == 0 ? " waits for " : " for ");
    print_rank(w, ranks[i + 1], text);
  }
}

/* Prints the chain of waits that leads from this rank to `rank`. */
static void print_way(const struct walk *w, uint32_t rank, struct text *text) {
  uint32_t count = 1, *ranks = w->list;
  for (uint32_t r = rank; w->findings[r].from != TU_NONE; r = w->findings[r].from) count++;
  ranks[0] = w->own;
  for (uint32_t r = rank, i = count; r != TU_NONE; r = w->findings[r].from) ranks[i--] = r;
  if (count > 1) print_chain(w, ranks, count + 1, text);
}

/* Prints a cycle of ranks that wait for each other, so that no single rank blocks the others. */
static void print_circle(const struct walk *w, uint32_t first, struct text *text) {
  uint32_t count = 0, *ranks = w->list, own = w->own;
  ranks[count++] = own;
  for (uint32_t r = first; r != TU_NONE; r = w->findings[r].next) {
    ranks[count++] = r;
    if (w->passed[r] || r == own) break;
    w->passed[r] = true;
  }
  print_finding(w, first, text);
  print(text, "; they wait for each other");
  print_chain(w, ranks, count, text);
}

static void print_blamed(const struct walk *w, struct text *text) {
  uint32_t blamed = 0, first = TU_NONE;
  for (enum found found = DEAD; found < FOUNDS; found++)
    for (uint32_t i = 0; i < w->seen; i++) {
      uint32_t rank = w->order[i];
      if (w->findings[rank].found != found || rank == w->own) continue;
      if (first == TU_NONE) first = rank;
      if (blamed++ > 0) print(text, ", ");
      print_finding(w, rank, text);
    }
  if (first != TU_NONE) print_way(w, first, text);
  else print_circle(w, w->order[0], text);
}

bool tu_chain_print(const struct tutti_comm *comm, const struct tu_chain_wait *wait, char *chars, size_t bytes) {
  struct tu_waits waits = {0};
  struct text text = {.chars = chars, .bytes = bytes};
  struct walk w = {.comm = comm, .t = comm->transport, .since = wait->since, .now = tu_clock_ns()};
  const uint32_t ranks = tu_transport_job_ranks(w.t);
  w.own = tu_transport_job_rank(w.t);
  w.findings = tu_try_allocate(ranks, sizeof *w.findings);
  w.order = tu_try_allocate(ranks, sizeof *w.order);
  w.list = tu_try_allocate((size_t)ranks + 2, sizeof *w.list);
  w.passed = tu_try_allocate(ranks, sizeof *w.passed);
  bool memory = w.findings && w.order && w.list && w.passed;
  for (uint32_t p = 0; memory && p < comm->ranks; p++) {
    if ((wait->members ? !wait->members[p] : p != wait->member) || p == comm->rank) continue;
    waits.count = 0;
    tu_chain_add(&waits, comm, wait->number, p, wait->creates ? TU_WAIT_CREATE : 0);
    see(&w, TU_NONE, &waits.entries[0]);
  }
  for (uint32_t i = 0; i < w.seen; i++) {
    ask(&w);
    if (w.order[i] != w.own) look_at(&w, w.order[i]);
  }
  if (w.seen > 0) print_blamed(&w, &text);
  free(w.findings);
  free(w.order);
  free(w.list);
  free(w.passed);
  return w.seen > 0;
}
