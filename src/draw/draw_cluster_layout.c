/* draw_cluster_layout.c: lays out the chips and links of a cluster without overlaps. */
#include "draw/draw_cluster_layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  PITCH = 120, /* distance between neighbouring chips in a grid */
  EDGE = 64,   /* margin around a grid that has stubs (short lines to distant chips), for the stubs and their labels */
  NARROW_EDGE = 24,
  /* height above a plane (two dimensions of the grid) for its caption and the labels of its stubs (short lines) */
  CAPTION = 16,
  PLANE_GAP = 56,     /* gap between planes, if the grid has more than two dimensions */
  LINE_COLUMNS = 10,  /* number of chips per row; a line with more chips runs back and forth */
  RING_PITCH = 84,    /* distance between neighbouring chips along a circle */
  LEVEL_PITCH = 130,  /* distance between levels of switches */
  NARROW_PITCH = 64,  /* distance between neighbouring nodes within a level */
  BEND_DEPTH = 120,   /* how far towards the middle of the circle a link is bent if it passes other chips */
  CHANNELS_LINKS = 4, /* maximum number of links between two nodes for which there is space to print channel numbers */
};

static struct tu_draw_spot spot(double x, double y) { return (struct tu_draw_spot){x, y}; }

void tu_draw_cluster_layout_fini(struct tu_draw_cluster_layout *l) {
  free(l->spots);
  free(l->pairs);
  free(l->captions);
}

double tu_draw_aside(const struct tu_draw_pair *pair, uint32_t k) {
  if (pair->links < 2 || pair->links > TU_DRAW_LINKS_MAX) return 0;
  bool diagonal = pair->shape == TU_DRAW_STUBS && pair->way[0].x != 0 && pair->way[0].y != 0;
  bool slanted = pair->end[0].x != pair->end[1].x && pair->end[0].y != pair->end[1].y;
  bool narrow = pair->shape == TU_DRAW_CURVE || (pair->shape == TU_DRAW_LINE && slanted);
  double apart = diagonal || narrow ? 4 : 12.4;
  if (apart * (pair->links - 1) > TU_DRAW_BOX - 12) apart = (TU_DRAW_BOX - 12.0) / (pair->links - 1);
  return (k - (pair->links - 1) / 2.0) * apart;
}

/* ---- pairs ---- */

/* Returns the point on the edge of a box that a line from the box's middle in direction (dx, dy) crosses. */
static struct tu_draw_spot leave(struct tu_draw_spot from, double dx, double dy) {
  double most = fabs(dx) > fabs(dy) ? fabs(dx) : fabs(dy), t = most > 0 ? TU_DRAW_BOX / 2.0 / most : 0;
  return spot(from.x + dx * t, from.y + dy * t);
}

static void draw_line(struct tu_draw_pair *p, const struct tu_draw_spot spots[]) {
  struct tu_draw_spot a = spots[p->node[0]], b = spots[p->node[1]];
  p->shape = TU_DRAW_LINE;
  p->end[0] = leave(a, b.x - a.x, b.y - a.y);
  p->end[1] = leave(b, a.x - b.x, a.y - b.y);
}

/* Returns `end`, an end of a slanted link, moved halfway into the node's box, so that parallel links all reach the box.
 * Boxes are drawn over links. */
static struct tu_draw_spot inside(struct tu_draw_spot box, struct tu_draw_spot end) {
  return spot((box.x + end.x) / 2, (box.y + end.y) / 2);
}

static void draw_slanted(struct tu_draw_pair *p, const struct tu_draw_spot spots[]) {
  draw_line(p, spots);
  for (int e = 0; e < 2; e++) p->end[e] = inside(spots[p->node[e]], p->end[e]);
}

/* Sets the ends of a link between two levels: the bottom of the upper box and the top of the lower box. */
static void draw_upright(struct tu_draw_pair *p, const struct tu_draw_spot spots[]) {
  p->shape = TU_DRAW_LINE;
  for (int e = 0; e < 2; e++) {
    struct tu_draw_spot box = spots[p->node[e]];
    p->end[e] = spot(box.x, box.y + (box.y < spots[p->node[1 - e]].y ? TU_DRAW_BOX / 2.0 : -TU_DRAW_BOX / 2.0));
  }
}

static void draw_curve(struct tu_draw_pair *p, const struct tu_draw_spot spots[], struct tu_draw_spot bend) {
  struct tu_draw_spot a = spots[p->node[0]], b = spots[p->node[1]];
  p->shape = TU_DRAW_CURVE;
  p->bend = bend;
  p->end[0] = inside(a, leave(a, bend.x - a.x, bend.y - a.y));
  p->end[1] = inside(b, leave(b, bend.x - b.x, bend.y - b.y));
}

/* Returns the direction in which a stub (short line) is drawn for a link along grid dimension `dim`. down false: the
 * stub points towards higher coordinates; true: towards lower ones. */
static struct tu_draw_spot stub_way(uint32_t dim, bool down) {
  static const struct tu_draw_spot ways[TU_GRID_DIMS] = {
      {1, 0}, {0, 1}, {M_SQRT1_2, -M_SQRT1_2}, {M_SQRT1_2, M_SQRT1_2}};
  struct tu_draw_spot way = ways[dim];
  return down ? spot(-way.x, -way.y) : way;
}

static void draw_stubs(struct tu_draw_pair *p, const struct tu_draw_spot spots[], uint32_t dim, bool first_goes_down) {
  p->shape = TU_DRAW_STUBS;
  for (int e = 0; e < 2; e++) {
    p->way[e] = stub_way(dim, first_goes_down == (e == 0));
    p->end[e] = leave(spots[p->node[e]], p->way[e].x, p->way[e].y);
  }
}

static void collect_pairs(struct tu_draw_cluster_layout *l) {
  const struct tu_cluster *c = l->what->cluster;
  l->pairs = tu_allocate(c->neighbour_first[c->node_count] / 2 + 1, sizeof *l->pairs);
  l->channels = true;
  for (uint32_t n = 0; n < c->node_count; n++)
    for (uint32_t i = 0; i < tu_neighbour_count(c, n); i++) {
      const struct tu_neighbour *to = &tu_neighbours(c, n)[i];
      if (to->node < n) continue;
      l->pairs[l->pair_count++] =
          (struct tu_draw_pair){.node = {n, to->node}, .links = to->links, .usable = to->usable};
      l->channels &= to->links <= CHANNELS_LINKS;
    }
}

/* ---- grids ---- */

struct step {
  uint32_t dim;
  /* is: the two chips are neighbours in the grid, or the two ends of a grid line. around: they are the two ends of a
   * grid line. down: the step leads towards lower coordinates; if `around` is true, from the lowest coordinate on to
   * the highest */
  bool is, around, down;
};

/* Returns the step from chip a to chip b. Its field `is` tells whether there is a step between them. */
static struct step step_between(const struct tu_grid *grid, uint32_t a, uint32_t b) {
  struct step step = {0};
  uint32_t from = grid->position[a], to = grid->position[b], differ = 0;
  for (uint32_t d = 0; d < grid->dims; d++) {
    uint32_t i = from % grid->size[d], k = to % grid->size[d], apart = i > k ? i - k : k - i;
    from /= grid->size[d];
    to /= grid->size[d];
    if (apart == 0) continue;
    differ++;
    step = (struct step){.dim = d, .is = apart == 1 || apart == grid->size[d] - 1, .around = apart > 1, .down = i > k};
    if (step.around) step.down = i < k;
  }
  step.is &= differ == 1;
  return step;
}

static bool is_gateway_pair(const struct tu_draw_cluster_layout *l, const struct tu_draw_pair *p) {
  return p->node[1] >= l->what->cluster->chip_count;
}

/* Returns true if the cluster can be drawn as a grid. Gateways (through which a host reaches chips) are drawn to the
 * left of the grid. So each link of a gateway must lead to a chip of the first column. */
static bool fits_grid(const struct tu_draw_cluster_layout *l) {
  const struct tu_grid *grid = l->what->grid;
  const struct tu_cluster *c = l->what->cluster;
  if (grid->dims == 0 || (grid->dims == 1 && grid->wraps[0])) return false;
  for (uint32_t n = c->chip_count; n < c->node_count; n++)
    if (c->nodes[n].kind == TU_SWITCH) return false;
  for (uint32_t i = 0; i < l->pair_count; i++) {
    const struct tu_draw_pair *p = &l->pairs[i];
    if (is_gateway_pair(l, p)
            ? p->node[0] >= c->chip_count || grid->dims > 2 || grid->position[p->node[0]] % grid->size[0] > 0
            : !step_between(grid, p->node[0], p->node[1]).is)
      return false;
  }
  return true;
}

/* Returns the spot in the picture of a position in the grid. In a grid of one dimension, a long line of chips runs back
 * and forth. In other grids, dimensions 0 and 1 form a plane. Planes stand side by side (dimension 2) and one below the
 * other (dimension 3). */
static struct tu_draw_spot spot_of_position(const struct tu_grid *grid, uint32_t position) {
  if (grid->dims == 1) {
    uint32_t row = position / LINE_COLUMNS, col = position % LINE_COLUMNS;
    return spot((row % 2 ? LINE_COLUMNS - 1 - col : col) * PITCH, row * PITCH);
  }
  uint32_t at[TU_GRID_DIMS] = {0};
  for (uint32_t d = 0; d < grid->dims; position /= grid->size[d++]) at[d] = position % grid->size[d];
  double right = grid->size[0] * PITCH + PLANE_GAP, down = grid->size[1] * PITCH + PLANE_GAP;
  return spot(at[0] * PITCH + at[2] * right, at[1] * PITCH + at[3] * down);
}

static void lay_gateways(struct tu_draw_cluster_layout *l, double left) {
  const struct tu_cluster *c = l->what->cluster;
  double last = -1e9;
  for (uint32_t n = c->chip_count; n < c->node_count; n++) {
    double y = 0;
    uint32_t count = tu_neighbour_count(c, n);
    for (uint32_t i = 0; i < count; i++) y += l->spots[tu_neighbours(c, n)[i].node].y / count;
    if (y < last + TU_DRAW_BOX + 14) y = last + TU_DRAW_BOX + 14;
    l->spots[n] = spot(left, y);
    last = y;
  }
}

static void layout_grid(struct tu_draw_cluster_layout *l, double head) {
  const struct tu_draw_cluster *what = l->what;
  const struct tu_cluster *c = what->cluster;
  const struct tu_grid *grid = what->grid;
  bool gateways = c->node_count > c->chip_count, stubs = grid->dims > 2;
  for (uint32_t i = 0; i < l->pair_count && !stubs; i++)
    stubs = !is_gateway_pair(l, &l->pairs[i]) && step_between(grid, l->pairs[i].node[0], l->pairs[i].node[1]).around;
  double edge = (stubs ? EDGE : NARROW_EDGE) + TU_DRAW_BOX / 2.0;
  double top = head + edge + (grid->dims > 2 ? CAPTION : 0);
  double left = edge + (gateways ? 1.4 * PITCH : 0);
  for (uint32_t i = 0; i < c->chip_count; i++) {
    struct tu_draw_spot s = spot_of_position(grid, grid->position[i]);
    l->spots[i] = spot(s.x + left, s.y + top);
  }
  if (gateways) lay_gateways(l, edge);
  for (uint32_t i = 0; i < l->pair_count; i++) {
    struct tu_draw_pair *p = &l->pairs[i];
    if (is_gateway_pair(l, p)) {
      draw_line(p, l->spots);
      continue;
    }
    struct step step = step_between(grid, p->node[0], p->node[1]);
    if (step.around || step.dim > 1) draw_stubs(p, l->spots, step.dim, step.down);
    else draw_line(p, l->spots);
  }
  uint32_t plane = grid->dims > 2 ? grid->size[0] * grid->size[1] : 0;
  l->captions = tu_allocate(plane ? c->chip_count / plane : 1, sizeof *l->captions);
  for (uint32_t i = 0; plane && i < c->chip_count / plane; i++) {
    struct tu_draw_spot first = l->spots[grid->chip[i * plane]];
    l->captions[l->caption_count++] = (struct tu_draw_caption){
        spot(first.x - TU_DRAW_BOX / 2.0, first.y - TU_DRAW_BOX / 2.0 - TU_DRAW_STUB - CAPTION - 4), i};
  }
}

/* ---- switches: in levels above the chips ---- */

static bool has_switches(const struct tu_cluster *c) {
  for (uint32_t n = c->chip_count; n < c->node_count; n++)
    if (c->nodes[n].kind == TU_SWITCH) return true;
  return false;
}

static void layout_levels(struct tu_draw_cluster_layout *l, double head) {
  const struct tu_cluster *c = l->what->cluster;
  uint32_t n = c->node_count, levels = 1, count = c->chip_count;
  uint32_t *level = tu_allocate(n, sizeof *level), *queue = tu_allocate(n, sizeof *queue);
  /* level[node] is 1 + the node's level, counted from the chips, or 0 if the search has not reached the node */
  for (uint32_t i = 0; i < c->chip_count; i++) queue[i] = i, level[i] = 1;
  for (uint32_t at = 0; at < count; at++)
    for (uint32_t i = 0; i < tu_neighbour_count(c, queue[at]); i++) {
      uint32_t next = tu_neighbours(c, queue[at])[i].node;
      if (level[next]) continue;
      level[next] = level[queue[at]] + 1;
      levels = level[next];
      queue[count++] = next;
    }
  double width = 0;
  for (uint32_t k = 1; k <= levels; k++) {
    uint32_t there = 0;
    for (uint32_t i = 0; i < n; i++) there += level[i] == k;
    width = fmax(width, there * (double)NARROW_PITCH);
  }
  for (uint32_t k = 1; k <= levels; k++) {
    uint32_t there = 0, laid = 0;
    for (uint32_t i = 0; i < n; i++) there += level[i] == k;
    for (uint32_t i = 0; i < n; i++)
      if (level[i] == k)
        l->spots[i] = spot(NARROW_EDGE + (laid++ + 0.5) * width / there,
                           head + NARROW_EDGE + TU_DRAW_BOX / 2.0 + (levels - k) * (double)LEVEL_PITCH);
  }
  for (uint32_t i = 0; i < l->pair_count; i++) draw_upright(&l->pairs[i], l->spots);
  l->channels = false;
  free(level);
  free(queue);
}

/* ---- other clusters: on a circle ---- */

static void layout_circle(struct tu_draw_cluster_layout *l, double head) {
  const struct tu_cluster *c = l->what->cluster;
  uint32_t n = c->node_count;
  uint32_t *at = tu_allocate(n, sizeof *at);
  for (uint32_t i = 0; i < n; i++) at[i < c->chip_count ? l->what->ring->order[i] : i] = i;
  double radius = fmax(n > 2 ? PITCH * 0.9 : PITCH / 2.0, n * RING_PITCH / (2 * M_PI));
  double edge = NARROW_EDGE + TU_DRAW_BOX / 2.0;
  struct tu_draw_spot middle = spot(edge + radius, head + edge + radius);
  if (n == 2) middle.y = head + edge;
  for (uint32_t i = 0; i < n; i++) {
    /* node number 0 of the circle stands at its top, or, if there are only two nodes, at the left */
    double angle = 2 * M_PI * at[i] / n - (n == 2 ? M_PI : M_PI / 2);
    l->spots[i] = spot(middle.x + radius * cos(angle), middle.y + radius * sin(angle));
  }
  for (uint32_t i = 0; i < l->pair_count; i++) {
    struct tu_draw_pair *p = &l->pairs[i];
    uint32_t apart =
        at[p->node[0]] > at[p->node[1]] ? at[p->node[0]] - at[p->node[1]] : at[p->node[1]] - at[p->node[0]];
    if (apart == 1 || apart == n - 1) {
      if (n == 2) draw_line(p, l->spots);
      else draw_slanted(p, l->spots);
      continue;
    }
    /* Bend the link towards the middle of the circle, so that it avoids the boxes between its two ends. */
    struct tu_draw_spot a = l->spots[p->node[0]], b = l->spots[p->node[1]];
    struct tu_draw_spot half = spot((a.x + b.x) / 2 - middle.x, (a.y + b.y) / 2 - middle.y);
    double depth = hypot(half.x, half.y), wanted = fmax(fmin(depth * 0.8, radius - BEND_DEPTH), 0);
    double scale = depth > 1 ? wanted / depth : 0;
    draw_curve(p, l->spots, spot(middle.x + half.x * scale, middle.y + half.y * scale));
  }
  l->channels = false;
  free(at);
}

/* ---- the layout ---- */

static void note(struct tu_draw_cluster_layout *l, double x, double y) {
  l->width = fmax(l->width, x);
  l->height = fmax(l->height, y);
}

void tu_draw_cluster_layout_init(struct tu_draw_cluster_layout *l, const struct tu_draw_cluster *what, double head) {
  *l = (struct tu_draw_cluster_layout){.what = what};
  l->spots = tu_allocate(what->cluster->node_count, sizeof *l->spots);
  collect_pairs(l);
  if (fits_grid(l)) layout_grid(l, head);
  else if (has_switches(what->cluster)) layout_levels(l, head);
  else layout_circle(l, head);
  double margin = TU_DRAW_BOX / 2.0 + 24;
  for (uint32_t i = 0; i < l->pair_count; i++)
    if (l->pairs[i].shape == TU_DRAW_STUBS) margin = TU_DRAW_BOX / 2.0 + EDGE;
  for (uint32_t i = 0; i < what->cluster->node_count; i++) note(l, l->spots[i].x + margin, l->spots[i].y + margin);
}
