/* remote_reads.c: reads slices that other ranks have lent to this rank (remote_lent.c) from their memory to their place (wire.h,
 * transfer), and handles the frames about lent slices.
 *
 * When a communicator fails, its buffers are the user's again, and a slice that is read later would have a wrong content,
 * which a receiver that does not know of the failure yet would take for a message. So the sender waits for its slices, and
 * if they are not returned in time, it ends all direct access to its memory. */
#include "mover/remote_internal.h"

/* Longest wait for slices that are not returned, in ns. */
#define RETURN_NS UINT64_C(200000000)

/* ---- the sender ---- */

void tu_remote_hear_returned(struct tu_remote *r, struct tu_remote_end *e, uint32_t sequence) {
  if ((int32_t)(sequence - e->returned) <= 0 || (int32_t)(e->sent - sequence) < 0) return;
  e->returned = sequence;
  if (e->sender) (void)tu_remote_note_dispatched(r, e);
}

void tu_remote_hear_wanted(struct tu_remote *r, struct tu_remote_end *e, uint32_t sequence) {
  struct tu_error error;
  e->lends_not = true;
  if (!e->sender || (int32_t)(sequence - e->returned) <= 0 || (int32_t)(e->last_lent - sequence) < 0) return;
  if (tu_remote_send_again(r, e, sequence)) return;
  tu_fail_memory(&error, e->sender->slot_bytes, "a message to rank %u of the job", e->peer);
  tu_remote_fail(r, e->comm, &error);
}

/* ---- the receiver ---- */

/* Returns false if out of memory. */
static bool tell(struct tu_remote *r, uint64_t comm, uint32_t to, uint32_t lane, uint8_t kind, uint32_t sequence) {
  const struct tu_frame f = {.comm_id = comm, .kind = kind, .lane = (uint8_t)lane, .sequence = sequence};
  return r->wire->ops->post(r->wire, to, TU_IN_ORDER, &f, NULL, 0);
}

static void tell_end(struct tu_remote *r, const struct tu_remote_end *e, uint8_t kind, uint32_t sequence) {
  struct tu_error error;
  if (tell(r, e->comm->number, e->peer, e->lane, kind, sequence)) return;
  /* The sender would wait for the word for ever. */
  tu_fail_memory(&error, sizeof(struct tu_frame), "an answer to rank %u of the job", e->peer);
  tu_remote_fail(r, e->comm, &error);
}

static void want(struct tu_remote *r, struct tu_lent *l) {
  l->state = TU_LENT_WANTED;
  tell_end(r, l->end, TU_FRAME_WANTED, l->sequence);
}

static void settle(struct tu_remote *r, struct tu_lent *l) {
  struct tu_remote_end *e = l->end;
  const uint32_t published = e->published;
  l->state = TU_LENT_NOT;
  tu_remote_publish(e);
  if (e->published != published) tell_end(r, e, TU_FRAME_RETURNED, e->published);
}

static void end_read(struct tu_wire_transfer *transfer, bool carried_out) {
  struct tu_lent *l = transfer->context;
  struct tu_remote *r = l->remote;
  if (carried_out) settle(r, l);
  else want(r, l);
  tu_bell_ring(r->transport, r->transport->rank); /* another thread of this rank may be waiting for it */
}

static bool make_lents(struct tu_remote *r, struct tu_remote_end *e) {
  if (!e->lent) e->lent = tu_try_allocate(e->credits, sizeof *e->lent);
  if (e->lent) return true;
  struct tu_error error;
  tu_fail_memory(&error, e->credits * sizeof *e->lent, "the channel from rank %u of the job", e->peer);
  tu_remote_fail(r, e->comm, &error);
  return false;
}

void tu_remote_hear_lent(struct tu_remote *r, uint32_t from, const struct tu_frame *f,
                         const struct tu_lent_note *note) {
  const struct tu_wire_ops *ops = r->wire->ops;
  struct tu_remote_end *e = tu_remote_begin_slice(r, from, f, note->bytes);
  if (!e || !make_lents(r, e)) {
    /* the communicator has failed, or ended */
    (void)tell(r, f->comm_id, from, f->lane, TU_FRAME_RETURNED, f->sequence);
    return;
  }
  struct tu_lent *l = tu_remote_lent_at(e, f->sequence);
  *l = (struct tu_lent){.remote = r, .end = e, .sequence = f->sequence, .state = TU_LENT_WANTED};
  l->transfer = (struct tu_wire_transfer){.reads = true,
                                          .here = e->body,
                                          .bytes = note->bytes,
                                          .address = note->address,
                                          .key = note->key,
                                          .done = end_read,
                                          .context = l};
  tu_remote_end_slice(e, f, note->bytes);
  if (e->comm->withdrawn) {
    tell_end(r, e, TU_FRAME_RETURNED, f->sequence);
  } else if (ops->transfer && ops->transfer(r->wire, from, &l->transfer)) {
    l->state = TU_LENT_READ;
  } else {
    want(r, l);
  }
}

void tu_remote_end_wanted(struct tu_remote *r, struct tu_remote_end *e, uint32_t sequence) {
  settle(r, tu_remote_lent_at(e, sequence));
}

static void recall(struct tu_remote *r, struct tu_remote_end *e) {
  if (e->published == e->came) return;
  for (uint32_t i = 0; i < e->credits; i++) {
    struct tu_lent *l = &e->lent[i];
    if (l->state != TU_LENT_READ) continue;
    r->wire->ops->recall(r->wire, &l->transfer);
    l->state = TU_LENT_WANTED;
  }
  tell_end(r, e, TU_FRAME_RETURNED, e->came);
}

/* ---- the end of a communicator ---- */

static bool is_any_owed(const struct tu_remote *r, const struct tu_remote_comm *s, bool by_living) {
  for (const struct tu_remote_end *e = s->ends; e; e = e->next)
    if (tu_remote_is_owed(e) && (!by_living || r->wire->ops->alive(r->wire, e->peer))) return true;
  return false;
}

void tu_remote_settle_lent(struct tu_remote *r, struct tu_remote_comm *s) {
  const uint64_t begun = tu_clock_ns();
  s->withdrawn = true;
  for (struct tu_remote_end *e = s->ends; e; e = e->next)
    if (e->lent) recall(r, e);
  while (is_any_owed(r, s, true) && tu_clock_ns() - begun < RETURN_NS) (void)r->wire->ops->look(r->wire);
  if (is_any_owed(r, s, false)) tu_remote_conceal_all(r, false);
}
