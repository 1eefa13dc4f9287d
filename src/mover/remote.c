/* remote.c: the far ends of channels and control, as frames on a wire. */
#include "mover/remote.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "mover/mover.h"

enum { BUCKETS = 1024, LINGER_MS = 10000, CREDITS_MAX = 1 << 16, SLOT_BYTES_MAX = 1 << 30 };

/* ---- frames ---- */

enum kind {
  SLICE,
  CREDIT,   /* slice.taken */
  CALL,     /* code 1: asks for one */
  VERDICT,  /* code; the body is the sentence */
  WORDS,    /* of rank 0; the body */
  HERE,     /* has made its side */
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

struct tu_remote_session {
  struct tu_remote_session *chain;
  uint64_t number;
  struct tu_control *control; /* NULL: not made yet, or closed */
  bool deaf;                  /* this rank has departed: what the ranks of its host share may be gone */
  bool closed;
  struct tu_error lost;                  /* what went wrong before there was a control */
  uint32_t closed_there, remote_members; /* the latter once it is made */
  struct held *first, *last;
  struct end *ends;
};

/* This process's end of the channels between it and a rank of another host, on one lane. */
struct end {
  struct end *chain; /* of its bucket */
  struct end *next;  /* of its session */
  struct end *after; /* of those that have something left to send */
  bool left;         /* it is one of these */
  struct tu_remote_session *session;
  uint32_t peer; /* rank of the job */
  uint32_t lane;
  struct tu_sender *sender; /* NULL: none */
  uint32_t sent;            /* slices, of those that it has published */
  /* The copy of the peer's channel; no lines: nothing has come. */
  struct tu_line *lines;
  unsigned char *slots;
  uint32_t credits, slot_bytes;
  uint32_t came;                        /* slices */
  uint64_t message_bytes, message_left; /* of the message in the midst of which it is */
  uint32_t told;                        /* taken, as the peer knows */
  uint32_t counted, counted_bytes;      /* up to that slice: bytes of those taken since */
  bool filling;                         /* a slice is half received */
  struct tu_credit_line credit;
};

struct tu_remote {
  struct tu_hosts hosts; /* first */
  struct tu_wire_reader reader;
  struct tu_transport *transport;
  struct tu_wire *wire;
  pthread_mutex_t lock; /* of all that follows, and of the wire */
  struct tu_remote_session *sessions[BUCKETS];
  struct end *buckets[BUCKETS];
  struct end *left; /* ends that have something left to send */
};

struct tu_remote *tu_remote_of(const struct tu_transport *t) {
  return (struct tu_remote *)(void *)t->hosts;
}

static struct tu_remote_session **session_bucket(struct tu_remote *r, uint64_t number) {
  return &r->sessions[tu_hash(&number, sizeof number, 1) % BUCKETS];
}

static struct tu_remote_session *find_session(struct tu_remote *r, uint64_t number) {
  struct tu_remote_session *s = *session_bucket(r, number);
  while (s && s->number != number) s = s->chain;
  return s;
}

/* NULL without memory. */
static struct tu_remote_session *get_session(struct tu_remote *r, uint64_t number) {
  struct tu_remote_session *s = find_session(r, number);
  if (s || !(s = tu_try_allocate(1, sizeof *s))) return s;
  s->number = number;
  s->chain = *session_bucket(r, number);
  *session_bucket(r, number) = s;
  return s;
}

static struct end **end_bucket(struct tu_remote *r, const struct tu_remote_session *s, uint32_t peer, uint32_t lane) {
  const uint64_t key[] = {s->number, (uint64_t)peer << 32 | lane};
  return &r->buckets[tu_hash(key, sizeof key, 1) % BUCKETS];
}

static struct end *find_end(struct tu_remote *r, const struct tu_remote_session *s, uint32_t peer, uint32_t lane) {
  struct end *e = *end_bucket(r, s, peer, lane);
  while (e && (e->session != s || e->peer != peer || e->lane != lane)) e = e->chain;
  return e;
}

/* NULL without memory. */
static struct end *get_end(struct tu_remote *r, struct tu_remote_session *s, uint32_t peer, uint32_t lane) {
  struct end *e = find_end(r, s, peer, lane);
  if (e) return e;
  e = aligned_alloc(_Alignof(struct end), sizeof *e);
  if (!e) return NULL;
  memset(e, 0, sizeof *e);
  e->session = s;
  e->peer = peer;
  e->lane = lane;
  e->chain = *end_bucket(r, s, peer, lane);
  *end_bucket(r, s, peer, lane) = e;
  e->next = s->ends;
  s->ends = e;
  return e;
}

static void free_end(struct end *e) {
  free(e->lines);
  free(e->slots);
  free(e);
}

/* It is not to be found any more; its session has let go of it. */
static void drop_end(struct tu_remote *r, struct end *e) {
  struct end **link = end_bucket(r, e->session, e->peer, e->lane);
  while (*link != e) link = &(*link)->chain;
  *link = e->chain;
  for (link = &r->left; e->left && *link != e;) link = &(*link)->after;
  if (e->left) *link = e->after;
  free_end(e);
}

static void free_held(struct tu_remote_session *s) {
  for (struct held *next; s->first; s->first = next) {
    next = s->first->next;
    free(s->first);
  }
  s->last = NULL;
}

/* Its ends go, and it does too once nothing more can come. */
static void sweep(struct tu_remote *r, struct tu_remote_session *s) {
  for (struct end **link = &s->ends; s->closed && *link;) {
    struct end *e = *link;
    if (e->filling) {
      link = &e->next;
      continue;
    }
    *link = e->next;
    drop_end(r, e);
  }
  if (!s->closed || s->ends || s->closed_there < s->remote_members) return;
  struct tu_remote_session **link = session_bucket(r, s->number);
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

/* Is there one that has not been sent? */
static bool has_slice(const struct end *e) {
  const struct tu_line *line = &e->sender->lines[e->sent & (e->sender->credits - 1)];
  return atomic_load_explicit(&line->sequence, memory_order_acquire) == e->sent + 1;
}

/* posts: what cannot go now is copied, for its memory goes. */
static bool send_slices(struct tu_remote *r, struct end *e, bool posts) {
  const struct tu_sender *s = e->sender;
  bool moved = false;
  while (has_slice(e)) {
    const struct tu_line *line = &s->lines[e->sent & (s->credits - 1)];
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
    bool (*send)(struct tu_wire *, uint32_t, const void *, const void *, size_t) =
        posts ? r->wire->ops->post : r->wire->ops->send;
    if (!send(r->wire, e->peer, &f, body, is_inline ? 0 : line->bytes)) return moved;
    e->sent++;
    if ((int32_t)(line->taken - e->told) > 0) e->told = line->taken;
    moved = true;
  }
  return moved;
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

/* What cannot go now is left for later. */
static bool serve(struct tu_remote *r, struct end *e, bool all_credits, bool *left) {
  bool moved = e->sender && send_slices(r, e, false);
  if (e->lines && !e->session->closed) moved |= send_credits(r, e, all_credits);
  *left = (e->sender && has_slice(e)) || (e->lines && atomic_load(&e->credit.taken) != e->told);
  return moved;
}

static bool serve_session(struct tu_remote *r, const struct tu_remote_session *s, bool all_credits) {
  bool moved = false, left;
  for (struct end *e = s ? s->ends : NULL; e; e = e->next) {
    moved |= serve(r, e, all_credits, &left);
    if (!left || e->left) continue;
    e->left = true;
    e->after = r->left;
    r->left = e;
  }
  return moved;
}

static bool serve_left(struct tu_remote *r, bool all_credits) {
  bool moved = false;
  for (struct end **link = &r->left; *link;) {
    struct end *e = *link;
    moved |= serve(r, e, all_credits, &e->left);
    if (e->left) link = &e->after;
    else *link = e->after;
  }
  return moved;
}

/* Waits for a thread that looks: or what has been published might stay, as nobody looks at this communicator again. */
bool tu_remote_send(const struct tu_control *c) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  bool moved = serve_session(r, c->far, false);
  moved |= serve_left(r, false);
  pthread_mutex_unlock(&r->lock);
  return moved;
}

bool tu_remote_look(const struct tu_control *c) {
  struct tu_remote *r = tu_remote_of(c->transport);
  if (pthread_mutex_trylock(&r->lock) != 0) return false;
  bool moved = r->wire->ops->look(r->wire);
  moved |= serve_session(r, c->far, false);
  moved |= serve_left(r, false);
  pthread_mutex_unlock(&r->lock);
  return moved;
}

bool tu_remote_flush(const struct tu_control *c) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  bool moved = r->wire->ops->look(r->wire);
  moved |= serve_session(r, c->far, true);
  moved |= serve_left(r, true);
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
  if (e->message_left > 0 && f->of.slice.message_bytes != e->message_bytes) return false;
  uint64_t left = e->message_left > 0 ? e->message_left : f->of.slice.message_bytes;
  if (f->of.slice.bytes > left || (f->of.slice.bytes == 0 && left > 0)) return false;
  return f->of.slice.bytes <= (is_inline ? TU_INLINE_BYTES : e->slot_bytes) &&
         body_bytes == (is_inline ? 0 : f->of.slice.bytes);
}

static bool is_shape(const struct frame *f) {
  uint32_t credits = f->of.slice.credits;
  return credits > 0 && credits <= CREDITS_MAX && (credits & (credits - 1)) == 0 && f->of.slice.slot_bytes > 0 &&
         f->of.slice.slot_bytes <= SLOT_BYTES_MAX;
}

static void fail_session(struct tu_remote *r, struct tu_remote_session *s, const struct tu_error *error) {
  struct tu_control *c = s->control;
  if (!c && s->lost.code == TUTTI_OK) s->lost = *error;
  if (!c || s->deaf || !tu_verdict_post(&c->block->verdict, error)) return;
  tu_control_wake_all(c);
  struct frame f = {.session = s->number, .kind = VERDICT, .code = error->code};
  (void)post_to(r, c, NULL, &f, error->text, strlen(error->text) + 1);
}

/* The end that it belongs to; NULL: none, it is passed over. */
static struct end *begin_slice(struct tu_remote *r, uint32_t from, const struct frame *f, size_t body_bytes) {
  struct tu_remote_session *s = get_session(r, f->session);
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

static void end_slice(struct end *e, const struct frame *f) {
  struct tu_line *line = &e->lines[e->came & (e->credits - 1)];
  if (e->message_left == 0) e->message_bytes = e->message_left = f->of.slice.message_bytes;
  e->message_left -= f->of.slice.bytes;
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
}

/* ---- what comes: control ---- */

static void hear_call(struct tu_remote *r, struct tu_control *c, uint32_t from, uint32_t member,
                      const struct frame *f) {
  struct tu_board *theirs = &c->boards[member], *mine = &c->boards[c->rank];
  const uint64_t number = f->of.call.number;
  tu_board_hear(theirs, number, f->of.call.words, tu_max(number, f->of.call.latest));
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
      if (error.code == TUTTI_OK) error.code = TUTTI_ERR_SYSTEM;
      if (bytes > 0) memcpy(error.text, body, tu_min(bytes, sizeof error.text));
      error.text[sizeof error.text - 1] = '\0';
      if (tu_verdict_post(&c->block->verdict, &error)) tu_control_wake_all(c);
      return;
    case WORDS:
      if (tu_control_hear_words(c, body, bytes, &error) != TUTTI_OK) fail_session(r, c->far, &error);
      return;
    case HERE: atomic_store(&c->boards[member].here, 1); return;
    case DEPARTED: atomic_store(&c->departed[member], true); return;
    case MISSED: atomic_store(&c->boards[member].missed, 1); return;
    default: return;
  }
}

static void fail_without_memory(struct tu_remote *r, struct tu_remote_session *s, size_t bytes, uint32_t from) {
  struct tu_error error;
  tu_fail_memory(&error, bytes, "what rank %u of the job says", from);
  fail_session(r, s, &error);
}

/* For when the communicator is made here. */
static void hold(struct tu_remote *r, struct tu_remote_session *s, uint32_t from, const struct frame *f,
                 const void *body, size_t bytes) {
  struct held *h = malloc(sizeof *h + bytes);
  if (!h) {
    fail_without_memory(r, s, bytes, from);
    return;
  }
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

static void end_control(struct tu_remote *r, uint32_t from, const struct frame *f, void *body, size_t bytes) {
  struct tu_remote_session *s = get_session(r, f->session);
  if (s && bytes > 0 && !body) {
    fail_without_memory(r, s, bytes, from);
  } else if (s && f->kind == CLOSED) {
    s->closed_there++;
    sweep(r, s);
  } else if (s && s->control && (!s->deaf || f->kind == DEPARTED)) {
    hear(r, s->control, from, f, body, bytes);
  } else if (s && !s->control && !s->closed) {
    hold(r, s, from, f, body, bytes);
  }
  free(body);
}

static void end_data(struct tu_remote *r, uint32_t from, const struct frame *f) {
  struct tu_remote_session *s = find_session(r, f->session);
  struct end *e = s ? find_end(r, s, from, f->lane) : NULL;
  if (e && f->kind == CREDIT) note_taken(e, f->of.slice.taken);
  if (!e || f->kind == CREDIT || !e->filling) return;
  e->filling = false;
  if (s->closed) sweep(r, s);
  else end_slice(e, f);
}

static void reader_end(struct tu_wire_reader *reader, uint32_t from, const void *head, void *body, size_t bytes) {
  struct tu_remote *r = remote_of(reader);
  struct frame f;
  memcpy(&f, head, sizeof f);
  if (f.kind == SLICE || f.kind == CREDIT) end_data(r, from, &f);
  else end_control(r, from, &f, body, bytes);
  tu_bell_ring(r->transport, r->transport->rank); /* it may be what another thread of this rank sleeps for */
}

static void reader_lost(struct tu_wire_reader *reader, uint32_t from, const void *head, void *body) {
  struct tu_remote *r = remote_of(reader);
  struct frame f;
  memcpy(&f, head, sizeof f);
  struct tu_remote_session *s = find_session(r, f.session);
  struct end *e = s && f.kind == SLICE ? find_end(r, s, from, f.lane) : NULL;
  if (e) e->filling = false;
  if (f.kind != SLICE) free(body);
}

/* ---- communicators ---- */

tutti_err tu_remote_open(struct tu_control *c, struct tu_error *error) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  struct tu_remote_session *s = get_session(r, c->session);
  if (s) {
    tu_assert(!s->control && !s->closed);
    s->control = c;
    c->far = s;
    for (uint32_t i = 0; i < c->ranks; i++) s->remote_members += is_remote(c, i);
    for (const struct held *h = s->first; h; h = h->next)
      hear(r, c, h->from, &h->frame, (void *)(uintptr_t)h->body, h->bytes);
    free_held(s);
    if (s->lost.code != TUTTI_OK) fail_session(r, s, &s->lost);
  }
  pthread_mutex_unlock(&r->lock);
  return s ? TUTTI_OK : tu_fail_memory(error, sizeof *s, "a communicator of several hosts");
}

/* Of one that has failed: who sees that this rank is gone knows why before, also if the one who said it has not been heard. */
static void repeat_verdict(struct tu_remote *r, const struct tu_control *c) {
  struct tu_error error;
  if (c->far->deaf || !tu_control_verdict(c, &error)) return;
  const struct frame f = {.session = c->session, .kind = VERDICT, .code = error.code};
  (void)post_to(r, c, NULL, &f, error.text, strlen(error.text) + 1);
}

void tu_remote_close(struct tu_control *c) {
  struct tu_remote *r = tu_remote_of(c->transport);
  const struct frame f = {.session = c->session, .kind = CLOSED};
  pthread_mutex_lock(&r->lock);
  struct tu_remote_session *s = c->far;
  if (s) {
    (void)serve_session(r, s, true);
    for (struct end *e = s->ends; e; e = e->next)
      if (e->sender) (void)send_slices(r, e, true);
    repeat_verdict(r, c);
    (void)post_to(r, c, NULL, &f, NULL, 0);
    s->control = NULL;
    s->closed = true;
    for (struct end *e = s->ends; e; e = e->next) e->sender = NULL;
    c->far = NULL;
    sweep(r, s);
  }
  pthread_mutex_unlock(&r->lock);
}

tutti_err tu_remote_join(struct tu_control *c, struct tu_sender *sender, uint32_t lane, struct tu_error *error) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  struct tu_remote_session *s = c->far;
  struct end *e = s ? get_end(r, s, c->members[sender->peer], lane) : NULL;
  if (e) e->sender = sender;
  pthread_mutex_unlock(&r->lock);
  return e ? TUTTI_OK : tu_fail_memory(error, sizeof *e, "a channel to rank %u", sender->peer);
}

bool tu_remote_attach(const struct tu_control *c, struct tu_receiver *receiver) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  const struct tu_remote_session *s = c->far;
  struct end *e = s ? find_end(r, s, c->members[receiver->peer], receiver->lane) : NULL;
  if (e && e->lines) {
    receiver->credit = &e->credit;
    receiver->base = e->slots;
    receiver->credits = e->credits;
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

void tu_remote_say_here(const struct tu_control *c) {
  const struct frame f = {.session = c->session, .kind = HERE};
  say(c, &f, NULL, 0);
}

void tu_remote_say_departed(const struct tu_control *c) {
  struct tu_remote *r = tu_remote_of(c->transport);
  const struct frame f = {.session = c->session, .kind = DEPARTED};
  pthread_mutex_lock(&r->lock);
  (void)serve_session(r, c->far, true);
  (void)post_to(r, c, NULL, &f, NULL, 0);
  if (c->far) c->far->deaf = true;
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
  for (size_t i = 0; i < BUCKETS; i++)
    for (struct tu_remote_session *s = r->sessions[i], *next; s; s = next) {
      next = s->chain;
      for (struct end *e = s->ends, *after; e; e = after) {
        after = e->next;
        free_end(e);
      }
      free_held(s);
      free(s);
    }
  for (uint32_t i = 0; hosts->bells && i < r->transport->ranks; i++) close(hosts->bells[i]);
  if (hosts->sleep >= 0) close(hosts->sleep);
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
