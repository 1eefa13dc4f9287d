/* derive_test.c: tests the rules for slots with the figures for Wormhole from Tenstorrent's multi-chip guide, and with
 * invented figures. */
#include "sim/derive.h"

#include "test.h"

static void add_bandwidth(struct tu_wire_figures *f, size_t bytes, uint32_t channels, double gbs) {
  f->bandwidths[f->bandwidth_count++] = (struct tu_wire_bandwidth){bytes, channels, gbs};
}

static void add_ping(struct tu_wire_figures *f, size_t bytes, uint32_t hops, uint32_t channels, double ns) {
  f->pings[f->ping_count++] = (struct tu_wire_ping){bytes, hops, channels, ns, ns};
}

static void add_trip(struct tu_wire_figures *f, size_t bytes, double full_ns) {
  f->trips[f->trip_count++] =
      (struct tu_wire_trip){.bytes = bytes, .full_ns = full_ns, .issue_ns = 80, .answer_ns = 90};
}

/* Returns figures read off the plots of Tenstorrent's multi-chip guide: bandwidth by size with the best number of
 * channels; pings of 8 chips by size, and with 1 to 8 channels; round trips by size. */
static struct tu_wire_figures wormhole(void) {
  struct tu_wire_figures f = {0};
  static const struct {
    size_t bytes;
    double gbs;
  } best[] = {{1024, 7.75},  {2048, 16.4},  {4096, 23.05}, {8192, 23.2},
              {16384, 23.6}, {24576, 21.6}, {32768, 20.6}, {36864, 21.2}};
  static const struct {
    size_t bytes;
    double us;
  } pings[] = {{32, 5.67}, {64, 5.698}, {128, 5.682}, {256, 5.707}, {512, 6.024}, {768, 6.409}, {1024, 6.761}};
  static const struct {
    size_t bytes;
    double ns;
  } trips[] = {{16, 1075}, {1024, 1250}, {2048, 1360}, {8192, 1855}, {16384, 2555}};
  for (size_t i = 0; i < sizeof best / sizeof *best; i++) add_bandwidth(&f, best[i].bytes, 30, best[i].gbs);
  for (uint32_t channels = 1; channels <= 4; channels++) add_bandwidth(&f, 4096, channels, 3.6 * channels + 2);
  for (size_t i = 0; i < sizeof pings / sizeof *pings; i++) add_ping(&f, pings[i].bytes, 8, 1, pings[i].us * 1000);
  add_ping(&f, 16, 8, 8, 6790);
  add_ping(&f, 16, 12, 1, 8520);
  for (size_t i = 0; i < sizeof trips / sizeof *trips; i++) add_trip(&f, trips[i].bytes, trips[i].ns);
  tu_wire_complete(&f);
  return f;
}

static void test_wormhole(void) {
  struct tu_wire_figures f = wormhole();
  struct tu_wire_advice a;
  CHECK(tu_wire_advise(&f, &a), "no advice");
  CHECK(a.slot_low == 4096 && a.slot_high == 16384, "slots of %zu to %zu bytes", a.slot_low, a.slot_high);
  CHECK(a.outstanding_bytes == 8192, "%zu bytes outstanding", a.outstanding_bytes);
  CHECK(a.slots == 2, "%u slots", a.slots);
  CHECK(a.crossover_bytes > 4800 && a.crossover_bytes < 5200, "crossover at %zu bytes", a.crossover_bytes);
}

static bool near(double value, double expected) { return value > expected - 0.01 && value < expected + 0.01; }

static void test_trips(void) {
  struct tu_wire_figures f = {0};
  add_bandwidth(&f, 1000, 1, 10);
  add_bandwidth(&f, 1000, 2, 20);
  add_trip(&f, 500, 1070);
  CHECK(tu_wire_best(&f, 1000)->channels == 2 && !tu_wire_best(&f, 999), "best");
  CHECK(near(tu_wire_peak(&f), 10), "peak %g", tu_wire_peak(&f));
  tu_wire_complete(&f);
  const struct tu_wire_trip *t = &f.trips[0];
  CHECK(near(t->ideal_ns, 50) && near(t->hop_ns, 510) && near(t->wire_ns, 425), "ideal %g, hop %g, wire %g",
        t->ideal_ns, t->hop_ns, t->wire_ns);
}

/* Tests that a slow size ends the range of advised slot sizes: 1024 bytes are fast, but 2048 bytes are slow. */
static void test_gap(void) {
  struct tu_wire_figures f = {0};
  struct tu_wire_advice a;
  const double gbs[] = {9.9, 5, 9.6, 10, 9.4, 9.9};
  for (size_t i = 0; i < 6; i++) add_bandwidth(&f, (size_t)1024 << i, 1, gbs[i]);
  add_trip(&f, 16, 1000);
  tu_wire_complete(&f);
  CHECK(!tu_wire_advise(&f, &a), "advice without pings");
  add_ping(&f, 16, 2, 1, 200);
  CHECK(!tu_wire_advise(&f, &a), "advice from one size of pings");
  add_ping(&f, 1016, 2, 1, 2200);
  CHECK(tu_wire_advise(&f, &a), "no advice");
  CHECK(a.slot_low == 4096 && a.slot_high == 8192, "slots of %zu to %zu", a.slot_low, a.slot_high);
  /* 5 bytes per nanosecond times a hop of 498.4 ns, rounded up to a power of two */
  CHECK(a.outstanding_bytes == 4096 && a.slots == 2, "%zu outstanding, %u slots", a.outstanding_bytes, a.slots);
  CHECK(a.crossover_bytes == 84, "100 ns at 16 bytes, 1 ns a byte: %zu", a.crossover_bytes);
}

/* Tests special cases: long hops need more slots; a hop whose time does not grow has no crossover; there is no advice
 * if bandwidths, pings or round trips are missing. */
static void test_edges(void) {
  struct tu_wire_figures f = {0};
  struct tu_wire_advice a;
  CHECK(!tu_wire_advise(&f, &a) && tu_wire_peak(&f) == 0, "advice from nothing");
  add_trip(&f, 16, 20000);
  tu_wire_complete(&f);
  CHECK(f.trips[0].ideal_ns == 0 && near(f.trips[0].hop_ns, 10000), "a trip without a bandwidth");
  add_ping(&f, 16, 4, 1, 400);
  add_ping(&f, 64, 4, 1, 400);
  CHECK(!tu_wire_advise(&f, &a), "advice without bandwidths");
  add_bandwidth(&f, 1024, 4, 2);
  CHECK(tu_wire_advise(&f, &a), "no advice");
  CHECK(a.slot_low == 1024 && a.slot_high == 1024, "one size");
  CHECK(a.outstanding_bytes == 16384 && a.slots == 16, "%zu outstanding, %u slots", a.outstanding_bytes, a.slots);
  CHECK(a.crossover_bytes == 0, "crossover at %zu", a.crossover_bytes);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"wormhole", test_wormhole}, {"trips", test_trips}, {"gap", test_gap}, {"edges", test_edges}};
  return test_main(tests, sizeof tests / sizeof *tests, argc, argv);
}
