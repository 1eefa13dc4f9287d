/* kernels.c: chooses the kernels of a reduction and calls them (kernels_loops.h has the loops, compiled once for each
 * instruction set).
 *
 * - A pair kernel combines two arrays of one type into a third.
 * - More than two sources are combined block by block, so that the running result stays in the first-level cache.
 * - Narrow floats: two sources use a pair kernel. With more sources, each block is widened to f32, combined in f32, and
 *   rounded once.
 * - A tree (TU_TREE) combines two sources at a time, block by block, too: each level has a block for its result.
 * - A copy (one source) leaves NaNs as they are. */
#include "engine/kernels.h"

#include <math.h>
#include <string.h>

#include "engine/kernels_set.h"

enum { BLOCK_BYTES = TU_KERNEL_BLOCK_BYTES, BLOCK_FLOATS = BLOCK_BYTES / sizeof(float) };
/* Bytes of a block if targets get non-temporal stores. With longer blocks, memory would idle, because no data is read
 * while a block is written. */
enum { STREAM_BLOCK_BYTES = 512 };
enum { TARGETS_MAX = 16 };

/* Maximum alignment of the operands of a user's function. */
enum { ALIGNMENT_MAX = 16 };

/* One reduction. Its functions process items [at, at + count) of the sources at a time. */
struct job {
  const struct tu_arithmetic *a;
  const struct tu_type_kernels *kernels, *f32; /* kernels NULL: TUTTI_BYTES, which has none */
  const void *const *srcs;
  uint32_t source_count;
  size_t item_bytes, group; /* bytes per item; values per item: 16 for block floats, otherwise 1 */
  bool divides, tree;
};

struct targets {
  void *const *dsts;
  uint32_t dst_count;
  enum tu_past past;
};

static struct job job_of(const struct tu_arithmetic *a, const void *const srcs[], uint32_t source_count, unsigned how) {
  const struct tu_kernel_set *set = tu_kernels();
  struct job job = {.a = a,
                    .kernels = a->item_bytes ? NULL : &set->types[a->type],
                    .f32 = &set->types[TUTTI_F32],
                    .srcs = srcs,
                    .source_count = source_count,
                    .item_bytes = a->item_bytes ? a->item_bytes : tu_datatypes[a->type].bytes,
                    .group = a->item_bytes ? 1 : tu_item_elements(a->type),
                    .divides = how & TU_FINAL && !a->user && a->op == TUTTI_AVG,
                    .tree = how & TU_TREE && source_count > 2};
  tu_assert(source_count > 0 && (a->divisor > 0 || !job.divides));
  tu_assert(a->user || source_count == 1 || (job.kernels && job.kernels->pair[a->op]));
  tu_assert(!a->user || job.item_bytes <= BLOCK_BYTES || a->room);
  return job;
}

static bool copies(const struct job *j) { return j->source_count == 1 && !j->divides; }
static bool pairs(const struct job *j) { return j->source_count == 2 && !j->divides; }
static bool widens(const struct job *j) { return j->kernels && j->kernels->widen && !j->a->user; }

static const void *source(const struct job *j, uint32_t s, size_t at) {
  return (const char *)j->srcs[s] + at * j->item_bytes;
}

/* Returns the memory of a block: `block`, which has BLOCK_BYTES bytes, or room for one element if elements are
 * longer. `number` is less than TU_KERNEL_BLOCKS. */
static char *block_memory(const struct job *j, char *block, size_t number) {
  return j->item_bytes <= BLOCK_BYTES ? block : (char *)j->a->room + number * j->item_bytes;
}

/* Returns the alignment of the operands of a user's function: the largest power of two that divides the size of an
 * element, up to ALIGNMENT_MAX. */
static size_t alignment(const struct job *j) { return tu_min(j->item_bytes & -j->item_bytes, ALIGNMENT_MAX); }

/* Calls a user's function. The function may rely on operands that are aligned to their element, so operands that are
 * not aligned are first copied to aligned blocks. dst may be left or right. */
static void combine_by_user(const struct job *j, char *dst, const char *left, const char *right, size_t count) {
  const struct tu_arithmetic *a = j->a;
  bool aligned = ((uintptr_t)dst | (uintptr_t)left | (uintptr_t)right) % alignment(j) == 0;
  if (aligned) {
    a->user->function(dst, left, right, count, a->type, a->user->context);
    return;
  }
  _Alignas(TU_LINE_BYTES) char blocks[2][BLOCK_BYTES];
  char *first = block_memory(j, blocks[0], 0), *second = block_memory(j, blocks[1], 1);
  size_t block = tu_max(BLOCK_BYTES / j->item_bytes, 1);
  for (size_t at = 0; at < count; at += block) {
    size_t length = tu_min(block, count - at), offset = at * j->item_bytes, bytes = length * j->item_bytes;
    memcpy(first, left + offset, bytes);
    memcpy(second, right + offset, bytes);
    a->user->function(first, first, second, length, a->type, a->user->context);
    memcpy(dst + offset, first, bytes);
  }
}

static void combine(const struct job *j, void *dst, const void *left, const void *right, size_t count) {
  if (j->a->user) combine_by_user(j, dst, left, right, count);
  else j->kernels->pair[j->a->op](dst, left, right, count);
}

/* Combines the sources from left to right. `running` is memory for all results except the last one; it is not used if
 * there are two sources and no division. */
static void fold(const struct job *j, void *dst, void *running, size_t at, size_t count) {
  const void *left = source(j, 0, at);
  for (uint32_t s = 1; s < j->source_count; s++) {
    void *result = s + 1 == j->source_count && !j->divides ? dst : running;
    combine(j, result, left, source(j, s, at), count);
    left = result;
  }
  if (j->divides) j->kernels->divide(dst, left, count, j->a->divisor);
}

static void fold_narrow(const struct job *j, void *dst, size_t at, size_t count) {
  _Alignas(TU_LINE_BYTES) float values[BLOCK_FLOATS];
  j->kernels->widen(values, source(j, 0, at), count);
  for (uint32_t s = 1; s < j->source_count; s++) j->kernels->accumulate[j->a->op](values, source(j, s, at), count);
  if (j->divides) j->f32->divide(values, values, count * j->group, j->a->divisor);
  j->kernels->narrow(dst, values, count);
}

/* ---- trees ---- */

/* Levels of a tree of so many sources that its blocks are on the stack of every thread, and of the largest tree. */
enum { FEW_LEVELS = 4, ALL_LEVELS = 16 };

/* Combines the sources `first` to `first + sources` - 1 as a tree. Returns where the result is: in a source, or in the block
 * of this level. `blocks` has BLOCK_BYTES bytes for each level. */
static const void *node_of(const struct job *j, uint32_t first, uint32_t sources, size_t at, size_t count, char *blocks,
                           uint32_t level) {
  if (sources == 1) return source(j, first, at);
  const uint32_t half = tu_pow2_floor(sources - 1);
  char *result = block_memory(j, blocks + (size_t)level * BLOCK_BYTES, TU_KERNEL_BLOCKS - ALL_LEVELS + level);
  const void *left = node_of(j, first, half, at, count, blocks, level);
  const void *right = node_of(j, first + half, sources - half, at, count, blocks, level + 1);
  combine(j, result, left, right, count);
  return result;
}

static void reduce_block(const struct job *j, void *dst, size_t at, size_t count);

/* Reduces one block as a tree. The root has two operands, like a reduction of two sources. */
static void reduce_tree(const struct job *j, void *dst, size_t at, size_t count, char *blocks) {
  const uint32_t half = tu_pow2_floor(j->source_count - 1);
  const void *const halves[] = {node_of(j, 0, half, at, count, blocks, 0),
                                node_of(j, half, j->source_count - half, at, count, blocks, 1)};
  struct job root = *j;
  root.srcs = halves;
  root.source_count = 2;
  root.tree = false;
  reduce_block(&root, dst, 0, count);
}

static void reduce_small_tree(const struct job *j, void *dst, size_t at, size_t count) {
  _Alignas(TU_LINE_BYTES) char blocks[FEW_LEVELS][BLOCK_BYTES];
  reduce_tree(j, dst, at, count, blocks[0]);
}

static void reduce_large_tree(const struct job *j, void *dst, size_t at, size_t count) {
  _Alignas(TU_LINE_BYTES) char blocks[ALL_LEVELS][BLOCK_BYTES];
  reduce_tree(j, dst, at, count, blocks[0]);
}

/* ---- blocks ---- */

/* Returns the number of items that reduce_block processes at a time. */
static size_t block_items(const struct job *j) {
  return widens(j) && !pairs(j) ? BLOCK_FLOATS / j->group : tu_max(BLOCK_BYTES / j->item_bytes, 1);
}

/* Reduces one block. Not called for a copy (one source and no division). Writes dst after it has read the block of all
 * sources, so dst may be one of the sources. */
static void reduce_block(const struct job *j, void *dst, size_t at, size_t count) {
  _Alignas(TU_LINE_BYTES) char running[BLOCK_BYTES];
  if (j->tree && j->source_count <= 1u << FEW_LEVELS) reduce_small_tree(j, dst, at, count);
  else if (j->tree) reduce_large_tree(j, dst, at, count);
  else if (widens(j) && !pairs(j)) fold_narrow(j, dst, at, count);
  else fold(j, dst, block_memory(j, running, 2), at, count);
}

/* Returns true if the whole array is combined at once, with the running result in dst. So a user's function, whose
 * calls may be expensive, is called as seldom as possible. Returns false if dst is a source that is read later: then
 * the array must be cut into blocks. */
static bool folds_in_dst(const struct job *j, const void *dst) {
  if (j->tree) return false;
  for (uint32_t s = 2; s < j->source_count; s++)
    if (j->srcs[s] == dst) return false;
  return j->a->user || pairs(j);
}

/* Reduces in the less common cases: more than two sources, a user's operation, or a division at the end. */
static void reduce_other(const struct tu_arithmetic *a, void *dst, const void *const srcs[], uint32_t source_count,
                         size_t count, unsigned how) {
  const struct job job = job_of(a, srcs, source_count, how);
  if (count == 0) return;
  if (copies(&job)) {
    if (dst != srcs[0]) memcpy(dst, srcs[0], count * job.item_bytes);
  } else if (folds_in_dst(&job, dst)) {
    fold(&job, dst, dst, 0, count);
  } else {
    size_t block = block_items(&job);
    for (size_t at = 0; at < count; at += block)
      reduce_block(&job, (char *)dst + at * job.item_bytes, at, tu_min(block, count - at));
  }
}

/* Reduces. Two sources are the commonest case and use a short code path, because short calls last only nanoseconds. */
void tu_reduce(const struct tu_arithmetic *a, void *dst, const void *const srcs[], uint32_t source_count, size_t count,
               unsigned how) {
  bool is_pair = source_count == 2 && !a->user && !(how & TU_FINAL && a->op == TUTTI_AVG);
  tu_pair_kernel *pair = is_pair ? tu_kernels()->types[a->type].pair[a->op] : NULL;
  if (pair) pair(dst, srcs[0], srcs[1], count);
  else reduce_other(a, dst, srcs, source_count, count, how);
}

/* Reduces items [at, end) block by block. A block is reduced where it stays in the first-level cache: in the first
 * target with ordinary stores, or in a buffer if no target has ordinary stores. From there it is copied to the other
 * targets. The caller adds the fence that orders non-temporal stores. */
static void reduce_blocks_into(const struct job *j, const struct targets *t, size_t at, size_t end) {
  _Alignas(TU_LINE_BYTES) char result[BLOCK_BYTES];
  size_t block = block_items(j);
  if (t->past != TU_PAST_NONE) block = tu_min(block, STREAM_BLOCK_BYTES / j->item_bytes);
  uint32_t kept = tu_is_past(t->past, 0);
  for (; at < end; at += block) {
    size_t length = tu_min(block, end - at), offset = at * j->item_bytes, bytes = length * j->item_bytes;
    char *first = t->past == TU_PAST_ALL ? result : (char *)t->dsts[kept] + offset;
    reduce_block(j, first, at, length);
    for (uint32_t d = 0; d < t->dst_count; d++) {
      if (tu_is_past(t->past, d)) tu_stream((char *)t->dsts[d] + offset, first, bytes);
      else if (d != kept) tu_copy_bytes((char *)t->dsts[d] + offset, first, bytes);
    }
  }
}

/* Returns the number of items before the first cache line boundary of the targets. Returns count if that number differs
 * between the targets, or if cache lines begin within an item. */
static size_t items_to_line(const struct job *j, const struct targets *t, size_t count) {
  size_t bytes = -(uintptr_t)t->dsts[0] % TU_LINE_BYTES;
  for (uint32_t d = 1; d < t->dst_count; d++)
    if (-(uintptr_t)t->dsts[d] % TU_LINE_BYTES != bytes) return count;
  return bytes % j->item_bytes == 0 ? tu_min(count, bytes / j->item_bytes) : count;
}

static bool sums(const struct tu_arithmetic *a) {
  return !a->user && (a->op == TUTTI_SUM || a->op == TUTTI_AVG || a->op == TUTTI_PREMUL_SUM);
}

/* Reduces with non-temporal stores to all targets. A sum of two sources has a kernel that works line by line, because
 * block by block it would be a tenth slower. */
static void stream_into(const struct job *j, const struct targets *t, size_t count) {
  size_t head = items_to_line(j, t, count), lines = (count - head) * j->item_bytes / TU_LINE_BYTES;
  tu_stream_kernel *kernel = pairs(j) && sums(j->a) ? j->kernels->stream_sum : NULL;
  if (!kernel || t->dst_count > TARGETS_MAX) lines = 0;
  size_t body = lines * TU_LINE_BYTES / j->item_bytes;
  reduce_blocks_into(j, t, 0, head);
  if (lines) {
    void *dsts[TARGETS_MAX];
    for (uint32_t d = 0; d < t->dst_count; d++) dsts[d] = (char *)t->dsts[d] + head * j->item_bytes;
    kernel(dsts, t->dst_count, source(j, 0, head), source(j, 1, head), lines * TU_LINE_BYTES);
  }
  reduce_blocks_into(j, t, head + body, count);
}

void tu_reduce_into(const struct tu_arithmetic *a, void *const dsts[], uint32_t dst_count, enum tu_past past,
                    const void *const srcs[], uint32_t source_count, size_t count, unsigned how) {
  if (count == 0 || dst_count == 0) return;
  past = tu_past_of(past, dst_count);
  if (dst_count == 1 && past == TU_PAST_NONE) {
    tu_reduce(a, dsts[0], srcs, source_count, count, how);
    return;
  }
  const struct job job = job_of(a, srcs, source_count, how);
  const struct targets targets = {dsts, dst_count, past};
  size_t bytes = count * job.item_bytes;
  if (copies(&job) && dsts[0] != srcs[0]) {
    tu_copy_into(dsts, dst_count, past, srcs[0], bytes);
  } else if (copies(&job) || a->user) {
    tu_reduce(a, dsts[0], srcs, source_count, count, how);
    tu_copy_into(dsts + 1, dst_count - 1, past & TU_PAST_REST ? TU_PAST_ALL : TU_PAST_NONE, dsts[0], bytes);
  } else {
    if (past == TU_PAST_ALL) stream_into(&job, &targets, count);
    else reduce_blocks_into(&job, &targets, 0, count);
    if (past != TU_PAST_NONE) tu_stream_end();
  }
}

void tu_scale(const struct tu_arithmetic *a, void *dst, const void *src, size_t count) {
  const struct tu_kernel_set *set = tu_kernels();
  const struct tu_type_kernels *k = &set->types[a->type];
  if (!k->widen) {
    k->scale(dst, src, count, a->scale);
    return;
  }
  _Alignas(TU_LINE_BYTES) float values[BLOCK_FLOATS];
  size_t item_bytes = tu_datatypes[a->type].bytes, group = tu_item_elements(a->type), block = BLOCK_FLOATS / group;
  for (size_t at = 0; at < count; at += block) {
    size_t length = tu_min(block, count - at), offset = at * item_bytes;
    k->widen(values, (const char *)src + offset, length);
    set->types[TUTTI_F32].scale(values, values, length * group, a->scale);
    k->narrow((char *)dst + offset, values, length);
  }
}

void tu_block_floats_to_f32(tutti_datatype type, float *values, const void *items, size_t count) {
  tu_assert(tu_datatypes[type].elements > 0);
  tu_kernels()->types[type].widen(values, items, count);
}

void tu_block_floats_from_f32(tutti_datatype type, void *items, const float *values, size_t count) {
  tu_assert(tu_datatypes[type].elements > 0);
  tu_kernels()->types[type].narrow(items, values, count);
}

/* ---- validity of an arithmetic ---------------------------------------------------------------------------------- */

/* Returns true if the scale is a whole number in the range of an integer type. Other types accept any scale. */
static bool scale_fits(tutti_datatype type, double scale) {
  const struct tu_datatype *t = &tu_datatypes[type];
  if (t->floating) return true;
  int bits = 8 * t->bytes;
  double least = t->is_signed ? -ldexp(1, bits - 1) : 0, beyond = ldexp(1, t->is_signed ? bits - 1 : bits);
  return scale >= least && scale < beyond && scale == trunc(scale);
}

tutti_err tu_arithmetic_check(const struct tu_arithmetic *a, struct tu_error *error) {
  if (a->type == TUTTI_BYTES && !a->user && a->op < TU_OPS)
    return tu_fail(
        error, TUTTI_ERR_ARGUMENT,
        "operation %s cannot combine elements of datatype bytes; expected a user operation, such as one from "
        "tutti_comm_op_create",
        tu_operations[a->op].name);
  if (!tu_is_datatype(a->type) && a->type != TUTTI_BYTES)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "datatype %u is unknown; expected a tutti_datatype", (unsigned)a->type);
  const char *type = tutti_datatype_name(a->type);
  if (a->user) {
    if (a->user->function) return TUTTI_OK;
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "operation '%.63s' has no function; pass one to tutti_op_create",
                   a->user->name);
  }
  if (a->op >= TU_OPS)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "operation %u is unknown; expected a built-in one, 0 to %u, or one from tutti_op_create or from "
                   "tutti_comm_op_create on this communicator that is not freed",
                   a->op, TU_OPS - 1u);
  if (tu_operations[a->op].integers_only && tu_datatypes[a->type].floating)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "operation %s takes integers only, but the data type is %s",
                   tu_operations[a->op].name, type);
  if (tu_datatypes[a->type].boolean && (a->op == TUTTI_AVG || a->op == TUTTI_PREMUL_SUM))
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "operation %s takes numbers, but the data type is bool; use lor, land or lxor, or integers",
                   tu_operations[a->op].name);
  if (a->op == TUTTI_PREMUL_SUM && !scale_fits(a->type, a->scale))
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "premul_sum over %s: expected a scale that is a whole number in the range of this type, found %g",
                   type, a->scale);
  return TUTTI_OK;
}
