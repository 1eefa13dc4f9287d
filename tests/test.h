/* test.h: a test program is a table of functions. Each prints one line. At the end, the program prints "N passed, M
 * failed" and exits with 1 if M > 0. Arguments name the tests to run; without arguments all run. A test that cannot do
 * all its checks calls SKIP and counts as skipped. If all tests were skipped, the program exits with 77.
 *
 * The environment variable TEST_LONG asks for the full counts of `make check-long`; TEST_SEED=n repeats a random
 * test. */
#ifndef TEST_H
#define TEST_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "facts.h"

struct test {
  const char *name;
  void (*run)(void);
};

static int test_failures; /* failures of the current test */
static bool test_skipped; /* the current test, or a part of it, was skipped */

/* Prints a message and counts a failure; the test goes on. */
#define FAIL(...)                            \
  do {                                       \
    test_failures++;                         \
    printf("  %s:%d: ", __FILE__, __LINE__); \
    printf(__VA_ARGS__);                     \
    printf("\n");                            \
  } while (0)
#define CHECK(condition, ...)            \
  do {                                   \
    if (!(condition)) FAIL(__VA_ARGS__); \
  } while (0)

/* Marks the test as skipped, at least in part, and prints why. It does not return from the test. */
static inline void SKIP(const char *why) {
  if (!test_skipped) printf("  skipped: %s\n", why);
  test_skipped = true;
}

/* Returns true if two numbers differ by rounding at most. */
static inline bool test_near(double a, double b) { return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)); }

static inline bool test_long(void) { return getenv("TEST_LONG") != NULL; }

/* Returns a seed, and prints it, so that a failure can be repeated with TEST_SEED. */
static inline uint64_t test_seed(void) {
  const char *given = getenv("TEST_SEED");
  uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
  printf("  TEST_SEED=%llu\n", (unsigned long long)seed);
  return seed;
}

/* ---- the run of a test program: its arguments select tests, their results are counted ---- */

struct test_counts {
  size_t passed, failed, skipped;
};

/* Returns true if the arguments name this test, or if there are none. */
static inline bool test_wanted(const char *name, int argc, char **argv) {
  bool wanted = argc < 2;
  for (int k = 1; k < argc; k++) wanted |= strcmp(argv[k], name) == 0;
  return wanted;
}

static inline void test_begin(void) {
  test_failures = 0;
  test_skipped = false;
}

/* Prints the result of the current test, and counts it. */
static inline void test_end(struct test_counts *counts, const char *name) {
  printf("%s %s\n", test_failures ? "FAILED" : test_skipped ? "skipped" : "ok", name);
  if (test_failures) counts->failed++;
  else if (test_skipped) counts->skipped++;
  else counts->passed++;
}

/* Prints the counts. Returns the exit status of the program. */
static inline int test_finish(const struct test_counts *counts) {
  printf("%zu passed, %zu failed", counts->passed, counts->failed);
  if (counts->skipped) printf(", %zu skipped", counts->skipped);
  printf("\n");
  return counts->failed ? 1 : counts->skipped && !counts->passed ? 77 : 0;
}

static inline int test_main(const struct test tests[], size_t count, int argc, char **argv) {
  struct test_counts counts = {0};
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (size_t i = 0; i < count; i++) {
    if (!test_wanted(tests[i].name, argc, argv)) continue;
    test_begin();
    tests[i].run();
    test_end(&counts, tests[i].name);
  }
  return test_finish(&counts);
}

#endif
