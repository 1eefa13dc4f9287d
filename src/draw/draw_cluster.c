/* draw_cluster.c: prints a cluster as a picture or as a page. */
#include "draw/draw_cluster.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw/draw_cluster_layout.h"
#include "draw/draw_internal.h"
#include "draw/draw_page.h"

extern const char tu_draw_cluster_page[]; /* template of the page; CMake makes this string from the file cluster.html */

enum { MARGIN = 24, HEAD = 58, FOOT = 44 };

void tu_draw_cluster_words(const struct tu_cluster *cluster, struct tu_text *text) {
  struct tu_cluster_counts n = tu_cluster_count(cluster);
  char mmio[16] = "none";
  if (n.mmio) snprintf(mmio, sizeof mmio, "%u", n.mmio);
  tu_text_print(text, "%u chip%s (%s with mmio), %u link%s, %u of them reserved, %u pair%s", cluster->chip_count,
                cluster->chip_count == 1 ? "" : "s", mmio, n.links, n.links == 1 ? "" : "s", n.reserved, n.pairs,
                n.pairs == 1 ? "" : "s");
  if (n.gateways) tu_text_print(text, "; %u gateways with %u links", n.gateways, n.gateway_links);
  if (n.switches) tu_text_print(text, "; %u switches", n.switches);
  if (cluster->remote_count) tu_text_print(text, "; %u links to devices outside the cluster", cluster->remote_count);
}

/* ---- links ---- */

/* Prints the tooltip of a link. */
static void print_hint(const struct tu_cluster *c, const struct tu_cluster_link *link, struct tu_text *t) {
  tu_text_print(t, "<title>");
  for (int e = 0; e < 2; e++) {
    const char *chip = c->nodes[link->ends[e].node].kind == TU_CHIP ? "chip " : "";
    tu_text_print(t, "%s%s%s channel %u", e ? " = " : "", chip, tu_node_name(c, link->ends[e].node).chars,
                  link->ends[e].channel);
  }
  tu_text_print(t, "%s</title>", link->reserved ? ", reserved" : "");
}

/* Returns the point at distance `by` from `at`, to the left of the direction (dx, dy). */
static struct tu_draw_spot aside(struct tu_draw_spot at, double dx, double dy, double by) {
  double length = hypot(dx, dy);
  return length > 0 ? (struct tu_draw_spot){at.x + dy / length * by, at.y - dx / length * by} : at;
}

static void print_channel(struct tu_text *t, struct tu_draw_spot at, uint32_t channel) {
  tu_text_print(t, "<text class=\"channel\" x=\"%.1f\" y=\"%.1f\">%u</text>", at.x, at.y + 2.7, channel);
}

/* Prints the stub (short line) at node p->node[e] of a pair of linked nodes, moved sideways by `by`. */
static void print_stub(const struct tu_draw_pair *p, int e, double by, const char *class, struct tu_text *t) {
  struct tu_draw_spot way = p->way[e], from = aside(p->end[e], p->way[0].x, p->way[0].y, by);
  bool diagonal = way.x != 0 && way.y != 0;
  double length = diagonal ? TU_DRAW_STUB * 0.6 : TU_DRAW_STUB;
  tu_text_print(t, "<path class=\"%s\" d=\"M%.1f %.1fl%.1f %.1f\"/>", class, from.x, from.y, way.x * length,
                way.y * length);
}

/* Prints link number `k` of those between the two nodes of a pair. */
static void print_link(const struct tu_draw_cluster_layout *l, const struct tu_draw_pair *p,
                       const struct tu_cluster_link *link, uint32_t k, struct tu_text *t) {
  const struct tu_cluster *c = l->what->cluster;
  double by = tu_draw_aside(p, k), dx = p->end[1].x - p->end[0].x, dy = p->end[1].y - p->end[0].y;
  const char *class = link->reserved ? "link reserved" : "link";
  struct tu_draw_spot a = aside(p->end[0], dx, dy, by), b = aside(p->end[1], dx, dy, by);
  tu_text_print(t, "<g>");
  print_hint(c, link, t);
  if (l->loads && !link->reserved) {
    tu_draw_lanes(l, p, (uint32_t)(link - c->links), by, t);
  } else if (p->shape == TU_DRAW_STUBS) {
    for (int e = 0; e < 2; e++) print_stub(p, e, by, class, t);
  } else if (p->shape == TU_DRAW_LINE) {
    tu_text_print(t, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>", class, a.x, a.y, b.x, b.y);
  } else {
    struct tu_draw_spot bend = aside(p->bend, dx, dy, by);
    tu_text_print(t, "<path class=\"%s\" d=\"M%.1f %.1fQ%.1f %.1f %.1f %.1f\"/>", class, a.x, a.y, bend.x, bend.y, b.x,
                  b.y);
  }
  for (int e = 0; e < 2 && l->channels && p->links <= TU_DRAW_LINKS_MAX; e++) {
    uint32_t channel = link->ends[link->ends[0].node == p->node[e] ? 0 : 1].channel;
    struct tu_draw_spot at = e ? b : a, way = p->way[e];
    if (p->shape == TU_DRAW_STUBS) {
      if (way.x != 0 && way.y != 0) continue; /* a diagonal stub has no space for the channel number */
      at = aside(p->end[e], p->way[0].x, p->way[0].y, by);
    } else {
      double length = hypot(dx, dy);
      if (length < 36 || (dx != 0 && dy != 0)) continue;
      way = (struct tu_draw_spot){(e ? -dx : dx) / length, (e ? -dy : dy) / length};
    }
    print_channel(t, (struct tu_draw_spot){at.x + way.x * 9, at.y + way.y * 9}, channel);
  }
  tu_text_print(t, "</g>\n");
}

/* Prints all links of a pair of nodes as one thick line, labelled with the number of links. */
static void print_bundle(const struct tu_draw_cluster_layout *l, const struct tu_draw_pair *p, struct tu_text *t) {
  const char *class = p->usable == 0 ? "link reserved thick" : "link thick";
  if (l->loads && p->usable > 0) {
    tu_draw_lanes(l, p, TU_NONE, 0, t);
    return;
  }
  if (p->shape == TU_DRAW_STUBS) {
    for (int e = 0; e < 2; e++) print_stub(p, e, 0, class, t);
    return;
  }
  double x = (p->end[0].x + p->end[1].x) / 2, y = (p->end[0].y + p->end[1].y) / 2;
  tu_text_print(t, "<path class=\"%s\" d=\"M%.1f %.1f", class, p->end[0].x, p->end[0].y);
  if (p->shape == TU_DRAW_CURVE) {
    tu_text_print(t, "Q%.1f %.1f ", p->bend.x, p->bend.y);
    x = (x + p->bend.x) / 2;
    y = (y + p->bend.y) / 2;
  } else {
    tu_text_print(t, "L");
  }
  tu_text_print(t, "%.1f %.1f\"/><text class=\"channel\" x=\"%.1f\" y=\"%.1f\">%u</text>\n", p->end[1].x, p->end[1].y,
                x, y + 3, p->links);
}

/* Prints a label at both stubs (short lines) of a pair of linked nodes; a label names the node at the other end. */
static void print_whereto(const struct tu_draw_cluster_layout *l, const struct tu_draw_pair *p, struct tu_text *t) {
  for (int e = 0; e < 2; e++) {
    struct tu_draw_spot way = p->way[e];
    bool diagonal = way.x != 0 && way.y != 0;
    double length = (diagonal ? TU_DRAW_STUB * 0.6 : TU_DRAW_STUB) + 10;
    tu_text_print(t, "<text class=\"whereto\" x=\"%.1f\" y=\"%.1f\">%s</text>", p->end[e].x + way.x * length,
                  p->end[e].y + way.y * length + 3.5, tu_node_name(l->what->cluster, p->node[1 - e]).chars);
  }
}

static void print_pair(const struct tu_draw_cluster_layout *l, const struct tu_draw_pair *p, struct tu_text *t) {
  const struct tu_cluster *c = l->what->cluster;
  tu_text_print(t, "<g class=\"pair\" data-a=\"%u\" data-b=\"%u\">\n", p->node[0], p->node[1]);
  if (p->links > TU_DRAW_LINKS_MAX) {
    print_bundle(l, p, t);
  } else {
    uint32_t k = 0;
    for (uint32_t i = c->port_first[p->node[0]]; i < c->port_first[p->node[0] + 1]; i++) {
      const struct tu_cluster_link *link = &c->links[c->ports[i].link];
      struct tu_cluster_link_end near = {p->node[0], c->ports[i].channel};
      if (tu_link_far(link, near).node == p->node[1]) print_link(l, p, link, k++, t);
    }
  }
  if (p->shape == TU_DRAW_STUBS) print_whereto(l, p, t);
  tu_text_print(t, "</g>\n");
}

/* ---- nodes ---- */

static void print_node(const struct tu_draw_cluster_layout *l, uint32_t node, struct tu_text *t) {
  static const char *const classes[] = {[TU_CHIP] = "chip", [TU_GATEWAY] = "gateway", [TU_SWITCH] = "switch"};
  static const char *const words[] = {[TU_CHIP] = "", [TU_GATEWAY] = "gateway", [TU_SWITCH] = "switch"};
  const struct tu_node *n = &l->what->cluster->nodes[node];
  double x = l->spots[node].x, y = l->spots[node].y, half = TU_DRAW_BOX / 2.0;
  const char *word = n->kind == TU_CHIP && n->mmio ? "mmio" : words[n->kind];
  tu_text_print(
      t, "<g class=\"node %s%s\" data-node=\"%u\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" rx=\"5\"/>",
      classes[n->kind], n->mmio ? " mmio" : "", node, x - half, y - half, TU_DRAW_BOX, TU_DRAW_BOX);
  tu_text_print(t, "<text class=\"id\" x=\"%.1f\" y=\"%.1f\">%u</text>", x, y + (word[0] ? 1.5 : 5.5), n->id);
  if (word[0]) tu_text_print(t, "<text class=\"kind\" x=\"%.1f\" y=\"%.1f\">%s</text>", x, y + 15, word);
  if (n->arch[0]) tu_text_print(t, "<title>%s</title>", n->arch);
  tu_text_print(t, "</g>\n");
}

static void print_words(const struct tu_draw_cluster *what, struct tu_text *t) {
  if (what->words) tu_text_print(t, "%s", what->words);
  else tu_draw_cluster_words(what->cluster, t);
}

/* ---- the ring of chips ---- */

static const struct tu_draw_pair *find_pair(const struct tu_draw_cluster_layout *l, uint32_t a, uint32_t b) {
  for (uint32_t i = 0; i < l->pair_count; i++) {
    const uint32_t *n = l->pairs[i].node;
    if ((n[0] == a && n[1] == b) || (n[0] == b && n[1] == a)) return &l->pairs[i];
  }
  return NULL;
}

/* Prints the ring of chips as a broad line, drawn below the links that it uses. */
static void print_ring(const struct tu_draw_cluster_layout *l, struct tu_text *t) {
  const struct tu_ring *ring = l->what->ring;
  uint32_t n = l->what->cluster->chip_count, hops = ring->kind == TU_RING ? n : n - 1;
  if ((ring->kind != TU_RING && ring->kind != TU_LINE) || n < 2) return;
  tu_text_print(t, "<g class=\"ring\">\n");
  for (uint32_t i = 0; i < hops; i++) {
    const struct tu_draw_pair *p = find_pair(l, ring->order[i], ring->order[(i + 1) % n]);
    if (p->shape == TU_DRAW_STUBS) {
      for (int e = 0; e < 2; e++) print_stub(p, e, 0, "round", t);
    } else {
      tu_text_print(t, "<path class=\"round\" d=\"M%.1f %.1f", p->end[0].x, p->end[0].y);
      if (p->shape == TU_DRAW_CURVE) tu_text_print(t, "Q%.1f %.1f ", p->bend.x, p->bend.y);
      else tu_text_print(t, "L");
      tu_text_print(t, "%.1f %.1f\"/>\n", p->end[1].x, p->end[1].y);
    }
  }
  tu_text_print(t, "</g>\n");
}

/* ---- the whole picture (SVG) ---- */

static const char style[] =
    ".tutti { font-family: 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif;"
    " text-anchor: middle; fill: #222 }\n"
    ".tutti .title { font-size: 15px; font-weight: bold; text-anchor: start }\n"
    ".tutti .words { font-size: 12px; fill: #444; text-anchor: start }\n"
    ".tutti .plane { font-size: 11px; fill: #666; text-anchor: start }\n"
    ".tutti .node rect { fill: #f4f4f1; stroke: #555; stroke-width: 1.2 }\n"
    ".tutti .mmio rect { fill: #fdeec2 }\n"
    ".tutti .gateway rect { fill: #fdeec2; stroke-dasharray: 4 3 }\n"
    ".tutti .switch rect { fill: #dbe7f1 }\n"
    ".tutti .id { font-size: 16px; font-weight: bold }\n"
    ".tutti .kind { font-size: 9px; fill: #555 }\n"
    ".tutti .link { fill: none; stroke: #333; stroke-width: 1.5 }\n"
    ".tutti .thick { stroke-width: 5 }\n"
    ".tutti .reserved { stroke: #c4008f; stroke-dasharray: 5 3 }\n"
    ".tutti .round { fill: none; stroke: #0072b2; stroke-opacity: 0.22; stroke-width: 16 }\n"
    ".tutti .channel { font-size: 7.5px; stroke: #fff; stroke-width: 3px; paint-order: stroke }\n"
    ".tutti .whereto { font-size: 11px; fill: #444 }\n" TU_DRAW_IF_DARK
    ".tutti { fill: #e6e6e3 }\n"
    ".tutti .paper { fill: #16181b }\n"
    ".tutti .words, .tutti .whereto, .tutti .kind { fill: #c6c6c2 }\n"
    ".tutti .plane { fill: #a0a09b }\n"
    ".tutti .node rect { fill: #2a2d32; stroke: #a0a09b }\n"
    ".tutti .mmio rect, .tutti .gateway rect { fill: #4d4119 }\n"
    ".tutti .switch rect { fill: #26405a }\n"
    ".tutti .link { stroke: #c6c6c2 }\n"
    ".tutti .reserved { stroke: #ff7ad1 }\n"
    ".tutti .round { stroke: #4da9e8; stroke-opacity: 0.3 }\n"
    ".tutti .channel { stroke: #16181b }\n"
    "}\n";

/* Prints one entry of the legend: a sample and its meaning. Returns the x coordinate of the next entry. */
static double print_key(struct tu_text *t, double x, double y, const char *class, bool box, const char *word) {
  if (box)
    tu_text_print(t, "<g class=\"node %s\"><rect x=\"%.1f\" y=\"%.1f\" width=\"16\" height=\"16\" rx=\"3\"/></g>",
                  class, x + 10, y - 12);
  else tu_text_print(t, "<path class=\"%s\" d=\"M%.1f %.1fh26\"/>", class, x, y - 4);
  tu_text_print(t, "<text class=\"words\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", x + 33, y, word);
  return x + 58 + 6.1 * (double)strlen(word);
}

static bool has_reserved(const struct tu_cluster *cluster) {
  bool reserved = false;
  for (uint32_t i = 0; i < cluster->link_count; i++) reserved |= cluster->links[i].reserved;
  return reserved;
}

static double load_legend(const struct tu_draw_cluster_layout *l, double y, struct tu_text *t) {
  static const char *const words[TU_DRAW_SHADES] = {"idle", "busy up to 20%", "40%", "60%", "80%", "100%"};
  double x = MARGIN;
  for (int i = 0; i < TU_DRAW_SHADES; i++) {
    char class[32];
    snprintf(class, sizeof class, "lane shade%d", i);
    x = print_key(t, x, y, class, false, words[i]);
  }
  return has_reserved(l->what->cluster) ? print_key(t, x, y, "link reserved", false, "reserved") : x;
}

static double legend(const struct tu_draw_cluster_layout *l, double y, struct tu_text *t) {
  const struct tu_draw_cluster *what = l->what;
  struct tu_cluster_counts n = tu_cluster_count(what->cluster);
  double x = MARGIN;
  if (l->loads) return load_legend(l, y, t);
  if (n.mmio) x = print_key(t, x, y, "chip mmio", true, "chip with mmio");
  if (n.mmio < what->cluster->chip_count) x = print_key(t, x, y, "chip", true, "chip");
  if (n.gateways) x = print_key(t, x, y, "gateway", true, "gateway");
  if (n.switches) x = print_key(t, x, y, "switch", true, "switch");
  if (n.links) x = print_key(t, x, y, "link", false, "link");
  if (has_reserved(what->cluster)) x = print_key(t, x, y, "link reserved", false, "reserved");
  if (what->ring->kind == TU_RING && what->ring->hops > 1)
    x = print_key(t, x, y, "round", false, "the ring that was found");
  if (what->ring->kind == TU_LINE) x = print_key(t, x, y, "round", false, "the line that was found");
  return x;
}

static void print_words_only(const struct tu_draw_cluster *what, const double loads[], struct tu_text *t) {
  tu_text_print(
      t,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"tutti\" width=\"760\" height=\"90\" viewBox=\"0 0 760 90\">\n"
      "<style>\n%s%s</style>\n<rect class=\"paper\" width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text "
      "class=\"title\" "
      "x=\"%d\" y=\"28\">",
      style, loads ? tu_draw_lanes_style : "", MARGIN);
  tu_draw_escape(what->title ? what->title : what->cluster->name, t);
  tu_text_print(t, "</text>\n<text class=\"words\" x=\"%d\" y=\"50\">", MARGIN);
  print_words(what, t);
  tu_text_print(
      t,
      "</text>\n<text class=\"words\" x=\"%d\" y=\"70\">Clusters of up to %u chips and switches are drawn.</text>\n"
      "</svg>\n",
      MARGIN, TU_DRAW_NODES_MAX);
}

static void print_picture(const struct tu_draw_cluster *what, const double loads[], struct tu_text *t) {
  const struct tu_cluster *c = what->cluster;
  if (c->node_count > TU_DRAW_NODES_MAX) {
    print_words_only(what, loads, t);
    return;
  }
  const char *title = what->title ? what->title : c->name;
  struct tu_draw_cluster_layout l;
  struct tu_text words = {0}, keys = {0};
  tu_draw_cluster_layout_init(&l, what, HEAD);
  l.loads = loads;
  /* loads are drawn as two lanes per link (one per direction); a channel number would hide them */
  if (loads) l.channels = false;
  print_words(what, &words);
  double width = fmax(l.width, fmax(legend(&l, l.height + FOOT - 20, &keys), MARGIN * 2 + 6.2 * (double)words.length));
  width = fmax(width, MARGIN * 2 + 9 * (double)strlen(title));
  tu_text_print(t,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"tutti\" width=\"%.0f\" height=\"%.0f\" "
                "viewBox=\"0 0 %.0f %.0f\">\n<style>\n%s%s</style>\n<rect class=\"paper\" width=\"100%%\" "
                "height=\"100%%\" fill=\"#fff\"/>\n",
                width, l.height + FOOT, width, l.height + FOOT, style, loads ? tu_draw_lanes_style : "");
  tu_text_print(t, "<text class=\"title\" x=\"%d\" y=\"28\">", MARGIN);
  tu_draw_escape(title, t);
  tu_text_print(t, "</text>\n<text class=\"words\" x=\"%d\" y=\"48\">%s</text>\n", MARGIN, words.chars);
  if (!loads) print_ring(&l, t);
  for (uint32_t i = 0; i < l.pair_count; i++) print_pair(&l, &l.pairs[i], t);
  for (uint32_t i = 0; i < c->node_count; i++) print_node(&l, i, t);
  for (uint32_t i = 0; i < l.caption_count; i++)
    tu_text_print(t, "<text class=\"plane\" x=\"%.1f\" y=\"%.1f\">plane %u</text>\n", l.captions[i].at.x,
                  l.captions[i].at.y, l.captions[i].plane);
  tu_text_print(t, "%s</svg>\n", keys.chars ? keys.chars : "");
  tu_text_fini(&words);
  tu_text_fini(&keys);
  tu_draw_cluster_layout_fini(&l);
}

void tu_draw_cluster_svg(const struct tu_draw_cluster *what, struct tu_text *text) { print_picture(what, NULL, text); }

void tu_draw_cluster_loads(const struct tu_draw_cluster *what, const double loads[], struct tu_text *text) {
  print_picture(what, loads, text);
}

/* ---- the page (HTML) ---- */

static void print_array(const char *name, const uint32_t values[], uint32_t count, struct tu_text *t) {
  tu_text_print(t, "\"%s\": [", name);
  for (uint32_t i = 0; i < count; i++) tu_text_print(t, i ? ",%u" : "%u", values[i]);
  tu_text_print(t, "]");
}

static void print_data(const struct tu_draw_cluster *what, struct tu_text *t) {
  static const char *const kinds[] = {[TU_CHIP] = "chip", [TU_GATEWAY] = "gateway", [TU_SWITCH] = "switch"};
  static const char *const rings[] = {[TU_RING] = "ring", [TU_LINE] = "line", [TU_TOUR] = "tour", [TU_APART] = "apart"};
  const struct tu_cluster *c = what->cluster;
  uint32_t *mmio = tu_allocate(c->chip_count, sizeof *mmio), *hops = tu_allocate(c->chip_count, sizeof *hops);
  if (!tu_cluster_reach(c, mmio, hops)) tu_memory_ends(c->node_count, 3 * sizeof *hops);
  tu_text_print(t, "{\"nodes\": [");
  for (uint32_t i = 0; i < c->node_count; i++) {
    const struct tu_node *n = &c->nodes[i];
    tu_text_print(t, "%s\n{\"name\": \"%s%s\", \"kind\": \"%s\", \"mmio\": %s, \"arch\": \"%s\"", i ? "," : "",
                  n->kind == TU_CHIP ? "chip " : "", tu_node_name(c, i).chars, kinds[n->kind],
                  n->mmio ? "true" : "false", n->arch);
    if (n->has_coords) {
      tu_text_print(t, ", ");
      print_array("place", n->coords, TU_GRID_DIMS, t);
    }
    if (i < c->chip_count && hops[i] != TU_NONE) tu_text_print(t, ", \"by\": %u, \"hops\": %u", mmio[i], hops[i]);
    tu_text_print(t, "}");
  }
  tu_text_print(t, "],\n\"links\": [");
  for (uint32_t l = 0; l < c->link_count; l++) {
    const struct tu_cluster_link_end *e = c->links[l].ends;
    tu_text_print(t, "%s[%u,%u,%u,%u,%d]", l ? "," : "", e[0].node, e[0].channel, e[1].node, e[1].channel,
                  c->links[l].reserved);
  }
  tu_text_print(t, "],\n\"order\": \"%s\", ", rings[what->ring->kind]);
  print_array("ring", what->ring->order, c->chip_count, t);
  tu_text_print(t, "}\n");
  free(mmio);
  free(hops);
}

void tu_draw_cluster_html(const struct tu_draw_cluster *what, struct tu_text *text) {
  tu_draw_page_head(what->title ? what->title : what->cluster->name, text);
  if (what->cluster->node_count > TU_DRAW_NODES_MAX) {
    tu_text_print(text, "<body>\n");
    print_words_only(what, NULL, text);
    tu_text_print(text, "</body></html>\n");
    return;
  }
  const char *rest = tu_draw_page_up_to(tu_draw_cluster_page, "<!--picture-->", text);
  tu_draw_cluster_svg(what, text);
  rest = tu_draw_page_up_to(rest, "<!--data-->", text);
  print_data(what, text);
  tu_text_print(text, "%s", rest);
}
