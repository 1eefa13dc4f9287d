/* remote.c: what comes from ranks of other hosts, and for which communicator; beginning and end. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "mover/remote_parts.h"

enum { LINGER_MS = 10000 };

struct tu_remote *tu_remote_of(const struct tu_transport *t) {
  return (struct tu_remote *)(void *)t->hosts;
}

static struct tu_remote_session **session_bucket(struct tu_remote *r, uint64_t number) {
  return &r->sessions[tu_hash(&number, sizeof number, 1) % TU_REMOTE_BUCKETS];
}

struct tu_remote_session *tu_remote_find_session(struct tu_remote *r, uint64_t number) {
  struct tu_remote_session *s = *session_bucket(r, number);
  while (s && s->number != number) s = s->chain;
  return s;
}

/* NULL without memory. */
struct tu_remote_session *tu_remote_get_session(struct tu_remote *r, uint64_t number) {
  struct tu_remote_session *s = tu_remote_find_session(r, number);
  if (s || !(s = tu_try_allocate(1, sizeof *s))) return s;
  s->number = number;
  s->chain = *session_bucket(r, number);
  *session_bucket(r, number) = s;
  return s;
}

static struct tu_remote_end **end_bucket(struct tu_remote *r, const struct tu_remote_session *s, uint32_t peer,
                                         uint32_t lane) {
  const uint64_t key[] = {s->number, (uint64_t)peer << 32 | lane};
  return &r->buckets[tu_hash(key, sizeof key, 1) % TU_REMOTE_BUCKETS];
}

struct tu_remote_end *tu_remote_find_end(struct tu_remote *r, const struct tu_remote_session *s, uint32_t peer,
                                         uint32_t lane) {
  struct tu_remote_end *e = *end_bucket(r, s, peer, lane);
  while (e && (e->session != s || e->peer != peer || e->lane != lane)) e = e->chain;
  return e;
}

/* NULL without memory. */
struct tu_remote_end *tu_remote_get_end(struct tu_remote *r, struct tu_remote_session *s, uint32_t peer,
                                        uint32_t lane) {
  struct tu_remote_end *e = tu_remote_find_end(r, s, peer, lane);
  if (e) return e;
  e = aligned_alloc(_Alignof(struct tu_remote_end), sizeof *e);
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

static void free_end(struct tu_remote_end *e) {
  free(e->lines);
  free(e->slots);
  free(e);
}

/* It is not to be found any more; its session has let go of it. */
static void drop_end(struct tu_remote *r, struct tu_remote_end *e) {
  struct tu_remote_end **link = end_bucket(r, e->session, e->peer, e->lane);
  while (*link != e) link = &(*link)->chain;
  *link = e->chain;
  for (link = &r->left; e->left && *link != e;) link = &(*link)->after;
  if (e->left) *link = e->after;
  free_end(e);
}

static void free_held(struct tu_remote_session *s) {
  for (struct tu_held *next; s->first; s->first = next) {
    next = s->first->next;
    free(s->first);
  }
  s->last = NULL;
}

/* Its ends go, and it does too once nothing more can come. */
static void sweep(struct tu_remote *r, struct tu_remote_session *s) {
  for (struct tu_remote_end **link = &s->ends; s->closed && *link;) {
    struct tu_remote_end *e = *link;
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

/* ---- looking ---- */

/* Waits for a thread that looks: or what has been published might stay, as nobody looks at this communicator again. */
bool tu_remote_send(const struct tu_control *c) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  bool moved = tu_remote_serve_session(r, c->far, false);
  moved |= tu_remote_serve_left(r, false);
  pthread_mutex_unlock(&r->lock);
  return moved;
}

bool tu_remote_look(const struct tu_control *c) {
  struct tu_remote *r = tu_remote_of(c->transport);
  if (pthread_mutex_trylock(&r->lock) != 0) return false;
  bool moved = r->wire->ops->look(r->wire);
  moved |= tu_remote_serve_session(r, c->far, false);
  moved |= tu_remote_serve_left(r, false);
  pthread_mutex_unlock(&r->lock);
  return moved;
}

bool tu_remote_flush(const struct tu_control *c) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  bool moved = r->wire->ops->look(r->wire);
  moved |= tu_remote_serve_session(r, c->far, true);
  moved |= tu_remote_serve_left(r, true);
  pthread_mutex_unlock(&r->lock);
  return moved;
}

static void fail_without_memory(struct tu_remote *r, struct tu_remote_session *s, size_t bytes, uint32_t from) {
  struct tu_error error;
  tu_fail_memory(&error, bytes, "what rank %u of the job says", from);
  tu_remote_fail(r, s, &error);
}

/* For when the communicator is made here. */
static void hold(struct tu_remote *r, struct tu_remote_session *s, uint32_t from, const struct tu_frame *f,
                 const void *body, size_t bytes) {
  struct tu_held *h = malloc(sizeof *h + bytes);
  if (!h) {
    fail_without_memory(r, s, bytes, from);
    return;
  }
  *h = (struct tu_held){.from = from, .frame = *f, .bytes = bytes};
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
  struct tu_frame f;
  memcpy(&f, head, sizeof f);
  if (f.kind != TU_FRAME_SLICE) return bytes > 0 && bytes <= TU_SLOT_BYTES_MAX ? malloc(bytes) : NULL;
  struct tu_remote_end *e = tu_remote_begin_slice(r, from, &f, bytes);
  if (!e) return NULL;
  e->filling = true;
  return tu_remote_slot(e);
}

static void end_control(struct tu_remote *r, uint32_t from, const struct tu_frame *f, void *body, size_t bytes) {
  struct tu_remote_session *s = tu_remote_get_session(r, f->session);
  if (s && bytes > 0 && !body) {
    fail_without_memory(r, s, bytes, from);
  } else if (s && f->kind == TU_FRAME_CLOSED) {
    s->closed_there++;
    sweep(r, s);
  } else if (s && s->control && (!s->deaf || f->kind == TU_FRAME_DEPARTED)) {
    tu_remote_hear(r, s->control, from, f, body, bytes);
  } else if (s && !s->control && !s->closed) {
    hold(r, s, from, f, body, bytes);
  }
  free(body);
}

static void end_data(struct tu_remote *r, uint32_t from, const struct tu_frame *f) {
  struct tu_remote_session *s = tu_remote_find_session(r, f->session);
  struct tu_remote_end *e = s ? tu_remote_find_end(r, s, from, f->lane) : NULL;
  if (e && f->kind == TU_FRAME_CREDIT) tu_remote_note_taken(e, f->of.slice.taken);
  if (!e || f->kind == TU_FRAME_CREDIT || !e->filling) return;
  e->filling = false;
  if (s->closed) sweep(r, s);
  else tu_remote_end_slice(e, f);
}

static void reader_end(struct tu_wire_reader *reader, uint32_t from, const void *head, void *body, size_t bytes) {
  struct tu_remote *r = remote_of(reader);
  struct tu_frame f;
  memcpy(&f, head, sizeof f);
  if (f.kind == TU_FRAME_SLICE || f.kind == TU_FRAME_CREDIT) end_data(r, from, &f);
  else end_control(r, from, &f, body, bytes);
  tu_bell_ring(r->transport, r->transport->rank); /* it may be what another thread of this rank sleeps for */
}

static void reader_lost(struct tu_wire_reader *reader, uint32_t from, const void *head, void *body) {
  struct tu_remote *r = remote_of(reader);
  struct tu_frame f;
  memcpy(&f, head, sizeof f);
  struct tu_remote_session *s = tu_remote_find_session(r, f.session);
  struct tu_remote_end *e = s && f.kind == TU_FRAME_SLICE ? tu_remote_find_end(r, s, from, f.lane) : NULL;
  if (e) e->filling = false;
  if (f.kind != TU_FRAME_SLICE) free(body);
}

/* ---- communicators ---- */

tutti_err tu_remote_open(struct tu_control *c, struct tu_error *error) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  struct tu_remote_session *s = tu_remote_get_session(r, c->session);
  if (s) {
    tu_assert(!s->control && !s->closed);
    s->control = c;
    c->far = s;
    for (uint32_t i = 0; i < c->ranks; i++) s->remote_members += tu_control_local(c, i) == TU_REMOTE;
    for (const struct tu_held *h = s->first; h; h = h->next)
      tu_remote_hear(r, c, h->from, &h->frame, (void *)(uintptr_t)h->body, h->bytes);
    free_held(s);
    if (s->lost.code != TUTTI_OK) tu_remote_fail(r, s, &s->lost);
  }
  pthread_mutex_unlock(&r->lock);
  return s ? TUTTI_OK : tu_fail_memory(error, sizeof *s, "a communicator of several hosts");
}

/* Of one that has failed: who sees that this rank is gone knows why before, also if the one who said it has not been heard. */
static void repeat_verdict(struct tu_remote *r, const struct tu_control *c) {
  struct tu_error error;
  if (c->far->deaf || !tu_control_verdict(c, &error)) return;
  const struct tu_frame f = {.session = c->session, .kind = TU_FRAME_VERDICT, .code = error.code};
  (void)tu_remote_post(r, c, NULL, &f, error.text, strlen(error.text) + 1);
}

void tu_remote_close(struct tu_control *c) {
  struct tu_remote *r = tu_remote_of(c->transport);
  const struct tu_frame f = {.session = c->session, .kind = TU_FRAME_CLOSED};
  pthread_mutex_lock(&r->lock);
  struct tu_remote_session *s = c->far;
  if (s) {
    (void)tu_remote_serve_session(r, s, true);
    for (struct tu_remote_end *e = s->ends; e; e = e->next)
      if (e->sender) (void)tu_remote_send_slices(r, e, true);
    repeat_verdict(r, c);
    (void)tu_remote_post(r, c, NULL, &f, NULL, 0);
    s->control = NULL;
    s->closed = true;
    for (struct tu_remote_end *e = s->ends; e; e = e->next) e->sender = NULL;
    c->far = NULL;
    sweep(r, s);
  }
  pthread_mutex_unlock(&r->lock);
}

tutti_err tu_remote_join(struct tu_control *c, struct tu_sender *sender, uint32_t lane, struct tu_error *error) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  struct tu_remote_session *s = c->far;
  struct tu_remote_end *e = s ? tu_remote_get_end(r, s, c->members[sender->peer], lane) : NULL;
  if (e) e->sender = sender;
  pthread_mutex_unlock(&r->lock);
  return e ? TUTTI_OK : tu_fail_memory(error, sizeof *e, "a channel to rank %u", sender->peer);
}

bool tu_remote_attach(const struct tu_control *c, struct tu_receiver *receiver) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  const struct tu_remote_session *s = c->far;
  struct tu_remote_end *e = s ? tu_remote_find_end(r, s, c->members[receiver->peer], receiver->lane) : NULL;
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

/* ---- beginning and end ---- */

static void remote_close(struct tu_hosts *hosts) {
  struct tu_remote *r = (struct tu_remote *)(void *)hosts;
  if (r->wire) r->wire->ops->close(r->wire, LINGER_MS);
  for (size_t i = 0; i < TU_REMOTE_BUCKETS; i++)
    for (struct tu_remote_session *s = r->sessions[i], *next; s; s = next) {
      next = s->chain;
      for (struct tu_remote_end *e = s->ends, *after; e; e = after) {
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
