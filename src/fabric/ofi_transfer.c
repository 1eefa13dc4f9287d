/* ofi_transfer.c: memory that other ranks read and write over libfabric, and transfers from and to theirs. */
#include <stdlib.h>

#include "fabric/ofi.h"

/* Time that a transfer which is recalled may still take, in ns. Then the fabric is given up, because that is the only way
 * to make sure that it does not use the memory any more. */
#define RECALL_NS UINT64_C(200000000)

/* ---- memory of this rank ---- */

bool tu_ofi_expose(struct tu_wire *w, void *base, size_t bytes, bool writable, struct tu_wire_memory *memory) {
  struct tu_ofi *o = tu_ofi_of(w);
  struct tu_error error;
  struct tu_fabric_region *region = o->fabric && bytes > 0 ? malloc(sizeof *region) : NULL;
  *memory = (struct tu_wire_memory){0};
  if (!region) return false;
  const uint64_t access = TU_FI_READ | TU_FI_WRITE | TU_FI_REMOTE_READ | (writable ? TU_FI_REMOTE_WRITE : 0);
  if (tu_fabric_expose(o->fabric, base, bytes, access, region, &error) != TUTTI_OK) {
    free(region);
    return false;
  }
  *memory = (struct tu_wire_memory){.address = region->address, .key = region->key, .region = region};
  return true;
}

/* A rank that uses a region without registration loses its connection, and what it has sent there. So it ends only when no
 * rank does. */
void tu_ofi_conceal(struct tu_wire *w, struct tu_wire_memory *memory, bool in_order) {
  struct tu_ofi *o = tu_ofi_of(w);
  if (!memory->region) return;
  if (o->fabric && !in_order) tu_ofi_give_up(o);
  if (o->fabric) tu_fabric_conceal(o->fabric, memory->region);
  free(memory->region);
  memory->region = NULL;
}

/* ---- transfers ---- */

static struct tu_ofi_transfer *state_of(struct tu_wire_transfer *t) {
  return (struct tu_ofi_transfer *)(void *)t->state;
}

static void end(struct tu_fabric_op *op, int error) {
  struct tu_ofi_transfer *x = (struct tu_ofi_transfer *)(void *)op;
  x->step = error ? TU_OFI_FAILED : TU_OFI_CARRIED_OUT;
}

/* Begins the transfer, if that is possible now. */
static void begin(struct tu_ofi_transfer *x) {
  const struct tu_wire_transfer *t = x->transfer;
  struct tu_ofi_path *p = x->path;
  struct tu_ofi *o = p->ofi;
  static const struct tu_fabric_region none;
  const struct tu_fabric_region *here = tu_fabric_find(o->fabric, t->here, t->bytes);
  if (!here) here = &none;
  x->step = TU_OFI_BEGUN;
  const bool accepted = t->reads
                            ? tu_fabric_read(o->fabric, p->peer, here, t->here, t->bytes, t->address, t->key, &x->op)
                            : tu_fabric_put(o->fabric, p->peer, here, t->here, t->bytes, t->address, t->key, &x->op);
  if (!accepted) x->step = TU_OFI_WAITS;
  tu_ofi_note_post(p, accepted);
}

static void go_on(struct tu_ofi_transfer *x) {
  const struct tu_ofi_path *p = x->path;
  if (x->step == TU_OFI_WAITS && (p->gone || p->state == TU_OFI_DIVERTED)) x->step = TU_OFI_FAILED;
  if (x->step == TU_OFI_WAITS && p->state == TU_OFI_OPEN && !p->ofi->cut) begin(x);
}

bool tu_ofi_transfer(struct tu_wire *w, uint32_t rank, struct tu_wire_transfer *transfer) {
  struct tu_ofi *o = tu_ofi_of(w);
  struct tu_ofi_path *p = o->paths[rank];
  if (!p || !o->fabric || transfer->bytes > o->fabric->info->ep_attr->max_msg_size) return false;
  if (tu_fabric_needs_local(o->fabric) && !tu_fabric_find(o->fabric, transfer->here, transfer->bytes)) return false;
  tu_ofi_greet(p);
  if (p->gone || p->state == TU_OFI_DIVERTED) return false;
  struct tu_ofi_transfer *x = state_of(transfer);
  *x = (struct tu_ofi_transfer){.op = {.done = end}, .transfer = transfer, .path = p, .next = o->transfers};
  o->transfers = x;
  go_on(x);
  return true;
}

static void take_out(struct tu_ofi *o, const struct tu_ofi_transfer *x) {
  struct tu_ofi_transfer **link = &o->transfers;
  while (*link != x) link = &(*link)->next;
  *link = x->next;
}

/* The caller of a transfer that is done may begin others. */
void tu_ofi_serve_transfers(struct tu_ofi *o) {
  struct tu_ofi_transfer *x = o->transfers;
  while (x) {
    go_on(x);
    if (x->step <= TU_OFI_BEGUN) {
      x = x->next;
      continue;
    }
    take_out(o, x);
    x->transfer->done(x->transfer, x->step == TU_OFI_CARRIED_OUT);
    x = o->transfers;
  }
}

void tu_ofi_recall(struct tu_wire *w, struct tu_wire_transfer *transfer) {
  struct tu_ofi *o = tu_ofi_of(w);
  struct tu_ofi_transfer *x = state_of(transfer);
  const uint64_t begun = tu_clock_ns();
  while (x->step == TU_OFI_BEGUN && tu_clock_ns() - begun < RECALL_NS)
    (void)tu_fabric_look(o->fabric, tu_ofi_arrived, o);
  if (x->step == TU_OFI_BEGUN) tu_ofi_give_up(o);
  take_out(o, x);
}

void tu_ofi_give_up(struct tu_ofi *o) {
  for (uint32_t r = 0; r < o->ranks; r++) {
    struct tu_ofi_path *p = o->paths[r];
    if (!p || p->gone || p->state == TU_OFI_APART) continue;
    tu_ofi_divert(p);
    if (!p->gone && !tu_ofi_tell(p, (struct tu_ofi_frame){.what = TU_OFI_CLOSED}, NULL, 0)) tu_ofi_end_path(p);
  }
  tu_fabric_close(o->fabric);
  o->fabric = NULL;
  for (struct tu_ofi_transfer *x = o->transfers; x; x = x->next)
    if (x->step == TU_OFI_BEGUN) x->step = TU_OFI_FAILED;
}
