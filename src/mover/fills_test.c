/* fills_test.c: tests when slices are written past the caches: by measured times, on rings whose lines the peer has read. */
#include "mover/channel.h"

#include <string.h>

#include "test.h"

enum { FAST = 300, SLOW = 1500 };

/* Measurements one after the other, and whether overwriting counts as fast after each. */
static void test_two_agree(void) {
  static const struct {
    uint64_t ns;
    bool fast;
    bool again; /* the next slice is measured, too */
  } steps[] = {{SLOW, false, false}, {FAST, false, true}, {SLOW, false, false}, {FAST, false, true},
               {FAST, true, false},  {FAST, true, false}, {SLOW, true, true},   {FAST, true, false},
               {SLOW, true, true},   {SLOW, false, false}};
  struct tu_fills f = {0};
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
    f.left = 0;
    tu_fills_note(&f, steps[i].ns);
    CHECK(f.fast == steps[i].fast && (f.left == 0) == steps[i].again, "step %zu: fast %d, %u slices left", i, f.fast,
          f.left);
  }
}

/* Lines that no peer has read say nothing, so a ring that has not wrapped is not measured, and its content stays. */
static void test_when(void) {
  static unsigned char slice[TU_STREAM_BYTES];
  struct tu_fills f = {0};
  struct tu_staging ring = {.bytes = 1 << 20};
  memset(slice, 1, sizeof slice);
  CHECK(tu_fills_past(&f, tu_fills_place(&ring, slice)) && slice[0] == 1, "measured before the ring has wrapped");
  ring.wraps = 1;
  (void)tu_fills_past(&f, tu_fills_place(&ring, slice));
  CHECK(slice[0] == 0 && slice[TU_STREAM_BYTES - TU_LINE_BYTES] == 0, "not measured");
  f = (struct tu_fills){.fast = true, .left = 2};
  memset(slice, 1, sizeof slice);
  for (uint32_t left = 2; left-- > 0;)
    CHECK(!tu_fills_past(&f, slice) && f.left == left && slice[0] == 1, "%u slices left", f.left);
  (void)tu_fills_past(&f, slice);
  CHECK(slice[0] == 0, "not measured again");
}

/* A ring counts its wraps, whether it may grow or not. */
static void test_wraps(void) {
  bool outgrown = false;
  struct tu_staging ring = {.offset = 4096, .bytes = 2 * TU_LINE_BYTES}, long_ring = ring;
  ring.outgrown = &outgrown;
  for (uint32_t i = 0; i < 2 * TU_STAGING_WRAPS; i++) {
    CHECK(outgrown == (i / 2 >= TU_STAGING_WRAPS), "after %u wraps", ring.wraps);
    tu_staging_fill(&ring, 4096 + ring.at, TU_LINE_BYTES);
    tu_staging_fill(&long_ring, 4096 + long_ring.at, TU_LINE_BYTES);
  }
  CHECK(outgrown && ring.wraps == TU_STAGING_WRAPS && long_ring.wraps == TU_STAGING_WRAPS, "%u and %u wraps",
        ring.wraps, long_ring.wraps);
}

static const struct test tests[] = {{"two_agree", test_two_agree}, {"when", test_when}, {"wraps", test_wraps}};

int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
