/* view_test.c: chunks tile their block, and runs are what the chunks say. */
#include "tensor/view.h"

#include "test.h"

static void chunks_tile_every_block(void) {
  static const size_t counts[] = {0, 1, 5, 64, 1000, 4097}, items[] = {1, 2, 4, 8};
  static const uint32_t splits[] = {1, 2, 3, 7, 64};
  for (size_t c = 0; c < 6; c++)
    for (size_t t = 0; t < 4; t++)
      for (size_t s = 0; s < 5; s++) {
        struct tu_view v = {.item_bytes = items[t], .blocks = 3, .split = splits[s], .count = counts[c]};
        size_t at = 0;
        for (uint32_t chunk = 0; chunk < 3 * splits[s]; chunk++) {
          struct tu_run run = tu_view_chunk(&v, chunk);
          CHECK(run.offset == at, "count %zu split %u chunk %u starts at %zu, not %zu", counts[c], splits[s], chunk,
                run.offset, at);
          CHECK(run.bytes % items[t] == 0, "chunk %u cuts an item", chunk);
          at += run.bytes;
        }
        CHECK(at == 3 * counts[c] * items[t], "chunks hold %zu bytes of %zu", at, 3 * counts[c] * items[t]);
      }
}

static void runs_join_neighbours_and_keep_gaps(void) {
  const size_t counts[] = {3, 0, 2, 4}, offsets[] = {10, 0, 13, 20};
  struct tu_view v = {.item_bytes = 4, .blocks = 4, .split = 1, .counts = counts, .offsets = offsets};
  struct tu_run runs[4];
  CHECK(tu_view_runs(&v, 0, 4, runs) == 2, "expected two runs");
  CHECK(runs[0].offset == 40 && runs[0].bytes == 20, "first run %zu+%zu", runs[0].offset, runs[0].bytes);
  CHECK(runs[1].offset == 80 && runs[1].bytes == 16, "second run %zu+%zu", runs[1].offset, runs[1].bytes);
  size_t begin, end = tu_view_extent(&v, &begin);
  CHECK(begin == 40 && end == 96, "extent %zu..%zu", begin, end);
  struct tu_view empty = {.item_bytes = 4, .blocks = 2, .split = 3};
  CHECK(tu_view_runs(&empty, 0, 6, runs) == 0 && tu_view_extent(&empty, &begin) == 0, "an empty view has no runs");
}

static const struct test tests[] = {
    {"chunks_tile_every_block", chunks_tile_every_block},
    {"runs_join_neighbours_and_keep_gaps", runs_join_neighbours_and_keep_gaps},
};

int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
