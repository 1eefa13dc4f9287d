/* bench_case.c: makes the input and the expected output of one case of the benchmark.
 *
 * The values of a block repeat after PERIOD elements, a prime number, and shift by one element per round. So the check
 * detects a chunk at a wrong offset or a chunk of an earlier round, and the expected values fit in a short table. All
 * values are small integers, chosen so that every partial result is exact in its type. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/types.h"
#include "bench/core/core.h"
#include "engine/kernels.h"

enum { PERIOD = 251, VALUE_MAX = 100 };

/* ---- values ---- */

/* Returns the maximum absolute value of a sum: all integers up to it are exact in the type. For 8-bit integers it also
 * prevents overflow, because the average of a wrapped sum would be wrong. */
static uint32_t exact_max(tutti_datatype type) {
  switch (type) {
    case TUTTI_F8E5M2: return 8;
    case TUTTI_F8E4M3: return 16;
    case TUTTI_BOOL: return 1;
    default: return VALUE_MAX;
  }
}

static double spread(uint64_t random, uint32_t max, bool is_signed) {
  if (is_signed) return (double)(random % (2 * (uint64_t)max + 1)) - max;
  return (double)(random % (max + 1));
}

/* Returns element i of block `block` of the input of `rank`. */
static double value(const struct bench_case *c, uint32_t rank, uint32_t block, uint32_t i) {
  const struct tu_datatype *type = &tu_datatypes[c->type];
  uint64_t state = ((uint64_t)rank * 65537 + block) * 65537 + i;
  uint64_t random = tu_random(&state);
  uint32_t bound = exact_max(c->type), turn = (rank + i) % c->ranks;
  if (!tu_reduces(c->collective)) return spread(random, bound, type->is_signed);
  switch (c->op) {
    case TUTTI_MIN:
    case TUTTI_MAX: return spread(random, bound, type->is_signed);
    case TUTTI_BAND:
    case TUTTI_BOR:
    case TUTTI_BXOR: return (double)(random % (type->boolean ? 2 : 128));
    case TUTTI_LAND:
    case TUTTI_LOR:
    case TUTTI_LXOR: return random % 4 != 0;
    case TUTTI_PROD: /* in a product, at most three factors are 2, because 8 is exact in all types */
      if (turn < 3) return 2;
      return type->is_signed && random & 1 ? -1 : 1;
    default: break;
  }
  /* In sums, only a few ranks have values other than 0, so that the absolute values sum up to at most `bound`. */
  if (c->op == TUTTI_PREMUL_SUM) bound /= 2;
  uint32_t givers = c->ranks < bound ? c->ranks : bound;
  return turn < givers ? spread(random, bound / givers, type->is_signed) : 0;
}

static double scale_of(const struct bench_case *c, uint32_t rank) {
  return c->op == TUTTI_PREMUL_SUM ? 1 + rank % 2 : 1;
}

static double fold(tutti_op op, double a, double b) {
  int64_t x = (int64_t)a, y = (int64_t)b;
  switch (op) {
    case TUTTI_PROD: return a * b;
    case TUTTI_MIN: return a < b ? a : b;
    case TUTTI_MAX: return a > b ? a : b;
    case TUTTI_BAND: return (double)(x & y);
    case TUTTI_BOR: return (double)(x | y);
    case TUTTI_BXOR: return (double)(x ^ y);
    case TUTTI_LAND: return x && y;
    case TUTTI_LOR: return x || y;
    case TUTTI_LXOR: return !x != !y;
    default: return a + b;
  }
}

static double expected_value(const struct bench_case *c, uint32_t block, uint32_t i) {
  struct tu_promised p = tu_promise_of(c->collective, c->ranks, c->root, c->rank, block);
  double result = value(c, p.from, p.in_block, i);
  if (!tu_reduces(c->collective)) return result;
  result *= scale_of(c, p.from);
  for (uint32_t r = p.from + 1; r < p.to; r++)
    result = fold(c->op, result, value(c, r, p.in_block, i) * scale_of(c, r));
  if (c->op != TUTTI_AVG) return result;
  if (!tu_datatypes[c->type].floating) return (double)((int64_t)result / (int64_t)c->ranks);
  return result / c->ranks;
}

/* Returns a table with two periods of each block's values (which repeat after PERIOD elements), so that a period from
 * any element on is contiguous. */
static unsigned char *make_tables(const struct bench_case *c, const struct tu_view *view, bool is_out) {
  size_t item = view->item_bytes;
  unsigned char *tables = tu_allocate(tu_max(view->blocks, 1) * 2 * PERIOD, item);
  for (uint32_t block = 0; block < view->blocks; block++) {
    unsigned char *table = tables + (size_t)block * 2 * PERIOD * item;
    for (uint32_t i = 0; i < PERIOD; i++)
      tu_from_double(c->type, table + i * item, is_out ? expected_value(c, block, i) : value(c, c->rank, block, i));
    memcpy(table + PERIOD * item, table, PERIOD * item);
  }
  return tables;
}

/* ---- sizes ---- */

/* Returns the length of a block relative to the shortest block; vector variants have unequal blocks. In alltoallv it
 * depends on the sum of the two rank numbers, so that sender and receiver agree. */
static size_t weight(tutti_collective collective, enum tu_extent extent, uint32_t rank, uint32_t block) {
  const struct tu_collective *c = &tu_collectives[collective];
  if (!c->vector) return 1;
  if (c->in == c->out) return 1 + (rank + block) % 3;
  return 1 + (extent == TU_EACH ? block : rank) % 3;
}

/* Returns the weight (relative length) of the longest buffer of any rank. */
static size_t weight_max(tutti_collective collective, uint32_t ranks) {
  const struct tu_collective *c = &tu_collectives[collective];
  if (c->in == TU_ONE && c->out == TU_ONE) return 1;
  tu_assert(ranks > 0);
  size_t most = 0;
  for (uint32_t r = 0; r < 3; r++) { /* weights (relative block lengths) repeat after three ranks */
    size_t sum = 0;
    for (uint32_t block = 0; block < ranks; block++) sum += weight(collective, TU_EACH, r % ranks, block);
    most = tu_max(most, sum);
  }
  return most;
}

/* Returns the number of elements of a block with weight 1, the shortest block. */
static size_t unit_count(const struct bench_options *options, const struct bench_item *item, uint32_t ranks,
                         size_t bytes) {
  if (item->collective == TUTTI_BARRIER || bytes == 0) return 0;
  return tu_max(1, bytes / tutti_datatype_size(options->type) / weight_max(item->collective, ranks));
}

size_t bench_case_bytes(const struct bench_options *options, const struct bench_item *item, uint32_t ranks,
                        size_t bytes) {
  size_t unit = unit_count(options, item, ranks, bytes);
  return unit * weight_max(item->collective, ranks) * tutti_datatype_size(options->type);
}

bool bench_has_in_place(const struct bench_item *item) {
  return !item->plan && item->collective != TUTTI_BROADCAST && item->collective != TUTTI_BARRIER &&
         item->collective != TUTTI_SEND;
}

/* ---- creation and destruction ---- */

static void lay_views(struct bench_case *c, size_t unit) {
  const struct tu_collective *k = &tu_collectives[c->collective];
  size_t item = tutti_datatype_size(c->type);
  c->in = (struct tu_view){.item_bytes = item, .split = 1};
  c->out = c->in;
  if (c->collective == TUTTI_BARRIER) return;
  c->in.blocks = tu_in_blocks(c->collective, c->ranks, c->root, c->rank);
  c->out.blocks = tu_out_blocks(c->collective, c->ranks, c->root, c->rank);
  /* In place, the root of a broadcast has one buffer, which is its input; it has no output blocks. */
  if (c->collective == TUTTI_BROADCAST && c->rank == c->root && c->in_place) c->out.blocks = 0;
  c->count = unit * weight(c->collective, TU_ONE, c->rank, 0);
  c->in.count = c->out.count = c->count;
  if (!k->vector) return;
  c->counts = tu_allocate(c->ranks, sizeof *c->counts);
  for (uint32_t block = 0; block < c->ranks; block++)
    c->counts[block] = unit * weight(c->collective, TU_EACH, c->rank, block);
  if (k->in == TU_EACH) c->in.counts = c->counts;
  if (k->out == TU_EACH) c->out.counts = c->counts;
}

/* Allocates whole pages and writes to them, so that no page is touched first while the clock runs. The buffer is never
 * empty: some libraries require an address even if nothing is read. */
static void *make_buffer(const struct bench_case *c, const struct tu_view *view) {
  size_t begin, bytes = tu_round_up(tu_max(tu_view_extent(view, &begin), 1), 4096);
  void *buffer = c->memory ? c->memory->acquire(c->memory->context, bytes) : aligned_alloc(4096, bytes);
  if (buffer) memset(buffer, 0xA5, bytes);
  else fprintf(stderr, "bench: out of memory: cannot allocate a buffer of %zu bytes; use smaller --bytes\n", bytes);
  return buffer;
}

static void free_buffer(const struct bench_case *c, void *buffer) {
  if (c->memory) c->memory->release(c->memory->context, buffer);
  else free(buffer);
}

/* Allocates the buffers. In place, allocates only the longer one of input and output; the shorter one is a part of
 * it. */
static bool make_buffers(struct bench_case *c) {
  const struct tu_collective *k = &tu_collectives[c->collective];
  bool shared = c->in_place && c->in.blocks > 0 && c->out.blocks > 0;
  bool in_longer = k->in == TU_EACH && k->out == TU_ONE, out_longer = k->in == TU_ONE && k->out == TU_EACH;
  if (!shared || in_longer) c->in_data = make_buffer(c, &c->in);
  if (!shared || !in_longer) c->out_data = make_buffer(c, &c->out);
  if (shared) {
    void *there = in_longer ? c->in_data : c->out_data;
    size_t own = in_longer || out_longer ? tu_view_chunk(in_longer ? &c->in : &c->out, c->rank).offset : 0;
    void *within = there ? (unsigned char *)there + own : NULL;
    if (in_longer) c->out_data = within;
    else c->in_data = within;
  }
  return c->in_data && c->out_data;
}

bool bench_case_create(struct bench_case *c, const struct bench_options *options, const struct bench_item *item,
                       uint32_t rank, uint32_t ranks, size_t bytes) {
  *c = (struct bench_case){
      .collective = item->collective,
      .algorithm = item->plan        ? item->plan->algorithm
                   : item->algorithm ? item->algorithm->name
                                     : NULL,
      .planned = item->plan != NULL,
      .in_place = item->plan ? item->plan->in_place : item->in_place || item->collective == TUTTI_BROADCAST,
      .type = options->type,
      .op = options->op,
      .memory = options->memory,
      .rank = rank,
      .ranks = ranks,
      .lanes = options->lanes,
      .root = tu_collectives[item->collective].rooted && item->collective != TUTTI_SEND ? options->root : 0,
      .bytes = bench_case_bytes(options, item, ranks, bytes),
  };
  c->scale = scale_of(c, rank);
  lay_views(c, unit_count(options, item, ranks, bytes));
  c->in_tables = make_tables(c, &c->in, false);
  c->out_tables = make_tables(c, &c->out, true);
  if (make_buffers(c)) return true;
  bench_case_destroy(c);
  return false;
}

void bench_case_destroy(struct bench_case *c) {
  free(c->counts);
  free(c->in_tables);
  free(c->out_tables);
  const struct tu_collective *k = &tu_collectives[c->collective];
  bool shared = c->in_place && c->in.blocks > 0 && c->out.blocks > 0, in_longer = k->in == TU_EACH && k->out == TU_ONE;
  if (!shared || in_longer) free_buffer(c, c->in_data);
  if (!shared || !in_longer) free_buffer(c, c->out_data);
  *c = (struct bench_case){0};
}

/* ---- input and check of each round ---- */

void bench_case_produce(const struct bench_case *c, uint32_t round) {
  size_t item = c->in.item_bytes, period = PERIOD * item;
  for (uint32_t block = 0; block < c->in.blocks; block++) {
    const unsigned char *values = c->in_tables + block * 2 * period + round % PERIOD * item;
    struct tu_run run = tu_view_chunk(&c->in, block);
    unsigned char *to = (unsigned char *)c->in_data + run.offset;
    for (size_t done = 0; done < run.bytes; done += period) memcpy(to + done, values, tu_min(period, run.bytes - done));
  }
}

static size_t count_wrong(const unsigned char *found, const unsigned char *wanted, size_t bytes, size_t item) {
  if (memcmp(found, wanted, bytes) == 0) return 0;
  size_t wrong = 0;
  for (size_t i = 0; i < bytes; i += item) wrong += memcmp(found + i, wanted + i, item) != 0;
  return wrong;
}

size_t bench_case_wrong(const struct bench_case *c, uint32_t round) {
  size_t item = c->out.item_bytes, period = PERIOD * item, wrong = 0;
  for (uint32_t block = 0; block < c->out.blocks; block++) {
    const unsigned char *values = c->out_tables + block * 2 * period + round % PERIOD * item;
    struct tu_run run = tu_view_chunk(&c->out, block);
    const unsigned char *found = (const unsigned char *)c->out_data + run.offset;
    for (size_t done = 0; done < run.bytes; done += period)
      wrong += count_wrong(found + done, values, tu_min(period, run.bytes - done), item);
  }
  return wrong;
}
