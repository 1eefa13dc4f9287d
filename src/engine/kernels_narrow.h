/* kernels_narrow.h: converts one f16, bf16 or f8 to and from f32, in plain C that vectorises. */
#ifndef TU_KERNELS_NARROW_H
#define TU_KERNELS_NARROW_H

#include <stdint.h>
#include <string.h>

#define TU_INLINE static inline __attribute__((always_inline, unused))

TU_INLINE uint32_t f32_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
TU_INLINE float f32_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
TU_INLINE uint64_t f64_bits(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
TU_INLINE double f64_of_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
#define F32_NAN 0x7fc00000u
#define F64_NAN 0x7ff8000000000000u
TU_INLINE float f32_one_nan(float x) { return f32_of_bits(x != x ? F32_NAN : f32_bits(x)); }
TU_INLINE double f64_one_nan(double x) { return f64_of_bits(x != x ? F64_NAN : f64_bits(x)); }

/* Widens a float of a narrow type to f32. `bits`: its code; `mantissa`: number of its fraction bits; `bias`: offset of
 * its exponent. Codes from `special` on are infinity and NaN. The parameters except `bits` are constants at every call,
 * so the code becomes a sequence of selects without branches, which vectorises. Magnitudes are compared as int32_t:
 * they have no sign bit, and not every instruction set compares unsigned integers. */
TU_INLINE float widen(uint32_t bits, uint32_t sign_bit, uint32_t mantissa, uint32_t bias, uint32_t special) {
  uint32_t u = bits & (sign_bit - 1), shifted = u << (23 - mantissa);
  uint32_t normal = shifted + ((127 - bias) << 23);
  /* A subnormal has no leading 1 bit. Add such a bit, at the exponent of subnormals, and subtract it again. */
  uint32_t one = (128 - bias) << 23;
  uint32_t subnormal = f32_bits(f32_of_bits(shifted + one) - f32_of_bits(one));
  uint32_t finite = (int32_t)u < (int32_t)(1u << mantissa) ? subnormal : normal;
  uint32_t magnitude = (int32_t)u >= (int32_t)special ? shifted | 0x7f800000u : finite;
  return f32_of_bits(magnitude | (bits & sign_bit ? 0x80000000u : 0));
}

/* Rounds a float to nearest even, into a format like that of `widen`. A result above `largest` becomes `overflow`. */
TU_INLINE uint32_t narrow(float x, uint32_t sign_bit, uint32_t mantissa, uint32_t bias, uint32_t largest,
                          uint32_t overflow, uint32_t nan) {
  uint32_t bits = f32_bits(x), u = bits & 0x7fffffffu, shift = 23 - mantissa;
  uint32_t nearly_half = (1u << (shift - 1)) - 1;
  uint32_t normal = (u - ((127 - bias) << 23) + nearly_half + ((u >> shift) & 1)) >> shift;
  /* a float whose last bit has the value of the smallest subnormal of the narrow type; so adding it to x rounds x to a
   * multiple of that subnormal */
  uint32_t ruler = (127 + 24 - bias - mantissa) << 23;
  uint32_t subnormal = f32_bits(f32_of_bits(u) + f32_of_bits(ruler)) - ruler;
  uint32_t rounded = (int32_t)u < (int32_t)((128 - bias) << 23) ? subnormal : normal;
  uint32_t magnitude = (int32_t)rounded > (int32_t)largest ? overflow : rounded;
  return (bits & 0x80000000u ? sign_bit : 0) | ((int32_t)u > 0x7f800000 ? nan : magnitude);
}

TU_INLINE float f16_load(uint32_t x) { return widen(x, 0x8000, 10, 15, 0x7c00); }
TU_INLINE uint32_t f16_store(float x) { return narrow(x, 0x8000, 10, 15, 0x7bff, 0x7c00, 0x7e00); }
TU_INLINE float f8e5m2_load(uint32_t x) { return widen(x, 0x80, 2, 15, 0x7c); }
TU_INLINE uint32_t f8e5m2_store(float x) { return narrow(x, 0x80, 2, 15, 0x7b, 0x7c, 0x7e); }
TU_INLINE float f8e4m3_load(uint32_t x) { return widen(x, 0x80, 3, 7, 0x7f); }
TU_INLINE uint32_t f8e4m3_store(float x) { return narrow(x, 0x80, 3, 7, 0x7e, 0x7f, 0x7f); }
TU_INLINE float bf16_load(uint32_t x) { return f32_of_bits(x << 16); }
/* Rounds f32 to bf16 by an integer addition. F32_NAN remains a NaN under this addition, whereas another NaN could
 * become an infinity. */
TU_INLINE uint32_t bf16_store(float x) {
  uint32_t bits = f32_bits(x);
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

#endif
