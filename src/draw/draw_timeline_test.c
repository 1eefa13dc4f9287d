/* draw_timeline_test.c: tests the trace and the page of a timeline. Loads are the busy time of the ports; rows do not
 * overlap; the critical path has no gaps; every input yields valid JSON. */
#include "draw/draw_timeline.h"

#include <math.h>

#include "algo/algo.h"
#include "clusters.h"
#include "draw/draw_cluster_layout.h"
#include "draw/draw_timeline_internal.h"
#include "sim/sim_cluster.h"

struct scene {
  struct tu_cluster *cluster;
  struct tu_grid grid;
  struct tu_ring ring;
  struct tu_router *router;
  struct tu_link_model model;
};

static void open_scene(struct scene *s, const char *cluster) {
  struct tu_error error;
  *s = (struct scene){.cluster = cluster_of(cluster)};
  tu_grid_find(s->cluster, &s->grid);
  tu_ring_find(s->cluster, &s->grid, &s->ring);
  if (tu_link_model_load("wormhole", &s->model, &error) != TUTTI_OK ||
      tu_router_create(s->cluster, &s->grid, TU_SHORTEST, &s->router, &error) != TUTTI_OK) {
    printf("%s\n", error.text);
    abort();
  }
}

static void close_scene(struct scene *s) {
  tu_router_destroy(s->router);
  tu_ring_fini(&s->ring);
  tu_grid_fini(&s->grid);
  tu_cluster_destroy(s->cluster);
}

static struct tu_draw_timeline draw(struct scene *s, const struct tu_timeline *t, const char *title) {
  return (struct tu_draw_timeline){
      .cluster = {.cluster = s->cluster, .grid = &s->grid, .ring = &s->ring, .title = title},
      .timeline = t,
      .ranks = s->cluster->chip_count};
}

/* Simulates an algorithm and stores the report; returns false if the algorithm does not support this number of
 * ranks. */
static bool play(struct scene *s, const struct tu_algorithm *algorithm, bool fluid, const double *late,
                 struct tu_sim_cluster_report *report) {
  struct tu_build what = {.algorithm = algorithm, .ranks = s->cluster->chip_count, .rank = TU_ALL_RANKS};
  struct tu_sim_where where = {
      .cluster = s->cluster, .router = s->router, .model = &s->model, .fluid = fluid, .late = late, .traced = true};
  struct tu_error error;
  if (!tu_algorithm_fits(algorithm, what.ranks) || algorithm->flags & TU_OPEN_GROUPS) return false;
  struct tu_sim *sim = tu_sim_build(&what);
  if (tu_sim_run_on(sim, 1e5, &where, report, &error) != TUTTI_OK) {
    printf("%s: %s\n", algorithm->name, error.text);
    abort();
  }
  tu_sim_destroy(sim);
  return true;
}

static const struct tu_algorithm *named(tutti_collective collective, const char *name) {
  for (size_t i = 0; i < tu_algorithm_count; i++)
    if (tu_algorithms[i]->collective == collective && strcmp(tu_algorithms[i]->name, name) == 0)
      return tu_algorithms[i];
  printf("there is no %s\n", name);
  abort();
}

/* ---- a random timeline; times are multiples of 1/1,024 s, so that sums are exact ---- */

enum { TICKS = 1000, RANKS = 8 };

static void make_random(uint64_t *seed, const struct tu_cluster *c, struct tu_timeline *t) {
  uint32_t crossings = below(seed, 400), deeds = 1 + below(seed, 60);
  *t = (struct tu_timeline){.end = TICKS / 1024.0, .last = TU_NONE};
  t->crossings = tu_allocate(crossings, sizeof *t->crossings);
  t->deeds = tu_allocate(deeds, sizeof *t->deeds);
  for (uint32_t i = 0; i < crossings; i++) {
    uint32_t begin = below(seed, TICKS), length = below(seed, 5) ? below(seed, 40) : below(seed, TICKS);
    uint32_t end = begin + length < TICKS ? begin + length : TICKS;
    t->crossings[t->crossing_count++] = (struct tu_crossing){.port = below(seed, 2 * c->link_count),
                                                             .from = below(seed, RANKS),
                                                             .to = below(seed, RANKS),
                                                             .bytes = 1 + below(seed, 9000),
                                                             .begin = begin / 1024.0,
                                                             .end = end / 1024.0};
  }
  for (uint32_t i = 0; i < deeds; i++) {
    uint32_t cause = i > 0 && below(seed, 3) ? below(seed, i) : TU_NONE;
    double begin = cause == TU_NONE ? below(seed, 100) / 1024.0 : t->deeds[cause].end;
    const uint32_t to = below(seed, 3) ? below(seed, RANKS) : TU_NONE;
    t->deeds[t->deed_count++] = (struct tu_deed){.rank = below(seed, RANKS),
                                                 .to = to,
                                                 .kind = to == TU_NONE ? TU_DEED_REDUCTION : TU_DEED_MESSAGE,
                                                 .cause = cause,
                                                 .bytes = below(seed, 9000),
                                                 .begin = begin,
                                                 .end = fmin(begin + below(seed, 90) / 1024.0, t->end)};
    if (t->last == TU_NONE || t->deeds[i].end > t->deeds[t->last].end) t->last = i;
  }
}

static const char *const call_names[] = {"allreduce(count 4, f32)", "barrier", "send(\"<tag>\")", "\xff\x01", ""};
static const char *const rank_places[RANKS] = {"here", "here", "there", "there", "\"quoted\"", "<b>", "", "\xff"};

static int compare_calls(const void *a, const void *b) {
  const struct tu_timed_call *x = a, *y = b;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Adds calls and waits of some of the ranks, which may overlap, and parts of a critical path of all kinds. */
static void make_calls(uint64_t *seed, struct tu_timeline *t) {
  const uint32_t calls = 1 + below(seed, 100), ranks = 1 + below(seed, RANKS),
                 parts = below(seed, 15); /* of at most 60 ticks each */
  t->calls = tu_allocate(calls, sizeof *t->calls);
  for (uint32_t i = 0; i < calls; i++) {
    const uint32_t begin = below(seed, TICKS), end = begin + below(seed, 50);
    const bool waits = below(seed, 3) == 0;
    t->calls[t->call_count++] = (struct tu_timed_call){.rank = below(seed, ranks),
                                                       .awaited = waits ? below(seed, RANKS) : TU_NONE,
                                                       .name = waits ? NULL : call_names[below(seed, 5)],
                                                       .begin = begin / 1024.0,
                                                       .end = fmin(end / 1024.0, t->end)};
  }
  qsort(t->calls, t->call_count, sizeof *t->calls, compare_calls);
  struct tu_deed *deeds = tu_allocate((size_t)t->deed_count + parts, sizeof *deeds);
  memcpy(deeds, t->deeds, t->deed_count * sizeof *deeds);
  free(t->deeds);
  t->deeds = deeds;
  t->last = TU_NONE;
  for (uint32_t i = 0, at = 0; i < parts; i++) {
    const enum tu_deed_kind kind = (enum tu_deed_kind)below(seed, TU_DEED_PAUSE + 1);
    const uint32_t end = at + 1 + below(seed, 60);
    const bool two = kind == TU_DEED_MESSAGE || kind == TU_DEED_ROOM;
    t->deeds[t->deed_count] = (struct tu_deed){.rank = below(seed, RANKS),
                                               .to = two ? below(seed, RANKS) : TU_NONE,
                                               .kind = kind,
                                               .cause = t->last,
                                               .begin = at / 1024.0,
                                               .end = fmin(end / 1024.0, t->end)};
    t->last = t->deed_count++;
    at = end;
  }
}

static void free_timeline(struct tu_timeline *t) {
  free(t->calls);
  free(t->crossings);
  free(t->deeds);
}

/* ---- loads ---- */

/* Counts the ticks (1/1,024 s) in [from, until) in which the port is busy. */
static uint32_t ticks_taken(const struct tu_timeline *t, uint32_t port, uint32_t from, uint32_t until) {
  bool taken[TICKS] = {false};
  uint32_t count = 0;
  for (uint32_t i = 0; i < t->crossing_count; i++)
    for (int tick = (int)(t->crossings[i].begin * 1024);
         t->crossings[i].port == port && tick < t->crossings[i].end * 1024; tick++)
      taken[tick] = true;
  for (uint32_t tick = from; tick < until; tick++) count += taken[tick];
  return count;
}

static void check_loads(const struct tu_timeline *t, uint32_t ports, uint32_t bins) {
  uint32_t *order = tu_draw_crossing_order(t), used = 0;
  struct tu_draw_loads l;
  tu_draw_loads_init(&l, t, order, bins);
  for (uint32_t port = 0; port < ports; port++) {
    double bytes = 0, sum = 0;
    uint32_t crossings = 0, whole = ticks_taken(t, port, 0, TICKS);
    for (uint32_t i = 0; i < t->crossing_count; i++)
      if (t->crossings[i].port == port) bytes += t->crossings[i].bytes, crossings++;
    if (crossings == 0) continue;
    CHECK(used < l.count && l.ports[used] == port, "port %u is missing", port);
    if (used >= l.count) break;
    for (uint32_t b = 0; b < bins; b++) {
      double bin = l.taken[(size_t)used * bins + b];
      sum += bin;
      if (TICKS % bins > 0) continue;
      double ticks = ticks_taken(t, port, b * (TICKS / bins), (b + 1) * (TICKS / bins));
      CHECK(fabs(bin * 1024 - ticks) < 1e-9, "port %u, bin %u of %u: %g ticks, not %g", port, b, bins, bin * 1024,
            ticks);
    }
    CHECK(fabs(sum * 1024 - whole) < 1e-9 && l.busy[used] * 1024 == whole, "port %u: bins hold %g ticks of %u", port,
          sum * 1024, whole);
    CHECK(l.bytes[used] == bytes && l.crossings[used] == crossings, "port %u: bytes", port);
    used++;
  }
  CHECK(used == l.count, "%u wires, not %u", l.count, used);
  tu_draw_loads_fini(&l);
  free(order);
}

/* Checks the loads of the ranks, separately for messages and reductions. */
static void check_rank_loads(const struct tu_draw_timeline *what) {
  const struct tu_timeline *t = what->timeline;
  uint32_t *order = tu_draw_deed_order(t);
  for (int reductions = 0; reductions < 2; reductions++) {
    double *loads = tu_draw_rank_loads(what, order, 10, reductions);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
      bool taken[TICKS] = {false};
      for (uint32_t i = 0; i < t->deed_count; i++)
        for (int tick = (int)(t->deeds[i].begin * 1024);
             t->deeds[i].kind <= TU_DEED_COPY && t->deeds[i].rank == rank &&
             (t->deeds[i].to == TU_NONE) == reductions && tick < t->deeds[i].end * 1024;
             tick++)
          taken[tick] = true;
      for (uint32_t tick = 0, ticks = 0; tick < TICKS; tick++) {
        ticks += taken[tick];
        if (tick % 100 < 99) continue;
        CHECK(fabs(loads[rank * 10 + tick / 100] * 1024 - ticks) < 1e-9, "rank %u, bin %u", rank, tick / 100);
        ticks = 0;
      }
    }
    free(loads);
  }
  free(order);
}

static void loads(void) {
  uint64_t seed = test_seed();
  struct scene s;
  open_scene(&s, "t3000");
  for (uint32_t round = 0; round < (test_long() ? 300u : 30u); round++) {
    static const uint32_t bins[] = {1, 7, 10, 100, 240, 1000};
    struct tu_timeline t;
    make_random(&seed, s.cluster, &t);
    if (round % 2) make_calls(&seed, &t);
    check_loads(&t, 2 * s.cluster->link_count, bins[round % 6]);
    struct tu_draw_timeline what = draw(&s, &t, NULL);
    check_rank_loads(&what);
    free_timeline(&t);
  }
  close_scene(&s);
}

/* ---- JSON ---- */

/* The skip functions return the position after the string, number or word at `at`; NULL: invalid. */
static const char *skip_string(const char *at) {
  for (at++; *at != '"'; at++) {
    if ((unsigned char)*at < 0x20) return NULL;
    if (*at != '\\') continue;
    at++;
    if (*at == 'u' && strspn(at + 1, "0123456789abcdefABCDEF") >= 4) at += 4;
    else if (!*at || !strchr("\"\\/bfnrt", *at)) return NULL;
  }
  return at + 1;
}

static const char *skip_digits(const char *at) {
  size_t digits = strspn(at, "0123456789");
  return digits > 0 ? at + digits : NULL;
}

static const char *skip_scalar(const char *at) {
  static const char *const words[] = {"true", "false", "null"};
  if (*at == '"') return skip_string(at);
  for (int i = 0; i < 3; i++)
    if (strncmp(at, words[i], strlen(words[i])) == 0) return at + strlen(words[i]);
  if (*at == '-') at++;
  if (at[0] == '0' && at[1] >= '0' && at[1] <= '9') return NULL;
  if (!(at = skip_digits(at))) return NULL;
  if (*at == '.' && !(at = skip_digits(at + 1))) return NULL;
  if (*at == 'e' || *at == 'E') at = skip_digits(at + 1 + (at[1] == '+' || at[1] == '-'));
  return at;
}

static const char *skip_blanks(const char *at) { return at + strspn(at, " \t\r\n"); }

/* Returns the position of the first JSON error, or NULL. */
static const char *not_json(const char *at) {
  char closes[64];
  int depth = 0;
  for (;;) {
    at = skip_blanks(at);
    if (depth > 0 && closes[depth - 1] == '}') { /* in an object, a key comes first */
      const char *after = *at == '"' ? skip_string(at) : NULL;
      if (!after || *(after = skip_blanks(after)) != ':') return at;
      at = skip_blanks(after + 1);
    }
    if ((*at == '{' || *at == '[') && depth < 64) {
      closes[depth++] = *at == '{' ? '}' : ']';
      at = skip_blanks(at + 1);
      if (*at != closes[depth - 1]) continue;
    } else {
      const char *after = skip_scalar(at);
      if (!after) return at;
      at = skip_blanks(after);
    }
    while (depth > 0 && *at == closes[depth - 1]) at = skip_blanks(at + 1), depth--;
    if (depth == 0) return *at ? at : NULL;
    if (*at++ != ',') return at - 1;
  }
}

static uint32_t count(const char *text, const char *what) {
  uint32_t found = 0;
  for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) found++;
  return found;
}

/* Checks that the events of one row do not overlap and that no event has a negative length. */
static void check_rows(const char *trace, const struct tu_timeline *t) {
  double until = 0;
  uint32_t events = 0, at_pid = 0, calls = 0, names = count(trace, "\"thread_name\"");
  struct row {
    double until;
  } * rows[4] = {NULL};
  for (uint32_t pid = 1; pid <= 3; pid++) rows[pid] = tu_allocate(names, sizeof *rows[pid]);
  for (const char *at = trace; (at = strstr(at, "{\"ph\":\"X\"")); at++) {
    uint32_t pid, tid;
    double ts, dur;
    if (sscanf(strstr(at, "\"pid\""), "\"pid\":%u,\"tid\":%u,\"ts\":%lf,\"dur\":%lf", &pid, &tid, &ts, &dur) != 4 ||
        pid < 1 || pid > 3 || tid >= names) {
      FAIL("%.200s", at);
      break;
    }
    events++;
    at_pid += pid == 2;
    calls += pid == 3;
    CHECK(dur >= 0 && rows[pid][tid].until <= ts + 1e-6, "row %u of process %u: %.3f begins before %.3f", tid, pid, ts,
          rows[pid][tid].until);
    rows[pid][tid].until = ts + dur;
    until = fmax(until, ts + dur);
  }
  CHECK(events == t->deed_count + t->crossing_count + t->call_count && at_pid == t->crossing_count &&
            calls == t->call_count,
        "%u events", events);
  CHECK(fabs(until - tu_draw_timeline_end(t) * 1e6) < 1 || events == 0 || t->end > until / 1e6,
        "the trace ends at %.3f", until);
  for (uint32_t pid = 1; pid <= 3; pid++) free(rows[pid]);
}

/* Checks that each call and each wait is in the trace, in the order of the timeline within each row. */
static void check_calls(const char *trace, const struct tu_draw_timeline *what) {
  const struct tu_timeline *t = what->timeline;
  for (uint32_t i = 0; i < t->call_count; i++) {
    const struct tu_timed_call *c = &t->calls[i];
    struct tu_text event = {0}, row = {0};
    if (c->awaited != TU_NONE) tu_text_print(&event, "\"cat\":\"wait\",\"name\":\"waits for %u\"", c->awaited);
    else tu_text_print(&event, "\"cat\":\"call\",\"name\":"), tu_draw_json_string(c->name, &event);
    tu_text_print(&event, ",\"pid\":3,\"tid\":");
    tu_text_print(&row, "\"rank %u (", c->rank);
    tu_draw_json_part(what->places[c->rank], &row);
    tu_text_print(&row, ")%s\"", c->awaited == TU_NONE ? "" : ": waits");
    bool found = false;
    for (const char *at = trace; !found && (at = strstr(at, event.chars)); at++) {
      uint32_t tid;
      double ts, dur;
      found = sscanf(at + strlen(event.chars), "%u,\"ts\":%lf,\"dur\":%lf", &tid, &ts, &dur) == 3 &&
              fabs(ts - c->begin * 1e6) < 2e-3 && fabs(dur - (c->end - c->begin) * 1e6) < 2e-3;
    }
    CHECK(found, "call %u is not in the trace: %s", i, event.chars);
    CHECK(strstr(trace, row.chars), "there is no row %s", row.chars);
    tu_text_fini(&event);
    tu_text_fini(&row);
  }
}

/* Checks the calls and waits in the data of the page. */
static void check_page_calls(const char *page, const struct tu_draw_timeline *what) {
  const struct tu_timeline *t = what->timeline;
  const char *at = strstr(page, "\"calls\": ["), *names = at ? strstr(at, "\"names\": [") : NULL;
  if (!at || !names) {
    FAIL("the page has no calls");
    return;
  }
  for (uint32_t i = 0; i < t->call_count; i++) {
    const struct tu_timed_call *c = &t->calls[i];
    uint32_t rank, name;
    long long awaited;
    double begin, end;
    at = strchr(at + 1 + (i == 0 ? strlen("\"calls\": [") : 0), '[');
    if (!at || sscanf(at, "[%u,%lld,%lf,%lf,%u]", &rank, &awaited, &begin, &end, &name) != 5) {
      FAIL("call %u is not in the page", i);
      return;
    }
    struct tu_text text = {0};
    tu_draw_json_string(c->name ? c->name : "", &text);
    CHECK(rank == c->rank && awaited == (c->awaited == TU_NONE ? -1 : (long long)c->awaited) &&
              fabs(begin - c->begin) < 1e-8 && fabs(end - c->end) < 1e-8,
          "call %u of the page: rank %u awaits %lld", i, rank, awaited);
    CHECK(!c->name || name < sizeof call_names / sizeof call_names[0], "call %u has the name %u", i, name);
    CHECK(!c->name || strstr(names, text.chars), "the page has no name %s", text.chars);
    tu_text_fini(&text);
  }
  CHECK(count(page, "\"places\": [\"here\",\"here\",\"there\"") == 1, "the page has no places");
}

/* Checks the data in the page. */
static void check_page(const char *page, const char *name) {
  const char *data = strstr(page, "id=\"data\">");
  CHECK(data && count(page, "</script>") == 2 && count(page, "</html>") == 1, "%s: the page is broken", name);
  if (!data) return;
  data += strlen("id=\"data\">");
  size_t length = (size_t)(strstr(data, "</script>") - data);
  char *json = tu_allocate(length + 1, 1);
  memcpy(json, data, length);
  const char *wrong = not_json(json);
  CHECK(!wrong, "%s: the page's data are no JSON here: %.80s", name, wrong);
  CHECK(count(page, "http") == count(page, "http://www.w3.org/2000/svg"), "%s: the page asks the network", name);
  free(json);
}

static void check_texts(const struct tu_draw_timeline *what, const char *name) {
  struct tu_text trace = {0}, page = {0};
  tu_draw_timeline_trace(what, &trace);
  tu_draw_timeline_html(what, &page);
  const char *wrong = not_json(trace.chars);
  CHECK(!wrong, "%s: the trace is no JSON here: %.80s", name, wrong);
  check_rows(trace.chars, what->timeline);
  check_page(page.chars, name);
  if (what->places) check_calls(trace.chars, what), check_page_calls(page.chars, what);
  uint32_t path_count;
  free(tu_draw_critical(what->timeline, &path_count));
  uint32_t arrows = path_count > 0 ? path_count - 1 : 0;
  CHECK(count(trace.chars, "\"ph\":\"s\"") == arrows && count(trace.chars, "\"ph\":\"f\"") == arrows,
        "%s: a path of %u has %u arrows", name, path_count, count(trace.chars, "\"ph\":\"s\""));
  CHECK(count(trace.chars, "\"critical\":") == path_count, "%s: %u critical events", name,
        count(trace.chars, "\"critical\":"));
  tu_text_fini(&trace);
  tu_text_fini(&page);
}

/* Tests the JSON checker of this test, not_json. */
static void json(void) {
  static const char *const good[] = {
      "{}", "[]", "[1,-2.5e+7,0.125]", "{\"a\":[{\"b\":null},\"\\u00ff\\n\"]}", " true", "[[],[[]],{}]"};
  static const char *const bad[] = {"",      "{",    "[1,]", "{\"a\"}", "{a:1}",      "[1 2]", "\"\n\"", "\"\\x\"",
                                    "[nan]", "[.5]", "[1.]", "[inf]",   "{\"a\":1,}", "[01]",  "[]]"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) CHECK(!not_json(good[i]), "refused: %s", good[i]);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) CHECK(not_json(bad[i]), "taken: %s", bad[i]);
}

static void at_random(void) {
  uint64_t seed = test_seed();
  struct scene s;
  open_scene(&s, "t3000");
  for (uint32_t round = 0; round < (test_long() ? 200u : 20u); round++) {
    struct tu_timeline t;
    make_random(&seed, s.cluster, &t);
    if (round % 2) make_calls(&seed, &t);
    struct tu_draw_timeline what = draw(&s, &t, "random");
    what.ranks = RANKS;
    if (round % 2) what.places = rank_places;
    check_texts(&what, "random");
    free_timeline(&t);
  }
  close_scene(&s);
}

/* Tests an empty timeline, times of 0 and of many years, and titles that are invalid JSON, XML or UTF-8. */
static void odd(void) {
  struct scene s;
  open_scene(&s, "n300");
  struct tu_timeline nothing = {.last = TU_NONE};
  struct tu_draw_timeline what = draw(&s, &nothing, NULL);
  check_texts(&what, "nothing");
  struct tu_crossing crossings[] = {{0, 0, 1, 1e300, 0, 0}, {0, 0, 1, 0.1, 0, 1e12}, {1, 1, 0, 5, 3e-15, 4e-15}};
  struct tu_deed deeds[] = {{0, 1, TU_DEED_MESSAGE, TU_NONE, 1e300, 0, 0},
                            {1, TU_NONE, TU_DEED_REDUCTION, 0, 0, 0, 1e12},
                            {0, 0, TU_DEED_MESSAGE, TU_NONE, 3, 1e-15, 1e-15}};
  struct tu_timeline years = {
      .end = 1e12, .crossings = crossings, .crossing_count = 3, .deeds = deeds, .deed_count = 3, .last = 1};
  static const char *const titles[] = {"\"quoted\\\" </script><!-- &", "tab\tnewline\n\x01\x7f",
                                       "\xc3\xa9\xe2\x82\xac\xf0\x9f\x8e\xb5", "\xff\xc0\x80\xed\xa0\x80\xe2\x82", ""};
  for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) {
    what = draw(&s, &years, titles[i]);
    check_texts(&what, titles[i]);
  }
  struct tu_text text = {0};
  tu_draw_json_string("a\"\\\n<\xc3\xa9\xff\xe2\x82", &text);
  CHECK(strcmp(text.chars, "\"a\\\"\\\\\\u000a\\u003c\xc3\xa9\\ufffd\\ufffd\\ufffd\"") == 0, "%s", text.chars);
  tu_text_fini(&text);
  uint32_t chips[] = {1, 0};
  what.chip = chips;
  tu_draw_timeline_trace(&what, &text);
  CHECK(strstr(text.chars, "\"rank 0 (chip 1)\"") && strstr(text.chars, "\"rank 1 (chip 0): reductions\""), "%s",
        text.chars);
  const struct tu_cluster_link *link = &s.cluster->links[0];
  char name[64];
  snprintf(name, sizeof name, "\"%u.%u to %u.%u\"", link->ends[0].node, link->ends[0].channel, link->ends[1].node,
           link->ends[1].channel);
  CHECK(strstr(text.chars, name), "no row is called %s", name);
  tu_text_fini(&text);
  close_scene(&s);
}

/* ---- real plans ---- */

/* Checks that the ports of a message on the path lead from the sender's chip to the receiver's chip. */
static void check_trail(const struct scene *s, const struct tu_timeline *t, const uint32_t path[], uint32_t length,
                        const char *name) {
  struct tu_draw_trail trail;
  tu_draw_trail_init(&trail, t, path, length);
  for (uint32_t k = 0; k < length; k++) {
    const struct tu_deed *d = &t->deeds[path[k]];
    uint32_t at = d->rank, count = trail.first[k + 1] - trail.first[k], walked = 0;
    for (uint32_t i = 0; i < count * count && walked < count; i++) {
      uint32_t port = trail.ports[trail.first[k] + i % count];
      const struct tu_cluster_link *link = &s->cluster->links[port / 2];
      if (link->ends[port % 2].node != at) continue;
      at = link->ends[1 - port % 2].node;
      walked++;
    }
    bool crosses = d->to != TU_NONE && d->bytes > 0;
    CHECK(walked == count, "%s: step %u goes astray: %u wires, %u on the way", name, k, count, walked);
    CHECK(crosses ? at == d->to : count == 0, "%s: step %u goes from %u to %u, not %u", name, k, d->rank, at, d->to);
  }
  tu_draw_trail_fini(&trail);
}

static void check_path(const struct scene *s, const struct tu_timeline *t, const char *name) {
  uint32_t length, *path = tu_draw_critical(t, &length);
  CHECK(length > 0 && path[length - 1] == t->last, "%s: there is no critical path", name);
  CHECK(length == 0 || t->deeds[path[0]].cause == TU_NONE, "%s: it does not begin at a beginning", name);
  for (uint32_t k = 0; k < length; k++) {
    const struct tu_deed *d = &t->deeds[path[k]];
    double begin = k == 0 ? 0 : t->deeds[path[k - 1]].end;
    CHECK(fabs(d->begin - begin) <= 1e-9 * t->end, "%s: deed %u of the path begins at %g, its cause ends at %g", name,
          k, d->begin, begin);
    CHECK(d->end >= d->begin && d->end <= t->end * (1 + 1e-9), "%s: deed %u ends at %g", name, k, d->end);
  }
  for (uint32_t i = 0; i < t->deed_count; i++)
    CHECK(t->deeds[i].end <= t->deeds[path[length - 1]].end, "%s: deed %u ends after the last one", name, i);
  check_trail(s, t, path, length, name);
  free(path);
}

/* Checks the loads against the counts in the simulator's report; packets on a port do not overlap. */
static void check_against_report(const struct tu_sim_cluster_report *r, const char *name) {
  uint32_t *order = tu_draw_crossing_order(&r->timeline);
  struct tu_draw_loads l;
  double bytes = 0, crossed = 0, taken = 0;
  tu_draw_loads_init(&l, &r->timeline, order, 100);
  for (uint32_t i = 0; i < r->timeline.crossing_count; i++)
    crossed += r->timeline.crossings[i].end - r->timeline.crossings[i].begin;
  for (uint32_t i = 0; i < l.count; i++) {
    const struct tu_links_load *load = &r->loads[l.ports[i]];
    CHECK(fabs(l.bytes[i] - load->bytes) <= 1e-9 * load->bytes && l.crossings[i] == load->packets,
          "%s: port %u: %g bytes, not %g", name, l.ports[i], l.bytes[i], load->bytes);
    CHECK(l.busy[i] <= load->busy * (1 + 1e-9), "%s: port %u is taken for longer than it was busy", name, l.ports[i]);
    bytes += load->bytes;
    for (uint32_t b = 0; b < l.bins; b++) {
      double bin = l.taken[(size_t)i * l.bins + b];
      CHECK(bin >= 0 && bin <= l.width * (1 + 1e-9), "%s: port %u: bin %u is fuller than full", name, l.ports[i], b);
      taken += bin;
    }
  }
  double all = 0;
  for (uint32_t p = 0; p < r->port_count; p++) all += r->loads[p].bytes;
  CHECK(fabs(bytes - all) <= 1e-9 * all, "%s: %g bytes of %g", name, bytes, all);
  CHECK(fabs(taken - crossed) <= 1e-9 * crossed, "%s: bins hold %g s, what crossed took %g s", name, taken, crossed);
  tu_draw_loads_fini(&l);
  free(order);
}

static void plans(void) {
  static const char *const clusters[] = {"t3000", "galaxy"};
  uint32_t played = 0;
  for (uint32_t c = 0; c < 2; c++) {
    struct scene s;
    open_scene(&s, clusters[c]);
    for (size_t i = 0; i < tu_algorithm_count; i++) {
      char name[96];
      struct tu_sim_cluster_report report;
      if (c == 1 && i % 4 > 0 && !test_long()) continue;
      if (!play(&s, tu_algorithms[i], false, NULL, &report)) continue;
      snprintf(name, sizeof name, "%s.%s on %s", tu_collectives[tu_algorithms[i]->collective].name,
               tu_algorithms[i]->name, clusters[c]);
      played++;
      check_path(&s, &report.timeline, name);
      check_against_report(&report, name);
      struct tu_draw_timeline what = draw(&s, &report.timeline, name);
      if (c == 0 || i % 16 == 0) check_texts(&what, name);
      tu_sim_cluster_report_fini(&report);
    }
    close_scene(&s);
  }
  CHECK(played > 60, "only %u plans", played);
}

/* Tests that the critical path begins at a late rank. */
static void late(void) {
  struct scene s;
  struct tu_sim_cluster_report report;
  open_scene(&s, "t3000");
  double times[8] = {[3] = 1e-3};
  play(&s, named(TUTTI_ALLREDUCE, "ring"), false, times, &report);
  uint32_t length, *path = tu_draw_critical(&report.timeline, &length);
  CHECK(length > 0 && report.timeline.deeds[path[0]].rank == 3 && report.timeline.deeds[path[0]].begin == 1e-3,
        "the path does not begin at the late rank");
  for (uint32_t k = 1; k < length; k++)
    CHECK(report.timeline.deeds[path[k]].begin == report.timeline.deeds[path[k - 1]].end, "a gap at %u", k);
  free(path);
  tu_sim_cluster_report_fini(&report);
  close_scene(&s);
}

/* Tests flows that share ports: they are in parallel rows, and no port is busy for longer than the run. */
static void flows(void) {
  struct scene s;
  struct tu_sim_cluster_report report;
  open_scene(&s, "t3000");
  play(&s, named(TUTTI_ALLTOALL, "direct"), true, NULL, &report);
  const struct tu_timeline *t = &report.timeline;
  uint32_t *order = tu_draw_crossing_order(t), beside = 0;
  struct tu_draw_loads l;
  tu_draw_loads_init(&l, t, order, 100);
  for (uint32_t i = 1; i < t->crossing_count; i++) {
    const struct tu_crossing *a = &t->crossings[order[i - 1]], *b = &t->crossings[order[i]];
    beside += a->port == b->port && b->begin < a->end;
  }
  CHECK(beside > 0, "no two flows share a wire");
  for (uint32_t i = 0; i < l.count; i++) {
    const struct tu_links_load *load = &report.loads[l.ports[i]];
    CHECK(l.busy[i] <= t->end * (1 + 1e-9), "port %u is taken for %g s of %g", l.ports[i], l.busy[i], t->end);
    CHECK(fabs(l.bytes[i] - load->bytes) <= 1e-9 * load->bytes, "port %u: %g bytes, not %g", l.ports[i], l.bytes[i],
          load->bytes);
    for (uint32_t b = 0; b < l.bins; b++)
      CHECK(l.taken[(size_t)i * l.bins + b] <= l.width * (1 + 1e-9), "port %u: bin %u is fuller than full", l.ports[i],
            b);
  }
  check_path(&s, t, "flows");
  struct tu_draw_timeline what = draw(&s, t, "flows");
  check_texts(&what, "flows");
  tu_draw_loads_fini(&l);
  free(order);
  tu_sim_cluster_report_fini(&report);
  close_scene(&s);
}

/* ---- pages ---- */

/* Checks that a lane begins at the box that its port leaves. `at`: the lane's attributes in the SVG. */
static void check_begin(const struct tu_draw_cluster_layout *l, uint32_t port, const char *at, const char *name) {
  double x, y;
  const char *path = strstr(at, "d=\"M");
  if (!path || sscanf(path, "d=\"M%lf %lf", &x, &y) != 2) {
    FAIL("%s: port %u has no path", name, port);
    return;
  }
  struct tu_draw_spot box = l->spots[l->what->cluster->links[port / 2].ends[port % 2].node];
  CHECK(fmax(fabs(x - box.x), fabs(y - box.y)) < TU_DRAW_BOX / 2.0 + 6,
        "%s: port %u leaves at %.1f, %.1f; its box is at %.1f, %.1f", name, port, x, y, box.x, box.y);
}

/* Tests that in every layout, stubs included, each direction of each usable link has exactly one lane. */
static void lanes(void) {
  static const char *const names[] = {"n300",      "t3000",       "galaxy",    "galaxy-torus",
                                      "ring:5:3",  "torus:3x3x3", "ring:4:16", "fat-tree:4x2",
                                      "hosts:2x4", "torus:6x4",   "line:35"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    struct scene s;
    struct tu_text text = {0};
    open_scene(&s, names[i]);
    uint32_t ports = 2 * s.cluster->link_count;
    double *loads = tu_allocate(ports, sizeof *loads);
    uint32_t *seen = tu_allocate(ports, sizeof *seen);
    loads[ports - 1] = 0.7;
    struct tu_draw_cluster what = {.cluster = s.cluster, .grid = &s.grid, .ring = &s.ring};
    struct tu_draw_cluster_layout layout;
    tu_draw_cluster_layout_init(&layout, &what, 58);
    tu_draw_cluster_loads(&what, loads, &text);
    for (const char *at = text.chars; (at = strstr(at, "data-ports=\"")); at++) {
      const char *number = at + strlen("data-ports=\"");
      for (;;) {
        char *end;
        unsigned long port = strtoul(number, &end, 10);
        if (end == number) break;
        CHECK(port < ports, "%s: port %lu", names[i], port);
        if (port < ports) {
          seen[port]++;
          check_begin(&layout, (uint32_t)port, at, names[i]);
        }
        number = end;
      }
    }
    for (uint32_t p = 0; p < ports; p++)
      CHECK(seen[p] == !s.cluster->links[p / 2].reserved, "%s: port %u is in %u lanes", names[i], p, seen[p]);
    uint32_t shaded = !s.cluster->links[s.cluster->link_count - 1].reserved;
    CHECK(count(text.chars, "class=\"lane shade4") == shaded + 1, "%s: not one lane is at 70%%", names[i]);
    free(loads);
    free(seen);
    tu_text_fini(&text);
    tu_draw_cluster_layout_fini(&layout);
    close_scene(&s);
  }
  CHECK(tu_draw_shade(0) == 0 && tu_draw_shade(1e-9) == 1 && tu_draw_shade(0.2) == 1 && tu_draw_shade(0.21) == 2 &&
            tu_draw_shade(1) == 5 && tu_draw_shade(2) == 5 && tu_draw_shade(-1) == 0,
        "shades");
}

/* Tests that the page stays small with 1,000,000 crossings (uses of links) and 500,000 deeds (messages and reductions)
 * on 32 chips; also with too many chips to draw. */
static void large(void) {
  struct scene s;
  uint64_t seed = test_seed();
  open_scene(&s, "galaxy-torus");
  enum { MANY = 1000 * 1000 };
  struct tu_timeline t = {.end = 1, .last = MANY / 2 - 1};
  t.crossings = tu_allocate(MANY, sizeof *t.crossings);
  t.deeds = tu_allocate(MANY / 2, sizeof *t.deeds);
  for (t.crossing_count = 0; t.crossing_count < MANY; t.crossing_count++) {
    double begin = t.crossing_count / (double)MANY;
    t.crossings[t.crossing_count] = (struct tu_crossing){
        below(&seed, 2 * s.cluster->link_count), below(&seed, 32), below(&seed, 32), 4096, begin, begin + 1e-4};
  }
  for (uint32_t d = 0; d < MANY / 2; d++) {
    double begin = 2.0 * d / MANY;
    const uint32_t to = below(&seed, 4) ? below(&seed, 32) : TU_NONE;
    t.deeds[t.deed_count++] = (struct tu_deed){.rank = below(&seed, 32),
                                               .to = to,
                                               .kind = to == TU_NONE ? TU_DEED_REDUCTION : TU_DEED_MESSAGE,
                                               .cause = d > 0 ? d - 1 : TU_NONE,
                                               .bytes = 4096,
                                               .begin = begin,
                                               .end = begin + 2.0 / MANY};
  }
  struct tu_draw_timeline what = draw(&s, &t, "a million");
  struct tu_text page = {0};
  tu_draw_timeline_html(&what, &page);
  CHECK(page.length < 2 * MANY, "the page has %zu bytes", page.length);
  check_page(page.chars, "a million");
  printf("  a page of %zu bytes\n", page.length);
  tu_text_fini(&page);
  close_scene(&s);
  open_scene(&s, "mesh:32x32");
  t.crossing_count = MANY / 8;
  t.deed_count = MANY / 8;
  t.last = t.deed_count - 1;
  for (uint32_t i = 0; i < t.crossing_count; i++) t.crossings[i].port = below(&seed, 2 * s.cluster->link_count);
  what = draw(&s, &t, "a million");
  tu_draw_timeline_html(&what, &page);
  CHECK(page.length < 2 * MANY && strstr(page.chars, "1024 chips") && !strstr(page.chars, "data-ports="),
        "%zu bytes, and no words", page.length);
  check_page(page.chars, "1,024 chips");
  tu_text_fini(&page);
  free_timeline(&t);
  close_scene(&s);
}

static const struct test tests[] = {{"loads", loads}, {"json", json},   {"at random", at_random},
                                    {"odd", odd},     {"plans", plans}, {"late", late},
                                    {"flows", flows}, {"lanes", lanes}, {"large", large}};
int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
