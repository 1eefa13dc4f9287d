/* resolve.c: checks a call, and resolves it: finds which bytes are input and output, and whether the call is in
 * place. */
#include "call/resolve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "base/text.h"
#include "base/types.h"
#include "call/blocks.h"
#include "call/leaves.h"
#include "call/overlap.h"
#include "call/tensors.h"
#include "call/user_plan.h"
#include "comm/operations.h"

/* ---- checks ---- */

/* Checks the size of an element of TUTTI_BYTES. A slice of a message has whole elements, so they must fit into a slot. */
static tutti_err check_element(const struct tutti_comm *comm, const tutti_call *call, bool has_tensors,
                               struct tu_error *error) {
  const char *name = tu_collectives[call->collective].name;
  if (has_tensors)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: a tensor cannot have datatype bytes; expected a datatype with a size of its own, such as u8",
                   name);
  if (call->element_bytes < 1 || call->element_bytes > TUTTI_ELEMENT_BYTES_MAX)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: tutti_call.element_bytes is %zu; expected 1 to %u with datatype bytes", name,
                   call->element_bytes, TUTTI_ELEMENT_BYTES_MAX);
  if (call->element_bytes <= comm->mover->shape.slot_bytes) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT,
                 "%s: tutti_call.element_bytes is %zu, but slices on this communicator have at most %u bytes; set "
                 "TUTTI_SLOT_BYTES to at least the size of an element",
                 name, call->element_bytes, comm->mover->shape.slot_bytes);
}

static tutti_err check_type(const struct tutti_comm *comm, const tutti_call *call, bool has_tensors,
                            struct tu_error *error) {
  const char *name = tu_collectives[call->collective].name;
  if (call->collective == TUTTI_BARRIER) return TUTTI_OK;
  if (call->type == TUTTI_BYTES) return check_element(comm, call, has_tensors, error);
  if (!tu_is_datatype(call->type))
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: unknown datatype %d; see tutti_datatype", name, (int)call->type);
  if (call->element_bytes != 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: tutti_call.element_bytes is %zu, but the datatype is %s; expected 0, or datatype TUTTI_BYTES",
                   name, call->element_bytes, tutti_datatype_name(call->type));
  if (tu_item_elements(call->type) > 1 && !has_tensors)
    return tu_fail(
        error, TUTTI_ERR_ARGUMENT,
        "%s: datatype %s lies in tiles, so it needs tensors; set tutti_call.in and .out, or use another datatype", name,
        tutti_datatype_name(call->type));
  return TUTTI_OK;
}

static tutti_err check_operation(const struct tutti_comm *comm, const tutti_call *call, struct tu_error *error) {
  const struct tu_collective *c = &tu_collectives[call->collective];
  struct tu_user_op user;
  if (tu_user_op_find(comm, call->op, &user)) return TUTTI_OK;
  if (call->op == TUTTI_AVG && c->promise != TU_SUM_OF_ALL)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: operation avg is not supported; use sum and divide the result",
                   c->name);
  struct tu_arithmetic a = {.type = call->type, .op = call->op, .scale = call->scale, .divisor = comm->ranks};
  if (tu_arithmetic_check(&a, error) != TUTTI_OK) return tu_fail_in(c->name, error);
  if (!call->op_context) return TUTTI_OK;
  return tu_fail(
      error, TUTTI_ERR_ARGUMENT,
      "%s: tutti_call.op_context is set, but operation %s has no context; expected NULL, or a user operation", c->name,
      tu_operations[call->op].name);
}

static tutti_err check_names(const struct tutti_comm *comm, const tutti_call *call, bool has_tensors,
                             struct tu_error *error) {
  if (!tu_is_collective(call->collective))
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "unknown collective %d; see tutti_collective", (int)call->collective);
  const struct tu_collective *c = &tu_collectives[call->collective];
  tutti_err err = check_type(comm, call, has_tensors, error);
  if (err != TUTTI_OK) return err;
  const bool any = call->collective == TUTTI_RECV && call->peer == TUTTI_ANY_RANK;
  if (c->family == TUTTI_SEND && call->peer >= comm->ranks && !any)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: peer %u is not in the communicator; expected a rank from 0 to %u",
                   c->name, call->peer, comm->ranks - 1);
  if (c->family != TUTTI_SEND && c->rooted && call->root >= comm->ranks)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: root %u is not in the communicator; expected a rank from 0 to %u",
                   c->name, call->root, comm->ranks - 1);
  return tu_reduces(call->collective) ? check_operation(comm, call, error) : TUTTI_OK;
}

static tutti_err check_size(const struct tu_view *v, const char *collective, const char *which,
                            struct tu_error *error) {
  size_t total = 0, bytes = 0;
  bool fits = true;
  if (!v->counts) {
    fits = tu_multiply(v->count, v->blocks, &total);
  } else {
    for (uint32_t i = 0; i < v->blocks && fits; i++) {
      size_t end = 0;
      fits = !__builtin_add_overflow(v->counts[i], total, &total);
      if (v->offsets)
        fits = fits && !__builtin_add_overflow(v->offsets[i], v->counts[i], &end) && end <= PTRDIFF_MAX / v->item_bytes;
    }
  }
  if (fits && tu_multiply(total, v->item_bytes, &bytes) && bytes <= PTRDIFF_MAX) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: the counts of %s add up to more bytes than memory can hold",
                 collective, which);
}

static tutti_err check_pointer(const struct tu_view *v, const void *data, const char *collective, const char *which,
                               struct tu_error *error) {
  if (v->addresses) return tu_blocks_check(v, collective, which, error);
  size_t begin, end = tu_view_extent(v, &begin);
  if (end == 0 || data) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: %s is NULL; expected a buffer of %zu bytes on this rank", collective,
                 which, end - begin);
}

/* ---- views ---- */

/* Returns the address of this rank's own block in the buffer that has a block of each rank; NULL: the buffer is
 * NULL. */
static const void *own_block(const struct tu_view *longer, const void *data, uint32_t rank) {
  if (longer->addresses) return longer->addresses[rank];
  size_t offset = 0;
  if (longer->offsets) offset = longer->offsets[rank];
  else if (!longer->counts) offset = longer->count * rank;
  else
    for (uint32_t i = 0; i < rank; i++) offset += longer->counts[i];
  return data ? (const unsigned char *)data + offset * longer->item_bytes : NULL;
}

static tutti_err lay_views(const struct tutti_comm *comm, const tutti_call *call, uint32_t in_blocks,
                           uint32_t out_blocks, struct tu_call *out, struct tu_error *error) {
  const struct tu_collective *c = &tu_collectives[call->collective];
  size_t item = call->collective == TUTTI_BARRIER ? 1
                : call->type == TUTTI_BYTES       ? call->element_bytes
                                                  : tutti_datatype_size(call->type);
  size_t count = call->collective == TUTTI_BARRIER ? 0 : call->count;
  out->in = (struct tu_view){.item_bytes = item, .blocks = in_blocks, .split = 1, .count = count};
  out->out = (struct tu_view){.item_bytes = item, .blocks = out_blocks, .split = 1, .count = count};
  if (!c->vector) return tu_blocks_take(call, &out->in, &out->out, error);
  bool both = c->in == TU_EACH && c->out == TU_EACH;
  bool needed = !c->rooted || in_blocks > 1 || out_blocks > 1 || comm->rank == call->root;
  if ((needed && !call->counts) || (both && !call->recv_counts))
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: %s is NULL; expected one count for each of the %u ranks", c->name,
                   call->counts ? "recv_counts" : "counts", comm->ranks);
  if (c->in == TU_EACH && in_blocks) out->in.counts = call->counts, out->in.offsets = call->offsets;
  if (c->out == TU_EACH && out_blocks) {
    out->out.counts = both ? call->recv_counts : call->counts;
    out->out.offsets = both ? call->recv_offsets : call->offsets;
  }
  if (needed && c->in == TU_ONE) out->in.count = call->counts[comm->rank];
  if (needed && c->out == TU_ONE) out->out.count = call->counts[comm->rank];
  return tu_blocks_take(call, &out->in, &out->out, error);
}

/* ---- in place ---- */

/* Determines the addresses of both buffers, and whether the call is in place, as documented at tutti_call. */
static tutti_err settle_buffers(const struct tutti_comm *comm, const tutti_call *call, struct tu_call *out,
                                bool *in_place, struct tu_error *error) {
  const struct tu_collective *c = &tu_collectives[call->collective];
  const void *send = call->send;
  void *recv = call->recv;
  bool has_in = out->in.blocks > 0, has_out = out->out.blocks > 0;
  /* Rank 0 of an exscan receives nothing. But if the call is in place, its input lies in recv, as on the other
   * ranks. */
  bool both = has_in && (has_out || call->collective == TUTTI_EXSCAN);
  *in_place = false;
  if (both && call->collective != TUTTI_BARRIER) {
    bool out_longer = c->in == TU_ONE && c->out == TU_EACH, in_longer = c->in == TU_EACH && c->out == TU_ONE;
    const void *in_own = in_longer ? own_block(&out->in, send, comm->rank) : send;
    const void *out_own = out_longer ? own_block(&out->out, recv, comm->rank) : recv;
    bool broadcast = call->collective == TUTTI_BROADCAST, both_longer = c->in == TU_EACH && c->out == TU_EACH;
    if (in_longer || (broadcast && !recv)) {
      if (recv == TUTTI_IN_PLACE || broadcast) recv = (void *)(uintptr_t)in_own;
      *in_place = in_own && in_own == recv;
    } else {
      if (send == TUTTI_IN_PLACE || (broadcast && !send)) send = out_own;
      *in_place = out_own && send == out_own;
    }
    if (both_longer && call->send == TUTTI_IN_PLACE && out->out.addresses) {
      out->in.addresses = out->out.addresses;
      out->in.offsets = NULL;
    }
    bool has_both = (send || out->in.addresses) && (recv || out->out.addresses);
    if (both_longer) *in_place = has_both && tu_views_coincide(&out->in, send, &out->out, recv);
    if (both_longer && call->send == TUTTI_IN_PLACE && has_both && !*in_place)
      return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s in place: counts and offsets of send and recv must be equal",
                     c->name);
  }
  if ((has_in && send == TUTTI_IN_PLACE) || (has_out && recv == TUTTI_IN_PLACE))
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: TUTTI_IN_PLACE is not possible for %s here; see tutti_call", c->name,
                   send == TUTTI_IN_PLACE ? "send" : "recv");
  out->in_data = has_in ? send : NULL;
  out->out_data = has_out ? recv : NULL;
  if (out->in.addresses) out->in_data = tu_view_lowest(&out->in);
  if (out->out.addresses) out->out_data = (void *)(uintptr_t)tu_view_lowest(&out->out);
  return TUTTI_OK;
}

/* Checks that the blocks of the output do not overlap each other. If the call is not in place, also checks that no
 * block of the output overlaps a block of the input. If the call is in place, the output lies on the input on purpose.
 * Then only one case is checked: the result of a reduction replaces this rank's block, and must not overlap the blocks
 * of other ranks. */
static tutti_err check_overlap(const struct tutti_comm *comm, tutti_collective collective, const struct tu_call *call,
                               bool in_place, struct tu_error *error) {
  const struct tu_collective *c = &tu_collectives[collective];
  tutti_err err = tu_blocks_apart(&call->out, c->name, error);
  if (err != TUTTI_OK) return err;
  if (!in_place) return tu_buffers_apart(call, UINT32_MAX, c->name, error);
  bool over_others = tu_reduces(collective) && (call->in.offsets || call->in.addresses) && call->out.blocks > 0;
  return over_others ? tu_buffers_apart(call, comm->rank, c->name, error) : TUTTI_OK;
}

/* ---- resolving ---- */

static uint64_t hash_view(const struct tu_view *v, uint64_t seed) {
  if (!v->counts) return seed;
  seed = tu_hash(v->counts, v->blocks * sizeof *v->counts, seed);
  return v->offsets ? tu_hash(v->offsets, v->blocks * sizeof *v->offsets, seed) : seed + 1;
}

/* Checks the number of lanes against the limit that holds for all algorithms. request.c checks the limit of the chosen
 * algorithm. */
static tutti_err check_lanes(const tutti_call *call, struct tu_error *error) {
  const char *name = tu_collectives[call->collective].name;
  if (call->plan && call->lanes > 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: found %u lanes together with a plan, which has its own lanes; expected 0 lanes", name,
                   call->lanes);
  if (call->lanes <= TU_LANES_MAX) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: found %u lanes; expected 1 to %u, or 0 for the algorithm's default",
                 name, call->lanes, TU_LANES_MAX);
}

struct finding {
  const tutti_call *call;
  const struct tu_algorithm *found;
};

static tutti_err find_algorithm(void *argument, struct tu_error *error) {
  struct finding *f = argument;
  (void)error;
  f->found = tu_algorithm_find(f->call->collective, f->call->algorithm);
  return TUTTI_OK;
}

static tutti_err find_forced(const tutti_call *call, struct tu_call *out, struct tu_error *error) {
  if (!call->algorithm) return TUTTI_OK;
  struct finding finding = {call, NULL};
  tutti_err err = tu_arena_build(find_algorithm, &finding, call->algorithm, error);
  out->forced = finding.found;
  if (out->forced || err != TUTTI_OK) return err;
  const char *near = tu_algorithm_nearest(call->collective, call->algorithm);
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s has no algorithm '%s'%s%s%s; `tutti list` shows all algorithms",
                 tu_collectives[call->collective].name, call->algorithm, near ? ", did you mean '" : "",
                 near ? near : "", near ? "'?" : "");
}

static tutti_err check_flags(const struct tutti_comm *comm, const tutti_call *call, struct tu_error *error) {
  const char *name = tu_collectives[call->collective].name;
  if (call->flags & ~TUTTI_ANY_SHAPE)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: tutti_call.flags is %#x; expected TUTTI_ANY_SHAPE (%#x), or 0", name,
                   call->flags, TUTTI_ANY_SHAPE);
  tutti_err err = tu_check_order_of(name, "tutti_call.order", call->order, error);
  if (err == TUTTI_OK && (call->leaves || call->folded)) err = tu_leaves_check(comm, call, error);
  if (err != TUTTI_OK) return err;
  if (!call->flags || call->in || call->out) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT,
                 "%s: TUTTI_ANY_SHAPE is set, but the call has no tensors; set tutti_call.in and .out, or no flag",
                 name);
}

/* Returns true if the call asks for the canonical order, or has leaves, and its bits depend on the order. */
static bool is_ordered(const struct tutti_comm *comm, const tutti_call *call, tutti_datatype type) {
  const tutti_order order = call->leaves ? TUTTI_ORDER_CANONICAL : call->order ? call->order : comm->order;
  return order == TUTTI_ORDER_CANONICAL && tu_reduces(call->collective) && tu_op_is_ordered(call->op, type);
}

static uint32_t form_of(const struct tutti_comm *comm, const tutti_call *call, const struct tu_call *resolved,
                        tutti_datatype type) {
  return (is_ordered(comm, call, type) ? TU_ORDERED : 0) | (call->in_parts ? TU_FILLS : 0) |
         (call->on_ready ? TU_TELLS : 0) | (resolved->in.addresses ? TU_SEND_BLOCKS : 0) |
         (resolved->out.addresses ? TU_RECV_BLOCKS : 0);
}

static void count_blocks(const struct tutti_comm *comm, const tutti_call *call, uint32_t *in, uint32_t *out) {
  const bool point_to_point = tu_collectives[call->collective].family == TUTTI_SEND;
  *in = point_to_point ? call->collective == TUTTI_SEND
                       : tu_in_blocks(call->collective, comm->ranks, call->root, comm->rank);
  *out = point_to_point ? call->collective == TUTTI_RECV
                        : tu_out_blocks(call->collective, comm->ranks, call->root, comm->rank);
}

static tutti_err resolve(const struct tutti_comm *comm, const tutti_call *call, struct tu_call *out,
                         struct tu_error *error) {
  tutti_err err;
  *out = (struct tu_call){.tag = call->tag};
  const tutti_tensor *tensor = call->in ? call->in : call->out;
  tutti_call flat = *call;
  if (tensor) flat.type = tensor->type;
  if ((err = check_names(comm, &flat, tensor, error)) != TUTTI_OK) return err;
  if ((err = check_lanes(call, error)) != TUTTI_OK || (err = check_flags(comm, call, error)) != TUTTI_OK) return err;
  const struct tu_collective *c = &tu_collectives[call->collective];
  out->point_to_point = c->family == TUTTI_SEND;
  uint32_t in_blocks, out_blocks;
  count_blocks(comm, call, &in_blocks, &out_blocks);
  bool in_place;
  if (tensor) {
    err = tu_call_of_tensors(comm, call, in_blocks > 0, out_blocks > 0, &flat, out, &in_place, error);
    if (err != TUTTI_OK) return err;
  }
  call = &flat;
  if ((err = lay_views(comm, call, in_blocks, out_blocks, out, error)) != TUTTI_OK) return err;
  if ((err = check_size(&out->in, c->name, "send", error)) != TUTTI_OK ||
      (err = check_size(&out->out, c->name, "recv", error)) != TUTTI_OK)
    return err;
  if (tensor) tu_call_fold(out, &flat);
  else if ((err = settle_buffers(comm, call, out, &in_place, error)) != TUTTI_OK) return err;
  if ((err = check_pointer(&out->in, out->in_data, c->name, "send", error)) != TUTTI_OK) return err;
  if ((err = check_pointer(&out->out, out->out_data, c->name, "recv", error)) != TUTTI_OK) return err;
  if (!tensor && (err = check_overlap(comm, call->collective, out, in_place, error)) != TUTTI_OK) return err;
  if (call->leaves && (err = tu_leaves_resolve(comm, call, out, &in_place, error)) != TUTTI_OK) return err;
  uint64_t plan_hash = 0;
  out->signature.form = form_of(comm, call, out, call->type) & 255u;
  if (call->plan) {
    if ((err = tu_user_plan_serves(comm, call, out, in_place, error)) != TUTTI_OK) return err;
    out->plan = tu_user_plan(call->plan, &plan_hash);
  } else if ((err = find_forced(call, out, error)) != TUTTI_OK) {
    return err;
  }
  out->signature = (struct tu_signature){
      .collective = (uint8_t)call->collective,
      .type = call->collective == TUTTI_BARRIER ? 0 : (uint8_t)call->type,
      .in_place = in_place,
      .lanes = call->collective == TUTTI_BARRIER ? 0 : (uint8_t)call->lanes,
      .op = tu_reduces(call->collective) ? call->op : 0,
      .root = out->point_to_point ? call->peer
              : c->rooted         ? call->root
                                  : 0,
      .form = out->signature.form,
      .element_bytes = call->type == TUTTI_BYTES ? (uint32_t)call->element_bytes & ((1u << 24) - 1) : 0,
      .count = in_blocks ? out->in.count : out->out.count,
      .scale = call->op == TUTTI_PREMUL_SUM ? call->scale : 0,
      .algorithm = out->forced ? out->forced->name : NULL,
      .plan = plan_hash,
      .tensors = out->signature.tensors,
  };
  if (c->vector) out->signature.counts_hash = hash_view(&out->out, hash_view(&out->in, 0)) + out->out.count;
  /* Added to a hash that is compared together with what it is made of, so that equal hashes have equal leaves. */
  out->signature.counts_hash += 2 * (uint64_t)call->leaves + call->folded;
  return TUTTI_OK;
}

tutti_err tu_call_resolve_input(const struct tutti_comm *comm, const tutti_call *call, struct tu_call *out,
                                struct tu_error *error) {
  tutti_call flat = *call;
  bool in_place;
  *out = (struct tu_call){.tag = 0};
  if (call->in) flat.type = call->in->type;
  tutti_err err = check_names(comm, &flat, call->in, error);
  if (err == TUTTI_OK) err = check_flags(comm, call, error);
  if (err != TUTTI_OK) return err;
  uint32_t in_blocks, out_blocks;
  count_blocks(comm, call, &in_blocks, &out_blocks);
  if (call->in) err = tu_call_of_tensors(comm, call, in_blocks > 0, false, &flat, out, &in_place, error);
  if (err == TUTTI_OK) err = lay_views(comm, &flat, in_blocks, out_blocks, out, error);
  if (err == TUTTI_OK) err = check_size(&out->in, tu_collectives[call->collective].name, "send", error);
  if (err != TUTTI_OK) return err;
  if (call->in) tu_call_fold(out, &flat);
  out->leaves = call->leaves;
  out->signature.type = (uint8_t)flat.type;
  out->signature.op = call->op;
  out->signature.scale = call->scale;
  out->signature.element_bytes = (uint32_t)call->element_bytes & ((1u << 24) - 1);
  return TUTTI_OK;
}

static bool repeats_tensors(const struct tu_memo *memo, const tutti_call *call) {
  const tutti_call *last = &memo->call;
  if (!call->in != !last->in || !call->out != !last->out || call->dim != last->dim || call->out_dim != last->out_dim ||
      call->has_out_dim != last->has_out_dim || call->lanes != last->lanes || call->flags != last->flags)
    return false;
  return (!call->in || tu_tensor_same(call->in, &memo->in)) && (!call->out || tu_tensor_same(call->out, &memo->out));
}

/* Returns true if the call repeats the last one, perhaps with other buffers, so that it need not be checked and
 * resolved again. Returns false also if a new buffer address is NULL, or if the address ranges of the new buffers
 * overlap. */
static bool repeats(const struct tutti_comm *comm, struct tu_memo *memo, const tutti_call *call) {
  const tutti_call *last = &memo->call;
  if (!memo->valid || call->collective != last->collective || call->count != last->count || call->type != last->type ||
      call->op != last->op || call->order != last->order || call->root != last->root || call->peer != last->peer ||
      call->lanes != last->lanes || call->leaves != last->leaves || call->folded != last->folded ||
      call->element_bytes != last->element_bytes || !call->op_context != !last->op_context || call->algorithm ||
      call->plan || call->counts || call->recv_counts || call->send_blocks || call->recv_blocks ||
      (call->op == TUTTI_PREMUL_SUM && call->scale != last->scale))
    return false;
  memo->resolved.tag = call->tag;
  const tutti_datatype type = (tutti_datatype)memo->resolved.signature.type;
  memo->resolved.signature.form = form_of(comm, call, &memo->resolved, type) & 255u;
  if (call->in || call->out || last->in || last->out) return repeats_tensors(memo, call);
  if (call->send == last->send && call->recv == last->recv) return true;
  if (memo->resolved.signature.in_place || !call->send || !call->recv || call->send == TUTTI_IN_PLACE ||
      call->recv == TUTTI_IN_PLACE)
    return false;
  uintptr_t in = (uintptr_t)call->send, out = (uintptr_t)call->recv;
  bool apart = in + memo->in_end <= out + memo->out_begin || out + memo->out_end <= in + memo->in_begin;
  if (!apart) return false;
  memo->resolved.in_data = memo->resolved.in.blocks ? call->send : NULL;
  memo->resolved.out_data = memo->resolved.out.blocks ? call->recv : NULL;
  memo->call.send = call->send;
  memo->call.recv = call->recv;
  return true;
}

tutti_err tu_call_check_message(const tutti_call *call, struct tu_error *error) {
  const bool receives = call->collective == TUTTI_RECV;
  const char *name = tutti_collective_name(call->collective);
  if (call->message && !receives)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: tutti_call.message is set; expected NULL, because only recv sets it",
                   name);
  if (call->collective == TUTTI_SEND && call->tag == TUTTI_ANY_TAG)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: found tag TUTTI_ANY_TAG, by which receives take any tag; expected a tag from 0 to %u", name,
                   TUTTI_ANY_TAG - 1);
  if (receives && call->lanes > 1 && (call->peer == TUTTI_ANY_RANK || call->tag == TUTTI_ANY_TAG))
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: found %u lanes; expected 0 or 1 with %s, or a receive that names rank and tag", name,
                   call->lanes, call->peer == TUTTI_ANY_RANK ? "TUTTI_ANY_RANK" : "TUTTI_ANY_TAG");
  return TUTTI_OK;
}

tutti_err tu_call_resolve(struct tutti_comm *comm, const tutti_call *call, struct tu_error *error) {
  struct tu_memo *memo = comm->memo;
  if (repeats(comm, memo, call)) return TUTTI_OK;
  tu_call_tensors_release(memo->resolved.tensors);
  tutti_err err = resolve(comm, call, &memo->resolved, error);
  memo->valid = err == TUTTI_OK && !call->algorithm && !call->plan && !call->counts && !call->recv_counts &&
                !call->send_blocks && !call->recv_blocks;
  if (memo->valid && call->in) memo->valid = tu_tensor_take(call->in, "in", &memo->in, NULL) == TUTTI_OK;
  if (memo->valid && call->out) memo->valid = tu_tensor_take(call->out, "out", &memo->out, NULL) == TUTTI_OK;
  if (!memo->valid) return err;
  memo->call = *call;
  memo->in_end = tu_view_extent(&memo->resolved.in, &memo->in_begin) * tu_max(memo->resolved.operands, 1);
  memo->out_end = tu_view_extent(&memo->resolved.out, &memo->out_begin);
  return TUTTI_OK;
}

void tu_memo_destroy(struct tu_memo *memo) {
  if (memo) tu_call_tensors_release(memo->resolved.tensors);
  free(memo);
}
