/* remote_slices.c: slices and credits: sent from where a sender has published them, received into a copy of its channel. */
#include <stdlib.h>
#include <string.h>

#include "mover/remote_parts.h"

enum { CREDITS_MAX = 1 << 16 };

/* ---- sending ---- */

/* Is there one that has not been sent? */
static bool has_slice(const struct tu_remote_end *e) {
  const struct tu_line *line = &e->sender->lines[e->sent & (e->sender->credits - 1)];
  return atomic_load_explicit(&line->sequence, memory_order_acquire) == e->sent + 1;
}

bool tu_remote_send_slices(struct tu_remote *r, struct tu_remote_end *e, bool posts) {
  const struct tu_sender *s = e->sender;
  bool moved = false;
  while (has_slice(e)) {
    const struct tu_line *line = &s->lines[e->sent & (s->credits - 1)];
    struct tu_frame f = {.session = e->session->number, .kind = TU_FRAME_SLICE, .lane = (uint8_t)e->lane};
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
  struct tu_frame f = {.session = e->session->number, .kind = TU_FRAME_CREDIT, .lane = (uint8_t)e->lane};
  f.of.slice.taken = taken;
  /* All of them precede what this rank says next. */
  if (!(all ? r->wire->ops->post : r->wire->ops->send)(r->wire, e->peer, &f, NULL, 0)) return false;
  e->told = e->counted = taken;
  e->counted_bytes = 0;
  return true;
}

/* What cannot go now is left for later. */
static bool serve(struct tu_remote *r, struct tu_remote_end *e, bool all_credits, bool *left) {
  bool moved = e->sender && tu_remote_send_slices(r, e, false);
  if (e->lines && !e->session->closed) moved |= send_credits(r, e, all_credits);
  *left = (e->sender && has_slice(e)) || (e->lines && atomic_load(&e->credit.taken) != e->told);
  return moved;
}

bool tu_remote_serve_session(struct tu_remote *r, const struct tu_remote_session *s, bool all_credits) {
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

/* ---- what comes: slices ---- */

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

/* Is it the next one, and is there room? It comes from a process that follows the same rules; but where bytes go does not rely on
 * that. */
static bool is_good(const struct tu_remote_end *e, const struct tu_frame *f, size_t body_bytes) {
  bool is_inline = f->of.slice.message_bytes <= TU_INLINE_BYTES;
  if (f->of.slice.sequence != e->came + 1 || f->of.slice.credits != e->credits) return false;
  if (e->came - atomic_load(&e->credit.taken) >= e->credits) return false;
  if (e->message_left > 0 && f->of.slice.message_bytes != e->message_bytes) return false;
  uint64_t left = e->message_left > 0 ? e->message_left : f->of.slice.message_bytes;
  if (f->of.slice.bytes > left || (f->of.slice.bytes == 0 && left > 0)) return false;
  return f->of.slice.bytes <= (is_inline ? TU_INLINE_BYTES : e->slot_bytes) &&
         body_bytes == (is_inline ? 0 : f->of.slice.bytes);
}

static bool is_shape(const struct tu_frame *f) {
  uint32_t credits = f->of.slice.credits;
  return credits > 0 && credits <= CREDITS_MAX && (credits & (credits - 1)) == 0 && f->of.slice.slot_bytes > 0 &&
         f->of.slice.slot_bytes <= TU_SLOT_BYTES_MAX;
}

struct tu_remote_end *tu_remote_begin_slice(struct tu_remote *r, uint32_t from, const struct tu_frame *f,
                                            size_t body_bytes) {
  struct tu_remote_session *s = tu_remote_get_session(r, f->session);
  struct tu_error error;
  if (!s || s->closed || f->lane >= TU_MOVER_LANES || !is_shape(f)) return NULL;
  struct tu_remote_end *e = tu_remote_get_end(r, s, from, f->lane);
  if (e && !e->lines && !make_copy(e, f->of.slice.credits, f->of.slice.slot_bytes)) e = NULL;
  if (!e)
    tu_fail_memory(&error, (size_t)f->of.slice.credits * f->of.slice.slot_bytes, "messages from rank %u of the job",
                   from);
  else if (!is_good(e, f, body_bytes))
    tu_fail(&error, TUTTI_ERR_SYSTEM,
            "slice %u of %u bytes came from rank %u of the job on lane %u; expected slice %u, of at most %u bytes",
            f->of.slice.sequence, f->of.slice.bytes, from, f->lane, e->came + 1, e->slot_bytes);
  else return e;
  tu_remote_fail(r, s, &error);
  return NULL;
}

unsigned char *tu_remote_slot(const struct tu_remote_end *e) {
  return e->slots + (size_t)(e->came & (e->credits - 1)) * e->slot_bytes;
}

void tu_remote_note_taken(struct tu_remote_end *e, uint32_t taken) {
  _Atomic uint32_t *known = e->sender ? &e->sender->credit->taken : NULL;
  if (known && (int32_t)(taken - atomic_load_explicit(known, memory_order_relaxed)) > 0 &&
      (int32_t)(e->sent - taken) >= 0)
    atomic_store_explicit(known, taken, memory_order_release);
}

void tu_remote_end_slice(struct tu_remote_end *e, const struct tu_frame *f) {
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
  else line->at.place = (uint64_t)(tu_remote_slot(e) - e->slots);
  tu_remote_note_taken(e, f->of.slice.taken);
  atomic_store_explicit(&line->sequence, ++e->came, memory_order_release);
}
