/* overlap.c: finds whether the blocks of a call's buffers share bytes. Blocks of vector variants may lie anywhere, and so
 * may blocks with addresses of their own. The blocks of send may lie in the gaps between the blocks of recv. If the
 * blocks of a buffer do not lie in ascending order in memory, a list of them is sorted first. Two buffers are compared
 * block by block only if their address ranges intersect. */
#include "call/overlap.h"

#include <stdlib.h>

static size_t count_of(const struct tu_view *v, uint32_t block) { return v->counts ? v->counts[block] : v->count; }

/* Returns the address of a block; offset: index of its first item, unless the blocks have addresses of their own. */
static uintptr_t address_of(const struct tu_view *v, const void *data, uint32_t block, size_t offset) {
  return v->addresses ? (uintptr_t)v->addresses[block] : (uintptr_t)data + offset * v->item_bytes;
}

/* ---- the blocks of one buffer ---- */

/* A run of adjacent blocks, of which `block` is the first. It covers the range [begin, end) of addresses or of item
 * indexes. */
struct extent {
  uintptr_t begin, end;
  uint32_t block;
};

static int compare_extents(const void *a, const void *b) {
  const struct extent *x = a, *y = b;
  return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Lists the blocks that are not empty, except block `but`, in the order of their addresses; adjacent blocks are joined.
 * Returns NULL if out of memory. The caller frees the list. */
static struct extent *list_extents(const struct tu_view *v, const void *data, uint32_t but, uint32_t *count) {
  struct extent *list = malloc((v->blocks + 1) * sizeof *list);
  bool ascend = true;
  size_t offset = 0;
  *count = 0;
  for (uint32_t block = 0; block < v->blocks && list; block++) {
    size_t items = count_of(v, block);
    if (v->offsets) offset = v->offsets[block];
    uintptr_t begin = address_of(v, data, block, offset);
    uintptr_t end = begin + items * v->item_bytes;
    offset += items;
    if (items == 0 || block == but) continue;
    if (*count > 0 && list[*count - 1].end == begin) {
      list[*count - 1].end = end;
      continue;
    }
    ascend &= *count == 0 || list[*count - 1].begin < begin;
    list[(*count)++] = (struct extent){begin, end, block};
  }
  if (list && !ascend) qsort(list, *count, sizeof *list, compare_extents);
  return list;
}

static tutti_err fail_memory(const char *collective, uint32_t blocks, struct tu_error *error) {
  return tu_fail(error, TUTTI_ERR_MEMORY,
                 "%s: out of memory: cannot check whether its buffers, of up to %u blocks each, overlap", collective,
                 blocks);
}

/* Returns the range of a block: of addresses if the blocks have addresses, otherwise of item indexes. */
static struct extent extent_of(const struct tu_view *v, uint32_t block) {
  const uintptr_t begin = v->addresses ? (uintptr_t)v->addresses[block] : v->offsets[block];
  return (struct extent){begin, begin + count_of(v, block) * (v->addresses ? v->item_bytes : 1), block};
}

/* Returns true if each block begins at or after the end of the previous block; empty blocks are ignored. */
static bool blocks_ascend(const struct tu_view *v) {
  uintptr_t end = 0;
  for (uint32_t block = 0; block < v->blocks; block++) {
    const struct extent extent = extent_of(v, block);
    if (extent.begin == extent.end) continue;
    if (extent.begin < end) return false;
    end = extent.end;
  }
  return true;
}

tutti_err tu_blocks_apart(const struct tu_view *v, const char *collective, struct tu_error *error) {
  if ((!v->offsets && !v->addresses) || blocks_ascend(v)) return TUTTI_OK;
  struct extent *list = malloc(v->blocks * sizeof *list);
  if (!list) return fail_memory(collective, v->blocks, error);
  tutti_err err = TUTTI_OK;
  uint32_t count = 0;
  for (uint32_t i = 0; i < v->blocks; i++)
    if (count_of(v, i) > 0) list[count++] = extent_of(v, i);
  qsort(list, count, sizeof *list, compare_extents);
  for (uint32_t i = 1; i < count && err == TUTTI_OK; i++)
    if (list[i].begin < list[i - 1].end)
      err = tu_fail(error, TUTTI_ERR_ARGUMENT,
                    v->addresses ? "%s: in recv_blocks, the blocks of ranks %u and %u overlap at address %#zx"
                                 : "%s: in recv, the blocks of ranks %u and %u overlap at element %zu",
                    collective, list[i - 1].block, list[i].block, (size_t)list[i].begin);
  free(list);
  return err;
}

/* ---- two buffers ---- */

bool tu_views_coincide(const struct tu_view *a, const void *a_data, const struct tu_view *b, const void *b_data) {
  size_t a_offset = 0, b_offset = 0;
  bool empty = true;
  for (uint32_t block = 0; block < a->blocks; block++) {
    size_t count = count_of(a, block);
    if (count != count_of(b, block)) return false;
    if (a->offsets) a_offset = a->offsets[block];
    if (b->offsets) b_offset = b->offsets[block];
    if (count > 0 && address_of(a, a_data, block, a_offset) != address_of(b, b_data, block, b_offset)) return false;
    a_offset += count;
    b_offset += count;
    empty &= count == 0;
  }
  return !empty || a_data == b_data;
}

/* Finds the first byte that is in both lists, and sets *first to its address. Both lists are sorted by address. The
 * extents of `out` do not overlap each other. */
static bool find_shared(const struct extent *in, uint32_t in_count, const struct extent *out, uint32_t out_count,
                        uintptr_t *first) {
  uint32_t i = 0, k = 0;
  while (i < in_count && k < out_count) {
    if (in[i].end <= out[k].begin) i++;
    /* in[i] lies behind out[k], and so do all later extents of `in` */
    else if (out[k].end <= in[i].begin) k++;
    else {
      *first = in[i].begin > out[k].begin ? in[i].begin : out[k].begin;
      return true;
    }
  }
  return false;
}

/* Sets *begin and *end to the range of addresses that the blocks of a buffer span; returns false if all are empty. */
static bool range_of(const struct tu_view *v, const void *data, uintptr_t *begin, uintptr_t *end) {
  if (!v->addresses) {
    size_t first, behind = tu_view_extent(v, &first);
    *begin = (uintptr_t)data + first;
    *end = (uintptr_t)data + behind;
    return behind > 0;
  }
  *begin = UINTPTR_MAX;
  *end = 0;
  for (uint32_t block = 0; block < v->blocks; block++) {
    const struct extent extent = extent_of(v, block);
    if (extent.begin == extent.end) continue;
    *begin = tu_min(*begin, extent.begin);
    *end = tu_max(*end, extent.end);
  }
  return *end > 0;
}

tutti_err tu_buffers_apart(const struct tu_call *call, uint32_t but, const char *collective, struct tu_error *error) {
  const struct tu_view *in = &call->in, *out = &call->out;
  uintptr_t in_begin, in_end, out_begin, out_end, first = 0;
  if (!range_of(in, call->in_data, &in_begin, &in_end) || !range_of(out, call->out_data, &out_begin, &out_end) ||
      in_end <= out_begin || out_end <= in_begin)
    return TUTTI_OK;
  uint32_t in_count, out_count;
  struct extent *ins = list_extents(in, call->in_data, but, &in_count);
  struct extent *outs = list_extents(out, call->out_data, UINT32_MAX, &out_count);
  bool memory = ins && outs, shared = memory && find_shared(ins, in_count, outs, out_count, &first);
  free(ins);
  free(outs);
  if (!memory) return fail_memory(collective, in->blocks > out->blocks ? in->blocks : out->blocks, error);
  if (!shared) return TUTTI_OK;
  if (but != UINT32_MAX)
    return tu_fail(
        error, TUTTI_ERR_ARGUMENT,
        "%s in place: at address %p, a block of send overlaps this rank's own block, which receives the result",
        collective, (void *)first);
  return tu_fail(error, TUTTI_ERR_ARGUMENT,
                 "%s: send (%zu bytes at %p) and recv (%zu bytes at %p) overlap at address %p, but the call is not in "
                 "place; see tutti_call",
                 collective, (size_t)(in_end - in_begin), (void *)in_begin, (size_t)(out_end - out_begin),
                 (void *)out_begin, (void *)first);
}
