/* ofi_path.c: what a rank has with one other rank over libfabric: two rings of slots. A frame is copied into slots, and out
 * of them.
 *
 * written - credited <= TU_OFI_SLOTS: the peer has room for every slot that is written. So writes never wait for each
 * other, and may complete in any order. The peer takes the slots in the order of their numbers. */
#include <stdlib.h>
#include <string.h>

#include "fabric/ofi.h"

enum {
  CREDITS_DUE = TU_OFI_SLOTS / 2, /* a credit is sent when so many slots were taken */
  ALIGNMENT = 4096                /* of rings */
};
/* A path that the fabric has refused for that time, in ns, is given up: its frames go over the sockets. */
#define REFUSED_NS UINT64_C(3000000000)

bool tu_ofi_has_frames(const struct tu_ofi_path *p) { return !tu_frames_is_empty(&p->out) || p->begun != p->written; }

void tu_ofi_try_later(struct tu_ofi_path *p) {
  if (p->waits || p->gone) return;
  p->waits = true;
  p->next_waiting = p->ofi->waiting;
  p->ofi->waiting = p;
}

void tu_ofi_end_path(struct tu_ofi_path *p) {
  if (p->gone) return;
  p->gone = true;
  p->ofi->lost++;
  tu_frames_drop(&p->out);
  tu_frames_lose(&p->in, p->ofi->wire.reader, p->rank);
}

/* ---- over the sockets ---- */

bool tu_ofi_tell(struct tu_ofi_path *p, struct tu_ofi_frame f, const void *body, size_t bytes) {
  f.kind = TU_FRAME_OF_WIRE;
  return p->ofi->sockets->ops->post(p->ofi->sockets, p->rank, TU_IN_ORDER, &f, body, bytes);
}

/* Copies bytes of frames that wait; returns their number. */
static size_t pack(struct tu_frames_out *out, unsigned char *to, size_t room) {
  struct iovec parts[2];
  size_t filled = 0;
  while (filled < room && tu_frames_parts(out, parts) > 0) {
    const size_t bytes = tu_min(parts[0].iov_len, room - filled);
    memcpy(to + filled, parts[0].iov_base, bytes);
    tu_frames_sent(out, bytes);
    filled += bytes;
  }
  return filled;
}

static struct tu_ofi_slot *slot_at(unsigned char *ring, uint32_t number) {
  return (struct tu_ofi_slot *)(void *)(ring + (size_t)((number - 1) % TU_OFI_SLOTS) * TU_OFI_SLOT_BYTES);
}

void tu_ofi_divert(struct tu_ofi_path *p) {
  if (p->state == TU_OFI_DIVERTED || p->gone) return;
  p->state = TU_OFI_DIVERTED;
  unsigned char *rest = malloc(TU_OFI_PAYLOAD_BYTES);
  bool told = rest != NULL;
  for (uint32_t n = p->credited; n != p->written && told; n++) {
    const struct tu_ofi_slot *head = slot_at(p->outgoing, n + 1);
    told = tu_ofi_tell(p, (struct tu_ofi_frame){.what = TU_OFI_SLOT, .number = n + 1}, head + 1, head->bytes);
  }
  for (size_t bytes; told && (bytes = pack(&p->out, rest, TU_OFI_PAYLOAD_BYTES)) > 0;)
    told = tu_ofi_tell(p, (struct tu_ofi_frame){.what = TU_OFI_SLOT, .number = ++p->written}, rest, bytes);
  p->begun = p->written;
  free(rest);
  /* The last credit may be lost. */
  if (told && p->taken > 0)
    told = tu_ofi_tell(p, (struct tu_ofi_frame){.what = TU_OFI_CREDIT, .number = p->taken}, NULL, 0);
  if (!told) tu_ofi_end_path(p); /* out of memory */
}

/* ---- slots that leave ---- */

static struct tu_ofi_path *path_of(struct tu_fabric_op *op) { return ((struct tu_ofi_write *)(void *)op)->path; }

static void end_write(struct tu_fabric_op *op, int error) {
  ((struct tu_ofi_write *)(void *)op)->open = false;
  if (error) tu_ofi_divert(path_of(op));
}

/* A fabric whose ports a firewall blocks may refuse posts for ever, while the sockets work. */
void tu_ofi_note_post(struct tu_ofi_path *p, bool accepted) {
  const uint64_t now = accepted ? 0 : tu_clock_ns();
  if (accepted) {
    p->refused_ns = 0;
    return;
  }
  p->ofi->refused = true;
  if (p->refused_ns == 0) p->refused_ns = now;
  else if (now - p->refused_ns >= REFUSED_NS) tu_ofi_divert(p);
}

/* Gives the filled slots to the fabric. Returns false if it does not take all. */
static bool give(struct tu_ofi_path *p) {
  struct tu_ofi *o = p->ofi;
  while (p->state == TU_OFI_OPEN && p->begun != p->written) {
    const uint32_t number = ++p->begun;
    const struct tu_ofi_slot *head = slot_at(p->outgoing, number);
    struct tu_ofi_write *w = &p->writes[(number - 1) % TU_OFI_SLOTS];
    w->open = true;
    const bool accepted = tu_fabric_write(o->fabric, p->peer, &p->outgoing_region, head, sizeof *head + head->bytes,
                                          p->there.address + (uint64_t)((const unsigned char *)head - p->outgoing),
                                          p->there.key, o->rank * TU_OFI_RANK_UNIT + number % TU_OFI_NUMBERS, &w->op);
    if (!accepted) {
      w->open = false;
      p->begun--;
    }
    tu_ofi_note_post(p, accepted);
    if (!accepted) return false;
  }
  return true;
}

static bool fill(struct tu_ofi_path *p) {
  if (p->written - p->credited >= TU_OFI_SLOTS || p->writes[p->written % TU_OFI_SLOTS].open) return false;
  struct tu_ofi_slot *head = slot_at(p->outgoing, p->written + 1);
  const size_t bytes = pack(&p->out, (unsigned char *)(head + 1), TU_OFI_PAYLOAD_BYTES);
  if (bytes == 0) return false;
  *head = (struct tu_ofi_slot){.number = ++p->written, .bytes = (uint32_t)bytes, .taken = p->taken};
  p->told = p->taken;
  return true;
}

bool tu_ofi_drain(struct tu_ofi_path *p) {
  if (p->ofi->cut) return false;
  while (p->state == TU_OFI_OPEN && give(p) && fill(p)) continue;
  if (!tu_ofi_has_frames(p)) return true;
  tu_ofi_try_later(p);
  return false;
}

static void note_credit(struct tu_ofi_path *p, uint32_t taken) {
  const uint32_t more = (taken - p->credited) % TU_OFI_NUMBERS;
  if (more <= p->begun - p->credited) p->credited += more;
}

void tu_ofi_send_credit(struct tu_ofi_path *p) {
  struct tu_ofi *o = p->ofi;
  if (p->taken - p->told < CREDITS_DUE || p->diverted) return;
  bool told = false;
  if (p->state == TU_OFI_DIVERTED) {
    told = tu_ofi_tell(p, (struct tu_ofi_frame){.what = TU_OFI_CREDIT, .number = p->taken}, NULL, 0);
  } else if (p->state == TU_OFI_OPEN && !p->credit.open) {
    p->credit.open = true;
    told = tu_fabric_write(o->fabric, p->peer, &p->outgoing_region, p->outgoing, 0, p->there.address, p->there.key,
                           o->rank * TU_OFI_RANK_UNIT + TU_OFI_IS_CREDIT + p->taken % TU_OFI_NUMBERS, &p->credit.op);
    if (!told) p->credit.open = false;
    tu_ofi_note_post(p, told);
  }
  if (told) p->told = p->taken;
  else o->refused = true, tu_ofi_try_later(p);
}

/* ---- making a path ---- */

struct tu_ofi_path *tu_ofi_make_path(struct tu_ofi *o, uint32_t rank) {
  struct tu_ofi_path *p = tu_try_allocate(1, sizeof *p);
  if (!p) return NULL;
  *p = (struct tu_ofi_path){.ofi = o, .rank = rank};
  p->credit = (struct tu_ofi_write){.op = {.done = end_write}, .path = p};
  for (int i = 0; i < TU_OFI_SLOTS; i++) p->writes[i] = p->credit;
  return p;
}

void tu_ofi_free_path(struct tu_ofi_path *p) {
  tu_frames_drop(&p->out);
  free(p->incoming);
  free(p->outgoing);
  free(p);
}

static bool make_rings(struct tu_ofi_path *p) {
  struct tu_ofi *o = p->ofi;
  struct tu_error error;
  const size_t bytes = (size_t)TU_OFI_SLOTS * TU_OFI_SLOT_BYTES;
  p->incoming = aligned_alloc(ALIGNMENT, bytes);
  p->outgoing = aligned_alloc(ALIGNMENT, bytes);
  return p->incoming && p->outgoing &&
         tu_fabric_expose(o->fabric, p->incoming, bytes, TU_FI_REMOTE_WRITE, &p->incoming_region, &error) == TUTTI_OK &&
         tu_fabric_expose(o->fabric, p->outgoing, bytes, TU_FI_WRITE, &p->outgoing_region, &error) == TUTTI_OK;
}

void tu_ofi_greet(struct tu_ofi_path *p) {
  const struct tu_fabric *f = p->ofi->fabric;
  if (p->state != TU_OFI_APART || p->gone) return;
  const bool able = f && make_rings(p);
  struct tu_ofi_greeting here = {.address = p->incoming_region.address, .key = p->incoming_region.key};
  if (able) memcpy(here.name, f->name, f->name_bytes);
  p->state = TU_OFI_GREETED;
  tu_ofi_try_later(p);
  if (!tu_ofi_tell(p, (struct tu_ofi_frame){.what = TU_OFI_GREETING, .refuses = !able}, &here, sizeof here))
    tu_ofi_end_path(p);
  else if (!able) tu_ofi_divert(p);
}

static void hear_greeting(struct tu_ofi_path *p, const struct tu_ofi_frame *f, const struct tu_ofi_greeting *there) {
  tu_ofi_greet(p);
  if (p->state != TU_OFI_GREETED) return;
  p->there = *there;
  if (f->refuses || !tu_fabric_add(p->ofi->fabric, there->name, &p->peer)) {
    tu_ofi_divert(p);
    return;
  }
  p->state = TU_OFI_OPEN;
  (void)tu_ofi_drain(p);
}

/* ---- slots that arrive ---- */

static void parse(struct tu_ofi_path *p, const unsigned char *bytes, size_t count) {
  for (size_t done = 0; done < count && !p->gone;)
    done += tu_frames_take(&p->in, p->ofi->wire.reader, p->rank, bytes + done, count - done);
}

static void take_slots(struct tu_ofi_path *p) {
  for (uint32_t bit; bit = 1u << p->taken % TU_OFI_SLOTS, p->arrived & bit && !p->gone;) {
    const struct tu_ofi_slot *head = slot_at(p->incoming, p->taken + 1);
    p->arrived &= ~bit;
    if (head->number != p->taken + 1 || head->bytes > TU_OFI_PAYLOAD_BYTES) {
      tu_ofi_end_path(p); /* not written by a rank of this job */
      return;
    }
    note_credit(p, head->taken);
    parse(p, (const unsigned char *)(head + 1), head->bytes);
    p->taken++;
    tu_ofi_send_credit(p);
  }
}

/* A write of another endpoint has completed. Its data is not to be trusted: a fabric does not know who is in
 * the job. */
static struct tu_ofi_path *find(const struct tu_ofi *o, uint32_t data) {
  const uint32_t rank = data / TU_OFI_RANK_UNIT;
  struct tu_ofi_path *p = rank < o->ranks ? o->paths[rank] : NULL;
  return p && p->incoming && !p->gone ? p : NULL;
}

void tu_ofi_arrived(void *context, uint32_t data) {
  struct tu_ofi_path *p = find(context, data);
  const uint32_t number = data % TU_OFI_NUMBERS;
  if (!p) return;
  if (data & TU_OFI_IS_CREDIT) {
    note_credit(p, number);
    return;
  }
  const uint32_t ahead = (number - p->taken - 1) % TU_OFI_NUMBERS;
  if (p->diverted || ahead >= TU_OFI_SLOTS) return;
  p->arrived |= 1u << (p->taken + ahead) % TU_OFI_SLOTS;
  take_slots(p);
}

static void hear_slot(struct tu_ofi_path *p, uint32_t number, const unsigned char *bytes, size_t count) {
  p->diverted = true;
  if (number != p->taken + 1) return; /* it has come over the fabric */
  if (bytes) parse(p, bytes, count);
  else tu_ofi_end_path(p); /* out of memory */
  p->taken++;
}

void tu_ofi_arrived_late(void *context, uint32_t data) {
  struct tu_ofi_path *p = find(context, data);
  if (p && data & TU_OFI_IS_CREDIT) note_credit(p, data % TU_OFI_NUMBERS);
}

void tu_ofi_hear(struct tu_ofi_path *p, const struct tu_ofi_frame *f, const void *body, size_t bytes) {
  if (f->what == TU_OFI_GREETING && bytes == sizeof(struct tu_ofi_greeting) && body) hear_greeting(p, f, body);
  else if (f->what == TU_OFI_CREDIT) note_credit(p, f->number);
  else if (f->what == TU_OFI_SLOT && bytes <= TU_OFI_PAYLOAD_BYTES) hear_slot(p, f->number, body, bytes);
  else if (f->what == TU_OFI_CLOSED) tu_ofi_divert(p);
  else tu_ofi_end_path(p);
}
