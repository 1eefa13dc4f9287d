/* view_test.c: checks that chunks cover their block without gaps, and lie at the given offsets. */
#include "tensor/view.h"

#include "test.h"

static void chunks_tile_every_block(void) {
  static const size_t counts[] = {0, 1, 5, 64, 1000, 4097}, items[] = {1, 2, 4, 8, 17, 9};
  static const uint32_t splits[] = {1, 2, 3, 7, 64};
  for (size_t c = 0; c < 6; c++)
    for (size_t t = 0; t < 6; t++)
      for (size_t s = 0; s < 5; s++) {
        struct tu_view v = {.item_bytes = items[t], .blocks = 3, .split = splits[s], .count = counts[c]};
        size_t at = 0;
        for (uint32_t chunk = 0; chunk < 3 * splits[s]; chunk++) {
          struct tu_run run = tu_view_chunk(&v, chunk);
          CHECK(run.offset == at, "count %zu split %u chunk %u starts at %zu, not %zu", counts[c], splits[s], chunk,
                run.offset, at);
          CHECK(run.bytes % items[t] == 0, "chunk %u cuts an item", chunk);
          size_t within = at - chunk / splits[s] * counts[c] * items[t], line = 64 / items[t] * items[t];
          CHECK(within % line == 0 || within == counts[c] * items[t], "chunk %u begins within a line, at %zu", chunk,
                within);
          at += run.bytes;
        }
        CHECK(at == 3 * counts[c] * items[t], "chunks hold %zu bytes of %zu", at, 3 * counts[c] * items[t]);
      }
}

static void chunks_lie_at_their_offsets(void) {
  const size_t counts[] = {3, 0, 2, 4}, offsets[] = {10, 0, 13, 20};
  struct tu_view v = {.item_bytes = 4, .blocks = 4, .split = 1, .counts = counts, .offsets = offsets};
  for (uint32_t block = 0; block < 4; block++) {
    struct tu_run run = tu_view_chunk(&v, block);
    CHECK(run.offset == 4 * offsets[block] && run.bytes == 4 * counts[block], "block %u: %zu+%zu", block, run.offset,
          run.bytes);
  }
  size_t begin, end = tu_view_extent(&v, &begin);
  CHECK(begin == 40 && end == 96, "extent %zu..%zu", begin, end);
  struct tu_view empty = {.item_bytes = 4, .blocks = 2, .split = 3};
  CHECK(tu_view_extent(&empty, &begin) == 0 && begin == 0, "an empty view has no extent");
}

static void blocks_have_addresses(void) {
  const size_t counts[] = {3, 0, 2};
  const unsigned char memory[40] = {0};
  const void *const addresses[] = {memory + 21, NULL, memory + 6};
  struct tu_view v = {.item_bytes = 4, .blocks = 3, .split = 2, .counts = counts, .addresses = addresses};
  CHECK(tu_view_lowest(&v) == memory + 6, "the lowest address of a block that is not empty");
  size_t packed = 0;
  for (uint32_t chunk = 0; chunk < 6; chunk++) {
    uint32_t block;
    const struct tu_run run = tu_view_chunk(&v, chunk), part = tu_view_part(&v, chunk, &block);
    CHECK(run.offset == packed, "chunk %u: %zu, expected %zu", chunk, run.offset, packed);
    CHECK(block == chunk / 2 && part.bytes == run.bytes && part.offset == packed - (block > 0 ? 12 : 0),
          "chunk %u: block %u, %zu+%zu", chunk, block, part.offset, part.bytes);
    packed += run.bytes;
  }
  v.counts = NULL;
  CHECK(tu_view_lowest(&v) == NULL, "all blocks are empty");
}

static const struct test tests[] = {
    {"chunks_tile_every_block", chunks_tile_every_block},
    {"chunks_lie_at_their_offsets", chunks_lie_at_their_offsets},
    {"blocks_have_addresses", blocks_have_addresses},
};

int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
