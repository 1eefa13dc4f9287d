/* sized_test.c: tests of structs that may grow, with a struct that has one field more than in its first version. */
#include "base/sized.h"

#include <string.h>

#include "test.h"

struct grown {
  uint64_t first, second; /* version 0.1 */
  uint64_t third;         /* added later */
};

static const struct tu_sized kind = {"grown", "grown_bytes", 16, sizeof(struct grown)};

/* A program of any version gives its struct: the fields of 0.1, and words beyond, of which the last is `last`. */
static void test_take(void) {
  static const struct {
    size_t words;
    uint64_t last;
    tutti_err err;
    bool fits; /* the library can read the struct without a copy */
    uint64_t third;
  } rows[] = {
      {2, 22, TUTTI_OK, false, 0},            /* program of version 0.1 */
      {3, 33, TUTTI_OK, true, 33},            /* program of this version */
      {4, 0, TUTTI_OK, true, 3},              /* later program, unknown field unused */
      {6, 0, TUTTI_OK, true, 3},              /* much later program, unknown fields unused */
      {4, 1, TUTTI_ERR_ARGUMENT, false, 0},   /* unknown field used */
      {6, 1, TUTTI_ERR_ARGUMENT, false, 0},   /* the same, further behind */
      {1, 11, TUTTI_ERR_ARGUMENT, false, 0},  /* smaller than in the first version */
      {0, 0, TUTTI_ERR_ARGUMENT, false, 0},   /* size forgotten */
      {513, 0, TUTTI_ERR_ARGUMENT, false, 0}, /* size not initialized */
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    uint64_t theirs[513] = {1, 2, 3};
    struct tu_error error = {0};
    struct grown ours = {7, 7, 7};
    size_t bytes = rows[i].words * sizeof theirs[0];
    if (rows[i].words > 0) theirs[rows[i].words - 1] = rows[i].last;
    tutti_err err = tu_sized_take(&kind, theirs, bytes, &ours, "tutti_call_it", &error);
    CHECK(err == rows[i].err, "%zu words: error %d: '%s'", rows[i].words, err, error.text);
    CHECK(tu_sized_fits(&kind, theirs, bytes) == rows[i].fits, "%zu words: fits", rows[i].words);
    if (err != TUTTI_OK) {
      char size[32];
      snprintf(size, sizeof size, "%zu", bytes);
      CHECK(test_contains(error.text, "tutti_call_it|grown") && strstr(error.text, size), "'%s'", error.text);
      continue;
    }
    CHECK(ours.first == 1 && ours.second == theirs[1] && ours.third == rows[i].third, "%zu words: %llu %llu %llu",
          rows[i].words, (unsigned long long)ours.first, (unsigned long long)ours.second,
          (unsigned long long)ours.third);
  }
}

/* The library writes a struct of the program: it writes all bytes of that struct and none behind it. */
static void test_give(void) {
  const struct grown ours = {1, 2, 3};
  for (size_t words = 2; words <= 5; words++) {
    uint64_t theirs[6] = {7, 7, 7, 7, 7, 7};
    tu_sized_give(&kind, &ours, theirs, words * sizeof theirs[0]);
    for (size_t i = 0; i < 6; i++) {
      uint64_t expected = i >= words ? 7 : i < 3 ? i + 1 : 0;
      CHECK(theirs[i] == expected, "%zu words: word %zu is %llu", words, i, (unsigned long long)theirs[i]);
    }
  }
}

int main(int argc, char **argv) {
  const struct test tests[] = {{"take", test_take}, {"give", test_give}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
