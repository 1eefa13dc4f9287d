/* remote.c: the far ends of channels and control, as frames on a wire. */
#include "mover/remote.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "mover/mover.h"

enum { BUCKETS = 1024, LINGER_MS = 1000, CREDITS_MAX = 1 << 16, SLOT_BYTES_MAX = 1 << 30 };

/* ---- frames ---- */

enum kind {
  SLICE,
  CREDIT,   /* slice.taken */
  CALL,     /* code 1: asks for one */
  VERDICT,  /* code; the body is the sentence */
  WORDS,    /* of rank 0; the body */
  DEPARTED, /* in order */
  MISSED,   /* could not make its side */
  CLOSED    /* the last one of its session from that rank */
};

struct frame {
  uint64_t session;
  uint8_t kind, lane;
  uint16_t reserved;
  uint32_t code;
  union {
    struct {
      uint64_t tag, message_bytes;
      uint32_t sequence, taken, bytes, credits, slot_bytes, reserved;
      unsigned char payload[TU_INLINE_BYTES];
    } slice;
    struct {
      uint64_t number, latest; /* 0: none */
      uint64_t words[TU_BOARD_WORDS];
    } call;
  } of;
};
_Static_assert(sizeof(struct frame) == TU_FRAME_HEAD_BYTES, "no padding");

/* ---- state ---- */

/* Came before this rank had made the communicator. */
struct held {
  struct held *next;
  uint32_t from;
  struct frame frame;
  size_t bytes;
  unsigned char body[];
};

struct session {
  struct session *chain;
  uint64_t number;
  struct tu_control *control; /* NULL: not made yet, or closed */
  bool closed;
  uint32_t closed_there, remote_members; /* the latter once it is made */
  struct held *first, *last;
};

/* This process's end of the channels between it and a rank of another host, on one lane. */
struct end {
  struct end *chain;
  struct session *session;
  uint32_t peer; /* rank of the job */
  uint32_t lane;
  struct tu_sender *sender; /* NULL: none */
  uint32_t sent;            /* slices, of those that it has published */
  /* The copy of the peer's channel; no lines: nothing has come. */
  struct tu_line *lines;
  unsigned char *slots;
  uint32_t credits, slot_bytes;
  uint32_t came;                   /* slices */
  uint32_t told;                   /* taken, as the peer knows */
  uint32_t counted, counted_bytes; /* up to that slice: bytes of those taken since */
  bool filling;                    /* a slice is half received */
  struct tu_credit_line credit;
};

struct tu_remote {
  struct tu_hosts hosts; /* first */
  struct tu_wire_reader reader;
  struct tu_transport *transport;
  struct tu_wire *wire;
  pthread_mutex_t lock; /* of all that follows, and of the wire */
  struct session *sessions[BUCKETS];
  struct end *buckets[BUCKETS];
  struct end **ends;
  uint32_t end_count, end_capacity;
};

struct tu_remote *tu_remote_of(const struct tu_transport *t) {
  return (struct tu_remote *)(void *)t->hosts;
}

static struct session **session_bucket(struct tu_remote *r, uint64_t number) {
  return &r->sessions[tu_hash(&number, sizeof number, 1) % BUCKETS];
}

static struct session *find_session(struct tu_remote *r, uint64_t number) {
  struct session *s = *session_bucket(r, number);
  while (s && s->number != number) s = s->chain;
  return s;
}

/* NULL without memory. */
static struct session *get_session(struct tu_remote *r, uint64_t number) {
  struct session *s = find_session(r, number);
  if (s || !(s = tu_try_allocate(1, sizeof *s))) return s;
  s->number = number;
  s->chain = *session_bucket(r, number);
  *session_bucket(r, number) = s;
  return s;
}

static struct end **end_bucket(struct tu_remote *r, const struct session *s, uint32_t peer, uint32_t lane) {
  const uint64_t key[] = {s->number, (uint64_t)peer << 32 | lane};
  return &r->buckets[tu_hash(key, sizeof key, 1) % BUCKETS];
}

static struct end *find_end(struct tu_remote *r, const struct session *s, uint32_t peer, uint32_t lane) {
  struct end *e = *end_bucket(r, s, peer, lane);
  while (e && (e->session != s || e->peer != peer || e->lane != lane)) e = e->chain;
  return e;
}

/* NULL without memory. */
static struct end *get_end(struct tu_remote *r, struct session *s, uint32_t peer, uint32_t lane) {
  struct end *e = find_end(r, s, peer, lane);
  if (e) return e;
  struct end **ends = tu_try_grow(r->ends, r->end_count, &r->end_capacity, sizeof *r->ends);
  if (!ends) return NULL;
  r->ends = ends;
  e = aligned_alloc(_Alignof(struct end), sizeof *e);
  if (!e) return NULL;
  memset(e, 0, sizeof *e);
  e->session = s;
  e->peer = peer;
  e->lane = lane;
  e->chain = *end_bucket(r, s, peer, lane);
  *end_bucket(r, s, peer, lane) = e;
  r->ends[r->end_count++] = e;
  return e;
}

static void free_end(struct end *e) {
  free(e->lines);
  free(e->slots);
  free(e);
}

/* Nobody here has it any more, nor is anything being received into it. */
static void drop_end(struct tu_remote *r, uint32_t i) {
  struct end *e = r->ends[i], **link = end_bucket(r, e->session, e->peer, e->lane);
  while (*link != e) link = &(*link)->chain;
  *link = e->chain;
  r->ends[i] = r->ends[--r->end_count];
  free_end(e);
}

static void free_held(struct session *s) {
  for (struct held *next; s->first; s->first = next) {
    next = s->first->next;
    free(s->first);
  }
  s->last = NULL;
}

/* Its ends go, and it does too once nothing more can come. */
static void sweep(struct tu_remote *r, struct session *s) {
  bool filling = false;
  for (uint32_t i = r->end_count; s->closed && i-- > 0;) {
    if (r->ends[i]->session != s) continue;
    if (r->ends[i]->filling) filling = true;
    else drop_end(r, i);
  }
  if (!s->closed || filling || s->closed_there < s->remote_members) return;
  struct session **link = session_bucket(r, s->number);
  while (*link != s) link = &(*link)->chain;
  *link = s->chain;
  free_held(s);
  free(s);
}

/* ---- members ---- */

static bool is_remote(const struct tu_control *c, uint32_t rank) { return tu_control_local(c, rank) == TU_REMOTE; }

/* The communicator's rank that is that one of the job; UINT32_MAX: none. */
static uint32_t member_of(const struct tu_control *c, uint32_t job_rank) {
  for (uint32_t i = 0; i < c->ranks; i++)
    if (c->members[i] == job_rank) return i;
  return UINT32_MAX;
}

/* To the ranks of other hosts in the communicator; whom NULL: to all of them. */
static bool post_to(struct tu_remote *r, const struct tu_control *c, const bool whom[], const struct frame *f,
                    const void *body, size_t bytes) {
  bool posted = true;
  for (uint32_t i = 0; i < c->ranks; i++)
    if (is_remote(c, i) && (!whom || whom[i])) posted &= r->wire->ops->post(r->wire, c->members[i], f, body, bytes);
  return posted;
}

static void say(const struct tu_control *c, const struct frame *f, const void *body, size_t bytes) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  (void)post_to(r, c, NULL, f, body, bytes); /* without memory the others' time-outs are what is left */
  pthread_mutex_unlock(&r->lock);
}

/* ---- sending ---- */

static bool send_slices(struct tu_remote *r, struct end *e) {
  const struct tu_sender *s = e->sender;
  bool moved = false;
  for (;;) {
    const struct tu_line *line = &s->lines[e->sent & (s->credits - 1)];
    if (atomic_load_explicit(&line->sequence, memory_order_acquire) != e->sent + 1) return moved;
    struct frame f = {.session = e->session->number, .kind = SLICE, .lane = (uint8_t)e->lane};
    f.of.slice.sequence = e->sent + 1;
    f.of.slice.taken = line->taken;
    f.of.slice.tag = line->tag;
    f.of.slice.message_bytes = line->message_bytes;
    f.of.slice.bytes = line->bytes;
    f.of.slice.credits = s->credits;
    f.of.slice.slot_bytes = e->session->control->shape.slot_bytes;
    bool is_inline = line->message_bytes <= TU_INLINE_BYTES;
    if (is_inline) memcpy(f.of.slice.payload, line->at.payload, sizeof f.of.slice.payload);
    const void *body = is_inline ? NULL : s->base + line->at.place;
    if (!r->wire->ops->send(r->wire, e->peer, &f, body, is_inline ? 0 : line->bytes)) return moved;
    e->sent++;
    if ((int32_t)(line->taken - e->told) > 0) e->told = line->taken;
    moved = true;
  }
}

/* Bytes of the slices that the receiver has taken and the peer does not know of. */
static uint32_t count_due(struct end *e, uint32_t taken) {
  if ((int32_t)(e->told - e->counted) > 0) {
    e->counted = e->told;
    e->counted_bytes = 0;
  }
  while (e->counted != taken) e->counted_bytes += e->lines[e->counted++ & (e->credits - 1)].bytes;
  return e->counted_bytes;
}

static bool send_credits(struct tu_remote *r, struct end *e, bool all) {
  uint32_t taken = atomic_load_explicit(&e->credit.taken, memory_order_acquire), due = taken - e->told;
  if (due == 0) return false;
  if (!all && due < e->credits / 2 && count_due(e, taken) < 2 * e->slot_bytes) return false;
  struct frame f = {.session = e->session->number, .kind = CREDIT, .lane = (uint8_t)e->lane};
  f.of.slice.taken = taken;
  /* All of them precede what this rank says next. */
  if (!(all ? r->wire->ops->post : r->wire->ops->send)(r->wire, e->peer, &f, NULL, 0)) return false;
  e->told = e->counted = taken;
  e->counted_bytes = 0;
  return true;
}

static bool send_all(struct tu_remote *r, bool all_credits) {
  bool moved = false;
  for (uint32_t i = 0; i < r->end_count; i++) {
    struct end *e = r->ends[i];
    if (e->sender) moved |= send_slices(r, e);
    if (e->lines && !e->session->closed) moved |= send_credits(r, e, all_credits);
  }
  return moved;
}

bool tu_remote_send(struct tu_remote *r) {
  if (pthread_mutex_trylock(&r->lock) != 0) return false;
  bool moved = send_all(r, false);
  pthread_mutex_unlock(&r->lock);
  return moved;
}

bool tu_remote_look(struct tu_remote *r) {
  if (pthread_mutex_trylock(&r->lock) != 0) return false;
  bool moved = r->wire->ops->look(r->wire);
  moved |= send_all(r, false);
  pthread_mutex_unlock(&r->lock);
  return moved;
}

bool tu_remote_flush(struct tu_remote *r) {
  pthread_mutex_lock(&r->lock);
  bool moved = r->wire->ops->look(r->wire);
  moved |= send_all(r, true);
  pthread_mutex_unlock(&r->lock);
  return moved;
}

/* ---- what comes: slices ---- */

static bool make_copy(struct end *e, uint32_t credits, uint32_t slot_bytes) {
  e->lines = aligned_alloc(TU_LINE_BYTES, credits * sizeof *e->lines);
  e->slots = malloc((size_t)credits * slot_bytes);
  if (!e->lines || !e->slots) {
    free(e->lines);
    free(e->slots);
    e->lines = NULL;
    e->slots = NULL;
    return false;
  }
  memset(e->lines, 0, credits * sizeof *e->lines);
  for (uint32_t i = 0; i < credits; i++) atomic_init(&e->lines[i].sequence, 0);
  e->credits = credits;
  e->slot_bytes = slot_bytes;
  return true;
}

/* Is it the next one, and is there room? It comes from a process that follows the same rules; but where bytes go does not rely on
 * that. */
static bool is_good(const struct end *e, const struct frame *f, size_t body_bytes) {
  bool is_inline = f->of.slice.message_bytes <= TU_INLINE_BYTES;
  if (f->of.slice.sequence != e->came + 1 || f->of.slice.credits != e->credits) return false;
  if (e->came - atomic_load(&e->credit.taken) >= e->credits) return false;
  return f->of.slice.bytes <= (is_inline ? TU_INLINE_BYTES : e->slot_bytes) &&
         body_bytes == (is_inline ? 0 : f->of.slice.bytes);
}

static bool is_shape(const struct frame *f) {
  uint32_t credits = f->of.slice.credits;
  return credits > 0 && credits <= CREDITS_MAX && (credits & (credits - 1)) == 0 && f->of.slice.slot_bytes > 0 &&
         f->of.slice.slot_bytes <= SLOT_BYTES_MAX;
}

static void fail_session(struct tu_remote *r, struct session *s, const struct tu_error *error) {
  struct tu_control *c = s->control;
  if (!c || !tu_verdict_post(&c->block->verdict, error)) return;
  tu_control_wake_all(c);
  struct frame f = {.session = s->number, .kind = VERDICT, .code = error->code};
  (void)post_to(r, c, NULL, &f, error->text, strlen(error->text) + 1);
}

/* The end that it belongs to; NULL: none, it is passed over. */
static struct end *begin_slice(struct tu_remote *r, uint32_t from, const struct frame *f, size_t body_bytes) {
  struct session *s = get_session(r, f->session);
  struct tu_error error;
  if (!s || s->closed || f->lane >= TU_MOVER_LANES || !is_shape(f)) return NULL;
  struct end *e = get_end(r, s, from, f->lane);
  if (e && !e->lines && !make_copy(e, f->of.slice.credits, f->of.slice.slot_bytes)) e = NULL;
  if (!e)
    tu_fail_memory(&error, (size_t)f->of.slice.credits * f->of.slice.slot_bytes, "messages from rank %u of the job",
                   from);
  else if (!is_good(e, f, body_bytes))
    tu_fail(&error, TUTTI_ERR_SYSTEM,
            "slice %u of %u bytes came from rank %u of the job on lane %u; expected slice %u, of at most %u bytes",
            f->of.slice.sequence, f->of.slice.bytes, from, f->lane, e->came + 1, e->slot_bytes);
  else return e;
  fail_session(r, s, &error);
  return NULL;
}

static unsigned char *slot_of(const struct end *e) {
  return e->slots + (size_t)(e->came & (e->credits - 1)) * e->slot_bytes;
}

static void note_taken(struct end *e, uint32_t taken) {
  _Atomic uint32_t *known = e->sender ? &e->sender->credit->taken : NULL;
  if (known && (int32_t)(taken - atomic_load_explicit(known, memory_order_relaxed)) > 0 &&
      (int32_t)(e->sent - taken) >= 0)
    atomic_store_explicit(known, taken, memory_order_release);
}

static void end_slice(struct tu_remote *r, struct end *e, const struct frame *f) {
  struct tu_line *line = &e->lines[e->came & (e->credits - 1)];
  line->taken = f->of.slice.taken;
  line->tag = f->of.slice.tag;
  line->message_bytes = f->of.slice.message_bytes;
  line->bytes = f->of.slice.bytes;
  line->stored = false;
  if (f->of.slice.message_bytes <= TU_INLINE_BYTES)
    memcpy(line->at.payload, f->of.slice.payload, sizeof line->at.payload);
  else line->at.place = (uint64_t)(slot_of(e) - e->slots);
  note_taken(e, f->of.slice.taken);
  atomic_store_explicit(&line->sequence, ++e->came, memory_order_release);
  tu_bell_ring(r->transport, r->transport->rank); /* another thread of this rank may sleep */
}

/* ---- what comes: control ---- */

static void hear_call(struct tu_remote *r, struct tu_control *c, uint32_t from, uint32_t member,
                      const struct frame *f) {
  struct tu_board *theirs = &c->boards[member], *mine = &c->boards[c->rank];
  uint64_t number = f->of.call.number, latest = atomic_load(&theirs->latest);
  if (number > 0) tu_board_post(theirs, number, f->of.call.words);
  atomic_store(&theirs->latest, tu_max(latest, tu_max(number, f->of.call.latest)));
  if (f->code == 0) return;
  struct frame answer = {.session = f->session, .kind = CALL};
  answer.of.call.latest = atomic_load(&mine->latest);
  const uint64_t asked[] = {number, answer.of.call.latest};
  for (int i = 0; i < 2 && answer.of.call.number == 0; i++)
    if (asked[i] > 0 && tu_board_read(mine, asked[i], answer.of.call.words)) answer.of.call.number = asked[i];
  (void)r->wire->ops->post(r->wire, from, &answer, NULL, 0);
}

static void hear(struct tu_remote *r, struct tu_control *c, uint32_t from, const struct frame *f, void *body,
                 size_t bytes) {
  struct tu_error error = {.code = (tutti_err)f->code};
  uint32_t member = member_of(c, from);
  if (member == UINT32_MAX) return;
  switch ((enum kind)f->kind) {
    case CALL: hear_call(r, c, from, member, f); return;
    case VERDICT:
      if (bytes > 0) memcpy(error.text, body, tu_min(bytes, sizeof error.text));
      error.text[sizeof error.text - 1] = '\0';
      if (tu_verdict_post(&c->block->verdict, &error)) tu_control_wake_all(c);
      return;
    case WORDS: tu_control_hear_words(c, body, bytes); return;
    case DEPARTED: atomic_store(&c->departed[member], true); return;
    case MISSED: atomic_store(&c->boards[member].missed, 1); return;
    default: return;
  }
}

/* For when the communicator is made here. */
static void hold(struct session *s, uint32_t from, const struct frame *f, const void *body, size_t bytes) {
  struct held *h = malloc(sizeof *h + bytes);
  if (!h) return;
  *h = (struct held){.from = from, .frame = *f, .bytes = bytes};
  if (bytes > 0) memcpy(h->body, body, bytes);
  if (s->last) s->last->next = h;
  else s->first = h;
  s->last = h;
}

/* ---- the reader ---- */

static struct tu_remote *remote_of(struct tu_wire_reader *reader) {
  return (struct tu_remote *)(void *)((unsigned char *)reader - offsetof(struct tu_remote, reader));
}

static void *reader_begin(struct tu_wire_reader *reader, uint32_t from, const void *head, size_t bytes) {
  struct tu_remote *r = remote_of(reader);
  struct frame f;
  memcpy(&f, head, sizeof f);
  if (f.kind != SLICE) return bytes > 0 && bytes <= SLOT_BYTES_MAX ? malloc(bytes) : NULL;
  struct end *e = begin_slice(r, from, &f, bytes);
  if (!e) return NULL;
  e->filling = true;
  return slot_of(e);
}

static void reader_end(struct tu_wire_reader *reader, uint32_t from, const void *head, void *body, size_t bytes) {
  struct tu_remote *r = remote_of(reader);
  struct frame f;
  memcpy(&f, head, sizeof f);
  struct session *s = f.kind == SLICE || f.kind == CREDIT ? find_session(r, f.session) : get_session(r, f.session);
  struct end *e = s && f.kind <= CREDIT ? find_end(r, s, from, f.lane) : NULL;
  if (f.kind == SLICE) {
    if (!e || !e->filling) return;
    e->filling = false;
    if (s->closed) sweep(r, s);
    else end_slice(r, e, &f);
    return;
  }
  if (f.kind == CREDIT && e) note_taken(e, f.of.slice.taken);
  if (f.kind == CREDIT || !s) {
    free(body);
    return;
  }
  if (f.kind == CLOSED) {
    s->closed_there++;
    sweep(r, s);
  } else if (s->control) {
    hear(r, s->control, from, &f, body, body ? bytes : 0);
  } else if (!s->closed) {
    hold(s, from, &f, body, body ? bytes : 0);
  }
  free(body);
}

static void reader_lost(struct tu_wire_reader *reader, uint32_t from, const void *head, void *body) {
  struct tu_remote *r = remote_of(reader);
  struct frame f;
  memcpy(&f, head, sizeof f);
  struct session *s = find_session(r, f.session);
  struct end *e = s && f.kind == SLICE ? find_end(r, s, from, f.lane) : NULL;
  if (e) e->filling = false;
  if (f.kind != SLICE) free(body);
}

/* ---- communicators ---- */

tutti_err tu_remote_open(struct tu_control *c, struct tu_error *error) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  struct session *s = get_session(r, c->session);
  if (s) {
    tu_assert(!s->control && !s->closed);
    s->control = c;
    for (uint32_t i = 0; i < c->ranks; i++) s->remote_members += is_remote(c, i);
    for (const struct held *h = s->first; h; h = h->next)
      hear(r, c, h->from, &h->frame, (void *)(uintptr_t)h->body, h->bytes);
    free_held(s);
  }
  pthread_mutex_unlock(&r->lock);
  return s ? TUTTI_OK : tu_fail_memory(error, sizeof *s, "a communicator of several hosts");
}

void tu_remote_close(struct tu_control *c) {
  struct tu_remote *r = tu_remote_of(c->transport);
  const struct frame f = {.session = c->session, .kind = CLOSED};
  pthread_mutex_lock(&r->lock);
  struct session *s = find_session(r, c->session);
  if (s && s->control == c) {
    (void)send_all(r, true); /* the credits, too */
    (void)post_to(r, c, NULL, &f, NULL, 0);
    s->control = NULL;
    s->closed = true;
    for (uint32_t i = 0; i < r->end_count; i++)
      if (r->ends[i]->session == s) r->ends[i]->sender = NULL;
    sweep(r, s);
  }
  pthread_mutex_unlock(&r->lock);
}

tutti_err tu_remote_join(struct tu_control *c, struct tu_sender *sender, uint32_t lane, struct tu_error *error) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  struct session *s = find_session(r, c->session);
  struct end *e = s ? get_end(r, s, c->members[sender->peer], lane) : NULL;
  if (e) e->sender = sender;
  pthread_mutex_unlock(&r->lock);
  return e ? TUTTI_OK : tu_fail_memory(error, sizeof *e, "a channel to rank %u", sender->peer);
}

bool tu_remote_attach(const struct tu_control *c, struct tu_receiver *receiver) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  const struct session *s = find_session(r, c->session);
  struct end *e = s ? find_end(r, s, c->members[receiver->peer], receiver->lane) : NULL;
  if (e && e->lines) {
    receiver->credit = &e->credit;
    receiver->base = e->slots;
    receiver->next_timed = receiver->received - 1; /* its way here says nothing */
    receiver->lines = e->lines;
  }
  pthread_mutex_unlock(&r->lock);
  return receiver->lines != NULL;
}

/* ---- control ---- */

void tu_remote_say_verdict(const struct tu_control *c, const struct tu_error *error) {
  const struct frame f = {.session = c->session, .kind = VERDICT, .code = error->code};
  say(c, &f, error->text, strlen(error->text) + 1);
}

void tu_remote_say_departed(const struct tu_control *c) {
  struct tu_remote *r = tu_remote_of(c->transport);
  const struct frame f = {.session = c->session, .kind = DEPARTED};
  pthread_mutex_lock(&r->lock);
  (void)send_all(r, true);
  (void)post_to(r, c, NULL, &f, NULL, 0);
  pthread_mutex_unlock(&r->lock);
}

bool tu_remote_say_words(const struct tu_control *c, const void *words, size_t bytes) {
  struct tu_remote *r = tu_remote_of(c->transport);
  const struct frame f = {.session = c->session, .kind = WORDS};
  pthread_mutex_lock(&r->lock);
  bool said = post_to(r, c, NULL, &f, words, bytes);
  pthread_mutex_unlock(&r->lock);
  return said;
}

void tu_remote_say_missed(struct tu_transport *t, uint64_t session, const uint32_t members[], uint32_t ranks) {
  struct tu_remote *r = tu_remote_of(t);
  const struct frame f = {.session = session, .kind = MISSED};
  pthread_mutex_lock(&r->lock);
  for (uint32_t i = 0; i < ranks; i++)
    if (tu_transport_local(t, members[i]) == TU_REMOTE) (void)r->wire->ops->post(r->wire, members[i], &f, NULL, 0);
  pthread_mutex_unlock(&r->lock);
}

void tu_remote_ask(const struct tu_control *c, const bool whom[], uint64_t number) {
  struct tu_remote *r = tu_remote_of(c->transport);
  const struct tu_board *mine = &c->boards[c->rank];
  struct frame f = {.session = c->session, .kind = CALL, .code = 1};
  f.of.call.latest = atomic_load(&mine->latest);
  if (number == 0) number = f.of.call.latest;
  if (number > 0 && tu_board_read(mine, number, f.of.call.words)) f.of.call.number = number;
  pthread_mutex_lock(&r->lock);
  (void)post_to(r, c, whom, &f, NULL, 0);
  pthread_mutex_unlock(&r->lock);
}

bool tu_remote_alive(const struct tu_transport *t, uint32_t job_rank) {
  struct tu_remote *r = tu_remote_of(t);
  pthread_mutex_lock(&r->lock);
  bool alive = r->wire->ops->alive(r->wire, job_rank);
  pthread_mutex_unlock(&r->lock);
  return alive;
}

/* ---- beginning and end ---- */

static void remote_close(struct tu_hosts *hosts) {
  struct tu_remote *r = (struct tu_remote *)(void *)hosts;
  if (r->wire) r->wire->ops->close(r->wire, LINGER_MS);
  for (uint32_t i = 0; i < r->end_count; i++) free_end(r->ends[i]);
  for (size_t i = 0; i < BUCKETS; i++)
    for (struct session *s = r->sessions[i], *next; s; s = next) {
      next = s->chain;
      free_held(s);
      free(s);
    }
  for (uint32_t i = 0; hosts->bells && i < r->transport->ranks; i++) close(hosts->bells[i]);
  if (hosts->sleep >= 0) close(hosts->sleep);
  free(r->ends);
  free(hosts->locals);
  free(hosts->bells);
  pthread_mutex_destroy(&r->lock);
  free(r);
}

static void remote_cut(struct tu_hosts *hosts) {
  struct tu_remote *r = (struct tu_remote *)(void *)hosts;
  pthread_mutex_lock(&r->lock);
  r->wire->ops->cut(r->wire);
  pthread_mutex_unlock(&r->lock);
}

static bool watch(int epoll, int fd) {
  struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

tutti_err tu_remote_create(struct tu_transport *t, uint32_t rank, uint32_t ranks, const uint32_t locals[],
                           const int bells[], struct tu_wire *wire, struct tu_error *error) {
  struct tu_remote *r = tu_try_allocate(1, sizeof *r);
  if (r) {
    *r = (struct tu_remote){.hosts = {.rank = rank, .ranks = ranks, .sleep = epoll_create1(EPOLL_CLOEXEC)},
                            .reader = {reader_begin, reader_end, reader_lost},
                            .transport = t,
                            .wire = wire};
    r->hosts.close = remote_close;
    r->hosts.cut = remote_cut;
    pthread_mutex_init(&r->lock, NULL);
    r->hosts.locals = tu_try_allocate(ranks, sizeof *locals);
    r->hosts.bells = tu_try_allocate(t->ranks, sizeof *bells);
    wire->reader = &r->reader;
  }
  if (r && r->hosts.bells) memcpy(r->hosts.bells, bells, t->ranks * sizeof *bells);
  if (!r || !r->hosts.locals || !r->hosts.bells) {
    if (!r) wire->ops->close(wire, 0);
    for (uint32_t i = 0; i < t->ranks && (!r || !r->hosts.bells); i++) close(bells[i]);
    if (r) remote_close(&r->hosts);
    return tu_fail_memory(error, sizeof *r, "%u ranks of several hosts", ranks);
  }
  memcpy(r->hosts.locals, locals, ranks * sizeof *locals);
  if (r->hosts.sleep < 0 || !watch(r->hosts.sleep, bells[t->rank]) || !watch(r->hosts.sleep, wire->descriptor)) {
    tu_fail_errno(error, "an epoll, to sleep in");
    remote_close(&r->hosts);
    return error->code;
  }
  t->hosts = &r->hosts;
  return TUTTI_OK;
}
