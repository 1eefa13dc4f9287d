/* units_test.c: tests the numbers with units. */
#include "cli/units.h"

#include "test.h"

static void same(struct units_text found, const char *expected) {
  CHECK(strcmp(found.chars, expected) == 0, "found '%s', expected '%s'", found.chars, expected);
}

static void test_bytes(void) {
  same(units_bytes(0), "0 B");
  same(units_bytes(1023), "1023 B");
  same(units_bytes(65536), "64 KiB");
  same(units_bytes(2000000), "1.907 MiB");
  same(units_bytes(1.5 * 0x1p30), "1.5 GiB");
  same(units_bytes(0x1p50 * 1e6), "1000000 PiB");
}

static void test_seconds(void) {
  same(units_seconds(0), "0 s");
  same(units_seconds(8e-11), "0.08 ns");
  same(units_seconds(1e-6), "1 us");
  same(units_seconds(8.4466e-5), "84.47 us");
  same(units_seconds(0.001584466), "1.584 ms");
  same(units_seconds(12), "12 s");
  same(units_seconds(123456.7), "123457 s");
}

static void test_counts(void) {
  same(units_count(0), "0");
  same(units_count(999), "999");
  same(units_count(20694), "20,694");
  same(units_count(UINT64_MAX), "18,446,744,073,709,551,615");
}

static void test_durations(void) {
  same(units_duration(0.25), "0.25 s");
  same(units_duration(34.4), "34 s");
  same(units_duration(119), "119 s");
  same(units_duration(180), "3 minutes");
  same(units_duration(1e9), "32 years");
}

static const struct test tests[] = {
    {"bytes", test_bytes}, {"seconds", test_seconds}, {"counts", test_counts}, {"durations", test_durations}};

int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
