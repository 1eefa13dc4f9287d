/* links_test.c: tests that link models and rows of measurements are read, or refused with file and line; that the
 * Wormhole model agrees with the measurements of Tenstorrent's multi-chip guide, row by row; and that single links take
 * the times computed by hand. */
#include "sim/links.h"

#include <math.h>
#include <string.h>

#include "base/text.h"
#include "sim/link_bench.h"
#include "sim/link_rows.h"
#include "test.h"

static bool near(double a, double b) { return fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b)); }

static struct tu_link_model load(const char *what) {
  struct tu_link_model model = {.name = ""};
  struct tu_error error = {.text = ""};
  CHECK(tu_link_model_load(what, &model, &error) == TUTTI_OK, "%s", error.text);
  return model;
}

/* ---- readers ---- */

static void read_models(void) {
  static const char text[] =
      "# a link\n\nbandwidth 2 GB/s # each way\n  latency 3 us\nstored yes\npacket_bytes 2 KiB\n";
  struct tu_link_model m;
  struct tu_error error;
  CHECK(tu_link_model_read(text, strlen(text), "text", &m, &error) == TUTTI_OK, "%s", error.text);
  CHECK(near(m.bandwidth, 2e9) && near(m.latency, 3e-6) && m.stored && near(m.packet_bytes, 2048), "wrong values");
  CHECK(m.channels == 0 && m.slot_bytes == 0, "what is not said is 0");
  static const struct {
    const char *text, *said;
  } bad[] = {
      {"", "bad:1: |bandwidth|the text"},
      {"latency 3 us\n", "bad:2: |bandwidth|the text"},
      {"bandwidth 1 GB/s\nlatancy 3 us\n", "bad:2: |'latancy'|latency?"},
      {"bandwidth 1 GB/s\nbandwidth 1 GB/s\n", "bad:2: |bandwidth|twice"},
      {"bandwidth 1\n", "bad:1: |a speed|GB/s"},
      {"bandwidth 1 ns\n", "bad:1: |a speed|GB/s"},
      {"bandwidth -1 GB/s\n", "bad:1: |a speed|GB/s"},
      {"bandwidth nan GB/s\n", "bad:1: |a speed|GB/s"},
      {"bandwidth 1 GB/s\nlatency 3 GB/s\n", "bad:2: |a time|ns"},
      {"bandwidth 1 GB/s\nstored maybe\n", "bad:2: |yes or no|'maybe'"},
      {"bandwidth 1 GB/s\nchannels 1.5\n", "bad:2: |whole number|'1.5'"},
      {"bandwidth 1 GB/s more\n", "bad:1: |the line|'more'"},
      {"bandwidth 1 GB/s\npacket_bytes 0.5 B\n", "bad:2: |packet_bytes|1 B"},
      {"bandwidth 1 GB/s\n= 3\n", "bad:2: |name|'='"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    error.text[0] = '\0';
    tutti_err err = tu_link_model_read(bad[i].text, strlen(bad[i].text), "bad", &m, &error);
    CHECK(err == TUTTI_ERR_ARGUMENT && test_contains(error.text, bad[i].said), "'%s': said '%s', expected '%s'",
          bad[i].text, error.text, bad[i].said);
  }
  CHECK(tu_link_model_load("/no/such.links", &m, &error) != TUTTI_OK, "a file that is not there");
}

#define HEADER "benchmark,bytes,channels,hops,part,value,unit,error,tolerance,use\n"

static void read_rows(void) {
  static const struct {
    const char *text, *said;
  } bad[] = {
      {"", "bad:1: |a row|the text"},
      {HEADER, "bad:2: |a row|the text"},
      {"bandwidth,1,1,1,x,1,GB/s,0,5,fit\n", "bad:1: |benchmark: |header|'bandwidth'"},
      {HEADER "# more\nbandwith,1,1,1,x,1,GB/s,0,5,fit\n", "bad:3: |benchmark: |ring_ping|'bandwith'"},
      {HEADER "bandwidth,0,1,1,x,1,GB/s,0,5,fit\n", "bad:2: |bytes: |'0'"},
      {HEADER "bandwidth,1,0,1,x,1,GB/s,0,5,fit\n", "bad:2: |channels: |1 to 64"},
      {HEADER "bandwidth,1,65,1,x,1,GB/s,0,5,fit\n", "bad:2: |channels: |1 to 64"},
      {HEADER "ring_ping,1,1,0,x,1,ns,0,5,fit\n", "bad:2: |hops: |1024|'0'"},
      {HEADER "round_trip,1,1,1,whole,1,ns,0,5,fit\n", "bad:2: |part: |full|'whole'"},
      {HEADER "bandwidth,1,1,1,x,0,GB/s,0,5,fit\n", "bad:2: |value: |'0'"},
      {HEADER "bandwidth,1,1,1,x,1,ns,0,5,fit\n", "bad:2: |unit: |GB/s|'ns'"},
      {HEADER "ring_ping,1,1,1,x,1,GB/s,0,5,fit\n", "bad:2: |unit: |ns|'GB/s'"},
      {HEADER "bandwidth,1,1,1,x,1,GB/s,?,5,fit\n", "bad:2: |error: |'?'"},
      {HEADER "bandwidth,1,1,1,x,1,GB/s,0,101,fit\n", "bad:2: |tolerance: |100|'101'"},
      {HEADER "bandwidth,1,1,1,x,1,GB/s,0,5,fitted\n", "bad:2: |use: |fit, held or reported|'fitted'"},
      {HEADER "bandwidth,1,1,1,x,1,GB/s,0,5\n", "bad:2: |10 fields|found 9"},
      {HEADER "bandwidth,1,1,1,x,1,GB/s,0,5,fit,more\n", "bad:2: |10 fields|found 11"},
      {HEADER "bandwidth,1,1,1,an extremely long name of a part of it,1,GB/s,0,5,fit\n",
       "bad:2: |38 characters|at most 31"},
  };
  struct tu_link_row *rows;
  uint32_t count;
  struct tu_error error;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    error.text[0] = '\0';
    tutti_err err = tu_link_rows_read(bad[i].text, strlen(bad[i].text), "bad", &rows, &count, &error);
    CHECK(err == TUTTI_ERR_ARGUMENT && test_contains(error.text, bad[i].said), "'%s': said '%s', expected '%s'",
          bad[i].text, error.text, bad[i].said);
  }
  static const char good[] = HEADER "bandwidth,1024,2,1,both_ways,4,GB/s,0.5,5,held\r\n";
  CHECK(tu_link_rows_read(good, strlen(good), "good", &rows, &count, &error) == TUTTI_OK, "%s", error.text);
  CHECK(count == 1 && near(rows->value, 4e9) && near(rows->bound, 5e8) && rows->use == TU_ROW_HELD, "wrong row");
  free(rows);
}

/* ---- the model of Wormhole's links ---- */

static void wormhole_agrees(void) {
  struct tu_link_model model = load("wormhole");
  struct tu_error error;
  struct tu_link_row *rows;
  uint32_t count, channels, played[3] = {0};
  char *data;
  size_t bytes;
  const char *path = SOURCE_DIR "/src/sim/wormhole_rows.csv";
  if (tu_read_file(path, &data, &bytes, &error) != TUTTI_OK ||
      tu_link_rows_read(data, bytes, path, &rows, &count, &error) != TUTTI_OK) {
    FAIL("%s", error.text);
    return;
  }
  for (uint32_t i = 0; i < count; i++) {
    double value = tu_link_row_play(&rows[i], &model, &channels);
    played[rows[i].use]++;
    CHECK(rows[i].use == TU_ROW_REPORTED || fabs(value - rows[i].value) <= rows[i].bound,
          "%s of %.0f bytes, %u channels: %g, measured %g, may be off by %g", tu_row_kinds[rows[i].kind], rows[i].bytes,
          channels, value, rows[i].value, rows[i].bound);
  }
  printf("  rows: %u fit, %u held out, %u reported only\n", played[TU_ROW_FIT], played[TU_ROW_HELD],
         played[TU_ROW_REPORTED]);
  CHECK(played[TU_ROW_FIT] == 30 && played[TU_ROW_HELD] == 31 && played[TU_ROW_REPORTED] == 6, "rows are missing");
  free(rows);
  free(data);
}

/* Compares the utilization with the curve plotted in Tenstorrent's multi-chip guide, and with the values of some
 * points. */
static void utilization(void) {
  struct tu_link_model model = load("wormhole");
  for (double p = 16; p <= 3078; p++)
    CHECK(near(tu_link_utilization(&model, p), p / (p + 50 * ceil(p / 1500))), "at %.0f bytes", p);
  static const double points[][2] = {{16, .2424},   {32, .3902},   {256, .8366},
                                     {1500, .9677}, {1600, .9412}, {3078, .9535}};
  for (size_t i = 0; i < sizeof points / sizeof points[0]; i++)
    CHECK(fabs(tu_link_utilization(&model, points[i][0]) - points[i][1]) < 6e-5, "at %.0f bytes", points[i][0]);
}

/* Tenstorrent's multi-chip guide measured more than 20 GB/s with workers (processors that fill and empty slots) at both
 * ends. */
static void mover(void) {
  struct tu_link_model model = load("wormhole");
  double best = 0;
  for (uint32_t channels = 1; channels <= 4; channels++) {
    double speed = tu_link_mover_bandwidth(&model, 8192, channels, 2, 256);
    CHECK(speed < 25e9, "%u channels: faster than the link", channels);
    best = fmax(best, speed);
  }
  printf("  %.1f GB/s both ways\n", best / 1e9);
  CHECK(best >= 20e9, "%g", best);
}

static void what_fits(void) {
  struct tu_link_model model = load("wormhole");
  struct tu_error error;
  CHECK(tu_link_fits(&model, 30, 30, 2048, 1, &error) == TUTTI_OK, "%s", error.text);
  CHECK(tu_link_fits(&model, 31, 1, 16, 1, &error) != TUTTI_OK && strstr(error.text, "31 channels"), "31 channels");
  CHECK(tu_link_fits(&model, 4, 4, 32768, 1, &error) != TUTTI_OK && strstr(error.text, "bytes") == NULL &&
            strstr(error.text, "153600"),
        "%s", error.text);
}

/* ---- one link, computed by hand ---- */

struct told {
  struct tu_links *links;
  uint32_t arrived, freed;
  double last_arrived, last_freed, bytes;
};

static void on_arrived(void *self, uint32_t channel, double bytes, double when) {
  struct told *t = self;
  (void)channel;
  t->arrived++;
  t->bytes += bytes;
  t->last_arrived = when;
}

static void on_freed(void *self, uint32_t channel, double when) {
  struct told *t = self;
  (void)channel;
  t->freed++;
  t->last_freed = when;
}

static void run(struct told *t, struct tu_events *events) {
  while (events->count > 0) {
    struct tu_event event = tu_events_take(events);
    tu_links_event(t->links, &event);
  }
}

/* Returns the time until one message arrives over an otherwise idle link. The link may be down for a period, or
 * slow. */
static double one_message(const struct tu_link_model *model, double bytes, const struct tu_links_down *down,
                          double slowness) {
  struct told t = {.arrived = 0};
  struct tu_events events = {.count = 0};
  const struct tu_links_told told = {&t, on_arrived, on_freed, NULL};
  const struct tu_links_options options = {.model = model,
                                           .links = 1,
                                           .way = TU_LINKS_WAITS,
                                           .downs = down,
                                           .down_count = down != NULL,
                                           .slowness = &slowness};
  t.links = tu_links_create(&options, &events, 3, &told);
  uint32_t channel = tu_links_add(t.links, 0, 1, TU_LINKS_ANSWERS);
  CHECK(tu_links_has_slot(t.links, channel), "no slot at first");
  tu_links_send(t.links, channel, bytes, 0);
  CHECK(!tu_links_has_slot(t.links, channel), "one slot for two messages");
  run(&t, &events);
  CHECK(t.arrived == 1 && t.freed == 1 && tu_links_has_slot(t.links, channel), "%u arrived, %u freed", t.arrived,
        t.freed);
  CHECK(tu_links_load(t.links, 0)->packets == 1 && tu_links_load(t.links, 1)->packets == 0, "wrong loads");
  tu_links_destroy(t.links);
  tu_events_fini(&events);
  return t.last_arrived;
}

static void one_link(void) {
  struct tu_link_model model = load("wormhole");
  double base = one_message(&model, 4096, NULL, 1);
  CHECK(near(base, model.issue + tu_link_crossing(&model, 4096) + model.respond), "%g", base);
  /* If a link goes down during a crossing, the crossing takes longer by exactly this period. If the link is down
   * before, the crossing begins after the period. If it goes down later, there is no delay. */
  const double down = 7e-6, whole = down + model.retrain;
  const struct tu_links_down during = {0, base / 2, base / 2 + whole}, before = {0, 0, whole}, after = {0, 1, 2};
  CHECK(near(one_message(&model, 4096, &during, 1), base + whole), "down meanwhile");
  CHECK(near(one_message(&model, 4096, &before, 1), whole + base - model.issue), "down at first");
  CHECK(near(one_message(&model, 4096, &after, 1), base), "down later");
  double twice = one_message(&model, 4096, NULL, 2);
  CHECK(near(twice - base, tu_link_crossing(&model, 4096) - model.latency), "a slow link: %g more", twice - base);
  /* Sizes are rounded up to multiples of the granule (the model's unit of sizes). */
  CHECK(one_message(&model, 4081, NULL, 1) == base && one_message(&model, 4080, NULL, 1) < base, "granules");
}

/* Many channels in each direction: all messages arrive, in any order, and the bandwidth never exceeds that of the
 * wire. */
static void many_channels(void) {
  struct tu_link_model model = load("wormhole");
  for (uint32_t channels = 1; channels <= 30; channels += channels < 4 ? 1 : 13)
    for (double bytes = 16; bytes <= 16384; bytes *= 4) {
      double speed = tu_link_bandwidth(&model, bytes, channels, 32);
      CHECK(speed <= 2 * model.bandwidth * tu_link_utilization(&model, bytes), "%u channels of %.0f bytes: %g",
            channels, bytes, speed);
    }
  struct tu_link_model plain = load("plain");
  double hop = tu_link_crossing(&plain, 1024);
  CHECK(near(tu_link_ring_ping(&plain, 1024, 1, 8, false), 8 * hop), "a ping on plain links");
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"read_models", read_models},
      {"read_rows", read_rows},
      {"wormhole_agrees", wormhole_agrees},
      {"utilization", utilization},
      {"mover", mover},
      {"what_fits", what_fits},
      {"one_link", one_link},
      {"many_channels", many_channels},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
