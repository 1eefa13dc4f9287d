/* copy_test.c: tests copies of all short and some long lengths, at random alignments, into one to three targets, with
 * ordinary and non-temporal stores, for each instruction set. */
#include "engine/copy.h"

#include "engine/isa.h"
#include "engine/kernels.h"
#include "test.h"

enum { BYTES_MAX = 9000, GUARD = 64, ROOM = BYTES_MAX + 3 * GUARD, TARGETS = 3 };

static char source[ROOM], targets[TARGETS][ROOM];

static bool is_copy(const char *target, size_t begin, const char *from, size_t bytes) {
  for (size_t i = 0; i < ROOM; i++) {
    char expected = i >= begin && i < begin + bytes ? from[i - begin] : 0x5a;
    if (target[i] != expected) return false;
  }
  return true;
}

static void copy(uint64_t *seed, size_t bytes) {
  uint64_t draw = tu_random(seed);
  uint32_t count = 1 + (uint32_t)(draw % TARGETS);
  enum tu_past past = (enum tu_past)(draw >> 8 & 3);
  bool same_lines = draw >> 10 & 1;
  const char *from = source + (draw >> 16) % GUARD;
  size_t begins[TARGETS];
  void *dsts[TARGETS];
  for (uint32_t t = 0; t < count; t++) {
    memset(targets[t], 0x5a, ROOM);
    size_t line = GUARD + -(uintptr_t)targets[t] % TU_LINE_BYTES;
    begins[t] = line + (same_lines ? (draw >> 32 & 1) : (draw >> (24 + 6 * t)) % 64);
    dsts[t] = targets[t] + begins[t];
  }
  tu_copy_into(dsts, count, past, from, bytes);
  for (uint32_t t = 0; t < count; t++)
    CHECK(is_copy(targets[t], begins[t], from, bytes), "%zu bytes, target %u of %u%s: wrong", bytes, t, count,
          past ? ", past the caches" : "");
}

static void test_copy_into(void) {
  static const size_t long_ones[] = {4095, 4096, 4097, 8192, 8999};
  uint64_t seed = test_seed();
  const char *used = tu_isa_used(), *name;
  for (size_t i = 0; i < ROOM; i++) source[i] = (char)tu_random(&seed);
  for (uint32_t i = 0; (name = tu_isa_name(i)) && !test_failures; i++) {
    tu_isa_use(name);
    for (size_t bytes = 0; bytes <= 300 && !test_failures; bytes++) copy(&seed, bytes), copy(&seed, bytes);
    for (int k = 0; k < 100 && !test_failures; k++) copy(&seed, long_ones[k % 5]);
    if (test_failures) printf("  with the instruction set %s\n", name);
  }
  tu_isa_use(used);
}

static void test_nothing(void) {
  char byte = 7, other = 9;
  void *const dsts[] = {&byte};
  tu_copy_into(dsts, 1, TU_PAST_ALL, &other, 0);
  tu_copy_into(NULL, 0, TU_PAST_ALL, &other, 1);
  CHECK(byte == 7, "copied something: %d", byte);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"copy_into", test_copy_into}, {"nothing", test_nothing}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
