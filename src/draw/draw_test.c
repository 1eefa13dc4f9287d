/* draw_test.c: tests the pictures, pages and data of all algorithms. They are well formed; every message is drawn once;
 * the rounds respect the dependencies of the steps; at the end every rank has its result. */
#include <math.h>

#include "algo/algo.h"
#include "draw/draw_layout.h"
#include "draw/draw_window.h"
#include "plan/plan_relabel.h"
#include "test.h"

enum { RANKS_MAX = 9 };

/* Calls `test` for all algorithms and numbers of ranks; once with root 0 and once in place with another root. */
static void for_each_plan(void (*test)(const struct tu_draw *what, const char *name)) {
  for (size_t i = 0; i < tu_algorithm_count; i++) {
    const struct tu_algorithm *a = tu_algorithms[i];
    bool rooted = tu_collectives[a->collective].rooted && a->collective != TUTTI_SEND;
    for (uint32_t n = 1; n <= RANKS_MAX; n++) {
      if (!tu_algorithm_fits(a, n)) continue;
      for (uint32_t variant = 0; variant < 2; variant++) {
        struct tu_plan *plan = tu_plan_build(&(struct tu_build){.algorithm = a,
                                                                .ranks = n,
                                                                .root = rooted && variant ? n / 2 : 0,
                                                                .in_place = variant,
                                                                .rank = TU_ALL_RANKS});
        char name[128];
        snprintf(name, sizeof name, "%s.%s, %u ranks%s", tu_collectives[a->collective].name, a->name, n,
                 variant ? ", in place" : "");
        test(&(struct tu_draw){.plan = plan, .summary = a->summary}, name);
        tu_plan_destroy(plan);
      }
    }
  }
}

/* ---- well-formed XML: tags are closed, attributes are quoted, special characters are escaped ---- */

enum { DEPTH_MAX = 64, NAME_MAX_BYTES = 32 };

struct xml {
  const char *at, *end;
  char open[DEPTH_MAX][NAME_MAX_BYTES];
  uint32_t depth;
};

static size_t name_length(const char *at) { return strspn(at, "abcdefghijklmnopqrstuvwxyzBGLTX0123456789:-"); }

static const char *read_tag(struct xml *x) {
  bool closes = *x->at == '/';
  x->at += closes;
  size_t length = name_length(x->at);
  if (length == 0 || length >= NAME_MAX_BYTES) return "a tag without a name";
  const char *name = x->at;
  for (x->at += length; *x->at == ' ' || *x->at == '\n';) {
    x->at += strspn(x->at, " \n");
    size_t key = name_length(x->at);
    if (key == 0) break;
    x->at += key;
    if (strncmp(x->at, "=\"", 2) != 0) return "an attribute without a quoted value";
    x->at += 2 + strcspn(x->at + 2, "\"<&") + 1;
    if (x->at[-1] != '"') return "an attribute with < or & in it";
  }
  bool empty = *x->at == '/';
  x->at += empty;
  if (*x->at++ != '>') return "a tag that does not end";
  if (empty) return NULL;
  if (!closes) {
    if (x->depth == DEPTH_MAX) return "too deep";
    snprintf(x->open[x->depth++], NAME_MAX_BYTES, "%.*s", (int)length, name);
    return NULL;
  }
  if (x->depth == 0 || strlen(x->open[x->depth - 1]) != length || memcmp(x->open[x->depth - 1], name, length) != 0)
    return "a tag closes what is not open";
  x->depth--;
  return NULL;
}

/* Returns what is wrong with the XML text, or NULL. */
static const char *wrong_xml(const char *from, const char *end) {
  struct xml x = {.at = from, .end = end};
  const char *wrong = NULL;
  if (strncmp(x.at, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", 39) == 0) x.at += 39;
  while (!wrong && x.at < x.end) {
    if (*x.at == '<') {
      x.at++;
      wrong = read_tag(&x);
    } else if (*x.at == '&') {
      size_t length = strcspn(x.at, ";");
      if (length > 6) wrong = "a bare &";
      x.at += length;
    } else {
      x.at++;
    }
  }
  if (wrong) return wrong;
  return x.depth == 0 && x.at == x.end ? NULL : "something is left open";
}

/* ---- well-formed JSON of the subset that draw/ writes: no escapes, integers only ---- */

static const char *skip_value(const char *at) {
  static const char *const words[] = {"null", "true", "false"};
  for (int i = 0; i < 3; i++)
    if (strncmp(at, words[i], strlen(words[i])) == 0) return at + strlen(words[i]);
  if (*at == '"') {
    at += 1 + strcspn(at + 1, "\"\\\n");
    return *at == '"' ? at + 1 : NULL;
  }
  size_t sign = *at == '-', digits = strspn(at + sign, "0123456789");
  return digits > 0 ? at + sign + digits : NULL;
}

static const char *skip_blanks(const char *at) { return at + strspn(at, " \n"); }

/* Reads the closing brackets and the comma after a value; returns the position after them. Errors go to *wrong. */
static const char *close_values(const char *at, char *open, uint32_t *depth, const char **wrong) {
  for (at = skip_blanks(at); *depth > 0 && (*at == ']' || *at == '}'); at = skip_blanks(at + 1))
    if (*at != open[--*depth]) *wrong = "a bracket closes another kind";
  if (*depth == 0) return at;
  if (*at != ',') *wrong = "no comma";
  return skip_blanks(at + 1);
}

static const char *wrong_json(const char *at, const char *end) {
  char open[DEPTH_MAX];
  uint32_t depth = 0;
  const char *wrong = NULL;
  for (at = skip_blanks(at); !wrong;) {
    if (depth > 0 && open[depth - 1] == '}') {
      at = *at == '"' ? skip_value(at) : NULL;
      if (!at || strncmp(at, ": ", 2) != 0) return "no key";
      at += 2;
    }
    if (*at == '{' || *at == '[') {
      if (depth == DEPTH_MAX) return "too deep";
      open[depth++] = *at == '{' ? '}' : ']';
      at = skip_blanks(at + 1);
      if (*at != open[depth - 1]) continue;
    } else {
      at = skip_value(at);
      if (!at) return "no value";
    }
    at = close_values(at, open, &depth, &wrong);
    if (depth == 0) break;
  }
  return wrong ? wrong : at == end ? NULL : "something follows";
}

/* ---- the pictures ---- */

/* Returns the number of messages from rank `from` to rank `to` on `lane`; if `from` is UINT32_MAX: of all messages of
 * the plan. */
static uint32_t count_messages(const struct tu_plan *plan, uint32_t from, uint32_t to, uint32_t lane) {
  uint32_t count = 0;
  for (uint32_t r = 0; r < plan->ranks; r++) {
    const struct tu_rank_plan *p = &plan->rank[r];
    for (uint32_t s = 0; s < p->step_count; s++) {
      const struct tu_step *step = &p->steps[s];
      if (step->kind != TU_SEND || step->joined) continue;
      for (uint32_t i = 0; i < step->peer_count; i++)
        count += from == UINT32_MAX || (r == from && p->peers[step->peer_first + i] == to && step->lane == lane);
    }
  }
  return count;
}

static void check_messages(const struct tu_plan *plan, const char *svg, const char *name) {
  uint32_t drawn = 0, all = count_messages(plan, UINT32_MAX, 0, 0);
  uint32_t *seen = tu_allocate(all, sizeof *seen);
  uint32_t *pairs = tu_allocate((size_t)plan->ranks * plan->ranks * TU_LANES_MAX, sizeof *pairs);
  for (const char *at = svg; (at = strstr(at, " data-message=")); at++) {
    unsigned message, from, to, lane, sent, taken;
    int read = sscanf(at,
                      " data-message=\"%u\" data-from=\"%u\" data-to=\"%u\" data-lane=\"%u\" data-sent=\"%u\""
                      " data-taken=\"%u\"",
                      &message, &from, &to, &lane, &sent, &taken);
    CHECK(read == 6 && sent <= taken, "%s: an arrow without its data", name);
    if (read != 6 || message >= all || from >= plan->ranks || to >= plan->ranks || lane >= TU_LANES_MAX) {
      FAIL("%s: an arrow that is no message", name);
      break;
    }
    seen[message]++;
    pairs[(from * plan->ranks + to) * TU_LANES_MAX + lane]++;
    drawn++;
  }
  CHECK(drawn == all, "%s: %u messages, %u arrows", name, all, drawn);
  for (uint32_t i = 0; i < all; i++) CHECK(seen[i] == 1, "%s: message %u is drawn %u times", name, i, seen[i]);
  for (uint32_t i = 0; i < plan->ranks * plan->ranks * TU_LANES_MAX; i++) {
    uint32_t from = i / TU_LANES_MAX / plan->ranks, to = i / TU_LANES_MAX % plan->ranks, lane = i % TU_LANES_MAX;
    uint32_t expected = count_messages(plan, from, to, lane);
    CHECK(pairs[i] == expected, "%s: %u arrows from rank %u to rank %u on lane %u, %u messages", name, pairs[i], from,
          to, lane, expected);
  }
  free(seen);
  free(pairs);
}

static void check_svg(const struct tu_draw *what, const char *name) {
  struct tu_text text = {0};
  tu_draw_svg(what, &text);
  const char *wrong = wrong_xml(text.chars, text.chars + text.length);
  CHECK(!wrong, "%s: %s", name, wrong);
  CHECK(!strstr(text.chars, "nan") && !strstr(text.chars, "inf\""), "%s: a coordinate that is no number", name);
  check_messages(what->plan, text.chars, name);
  tu_text_fini(&text);
}

static void check_json(const struct tu_draw *what, const char *name) {
  struct tu_text text = {0};
  tu_text_print(&text, "{");
  tu_draw_json(what, &text);
  tu_text_print(&text, "}");
  const char *wrong = wrong_json(text.chars, text.chars + text.length);
  CHECK(!wrong, "%s: %s", name, wrong);
  tu_text_fini(&text);
}

static void check_html(const struct tu_draw *what, const char *name) {
  struct tu_text text = {0};
  tu_draw_html(what, &text);
  const char *svg = strstr(text.chars, "<svg xmlns="), *svg_end = strstr(text.chars, "</svg>\n");
  const char *data = strstr(text.chars, "id=\"data\">"), *data_end = data ? strstr(data, "</script>") : NULL;
  if (!svg || !svg_end || !data_end) {
    FAIL("%s: no picture or no data in the page", name);
  } else {
    const char *wrong = wrong_xml(svg, svg_end + strlen("</svg>\n"));
    CHECK(!wrong, "%s: the picture: %s", name, wrong);
    wrong = wrong_json(data + strlen("id=\"data\">"), data_end);
    CHECK(!wrong, "%s: the data: %s", name, wrong);
  }
  CHECK(!strstr(text.chars, "src=") && !strstr(text.chars, "href="), "%s: the page needs others", name);
  CHECK(!strstr(text.chars, "<!--"), "%s: a gap is left", name);
  tu_text_fini(&text);
}

static void test_svg(void) { for_each_plan(check_svg); }
static void test_json(void) { for_each_plan(check_json); }
static void test_html(void) { for_each_plan(check_html); }

/* ---- rounds ---- */

static void check_step(const struct tu_drawing *d, uint32_t s, const char *name) {
  const struct tu_step *step = tu_drawing_step(d, s);
  uint32_t base = d->step_base[d->rank_of[s]];
  CHECK(step->kind == TU_COPY || step->kind == TU_REDUCE || d->round[s] > 0, "%s: a message in round 0", name);
  for (uint32_t i = 0; i < step->after_count; i++) {
    uint32_t before = base + tu_drawing_rank(d, s)->afters[step->after_first + i];
    bool strictly = step->kind == TU_SEND || (step->kind == TU_RECV_REDUCE && d->round[before] > 0 &&
                                              tu_drawing_step(d, before)->kind != TU_SEND);
    CHECK(d->round[before] + strictly <= d->round[s], "%s: rank %u, step %u: in round %u, after round %u", name,
          d->rank_of[s], s - base, d->round[s], d->round[before]);
  }
}

static void check_rounds(const struct tu_draw *what, const char *name) {
  struct tu_drawing d;
  tu_drawing_init(&d, what->plan);
  uint32_t last[RANKS_MAX][TU_LANES_MAX] = {{0}}, rounds = 0;
  for (uint32_t s = 0; s < tu_drawing_steps(&d); s++) {
    const struct tu_step *step = tu_drawing_step(&d, s);
    check_step(&d, s, name);
    rounds = (uint32_t)tu_max(rounds, d.round[s]);
    if (step->kind != TU_SEND) continue;
    uint32_t *before = &last[d.rank_of[s]][step->lane];
    CHECK(step->joined ? d.round[s] <= *before : d.round[s] > *before, "%s: rank %u sends twice in round %u", name,
          d.rank_of[s], d.round[s]);
    *before = (uint32_t)tu_max(*before, d.round[s]);
  }
  for (uint32_t i = 0; i < d.part_count; i++)
    CHECK(d.round[d.parts[i].send] <= d.round[d.parts[i].recv], "%s: taken before it is sent", name);
  CHECK(rounds == d.rounds, "%s: %u rounds, said to be %u", name, rounds, d.rounds);
  tu_drawing_fini(&d);
}

static void test_rounds(void) { for_each_plan(check_rounds); }

/* Tests the numbers of rounds and messages of algorithms whose numbers are known. */
static void test_known_rounds(void) {
  static const struct {
    const char *collective, *algorithm;
    uint32_t ranks, rounds, messages;
  } known[] = {
      {"allreduce", "ring", 5, 8, 40},
      {"reduce", "binomial", 8, 3, 7},
      {"broadcast", "binomial", 8, 3, 7},
      {"alltoall", "pairwise", 6, 5, 30},
      {"scan", "chain", 6, 5, 5},
      {"allgather", "bucket", 7, 6, 42},
      {"scan", "recursive_doubling", 8, 3, 17},
      {"barrier", "dissemination", 8, 3, 24},
  };
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    tutti_collective collective;
    CHECK(tu_collective_find(known[i].collective, &collective), "no %s", known[i].collective);
    const struct tu_algorithm *a = tu_algorithm_find(collective, known[i].algorithm);
    struct tu_plan *plan =
        tu_plan_build(&(struct tu_build){.algorithm = a, .ranks = known[i].ranks, .rank = TU_ALL_RANKS});
    struct tu_drawing d;
    tu_drawing_init(&d, plan);
    CHECK(d.rounds == known[i].rounds && d.message_count == known[i].messages, "%s.%s: %u rounds, %u messages",
          known[i].collective, known[i].algorithm, d.rounds, d.message_count);
    tu_drawing_fini(&d);
    tu_plan_destroy(plan);
  }
}

/* ---- values ---- */

static void check_values(const struct tu_draw *what, const char *name) {
  struct tu_drawing d;
  struct tu_draw_values v;
  tu_drawing_init(&d, what->plan);
  tu_draw_values_init(&v, &d);
  for (uint32_t r = 0; r < what->plan->ranks; r++) {
    bool has = tu_plan_chunks(what->plan, r, TU_OUT) > 0;
    CHECK((v.complete[r] != TU_DRAW_NEVER) == has, "%s: rank %u %s", name, r,
          has ? "is left incomplete" : "has a result");
    CHECK(!has || v.complete[r] <= d.rounds, "%s: rank %u is complete after the end", name, r);
  }
  for (uint32_t i = 1; i < v.write_count; i++)
    CHECK(v.writes[i - 1].round <= v.writes[i].round, "%s: writes out of order", name);
  tu_draw_values_fini(&v);
  tu_drawing_fini(&d);
}

static void test_values(void) { for_each_plan(check_values); }

/* ---- colours ---- */

/* Returns the relative luminance of a colour "#rrggbb" (WCAG 2). */
static double luminance(const char *colour) {
  static const double weights[] = {0.2126, 0.7152, 0.0722};
  double sum = 0;
  for (int i = 0; i < 3; i++) {
    unsigned level = 0;
    CHECK(sscanf(colour + 1 + 2 * i, "%2x", &level) == 1, "%s is not a colour", colour);
    double part = level / 255.0;
    sum += weights[i] * (part <= 0.03928 ? part / 12.92 : pow((part + 0.055) / 1.055, 2.4));
  }
  return sum;
}

/* Tests the contrast of all colours of labels with the bands of a light and of a dark picture, which have less contrast
 * than the page itself. The bands' colours are taken from a picture. */
static void test_contrast(void) {
  static const char rule[] = ".tutti .band { fill: ";
  const struct tu_algorithm *ring = tu_algorithm_find(TUTTI_ALLREDUCE, "ring");
  struct tu_plan *plan = tu_plan_build(&(struct tu_build){.algorithm = ring, .ranks = 4, .rank = TU_ALL_RANKS});
  struct tu_text text = {0};
  tu_draw_svg(&(struct tu_draw){.plan = plan}, &text);
  const char *band = text.chars;
  for (enum tu_draw_scheme scheme = TU_DRAW_LIGHT; scheme <= TU_DRAW_DARK; scheme++) {
    band = strstr(band, rule);
    if (!band) {
      FAIL("no colour of the bands in scheme %d", scheme);
      break;
    }
    band += strlen(rule);
    double under = luminance(band);
    for (uint32_t keys = 1; keys <= 64; keys++)
      for (uint32_t key = 0; key < keys; key++) {
        struct tu_draw_colour colour = tu_draw_colour(key, keys, scheme);
        double over = luminance(colour.chars), contrast = (fmax(over, under) + 0.05) / (fmin(over, under) + 0.05);
        CHECK(contrast >= 4.5, "colour %u of %u, %s, on %.7s: contrast %.2f", key, keys, colour.chars, band, contrast);
      }
  }
  tu_text_fini(&text);
  tu_plan_destroy(plan);
}

/* ---- columns: with column_of, a relabelled ring looks like the ring 0, 1, 2, ... ---- */

static void check_arrows(const struct tu_plan *plan, const uint32_t *column_of, int32_t columns, uint32_t wraps) {
  struct tu_drawing d;
  struct tu_draw_values v;
  struct tu_draw_layout l;
  uint32_t far = 0, over = 0;
  tu_drawing_init(&d, plan);
  d.column_of = column_of;
  tu_draw_values_init(&v, &d);
  tu_draw_layout_init(&l, &d, &v, 0, 0);
  for (uint32_t i = 0; i < d.message_count; i++) {
    far += abs(l.arrows[i].columns) != columns;
    over += l.arrows[i].wraps;
  }
  CHECK(far == 0 && over == wraps, "%u arrows too far, %u over the edge", far, over);
  tu_draw_layout_fini(&l);
  tu_draw_values_fini(&v);
  tu_drawing_fini(&d);
}

static void test_columns(void) {
  static const uint32_t order[] = {0, 3, 7, 6, 2, 1, 5, 4}, column_of[] = {0, 5, 4, 1, 7, 6, 3, 2};
  struct tu_plan *plan = tu_plan_build(&(struct tu_build){
                     .algorithm = tu_algorithm_find(TUTTI_ALLGATHER, "bucket"), .ranks = 8, .rank = TU_ALL_RANKS}),
                 *laid;
  struct tu_text text = {0};
  if (tu_plan_relabel(plan, order, &laid, NULL) != TUTTI_OK) abort();
  check_arrows(plan, NULL, 1, 7);
  check_arrows(laid, column_of, 1, 7);
  tu_draw_svg(&(struct tu_draw){.plan = laid, .column_of = column_of}, &text);
  double x = 0, next;
  for (uint32_t i = 0; i < 8; i++) {
    char box[48];
    snprintf(box, sizeof box, "class=\"rank\" data-rank=\"%u\"><rect x=\"", order[i]);
    const char *at = strstr(text.chars, box);
    CHECK(at && sscanf(at + strlen(box), "%lf", &next) == 1 && next > x, "rank %u stands elsewhere", order[i]);
    x = at ? next : x;
  }
  tu_text_fini(&text);
  tu_plan_destroy(laid);
  tu_plan_destroy(plan);
}

/* ---- plans that no built-in algorithm produces ---- */

static struct tu_plan *read_plan(const char *collective, uint32_t ranks, const char *steps) {
  struct tu_text text = {0};
  tu_text_print(&text,
                "tutti-plan 1\ncollective %s\nalgorithm test\nranks %u\nroot 0\nsplit 1\nin_place no\n"
                "equal_blocks yes\nrank_order no\n%s\n",
                collective, ranks, steps);
  struct tu_plan *plan = NULL;
  struct tu_error error;
  if (tu_plan_read(text.chars, text.length, "test", &plan, &error) != TUTTI_OK) FAIL("%s", error.text);
  tu_text_fini(&text);
  return plan;
}

/* Tests that a joined message is one arrow, whose label names all chunks of the message. */
static void test_joined(void) {
  struct tu_plan *plan = read_plan("gather", 3,
                                   "rank 0\n0: copy in[0] into out[0]\n1: recv from 1 into out[1]\n"
                                   "2: recv from 1 joined into out[2]\n"
                                   "rank 1\ntmp in[0]\n0: recv from 2 into tmp[0]\n1: send in[0] to 0\n"
                                   "2: send tmp[0] to 0 joined after 0\nrank 2\n0: send in[0] to 1");
  if (!plan) return;
  struct tu_draw what = {.plan = plan, .summary = "a < b & \"c\""};
  check_svg(&what, "joined");
  struct tu_drawing d;
  tu_drawing_init(&d, plan);
  CHECK(d.message_count == 2 && d.rounds == 2, "joined: %u messages in %u rounds", d.message_count, d.rounds);
  tu_drawing_fini(&d);
  struct tu_text text = {0};
  tu_draw_svg(&what, &text);
  CHECK(strstr(text.chars, ">1,2</text>"), "joined: the label is not 1,2");
  CHECK(strstr(text.chars, "a &lt; b &amp; &quot;c&quot;"), "the summary is not escaped");
  tu_text_fini(&text);
  tu_plan_destroy(plan);
}

/* Tests sends that are out of step order: step 1 of rank 0 waits for data from rank 1, which waits for step 2 of rank
 * 0. */
static void test_out_of_turn(void) {
  struct tu_plan *plan = read_plan("broadcast", 3,
                                   "rank 0\ntmp in[0]\n0: recv from 1 into tmp[0]\n1: send tmp[0] to 2 after 0\n"
                                   "2: send in[0] to 1\n3: copy in[0] into out[0]\n"
                                   "rank 1\n0: recv from 0 into out[0]\n1: send out[0] to 0 after 0\n"
                                   "rank 2\n0: recv from 0 into out[0]");
  if (!plan) return;
  struct tu_drawing d;
  tu_drawing_init(&d, plan);
  CHECK(d.rounds == 3, "out of turn: %u rounds", d.rounds);
  tu_drawing_fini(&d);
  check_svg(&(struct tu_draw){.plan = plan}, "out of turn");
  tu_plan_destroy(plan);
}

/* Tests that text replaces the picture if there are too many ranks, or too many messages in a round. */
static void test_large(void) {
  const struct tu_algorithm *direct = tu_algorithm_find(TUTTI_BARRIER, "direct");
  for (uint32_t ranks = TU_DRAW_RANKS_MAX; ranks <= TU_DRAW_RANKS_MAX + 1; ranks++) {
    struct tu_plan *plan = tu_plan_build(&(struct tu_build){.algorithm = direct, .ranks = ranks, .rank = TU_ALL_RANKS});
    struct tu_text text = {0};
    tu_draw_svg(&(struct tu_draw){.plan = plan}, &text);
    const char *wrong = wrong_xml(text.chars, text.chars + text.length);
    CHECK(!wrong, "%u ranks: %s", ranks, wrong);
    CHECK(strstr(text.chars, ranks > TU_DRAW_RANKS_MAX ? "not drawn" : "4032 messages"),
          "%u ranks: no word about what is not drawn", ranks);
    CHECK(!strstr(text.chars, "data-message"), "%u ranks: drawn all the same", ranks);
    tu_text_fini(&text);
    check_html(&(struct tu_draw){.plan = plan}, "barrier.direct");
    tu_plan_destroy(plan);
  }
}

/* ---- the page of many ranks: the runs, taken apart, are the messages of the plan ---- */

enum { FIELDS = 14 }; /* of a run, in the order of print_run in draw_window.c */

/* Reads an array of unsigned numbers; returns the position after it, or NULL if there is none. */
static const char *read_numbers(const char *at, uint32_t numbers[], uint32_t count) {
  if (*at++ != '[') return NULL;
  for (uint32_t i = 0; i < count; i++) {
    char *end;
    numbers[i] = (uint32_t)strtoul(at, &end, 10);
    if (end == at || *end != (i + 1 < count ? ',' : ']')) return NULL;
    at = end + 1;
  }
  return at;
}

/* Counts the messages of a run by sender and receiver, and checks the first chunk and the round of each. */
static void count_run(const struct tu_drawing *d, uint32_t round, const uint32_t run[FIELDS], uint32_t *pairs) {
  uint32_t ranks = d->plan->ranks;
  for (uint32_t i = 0; i < run[0]; i++) {
    uint32_t from = run[1] + i * run[2], to = (run[3] + i * run[4]) % ranks, chunk = (run[5] + i * run[6]) % run[7];
    bool found = false;
    for (uint32_t m = 0; m < d->message_count && !found; m++) {
      const struct tu_draw_message *message = &d->messages[m];
      const struct tu_draw_part *part = &d->parts[message->part_first];
      struct tu_span span = tu_drawing_step(d, part->send)->source;
      found = part->from == from && part->to == to && message->sent == round && span.first == chunk &&
              span.count == run[11] && span.buffer == run[10] && message->taken == round + run[8];
    }
    CHECK(found, "round %u: no message from rank %u to rank %u with chunk %u", round, from, to, chunk);
    if (from < ranks) pairs[from * ranks + to]++;
  }
}

static void check_runs(const struct tu_plan *plan, const char *name) {
  struct tu_drawing d;
  struct tu_text text = {0};
  uint32_t *pairs = tu_allocate((size_t)plan->ranks * plan->ranks, sizeof *pairs), total = 0;
  tu_drawing_init(&d, plan);
  tu_draw_window_html(&(struct tu_draw){.plan = plan}, &d, &text);
  const char *at = strstr(text.chars, "\"rounds\": [");
  at = at ? at + strlen("\"rounds\": [") : NULL;
  for (uint32_t round = 1; at && round <= d.rounds; round++) {
    at += strspn(at, ",\n");
    if (*at++ != '[') break;
    while (at && *at != ']') {
      uint32_t run[FIELDS];
      at = read_numbers(at + (*at == ','), run, FIELDS);
      if (at) count_run(&d, round, run, pairs);
    }
    if (at) at++;
  }
  CHECK(at && strncmp(at, "],\n\"late\"", 9) == 0, "%s: the rounds cannot be read", name);
  for (uint32_t m = 0; m < d.message_count; m++) {
    const struct tu_draw_part *part = &d.parts[d.messages[m].part_first];
    pairs[part->from * plan->ranks + part->to]--;
  }
  for (uint32_t i = 0; i < plan->ranks * plan->ranks; i++) total += pairs[i] != 0;
  CHECK(total == 0, "%s: %u pairs of ranks have other numbers of messages", name, total);
  free(pairs);
  tu_text_fini(&text);
  tu_drawing_fini(&d);
}

static void check_window(const struct tu_draw *what, const char *name) { check_runs(what->plan, name); }
static void test_window(void) { for_each_plan(check_window); }

/* Tests that the page of a ring of many ranks is small. */
static void test_window_bytes(void) {
  const struct tu_algorithm *ring = tu_algorithm_find(TUTTI_ALLREDUCE, "ring");
  struct tu_plan *plan = tu_plan_build(&(struct tu_build){.algorithm = ring, .ranks = 200, .rank = TU_ALL_RANKS});
  struct tu_text text = {0};
  check_html(&(struct tu_draw){.plan = plan}, "200 ranks");
  tu_draw_html(&(struct tu_draw){.plan = plan}, &text);
  CHECK(text.length < 100 * 1000, "200 ranks: a page of %zu bytes", text.length);
  tu_text_fini(&text);
  tu_plan_destroy(plan);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"svg", test_svg},
                                      {"json", test_json},
                                      {"html", test_html},
                                      {"rounds", test_rounds},
                                      {"known_rounds", test_known_rounds},
                                      {"values", test_values},
                                      {"contrast", test_contrast},
                                      {"columns", test_columns},
                                      {"joined", test_joined},
                                      {"out_of_turn", test_out_of_turn},
                                      {"large", test_large},
                                      {"window", test_window},
                                      {"window_bytes", test_window_bytes}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
