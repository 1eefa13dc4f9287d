/* kernels_values_test.c: compares the kernels with the slow reference of kernels_reference.h on all values of a
 * type, or all corner values: arithmetic, division, and conversions between formats. Bits must be equal, NaN
 * included. */
/* test: timeout=180 */
#include "engine/isa.h"
#include "engine/kernels.h"
#include "kernels_reference.h"

/* ---- arithmetic ---- */

/* Tests every code of a narrow float as one operand, with special values (zeros, subnormals, largest, infinities, NaNs)
 * as the other. f8 has few enough codes to test all pairs. */
static void all_values_of(tutti_datatype type, tutti_op op) {
  static const uint16_t specials[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x8400, 0x3c00, 0xbc00, 0x7bff,
                                      0xfbff, 0x7c00, 0xfc00, 0x7c01, 0x7e00, 0xfe01, 0x3f80, 0xbf80, 0x0080, 0x807f,
                                      0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7f81, 0xffc1, 0x3c01, 0x4049, 0x1234, 0x5678};
  enum { CODES = 1 << 16, SPECIALS = sizeof specials / sizeof specials[0] };
  const size_t bytes = tu_datatypes[type].bytes;
  const struct tu_arithmetic a = {.type = type, .op = op, .divisor = 3};
  uint16_t *left = tu_allocate(CODES, 2), *right = tu_allocate(CODES, 2), *got = tu_allocate(CODES, 2),
           *expected = tu_allocate(CODES, 2);
  const void *const srcs[] = {left, right};
  uint32_t rounds = bytes == 1 ? 1 : test_long() ? 2 * SPECIALS : SPECIALS;
  for (uint32_t round = 0; round < rounds && !test_failures; round++) {
    for (uint32_t code = 0; code < CODES; code++) {
      uint8_t *left8 = (uint8_t *)left, *right8 = (uint8_t *)right;
      if (bytes == 1) left8[code] = (uint8_t)code, right8[code] = (uint8_t)(code >> 8);
      else left[code] = (uint16_t)code, right[code] = specials[round % SPECIALS];
    }
    bool turned = bytes == 2 && (round >= SPECIALS || (!test_long() && round % 2));
    const void *const turned_srcs[] = {right, left};
    const void *const *operands = turned ? turned_srcs : srcs;
    reference(&a, (char *)expected, operands, 2, CODES, true);
    const char *name;
    for (uint32_t i = 0; (name = tu_isa_name(i)); i++) {
      tu_isa_use(name);
      tu_reduce(&a, got, operands, 2, CODES, true);
      if (memcmp(got, expected, CODES * bytes) == 0) continue;
      size_t at = 0;
      while (memcmp((char *)got + at * bytes, (char *)expected + at * bytes, bytes) == 0) at++;
      FAIL("%s %s of %g and %g by %s: %g, expected %g", tu_datatypes[type].name, tu_operations[op].name,
           tu_to_double(type, (const char *)operands[0] + at * bytes),
           tu_to_double(type, (const char *)operands[1] + at * bytes), name,
           tu_to_double(type, (char *)got + at * bytes), tu_to_double(type, (char *)expected + at * bytes));
    }
  }
  free(left);
  free(right);
  free(got);
  free(expected);
}

static void test_all_values(void) {
  static const tutti_op ops[] = {TUTTI_SUM, TUTTI_PROD, TUTTI_MIN, TUTTI_MAX, TUTTI_AVG};
  const char *used = tu_isa_used();
  for (int o = 0; o < 5; o++) {
    all_values_of(TUTTI_F16, ops[o]);
    all_values_of(TUTTI_BF16, ops[o]);
    all_values_of(TUTTI_F8E4M3, ops[o]);
    all_values_of(TUTTI_F8E5M2, ops[o]);
  }
  tu_isa_use(used);
}

/* Tests widening and narrowing of every f16, bf16 and f8: a scale of 1 changes only NaNs. */
static void test_all_values_scaled(void) {
  static const tutti_datatype types[] = {TUTTI_F16, TUTTI_BF16, TUTTI_F8E4M3, TUTTI_F8E5M2};
  const char *used = tu_isa_used(), *name;
  for (uint32_t i = 0; (name = tu_isa_name(i)); i++)
    for (int t = 0; t < 4; t++) {
      struct narrow n = {0};
      narrow_of(types[t], &n);
      const struct tu_arithmetic one = {.type = types[t], .op = TUTTI_PREMUL_SUM, .scale = 1};
      tu_isa_use(name);
      for (uint32_t code = 0; code < 1u << n.bits; code++) {
        uint8_t byte = (uint8_t)code, scaled_byte;
        uint16_t element = (uint16_t)code, scaled = 0;
        if (n.bits == 8) tu_scale(&one, &scaled_byte, &byte, 1), scaled = scaled_byte;
        else tu_scale(&one, &scaled, &element, 1);
        uint32_t expected = narrow_encode(&n, narrow_decode(&n, code));
        CHECK(scaled == expected, "%s %#x times 1 is %#x, expected %#x (%s)", tu_datatypes[types[t]].name, code, scaled,
              expected, name);
        if (test_failures > 10) return;
      }
    }
  tu_isa_use(used);
}

/* Tests integer division, which uses floats: all 16-bit values by many divisors, and corner values of wider types. */
static void test_divide(void) {
  static const uint32_t by[] = {1,   2,   3,     5,     7,     127,   128,      255,
                                256, 257, 32767, 32768, 65535, 65536, 16777217, 4294967295u};
  const char *used = tu_isa_used(), *name;
  for (uint32_t i = 0; (name = tu_isa_name(i)); i++)
    for (tutti_datatype type = TUTTI_I8; type < TU_DATATYPES; type = tu_datatype_next(type))
      for (uint32_t d = 0; d < sizeof by / sizeof by[0] && !tu_datatypes[type].floating && combines(type, TUTTI_AVG);
           d++) {
        const struct tu_arithmetic a = {.type = type, .op = TUTTI_AVG, .divisor = by[d]};
        const size_t bytes = tu_datatypes[type].bytes;
        tu_isa_use(name);
        for (uint32_t high = 0; high < 3 && !test_failures; high++) {
          static uint64_t elements[1 << 16], got[1 << 16], expected[1 << 16];
          for (uint32_t k = 0; k < 1 << 16; k++) {
            /* Values around multiples of the divisor, where a quotient that is wrongly rounded up shows. */
            int64_t value = high == 0   ? (int64_t)k
                            : high == 1 ? (int64_t)((uint64_t)k * by[d]) - 1
                                        : -(int64_t)k * by[d];
            memcpy((char *)elements + k * bytes, &value, bytes);
          }
          const void *const srcs[] = {elements};
          reference(&a, (char *)expected, srcs, 1, 1 << 16, true);
          tu_reduce(&a, got, srcs, 1, 1 << 16, true);
          CHECK(memcmp(got, expected, bytes << 16) == 0, "%s by %u: wrong (%s)", tu_datatypes[type].name, by[d], name);
        }
      }
  tu_isa_use(used);
}

/* ---- conversions ---- */

/* Tests conversions of all bit patterns of narrow floats, and of the middle between each two neighbours and the numbers
 * just beside that middle. */
static void test_narrow_conversions(void) {
  static const tutti_datatype types[] = {TUTTI_F16, TUTTI_BF16, TUTTI_F8E4M3, TUTTI_F8E5M2};
  for (int t = 0; t < 4; t++) {
    tutti_datatype type = types[t];
    struct narrow n = {0};
    narrow_of(type, &n);
    for (uint32_t bits = 0; bits < 1u << n.bits; bits++) {
      uint16_t element = (uint16_t)bits, back = 0;
      uint8_t byte = (uint8_t)bits;
      double expected = narrow_decode(&n, bits),
             got = tu_to_double(type, n.bits == 8 ? (void *)&byte : (void *)&element);
      bool same = isnan(expected) ? isnan(got) : got == expected && signbit(got) == signbit(expected);
      CHECK(same, "%s %#x is %g, expected %g", tu_datatypes[type].name, bits, got, expected);
      tu_from_double(type, &back, got);
      CHECK(back == (isnan(expected) ? narrow_encode(&n, NAN) : bits), "%s %#x comes back as %#x",
            tu_datatypes[type].name, bits, back);
      uint32_t code = bits & ((1u << (n.bits - 1)) - 1);
      if (code >= codes_end(&n)) continue;
      double middle = copysign((code_value(&n, code) + code_value(&n, code + 1)) / 2, expected);
      const double tries[] = {middle, nextafter(middle, INFINITY), nextafter(middle, -INFINITY)};
      for (int i = 0; i < 3; i++) {
        tu_from_double(type, &back, tries[i]);
        CHECK(back == narrow_encode(&n, tries[i]), "%s of %.17g is %#x, expected %#x", tu_datatypes[type].name,
              tries[i], back, narrow_encode(&n, tries[i]));
      }
      if (test_failures > 10) return;
    }
  }
}

/* Tests conversions of groups of block floats whose bytes were computed by hand. */
static void test_groups_by_hand(void) {
  static const struct {
    float values[GROUP]; /* the other values are zeros */
    uint8_t exponent, bfp8[4], bfp4[2];
  } table[] = {
      {{0}, 0, {0}, {0}},
      {{-0.0f, -0.0f}, 0, {0}, {0}},
      {{1, -1, 0.5f, 1.5f}, 127, {64, 192, 32, 96}, {0xc4, 0x62}},
      /* values in the middle of two numbers are rounded to even */
      {{1, 1 / 64.0f, 1 / 128.0f, 3 / 128.0f}, 127, {64, 1, 0, 2}, {0x04, 0x00}},
      {{-1.99f, -1e-9f, 1.25f, -0.125f},
       127,
       {255, 0, 80, 136},
       {0x0f, 0x05}}, /* 127.36 becomes 127; 7.96 becomes 7, the largest */
      {{96, 1.0f, -2}, 133, {96, 1, 130}, {0x06, 0}},
      {{0x1p-126f, 0x1p-127f, -0x1p-132f, 0x1p-133f}, 1, {64, 32, 129, 0}, {0x24, 0}},
      {{0x1p-127f, 0x1p-149f}, 1, {32, 0}, {2, 0}},
      {{0x1p-149f, -0x1p-140f}, 0, {0}, {0}},
      {{INFINITY, -INFINITY, NAN, 0x1p127f}, 255, {64, 192, 127, 32}, {0xc4, 0x27}},
      {{0x1.fffffep127f, 1}, 254, {127, 0}, {7, 0}},
      {{0x1.fffffep127f, -INFINITY}, 255, {64, 192}, {0xc4, 0}}, /* the first value rounds to 2^128 */
  };
  const char *used = tu_isa_used(), *name;
  for (uint32_t k = 0; (name = tu_isa_name(k)); k++) {
    tu_isa_use(name);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
      uint8_t bfp8[17], bfp4[9], want8[17] = {table[i].exponent}, want4[9] = {table[i].exponent};
      memcpy(want8 + 1, table[i].bfp8, 4);
      memcpy(want4 + 1, table[i].bfp4, 2);
      tu_block_floats_from_f32(TUTTI_BFP8, bfp8, table[i].values, 1);
      tu_block_floats_from_f32(TUTTI_BFP4, bfp4, table[i].values, 1);
      CHECK(memcmp(bfp8, want8, 17) == 0, "row %zu (%s): bfp8 is %u: %u %u %u %u", i, name, bfp8[0], bfp8[1], bfp8[2],
            bfp8[3], bfp8[4]);
      CHECK(memcmp(bfp4, want4, 9) == 0, "row %zu (%s): bfp4 is %u: %x %x", i, name, bfp4[0], bfp4[1], bfp4[2]);
    }
  }
  tu_isa_use(used);
}

/* Tests widening of all pairs of exponent and magnitude bytes, then narrowing of the results, then f32 values of all
 * kinds. */
static void test_groups(void) {
  static const tutti_datatype types[] = {TUTTI_BFP8, TUTTI_BFP4};
  const char *used = tu_isa_used(), *name;
  seed = test_seed();
  for (uint32_t k = 0; (name = tu_isa_name(k)); k++) {
    tu_isa_use(name);
    for (int t = 0; t < 2 && !test_failures; t++)
      for (uint32_t round = 0; round < 256 * 16 + 20000 && !test_failures; round++) {
        uint8_t item[ITEM_MAX], back[ITEM_MAX], want[ITEM_MAX];
        float values[GROUP];
        double exact[GROUP];
        if (round < 256 * 16) {
          item[0] = (uint8_t)(round / 16);
          for (int i = 1; i < ITEM_MAX; i++) item[i] = (uint8_t)(round % 16 * 16 + (uint32_t)i - 1);
          tu_block_floats_to_f32(types[t], values, item, 1);
          for (size_t i = 0; i < GROUP; i++) {
            double want_value = group_read(types[t], item, i);
            bool same = isnan(want_value) ? isnan(values[i])
                                          : values[i] == want_value && !signbit(values[i]) == !signbit(want_value);
            CHECK(same, "%s, exponent %u, element %zu: %g, expected %g", tu_datatypes[types[t]].name, item[0], i,
                  (double)values[i], want_value);
          }
        } else {
          uint32_t centre = below(256), spread = 1 + below(30);
          for (int i = 0; i < GROUP; i++) {
            uint32_t exponent = (centre + below(spread)) % 256, bits = (uint32_t)tu_random(&seed) & 0x807fffff;
            if (below(4) == 0) bits &= 0x807f0000;
            bits |= exponent << 23;
            memcpy(&values[i], &bits, sizeof bits);
          }
        }
        for (int i = 0; i < GROUP; i++) exact[i] = values[i];
        group_write(types[t], want, exact);
        tu_block_floats_from_f32(types[t], back, values, 1);
        CHECK(memcmp(back, want, tu_datatypes[types[t]].bytes) == 0, "%s, round %u (%s): exponent %u, expected %u",
              tu_datatypes[types[t]].name, round, name, back[0], want[0]);
        /* A group of values has only one encoding, so widening and narrowing it again must give the same bytes. */
        tu_block_floats_to_f32(types[t], values, want, 1);
        tu_block_floats_from_f32(types[t], back, values, 1);
        CHECK(memcmp(back, want, tu_datatypes[types[t]].bytes) == 0, "%s, round %u: not the same again",
              tu_datatypes[types[t]].name, round);
      }
  }
  tu_isa_use(used);
}

/* Tests every pair of bytes as bools: each operation is one of and, or, exclusive or, and gives 0 or 1. */
static void test_bools(void) {
  static const struct {
    tutti_op op;
    uint8_t of[4]; /* results for operands false false, false true, true false, true true */
  } table[] = {
      {TUTTI_MIN, {0, 0, 0, 1}},  {TUTTI_PROD, {0, 0, 0, 1}}, {TUTTI_BAND, {0, 0, 0, 1}}, {TUTTI_LAND, {0, 0, 0, 1}},
      {TUTTI_MAX, {0, 1, 1, 1}},  {TUTTI_SUM, {0, 1, 1, 1}},  {TUTTI_BOR, {0, 1, 1, 1}},  {TUTTI_LOR, {0, 1, 1, 1}},
      {TUTTI_BXOR, {0, 1, 1, 0}}, {TUTTI_LXOR, {0, 1, 1, 0}},
  };
  enum { PAIRS = 1 << 16 };
  uint8_t *left = tu_allocate(PAIRS, 1), *right = tu_allocate(PAIRS, 1), *got = tu_allocate(PAIRS, 1);
  for (uint32_t i = 0; i < PAIRS; i++) left[i] = (uint8_t)i, right[i] = (uint8_t)(i >> 8);
  const char *used = tu_isa_used(), *name;
  for (uint32_t k = 0; (name = tu_isa_name(k)); k++)
    for (size_t t = 0; t < sizeof table / sizeof table[0]; t++) {
      const struct tu_arithmetic a = {.type = TUTTI_BOOL, .op = table[t].op};
      const void *const srcs[] = {left, right};
      uint32_t wrong = 0;
      tu_isa_use(name);
      tu_reduce(&a, got, srcs, 2, PAIRS, true);
      for (uint32_t i = 0; i < PAIRS; i++) wrong += got[i] != table[t].of[2 * !!left[i] + !!right[i]];
      CHECK(wrong == 0, "bool %s: %u of %d wrong (%s)", tu_operations[a.op].name, wrong, PAIRS, name);
    }
  tu_isa_use(used);
  free(left), free(right), free(got);
}

static void test_from_double(void) {
  static const struct {
    tutti_datatype type;
    double number, expected;
  } table[] = {
      {TUTTI_I8, 127, 127},
      {TUTTI_I8, 128, -128},
      {TUTTI_I8, -129, 127},
      {TUTTI_U8, -1, 255},
      {TUTTI_U8, 256, 0},
      {TUTTI_I32, 2.5, 2},
      {TUTTI_I32, 3.5, 4},
      {TUTTI_I32, -2.5, -2},
      {TUTTI_U32, 4294967295.0, 4294967295.0},
      {TUTTI_I64, -0x1p63, -0x1p63},
      {TUTTI_I64, 0x1p63, -0x1p63},
      {TUTTI_U64, 0x1p64, 0},
      {TUTTI_U64, 0x1p63, 0x1p63},
      {TUTTI_I16, NAN, 0},
      {TUTTI_U16, INFINITY, 0},
      {TUTTI_F32, 0.1, (double)0.1f},
      {TUTTI_F64, 0.1, 0.1},
      {TUTTI_F32, 1e300, INFINITY},
      {TUTTI_F16, 65519.9, 65504},
      {TUTTI_F16, 65520, INFINITY},
      {TUTTI_F8E4M3, 464, 448},
      {TUTTI_F8E5M2, -1e9, -INFINITY},
      {TUTTI_BF16, 1e300, INFINITY},
      {TUTTI_BF16, 1e-300, 0},
      {TUTTI_BOOL, 0, 0},
      {TUTTI_BOOL, -0.25, 1},
      {TUTTI_BOOL, NAN, 1},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    uint64_t element = 0;
    tu_from_double(table[i].type, &element, table[i].number);
    double got = tu_to_double(table[i].type, &element);
    CHECK(got == table[i].expected, "%s of %g is %g, expected %g", tu_datatypes[table[i].type].name, table[i].number,
          got, table[i].expected);
  }
  uint8_t e4m3;
  tu_from_double(TUTTI_F8E4M3, &e4m3, 464.0001);
  CHECK(isnan(tu_to_double(TUTTI_F8E4M3, &e4m3)), "e4m3 beyond its largest is NaN, got %#x", e4m3);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"all_values", test_all_values}, {"all_values_scaled", test_all_values_scaled},
      {"divide", test_divide},         {"narrow_conversions", test_narrow_conversions},
      {"groups", test_groups},         {"groups_by_hand", test_groups_by_hand},
      {"bools", test_bools},           {"from_double", test_from_double},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
