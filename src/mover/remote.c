/* remote.c: receives frames from ranks of other hosts and passes them to their communicators. Creates and closes the
 * endpoint's wire to other hosts. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/remote_internal.h"

enum { LINGER_MS = 10000 };

/* ---- sending and receiving ---- */

static bool look(struct tu_remote *r) {
  const bool moved = r->wire->ops->look(r->wire);
  atomic_store_explicit(&r->hosts.losses, r->wire->losses, memory_order_relaxed);
  return moved;
}

/* Sends what waits: slices and credits (tu_remote_serve_comm), those that are left of other communicators, and letters. s
 * may be NULL. */
static bool serve(struct tu_remote *r, const struct tu_remote_comm *s, bool all_credits) {
  r->wire->ops->gather(r->wire, true);
  bool moved = tu_remote_serve_comm(r, s, all_credits);
  moved |= tu_remote_serve_left(r, all_credits);
  moved |= tu_remote_send_letters(r);
  r->wire->ops->gather(r->wire, false);
  return moved;
}

/* Sends the published slices. If another thread holds the lock, this function waits for it, whereas tu_remote_look
 * returns. If it returned, the slices might stay unsent, because no thread may serve this communicator again. */
bool tu_remote_send(const struct tu_control *c) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  const bool moved = serve(r, c->far, false);
  pthread_mutex_unlock(&r->lock);
  return moved;
}

bool tu_remote_look(const struct tu_control *c) {
  struct tu_remote *r = tu_remote_of(c->transport);
  if (pthread_mutex_trylock(&r->lock) != 0) return false;
  bool moved = look(r);
  moved |= serve(r, c->far, false);
  pthread_mutex_unlock(&r->lock);
  return moved;
}

bool tu_remote_flush(struct tu_transport *t, const struct tu_control *c) {
  struct tu_remote *r = tu_remote_of(t);
  pthread_mutex_lock(&r->lock);
  bool moved = look(r);
  moved |= serve(r, c ? c->far : NULL, true);
  pthread_mutex_unlock(&r->lock);
  return moved;
}

void tu_remote_arm(struct tu_transport *t) {
  struct tu_remote *r = tu_remote_of(t);
  if (!r || !r->wire->ops->arm) return;
  pthread_mutex_lock(&r->lock);
  r->wire->ops->arm(r->wire);
  pthread_mutex_unlock(&r->lock);
}

bool tu_remote_is_unsent(const struct tu_transport *t) {
  struct tu_remote *r = tu_remote_of(t);
  pthread_mutex_lock(&r->lock);
  const bool unsent = r->wire->unsent > 0 || tu_remote_has_slices_left(r) || tu_remote_has_letters(r);
  pthread_mutex_unlock(&r->lock);
  return unsent;
}

bool tu_remote_fabric(const struct tu_transport *t, uint32_t job_rank, char *text, size_t text_bytes) {
  struct tu_remote *r = tu_remote_of(t);
  const struct tu_wire_ops *ops = r->wire->ops;
  pthread_mutex_lock(&r->lock);
  const bool is_fabric = ops->fabric && ops->fabric(r->wire, job_rank, text, text_bytes);
  pthread_mutex_unlock(&r->lock);
  return is_fabric;
}

static void fail_without_memory(struct tu_remote *r, struct tu_remote_comm *s, size_t bytes, uint32_t from) {
  struct tu_error error;
  tu_fail_memory(&error, bytes, "a control message from rank %u of the job", from);
  tu_remote_fail(r, s, &error);
}

/* Keeps a frame that has arrived until the communicator is made on this rank. */
static void hold(struct tu_remote *r, struct tu_remote_comm *s, uint32_t from, const struct tu_frame *f,
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

/* ---- the wire's reader: functions that the wire calls for each frame that arrives ---- */

static struct tu_remote *remote_of(struct tu_wire_reader *reader) {
  return (struct tu_remote *)(void *)((unsigned char *)reader - offsetof(struct tu_remote, reader));
}

static struct tu_link_head link_head(const void *head) {
  struct tu_link_head h;
  memcpy(&h, head, sizeof h);
  return h;
}

/* Returns the communicator of a message of a link, and its sender there; NULL: the message is skipped. */
static struct tu_control *link_of(struct tu_remote *r, uint32_t from, const struct tu_link_head *h, uint32_t *member) {
  const struct tu_remote_comm *s = tu_remote_find_comm(r, h->comm_id);
  struct tu_control *c = s && !s->deaf && !s->withdrawn ? s->control : NULL;
  if (c) *member = tu_control_member_of(c, from);
  return c && *member != TU_NONE ? c : NULL;
}

static void *begin_message(struct tu_remote *r, uint32_t from, const void *head, size_t bytes) {
  const struct tu_link_head h = link_head(head);
  uint32_t member;
  struct tu_control *c = link_of(r, from, &h, &member);
  void *body = c ? c->links->begin(c, member, &h, bytes) : NULL;
  r->filling[from] = (struct tu_filling){.link_of = body ? h.comm_id : 0};
  return body;
}

static void end_message(struct tu_remote *r, uint32_t from, const void *head, const void *body) {
  const struct tu_link_head h = link_head(head);
  uint32_t member;
  struct tu_control *c = link_of(r, from, &h, &member);
  r->filling[from] = (struct tu_filling){0};
  if (c && body) c->links->end(c, member, &h);
}

static bool is_message(const struct tu_frame *f, const void *head) {
  return f->kind == TU_FRAME_LINK && link_head(head).what == 0;
}

static void *begin_note(struct tu_remote *r, uint32_t from, size_t bytes) {
  struct tu_lent_note *note = &r->filling[from].note;
  *note = (struct tu_lent_note){0}; /* of a malformed frame */
  return bytes == sizeof *note ? note : NULL;
}

static void *reader_begin(struct tu_wire_reader *reader, uint32_t from, const void *head, size_t bytes) {
  struct tu_remote *r = remote_of(reader);
  struct tu_frame f;
  memcpy(&f, head, sizeof f);
  if (f.kind == TU_FRAME_MEMORY) return tu_remote_begin_memory(r, from, head, bytes);
  if (is_message(&f, head)) return begin_message(r, from, head, bytes);
  if (f.kind == TU_FRAME_LENT) return begin_note(r, from, bytes);
  if (f.kind != TU_FRAME_SLICE) return bytes > 0 && bytes <= TU_SLOT_BYTES_MAX ? malloc(bytes) : NULL;
  struct tu_remote_end *e = tu_remote_begin_slice(r, from, &f, bytes);
  if (!e) return NULL;
  e->filling = true;
  return e->body;
}

static void end_control(struct tu_remote *r, uint32_t from, const struct tu_frame *f, void *body, size_t bytes) {
  struct tu_remote_comm *s = f->kind == TU_FRAME_WAITS ? NULL : tu_remote_get_comm(r, f->comm_id);
  if (f->kind == TU_FRAME_WAITS) {
    tu_remote_hear_waits(r, from, f, body, bytes);
  } else if (s && bytes > 0 && !body) {
    fail_without_memory(r, s, bytes, from);
  } else if (s && f->kind == TU_FRAME_CLOSED) {
    tu_remote_note_closed(s, from);
    tu_remote_sweep(r, s);
  } else if (s && f->kind == TU_FRAME_CALL && f->code == 1 && (s->deaf || s->closed)) {
    const struct tu_frame answer = {.comm_id = s->number, .kind = TU_FRAME_DEPARTED};
    (void)r->wire->ops->post(r->wire, from, TU_IN_ORDER, &answer, NULL, 0);
  } else if (s && s->control && (!s->deaf || f->kind == TU_FRAME_DEPARTED)) {
    tu_remote_hear(r, s->control, from, f, body, bytes);
  } else if (s && !s->control && !s->closed) {
    hold(r, s, from, f, body, bytes);
  }
  free(body);
}

static void end_slice(struct tu_remote *r, struct tu_remote_end *e, const struct tu_frame *f, size_t bytes) {
  if (!e->filling) return;
  e->filling = false;
  if (e->comm->closed) tu_remote_sweep(r, e->comm);
  else if (f->again) tu_remote_end_wanted(r, e, f->sequence);
  else tu_remote_end_slice(e, f, bytes);
}

/* Handles a frame that belongs to a channel. */
static void end_data(struct tu_remote *r, uint32_t from, const struct tu_frame *f, size_t bytes) {
  struct tu_remote_comm *s = tu_remote_find_comm(r, f->comm_id);
  struct tu_remote_end *e = s ? tu_remote_find_end(r, s, from, f->lane) : NULL;
  if (!e) return;
  if (f->kind == TU_FRAME_SLICE) end_slice(r, e, f, bytes);
  else if (f->kind == TU_FRAME_CREDIT) tu_remote_note_taken(e, f->taken);
  else if (f->kind == TU_FRAME_RETURNED) tu_remote_hear_returned(r, e, f->sequence);
  else tu_remote_hear_wanted(r, e, f->sequence);
}

static bool is_data(const struct tu_frame *f) {
  return f->kind == TU_FRAME_SLICE || f->kind == TU_FRAME_CREDIT || f->kind == TU_FRAME_RETURNED ||
         f->kind == TU_FRAME_WANTED;
}

static void reader_end(struct tu_wire_reader *reader, uint32_t from, const void *head, void *body, size_t bytes) {
  struct tu_remote *r = remote_of(reader);
  struct tu_frame f;
  memcpy(&f, head, sizeof f);
  if (is_data(&f)) end_data(r, from, &f, bytes);
  else if (f.kind == TU_FRAME_LENT) tu_remote_hear_lent(r, from, &f, &r->filling[from].note);
  else if (f.kind == TU_FRAME_MEMORY) tu_remote_end_memory(r, from, head, body, bytes);
  else if (is_message(&f, head)) end_message(r, from, head, body);
  else end_control(r, from, &f, body, bytes);
  tu_bell_ring(r->transport, r->transport->rank); /* another thread of this rank may be waiting for this frame */
}

static void reader_lost(struct tu_wire_reader *reader, uint32_t from, const void *head, void *body) {
  struct tu_remote *r = remote_of(reader);
  struct tu_frame f;
  memcpy(&f, head, sizeof f);
  if (f.kind == TU_FRAME_MEMORY || is_message(&f, head)) {
    tu_remote_lose_memory(r, from);
    return;
  }
  struct tu_remote_comm *s = tu_remote_find_comm(r, f.comm_id);
  struct tu_remote_end *e = s && f.kind == TU_FRAME_SLICE ? tu_remote_find_end(r, s, from, f.lane) : NULL;
  if (e) e->filling = false;
  if (f.kind != TU_FRAME_SLICE && f.kind != TU_FRAME_LENT) free(body);
}

bool tu_remote_tell_link(struct tu_control *c, uint32_t rank, struct tu_link_head *head, const void *body, size_t bytes,
                         void *owned) {
  struct tu_remote *r = tu_remote_of(c->transport);
  head->comm_id = c->comm_id;
  head->kind = TU_FRAME_LINK;
  pthread_mutex_lock(&r->lock);
  const bool told = tu_remote_write(r, c->members[rank], head, body, bytes, owned);
  pthread_mutex_unlock(&r->lock);
  return told;
}

/* ---- communicators ---- */

tutti_err tu_remote_open(struct tu_control *c, struct tu_error *error) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  struct tu_remote_comm *s = tu_remote_get_comm(r, c->comm_id);
  if (s) {
    tu_assert(!s->control && !s->closed);
    s->control = c;
    c->far = s;
    for (const struct tu_held *h = s->first; h; h = h->next)
      tu_remote_hear(r, c, h->from, &h->frame, (void *)(uintptr_t)h->body, h->bytes);
    tu_remote_free_held(s);
    if (s->lost.code != TUTTI_OK) tu_remote_fail(r, s, &s->lost);
  }
  pthread_mutex_unlock(&r->lock);
  return s ? TUTTI_OK : tu_fail_memory(error, sizeof *s, "a communicator of several hosts");
}

/* Sends the verdict (first failure) of a failed communicator once more before this rank closes. A rank may have missed
 * the first message with the verdict; otherwise it would only see that this rank leaves, and not know why. */
static void repeat_verdict(struct tu_remote *r, const struct tu_control *c) {
  struct tu_error error;
  if (!c->far->deaf && tu_control_verdict(c, &error)) tu_remote_post_verdict(r, c, &error);
}

void tu_remote_withdraw(const struct tu_control *c) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  if (c->far) {
    tu_remote_settle_lent(r, c->far);
    tu_remote_let_go(r, c->far);
  }
  pthread_mutex_unlock(&r->lock);
}

void tu_remote_close(struct tu_control *c) {
  struct tu_remote *r = tu_remote_of(c->transport);
  const struct tu_frame f = {.comm_id = c->comm_id, .kind = TU_FRAME_CLOSED};
  pthread_mutex_lock(&r->lock);
  struct tu_remote_comm *s = c->far;
  if (s) {
    tu_remote_post_rest(r, s);
    repeat_verdict(r, c);
    tu_remote_settle_lent(r, s);
    (void)tu_remote_post(r, c, TU_IF_MET, &f, NULL, 0);
    tu_remote_mark_closed(r, s);
    tu_remote_let_go(r, s);
    c->far = NULL;
    tu_remote_sweep(r, s);
  }
  pthread_mutex_unlock(&r->lock);
}

tutti_err tu_remote_join(struct tu_control *c, struct tu_sender *sender, uint32_t lane, struct tu_error *error) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  struct tu_remote_comm *s = c->far;
  struct tu_remote_end *e = s ? tu_remote_get_end(r, s, c->members[sender->peer], lane) : NULL;
  if (e) e->sender = sender;
  pthread_mutex_unlock(&r->lock);
  return e ? TUTTI_OK : tu_fail_memory(error, sizeof *e, "a channel to rank %u", sender->peer);
}

bool tu_remote_attach(const struct tu_control *c, struct tu_receiver *receiver) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  const struct tu_remote_comm *s = c->far;
  struct tu_remote_end *e = s ? tu_remote_find_end(r, s, c->members[receiver->peer], receiver->lane) : NULL;
  if (e && e->lines) {
    receiver->credit = &e->credit;
    receiver->base = e->slots;
    receiver->credits = e->credits;
    /* A frame's time does not depend on caches, so the transfer time of no line is measured: next_timed becomes the
     * number of a slice that has already passed. */
    receiver->next_timed = receiver->received - 1;
    receiver->aims = e->aims;
    receiver->lines = e->lines;
    atomic_store(&c->others[receiver->peer].heard, true);
  }
  pthread_mutex_unlock(&r->lock);
  return receiver->lines != NULL;
}

/* ---- creating and closing ---- */

static void remote_close(struct tu_hosts *hosts) {
  struct tu_remote *r = (struct tu_remote *)(void *)hosts;
  tu_remote_conceal_all(r, true);
  if (r->wire) r->wire->ops->close(r->wire, LINGER_MS);
  for (size_t i = 0; i < TU_REMOTE_BUCKETS; i++)
    for (struct tu_remote_comm *s = r->comms[i], *next; s; s = next) {
      next = s->chain;
      for (struct tu_remote_end *e = s->ends, *after; e; e = after) {
        after = e->next;
        tu_remote_free_end(e);
      }
      tu_remote_free_comm(s);
    }
  tu_remote_free_waits(r);
  tu_remote_free_letters(r);
  tu_remote_free_fillings(r);
  if (hosts->bell_fd >= 0) close(hosts->bell_fd);
  free(hosts->locals);
  pthread_mutex_destroy(&r->lock);
  free(r);
}

static void remote_forget(struct tu_hosts *hosts, const void *base) {
  struct tu_remote *r = (struct tu_remote *)(void *)hosts;
  pthread_mutex_lock(&r->lock);
  tu_remote_forget(r, base);
  pthread_mutex_unlock(&r->lock);
}

static void remote_cut(struct tu_hosts *hosts) {
  struct tu_remote *r = (struct tu_remote *)(void *)hosts;
  pthread_mutex_lock(&r->lock);
  r->wire->ops->cut(r->wire);
  pthread_mutex_unlock(&r->lock);
}

tutti_err tu_remote_create(struct tu_transport *t, uint32_t rank, uint32_t ranks, const uint32_t locals[],
                           struct tu_wire *wire, struct tu_error *error) {
  struct tu_remote *r = tu_try_allocate(1, sizeof *r);
  if (!r) {
    wire->ops->close(wire, 0);
    return tu_fail_memory(error, sizeof *r, "the state of %u ranks on several hosts", ranks);
  }
  *r = (struct tu_remote){
      .hosts = {.rank = rank, .ranks = ranks, .bell_fd = tu_bell_open(t, error), .wire_fd = wire->descriptor},
      .reader = {reader_begin, reader_end, reader_lost},
      .transport = t,
      .wire = wire};
  r->hosts.close = remote_close;
  r->hosts.forget = remote_forget;
  r->hosts.cut = remote_cut;
  pthread_mutex_init(&r->lock, NULL);
  r->hosts.locals = tu_try_allocate(ranks, sizeof *locals);
  r->filling = tu_try_allocate(ranks, sizeof *r->filling);
  wire->reader = &r->reader;
  tutti_err err = TUTTI_OK;
  if (r->hosts.bell_fd < 0) err = error->code;
  else if (!r->hosts.locals || !r->filling)
    err = tu_fail_memory(error, ranks * sizeof *locals, "the hosts of %u ranks", ranks);
  if (err != TUTTI_OK) {
    remote_close(&r->hosts);
    return err;
  }
  memcpy(r->hosts.locals, locals, ranks * sizeof *locals);
  t->hosts = &r->hosts;
  return TUTTI_OK;
}
