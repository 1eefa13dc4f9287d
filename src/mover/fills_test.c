/* fills_test.c: tests when slices are written past the caches: by measured times, of this rank or of others, on rings whose
 * lines the peer has read. And where in a ring they are written, while a part of the ring is in use. */
#include "mover/channel.h"

#include <string.h>

#include "ranks.h"
#include "test.h"

enum { FAST = 300, SLOW = 1500 };

/* Measurements one after the other, and whether overwriting counts as fast after each: fast after TU_FILLS_SURE fast ones, of
 * which a slow one takes two back; slow after three slow ones. */
static void test_several_agree(void) {
  static const struct {
    uint64_t ns;
    uint32_t times;
    bool fast;
    bool again; /* the next slice is measured, too */
  } steps[] = {{SLOW, 1, false, false}, {FAST, 1, false, true},
               {SLOW, 1, false, false}, {FAST, TU_FILLS_SURE - 1, false, true},
               {SLOW, 1, false, false}, {FAST, 2, false, true},
               {FAST, 1, true, false},  {SLOW, 1, true, true},
               {FAST, 1, true, false},  {FAST, TU_FILLS_SURE, true, false},
               {SLOW, 2, true, true},   {SLOW, 1, false, false},
               {SLOW, 1, false, false}};
  struct tu_fills f = {0};
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
    for (uint32_t k = 0; k < steps[i].times; k++) {
      f.left = 0;
      tu_fills_note(&f, steps[i].ns);
    }
    CHECK(f.fast == steps[i].fast && (f.left == 0) == steps[i].again, "step %zu: fast %d, %u slices left", i, f.fast,
          f.left);
  }
}

/* A rank that has not measured takes what another one of its host has found; what it has measured itself counts more. */
static void test_what_others_found(void) {
  _Atomic uint32_t found = 0;
  struct tu_fills first = {.found = &found}, second = {.found = &found}, alone = {0};
  CHECK(!tu_fills_fast(&first) && !tu_fills_fast(&second), "fast, though no rank has measured");
  for (uint32_t i = 1; i < TU_FILLS_SURE; i++) tu_fills_note(&first, FAST);
  CHECK(!tu_fills_fast(&first) && !tu_fills_fast(&second), "fast after too few measurements");
  tu_fills_note(&first, FAST);
  CHECK(tu_fills_fast(&first) && tu_fills_fast(&second) && !tu_fills_fast(&alone), "not fast for whom it should be");
  CHECK(!tu_fills_past(&second, NULL), "written past the caches, though overwriting is fast");
  for (int i = 0; i < 4; i++) tu_fills_note(&second, SLOW);
  CHECK(tu_fills_fast(&first) && !tu_fills_fast(&second) && found == 0, "first %d, second %d, found %u", first.fast,
        second.fast, found);
}

/* Which of 130 short slices are timed, and of the long ones that follow. */
static void test_timed_slices(void) {
  static const uint32_t timed[] = {0, 1, 3, 7, 15, 31, 63, 124, 185, 187, 189, 191};
  enum { SHORT = 130, ALL = 192 };
  struct tu_line line = {.bytes = 8};
  struct tu_credit_line credit = {0};
  struct tu_receiver r = {.lines = &line, .credit = &credit, .credits = 1};
  size_t times = 0;
  for (uint32_t i = 0; i < ALL; i++) {
    const bool now = r.received == r.next_timed;
    line.bytes = i < SHORT ? 8 : 64 << 10;
    atomic_store(&line.sequence, i + 1);
    CHECK(tu_receiver_line(&r) == &line, "slice %u has not arrived", i);
    CHECK(now == (times < sizeof timed / sizeof timed[0] && timed[times] == i), "slice %u is%s timed", i,
          now ? "" : " not");
    times += now;
    tu_receiver_release(&r);
  }
}

/* Lines that no peer has read say nothing, so a ring that has not wrapped is not measured, and its content stays. */
static void test_when(void) {
  static unsigned char slice[TU_STREAM_BYTES];
  struct tu_fills f = {0};
  struct tu_staging ring = {.bytes = 1 << 20, .limit = 1 << 20};
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
  _Atomic uint32_t found = 1; /* by ranks that measure */
  f = (struct tu_fills){.slow = true, .fast = true, .found = &found};
  memset(slice, 1, sizeof slice);
  CHECK(tu_fills_past(&f, slice) && !tu_fills_fast(&f) && slice[0] == 1,
        "measured, or fast, though it is known to be slow");
}

/* A ring counts its wraps, whether it may grow or not. */
static void test_wraps(void) {
  enum { BYTES = 2 * TU_LINE_BYTES };
  bool outgrown = false;
  struct tu_staging ring = {.offset = 4096, .bytes = BYTES, .limit = BYTES, .made = BYTES}, long_ring = ring;
  ring.outgrown = &outgrown;
  ring.grows = true;
  for (uint32_t i = 0; i < 2 * TU_STAGING_WRAPS; i++) {
    CHECK(outgrown == (i / 2 >= TU_STAGING_WRAPS), "after %u wraps", ring.wraps);
    tu_staging_fill(&ring, 4096 + ring.at, TU_LINE_BYTES);
    tu_staging_fill(&long_ring, 4096 + long_ring.at, TU_LINE_BYTES);
  }
  CHECK(outgrown && ring.wraps == TU_STAGING_WRAPS && long_ring.wraps == TU_STAGING_WRAPS, "%u and %u wraps",
        ring.wraps, long_ring.wraps);
}

/* A busy ring uses more of its length from time to time, and tells so; a ring whose pages exist uses all at once. */
static void test_parts(void) {
  enum { BYTES = 1 << 20, PIECE = 8 << 10 };
  bool outgrown = false;
  struct tu_staging ring = {.outgrown = &outgrown};
  struct tu_staging_ring given = {.offset = 4096, .bytes = BYTES, .made = true};
  tu_staging_change(&ring, &given, 0);
  CHECK(ring.limit == BYTES, "%llu bytes in use", (unsigned long long)ring.limit);
  struct tu_staging_ring fresh = {.offset = 4096, .bytes = BYTES};
  tu_staging_change(&ring, &fresh, 0);
  for (uint64_t part = TU_STAGING_PART; part < BYTES; part *= 2) {
    for (uint32_t i = 0; i < part / PIECE * (TU_STAGING_WRAPS + 1); i++) {
      CHECK(ring.limit == part && !outgrown, "%llu bytes in use, not %llu", (unsigned long long)ring.limit,
            (unsigned long long)part);
      tu_staging_fill(&ring, tu_staging_room(&ring, ring.filled, PIECE), PIECE);
    }
    tu_staging_fill(&ring, tu_staging_room(&ring, ring.filled, PIECE), PIECE);
    CHECK(ring.limit == 2 * part && ring.made < ring.limit && outgrown, "%llu bytes in use after %llu",
          (unsigned long long)ring.limit, (unsigned long long)part);
    ring.made = ring.limit;
    outgrown = false;
    ring.filled += ring.limit - ring.at; /* begins the part anew */
    ring.at = 0;
  }
}

/* Random pieces, freed in turn. None overlaps another one, and an empty ring has room, at the latest when the part is called
 * full. */
static void test_no_overlap(void) {
  enum { BYTES = 512 << 10, LIVE = 64, STEPS = 200000, ROUND = 400 };
  struct live {
    uint64_t offset, need, start;
  } live[LIVE];
  uint64_t random = test_seed();
  struct tu_staging_ring given = {.offset = 4096, .bytes = BYTES};
  struct tu_staging ring = {0};
  uint32_t first = 0, next = 0, none = 0, whole = 0;
  for (uint32_t step = 0; step < STEPS; step++) {
    if (step % ROUND == 0) {
      whole += ring.limit == BYTES;
      ring = (struct tu_staging){0};
      tu_staging_change(&ring, &given, 0);
      first = next;
    }
    const uint32_t frees = ranks_random(&random) % 4 == 0 ? (uint32_t)(ranks_random(&random) % (next - first + 1)) : 0;
    first += frees;
    const size_t bytes = 33 + ranks_random(&random) % (ranks_random(&random) % 8 ? 4096 : BYTES / 2 - 33);
    if (next - first == LIVE) continue;
    const uint64_t freed = first == next ? ring.filled : live[first % LIVE].start;
    uint64_t offset = tu_staging_room(&ring, freed, bytes);
    if (!offset && tu_staging_is_full(&ring)) offset = tu_staging_room(&ring, freed, bytes);
    CHECK(offset || first != next, "step %u: no room in an empty ring", step);
    none += !offset;
    if (!offset) continue;
    struct live *piece = &live[next % LIVE];
    *piece = (struct live){offset, tu_round_up(bytes, TU_LINE_BYTES), ring.filled};
    tu_staging_fill(&ring, offset, bytes);
    CHECK(offset >= 4096 && offset + piece->need <= 4096 + ring.limit && ring.limit <= BYTES, "step %u: outside", step);
    for (uint32_t i = first; i != next; i++)
      CHECK(offset + piece->need <= live[i % LIVE].offset || live[i % LIVE].offset + live[i % LIVE].need <= offset,
            "step %u: a piece at %llu overlaps one at %llu", step, (unsigned long long)offset,
            (unsigned long long)live[i % LIVE].offset);
    next++;
  }
  CHECK(none > 0 && whole > 0, "%u times no room, %u times a whole ring", none, whole);
}

static const struct test tests[] = {
    {"several_agree", test_several_agree}, {"when", test_when},   {"what_others_found", test_what_others_found},
    {"timed_slices", test_timed_slices},   {"wraps", test_wraps}, {"parts", test_parts},
    {"no_overlap", test_no_overlap}};

int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
