/* tune_choose_test.c: the choices that `tutti tune` makes from given times. */
#include "../cli/tune_choose.c"

#include "test.h"

enum { SIZES = 5 };

/* A table with up to three algorithms of a collective, the first ones of the library's table, and with these times. */
struct fixture {
  struct tune_table table;
  struct tune_candidate candidates[3];
  size_t sizes[SIZES];
  double times[3][SIZES], noise[3][SIZES];
};

static void make(struct fixture *f, tutti_collective collective, double times[][SIZES], uint32_t count) {
  *f = (struct fixture){.sizes = {8, 32, 128, 512, 2048}};
  f->table = (struct tune_table){
      .collective = collective, .ranks = 4, .sizes = f->sizes, .size_count = SIZES, .candidates = f->candidates};
  for (size_t i = 0; i < tu_algorithm_count && f->table.candidate_count < count; i++) {
    if (tu_algorithms[i]->collective != collective) continue;
    uint32_t k = f->table.candidate_count++;
    memcpy(f->times[k], times[k], sizeof f->times[k]);
    f->candidates[k] = (struct tune_candidate){tu_algorithms[i], f->times[k], f->noise[k]};
  }
}

static void expect(const struct fixture *f, const uint32_t *expected, const char *what) {
  uint32_t choices[SIZES];
  tune_choose(&f->table, choices);
  for (uint32_t i = 0; i < SIZES; i++)
    CHECK(choices[i] == expected[i], "%s: size %u: %u, expected %u", what, i, choices[i], expected[i]);
}

static void test_fastest(void) {
  static double times[3][SIZES] = {{1, 2, 9, 9, 9}, {5, 5, 5, 5, 9}, {7, 7, 7, 7, 7}};
  struct fixture f;
  make(&f, TUTTI_ALLREDUCE, times, 3);
  expect(&f, (const uint32_t[]){0, 0, 1, 1, 2}, "the fastest");
}

/* A lead that is within the noise does not change the choice. */
static void test_noise(void) {
  static double times[2][SIZES] = {{10, 10.4, 10, 10.4, 10}, {10.4, 10, 10.4, 10, 10.4}};
  struct fixture f;
  make(&f, TUTTI_ALLREDUCE, times, 2);
  expect(&f, (const uint32_t[]){0, 0, 0, 0, 0}, "4 percent");
  static double wide[2][SIZES] = {{10, 12, 10, 12, 30}, {12, 10, 12, 10, 10}};
  make(&f, TUTTI_ALLREDUCE, wide, 2);
  expect(&f, (const uint32_t[]){0, 1, 0, 1, 1}, "20 percent");
  for (uint32_t i = 0; i < SIZES; i++) f.noise[0][i] = 1.5, f.noise[1][i] = 1;
  expect(&f, (const uint32_t[]){1, 1, 1, 1, 1}, "20 percent, as noisy");
}

static void test_boundaries(void) {
  static const struct {
    size_t low, high, between;
  } table[] = {{8, 32, 16},
               {8, 16, 12},
               {8192, 32768, 16384},
               {4096, 8192, 6144},
               {0, 8, 0},
               {12, 120, 32},
               {8, 9, 8},
               {1, 2, 1},
               {1000, 4000, 2048},
               {0, 1, 0},
               {1 << 20, 1u << 31, 3u << 24}};
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    size_t got = boundary(table[i].low, table[i].high);
    CHECK(got >= table[i].low && got < table[i].high, "%zu is not between %zu and %zu", got, table[i].low,
          table[i].high);
    CHECK(got == table[i].between, "between %zu and %zu: %zu, expected %zu", table[i].low, table[i].high, got,
          table[i].between);
  }
}

/* A written table can be read, selects the choices at the measured sizes, and each choice is as fast as any. */
static void test_write(void) {
  static const tutti_collective collectives[] = {TUTTI_ALLREDUCE, TUTTI_ALLGATHER, TUTTI_REDUCE_SCATTER,
                                                 TUTTI_BROADCAST};
  uint64_t seed = test_seed();
  for (int round = 0; round < 400; round++) {
    double times[3][SIZES];
    for (int k = 0; k < 3; k++)
      for (int i = 0; i < SIZES; i++) times[k][i] = 1 + (double)(tu_random(&seed) % 100);
    struct fixture f;
    make(&f, collectives[round % 4], times, 3);
    uint32_t choices[SIZES];
    struct tu_text text = {0};
    tune_choose(&f.table, choices);
    tune_write(&f.table, choices, &text);
    struct tu_tuning *tuning = NULL;
    struct tu_error error = {0};
    const struct tu_tuning_text written = {"written", text.chars, text.length, NULL};
    if (tu_tuning_read(&written, &tuning, &error) != TUTTI_OK) FAIL("%s: %s", error.text, text.chars);
    for (uint32_t i = 0; tuning && i < SIZES; i++) {
      struct tu_wanted wanted = {.collective = f.table.collective, .ranks = 4, .bytes = f.sizes[i]};
      const struct tu_algorithm *a = tu_tuning_select(tuning, &wanted), *b = f.candidates[choices[i]].algorithm;
      CHECK(a == b, "size %zu: %s, expected %s in\n%s", f.sizes[i], a->name, b->name, text.chars);
      CHECK(is_good(&f.table, choices[i], i), "size %zu: %s is not the fastest", f.sizes[i], b->name);
    }
    tu_tuning_release(tuning);
    tu_text_fini(&text);
  }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"fastest", test_fastest}, {"noise", test_noise}, {"boundaries", test_boundaries}, {"write", test_write}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
