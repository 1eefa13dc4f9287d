/* leaves.c: checks tutti_call.leaves, and adds up the leaves of a rank. Leaves that lie in memory item after item are
 * added in one pass over all of them. Those that must be scaled first, or that are tensors of another layout, are taken
 * block by block into room of their own. */
#include "call/leaves.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "plan/collective.h"

enum { BLOCK_BYTES = TU_KERNEL_BLOCK_BYTES };

/* ---- checks ---- */

/* Lists how `total` leaves can be shared out among ranks. */
static void list_layouts(uint64_t total, char *text, size_t bytes) {
  size_t at = 0;
  for (uint64_t k = 1; k < total && at < bytes; k *= 2)
    if (total % k == 0)
      at += (size_t)snprintf(text + at, bytes - at, "%llu x %llu, ", (unsigned long long)(total / k),
                             (unsigned long long)k);
  if (at < bytes) snprintf(text + at, bytes - at, "1 x %llu", (unsigned long long)total);
}

/* The library has found these leaves in a call, and expected something else. */
static tutti_err refuse(const tutti_call *call, const char *expected, struct tu_error *error) {
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: tutti_call.leaves is %u%s; expected %s",
                 tu_collectives[call->collective].name, call->leaves,
                 call->folded && !call->leaves ? ", and folded is true" : "", expected);
}

tutti_err tu_leaves_check(const struct tutti_comm *comm, const tutti_call *call, struct tu_error *error) {
  char layouts[200], expected[320];
  const uint64_t total = (uint64_t)call->leaves * comm->ranks;
  if (call->folded > 1) return refuse(call, "folded to be true (1) or false (0)", error);
  if (!call->leaves) return call->folded ? refuse(call, "the number of leaves that were folded", error) : TUTTI_OK;
  if (!tu_reduces(call->collective)) return refuse(call, "0 and false, because this is no reduction", error);
  if (call->leaves > TU_LEAVES_MAX || total > UINT32_MAX)
    return refuse(call, "at most 65536, and less than 2^32 on all ranks together", error);
  if (comm->ranks > 1 && (call->leaves & (call->leaves - 1))) {
    list_layouts(total, layouts, sizeof layouts);
    snprintf(expected, sizeof expected,
             "a power of two on %u ranks; %llu leaves have the same bits as ranks x leaves %s", comm->ranks,
             (unsigned long long)total, layouts);
    return refuse(call, expected, error);
  }
  if (call->in_parts && (!call->folded || comm->ranks == 1))
    return refuse(call, "one input, because in_parts is set", error);
  if (call->send_blocks && (!call->folded || comm->ranks == 1))
    return refuse(call, "one input, because send_blocks is set; use send, or tutti_fold", error);
  return TUTTI_OK;
}

/* Returns the end of what the first leaf, or the output, occupies in memory, from the start of its buffer. */
static size_t extent_of(const struct tu_view *view, const struct tu_map *map, size_t *begin) {
  *begin = 0;
  return map ? tu_map_extent(map) : tu_view_extent(view, begin);
}

/* Checks that no byte of the output lies in the leaves after the first. Those of the first were checked as those of any
 * input. */
static tutti_err check_overlap(const tutti_call *call, const struct tu_call *r, size_t bytes, struct tu_error *error) {
  size_t begin;
  const size_t end = extent_of(&r->out, r->tensors ? r->tensors->out_map : NULL, &begin);
  const uintptr_t in = (uintptr_t)r->in_data, out = (uintptr_t)r->out_data;
  if (!r->out_data || begin >= end || out + end <= in + bytes || out + begin >= in + r->operands * bytes)
    return TUTTI_OK;
  return tu_fail(
      error, TUTTI_ERR_ARGUMENT, "%s: recv overlaps leaf %zu in send, which has leaves 0 to %u; expected other memory",
      tu_collectives[call->collective].name, (size_t)(tu_max(out + begin, in + bytes) - in) / bytes, r->operands - 1);
}

tutti_err tu_leaves_resolve(const struct tutti_comm *comm, const tutti_call *call, struct tu_call *resolved,
                            bool *in_place, struct tu_error *error) {
  size_t begin, all;
  const size_t bytes = extent_of(&resolved->in, resolved->tensors ? resolved->tensors->in_map : NULL, &begin);
  resolved->leaves = call->leaves;
  resolved->folded = call->folded;
  resolved->operands = !call->folded ? call->leaves : comm->ranks == 1 ? (uint32_t)tu_min(call->leaves, 2) : 1;
  if (resolved->operands < 2) return TUTTI_OK;
  *in_place = false;
  if (!tu_multiply(bytes, resolved->operands, &all) || all > PTRDIFF_MAX)
    return refuse(call, "fewer, because the leaves have more bytes than memory can hold", error);
  return bytes == 0 ? TUTTI_OK : check_overlap(call, resolved, bytes, error);
}

/* ---- where leaves lie ---- */

static bool needs_room(const struct tu_leaves *l) { return l->scales || l->view.fold; }

tutti_err tu_leaves_init(struct tu_leaves *l, const struct tu_view *view, uint32_t count, struct tu_error *error) {
  size_t begin, levels = 2;
  l->view = *view;
  l->view.split = 1;
  l->bytes = view->fold ? tu_map_extent(view->fold->map) : tu_view_extent(&l->view, &begin);
  for (uint32_t n = count; n > 1; n = (n + 1) / 2) levels++;
  l->room = needs_room(l) ? aligned_alloc(TU_LINE_BYTES, levels * BLOCK_BYTES) : NULL;
  return l->room || !needs_room(l) ? TUTTI_OK : tu_fail_memory(error, levels * BLOCK_BYTES, "sums of leaves");
}

void tu_leaves_fini(struct tu_leaves *l) {
  free(l->room);
  l->room = NULL;
}

static unsigned char *room_at(const struct tu_leaves *l, uint32_t level) {
  return l->room + (size_t)level * BLOCK_BYTES;
}

/* The items of a leaf are runs of bytes. Those of a tensor that is not plain are one run, of its packed form. */
static uint32_t run_count(const struct tu_leaves *l) { return l->view.counts && !l->view.fold ? l->view.blocks : 1; }

static struct tu_run run_at(const struct tu_leaves *l, uint32_t i) {
  if (l->view.fold) return (struct tu_run){0, l->view.fold->blocks * tu_fold_block_bytes(l->view.fold)};
  return l->view.counts ? tu_view_chunk(&l->view, i) : (struct tu_run){0, l->bytes};
}

/* Returns part of a leaf or of a sum, which is in the room of `level` if it does not lie in memory as it is. */
static const void *part_of(const struct tu_leaves *l, const void *data, struct tu_run part, uint32_t level) {
  if (!l->view.fold) return (const unsigned char *)data + part.offset;
  tu_fold_pack(l->view.fold, data, part.offset, part.bytes, room_at(l, level));
  return room_at(l, level);
}

static size_t items_in(const struct tu_leaves *l, struct tu_run part) { return part.bytes / l->view.item_bytes; }

/* The same of a leaf as it is added: multiplied by its factor. */
static const void *leaf_of(const struct tu_leaves *l, const void *leaf, struct tu_run part, uint32_t level) {
  const void *data = part_of(l, leaf, part, level);
  if (!l->scales) return data;
  tu_scale(&l->a, room_at(l, level), data, items_in(l, part));
  return room_at(l, level);
}

/* Writes part of a result to its place, unless it is there already. */
static void put_part(const struct tu_leaves *l, void *data, struct tu_run part, const void *from) {
  if (l->view.fold) tu_fold_unpack(l->view.fold, data, part.offset, part.bytes, from);
  else if (from != (unsigned char *)data + part.offset) memcpy((unsigned char *)data + part.offset, from, part.bytes);
}

/* Returns the part of a run that begins at byte `at`: as many items as fit into a block, at least one, or the rest. */
static struct tu_run cut(const struct tu_leaves *l, struct tu_run run, size_t at) {
  const size_t block = tu_max(BLOCK_BYTES / l->view.item_bytes, 1) * l->view.item_bytes;
  return (struct tu_run){run.offset + at, tu_min(block, run.bytes - at)};
}

/* ---- one leaf after the other ---- */

static void add_part(const struct tu_leaves *l, unsigned char *end, uint32_t merged, const void *leaf,
                     struct tu_run part) {
  const void *right = leaf_of(l, leaf, part, 0);
  unsigned char *sum = end;
  for (uint32_t i = 0; i < merged; i++) {
    sum -= l->bytes;
    const void *operands[] = {part_of(l, sum, part, 1), right};
    /* the packed result of a tensor replaces its second operand */
    void *result = l->view.fold ? room_at(l, 0) : sum + part.offset;
    tu_reduce(&l->a, result, operands, 2, items_in(l, part), 0);
    right = result;
  }
  put_part(l, sum, part, right);
}

void tu_leaves_add(const struct tu_leaves *l, unsigned char *end, uint32_t merged, const void *leaf) {
  for (uint32_t i = 0; i < run_count(l); i++) {
    const struct tu_run run = run_at(l, i);
    for (size_t at = 0; at < run.bytes;) {
      const struct tu_run part = cut(l, run, at);
      add_part(l, end, merged, leaf, part);
      at += part.bytes;
    }
  }
}

/* ---- all leaves at once ---- */

tutti_err tu_leaf_sum_create(const struct tu_leaves *l, const struct tu_view *view, uint32_t count, unsigned how,
                             struct tu_leaf_sum **sum, struct tu_error *error) {
  struct tu_leaf_sum *s = *sum = tu_try_allocate(1, sizeof *s);
  if (!s) return tu_fail_memory(error, sizeof *s, "the leaves of a call");
  *s = (struct tu_leaf_sum){.leaves = *l, .count = count, .how = how | TU_TREE};
  const tutti_err err = tu_leaves_init(&s->leaves, view, count, error);
  if (err != TUTTI_OK) return err;
  const size_t bytes = tu_round_up(tu_max(s->leaves.bytes, 1), TU_LINE_BYTES);
  s->sources = tu_try_allocate(count, sizeof *s->sources);
  s->sum = aligned_alloc(TU_LINE_BYTES, bytes);
  return s->sources && s->sum ? TUTTI_OK : tu_fail_memory(error, bytes, "the sum of %u leaves", count);
}

void tu_leaf_sum_destroy(struct tu_leaf_sum *s) {
  if (!s) return;
  tu_leaves_fini(&s->leaves);
  free(s->sources);
  free(s->sum);
  free(s);
}

/* Adds part of the leaves `first` to `first` + count - 1. Returns where the sum is. Uses the room from `level` on. */
static const void *node_of(const struct tu_leaf_sum *s, uint32_t first, uint32_t count, struct tu_run part,
                           uint32_t level) {
  const struct tu_leaves *l = &s->leaves;
  if (count == 1) return leaf_of(l, s->sources[first], part, level);
  const uint32_t half = tu_pow2_floor(count - 1);
  const void *operands[2];
  operands[0] = node_of(s, first, half, part, level);
  operands[1] = node_of(s, first + half, count - half, part, level + 1);
  tu_reduce(&l->a, room_at(l, level), operands, 2, items_in(l, part), count == s->count ? s->how : TU_TREE);
  return room_at(l, level);
}

static void sum_run(const struct tu_leaf_sum *s, struct tu_run run) {
  const struct tu_leaves *l = &s->leaves;
  for (size_t at = 0; at < run.bytes;) {
    const struct tu_run part = cut(l, run, at);
    put_part(l, s->sum, part, node_of(s, 0, s->count, part, 0));
    at += part.bytes;
  }
}

const void *tu_leaf_sum_take(struct tu_leaf_sum *s, const void *first) {
  const struct tu_leaves *l = &s->leaves;
  for (uint32_t i = 0; i < run_count(l); i++) {
    const struct tu_run run = run_at(l, i);
    const size_t offset = needs_room(l) ? 0 : run.offset;
    for (uint32_t k = 0; k < s->count; k++) s->sources[k] = (const unsigned char *)first + k * l->bytes + offset;
    if (needs_room(l)) {
      sum_run(s, run);
      continue;
    }
    void *target = s->sum + offset;
    if (l->parallel && run.bytes >= TU_SHARED_BYTES)
      tu_share_reduce(l->parallel, &l->a, &target, 1, TU_PAST_NONE, s->sources, s->count, items_in(l, run), s->how);
    else tu_reduce(&l->a, target, s->sources, s->count, items_in(l, run), s->how);
  }
  return s->sum;
}
