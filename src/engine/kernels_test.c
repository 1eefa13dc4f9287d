/* kernels_test.c: every kernel against a slow reference that shares nothing with it: integers as 128-bit numbers,
 * narrow floats by searching the list of their values, block floats by their definition, f32 rounded from double. Bits
 * must be equal, NaN included. */
/* test: timeout=180 */
#include "engine/kernels.h"

#include <math.h>

#include "test.h"

__extension__ typedef __int128 wide; /* holds every integer type, and their sums and products wrapped to 64 bits */

enum { SOURCES_MAX = 9, ELEMENTS_MAX = 3000, GUARD = 64, ITEM_MAX = 17, GROUP = 16 };

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

/* code_value of all codes of the format that was asked for last: computing them is what takes time. */
static const double *code_values(const struct narrow *n) {
  static double values[1 << 15];
  static struct narrow known;
  if (memcmp(&known, n, sizeof known) != 0) {
    for (uint32_t code = 0; code <= codes_end(n); code++) values[code] = code_value(n, code);
    known = *n;
  }
  return values;
}

static uint32_t narrow_encode(const struct narrow *n, double value) {
  uint32_t end = codes_end(n), sign = signbit(value) ? 1u << (n->bits - 1) : 0;
  uint32_t nan = n->infinite ? end | (1u << (n->mantissa - 1)) : end;
  if (isnan(value)) return nan;
  const double *values = code_values(n);
  double magnitude = fabs(value);
  if (magnitude >= values[end]) return sign | end;
  uint32_t low = 0, high = end; /* low <= magnitude < high */
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

static bool is_grouped(tutti_datatype type) { return type == TUTTI_BFP8 || type == TUTTI_BFP4; }
static int group_bits(tutti_datatype type) { return type == TUTTI_BFP8 ? 7 : 3; }

static double group_read(tutti_datatype type, const void *item, size_t i) {
  const uint8_t *bytes = item;
  int bits = group_bits(type), exponent = bytes[0];
  uint32_t code = bits == 7 ? bytes[1 + i] : ((uint32_t)bytes[1 + i / 2] >> (i % 2 ? 4 : 0)) & 15u,
           most = (1u << bits) - 1;
  double value = ldexp(code & most, exponent - 126 - bits);
  if (exponent == 255 && (code & most) == most) return NAN;
  if (value >= 0x1p128) value = INFINITY;
  return code > most ? -value : value;
}

static void group_write(tutti_datatype type, void *item, const double values[GROUP]) {
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

/* Elements may lie at any address. */
static uint64_t bits_of(tutti_datatype type, const void *element) {
  uint64_t bits = 0;
  memcpy(&bits, element, tu_datatypes[type].bytes); /* little-endian, as everything that is tested so far */
  return bits;
}

static wide integer_read(tutti_datatype type, const void *element) {
  uint64_t bits = bits_of(type, element);
  switch (type) {
    case TUTTI_I8: return (int8_t)bits;
    case TUTTI_I16: return (int16_t)bits;
    case TUTTI_I32: return (int32_t)bits;
    case TUTTI_I64: return (int64_t)bits;
    default: return bits;
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
  memcpy(element, &bits, tu_datatypes[type].bytes);
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
  if (narrow_of(type, &narrow)) return narrow_decode(&narrow, (uint32_t)bits_of(type, element));
  float single;
  double number;
  if (type == TUTTI_F64) return memcpy(&number, element, sizeof number), number;
  return memcpy(&single, element, sizeof single), single;
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

static void group_reference(const struct tu_arithmetic *a, char *dst, const void *const srcs[], uint32_t source_count,
                            size_t at, bool divide) {
  double x[GROUP];
  for (size_t i = 0; i < GROUP; i++) {
    x[i] = group_read(a->type, (const char *)srcs[0] + at, i);
    for (uint32_t s = 1; s < source_count; s++)
      x[i] = float_round(a->type, float_step(a->op, x[i], group_read(a->type, (const char *)srcs[s] + at, i)));
    if (divide) x[i] = float_round(a->type, x[i] / a->divisor);
  }
  group_write(a->type, dst + at, x);
}

static void reference(const struct tu_arithmetic *a, char *dst, const void *const srcs[], uint32_t source_count,
                      size_t count, bool final) {
  size_t bytes = tu_datatypes[a->type].bytes;
  bool divide = final && a->op == TUTTI_AVG;
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
        x = integer_wrap(a->type, integer_step(a->op, x, integer_read(a->type, (const char *)srcs[s] + i * bytes)));
      integer_write(a->type, dst + i * bytes, divide ? x / (wide)a->divisor : x);
    }
  }
}

/* ---- data ------------------------------------------------------------------------------------------------------- */

static uint64_t seed;
static uint32_t below(uint32_t n) { return (uint32_t)(tu_random(&seed) % n); }

static void fill_group(tutti_datatype type, char *item, const double *corners, uint32_t corner_count,
                       uint32_t flavour) {
  double values[GROUP];
  for (int i = 0; i < GROUP; i++) {
    values[i] = flavour == 2 ? corners[below(corner_count)] : (double)below(2001) / 8 - 125;
    values[i] = (double)(float)(flavour == 3 ? ldexp(values[i], -(int)below(20)) : values[i]);
  }
  group_write(type, item, values);
  for (int i = 0; i < tu_datatypes[type].bytes && flavour == 0; i++) item[i] = (char)tu_random(&seed);
}

/* Any bits, ordinary numbers, and the corners: zeros, infinities, NaNs of all kinds, subnormals, extremes. */
static void fill(tutti_datatype type, void *elements, size_t count) {
  static const double corners[] = {0.0,   -0.0,  1,         -1,    INFINITY, -INFINITY,   448,    464,
                                   65504, 65520, 3.3895e38, 1e-45, 6e-8,     1e-40,       5e-324, 1.7e308,
                                   127,   128,   -128,      255,   32767,    2147483648.0};
  size_t bytes = tu_datatypes[type].bytes;
  uint32_t flavour = below(4);
  for (size_t i = 0; i < count; i++) {
    char *element = (char *)elements + i * bytes;
    if (is_grouped(type)) {
      fill_group(type, element, corners, sizeof corners / sizeof corners[0], flavour);
      continue;
    }
    uint64_t bits = tu_random(&seed);
    double value = flavour == 2 ? corners[below(sizeof corners / sizeof corners[0])] : (double)below(2001) / 8 - 125;
    if (flavour == 0 || (flavour == 3 && below(2))) memcpy(element, &bits, bytes);
    else if (tu_datatypes[type].floating) float_write(type, element, value);
    else integer_write(type, element, (wide)(isfinite(value) && fabs(value) < 1e15 ? value : -1));
  }
}

/* For a sentence. */
static double shown(tutti_datatype type, const void *item) {
  return is_grouped(type) ? group_read(type, item, 0) : tu_to_double(type, item);
}

static bool combines(tutti_datatype type, tutti_op op) {
  return !(tu_datatypes[type].floating && tu_operations[op].integers_only);
}

struct buffers {
  char *sources[SOURCES_MAX];
  char *dst, *expected, *copy;
};
static struct buffers buffers;

/* Where an array begins: some elements later, and every other time at any byte. */
static size_t somewhere(size_t bytes) { return below(8) * bytes + (below(2) ? below((uint32_t)bytes) : 0); }

/* Room for the elements, for starting that much later, and for guards on both sides. */
static void buffers_make(void) {
  const size_t bytes = (ELEMENTS_MAX + 8) * ITEM_MAX + 2 * GUARD;
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
    char *source = buffers.sources[s] + GUARD + somewhere(bytes);
    fill(a->type, source, count);
    srcs[s] = source;
  }
  char *dst = buffers.dst + GUARD + somewhere(bytes);
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
         tu_operations[a->op].name, source_count, alias, i, count, final, shown(a->type, dst + i * bytes),
         shown(a->type, buffers.expected + i * bytes));
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

/* With each instruction set of this machine. */
static void with_each_isa(void (*body)(void)) {
  const char *used = tu_isa_used(), *name;
  seed = test_seed();
  buffers_make();
  for (uint32_t i = 0; (name = tu_isa_name(i)) && !test_failures; i++) {
    CHECK(tu_isa_use(name) && strcmp(tu_isa_used(), name) == 0, "%s is not in use", name);
    body();
    if (test_failures) printf("  with the instruction set %s\n", name);
  }
  tu_isa_use(used);
  buffers_free();
}

static const uint32_t divisors[] = {1, 2, 3, 4, 7, 64, 200, 100000};

static void reduce_all(void) {
  for (tutti_datatype type = 0; type < TUTTI_DATATYPES && !test_failures; type++)
    for (tutti_op op = 0; op < TUTTI_OPS && !test_failures; op++) {
      if (!combines(type, op)) continue;
      for (size_t count = 0; count <= 130 && !test_failures; count++)
        for (int round = 0; round < 2 && !test_failures; round++) {
          struct tu_arithmetic a = {.type = type, .op = op, .divisor = divisors[below(8)]};
          uint32_t some = round ? 1 + below(SOURCES_MAX) : 2;
          compare(&a, some, below(2 * some), count, below(2) || (op == TUTTI_AVG && below(2)));
        }
    }
}
static void test_reduce(void) { with_each_isa(reduce_all); }

/* Lengths beside the sizes of the blocks, for every source as dst. */
static void reduce_blocks(void) {
  static const size_t counts[] = {511, 512, 513, 1023, 1024, 1025, 2048, 2999};
  static const tutti_op ops[] = {TUTTI_SUM, TUTTI_MIN, TUTTI_AVG, TUTTI_PROD};
  for (tutti_datatype type = 0; type < TUTTI_DATATYPES && !test_failures; type++)
    for (uint32_t sources = 2; sources <= 5 && !test_failures; sources++)
      for (uint32_t alias = 0; alias <= sources && !test_failures; alias++) {
        struct tu_arithmetic a = {.type = type, .op = ops[below(4)], .divisor = 5};
        compare(&a, sources, alias, counts[below(8)], below(2));
      }
}
static void test_reduce_blocks(void) { with_each_isa(reduce_blocks); }

/* Into one to four targets, with ordinary stores and past the caches, from and to anywhere; the first may be a source. */
static void reduce_into(void) {
  static const size_t counts[] = {0, 1, 7, 31, 63, 64, 65, 128, 130, 511, 1025, 2048};
  enum { TARGETS = 4 };
  char *blocks[TARGETS], *dsts[TARGETS];
  const size_t room = 2100 * ITEM_MAX + 2 * GUARD;
  for (int d = 0; d < TARGETS; d++) blocks[d] = tu_allocate(room, 1);
  for (tutti_datatype type = 0; type < TUTTI_DATATYPES; type++)
    for (int round = 0; round < 200 && !test_failures; round++) {
      struct tu_arithmetic a = {.type = type, .op = TUTTI_SUM, .divisor = divisors[below(8)]};
      if (round % 3 == 0) a.op = (tutti_op)below(TUTTI_OPS);
      if (!combines(type, a.op)) continue;
      size_t bytes = tu_datatypes[type].bytes, count = counts[below(12)], total = count * bytes;
      uint32_t sources = round % 2 ? 2 : 1 + below(5), targets = 1 + below(TARGETS);
      enum tu_past past = (enum tu_past)below(4);
      bool final = below(2), same_lines = below(2);
      size_t first = (below(64) * bytes + somewhere(bytes)) % TU_LINE_BYTES;
      const void *srcs[SOURCES_MAX];
      for (uint32_t s = 0; s < sources; s++) {
        srcs[s] = buffers.sources[s] + GUARD + somewhere(bytes);
        fill(type, buffers.sources[s] + ((const char *)srcs[s] - buffers.sources[s]), count);
      }
      for (uint32_t d = 0; d < targets; d++) {
        memset(blocks[d], 0x5a, room);
        char *line = blocks[d] + GUARD + -(uintptr_t)blocks[d] % TU_LINE_BYTES;
        dsts[d] = line + (same_lines ? first : (below(64) * bytes + somewhere(bytes)) % TU_LINE_BYTES);
      }
      uint32_t alias = below(2 * sources);
      if (alias < sources) {
        memcpy(dsts[0], srcs[alias], total);
        srcs[alias] = dsts[0];
      }
      reference(&a, buffers.expected, srcs, sources, count, final);
      tu_reduce_into(&a, (void *const *)dsts, targets, past, srcs, sources, count, final);
      for (uint32_t d = 0; d < targets; d++) {
        CHECK(memcmp(dsts[d], buffers.expected, total) == 0,
              "%s %s, %u sources, %zu elements, target %u of %u%s: wrong", tu_datatypes[type].name,
              tu_operations[a.op].name, sources, count, d, targets, past ? ", past the caches" : "");
        bool kept = true;
        for (char *c = blocks[d]; c < blocks[d] + room; c++)
          kept &= (c >= dsts[d] && c < dsts[d] + total) || *c == 0x5a;
        CHECK(kept, "%s, %zu elements, target %u: wrote outside", tu_datatypes[type].name, count, d);
      }
    }
  for (int d = 0; d < TARGETS; d++) free(blocks[d]);
}
static void test_reduce_into(void) { with_each_isa(reduce_into); }

/* ---- all values ---- */

/* Every code of a narrow float as one operand, and what is special (zeros, subnormals, the largest, infinities, NaNs) as
 * the other; f8 has few enough for all pairs. */
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

/* Every f16, bf16 and f8 through widening and narrowing: a scale of 1 changes NaNs alone. */
static void test_all_values_scaled(void) {
  static const tutti_datatype types[] = {TUTTI_F16, TUTTI_BF16, TUTTI_F8E4M3, TUTTI_F8E5M2};
  const char *used = tu_isa_used(), *name;
  for (uint32_t i = 0; (name = tu_isa_name(i)); i++)
    for (int t = 0; t < 4; t++) {
      struct narrow n;
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

/* Division of integers goes by way of floats: all 16-bit values by many divisors, corners of the wider ones. */
static void test_divide(void) {
  static const uint32_t by[] = {1,   2,   3,     5,     7,     127,   128,      255,
                                256, 257, 32767, 32768, 65535, 65536, 16777217, 4294967295u};
  const char *used = tu_isa_used(), *name;
  for (uint32_t i = 0; (name = tu_isa_name(i)); i++)
    for (tutti_datatype type = TUTTI_I8; type < TUTTI_DATATYPES; type++)
      for (uint32_t d = 0; d < sizeof by / sizeof by[0] && !tu_datatypes[type].floating; d++) {
        const struct tu_arithmetic a = {.type = type, .op = TUTTI_AVG, .divisor = by[d]};
        const size_t bytes = tu_datatypes[type].bytes;
        tu_isa_use(name);
        for (uint32_t high = 0; high < 3 && !test_failures; high++) {
          static uint64_t elements[1 << 16], got[1 << 16], expected[1 << 16];
          for (uint32_t k = 0; k < 1 << 16; k++) {
            /* Around multiples of the divisor, where a quotient that is rounded up shows. */
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

static void test_isa(void) {
  struct tu_error error = {0};
  const char *used = tu_isa_used();
  CHECK(strcmp(tu_isa_name(0), "plain") == 0, "the first is %s", tu_isa_name(0));
  CHECK(!tu_isa_use("mmx") && strcmp(tu_isa_used(), used) == 0, "there is no mmx, and %s is used", tu_isa_used());
  setenv("TUTTI_ISA", "plain", 1);
  CHECK(tu_isa_check(&error) == TUTTI_OK, "plain: '%s'", error.text);
  setenv("TUTTI_ISA", "avx3", 1);
  CHECK(tu_isa_check(&error) == TUTTI_ERR_ENVIRONMENT, "avx3 was taken");
  CHECK(strstr(error.text, "TUTTI_ISA is 'avx3'; expected") && strstr(error.text, "plain"), "'%s'", error.text);
  unsetenv("TUTTI_ISA");
  CHECK(tu_isa_check(&error) == TUTTI_OK, "nothing set: '%s'", error.text);
}

static void scale_all(void) {
  static const double float_scales[] = {0.25, -3, 0.1, 1e-3, 0, 1e30, INFINITY};
  static const double signed_scales[] = {0, 1, -1, 3, -128, 127};
  static const double unsigned_scales[] = {0, 1, 2, 255};
  char sources[ITEM_MAX * 1610], scaled_ones[ITEM_MAX * 1610], expected[ITEM_MAX];
  for (tutti_datatype type = 0; type < TUTTI_DATATYPES; type++)
    for (size_t count = 0; count < 1600; count = count < 70 ? count + 1 : count * 2) {
      const struct tu_datatype *t = &tu_datatypes[type];
      struct tu_arithmetic a = {.type = type, .op = TUTTI_PREMUL_SUM};
      char *source = sources + somewhere(t->bytes), *scaled = scaled_ones + somewhere(t->bytes);
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
        double values[GROUP];
        for (size_t k = 0; k < GROUP && is_grouped(type); k++)
          values[k] = float_round(type, float_step(TUTTI_PROD, group_read(type, x, k), factor));
        if (is_grouped(type)) group_write(type, expected, values);
        else if (t->floating)
          float_write(type, expected, float_round(type, float_step(TUTTI_PROD, float_read(type, x), factor)));
        else integer_write(type, expected, integer_read(type, x) * (wide)a.scale);
        if (memcmp(scaled + i * t->bytes, expected, t->bytes) == 0) continue;
        FAIL("%s times %g: %g, expected %g", t->name, a.scale, shown(type, scaled + i * t->bytes),
             shown(type, expected));
        return;
      }
    }
}
static void test_scale(void) { with_each_isa(scale_all); }

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

/* Groups whose bytes were worked out by hand. */
static void test_groups_by_hand(void) {
  static const struct {
    float values[GROUP]; /* the rest are zeros */
    uint8_t exponent, bfp8[4], bfp4[2];
  } table[] = {
      {{0}, 0, {0}, {0}},
      {{-0.0f, -0.0f}, 0, {0}, {0}},
      {{1, -1, 0.5f, 1.5f}, 127, {64, 192, 32, 96}, {0xc4, 0x62}},
      {{1, 1 / 64.0f, 1 / 128.0f, 3 / 128.0f}, 127, {64, 1, 0, 2}, {0x04, 0x00}}, /* ties go to even */
      {{-1.99f, -1e-9f, 1.25f, -0.125f}, 127, {255, 0, 80, 136}, {0x0f, 0x05}},   /* 127.36, and 7.96: not up to 8 */
      {{96, 1.0f, -2}, 133, {96, 1, 130}, {0x06, 0}},
      {{0x1p-126f, 0x1p-127f, -0x1p-132f, 0x1p-133f}, 1, {64, 32, 129, 0}, {0x24, 0}},
      {{0x1p-127f, 0x1p-149f}, 1, {32, 0}, {2, 0}},
      {{0x1p-149f, -0x1p-140f}, 0, {0}, {0}},
      {{INFINITY, -INFINITY, NAN, 0x1p127f}, 255, {64, 192, 127, 32}, {0xc4, 0x27}},
      {{0x1.fffffep127f, 1}, 254, {127, 0}, {7, 0}},
      {{0x1.fffffep127f, -INFINITY}, 255, {64, 192}, {0xc4, 0}}, /* rounds to 2^128 there */
  };
  const char *used = tu_isa_used(), *name;
  for (uint32_t k = 0; (name = tu_isa_name(k)); k++) {
    tu_isa_use(name);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
      uint8_t bfp8[17], bfp4[9], want8[17] = {table[i].exponent}, want4[9] = {table[i].exponent};
      memcpy(want8 + 1, table[i].bfp8, 4);
      memcpy(want4 + 1, table[i].bfp4, 2);
      tu_groups_from_f32(TUTTI_BFP8, bfp8, table[i].values, 1);
      tu_groups_from_f32(TUTTI_BFP4, bfp4, table[i].values, 1);
      CHECK(memcmp(bfp8, want8, 17) == 0, "row %zu (%s): bfp8 is %u: %u %u %u %u", i, name, bfp8[0], bfp8[1], bfp8[2],
            bfp8[3], bfp8[4]);
      CHECK(memcmp(bfp4, want4, 9) == 0, "row %zu (%s): bfp4 is %u: %x %x", i, name, bfp4[0], bfp4[1], bfp4[2]);
    }
  }
  tu_isa_use(used);
}

/* To f32 all that a byte of exponent and one of magnitude can be, and back what came of it; then f32 of all kinds. */
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
          tu_groups_to_f32(types[t], values, item, 1);
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
        tu_groups_from_f32(types[t], back, values, 1);
        CHECK(memcmp(back, want, tu_datatypes[types[t]].bytes) == 0, "%s, round %u (%s): exponent %u, expected %u",
              tu_datatypes[types[t]].name, round, name, back[0], want[0]);
        /* One group of values has one form. */
        tu_groups_to_f32(types[t], values, want, 1);
        tu_groups_from_f32(types[t], back, values, 1);
        CHECK(memcmp(back, want, tu_datatypes[types[t]].bytes) == 0, "%s, round %u: not the same again",
              tu_datatypes[types[t]].name, round);
      }
  }
  tu_isa_use(used);
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
  bool overlap, crooked; /* operands that lap over each other; that are not aligned */
};
static void chain(void *result, const void *left, const void *right, size_t count, tutti_datatype type, void *context) {
  struct calls *calls = context;
  uintptr_t r = (uintptr_t)result, l = (uintptr_t)left, q = (uintptr_t)right, bytes = count * sizeof(uint16_t);
  if ((r != l && r < l + bytes && l < r + bytes) || (r != q && r < q + bytes && q < r + bytes)) calls->overlap = true;
  calls->crooked |= (r | l | q) % sizeof(uint16_t) != 0;
  if (calls->crooked) return;
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

/* A user's function counts on operands that are aligned to their element, wherever those of the call begin. */
static void test_user_operation_anywhere(void) {
  enum { COUNT = 5000 };
  static unsigned char memory[3][2 * COUNT + 1], expected[2 * COUNT];
  struct calls calls = {0};
  const struct tu_user_op op = {.function = chain, .context = &calls, .name = "chain"};
  const struct tu_arithmetic a = {.type = TUTTI_U16, .user = &op};
  seed = test_seed();
  for (int places = 0; places < 8; places++)
    for (int alias = 0; alias < 3; alias++) {
      unsigned char *srcs[2] = {memory[0] + (places & 1), memory[1] + (places >> 1 & 1)};
      unsigned char *dst = alias < 2 ? srcs[alias] : memory[2] + (places >> 2);
      for (int s = 0; s < 2; s++) fill(TUTTI_U16, srcs[s], COUNT);
      for (size_t i = 0; i < sizeof expected; i += 2)
        integer_write(TUTTI_U16, expected + i,
                      integer_read(TUTTI_U16, srcs[0] + i) * 31 + integer_read(TUTTI_U16, srcs[1] + i));
      tu_reduce(&a, dst, (const void *const[]){srcs[0], srcs[1]}, 2, COUNT, true);
      CHECK(memcmp(dst, expected, sizeof expected) == 0, "places %d, alias %d: wrong", places, alias);
      CHECK(!calls.overlap && !calls.crooked, "places %d, alias %d: the function was given %s", places, alias,
            calls.crooked ? "operands that are not aligned" : "operands that overlap");
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
      {{.type = TUTTI_DATATYPES, .op = TUTTI_SUM}, "data type 16 is unknown"},
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
      {"reduce_into", test_reduce_into},
      {"all_values", test_all_values},
      {"all_values_scaled", test_all_values_scaled},
      {"divide", test_divide},
      {"isa", test_isa},
      {"scale", test_scale},
      {"narrow_conversions", test_narrow_conversions},
      {"groups", test_groups},
      {"groups_by_hand", test_groups_by_hand},
      {"from_double", test_from_double},
      {"user_operation", test_user_operation},
      {"user_operation_anywhere", test_user_operation_anywhere},
      {"check", test_check},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
