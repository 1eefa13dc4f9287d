/* staged_test.c: which loads and stores of the staged engine overlap, and how much time that saves if loads take
 * time. */
#include "onesided/staged.h"
#include "paced.h"
#include "test.h"

enum { COLS = 5, ROWS_MAX = 40 };

/* Copies rows of one matrix to another, one row per load. */
struct rows {
  struct tu_work work;
  struct tu_map *map;
  int32_t from[ROWS_MAX][COLS], to[ROWS_MAX][COLS];
};

static void load_row(const struct tu_work *work, size_t index, struct tu_load *load) {
  const struct rows *r = (const struct rows *)work;
  load->region = (struct tu_region){.map = r->map, .origin = {[3] = index}, .extent = {1, 1, 1, 1, COLS}};
  load->data = r->from;
}

static void store_row(const struct tu_work *work, size_t index, const void *tile) {
  struct rows *r = (struct rows *)(uintptr_t)work;
  memcpy(r->to[index], tile, sizeof r->to[index]);
}

/* Moves `count` rows through `tiles` tiles. Returns false if the result is wrong. */
static bool carry(size_t count, uint32_t tiles, struct tu_loader *loader) {
  int32_t memory[2][COLS];
  const size_t shape[] = {ROWS_MAX, COLS};
  struct rows r = {.work = {count, load_row, store_row}};
  tutti_tensor tensor;
  struct tu_error error = {0};
  for (int32_t i = 0; i < ROWS_MAX; i++)
    for (int32_t k = 0; k < COLS; k++) r.from[i][k] = i * 100 + k;
  if (tutti_tensor_strided(&tensor, (tutti_tensor_of){.type = TUTTI_I32, .dims = 2, .shape = shape}, NULL) !=
          TUTTI_OK ||
      tu_map_create(&tensor, &r.map, &error) != TUTTI_OK)
    return false;
  const struct tu_stage stage = {
      .tile_count = tiles, .tiles = {memory[0], memory[1]}, .rows = 1, .cols = COLS, .pitch = sizeof memory[0]};
  tu_stage_loader = loader;
  tu_stage_run(&stage, &r.work);
  tu_stage_loader = NULL;
  tu_map_destroy(r.map);
  return memcmp(r.from, r.to, count * sizeof r.to[0]) == 0;
}

/* Checks the recorded trace: each beginning and end of a load or store occurs once, loads and stores are in order, and
 * uses of a tile do not overlap. */
static void check_trace(const struct paced *p, size_t count, uint32_t tiles) {
  CHECK(p->count == 4 * count, "%zu loads: %zu moments", count, p->count);
  for (size_t i = 0; i < count; i++) {
    size_t begins = paced_find(p, TU_LOAD_BEGINS, i), ends = paced_find(p, TU_LOAD_ENDS, i);
    size_t store_begins = paced_find(p, TU_STORE_BEGINS, i), store_ends = paced_find(p, TU_STORE_ENDS, i);
    CHECK(begins < ends && ends < store_begins && store_begins < store_ends && store_ends < p->count,
          "%u tiles, %zu of %zu: %zu, %zu, %zu, %zu", tiles, i, count, begins, ends, store_begins, store_ends);
    if (i + tiles < count)
      CHECK(paced_find(p, TU_LOAD_BEGINS, i + tiles) > store_ends, "%u tiles: load %zu begins before store %zu ends",
            tiles, i + tiles, i);
    if (tiles == 2 && i + 1 < count)
      CHECK(paced_find(p, TU_LOAD_BEGINS, i + 1) < store_begins, "load %zu does not begin before store %zu", i + 1, i);
  }
}

static void two_tiles_overlap_and_one_does_not(void) {
  for (uint32_t tiles = 1; tiles <= 2; tiles++)
    for (size_t count = 0; count <= 12; count++) {
      struct paced p = paced_make(3, 2);
      size_t loads;
      CHECK(carry(count, tiles, &p.loader), "%u tiles, %zu loads: wrong", tiles, count);
      check_trace(&p, count, tiles);
      size_t overlaps = paced_overlaps(&p, &loads);
      CHECK(loads == count, "%zu loads, not %zu", loads, count);
      CHECK(overlaps == (tiles == 2 && count > 0 ? count - 1 : 0), "%u tiles, %zu loads: %zu overlap", tiles, count,
            overlaps);
      paced_end(&p);
    }
}

static void without_a_loader_the_cpu_loads(void) {
  for (uint32_t tiles = 1; tiles <= 2; tiles++) CHECK(carry(ROWS_MAX, tiles, NULL), "%u tiles: wrong", tiles);
}

static double duration(uint32_t tiles, uint64_t load_time, uint64_t store_time) {
  struct paced p = paced_make(load_time, store_time);
  CHECK(carry(ROWS_MAX, tiles, &p.loader), "%u tiles: wrong", tiles);
  double time = (double)p.now;
  paced_end(&p);
  return time;
}

/* With two tiles, the shorter of load and store is hidden behind the longer. */
static void two_tiles_hide_the_shorter_half(void) {
  static const uint64_t times[][2] = {{10, 10}, {10, 15}, {15, 10}, {10, 20}, {20, 10}};
  for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
    double one = duration(1, times[i][0], times[i][1]), two = duration(2, times[i][0], times[i][1]);
    printf("  loads of %llu, stores of %llu: %.2f times as fast with two tiles\n", (unsigned long long)times[i][0],
           (unsigned long long)times[i][1], one / two);
    CHECK(one / two >= 1.4, "one tile takes %.0f, two take %.0f", one, two);
    double sum = (double)(times[i][0] + times[i][1]), longer = (double)tu_max(times[i][0], times[i][1]);
    CHECK(one == ROWS_MAX * sum && two == ROWS_MAX * longer + (sum - longer), "they take %.0f and %.0f", one, two);
  }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"two_tiles_overlap_and_one_does_not", two_tiles_overlap_and_one_does_not},
      {"without_a_loader_the_cpu_loads", without_a_loader_the_cpu_loads},
      {"two_tiles_hide_the_shorter_half", two_tiles_hide_the_shorter_half},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
