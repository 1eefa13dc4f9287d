/* chain.c: who does not move? A rank that waits in vain tells whom it waits for (transport/waits.h). One whose time is over
 * follows what the others told, from rank to rank, to the ends: those that have not come, or have come and do not wait
 * themselves. These are to blame, and not the neighbour that waits for them as well. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/comm.h"

#define TELL_NS (10 * TU_NS_PER_MS)    /* waits that are shorter are not told; the others at most so often */
#define SILENT_NS (250 * TU_NS_PER_MS) /* a rank that waits looks every 100 ms, and one that polls should */
#define CHAIN_SAID 6u                  /* hops of a chain in a sentence, at most, and the last one */

/* ---- telling ---- */

static _Thread_local struct {
  uint64_t at; /* when this thread told last; 0: nothing that it still waits for */
} told __attribute__((tls_model("initial-exec")));

static bool has_come(const struct tutti_comm *comm, uint64_t number, bool creates, uint32_t member) {
  if (creates) return tu_control_is_here(&comm->mover->control, member);
  return number == 0 || tu_control_latest(&comm->mover->control, member) >= number;
}

static void add_entry(struct tu_waits *waits, const struct tutti_comm *comm, uint64_t number, uint32_t member,
                      uint16_t flags) {
  if (waits->count == TU_WAITS_ENTRIES) return;
  waits->entries[waits->count++] = (struct tu_wait_entry){
      .comm = comm->mover->control.session,
      .number = (uint32_t)number,
      .rank = (uint16_t)comm->mover->control.members[member],
      .flags = (uint16_t)(flags | (has_come(comm, number, flags & TU_WAIT_CREATE, member) ? 0 : TU_WAIT_NOT_COME)),
  };
}

static void add_request(struct tu_waits *waits, struct tutti_request *r) {
  struct tutti_comm *comm = r->comm;
  size_t element;
  memset(comm->waits_for, 0, comm->ranks * sizeof *comm->waits_for);
  tu_execution_blockers(&r->execution, comm->waits_for);
  /* Those that have not come first: there may be no room for all. */
  for (uint32_t come = 0; come < 2; come++)
    for (uint32_t p = 0; p < comm->ranks; p++)
      if (comm->waits_for[p] && has_come(comm, r->number, false, p) == (come == 1))
        add_entry(waits, comm, r->number, p, 0);
  if (tu_request_lacks_input(r, &element)) add_entry(waits, comm, r->number, comm->rank, TU_WAIT_INPUT);
}

/* What is told of all that this thread moves on. */
struct telling {
  struct tu_transport *t;
  struct tu_waits waits;
  uint64_t now;
  bool is_time; /* something has taken long */
};

static void add_open(struct tutti_comm *comm, void *context) {
  struct telling *telling = context;
  /* Of a communicator that has just failed, what was told stays: others may be about to ask. */
  if (comm->transport != telling->t || comm->failed) return;
  for (struct tutti_request *r = comm->first; r && telling->waits.count < TU_WAITS_ENTRIES; r = r->next) {
    telling->is_time |= r->stalled_since != 0 && tu_elapsed_ns(r->stalled_since, telling->now) >= TELL_NS;
    if (r->stalled_since && r->stalled_since < telling->waits.since) telling->waits.since = r->stalled_since;
    add_request(&telling->waits, r);
  }
}

void tu_chain_tell(struct tutti_comm *comm, uint64_t now) {
  struct telling telling = {.t = comm->transport, .waits = {.since = now, .looked = now}, .now = now};
  if (now - told.at < TELL_NS) return;
  tu_queue_visit(comm, add_open, &telling);
  if (!telling.is_time) return;
  told.at = now;
  if (telling.waits.count > 0) tu_waits_tell(comm->transport, &tu_thread, &telling.waits);
}

static bool is_time_to_tell(uint64_t since, uint64_t now) {
  if (now - since < TELL_NS || now - told.at < TELL_NS) return false;
  told.at = now;
  return true;
}

void tu_chain_tell_members(const struct tutti_comm *comm, const bool waits_for[], bool creates, uint64_t since,
                           uint64_t now) {
  struct tu_waits waits = {.since = since, .looked = now};
  for (uint32_t p = 0; p < comm->ranks; p++)
    if (waits_for[p] && p != comm->rank) add_entry(&waits, comm, 0, p, creates ? TU_WAIT_CREATE : 0);
  if (waits.count > 0 && is_time_to_tell(since, now)) tu_waits_tell(comm->transport, &tu_thread, &waits);
}

void tu_chain_tell_one(const struct tutti_comm *comm, uint32_t member, uint64_t since, uint64_t now) {
  struct tu_waits waits = {.since = since, .looked = now};
  if (!is_time_to_tell(since, now)) return;
  add_entry(&waits, comm, 0, member, member == comm->rank ? TU_WAIT_SIGNAL : 0);
  tu_waits_tell(comm->transport, &tu_thread, &waits);
}

void tu_chain_go_on(struct tu_transport *t) {
  if (told.at == 0) return;
  told.at = 0;
  tu_waits_end(t, &tu_thread, tu_clock_ns());
}

/* ---- following ---- */

/* What a rank is found to do; of those to blame, the surest are named first. */
enum found {
  WAITS, /* for others */
  DEAD,
  LEFT, /* has freed the communicator */
  NOT_COME,
  ENDED,   /* is dead, too, but had waited for others until then */
  OUTSIDE, /* has come, and does not wait */
  INPUT,   /* waits for its caller */
  SIGNAL,  /* waits for a signal */
  AWAY,    /* has come, on another host: of those it is not known whom they wait for */
  SILENT,  /* has told what it waits for, and not looked for it since */
  FOUNDS
};

#define NONE UINT32_MAX

/* What is known of a rank of the job. */
struct place {
  bool seen;
  enum found found;
  uint32_t from, next;       /* a rank that waits for this one, and one that this one waits for, or NONE */
  struct tu_wait_entry call; /* in which `from` waits for it */
  uint64_t looked;
};

struct walk {
  const struct tutti_comm *comm;
  struct tu_transport *t;
  uint32_t own;        /* the asker */
  uint64_t since, now; /* it has waited from then to then */
  struct place *places;
  uint32_t *order, seen;
  uint32_t *list; /* scratch: a chain of ranks */
  bool *passed;   /* ... those that are in it */
};

static uint32_t member_of(const struct tutti_comm *comm, uint32_t rank) {
  for (uint32_t p = 0; p < comm->ranks; p++)
    if (comm->mover->control.members[p] == rank) return p;
  return NONE;
}

static void see(struct walk *w, uint32_t from, const struct tu_wait_entry *call) {
  struct place *place = &w->places[call->rank];
  if (from != NONE && w->places[from].next == NONE) w->places[from].next = call->rank;
  if (place->seen) return;
  *place = (struct place){.seen = true, .from = from, .next = NONE, .call = *call};
  w->order[w->seen++] = call->rank;
}

/* Does it wait still, or has it until now, for most of the time that the asker has waited? Of a dead one, no one says when it
 * went on. */
static bool holds(const struct walk *w, const struct tu_waits *waits, bool alive) {
  if (alive && waits->until == 0) return waits->count > 0;
  uint64_t since = tu_max(waits->since, w->since), until = waits->until ? waits->until : waits->looked;
  return waits->count > 0 && until > since && until - since >= (w->now - w->since) / 2;
}

static bool is_about(const struct tu_wait_entry *e, const struct tu_wait_entry *call) {
  return call->number != 0 && e->comm == call->comm && e->number == call->number;
}

/* One that does not wait. */
static enum found what_it_does(const struct walk *w, uint32_t rank, const struct tu_wait_entry *call) {
  uint32_t p = call->comm == w->comm->mover->control.session ? member_of(w->comm, rank) : NONE;
  if (p == NONE) return call->flags & TU_WAIT_NOT_COME ? NOT_COME : OUTSIDE;
  const struct tu_control *control = &w->comm->mover->control;
  if (tu_control_departed(control, p)) return LEFT;
  if (call->flags & TU_WAIT_CREATE) return tu_control_is_here(control, p) ? OUTSIDE : NOT_COME;
  if (call->number && (uint32_t)tu_control_latest(control, p) < call->number) return NOT_COME;
  return tu_control_local(control, p) == TU_REMOTE ? AWAY : OUTSIDE;
}

/* Goes on to those that the rank waits for: in the call of the one that waits for it, if it has told that it waits in that, else
 * in any. */
static void look_at(struct walk *w, uint32_t rank) {
  struct tu_waits notes[TU_WAITS_THREADS];
  struct place *place = &w->places[rank];
  const uint32_t local = tu_transport_local(w->t, rank);
  bool alive = tu_control_alive_in_job(w->t, rank), waits = false, about = false;
  for (uint32_t i = 0; i < TU_WAITS_THREADS; i++) {
    notes[i].count = 0;
    if (local == TU_REMOTE || !tu_waits_read(w->t, local, i, &notes[i]) || !holds(w, &notes[i], alive))
      notes[i].count = 0;
    if (notes[i].count == 0) continue;
    waits = true;
    place->looked = tu_max(place->looked, notes[i].until ? w->now : notes[i].looked);
    for (size_t k = 0; k < notes[i].count; k++) about |= is_about(&notes[i].entries[k], &place->call);
  }
  if (!alive) place->found = waits ? ENDED : DEAD;
  else if (!waits) place->found = what_it_does(w, rank, &place->call);
  else place->found = w->now - place->looked > SILENT_NS ? SILENT : WAITS;
  for (uint32_t i = 0; i < TU_WAITS_THREADS; i++)
    for (size_t k = 0; k < notes[i].count; k++) {
      const struct tu_wait_entry *e = &notes[i].entries[k];
      if (about && !is_about(e, &place->call)) continue;
      if (alive && e->flags & TU_WAIT_INPUT) place->found = INPUT;
      else if (alive && e->flags & TU_WAIT_SIGNAL) place->found = SIGNAL;
      else see(w, rank, e);
    }
}

/* ---- saying ---- */

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
  uint32_t p = member_of(w->comm, rank);
  if (p == NONE) print(text, "rank %u of the world", rank);
  else print(text, "rank %u", p);
}

static void print_place(const struct walk *w, uint32_t rank, struct text *text) {
  const struct place *place = &w->places[rank];
  uint32_t p = member_of(w->comm, rank);
  bool ours = p != NONE && place->call.comm == w->comm->mover->control.session;
  char last[280] = "";
  if (p != NONE) tu_print_last_call(w->comm, p, last, sizeof last);
  print_rank(w, rank, text);
  switch (place->found) {
    case DEAD: print(text, " (has died or exited)"); return;
    case LEFT: print(text, " (has freed the communicator)"); return;
    case ENDED: print(text, " (has died or exited, and had waited until then)"); return;
    case NOT_COME:
      if (ours) print(text, " (has not come to it; %s)", last);
      else print(text, " (has not come to a call of another communicator)");
      return;
    case OUTSIDE:
      if (ours && place->call.number) print(text, " (has started it, and not waited in tutti since)");
      else print(text, " (does not wait in tutti%s%s)", last[0] ? "; " : "", last);
      return;
    case AWAY: print(text, " (on another host; %s)", last); return;
    case INPUT: print(text, " (waits for its caller to fill in the input)"); return;
    case SIGNAL: print(text, " (waits for a signal)"); return;
    case SILENT:
      print(text, " (waited, and has not looked since %u ms)", (unsigned)((w->now - place->looked) / TU_NS_PER_MS));
      return;
    default: print(text, " (%s)", last[0] ? last : "waits"); return;
  }
}

/* "rank 3 waits for rank 2, rank 2 for rank 1" */
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

/* How the asker comes to wait for the rank. */
static void print_way(const struct walk *w, uint32_t rank, struct text *text) {
  uint32_t count = 1, *ranks = w->list;
  for (uint32_t r = rank; w->places[r].from != NONE; r = w->places[r].from) count++;
  ranks[0] = w->own;
  for (uint32_t r = rank, i = count; r != NONE; r = w->places[r].from) ranks[i--] = r;
  if (count > 1) print_chain(w, ranks, count + 1, text);
}

/* No one is to blame for not moving: they wait for each other. */
static void print_circle(const struct walk *w, uint32_t first, struct text *text) {
  uint32_t count = 0, *ranks = w->list, own = w->own;
  ranks[count++] = own;
  for (uint32_t r = first; r != NONE; r = w->places[r].next) {
    ranks[count++] = r;
    if (w->passed[r] || r == own) break;
    w->passed[r] = true;
  }
  print_place(w, first, text);
  print(text, "; they wait for each other");
  print_chain(w, ranks, count, text);
}

static void print_blamed(const struct walk *w, struct text *text) {
  uint32_t blamed = 0, first = NONE;
  for (enum found found = DEAD; found < FOUNDS; found++)
    for (uint32_t i = 0; i < w->seen; i++) {
      uint32_t rank = w->order[i];
      if (w->places[rank].found != found || rank == w->own) continue;
      if (first == NONE) first = rank;
      if (blamed++ > 0) print(text, ", ");
      print_place(w, rank, text);
    }
  if (first != NONE) print_way(w, first, text);
  else print_circle(w, w->order[0], text);
}

bool tu_chain_print(const struct tutti_comm *comm, const struct tu_chain_wait *wait, char *chars, size_t bytes) {
  struct tu_waits waits = {0};
  struct text text = {.chars = chars, .bytes = bytes};
  struct walk w = {.comm = comm, .t = comm->transport, .since = wait->since, .now = tu_clock_ns()};
  const uint32_t ranks = tu_transport_job_ranks(w.t);
  w.own = tu_transport_job_rank(w.t);
  w.places = tu_try_allocate(ranks, sizeof *w.places);
  w.order = tu_try_allocate(ranks, sizeof *w.order);
  w.list = tu_try_allocate((size_t)ranks + 2, sizeof *w.list);
  w.passed = tu_try_allocate(ranks, sizeof *w.passed);
  bool memory = w.places && w.order && w.list && w.passed;
  for (uint32_t p = 0; memory && p < comm->ranks; p++) {
    if ((wait->members ? !wait->members[p] : p != wait->member) || p == comm->rank) continue;
    waits.count = 0;
    add_entry(&waits, comm, wait->number, p, wait->creates ? TU_WAIT_CREATE : 0);
    see(&w, NONE, &waits.entries[0]);
  }
  for (uint32_t i = 0; i < w.seen; i++)
    if (w.order[i] != w.own) look_at(&w, w.order[i]);
  if (w.seen > 0) print_blamed(&w, &text);
  free(w.places);
  free(w.order);
  free(w.list);
  free(w.passed);
  return w.seen > 0;
}
