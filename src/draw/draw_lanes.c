/* draw_lanes.c: draws a link as two lanes, one per direction; a lane shows how much of the time its direction was busy.
 * Colour (light to dark) and width (thin to thick) show the same load, so that readers need not see colours. Half an
 * arrowhead shows the direction of a lane. */
#include <math.h>

#include "draw/draw_cluster_layout.h"
#include "draw/draw_internal.h"

#define APART 2.9       /* distance between a lane and the middle line of its link */
#define NARROW_APART 1. /* distance between a lane and the middle line, if the links of a pair are close together */
#define TIP_AT 0.62     /* position of the arrowhead: fraction of the lane's length */

/* Style of the lanes. Colours of ColorBrewer (Brewer, Harrower), safe for the colour-blind: YlOrRd, light to dark; on a
 * dark page the orange half of PuOr, dark to light. */
const char tu_draw_lanes_style[] =
    ".tutti .lane { fill: none; stroke: currentColor }\n"
    ".tutti .tip { fill: currentColor; stroke: none }\n"
    ".shade0 { color: #c4c4bf; stroke-width: 1.2 }\n"
    ".shade1 { color: #fecc5c; stroke-width: 2.2 }\n"
    ".shade2 { color: #fd9a3c; stroke-width: 2.9 }\n"
    ".shade3 { color: #f4552c; stroke-width: 3.6 }\n"
    ".shade4 { color: #bd0026; stroke-width: 4.3 }\n"
    ".shade5 { color: #5a0018; stroke-width: 5 }\n"
    ".tutti .narrow { stroke-width: 1.7 }\n" TU_DRAW_IF_DARK
    ".shade0 { color: #55585d }\n"
    ".shade1 { color: #8a4a12 }\n"
    ".shade2 { color: #b96a10 }\n"
    ".shade3 { color: #e8912a }\n"
    ".shade4 { color: #fdbf6f }\n"
    ".shade5 { color: #fff0d0 }\n"
    "}\n";

uint32_t tu_draw_shade(double load) {
  if (!(load > 0)) return 0;
  return load < 1 ? (uint32_t)ceil(load * (TU_DRAW_SHADES - 1)) : TU_DRAW_SHADES - 1;
}

struct lane {
  double load; /* maximum load (0 to 1) of the lane's ports */
  double tip;  /* size of the arrowhead */
  struct tu_text ports, wires, tips;
};

static struct tu_draw_spot add(struct tu_draw_spot a, struct tu_draw_spot b, double times) {
  return (struct tu_draw_spot){a.x + b.x * times, a.y + b.y * times};
}

static struct tu_draw_spot direction(struct tu_draw_spot from, struct tu_draw_spot to) {
  double length = hypot(to.x - from.x, to.y - from.y);
  return length > 0 ? (struct tu_draw_spot){(to.x - from.x) / length, (to.y - from.y) / length}
                    : (struct tu_draw_spot){0, 0};
}

/* Returns the direction to the right of direction `way`. The y axis points down. */
static struct tu_draw_spot right_of(struct tu_draw_spot way) { return (struct tu_draw_spot){-way.y, way.x}; }

/* Draws half an arrowhead on the outer side of a lane, so that the halves of a link's two lanes do not touch. */
static void print_tip(struct lane *lane, struct tu_draw_spot at, struct tu_draw_spot way) {
  struct tu_draw_spot right = right_of(way), front = add(at, way, lane->tip), back = add(at, way, -lane->tip * 0.7);
  struct tu_draw_spot outer = add(back, right, lane->tip);
  tu_text_print(&lane->tips, "M%.1f %.1fL%.1f %.1fL%.1f %.1fz", front.x, front.y, outer.x, outer.y, back.x, back.y);
}

static void print_straight(struct lane *lane, struct tu_draw_spot from, struct tu_draw_spot to) {
  tu_text_print(&lane->wires, "M%.1f %.1fL%.1f %.1f", from.x, from.y, to.x, to.y);
  struct tu_draw_spot all = {to.x - from.x, to.y - from.y};
  print_tip(lane, add(from, all, TIP_AT), direction(from, to));
}

static void print_bent(struct lane *lane, struct tu_draw_spot from, struct tu_draw_spot bend, struct tu_draw_spot to) {
  double a = (1 - TIP_AT) * (1 - TIP_AT), b = 2 * TIP_AT * (1 - TIP_AT), c = TIP_AT * TIP_AT;
  struct tu_draw_spot at = {a * from.x + b * bend.x + c * to.x, a * from.y + b * bend.y + c * to.y};
  struct tu_draw_spot before = add(from, (struct tu_draw_spot){bend.x - from.x, bend.y - from.y}, TIP_AT);
  tu_text_print(&lane->wires, "M%.1f %.1fQ%.1f %.1f %.1f %.1f", from.x, from.y, bend.x, bend.y, to.x, to.y);
  print_tip(lane, at, direction(before, at));
}

/* Draws a lane as two stubs (short lines): one leaves the sender's box, the other enters the receiver's box. */
static void print_stubs(struct lane *lane, const struct tu_draw_pair *p, uint32_t out, struct tu_draw_spot shift) {
  for (uint32_t i = 0; i < 2; i++) {
    uint32_t e = i == 0 ? out : 1 - out;
    bool diagonal = p->way[e].x != 0 && p->way[e].y != 0;
    struct tu_draw_spot near = add(p->end[e], shift, 1);
    struct tu_draw_spot far = add(near, p->way[e], diagonal ? TU_DRAW_STUB * 0.6 : TU_DRAW_STUB);
    print_straight(lane, i == 0 ? near : far, i == 0 ? far : near);
  }
}

/* Returns the port by which a link leaves node `from` (0 or 1) of the pair. */
static uint32_t port_at(const struct tu_cluster *c, const struct tu_draw_pair *p, uint32_t link, uint32_t from) {
  uint32_t first = c->links[link].ends[0].node == p->node[0] ? 0 : 1;
  return 2 * link + (from == 0 ? first : 1 - first);
}

static void add_port(struct lane *lane, uint32_t port, const double loads[]) {
  lane->load = fmax(lane->load, loads[port]);
  tu_text_print(&lane->ports, lane->ports.length > 0 ? " %u" : "%u", port);
}

static void collect(const struct tu_draw_cluster_layout *l, const struct tu_draw_pair *p, uint32_t link, uint32_t from,
                    struct lane *lane) {
  const struct tu_cluster *c = l->what->cluster;
  if (link != TU_NONE) {
    add_port(lane, port_at(c, p, link, from), l->loads);
    return;
  }
  for (uint32_t i = 0; i < p->usable; i++)
    add_port(lane, port_at(c, p, tu_cluster_link_between(c, p->node[0], p->node[1], i), from), l->loads);
}

void tu_draw_lanes(const struct tu_draw_cluster_layout *l, const struct tu_draw_pair *p, uint32_t link, double by,
                   struct tu_text *t) {
  bool narrow = p->links > 1 && link != TU_NONE && fabs(tu_draw_aside(p, 1) - tu_draw_aside(p, 0)) < 4 * APART;
  double apart = narrow ? NARROW_APART : APART;
  struct tu_draw_spot along = p->shape == TU_DRAW_STUBS ? p->way[0] : direction(p->end[0], p->end[1]);
  for (uint32_t from = 0; from < 2; from++) {
    /* `by` moves the whole link to the left, seen from node 0 towards node 1. In addition, each lane is moved to the
     * right, seen in its own direction. */
    struct tu_draw_spot shift = add((struct tu_draw_spot){0, 0}, right_of(along), -by + (from == 0 ? apart : -apart));
    struct tu_draw_spot a = add(p->end[from], shift, 1), b = add(p->end[1 - from], shift, 1);
    struct lane lane = {.tip = narrow ? 3.4 : 5.2};
    collect(l, p, link, from, &lane);
    if (p->shape == TU_DRAW_STUBS) print_stubs(&lane, p, from, shift);
    else if (p->shape == TU_DRAW_CURVE) print_bent(&lane, a, add(p->bend, shift, 1), b);
    else print_straight(&lane, a, b);
    tu_text_print(t, "<g class=\"lane shade%u%s\" data-ports=\"%s\"><path d=\"%s\"/><path class=\"tip\" d=\"%s\"/></g>",
                  tu_draw_shade(lane.load), narrow ? " narrow" : "", lane.ports.chars, lane.wires.chars,
                  lane.tips.chars);
    tu_text_fini(&lane.ports);
    tu_text_fini(&lane.wires);
    tu_text_fini(&lane.tips);
  }
}
