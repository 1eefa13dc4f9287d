/* kernels_test.c: every kernel against a slow reference that shares nothing with it: integers as 128-bit numbers,
 * narrow floats by searching the list of their values, f32 rounded from double. Bits must be equal, NaN included. */
#include "engine/kernels.h"

#include <math.h>

#include "test.h"

__extension__ typedef __int128 wide; /* holds every integer type, and their sums and products wrapped to 64 bits */

enum { SOURCES_MAX = 9, ELEMENTS_MAX = 3000, GUARD = 64 };

/* ---- the reference: what a value is ------------------------------------------------------------------------------ */

struct narrow {
  int bits, mantissa, bias;
  bool infinite; /* the top exponent is infinity and NaN; otherwise only its last code is NaN */
};

static bool narrow_of(tutti_datatype type, struct narrow *narrow) {
  switch (type) {
    case TUTTI_F16: *narrow = (struct narrow){16, 10, 15, true}; return true;
    case TUTTI_BF16: *narrow = (struct narrow){16, 7, 127, true}; return true;
    case TUTTI_F8E5M2: *narrow = (struct narrow){8, 2, 15, true}; return true;
    case TUTTI_F8E4M3: *narrow = (struct narrow){8, 3, 7, false}; return true;
    default: return false;
  }
}

/* One past the largest finite code without a sign. */
static uint32_t codes_end(const struct narrow *n) {
  return n->infinite ? ((1u << (n->bits - 1)) - (1u << n->mantissa)) : (1u << (n->bits - 1)) - 1;
}

/* Codes from codes_end() on are given the values they would have if the format went on. */
static double code_value(const struct narrow *n, uint32_t code) {
  uint32_t exponent = code >> n->mantissa, fraction = code & ((1u << n->mantissa) - 1);
  if (exponent == 0) return ldexp(fraction, 1 - n->bias - n->mantissa);
  return ldexp(fraction + (1u << n->mantissa), (int)exponent - n->bias - n->mantissa);
}

static double narrow_decode(const struct narrow *n, uint32_t bits) {
  uint32_t code = bits & ((1u << (n->bits - 1)) - 1), end = codes_end(n);
  double magnitude = code < end ? code_value(n, code) : code == end && n->infinite ? INFINITY : NAN;
  return bits >> (n->bits - 1) ? -magnitude : magnitude;
}

static uint32_t narrow_encode(const struct narrow *n, double value) {
  uint32_t end = codes_end(n), sign = signbit(value) ? 1u << (n->bits - 1) : 0;
  uint32_t nan = n->infinite ? end | (1u << (n->mantissa - 1)) : end;
  if (isnan(value)) return nan;
  double magnitude = fabs(value);
  if (magnitude >= code_value(n, end)) return sign | end;
  uint32_t low = 0, high = end; /* low <= magnitude < high */
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    if (code_value(n, middle) <= magnitude) low = middle;
    else high = middle;
  }
  double below = magnitude - code_value(n, low), above = code_value(n, high) - magnitude;
  bool up = below > above || (below == above && (low & 1));
  return sign | (up ? high : low);
}

static wide integer_read(tutti_datatype type, const void *element) {
  switch (type) {
    case TUTTI_I8: return *(const int8_t *)element;
    case TUTTI_U8: return *(const uint8_t *)element;
    case TUTTI_I16: return *(const int16_t *)element;
    case TUTTI_U16: return *(const uint16_t *)element;
    case TUTTI_I32: return *(const int32_t *)element;
    case TUTTI_U32: return *(const uint32_t *)element;
    case TUTTI_I64: return *(const int64_t *)element;
    default: return *(const uint64_t *)element;
  }
}

/* Modulo 2^bits, into the range of the type. */
static wide integer_wrap(tutti_datatype type, wide x) {
  int bits = 8 * tu_datatypes[type].bytes;
  wide modulus = (wide)1 << bits;
  wide wrapped = ((x % modulus) + modulus) % modulus;
  return tu_datatypes[type].is_signed && wrapped >= modulus / 2 ? wrapped - modulus : wrapped;
}

static void integer_write(tutti_datatype type, void *element, wide x) {
  uint64_t bits = (uint64_t)x;
  memcpy(element, &bits, tu_datatypes[type].bytes); /* little-endian, as everything that is tested so far */
}

/* ---- the reference: one step of an operation -------------------------------------------------------------------- */

static wide integer_step(tutti_op op, wide a, wide b) {
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

/* double has more than twice the bits of float: rounding a float operation's double result is rounding it once. */
static double float_round(tutti_datatype type, double x) { return type == TUTTI_F64 ? x : (double)(float)x; }

static double float_step(tutti_op op, double a, double b) {
  if (isnan(a) || isnan(b)) return NAN;
  bool smaller = a < b || (a == b && signbit(a) > signbit(b));
  switch (op) {
    case TUTTI_PROD: return a * b;
    case TUTTI_MIN: return smaller ? a : b;
    case TUTTI_MAX: return smaller ? b : a;
    default: return a + b;
  }
}

static double float_read(tutti_datatype type, const void *element) {
  struct narrow narrow;
  if (type == TUTTI_F32) return *(const float *)element;
  if (type == TUTTI_F64) return *(const double *)element;
  narrow_of(type, &narrow);
  return narrow_decode(&narrow, narrow.bits == 16 ? *(const uint16_t *)element : *(const uint8_t *)element);
}

static void float_write(tutti_datatype type, void *element, double x) {
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

static void reference(const struct tu_arithmetic *a, char *dst, const void *const srcs[], uint32_t source_count,
                      size_t count, bool final) {
  size_t bytes = tu_datatypes[a->type].bytes;
  bool divide = final && a->op == TUTTI_AVG;
  for (size_t i = 0; i < count; i++) {
    const char *first = (const char *)srcs[0] + i * bytes;
    if (source_count == 1 && !divide) {
      memcpy(dst + i * bytes, first, bytes);
    } else if (tu_datatypes[a->type].floating) {
      double x = float_read(a->type, first);
      for (uint32_t s = 1; s < source_count; s++)
        x = float_round(a->type, float_step(a->op, x, float_read(a->type, (const char *)srcs[s] + i * bytes)));
      float_write(a->type, dst + i * bytes, divide ? float_round(a->type, x / a->divisor) : x);
    } else {
      wide x = integer_read(a->type, first);
      for (uint32_t s = 1; s < source_count; s++)
        x = integer_wrap(a->type, integer_step(a->op, x, integer_read(a->type, (const char *)srcs[s] + i * bytes)));
      integer_write(a->type, dst + i * bytes, divide ? x / (wide)a->divisor : x);
    }
  }
}

/* ---- data ------------------------------------------------------------------------------------------------------- */

static uint64_t seed;
static uint32_t below(uint32_t n) { return (uint32_t)(tu_random(&seed) % n); }

/* Any bits, ordinary numbers, and the corners: zeros, infinities, NaNs of all kinds, subnormals, extremes. */
static void fill(tutti_datatype type, void *elements, size_t count) {
  static const double corners[] = {0.0,   -0.0,  1,         -1,    INFINITY, -INFINITY,   448,    464,
                                   65504, 65520, 3.3895e38, 1e-45, 6e-8,     1e-40,       5e-324, 1.7e308,
                                   127,   128,   -128,      255,   32767,    2147483648.0};
  size_t bytes = tu_datatypes[type].bytes;
  uint32_t flavour = below(4);
  for (size_t i = 0; i < count; i++) {
    char *element = (char *)elements + i * bytes;
    uint64_t bits = tu_random(&seed);
    double value = flavour == 2 ? corners[below(sizeof corners / sizeof corners[0])] : (double)below(2001) / 8 - 125;
    if (flavour == 0 || (flavour == 3 && below(2))) memcpy(element, &bits, bytes);
    else if (tu_datatypes[type].floating) float_write(type, element, value);
    else integer_write(type, element, (wide)(isfinite(value) && fabs(value) < 1e15 ? value : -1));
  }
}

static bool combines(tutti_datatype type, tutti_op op) {
  return !(tu_datatypes[type].floating && tu_operations[op].integers_only);
}

struct buffers {
  char *sources[SOURCES_MAX];
  char *dst, *expected, *copy;
};
static struct buffers buffers;

/* Room for the elements, for starting some elements later, and for guards on both sides. */
static void buffers_make(void) {
  const size_t bytes = ELEMENTS_MAX * 8 + 2 * GUARD + 8 * 8;
  for (int s = 0; s < SOURCES_MAX; s++) buffers.sources[s] = tu_allocate(bytes, 1);
  buffers.dst = tu_allocate(bytes, 1);
  buffers.expected = tu_allocate(bytes, 1);
  buffers.copy = tu_allocate(bytes, 1);
}
static void buffers_free(void) {
  for (int s = 0; s < SOURCES_MAX; s++) free(buffers.sources[s]);
  free(buffers.dst);
  free(buffers.expected);
  free(buffers.copy);
}

/* Runs one reduction, dst being source `alias` if that is one, and compares it with the reference and with itself in
 * pieces. */
static void compare(const struct tu_arithmetic *a, uint32_t source_count, uint32_t alias, size_t count, bool final) {
  size_t bytes = tu_datatypes[a->type].bytes, total = count * bytes;
  const void *srcs[SOURCES_MAX];
  for (uint32_t s = 0; s < source_count; s++) {
    char *source = buffers.sources[s] + GUARD + below(8) * bytes;
    fill(a->type, source, count);
    srcs[s] = source;
  }
  char *dst = buffers.dst + GUARD + below(8) * bytes;
  if (alias < source_count) dst = buffers.sources[alias] + ((const char *)srcs[alias] - buffers.sources[alias]);
  if (alias < source_count && below(4) == 0) srcs[below(source_count)] = dst; /* one array as two operands */
  memset(dst - GUARD, 0x5a, GUARD);
  memset(dst + total, 0x5a, GUARD);
  reference(a, buffers.expected, srcs, source_count, count, final);
  memcpy(buffers.copy, dst, total);
  tu_reduce(a, dst, srcs, source_count, count, final);
  if (memcmp(dst, buffers.expected, total) != 0) {
    size_t i = 0;
    while (memcmp(dst + i * bytes, buffers.expected + i * bytes, bytes) == 0) i++;
    FAIL("%s %s, %u sources, alias %u, element %zu of %zu, final %d: %g, expected %g", tu_datatypes[a->type].name,
         tu_operations[a->op].name, source_count, alias, i, count, final, tu_to_double(a->type, dst + i * bytes),
         tu_to_double(a->type, buffers.expected + i * bytes));
  }
  for (int i = 1; i <= GUARD; i++)
    if (dst[-i] != 0x5a || dst[total + (size_t)i - 1] != 0x5a) {
      FAIL("%s %s wrote outside its %zu elements", tu_datatypes[a->type].name, tu_operations[a->op].name, count);
      break;
    }
  memcpy(dst, buffers.copy, total);
  for (size_t at = 0; at < count;) {
    size_t length = tu_min(count - at, 1 + below((uint32_t)count));
    const void *parts[SOURCES_MAX];
    for (uint32_t s = 0; s < source_count; s++) parts[s] = (const char *)srcs[s] + at * bytes;
    tu_reduce(a, dst + at * bytes, parts, source_count, length, final);
    at += length;
  }
  CHECK(memcmp(dst, buffers.expected, total) == 0, "%s %s, %u sources, %zu elements: differs when cut",
        tu_datatypes[a->type].name, tu_operations[a->op].name, source_count, count);
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

static void test_reduce(void) {
  static const uint32_t divisors[] = {1, 2, 3, 4, 7, 64, 200, 100000};
  seed = test_seed();
  buffers_make();
  for (tutti_datatype type = 0; type < TUTTI_DATATYPES && !test_failures; type++)
    for (tutti_op op = 0; op < TUTTI_OPS && !test_failures; op++) {
      if (!combines(type, op)) continue;
      for (size_t count = 0; count <= 70 && !test_failures; count++)
        for (uint32_t sources = 1; sources <= SOURCES_MAX && !test_failures; sources++) {
          struct tu_arithmetic a = {.type = type, .op = op, .divisor = divisors[below(8)]};
          compare(&a, sources, below(2 * sources), count, below(2) || (op == TUTTI_AVG && below(2)));
        }
    }
  buffers_free();
}

/* Lengths beside the sizes of the blocks, for every source as dst. */
static void test_reduce_blocks(void) {
  static const size_t counts[] = {511, 512, 513, 1023, 1024, 1025, 2048, 2999};
  static const tutti_op ops[] = {TUTTI_SUM, TUTTI_MIN, TUTTI_AVG, TUTTI_PROD};
  seed = test_seed();
  buffers_make();
  for (tutti_datatype type = 0; type < TUTTI_DATATYPES && !test_failures; type++)
    for (uint32_t sources = 2; sources <= 5 && !test_failures; sources++)
      for (uint32_t alias = 0; alias <= sources && !test_failures; alias++) {
        struct tu_arithmetic a = {.type = type, .op = ops[below(4)], .divisor = 5};
        compare(&a, sources, alias, counts[below(8)], below(2));
      }
  buffers_free();
}

static void test_scale(void) {
  static const double float_scales[] = {0.25, -3, 0.1, 1e-3, 0, 1e30, INFINITY};
  static const double signed_scales[] = {0, 1, -1, 3, -128, 127};
  static const double unsigned_scales[] = {0, 1, 2, 255};
  seed = test_seed();
  char source[8 * 1600], scaled[8 * 1600], expected[8];
  for (tutti_datatype type = 0; type < TUTTI_DATATYPES; type++)
    for (size_t count = 0; count < 1600; count = count < 70 ? count + 1 : count * 2) {
      const struct tu_datatype *t = &tu_datatypes[type];
      struct tu_arithmetic a = {.type = type, .op = TUTTI_PREMUL_SUM};
      a.scale = t->floating    ? float_scales[below(7)]
                : t->is_signed ? signed_scales[below(6)]
                               : unsigned_scales[below(4)];
      CHECK(tu_arithmetic_check(&a, NULL) == TUTTI_OK, "%s: scale %g refused", t->name, a.scale);
      fill(type, source, count);
      memcpy(scaled, source, count * t->bytes);
      tu_scale(&a, scaled, below(2) ? scaled : source, count);
      for (size_t i = 0; i < count; i++) {
        double factor = float_round(type, a.scale);
        const char *x = source + i * t->bytes;
        if (t->floating)
          float_write(type, expected, float_round(type, float_step(TUTTI_PROD, float_read(type, x), factor)));
        else integer_write(type, expected, integer_read(type, x) * (wide)a.scale);
        if (memcmp(scaled + i * t->bytes, expected, t->bytes) == 0) continue;
        FAIL("%s times %g: %g, expected %g", t->name, a.scale, tu_to_double(type, scaled + i * t->bytes),
             tu_to_double(type, expected));
        return;
      }
    }
}

/* All bit patterns, and for each the middle to the next value and what lies just beside that middle. */
static void test_narrow_conversions(void) {
  static const tutti_datatype types[] = {TUTTI_F16, TUTTI_BF16, TUTTI_F8E4M3, TUTTI_F8E5M2};
  for (int t = 0; t < 4; t++) {
    tutti_datatype type = types[t];
    struct narrow n;
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

/* Not associative on purpose: shows every grouping but the left one. */
struct calls {
  uint32_t count;
  bool overlap;
};
static void chain(void *result, const void *left, const void *right, size_t count, tutti_datatype type, void *context) {
  struct calls *calls = context;
  uintptr_t r = (uintptr_t)result, l = (uintptr_t)left, q = (uintptr_t)right, bytes = count * sizeof(uint16_t);
  if ((r != l && r < l + bytes && l < r + bytes) || (r != q && r < q + bytes && q < r + bytes)) calls->overlap = true;
  calls->count++;
  CHECK(type == TUTTI_U16, "type %d given to the function", (int)type);
  for (size_t i = 0; i < count; i++)
    ((uint16_t *)result)[i] = (uint16_t)(((const uint16_t *)left)[i] * 31u + ((const uint16_t *)right)[i]);
}

static void test_user_operation(void) {
  static uint16_t sources[6][5000], dst[5000], expected[5000];
  struct calls calls;
  const struct tu_user_op op = {.function = chain, .context = &calls, .name = "chain"};
  const struct tu_arithmetic a = {.type = TUTTI_U16, .user = &op, .op = TUTTI_AVG, .divisor = 2};
  seed = test_seed();
  for (uint32_t n = 1; n <= 6; n++)
    for (uint32_t alias = 0; alias <= n; alias++)
      for (int twice = 0; twice < 2; twice++) {
        size_t count = below(2) ? 5000 : below(70);
        const void *srcs[6];
        for (uint32_t s = 0; s < n; s++) {
          fill(TUTTI_U16, sources[s], count);
          srcs[s] = sources[s];
        }
        uint16_t *target = alias < n ? sources[alias] : dst;
        if (twice && alias < n) srcs[0] = target;
        for (size_t i = 0; i < count; i++) {
          expected[i] = ((const uint16_t *)srcs[0])[i];
          for (uint32_t s = 1; s < n; s++) expected[i] = (uint16_t)(expected[i] * 31u + ((const uint16_t *)srcs[s])[i]);
        }
        calls = (struct calls){0};
        tu_reduce(&a, target, srcs, n, count, true);
        CHECK(memcmp(target, expected, count * sizeof(uint16_t)) == 0, "%u sources, alias %u, %zu elements: wrong", n,
              alias, count);
        CHECK(!calls.overlap, "%u sources, alias %u: the function was given overlapping arrays", n, alias);
        if (alias <= 1 && count > 0) CHECK(calls.count == n - 1, "%u sources in %u calls", n, calls.count);
      }
}

static void test_check(void) {
  const struct tu_user_op none = {.name = "none"};
  const struct {
    struct tu_arithmetic a;
    const char *part; /* of the sentence; NULL: good */
  } table[] = {
      {{.type = TUTTI_F32, .op = TUTTI_SUM}, NULL},
      {{.type = TUTTI_F32, .op = TUTTI_BAND}, "band takes integers only"},
      {{.type = TUTTI_F8E4M3, .op = TUTTI_LXOR}, "f8e4m3"},
      {{.type = TUTTI_U8, .op = TUTTI_LXOR}, NULL},
      {{.type = TUTTI_DATATYPES, .op = TUTTI_SUM}, "data type 14 is unknown"},
      {{.type = TUTTI_I32, .op = TUTTI_OPS}, "operation 12 is unknown"},
      {{.type = TUTTI_I32, .op = 1000, .user = &none}, "has no function"},
      {{.type = TUTTI_U8, .op = TUTTI_PREMUL_SUM, .scale = 255}, NULL},
      {{.type = TUTTI_U8, .op = TUTTI_PREMUL_SUM, .scale = 256}, "premul_sum over u8"},
      {{.type = TUTTI_U8, .op = TUTTI_PREMUL_SUM, .scale = -1}, "got -1"},
      {{.type = TUTTI_I64, .op = TUTTI_PREMUL_SUM, .scale = -0x1p63}, NULL},
      {{.type = TUTTI_I64, .op = TUTTI_PREMUL_SUM, .scale = 0x1p63}, "whole number"},
      {{.type = TUTTI_I32, .op = TUTTI_PREMUL_SUM, .scale = 0.5}, "got 0.5"},
      {{.type = TUTTI_I32, .op = TUTTI_PREMUL_SUM, .scale = NAN}, "premul_sum"},
      {{.type = TUTTI_BF16, .op = TUTTI_PREMUL_SUM, .scale = 0.5}, NULL},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct tu_error error = {0};
    tutti_err err = tu_arithmetic_check(&table[i].a, &error);
    CHECK(err == (table[i].part ? TUTTI_ERR_ARGUMENT : TUTTI_OK), "entry %zu: %s", i, tutti_err_name(err));
    CHECK(!table[i].part || strstr(error.text, table[i].part), "entry %zu: '%s'", i, error.text);
  }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"reduce", test_reduce},
      {"reduce_blocks", test_reduce_blocks},
      {"scale", test_scale},
      {"narrow_conversions", test_narrow_conversions},
      {"from_double", test_from_double},
      {"user_operation", test_user_operation},
      {"check", test_check},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
