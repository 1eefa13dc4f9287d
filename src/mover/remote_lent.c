/* remote_lent.c: long slices that are not sent, but lent: the frame tells where the payload lies, in exposed memory of the
 * sender, and the receiver reads it from there to its place (remote_reads.c). So nothing is copied.
 *
 * The sender keeps the payload unchanged until the receiver has reported the slice as returned. Several slices may be lent
 * at a time; they are published to the receiver's threads in order. If a slice cannot be read, because the wire has lost its
 * direct access, the receiver asks for it, and it is sent like any other. From then on that sender lends nothing more. */
#include "mover/remote_internal.h"

/* Of a shorter slice, both copies take less time than the two messages that lending adds. The simulated world (tests/world)
 * lends shorter ones. */
#ifndef TU_LENT_BYTES_MIN
#define TU_LENT_BYTES_MIN ((size_t)64 << 10)
#endif

bool tu_remote_is_away(const struct tu_remote_end *e, uint32_t sequence) {
  return e->lent && tu_remote_lent_at(e, sequence)->state != TU_LENT_NOT;
}

/* ---- the sender ---- */

bool tu_remote_lend(struct tu_remote *r, struct tu_remote_end *e, const struct tu_frame *slice, const void *payload,
                    size_t bytes) {
  const struct tu_wire_ops *ops = r->wire->ops;
  struct tu_lent_note note = {.bytes = bytes};
  struct tu_frame f = *slice;
  if (bytes < TU_LENT_BYTES_MIN || e->lends_not || !ops->fabric || !ops->fabric(r->wire, e->peer, NULL, 0))
    return false;
  if (!tu_remote_exposed(r, payload, bytes, &note.address, &note.key)) return false;
  f.kind = TU_FRAME_LENT;
  if (!ops->post(r->wire, e->peer, TU_IN_ORDER, &f, &note, sizeof note)) return false;
  e->last_lent = f.sequence;
  return true;
}

bool tu_remote_is_owed(const struct tu_remote_end *e) { return e->sender && (int32_t)(e->last_lent - e->returned) > 0; }

/* ---- the receiver ---- */

void *tu_remote_begin_wanted(const struct tu_remote_end *e, uint32_t sequence, size_t bytes) {
  const bool arrived = e->lent && (int32_t)(sequence - e->published) > 0 && (int32_t)(e->came - sequence) >= 0;
  const struct tu_lent *l = arrived && !e->comm->withdrawn ? tu_remote_lent_at(e, sequence) : NULL;
  return l && l->state == TU_LENT_WANTED && l->transfer.bytes == bytes ? l->transfer.here : NULL;
}
