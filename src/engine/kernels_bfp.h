/* kernels_bfp.h: converts groups of 16 block floats to and from f32; the comment at TUTTI_BFP8 describes the format.
 * Only kernels_loops.h includes this file. `bits` is the number of bits of a magnitude. It is a constant at every call,
 * and so are all values that depend on it alone. */
#ifndef TU_KERNELS_BFP_H
#define TU_KERNELS_BFP_H

enum { BFP_GROUP = 16 };
#define EACH_OF(count) KEPT_A_LOOP for (size_t i = 0; i < (count); i++)

typedef unsigned char group_byte __attribute__((may_alias));

/* Returns the value of magnitude 1 (the unit) under a shared exponent; it may be a subnormal number. */
TU_INLINE float bfp_unit(uint32_t shared, uint32_t bits) {
  int32_t exponent = (int32_t)shared - 126 - (int32_t)bits;
  return f32_of_bits(exponent < -126 ? 1u << (exponent + 149) : (uint32_t)(exponent + 127) << 23);
}

/* Widens a group to f32. The products are exact, unless they overflow to infinity. */
TU_INLINE void bfp_load(float values[BFP_GROUP], const group_byte *item, uint32_t bits) {
  const int32_t most = (1 << bits) - 1, nan = item[0] == 255 ? most : most + 1;
  const float unit = bfp_unit(item[0], bits);
  int32_t codes[BFP_GROUP];
  uint32_t words[BFP_GROUP];
  if (bits == 7) EACH_OF(BFP_GROUP) codes[i] = item[1 + i];
  else EACH_OF(BFP_GROUP / 2) codes[2 * i] = item[1 + i] & 15, codes[2 * i + 1] = item[1 + i] >> 4;
  EACH_OF(BFP_GROUP) {
    uint32_t number = f32_bits((float)(codes[i] & most) * unit) | (uint32_t)(codes[i] & ~most) << (31 - bits);
    words[i] = (codes[i] & most) == nan ? F32_NAN : number;
  }
  memcpy(values, words, sizeof words);
}

/* Rounds 16 values to a group with a shared exponent. Magnitudes are compared as int32_t, because not every instruction
 * set compares unsigned integers. */
TU_INLINE void bfp_store(group_byte *item, const float values[BFP_GROUP], uint32_t bits) {
  const int32_t most = (1 << bits) - 1;
  int32_t words[BFP_GROUP], codes[BFP_GROUP], largest = 0, any = 0;
  memcpy(words, values, sizeof words);
  EACH_OF(BFP_GROUP) {
    int32_t u = words[i] & 0x7fffffff;
    largest = u > largest ? u : largest;
  }
  /* Exponent field 0 (subnormal) means the same exponent as 1, but without the leading 1 bit. */
  const int32_t shared = largest >> 23 > 1 ? largest >> 23 : 1;
  EACH_OF(BFP_GROUP) {
    int32_t u = words[i] & 0x7fffffff, field = u >> 23;
    int32_t digits = (u & 0x7fffff) | (field > 0 ? 0x800000 : 0);
    int32_t shift = 24 - (int32_t)bits + shared - (field > 1 ? field : 1);
    shift = shift < 25 ? shift : 25; /* a shift by 25 removes all of the 24 bits */
    int32_t rounded = (digits + (1 << (shift - 1)) - 1 + (digits >> shift & 1)) >> shift;
    int32_t magnitude = rounded > most ? most : rounded;
    int32_t number = magnitude | (magnitude > 0 ? (int32_t)((uint32_t)words[i] >> 31 << bits) : 0);
    codes[i] = u > 0x7f800000 ? most : number;
  }
  EACH_OF(BFP_GROUP) any |= codes[i];
  item[0] = (group_byte)(any ? shared : 0);
  if (bits == 7) EACH_OF(BFP_GROUP) item[1 + i] = (group_byte)codes[i];
  else EACH_OF(BFP_GROUP / 2) item[1 + i] = (group_byte)(codes[2 * i] | codes[2 * i + 1] << 4);
}

#define BFP_OPERATION(name, bits, operation)                                                                       \
  static void operation##_##name(void *dst_bytes, const void *left_bytes, const void *right_bytes, size_t count) { \
    enum { ITEM = 1 + BFP_GROUP * ((bits) + 1) / 8 };                                                              \
    for (size_t k = 0; k < count; k++) {                                                                           \
      float left[BFP_GROUP], right[BFP_GROUP];                                                                     \
      bfp_load(left, (const group_byte *)left_bytes + k * ITEM, bits);                                             \
      bfp_load(right, (const group_byte *)right_bytes + k * ITEM, bits);                                           \
      EACH_OF(BFP_GROUP) left[i] = f32_##operation(left[i], right[i]);                                             \
      bfp_store((group_byte *)dst_bytes + k * ITEM, left, bits);                                                   \
    }                                                                                                              \
  }                                                                                                                \
  static void accumulate_##operation##_##name(float *values, const void *src_bytes, size_t count) {                \
    enum { ITEM = 1 + BFP_GROUP * ((bits) + 1) / 8 };                                                              \
    for (size_t k = 0; k < count; k++, values += BFP_GROUP) {                                                      \
      float operand[BFP_GROUP];                                                                                    \
      bfp_load(operand, (const group_byte *)src_bytes + k * ITEM, bits);                                           \
      EACH_OF(BFP_GROUP) values[i] = f32_##operation(values[i], operand[i]);                                       \
    }                                                                                                              \
  }
#define BFP(name, bits)                                                                                             \
  static void widen_##name(float *values, const void *src_bytes, size_t count) {                                    \
    enum { ITEM = 1 + BFP_GROUP * ((bits) + 1) / 8 };                                                               \
    for (size_t k = 0; k < count; k++)                                                                              \
      bfp_load(values + k * BFP_GROUP, (const group_byte *)src_bytes + k * ITEM, bits);                             \
  }                                                                                                                 \
  static void narrow_##name(void *dst_bytes, const float *values, size_t count) {                                   \
    enum { ITEM = 1 + BFP_GROUP * ((bits) + 1) / 8 };                                                               \
    for (size_t k = 0; k < count; k++) bfp_store((group_byte *)dst_bytes + k * ITEM, values + k * BFP_GROUP, bits); \
  }                                                                                                                 \
  NARROW_OPERATIONS(BFP_OPERATION, name, bits)

BFP(bfp8, 7)
BFP(bfp4, 3)

#endif
