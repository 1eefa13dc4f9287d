/* kernels_reference.h: a slow reference for the tests of the kernels, which shares no code with them. It computes
 * integers with 128 bits, finds narrow floats in the list of their values, uses the definition of block floats, and
 * rounds f32 from double. */
#ifndef KERNELS_REFERENCE_H
#define KERNELS_REFERENCE_H

#include <math.h>

#include "engine/kernels.h"
#include "test.h"

__extension__ typedef __int128 wide; /* holds every integer type, and their sums and products wrapped to 64 bits */

enum { ITEM_MAX = 17, GROUP = 16 };

/* ---- the reference: values of a format --------------------------------------------------------------------------- */

struct narrow {
  int bits, mantissa, bias;
  bool infinite; /* true: the top exponent is infinity and NaN; false: only the last code of the top exponent is NaN */
};

static inline bool narrow_of(tutti_datatype type, struct narrow *narrow) {
  switch (type) {
    case TUTTI_F16: *narrow = (struct narrow){16, 10, 15, true}; return true;
    case TUTTI_BF16: *narrow = (struct narrow){16, 7, 127, true}; return true;
    case TUTTI_F8E5M2: *narrow = (struct narrow){8, 2, 15, true}; return true;
    case TUTTI_F8E4M3: *narrow = (struct narrow){8, 3, 7, false}; return true;
    default: return false;
  }
}

/* Returns one more than the largest code (without sign bit) of a finite value. */
static inline uint32_t codes_end(const struct narrow *n) {
  return n->infinite ? ((1u << (n->bits - 1)) - (1u << n->mantissa)) : (1u << (n->bits - 1)) - 1;
}

/* Returns the value of a code. For codes from codes_end() on, continues the sequence of the finite codes. */
static inline double code_value(const struct narrow *n, uint32_t code) {
  uint32_t exponent = code >> n->mantissa, fraction = code & ((1u << n->mantissa) - 1);
  if (exponent == 0) return ldexp(fraction, 1 - n->bias - n->mantissa);
  return ldexp(fraction + (1u << n->mantissa), (int)exponent - n->bias - n->mantissa);
}

static inline double narrow_decode(const struct narrow *n, uint32_t bits) {
  uint32_t code = bits & ((1u << (n->bits - 1)) - 1), end = codes_end(n);
  double magnitude = code < end ? code_value(n, code) : code == end && n->infinite ? INFINITY : NAN;
  return bits >> (n->bits - 1) ? -magnitude : magnitude;
}

/* Returns the values of all finite codes of a format. Keeps the table of the last format, because computing it takes
 * most of the time. */
static inline const double *code_values(const struct narrow *n) {
  static _Thread_local double values[1 << 15];
  static _Thread_local struct narrow known;
  if (known.bits != n->bits || known.mantissa != n->mantissa) {
    for (uint32_t code = 0; code <= codes_end(n); code++) values[code] = code_value(n, code);
    known = *n;
  }
  return values;
}

static inline uint32_t narrow_encode(const struct narrow *n, double value) {
  uint32_t end = codes_end(n), sign = signbit(value) ? 1u << (n->bits - 1) : 0;
  uint32_t nan = n->infinite ? end | (1u << (n->mantissa - 1)) : end;
  if (isnan(value)) return nan;
  const double *values = code_values(n);
  double magnitude = fabs(value);
  if (magnitude >= values[end]) return sign | end;
  uint32_t low = 0, high = end; /* invariant: values[low] <= magnitude < values[high] */
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    if (values[middle] <= magnitude) low = middle;
    else high = middle;
  }
  double below = magnitude - values[low], above = values[high] - magnitude;
  bool up = below > above || (below == above && (low & 1));
  return sign | (up ? high : low);
}

/* ---- block floats: an item is an exponent, then signs and magnitudes */

static inline bool is_grouped(tutti_datatype type) { return type == TUTTI_BFP8 || type == TUTTI_BFP4; }
static inline int group_bits(tutti_datatype type) { return type == TUTTI_BFP8 ? 7 : 3; }

static inline double group_read(tutti_datatype type, const void *item, size_t i) {
  const uint8_t *bytes = item;
  int bits = group_bits(type), exponent = bytes[0];
  uint32_t code = bits == 7 ? bytes[1 + i] : ((uint32_t)bytes[1 + i / 2] >> (i % 2 ? 4 : 0)) & 15u,
           most = (1u << bits) - 1;
  double value = ldexp(code & most, exponent - 126 - bits);
  if (exponent == 255 && (code & most) == most) return NAN;
  if (value >= 0x1p128) value = INFINITY;
  return code > most ? -value : value;
}

static inline void group_write(tutti_datatype type, void *item, const double values[GROUP]) {
  uint8_t *bytes = item;
  int bits = group_bits(type), most = (1 << bits) - 1, exponent = 0, any = 0;
  for (int i = 0; i < GROUP; i++) {
    int e = 1;
    if (!isfinite(values[i])) e = 255;
    else if (fabs(values[i]) >= 0x1p-126) e = ilogb(values[i]) + 127;
    if (e > exponent) exponent = e;
  }
  memset(bytes, 0, tu_datatypes[type].bytes);
  for (int i = 0; i < GROUP; i++) {
    double digits = nearbyint(ldexp(fabs(values[i]), 126 + bits - exponent));
    int magnitude = isnan(values[i]) ? most : isinf(values[i]) ? 1 << (bits - 1) : digits > most ? most : (int)digits;
    int code = magnitude | (magnitude > 0 && !isnan(values[i]) && signbit(values[i]) ? 1 << bits : 0);
    any |= code;
    if (bits == 7) bytes[1 + i] = (uint8_t)code;
    else bytes[1 + i / 2] |= (uint8_t)(code << (i % 2 ? 4 : 0));
  }
  bytes[0] = any ? (uint8_t)exponent : 0;
}

/* Returns the bits of an element at any address. */
static inline uint64_t bits_of(tutti_datatype type, const void *element) {
  uint64_t bits = 0;
  memcpy(&bits, element, tu_datatypes[type].bytes); /* little-endian, like every machine tested so far */
  return bits;
}

static inline wide integer_read(tutti_datatype type, const void *element) {
  uint64_t bits = bits_of(type, element);
  switch (type) {
    case TUTTI_I8: return (int8_t)bits;
    case TUTTI_I16: return (int16_t)bits;
    case TUTTI_I32: return (int32_t)bits;
    case TUTTI_I64: return (int64_t)bits;
    default: return bits;
  }
}

/* Wraps a number modulo 2^bits into the range of the type. */
static inline wide integer_wrap(tutti_datatype type, wide x) {
  int bits = 8 * tu_datatypes[type].bytes;
  wide modulus = (wide)1 << bits;
  wide wrapped = ((x % modulus) + modulus) % modulus;
  return tu_datatypes[type].is_signed && wrapped >= modulus / 2 ? wrapped - modulus : wrapped;
}

static inline void integer_write(tutti_datatype type, void *element, wide x) {
  uint64_t bits = (uint64_t)x;
  memcpy(element, &bits, tu_datatypes[type].bytes);
}

/* ---- the reference: one step of an operation -------------------------------------------------------------------- */

static inline wide integer_step(tutti_op op, wide a, wide b) {
  switch (op) {
    case TUTTI_PROD: return (wide)((uint64_t)a * (uint64_t)b);
    case TUTTI_MIN: return b < a ? b : a;
    case TUTTI_MAX: return b > a ? b : a;
    case TUTTI_BAND: return a & b;
    case TUTTI_BOR: return a | b;
    case TUTTI_BXOR: return a ^ b;
    case TUTTI_LAND: return a && b;
    case TUTTI_LOR: return a || b;
    case TUTTI_LXOR: return !a != !b;
    default: return a + b;
  }
}

/* Returns the operation of integers that a bool's operation is. */
static inline tutti_op logical_op(tutti_op op) {
  switch (op) {
    case TUTTI_MIN:
    case TUTTI_PROD:
    case TUTTI_BAND: return TUTTI_LAND;
    case TUTTI_MAX:
    case TUTTI_SUM:
    case TUTTI_BOR: return TUTTI_LOR;
    case TUTTI_BXOR: return TUTTI_LXOR;
    default: return op;
  }
}

/* Returns true if the type has the operation. */
static inline bool combines(tutti_datatype type, tutti_op op) {
  if (type == TUTTI_BOOL) return op != TUTTI_AVG && op != TUTTI_PREMUL_SUM;
  return !(tu_datatypes[type].floating && tu_operations[op].integers_only);
}

/* double has more than twice the bits of float. So rounding the double result of an operation on floats to float has
 * the same result as rounding the exact result once. */
static inline double float_round(tutti_datatype type, double x) { return type == TUTTI_F64 ? x : (double)(float)x; }

static inline double float_step(tutti_op op, double a, double b) {
  if (isnan(a) || isnan(b)) return NAN;
  bool smaller = a < b || (a == b && signbit(a) > signbit(b));
  switch (op) {
    case TUTTI_PROD: return a * b;
    case TUTTI_MIN: return smaller ? a : b;
    case TUTTI_MAX: return smaller ? b : a;
    default: return a + b;
  }
}

static inline double float_read(tutti_datatype type, const void *element) {
  struct narrow narrow;
  if (narrow_of(type, &narrow)) return narrow_decode(&narrow, (uint32_t)bits_of(type, element));
  float single;
  double number;
  if (type == TUTTI_F64) return memcpy(&number, element, sizeof number), number;
  return memcpy(&single, element, sizeof single), single;
}

static inline void float_write(tutti_datatype type, void *element, double x) {
  struct narrow narrow;
  if (narrow_of(type, &narrow)) {
    uint32_t bits = narrow_encode(&narrow, x);
    memcpy(element, &bits, tu_datatypes[type].bytes);
  } else if (type == TUTTI_F32) {
    uint32_t nan = 0x7fc00000;
    float value = (float)x;
    memcpy(element, isnan(x) ? (void *)&nan : (void *)&value, sizeof value);
  } else {
    uint64_t nan = 0x7ff8000000000000;
    memcpy(element, isnan(x) ? (void *)&nan : (void *)&x, sizeof x);
  }
}

static inline void group_reference(const struct tu_arithmetic *a, char *dst, const void *const srcs[],
                                   uint32_t source_count, size_t at, bool divide) {
  double x[GROUP];
  for (size_t i = 0; i < GROUP; i++) {
    x[i] = group_read(a->type, (const char *)srcs[0] + at, i);
    for (uint32_t s = 1; s < source_count; s++)
      x[i] = float_round(a->type, float_step(a->op, x[i], group_read(a->type, (const char *)srcs[s] + at, i)));
    if (divide) x[i] = float_round(a->type, x[i] / a->divisor);
  }
  group_write(a->type, dst + at, x);
}

static inline void reference(const struct tu_arithmetic *a, char *dst, const void *const srcs[], uint32_t source_count,
                             size_t count, bool final) {
  size_t bytes = tu_datatypes[a->type].bytes;
  bool divide = final && a->op == TUTTI_AVG;
  const tutti_op op = a->type == TUTTI_BOOL ? logical_op(a->op) : a->op;
  for (size_t i = 0; i < count; i++) {
    const char *first = (const char *)srcs[0] + i * bytes;
    if (source_count == 1 && !divide) {
      memcpy(dst + i * bytes, first, bytes);
    } else if (is_grouped(a->type)) {
      group_reference(a, dst, srcs, source_count, i * bytes, divide);
    } else if (tu_datatypes[a->type].floating) {
      double x = float_read(a->type, first);
      for (uint32_t s = 1; s < source_count; s++)
        x = float_round(a->type, float_step(a->op, x, float_read(a->type, (const char *)srcs[s] + i * bytes)));
      float_write(a->type, dst + i * bytes, divide ? float_round(a->type, x / a->divisor) : x);
    } else {
      wide x = integer_read(a->type, first);
      for (uint32_t s = 1; s < source_count; s++)
        x = integer_wrap(a->type, integer_step(op, x, integer_read(a->type, (const char *)srcs[s] + i * bytes)));
      integer_write(a->type, dst + i * bytes, divide ? x / (wide)a->divisor : x);
    }
  }
}

/* ---- random numbers ---- */

static uint64_t seed;
static inline uint32_t below(uint32_t n) { return (uint32_t)(tu_random(&seed) % n); }

#endif
