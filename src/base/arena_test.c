/* arena_test.c: tests of arenas: pieces, growth, moved arenas, and builds that end because memory runs out. */
#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

/* ---- pieces of memory ---- */

static void pieces_are_zeroed_and_apart(void) {
  struct tu_arena arena = {0};
  uint64_t seed = test_seed();
  unsigned char *pieces[200] = {0};
  size_t bytes[200];
  for (int round = 0; round < 2000; round++) {
    size_t i = tu_random(&seed) % 200;
    if (pieces[i]) {
      for (size_t k = 0; k < bytes[i]; k++)
        if (pieces[i][k] != (unsigned char)i) FAIL("piece %zu: byte %zu is %u", i, k, pieces[i][k]);
      tu_arena_free(&arena, pieces[i]);
      pieces[i] = NULL;
      continue;
    }
    bytes[i] = tu_random(&seed) % 300;
    pieces[i] = tu_arena_allocate(&arena, 1, bytes[i]);
    CHECK((uintptr_t)pieces[i] % _Alignof(max_align_t) == 0, "a piece of %zu bytes is not aligned", bytes[i]);
    for (size_t k = 0; k < bytes[i]; k++)
      if (pieces[i][k] != 0) FAIL("a new piece is not zeroed at %zu", k);
    memset(pieces[i], (int)i, bytes[i]);
  }
  tu_arena_free(&arena, NULL);
  tu_arena_fini(&arena);
  CHECK(!arena.first, "an arena that has been freed is not empty");
}

/* Pieces and arrays of an arena with blocks are like others. */
static void blocks_hold_pieces(void) {
  uint64_t seed = test_seed();
  for (int round = 0; round < 300; round++) {
    struct tu_arena arena = {.block_bytes = 1 + tu_random(&seed) % 20000};
    unsigned char *pieces[60];
    size_t bytes[60];
    uint32_t *array = NULL, capacity = 0, count = 0;
    for (int i = 0; i < 60; i++) {
      bytes[i] = tu_random(&seed) % (tu_random(&seed) % 8 ? 100 : 6000);
      pieces[i] = tu_arena_allocate(&arena, 1, bytes[i]);
      CHECK((uintptr_t)pieces[i] % _Alignof(max_align_t) == 0, "a piece of %zu bytes is not aligned", bytes[i]);
      for (size_t k = 0; k < bytes[i]; k++)
        if (pieces[i][k] != 0) FAIL("a new piece is not zeroed at %zu", k);
      memset(pieces[i], i, bytes[i]);
      for (uint32_t more = (uint32_t)(tu_random(&seed) % 12); more > 0; more--) {
        array = tu_arena_grow(&arena, array, count, &capacity, sizeof *array);
        CHECK(array[count] == 0, "what an array grows by is not zeroed");
        array[count] = count;
        count++;
      }
      if (tu_random(&seed) % 8 == 0) tu_arena_free(&arena, pieces[i]), bytes[i] = 0;
    }
    for (int i = 0; i < 60; i++)
      for (size_t k = 0; k < bytes[i]; k++)
        if (pieces[i][k] != (unsigned char)i) FAIL("piece %d: byte %zu is %u", i, k, pieces[i][k]);
    for (uint32_t i = 0; i < count; i++)
      if (array[i] != i) FAIL("element %u is %u", i, array[i]);
    tu_arena_fini(&arena);
  }
}

/* Grows several arrays in random order. Now and then, the arena is copied to another struct, which is used from then
 * on. */
static void arrays_grow(void) {
  enum { ARRAYS = 5 };
  struct tu_arena arenas[2] = {0};
  uint32_t *arrays[ARRAYS] = {0}, counts[ARRAYS] = {0}, capacities[ARRAYS] = {0};
  uint64_t seed = test_seed();
  int at = 0;
  for (int i = 0; i < 20000; i++) {
    size_t a = tu_random(&seed) % ARRAYS;
    arrays[a] = tu_arena_grow(&arenas[at], arrays[a], counts[a], &capacities[a], sizeof **arrays);
    CHECK(arrays[a][counts[a]] == 0, "what an array grows by is not zeroed");
    arrays[a][counts[a]] = (uint32_t)a * 100000 + counts[a];
    counts[a]++;
    if (i % 1000 != 0) continue;
    arenas[1 - at] = arenas[at];
    arenas[at] = (struct tu_arena){0};
    at = 1 - at;
  }
  for (uint32_t a = 0; a < ARRAYS; a++)
    for (uint32_t i = 0; i < counts[a]; i++)
      if (arrays[a][i] != a * 100000 + i) FAIL("array %u: element %u is %u", a, i, arrays[a][i]);
  tu_arena_fini(&arenas[at]);
}

/* ---- builds (tu_arena_build) ---- */

struct site {
  struct tu_arena arena, inner;
  int stage;
  tutti_err inner_err;
  bool all_is_well, again;
  struct tu_error inner_error;
};

static tutti_err build_inner(void *argument, struct tu_error *error) {
  struct site *s = argument;
  (void)error;
  s->stage = 2;
  (void)tu_arena_allocate(&s->inner, 10, 10);
  if (!s->all_is_well) (void)tu_arena_allocate(&s->inner, SIZE_MAX / 2, 1);
  s->stage = 3;
  return TUTTI_OK;
}

static tutti_err build(void *argument, struct tu_error *error) {
  struct site *s = argument;
  s->stage = 1;
  (void)tu_arena_allocate(&s->arena, 10, 10);
  s->inner_err = tu_arena_build(build_inner, s, "a lodge", &s->inner_error);
  if (s->inner_err != TUTTI_OK && s->again) tu_arena_refuse_again();
  if (s->inner_err != TUTTI_OK) (void)tu_arena_allocate(&s->arena, SIZE_MAX, 2);
  s->stage = 4;
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "as it says");
}

static void buildings_end(void) {
  struct tu_error error = {0};
  for (int again = 0; again < 2; again++) {
    struct site site = {.again = again};
    tutti_err err = tu_arena_build(build, &site, "a house", &error);
    CHECK(err == TUTTI_ERR_MEMORY && error.code == err && site.stage == 2, "%d, at %d", err, site.stage);
    CHECK(test_contains(error.text, "memory|a house"), "'%s'", error.text);
    CHECK(site.inner_err == TUTTI_ERR_MEMORY && strstr(site.inner_error.text, "a lodge"), "'%s'",
          site.inner_error.text);
    tu_arena_fini(&site.arena);
    tu_arena_fini(&site.inner);
  }
  struct site site = {.all_is_well = true};
  tutti_err err = tu_arena_build(build, &site, "a house", &error);
  CHECK(err == TUTTI_ERR_ARGUMENT && strcmp(error.text, "as it says") == 0 && site.stage == 4, "'%s'", error.text);
  tu_arena_fini(&site.arena);
  tu_arena_fini(&site.inner);
}

/* Growth to a size that overflows must return NULL and leave the array unchanged. */
static void growth_has_an_end(void) {
  struct tu_arena arena = {0};
  uint32_t capacity = 0, *array = tu_arena_grow(&arena, NULL, 0, &capacity, sizeof *array), large = 1u << 31;
  array[7] = 7;
  CHECK(!tu_arena_try_grow(&arena, array, large, &large, sizeof *array) && large == 1u << 31, "grew");
  CHECK(!tu_arena_try_grow(&arena, array, capacity, &capacity, SIZE_MAX / 4) && capacity == 8, "grew");
  CHECK(array[7] == 7, "the array has changed");
  tu_arena_fini(&arena);
}

static const struct test tests[] = {
    {"pieces_are_zeroed_and_apart", pieces_are_zeroed_and_apart},
    {"blocks_hold_pieces", blocks_hold_pieces},
    {"arrays_grow", arrays_grow},
    {"buildings_end", buildings_end},
    {"growth_has_an_end", growth_has_an_end},
};

int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
