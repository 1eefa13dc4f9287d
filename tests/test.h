/* test.h: a test program is a table of functions. Each prints one line, the program closes with
 * "N passed, M failed" and exits 1 if M > 0. Arguments name the tests to run; none means all. A test that could not do all
 * that it is there for says SKIP: it counts as skipped, and a program that did nothing else exits with 77.
 *
 * TEST_LONG in the environment asks for the full counts of `make check-long`; TEST_SEED=n replays a random test. */
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

struct test {
  const char *name;
  void (*run)(void);
};

static int test_failures; /* of the test that runs */
static bool test_skipped; /* it, or a part of it */

/* Records a failure with a sentence and goes on. */
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

/* Notes why the test, or a part of it, is not done here; the test returns by itself. */
static inline void SKIP(const char *why) {
  if (!test_skipped) printf("  skipped: %s\n", why);
  test_skipped = true;
}

/* Do two numbers differ by rounding only? */
static inline bool test_near(double a, double b) { return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)); }

static inline bool test_long(void) { return getenv("TEST_LONG") != NULL; }

/* A seed, printed so that a failure can be replayed. */
static inline uint64_t test_seed(void) {
  const char *given = getenv("TEST_SEED");
  uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
  printf("  TEST_SEED=%llu\n", (unsigned long long)seed);
  return seed;
}

static inline int test_main(const struct test tests[], size_t count, int argc, char **argv) {
  size_t passed = 0, failed = 0, skipped = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (size_t i = 0; i < count; i++) {
    bool wanted = argc < 2;
    for (int k = 1; k < argc; k++) wanted |= strcmp(argv[k], tests[i].name) == 0;
    if (!wanted) continue;
    test_failures = 0;
    test_skipped = false;
    tests[i].run();
    printf("%s %s\n", test_failures ? "FAILED" : test_skipped ? "skipped" : "ok", tests[i].name);
    if (test_failures) failed++;
    else if (test_skipped) skipped++;
    else passed++;
  }
  printf("%zu passed, %zu failed", passed, failed);
  if (skipped) printf(", %zu skipped", skipped);
  printf("\n");
  return failed ? 1 : skipped && !passed ? 77 : 0;
}

#endif
