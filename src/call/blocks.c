/* blocks.c: checks tutti_call.send_blocks and recv_blocks. */
#include "call/blocks.h"

#include "plan/collective.h"

/* One of the two buffers of a call, as the caller describes it. */
struct side {
  const char *name, *offsets_name;
  const void *const *blocks;
  const void *buffer;
  const size_t *offsets;
  bool is_cut; /* the collective cuts the buffer into one block per rank */
};

static tutti_err take(const tutti_call *call, const struct side *side, struct tu_view *view, struct tu_error *error) {
  const struct tu_collective *c = &tu_collectives[call->collective];
  if (!side->blocks) return TUTTI_OK;
  if (!side->is_cut)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: %s_blocks is set, but %s does not cut %s into one block per rank; expected NULL", c->name,
                   side->name, c->name, side->name);
  if (call->in || call->out)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: %s_blocks is set together with a tensor; expected NULL", c->name,
                   side->name);
  if (view->blocks == 0) return TUTTI_OK;
  if (side->buffer)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: both %s and %s_blocks are set; expected one of them", c->name,
                   side->name, side->name);
  if (c->vector && side->offsets)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: both %s and %s_blocks are set; expected one of them, because addresses need no displacements",
                   c->name, side->offsets_name, side->name);
  view->addresses = side->blocks;
  return TUTTI_OK;
}

tutti_err tu_blocks_take(const tutti_call *call, struct tu_view *in, struct tu_view *out, struct tu_error *error) {
  const struct tu_collective *c = &tu_collectives[call->collective];
  const bool both = c->in == TU_EACH && c->out == TU_EACH;
  const struct side send = {.name = "send",
                            .offsets_name = "offsets",
                            .blocks = call->send_blocks,
                            .buffer = call->send,
                            .offsets = call->offsets,
                            .is_cut = c->in == TU_EACH};
  const struct side recv = {.name = "recv",
                            .offsets_name = both ? "recv_offsets" : "offsets",
                            .blocks = (const void *const *)call->recv_blocks,
                            .buffer = call->recv,
                            .offsets = both ? call->recv_offsets : call->offsets,
                            .is_cut = c->out == TU_EACH};
  tutti_err err = take(call, &send, in, error);
  return err == TUTTI_OK ? take(call, &recv, out, error) : err;
}

tutti_err tu_blocks_check(const struct tu_view *v, const char *collective, const char *which, struct tu_error *error) {
  for (uint32_t i = 0; i < v->blocks; i++) {
    const size_t bytes = (v->counts ? v->counts[i] : v->count) * v->item_bytes;
    const void *address = v->addresses[i];
    if (bytes == 0 || (address && address != TUTTI_IN_PLACE)) continue;
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: %s_blocks[%u] is %s; expected the address of a block of %zu bytes",
                   collective, which, i, address ? "TUTTI_IN_PLACE" : "NULL", bytes);
  }
  return TUTTI_OK;
}
