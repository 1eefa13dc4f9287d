/* remote_slices.c: slices and credits over a wire. Slices are sent from the memory where the sender has published them,
 * and received into a copy of the channel, or into the target of the receive. */
#include <stdlib.h>
#include <string.h>

#include "mover/remote_internal.h"

enum { CREDITS_LOG2_MAX = 16 };

/* ---- sending ---- */

/* Returns true if a published slice of this end has not been sent. */
static bool has_slice(const struct tu_remote_end *e) {
  const struct tu_line *line = &e->sender->lines[e->sent & (e->sender->credits - 1)];
  return atomic_load_explicit(&line->sequence, memory_order_acquire) == e->sent + 1;
}

/* Sends or posts a frame. Returns false if it can neither be sent now nor be kept for later. */
static bool give(struct tu_wire *w, uint32_t to, bool posts, const struct tu_frame *f, const void *body, size_t bytes) {
  return posts ? w->ops->post(w, to, TU_IN_ORDER, f, body, bytes) : w->ops->send(w, to, f, body, bytes);
}

static const struct tu_line *line_of(const struct tu_remote_end *e, uint32_t sequence) {
  return &e->sender->lines[(sequence - 1) & (e->sender->credits - 1)];
}

static struct tu_frame frame_of(const struct tu_remote_end *e, uint32_t sequence) {
  const struct tu_line *line = line_of(e, sequence);
  return (struct tu_frame){.comm_id = e->comm->number,
                           .kind = TU_FRAME_SLICE,
                           .lane = (uint8_t)e->lane,
                           .credits_log2 = (uint8_t)__builtin_ctz(e->sender->credits),
                           .slot_bytes = e->sender->slot_bytes,
                           .tag = line->tag,
                           .message_bytes = line->message_bytes,
                           .sequence = sequence,
                           .taken = line->taken};
}

static const void *payload_of(const struct tu_remote_end *e, const struct tu_line *line) {
  const bool is_inline = line->message_bytes <= TU_INLINE_BYTES;
  return is_inline ? line->at.payload : (const void *)((uintptr_t)e->sender->base + line->at.offset);
}

/* Sends the published slices of one end of a channel, or lends them. posts = true: they are not lent, and those that cannot
 * be sent now are copied and sent later. */
static bool send_slices(struct tu_remote *r, struct tu_remote_end *e, bool posts) {
  bool moved = false;
  while (has_slice(e)) {
    const struct tu_line *line = line_of(e, e->sent + 1);
    const struct tu_frame f = frame_of(e, e->sent + 1);
    const void *body = payload_of(e, line);
    const bool lent = !posts && tu_remote_lend(r, e, &f, body, line->bytes);
    if (!lent && !give(r->wire, e->peer, posts, &f, body, line->bytes)) return moved;
    e->sent++;
    if ((int32_t)(line->taken - e->told) > 0) e->told = line->taken;
    moved = true;
  }
  return moved;
}

bool tu_remote_send_again(struct tu_remote *r, struct tu_remote_end *e, uint32_t sequence) {
  const struct tu_line *line = line_of(e, sequence);
  struct tu_frame f = frame_of(e, sequence);
  f.again = 1;
  return give(r->wire, e->peer, true, &f, payload_of(e, line), line->bytes);
}

/* Returns the total bytes of the slices that this rank has taken, but has not yet reported to the peer as taken.
 * `taken`: number of slices that this rank has taken. */
static uint32_t count_due(struct tu_remote_end *e, uint32_t taken) {
  if ((int32_t)(e->told - e->counted) > 0) {
    e->counted = e->told;
    e->counted_bytes = 0;
  }
  while (e->counted != taken) e->counted_bytes += e->lines[e->counted++ & (e->credits - 1)].bytes;
  return e->counted_bytes;
}

static bool send_credits(struct tu_remote *r, struct tu_remote_end *e, bool all) {
  uint32_t taken = atomic_load_explicit(&e->credit.taken, memory_order_acquire), due = taken - e->told;
  if (due == 0) return false;
  if (!all && due < e->credits / 2 && count_due(e, taken) < 2 * e->slot_bytes) return false;
  const struct tu_frame f = {
      .comm_id = e->comm->number, .kind = TU_FRAME_CREDIT, .lane = (uint8_t)e->lane, .taken = taken};
  /* all: this rank sends other frames next, and the credits must arrive before them. So they are posted, that is,
   * queued if they cannot be sent now. */
  if (!give(r->wire, e->peer, all, &f, NULL, 0)) return false;
  e->told = e->counted = taken;
  e->counted_bytes = 0;
  return true;
}

bool tu_remote_note_dispatched(struct tu_remote *r, const struct tu_remote_end *e) {
  const bool all = !r->wire->ops->reads(r->wire, e->peer);
  const uint32_t dispatched = tu_remote_is_owed(e) ? e->returned : all ? e->sent : e->sent - 1;
  if ((int32_t)(dispatched - atomic_load_explicit(&e->sender->dispatched, memory_order_relaxed)) > 0) {
    atomic_store_explicit(&e->sender->dispatched, dispatched, memory_order_release);
    tu_bell_ring(r->transport, r->transport->rank);
  }
  return all;
}

/* Sends the slices and credits that are ready at one end of a channel. Sets *left if something cannot be sent now. */
static bool serve(struct tu_remote *r, struct tu_remote_end *e, bool all_credits, bool *left) {
  bool moved = e->sender && send_slices(r, e, false);
  if (e->lines && !e->comm->closed) moved |= send_credits(r, e, all_credits);
  *left = e->lines && atomic_load(&e->credit.taken) != e->told;
  if (e->sender) *left |= !tu_remote_note_dispatched(r, e) || has_slice(e);
  return moved;
}

bool tu_remote_serve_comm(struct tu_remote *r, const struct tu_remote_comm *s, bool all_credits) {
  bool moved = false, left;
  for (struct tu_remote_end *e = s ? s->ends : NULL; e; e = e->next) {
    moved |= serve(r, e, all_credits, &left);
    if (!left || e->left) continue;
    e->left = true;
    e->after = r->left;
    r->left = e;
  }
  return moved;
}

void tu_remote_post_rest(struct tu_remote *r, const struct tu_remote_comm *s) {
  (void)tu_remote_serve_comm(r, s, true);
  for (struct tu_remote_end *e = s->ends; e; e = e->next)
    if (e->sender) (void)send_slices(r, e, true);
  tu_remote_post_letters(r, s);
}

static bool is_slot(const struct tu_remote_end *e, const unsigned char *body) {
  return (uintptr_t)body - (uintptr_t)e->slots < (uintptr_t)e->credits * e->slot_bytes;
}

void tu_remote_let_go(struct tu_remote *r, struct tu_remote_comm *s) {
  s->withdrawn = true;
  tu_remote_recall_all(r, s);
  for (uint32_t rank = 0; rank < r->hosts.ranks; rank++)
    if (r->filling[rank].link_of == s->number) r->wire->ops->skip(r->wire, rank);
  for (struct tu_remote_end *e = s->ends; e; e = e->next) {
    if (e->sender) r->wire->ops->detach(r->wire, e->peer);
    if (e->filling && !is_slot(e, e->body)) r->wire->ops->skip(r->wire, e->peer);
    e->sender = NULL;
  }
}

bool tu_remote_serve_left(struct tu_remote *r, bool all_credits) {
  bool moved = false;
  for (struct tu_remote_end **link = &r->left; *link;) {
    struct tu_remote_end *e = *link;
    moved |= serve(r, e, all_credits, &e->left);
    if (e->left) link = &e->after;
    else *link = e->after;
  }
  return moved;
}

bool tu_remote_has_slices_left(const struct tu_remote *r) {
  for (const struct tu_remote_end *e = r->left; e; e = e->after)
    if (e->sender && has_slice(e)) return true;
  return false;
}

/* ---- receiving slices ---- */

static bool make_copy(struct tu_remote_end *e, uint32_t credits, uint32_t slot_bytes) {
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

/* Returns how many bytes of its message are missing when this slice arrives. */
static uint64_t missing_bytes(const struct tu_remote_end *e, const struct tu_frame *f) {
  return e->message_left > 0 ? e->message_left : f->message_bytes;
}

/* Returns true if the slice is the next one in order, and there is room for it. A correct peer sends no other slice,
 * but a faulty peer must not be able to overwrite memory of this rank. */
static bool is_good(const struct tu_remote_end *e, const struct tu_frame *f, size_t body_bytes) {
  if (f->sequence != e->came + 1 || 1u << f->credits_log2 != e->credits) return false;
  if (e->came - atomic_load(&e->credit.taken) >= e->credits) return false;
  if (e->message_left > 0 && f->message_bytes != e->message_bytes) return false;
  const uint64_t left = missing_bytes(e, f);
  return body_bytes <= tu_min(left, e->slot_bytes) && (body_bytes > 0 || left == 0);
}

static bool is_shape(const struct tu_frame *f) {
  return f->credits_log2 <= CREDITS_LOG2_MAX && f->slot_bytes > 0 && f->slot_bytes <= TU_SLOT_BYTES_MAX;
}

/* Returns where the body of the slice is received: in its line, in the target, if the receiver has posted one for this
 * message, or in a slot. If the receiver has taken all slices, the slots are used from the first one on, as it may be
 * in a cache. */
static unsigned char *place(struct tu_remote_end *e, const struct tu_frame *f) {
  const struct tu_aim *aim = &e->aims[e->messages % TU_POSTS];
  if (f->message_bytes <= TU_INLINE_BYTES) return e->lines[e->came & (e->credits - 1)].at.payload;
  if (!e->comm->withdrawn && atomic_load_explicit(&aim->ticket, memory_order_acquire) == e->messages + 1 &&
      aim->tag == f->tag && aim->bytes == f->message_bytes)
    return aim->to + (f->message_bytes - missing_bytes(e, f));
  if (atomic_load_explicit(&e->credit.taken, memory_order_acquire) == e->came) e->next_slot = 0;
  return e->slots + (size_t)e->next_slot * e->slot_bytes;
}

struct tu_remote_end *tu_remote_begin_slice(struct tu_remote *r, uint32_t from, const struct tu_frame *f,
                                            size_t body_bytes) {
  struct tu_remote_comm *s = tu_remote_get_comm(r, f->comm_id);
  struct tu_error error;
  if (!s || s->closed || f->lane >= TU_MOVER_LANES || !is_shape(f)) return NULL;
  struct tu_remote_end *e = tu_remote_get_end(r, s, from, f->lane);
  if (e && f->again) return (e->body = tu_remote_begin_wanted(e, f->sequence, body_bytes)) ? e : NULL;
  if (e && !e->lines && !make_copy(e, 1u << f->credits_log2, f->slot_bytes)) e = NULL;
  if (!e) tu_fail_memory(&error, (size_t)f->slot_bytes << f->credits_log2, "the channel from rank %u of the job", from);
  else if (!is_good(e, f, body_bytes))
    tu_fail(&error, TUTTI_ERR_SYSTEM,
            "received slice %u of %zu bytes from rank %u of the job on lane %u; expected slice %u of at most %u bytes",
            f->sequence, body_bytes, from, f->lane, e->came + 1, e->slot_bytes);
  else {
    e->body = place(e, f);
    return e;
  }
  tu_remote_fail(r, s, &error);
  return NULL;
}

void tu_remote_note_taken(struct tu_remote_end *e, uint32_t taken) {
  _Atomic uint32_t *known = e->sender ? &e->sender->credit->taken : NULL;
  if (known && (int32_t)(taken - atomic_load_explicit(known, memory_order_relaxed)) > 0 &&
      (int32_t)(e->sent - taken) >= 0)
    atomic_store_explicit(known, taken, memory_order_release);
}

void tu_remote_end_slice(struct tu_remote_end *e, const struct tu_frame *f, size_t bytes) {
  struct tu_line *line = &e->lines[e->came & (e->credits - 1)];
  const bool in_slot = is_slot(e, e->body);
  e->message_bytes = f->message_bytes;
  e->message_left = missing_bytes(e, f) - bytes;
  e->messages += e->message_left == 0;
  line->taken = f->taken;
  line->tag = f->tag;
  line->message_bytes = f->message_bytes;
  line->bytes = (uint32_t)bytes;
  line->where = f->message_bytes > TU_INLINE_BYTES && !in_slot ? TU_IN_TARGET : TU_IN_SEGMENT;
  if (in_slot) {
    line->at.offset = (uint64_t)(e->body - e->slots);
    e->next_slot = (e->next_slot + 1) & (e->credits - 1);
  }
  tu_remote_note_taken(e, f->taken);
  e->came++;
  tu_remote_publish(e);
}

void tu_remote_publish(struct tu_remote_end *e) {
  while (e->published != e->came && !tu_remote_is_away(e, e->published + 1)) {
    struct tu_line *line = &e->lines[e->published & (e->credits - 1)];
    atomic_store_explicit(&line->sequence, ++e->published, memory_order_release);
  }
}
