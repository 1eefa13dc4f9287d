/* topo.c: `tutti topo`: prints the chips, links and rings of a cluster, and closed walks and routes, as text, data, a
 * picture or an HTML page. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/topo.h"
#include "cli/units.h"
#include "draw/draw_cluster.h"
#include "topology/measure.h"

struct request {
  const char *reserve, *as, *title, *soc, *walk, *routes;
  bool dimension_order, json, quiet;
};

static int fail(const struct tu_error *error) { return cli_fail("topo", CLI_FAILED, "%s", error->text); }

static void close_topo(struct topo *t) {
  tu_ring_fini(&t->ring);
  tu_grid_fini(&t->grid);
  tu_cluster_destroy(t->cluster);
  tu_soc_destroy(t->soc);
}

static int open_topo(const struct request *r, const char *what, struct topo *t) {
  struct tu_error error;
  *t = (struct topo){.soc = NULL};
  tutti_err err = tu_cluster_load(what, &t->cluster, &error);
  if (err == TUTTI_OK) err = tu_cluster_reserve(t->cluster, r->reserve, &error);
  if (err == TUTTI_OK && r->soc) {
    char *data;
    size_t bytes;
    err = tu_read_file(r->soc, &data, &bytes, &error);
    if (err == TUTTI_OK) {
      err = tu_soc_read(data, bytes, r->soc, &t->soc, &error);
      free(data);
    }
  }
  if (err != TUTTI_OK) {
    tu_cluster_destroy(t->cluster);
    return fail(&error);
  }
  tu_grid_find(t->cluster, &t->grid);
  tu_ring_find(t->cluster, &t->grid, &t->ring);
  t->diameter = tu_cluster_diameter(t->cluster, &t->grid);
  t->bisection = tu_cluster_bisection(t->cluster, &t->grid);
  return CLI_GOOD;
}

/* ---- output as text ---- */

/* Prints the minimum and maximum of a number, for example "3 hops" or "1 to 3 hops"; "none" if the chips are not all
 * connected. */
static void print_bounds(const char *name, struct tu_bounds b, const char *unit) {
  printf("%-11s", name);
  if (b.high == TU_NONE) printf("none: the chips are not all connected\n");
  else if (b.low == b.high) printf("%u %s%s\n", b.low, unit, b.low == 1 ? "" : "s");
  else printf("%u to %u %ss\n", b.low, b.high, unit);
}

static void print_chips(const struct tu_cluster *c, const uint32_t chips[], uint32_t count) {
  for (uint32_t i = 0; i < count; i++) printf(i ? " %u" : "%u", c->nodes[chips[i]].id);
}

/* Maximum number of chips for which rings and lines are printed chip by chip. */
enum { LIST_MAX = 64 };

static void print_order(const struct topo *t) {
  if (t->cluster->chip_count > LIST_MAX)
    printf("(%s chips: --json lists them)", units_count(t->cluster->chip_count).chars);
  else print_chips(t->cluster, t->ring.order, t->cluster->chip_count);
}

static void print_ring(const struct topo *t) {
  const struct tu_ring *ring = &t->ring;
  const char *sure = ring->proved ? "no ring" : "found no ring";
  switch (ring->kind) {
    case TU_RING:
      printf("ring       "), print_order(t), printf("; %u link%s per hop\n", ring->links, ring->links == 1 ? "" : "s");
      break;
    case TU_LINE:
      printf("ring       %s through all chips; a line: ", sure), print_order(t);
      printf("; %u link%s per hop\n", ring->links, ring->links == 1 ? "" : "s");
      break;
    case TU_TOUR:
      printf("ring       %s or line through all chips; ", sure);
      if (ring->hops == TU_NONE) printf("in the order of their numbers: ");
      else printf("a tour of %u hops: ", ring->hops);
      print_order(t);
      printf("\n");
      break;
    case TU_APART: printf("ring       none: the chips are not all connected\n"); break;
  }
}

/* Prints the lines (rows, columns, ...) of a grid of chips by chip number, for example "rows       2 lines of 4: 4 0 3
 * 7; 5 1 2 6". */
static void print_lines(const struct topo *t) {
  static const char *const names[] = {"rows", "columns", "3rd dim.", "4th dim."};
  const struct tu_grid *g = &t->grid;
  for (uint32_t d = 0; d < g->dims && g->dims > 1; d++) {
    uint32_t lines = tu_grid_line_count(g, d), *chips = tu_allocate(g->size[d], sizeof *chips);
    printf("%-11s%u %s of %u", names[d], lines, g->wraps[d] ? "rings" : "lines", g->size[d]);
    for (uint32_t i = 0; i < lines && t->cluster->chip_count <= LIST_MAX; i++) {
      tu_grid_line(g, d, i, chips);
      printf(i ? "; " : ": ");
      print_chips(t->cluster, chips, g->size[d]);
    }
    printf("\n");
    free(chips);
  }
}

static void print_end(const struct topo *t, struct tu_cluster_link_end end) {
  printf("%s.%u", tu_node_name(t->cluster, end.node).chars, end.channel);
  if (t->soc && end.channel < t->soc->channel_count)
    printf("@%u-%u", t->soc->channels[end.channel].x, t->soc->channels[end.channel].y);
}

static void print_pairs(const struct topo *t) {
  const struct tu_cluster *c = t->cluster;
  printf("pairs (chip.channel%s at both ends; * is reserved%s):\n", t->soc ? "@core" : "",
         tu_cluster_count(c).loose ? ", ? at chips chosen here" : "");
  for (uint32_t n = 0; n < c->node_count; n++)
    for (uint32_t i = 0; i < tu_neighbour_count(c, n); i++) {
      const struct tu_neighbour *to = &tu_neighbours(c, n)[i];
      if (to->node < n) continue;
      printf("  %s - %s:", tu_node_name(c, n).chars, tu_node_name(c, to->node).chars);
      for (uint32_t p = c->port_first[n]; p < c->port_first[n + 1]; p++) {
        const struct tu_cluster_link *link = &c->links[c->ports[p].link];
        struct tu_cluster_link_end near = {n, c->ports[p].channel}, far = tu_link_far(link, near);
        if (far.node != to->node) continue;
        printf("  ");
        print_end(t, near);
        printf(" = ");
        print_end(t, far);
        printf("%s%s", link->reserved ? "*" : "", link->loose ? "?" : "");
      }
      printf("\n");
    }
}

static void print_mmio(const struct topo *t) {
  const struct tu_cluster *c = t->cluster;
  uint32_t n = c->chip_count, far = 0, lost = 0;
  uint32_t *hops = tu_allocate(n, sizeof *hops);
  if (!tu_cluster_reach(c, NULL, hops)) tu_memory_ends(c->node_count, 3 * sizeof *hops);
  for (uint32_t i = 0; i < n; i++) {
    lost += hops[i] == TU_NONE;
    if (hops[i] != TU_NONE && hops[i] > far) far = hops[i];
  }
  if (lost == n) printf("host       not known: no chip is reachable from a node with mmio\n");
  else if (lost)
    printf("host       reaches %u chips, the farthest over %u links; cannot reach %u chips\n", n - lost, far, lost);
  else if (far == 0) printf("host       reaches all chips directly\n");
  else printf("host       reaches all chips, the farthest over %u link%s\n", far, far == 1 ? "" : "s");
  free(hops);
}

/* Prints facts from the cluster's file: how many links are optional, and for how many links the file does not name the
 * chips. Also prints the notes that were made when the file was read. */
static void print_file(const struct topo *t) {
  const struct tu_cluster *c = t->cluster;
  struct tu_cluster_counts n = tu_cluster_count(c);
  if (n.relaxed)
    printf("relaxed    %u of %u links are optional: the file accepts fewer, but at least one of each pair\n", n.relaxed,
           n.links);
  if (n.loose)
    printf(
        "loose      %u of %u links join meshes at chips that the file does not name; here they are spread evenly, "
        "which "
        "the results assume\n",
        n.loose, n.links);
  const char *line = c->notes.chars;
  for (uint32_t i = 0; i < c->note_count && i < TU_NOTES_MAX; i++, line = strchr(line, '\n') + 1)
    printf("%-11s%.*s\n", i ? "" : "file", (int)strcspn(line, "\n"), line);
  if (c->note_count > TU_NOTES_MAX) printf("           and %u more lines\n", c->note_count - TU_NOTES_MAX);
}

static const char *shape_name(const struct tu_grid *g) {
  bool all = true, none = true;
  for (uint32_t d = 0; d < g->dims; d++) all &= g->wraps[d], none &= !g->wraps[d];
  if (g->dims == 1) return all ? "ring" : "line";
  return all ? "torus" : none ? "mesh" : "mesh, in part a torus,";
}

/* Maximum number of printed pairs of linked chips that are not neighbours in the grid. */
enum { BEYOND_MAX = 16 };

/* Prints the shape of the cluster, and the linked pairs of chips that are not neighbours in this shape, for example "a
 * torus of 8 x 4, and 4 pairs beyond it: 8-20 ...". */
static void print_shape(const struct topo *t) {
  const struct tu_cluster *c = t->cluster;
  const struct tu_grid *g = &t->grid;
  uint32_t pairs[BEYOND_MAX][2], count = tu_grid_beyond(g, c, pairs, BEYOND_MAX);
  printf("shape      a %s of ", shape_name(g));
  for (uint32_t d = g->dims; d-- > 0;) printf("%u%s", g->size[d], d ? " x " : "");
  if (count > 0) printf(", and %u pair%s beyond it:", count, count == 1 ? "" : "s");
  for (uint32_t i = 0; i < count && i < BEYOND_MAX; i++)
    printf(" %u-%u", c->nodes[pairs[i][0]].id, c->nodes[pairs[i][1]].id);
  if (count > BEYOND_MAX) printf(" ...");
  printf("\n");
  if (count > 0)
    printf("           shortest routes may use %s, dimension-order routes do not\n", count == 1 ? "it" : "them");
}

static void print_text(const struct topo *t) {
  const struct tu_cluster *c = t->cluster;
  struct tu_text words = {0};
  tu_draw_cluster_words(c, &words);
  printf("%s: %s\n", c->name, words.chars);
  tu_text_fini(&words);
  print_file(t);
  if (t->grid.dims > 0 && c->chip_count > 1) print_shape(t);
  print_mmio(t);
  print_bounds("diameter", t->diameter, "hop");
  print_bounds("bisection", t->bisection, "link");
  print_ring(t);
  print_lines(t);
}

/* ---- the verb `tutti topo` ---- */

static int show(const struct request *r, const struct topo *t) {
  struct tu_draw_cluster what = {.cluster = t->cluster, .grid = &t->grid, .ring = &t->ring, .title = r->title};
  struct tu_text text = {0};
  if (strcmp(r->as, "text") == 0) {
    print_text(t);
    print_pairs(t);
  } else if (strcmp(r->as, "json") == 0) topo_json(t);
  else if (strcmp(r->as, "svg") == 0) tu_draw_cluster_svg(&what, &text);
  else if (strcmp(r->as, "html") == 0) tu_draw_cluster_html(&what, &text);
  else return cli_fail("topo", CLI_USAGE, "--as: expected text, svg or html (or --json), found '%s'", r->as);
  if (text.chars) fputs(text.chars, stdout);
  tu_text_fini(&text);
  return CLI_GOOD;
}

static int run(int argc, char **argv) {
  struct request r = {.as = "text"};
  bool done;
  const struct cli_option options[] = {
      {"--reserve", CLI_STRING, &r.reserve, "none|dispatch|LIST",
       "links that must not be used, for example 0:8,3:9 (those of the preset)"},
      {"--as", CLI_STRING, &r.as, "text|svg|html", "text, a picture or an interactive page (text)"},
      JSON_OPTION(&r.json),
      QUIET_OPTION(&r.quiet),
      {"--title", CLI_STRING, &r.title, "WORDS", "title of a picture (the cluster's name)"},
      {"--soc", CLI_STRING, &r.soc, "FILE", "description of a chip; prints the core of each channel"},
      {"--walk", CLI_STRING, &r.walk, "HOPS", "find a closed walk of that many hops, or over chips 0,4,5,1"},
      {"--routes", CLI_STRING, &r.routes, "A-B,..", "print the routes and the schedule of these transfers"},
      {"--dimension-order", CLI_FLAG, &r.dimension_order, NULL, "with --routes: use dimension-order routing"},
  };
  int code = cli_parse(&cli_topo, options, sizeof options / sizeof options[0], &argc, argv, &done);
  if (code != CLI_GOOD || done) return code;
  if (argc != 2)
    return cli_fail("topo", CLI_USAGE,
                    "expected one cluster (n300, t3000, galaxy, galaxy-torus, mesh:4x8, ..., or a file), found %d "
                    "arguments",
                    argc - 1);
  if (r.walk && r.routes) return cli_fail("topo", CLI_USAGE, "expected at most one of --walk and --routes");
  if (r.json && (code = cli_choose_json("topo", &r.as)) != CLI_GOOD) return code;
  struct topo t;
  progress_start(&(struct progress_task){.verb = "topo", .quiet = r.quiet, .by_alarm = true});
  if ((code = open_topo(&r, argv[1], &t)) != CLI_GOOD) return code;
  if (r.walk) code = topo_walk(&t, r.walk, r.json);
  else if (r.routes) code = topo_routes(&t, r.routes, r.dimension_order, r.json);
  else code = show(&r, &t);
  progress_stop();
  close_topo(&t);
  return code;
}

const struct cli_verb cli_topo = {
    .name = "topo",
    .summary = "print chips, links, rings and routes of a cluster, as text, data or a picture",
    .synopsis = "topo CLUSTER [options]",
    .run = run,
    .arguments = "CLUSTER",
};
