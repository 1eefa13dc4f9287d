/* share.c: cuts copies and reductions into parts, for the program's own threads. Elements are computed one by one, so it
 * does not matter to the result where an array is cut. It is cut between elements, and on cache lines of the first
 * target if elements allow it, so that no two threads write into one line. */
#include "engine/share.h"

enum { POINTERS_MAX = 64 }; /* a reduction with more targets and sources than this is not shared */

/* How an array of `bytes` bytes is cut: part i begins at cut_at(i). All cuts are `head` bytes behind the start, plus a
 * multiple of `unit` bytes. */
struct cut {
  size_t bytes, parts, head, unit;
};

static struct cut cut_of(const tutti_parallel *parallel, const void *target, size_t bytes, size_t item_bytes) {
  const size_t head = -(uintptr_t)target % TU_LINE_BYTES;
  return (struct cut){.bytes = bytes,
                      .parts = tu_min(parallel->threads, bytes / TU_PART_BYTES),
                      .head = head % item_bytes == 0 ? head : 0,
                      .unit = TU_LINE_BYTES % item_bytes == 0 ? TU_LINE_BYTES : TU_LINE_BYTES * item_bytes};
}

static size_t cut_at(const struct cut *c, size_t i) {
  if (i == 0) return 0;
  if (i >= c->parts) return c->bytes;
  return c->head + (c->bytes / c->parts * i - c->head) / c->unit * c->unit; /* a part is longer than `head` */
}

/* ---- copies ---- */

struct copy {
  struct cut cut;
  void *const *dsts;
  const void *src;
  uint32_t dst_count;
  enum tu_past past;
};

static void copy_part(void *argument, size_t i) {
  const struct copy *c = argument;
  const size_t begin = cut_at(&c->cut, i), bytes = cut_at(&c->cut, i + 1) - begin;
  void *dsts[POINTERS_MAX];
  for (uint32_t d = 0; d < c->dst_count; d++) dsts[d] = (char *)c->dsts[d] + begin;
  tu_copy_into(dsts, c->dst_count, c->past, (const char *)c->src + begin, bytes);
}

void tu_share_copy(const tutti_parallel *parallel, void *const dsts[], uint32_t dst_count, enum tu_past past,
                   const void *src, size_t bytes) {
  if (dst_count == 0) return;
  struct copy copy = {cut_of(parallel, dsts[0], bytes, 1), dsts, src, dst_count, past};
  if (copy.cut.parts < 2 || dst_count > POINTERS_MAX) tu_copy_into(dsts, dst_count, past, src, bytes);
  else parallel->run(parallel->context, copy.cut.parts, copy_part, &copy);
}

/* ---- reductions ---- */

struct reduction {
  struct cut cut;
  const struct tu_arithmetic *a;
  void *const *dsts;
  const void *const *srcs;
  uint32_t dst_count, source_count;
  enum tu_past past;
  unsigned how;
};

static void reduce_part(void *argument, size_t i) {
  const struct reduction *r = argument;
  const size_t begin = cut_at(&r->cut, i), bytes = cut_at(&r->cut, i + 1) - begin;
  void *dsts[POINTERS_MAX];
  const void *srcs[POINTERS_MAX];
  for (uint32_t d = 0; d < r->dst_count; d++) dsts[d] = (char *)r->dsts[d] + begin;
  for (uint32_t s = 0; s < r->source_count; s++) srcs[s] = (const char *)r->srcs[s] + begin;
  tu_reduce_into(r->a, dsts, r->dst_count, r->past, srcs, r->source_count, bytes / tu_datatypes[r->a->type].bytes,
                 r->how);
}

void tu_share_reduce(const tutti_parallel *parallel, const struct tu_arithmetic *a, void *const dsts[],
                     uint32_t dst_count, enum tu_past past, const void *const srcs[], uint32_t source_count,
                     size_t count, unsigned how) {
  if (dst_count == 0) return;
  if (a->user || dst_count > POINTERS_MAX || source_count > POINTERS_MAX) {
    tu_reduce_into(a, dsts, dst_count, past, srcs, source_count, count, how);
    return;
  }
  const size_t item_bytes = tu_datatypes[a->type].bytes;
  struct reduction r = {
      cut_of(parallel, dsts[0], count * item_bytes, item_bytes), a, dsts, srcs, dst_count, source_count, past, how};
  if (r.cut.parts < 2) tu_reduce_into(a, dsts, dst_count, past, srcs, source_count, count, how);
  else parallel->run(parallel->context, r.cut.parts, reduce_part, &r);
}

/* ---- validity ---- */

tutti_err tu_parallel_check(const tutti_parallel *p, struct tu_error *error) {
  if (p->threads > 0 && !p->run)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_init: tutti_options.parallel has %u threads, but run is NULL; expected the function that "
                   "shares out work, or 0 threads",
                   p->threads);
  if (p->threads == 0 && p->run)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_init: tutti_options.parallel has a function run, but 0 threads; expected 1 to %u threads",
                   TU_PARALLEL_THREADS_MAX);
  if (p->threads > TU_PARALLEL_THREADS_MAX)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "tutti_init: tutti_options.parallel has %u threads; expected at most %u",
                   p->threads, TU_PARALLEL_THREADS_MAX);
  if (p->reserved == 0) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "tutti_init: tutti_options.parallel.reserved is %u; expected 0",
                 p->reserved);
}
