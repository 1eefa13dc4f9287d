/* kernels.c: arithmetic on arrays. A pair kernel combines two arrays of one type into a third; there is one for each
 * type and operation, made by a macro. More sources are folded block by block, so that the running result stays in the
 * first-level cache. The narrow floats have no pairs: blocks of them are widened to f32, folded there, rounded once.
 *
 * Equal bits everywhere. IEEE 754 leaves open which NaN comes out of NaN op NaN, and a compiler may swap operands in
 * a vector loop and not in its scalar rest. So every floating operation answers one NaN, the positive quiet one with no
 * payload; then the bits depend on operands and order only. A copy (one source) leaves NaNs as they are. */
#include "engine/kernels.h"

#include <math.h>
#include <string.h>

/* Iterations are independent (dst is a source or overlaps none), which the compiler cannot know: without this, the
 * commonest case, dst == srcs[0], would take the scalar loop. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* with a sanitizer, no loop becomes a vector loop */
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif
#define EACH(count) INDEPENDENT for (size_t i = 0; i < (count); i++)

#define INLINE static inline __attribute__((always_inline))

/* Every loop twice, for AVX2 and for any x86-64; the loader takes the one that the machine can run. It chooses before
 * the sanitizers are set up, so their builds have the plain loop only; that is also how it gets tested. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LOOP static __attribute__((target_clones("avx2", "default")))
#else
#define LOOP static
#endif

/* A running result of this size, a second operand beside it, and what is read and written all fit in 32 KiB. */
enum { BLOCK_BYTES = 4096, BLOCK_FLOATS = BLOCK_BYTES / sizeof(float) };

typedef void pair_kernel(void *dst, const void *left, const void *right, size_t count);
/* With one operand for all elements; handed over as a double, which holds every one that is allowed. */
typedef void map_kernel(void *dst, const void *src, size_t count, double operand);

struct type_kernels {
  pair_kernel *pair[TUTTI_OPS];                                /* NULL: the type has no such operation, or is narrow */
  map_kernel *scale, *divide;                                  /* divide: by a positive whole number */
  void (*widen)(float *values, const void *src, size_t count); /* narrow floats only */
  void (*narrow)(void *dst, const float *values, size_t count);
  double (*to_double)(const void *element);
  void (*from_double)(void *element, double number);
};

/* In all macros: T is the type of an element, may_alias because callers keep types of their own in these buffers (int
 * or int32_t, _Float16 or uint16_t). a, b are operands of type V. */
#define PAIR(name, T, V, expression)                                                               \
  LOOP void name(void *dst_bytes, const void *left_bytes, const void *right_bytes, size_t count) { \
    T *dst = dst_bytes;                                                                            \
    const T *left = left_bytes, *right = right_bytes;                                              \
    EACH(count) {                                                                                  \
      const V a = left[i], b = right[i];                                                           \
      dst[i] = (T)(expression);                                                                    \
    }                                                                                              \
  }
#define MAP(name, T, V, convert, expression)                                             \
  LOOP void name(void *dst_bytes, const void *src_bytes, size_t count, double operand) { \
    T *dst = dst_bytes;                                                                  \
    const T *src = src_bytes;                                                            \
    const V b = (V)convert(operand);                                                     \
    EACH(count) {                                                                        \
      const V a = src[i];                                                                \
      dst[i] = (T)(expression);                                                          \
    }                                                                                    \
  }
#define ELEMENT(name, T, load, store)                            \
  static double name##_to_double(const void *element) {          \
    const T *x = element;                                        \
    return (double)load(*x);                                     \
  }                                                              \
  static void name##_from_double(void *element, double number) { \
    T *x = element;                                              \
    *x = (T)store(number);                                       \
  }

/* ---- integers --------------------------------------------------------------------------------------------------- */

/* A double as an integer: to the nearest, then modulo 2^64; a narrower type takes the low bits of that. */
static uint64_t integer_from(double number) {
  if (!isfinite(number)) return 0;
  double whole = fmod(rint(number), 0x1p64);
  return whole < 0 ? 0 - (uint64_t)-whole : (uint64_t)whole;
}

#define SAME(x) (x)

/* The formatter takes a * b for a declaration. */
/* clang-format off */
/* Where sign does not show in the low bits, a signed type uses the unsigned kernel, which cannot overflow. V is at
 * least 32 bits wide: 16-bit operands would be promoted to int, and their product can overflow that. */
#define ANY_SIGN(bits, V)                                    \
  typedef uint##bits##_t u##bits __attribute__((may_alias)); \
  typedef int##bits##_t i##bits __attribute__((may_alias));  \
  PAIR(sum_##bits, u##bits, V, a + b)                        \
  PAIR(prod_##bits, u##bits, V, a * b)                       \
  PAIR(band_##bits, u##bits, u##bits, a & b)                 \
  PAIR(bor_##bits, u##bits, u##bits, a | b)                  \
  PAIR(bxor_##bits, u##bits, u##bits, a ^ b)                 \
  PAIR(land_##bits, u##bits, u##bits, (a != 0) & (b != 0))   \
  PAIR(lor_##bits, u##bits, u##bits, (a | b) != 0)           \
  PAIR(lxor_##bits, u##bits, u##bits, (a != 0) ^ (b != 0))   \
  MAP(scale_##bits, u##bits, V, integer_from, a * b)
ANY_SIGN(8, uint32_t)
ANY_SIGN(16, uint32_t)
ANY_SIGN(32, uint32_t)
ANY_SIGN(64, uint64_t)

/* clang-format on */
/* V holds every element and every divisor: C then divides toward zero. */
#define BY_SIGN(name, V)                      \
  PAIR(name##_min, name, name, a < b ? a : b) \
  PAIR(name##_max, name, name, a > b ? a : b) \
  MAP(name##_divide, name, V, SAME, a / b)    \
  ELEMENT(name, name, SAME, integer_from)
BY_SIGN(i8, int64_t)
BY_SIGN(u8, uint32_t)
BY_SIGN(i16, int64_t)
BY_SIGN(u16, uint32_t)
BY_SIGN(i32, int64_t)
BY_SIGN(u32, uint32_t)
BY_SIGN(i64, int64_t)
BY_SIGN(u64, uint64_t)

#define INTEGER_KERNELS(name, bits)                                                                                  \
  {                                                                                                                  \
    .pair = {[TUTTI_SUM] = sum_##bits, [TUTTI_PROD] = prod_##bits, [TUTTI_MIN] = name##_min,                         \
             [TUTTI_MAX] = name##_max, [TUTTI_AVG] = sum_##bits,   [TUTTI_BAND] = band_##bits,                       \
             [TUTTI_BOR] = bor_##bits, [TUTTI_BXOR] = bxor_##bits, [TUTTI_LAND] = land_##bits,                       \
             [TUTTI_LOR] = lor_##bits, [TUTTI_LXOR] = lxor_##bits, [TUTTI_PREMUL_SUM] = sum_##bits},                 \
    .scale = scale_##bits, .divide = name##_divide, .to_double = name##_to_double, .from_double = name##_from_double \
  }

/* ---- f32 and f64 ------------------------------------------------------------------------------------------------ */

typedef float f32 __attribute__((may_alias));
typedef double f64 __attribute__((may_alias));

INLINE uint32_t f32_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
INLINE float f32_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
INLINE uint64_t f64_bits(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
INLINE double f64_of_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
#define F32_NAN 0x7fc00000u
#define F64_NAN 0x7ff8000000000000u
INLINE float f32_one_nan(float x) { return f32_of_bits(x != x ? F32_NAN : f32_bits(x)); }
INLINE double f64_one_nan(double x) { return f64_of_bits(x != x ? F64_NAN : f64_bits(x)); }
INLINE float f32_nearest(double x) { return f32_one_nan((float)x); }

/* clang-format off */
/* In min and max, operands that compare equal differ at most as -0 and +0 do: "or" answers -0, "and" +0. */
#define FLOAT(name, NAN_BITS, nearest)                                     \
  PAIR(name##_sum, name, name, name##_one_nan(a + b))                      \
  PAIR(name##_prod, name, name, name##_one_nan(a * b))                     \
  PAIR(name##_min, name, name,                                             \
       name##_of_bits(a != a || b != b ? NAN_BITS                          \
                      : a < b          ? name##_bits(a)                    \
                      : b < a          ? name##_bits(b)                    \
                                       : name##_bits(a) | name##_bits(b))) \
  PAIR(name##_max, name, name,                                             \
       name##_of_bits(a != a || b != b ? NAN_BITS                          \
                      : a > b          ? name##_bits(a)                    \
                      : b > a          ? name##_bits(b)                    \
                                       : name##_bits(a) & name##_bits(b))) \
  MAP(name##_scale, name, name, SAME, name##_one_nan(a * b))               \
  MAP(name##_divide, name, name, SAME, name##_one_nan(a / b))              \
  ELEMENT(name, name, SAME, nearest)
FLOAT(f32, F32_NAN, f32_nearest)
FLOAT(f64, F64_NAN, f64_one_nan)
/* clang-format on */

#define FLOAT_KERNELS(name)                                                                                          \
  {                                                                                                                  \
    .pair = {[TUTTI_SUM] = name##_sum, [TUTTI_PROD] = name##_prod, [TUTTI_MIN] = name##_min,                         \
             [TUTTI_MAX] = name##_max, [TUTTI_AVG] = name##_sum,   [TUTTI_PREMUL_SUM] = name##_sum},                 \
    .scale = name##_scale, .divide = name##_divide, .to_double = name##_to_double, .from_double = name##_from_double \
  }

/* ---- f16, bf16 and f8 ------------------------------------------------------------------------------------------- */

/* A format of `mantissa` bits below exponents that are offset by `bias`; from `special` on come infinity and NaN. The
 * parameters are constants at every call, so that what is left is a straight line of selects, which vectorises.
 * Magnitudes are compared as int32_t: they have no sign bit, and not every instruction set compares unsigned lanes. */
INLINE float widen(uint32_t bits, uint32_t sign_bit, uint32_t mantissa, uint32_t bias, uint32_t special) {
  uint32_t u = bits & (sign_bit - 1), shifted = u << (23 - mantissa);
  uint32_t normal = shifted + ((127 - bias) << 23);
  /* Subnormals have no leading one: give it to them, at the exponent that they share, and take it away again. */
  uint32_t one = (128 - bias) << 23;
  uint32_t subnormal = f32_bits(f32_of_bits(shifted + one) - f32_of_bits(one));
  uint32_t finite = (int32_t)u < (int32_t)(1u << mantissa) ? subnormal : normal;
  uint32_t magnitude = (int32_t)u >= (int32_t)special ? shifted | 0x7f800000u : finite;
  return f32_of_bits(magnitude | (bits & sign_bit ? 0x80000000u : 0));
}

/* To nearest even. What rounds to more than `largest` becomes `overflow`. */
INLINE uint32_t narrow(float x, uint32_t sign_bit, uint32_t mantissa, uint32_t bias, uint32_t largest,
                       uint32_t overflow, uint32_t nan) {
  uint32_t bits = f32_bits(x), u = bits & 0x7fffffffu, shift = 23 - mantissa;
  uint32_t nearly_half = (1u << (shift - 1)) - 1;
  uint32_t normal = (u - ((127 - bias) << 23) + nearly_half + ((u >> shift) & 1)) >> shift;
  /* The last bit of this float is worth one smallest subnormal: adding it rounds there. */
  uint32_t ruler = (127 + 24 - bias - mantissa) << 23;
  uint32_t subnormal = f32_bits(f32_of_bits(u) + f32_of_bits(ruler)) - ruler;
  uint32_t rounded = (int32_t)u < (int32_t)((128 - bias) << 23) ? subnormal : normal;
  uint32_t magnitude = (int32_t)rounded > (int32_t)largest ? overflow : rounded;
  return (bits & 0x80000000u ? sign_bit : 0) | ((int32_t)u > 0x7f800000 ? nan : magnitude);
}

INLINE float f16_load(uint32_t x) { return widen(x, 0x8000, 10, 15, 0x7c00); }
INLINE uint32_t f16_store(float x) { return narrow(x, 0x8000, 10, 15, 0x7bff, 0x7c00, 0x7e00); }
INLINE float f8e5m2_load(uint32_t x) { return widen(x, 0x80, 2, 15, 0x7c); }
INLINE uint32_t f8e5m2_store(float x) { return narrow(x, 0x80, 2, 15, 0x7b, 0x7c, 0x7e); }
INLINE float f8e4m3_load(uint32_t x) { return widen(x, 0x80, 3, 7, 0x7f); }
INLINE uint32_t f8e4m3_store(float x) { return narrow(x, 0x80, 3, 7, 0x7e, 0x7f, 0x7f); }
INLINE float bf16_load(uint32_t x) { return f32_of_bits(x << 16); }
/* The one NaN comes through the addition as it should; another could turn into an infinity. */
INLINE uint32_t bf16_store(float x) {
  uint32_t bits = f32_bits(x);
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

/* A double for a type that rounds again: what f32 cannot hold is cut off and remembered in the last bit, so that a
 * number just beside the middle of two stored ones is not taken for the middle. */
static float f32_odd(double number) {
  float nearest = (float)number;
  if (isnan(number) || (double)nearest == number) return f32_one_nan(nearest);
  uint32_t bits = f32_bits(nearest) - (fabs((double)nearest) > fabs(number));
  return f32_of_bits(bits | 1);
}

#define NARROW_FLOAT(name, bits)                                                          \
  INLINE uint32_t name##_rounded(double number) { return name##_store(f32_odd(number)); } \
  ELEMENT(name, u##bits, name##_load, name##_rounded)                                     \
  LOOP void name##_widen(float *values, const void *src_bytes, size_t count) {            \
    const u##bits *src = src_bytes;                                                       \
    EACH(count) values[i] = name##_load(src[i]);                                          \
  }                                                                                       \
  LOOP void name##_narrow(void *dst_bytes, const float *values, size_t count) {           \
    u##bits *dst = dst_bytes;                                                             \
    EACH(count) dst[i] = (u##bits)name##_store(values[i]);                                \
  }
NARROW_FLOAT(f16, 16)
NARROW_FLOAT(bf16, 16)
NARROW_FLOAT(f8e4m3, 8)
NARROW_FLOAT(f8e5m2, 8)

#define NARROW_KERNELS(name) \
  { .widen = name##_widen, .narrow = name##_narrow, .to_double = name##_to_double, .from_double = name##_from_double }

/* ---- the table and its users ------------------------------------------------------------------------------------ */

static const struct type_kernels kernels[TUTTI_DATATYPES] = {
    [TUTTI_I8] = INTEGER_KERNELS(i8, 8),     [TUTTI_U8] = INTEGER_KERNELS(u8, 8),
    [TUTTI_I16] = INTEGER_KERNELS(i16, 16),  [TUTTI_U16] = INTEGER_KERNELS(u16, 16),
    [TUTTI_I32] = INTEGER_KERNELS(i32, 32),  [TUTTI_U32] = INTEGER_KERNELS(u32, 32),
    [TUTTI_I64] = INTEGER_KERNELS(i64, 64),  [TUTTI_U64] = INTEGER_KERNELS(u64, 64),
    [TUTTI_F16] = NARROW_KERNELS(f16),       [TUTTI_BF16] = NARROW_KERNELS(bf16),
    [TUTTI_F32] = FLOAT_KERNELS(f32),        [TUTTI_F64] = FLOAT_KERNELS(f64),
    [TUTTI_F8E4M3] = NARROW_KERNELS(f8e4m3), [TUTTI_F8E5M2] = NARROW_KERNELS(f8e5m2),
};

static bool divides(const struct tu_arithmetic *a, bool final) { return final && !a->user && a->op == TUTTI_AVG; }

static void combine(const struct tu_arithmetic *a, void *dst, const void *left, const void *right, size_t count) {
  if (a->user) {
    a->user->function(dst, left, right, count, a->type, a->user->context);
    return;
  }
  pair_kernel *pair = kernels[a->type].pair[a->op];
  tu_assert(pair);
  pair(dst, left, right, count);
}

/* The running result may be either operand's array. So it can live in dst from the last source on that is dst; before
 * that, writing dst would spoil that source, and it lives on the stack. */
static void fold(const struct tu_arithmetic *a, char *dst, const void *const srcs[], uint32_t source_count,
                 size_t count, bool final) {
  uint32_t into_dst = 1;
  for (uint32_t s = 2; s < source_count; s++)
    if (srcs[s] == dst) into_dst = s;
  _Alignas(TU_LINE_BYTES) char stack[BLOCK_BYTES];
  size_t item_bytes = tu_datatypes[a->type].bytes, block = sizeof stack / item_bytes;
  /* A user's call can cost anything: not cut where that can be helped. */
  if (a->user && into_dst == 1) block = count;
  for (size_t at = 0; at < count; at += block) {
    size_t length = tu_min(block, count - at), offset = at * item_bytes;
    const void *left = (const char *)srcs[0] + offset;
    for (uint32_t s = 1; s < source_count; s++) {
      void *result = s < into_dst ? stack : dst + offset;
      combine(a, result, left, (const char *)srcs[s] + offset, length);
      left = result;
    }
    if (divides(a, final)) kernels[a->type].divide(dst + offset, left, length, a->divisor);
  }
}

/* dst is written when all sources' parts of the block have been read: it may be any of them. */
static void fold_narrow(const struct tu_arithmetic *a, char *dst, const void *const srcs[], uint32_t source_count,
                        size_t count, bool final) {
  const struct type_kernels *narrow_type = &kernels[a->type], *f32_type = &kernels[TUTTI_F32];
  pair_kernel *pair = f32_type->pair[a->op];
  tu_assert(pair);
  float values[BLOCK_FLOATS], operands[BLOCK_FLOATS];
  size_t item_bytes = tu_datatypes[a->type].bytes;
  for (size_t at = 0; at < count; at += BLOCK_FLOATS) {
    size_t length = tu_min(BLOCK_FLOATS, count - at), offset = at * item_bytes;
    narrow_type->widen(values, (const char *)srcs[0] + offset, length);
    for (uint32_t s = 1; s < source_count; s++) {
      narrow_type->widen(operands, (const char *)srcs[s] + offset, length);
      pair(values, values, operands, length);
    }
    if (divides(a, final)) f32_type->divide(values, values, length, a->divisor);
    narrow_type->narrow(dst + offset, values, length);
  }
}

void tu_reduce(const struct tu_arithmetic *a, void *dst, const void *const srcs[], uint32_t source_count, size_t count,
               bool final) {
  tu_assert(source_count > 0 && (a->divisor > 0 || !divides(a, final)));
  if (count == 0) return;
  bool is_narrow = kernels[a->type].widen && !a->user;
  if (source_count == 1 && !divides(a, final)) {
    if (dst != srcs[0]) memcpy(dst, srcs[0], count * tu_datatypes[a->type].bytes);
  } else if (is_narrow) {
    fold_narrow(a, dst, srcs, source_count, count, final);
  } else if (source_count == 2 && !divides(a, final)) {
    combine(a, dst, srcs[0], srcs[1], count);
  } else {
    fold(a, dst, srcs, source_count, count, final);
  }
}

void tu_scale(const struct tu_arithmetic *a, void *dst, const void *src, size_t count) {
  const struct type_kernels *k = &kernels[a->type];
  if (!k->widen) {
    k->scale(dst, src, count, a->scale);
    return;
  }
  float values[BLOCK_FLOATS];
  size_t item_bytes = tu_datatypes[a->type].bytes;
  for (size_t at = 0; at < count; at += BLOCK_FLOATS) {
    size_t length = tu_min(BLOCK_FLOATS, count - at), offset = at * item_bytes;
    k->widen(values, (const char *)src + offset, length);
    kernels[TUTTI_F32].scale(values, values, length, a->scale);
    k->narrow((char *)dst + offset, values, length);
  }
}

/* ---- what there is ---------------------------------------------------------------------------------------------- */

/* A whole number in the range of an integer type; any number for the others. */
static bool scale_fits(tutti_datatype type, double scale) {
  const struct tu_datatype *t = &tu_datatypes[type];
  if (t->floating) return true;
  int bits = 8 * t->bytes;
  double least = t->is_signed ? -ldexp(1, bits - 1) : 0, beyond = ldexp(1, t->is_signed ? bits - 1 : bits);
  return scale >= least && scale < beyond && scale == trunc(scale);
}

tutti_err tu_arithmetic_check(const struct tu_arithmetic *a, struct tu_error *error) {
  if ((uint32_t)a->type >= TUTTI_DATATYPES)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "data type %u is unknown; expected a tutti_datatype, 0 to %u",
                   (unsigned)a->type, TUTTI_DATATYPES - 1u);
  const char *type = tu_datatypes[a->type].name;
  if (a->user) {
    if (a->user->function) return TUTTI_OK;
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "operation '%.63s' has no function; give tutti_op_create one",
                   a->user->name);
  }
  if (a->op >= TUTTI_OPS)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "operation %u is unknown; expected a built-in one, 0 to %u, or what tutti_op_create gave", a->op,
                   TUTTI_OPS - 1u);
  if (tu_operations[a->op].integers_only && tu_datatypes[a->type].floating)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "operation %s takes integers only, and the data type is %s",
                   tu_operations[a->op].name, type);
  if (a->op == TUTTI_PREMUL_SUM && !scale_fits(a->type, a->scale))
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "premul_sum over %s needs a whole number of that type as scale, got %g",
                   type, a->scale);
  return TUTTI_OK;
}

double tu_to_double(tutti_datatype type, const void *element) { return kernels[type].to_double(element); }

void tu_from_double(tutti_datatype type, void *element, double value) { kernels[type].from_double(element, value); }
