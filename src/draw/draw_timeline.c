/* draw_timeline.c: prints a timeline as a page. The page does not list each use of a link. It states how busy each link
 * was in each time bin. So the page's size depends on the number of links and ranks, not on the number of messages. */
#include "draw/draw_timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "draw/draw_cluster_layout.h"
#include "draw/draw_internal.h"
#include "draw/draw_page.h"
#include "draw/draw_timeline_internal.h"

/* template of the page; CMake makes this string from the file timeline.html */
extern const char tu_draw_timeline_page[];

enum {
  BINS_MAX = 240,
  BINS_MIN = 24,
  /* approximate number of time bins of all ports (directed links) together; all ranks together have half as many */
  SAMPLES = 400 * 1000,
  /* maximum number of messages and reductions drawn as bars; if there are more, they are summed up in time bins */
  BARS_MAX = 4000,
  PATH_MAX = 2000, /* maximum number of listed steps of the critical path */
  /* if the cluster is not drawn: maximum number of ports (directed links) that the page lists, the busiest first */
  UNDRAWN_MAX = 256,
};

struct page {
  const struct tu_draw_timeline *what;
  struct tu_text *text;
  double end;
  bool drawn;
  struct tu_draw_loads loads;
  /* [listed_count]: indices in `loads` of the ports (directed links) that the page lists, the busiest first */
  uint32_t *listed;
  uint32_t listed_count;
  uint32_t *deed_order;
  uint32_t *path;
  uint32_t path_count;
};

/* ---- bins ---- */

static uint32_t bins_for(uint32_t things, uint32_t samples) {
  uint32_t bins = things > 0 ? samples / things : BINS_MAX;
  return bins > BINS_MAX ? BINS_MAX : bins < BINS_MIN ? BINS_MIN : bins;
}

/* Returns the digit for a value of 6 bits, in the URL-safe Base64 alphabet of RFC 4648. */
static char digit(uint32_t value) { return "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[value]; }

static uint32_t level(double taken, double width, uint32_t most) {
  return width > 0 ? (uint32_t)lround(fmin(taken / width, 1) * most) : 0;
}

/* Prints the fraction of each time bin in which a port was busy, as a number from 0 to 4095, in two characters. */
static void print_fine(const double taken[], uint32_t bins, double width, struct tu_text *t) {
  char chars[2 * BINS_MAX + 1];
  for (uint32_t b = 0; b < bins; b++) {
    uint32_t value = level(taken[b], width, 4095);
    chars[2 * b] = digit(value / 64);
    chars[2 * b + 1] = digit(value % 64);
  }
  tu_text_print(t, "\"%.*s\"", (int)(2 * bins), chars);
}

/* Prints the fraction of each time bin in which a port was busy, as a number from 0 to 63, in one character. Prints ""
 * if all fractions are 0. */
static void print_coarse(const double taken[], uint32_t bins, double width, struct tu_text *t) {
  char chars[BINS_MAX + 1];
  bool some = false;
  for (uint32_t b = 0; b < bins; b++) {
    uint32_t value = level(taken[b], width, 63);
    if (value == 0 && taken[b] > 0) value = 1;
    some |= value > 0;
    chars[b] = digit(value);
  }
  tu_text_print(t, "\"%.*s\"", some ? (int)bins : 0, chars);
}

/* ---- ports ---- */

static int compare_busy(const void *a, const void *b, void *context) {
  const struct tu_draw_loads *l = context;
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  if (l->busy[x] != l->busy[y]) return l->busy[x] > l->busy[y] ? -1 : 1;
  return x < y ? -1 : x > y;
}

static void make_loads(struct page *p) {
  const struct tu_timeline *t = p->what->timeline;
  uint32_t *order = tu_draw_crossing_order(t), ports = 0;
  for (uint32_t i = 0; i < t->crossing_count; i++)
    ports += i == 0 || t->crossings[order[i]].port != t->crossings[order[i - 1]].port;
  if (!p->drawn && ports > UNDRAWN_MAX) ports = UNDRAWN_MAX;
  tu_draw_loads_init(&p->loads, t, order, bins_for(ports, SAMPLES));
  p->listed_count = ports;
  p->listed = tu_allocate(p->loads.count, sizeof *p->listed);
  for (uint32_t i = 0; i < p->loads.count; i++) p->listed[i] = i;
  if (p->loads.count > 1) qsort_r(p->listed, p->loads.count, sizeof *p->listed, compare_busy, &p->loads);
  free(order);
}

static void print_picture(const struct page *p) {
  double *loads = tu_allocate(2 * (size_t)p->what->cluster.cluster->link_count, sizeof *loads);
  for (uint32_t i = 0; i < p->loads.count && p->end > 0; i++) loads[p->loads.ports[i]] = p->loads.busy[i] / p->end;
  tu_draw_cluster_loads(&p->what->cluster, loads, p->text);
  free(loads);
}

static void print_wires(const struct page *p) {
  const struct tu_cluster *c = p->what->cluster.cluster;
  const struct tu_draw_loads *l = &p->loads;
  tu_text_print(p->text, "\"wires\": %u, \"bins\": %u, \"width\": %.15g,\n\"ports\": [", l->count, l->bins, l->width);
  for (uint32_t k = 0; k < p->listed_count; k++) {
    uint32_t i = p->listed[k], port = l->ports[i];
    tu_text_print(p->text, "%s\n[%u,\"", k ? "," : "", port);
    const uint32_t from = c->links[port / 2].ends[port % 2].node, to = c->links[port / 2].ends[1 - port % 2].node;
    if (p->what->places) tu_text_print(p->text, "%u to %u", from, to);
    else tu_draw_port_name(c, port, p->text);
    tu_text_print(p->text, "\",%u,%u,%.9g,%.9g,%u,", from, to, l->busy[i], l->bytes[i], l->crossings[i]);
    print_fine(l->taken + (size_t)i * l->bins, l->bins, l->width, p->text);
    tu_text_print(p->text, "]");
  }
  tu_text_print(p->text, "],\n");
}

/* ---- ranks ---- */

static void print_deed(const struct tu_deed *d, struct tu_text *t) {
  tu_text_print(t, "[%u,%lld,%.9g,%.9g,%.9g", d->rank, d->to == TU_NONE ? -1 : (long long)d->to, d->begin, d->end,
                d->bytes);
}

static void print_bars(const struct page *p) {
  const struct tu_timeline *t = p->what->timeline;
  uint32_t *position = tu_allocate(t->deed_count, sizeof *position);
  for (uint32_t k = 0; k < p->path_count; k++) position[p->path[k]] = k + 1;
  tu_text_print(p->text, "\"bars\": [");
  for (uint32_t i = 0; i < t->deed_count; i++) {
    tu_text_print(p->text, i ? ",\n" : "\n");
    print_deed(&t->deeds[p->deed_order[i]], p->text);
    tu_text_print(p->text, ",%u,%d]", position[p->deed_order[i]], (int)t->deeds[p->deed_order[i]].kind);
  }
  tu_text_print(p->text, "],\n");
  free(position);
}

/* Prints the calls and waits of a real job, with the names of calls in a list of their own. */
static void print_calls(const struct page *p) {
  const struct tu_timeline *t = p->what->timeline;
  const char **names = tu_allocate(t->call_count, sizeof *names);
  uint32_t count = 0;
  tu_text_print(p->text, "\"calls\": [");
  for (uint32_t i = 0; i < t->call_count && t->call_count <= BARS_MAX; i++) {
    const struct tu_timed_call *c = &t->calls[i];
    uint32_t name = 0;
    while (c->name && name < count && strcmp(names[name], c->name) != 0) name++;
    if (c->name && name == count) names[count++] = c->name;
    tu_text_print(p->text, "%s\n[%u,%lld,%.9g,%.9g,%u]", i ? "," : "", c->rank,
                  c->awaited == TU_NONE ? -1 : (long long)c->awaited, c->begin, c->end, name);
  }
  tu_text_print(p->text, "],\n\"names\": [");
  for (uint32_t i = 0; i < count; i++) {
    tu_text_print(p->text, i ? "," : "");
    tu_draw_json_string(names[i], p->text);
  }
  tu_text_print(p->text, "], \"places\": [");
  for (uint32_t r = 0; r < p->what->ranks && p->what->places; r++) {
    tu_text_print(p->text, r ? "," : "");
    tu_draw_json_string(p->what->places[r], p->text);
  }
  tu_text_print(p->text, "],\n");
  free(names);
}

static void print_strips(const struct page *p) {
  uint32_t bins = bins_for(p->what->ranks, SAMPLES / 2);
  for (int reductions = 0; reductions < 2; reductions++) {
    double *taken = tu_draw_rank_loads(p->what, p->deed_order, bins, reductions);
    tu_text_print(p->text, "\"%s\": [", reductions ? "reductions" : "messages");
    for (uint32_t r = 0; r < p->what->ranks; r++) {
      tu_text_print(p->text, r ? "," : "");
      print_coarse(taken + (size_t)r * bins, bins, p->end / bins, p->text);
    }
    tu_text_print(p->text, "],\n");
    free(taken);
  }
}

static void print_ranks(const struct page *p) {
  const struct tu_cluster *c = p->what->cluster.cluster;
  bool shown = p->what->ranks <= TU_DRAW_NODES_MAX;
  tu_text_print(p->text, "\"ranks\": %u, \"chips\": [", p->what->ranks);
  for (uint32_t r = 0; r < p->what->ranks && shown; r++)
    tu_text_print(p->text, r ? ",%u" : "%u", tu_draw_chip(p->what, r));
  tu_text_print(p->text, "], \"nodes\": [");
  for (uint32_t n = 0; n < c->node_count && p->drawn; n++)
    tu_text_print(p->text, "%s\"%s%s\"", n ? "," : "",
                  n >= c->chip_count ? ""
                  : p->what->places  ? "rank "
                                     : "chip ",
                  tu_node_name(c, n).chars);
  tu_text_print(p->text, "],\n");
  if (shown && p->what->timeline->deed_count <= BARS_MAX) print_bars(p);
  else if (shown) print_strips(p);
  if (p->what->timeline->calls) print_calls(p);
}

/* ---- the critical path ---- */

static void print_path(const struct page *p) {
  const struct tu_deed *deeds = p->what->timeline->deeds;
  uint32_t listed = p->path_count < PATH_MAX ? p->path_count : PATH_MAX, messages = 0;
  double sent = 0, reduced = 0, of_kind[TU_DEED_PAUSE + 1] = {0};
  for (uint32_t k = 0; k < p->path_count; k++) {
    const struct tu_deed *d = &deeds[p->path[k]];
    messages += d->kind == TU_DEED_MESSAGE;
    if (d->kind == TU_DEED_MESSAGE) sent += d->bytes;
    if (d->kind == TU_DEED_REDUCTION) reduced += d->bytes;
    of_kind[d->kind] += d->end - d->begin;
  }
  tu_text_print(p->text, "\"pathDeeds\": %u, \"pathMessages\": %u, \"pathSent\": %.15g, \"pathReduced\": %.15g, ",
                p->path_count, messages, sent, reduced);
  tu_text_print(p->text, "\"pathBegin\": %.15g, \"pathEnd\": %.15g,\n\"path\": [",
                p->path_count ? deeds[p->path[0]].begin : 0, p->path_count ? deeds[p->path[p->path_count - 1]].end : 0);
  struct tu_draw_trail trail;
  tu_draw_trail_init(&trail, p->what->timeline, p->path, listed);
  for (uint32_t k = 0; k < listed; k++) {
    tu_text_print(p->text, k ? ",\n" : "\n");
    print_deed(&deeds[p->path[k]], p->text);
    tu_text_print(p->text, ",[");
    for (uint32_t i = trail.first[k]; i < trail.first[k + 1]; i++)
      tu_text_print(p->text, i > trail.first[k] ? ",%u" : "%u", trail.ports[i]);
    tu_text_print(p->text, "],%d]", (int)deeds[p->path[k]].kind);
  }
  tu_text_print(p->text, "],\n\"pathKinds\": [");
  for (int i = 0; i <= TU_DEED_PAUSE; i++) tu_text_print(p->text, "%s%.9g", i ? "," : "", of_kind[i]);
  tu_text_print(p->text, "]");
  tu_draw_trail_fini(&trail);
}

/* ---- the page ---- */

void tu_draw_timeline_html(const struct tu_draw_timeline *what, struct tu_text *text) {
  const struct tu_cluster *c = what->cluster.cluster;
  const char *title = what->cluster.title ? what->cluster.title : c->name;
  struct page p = {.what = what,
                   .text = text,
                   .end = tu_draw_timeline_end(what->timeline),
                   .drawn = c->node_count <= TU_DRAW_NODES_MAX,
                   .deed_order = tu_draw_deed_order(what->timeline)};
  p.path = tu_draw_critical(what->timeline, &p.path_count);
  make_loads(&p);
  tu_draw_page_head(title, text);
  const char *rest = tu_draw_page_up_to(tu_draw_timeline_page, "<!--picture-->", text);
  print_picture(&p);
  rest = tu_draw_page_up_to(rest, "<!--data-->", text);
  tu_text_print(text, "{\"end\": %.15g, \"drawn\": %s, ", p.end, p.drawn ? "true" : "false");
  print_wires(&p);
  print_ranks(&p);
  print_path(&p);
  tu_text_print(text, "}\n");
  tu_text_print(text, "%s", rest);
  tu_draw_loads_fini(&p.loads);
  free(p.listed);
  free(p.deed_order);
  free(p.path);
}
