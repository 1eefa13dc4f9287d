/* reference.h: cases of collective calls, and their correct results, computed locally from inputs that every rank
 * knows. All values are chosen so that the result is exact in any order of additions. Operations that do not commute
 * are compared with the fold in rank order. The whole of a buffer is compared: data, gaps, and guards before and
 * behind. */
#ifndef REFERENCE_H
#define REFERENCE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

enum { REF_RANKS_MAX = 8, REF_GUARD = 192 };
/* The types for vectors; block floats are for tensors only. */
static const tutti_datatype ref_types[] = {TUTTI_I8,  TUTTI_U8,  TUTTI_I16,    TUTTI_U16,    TUTTI_I32,
                                           TUTTI_U32, TUTTI_I64, TUTTI_U64,    TUTTI_F16,    TUTTI_BF16,
                                           TUTTI_F32, TUTTI_F64, TUTTI_F8E4M3, TUTTI_F8E5M2, TUTTI_BOOL};
/* The collectives, without send and receive. */
static const tutti_collective ref_collectives[] = {
    TUTTI_ALLREDUCE,      TUTTI_REDUCE,     TUTTI_BROADCAST,       TUTTI_GATHER,   TUTTI_SCATTER, TUTTI_ALLGATHER,
    TUTTI_REDUCE_SCATTER, TUTTI_ALLTOALL,   TUTTI_BARRIER,         TUTTI_SCAN,     TUTTI_EXSCAN,  TUTTI_GATHERV,
    TUTTI_SCATTERV,       TUTTI_ALLGATHERV, TUTTI_REDUCE_SCATTERV, TUTTI_ALLTOALLV};
enum {
  REF_TYPES = sizeof ref_types / sizeof ref_types[0],
  REF_COLLECTIVES = sizeof ref_collectives / sizeof ref_collectives[0]
};

/* Operations of the cases: the library's, and two user-defined ones. */
enum { REF_BUILT_IN = TUTTI_PREMUL_SUM + 1, REF_AFFINE = REF_BUILT_IN, REF_PLUS_ONE, REF_OPS };
enum ref_aliasing { REF_APART, REF_SAME_POINTER, REF_MARKED, REF_ALIASINGS };
enum ref_blocks { REF_EQUAL, REF_UNEVEN, REF_ZEROS_GAPS, REF_UNEVEN_REVERSED, REF_ONE_GAPS, REF_BLOCKS };

struct ref_case {
  tutti_collective collective;
  const char *algorithm; /* NULL: chosen by the library */
  tutti_datatype type;
  uint32_t op;
  size_t count;
  enum ref_aliasing aliasing;
  enum ref_blocks blocks; /* lengths and gaps of the blocks of a vector variant (gatherv, ...) */
  bool pointers; /* each rank may give the addresses of the blocks of a buffer that is cut into one block per rank */
  uint32_t root;
  uint32_t ranks;
  uint32_t lanes;
  uint64_t seed;
};

static inline bool ref_vector(tutti_collective c) { return c >= TUTTI_GATHERV && c <= TUTTI_ALLTOALLV; }
static inline bool ref_rooted(tutti_collective c) {
  return c == TUTTI_REDUCE || c == TUTTI_BROADCAST || c == TUTTI_GATHER || c == TUTTI_SCATTER || c == TUTTI_GATHERV ||
         c == TUTTI_SCATTERV;
}
static inline bool ref_reduces(tutti_collective c) {
  return c == TUTTI_ALLREDUCE || c == TUTTI_REDUCE || c == TUTTI_REDUCE_SCATTER || c == TUTTI_REDUCE_SCATTERV ||
         c == TUTTI_SCAN || c == TUTTI_EXSCAN;
}
static inline bool ref_floating(tutti_datatype t) { return t >= TUTTI_F16 && t <= TUTTI_F8E5M2; }
static inline bool ref_signed(tutti_datatype t) {
  return t == TUTTI_I8 || t == TUTTI_I16 || t == TUTTI_I32 || t == TUTTI_I64;
}
static inline uint32_t ref_item_bytes(tutti_datatype t) {
  switch (t) {
    case TUTTI_I8:
    case TUTTI_U8:
    case TUTTI_BOOL:
    case TUTTI_F8E4M3:
    case TUTTI_F8E5M2: return 1;
    case TUTTI_I16:
    case TUTTI_U16:
    case TUTTI_F16:
    case TUTTI_BF16: return 2;
    case TUTTI_I32:
    case TUTTI_U32:
    case TUTTI_F32: return 4;
    default: return 8;
  }
}

/* Which of a call's two buffers holds one block per rank while the other holds a single block. */
enum ref_longer { REF_NEITHER, REF_IN_LONGER, REF_OUT_LONGER };
static inline enum ref_longer ref_longer_of(tutti_collective c) {
  if (c == TUTTI_GATHER || c == TUTTI_GATHERV || c == TUTTI_ALLGATHER || c == TUTTI_ALLGATHERV) return REF_OUT_LONGER;
  if (c == TUTTI_SCATTER || c == TUTTI_SCATTERV || c == TUTTI_REDUCE_SCATTER || c == TUTTI_REDUCE_SCATTERV)
    return REF_IN_LONGER;
  return REF_NEITHER;
}

/* Returns true if the library supports this combination of collective, operation and type. */
static inline bool ref_valid(const struct ref_case *c) {
  if (!ref_reduces(c->collective)) return true;
  if (c->op >= TUTTI_BAND && c->op <= TUTTI_LXOR && ref_floating(c->type)) return false;
  if (c->type == TUTTI_BOOL && (c->op == TUTTI_AVG || c->op == TUTTI_PREMUL_SUM)) return false;
  if (c->op == TUTTI_AVG && (c->collective == TUTTI_SCAN || c->collective == TUTTI_EXSCAN)) return false;
  return true;
}

static inline uint64_t ref_mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
static inline uint64_t ref_hash(uint64_t seed, uint64_t a, uint64_t b, uint64_t c) {
  return ref_mix(seed + a * 0x9e3779b97f4a7c15u + b * 0xc2b2ae3d27d4eb4fu + c * 0x165667b19e3779f9u);
}

/* ---- elements as bit patterns ---- */

static inline uint64_t ref_load(const void *element, uint32_t bytes) {
  uint8_t b = 0;
  uint16_t h = 0;
  uint32_t w = 0;
  uint64_t d = 0;
  if (bytes == 1) return memcpy(&b, element, 1), b;
  if (bytes == 2) return memcpy(&h, element, 2), h;
  if (bytes == 4) return memcpy(&w, element, 4), w;
  return memcpy(&d, element, 8), d;
}
static inline void ref_store(void *element, uint32_t bytes, uint64_t bits) {
  uint8_t b = (uint8_t)bits;
  uint16_t h = (uint16_t)bits;
  uint32_t w = (uint32_t)bits;
  if (bytes == 1) memcpy(element, &b, 1);
  else if (bytes == 2) memcpy(element, &h, 2);
  else if (bytes == 4) memcpy(element, &w, 4);
  else memcpy(element, &bits, 8);
}
static inline uint64_t ref_cut(uint64_t bits, uint32_t bytes) {
  return bytes == 8 ? bits : bits & ((1ull << (8 * bytes)) - 1);
}
static inline int64_t ref_extend(uint64_t bits, uint32_t bytes) {
  uint32_t shift = 64 - 8 * bytes;
  return (int64_t)(bits << shift) >> shift;
}

/* Encodes a value that the type holds exactly, as a normal number or zero. */
static inline uint64_t ref_encode(tutti_datatype type, double value) {
  float single = (float)value;
  uint64_t bits = 0;
  if (type == TUTTI_F64) return memcpy(&bits, &value, 8), bits;
  if (type == TUTTI_F32) return memcpy(&bits, &single, 4), bits;
  uint32_t mantissa = type == TUTTI_F16 ? 10 : type == TUTTI_BF16 ? 7 : type == TUTTI_F8E4M3 ? 3 : 2;
  uint32_t width = ref_item_bytes(type) * 8;
  if (value == 0.0) return 0;
  int exponent;
  double fraction = frexp(fabs(value), &exponent); /* the fraction is in [0.5, 1) */
  uint64_t bias = (1ull << (width - mantissa - 2)) - 1;
  uint64_t digits = (uint64_t)(ldexp(fraction, (int)mantissa + 1)) - (1ull << mantissa);
  bits = ((uint64_t)(exponent - 1) + bias) << mantissa | digits;
  return value < 0 ? bits | 1ull << (width - 1) : bits;
}

/* Composes two functions x -> a x + b, the left one first: associative, not commutative. */
static inline uint64_t ref_affine(uint64_t left, uint64_t right, uint32_t bytes) {
  uint32_t half = 4 * bytes;
  uint64_t mask = (1ull << half) - 1;
  uint64_t a = left >> half, b = left & mask, c = right >> half, d = right & mask;
  return ((a * c) & mask) << half | ((b * c + d) & mask);
}

static inline void ref_affine_op(void *result, const void *left, const void *right, size_t count, tutti_datatype type,
                                 void *context) {
  (void)context;
  uint32_t bytes = ref_item_bytes(type);
  unsigned char *to = result;
  const unsigned char *l = left, *r = right;
  for (size_t i = 0; i < count * bytes; i += bytes)
    ref_store(to + i, bytes, ref_affine(ref_load(l + i, bytes), ref_load(r + i, bytes), bytes));
}
static inline void ref_plus_one_op(void *result, const void *left, const void *right, size_t count, tutti_datatype type,
                                   void *context) {
  (void)context;
  uint32_t bytes = ref_item_bytes(type);
  unsigned char *to = result;
  const unsigned char *l = left, *r = right;
  for (size_t i = 0; i < count * bytes; i += bytes)
    ref_store(to + i, bytes, ref_load(l + i, bytes) + ref_load(r + i, bytes) + 1);
}

/* handles of the user-defined operations REF_AFFINE and REF_PLUS_ONE */
static tutti_op ref_user_ops[REF_OPS - REF_BUILT_IN];
static inline tutti_err ref_register(void) {
  tutti_err err = tutti_op_create(ref_affine_op, NULL, false, "affine", &ref_user_ops[0]);
  return err ? err : tutti_op_create(ref_plus_one_op, NULL, true, "plus_one", &ref_user_ops[1]);
}
static inline tutti_op ref_op(uint32_t op) { return op < REF_BUILT_IN ? op : ref_user_ops[op - REF_BUILT_IN]; }
static inline const char *ref_op_name(uint32_t op) {
  return op == REF_AFFINE ? "affine" : op == REF_PLUS_ONE ? "plus_one" : tutti_op_name(op);
}

/* ---- inputs ---- */

static inline double ref_scale(const struct ref_case *c, uint32_t rank) {
  if (c->type == TUTTI_F32 || c->type == TUTTI_F64) return 0.5 * (rank + 1);
  if (ref_floating(c->type)) return 1.0 + (rank & 1);
  if (ref_signed(c->type) && rank % 3 == 2) return -3.0;
  return 1.0 + rank % 3;
}

/* Returns a small integer such that every partial result of the operation is exact in the type. */
static inline double ref_small(const struct ref_case *c, uint32_t rank, uint32_t block, size_t i) {
  uint64_t h = ref_hash(c->seed, rank + 1, block, i);
  bool narrow = c->type != TUTTI_F32 && c->type != TUTTI_F64;
  double sign = i & 1 ? -1.0 : 1.0;
  if (c->op == TUTTI_PROD) return (h & 1 ? 1.0 : 2.0) * (h & 2 ? -1.0 : 1.0);
  if (c->op == TUTTI_MIN || c->op == TUTTI_MAX) return (double)(h % 17) - 8.0;
  if (c->op == TUTTI_AVG &&
      narrow) { /* the sum of all ranks' values is a multiple of the number of ranks, so that the division is exact */
    double base = c->type == TUTTI_F8E5M2 ? 0.0 : (double)(ref_hash(c->seed, 0, block, i) & 1);
    return sign * (base + (i % c->ranks == rank ? c->ranks : 0));
  }
  if (c->type == TUTTI_F8E5M2) return (i + rank) % c->ranks < 3 ? sign : 0.0;
  if (c->type == TUTTI_F8E4M3) return (double)(h % 3) - 1.0;
  uint64_t limit = c->type == TUTTI_F64 ? 1000000 : c->type == TUTTI_F32 ? 100000 : c->type == TUTTI_F16 ? 100 : 15;
  return (double)(h % (2 * limit + 1)) - (double)limit;
}

static inline bool ref_by_value(const struct ref_case *c) {
  return ref_floating(c->type) && c->op < REF_BUILT_IN && ref_reduces(c->collective);
}

static inline uint64_t ref_input(const struct ref_case *c, uint32_t rank, uint32_t block, size_t i) {
  if (ref_by_value(c)) return ref_encode(c->type, ref_small(c, rank, block, i));
  uint64_t h = ref_hash(c->seed, rank + 1, block, i);
  bool logical = c->type == TUTTI_BOOL ? c->op < REF_BUILT_IN : c->op >= TUTTI_LAND && c->op <= TUTTI_LXOR;
  if (ref_reduces(c->collective) && logical) {
    /* If the result may be one operand alone, without an operation, the operand must be 0 or 1 already. */
    if (c->ranks == 1 || c->collective == TUTTI_SCAN || c->collective == TUTTI_EXSCAN) return h & 1;
    if ((h >> 61) < 3) return 0;
  }
  return ref_cut(h, ref_item_bytes(c->type));
}

/* ---- results ---- */

static inline double ref_fold_values(const struct ref_case *c, uint32_t from, uint32_t to, uint32_t block, size_t i) {
  double sum = 0.0;
  for (uint32_t r = from; r < to; r++) {
    double x = ref_small(c, r, block, i) * (c->op == TUTTI_PREMUL_SUM ? ref_scale(c, r) : 1.0);
    if (r == from) sum = x;
    else if (c->op == TUTTI_PROD) sum *= x;
    else if (c->op == TUTTI_MIN) sum = x < sum ? x : sum;
    else if (c->op == TUTTI_MAX) sum = x > sum ? x : sum;
    else sum += x;
  }
  if (c->op != TUTTI_AVG) return sum;
  return c->type == TUTTI_F64 ? sum / c->ranks : (double)((float)sum / (float)c->ranks);
}

/* Returns the logical operation that an operation of bool is; the operations of users take a bool as a byte. */
static inline uint32_t ref_logical(uint32_t op) {
  if (op == TUTTI_MIN || op == TUTTI_PROD || op == TUTTI_BAND) return TUTTI_LAND;
  if (op == TUTTI_MAX || op == TUTTI_SUM || op == TUTTI_BOR) return TUTTI_LOR;
  return op == TUTTI_BXOR ? TUTTI_LXOR : op;
}

static inline uint64_t ref_combine(const struct ref_case *c, uint64_t x, uint64_t y) {
  uint32_t bytes = ref_item_bytes(c->type);
  bool less = ref_signed(c->type) ? ref_extend(x, bytes) < ref_extend(y, bytes) : x < y;
  switch (c->type == TUTTI_BOOL ? ref_logical(c->op) : c->op) {
    case TUTTI_PROD: return ref_cut(x * y, bytes);
    case TUTTI_MIN: return less ? x : y;
    case TUTTI_MAX: return less ? y : x;
    case TUTTI_BAND: return x & y;
    case TUTTI_BOR: return x | y;
    case TUTTI_BXOR: return x ^ y;
    case TUTTI_LAND: return x && y;
    case TUTTI_LOR: return x || y;
    case TUTTI_LXOR: return !x != !y;
    case REF_AFFINE: return ref_affine(x, y, bytes);
    case REF_PLUS_ONE: return ref_cut(x + y + 1, bytes);
    default: return ref_cut(x + y, bytes);
  }
}

static inline uint64_t ref_reduced(const struct ref_case *c, uint32_t from, uint32_t to, uint32_t block, size_t i) {
  if (ref_by_value(c)) return ref_encode(c->type, ref_fold_values(c, from, to, block, i));
  uint32_t bytes = ref_item_bytes(c->type);
  uint64_t sum = 0;
  for (uint32_t r = from; r < to; r++) {
    uint64_t x = ref_input(c, r, block, i);
    if (c->op == TUTTI_PREMUL_SUM) x = ref_cut(x * (uint64_t)(int64_t)ref_scale(c, r), bytes);
    sum = r == from ? x : ref_combine(c, sum, x);
  }
  if (c->op != TUTTI_AVG) return sum;
  if (ref_signed(c->type)) return ref_cut((uint64_t)(ref_extend(sum, bytes) / (int64_t)c->ranks), bytes);
  return sum / c->ranks;
}

/* Returns element i of block `block` of the output of `rank`. */
static inline uint64_t ref_output(const struct ref_case *c, uint32_t rank, uint32_t block, size_t i) {
  switch (c->collective) {
    case TUTTI_BROADCAST: return ref_input(c, c->root, 0, i);
    case TUTTI_GATHER:
    case TUTTI_GATHERV:
    case TUTTI_ALLGATHER:
    case TUTTI_ALLGATHERV: return ref_input(c, block, 0, i);
    case TUTTI_SCATTER:
    case TUTTI_SCATTERV: return ref_input(c, c->root, rank, i);
    case TUTTI_ALLTOALL:
    case TUTTI_ALLTOALLV: return ref_input(c, block, rank, i);
    case TUTTI_REDUCE_SCATTER:
    case TUTTI_REDUCE_SCATTERV: return ref_reduced(c, 0, c->ranks, rank, i);
    case TUTTI_SCAN: return ref_reduced(c, 0, rank + 1, 0, i);
    case TUTTI_EXSCAN: return ref_reduced(c, 0, rank, 0, i);
    default: return ref_reduced(c, 0, c->ranks, 0, i);
  }
}

/* ---- one rank's buffers ---- */

/* Allocator of the buffers. `number` is different for every buffer of every case. */
struct ref_memory {
  void *(*acquire)(size_t bytes, uint64_t number);
  void (*release)(void *memory);
};
static inline void *ref_malloc(size_t bytes, uint64_t number) {
  (void)number;
  return malloc(bytes);
}
static struct ref_memory ref_memory = {ref_malloc, free};

struct ref_buffer {
  unsigned char *memory; /* contains a guard, the data, and another guard */
  unsigned char *wanted; /* expected content of `memory` after the call */
  unsigned char *data;
  size_t bytes; /* size of `memory` */
  uint32_t blocks, item_bytes;
  size_t counts[REF_RANKS_MAX], offsets[REF_RANKS_MAX];
  /* true: the call gives the address of each block. The blocks then lie in any order, with gaps that need not be whole
   * items, in `memory` or in `spare`, which may be of another kind. */
  bool pointed;
  struct {
    unsigned char *memory, *wanted;
    size_t bytes;
  } spare;
  void *addresses[REF_RANKS_MAX];
};

/* All data of one case on one rank. */
struct ref_run {
  struct ref_case c;
  uint32_t rank;
  bool in_place;             /* the call is in place on this rank */
  struct ref_buffer in, out; /* in place, only the longer of the two has memory */
  struct ref_buffer *in_home, *out_home;
  tutti_call call;
};

static inline size_t ref_count(const struct ref_case *c, uint32_t from, uint32_t to) {
  if (!ref_vector(c->collective) || c->blocks == REF_EQUAL) return c->count;
  if (c->aliasing != REF_APART && from > to) { /* in place, alltoallv sends as much to a rank as it receives from it */
    uint32_t swap = from;
    from = to, to = swap;
  }
  uint64_t h = ref_hash(c->seed, 1000 + from, to, 1);
  if (c->blocks == REF_ZEROS_GAPS && (h >> 63)) return 0;
  if (c->blocks == REF_ONE_GAPS) return (from + to) % c->ranks == c->seed % c->ranks ? c->count : 0;
  return (size_t)(h % (2 * c->count + 1));
}

/* Returns the number of elements of block `block` in the input or output of `rank`. */
static inline size_t ref_block_count(const struct ref_case *c, uint32_t rank, bool is_out, uint32_t block) {
  switch (c->collective) {
    case TUTTI_ALLTOALLV: return is_out ? ref_count(c, block, rank) : ref_count(c, rank, block);
    case TUTTI_GATHERV:
    case TUTTI_ALLGATHERV: return ref_count(c, is_out ? block : rank, 0);
    case TUTTI_SCATTERV:
    case TUTTI_REDUCE_SCATTERV: return ref_count(c, is_out ? rank : block, 0);
    default: return c->count;
  }
}

static inline uint32_t ref_block_number(const struct ref_case *c, uint32_t rank, bool is_out) {
  bool root = rank == c->root;
  switch (c->collective) {
    case TUTTI_BARRIER: return 0;
    case TUTTI_REDUCE: return is_out && !root ? 0 : 1;
    case TUTTI_BROADCAST: return is_out || root ? 1 : 0;
    case TUTTI_GATHER:
    case TUTTI_GATHERV: return !is_out ? 1 : root ? c->ranks : 0;
    case TUTTI_SCATTER:
    case TUTTI_SCATTERV: return is_out ? 1 : root ? c->ranks : 0;
    case TUTTI_ALLGATHER:
    case TUTTI_ALLGATHERV: return is_out ? c->ranks : 1;
    case TUTTI_REDUCE_SCATTER:
    case TUTTI_REDUCE_SCATTERV: return is_out ? 1 : c->ranks;
    case TUTTI_ALLTOALL:
    case TUTTI_ALLTOALLV: return c->ranks;
    default: return 1;
  }
}

/* Returns true if the collective cuts the buffer into one block per rank. */
static inline bool ref_is_cut(tutti_collective c, bool is_out) {
  return c == TUTTI_ALLTOALL || c == TUTTI_ALLTOALLV || ref_longer_of(c) == (is_out ? REF_OUT_LONGER : REF_IN_LONGER);
}

/* Returns where a block lies in the memory of the buffer or, if `wanted`, in its expected content. */
static inline unsigned char *ref_block(const struct ref_buffer *b, uint32_t block, bool wanted) {
  unsigned char *at = b->data + b->offsets[block] * b->item_bytes;
  if (!b->pointed) return wanted ? b->wanted + (at - b->memory) : at;
  at = b->addresses[block];
  if (!wanted || !at) return at; /* NULL: the block is empty */
  const size_t in_spare = (uintptr_t)at - (uintptr_t)b->spare.memory;
  return in_spare < b->spare.bytes ? b->spare.wanted + in_spare : b->wanted + ((uintptr_t)at - (uintptr_t)b->memory);
}

/* Places the blocks of a buffer, in a random order, in two memories. */
static inline void ref_buffer_point(struct ref_buffer *b, const struct ref_case *c, uint32_t rank, uint64_t side) {
  uint32_t order[REF_RANKS_MAX];
  size_t starts[REF_RANKS_MAX], bytes[2] = {REF_GUARD, REF_GUARD};
  for (uint32_t k = 0; k < b->blocks; k++) {
    const uint32_t other = (uint32_t)(ref_hash(c->seed, side + 5, rank, k) % (k + 1));
    order[k] = k;
    order[k] = order[other];
    order[other] = k;
  }
  for (uint32_t k = 0; k < b->blocks; k++) {
    const uint64_t random = ref_hash(c->seed, side + 6, rank, order[k]);
    size_t *end = &bytes[random >> 63];
    *end += random % 5 * b->item_bytes + (random >> 8 & 7 ? 0 : (random >> 16) % b->item_bytes);
    starts[order[k]] = *end;
    *end += b->counts[order[k]] * b->item_bytes;
  }
  b->bytes = bytes[0] + REF_GUARD;
  b->spare.bytes = bytes[1] + REF_GUARD;
  b->memory = ref_memory.acquire(b->bytes, ref_hash(c->seed, side + 7, rank, 0));
  b->spare.memory = ref_memory.acquire(b->spare.bytes, ref_hash(c->seed, side + 7, rank, 1));
  b->wanted = malloc(b->bytes);
  b->spare.wanted = malloc(b->spare.bytes);
  if (!b->memory || !b->spare.memory || !b->wanted || !b->spare.wanted) abort();
  b->data = b->memory + REF_GUARD;
  for (uint32_t k = 0; k < b->blocks; k++) {
    const uint64_t random = ref_hash(c->seed, side + 6, rank, k);
    b->addresses[k] = (random >> 63 ? b->spare.memory : b->memory) + starts[k];
    if (b->counts[k] == 0 && random & 1) b->addresses[k] = NULL;
  }
}

static inline void ref_buffer_init(struct ref_buffer *b, const struct ref_case *c, uint32_t rank, bool is_out) {
  b->blocks = ref_block_number(c, rank, is_out);
  bool shorter = ref_longer_of(c->collective) == (is_out ? REF_IN_LONGER : REF_OUT_LONGER);
  bool gaps = ref_vector(c->collective) && !shorter && c->blocks >= REF_ZEROS_GAPS;
  bool reversed = gaps && c->blocks == REF_UNEVEN_REVERSED;
  /* In place, send and receive blocks of alltoallv have the same displacements. */
  uint64_t side = is_out && !(c->collective == TUTTI_ALLTOALLV && c->aliasing != REF_APART) ? 2000 : 3000;
  size_t at = 0;
  for (uint32_t k = 0; k < b->blocks; k++) {
    uint32_t block = reversed ? b->blocks - 1 - k : k;
    if (gaps) at += ref_hash(c->seed, side, rank, block) % 5;
    b->offsets[block] = at;
    b->counts[block] = ref_block_count(c, rank, is_out, block);
    at += b->counts[block];
  }
  uint32_t bytes = b->item_bytes = ref_item_bytes(c->type);
  b->pointed = c->pointers && b->blocks == c->ranks && ref_is_cut(c->collective, is_out) &&
               ref_hash(c->seed, 5000 + is_out, rank, 9) % 4;
  if (b->pointed) {
    ref_buffer_point(b, c, rank, 6000u + 100u * is_out);
    return;
  }
  /* Data begins at any element, not always on a cache line; at times it is not even aligned to the element. */
  uint64_t random = ref_hash(c->seed, side, rank, 77);
  size_t shift = (size_t)(random % 3) * bytes + (random >> 61 == 0 ? (size_t)(random >> 32) % bytes : 0);
  b->bytes = 2 * REF_GUARD + shift + at * bytes;
  b->memory = ref_memory.acquire(b->bytes, ref_hash(c->seed, 4000 + is_out, rank, 5));
  b->wanted = malloc(b->bytes);
  if (!b->memory || !b->wanted) abort();
  b->data = b->memory + REF_GUARD + shift;
}

static inline void ref_fill(struct ref_run *r) {
  uint32_t bytes = ref_item_bytes(r->c.type);
  struct ref_buffer *both[] = {&r->in, &r->out};
  for (uint32_t k = 0; k < 2; k++) {
    for (size_t i = 0; both[k]->memory && i < both[k]->bytes; i++)
      both[k]->memory[i] = (unsigned char)(0xa5 ^ (i * 7) ^ k);
    for (size_t i = 0; both[k]->spare.memory && i < both[k]->spare.bytes; i++)
      both[k]->spare.memory[i] = (unsigned char)(0x5a ^ (i * 7) ^ k);
  }
  const bool in_own_block = r->in_place && ref_longer_of(r->c.collective) == REF_OUT_LONGER;
  for (uint32_t b = 0; b < r->in.blocks; b++) {
    unsigned char *base = ref_block(r->in_home, in_own_block ? r->rank : b, false);
    for (size_t i = 0; i < r->in.counts[b]; i++) ref_store(base + i * bytes, bytes, ref_input(&r->c, r->rank, b, i));
  }
}

static inline void ref_want(struct ref_run *r) {
  uint32_t bytes = ref_item_bytes(r->c.type);
  if (r->in.memory) memcpy(r->in.wanted, r->in.memory, r->in.bytes);
  if (r->out.memory) memcpy(r->out.wanted, r->out.memory, r->out.bytes);
  if (r->in.spare.memory) memcpy(r->in.spare.wanted, r->in.spare.memory, r->in.spare.bytes);
  if (r->out.spare.memory) memcpy(r->out.spare.wanted, r->out.spare.memory, r->out.spare.bytes);
  if (r->c.collective == TUTTI_EXSCAN && r->rank == 0) return;
  if (r->c.collective == TUTTI_BROADCAST && r->rank == r->c.root && !r->call.recv) return;
  for (uint32_t b = 0; b < r->out.blocks; b++) {
    unsigned char *base = ref_block(r->out_home, r->out_home == &r->in ? r->rank : b, true);
    for (size_t i = 0; i < r->out.counts[b]; i++) ref_store(base + i * bytes, bytes, ref_output(&r->c, r->rank, b, i));
  }
}

static inline void ref_describe(struct ref_run *r) {
  const struct ref_case *c = &r->c;
  tutti_call *call = &r->call;
  bool offsets = c->blocks >= REF_ZEROS_GAPS;
  if (!ref_vector(c->collective)) call->count = c->count;
  else if (c->collective == TUTTI_ALLTOALLV) {
    call->counts = r->in.counts;
    call->recv_counts = r->out.counts;
    const bool in_pointed = r->in_home->pointed;
    if (offsets && !in_pointed) call->offsets = r->in.offsets;
    if (offsets && !r->out.pointed) call->recv_offsets = r->out.offsets;
  } else {
    const struct ref_buffer *longer = ref_longer_of(c->collective) == REF_OUT_LONGER ? &r->out : &r->in;
    if (longer->blocks == c->ranks) {
      call->counts = longer->counts;
      if (offsets && !longer->pointed) call->offsets = longer->offsets;
    } else {
      call->count = c->collective == TUTTI_GATHERV ? r->in.counts[0] : r->out.counts[0];
    }
  }
  unsigned char *in = r->in.data, *out = r->out.data;
  if (r->in_place) {
    enum ref_longer longer = ref_longer_of(c->collective);
    bool in_longer = longer == REF_IN_LONGER;
    if (in_longer) out = ref_block(&r->in, r->rank, false);
    else in = longer == REF_OUT_LONGER ? ref_block(&r->out, r->rank, false) : out;
    if (c->aliasing == REF_MARKED) {
      if (in_longer) out = TUTTI_IN_PLACE;
      else in = TUTTI_IN_PLACE;
    }
  }
  /* A buffer that the call does not touch may be NULL or any pointer. */
  bool null = (c->seed >> 40) & 1;
  if (null && (r->in.blocks == 0 || (c->count == 0 && !r->in_place))) in = NULL;
  if (null && (r->out.blocks == 0 || (c->count == 0 && !r->in_place))) out = NULL;
  if (c->collective == TUTTI_BROADCAST && r->rank == c->root && c->aliasing == REF_APART && null) out = NULL;
  call->send = in;
  call->recv = out;
  if (r->out_home->pointed && ref_is_cut(c->collective, true)) call->recv = NULL, call->recv_blocks = r->out.addresses;
  if (!r->in_home->pointed || !ref_is_cut(c->collective, false) || in == TUTTI_IN_PLACE) return;
  call->send = NULL;
  call->send_blocks = (const void *const *)r->in_home->addresses;
}

static inline void ref_run_init(struct ref_run *r, const struct ref_case *c, uint32_t rank) {
  memset(r, 0, sizeof *r);
  r->c = *c;
  r->rank = rank;
  ref_buffer_init(&r->in, c, rank, false);
  ref_buffer_init(&r->out, c, rank, true);
  r->in_home = &r->in;
  r->out_home = &r->out;
  r->in_place = c->aliasing != REF_APART && (!ref_rooted(c->collective) || rank == c->root);
  if (r->in_place) {
    struct ref_buffer *spare = ref_longer_of(c->collective) == REF_IN_LONGER ? &r->out : &r->in;
    struct ref_buffer *home = spare == &r->in ? &r->out : &r->in;
    ref_memory.release(spare->memory);
    free(spare->wanted);
    ref_memory.release(spare->spare.memory);
    free(spare->spare.wanted);
    spare->memory = spare->wanted = spare->data = spare->spare.memory = spare->spare.wanted = NULL;
    spare->pointed = false;
    r->in_home = r->out_home = home;
  }
  r->call = (tutti_call){
      .collective = c->collective, .type = c->type, .root = c->root, .algorithm = c->algorithm, .lanes = c->lanes};
  if (ref_reduces(c->collective)) r->call.op = ref_op(c->op);
  if (c->op == TUTTI_PREMUL_SUM) r->call.scale = ref_scale(c, rank);
  ref_describe(r);
}

static inline void ref_run_fini(struct ref_run *r) {
  struct ref_buffer *both[] = {&r->in, &r->out};
  for (uint32_t k = 0; k < 2; k++) {
    ref_memory.release(both[k]->memory);
    free(both[k]->wanted);
    ref_memory.release(both[k]->spare.memory);
    free(both[k]->spare.wanted);
  }
}

static inline void ref_case_print(const struct ref_case *c, char *text, size_t text_bytes) {
  static const char *const aliasings[] = {"apart", "same pointer", "marked in place"};
  static const char *const blocks[] = {"equal", "uneven", "zeros and gaps", "uneven, reversed", "one, gaps"};
  snprintf(text, text_bytes, "%s.%s, %u ranks, %u lanes, count %zu, %s, %s, root %u, %s%s%s%s, seed 0x%llx",
           tutti_collective_name(c->collective), c->algorithm ? c->algorithm : "(default)", c->ranks, c->lanes,
           c->count, tutti_datatype_name(c->type), ref_reduces(c->collective) ? ref_op_name(c->op) : "no op", c->root,
           aliasings[c->aliasing], ref_vector(c->collective) ? ", blocks " : "",
           ref_vector(c->collective) ? blocks[c->blocks] : "", c->pointers ? ", addresses of blocks" : "",
           (unsigned long long)c->seed);
}

/* Compares all memory of the run with its expected content; at a difference, describes the first and returns false. */
static inline bool ref_agrees(const struct ref_run *r, char *text, size_t text_bytes) {
  const struct ref_buffer *both[] = {&r->in, &r->out};
  for (uint32_t k = 0; k < 2; k++) {
    const struct ref_buffer *b = both[k];
    if (b->spare.memory && memcmp(b->spare.memory, b->spare.wanted, b->spare.bytes) != 0) {
      int used = snprintf(text, text_bytes, "rank %u: %s buffer, second memory; ", r->rank, k ? "recv" : "send");
      ref_case_print(&r->c, text + used, text_bytes - (size_t)used);
      return false;
    }
    if (!b->memory || memcmp(b->memory, b->wanted, b->bytes) == 0) continue;
    size_t at = 0, differ = 0;
    while (b->memory[at] == b->wanted[at]) at++;
    for (size_t i = at; i < b->bytes; i++) differ += b->memory[i] != b->wanted[i];
    long long item = ((long long)at - (b->data - b->memory)) / (long long)ref_item_bytes(r->c.type);
    int used = snprintf(text, text_bytes,
                        "rank %u: %s buffer, item %lld (of %zu bytes in all %zu differ): %02x, wanted %02x; ", r->rank,
                        k ? "recv" : "send", item, b->bytes - 2 * REF_GUARD, differ, b->memory[at], b->wanted[at]);
    ref_case_print(&r->c, text + used, text_bytes - (size_t)used);
    return false;
  }
  return true;
}

#endif
