/* kernels_f16c.h: f16 and f8 with the conversions of F16C or AVX-512, two vectors of f32 at a time. Only
 * kernels_loops.h includes this file.
 *
 * Both f8 types are parts of f16. f8e5m2 is the upper half of f16. f8e4m3 is f16 without the first bit of the exponent
 * and without the last seven bits of the fraction, times 2^8. So f8 is widened by way of f16, which is exact.
 *
 * On the way back, f32 is rounded twice: first to f16, then, as a 16-bit integer, to f8. The first rounding is to odd:
 * the last bit records whether anything was cut off. Therefore the second rounding gives the right result. */
#ifndef TU_KERNELS_F16C_H
#define TU_KERNELS_F16C_H

#include <immintrin.h>

/* ---- types and functions that differ between AVX-512 and AVX2 ---- */

enum { TO_NEAREST = _MM_FROUND_TO_NEAREST_INT, TO_ZERO = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC };

/* struct values: two vectors of f32. items: one vector with a 16-bit element for each of these f32. */
#if defined(__AVX512F__)
enum { LANES = 16 };
typedef float vector __attribute__((vector_size(64)));
typedef uint32_t vector_bits __attribute__((vector_size(64)));
typedef uint16_t items __attribute__((vector_size(64)));
struct values {
  vector low, high;
};

typedef __m256i halves; /* f16 elements for one vector */
TU_INLINE vector halves_widened(halves x) { return (vector)_mm512_cvtph_ps(x); }
#define HALVES_NARROWED(x, rounding) _mm512_cvtps_ph((__m512)(x), rounding)
TU_INLINE items items_joined(halves low, halves high) {
  return (items)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
TU_INLINE struct values items_widened(items x) {
  return (struct values){halves_widened(_mm512_castsi512_si256((__m512i)x)),
                         halves_widened(_mm512_extracti64x4_epi64((__m512i)x, 1))};
}
/* Returns items (16-bit elements): all bits are set where the elements of a and b differ or are NaN, otherwise none. */
TU_INLINE items items_differ(struct values a, struct values b) {
  __mmask32 low = _mm512_cmp_ps_mask((__m512)a.low, (__m512)b.low, _CMP_NEQ_UQ),
            high = _mm512_cmp_ps_mask((__m512)a.high, (__m512)b.high, _CMP_NEQ_UQ);
  return (items)_mm512_movm_epi16(high << 16 | low);
}
TU_INLINE items items_min(items a, uint16_t b) {
  return (items)_mm512_min_epu16((__m512i)a, _mm512_set1_epi16((short)b));
}
/* Sign-extends bytes to items (16-bit elements). The reverse, items_to_bytes, stores the low bytes of items. */
TU_INLINE items items_of_bytes(const void *bytes) {
  return (items)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i_u *)bytes));
}
TU_INLINE void items_to_bytes(void *bytes, items x) {
  _mm256_storeu_si256((__m256i_u *)bytes, _mm512_cvtepi16_epi8((__m512i)x));
}
#else
enum { LANES = 8 };
typedef float vector __attribute__((vector_size(32)));
typedef uint32_t vector_bits __attribute__((vector_size(32)));
typedef uint16_t items __attribute__((vector_size(32)));
struct values {
  vector low, high;
};

typedef __m128i halves;
TU_INLINE vector halves_widened(halves x) { return (vector)_mm256_cvtph_ps(x); }
#define HALVES_NARROWED(x, rounding) _mm256_cvtps_ph((__m256)(x), rounding)
TU_INLINE items items_joined(halves low, halves high) { return (items)_mm256_set_m128i(high, low); }
TU_INLINE struct values items_widened(items x) {
  return (struct values){halves_widened(_mm256_castsi256_si128((__m256i)x)),
                         halves_widened(_mm256_extracti128_si256((__m256i)x, 1))};
}
TU_INLINE items items_differ(struct values a, struct values b) {
  __m256i differ = _mm256_packs_epi32((__m256i)(a.low != b.low), (__m256i)(a.high != b.high));
  return (items)_mm256_permute4x64_epi64(differ, _MM_SHUFFLE(3, 1, 2, 0));
}
TU_INLINE items items_min(items a, uint16_t b) {
  return (items)_mm256_min_epu16((__m256i)a, _mm256_set1_epi16((short)b));
}
TU_INLINE items items_of_bytes(const void *bytes) {
  return (items)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i_u *)bytes));
}
TU_INLINE void items_to_bytes(void *bytes, items x) {
  __m256i wide = (__m256i)(x & 0xff);
  _mm_storeu_si128((__m128i_u *)bytes,
                   _mm_packus_epi16(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1)));
}
#endif
enum { ITEMS = 2 * LANES };

/* ---- loads and stores ---- */

TU_INLINE struct values f16_values(const void *src) {
  halves x[2];
  memcpy(x, src, sizeof x);
  return (struct values){halves_widened(x[0]), halves_widened(x[1])};
}
TU_INLINE void f16_values_store(void *dst, struct values x) {
  const halves both[2] = {HALVES_NARROWED(x.low, TO_NEAREST), HALVES_NARROWED(x.high, TO_NEAREST)};
  memcpy(dst, both, sizeof both);
}

TU_INLINE items f16_odd(struct values x) {
  halves low = HALVES_NARROWED(x.low, TO_ZERO), high = HALVES_NARROWED(x.high, TO_ZERO);
  const struct values back = {halves_widened(low), halves_widened(high)};
  return items_joined(low, high) | (items_differ(back, x) & 1);
}

TU_INLINE struct values f8e5m2_values(const void *src) { return items_widened(items_of_bytes(src) << 8); }
TU_INLINE void f8e5m2_values_store(void *dst, struct values x) {
  items odd = f16_odd(x);
  items_to_bytes(dst, (odd + 0x7f + ((odd >> 8) & 1)) >> 8);
}

/* Widens f8e4m3. After sign extension and a shift by 7, bit 14 is a copy of the sign, which the mask clears. The code
 * of the NaN is a number in f16, so the NaN is set explicitly. */
TU_INLINE struct values f8e4m3_values(const void *src) {
  items half = (items_of_bytes(src) << 7) & 0xbf80;
  items nan = (items)((half | 0x8000) == 0xbf80);
  struct values x = items_widened(half | nan);
  return (struct values){x.low * 0x1p8f, x.high * 0x1p8f};
}
TU_INLINE void f8e4m3_values_store(void *dst, struct values x) {
  items odd = f16_odd((struct values){x.low * 0x1p-8f, x.high * 0x1p-8f}), magnitude = odd & 0x7fff;
  items rounded = (magnitude + 0x3f + ((magnitude >> 7) & 1)) >> 7;
  /* a number beyond the largest value becomes NaN */
  items_to_bytes(dst, ((odd >> 8) & 0x80) | items_min(rounded, 0x7f));
}

TU_INLINE struct values values_load(const float *values) {
  struct values x;
  memcpy(&x.low, values, sizeof x.low);
  memcpy(&x.high, values + LANES, sizeof x.high);
  return x;
}
TU_INLINE void values_store(float *values, struct values x) {
  memcpy(values, &x.low, sizeof x.low);
  memcpy(values + LANES, &x.high, sizeof x.high);
}

/* ---- operations: those of kernels_loops.h, for vectors of f32 ---- */

TU_INLINE vector vector_chosen(vector_bits mask, vector_bits yes, uint32_t no) {
  return (vector)((yes & mask) | (no & ~mask));
}
TU_INLINE vector vector_one_nan(vector x) {
  vector_bits number = (vector_bits)(x == x); /* NOLINT(misc-redundant-expression): a NaN differs from itself */
  return vector_chosen(number, (vector_bits)x, F32_NAN);
}
TU_INLINE vector vector_sum(vector a, vector b) { return vector_one_nan(a + b); }
TU_INLINE vector vector_prod(vector a, vector b) { return vector_one_nan(a * b); }
TU_INLINE vector vector_min(vector a, vector b) {
  vector_bits left = (vector_bits)a, right = (vector_bits)b, take = (vector_bits)(a <= b),
              other = (vector_bits)(b <= a);
  return vector_chosen(take | other, (left & take) | (right & other), F32_NAN);
}
TU_INLINE vector vector_max(vector a, vector b) {
  vector_bits left = (vector_bits)a, right = (vector_bits)b, take = (vector_bits)(a >= b),
              other = (vector_bits)(b >= a);
  return vector_chosen(take | other, (left | ~take) & (right | ~other), F32_NAN);
}

/* ---- the loops: ITEMS elements at a time, then the remaining elements, padded with zeros ---- */

#define NARROW_OPERATION(name, T, operation)                                                                        \
  TU_INLINE struct values name##_##operation##_values(struct values a, struct values b) {                           \
    return (struct values){vector_##operation(a.low, b.low), vector_##operation(a.high, b.high)};                   \
  }                                                                                                                 \
  static void operation##_##name(void *dst_bytes, const void *left_bytes, const void *right_bytes, size_t count) {  \
    T *dst = dst_bytes;                                                                                             \
    const T *left = left_bytes, *right = right_bytes;                                                               \
    size_t i = 0;                                                                                                   \
    for (; i + ITEMS <= count; i += ITEMS)                                                                          \
      name##_values_store(&dst[i], name##_##operation##_values(name##_values(&left[i]), name##_values(&right[i]))); \
    if (i == count) return;                                                                                         \
    T result[ITEMS] = {0}, operand[ITEMS] = {0};                                                                    \
    memcpy(result, &left[i], (count - i) * sizeof(T));                                                              \
    memcpy(operand, &right[i], (count - i) * sizeof(T));                                                            \
    name##_values_store(result, name##_##operation##_values(name##_values(result), name##_values(operand)));        \
    memcpy(&dst[i], result, (count - i) * sizeof(T));                                                               \
  }                                                                                                                 \
  static void accumulate_##operation##_##name(float *values, const void *src_bytes, size_t count) {                 \
    const T *src = src_bytes;                                                                                       \
    size_t i = 0;                                                                                                   \
    for (; i + ITEMS <= count; i += ITEMS)                                                                          \
      values_store(&values[i], name##_##operation##_values(values_load(&values[i]), name##_values(&src[i])));       \
    if (i == count) return;                                                                                         \
    T operand[ITEMS] = {0};                                                                                         \
    float result[ITEMS] = {0};                                                                                      \
    memcpy(operand, &src[i], (count - i) * sizeof(T));                                                              \
    memcpy(result, &values[i], (count - i) * sizeof(float));                                                        \
    values_store(result, name##_##operation##_values(values_load(result), name##_values(operand)));                 \
    memcpy(&values[i], result, (count - i) * sizeof(float));                                                        \
  }
#define NARROW_FLOAT(name, T)                                                                     \
  static void widen_##name(float *values, const void *src_bytes, size_t count) {                  \
    const T *src = src_bytes;                                                                     \
    size_t i = 0;                                                                                 \
    for (; i + ITEMS <= count; i += ITEMS) values_store(&values[i], name##_values(&src[i]));      \
    if (i == count) return;                                                                       \
    T narrow_rest[ITEMS] = {0};                                                                   \
    float rest[ITEMS];                                                                            \
    memcpy(narrow_rest, &src[i], (count - i) * sizeof(T));                                        \
    values_store(rest, name##_values(narrow_rest));                                               \
    memcpy(&values[i], rest, (count - i) * sizeof(float));                                        \
  }                                                                                               \
  static void narrow_##name(void *dst_bytes, const float *values, size_t count) {                 \
    T *dst = dst_bytes;                                                                           \
    size_t i = 0;                                                                                 \
    for (; i + ITEMS <= count; i += ITEMS) name##_values_store(&dst[i], values_load(&values[i])); \
    if (i == count) return;                                                                       \
    float rest[ITEMS] = {0};                                                                      \
    T narrow_rest[ITEMS];                                                                         \
    memcpy(rest, &values[i], (count - i) * sizeof(float));                                        \
    name##_values_store(narrow_rest, values_load(rest));                                          \
    memcpy(&dst[i], narrow_rest, (count - i) * sizeof(T));                                        \
  }                                                                                               \
  NARROW_OPERATIONS(NARROW_OPERATION, name, T)

NARROW_FLOAT(f16, u16)
NARROW_FLOAT(f8e4m3, u8)
NARROW_FLOAT(f8e5m2, u8)

static void stream_sum_f16(void *const dsts[], uint32_t dst_count, const void *left, const void *right, size_t bytes) {
  for (size_t at = 0; at < bytes; at += TU_LINE_BYTES) {
    _Alignas(TU_LINE_BYTES) char line[TU_LINE_BYTES];
    for (size_t i = 0; i < TU_LINE_BYTES; i += sizeof(items)) {
      struct values sum =
          f16_sum_values(f16_values((const char *)left + at + i), f16_values((const char *)right + at + i));
      /* Store the whole vector with one store, because stream_line loads it with one load. After two half stores, that
       * load would have to wait until both are in the cache. */
      items sums = items_joined(HALVES_NARROWED(sum.low, TO_NEAREST), HALVES_NARROWED(sum.high, TO_NEAREST));
      memcpy(line + i, &sums, sizeof sums);
    }
    for (uint32_t d = 0; d < dst_count; d++) stream_line((char *)dsts[d] + at, line);
  }
}
#define F16_STREAM stream_sum_f16

#endif
