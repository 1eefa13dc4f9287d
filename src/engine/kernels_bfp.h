/* kernels_bfp.h: groups of 16 block floats (the comment at TUTTI_BFP8 has the format) to and from f32. Included by
 * kernels_loops.h alone. All that depends on `bits`, those of a magnitude, is a constant at every call. */
#ifndef TU_KERNELS_BFP_H
#define TU_KERNELS_BFP_H

enum { GROUP = 16 };
#define EACH_OF(count) KEPT_A_LOOP for (size_t i = 0; i < (count); i++)

typedef unsigned char group_byte __attribute__((may_alias));

/* What a magnitude of 1 is worth: a subnormal where it must be. */
TU_INLINE float bfp_unit(uint32_t shared, uint32_t bits) {
  int32_t exponent = (int32_t)shared - 126 - (int32_t)bits;
  return f32_of_bits(exponent < -126 ? 1u << (exponent + 149) : (uint32_t)(exponent + 127) << 23);
}

/* The product is exact, but where it is infinity. */
TU_INLINE void bfp_load(float values[GROUP], const group_byte *item, uint32_t bits) {
  const int32_t most = (1 << bits) - 1, nan = item[0] == 255 ? most : most + 1;
  const float unit = bfp_unit(item[0], bits);
  int32_t codes[GROUP];
  uint32_t words[GROUP];
  if (bits == 7) EACH_OF(GROUP) codes[i] = item[1 + i];
  else EACH_OF(GROUP / 2) codes[2 * i] = item[1 + i] & 15, codes[2 * i + 1] = item[1 + i] >> 4;
  EACH_OF(GROUP) {
    uint32_t number = f32_bits((float)(codes[i] & most) * unit) | (uint32_t)(codes[i] & ~most) << (31 - bits);
    words[i] = (codes[i] & most) == nan ? F32_NAN : number;
  }
  memcpy(values, words, sizeof words);
}

/* Magnitudes are compared as int32_t, as in kernels_narrow.h. */
TU_INLINE void bfp_store(group_byte *item, const float values[GROUP], uint32_t bits) {
  const int32_t most = (1 << bits) - 1;
  int32_t words[GROUP], codes[GROUP], largest = 0, any = 0;
  memcpy(words, values, sizeof words);
  EACH_OF(GROUP) {
    int32_t u = words[i] & 0x7fffffff;
    largest = u > largest ? u : largest;
  }
  /* An exponent byte of 0 stands for the same exponent as 1, without the leading one. */
  const int32_t shared = largest >> 23 > 1 ? largest >> 23 : 1;
  EACH_OF(GROUP) {
    int32_t u = words[i] & 0x7fffffff, field = u >> 23;
    int32_t digits = (u & 0x7fffff) | (field > 0 ? 0x800000 : 0);
    int32_t shift = 24 - (int32_t)bits + shared - (field > 1 ? field : 1);
    shift = shift < 25 ? shift : 25; /* nothing of 24 digits is left */
    int32_t rounded = (digits + (1 << (shift - 1)) - 1 + (digits >> shift & 1)) >> shift;
    int32_t magnitude = rounded > most ? most : rounded;
    int32_t number = magnitude | (magnitude > 0 ? (int32_t)((uint32_t)words[i] >> 31 << bits) : 0);
    codes[i] = u > 0x7f800000 ? most : number;
  }
  EACH_OF(GROUP) any |= codes[i];
  item[0] = (group_byte)(any ? shared : 0);
  if (bits == 7) EACH_OF(GROUP) item[1 + i] = (group_byte)codes[i];
  else EACH_OF(GROUP / 2) item[1 + i] = (group_byte)(codes[2 * i] | codes[2 * i + 1] << 4);
}

#define BFP_OPERATION(name, bits, operation)                                                                       \
  static void operation##_##name(void *dst_bytes, const void *left_bytes, const void *right_bytes, size_t count) { \
    enum { ITEM = 1 + GROUP * ((bits) + 1) / 8 };                                                                  \
    for (size_t k = 0; k < count; k++) {                                                                           \
      float left[GROUP], right[GROUP];                                                                             \
      bfp_load(left, (const group_byte *)left_bytes + k * ITEM, bits);                                             \
      bfp_load(right, (const group_byte *)right_bytes + k * ITEM, bits);                                           \
      EACH_OF(GROUP) left[i] = f32_##operation(left[i], right[i]);                                                 \
      bfp_store((group_byte *)dst_bytes + k * ITEM, left, bits);                                                   \
    }                                                                                                              \
  }                                                                                                                \
  static void accumulate_##operation##_##name(float *values, const void *src_bytes, size_t count) {                \
    enum { ITEM = 1 + GROUP * ((bits) + 1) / 8 };                                                                  \
    for (size_t k = 0; k < count; k++, values += GROUP) {                                                          \
      float operand[GROUP];                                                                                        \
      bfp_load(operand, (const group_byte *)src_bytes + k * ITEM, bits);                                           \
      EACH_OF(GROUP) values[i] = f32_##operation(values[i], operand[i]);                                           \
    }                                                                                                              \
  }
#define BFP(name, bits)                                                                                              \
  static void widen_##name(float *values, const void *src_bytes, size_t count) {                                     \
    enum { ITEM = 1 + GROUP * ((bits) + 1) / 8 };                                                                    \
    for (size_t k = 0; k < count; k++) bfp_load(values + k * GROUP, (const group_byte *)src_bytes + k * ITEM, bits); \
  }                                                                                                                  \
  static void narrow_##name(void *dst_bytes, const float *values, size_t count) {                                    \
    enum { ITEM = 1 + GROUP * ((bits) + 1) / 8 };                                                                    \
    for (size_t k = 0; k < count; k++) bfp_store((group_byte *)dst_bytes + k * ITEM, values + k * GROUP, bits);      \
  }                                                                                                                  \
  NARROW_OPERATIONS(BFP_OPERATION, name, bits)

BFP(bfp8, 7)
BFP(bfp4, 3)

#endif
