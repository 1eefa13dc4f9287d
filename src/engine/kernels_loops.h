/* kernels_loops.h: all loops over elements, in C that compilers vectorise. Where the compiler may use F16C, conversions
 * use it (kernels_f16c.h). A file for one instruction set defines KERNEL_SET, the name of the struct that it exports,
 * and KERNEL_SET_NAME, and includes this file.
 *
 * Results have equal bits everywhere. IEEE 754 does not define which NaN results from NaN op NaN, and a compiler may
 * swap operands in a vector loop but not in its scalar rest. So every float operation returns the same NaN, the
 * positive quiet one without payload. Then the bits depend on operands and their order only. */
#ifndef TU_KERNELS_LOOPS_H
#define TU_KERNELS_LOOPS_H

#include <math.h>

#include "engine/kernels_narrow.h"
#include "engine/kernels_set.h"

/* INDEPENDENT tells the compiler that iterations are independent: dst is one of the sources, or overlaps none of them.
 * Without it, the commonest case, dst == srcs[0], would use the scalar loop. KEPT_A_LOOP is for loops over the elements
 * of one cache line. It also keeps the compiler from unrolling them before it vectorises. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* with a sanitizer no loop is vectorised */
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define KEPT_A_LOOP _Pragma("clang loop unroll(disable) vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#define KEPT_A_LOOP _Pragma("GCC unroll 1") _Pragma("GCC ivdep")
#endif
#define EACH(count) INDEPENDENT for (size_t i = 0; i < (count); i++)

/* In all macros, T is the type of the elements in memory, and V the type in which an expression of the operands a and b
 * is computed. The attribute may_alias is needed because callers use other types for these buffers (int or int32_t,
 * _Float16 or uint16_t). aligned(1): a caller's vector may begin at any byte. */
#define ELEMENT_OF_ARRAY __attribute__((may_alias, aligned(1)))
#define PAIR(name, T, V, expression)                                                                 \
  static void name(void *dst_bytes, const void *left_bytes, const void *right_bytes, size_t count) { \
    T *dst = dst_bytes;                                                                              \
    const T *left = left_bytes, *right = right_bytes;                                                \
    EACH(count) {                                                                                    \
      const V a = left[i], b = right[i];                                                             \
      dst[i] = (T)(expression);                                                                      \
    }                                                                                                \
  }
#define MAP(name, T, V, convert, expression)                                               \
  static void name(void *dst_bytes, const void *src_bytes, size_t count, double operand) { \
    T *dst = dst_bytes;                                                                    \
    const T *src = src_bytes;                                                              \
    const V b = (V)convert(operand);                                                       \
    EACH(count) {                                                                          \
      const V a = (V)src[i];                                                               \
      dst[i] = (T)(expression);                                                            \
    }                                                                                      \
  }
#define SAME(x) (x)

/* Copies one cache line with non-temporal stores. Loads and stores must alternate line by line, because otherwise
 * memory idles in between. A line fits in registers with every instruction set. `from` needs no alignment, `to` is the
 * start of a cache line. */
#if defined(__AVX512F__)
#include <immintrin.h>
TU_INLINE void stream_line(char *to, const void *from) { _mm512_stream_si512((void *)to, _mm512_loadu_si512(from)); }
#define STREAMS 1
#elif defined(__AVX__)
#include <immintrin.h>
TU_INLINE void stream_line(char *to, const void *from) {
  __m256i low = _mm256_loadu_si256(from), high = _mm256_loadu_si256((const __m256i_u *)from + 1);
  _mm256_stream_si256((void *)to, low);
  _mm256_stream_si256((void *)(to + 32), high);
}
#define STREAMS 1
#elif defined(__SSE2__)
#include <emmintrin.h>
TU_INLINE void stream_line(char *to, const void *from) {
  const __m128i_u *at = from;
  __m128i a = _mm_loadu_si128(at), b = _mm_loadu_si128(at + 1), c = _mm_loadu_si128(at + 2),
          d = _mm_loadu_si128(at + 3);
  _mm_stream_si128((void *)to, a);
  _mm_stream_si128((void *)(to + 16), b);
  _mm_stream_si128((void *)(to + 32), c);
  _mm_stream_si128((void *)(to + 48), d);
}
#define STREAMS 1
#else
#define STREAMS 0
#endif

/* Copies whole cache lines in a loop, without memcpy. On some processors memcpy uses a string instruction from a few
 * KiB on. If another core has the target's lines in its cache, that instruction takes 0.3 us longer than this loop. */
typedef unsigned char line_of_bytes __attribute__((vector_size(TU_LINE_BYTES), aligned(1), may_alias));
static void copy_lines(void *dst, const void *src, size_t bytes) {
  unsigned char *to = dst;
  const unsigned char *from = src;
  for (size_t at = 0; at < bytes; at += TU_LINE_BYTES) {
    *(line_of_bytes *)(to + at) = *(const line_of_bytes *)(from + at);
    __asm__ volatile("" : : : "memory"); /* keeps the loop from becoming a memcpy */
  }
}

#if STREAMS
static void stream_copy(void *const dsts[], uint32_t dst_count, const void *src, size_t bytes) {
  for (size_t at = 0; at < bytes; at += TU_LINE_BYTES)
    for (uint32_t d = 0; d < dst_count; d++) stream_line((char *)dsts[d] + at, (const char *)src + at);
}

#define STREAM_SUM(kind, T, V, expression)                                                      \
  static void stream_sum_##kind(void *const dsts[], uint32_t dst_count, const void *left_bytes, \
                                const void *right_bytes, size_t bytes) {                        \
    enum { ITEMS_OF_LINE = TU_LINE_BYTES / sizeof(T) };                                         \
    const T *left = left_bytes, *right = right_bytes;                                           \
    for (size_t at = 0; at < bytes; at += TU_LINE_BYTES) {                                      \
      _Alignas(TU_LINE_BYTES) T line[ITEMS_OF_LINE];                                            \
      KEPT_A_LOOP for (size_t i = 0; i < ITEMS_OF_LINE; i++) {                                  \
        const V a = left[i], b = right[i];                                                      \
        line[i] = (T)(expression);                                                              \
      }                                                                                         \
      for (uint32_t d = 0; d < dst_count; d++) stream_line((char *)dsts[d] + at, line);         \
      left += ITEMS_OF_LINE;                                                                    \
      right += ITEMS_OF_LINE;                                                                   \
    }                                                                                           \
  }
#define STREAM_OF(kind) stream_sum_##kind
#else
#define STREAM_SUM(kind, T, V, expression)
#define STREAM_OF(kind) NULL
#endif

/* ---- integers --------------------------------------------------------------------------------------------------- */

/* clang-format would take a * b for a declaration. */
/* clang-format off */
/* Kernels for signed and unsigned types, for operations where the low bits of the result do not depend on the sign. V
 * is the type of the computation. It is unsigned, so it cannot overflow, and has at least 32 bits, because 16-bit
 * operands would be promoted to int, and their product can overflow an int. */
#define ANY_SIGN(bits, V)                                    \
  typedef uint##bits##_t u##bits ELEMENT_OF_ARRAY; \
  typedef int##bits##_t i##bits ELEMENT_OF_ARRAY;  \
  PAIR(sum_##bits, u##bits, V, a + b)                        \
  PAIR(prod_##bits, u##bits, V, a * b)                       \
  PAIR(band_##bits, u##bits, u##bits, a & b)                 \
  PAIR(bor_##bits, u##bits, u##bits, a | b)                  \
  PAIR(bxor_##bits, u##bits, u##bits, a ^ b)                 \
  PAIR(land_##bits, u##bits, u##bits, (a != 0) & (b != 0))   \
  PAIR(lor_##bits, u##bits, u##bits, (a | b) != 0)           \
  PAIR(lxor_##bits, u##bits, u##bits, (a != 0) ^ (b != 0))   \
  MAP(scale_##bits, u##bits, V, tu_integer_from, a * b)
ANY_SIGN(8, uint32_t)
ANY_SIGN(16, uint32_t)
ANY_SIGN(32, uint32_t)
ANY_SIGN(64, uint64_t)
STREAM_SUM(8, u8, uint32_t, a + b)
STREAM_SUM(16, u16, uint32_t, a + b)
STREAM_SUM(32, u32, u32, a + b)
STREAM_SUM(64, u64, u64, a + b)

/* A bool is a byte, so its operations are the logical ones of bytes. */
STREAM_SUM(logic, u8, u8, (a | b) != 0)

/* clang-format on */
/* min, max and division of integers. V: type in which the division is computed; W: integer type of the quotient.
 * Division rounds toward zero, as in C.
 *
 * Up to 32 bits, V is a float type, because few instruction sets divide vectors of integers. The result is right all
 * the same. A quotient of operands of p bits that is not whole is at least 1/divisor away from the next whole number. A
 * float of more than p bits does not round it up to that number. A divisor that the float cannot hold exactly is larger
 * than all operands, so the quotient is 0. */
#define BY_SIGN(name, V, W)                   \
  PAIR(min_##name, name, name, a < b ? a : b) \
  PAIR(max_##name, name, name, a > b ? a : b) \
  MAP(divide_##name, name, V, SAME, (W)(a / b))
BY_SIGN(i8, float, int32_t)
BY_SIGN(u8, float, int32_t)
BY_SIGN(i16, float, int32_t)
BY_SIGN(u16, float, int32_t)
BY_SIGN(i32, double, int32_t)
BY_SIGN(u32, double, uint32_t)
BY_SIGN(i64, int64_t, int64_t)
BY_SIGN(u64, uint64_t, uint64_t)

#define INTEGER_KERNELS(name, bits)                                                                  \
  {                                                                                                  \
    .pair = {[TUTTI_SUM] = sum_##bits, [TUTTI_PROD] = prod_##bits, [TUTTI_MIN] = min_##name,         \
             [TUTTI_MAX] = max_##name, [TUTTI_AVG] = sum_##bits,   [TUTTI_BAND] = band_##bits,       \
             [TUTTI_BOR] = bor_##bits, [TUTTI_BXOR] = bxor_##bits, [TUTTI_LAND] = land_##bits,       \
             [TUTTI_LOR] = lor_##bits, [TUTTI_LXOR] = lxor_##bits, [TUTTI_PREMUL_SUM] = sum_##bits}, \
    .stream_sum = STREAM_OF(bits), .scale = scale_##bits, .divide = divide_##name                    \
  }

#define BOOL_KERNELS                                                                                     \
  {                                                                                                      \
    .pair = {[TUTTI_SUM] = lor_8,   [TUTTI_PROD] = land_8, [TUTTI_MIN] = land_8,  [TUTTI_MAX] = lor_8,   \
             [TUTTI_BAND] = land_8, [TUTTI_BOR] = lor_8,   [TUTTI_BXOR] = lxor_8, [TUTTI_LAND] = land_8, \
             [TUTTI_LOR] = lor_8,   [TUTTI_LXOR] = lxor_8},                                              \
    .stream_sum = STREAM_OF(logic)                                                                       \
  }

/* ---- f32 and f64 ------------------------------------------------------------------------------------------------ */

typedef float f32 ELEMENT_OF_ARRAY;
typedef double f64 ELEMENT_OF_ARRAY;

/* clang-format off */
/* min and max: operands that compare equal differ only if they are -0 and +0. In that case "or" of their bits gives -0,
 * and "and" gives +0. The comparison and the choice are one instruction. */
#define FLOAT_OPERATIONS(name, BITS, NAN_BITS)                                               \
  TU_INLINE name name##_sum(name a, name b) { return name##_one_nan(a + b); }                \
  TU_INLINE name name##_prod(name a, name b) { return name##_one_nan(a * b); }               \
  TU_INLINE name name##_min(name a, name b) {                                                \
    BITS least = name##_bits(a < b ? a : b) | (a == b ? name##_bits(a) : 0);                 \
    return name##_of_bits(__builtin_isunordered(a, b) ? NAN_BITS : least);                   \
  }                                                                                          \
  TU_INLINE name name##_max(name a, name b) {                                                \
    BITS most = name##_bits(a > b ? a : b) & (a == b ? name##_bits(a) : ~(BITS)0);           \
    return name##_of_bits(__builtin_isunordered(a, b) ? NAN_BITS : most);                    \
  }
FLOAT_OPERATIONS(f32, uint32_t, F32_NAN)
FLOAT_OPERATIONS(f64, uint64_t, F64_NAN)

#define FLOAT(name)                                                \
  PAIR(sum_##name, name, name, name##_sum(a, b))                   \
  PAIR(prod_##name, name, name, name##_prod(a, b))                 \
  PAIR(min_##name, name, name, name##_min(a, b))                   \
  PAIR(max_##name, name, name, name##_max(a, b))                   \
  MAP(scale_##name, name, name, SAME, name##_prod(a, b))           \
  MAP(divide_##name, name, name, SAME, name##_one_nan(a / b))
FLOAT(f32)
FLOAT(f64)
STREAM_SUM(f32, f32, f32, f32_sum(a, b))
STREAM_SUM(f64, f64, f64, f64_sum(a, b))
/* clang-format on */

#define FLOAT_PAIRS(name)                                                                                     \
  {                                                                                                           \
    [TUTTI_SUM] = sum_##name, [TUTTI_PROD] = prod_##name, [TUTTI_MIN] = min_##name, [TUTTI_MAX] = max_##name, \
    [TUTTI_AVG] = sum_##name, [TUTTI_PREMUL_SUM] = sum_##name                                                 \
  }
#define FLOAT_KERNELS(name) \
  { .pair = FLOAT_PAIRS(name), .stream_sum = STREAM_OF(name), .scale = scale_##name, .divide = divide_##name }

/* ---- f16, bf16 and f8 ------------------------------------------------------------------------------------------- */

/* Expands the macro OPERATION, which defines `pair` and `accumulate`, for each operation of a narrow float. */
#define NARROW_OPERATIONS(OPERATION, name, T) \
  OPERATION(name, T, sum) OPERATION(name, T, prod) OPERATION(name, T, min) OPERATION(name, T, max)

#if defined(__AVX2__) && defined(__F16C__)
#include "engine/kernels_f16c.h"
#else
#define NARROW_OPERATION(name, T, operation)                                                           \
  PAIR(operation##_##name, T, uint32_t, name##_store(f32_##operation(name##_load(a), name##_load(b)))) \
  static void accumulate_##operation##_##name(float *values, const void *src_bytes, size_t count) {    \
    const T *src = src_bytes;                                                                          \
    EACH(count) values[i] = f32_##operation(values[i], name##_load(src[i]));                           \
  }
#define NARROW_FLOAT(name, T)                                                     \
  static void widen_##name(float *values, const void *src_bytes, size_t count) {  \
    const T *src = src_bytes;                                                     \
    EACH(count) values[i] = name##_load(src[i]);                                  \
  }                                                                               \
  static void narrow_##name(void *dst_bytes, const float *values, size_t count) { \
    T *dst = dst_bytes;                                                           \
    EACH(count) dst[i] = (T)name##_store(values[i]);                              \
  }                                                                               \
  NARROW_OPERATIONS(NARROW_OPERATION, name, T)
NARROW_FLOAT(f16, u16)
NARROW_FLOAT(f8e4m3, u8)
NARROW_FLOAT(f8e5m2, u8)
#define F16_STREAM NULL
#endif

/* bf16 is handled in words of 32 bits, which hold two elements each. A shift or a mask turns each element into an f32
 * within its word. So no vector lane changes its width. Such changes would use most of the time. An odd last element is
 * handled alone. In a block, the values of all low elements come before those of the high elements. */
typedef uint32_t two_bf16 ELEMENT_OF_ARRAY;
TU_INLINE float bf16_low(uint32_t two) { return f32_of_bits(two << 16); }
TU_INLINE float bf16_high(uint32_t two) { return f32_of_bits(two & 0xffff0000u); }
TU_INLINE uint32_t bf16_two(float low, float high) {
  uint32_t bits = f32_bits(high);
  return bf16_store(low) | ((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u);
}

static void widen_bf16(float *values, const void *src_bytes, size_t count) {
  const two_bf16 *src = src_bytes;
  const u16 *single = src_bytes;
  size_t half = count / 2;
  EACH(half) {
    values[i] = bf16_low(src[i]);
    values[half + i] = bf16_high(src[i]);
  }
  if (count & 1) values[count - 1] = bf16_load(single[count - 1]);
}
static void narrow_bf16(void *dst_bytes, const float *values, size_t count) {
  two_bf16 *dst = dst_bytes;
  u16 *single = dst_bytes;
  size_t half = count / 2;
  EACH(half) dst[i] = bf16_two(values[i], values[half + i]);
  if (count & 1) single[count - 1] = (u16)bf16_store(values[count - 1]);
}
#define BF16_OPERATION(name, T, operation)                                                                       \
  PAIR(twos_##operation##_bf16, two_bf16, uint32_t,                                                              \
       bf16_two(f32_##operation(bf16_low(a), bf16_low(b)), f32_##operation(bf16_high(a), bf16_high(b))))         \
  static void operation##_bf16(void *dst_bytes, const void *left_bytes, const void *right_bytes, size_t count) { \
    T *dst = dst_bytes;                                                                                          \
    const T *left = left_bytes, *right = right_bytes;                                                            \
    size_t last = count - 1;                                                                                     \
    twos_##operation##_bf16(dst, left, right, count / 2);                                                        \
    if (count & 1) dst[last] = (T)bf16_store(f32_##operation(bf16_load(left[last]), bf16_load(right[last])));    \
  }                                                                                                              \
  static void accumulate_##operation##_bf16(float *values, const void *src_bytes, size_t count) {                \
    const two_bf16 *src = src_bytes;                                                                             \
    const T *single = src_bytes;                                                                                 \
    size_t half = count / 2, last = count - 1;                                                                   \
    EACH(half) {                                                                                                 \
      values[i] = f32_##operation(values[i], bf16_low(src[i]));                                                  \
      values[half + i] = f32_##operation(values[half + i], bf16_high(src[i]));                                   \
    }                                                                                                            \
    if (count & 1) values[last] = f32_##operation(values[last], bf16_load(single[last]));                        \
  }
NARROW_OPERATIONS(BF16_OPERATION, bf16, u16)
STREAM_SUM(bf16, two_bf16, uint32_t, bf16_two(f32_sum(bf16_low(a), bf16_low(b)), f32_sum(bf16_high(a), bf16_high(b))))

#include "engine/kernels_bfp.h"

#define ACCUMULATES(name)                                                                                            \
  {                                                                                                                  \
    [TUTTI_SUM] = accumulate_sum_##name, [TUTTI_PROD] = accumulate_prod_##name, [TUTTI_MIN] = accumulate_min_##name, \
    [TUTTI_MAX] = accumulate_max_##name, [TUTTI_AVG] = accumulate_sum_##name,                                        \
    [TUTTI_PREMUL_SUM] = accumulate_sum_##name                                                                       \
  }
#define NARROW_KERNELS(name, stream)                                                                 \
  {                                                                                                  \
    .pair = FLOAT_PAIRS(name), .stream_sum = stream, .widen = widen_##name, .narrow = narrow_##name, \
    .accumulate = ACCUMULATES(name)                                                                  \
  }

/* ---- the kernel set --------------------------------------------------------------------------------------------- */

const struct tu_kernel_set KERNEL_SET = {
    .name = KERNEL_SET_NAME,
    .copy = copy_lines,
#if STREAMS
    .stream_copy = stream_copy,
#endif
    .types =
        {
            [TUTTI_I8] = INTEGER_KERNELS(i8, 8),
            [TUTTI_U8] = INTEGER_KERNELS(u8, 8),
            [TUTTI_I16] = INTEGER_KERNELS(i16, 16),
            [TUTTI_U16] = INTEGER_KERNELS(u16, 16),
            [TUTTI_I32] = INTEGER_KERNELS(i32, 32),
            [TUTTI_U32] = INTEGER_KERNELS(u32, 32),
            [TUTTI_I64] = INTEGER_KERNELS(i64, 64),
            [TUTTI_U64] = INTEGER_KERNELS(u64, 64),
            [TUTTI_BOOL] = BOOL_KERNELS,
            [TUTTI_F16] = NARROW_KERNELS(f16, F16_STREAM),
            [TUTTI_BF16] = NARROW_KERNELS(bf16, STREAM_OF(bf16)),
            [TUTTI_F32] = FLOAT_KERNELS(f32),
            [TUTTI_F64] = FLOAT_KERNELS(f64),
            [TUTTI_F8E4M3] = NARROW_KERNELS(f8e4m3, NULL),
            [TUTTI_F8E5M2] = NARROW_KERNELS(f8e5m2, NULL),
            [TUTTI_BFP8] = NARROW_KERNELS(bfp8, NULL),
            [TUTTI_BFP4] = NARROW_KERNELS(bfp4, NULL),
        },
};

#endif
