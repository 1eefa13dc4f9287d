/* kernels_test.c: compares reductions and scaling by every kernel with the slow reference of kernels_reference.h, on
 * random arrays. Bits must be equal, NaN included. Also tests the choice of kernels, operations of users, and refused
 * operations. */
/* test: timeout=180 */
#include "engine/kernels.h"
#include "engine/isa.h"
#include "kernels_reference.h"

enum { SOURCES_MAX = 9, ELEMENTS_MAX = 3000, GUARD = 64 };

/* ---- data ------------------------------------------------------------------------------------------------------- */

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

/* Fills an array with random bits, ordinary numbers, and corner cases: zeros, infinities, all kinds of NaN, subnormals,
 * extremes. */
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

/* Returns a value of the item as a double, to print it when a test fails. */
static double shown(tutti_datatype type, const void *item) {
  return is_grouped(type) ? group_read(type, item, 0) : tu_to_double(type, item);
}

struct buffers {
  char *sources[SOURCES_MAX];
  char *dst, *expected, *copy;
};
static struct buffers buffers;

/* Returns where an array begins: after some elements, and in half of the cases at any byte. */
static size_t somewhere(size_t bytes) { return below(8) * bytes + (below(2) ? below((uint32_t)bytes) : 0); }

/* Allocates arrays with room for the elements, for a start at a random offset, and for guard bytes on both sides. */
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

/* The reference of a reduction, from left to right or as a tree. */
static void combine_as(const struct tu_arithmetic *a, char *expected, const void *const srcs[], uint32_t source_count,
                       size_t count, unsigned how) {
  if (!(how & TU_TREE) || source_count < 3) {
    reference(a, expected, srcs, source_count, count, how & TU_FINAL);
    return;
  }
  uint32_t half = 1;
  while (2 * half < source_count) half *= 2;
  const size_t bytes = count * tu_datatypes[a->type].bytes + 1;
  char *sides[] = {tu_allocate(bytes, 1), tu_allocate(bytes, 1)};
  combine_as(a, sides[0], srcs, half, count, TU_TREE);
  combine_as(a, sides[1], srcs + half, source_count - half, count, TU_TREE);
  /* A single source is a copy, of which the reference may change NaNs. */
  const void *operands[] = {sides[0], source_count - half == 1 ? srcs[half] : sides[1]};
  reference(a, expected, operands, 2, count, how & TU_FINAL);
  free(sides[0]);
  free(sides[1]);
}

static unsigned somehow(tutti_op op) {
  return (below(2) || (op == TUTTI_AVG && below(2)) ? TU_FINAL : 0) | (below(3) == 0 ? TU_TREE : 0);
}

/* Runs one reduction and compares it with the reference, and with itself in pieces. dst is source `alias`, if there is
 * such a source. */
static void compare(const struct tu_arithmetic *a, uint32_t source_count, uint32_t alias, size_t count, unsigned how) {
  size_t bytes = tu_datatypes[a->type].bytes, total = count * bytes;
  const void *srcs[SOURCES_MAX];
  for (uint32_t s = 0; s < source_count; s++) {
    char *source = buffers.sources[s] + GUARD + somewhere(bytes);
    fill(a->type, source, count);
    srcs[s] = source;
  }
  char *dst = buffers.dst + GUARD + somewhere(bytes);
  if (alias < source_count) dst = buffers.sources[alias] + ((const char *)srcs[alias] - buffers.sources[alias]);
  /* sometimes uses one array (dst) as two operands */
  if (alias < source_count && below(4) == 0) srcs[below(source_count)] = dst;
  memset(dst - GUARD, 0x5a, GUARD);
  memset(dst + total, 0x5a, GUARD);
  combine_as(a, buffers.expected, srcs, source_count, count, how);
  memcpy(buffers.copy, dst, total);
  tu_reduce(a, dst, srcs, source_count, count, how);
  if (memcmp(dst, buffers.expected, total) != 0) {
    size_t i = 0;
    while (memcmp(dst + i * bytes, buffers.expected + i * bytes, bytes) == 0) i++;
    FAIL("%s %s, %u sources, alias %u, element %zu of %zu, how %u: %g, expected %g", tu_datatypes[a->type].name,
         tu_operations[a->op].name, source_count, alias, i, count, how, shown(a->type, dst + i * bytes),
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
    tu_reduce(a, dst + at * bytes, parts, source_count, length, how);
    at += length;
  }
  CHECK(memcmp(dst, buffers.expected, total) == 0, "%s %s, %u sources, %zu elements: differs when cut",
        tu_datatypes[a->type].name, tu_operations[a->op].name, source_count, count);
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

/* Runs the body with each instruction set of this machine. */
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
  for (tutti_datatype type = 0; type < TU_DATATYPES && !test_failures; type = tu_datatype_next(type))
    for (tutti_op op = 0; op < TU_OPS && !test_failures; op++) {
      if (!combines(type, op)) continue;
      for (size_t count = 0; count <= 130 && !test_failures; count++)
        for (int round = 0; round < 2 && !test_failures; round++) {
          struct tu_arithmetic a = {.type = type, .op = op, .divisor = divisors[below(8)]};
          uint32_t some = round ? 1 + below(SOURCES_MAX) : 2;
          compare(&a, some, below(2 * some), count, somehow(op));
        }
    }
}
static void test_reduce(void) { with_each_isa(reduce_all); }

/* Tests reductions of lengths around the block sizes, with each source in turn as dst. */
static void reduce_blocks(void) {
  static const size_t counts[] = {511, 512, 513, 1023, 1024, 1025, 2048, 2999};
  static const tutti_op ops[] = {TUTTI_SUM, TUTTI_MIN, TUTTI_AVG, TUTTI_PROD};
  for (tutti_datatype type = 0; type < TU_DATATYPES && !test_failures; type = tu_datatype_next(type))
    for (uint32_t sources = 2; sources <= 5 && !test_failures; sources++)
      for (uint32_t alias = 0; alias <= sources && !test_failures; alias++) {
        struct tu_arithmetic a = {.type = type, .op = ops[below(4)], .divisor = 5};
        if (!combines(type, a.op)) continue;
        compare(&a, sources, alias, counts[below(8)], somehow(a.op));
      }
}
static void test_reduce_blocks(void) { with_each_isa(reduce_blocks); }

/* Tests trees of up to 70 sources, some of which are the same arrays. */
static void reduce_trees(void) {
  for (uint32_t sources = 3; sources <= 70 && !test_failures; sources++)
    for (int round = 0; round < 8; round++) {
      const tutti_datatype type = tu_datatype_next((tutti_datatype)below(TU_DATATYPES));
      const struct tu_arithmetic a = {.type = type, .op = (tutti_op)below(TU_OPS), .divisor = divisors[below(8)]};
      const size_t count = below(round ? 40 : ELEMENTS_MAX);
      if (type >= TU_DATATYPES || !combines(type, a.op)) continue;
      for (int s = 0; s < SOURCES_MAX; s++) fill(type, buffers.sources[s], count);
      const void *srcs[70];
      for (uint32_t s = 0; s < sources; s++) srcs[s] = buffers.sources[below(SOURCES_MAX)];
      combine_as(&a, buffers.expected, srcs, sources, count, TU_TREE | TU_FINAL);
      tu_reduce(&a, buffers.dst, srcs, sources, count, TU_TREE | TU_FINAL);
      CHECK(memcmp(buffers.dst, buffers.expected, count * tu_datatypes[type].bytes) == 0,
            "%s %s, a tree of %u sources, %zu elements: wrong", tu_datatypes[type].name, tu_operations[a.op].name,
            sources, count);
    }
}
static void test_reduce_trees(void) { with_each_isa(reduce_trees); }

/* Tests one to four targets at any address, with ordinary and non-temporal stores; the first target may be a source. */
static void reduce_into(void) {
  static const size_t counts[] = {0, 1, 7, 31, 63, 64, 65, 128, 130, 511, 1025, 2048};
  enum { TARGETS = 4 };
  char *blocks[TARGETS], *dsts[TARGETS];
  const size_t room = 2100 * ITEM_MAX + 2 * GUARD;
  for (int d = 0; d < TARGETS; d++) blocks[d] = tu_allocate(room, 1);
  for (tutti_datatype type = 0; type < TU_DATATYPES; type = tu_datatype_next(type))
    for (int round = 0; round < 200 && !test_failures; round++) {
      struct tu_arithmetic a = {.type = type, .op = TUTTI_SUM, .divisor = divisors[below(8)]};
      if (round % 3 == 0) a.op = (tutti_op)below(TU_OPS);
      if (!combines(type, a.op)) continue;
      size_t bytes = tu_datatypes[type].bytes, count = counts[below(12)], total = count * bytes;
      uint32_t sources = round % 2 ? 2 : 1 + below(5), targets = 1 + below(TARGETS);
      enum tu_past past = (enum tu_past)below(4);
      bool same_lines = below(2);
      const unsigned how = somehow(a.op);
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
      combine_as(&a, buffers.expected, srcs, sources, count, how);
      tu_reduce_into(&a, (void *const *)dsts, targets, past, srcs, sources, count, how);
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
  for (tutti_datatype type = 0; type < TU_DATATYPES; type = tu_datatype_next(type))
    for (size_t count = 0; count < 1600 && type != TUTTI_BOOL; count = count < 70 ? count + 1 : count * 2) {
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

/* Records the calls of a user function. The function is not associative on purpose: only combining from left to right
 * gives the expected result. */
struct calls {
  uint32_t count;
  bool overlap, crooked; /* true: some call had operands that overlap, or that are not aligned */
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

/* Tests that a user's function gets operands that are aligned to their element, wherever the buffers of the call
 * begin. */
static void test_user_operation_anywhere(void) {
  enum { COUNT = 5000 };
  static unsigned char memory[3][2 * COUNT + 1], expected[2 * COUNT];
  struct calls calls = {0};
  const struct tu_user_op op = {.function = chain, .context = &calls, .name = "chain"};
  const struct tu_arithmetic a = {.type = TUTTI_U16, .user = &op};
  seed = test_seed();
  for (int odd = 0; odd < 8; odd++)
    for (int alias = 0; alias < 3; alias++) {
      unsigned char *srcs[2] = {memory[0] + (odd & 1), memory[1] + (odd >> 1 & 1)};
      unsigned char *dst = alias < 2 ? srcs[alias] : memory[2] + (odd >> 2);
      for (int s = 0; s < 2; s++) fill(TUTTI_U16, srcs[s], COUNT);
      for (size_t i = 0; i < sizeof expected; i += 2)
        integer_write(TUTTI_U16, expected + i,
                      integer_read(TUTTI_U16, srcs[0] + i) * 31 + integer_read(TUTTI_U16, srcs[1] + i));
      tu_reduce(&a, dst, (const void *const[]){srcs[0], srcs[1]}, 2, COUNT, true);
      CHECK(memcmp(dst, expected, sizeof expected) == 0, "odd %d, alias %d: wrong", odd, alias);
      CHECK(!calls.overlap && !calls.crooked, "odd %d, alias %d: the function was given %s", odd, alias,
            calls.crooked ? "operands that are not aligned" : "operands that overlap");
    }
}

/* An operation on elements of TUTTI_BYTES, whose size the context tells. Not associative on purpose, like chain. */
struct bytes_calls {
  size_t element_bytes;
  bool overlap, crooked;
};
static void chain_bytes(void *result, const void *left, const void *right, size_t count, tutti_datatype type,
                        void *context) {
  struct bytes_calls *calls = context;
  const size_t bytes = count * calls->element_bytes, lowest = calls->element_bytes & -calls->element_bytes;
  uintptr_t r = (uintptr_t)result, l = (uintptr_t)left, q = (uintptr_t)right;
  calls->overlap |= (r != l && r < l + bytes && l < r + bytes) || (r != q && r < q + bytes && q < r + bytes);
  calls->crooked |= type != TUTTI_BYTES || (r | l | q) % (lowest < 16 ? lowest : 16) != 0;
  for (size_t i = 0; i < bytes; i++)
    ((uint8_t *)result)[i] =
        (uint8_t)(((const uint8_t *)left)[i] * 31u + ((const uint8_t *)right)[i] + i % calls->element_bytes);
}

/* Writes the expected result of a reduction by chain_bytes. */
static void chain_all(unsigned char *expected, const void *const srcs[], uint32_t n, size_t size, size_t total,
                      bool tree) {
  uint32_t half = 1;
  while (2 * half < n) half *= 2;
  if (n == 1) half = 1;
  else if (!tree) half = n - 1;
  memcpy(expected, srcs[0], total);
  if (n == 1) return;
  unsigned char *right = tu_allocate(total + 1, 1);
  chain_all(expected, srcs, half, size, total, tree);
  chain_all(right, srcs + half, n - half, size, total, tree);
  for (size_t i = 0; i < total; i++) expected[i] = (uint8_t)(expected[i] * 31u + right[i] + i % size);
  free(right);
}

/* Tests elements of many sizes, from 1 to 5 sources at any address, with each source in turn as dst. Elements longer
 * than a block use the memory `room`. */
static void test_user_operation_of_bytes(void) {
  static const size_t sizes[] = {1, 5, 16, 24, 48, 4096, 4097, 5000, 65536};
  enum { TOTAL = 3 << 16 };
  unsigned char *memory[6], *expected = tu_allocate(TOTAL, 1);
  for (int s = 0; s < 6; s++) memory[s] = tu_allocate(TOTAL + 16, 1);
  seed = test_seed();
  for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
    const size_t size = sizes[k], count = TOTAL / size < 500 ? TOTAL / size : 500, total = count * size;
    struct bytes_calls calls = {.element_bytes = size};
    const struct tu_user_op op = {.function = chain_bytes, .context = &calls, .name = "chain"};
    void *room = aligned_alloc(TU_LINE_BYTES, tu_round_up(TU_KERNEL_BLOCKS * size, TU_LINE_BYTES));
    const struct tu_arithmetic a = {.type = TUTTI_BYTES, .user = &op, .item_bytes = size, .room = room};
    for (uint32_t n = 1; n <= 5; n++)
      for (uint32_t alias = 0; alias <= n; alias++) {
        const bool tree = below(2);
        const void *srcs[5];
        for (uint32_t s = 0; s < n; s++) {
          unsigned char *source = memory[s] + (below(2) ? below(16) : 0);
          for (size_t i = 0; i < total; i++) source[i] = (unsigned char)tu_random(&seed);
          srcs[s] = source;
        }
        unsigned char *dst = memory[5] + below(16);
        if (alias < n) dst = memory[alias] + ((const unsigned char *)srcs[alias] - memory[alias]);
        chain_all(expected, srcs, n, size, total, tree);
        tu_reduce(&a, dst, srcs, n, count, tree ? TU_TREE : TU_FINAL);
        CHECK(memcmp(dst, expected, total) == 0, "elements of %zu bytes, %u sources%s, alias %u: wrong", size, n,
              tree ? ", as a tree" : "", alias);
        CHECK(!calls.overlap && !calls.crooked, "elements of %zu bytes, %u sources, alias %u: operands %s", size, n,
              alias, calls.crooked ? "are not aligned" : "overlap");
      }
    free(room);
  }
  for (int s = 0; s < 6; s++) free(memory[s]);
  free(expected);
}

static void test_check(void) {
  const struct tu_user_op none = {.name = "none"};
  const struct {
    struct tu_arithmetic a;
    const char *part; /* facts that the error message must contain; NULL: no error is expected */
  } table[] = {
      {{.type = TUTTI_F32, .op = TUTTI_SUM}, NULL},
      {{.type = TUTTI_F32, .op = TUTTI_BAND}, "band|integers"},
      {{.type = TUTTI_F8E4M3, .op = TUTTI_LXOR}, "f8e4m3"},
      {{.type = TUTTI_U8, .op = TUTTI_LXOR}, NULL},
      {{.type = TU_DATATYPES, .op = TUTTI_SUM}, "datatype 34"},
      {{.type = (tutti_datatype)(TUTTI_BOOL + 1), .op = TUTTI_SUM}, "datatype 9"},
      {{.type = TUTTI_I32, .op = TU_OPS}, "operation 12"},
      {{.type = TUTTI_I32, .op = 1000, .user = &none}, "none|function"},
      {{.type = TUTTI_BYTES, .op = TUTTI_SUM}, "sum|bytes|tutti_comm_op_create"},
      {{.type = TUTTI_BYTES, .op = 1000}, "operation 1000"},
      {{.type = TUTTI_BOOL, .op = TUTTI_SUM}, NULL},
      {{.type = TUTTI_BOOL, .op = TUTTI_BXOR}, NULL},
      {{.type = TUTTI_BOOL, .op = TUTTI_AVG}, "avg|bool|lor"},
      {{.type = TUTTI_BOOL, .op = TUTTI_PREMUL_SUM, .scale = 1}, "premul_sum|bool"},
      {{.type = TUTTI_U8, .op = TUTTI_PREMUL_SUM, .scale = 255}, NULL},
      {{.type = TUTTI_U8, .op = TUTTI_PREMUL_SUM, .scale = 256}, "premul_sum over u8"},
      {{.type = TUTTI_U8, .op = TUTTI_PREMUL_SUM, .scale = -1}, "found -1"},
      {{.type = TUTTI_I64, .op = TUTTI_PREMUL_SUM, .scale = -0x1p63}, NULL},
      {{.type = TUTTI_I64, .op = TUTTI_PREMUL_SUM, .scale = 0x1p63}, "premul_sum over i64|found 9.22337"},
      {{.type = TUTTI_I32, .op = TUTTI_PREMUL_SUM, .scale = 0.5}, "found 0.5"},
      {{.type = TUTTI_I32, .op = TUTTI_PREMUL_SUM, .scale = NAN}, "premul_sum"},
      {{.type = TUTTI_BF16, .op = TUTTI_PREMUL_SUM, .scale = 0.5}, NULL},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct tu_error error = {0};
    tutti_err err = tu_arithmetic_check(&table[i].a, &error);
    CHECK(err == (table[i].part ? TUTTI_ERR_ARGUMENT : TUTTI_OK), "entry %zu: %s", i, tutti_err_name(err));
    CHECK(!table[i].part || test_contains(error.text, table[i].part), "entry %zu: '%s'", i, error.text);
  }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"reduce", test_reduce},
      {"reduce_blocks", test_reduce_blocks},
      {"reduce_trees", test_reduce_trees},
      {"reduce_into", test_reduce_into},
      {"isa", test_isa},
      {"scale", test_scale},
      {"user_operation", test_user_operation},
      {"user_operation_anywhere", test_user_operation_anywhere},
      {"user_operation_of_bytes", test_user_operation_of_bytes},
      {"check", test_check},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
